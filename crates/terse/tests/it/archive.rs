//! The archive of clicks and backups on an object storage, through the binary.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use terse::config::Secret;
use terse_core::{Clock, Timestamp};
use terse_testkit::{S3Server, wait_until};

use crate::harness::{HOST, TestTerse};
use crate::process::{command, folder};

fn run(data: &Path, settings: &[String], arguments: &[&str]) -> Output {
    let mut command = command(data);
    command.args(arguments);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.output().unwrap()
}

/// The output of a command that must succeed.
fn done(data: &Path, settings: &[String], arguments: &[&str]) -> String {
    let output = run(data, settings, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Settings for the server of buckets, and a URL in a new bucket.
fn s3(secret: &str) -> (Vec<String>, String) {
    let server = S3Server::shared();
    let settings = vec![
        format!("s3.endpoint={}", server.endpoint()),
        format!("s3.access_key_id={}", S3Server::ACCESS_KEY_ID),
        format!("s3.secret_access_key={secret}"),
        format!("s3.conditional_writes={}", S3Server::has_conditional_writes()),
    ];
    (settings, format!("s3://{}/terse", server.bucket()))
}

fn in_a_log(at: Timestamp) -> String {
    let text = at.to_string();
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month: usize = text[5..7].parse().unwrap();
    format!("{}/{}/{}:{} +0000", &text[8..10], months[month - 1], &text[..4], &text[11..19])
}

#[test]
fn clicks_of_a_finished_hour_are_archived_and_read_back() {
    let (settings, url) = s3(S3Server::SECRET_ACCESS_KEY);
    let mut terse = TestTerse::with(|config| {
        config.clicks.archive = Some(url.parse().unwrap());
        config.s3.endpoint = Some(S3Server::shared().endpoint());
        config.s3.access_key_id = Some(S3Server::ACCESS_KEY_ID.into());
        config.s3.secret_access_key = Some(Secret::new(S3Server::SECRET_ACCESS_KEY));
        config.s3.conditional_writes = S3Server::has_conditional_writes();
    });
    // Before the visits: a log counts for links that existed then.
    terse.clock().shift_wall_clock(-5 * 3_600_000);
    terse.alias("news", "https://example.com/");
    terse.alias("other", "https://example.com/other");
    let (data, log) = (terse.folder().join("data"), terse.folder().join("varnish.log"));
    terse.stop();
    let before = Timestamp::from_ms(Clock::default().now().as_ms() - 3 * 3_600_000);
    let line = |code: &str, n: u32| {
        format!(
            "203.0.113.9 - - [{}] \"GET http://{HOST}/{code} HTTP/1.1\" 302 0 \
             \"https://news.example/\" \"Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 \
             Firefox/130.0\" hit - - {n}\n",
            in_a_log(before)
        )
    };
    std::fs::write(&log, [line("news", 1), line("other", 2), line("news", 3)].concat()).unwrap();
    let base = [format!("base_url=http://{HOST}")];
    done(&data, &base, &["import-clicks", "--format", "varnish", log.to_str().unwrap()]);
    terse.restart();
    let settings = [settings, vec![format!("clicks.archive={url}")]].concat();
    let list = || -> Value {
        serde_json::from_str(&done(&data, &settings, &["archive", "list", "--json"])).unwrap()
    };
    wait_until("the hour is archived", || list()["files"][0]["clicks"] == 3);
    let name = list()["files"][0]["file"].as_str().unwrap().to_owned();
    assert!(name.starts_with(&format!("clicks/day={}/hour=", &before.to_string()[..10])), "{name}");
    let lines = done(&data, &settings, &["archive", "query", "news"]);
    let clicks: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(clicks.len(), 2, "{lines}");
    assert_eq!(clicks[0]["referrer"], "news.example");
    assert_eq!(clicks[0]["browser"], "Firefox");
    let csv = done(&data, &settings, &["archive", "query", "--all", "--format", "csv"]);
    assert!(csv.starts_with("time,domain,code,") && csv.lines().count() == 4, "{csv}");
    let verified = done(&data, &settings, &["archive", "verify", "--json"]);
    assert_eq!(verified.trim(), r#"{"files":1,"clicks":3,"damaged":[]}"#);
    let doctor = run(&data, &settings, &["doctor", "--json"]);
    let findings = String::from_utf8(doctor.stdout).unwrap();
    assert!(findings.contains("1 files, 0 MiB"), "{findings}");
}

#[test]
fn a_backup_is_sent_at_the_start_and_a_drill_restores_it() {
    let (settings, url) = s3(S3Server::SECRET_ACCESS_KEY);
    let terse = TestTerse::with(|config| {
        config.backup.url = Some(url.parse().unwrap());
        config.s3.endpoint = Some(S3Server::shared().endpoint());
        config.s3.access_key_id = Some(S3Server::ACCESS_KEY_ID.into());
        config.s3.secret_access_key = Some(Secret::new(S3Server::SECRET_ACCESS_KEY));
        config.s3.conditional_writes = S3Server::has_conditional_writes();
    });
    let data = terse.folder().join("data");
    let settings = [settings, vec![format!("backup.url={url}")]].concat();
    wait_until("a backup is there", || {
        !done(&data, &settings, &["backup", "list"]).trim().is_empty()
    });
    terse.alias("news", "https://example.com/");
    // Another one, beside the schedule. Names have seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let sent = done(&data, &settings, &["backup", "send", "--json"]);
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(sent["manifest"]["links"], 1, "{sent}");
    let drilled = done(&data, &settings, &["backup", "drill", "--json"]);
    let drilled: Value = serde_json::from_str(&drilled).unwrap();
    assert_eq!((&drilled["name"], &drilled["manifest"]["links"]), (&sent["name"], &1.into()));
    let (temp, new) = folder();
    let fetched = temp.path().join("fetched");
    let fetched = fetched.to_str().unwrap();
    done(&data, &settings, &["backup", "fetch", sent["name"].as_str().unwrap(), fetched]);
    done(&data, &[], &["backup", "drill", "--dir", fetched]);
    done(&new, &[], &["restore", fetched]);
    assert!(done(&new, &[], &["list"]).contains("https://example.com/"));
    std::fs::write(Path::new(fetched).join("registry.db"), "damaged").unwrap();
    let drill = run(&data, &[], &["backup", "drill", "--dir", fetched]);
    let error = String::from_utf8(drill.stderr).unwrap();
    assert!(!drill.status.success() && error.contains("registry.db"), "{error}");
}

#[test]
fn a_server_that_cannot_write_to_its_archive_does_not_start() {
    let (settings, url) = s3("not the secret");
    let (_temp, data) = folder();
    for setting in ["clicks.archive", "backup.url"] {
        let given = [settings.clone(), vec![format!("{setting}={url}")]].concat();
        let started = run(&data, &given, &["serve", "--listen", "127.0.0.1:0"]);
        let error = String::from_utf8(started.stderr).unwrap();
        assert!(!started.status.success(), "{error}");
        assert!(error.contains(setting) && error.contains("SignatureDoesNotMatch"), "{error}");
        assert!(!error.contains("not the secret"), "{error}");
    }
}
