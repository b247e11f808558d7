//! `terse import`.

mod report;
mod sending;

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use terse_core::import_file::{RejectedRow, Row, RowResult, Rows, Source};
use terse_core::{Clock, SeenImportRows};

use self::report::ImportReport;
use self::sending::{SentRows, keys_of, send};
use crate::CommandContext;
use crate::client::ApiClient;
use crate::terminal::{one_line, say};
use crate::transfer::{Format, ImportCounts, ImportPosition};

/// Links per request: as many as the server takes. It writes them at once, and with a code each
/// changes a page of an index that others of the same write may change, too.
const BATCH: usize = 1000;
/// The largest number of requests under way. The server works on some while others are written and
/// read here.
const IN_FLIGHT: usize = 4;
/// Bytes per request.
const BATCH_BYTES: usize = 1 << 20;
/// How many refused rows are printed; `--report` writes all of them.
const SHOWN: usize = 20;

/// Import links from a CSV or JSON file, with their codes, creation dates and clicks.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse import links.csv --dry-run
  terse import yourls.csv --report refused.csv
  zcat links.jsonl.gz | terse import -

The exports of Kutt, YOURLS, Bitly, chhoto-url and Shlink are recognised by their columns. CSV
needs a header; the column long_url (or url) must be there. What was interrupted goes on where
it stopped when the same command is given again. Refused rows do not stop the others.
docs/import-export.md lists all columns.")]
pub struct ImportArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// The format of the file [default: detected]
    #[arg(long)]
    format: Option<Format>,
    /// Write every refused row to this file, as CSV if it ends in .csv, else as JSON lines
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Exit 0 even if rows were refused
    #[arg(long)]
    lenient: bool,
    /// Ignore unknown columns and fields
    #[arg(long)]
    ignore_unknown: bool,
    /// Put every link on this domain, whatever the file says
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    /// Put every link on the primary domain, whatever the file says
    #[arg(long, conflicts_with = "domain")]
    no_domain: bool,
    /// Start at the first row, even if an earlier import was interrupted
    #[arg(long)]
    restart: bool,
    /// Show what would happen, and change nothing
    #[arg(long, conflicts_with = "restart")]
    dry_run: bool,
}

/// An import under way.
struct Work<'a> {
    api: &'a ApiClient,
    /// The call that imports rows, with its parameters.
    path: &'static str,
    done: ImportCounts,
    /// What the rows of a dry run occupy.
    claims: SeenImportRows,
    shown: Vec<RejectedRow>,
    report: Option<ImportReport>,
}

/// Rows to send, and where the file continues after them.
struct Batch {
    rows: Vec<Row>,
    /// Rows that are not sent, and whether each is refused or skipped.
    unsent: Vec<(RejectedRow, &'static str)>,
    offset: u64,
    line: u64,
    sha256: String,
    /// Whether the file ends with this batch.
    last: bool,
}

impl ImportArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        self.through(|| context.api(), context)
    }

    /// Opens the API only after the file was opened and its header read.
    fn through(
        &self,
        open: impl FnOnce() -> anyhow::Result<ApiClient>,
        context: &CommandContext,
    ) -> anyhow::Result<bool> {
        let file = (self.file != Path::new("-")).then_some(self.file.as_path());
        let (input, size): (Box<dyn BufRead + Send>, u64) = match file {
            Some(path) => {
                let file =
                    File::open(path).with_context(|| format!("opening {}", path.display()))?;
                let size = file.metadata()?.len();
                (Box::new(BufReader::new(file)), size)
            }
            None => (Box::new(BufReader::new(std::io::stdin())), 0),
        };
        let (format, now) = (self.format.map(Into::into), Clock::default().now());
        let mut rows = Rows::open(input, format, self.ignore_unknown, now)?;
        let api = open()?;
        // A dry run neither continues an import nor leaves a position behind.
        let progress_file = file.filter(|_| !self.dry_run);
        let done = match progress_file {
            Some(path) if !self.restart => resume(path, &api, &mut rows)?,
            _ => ImportCounts::default(),
        };
        let resumed = done != ImportCounts::default();
        let report =
            self.report.as_deref().map(|path| ImportReport::open(path, resumed)).transpose()?;
        let path = match self.dry_run {
            true => "/api/v1/admin/import?dry_run=true",
            false => "/api/v1/admin/import?brief=true",
        };
        let claims = SeenImportRows::default();
        let mut work = Work { api: &api, path, done, claims, shown: Vec::new(), report };
        let bar = progress(size, context.json);
        if resumed {
            bar.suspend(|| eprintln!("continuing at line {}", rows.at().1));
        }
        let outcome = self.all(&mut work, &mut rows, progress_file, &bar);
        bar.finish_and_clear();
        if let Err(error) = outcome {
            let again = if progress_file.is_some() && work.done.rows() > 0 {
                "; repeat the command to continue from there"
            } else {
                ""
            };
            return Err(error.context(format!("after {} rows{again}", work.done.rows())));
        }
        ensure!(work.done.rows() > 0, "there are no rows below the header");
        if let Some(path) = progress_file {
            ImportPosition::remove(path);
        }
        self.print_summary(&work, &rows, context)?;
        Ok(self.lenient || work.done.refused == 0)
    }

    /// Reads and sends all rows. Up to [`IN_FLIGHT`] batches are under way at a time; they are
    /// accounted for in the order of the file, so the position never passes a row that the server
    /// has not acknowledged.
    fn all(
        &self,
        work: &mut Work<'_>,
        rows: &mut Rows,
        progress_file: Option<&Path>,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        let (api, path, dry_run) = (work.api, work.path, self.dry_run);
        std::thread::scope(|scope| {
            let mut in_flight: VecDeque<InFlight<'_>> = VecDeque::new();
            let mut finish = |sent: InFlight<'_>| {
                let (batch, result) = sent.thread.join().map_err(|_| anyhow!("a thread failed"))?;
                work.record_batch(batch, result?, progress_file, bar)
            };
            loop {
                let batch = self.batch(rows)?;
                let last = batch.last;
                let keys = keys_of(&batch.rows);
                // Of two rows with the same code the first one wins, so the second one waits.
                let clashes = |other: &InFlight<'_>| !other.keys.is_disjoint(&keys);
                while in_flight.len() >= IN_FLIGHT || in_flight.iter().any(clashes) {
                    in_flight.pop_front().map_or(Ok(()), &mut finish)?;
                }
                let thread = scope.spawn(move || {
                    let result = send(api, path, dry_run, &batch.rows);
                    (batch, result)
                });
                in_flight.push_back(InFlight { keys, thread });
                if last {
                    return in_flight.into_iter().try_for_each(finish);
                }
            }
        })
    }

    /// The next rows to send.
    fn batch(&self, rows: &mut Rows) -> anyhow::Result<Batch> {
        let (mut batch, mut unsent) = (Vec::with_capacity(BATCH), Vec::new());
        let (mut bytes, mut last) = (0, false);
        while batch.len() < BATCH && bytes < BATCH_BYTES && unsent.len() < 10 * BATCH {
            let before = rows.at().0;
            let Some(links) = rows.next_links().context("reading the file")? else {
                last = true;
                break;
            };
            for link in links {
                match link {
                    RowResult::Link(mut row) => {
                        match (&self.domain, self.no_domain) {
                            (Some(domain), _) => {
                                drop(row.body.insert("domain".into(), domain.as_str().into()));
                            }
                            (None, true) => drop(row.body.remove("domain")),
                            (None, false) => {}
                        }
                        batch.push(row);
                    }
                    RowResult::Refused(refused) => unsent.push((refused, "refused")),
                    RowResult::Skipped(skipped) => unsent.push((skipped, "skipped")),
                }
            }
            bytes += usize::try_from(rows.at().0 - before)?;
        }
        let (offset, line) = rows.at();
        Ok(Batch { rows: batch, unsent, offset, line, sha256: rows.digest(), last })
    }

    fn print_summary(
        &self,
        work: &Work<'_>,
        rows: &Rows,
        context: &CommandContext,
    ) -> anyhow::Result<()> {
        let ImportCounts { created, existing, refused, skipped } = work.done;
        let (report, source) = (self.report.as_deref(), rows.source().map(Source::name));
        if context.json {
            let partial = rows.partial().map(|(holds, of)| json!({ "holds": holds, "of": of }));
            return say(&json!({
                "created": created, "existing": existing, "refused": refused, "skipped": skipped,
                "refusals": work.shown, "report": report, "dry_run": self.dry_run,
                "source": source, "unused": rows.unused(), "partial": partial,
            })
            .to_string());
        }
        for row in &work.shown {
            let field = row.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
            let code = row.short_code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
            eprintln!(
                "line {}{}: {}",
                row.line,
                one_line(&code),
                one_line(&format!("{field}{}", row.reason))
            );
        }
        let hidden = (refused + skipped).saturating_sub(work.shown.len() as u64);
        if hidden > 0 {
            let how = if report.is_some() { "" } else { "; --report FILE writes them all" };
            eprintln!("… and {hidden} more{how}");
        }
        if let Some(source) = source {
            eprintln!("The file is an export of {source}.");
        }
        if !rows.unused().is_empty() {
            let names: Vec<&str> = rows.unused().iter().map(String::as_str).collect();
            eprintln!("Not used: {}.", one_line(&names.join(", ")));
        }
        if let Some((holds, of)) = rows.partial() {
            eprintln!("The file holds {holds} of {of} links: export the others, too.");
        }
        say(&match self.dry_run {
            false => format!(
                "{created} created, {existing} already existed, {refused} refused, {skipped} skipped"
            ),
            true => format!(
                "{created} would be created, {existing} already exist, {refused} would be refused, \
                 {skipped} would be skipped; nothing was changed"
            ),
        })
    }
}

/// A batch that is being sent.
struct InFlight<'scope> {
    keys: HashSet<u64>,
    thread: ScopedJoinHandle<'scope, (Batch, anyhow::Result<SentRows>)>,
}

/// Where to start: at the first row, or where an interrupted import of the same file to the same
/// server stopped.
fn resume(path: &Path, api: &ApiClient, rows: &mut Rows) -> anyhow::Result<ImportCounts> {
    let Some(position) =
        ImportPosition::read(path)?.filter(|position| position.place == api.place())
    else {
        return Ok(ImportCounts::default());
    };
    rows.skip_to(position.offset, position.line)?;
    ensure!(
        rows.digest() == position.sha256,
        "{} has changed since its import was interrupted; --restart starts at the first row",
        path.display()
    );
    Ok(position.done)
}

impl Work<'_> {
    /// Accounts for a batch that the server has answered, after all batches before it.
    fn record_batch(
        &mut self,
        batch: Batch,
        mut sent: SentRows,
        progress_file: Option<&Path>,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        for (row, outcome) in batch.unsent {
            match outcome {
                "skipped" => self.done.skipped += 1,
                _ => self.done.refused += 1,
            }
            self.note(row, outcome)?;
        }
        sent.after_earlier_rows(&mut self.claims);
        self.done.created += sent.created;
        self.done.existing += sent.existing;
        for refused in sent.refused {
            self.done.refused += 1;
            self.note(refused, "refused")?;
        }
        if let Some(report) = &mut self.report {
            report.flush()?;
        }
        bar.set_position(batch.offset);
        bar.set_message(format!("{} links", self.done.created + self.done.existing));
        match progress_file {
            Some(path) if !batch.last => ImportPosition {
                place: self.api.place().to_owned(),
                offset: batch.offset,
                line: batch.line,
                sha256: batch.sha256,
                done: self.done,
            }
            .write(path),
            _ => Ok(()),
        }
    }

    /// Reports a row that does not become a link.
    fn note(&mut self, row: RejectedRow, outcome: &str) -> anyhow::Result<()> {
        if let Some(report) = &mut self.report {
            report.write(&row, outcome)?;
        }
        if self.shown.len() < SHOWN {
            self.shown.push(row);
        }
        Ok(())
    }
}

fn progress(size: u64, json: bool) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, shape) = match size {
        0 => (ProgressBar::no_length(), "{spinner} {bytes} {msg} {elapsed}"),
        size => (ProgressBar::new(size), "{wide_bar} {bytes}/{total_bytes} {msg} {eta}"),
    };
    bar.with_style(
        ProgressStyle::with_template(shape).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

#[cfg(test)]
mod tests;
