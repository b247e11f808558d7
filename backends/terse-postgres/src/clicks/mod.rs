//! The click store.

mod export;
mod ingest;
mod partitions;
mod raw;
mod reports;
mod retention;
mod sum;
mod transfer;

pub(crate) use transfer::ClicksReader;
pub use transfer::SumsWriter;

use std::sync::Arc;

use terse_core::clicks::{ClickSubject, LinkId};
use terse_core::{Domain, LinkKey, OwnerId, StoreError, Timestamp};

use crate::options::{PostgresOpenError, PostgresOptions};
use crate::pool::{Connector, Pool, PostgresConnections};
use crate::schema;
use crate::tombstones::TombstoneTables;

/// Counting takes this advisory lock in shared mode, erasing in exclusive mode. So a batch that is
/// counted after an erasure has seen its tombstone.
const ERASURE_LOCK: i64 = 0x7465_7273_655f_6572;

const TOMBSTONES: TombstoneTables = TombstoneTables { prefix: "click" };

const LINK: i16 = 0;
const OWNER: i16 = 1;
const EVERYTHING: i16 = 2;
const ORPHANS: i16 = 3;

const HOUR: i16 = 1;
const DAY: i16 = 2;

/// Clicks in a database that several nodes share.
#[derive(Clone)]
pub struct PostgresClicks {
    pool: Arc<Pool>,
    keep_raw: bool,
}

impl PostgresClicks {
    /// Connects, and creates or migrates the tables. Without `keep_raw` only sums are kept.
    pub async fn open(options: PostgresOptions, keep_raw: bool) -> Result<Self, PostgresOpenError> {
        let pool = Arc::new(Pool::open(&options).await?);
        Self::open_on(pool, &options, keep_raw).await
    }

    /// The same, with the connections of another store in the same database.
    pub async fn open_beside(
        connections: &PostgresConnections,
        options: &PostgresOptions,
        keep_raw: bool,
    ) -> Result<Self, PostgresOpenError> {
        Self::open_on(Arc::clone(&connections.0), options, keep_raw).await
    }

    pub(crate) async fn open_on(
        pool: Arc<Pool>,
        options: &PostgresOptions,
        keep_raw: bool,
    ) -> Result<Self, PostgresOpenError> {
        let direct = options.direct_url.as_ref().unwrap_or(&options.url);
        schema::CLICKS.migrate(&Connector::new(direct, options.connect_timeout)?).await?;
        let clicks = Self { pool, keep_raw };
        // Not fatal: clicks of a month without a table are in the default table.
        if let Err(error) = clicks.create_months().await {
            let error = StoreError::from(error);
            tracing::warn!(%error, "the tables for single clicks of the next months are missing");
        }
        Ok(clicks)
    }
}

impl std::fmt::Debug for PostgresClicks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresClicks").finish_non_exhaustive()
    }
}

/// The key of a subject's row. Rows are locked in this order on every node.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct SubjectKey {
    kind: i16,
    domain: String,
    code: String,
    created_at: i64,
    sum_of: i64,
}

impl SubjectKey {
    fn of(subject: &ClickSubject) -> Self {
        let plain = |kind, sum_of| Self {
            kind,
            domain: String::new(),
            code: String::new(),
            created_at: 0,
            sum_of,
        };
        match subject {
            ClickSubject::Link(LinkId { key, created_at }) => Self {
                kind: LINK,
                domain: key.domain.as_str().to_owned(),
                code: key.code.as_str().to_owned(),
                created_at: created_at.as_ms(),
                sum_of: 0,
            },
            ClickSubject::Owner(OwnerId(owner)) => plain(OWNER, owner.cast_signed()),
            ClickSubject::Everything => plain(EVERYTHING, 0),
            ClickSubject::Orphans => plain(ORPHANS, 0),
        }
    }
}

/// A link from its stored columns.
fn link_id(domain: &str, code: &str, created_at: i64) -> Option<LinkId> {
    let code = terse_core::Code::parse(code)?;
    let key = LinkKey { domain: Domain::from_stored(domain), code };
    Some(LinkId { key, created_at: Timestamp::from_ms(created_at) })
}
