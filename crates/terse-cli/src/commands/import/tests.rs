use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser as _;
use http::StatusCode;
use serde_json::Value;

use super::*;
use crate::commands::export::ExportArgs;

/// The part of the API that an import and an export need.
#[derive(Clone, Default)]
struct Api {
    links: Arc<Mutex<BTreeMap<String, Value>>>,
    batches: Arc<Mutex<Vec<usize>>>,
    /// Statuses to answer with before the first success.
    busy: Arc<Mutex<Vec<u16>>>,
    /// Rows from this number on fail permanently.
    full_at: Option<usize>,
    /// The largest number of calls at a time so far, and the present one.
    together: Arc<Mutex<(usize, usize)>>,
}

async fn import(
    State(api): State<Api>,
    Query(query): Query<BTreeMap<String, String>>,
    Json(rows): Json<Vec<Value>>,
) -> (StatusCode, Json<Value>) {
    {
        let mut together = api.together.lock().unwrap();
        together.1 += 1;
        together.0 = together.0.max(together.1);
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let answer = answer(&api, query.get("dry_run").is_some_and(|word| word == "true"), rows);
    api.together.lock().unwrap().1 -= 1;
    answer
}

fn answer(api: &Api, dry_run: bool, rows: Vec<Value>) -> (StatusCode, Json<Value>) {
    if let Some(status) = api.busy.lock().unwrap().pop() {
        return (StatusCode::from_u16(status).unwrap(), Json(json!({"detail": "busy"})));
    }
    let mut links = api.links.lock().unwrap();
    let number = |row: &Value| row["short_code"].as_str()?.strip_prefix("code")?.parse().ok();
    if api.full_at.is_some_and(|full| rows.iter().filter_map(number).any(|n: usize| n >= full)) {
        return (StatusCode::FORBIDDEN, Json(json!({"code": "full", "detail": "no more"})));
    }
    api.batches.lock().unwrap().push(rows.len());
    let take = |(index, row): (usize, Value)| {
        let code = row["short_code"].as_str().unwrap_or_default().to_owned();
        if !row["long_url"].as_str().unwrap_or_default().starts_with("https://") {
            let problem =
                json!({"code": "invalid_url", "detail": "not a URL", "field": "long_url"});
            return json!({"index": index, "status": 400, "problem": problem});
        }
        if dry_run {
            return json!({"index": index, "status": 201});
        }
        match links.insert(code, row) {
            None => json!({"index": index, "status": 201}),
            Some(_) => json!({"index": index, "status": 200}),
        }
    };
    let results: Vec<Value> = rows.into_iter().enumerate().map(take).collect();
    (StatusCode::MULTI_STATUS, Json(json!({ "results": results })))
}

async fn list(
    State(api): State<Api>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Json<Value> {
    let links = api.links.lock().unwrap();
    let limit: usize = query["limit"].parse().unwrap();
    assert_eq!(query.get("sort").map(String::as_str), Some("created_at"));
    let after = query.get("cursor").cloned().unwrap_or_default();
    let page: Vec<&Value> = links.range(after..).map(|(_, link)| link).take(limit + 1).collect();
    let next = page.get(limit).map(|link| link["short_code"].clone());
    Json(json!({ "links": &page[..page.len().min(limit)], "next_cursor": next }))
}

struct Bench {
    temp: tempfile::TempDir,
    api: Api,
}

impl Bench {
    fn new(api: Api) -> Self {
        Self { temp: tempfile::tempdir().unwrap(), api }
    }

    fn api(&self) -> ApiClient {
        let router = Router::new()
            .route("/api/v1/admin/import", post(import))
            .route("/api/v1/urls", get(list))
            .with_state(self.api.clone());
        ApiClient::to(router, "data")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn import(&self, file: &Path, more: &[&str]) -> anyhow::Result<bool> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            import: ImportArgs,
        }
        let line = ["x", file.to_str().unwrap()]
            .iter()
            .chain(more)
            .copied()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        let context = context();
        Line::parse_from(line).import.through(|| Ok(self.api()), &context)
    }
}

fn context() -> CommandContext {
    CommandContext {
        json: true,
        remote: None,
        local: Box::new(|| panic!("the test passes its own API")),
    }
}

fn rows(from: usize, to: usize) -> String {
    (from..to).map(|i| format!("https://e.com/{i},code{i:05}\n")).collect()
}

#[test]
fn a_file_is_handed_over_in_batches_and_twice_is_harmless() {
    let bench = Bench::new(Api::default());
    let file = bench.path("links.csv");
    std::fs::write(&file, format!("long_url,alias\n{}", rows(0, 2 * BATCH + 100))).unwrap();
    assert!(bench.import(&file, &[]).unwrap());
    bench.api.batches.lock().unwrap().sort_unstable();
    assert_eq!(*bench.api.batches.lock().unwrap(), [100, BATCH, BATCH]);
    assert!(bench.import(&file, &[]).unwrap());
    assert_eq!(bench.api.links.lock().unwrap().len(), 2 * BATCH + 100);
    assert!(!ImportPosition::path(&file).exists());
}

#[test]
fn refused_rows_are_reported_and_fail_the_command_unless_lenient() {
    let bench = Bench::new(Api::default());
    let file = bench.path("links.csv");
    std::fs::write(&file,
        "long_url,alias,status\nhttps://e.com/,aaa,\nftp://e.com/,=bb,\nhttps://e.com/,ccc,blocked\nx\n")
        .unwrap();
    let report = bench.path("report.csv");
    assert!(!bench.import(&file, &["--report", report.to_str().unwrap()]).unwrap());
    let report = std::fs::read_to_string(report).unwrap();
    let want = "line,outcome,short_code,field,reason\n\
        4,skipped,ccc,status,the link is blocked\n\
        5,refused,,,\"1 cells, where the header has 3\"\n\
        3,refused,'=bb,long_url,not a URL (invalid_url)\n";
    assert_eq!(report, want);
    assert!(bench.import(&file, &["--lenient"]).unwrap());
}

#[test]
fn an_interrupted_import_goes_on_where_it_stopped() {
    let mut bench = Bench::new(Api { full_at: Some(BATCH), ..Api::default() });
    let file = bench.path("links.csv");
    let text = format!("long_url,alias\n{}", rows(0, 2 * BATCH + 200));
    std::fs::write(&file, &text).unwrap();
    let error = format!("{:#}", bench.import(&file, &[]).unwrap_err());
    let expected =
        format!("after {BATCH} rows; repeat the command to continue from there: no more (full)");
    assert!(error.contains(&expected), "{error}");
    assert!(ImportPosition::path(&file).exists());

    bench.api.full_at = None;
    std::fs::write(&file, text.replace("https://e.com/7,", "https://e.com/changed,")).unwrap();
    assert!(bench.import(&file, &[]).unwrap_err().to_string().contains("has changed"));
    std::fs::write(&file, &text).unwrap();
    bench.api.batches.lock().unwrap().clear();
    assert!(bench.import(&file, &[]).unwrap());
    bench.api.batches.lock().unwrap().sort_unstable();
    assert_eq!(*bench.api.batches.lock().unwrap(), [200, BATCH]);
    assert_eq!(bench.api.links.lock().unwrap().len(), 2 * BATCH + 200);
    assert!(!ImportPosition::path(&file).exists());
}

#[test]
fn several_requests_are_under_way_and_never_more_than_allowed() {
    let bench = Bench::new(Api::default());
    let file = bench.path("links.csv");
    std::fs::write(&file, format!("long_url,alias\n{}", rows(0, 5000))).unwrap();
    assert!(bench.import(&file, &[]).unwrap());
    assert_eq!(bench.api.links.lock().unwrap().len(), 5000);
    let most = bench.api.together.lock().unwrap().0;
    assert!((2..=IN_FLIGHT).contains(&most), "{most} at a time");
}

#[test]
fn of_rows_with_the_same_code_the_last_is_sent_last() {
    let bench = Bench::new(Api::default());
    let file = bench.path("links.csv");
    // The fake keeps the last one; a store keeps the first one. In both cases the order counts.
    let again: String = (0..6)
        .map(|n| {
            format!("https://e.com/again-{n},SAME\n{}", rows(n * BATCH, n * BATCH + BATCH - 1))
        })
        .collect();
    std::fs::write(&file, format!("long_url,alias\n{again}")).unwrap();
    assert!(bench.import(&file, &[]).unwrap());
    let links = bench.api.links.lock().unwrap();
    assert_eq!(links["SAME"]["long_url"], "https://e.com/again-5");
    let most = bench.api.together.lock().unwrap().0;
    assert!(most <= 2, "each batch waited for the one before; the last one is empty");
}

#[test]
fn a_dry_run_changes_nothing_and_is_no_part_of_an_import() {
    let bench = Bench::new(Api::default());
    let file = bench.path("links.csv");
    std::fs::write(&file, format!("long_url,alias\nftp://e.com/,xyz\n{}", rows(0, 700))).unwrap();
    let report = bench.path("report.csv");
    let asked = bench.import(&file, &["--dry-run", "--report", report.to_str().unwrap()]);
    assert!(!asked.unwrap(), "a row would be refused");
    assert!(bench.api.links.lock().unwrap().is_empty());
    assert!(!ImportPosition::path(&file).exists());
    assert!(std::fs::read_to_string(report).unwrap().contains("2,refused,xyz,long_url"));

    // Of an interrupted import it tries all rows, and leaves the position.
    let mut bench = Bench::new(Api { full_at: Some(BATCH), ..Api::default() });
    let file = bench.path("links.csv");
    std::fs::write(&file, format!("long_url,alias\n{}", rows(0, 2 * BATCH + 200))).unwrap();
    bench.import(&file, &[]).unwrap_err();
    let position = std::fs::read(ImportPosition::path(&file)).unwrap();
    bench.api.full_at = None;
    bench.api.batches.lock().unwrap().clear();
    assert!(bench.import(&file, &["--dry-run"]).unwrap());
    assert_eq!(bench.api.batches.lock().unwrap().iter().sum::<usize>(), 2 * BATCH + 200);
    assert_eq!(bench.api.links.lock().unwrap().len(), BATCH);
    assert_eq!(std::fs::read(ImportPosition::path(&file)).unwrap(), position);
}

#[test]
fn a_dry_run_foresees_rows_that_meet_an_earlier_one() {
    let bench = Bench::new(Api::default());
    let file = bench.path("links.csv");
    // The rows of one code are in different requests.
    let text = format!(
        "long_url,alias\nhttps://e.com/a,SAME\nftp://e.com/,LATER\nhttps://e.com/free,\n{}\
         https://e.com/b,SAME\nhttps://E.com/a,SAME\nhttps://e.com/b,LATER\nhttps://e.com/free,\n",
        rows(0, 2 * BATCH + 200)
    );
    std::fs::write(&file, text).unwrap();
    let report = bench.path("report.jsonl");
    let asked = bench.import(&file, &["--dry-run", "--report", report.to_str().unwrap()]);
    assert!(!asked.unwrap(), "rows would be refused");
    let report = std::fs::read_to_string(report).unwrap();
    let refused: Vec<Value> = report.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let lines: Vec<_> = refused.iter().map(|row| row["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [3, 2 * BATCH as u64 + 205], "{report}");
    assert_eq!(refused[1]["short_code"], "SAME");
    assert!(refused[1]["reason"].as_str().unwrap().contains("an earlier row has this code"));
}

#[test]
fn a_busy_server_is_asked_again() {
    let bench = Bench::new(Api { busy: Arc::new(Mutex::new(vec![503, 429])), ..Api::default() });
    let file = bench.path("links.csv");
    std::fs::write(&file, "url\nhttps://e.com/\n").unwrap();
    assert!(bench.import(&file, &[]).unwrap());
    let bench = Bench::new(Api { busy: Arc::new(Mutex::new(vec![401])), ..Api::default() });
    assert!(bench.import(&file, &[]).is_err());
}

#[test]
fn a_header_without_rows_is_no_import() {
    let bench = Bench::new(Api::default());
    let file = bench.path("links.csv");
    std::fs::write(&file, "long_url,alias\n").unwrap();
    assert!(bench.import(&file, &[]).unwrap_err().to_string().contains("no rows"));
}

#[test]
fn an_export_holds_every_link_and_appears_whole() {
    let bench = Bench::new(Api::default());
    let file = bench.path("links.csv");
    std::fs::write(&file, format!("long_url,alias\n{}", rows(0, 250))).unwrap();
    bench.import(&file, &[]).unwrap();
    for name in ["out.csv", "out.jsonl"] {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            export: ExportArgs,
        }
        let out = bench.path(name);
        let context = context();
        let export = Line::parse_from(["x", out.to_str().unwrap()]).export;
        export.through(|| Ok(bench.api()), &context).unwrap();
        let again = export.through(|| panic!("not even asked"), &context);
        assert!(again.unwrap_err().to_string().contains("--force"));
        let copy = Bench::new(Api::default());
        assert!(copy.import(&out, &[]).unwrap());
        assert_eq!(*copy.api.links.lock().unwrap(), *bench.api.links.lock().unwrap());
        let left: Vec<_> =
            std::fs::read_dir(bench.temp.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
    }
}
