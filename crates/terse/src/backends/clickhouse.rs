//! Clicks on ClickHouse, with their ledger on PostgreSQL.

use std::sync::Arc;

use anyhow::Context as _;
use terse_clickhouse::{
    ClickHouseAddress, ClickHouseClicks, ClickHouseInspection, ClickHouseOptions,
};
use terse_core::clicks::ClickStore;
use terse_core::{CheckResult, Clock, Finding};
use terse_postgres::{LedgerKind, PostgresConnections, PostgresLedger, PostgresOptions};

use super::postgres;
use crate::config::{ClickHouseUrl, Config, PostgresUrl};

/// How many days `terse doctor` compares.
const COMPARED_DAYS: i64 = 1;
/// More unfinished batches than nodes have at a time.
const MANY_UNFINISHED: usize = 100;

/// Checks a URL, and returns it without its password.
pub(crate) fn check_url(text: &str) -> Result<String, String> {
    ClickHouseAddress::parse(text).map(|url| url.to_string()).map_err(|error| error.to_string())
}

fn options(config: &Config, url: &ClickHouseUrl) -> anyhow::Result<ClickHouseOptions> {
    let url = ClickHouseAddress::parse(url.reveal()).context("clicks.store")?;
    Ok(ClickHouseOptions::new(url, !config.clicks.keep_raw.get().is_zero()))
}

/// Connects to ClickHouse and opens its ledger beside the registry.
pub(crate) async fn open(
    config: &Config,
    url: &ClickHouseUrl,
    connections: &PostgresConnections,
    database: &PostgresOptions,
) -> anyhow::Result<Arc<dyn ClickStore>> {
    let ledger = PostgresLedger::open_beside(connections, database, LedgerKind::Clicks)
        .await
        .context("opening the ledger of clicks")?;
    let opened = ClickHouseClicks::open(options(config, url)?, Arc::new(ledger)).await;
    Ok(Arc::new(opened.context("opening the store of clicks")?))
}

/// Looks at ClickHouse. Blocks, and may be called on any thread.
pub(super) fn doctor(config: &Config, url: &ClickHouseUrl, ledger: &PostgresUrl) -> Vec<Finding> {
    let database = postgres::options(config, ledger);
    let options = options(config, url);
    // Without single clicks there is nothing to compare.
    let days = if config.clicks.keep_raw.get().is_zero() { -1 } else { COMPARED_DAYS };
    let inspected = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let ledger = PostgresLedger::open(database, LedgerKind::Clicks).await?;
            let now = Clock::default().now();
            anyhow::Ok(terse_clickhouse::inspect(&options?, &ledger, now, days).await?)
        })
    });
    match inspected.join() {
        Ok(Ok(inspection)) => findings(&inspection),
        Ok(Err(error)) => vec![finding(
            CheckResult::Problem,
            format!("{error:#}"),
            "start ClickHouse, or correct the setting `clicks.store`; until then clicks wait in \
             the journal of each node",
        )],
        Err(_) => vec![finding(CheckResult::Problem, "it could not be checked".into(), "")],
    }
}

fn finding(verdict: CheckResult, found: String, advice: &str) -> Finding {
    Finding { what: "clicks".to_owned(), verdict, found, advice: advice.to_owned() }
}

fn findings(seen: &ClickHouseInspection) -> Vec<Finding> {
    use CheckResult::{Good, Problem, Warning};
    let ClickHouseInspection { server, parts, clicks, distinct, rolled_up, unfinished, .. } = seen;
    let found = format!(
        "ClickHouse {server}; {} MiB in {parts} parts; {clicks} clicks of the last day compared",
        seen.octets >> 20
    );
    let mut all = vec![finding(Good, found, "")];
    if clicks != distinct {
        let found = format!("{clicks} single clicks have only {distinct} different numbers");
        let advice = "some are stored twice; were rows copied between tables or servers?";
        all.push(finding(Problem, found, advice));
    }
    if clicks != rolled_up {
        let found = format!("{clicks} single clicks, but {rolled_up} in the sums of links");
        let advice = "one of the tables `clicks` and `sums` has lost or got rows; compare them by \
                      the hour, and restore the one that differs";
        all.push(finding(Problem, found, advice));
    }
    if *unfinished > MANY_UNFINISHED {
        let found = format!("{unfinished} batches were begun and not finished");
        let advice = "look for errors in the logs of the nodes, and of ClickHouse";
        all.push(finding(Warning, found, advice));
    }
    if !seen.fsync {
        let found = "inserts are not synced to the disk: a power cut may lose counted clicks";
        all.push(finding(Warning, found.to_owned(), "remove fsync=false from `clicks.store`"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clicks_that_differ_from_their_sums_are_a_problem() {
        let good = ClickHouseInspection {
            server: "26.7".into(),
            clicks: 5,
            distinct: 5,
            rolled_up: 5,
            fsync: true,
            ..ClickHouseInspection::default()
        };
        for (seen, verdicts) in [
            (good.clone(), &[CheckResult::Good][..]),
            (
                ClickHouseInspection { distinct: 4, ..good.clone() },
                &[CheckResult::Good, CheckResult::Problem],
            ),
            (
                ClickHouseInspection { rolled_up: 6, fsync: false, ..good.clone() },
                &[CheckResult::Good, CheckResult::Problem, CheckResult::Warning],
            ),
            (
                ClickHouseInspection { unfinished: 1000, ..good },
                &[CheckResult::Good, CheckResult::Warning],
            ),
        ] {
            let found: Vec<_> = findings(&seen).iter().map(|found| found.verdict).collect();
            assert_eq!(found, verdicts, "{seen:?}");
        }
    }
}
