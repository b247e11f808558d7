//! `terse migrate`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use terse_cli::terminal::say;

use crate::backends::{self, MigratedCounts};
use crate::cli::LocalContext;
use crate::config::PostgresUrl;

/// Move the data folder into an empty PostgreSQL database: links, accounts, clicks. Stop the server
/// first, or move with --live. If the move is interrupted, run the command again: it continues. In
/// the end it reads everything back and compares it. The files stay as they are.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse migrate --to-file /etc/terse/database-url
  terse migrate --to postgres://terse@localhost/terse
  terse migrate --live --to-file /etc/terse/database-url

Then set `store` to the same URL, and start terse on the same data folder.")]
pub(crate) struct MigrateArgs {
    /// The database; prefer --to-file for a URL with a password, as other users of the machine can
    /// see arguments
    #[arg(long, value_name = "URL", required_unless_present = "to_file")]
    to: Option<String>,
    /// A file that contains the URL of the database
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    to_file: Option<PathBuf>,
    /// Move while the server runs. At the end it is read-only (links redirect, and nothing can be
    /// changed), until you restart it on the database; the command says when
    #[arg(long)]
    live: bool,
    /// How long --live waits for the server to stop at the end, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "live")]
    wait: u64,
}

impl MigrateArgs {
    pub(crate) fn run(&self, context: &LocalContext) -> anyhow::Result<bool> {
        let url = match (&self.to, &self.to_file) {
            (Some(url), _) => url.clone(),
            (None, Some(file)) => std::fs::read_to_string(file)
                .with_context(|| format!("reading the URL in {}", file.display()))?,
            (None, None) => anyhow::bail!("--to or --to-file is needed"),
        };
        let url: PostgresUrl =
            url.trim().parse().map_err(|why: String| anyhow::anyhow!("--to: {why}"))?;
        let live = self.live.then(|| Duration::from_secs(self.wait));
        let moved = backends::migrate(context.config(), &url, live, &|progress| {
            eprintln!("{progress}");
        })?;
        let MigratedCounts { links, rows, subjects, clicks, read_only_ms } = moved;
        if let (Some(ms), false) = (read_only_ms, context.json) {
            say(&format!("the server was read-only for {ms} ms, until it stopped."))?;
        }
        say(&if context.json {
            json!({ "links": links, "rows": rows, "click_sums": subjects, "clicks": clicks,
                "read_only_ms": read_only_ms })
            .to_string()
        } else {
            format!(
                "moved and compared: {links} links, {rows} rows of accounts and other tables, sums \
                 of clicks of {subjects} links and owners, {clicks} single clicks.\nNow set store \
                 to the database, and start terse on the same data folder: clicks that are not \
                 counted yet are there. The files terse.db, registry.db and clicks.db are not used \
                 any more; keep them until you are sure."
            )
        })?;
        Ok(true)
    }
}
