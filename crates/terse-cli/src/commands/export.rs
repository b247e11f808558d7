//! `terse export`.

use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::list::{ListFilters, walk};
use crate::CommandContext;
use crate::client::ApiClient;
use crate::terminal::say;
use crate::transfer::{Format, Writer};

/// Write all links to a file, as CSV, JSON lines or one JSON list, oldest first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse export links.csv
  terse export links.jsonl --deleted
  terse export --format jsonl | gzip > links.jsonl.gz

A file appears only when it is complete. Cells that a spreadsheet would run as formulas get an
apostrophe in front; import takes it away again.")]
pub struct ExportArgs {
    /// The file, or - for standard output
    #[arg(value_name = "FILE|-", default_value = "-")]
    file: PathBuf,
    /// The format [default: by the file name: .jsonl and .ndjson, .json, else csv]
    #[arg(long)]
    format: Option<Format>,
    /// Include deleted links that can still be restored
    #[arg(long)]
    deleted: bool,
    /// Only links with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only links on this domain
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

impl ExportArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        self.through(|| context.api(), context)
    }

    pub(crate) fn through(
        &self,
        open: impl FnOnce() -> anyhow::Result<ApiClient>,
        context: &CommandContext,
    ) -> anyhow::Result<bool> {
        if self.file == Path::new("-") {
            let api = open()?;
            self.write(&api, BufWriter::new(std::io::stdout().lock()), true)?;
            return Ok(true);
        }
        ensure!(
            self.force || !self.file.exists(),
            "{} exists already; --force overwrites it",
            self.file.display()
        );
        let api = open()?;
        let folder = self
            .file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let opening = || format!("writing {}", self.file.display());
        let mut temp = tempfile::Builder::new()
            .prefix(".terse-export")
            .tempfile_in(folder)
            .with_context(opening)?;
        let count = self.write(&api, BufWriter::new(temp.as_file_mut()), context.json)?;
        temp.as_file().sync_all().with_context(opening)?;
        temp.persist(&self.file).with_context(opening)?;
        if context.json {
            say(&json!({ "file": self.file, "links": count }).to_string())?;
        } else {
            say(&format!("{count} links in {}", self.file.display()))?;
        }
        Ok(true)
    }

    fn write(&self, api: &ApiClient, out: impl Write, quiet: bool) -> anyhow::Result<u64> {
        let looks_like = || match self.file.extension().and_then(|ext| ext.to_str()) {
            Some("jsonl" | "ndjson") => Format::Jsonl,
            Some("json") => Format::Json,
            _ => Format::Csv,
        };
        let mut writer = Writer::new(out, self.format.unwrap_or_else(looks_like))?;
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let style = ProgressStyle::with_template("{spinner} {human_pos} links {elapsed}");
            ProgressBar::no_length()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        };
        let which = ListFilters {
            tag: self.tag.clone(),
            domain: self.domain.clone(),
            // Every link that the key may see.
            owner: Some("all".into()),
            archived: Some("all"),
            oldest: true,
            ..ListFilters::default()
        };
        let deleted = ListFilters { status: Some("deleted".into()), ..which.clone() };
        for which in [Some(which), self.deleted.then_some(deleted)].into_iter().flatten() {
            walk(api, &which, |links| {
                for link in links {
                    writer.write(link)?;
                }
                bar.inc(links.len() as u64);
                Ok(())
            })?;
        }
        let count = bar.position();
        bar.finish_and_clear();
        writer.finish()?;
        Ok(count)
    }
}
