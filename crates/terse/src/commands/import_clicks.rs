//! `terse import-clicks`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::json;
use terse_cli::terminal::say;
use terse_clicks::{AddressPrecision, EdgeLogCounts, EdgeLogFormat, EdgeLogImport, Enricher};
use terse_core::Clock;

use crate::backends::{self, DataDir};
use crate::cli::LocalContext;
use crate::config::{ClickAddresses, Config};
use crate::serve::hosts;

/// Count the visits that the edges of a CDN answered by themselves, from its logs. Each line counts
/// once, however often a log is imported, under whatever name, and also while it grows. With a
/// store in files, stop the server first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse import-clicks --format varnish /var/log/varnish/terse.log
  zcat E1.2026-11-18-10.gz | terse import-clicks --format cloudfront -

See docs/cdn.md for how each CDN must be set to write its log.")]
pub(crate) struct ImportClicksArgs {
    /// Who wrote the logs
    #[arg(long, value_name = "CDN")]
    format: Format,
    /// The logs; - reads one from standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Varnish,
    Fastly,
    Cloudflare,
    Cloudfront,
}

impl ImportClicksArgs {
    pub(crate) fn run(&self, context: &LocalContext) -> anyhow::Result<bool> {
        let config = context.config();
        anyhow::ensure!(config.has_store(), "there is no store in {}", config.data_dir.display());
        let data_dir = DataDir::open(&config.data_dir)?;
        // Nodes that share a database go on while this command counts.
        let _lock = (!config.is_shared() || config.clicks_database().is_none())
            .then(|| data_dir.lock())
            .transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let format = match self.format {
            Format::Varnish | Format::Fastly => EdgeLogFormat::Ncsa,
            Format::Cloudflare => EdgeLogFormat::Cloudflare,
            Format::Cloudfront => EdgeLogFormat::CloudFront,
        };
        let (mut import, store) = runtime.block_on(open(config))?;
        let mut total = EdgeLogCounts::default();
        for file in &self.files {
            let log: Box<dyn BufRead> = match file.as_os_str() == "-" {
                true => Box::new(std::io::stdin().lock()),
                false => Box::new(BufReader::new(
                    File::open(file).with_context(|| format!("opening {}", file.display()))?,
                )),
            };
            let counts = runtime
                .block_on(import.run(log, format))
                .with_context(|| format!("counting {}", file.display()))?;
            total.counted += counts.counted;
            total.already += counts.already;
            total.not_at_edge += counts.not_at_edge;
            total.no_link += counts.no_link;
            total.unreadable += counts.unreadable;
        }
        drop(store);
        let EdgeLogCounts { counted, already, not_at_edge, no_link, unreadable } = total;
        say(&if context.json {
            json!({ "counted": counted, "already": already, "not_at_edge": not_at_edge,
                "no_link": no_link, "unreadable": unreadable })
            .to_string()
        } else {
            format!(
                "{counted} visits counted. Left out: {already} lines that were imported before, \
                 {not_at_edge} that no edge answered with a redirect, {no_link} of no link of \
                 yours, {unreadable} that cannot be read."
            )
        })?;
        Ok(true)
    }
}

/// How much of an address the settings keep.
pub(super) fn address_precision(config: &Config) -> AddressPrecision {
    match config.clicks.address {
        ClickAddresses::Cut => AddressPrecision::Network,
        ClickAddresses::Nothing => AddressPrecision::Omitted,
        ClickAddresses::Full => AddressPrecision::Full,
    }
}

async fn open(config: &Config) -> anyhow::Result<(EdgeLogImport, backends::Stores)> {
    let store = backends::open(config).await?;
    let hosts = hosts(config, &config.base_url(), &[])?;
    let registry = store.registry.snapshot().await.context("reading the domains")?;
    hosts.set_added(registry.domains.into_iter().map(|domain| domain.domain));
    let (clock, precision) = (Clock::default(), address_precision(config));
    let enricher = Enricher::new(config.clicks.geo_database.clone(), precision, clock.now())
        .context("reading clicks.geo_database")?;
    let import = EdgeLogImport {
        store: store.clicks.clone(),
        links: store.links.clone(),
        salts: store.registry.clone(),
        hosts,
        enricher,
        whole_addresses: matches!(config.clicks.address, ClickAddresses::Full),
        loose: config.codes.loose,
        honour_dnt: config.clicks.honour_dnt,
        clock,
    };
    Ok((import, store))
}
