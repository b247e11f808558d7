//! The command line with the real binary.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terse_testkit::wait_until;

use crate::process::{Served, command, folder, store};

/// What a command printed, and its exit status.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {:?} {:?}", self.out, self.err))
    }
}

pub(crate) fn run(data: &Path, arguments: &[&str]) -> CommandOutput {
    let output = command(data).args(arguments).output().expect("the command runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    CommandOutput {
        code: output.status.code().expect("an exit code"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Runs a command that must succeed.
pub(crate) fn done(data: &Path, arguments: &[&str]) -> CommandOutput {
    let said = run(data, arguments);
    assert_eq!(said.code, 0, "{arguments:?}: {} {}", said.out, said.err);
    assert!(!said.err.contains("panicked"), "{}", said.err);
    said
}

/// Runs commands over the life of a link; returns their output without values that vary.
fn life(data: &Path) -> Vec<Value> {
    let mut said = Vec::new();
    let mut step = |code: i32, arguments: &[&str]| {
        let mut all = vec!["--json"];
        all.extend(arguments);
        let answer = run(data, &all);
        assert_eq!(answer.code, code, "{arguments:?}: {} {}", answer.out, answer.err);
        let text = if code == 0 { &answer.out } else { &answer.err };
        let mut value: Value = serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error} in {text:?}"));
        let links = value["links"].is_array();
        for link in if links {
            value["links"].as_array_mut().unwrap().iter_mut().collect()
        } else {
            vec![&mut value]
        } {
            for name in ["created_at", "updated_at", "short_url", "preview_url", "qr_url"] {
                link.as_object_mut().unwrap().remove(name);
            }
        }
        said.push(value.clone());
        value
    };
    let made = step(
        0,
        &[
            "shorten",
            "https://example.com/a",
            "--alias",
            "my-link",
            "--title",
            "A title",
            "--tag",
            "x",
        ],
    );
    assert_eq!((&made["short_code"], &made["tags"]), (&json!("my-link"), &json!(["x"])));
    assert_eq!(step(0, &["resolve", "my-link"])["long_url"], "https://example.com/a");
    assert_eq!(step(0, &["list"])["links"].as_array().unwrap().len(), 1);
    let changed = step(0, &["edit", "my-link", "--url", "https://example.com/b", "--clear-title"]);
    assert_eq!(
        (&changed["long_url"], &changed["title"], &changed["revision"]),
        (&json!("https://example.com/b"), &Value::Null, &json!(2))
    );
    let file = data.join("rules.json");
    std::fs::write(&file, r#"[{"device": "mobile", "to": "https://example.com/m"}]"#).unwrap();
    let ruled = step(0, &["edit", "my-link", "--rules", file.to_str().unwrap()]);
    assert_eq!(ruled["rules"][0]["to"], "https://example.com/m");
    assert_eq!(step(0, &["edit", "my-link", "--undo"])["rules"], Value::Null);
    assert_eq!(step(0, &["edit", "my-link", "--undo=1"])["long_url"], "https://example.com/a");
    assert_eq!(step(0, &["edit", "my-link", "--undo"])["long_url"], "https://example.com/b");
    step(2, &["edit", "my-link", "--undo", "--title", "x"]);
    step(0, &["delete", "my-link"]);
    assert_eq!(step(1, &["resolve", "my-link"])["status"], 404);
    assert_eq!(step(0, &["list"])["links"], json!([]));
    step(0, &["undelete", "my-link"]);
    assert_eq!(step(0, &["resolve", "my-link"])["long_url"], "https://example.com/b");
    assert_eq!(
        step(1, &["shorten", "https://example.com/c", "--alias", "my-link"])["code"],
        "alias_taken"
    );
    assert_eq!(step(1, &["shorten", "javascript:alert(1)"])["code"], "scheme_not_allowed");
    said
}

#[test]
fn commands_do_the_same_with_and_without_a_server() {
    let (_alone, data) = store();
    let without = life(&data);
    let (_served, data) = folder();
    let server = Served::start(&data, &[]);
    assert_eq!(life(&data), without);
    assert_eq!(server.get("/my-link").1.as_deref(), Some("https://example.com/b"));
    // The third way: a remote server, by address and key.
    let (_other, elsewhere) = folder();
    let key: Value =
        serde_json::from_str(&std::fs::read_to_string(data.join("run.json")).unwrap()).unwrap();
    let far = |arguments: &[&str]| {
        let mut far = command(&elsewhere);
        far.env("TERSE_SERVER", &server.url).env("TERSE_KEY", key["key"].as_str().unwrap());
        let output = far.args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(far(&["resolve", "my-link"]), (Some(0), "https://example.com/b\n".into()));
    assert!(!elsewhere.exists(), "working elsewhere makes no folder here");
}

#[test]
fn in_a_pipe_only_the_answer_is_printed() {
    let (_temp, data) = folder();
    let server = Served::start(&data, &[]);
    let short = done(&data, &["shorten", "https://example.com/a?b=c"]).out;
    assert!(short.starts_with(&server.url) && short.lines().count() == 1, "{short:?}");
    assert_eq!(done(&data, &["resolve", short.trim()]).out, "https://example.com/a?b=c\n");
    assert_eq!(run(&data, &["resolve", "nosuch9"]).code, 1);
    assert_eq!(run(&data, &["shorten"]).code, 2);
}

#[test]
fn clicks_are_shown_with_and_without_a_server() {
    let (_temp, data) = store();
    done(&data, &["shorten", "https://example.com/", "--alias", "my-link"]);
    let look = || {
        let one = done(
            &data,
            &["--json", "stats", "my-link", "--tz", "Europe/Berlin", "--bots", "exclude"],
        )
        .json();
        assert_eq!(
            (&one["short_code"], &one["time_zone"], &one["bots"]),
            (&json!("my-link"), &json!("Europe/Berlin"), &json!("exclude"))
        );
        assert!(done(&data, &["--json", "stats"]).json()["top_links"].is_array());
        assert!(done(&data, &["--json", "stats", "--orphans"]).json()["top_codes"].is_array());
        assert_eq!(done(&data, &["--json", "top", "--minutes", "7"]).json()["minutes"], 7);
        let page = done(&data, &["stats", "my-link", "--interval", "day"]).out;
        assert!(
            page.lines().next().unwrap().contains("/my-link") && page.contains("clicks"),
            "{page}"
        );
        let wrong = run(&data, &["--json", "stats", "my-link", "--tz", "Mars/Olympus"]);
        assert_eq!(
            (wrong.code, &serde_json::from_str::<Value>(&wrong.err).unwrap()["field"]),
            (1, &json!("tz"))
        );
        assert_eq!(run(&data, &["stats", "nosuch9"]).code, 1);
    };
    look();
    let said = done(&data, &["top"]);
    assert!(said.out.is_empty() && said.err.contains("No server is running"), "{}", said.err);
    let _server = Served::start(&data, &[]);
    look();
    // In a pipe it prints once and ends.
    assert!(done(&data, &["top"]).out.starts_with("The busiest links of the last 5 minutes\n"));
}

#[test]
fn what_was_exported_can_be_imported_elsewhere_and_again() {
    let (temp, data) = store();
    let formula = "=cmd|' /C calc'!A0";
    let made = done(
        &data,
        &[
            "--json",
            "shorten",
            "https://example.com/a,\"b\"",
            "--title",
            formula,
            "--tag",
            "x",
            "--tag",
            "y",
        ],
    )
    .json();
    done(
        &data,
        &[
            "shorten",
            "https://example.com/é",
            "--alias",
            "my-link",
            "--expires",
            "2999-01-01",
            "--redirect",
            "308",
        ],
    );
    done(&data, &["shorten", "https://example.com/gone", "--alias", "gone-one"]);
    done(&data, &["delete", "gone-one"]);
    let links = |data: &Path| {
        let mut list = done(data, &["--json", "list", "--all", "--oldest"]).json()["links"].clone();
        for link in list.as_array_mut().unwrap() {
            for name in ["updated_at", "revision"] {
                link.as_object_mut().unwrap().remove(name);
            }
        }
        list
    };
    let before = links(&data);
    assert_eq!(before.as_array().unwrap().len(), 2);
    for format in ["csv", "jsonl"] {
        let file = temp.path().join(format!("links.{format}"));
        let file = file.to_str().unwrap();
        done(&data, &["export", file]);
        assert_eq!(run(&data, &["export", file]).code, 1, "a file that exists is not written over");
        let text = std::fs::read_to_string(file).unwrap();
        let cells = text.lines().flat_map(|line| line.split(','));
        assert!(
            format == "jsonl" || cells.clone().all(|cell| !cell.trim_matches('"').starts_with('=')),
            "{text}"
        );
        let (_other, elsewhere) = store();
        std::thread::sleep(Duration::from_millis(5)); // so that a new age would show
        for (attempt, new) in [(1, 2), (2, 0)] {
            let said = done(&elsewhere, &["--json", "import", file]).json();
            assert_eq!(links(&elsewhere), before, "{format}, attempt {attempt}, {new} new: {said}");
        }
        let resolved =
            done(&elsewhere, &["--json", "resolve", made["short_code"].as_str().unwrap()]).json();
        for name in ["created_at", "title", "tags", "long_url"] {
            assert_eq!(resolved[name], made[name], "{name}");
        }
    }
}

#[test]
fn refused_rows_are_reported_and_do_not_stop_the_others() {
    let (temp, data) = store();
    let file = temp.path().join("in.csv");
    let rows = "long_url,alias\nhttps://example.com/a,good-1\njavascript:alert(1),bad-1\n\
     https://example.com/b,login\n\
                https://example.com/c,good-2\n";
    std::fs::write(&file, rows).unwrap();
    let report = temp.path().join("refused.jsonl");
    let (file, report) = (file.to_str().unwrap(), report.to_str().unwrap());
    let said = run(&data, &["import", file, "--report", report]);
    assert_eq!(said.code, 1);
    assert!((said.out + &said.err).contains("line 3"));
    let refused = std::fs::read_to_string(report).unwrap();
    let codes: Vec<Value> =
        refused.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    assert_eq!(codes.len(), 2, "{refused}");
    assert!(refused.contains("scheme_not_allowed") || refused.contains("javascript"), "{refused}");
    for code in ["good-1", "good-2"] {
        done(&data, &["resolve", code]);
    }
    assert_eq!(run(&data, &["import", file, "--lenient"]).code, 0);
    assert_eq!(
        done(&data, &["--json", "list", "--all"]).json()["links"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_backup_taken_while_links_are_made_holds_all_that_were_acknowledged() {
    let (temp, data) = folder();
    let key = "a-key-for-tests-0123456789";
    let server = Served::start(&data, &[&format!("admin_key={key}")]);
    let (stop, url) = (AtomicBool::new(false), format!("{}/api/v1/urls", server.url));
    let count = AtomicUsize::new(0);
    let backup = temp.path().join("backup");
    let acknowledged: Vec<(String, String)> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (stop, url, count) = (&stop, &url, &count);
                scope.spawn(move || {
                    let mut made = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let target = format!("https://example.com/{writer}/{}", made.len());
                        let request =
                            ureq::post(url).header("authorization", format!("Bearer {key}"));
                        let link: Value = request
                            .send_json(json!({"long_url": target}))
                            .unwrap()
                            .body_mut()
                            .read_json()
                            .unwrap();
                        made.push((
                            Instant::now(),
                            link["short_code"].as_str().unwrap().to_owned(),
                            target,
                        ));
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    made
                })
            })
            .collect();
        wait_until("twenty links are made", || count.load(Ordering::Relaxed) >= 20);
        let begun = Instant::now();
        done(&data, &["backup", backup.to_str().unwrap()]);
        stop.store(true, Ordering::Relaxed);
        let all = writers.into_iter().flat_map(|writer| writer.join().unwrap());
        // The backup contains every link acknowledged before it began.
        all.filter(|(at, ..)| *at < begun).map(|(_, code, target)| (code, target)).collect()
    });
    assert!(acknowledged.len() > 10, "only {} links were made", acknowledged.len());
    let (_other, restored) = folder();
    done(&restored, &["restore", backup.to_str().unwrap()]);
    assert_eq!(
        run(&restored, &["restore", backup.to_str().unwrap()]).code,
        1,
        "a store is not written over"
    );
    done(&restored, &["doctor", "--deep"]);
    let server = Served::start(&restored, &[]);
    for (code, target) in &acknowledged {
        assert_eq!(server.get(&format!("/{code}")).1.as_ref(), Some(target));
    }
    let fresh = done(&restored, &["shorten", "https://example.com/after", "--no-reuse"]);
    let fresh = fresh.out.trim().rsplit('/').next().unwrap().to_owned();
    assert!(acknowledged.iter().all(|(code, _)| *code != fresh), "no code is given out twice");
}

#[test]
fn the_doctor_finds_a_damaged_store() {
    let (_absent, nowhere) = folder();
    done(&nowhere, &["doctor"]);
    let (_temp, data) = store();
    let file = data.parent().unwrap().join("many.csv");
    let rows: Vec<_> = (0..2000).map(|i| format!("https://example.com/{i},code-{i}\n")).collect();
    std::fs::write(&file, format!("long_url,alias\n{}", rows.concat())).unwrap();
    done(&data, &["import", file.to_str().unwrap()]);
    assert_eq!(done(&data, &["--json", "doctor", "--deep"]).json()["well"], true);
    let store = data.join("terse.db");
    let sound = std::fs::read(&store).unwrap();
    // One flipped byte inside a target: the database pages are intact, but the link's checksum is
    // wrong.
    let mut bytes = sound.clone();
    let at = bytes.windows(24).position(|some| some == b"https://example.com/1234").unwrap();
    bytes[at + 10] ^= 1;
    std::fs::write(&store, &bytes).unwrap();
    let said = run(&data, &["--json", "doctor", "--deep"]);
    assert_eq!((said.code, &said.json()["well"]), (1, &json!(false)), "{}", said.out);
    // A file that is not a database is detected at once.
    std::fs::write(
        &store,
        b"this is no store, whatever its name says; it is long enough to be one though".repeat(100),
    )
    .unwrap();
    assert_eq!(run(&data, &["doctor"]).code, 1);
    let said = run(&data, &["list"]);
    assert!(said.code == 1 && said.err.contains("terse.db"), "{}", said.err);
}

#[test]
fn an_account_gets_a_plan_and_loses_it_again() {
    let (_temp, data) = store();
    done(&data, &["account", "add", "ann"]);
    let set = |plan: &str| done(&data, &["--json", "account", "set", "ann", "--plan", plan]).json();
    assert_eq!(set("500/h")["plan"], "500/h");
    let listed = done(&data, &["--json", "account", "list"]).json();
    assert!(listed.to_string().contains("\"plan\":\"500/h\""), "{listed}");
    // Another change keeps it.
    done(&data, &["account", "set", "ann", "--role", "moderator"]);
    assert_eq!(set("")["plan"], Value::Null);
    let refused = run(&data, &["account", "set", "ann", "--plan", "many"]);
    assert!(refused.code == 1 && refused.err.contains("plan"), "{}", refused.err);
}

#[test]
fn two_factor_sign_in_is_turned_off_for_a_lost_device() {
    let (_temp, data) = store();
    done(&data, &["account", "add", "ann"]);
    let said = done(&data, &["account", "two-factor-off", "ann"]);
    assert!(said.out.contains("two-factor sign-in is off: ann"), "{}", said.out);
    let told = done(&data, &["--json", "account", "two-factor-off", "ann"]).json();
    assert_eq!(told["two_factor"], false);
}

#[test]
fn the_earlier_words_for_accounts_are_accepted() {
    let (_temp, data) = store();
    done(&data, &["user", "add", "ann"]);
    done(&data, &["key", "add", "laptop", "--user", "ann"]);
    let listed = done(&data, &["key", "list", "--account", "ann"]);
    assert!(listed.out.contains("laptop"), "{}", listed.out);
}

#[test]
fn a_reset_link_is_printed() {
    let (_temp, data) = store();
    done(&data, &["account", "add", "ann"]);
    let said = done(&data, &["account", "reset", "ann"]);
    assert!(said.out.contains("/login/reset?token=terse_"), "{}", said.out);
    assert!(said.err.contains("It works once, until "), "{}", said.err);
    let made = done(&data, &["--json", "account", "reset", "ann"]).json();
    assert!(made["url"].as_str().unwrap() != said.out.trim() && made["expires_at"].is_string());
    let refused = run(&data, &["account", "reset", "bob"]);
    assert!(refused.code == 1 && refused.err.contains("no account"), "{}", refused.err);
}

#[test]
fn an_admin_sees_their_own_links_unless_they_ask_for_others() {
    let (_temp, data) = store();
    let made = "https://example.com/mine";
    let code = done(&data, &["--json", "shorten", made]).json()["short_code"].clone();
    let server = Served::start(&data, &["anonymous.create=true"]);
    let url = format!("{}/api/v1/urls", server.url);
    let theirs = ureq::post(url).send_json(json!({"long_url": "https://example.com/theirs"}));
    assert_eq!(theirs.unwrap().status(), 201);
    let listed = |more: &[&str]| {
        let arguments = [&["--json", "list"], more].concat();
        done(&data, &arguments).json()["links"].as_array().unwrap().clone()
    };
    assert_eq!(listed(&[]).iter().map(|link| &link["short_code"]).collect::<Vec<_>>(), [&code]);
    assert_eq!(listed(&["--owner", "all"]).len(), 2);
    assert_eq!(listed(&["--owner", "0"])[0]["long_url"], "https://example.com/theirs");
    let table = done(&data, &["list", "--owner", "all"]).out;
    assert!(table.contains("OWNER"), "{table}");
    assert!(done(&data, &["stats"]).out.starts_with("Your links"));
    assert!(done(&data, &["stats", "--owner", "all"]).out.starts_with("Links of all owners"));
    done(&data, &["top", "--once", "--owner", "0"]);
    let refused = run(&data, &["stats", "--owner", "x"]);
    assert!(refused.code == 1 && refused.err.contains("owner"), "{}", refused.err);
}

#[test]
fn a_command_in_a_folder_without_a_store_creates_none() {
    let (temp, data) = folder();
    let csv = temp.path().join("links.csv");
    std::fs::write(&csv, "long_url\nhttps://example.com/\n").unwrap();
    std::fs::create_dir(temp.path().join("empty")).unwrap();
    for data in [&data, &temp.path().join("empty")] {
        for arguments in [
            &["shorten", "https://example.com/"][..],
            &["import", csv.to_str().unwrap()],
            &["account", "add", "ann"],
            &["account", "invite"],
            &["list"],
            &["stats"],
        ] {
            let said = run(data, arguments);
            assert_eq!(said.code, 1, "{arguments:?}");
            assert!(
                said.err.contains("there is no store in") && said.err.contains("--data-dir"),
                "{arguments:?}: {}",
                said.err
            );
        }
    }
    assert!(!data.exists());
    assert_eq!(std::fs::read_dir(temp.path().join("empty")).unwrap().count(), 0);
}

#[test]
fn the_doctor_asks_the_running_server() {
    let (_temp, data) = folder();
    let find = |said: &CommandOutput, what: &str| {
        let findings = said.json()["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["what"] == what).unwrap()["found"].clone()
    };
    let server = Served::start(&data, &["anonymous.create=false"]);
    for arguments in [&["--json", "doctor"][..], &["--json", "doctor", "--deep"]] {
        let said = done(&data, arguments);
        assert_eq!(find(&said, "anonymous"), "not allowed", "the server's settings count");
        assert!(find(&said, "server").as_str().unwrap().starts_with("running (pid "));
        assert!(find(&said, "store").as_str().unwrap().contains("terse.db"));
    }
    drop(server);
    let said = done(&data, &["--json", "doctor"]);
    assert_eq!(find(&said, "anonymous"), "allowed, on this machine only");
    assert_eq!(find(&said, "server"), "not running");
}

#[test]
fn the_doctor_watches_and_prints_what_changes() {
    use std::io::BufRead as _;
    use std::os::unix::fs::PermissionsExt as _;
    let (_temp, data) = folder();
    let server = Served::start(&data, &[]);
    let mut watch = command(&data);
    watch.args(["doctor", "--watch", "1s"]).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut lines = std::io::BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = |text: &str| {
        lines.by_ref().map(Result::unwrap).find(|line| line.contains(text)).expect(text)
    };
    assert!(next("server: running (pid ").starts_with('✔'));
    assert!(next("data_dir").contains("private"));
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let changed = next("data_dir");
    assert!(changed.contains(" ! data_dir: ") && changed.contains("other users"), "{changed}");
    server.kill();
    assert!(next("server:").ends_with("✔ server: not running"));
    let server = Served::start(&data, &[]);
    assert!(next("server:").contains("✔ server: running (pid "));
    drop(server);
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn hosts_are_blocked_by_commands_with_and_without_a_server() {
    let (_temp, data) = store();
    let data = data.as_path();
    done(data, &["shorten", "https://bad.example.net/1", "--alias", "before1"]);
    assert_eq!(done(data, &["block", "--list"]).out, "No hosts are blocked.\n");
    let unexplained = run(data, &["block", "bad.example.net"]);
    assert_eq!(unexplained.code, 2, "{}", unexplained.err);
    assert_eq!(
        done(data, &["block", "Bad.example.net", "--why", "phishing"]).out,
        "blocked: bad.example.net\n"
    );
    assert_eq!(
        done(data, &["block", "bad.example.net", "--why", "again"]).out,
        "already blocked: bad.example.net\n"
    );
    let refused = run(data, &["shorten", "https://sub.bad.example.net/"]);
    assert!(refused.code == 1 && refused.err.contains("blocked by moderators"), "{}", refused.err);
    let list = done(data, &["--json", "block", "--list"]).json();
    assert_eq!(
        (&list["hosts"][0]["host"], &list["hosts"][0]["why"]),
        (&json!("bad.example.net"), &json!("phishing"))
    );
    assert!(done(data, &["block", "--list"]).out.contains("phishing"));
    let served = Served::start(data, &[]);
    assert!(done(data, &["block", "--list"]).out.contains("bad.example.net"));
    assert_eq!(
        done(data, &["block", "--remove", "bad.example.net"]).out,
        "unblocked: bad.example.net\n"
    );
    let twice = run(data, &["block", "--remove", "bad.example.net"]);
    assert!(twice.code == 1 && twice.err.contains("not blocked"), "{}", twice.err);
    drop(served);
}
