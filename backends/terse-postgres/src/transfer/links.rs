//! Links that move while a server changes them: the database is compared with what was read, and
//! what differs is written again.

use std::collections::{HashMap, HashSet};

use terse_core::transfer::{Digest, MovedLink};
use terse_core::{Code, Domain, LinkKey, LinkVersion, StoreError, link_codec};

use super::{DatabaseImport, TransferError, moved, write};
use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
use crate::links::row::{self, NEW_COLUMNS, NewRows, unnested, written_columns};
use crate::sql::{SqlTimestamp, params};

const DELETE: [&str; 2] = [
    "DELETE FROM link_revisions r USING unnest($1, $2) AS k (domain, code) \
     WHERE r.domain = k.domain COLLATE \"C\" AND r.code = k.code COLLATE \"C\"",
    "DELETE FROM links l USING unnest($1, $2) AS k (domain, code) \
     WHERE l.domain = k.domain COLLATE \"C\" AND l.code = k.code COLLATE \"C\"",
];

impl DatabaseImport {
    /// Makes the database have these links exactly as they are here, and reads back what it has
    /// written. Returns how many it has written.
    pub async fn sync_links(&self, links: &[MovedLink]) -> Result<u64, TransferError> {
        let differing = self.differing(links).await?;
        if differing.is_empty() {
            return Ok(0);
        }
        let (domains, codes) = names(differing.iter().map(|moved| &moved.link.key));
        let transaction = self.pool.begin().await.map_err(StoreError::from)?;
        let work = async {
            for sql in DELETE {
                transaction.execute(sql, params![domains, codes]).await?;
            }
            insert_links(&transaction, &differing).await?;
            transaction.commit().await
        };
        work.await.map_err(StoreError::from)?;
        match self.differing(&differing).await?.is_empty() {
            true => Ok(differing.len() as u64),
            false => Err(corrupt("links in the database differ from what was written").into()),
        }
    }

    /// Those that the database lacks, or has in another version.
    async fn differing(&self, links: &[MovedLink]) -> Result<Vec<MovedLink>, TransferError> {
        let (domains, codes) = names(links.iter().map(|moved| &moved.link.key));
        let sql = format!(
            "SELECT {}, l.marked FROM unnest($1, $2) AS k (domain, code) JOIN links l \
             ON l.domain = k.domain COLLATE \"C\" AND l.code = k.code COLLATE \"C\"",
            row::COLUMNS
        );
        let rows = self.read(&sql, params![domains, codes]).await?;
        let there = moved(&self.pool, &rows).await?;
        let there: HashMap<&LinkKey, Digest> =
            there.iter().map(|moved| (&moved.link.key, digest(moved))).collect();
        let differs = |moved: &&MovedLink| there.get(&moved.link.key) != Some(&digest(moved));
        Ok(links.iter().filter(differs).cloned().collect())
    }

    /// How many links there are.
    pub async fn count_links(&self) -> Result<u64, TransferError> {
        let rows = self.read("SELECT count(*) FROM links", &[]).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
    }

    /// Up to `limit` keys of links, after one.
    pub async fn keys(
        &self,
        after: Option<&LinkKey>,
        limit: usize,
    ) -> Result<Vec<LinkKey>, TransferError> {
        let (domain, code) = after.map_or(("", ""), |key| (key.domain.as_str(), key.code.as_str()));
        let sql = "SELECT domain, code FROM links WHERE (domain, code) > ($1, $2) \
             ORDER BY domain, code LIMIT $3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.read(sql, params![domain, code, limit]).await?;
        let key = |row: &tokio_postgres::Row| {
            let (domain, code): (&str, &str) = (row.get(0), row.get(1));
            let code = Code::parse(code).ok_or_else(|| corrupt("a code that is none"))?;
            Ok(LinkKey { domain: Domain::from_stored(domain), code })
        };
        rows.iter().map(key).collect()
    }

    /// Deletes links that were purged meanwhile.
    pub async fn delete_links(&self, keys: &[LinkKey]) -> Result<(), TransferError> {
        let (domains, codes) = names(keys.iter());
        for sql in DELETE {
            write(&self.pool, sql, params![domains, codes]).await?;
        }
        Ok(())
    }

    /// The numbers of codes that were leased meanwhile are not leased again.
    pub async fn raise_leases(&self, leases: &[(u8, u64)]) -> Result<(), TransferError> {
        let (lengths, next): (Vec<i16>, Vec<i64>) =
            leases.iter().map(|(length, next)| (i16::from(*length), next.cast_signed())).unzip();
        let sql = "INSERT INTO link_leases AS l (length, next) SELECT * FROM unnest($1, $2) \
             ON CONFLICT (length) DO UPDATE SET next = greatest(l.next, excluded.next)";
        write(&self.pool, sql, params![lengths, next]).await
    }

    /// Removes the clicks that an earlier attempt has written.
    pub async fn clear_clicks(&self) -> Result<(), TransferError> {
        let sql = "TRUNCATE click_raw, click_raw_days, click_buckets, click_subjects";
        write(&self.pool, sql, &[]).await
    }
}

fn digest(moved: &MovedLink) -> Digest {
    let mut digest = Digest::default();
    moved.digest(&mut digest);
    digest
}

fn names<'a>(keys: impl Iterator<Item = &'a LinkKey>) -> (Vec<&'a str>, Vec<&'a str>) {
    keys.map(|key| (key.domain.as_str(), key.code.as_str())).unzip()
}

/// Writes links that the database does not have, with their history.
pub(super) async fn insert_links(
    transaction: &Transaction<'_>,
    links: &[MovedLink],
) -> Result<(), Failure> {
    let rows = NewRows::of(links.iter().map(|moved| &moved.link));
    let sql = format!(
        "INSERT INTO links ({NEW_COLUMNS}) SELECT {} FROM {} ON CONFLICT DO NOTHING \
         RETURNING domain, code",
        written_columns(),
        unnested()
    );
    let new = transaction.query(&sql, &rows.params()).await?;
    let new: HashSet<(String, String)> = new.iter().map(|row| (row.get(0), row.get(1))).collect();
    let name = |moved: &MovedLink| {
        let key = &moved.link.key;
        (key.domain.as_str().to_owned(), key.code.as_str().to_owned())
    };
    let (mut domains, mut codes, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut of_domain, mut of_code) = (Vec::new(), Vec::new());
    let (mut until, mut versions) = (Vec::new(), Vec::new());
    for moved in links.iter().filter(|moved| new.contains(&name(moved))) {
        let (domain, code) = name(moved);
        // The oldest first: the table numbers them.
        for LinkVersion { link, until: at } in moved.history.iter().rev() {
            of_domain.push(domain.clone());
            of_code.push(code.clone());
            until.push(SqlTimestamp(*at));
            versions.push(link_codec::encode(link));
        }
        if let Some(marked) = moved.marked {
            domains.push(domain);
            codes.push(code);
            marks.push(SqlTimestamp(marked));
        }
    }
    transaction
        .execute(
            "INSERT INTO link_revisions (domain, code, until, link) \
             SELECT domain, code, until, link FROM unnest($1, $2, $3, $4) \
             WITH ORDINALITY AS r (domain, code, until, link, place) ORDER BY place",
            params![of_domain, of_code, until, versions],
        )
        .await?;
    transaction
        .execute(
            "UPDATE links l SET marked = m.marked FROM unnest($1, $2, $3) \
             AS m (domain, code, marked) WHERE l.domain = m.domain COLLATE \"C\" \
             AND l.code = m.code COLLATE \"C\"",
            params![domains, codes, marks],
        )
        .await?;
    Ok(())
}
