//! Exports of other shorteners, in their documented shapes, compared field by field.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::process::{Served, command, store};

fn export(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/exports").join(name)
}

/// Runs a command and reads its JSON.
fn run(data: &Path, arguments: &[&str]) -> (i32, Value) {
    let mut command = command(data);
    command.args(["--json", "--set", "domains=b.example"]).args(arguments);
    let output = command.output().expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let code = output.status.code().expect("an exit code");
    let body = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)));
    (code, body)
}

/// A shortener's file, what the import says about it, and the links that come of it.
struct Case {
    file: &'static str,
    source: &'static str,
    /// Columns and fields that have no place in terse.
    unused: &'static [&'static str],
    skipped: u64,
    partial: Value,
    links: Vec<Value>,
}

/// A link with the fields that differ from those of a plain one.
fn link(code: &str, target: &str, created_at: &str, differing: Value) -> Value {
    let mut link = json!({
        "short_code": code, "long_url": target, "created_at": created_at, "title": null,
        "tags": [], "notes": null, "expires_at": null, "valid_from": null, "max_clicks": null,
        "click_count": 0, "imported_clicks": 0, "archived": false, "crawlable": false,
        "forward_query": false, "domain": "localhost", "redirect": 302,
    });
    for (name, value) in differing.as_object().expect("an object") {
        link[name] = value.clone();
    }
    link
}

fn cases() -> Vec<Case> {
    let spring = |clicks: u64| {
        json!({"notes": "for the newsletter", "expires_at": "2999-01-01T00:00:00Z",
            "click_count": clicks, "imported_clicks": clicks})
    };
    let kutt = |domain: &str| {
        vec![
            link(
                "spring",
                "https://example.com/spring?a=1,2",
                "2021-03-04T05:06:07Z",
                spring(1234),
            ),
            link(
                "Ab3dEf",
                "https://example.com/plain",
                "2022-01-02T03:04:05Z",
                json!({"domain": domain}),
            ),
        ]
    };
    let yourls = || {
        vec![
            link(
                "ozh",
                "https://example.com/ozh",
                "2010-05-31T14:04:21Z",
                json!({"title": "A blog, \"quoted\"", "click_count": 1789,
                    "imported_clicks": 1789}),
            ),
            link(
                "2x9",
                "http://example.com/~x",
                "2012-01-02T03:04:05Z",
                json!({"title": "http://example.com/~x"}),
            ),
        ]
    };
    let summer = |code: &str, clicks: u64| {
        link(
            code,
            "https://example.com/summer",
            "2019-08-07T06:05:04Z",
            json!({"title": "Summer sale", "tags": ["mail", "2019"], "click_count": clicks,
                "imported_clicks": clicks}),
        )
    };
    let archived = || {
        link(
            "3AbCdEf",
            "https://example.com/old",
            "2020-01-02T03:04:05Z",
            json!({"archived": true}),
        )
    };
    let shlink = |meta: Value, forward_query: bool| {
        let mut first = json!({"title": "A page", "tags": ["games", "tech"], "click_count": 328,
            "imported_clicks": 328});
        for (name, value) in meta.as_object().expect("an object") {
            first[name] = value.clone();
        }
        vec![
            link("12Kb3", "https://example.com/shlink", "2016-08-21T18:34:16Z", first),
            link(
                "12Kb4",
                "https://example.com/other",
                "2018-01-02T03:04:05Z",
                json!({"domain": "b.example", "forward_query": forward_query}),
            ),
        ]
    };
    // chhoto-url does not say when a link was created.
    let chhoto = || {
        vec![
            link(
                "amazing-euler",
                "https://example.com/euler",
                "now",
                json!({"click_count": 42, "imported_clicks": 42}),
            ),
            link(
                "soon",
                "https://example.com/soon",
                "now",
                json!({"expires_at": "2999-01-01T00:00:00Z", "notes": "until 2999"}),
            ),
        ]
    };
    let case = |file, source, unused, skipped, links| Case {
        file,
        source,
        unused,
        skipped,
        partial: Value::Null,
        links,
    };
    vec![
        case(
            "kutt.json",
            "Kutt",
            &["id", "relative_created_at", "relative_expire_in", "updated_at"][..],
            2,
            kutt("b.example"),
        ),
        case(
            "kutt.csv",
            "Kutt",
            &["banned_by_id", "domain_id", "id", "updated_at", "user_id", "uuid"],
            2,
            kutt("localhost"),
        ),
        case("yourls.json", "YOURLS", &["ip"], 0, yourls()),
        case("yourls.csv", "YOURLS", &["ip"], 0, yourls()),
        Case {
            partial: json!({"holds": 3, "of": 120}),
            ..case(
                "bitly.json",
                "Bitly",
                &["client_id", "created_by", "deeplinks", "id", "references"],
                1,
                vec![summer("2ZxYwVu", 0), summer("Summer-Sale", 0), archived()],
            )
        },
        case("bitly.csv", "Bitly", &[], 0, vec![summer("2ZxYwVu", 321), archived()]),
        case("chhoto.json", "chhoto-url", &[], 0, chhoto()),
        case("chhoto.csv", "chhoto-url", &["id"], 0, chhoto()),
        case(
            "shlink.json",
            "Shlink",
            &["hasRedirectRules"],
            0,
            shlink(
                json!({"valid_from": "2017-01-20T22:00:00Z", "expires_at": "2999-01-01T00:00:00Z",
                    "max_clicks": 100_000, "crawlable": true}),
                true,
            ),
        ),
        case("shlink.csv", "Shlink", &[], 0, shlink(json!({}), false)),
    ]
}

#[test]
fn the_exports_of_five_shorteners_come_in_whole() {
    for case in cases() {
        let (_temp, data) = store();
        let file = export(case.file);
        let file = file.to_str().unwrap();
        // First as a trial, which changes nothing.
        let (code, trial) = run(&data, &["import", file, "--dry-run"]);
        assert_eq!(code, 0, "{}: {trial}", case.file);
        let (_, none) = run(&data, &["list", "--all"]);
        assert_eq!(none["links"], json!([]), "{}", case.file);
        let (code, said) = run(&data, &["import", file]);
        assert_eq!(code, 0, "{}: {said}", case.file);
        for report in [&trial, &said] {
            assert_eq!(report["created"], case.links.len(), "{}: {report}", case.file);
            assert_eq!(report["refused"], 0, "{}: {report}", case.file);
            assert_eq!(report["skipped"], case.skipped, "{}: {report}", case.file);
            assert_eq!(report["source"], case.source, "{}", case.file);
            assert_eq!(report["unused"], json!(case.unused), "{}", case.file);
            assert_eq!(report["partial"], case.partial, "{}", case.file);
        }
        for want in &case.links {
            let code = want["short_code"].as_str().unwrap();
            let (_, have) = match want["domain"].as_str() {
                Some("b.example") => run(&data, &["resolve", code, "--domain", "b.example"]),
                _ => run(&data, &["resolve", code]),
            };
            for (name, value) in want.as_object().unwrap() {
                match (name.as_str(), value) {
                    ("created_at", Value::String(text)) if text == "now" => {}
                    // The host of base_url, which is not set here.
                    ("domain", Value::String(host)) if host == "localhost" => {
                        assert_ne!(have[name], "b.example", "{} {code}", case.file);
                    }
                    _ => assert_eq!(&have[name], value, "{} {code}: {name}", case.file),
                }
            }
        }
        // Again: nothing new, and the counts stay.
        let (_, again) = run(&data, &["import", file]);
        assert_eq!((&again["created"], &again["existing"]), (&json!(0), &said["created"]));
    }
}

#[test]
fn imported_clicks_are_a_base_for_those_that_are_counted_here() {
    let (temp, data) = store();
    let file = export("chhoto.json");
    run(&data, &["import", file.to_str().unwrap()]);
    let server = Served::start(&data, &[]);
    assert_eq!(server.get("/amazing-euler").0, 302);
    let begun = std::time::Instant::now();
    let seen = loop {
        let (_, link) = run(&data, &["resolve", "amazing-euler"]);
        // Without an answer of the click store in time, it is null.
        if link["click_count"] == 43 || begun.elapsed().as_secs() > 20 {
            break link;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert_eq!((&seen["click_count"], &seen["imported_clicks"]), (&json!(43), &json!(42)));
    // A change keeps them, and so does a move to another server: there all are imported.
    run(&data, &["edit", "amazing-euler", "--title", "new"]);
    let (_, link) = run(&data, &["resolve", "amazing-euler"]);
    assert_eq!((&link["click_count"], &link["imported_clicks"]), (&json!(43), &json!(42)));
    for name in ["out.csv", "out.jsonl", "out.json"] {
        let out = temp.path().join(name);
        run(&data, &["export", out.to_str().unwrap()]);
        let (_other, elsewhere) = store();
        run(&elsewhere, &["import", out.to_str().unwrap()]);
        let (_, link) = run(&elsewhere, &["resolve", "amazing-euler"]);
        assert_eq!(
            (&link["click_count"], &link["imported_clicks"]),
            (&json!(43), &json!(43)),
            "{name}"
        );
    }
}

#[test]
fn a_dry_run_says_what_the_import_then_does() {
    let (temp, data) = store();
    let file = temp.path().join("links.csv");
    let file = file.to_str().unwrap();
    let twice = "https://example.com/free,,Title,\nhttps://example.com/free,,Title,\n";
    let more: String = (0..600).map(|n| format!("https://example.com/{n},c-{n},,\n")).collect();
    let rows = [
        "https://example.com/a,here,,2020-01-01\n",
        twice,
        &more,
        // These rows conflict with rows of another request.
        "https://example.com/b,here,,\nhttps://EXAMPLE.com/a,here,,\n",
        "https://example.com/c,HERE,,\nhttps://example.com/d,new,,yesterday\n",
    ];
    std::fs::write(file, format!("long_url,alias,title,created_at\n{}", rows.concat())).unwrap();
    let counts = |report: &Value| {
        ["created", "existing", "refused", "skipped"].map(|name| report[name].as_u64().unwrap())
    };
    let (_, trial) = run(&data, &["import", file, "--dry-run"]);
    let (_, done) = run(&data, &["import", file]);
    assert_eq!(counts(&trial), [603, 2, 2, 0], "{trial}");
    assert_eq!(counts(&done), counts(&trial), "{done}");
    let (_, trial) = run(&data, &["import", file, "--dry-run"]);
    let (_, again) = run(&data, &["import", file]);
    assert_eq!(counts(&trial), [0, 605, 2, 0], "{trial}");
    assert_eq!(counts(&again), counts(&trial), "{again}");
}
