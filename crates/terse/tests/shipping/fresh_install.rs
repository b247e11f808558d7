//! `terse self-test`, `terse health` and `terse man-pages`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::{Served, command, folder};

fn json(command: &mut Command) -> (bool, Value) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let said = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.success(), said)
}

#[test]
fn a_self_test_uses_the_program_as_visitors_and_operators_do() {
    let (temp, data) = folder();
    let mut test = command(&data);
    // Settings that would break a server must not matter.
    test.env("TERSE_LISTEN", "192.0.2.1:1").args(["--json", "self-test", "--dir"]);
    let (ok, said) = json(test.arg(temp.path()));
    assert!(ok && said["well"] == true, "{said:#}");
    let steps: Vec<_> =
        said["steps"].as_array().unwrap().iter().map(|step| &step["what"]).collect();
    let expected = [
        "start",
        "create a link",
        "follow it",
        "count the click",
        "back up",
        "stop",
        "restore",
        "start again",
        "follow it again",
        "stop again",
    ];
    assert_eq!(steps, expected);
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_self_test_says_what_does_not_work() {
    let (temp, data) = folder();
    let mut test = command(&data);
    let said = test.args(["self-test", "--dir"]).arg(temp.path().join("absent")).output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&said.stderr).contains("--dir"), "{said:?}");
    // A server that cannot start: no file may be written.
    let mut limited = Command::new("sh");
    let script = "ulimit -f 0; exec \"$0\" --json self-test --dir \"$1\"";
    limited.args(["-c", script, env!("CARGO_BIN_EXE_terse")]).arg(temp.path());
    let (ok, said) = json(&mut limited);
    assert!(!ok && said["well"] == false, "{said:#}");
    let [start] = &said["steps"].as_array().unwrap()[..] else { panic!("{said:#}") };
    assert_eq!(start["what"], "start");
    assert_eq!(start["works"], false);
    assert!(start["found"].as_str().unwrap().contains("the server ended with"), "{start}");
}

#[test]
fn health_is_what_the_server_says() {
    let (_temp, data) = folder();
    let health = |more: &[&str]| {
        let mut health = command(&data);
        json(health.args(["--json", "health", "--set", "listen=127.0.0.1:0"]).args(more))
    };
    let stopped = command(&data).args(["health", "--set", "listen=127.0.0.1:1"]).output().unwrap();
    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    let served = Served::start(&data, &[]);
    let (ok, said) = health(&[]);
    assert!(ok, "{said}");
    assert_eq!(said["status"], 200);
    assert_eq!(said["well"], true);
    assert_eq!(served.get("/readyz").0, 200);
    assert!(health(&["--live"]).0);
    // While it drains it cannot serve, and lives.
    drop(served);
    let served = Served::start(&data, &["shutdown.drain_delay=20s"]);
    served.terminate();
    terse_testkit::wait_until("the server drains", || !health(&[]).0);
    let (_, said) = health(&[]);
    assert_eq!(said["status"], 503, "{said}");
    assert!(health(&["--live"]).0);
}

#[test]
fn every_command_has_a_manual_page_that_man_can_read() {
    let (temp, data) = folder();
    let pages = temp.path().join("man1");
    assert!(command(&data).arg("man-pages").arg(&pages).status().unwrap().success());
    let help = command(&data).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut names: Vec<_> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 20, "{names:?}");
    names.push("account-invite");
    for name in names {
        let page = pages.join(format!("terse-{name}.1"));
        assert!(page.exists(), "{}", page.display());
    }
    check_page(&pages.join("terse.1"), "terse");
    check_page(&pages.join("terse-shorten.1"), "alias");
}

/// groff, where it is installed, reads the page without a warning and shows a word.
fn check_page(page: &Path, word: &str) {
    let shown = Command::new("groff").args(["-Kutf8", "-man", "-Tutf8", "-ww"]).arg(page).output();
    let Ok(shown) = shown else { return };
    assert!(shown.stderr.is_empty(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(String::from_utf8_lossy(&shown.stdout).contains(word), "{}", page.display());
}
