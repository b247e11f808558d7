//! Writes the sums and single clicks that `terse migrate` reads from another store, and reads those
//! that it writes into another one.

use terse_core::clicks::{
    Click, ClickSubject, ClickSum, ClickTarget, Sketch, StoredSum, Unit, WarningVisit,
};
use terse_core::transfer::MovedSums;
use terse_core::{OwnerId, StoreError, Timestamp};

use super::sum::{Slot, merge_stored};
use super::{DAY, EVERYTHING, HOUR, LINK, ORPHANS, OWNER, SubjectKey, link_id, partitions, raw};
use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
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

/// Reads the clicks that `terse migrate` writes into another store.
pub(crate) struct ClicksReader<'a>(pub(crate) &'a Pool);

impl ClicksReader<'_> {
    /// See [`crate::DatabaseExport::last_days`].
    pub(crate) async fn last_days(&self) -> Result<(Option<i64>, Option<i64>), StoreError> {
        let sql = "SELECT max(start) FILTER (WHERE unit = 2), max(start) FILTER (WHERE unit = 1) \
             FROM click_buckets";
        let rows = self.0.list(sql, &[]).await?;
        let day = |at: Option<i64>| at.map(|at| at.div_euclid(Unit::Day.ms()));
        Ok(rows.first().map_or((None, None), |row| (day(row.get(0)), day(row.get(1)))))
    }

    /// See [`crate::DatabaseExport::sums`].
    pub(crate) async fn sums(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, MovedSums)>, StoreError> {
        let rows = self
            .0
            .list(
                "SELECT id, kind, domain, code, link_created_at, sum_of, owner, sum \
                 FROM click_subjects WHERE id > $1 ORDER BY id LIMIT $2",
                params![after, limit as i64],
            )
            .await?;
        let mut all = Vec::with_capacity(rows.len());
        for row in &rows {
            let id: i64 = row.get(0);
            let total = decoded(row.get(7), Slot { subject: id, unit: 0, start: 0 })?;
            let owner = OwnerId(row.get::<_, i64>(6).cast_unsigned());
            let subject = match row.get::<_, i16>(1) {
                LINK => link_id(row.get(2), row.get(3), row.get(4)).map(ClickSubject::Link),
                OWNER => Some(ClickSubject::Owner(OwnerId(row.get::<_, i64>(5).cast_unsigned()))),
                EVERYTHING => Some(ClickSubject::Everything),
                ORPHANS => Some(ClickSubject::Orphans),
                _ => None,
            };
            let unknown = || corrupt(format!("the subject {id} of clicks cannot be read"));
            let subject = subject.ok_or_else(unknown)?;
            all.push((id, MovedSums { subject, owner, total, buckets: Vec::new() }));
        }
        let ids: Vec<i64> = all.iter().map(|(id, _)| *id).collect();
        let buckets = "SELECT subject, unit, start, sum FROM click_buckets \
             WHERE subject = ANY($1) ORDER BY subject, start, unit DESC";
        for row in self.0.list(buckets, params![ids]).await? {
            let (subject, unit, start): (i64, i16, i64) = (row.get(0), row.get(1), row.get(2));
            let (tally, visitors) = decoded(row.get(3), Slot { subject, unit, start })?;
            let length = if unit == DAY { Unit::Day } else { Unit::Hour };
            if let Ok(at) = ids.binary_search(&subject) {
                let start = Timestamp::from_ms(start);
                all[at].1.buckets.push((length, start, tally, visitors));
            }
        }
        Ok(all)
    }

    /// See [`crate::DatabaseExport::clicks`].
    pub(crate) async fn clicks(
        &self,
        (at, number): (i64, i64),
        limit: usize,
    ) -> Result<(Vec<Click>, Option<(i64, i64)>), StoreError> {
        let rows = self
            .0
            .list(
                "SELECT r.at, r.number, r.click, s.domain, s.code, s.link_created_at, s.owner \
                 FROM click_raw r JOIN click_subjects s ON s.id = r.subject \
                 WHERE r.at >= $1 AND (r.at, r.number) > ($1, $2) \
                 ORDER BY r.at, r.number LIMIT $3",
                params![at, number, limit as i64],
            )
            .await?;
        let mut clicks = Vec::with_capacity(rows.len());
        for row in &rows {
            let unreadable = || corrupt("a single click that cannot be read");
            let link = link_id(row.get(3), row.get(4), row.get(5)).ok_or_else(unreadable)?;
            let owner = OwnerId(row.get::<_, i64>(6).cast_unsigned());
            let target = ClickTarget::Link(link, owner);
            clicks.push(raw::decode(row.get(2), row.get(0), target).ok_or_else(unreadable)?);
        }
        Ok((clicks, rows.last().map(|row| (row.get(0), row.get(1)))))
    }
}

fn decoded(bytes: &[u8], slot: Slot) -> Result<(ClickSum, Sketch), StoreError> {
    let mut sum = StoredSum::default();
    merge_stored(&mut sum, bytes, slot)?;
    Ok((sum.tally, sum.visitors))
}
