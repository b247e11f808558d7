//! Imports of whole files for the dashboard: a dry run first, then the import itself, each in a
//! task of its own with its progress.
//!
//! A file and its progress are in the memory of one node, one file per account. An interrupted
//! import can be repeated: rows that were imported are recognised.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};

use super::{
    Created, ImportLink, ImportPreview, ImportRowKey, LinkCreation, LinkError, SeenImportRows,
};
use crate::clock::Clock;
use crate::import_file::{ImportFileError, RejectedRow, Row, RowResult, Rows, Source};
use crate::link::OwnerId;
use crate::principal::{AccessError, Principal};
use crate::registry::Role;
use crate::time::Timestamp;
use crate::validation::ValidationErrorKind;

/// The largest file, in bytes. Larger ones are for `terse import`.
pub const MAX_IMPORT_FILE: usize = 16 << 20;
/// How many files a node holds.
const MAX_IMPORTS: usize = 4;
/// How long a file and its result are kept after the last step.
const KEPT: Duration = Duration::from_secs(3600);
/// How many rows are worked on at a time.
const BATCH: usize = 200;
/// How many refused rows are kept for the report. Further ones are counted.
const MAX_REFUSED: usize = 10_000;
/// How many rows the page shows.
const SAMPLES: usize = 10;
/// How often a row that the store did not take is tried again.
const ATTEMPTS: u32 = 5;

/// What the account chose for a file.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Put every link on this domain, whatever the file says; empty for the primary one.
    pub domain: Option<String>,
}

/// How far an import is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ImportPhase {
    /// The dry run is under way.
    Checking,
    /// The dry run has ended: this would happen.
    Checked,
    /// The import is under way.
    Importing,
    /// The import has ended.
    Done,
    /// The import stopped, and why.
    Failed(String),
}

/// One of the first rows of a file.
#[derive(Clone, Debug)]
pub struct SampleRow {
    /// Its code, if it has one.
    pub code: Option<String>,
    /// Its target.
    pub target: String,
    /// Its title.
    pub title: Option<String>,
}

/// The progress of an import.
#[derive(Clone, Debug)]
pub struct ImportProgress {
    /// How far it is.
    pub phase: ImportPhase,
    /// The shortener that wrote the file, if its columns show that.
    pub source: Option<&'static str>,
    /// The columns that the import uses, each with what it becomes.
    pub used: BTreeMap<String, &'static str>,
    /// The columns that it does not use.
    pub unused: Vec<String>,
    /// How many links the file holds and how many its shortener had, if these differ.
    pub partial: Option<(usize, u64)>,
    /// How many bytes of the file are done, and how many it has.
    pub bytes: (u64, u64),
    /// Links that were, or would be, created.
    pub created: u64,
    /// Links that already existed.
    pub existing: u64,
    /// Rows that were, or would be, refused.
    pub refused: u64,
    /// Rows that are skipped on purpose.
    pub skipped: u64,
    /// The first links of the file.
    pub sample: Vec<SampleRow>,
    /// The refused and skipped rows, each with its outcome; at most ten thousand.
    pub report: Vec<(RejectedRow, &'static str)>,
}

impl ImportProgress {
    fn new(phase: ImportPhase, size: u64) -> Self {
        Self {
            phase,
            source: None,
            used: BTreeMap::new(),
            unused: Vec::new(),
            partial: None,
            bytes: (0, size),
            created: 0,
            existing: 0,
            refused: 0,
            skipped: 0,
            sample: Vec::new(),
            report: Vec::new(),
        }
    }

    /// How many rows are done.
    pub fn rows(&self) -> u64 {
        self.created + self.existing + self.refused + self.skipped
    }

    /// Whether a task works on it.
    pub fn is_running(&self) -> bool {
        matches!(self.phase, ImportPhase::Checking | ImportPhase::Importing)
    }

    fn leave_out(&mut self, row: RejectedRow, outcome: &'static str) {
        *(if outcome == "skipped" { &mut self.skipped } else { &mut self.refused }) += 1;
        if self.report.len() < MAX_REFUSED {
            self.report.push((row, outcome));
        }
    }
}

/// Why a step of an import is not possible.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The caller's role does not permit it.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] ImportFileError),
    /// An import of the account is under way.
    #[error("an import is under way; wait until it has ended")]
    Busy,
    /// This node holds as many files as it may.
    #[error("other accounts import files now; try again later")]
    Full,
    /// The account has no file here that was checked.
    #[error("there is no checked file; upload it again")]
    NoFile,
}

/// The imports of this node.
pub struct Imports {
    creation: Arc<LinkCreation>,
    clock: Clock,
    jobs: Mutex<HashMap<OwnerId, ImportJob>>,
}

struct ImportJob {
    file: Arc<[u8]>,
    options: ImportOptions,
    progress: Arc<Mutex<ImportProgress>>,
    touched: Timestamp,
    task: JoinHandle<()>,
}

impl Drop for ImportJob {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A lock that a panic of another thread does not take away.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Imports {
    /// Wires the service.
    pub fn new(creation: Arc<LinkCreation>, clock: Clock) -> Self {
        Self { creation, clock, jobs: Mutex::default() }
    }

    /// Takes a file, reads its header and begins the dry run. Replaces an earlier file of the
    /// account whose import has ended. Only for admins. Call it inside of a runtime.
    pub fn check(
        &self,
        principal: &Principal,
        file: Vec<u8>,
        options: ImportOptions,
    ) -> Result<(), ImportError> {
        principal.require(Role::Admin)?;
        let (owner, now) = (principal.owner(), self.clock.now());
        let mut jobs = locked(&self.jobs);
        jobs.retain(|_, job| {
            locked(&job.progress).is_running() || job.touched > now.saturating_sub(KEPT)
        });
        if jobs.get(&owner).is_some_and(|job| locked(&job.progress).is_running()) {
            return Err(ImportError::Busy);
        }
        if jobs.len() >= MAX_IMPORTS && !jobs.contains_key(&owner) {
            return Err(ImportError::Full);
        }
        let job = self.job(principal, file.into(), options, ImportPhase::Checking)?;
        jobs.insert(owner, job);
        Ok(())
    }

    /// Imports the file that was checked. Only for admins.
    pub fn start(&self, principal: &Principal) -> Result<(), ImportError> {
        principal.require(Role::Admin)?;
        let mut jobs = locked(&self.jobs);
        let job = jobs.get_mut(&principal.owner()).ok_or(ImportError::NoFile)?;
        let phase = locked(&job.progress).phase.clone();
        match phase {
            ImportPhase::Checked | ImportPhase::Failed(_) => {}
            ImportPhase::Checking | ImportPhase::Importing => return Err(ImportError::Busy),
            ImportPhase::Done => return Err(ImportError::NoFile),
        }
        let (file, options) = (Arc::clone(&job.file), job.options.clone());
        *job = self.job(principal, file, options, ImportPhase::Importing)?;
        Ok(())
    }

    /// Forgets the file of the account, and stops what is under way. What was imported stays.
    pub fn discard(&self, principal: &Principal) {
        locked(&self.jobs).remove(&principal.owner());
    }

    /// The progress of the account's import; `None` without one on this node.
    pub fn progress(&self, principal: &Principal) -> Option<ImportProgress> {
        principal.require(Role::Admin).ok()?;
        let jobs = locked(&self.jobs);
        let mut progress = locked(&jobs.get(&principal.owner())?.progress).clone();
        // Of each batch, rows that cannot be read are refused first.
        progress.report.sort_by_key(|(row, _)| row.line);
        Some(progress)
    }

    fn job(
        &self,
        principal: &Principal,
        file: Arc<[u8]>,
        options: ImportOptions,
        phase: ImportPhase,
    ) -> Result<ImportJob, ImportError> {
        let now = self.clock.now();
        let rows = Rows::open(Box::new(Cursor::new(Arc::clone(&file))), None, true, now)?;
        let progress = ImportProgress::new(phase.clone(), file.len() as u64);
        let progress = Arc::new(Mutex::new(progress));
        let run = Run {
            creation: Arc::clone(&self.creation),
            principal: principal.clone(),
            domain: options.domain.clone(),
            dry: phase == ImportPhase::Checking,
            progress: Arc::clone(&progress),
        };
        let task = tokio::spawn(async move {
            let end = match run.all(rows).await {
                Ok(()) if run.dry => ImportPhase::Checked,
                Ok(()) => ImportPhase::Done,
                Err(why) => ImportPhase::Failed(why),
            };
            locked(&run.progress).phase = end;
        });
        Ok(ImportJob { file, options, progress, touched: now, task })
    }
}

/// What the task of an import needs.
struct Run {
    creation: Arc<LinkCreation>,
    principal: Principal,
    domain: Option<String>,
    dry: bool,
    progress: Arc<Mutex<ImportProgress>>,
}

/// The result of one row.
type RowOutcome = Result<(ImportPreview, Option<ImportRowKey>), LinkError>;

impl Run {
    /// Goes through all rows. The error says why the rest of the file was not read.
    async fn all(&self, mut rows: Rows) -> Result<(), String> {
        let mut seen = SeenImportRows::default();
        loop {
            let (batch, last) = self.next_batch(&mut rows)?;
            if self.dry {
                for round in rounds(batch) {
                    self.preview(round, &mut seen).await?;
                }
            } else {
                self.import(batch).await?;
            }
            self.note_file(&rows, last);
            if last {
                break;
            }
        }
        match locked(&self.progress).rows() {
            0 => Err("there are no rows below the header".to_owned()),
            _ => Ok(()),
        }
    }

    fn note_file(&self, rows: &Rows, last: bool) {
        let mut progress = locked(&self.progress);
        let size = progress.bytes.1;
        progress.bytes.0 = if last { size } else { rows.at().0.min(size) };
        progress.source = rows.source().map(Source::name);
        progress.used.clone_from(rows.used());
        progress.unused = rows.unused().iter().cloned().collect();
        progress.partial = rows.partial();
    }

    /// The next links of the file, and whether it ends with them.
    fn next_batch(&self, rows: &mut Rows) -> Result<(Vec<(Row, ImportLink)>, bool), String> {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH {
            let read =
                rows.next_links().map_err(|error| format!("the file ended early: {error}"))?;
            let Some(results) = read else { return Ok((batch, true)) };
            for result in results {
                match result {
                    RowResult::Link(row) => batch.extend(self.parse(row)),
                    RowResult::Refused(row) => locked(&self.progress).leave_out(row, "refused"),
                    RowResult::Skipped(row) => locked(&self.progress).leave_out(row, "skipped"),
                }
            }
        }
        Ok((batch, false))
    }

    /// The link of a row. A row with a value of the wrong type is refused.
    fn parse(&self, mut row: Row) -> Option<(Row, ImportLink)> {
        match self.domain.as_deref() {
            Some("") => drop(row.body.remove("domain")),
            Some(domain) => drop(row.body.insert("domain".to_owned(), domain.into())),
            None => {}
        }
        let mut progress = locked(&self.progress);
        match serde_json::from_value::<ImportLink>(Value::Object(row.body.clone())) {
            Ok(link) => {
                if progress.sample.len() < SAMPLES {
                    let title = row.body.get("title").and_then(Value::as_str).map(str::to_owned);
                    let code = link.short_code().map(str::to_owned);
                    let target = link.long_url().to_owned();
                    progress.sample.push(SampleRow { code, target, title });
                }
                Some((row, link))
            }
            Err(error) => {
                let (line, short_code) = (row.line, row.code());
                let reason = error.to_string();
                progress
                    .leave_out(RejectedRow { line, short_code, field: None, reason }, "refused");
                None
            }
        }
    }

    /// Imports rows, each after those before it. Rows that the store does not take are tried again
    /// for a while.
    async fn import(&self, rows: Vec<(Row, ImportLink)>) -> Result<(), String> {
        let mut seen = SeenImportRows::default();
        let mut left: Vec<_> = rows
            .into_iter()
            .map(|(row, link)| (row, link.created_at(), link.into_link()))
            .collect();
        for attempt in 1.. {
            let wanted = left.iter().filter_map(|(_, created_at, link)| {
                Some((link.clone(), *created_at.as_ref().ok()?))
            });
            let imported = self.creation.import(&self.principal, wanted.collect()).await;
            let mut imported = imported.map_err(|error| error.to_string())?.into_iter();
            let mut again = Vec::new();
            for (row, created_at, link) in left {
                let outcome = match &created_at {
                    Ok(_) => imported.next().expect("one answer for each row"),
                    Err(error) => Err(error.clone().into()),
                };
                let preview = |made: Created| match made.new {
                    true => (ImportPreview::New, None),
                    false => (ImportPreview::Existing, None),
                };
                match outcome {
                    Err(LinkError::Store(_)) if attempt < ATTEMPTS => {
                        again.push((row, created_at, link));
                    }
                    outcome => self.record(&row, outcome.map(preview), &mut seen)?,
                }
            }
            left = again;
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
        }
        Ok(())
    }

    /// Previews rows that claim different links, all at a time.
    async fn preview(
        &self,
        rows: Vec<(Row, ImportLink)>,
        seen: &mut SeenImportRows,
    ) -> Result<(), String> {
        let mut tasks = JoinSet::new();
        for (place, (row, link)) in rows.into_iter().enumerate() {
            let (creation, principal) = (Arc::clone(&self.creation), self.principal.clone());
            tasks.spawn(async move { (place, row, preview(&creation, &principal, link).await) });
        }
        let mut outcomes = Vec::with_capacity(tasks.len());
        while let Some(joined) = tasks.join_next().await {
            outcomes.push(joined.map_err(|_| "a task of the import failed".to_owned())?);
        }
        outcomes.sort_by_key(|(place, ..)| *place);
        for (_, row, outcome) in outcomes {
            self.record(&row, outcome, seen)?;
        }
        Ok(())
    }

    /// Counts the outcome of a row.
    fn record(
        &self,
        row: &Row,
        outcome: RowOutcome,
        seen: &mut SeenImportRows,
    ) -> Result<(), String> {
        let mut progress = locked(&self.progress);
        let refused = |field: Option<String>, reason: String| {
            let (line, short_code) = (row.line, row.code());
            RejectedRow { line, short_code, field, reason }
        };
        let outcome = outcome.and_then(|(preview, row)| Ok(seen.preview(preview, row)?));
        match outcome {
            Ok(ImportPreview::Existing) => progress.existing += 1,
            Ok(ImportPreview::New) => progress.created += 1,
            Err(LinkError::Refused(error)) => {
                let field = match (error.field.as_ref(), error.kind) {
                    ("custom_alias", _) | (_, ValidationErrorKind::AliasTaken) => "short_code",
                    (field, _) => field,
                };
                let reason = error.detail.to_string();
                progress.leave_out(refused(Some(field.to_owned()), reason), "refused");
            }
            Err(error) => return Err(format!("the server could not go on: {error}")),
        }
        Ok(())
    }
}

/// Previews one row. A row that the store does not answer is tried again for a while.
async fn preview(creation: &LinkCreation, principal: &Principal, link: ImportLink) -> RowOutcome {
    link.created_at()?;
    let link = link.into_link();
    for attempt in 1.. {
        match creation.preview_import(principal, link.clone()).await {
            Err(LinkError::Store(_)) if attempt < ATTEMPTS => {
                tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
            }
            outcome => return outcome,
        }
    }
    unreachable!("the last attempt returns")
}

/// Splits rows into rounds, so that no two rows of one round claim the same code or target.
fn rounds(rows: Vec<(Row, ImportLink)>) -> Vec<Vec<(Row, ImportLink)>> {
    let mut rounds = Vec::<Vec<(Row, ImportLink)>>::new();
    let mut seen = HashMap::<String, usize>::new();
    for (row, link) in rows {
        let round = seen.entry(link.claim()).or_default();
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push((row, link));
        *round += 1;
    }
    rounds
}
