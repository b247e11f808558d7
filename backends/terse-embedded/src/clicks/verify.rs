//! Backup and verification of the clicks file.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Row};
use terse_core::clicks::Count;

use crate::backup::{self, BackupError};
use crate::clicks::bucket::of_hour_id;
use crate::clicks::queries::ClickQueries;
use crate::clicks::schema::CLICKS;
use crate::clicks::sum::{Slot, Sum, count};
use crate::engine::{DbLocation, connect_reader};
use crate::failure::Failure;
use crate::options::EmbeddedOpenError;
use crate::verify::{Problems, check_pages};

/// Days since 1970, far beyond today.
const ALL_DAYS: (i64, i64) = (0, 1 << 20);

/// The result of a verification.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClickFileCheck {
    /// The number of links with clicks.
    pub links: u64,
    /// The number of counted clicks of links.
    pub clicks: u64,
    /// The number of stored raw clicks.
    pub raw: u64,
    /// The problems that were found.
    pub problems: Problems,
}

impl ClickFileCheck {
    /// Whether there are no problems.
    pub fn is_clean(&self) -> bool {
        self.problems.count == 0
    }
}

/// Copies a clicks file as it is now into a new file, even while another process has it open. The
/// copy leaves out the salts of the last days: it may be kept for years, and with them it could
/// identify visitors.
pub fn backup_clicks(db: &Path, to: &Path) -> Result<(), BackupError> {
    backup::backup_without(db, to, "PRAGMA secure_delete = ON; DELETE FROM salts")
}

/// Finished days are in runs since this version of the file.
const FIRST_VERSION_WITH_RUNS: i64 = 9;
/// Links are found by lists of keys since this version of the file.
const FIRST_VERSION_WITH_KEYS: i64 = 10;

/// Checks that this is a clicks file of terse, of a version that this terse knows. Works while the
/// store is in use.
pub fn inspect_clicks(db: &Path) -> Result<(), EmbeddedOpenError> {
    version_of(db).map(|_| ())
}

fn version_of(db: &Path) -> Result<i64, EmbeddedOpenError> {
    match CLICKS.inspect(&connect_reader(&DbLocation::at(db))?, db)? {
        0 => Err(EmbeddedOpenError::NotTerse(db.to_owned())),
        version => Ok(version),
    }
}

/// Checks every page, every index and every sum, and that the sums of each subject match. Works
/// while the store is in use. Of a file of an earlier version, such as an older backup, it checks
/// the pages, and what those versions had in the same tables.
pub fn verify_clicks(db: &Path) -> Result<ClickFileCheck, EmbeddedOpenError> {
    let version = version_of(db)?;
    let conn = connect_reader(&DbLocation::at(db))?;
    // One transaction, so that all queries read the same state.
    conn.execute_batch("BEGIN")?;
    let mut report = ClickFileCheck::default();
    check_pages(&conn, &mut |problem| report.problems.add(problem))?;
    if version < FIRST_VERSION_WITH_RUNS {
        return Ok(report);
    }
    let subjects = "SELECT id, people, machines, sum, kind FROM subjects";
    check_sums(&conn, &mut report, subjects, |row| Ok(Slot::Ever { subject: row.get(0)? }))?;
    let hours = "SELECT hour, people, machines, sum, day, subject FROM hours";
    check_sums(&conn, &mut report, hours, |row| {
        Ok(Slot::Hour {
            subject: row.get(5)?,
            hour: row.get::<_, i64>(4)? * 24 + row.get::<_, i64>(0)?,
        })
    })?;
    let days = "SELECT day, people, machines, sum, subject FROM days";
    check_sums(&conn, &mut report, days, |row| {
        Ok(Slot::Day { subject: row.get(4)?, day: row.get(0)? })
    })?;
    let queries = ClickQueries::new(conn);
    check_totals(&queries, &mut report);
    check_blocks(&queries, &mut report)?;
    check_runs(&queries, &mut report)?;
    if version >= FIRST_VERSION_WITH_KEYS && !queries.are_keys_missing()? {
        check_keys(&queries, &mut report)?;
    }
    Ok(report)
}

fn check_sums(
    conn: &Connection,
    report: &mut ClickFileCheck,
    sql: &str,
    slot: impl Fn(&Row<'_>) -> rusqlite::Result<Slot>,
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    loop {
        match rows.next() {
            Ok(None) => return Ok(()),
            Ok(Some(row)) => {
                let slot = slot(row)?;
                let mut sum = Sum::default();
                let merged = match slot {
                    Slot::Ever { .. } => sum.merge_ever(row, 3, slot),
                    _ => sum.merge_row(row, 1, slot),
                };
                match merged {
                    Ok(()) => {}
                    Err(Failure::Engine(error)) => return Err(error),
                    Err(failure) => report.problems.add(failure.to_string()),
                }
                if let Slot::Ever { .. } = slot
                    && row.get::<_, i64>(4)? == 0
                {
                    report.links += 1;
                    report.clicks += count(row, 1).map(Count::all)?;
                }
            }
            Err(error) => {
                // The rest of the table is unreachable.
                report.problems.add(error.to_string());
                return Ok(());
            }
        }
    }
}

/// Checks that every block can be read and holds clicks of known links only.
fn check_blocks(queries: &ClickQueries, report: &mut ClickFileCheck) -> rusqlite::Result<()> {
    let all = |sql: &str| -> rusqlite::Result<Vec<i64>> {
        queries.conn.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
    };
    let known: HashSet<i64> =
        all("SELECT id FROM subjects UNION ALL SELECT subject FROM erased_subjects")?
            .into_iter()
            .collect();
    for id in all("SELECT id FROM blocks")? {
        match queries.read_block(id) {
            Ok((block, _)) => {
                report.raw += block.len() as u64;
                if !block.subjects.iter().all(|subject| known.contains(subject)) {
                    report.problems.add(format!("the block {id} holds clicks of unknown links"));
                }
            }
            Err(Failure::Engine(error)) => return Err(error),
            Err(failure) => report.problems.add(failure.to_string()),
        }
    }
    Ok(())
}

/// Checks that every chunk of every run can be read, has the ids that it should have, and holds
/// sums of known subjects only.
fn check_runs(queries: &ClickQueries, report: &mut ClickFileCheck) -> rusqlite::Result<()> {
    match runs_with_problems(queries, report) {
        Ok(problems) => problems.into_iter().for_each(|problem| report.problems.add(problem)),
        Err(Failure::Engine(error)) => return Err(error),
        Err(failure) => report.problems.add(failure.to_string()),
    }
    Ok(())
}

fn runs_with_problems(
    queries: &ClickQueries,
    report: &mut ClickFileCheck,
) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    let mut kind = queries.conn.prepare("SELECT kind FROM subjects WHERE id = ?1")?;
    let mut erased = queries.conn.prepare("SELECT 1 FROM erased_subjects WHERE subject = ?1")?;
    let runs = queries.runs()?;
    for run in runs.all() {
        let begin = runs.begin(run);
        for at in run.chunks_in(begin, i64::MAX) {
            let ids = run.chunks[at];
            let read = queries.run_heads(run.id, at).and_then(|heads| {
                let bodies = queries.run_bodies(run.id, at)?;
                Ok((heads, bodies))
            });
            let (heads, bodies) = match read {
                Ok(read) => read,
                Err(Failure::Refused(error)) => {
                    problems.push(Failure::Refused(error).to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            for head in heads {
                let (day, subject, hour) = run.place(head.id);
                let is_there = (ids.first..=ids.last).contains(&head.id);
                if !is_there || bodies.delta(&head, day * 24 + hour).is_none() {
                    problems.push(format!("the run {} has a sum that is damaged", run.id));
                }
                let kind: Option<i64> = kind.query_row([subject], |row| row.get(0)).optional()?;
                // The clicks of finished days are in the rows of their subjects.
                if kind == Some(0) && head.id >= begin && !run.is_finished() {
                    report.clicks += head.clicks.all();
                }
                if kind.is_none() && !erased.exists([subject])? {
                    problems.push(format!("the run {} has sums of unknown subjects", run.id));
                }
            }
        }
    }
    Ok(problems)
}

/// Checks that every link is found by its name and by its owner, and that nothing else is.
fn check_keys(queries: &ClickQueries, report: &mut ClickFileCheck) -> rusqlite::Result<()> {
    match queries.has_right_keys() {
        Ok(true) => {}
        Ok(false) => {
            report.problems.add("the keys that find links do not fit the links".to_owned());
        }
        Err(Failure::Engine(error)) => return Err(error),
        Err(failure) => report.problems.add(failure.to_string()),
    }
    Ok(())
}

/// How many subjects have totals that are not the sum of their hours and days, in rows, in blocks
/// and in runs of finished days. `differences` reads what is not in rows.
fn wrong_sums(queries: &ClickQueries, differences: &str) -> Result<usize, Failure> {
    let mut in_blocks: HashMap<i64, (i64, i64)> = HashMap::new();
    queries.each_delta(i64::MIN, i64::MAX, |delta| {
        delta.add_to(&mut Sum::default())?;
        let (_, subject, _) = of_hour_id(delta.id);
        let (humans, bots) = in_blocks.entry(subject).or_default();
        *humans += delta.clicks.humans.cast_signed();
        *bots += delta.clicks.bots.cast_signed();
        Ok(())
    })?;
    let finished =
        match queries.runs().and_then(|runs| queries.all_finished(&runs, ALL_DAYS, |_, _| true)) {
            // The check of the runs reports it.
            Err(Failure::Refused(_)) => HashMap::new(),
            finished => finished?,
        };
    for (subject, clicks) in finished {
        let (humans, bots) = in_blocks.entry(subject).or_default();
        *humans += clicks.humans.cast_signed();
        *bots += clicks.bots.cast_signed();
    }
    let mut exists = queries.conn.prepare("SELECT 1 FROM subjects WHERE id = ?1")?;
    let mut statement = queries.conn.prepare(differences)?;
    let mut rows = statement.query([])?;
    let mut wrong = 0;
    while let Some(row) = rows.next()? {
        let difference = (row.get(1)?, row.get(2)?);
        wrong += usize::from(in_blocks.remove(&row.get(0)?) != Some(difference));
    }
    for (subject, left) in in_blocks {
        // Those of an erased subject are never read.
        wrong += usize::from(left != (0, 0) && exists.exists([subject])?);
    }
    Ok(wrong)
}

/// Checks that each subject's total is the sum of its hours and days, and that no rows belong to a
/// subject that does not exist.
fn check_totals(queries: &ClickQueries, report: &mut ClickFileCheck) {
    let conn = &queries.conn;
    // One pass over each table; a join of all subjects with all sums would be quadratic.
    let sums = "SELECT * FROM (SELECT subject, sum(people) AS people, sum(machines) AS machines \
        FROM ( \
         SELECT id AS subject, people, machines FROM subjects \
         UNION ALL SELECT subject, -people, -machines FROM hours WHERE id >= \
             (SELECT value FROM meta WHERE name = 'folded_to') \
         UNION ALL SELECT subject, -people, -machines FROM days) GROUP BY subject) WHERE people \
         <> 0 OR machines <> 0";
    let lost = "SELECT count(*) FROM (SELECT DISTINCT subject FROM clicks) WHERE subject NOT IN \
        (SELECT id FROM subjects)";
    match wrong_sums(queries, sums) {
        Ok(0) => {}
        Ok(count) => {
            report.problems.add(format!("{count} subjects whose sums do not fit together"));
        }
        Err(failure) => report.problems.add(failure.to_string()),
    }
    for (what, sql) in [("subjects of raw clicks do not exist", lost)] {
        match conn.query_row(sql, [], |row| row.get::<_, i64>(0)) {
            Ok(0) => {}
            Ok(count) => report.problems.add(format!("{count} {what}")),
            Err(error) => report.problems.add(error.to_string()),
        }
    }
    match conn.query_row("SELECT count(*) FROM clicks", [], |row| row.get::<_, i64>(0)) {
        Ok(raw) => report.raw += raw.cast_unsigned(),
        Err(error) => report.problems.add(error.to_string()),
    }
}
