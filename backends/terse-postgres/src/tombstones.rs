//! Tombstones of erased links and owners, in two tables with a common prefix.

use std::collections::HashMap;

use terse_core::clicks::{Batch, ClickTarget, ErasedLink, Tombstones};
use terse_core::{Code, Domain, LinkKey, OwnerId, Timestamp};

use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
use crate::pool::Pool;
use crate::sql::params;

/// The tables `click_erased_links` and `click_erased_owners`, or those of the ledger.
#[derive(Clone, Copy)]
pub(crate) struct TombstoneTables {
    pub(crate) prefix: &'static str,
}

impl TombstoneTables {
    /// The tombstones that concern a batch.
    pub(crate) async fn of_batch(
        self,
        transaction: &Transaction<'_>,
        batch: &Batch,
    ) -> Result<Tombstones, Failure> {
        let Self { prefix } = self;
        let (mut domains, mut codes, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        for target in &batch.clicks.targets {
            if let ClickTarget::Link(link, owner) = target {
                domains.push(link.key.domain.as_str());
                codes.push(link.key.code.as_str());
                owners.push(owner.0.cast_signed());
            }
        }
        let sql = format!("SELECT owner FROM {prefix}_erased_owners WHERE owner = ANY($1)");
        let rows = transaction.query(&sql, params![owners]).await?;
        let owners = rows.iter().map(|row| OwnerId(row.get::<_, i64>(0).cast_unsigned()));
        let owners = owners.collect();
        let sql = format!(
            "SELECT DISTINCT e.domain, e.code, e.created_by, e.erased_at \
             FROM unnest($1, $2) AS k (domain, code) JOIN {prefix}_erased_links e \
             ON e.domain = k.domain COLLATE \"C\" AND e.code = k.code COLLATE \"C\""
        );
        let rows = transaction.query(&sql, params![domains, codes]).await?;
        let mut links: HashMap<LinkKey, Vec<(Timestamp, Timestamp)>> = HashMap::new();
        for row in &rows {
            let key = stored_key(row.get(0), row.get(1))?;
            let (created_by, erased_at) = (row.get::<_, i64>(2), row.get::<_, i64>(3));
            let stone = (Timestamp::from_ms(created_by), Timestamp::from_ms(erased_at));
            links.entry(key).or_default().push(stone);
        }
        Ok(Tombstones { links, owners })
    }

    /// Leaves tombstones for links.
    pub(crate) async fn erase_links(
        self,
        transaction: &Transaction<'_>,
        (domains, codes): (&Vec<&str>, &Vec<&str>),
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), Failure> {
        let sql = format!(
            "INSERT INTO {}_erased_links AS e (domain, code, created_by, erased_at) \
             SELECT DISTINCT k.domain, k.code, $3::bigint, $4::bigint \
             FROM unnest($1, $2) AS k (domain, code) ON CONFLICT (domain, code, created_by) \
             DO UPDATE SET erased_at = greatest(e.erased_at, excluded.erased_at)",
            self.prefix
        );
        let params = params![*domains, *codes, created_by.as_ms(), erased_at.as_ms()];
        transaction.execute(&sql, params).await.map(drop)
    }

    /// Leaves a tombstone for an owner.
    pub(crate) async fn erase_owner(
        self,
        transaction: &Transaction<'_>,
        owner: OwnerId,
        erased_at: Timestamp,
    ) -> Result<(), Failure> {
        let sql = format!(
            "INSERT INTO {}_erased_owners AS e (owner, erased_at) VALUES ($1, $2) \
             ON CONFLICT (owner) \
             DO UPDATE SET erased_at = greatest(e.erased_at, excluded.erased_at)",
            self.prefix
        );
        let params = params![owner.0.cast_signed(), erased_at.as_ms()];
        transaction.execute(&sql, params).await.map(drop)
    }

    /// Deletes tombstones of erasures before a time, at most `limit`. Returns how many.
    pub(crate) async fn prune(
        self,
        transaction: &Transaction<'_>,
        before: Timestamp,
        limit: u64,
    ) -> Result<u64, Failure> {
        let mut left = limit;
        for (table, key) in [("links", "domain, code, created_by"), ("owners", "owner")] {
            let table = format!("{}_erased_{table}", self.prefix);
            let sql = format!(
                "DELETE FROM {table} WHERE ({key}) IN \
                 (SELECT {key} FROM {table} WHERE erased_at < $1 LIMIT $2)"
            );
            let params = params![before.as_ms(), left.cast_signed()];
            left -= transaction.execute(&sql, params).await?;
        }
        Ok(limit - left)
    }

    /// Links that were erased at this time or later, see
    /// [`ClickExport`](terse_core::clicks::ClickExport).
    pub(crate) async fn links_since(
        self,
        pool: &Pool,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, Failure> {
        let columns = format!(
            "SELECT domain, code, created_by, erased_at FROM {}_erased_links \
             WHERE erased_at >= $1",
            self.prefix
        );
        let order = "ORDER BY domain, code, created_by LIMIT $2";
        let (since, limit) = (since.as_ms(), i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = match after {
            None => pool.list(&format!("{columns} {order}"), params![since, limit]).await?,
            Some(ErasedLink { key, created_by, .. }) => {
                let sql = format!(
                    "{columns} AND (domain, code, created_by) \
                     > ($3 COLLATE \"C\", $4 COLLATE \"C\", $5) {order}"
                );
                let (domain, code) = (key.domain.as_str(), key.code.as_str());
                let params = params![since, limit, domain, code, created_by.as_ms()];
                pool.list(&sql, params).await?
            }
        };
        let mut links = Vec::with_capacity(rows.len());
        for row in &rows {
            links.push(ErasedLink {
                key: stored_key(row.get(0), row.get(1))?,
                created_by: Timestamp::from_ms(row.get(2)),
                erased_at: Timestamp::from_ms(row.get(3)),
            });
        }
        Ok(links)
    }

    /// Owners that were erased at this time or later.
    pub(crate) async fn owners_since(
        self,
        pool: &Pool,
        since: Timestamp,
    ) -> Result<Vec<OwnerId>, Failure> {
        let sql = format!(
            "SELECT owner FROM {}_erased_owners WHERE erased_at >= $1 ORDER BY owner",
            self.prefix
        );
        let rows = pool.list(&sql, params![since.as_ms()]).await?;
        Ok(rows.iter().map(|row| OwnerId(row.get::<_, i64>(0).cast_unsigned())).collect())
    }
}

/// A key from its stored columns.
pub(crate) fn stored_key(domain: &str, code: &str) -> Result<LinkKey, Failure> {
    let code = Code::parse(code).ok_or_else(|| corrupt("a stored link has no code"))?;
    Ok(LinkKey { domain: Domain::from_stored(domain), code })
}
