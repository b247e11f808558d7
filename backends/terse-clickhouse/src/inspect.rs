//! Checks a database for `terse doctor`.

use terse_core::StoreError;
use terse_core::clicks::ClickLedger;

use crate::client::Client;
use crate::options::{ClickHouseOpenError, ClickHouseOptions};
use crate::reports;
use crate::row_binary::Reader;
use crate::schema;
use crate::visible::{self, Table};

/// What a database looks like.
#[derive(Clone, Debug, Default)]
pub struct ClickHouseInspection {
    /// The version of the server.
    pub server: String,
    /// Single clicks of the last days that count.
    pub clicks: u64,
    /// How many of them differ in their number.
    pub distinct: u64,
    /// The clicks of the same days in the roll-ups of links.
    pub rolled_up: u64,
    /// Parts of both tables that are in use.
    pub parts: u64,
    /// Octets of both tables on disk.
    pub octets: u64,
    /// Batches and merges that were begun and not finished.
    pub unfinished: usize,
    /// Whether inserts are synced to the disk.
    pub fsync: bool,
}

/// Looks at a database. Compares the single clicks of the `days` before `now` with their numbers
/// and with the roll-ups; a negative number of days leaves the comparison out.
pub async fn inspect(
    options: &ClickHouseOptions,
    ledger: &dyn ClickLedger,
    now: terse_core::Timestamp,
    days: i64,
) -> Result<ClickHouseInspection, ClickHouseOpenError> {
    let client = Client::new(options)?;
    let reading = read_state(&client, options, ledger, now, days);
    reading.await.map_err(|error| client.failed(error))
}

async fn read_state(
    client: &Client,
    options: &ClickHouseOptions,
    ledger: &dyn ClickLedger,
    now: terse_core::Timestamp,
    days: i64,
) -> Result<ClickHouseInspection, StoreError> {
    let mut seen = ClickHouseInspection {
        server: schema::version(client).await?,
        fsync: options.url.fsync,
        ..ClickHouseInspection::default()
    };
    let sql = "SELECT count(), sum(bytes_on_disk) FROM system.parts WHERE active \
         AND database = currentDatabase() AND table IN ('clicks', 'sums')";
    let pair = |row: &mut Reader<'_>| Some((row.u64()?, row.u64()?));
    if let Some((parts, octets)) = client.rows(sql, pair).await?.first() {
        (seen.parts, seen.octets) = (*parts, *octets);
    }
    let snapshot = ledger.snapshot(None).await?;
    seen.unfinished = snapshot.unfinished.len();
    if days < 0 {
        return Ok(seen);
    }
    // Whole hours, of which no batch is on its way any more.
    let hour = terse_core::clicks::Unit::Hour;
    let to = hour.floor(now).as_ms();
    let from = to - days * terse_core::clicks::Unit::Day.ms();
    let sql = format!(
        "SELECT count(), uniqExact(number) FROM clicks WHERE at >= {from} AND at < {to} AND {}",
        visible::condition(Table::Clicks, &snapshot)
    );
    if let Some((clicks, distinct)) = client.rows(&sql, pair).await?.first() {
        (seen.clicks, seen.distinct) = (*clicks, *distinct);
    }
    let condition = format!(
        "unit = 1 AND start >= {from} AND start < {to} AND {}",
        visible::condition(Table::Sums, &snapshot)
    );
    let sql =
        format!("SELECT toUInt64(sum(humans + bots)) FROM ({})", reports::live_links(&condition));
    seen.rolled_up = client.number(&sql).await?;
    Ok(seen)
}
