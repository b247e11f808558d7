//! Clicks on ClickHouse.
//!
//! ClickHouse has no transactions, so a [`ClickLedger`] in the
//! registry decides which rows count. Every row carries the number that the ledger gave to its
//! batch. A batch is begun in the ledger, its rows are inserted under a deduplication token, and
//! the ledger finishes it and moves the positions of its journals in one transaction. A report
//! reads the ledger first and then only rows of finished batches, so it contains a batch completely
//! or not at all.
//!
//! Two tables: `clicks` holds single clicks in columns, for SQL too; `sums` holds the roll-ups, one
//! row per subject, hour and batch. The module `merging` replaces many rows of an hour by one, and
//! hours by days.

mod client;
mod export;
mod ingest;
mod inspect;
mod merging;
mod options;
mod reports;
mod retention;
mod row_binary;
mod rows;
mod schema;
mod visible;

pub use inspect::{ClickHouseInspection, inspect};
pub use options::{ClickHouseAddress, ClickHouseOpenError, ClickHouseOptions};
pub use schema::create_statements;

use std::sync::{Arc, Mutex};

use terse_core::clicks::ClickLedger;
use tokio::time::Instant;

use client::Client;

/// Clicks in a ClickHouse database that several nodes share.
pub struct ClickHouseClicks {
    client: Arc<Client>,
    ledger: Arc<dyn ClickLedger>,
    options: ClickHouseOptions,
    /// When the next insert may begin.
    next_insert: Mutex<Instant>,
}

impl ClickHouseClicks {
    /// Connects, and creates or migrates the tables.
    pub async fn open(
        options: ClickHouseOptions,
        ledger: Arc<dyn ClickLedger>,
    ) -> Result<Self, ClickHouseOpenError> {
        let client = Arc::new(Client::new(&options)?);
        schema::migrate(&client, &options).await?;
        Ok(Self { client, ledger, options, next_insert: Mutex::new(Instant::now()) })
    }
}

impl std::fmt::Debug for ClickHouseClicks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClickHouseClicks").field("url", &self.options.url).finish_non_exhaustive()
    }
}
