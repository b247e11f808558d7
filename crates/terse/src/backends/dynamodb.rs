//! Links on DynamoDB, with the registry and the clicks on PostgreSQL.

use std::sync::Arc;

use anyhow::Context as _;
use terse_core::{CheckResult, Finding};
use terse_dynamodb::{DynamoAddress, DynamoInspection, DynamoLinks, DynamoOptions};
use terse_postgres::PostgresRegistry;

use super::{CreatedTable, Stores, postgres};
use crate::config::{Config, DynamoUrl};
use crate::serve::alphabet;

/// More than the service's clock may differ from this machine's.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 5_000;

/// Checks a URL, and returns it in its usual form.
pub(crate) fn check_url(text: &str) -> Result<String, String> {
    let refused = |error| format!("the URL of the table is not valid: {error}");
    DynamoAddress::parse(text).map(|url| url.to_string()).map_err(refused)
}

fn options(config: &Config, url: &DynamoUrl) -> anyhow::Result<DynamoOptions> {
    let address = DynamoAddress::parse(url.as_str()).context("store")?;
    Ok(DynamoOptions { alphabet: alphabet(config), ..DynamoOptions::new(address) })
}

/// Opens the table that the settings name, and the database of the registry.
pub(super) async fn open(config: &Config, url: &DynamoUrl) -> anyhow::Result<Stores> {
    // Settings without one are refused before.
    let database = config.registry_database().context("links on DynamoDB need a registry")?;
    let database = postgres::options(config, database);
    let links = DynamoLinks::open(options(config, url)?).await;
    let links = Arc::new(links.context("opening the store of links")?);
    let registry = PostgresRegistry::open(database.clone()).await;
    let registry = registry.context("opening the registry of owners")?;
    let (waiting, measured) = (Arc::clone(&links), Arc::clone(&links));
    let queue_depth = Arc::new(move || waiting.queue_depth());
    let mut stores = postgres::open_beside(config, links, queue_depth, registry, &database).await?;
    stores.metrics.push(Box::new(move |to| {
        let consumed = measured.consumed();
        let units = [("read", consumed.read), ("write", consumed.written)];
        let help = "Request units that DynamoDB says this node has consumed";
        // Fractions are rare: reads that need not be consistent count half.
        let units = units.map(|(kind, units)| (kind, units as u64));
        to.counters("terse_dynamodb_request_units", help, "kind", units);
    }));
    Ok(stores)
}

/// Creates the table of a URL, if it does not exist. Blocks.
pub(crate) fn create_table(config: &Config, url: &DynamoUrl) -> anyhow::Result<CreatedTable> {
    let options = options(config, url)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let created = runtime.block_on(terse_dynamodb::create(&options));
    let created = created.context("creating the table")?;
    let name = options.address.table;
    Ok(CreatedTable { name, is_new: created.is_new, refused: created.refused })
}

/// Looks at the table and the database of the registry. Blocks, and may be called on any thread.
pub(super) fn doctor(config: &Config, url: &DynamoUrl) -> Vec<Finding> {
    let options = options(config, url);
    let inspected = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        anyhow::Ok(runtime.block_on(terse_dynamodb::inspect(&options?))?)
    });
    let mut all = match inspected.join() {
        Ok(Ok(inspection)) => findings(&inspection),
        Ok(Err(error)) => vec![finding(
            CheckResult::Problem,
            format!("{error:#}"),
            "correct the setting `store`, the credentials or the permissions of this node; until \
             then nodes serve the links in their memory",
        )],
        Err(_) => vec![finding(CheckResult::Problem, "it could not be checked".into(), "")],
    };
    if let Some(registry) = config.registry_database() {
        all.extend(postgres::doctor(config, registry, "registry"));
    }
    all
}

fn finding(verdict: CheckResult, found: String, advice: &str) -> Finding {
    Finding { what: "store".to_owned(), verdict, found, advice: advice.to_owned() }
}

fn findings(seen: &DynamoInspection) -> Vec<Finding> {
    use CheckResult::{Good, Warning};
    let replica = if seen.is_replica { "; another region decides" } else { "" };
    let found = format!(
        "DynamoDB, table {}: about {} items, {} MiB (counted every six hours){replica}",
        seen.table,
        seen.items,
        seen.octets >> 20
    );
    let mut all = vec![finding(Good, found, "")];
    if !seen.is_on_demand {
        let found = "the capacity of the table is provisioned: more requests than that are refused";
        let advice = "let it scale, or change the table to capacity on demand";
        all.push(finding(Warning, found.to_owned(), advice));
    }
    if seen.has_recovery == Some(false) {
        let found = "the table cannot be restored to an earlier point in time";
        let advice = "enable point-in-time recovery: run `terse migrate --to` with the URL of the \
                      table again";
        all.push(finding(Warning, found.to_owned(), advice));
    }
    if seen.has_time_to_live == Some(false) {
        let found = "the table keeps request ids and change rows for ever";
        let advice = "enable time to live on the attribute forget_at: run `terse migrate --to` \
                      with the URL of the table again";
        all.push(finding(Warning, found.to_owned(), advice));
    }
    let ahead = seen.clock_ahead_ms;
    if ahead.unsigned_abs() > MAX_CLOCK_DIFFERENCE_MS {
        let found = format!("the clocks of DynamoDB and this machine differ by {ahead} ms");
        all.push(finding(Warning, found, "synchronise this machine's clock (NTP)"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_recovery_or_expiry_is_a_finding() {
        let sound = DynamoInspection {
            table: "terse".into(),
            is_on_demand: true,
            has_recovery: Some(true),
            has_time_to_live: Some(true),
            ..DynamoInspection::default()
        };
        let warnings = |seen: DynamoInspection| -> Vec<String> {
            let (good, others) = (CheckResult::Good, findings(&seen));
            let others = others.into_iter().filter(|finding| finding.verdict != good);
            others.map(|finding| finding.found).collect()
        };
        assert_eq!(warnings(sound.clone()), [""; 0]);
        // DynamoDB Local and Alternator do not tell.
        let untold = DynamoInspection { has_recovery: None, ..sound.clone() };
        assert_eq!(warnings(untold), [""; 0]);
        for (seen, part) in [
            (DynamoInspection { is_on_demand: false, ..sound.clone() }, "provisioned"),
            (DynamoInspection { has_recovery: Some(false), ..sound.clone() }, "point in time"),
            (DynamoInspection { has_time_to_live: Some(false), ..sound.clone() }, "for ever"),
            (DynamoInspection { clock_ahead_ms: -9_000, ..sound }, "differ by -9000 ms"),
        ] {
            let warnings = warnings(seen);
            assert!(matches!(&warnings[..], [one] if one.contains(part)), "{warnings:?}");
        }
    }
}
