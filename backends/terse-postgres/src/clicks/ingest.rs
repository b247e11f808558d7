//! Counts clicks, each exactly once: sums, single clicks and positions change in one transaction.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use terse_core::StoreError;
use terse_core::clicks::{
    Added, Batch, ClickIngest, ClickTarget, Delta, ErasedClicks, Forgotten, JournalId, JournalSpan,
    MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL, Opened, Position, StoredSum, SumSubject,
};
use tokio::task::JoinSet;

use super::sum::{Slot, merge_stored};
use super::{ERASURE_LOCK, HOUR, PostgresClicks, SubjectKey, TOMBSTONES, partitions, raw};
use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt, unavailable};
use crate::pool::retried;
use crate::sql::params;

#[async_trait]
impl ClickIngest for PostgresClicks {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        Ok(retried(|| self.open_once(journal)).await?)
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        // On the runtime of the connections, not on the caller's thread: the shipper's thread has a
        // low priority and reads the journal meanwhile, and the transaction holds locks that other
        // nodes and erasures wait for. Dropping the set ends the task.
        let (clicks, batch) = (self.clone(), Arc::clone(batch));
        let mut task = JoinSet::new();
        task.spawn_on(
            async move { retried(|| clicks.add_once(&batch)).await },
            self.pool.runtime(),
        );
        match task.join_next().await {
            Some(Ok(added)) => Ok(added?),
            // Repeating the batch would not help.
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Some(Err(error)) => Err(StoreError::Unavailable(error.into())),
            None => Err(unavailable("the task that counts clicks is missing")),
        }
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        Ok(retried(|| self.forget_once(journal, epoch, generation, segments)).await?)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.pool.check().await
    }
}

impl PostgresClicks {
    async fn open_once(&self, journal: JournalId) -> Result<Opened, Failure> {
        let transaction = self.pool.begin().await?;
        let row = transaction
            .query_opt(
                "INSERT INTO click_journals AS j (id, epoch, generation) VALUES ($1, 1, 0) \
                 ON CONFLICT (id) DO UPDATE SET epoch = j.epoch + 1 RETURNING epoch, generation",
                params![&journal.0[..]],
            )
            .await?
            .ok_or_else(|| corrupt("a journal without an epoch"))?;
        let positions = positions_of(&transaction, Some(journal)).await?;
        transaction.commit().await?;
        let epoch = u32::try_from(row.get::<_, i64>(0))
            .map_err(|_| corrupt("an epoch that is out of range"))?;
        let generation = row.get::<_, i64>(1).cast_unsigned();
        Ok(Opened { epoch, generation, positions, unfinished: Vec::new() })
    }

    async fn forget_once(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, Failure> {
        let transaction = self.pool.begin().await?;
        let updated = transaction
            .execute(
                "UPDATE click_journals SET generation = greatest(generation, $3) \
                 WHERE id = $1 AND epoch = $2",
                params![&journal.0[..], i64::from(epoch), generation.cast_signed()],
            )
            .await?;
        if updated == 0 {
            transaction.rollback().await?;
            return Ok(Forgotten::Fenced);
        }
        let segments: Vec<i64> = segments.iter().map(|segment| segment.cast_signed()).collect();
        transaction
            .execute(
                "DELETE FROM click_positions WHERE journal = $1 AND segment = ANY($2)",
                params![&journal.0[..], segments],
            )
            .await?;
        transaction.commit().await?;
        Ok(Forgotten::Done)
    }

    async fn add_once(&self, batch: &Batch) -> Result<Added, Failure> {
        let transaction = self.pool.begin().await?;
        transaction
            .execute("SELECT pg_advisory_xact_lock_shared($1)", params![ERASURE_LOCK])
            .await?;
        if let Some(refusal) = refusal(&transaction, &batch.spans).await? {
            // The sender deletes the journal of a batch that was counted before.
            match refusal {
                Added::Already => transaction.confirm().await?,
                _ => transaction.rollback().await?,
            }
            return Ok(refusal);
        }
        let erased = TOMBSTONES.of_batch(&transaction, batch).await?.of_batch(batch);
        let late = erased.late_sums(batch);
        let counted = erased.counted(batch, &late);
        let subjects = lock_subjects(&transaction, batch, &counted).await?;
        count(&transaction, batch, &counted, &subjects).await?;
        if self.keep_raw {
            keep_clicks(&transaction, batch, &erased, &subjects).await?;
        }
        move_positions(&transaction, &batch.spans).await?;
        transaction.commit().await?;
        Ok(Added::Done)
    }
}

/// The positions of a journal, in the snapshot of the transaction.
pub(super) async fn positions_of(
    transaction: &Transaction<'_>,
    journal: Option<JournalId>,
) -> Result<Vec<Position>, Failure> {
    let Some(journal) = journal else { return Ok(Vec::new()) };
    let sql = "SELECT segment, counted FROM click_positions WHERE journal = $1 ORDER BY segment";
    let rows = transaction.query(sql, params![&journal.0[..]]).await?;
    let position = |row: &tokio_postgres::Row| Position {
        journal,
        segment: row.get::<_, i64>(0).cast_unsigned(),
        to: row.get::<_, i64>(1).cast_unsigned(),
    };
    Ok(rows.iter().map(position).collect())
}

/// Why a batch cannot be counted now. Locks its journals until the transaction ends.
async fn refusal(
    transaction: &Transaction<'_>,
    spans: &[JournalSpan],
) -> Result<Option<Added>, Failure> {
    let journals: Vec<&[u8]> = spans.iter().map(|span| &span.journal.0[..]).collect();
    let rows = transaction
        .query(
            "SELECT id, epoch FROM click_journals WHERE id = ANY($1) ORDER BY id FOR UPDATE",
            params![journals],
        )
        .await?;
    let epochs: HashMap<Vec<u8>, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let is_fenced =
        |span: &JournalSpan| epochs.get(&span.journal.0[..]) != Some(&i64::from(span.epoch));
    if spans.iter().any(is_fenced) {
        return Ok(Some(Added::Fenced));
    }
    let segments: Vec<i64> = spans.iter().map(|span| span.segment.cast_signed()).collect();
    let rows = transaction
        .query(
            "SELECT p.journal, p.segment, p.counted FROM unnest($1, $2) AS k (journal, segment) \
             JOIN click_positions p ON p.journal = k.journal AND p.segment = k.segment",
            params![journals, segments],
        )
        .await?;
    let positions: HashMap<(Vec<u8>, i64), i64> =
        rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
    let position = |span: &JournalSpan| {
        let key = (span.journal.0.to_vec(), span.segment.cast_signed());
        positions.get(&key).map_or(0, |counted| counted.cast_unsigned())
    };
    Ok(Added::by_positions(spans, position))
}

/// A subject's row, locked until the transaction ends.
struct Locked {
    id: i64,
    sum: Option<Vec<u8>>,
}

/// Creates the rows that are missing, and locks all, in the same order on every node.
async fn lock_subjects(
    transaction: &Transaction<'_>,
    batch: &Batch,
    counted: &[&Delta],
) -> Result<BTreeMap<SubjectKey, Locked>, Failure> {
    let mut keys: BTreeMap<SubjectKey, i64> = BTreeMap::new();
    for delta in counted {
        if let Some(subject) = batch.subject(delta.subject) {
            let owner = match delta.subject {
                SumSubject::Link(_) => delta.owner.0.cast_signed(),
                _ => 0,
            };
            keys.insert(SubjectKey::of(&subject), owner);
        }
    }
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let kinds: Vec<i16> = keys.keys().map(|key| key.kind).collect();
    let domains: Vec<&str> = keys.keys().map(|key| key.domain.as_str()).collect();
    let codes: Vec<&str> = keys.keys().map(|key| key.code.as_str()).collect();
    let created: Vec<i64> = keys.keys().map(|key| key.created_at).collect();
    let sums_of: Vec<i64> = keys.keys().map(|key| key.sum_of).collect();
    let owners: Vec<i64> = keys.values().copied().collect();
    transaction
        .execute(
            "INSERT INTO click_subjects \
             (kind, domain, code, link_created_at, sum_of, owner, humans, bots, sum) \
             SELECT kind, domain, code, created, sum_of, owner, 0, 0, '' \
             FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY \
             AS k (kind, domain, code, created, sum_of, owner, place) ORDER BY place \
             ON CONFLICT (kind, domain, code, link_created_at, sum_of) DO NOTHING",
            params![kinds, domains, codes, created, sums_of, owners],
        )
        .await?;
    let rows = transaction
        .query(
            "SELECT s.kind, s.domain, s.code, s.link_created_at, s.sum_of, s.id, s.sum \
             FROM click_subjects s JOIN unnest($1, $2, $3, $4, $5) \
             AS k (kind, domain, code, created, sum_of) ON s.kind = k.kind \
             AND s.domain = k.domain COLLATE \"C\" AND s.code = k.code COLLATE \"C\" \
             AND s.link_created_at = k.created AND s.sum_of = k.sum_of \
             ORDER BY s.id FOR UPDATE OF s",
            params![kinds, domains, codes, created, sums_of],
        )
        .await?;
    let mut locked = BTreeMap::new();
    for row in &rows {
        let key = SubjectKey {
            kind: row.get(0),
            domain: row.get(1),
            code: row.get(2),
            created_at: row.get(3),
            sum_of: row.get(4),
        };
        let sum: Vec<u8> = row.get(6);
        let sum = Some(sum).filter(|sum| !sum.is_empty());
        locked.insert(key, Locked { id: row.get(5), sum });
    }
    Ok(locked)
}

/// Adds the deltas to the sums of their subjects and hours.
async fn count(
    transaction: &Transaction<'_>,
    batch: &Batch,
    counted: &[&Delta],
    subjects: &BTreeMap<SubjectKey, Locked>,
) -> Result<(), Failure> {
    let mut totals: BTreeMap<i64, (StoredSum, i64)> = BTreeMap::new();
    let mut hours: BTreeMap<Slot, StoredSum> = BTreeMap::new();
    for delta in counted {
        let Some(subject) = batch.subject(delta.subject) else { continue };
        let Some(locked) = subjects.get(&SubjectKey::of(&subject)) else { continue };
        let (total, owner) = totals.entry(locked.id).or_default();
        total.add_delta(delta, &batch.clicks);
        *owner = match delta.subject {
            SumSubject::Link(_) => delta.owner.0.cast_signed(),
            _ => 0,
        };
        let slot = Slot { subject: locked.id, unit: HOUR, start: delta.start().as_ms() };
        hours.entry(slot).or_default().add_delta(delta, &batch.clicks);
    }
    for locked in subjects.values() {
        if let (Some(bytes), Some((total, _))) = (&locked.sum, totals.get_mut(&locked.id)) {
            merge_stored(total, bytes, Slot { subject: locked.id, unit: 0, start: 0 })?;
        }
    }
    let ids: Vec<i64> = hours.keys().map(|slot| slot.subject).collect();
    let starts: Vec<i64> = hours.keys().map(|slot| slot.start).collect();
    let rows = transaction
        .query(
            "SELECT b.subject, b.start, b.sum FROM unnest($1, $2) AS k (subject, start) \
             JOIN click_buckets b ON b.subject = k.subject AND b.unit = 1 AND b.start = k.start",
            params![ids, starts],
        )
        .await?;
    for row in &rows {
        let slot = Slot { subject: row.get(0), unit: HOUR, start: row.get(1) };
        if let Some(sum) = hours.get_mut(&slot) {
            merge_stored(sum, row.get(2), slot)?;
        }
    }
    let mut columns = Columns::default();
    for (id, (mut sum, owner)) in totals {
        sum.tally.trim(MAX_VALUES_TOTAL);
        columns.push(Slot { subject: id, unit: 0, start: 0 }, &sum, owner);
    }
    transaction
        .execute(
            "UPDATE click_subjects s SET humans = v.humans, bots = v.bots, sum = v.sum, \
             owner = v.owner FROM unnest($1, $2, $3, $4, $5) AS v (id, humans, bots, sum, owner) \
             WHERE s.id = v.id",
            params![columns.subject, columns.humans, columns.bots, columns.sum, columns.owner],
        )
        .await?;
    let mut columns = Columns::default();
    for (slot, mut sum) in hours {
        sum.tally.trim(MAX_VALUES_PER_HOUR);
        columns.push(slot, &sum, 0);
    }
    columns.write_buckets(transaction).await
}

/// Sums in columns, for a statement that writes many.
#[derive(Default)]
pub(super) struct Columns {
    subject: Vec<i64>,
    unit: Vec<i16>,
    start: Vec<i64>,
    humans: Vec<i64>,
    bots: Vec<i64>,
    sum: Vec<Vec<u8>>,
    owner: Vec<i64>,
}

impl Columns {
    pub(super) fn push(&mut self, slot: Slot, sum: &StoredSum, owner: i64) {
        self.subject.push(slot.subject);
        self.unit.push(slot.unit);
        self.start.push(slot.start);
        self.humans.push(sum.tally.clicks.humans.cast_signed());
        self.bots.push(sum.tally.clicks.bots.cast_signed());
        self.sum.push(sum.encode(slot.seed()));
        self.owner.push(owner);
    }

    /// Replaces the sums of these hours or days.
    pub(super) async fn write_buckets(&self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        let sql = "INSERT INTO click_buckets (subject, unit, start, humans, bots, sum) \
             SELECT * FROM unnest($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (subject, unit, start) DO UPDATE SET humans = excluded.humans, \
             bots = excluded.bots, sum = excluded.sum";
        let params = params![self.subject, self.unit, self.start, self.humans, self.bots, self.sum];
        transaction.execute(sql, params).await.map(drop)
    }
}

/// Stores the single clicks on links.
async fn keep_clicks(
    transaction: &Transaction<'_>,
    batch: &Batch,
    erased: &ErasedClicks,
    subjects: &BTreeMap<SubjectKey, Locked>,
) -> Result<(), Failure> {
    let ids: Vec<Option<i64>> = batch
        .clicks
        .targets
        .iter()
        .map(|target| match target {
            ClickTarget::Link(link, _) if !erased.is_owner_erased(target) => {
                let subject = terse_core::clicks::ClickSubject::Link(link.clone());
                subjects.get(&SubjectKey::of(&subject)).map(|locked| locked.id)
            }
            _ => None,
        })
        .collect();
    let (mut subject, mut at, mut click) = (Vec::new(), Vec::new(), Vec::new());
    for row in batch.clicks.rows() {
        if let Some(Some(id)) = ids.get(row.target as usize)
            && erased.keeps(batch, &row)
        {
            subject.push(*id);
            at.push(row.at_ms);
            click.push(raw::encode(&batch.clicks.click(&row)));
        }
    }
    if subject.is_empty() {
        return Ok(());
    }
    transaction
        .execute(
            "INSERT INTO click_raw (subject, at, click) SELECT subject, at, click \
             FROM unnest($1, $2, $3) WITH ORDINALITY AS c (subject, at, click, place) \
             ORDER BY place",
            params![subject, at, click],
        )
        .await?;
    partitions::add_to_days(transaction, &at, &click).await
}

async fn move_positions(
    transaction: &Transaction<'_>,
    spans: &[JournalSpan],
) -> Result<(), Failure> {
    let journals: Vec<&[u8]> = spans.iter().map(|span| &span.journal.0[..]).collect();
    let segments: Vec<i64> = spans.iter().map(|span| span.segment.cast_signed()).collect();
    let counted: Vec<i64> = spans.iter().map(|span| span.to.cast_signed()).collect();
    transaction
        .execute(
            "INSERT INTO click_positions (journal, segment, counted) \
             SELECT * FROM unnest($1, $2, $3) \
             ON CONFLICT (journal, segment) DO UPDATE SET counted = excluded.counted",
            params![journals, segments, counted],
        )
        .await?;
    Ok(())
}
