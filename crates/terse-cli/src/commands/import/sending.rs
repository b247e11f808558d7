//! Sends rows to the server, and reads what became of each.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::Method;
use serde_json::Value;
use terse_core::import_file::{RejectedRow, Row, RowAnswer, answers_in, request_of};
use terse_core::{ImportRowConflict, ImportRowKey, SeenImportRows};

use crate::client::{ApiClient, parse};
use crate::problem::Problem;

/// How often a request to a busy server is repeated.
const ATTEMPTS: u32 = 8;
/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The results of the rows of a batch.
#[derive(Default)]
pub(super) struct SentRows {
    pub(super) created: u64,
    pub(super) existing: u64,
    pub(super) refused: Vec<RejectedRow>,
    /// The rows that a dry run found importable.
    importable: Option<Vec<Importable>>,
}

/// A row of a dry run that the server would import if it were the only one.
struct Importable {
    line: u64,
    short_code: Option<String>,
    claim: ImportRowKey,
    is_new: bool,
}

/// Hashes of what rows claim.
pub(super) fn keys_of(rows: &[Row]) -> HashSet<u64> {
    rows.iter().map(Row::claim).collect()
}

/// Splits rows into rounds, so that no two rows of one round claim the same code or target.
fn rounds(rows: &[Row]) -> Vec<Vec<&Row>> {
    let (mut rounds, mut seen) = (Vec::<Vec<&Row>>::new(), HashMap::<u64, usize>::new());
    for row in rows {
        let round = seen.entry(row.claim()).or_default();
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push(row);
        *round += 1;
    }
    rounds
}

/// Sends rows until the server has accepted or refused each. Rows that a busy server did not take
/// are sent again.
pub(super) fn send(
    api: &ApiClient,
    path: &str,
    dry_run: bool,
    rows: &[Row],
) -> anyhow::Result<SentRows> {
    let mut sent = SentRows { importable: dry_run.then(Vec::new), ..SentRows::default() };
    // A dry run compares rows of one file itself: the server does not know which earlier rows would
    // be refused.
    let rounds = if dry_run { rounds(rows) } else { vec![rows.iter().collect()] };
    for round in rounds {
        send_round(api, path, round, &mut sent)?;
    }
    Ok(sent)
}

fn send_round(
    api: &ApiClient,
    path: &str,
    mut left: Vec<&Row>,
    sent: &mut SentRows,
) -> anyhow::Result<()> {
    let mut attempt = 0;
    while !left.is_empty() {
        let answer = api.call_raw(&Method::POST, path, Some(request_of(&left)))?;
        let mut busy = Vec::new();
        match answer.status {
            200 | 201 | 207 => busy = sent.read(&left, &answer.body)?,
            429 | 500.. if attempt + 1 < ATTEMPTS => busy.clone_from(&left),
            status => return Err(Problem::read(status, &parse(status, &answer.body)?).into()),
        }
        left = busy;
        if !left.is_empty() {
            attempt += 1;
            ensure!(attempt < ATTEMPTS, "the server is too busy");
            let wait =
                answer.retry_after.unwrap_or(Duration::from_millis(100 << attempt)).min(MAX_WAIT);
            std::thread::sleep(wait);
        }
    }
    Ok(())
}

impl SentRows {
    /// Counts the results. Returns the rows that were neither accepted nor refused.
    fn read<'r>(&mut self, rows: &[&'r Row], body: &[u8]) -> anyhow::Result<Vec<&'r Row>> {
        let Some(answers) = answers_in(body).filter(|answers| answers.len() == rows.len()) else {
            bail!("the response does not cover every row: is this a terse server?");
        };
        let mut busy = Vec::new();
        for (place, RowAnswer { index, status, problem }) in answers.into_iter().enumerate() {
            let index = index.unwrap_or(place);
            let row = *rows.get(index).context("the response names a row that was not sent")?;
            if let (Some(importable), 200 | 201) = (&mut self.importable, status) {
                let (short_code, is_new) = (row.code(), status == 201);
                importable.extend(claim_of(row).map(|claim| Importable {
                    line: row.line,
                    short_code,
                    claim,
                    is_new,
                }));
            }
            match status {
                201 => self.created += 1,
                200 => self.existing += 1,
                429 | 500..=599 => busy.push(row),
                status => {
                    let problem = Problem::read(status, &problem);
                    self.refused.push(RejectedRow {
                        line: row.line,
                        short_code: row.code(),
                        field: problem.field,
                        reason: format!("{} ({})", problem.detail, problem.code),
                    });
                }
            }
        }
        Ok(busy)
    }

    /// Corrects the result of a dry run for rows that repeat or contradict an earlier row of the
    /// file, which the server does not know.
    pub(super) fn after_earlier_rows(&mut self, claims: &mut SeenImportRows) {
        let Some(mut importable) = self.importable.take() else { return };
        importable.sort_by_key(|row| row.line);
        for row in importable {
            let clash = claims.add(row.claim);
            if clash == ImportRowConflict::None || clash == ImportRowConflict::Same && !row.is_new {
                continue;
            }
            *(if row.is_new { &mut self.created } else { &mut self.existing }) -= 1;
            if clash == ImportRowConflict::Same {
                self.existing += 1;
                continue;
            }
            self.refused.push(RejectedRow {
                line: row.line,
                short_code: row.short_code,
                field: Some("short_code".to_owned()),
                reason: "an earlier row has this code (alias_taken)".to_owned(),
            });
        }
        self.refused.sort_by_key(|row| row.line);
    }
}

/// What a row occupies, as the server would compare it: without the fields in which two rows for
/// the same link may differ.
fn claim_of(row: &Row) -> Option<ImportRowKey> {
    let text = |name: &str| row.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let target = text("long_url").trim();
    let target = url::Url::parse(target).map_or_else(|_| target.to_owned(), String::from);
    match row.code() {
        Some(code) => Some(ImportRowKey::of_code(text("domain"), &code, &target)),
        None if row.body.get("reuse") == Some(&Value::Bool(false)) => None,
        None => {
            let mut body = row.body.clone();
            body.insert("long_url".into(), target.into());
            for name in ["created_at", "imported_clicks"] {
                body.remove(name);
            }
            Some(ImportRowKey::of_content(Value::from(body).to_string()))
        }
    }
}
