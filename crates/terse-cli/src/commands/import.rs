//! `terse import`.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use http::Method;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use terse_core::Clock;

use crate::Context;
use crate::client::ApiClient;
use crate::problem::Problem;
use crate::terminal::{one_line, say};
use crate::transfer::{Done, Format, Position, Refused, Row, RowResult, Rows, guard};

const IMPORT: &str = "/api/v1/admin/import";
/// Links per request.
const BATCH: usize = 500;
/// Bytes per request.
const BATCH_BYTES: usize = 1 << 20;
/// How often a request to a busy server is repeated.
const ATTEMPTS: u32 = 8;
/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How many refused rows are printed; `--report` writes all of them.
const SHOWN: usize = 20;

/// Import links from a CSV or JSON lines file, with their codes and creation dates.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse import links.csv
  terse import yourls.csv --report refused.csv
  zcat links.jsonl.gz | terse import -

CSV needs a header; the column long_url (or url) must be there. What was interrupted goes on
where it stopped when the same command is given again. Refused rows do not stop the others.
docs/import-export.md lists all columns.")]
pub struct Import {
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
}

/// An import under way.
struct Work<'a> {
    api: &'a ApiClient,
    done: Done,
    shown: Vec<Refused>,
    report: Option<ImportReport>,
}

impl Import {
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<bool> {
        self.through(|| context.api(), context)
    }

    /// Opens the API only after the file was opened and its header read.
    fn through(
        &self,
        open: impl FnOnce() -> anyhow::Result<ApiClient>,
        context: &Context,
    ) -> anyhow::Result<bool> {
        let file = (self.file != Path::new("-")).then_some(self.file.as_path());
        let (input, size): (Box<dyn BufRead>, u64) = match file {
            Some(path) => {
                let file =
                    File::open(path).with_context(|| format!("opening {}", path.display()))?;
                let size = file.metadata()?.len();
                (Box::new(BufReader::new(file)), size)
            }
            None => (Box::new(BufReader::new(std::io::stdin())), 0),
        };
        let mut rows = Rows::open(input, self.format, self.ignore_unknown, Clock::default().now())?;
        let api = open()?;
        let done = match file {
            Some(path) if !self.restart => resume(path, &api, &mut rows)?,
            _ => Done::default(),
        };
        let resumed = done != Done::default();
        let report =
            self.report.as_deref().map(|path| ImportReport::open(path, resumed)).transpose()?;
        let mut work = Work { api: &api, done, shown: Vec::new(), report };
        let bar = progress(size, context.json);
        if resumed {
            bar.suspend(|| eprintln!("continuing at line {}", rows.at().1));
        }
        let outcome = self.all(&mut work, &mut rows, file, &bar);
        bar.finish_and_clear();
        if let Err(error) = outcome {
            let again = if file.is_some() && work.done.rows() > 0 {
                "; repeat the command to continue from there"
            } else {
                ""
            };
            return Err(error.context(format!("after {} rows{again}", work.done.rows())));
        }
        ensure!(work.done.rows() > 0, "there are no rows below the header");
        if let Some(path) = file {
            Position::remove(path);
        }
        work.tell(context, self.report.as_deref())?;
        Ok(self.lenient || work.done.refused == 0)
    }

    fn all(
        &self,
        work: &mut Work<'_>,
        rows: &mut Rows,
        file: Option<&Path>,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        loop {
            let (batch, more) = self.batch(work, rows)?;
            work.hand_over(&batch)?;
            if let Some(report) = &mut work.report {
                report.out.flush()?;
            }
            let (offset, line) = rows.at();
            bar.set_position(offset);
            bar.set_message(format!("{} links", work.done.created + work.done.existing));
            if !more {
                return Ok(());
            }
            if let Some(path) = file {
                Position {
                    place: work.api.place().to_owned(),
                    offset,
                    line,
                    sha256: rows.digest(),
                    done: work.done,
                }
                .write(path)?;
            }
        }
    }

    /// The next rows to send, and whether there may be more after them.
    fn batch(&self, work: &mut Work<'_>, rows: &mut Rows) -> anyhow::Result<(Vec<Row>, bool)> {
        let (mut batch, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES && looked_at < 10 * BATCH {
            let before = rows.at().0;
            looked_at += 1;
            match rows.next().context("reading the file")? {
                None => return Ok((batch, false)),
                Some(RowResult::Link(mut row)) => {
                    match (&self.domain, self.no_domain) {
                        (Some(domain), _) => {
                            drop(row.body.insert("domain".into(), domain.as_str().into()));
                        }
                        (None, true) => drop(row.body.remove("domain")),
                        (None, false) => {}
                    }
                    bytes += usize::try_from(rows.at().0 - before)?;
                    batch.push(row);
                }
                Some(RowResult::Refused(refused)) => work.refuse(refused)?,
                Some(RowResult::Skipped(skipped)) => {
                    work.done.skipped += 1;
                    work.note(&skipped, "skipped")?;
                }
            }
        }
        Ok((batch, true))
    }
}

/// Where to start: at the first row, or where an interrupted import of the same file to the same
/// server stopped.
fn resume(path: &Path, api: &ApiClient, rows: &mut Rows) -> anyhow::Result<Done> {
    let Some(position) = Position::read(path)?.filter(|position| position.place == api.place())
    else {
        return Ok(Done::default());
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
    /// Sends rows until the server has accepted or refused each. Rows that a busy server did not
    /// take are sent again.
    fn hand_over(&mut self, batch: &[Row]) -> anyhow::Result<()> {
        let mut left: Vec<&Row> = batch.iter().collect();
        let mut attempt = 0;
        while !left.is_empty() {
            let body: Value = left.iter().map(|row| Value::Object(row.body.clone())).collect();
            let answer = self.api.call(&Method::POST, IMPORT, Some(&body))?;
            let mut busy = Vec::new();
            match answer.status {
                200 | 201 | 207 => busy = self.read(&left, &answer.body)?,
                429 | 500.. if attempt + 1 < ATTEMPTS => busy.clone_from(&left),
                _ => return Err(Problem::read(answer.status, &answer.body).into()),
            }
            left = busy;
            if !left.is_empty() {
                attempt += 1;
                ensure!(attempt < ATTEMPTS, "the server is too busy");
                let wait = answer
                    .retry_after
                    .unwrap_or(Duration::from_millis(100 << attempt))
                    .min(MAX_WAIT);
                std::thread::sleep(wait);
            }
        }
        Ok(())
    }

    /// Counts the results. Returns the rows that were neither accepted nor refused.
    fn read<'r>(&mut self, rows: &[&'r Row], body: &Value) -> anyhow::Result<Vec<&'r Row>> {
        let Some(results) = body
            .get("results")
            .and_then(Value::as_array)
            .filter(|results| results.len() == rows.len())
        else {
            bail!("the response does not cover every row: is this a terse server?");
        };
        let mut busy = Vec::new();
        for (place, result) in results.iter().enumerate() {
            let number = |name: &str| result.get(name).and_then(Value::as_u64);
            let index =
                number("index").and_then(|index| usize::try_from(index).ok()).unwrap_or(place);
            let row = *rows.get(index).context("the response names a row that was not sent")?;
            match number("status").unwrap_or_default() {
                201 => self.done.created += 1,
                200 => self.done.existing += 1,
                429 | 500..=599 => busy.push(row),
                status => {
                    let problem = Problem::read(
                        u16::try_from(status).unwrap_or(400),
                        result.get("problem").unwrap_or(&Value::Null),
                    );
                    let reason = format!("{} ({})", problem.detail, problem.code);
                    self.refuse(Refused {
                        line: row.line,
                        short_code: row.code(),
                        field: problem.field,
                        reason,
                    })?;
                }
            }
        }
        Ok(busy)
    }

    fn refuse(&mut self, refused: Refused) -> anyhow::Result<()> {
        self.done.refused += 1;
        self.note(&refused, "refused")?;
        if self.shown.len() < SHOWN {
            self.shown.push(refused);
        }
        Ok(())
    }

    fn note(&mut self, row: &Refused, outcome: &str) -> anyhow::Result<()> {
        self.report.as_mut().map_or(Ok(()), |report| report.write(row, outcome))
    }

    fn tell(&self, context: &Context, report: Option<&Path>) -> anyhow::Result<()> {
        let Done { created, existing, refused, skipped } = self.done;
        if context.json {
            return say(&json!({
                "created": created, "existing": existing, "refused": refused, "skipped": skipped,
                "refusals": self.shown, "report": report,
            })
            .to_string());
        }
        for row in &self.shown {
            let field = row.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
            let code = row.short_code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
            eprintln!(
                "line {}{}: {}",
                row.line,
                one_line(&code),
                one_line(&format!("{field}{}", row.reason))
            );
        }
        let hidden = refused.saturating_sub(self.shown.len() as u64);
        if hidden > 0 {
            let how = if report.is_some() { "" } else { "; --report FILE writes them all" };
            eprintln!("… and {hidden} more{how}");
        }
        say(&format!(
            "{created} created, {existing} already existed, {refused} refused, {skipped} skipped"
        ))
    }
}

/// The file of refused rows.
struct ImportReport {
    out: Box<dyn Write>,
    csv: bool,
}

impl ImportReport {
    fn open(path: &Path, append: bool) -> anyhow::Result<Self> {
        let csv = path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("csv"));
        let open =
            File::options().create(true).write(true).append(append).truncate(!append).open(path);
        let mut file = open.with_context(|| format!("opening {}", path.display()))?;
        if csv && file.metadata()?.len() == 0 {
            file.write_all(b"line,outcome,short_code,field,reason\n")?;
        }
        Ok(Self { out: Box::new(std::io::BufWriter::new(file)), csv })
    }

    fn write(&mut self, row: &Refused, outcome: &str) -> anyhow::Result<()> {
        if !self.csv {
            let mut line = json!(row);
            line["outcome"] = outcome.into();
            writeln!(self.out, "{line}")?;
            return Ok(());
        }
        let (code, field) = (
            row.short_code.as_deref().unwrap_or_default(),
            row.field.as_deref().unwrap_or_default(),
        );
        let mut writer = csv::Writer::from_writer(&mut self.out);
        writer.write_record([
            &row.line.to_string(),
            outcome,
            &guard(code),
            &guard(field),
            &guard(&row.reason),
        ])?;
        writer.flush()?;
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
#[path = "import_tests.rs"]
mod tests;
