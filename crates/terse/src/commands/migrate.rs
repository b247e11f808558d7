//! `terse migrate`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::json;
use terse_cli::terminal::say;

use crate::backends::{self, CreatedTable, MigratedCounts, Migration};
use crate::cli::LocalContext;
use crate::config::{DynamoUrl, StoreUrl};

/// Move the data folder into an empty PostgreSQL database, or such a database into files: links,
/// accounts, clicks. Stop all servers first, or move files with --live. If the move is interrupted,
/// run the command again: it continues. In the end it reads everything back and compares it. What
/// it moves from stays as it is. With a URL of DynamoDB, create or complete the table instead; no
/// data moves then.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse migrate --to-file /etc/terse/database-url
  terse migrate --to postgres://terse@localhost/terse
  terse migrate --live --to-file /etc/terse/database-url
  terse migrate --from-file /etc/terse/database-url --to file:terse.db
  terse migrate --to 'dynamodb://terse?region=eu-central-1'

Then set `store` to the same URL, and start terse on the same data folder.")]
pub(crate) struct MigrateArgs {
    /// The store to move from; without it, the one of the setting `store`
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// A file that contains the URL of the database to move from
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    from_file: Option<PathBuf>,
    /// The store to move to; prefer --to-file for a URL with a password, as other users of the
    /// machine can see arguments
    #[arg(long, value_name = "URL", required_unless_present_any = ["to_file", "undo"])]
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
    /// Let the files be used again after a move with --live. What has changed in the database since
    /// is not in them
    #[arg(long, conflicts_with_all = ["from", "from_file", "to", "to_file", "live"])]
    undo: bool,
}

impl MigrateArgs {
    pub(crate) fn run(&self, context: &LocalContext) -> anyhow::Result<bool> {
        let config = context.config();
        if self.undo {
            backends::undo_migration(config)?;
            say("the files can be used again: set store to them, and start terse.")?;
            return Ok(true);
        }
        let from = store("--from", self.from.as_deref(), self.from_file.as_deref())?;
        let to = store("--to", self.to.as_deref(), self.to_file.as_deref())?;
        let to = to.context("--to or --to-file is needed")?;
        if let StoreUrl::Dynamo(url) = &to {
            ensure!(from.is_none() && !self.live, NO_MOVE);
            return create_table(context, url);
        }
        let migration = Migration {
            from: from.unwrap_or_else(|| config.store.clone()),
            to,
            live: self.live.then(|| Duration::from_secs(self.wait)),
        };
        let moved = backends::migrate(config, &migration, &|progress| eprintln!("{progress}"))?;
        let MigratedCounts { links, rows, subjects, clicks, read_only_ms } = moved;
        if let (Some(ms), false) = (read_only_ms, context.json) {
            say(&format!("the server was read-only for {ms} ms, until it stopped."))?;
        }
        let next = match migration.to {
            StoreUrl::File(_) => {
                "Now set store to the file, and start terse on the same data folder: clicks of \
                 this node that are not counted yet are there. No node starts on the database any \
                 more; keep it until you are sure."
            }
            _ => {
                "Now set store to the database, and start terse on the same data folder: clicks \
                 that are not counted yet are there. The files terse.db, registry.db and clicks.db \
                 are not used any more; keep them until you are sure."
            }
        };
        say(&if context.json {
            json!({ "links": links, "rows": rows, "click_sums": subjects, "clicks": clicks,
                "read_only_ms": read_only_ms })
            .to_string()
        } else {
            format!(
                "moved and compared: {links} links, {rows} rows of accounts and other tables, sums \
                 of clicks of {subjects} links and owners, {clicks} single clicks.\n{next}"
            )
        })?;
        Ok(true)
    }
}

const NO_MOVE: &str = "no data moves into DynamoDB: with --to dynamodb://… alone, this command \
    creates the table; then export the links of the other store and import them (docs/dynamodb.md)";

/// Creates a table of DynamoDB, or completes one.
fn create_table(context: &LocalContext, url: &DynamoUrl) -> anyhow::Result<bool> {
    let CreatedTable { name, is_new, refused } = backends::create_table(context.config(), url)?;
    if context.json {
        say(&json!({ "table": name, "created": is_new, "refused": refused }).to_string())?;
        return Ok(true);
    }
    say(&match is_new {
        true => format!(
            "created the table {name}: capacity on demand, indexes, time to live, point-in-time \
             recovery."
        ),
        false => format!(
            "the table {name} exists already; time to live and point-in-time recovery are on."
        ),
    })?;
    for what in refused {
        say(&format!("except that the service refused {what}; the table works without it."))?;
    }
    say(&format!(
        "No data was moved. Set store = \"{url}\" and registry to a PostgreSQL database, and start \
         terse."
    ))?;
    Ok(true)
}

/// The store that an argument names, or a file.
fn store(name: &str, url: Option<&str>, file: Option<&Path>) -> anyhow::Result<Option<StoreUrl>> {
    let url = match (url, file) {
        (Some(url), _) => url.to_owned(),
        (None, Some(file)) => std::fs::read_to_string(file)
            .with_context(|| format!("reading the URL in {}", file.display()))?,
        (None, None) => return Ok(None),
    };
    url.trim().parse().map(Some).map_err(|why: String| anyhow::anyhow!("{name}: {why}"))
}
