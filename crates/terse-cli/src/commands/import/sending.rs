//! Sends rows to the server, and reads what became of each.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::Method;
use serde_json::Value;
use terse_core::import_file::{RejectedRow, Row};
use terse_core::{ImportRowConflict, ImportRowKey, SeenImportRows};

use crate::client::ApiClient;
use crate::problem::Problem;

/// How often a request to a busy server is repeated.
const ATTEMPTS: u32 = 8;
/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The results of the rows of a batch.
#[derive(Default)]
pub(super) struct Sent {
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
    rows.iter().map(key_of).collect()
}

/// A hash of what a row claims: its code, in lower case because look-alikes exclude each other, or
/// its target where the code will be generated.
fn key_of(row: &Row) -> u64 {
    let mut hasher = DefaultHasher::new();
    let text = |name: &str| row.body.get(name).and_then(Value::as_str);
    text("domain").hash(&mut hasher);
    match text("short_code") {
        Some(code) => code.to_ascii_lowercase().hash(&mut hasher),
        None => text("long_url").hash(&mut hasher),
    }
    hasher.finish()
}

/// Splits rows into rounds, so that no two rows of one round claim the same code or target.
fn rounds(rows: &[Row]) -> Vec<Vec<&Row>> {
    let (mut rounds, mut seen) = (Vec::<Vec<&Row>>::new(), HashMap::<u64, usize>::new());
    for row in rows {
        let round = seen.entry(key_of(row)).or_default();
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
) -> anyhow::Result<Sent> {
    let mut sent = Sent { importable: dry_run.then(Vec::new), ..Sent::default() };
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
    sent: &mut Sent,
) -> anyhow::Result<()> {
    let mut attempt = 0;
    while !left.is_empty() {
        let bodies: Vec<_> = left.iter().map(|row| &row.body).collect();
        let answer = api.call_with(&Method::POST, path, Some(serde_json::to_vec(&bodies)?))?;
        let mut busy = Vec::new();
        match answer.status {
            200 | 201 | 207 => busy = sent.read(&left, &answer.body)?,
            429 | 500.. if attempt + 1 < ATTEMPTS => busy.clone_from(&left),
            _ => return Err(Problem::read(answer.status, &answer.body).into()),
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

impl Sent {
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
            let status = number("status").unwrap_or_default();
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
                    let problem = Problem::read(
                        u16::try_from(status).unwrap_or(400),
                        result.get("problem").unwrap_or(&Value::Null),
                    );
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
