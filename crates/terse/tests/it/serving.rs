//! `terse serve` as a process: its settings, its start and its end.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::commands::{done, run};
use crate::process::{Served, command, folder};

#[test]
fn the_settings_are_shown_without_secrets() {
    let (_temp, data) = folder();
    for arguments in [&["config"][..], &["--json", "config"]] {
        let output = command(&data)
            .env("TERSE_ADMIN_KEY", "a-very-secret-key-123")
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(
            output.status.success() && text.contains("admin_key") && text.contains("hidden"),
            "{text}"
        );
        assert!(!text.contains("secret-key"), "{text}");
    }
}

/// Starts a server that must fail to start; returns its output.
fn refuses(data: &Path, settings: &[&str], env: &[(&str, &str)]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut serve = command(data);
    serve.args(["serve", "--listen", &address]).envs(env.iter().copied());
    for setting in settings {
        serve.args(["--set", setting]);
    }
    let mut child = serve.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        let opened = std::net::TcpStream::connect(&address).is_ok();
        if opened || begun.elapsed() > Duration::from_secs(20) {
            let _ = child.kill();
            panic!("{}", if opened { "the port was opened" } else { "it goes on" });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_cannot_work_is_refused_before_the_port_opens() {
    let (temp, data) = folder();
    assert!(refuses(&data, &["cache.tll=1m"], &[]).contains("cache.tll"));
    assert!(refuses(&data, &[], &[("TERSE_CASHE__TTL", "1m")]).contains("TERSE_CASHE__TTL"));
    let file = temp.path().join("terse.toml");
    std::fs::write(&file, "[cache]\nsise = \"1MiB\"\n").unwrap();
    assert!(refuses(&data, &[], &[]).contains("sise"));
    std::fs::remove_file(file).unwrap();
    assert!(
        !refuses(&data, &["admin_key=tooshort"], &[]).contains("tooshort"),
        "a wrong secret is still a secret"
    );
    assert!(!data.exists(), "nothing was made");

    let running = Served::start(&data, &[]);
    let said = refuses(&data, &[], &[]);
    assert!(said.contains("another terse is running"), "{said}");
    drop(running);

    let store = rusqlite::Connection::open(data.join("terse.db")).unwrap();
    store.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let said = refuses(&data, &[], &[]);
    assert!(said.contains("newer") || said.contains("99"), "{said}");
    assert_eq!(run(&data, &["doctor"]).code, 1, "the doctor sees it too");
}

#[test]
fn serve_is_the_default_command_and_listens_on_all_addresses() {
    let (temp, data) = folder();
    let out = temp.path().join("out");
    let mut serve = command(&data);
    serve.args(["--listen", ":0"]).stdout(std::fs::File::create(&out).unwrap());
    let server = Served::spawn(&data, serve.stderr(std::process::Stdio::piped()));
    let begun = Instant::now();
    let mut text = String::new();
    while !text.contains("in a browser") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{text}");
        text = std::fs::read_to_string(&out).unwrap();
    }
    let line = text.lines().find(|line| line.starts_with("terse is listening on ")).unwrap();
    let addresses: Vec<&str> = line.split(' ').filter(|word| word.starts_with("http")).collect();
    assert!(!addresses.is_empty() && !line.contains("0.0.0.0"), "{line}");
    for address in addresses {
        assert_eq!(ureq::get(address).call().unwrap().status(), 200, "{address}");
    }
    // `--json` came with curl 7.82; Debian 11 and Ubuntu 22.04 have older ones.
    assert!(text.contains("curl -s ") && !text.contains("--json"), "{text}");
    server.terminate();
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_closed_standard_output_does_not_end_the_server() {
    let (_temp, data) = folder();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut serve = command(&data);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).stdout(writer);
    let server = Served::spawn(&data, serve.stderr(std::process::Stdio::piped()));
    // It prints after it has begun to serve: the second command comes later than that.
    done(&data, &["shorten", "https://example.com/", "--alias", "my-link"]);
    assert_eq!(server.get("/my-link").0, 302);
    server.terminate();
    let (status, said) = server.wait();
    assert!(status.success() && !said.contains("panicked"), "{status}: {said}");
}

#[test]
fn a_log_level_that_does_not_exist_is_refused() {
    let (_temp, data) = folder();
    let message = "log.level must be error, warn, info, debug, trace or target=level pairs \
         (got \"verbose\")";
    let said = refuses(&data, &["log.level=verbose"], &[]);
    assert!(said.contains(message), "{said}");
    for level in ["info,nonsense", "terse=loud", "=info", ""] {
        assert!(refuses(&data, &[&format!("log.level={level}")], &[]).contains("log.level must"));
    }
    for level in ["debug", "info,terse_server=debug", "WARN", "off"] {
        done(&data, &["--set", &format!("log.level={level}"), "config"]);
    }
}

#[test]
fn on_sigterm_it_drains_and_exits_with_success() {
    let (_temp, data) = folder();
    let server = Served::start(&data, &["shutdown.drain_delay=1s"]);
    done(&data, &["shorten", "https://example.com/", "--alias", "my-link"]);
    assert_eq!(server.get("/readyz").0, 200);
    server.terminate();
    let begun = Instant::now();
    while server.get("/readyz").0 == 200 {
        assert!(begun.elapsed() < Duration::from_millis(900), "/readyz does not notice");
    }
    assert_eq!(
        (server.get("/readyz").0, server.get("/livez").0, server.get("/my-link").0),
        (503, 200, 302)
    );
    let (status, said) = server.wait();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(begun.elapsed() >= Duration::from_millis(900) && !said.contains("panicked"), "{said}");
    assert!(!data.join("run.json").exists());
    assert_eq!(done(&data, &["resolve", "my-link"]).out, "https://example.com/\n");
}
