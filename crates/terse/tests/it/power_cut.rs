//! Power cuts while a command runs, on the real binary.
//!
//! A recorder that is preloaded into terse writes down what it does to its files. The test then
//! rebuilds what the disk holds after a power cut at any point: what was synced, and of the rest
//! nothing, a part, or torn sectors. Names of files count as written when their folder is synced.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod recording;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use self::recording::{Dice, Luck, Recording, Step};
use crate::crash_commands::{codes, done, expected, rows, with_links};
use crate::harness::KEY;
use crate::process::{Served, command, folder};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Runs a command to its end, which must be good.
fn to_its_end(command: &mut Command) {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_backup_is_whole_or_not_there_after_a_power_cut() {
    let (temp, data, _) = with_links("kept", 300);
    let mut backup = command(&data);
    backup.args(["backup", text(&temp.path().join("backup"))]);
    let recording = Recording::of(temp.path(), backup, to_its_end);
    recording.each(|root, ended, when| {
        let backup = root.join("backup");
        assert!(backup.exists() || !ended, "{when}: it said that it was done");
        if backup.exists() {
            let (_other, restored) = folder();
            done(&restored, &["restore", text(&backup)]);
            assert_eq!(codes(&restored), expected("kept", 300), "{when}");
        }
        let data = root.join("data");
        done(&data, &["doctor", "--deep"]);
        assert_eq!(codes(&data), expected("kept", 300), "{when}: the store is as it was");
    });
}

#[test]
fn a_restore_loses_neither_store_in_a_power_cut() {
    let (temp, data, _) = with_links("old", 200);
    let (_other, other, _) = with_links("new", 300);
    done(&other, &["backup", text(&temp.path().join("backup"))]);
    let mut restore = command(&data);
    restore.args(["restore", text(&temp.path().join("backup")), "--force"]);
    let recording = Recording::of(temp.path(), restore, to_its_end);
    recording.each(|root, ended, when| {
        let data = root.join("data");
        if ended {
            assert_eq!(codes(&data), expected("new", 300), "{when}: it said that it was done");
        }
        let asides = std::fs::read_dir(&data)
            .expect("a folder")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("before-restore"))
            .filter(|entry| entry.path().join("terse.db").exists())
            .count();
        if asides == 0 {
            assert_eq!(codes(&data), expected("old", 200), "{when}: the old store is in use");
        }
        done(&data, &["restore", text(&root.join("backup")), "--force"]);
        done(&data, &["doctor", "--deep"]);
        assert_eq!(codes(&data), expected("new", 300), "{when}");
    });
}

#[test]
fn an_import_keeps_what_it_said_through_a_power_cut_and_can_be_repeated() {
    let (temp, data, _) = with_links("first", 10);
    let file = rows(temp.path(), "row", 600);
    let mut all = expected("first", 10);
    all.extend(expected("row", 600));
    let mut import = command(&data);
    import.args(["import", text(&file)]);
    let recording = Recording::of(temp.path(), import, to_its_end);
    recording.each(|root, ended, when| {
        let data = root.join("data");
        let now = codes(&data);
        assert!(now.is_subset(&all) && now.is_superset(&expected("first", 10)), "{when}");
        assert!(!ended || now == all, "{when}: it said that it was done");
        done(&data, &["import", text(&root.join("row.csv"))]);
        assert_eq!(codes(&data), all, "{when}");
        done(&data, &["doctor", "--deep"]);
    });
}

/// Checks the method: without syncs, the same import loses everything.
#[test]
fn without_syncs_a_power_cut_would_lose_an_import() {
    let (temp, data, _) = with_links("first", 10);
    let file = rows(temp.path(), "row", 50);
    let mut import = command(&data);
    import.args(["import", text(&file)]);
    let mut recording = Recording::of(temp.path(), import, to_its_end);
    let end = recording.cut(recording.steps.len(), Luck::Nothing, &mut Dice(7));
    assert_eq!(codes(&end.path().join("data")).len(), 60);
    recording.steps.retain(|step| !matches!(step, Step::Sync(_)));
    let end = recording.cut(recording.steps.len(), Luck::Nothing, &mut Dice(7));
    assert_eq!(codes(&end.path().join("data")).len(), 10);
}

const ADMIN: &str = "admin_key=";

fn serve(data: &Path) -> Served {
    Served::start(data, &[&format!("{ADMIN}{KEY}")])
}

fn serving(data: &Path) -> Command {
    let mut command = command(data);
    command.args(["serve", "--listen", "127.0.0.1:0", "--set", &format!("{ADMIN}{KEY}")]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    command
}

/// One request to the API, as an admin or with another key.
fn api(served: &Served, key: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .timeout_global(Some(std::time::Duration::from_secs(60)))
        .build()
        .into();
    let request = http::Request::builder()
        .method(method)
        .uri(format!("{}/api/v1{path}", served.url))
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .body(body.map(|body| body.to_string()).unwrap_or_default())
        .expect("a request");
    let mut answer = agent.run(request).expect("an answer");
    let text = answer.body_mut().read_to_string().unwrap_or_default();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default())
}

fn stop(served: Served) {
    served.terminate();
    served.wait();
}

/// An account, and the key of it.
fn enrol(served: &Served, name: &str) -> (u64, String) {
    let body = json!({ "name": name, "role": "admin" });
    let (status, account) = api(served, KEY, "POST", "/admin/users", Some(body));
    assert_eq!(status, 201, "{account}");
    let id = account["id"].as_u64().expect("an id");
    let body = json!({ "name": "all", "scope": "full" });
    let (status, key) = api(served, KEY, "POST", &format!("/admin/users/{id}/keys"), Some(body));
    assert_eq!(status, 201, "{key}");
    (id, key["key"].as_str().expect("a key").to_owned())
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn an_erasure_is_begun_or_not_after_a_power_cut_and_then_finished() {
    let (temp, data) = folder();
    let served = serve(&data);
    enrol(&served, "stays");
    let (id, key) = enrol(&served, "leaves");
    let links: Vec<Value> =
        (0..300).map(|n| json!({ "long_url": format!("https://example.com/{n}") })).collect();
    let (status, made) = api(&served, &key, "POST", "/urls/bulk", Some(links.into()));
    assert_eq!(status, 207);
    let made = made["results"].as_array().expect("results");
    let codes: Vec<String> = made
        .iter()
        .map(|one| one["link"]["short_code"].as_str().expect("a code").to_owned())
        .collect();
    let account = format!("/admin/users/{id}");
    stop(served);
    let recording = Recording::of(temp.path(), serving(&data), |command| {
        let served = Served::spawn(&data, command);
        let confirm = json!({ "confirm": "leaves" });
        let (status, body) = api(&served, &key, "DELETE", "/account", Some(confirm));
        assert_eq!(status, 204, "{body}");
        served.kill();
    });
    let mut begun = BTreeSet::new();
    recording.each(|root, ended, when| {
        let data = root.join("data");
        let served = serve(&data);
        let (status, shown) = api(&served, KEY, "GET", &account, None);
        let untouched = status == 200 && shown["suspended"].is_null();
        begun.insert(!untouched);
        // Some of them: misses of one visitor are limited.
        let statuses = || -> BTreeSet<u16> {
            codes.iter().step_by(20).map(|code| served.get(&format!("/{code}")).0).collect()
        };
        if untouched {
            assert!(!ended, "{when}: it said that the account is gone");
            assert_eq!(statuses(), [302].into(), "{when}");
        } else {
            wait_for(&format!("{when}: it is never finished"), || {
                api(&served, KEY, "GET", &account, None).0 == 404
            });
            assert_eq!(statuses(), [404].into(), "{when}");
        }
        stop(served);
        done(&data, &["doctor", "--deep"]);
    });
    assert!(begun.contains(&true));
}

/// What the first versions did not have.
const FIRST_LINKS: &str =
    include_str!("../../../../backends/terse-embedded/tests/first_version.sql");
const FIRST_REGISTRY: &str = "ALTER TABLE users DROP COLUMN plan; DROP INDEX deliveries_of_event; \
     DROP TABLE acme_records; DROP INDEX users_resets; \
     ALTER TABLE users DROP COLUMN reset_token; ALTER TABLE users DROP COLUMN reset_expires_at; \
     ALTER TABLE users DROP COLUMN totp_seed; ALTER TABLE users DROP COLUMN totp_step; \
     ALTER TABLE users DROP COLUMN recovery_codes; ALTER TABLE users DROP COLUMN preferences; \
     ALTER TABLE keys DROP COLUMN requests; ALTER TABLE sessions DROP COLUMN browser; \
     DROP TABLE nodes; \
     DROP TABLE leases; DROP TABLE job_progress; DROP TABLE salts; \
     DELETE FROM meta WHERE name IN ('version', 'incarnation'); \
     INSERT INTO meta VALUES ('watermark', 5); DROP INDEX reports_of; DROP INDEX reports_by; \
     DROP TABLE deliveries; DROP TABLE webhooks; PRAGMA user_version = 1";
const FIRST_CLICKS: &str = "CREATE TABLE old (segment INTEGER PRIMARY KEY, place INTEGER NOT NULL) \
     STRICT; INSERT INTO old SELECT segment, place FROM positions; DROP TABLE positions; \
     ALTER TABLE old RENAME TO positions; DROP TABLE journals; DROP TABLE erased_links; \
     DROP TABLE erased_owners; ALTER TABLE clicks DROP COLUMN took_nanos; \
     DROP TABLE blocks; DROP TABLE erased_subjects; \
     DROP TABLE delta_blocks; DROP TABLE delta_chunks; \
     CREATE UNIQUE INDEX subjects_links ON subjects (domain, code, born) WHERE kind = 0; \
     CREATE INDEX subjects_links_of ON subjects (owner) WHERE kind = 0; \
     DROP TABLE key_runs; DROP TABLE key_chunks; \
     DROP TABLE runs; DROP TABLE run_heads; DROP TABLE run_bodies; \
     DROP TABLE day_ranks; DROP INDEX subjects_ranked; ALTER TABLE subjects DROP COLUMN rank; \
     DROP INDEX days_ranked; ALTER TABLE days DROP COLUMN rank; \
     DELETE FROM meta WHERE name IN ('folded_to', 'totals_to', 'hours_from', 'names_seed'); \
     PRAGMA user_version = 1";

#[test]
fn an_upgrade_of_every_file_from_its_first_version_survives_a_power_cut() {
    let (temp, data) = folder();
    let served = serve(&data);
    let (id, key) = enrol(&served, "ann");
    for n in 0..20 {
        let body =
            json!({ "long_url": "https://example.com/", "custom_alias": format!("old-{n}") });
        assert_eq!(api(&served, &key, "POST", "/urls", Some(body)).0, 201);
    }
    for _ in 0..7 {
        assert_eq!(served.get("/old-3").0, 302);
    }
    let clicks = |served: &Served| {
        api(served, KEY, "GET", "/urls/old-3/stats", None).1["total_clicks"].as_u64()
    };
    wait_for("the clicks are counted", || clicks(&served) == Some(7));
    stop(served);
    for (file, sql) in
        [("terse.db", FIRST_LINKS), ("registry.db", FIRST_REGISTRY), ("clicks.db", FIRST_CLICKS)]
    {
        let conn = Connection::open(data.join(file)).expect("a file");
        conn.execute_batch(sql).unwrap_or_else(|error| panic!("{file}: {error}"));
        conn.close().expect("closed");
    }
    let recording = Recording::of(temp.path(), serving(&data), |command| {
        Served::spawn(&data, command).kill();
    });
    recording.each(|root, _, when| {
        let data = root.join("data");
        let served = serve(&data);
        assert_eq!(api(&served, KEY, "GET", &format!("/admin/users/{id}"), None).0, 200, "{when}");
        assert_eq!(api(&served, &key, "GET", "/account", None).0, 200, "{when}");
        for n in 0..20 {
            assert_eq!(served.get(&format!("/old-{n}+")).0, 200, "{when}");
        }
        assert_eq!(clicks(&served), Some(7), "{when}");
        stop(served);
        done(&data, &["doctor", "--deep"]);
    });
}
