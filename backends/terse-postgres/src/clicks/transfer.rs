//! Writes the sums and single clicks that `terse migrate` reads from another store.

use terse_core::clicks::{Click, ClickSum, Sketch, StoredSum, Unit, WarningVisit};
use terse_core::transfer::MovedSums;
use terse_core::{StoreError, Timestamp};

use super::sum::Slot;
use super::{DAY, HOUR, SubjectKey, partitions, raw};
use crate::exclusive::Transaction;
use crate::failure::Failure;
use crate::pool::Pool;
use crate::sql::params;

/// A subject that is being written, in one transaction.
pub struct SumsWriter<'a> {
    transaction: Transaction<'a>,
    subject: i64,
}

impl<'a> SumsWriter<'a> {
    /// Writes the sums; `None` if the database has the subject already.
    pub(crate) async fn begin(
        pool: &'a Pool,
        sums: &MovedSums,
    ) -> Result<Option<SumsWriter<'a>>, Failure> {
        let key = SubjectKey::of(&sums.subject);
        let clicks = sums.total.0.clicks;
        let transaction = pool.begin().await?;
        let row = transaction
            .query_opt(
                "INSERT INTO click_subjects (kind, domain, code, link_created_at, sum_of, owner, \
                 humans, bots, sum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '') \
                 ON CONFLICT DO NOTHING RETURNING id",
                params![
                    key.kind,
                    key.domain,
                    key.code,
                    key.created_at,
                    key.sum_of,
                    sums.owner.0.cast_signed(),
                    clicks.humans.cast_signed(),
                    clicks.bots.cast_signed(),
                ],
            )
            .await?;
        let Some(row) = row else {
            transaction.rollback().await?;
            return Ok(None);
        };
        let subject: i64 = row.get(0);
        let (tally, visitors) = &sums.total;
        let total = encoded(tally, visitors, Slot { subject, unit: 0, start: 0 });
        transaction
            .execute("UPDATE click_subjects SET sum = $2 WHERE id = $1", params![subject, total])
            .await?;
        let (mut units, mut starts) = (Vec::new(), Vec::new());
        let (mut humans, mut bots, mut encodings) = (Vec::new(), Vec::new(), Vec::new());
        for (unit, start, tally, visitors) in &sums.buckets {
            let unit = match unit {
                Unit::Hour => HOUR,
                Unit::Day => DAY,
            };
            let start = Timestamp::as_ms(*start);
            units.push(unit);
            starts.push(start);
            humans.push(tally.clicks.humans.cast_signed());
            bots.push(tally.clicks.bots.cast_signed());
            encodings.push(encoded(tally, visitors, Slot { subject, unit, start }));
        }
        transaction
            .execute(
                "INSERT INTO click_buckets (subject, unit, start, humans, bots, sum) \
                 SELECT $1, * FROM unnest($2, $3, $4, $5, $6)",
                params![subject, units, starts, humans, bots, encodings],
            )
            .await?;
        Ok(Some(Self { transaction, subject }))
    }

    /// Writes single clicks.
    pub async fn put_clicks(&self, clicks: &[Click]) -> Result<(), StoreError> {
        let clicks = clicks.iter().filter(|click| click.warning != WarningVisit::Shown);
        let (at, encodings): (Vec<i64>, Vec<Vec<u8>>) =
            clicks.map(|click| (click.at.as_ms(), raw::encode(click))).unzip();
        if at.is_empty() {
            return Ok(());
        }
        let work = async {
            self.transaction
                .execute(
                    "INSERT INTO click_raw (subject, at, click) SELECT $1, at, click \
                     FROM unnest($2, $3) WITH ORDINALITY AS c (at, click, place) ORDER BY place",
                    params![self.subject, at, encodings],
                )
                .await?;
            partitions::add_to_days(&self.transaction, &at, &encodings).await
        };
        Ok(work.await?)
    }

    /// Makes all of it durable.
    pub async fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit().await?)
    }
}

fn encoded(tally: &ClickSum, visitors: &Sketch, slot: Slot) -> Vec<u8> {
    StoredSum::of(tally.clone(), visitors.clone()).encode(slot.seed())
}
