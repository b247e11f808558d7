//! Numbers for codes, and the incarnation of the store.

use std::ops::Range;

use terse_core::{CodeLease, LeaseMarks, MAX_CODE_LENGTH, MIN_CODE_LENGTH, StoreError};

use super::PostgresLinks;
use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
use crate::pool::{Pool, retried};
use crate::sql::params;

/// The end of the leased numbers of each length; lengths below the shortest are 0.
type Leases = [u64; MAX_CODE_LENGTH as usize + 1];

impl PostgresLinks {
    pub(super) async fn lease_numbers(&self, lease: CodeLease) -> Result<Range<u64>, StoreError> {
        if !(MIN_CODE_LENGTH..=MAX_CODE_LENGTH).contains(&lease.length) {
            return Err(StoreError::Exhausted);
        }
        let range = retried(|| self.lease_once(lease)).await?;
        self.marks.raise(lease.length, range.end);
        Ok(range)
    }

    async fn lease_once(&self, lease: CodeLease) -> Result<Range<u64>, Failure> {
        let CodeLease { length, count, capacity, at_least, skip } = lease;
        let all = self.numbering.capacity(length);
        let transaction = self.pool.begin().await?;
        let before = locked(&transaction).await?;
        let mut leases = before;
        let next = &mut leases[usize::from(length)];
        // A caller that knows a higher number got it before this database was restored. A caller
        // that knows none would get numbers that were leased since the dump was made.
        let restored = restored_from_dump(&transaction).await? || at_least.min(all) > *next;
        if restored {
            *next = (*next).max(at_least.min(all));
            leases = self.skipped(leases);
        }
        let start = leases[usize::from(length)].saturating_add(skip);
        let most = capacity.min(all);
        if start >= most {
            transaction.rollback().await?;
            return Err(StoreError::Exhausted.into());
        }
        let end = start.saturating_add(count.max(1)).min(most);
        leases[usize::from(length)] = end;
        write(&transaction, &before, &leases).await?;
        if restored {
            let sql = "UPDATE link_store SET incarnation = incarnation + 1";
            transaction.execute(sql, &[]).await?;
            tracing::warn!(
                "the database was restored from an older copy: new codes continue far behind all \
                 that may have been issued since"
            );
        }
        transaction.commit().await?;
        Ok(start..end)
    }

    pub(super) async fn raise(&self, seen: u64) -> Result<u64, StoreError> {
        Ok(retried(|| self.raise_once(seen)).await?)
    }

    async fn raise_once(&self, seen: u64) -> Result<u64, Failure> {
        let transaction = self.pool.begin().await?;
        // The same lock as for a lease comes first.
        let before = locked(&transaction).await?;
        let row = transaction.query_opt("SELECT incarnation FROM link_store", &[]).await?;
        let row = row.ok_or_else(|| corrupt("the store has no identity"))?;
        let present = row.get::<_, i64>(0).cast_unsigned();
        if present != seen {
            transaction.rollback().await?;
            return Ok(present);
        }
        write(&transaction, &before, &self.skipped(before)).await?;
        let next = (present + 1).cast_signed();
        transaction.execute("UPDATE link_store SET incarnation = $1", params![next]).await?;
        transaction.commit().await?;
        Ok(present + 1)
    }

    /// All ranges, each skipped ahead by a random distance.
    fn skipped(&self, mut leases: Leases) -> Leases {
        for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
            let capacity = self.numbering.capacity(length);
            let next = &mut leases[usize::from(length)];
            *next = next.saturating_add(CodeLease::restore_distance(capacity)).min(capacity);
        }
        leases
    }
}

/// The leases as they are now.
pub(super) async fn known(pool: &Pool) -> Result<LeaseMarks, StoreError> {
    let marks = LeaseMarks::default();
    for row in pool.lookup("SELECT length, next FROM link_leases", &[]).await? {
        let length = u8::try_from(row.get::<_, i16>(0))
            .map_err(|_| corrupt("a lease of an unknown length"))?;
        marks.raise(length, row.get::<_, i64>(1).cast_unsigned());
    }
    Ok(marks)
}

/// Whether the tables were restored from a dump since the last lease. Notes that they were.
async fn restored_from_dump(transaction: &Transaction<'_>) -> Result<bool, Failure> {
    let sql = "SELECT s.tables_id, d.oid::text || '.' || 'link_leases'::regclass::oid::text \
               FROM link_store s, pg_database d WHERE d.datname = current_database()";
    let row = transaction.query_opt(sql, &[]).await?;
    let row = row.ok_or_else(|| corrupt("the store has no identity"))?;
    let (noted, present) = (row.get::<_, Option<String>>(0), row.get::<_, String>(1));
    if noted.as_ref() == Some(&present) {
        return Ok(false);
    }
    let sql = "UPDATE link_store SET tables_id = $1";
    transaction.execute(sql, params![present.as_str()]).await?;
    // A new store, or one that was moved here, has none yet.
    Ok(noted.is_some())
}

/// The leases, which no other transaction can change until this one ends.
async fn locked(transaction: &Transaction<'_>) -> Result<Leases, Failure> {
    let sql = "SELECT length, next FROM link_leases ORDER BY length FOR UPDATE";
    let mut leases = Leases::default();
    for row in transaction.query(sql, &[]).await? {
        let length = usize::try_from(row.get::<_, i16>(0)).unwrap_or(usize::MAX);
        let next = leases.get_mut(length).ok_or_else(|| corrupt("a lease of an unknown length"))?;
        *next = row.get::<_, i64>(1).cast_unsigned();
    }
    Ok(leases)
}

async fn write(
    transaction: &Transaction<'_>,
    before: &Leases,
    leases: &Leases,
) -> Result<(), Failure> {
    for (length, next) in (0i16..).zip(leases) {
        if before[length as usize] != *next {
            transaction
                .execute(
                    "UPDATE link_leases SET next = $2 WHERE length = $1",
                    params![length, next.cast_signed()],
                )
                .await?;
        }
    }
    Ok(())
}
