//! SIGHUP.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use terse_testkit::wait_until;

use crate::process::{Served, command, folder};
use crate::tls::{Certificates, ask, connect};

fn hang_up(served: &Served) {
    let pid = served.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
}

#[test]
fn sighup_applies_what_can_change_and_names_the_rest() {
    let (temp, data) = folder();
    let (settings, log) = (temp.path().join("reloaded.toml"), temp.path().join("log"));
    std::fs::write(
        &settings,
        "admin_key = \"the-first-key-0123456789\"\n[log]\nlevel = \"info\"\n",
    )
    .unwrap();
    let mut serve = command(&data);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&settings);
    serve.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let served = Served::spawn(&data, &mut serve);
    let said = || std::fs::read_to_string(&log).unwrap();
    std::fs::write(
        &settings,
        "admin_key = \"another-key-0123456789\"\n[log]\nlevel = \"debug\"\n[cache]\nttl = \"2m\"\n\
         [links]\ngrace = \"3d\"\n",
    )
    .unwrap();
    hang_up(&served);
    wait_until("the settings are read again", || said().contains("at the next start"));
    let text = said();
    let line = text.lines().find(|line| line.contains("at the next start")).unwrap();
    assert!(line.contains("cache.ttl, links.grace") && !line.contains("log.level"), "{line}");
    assert!(line.contains("admin_key") && !text.contains("-0123456789"), "{text}");
    let line = text.lines().find(|line| line.contains("read the settings again")).unwrap();
    assert!(line.contains("log.level"), "{line}");
    // What has not changed since is not named again; what still waits for a start is.
    std::fs::write(&settings, "[log]\nlevel = \"nonsense\"\n").unwrap();
    hang_up(&served);
    wait_until("wrong settings are refused", || said().contains("nothing has changed"));
    assert!(said().contains("log.level must be"), "{}", said());
    assert_eq!(served.get("/healthy-or-not").0, 404, "it serves");
}

/// Creates a link without a key. Returns the status, the limit that the answer names, and the link.
fn create(served: &Served, target: &str) -> (u16, Option<u32>, Value) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = agent.post(format!("{}/api/v1/urls", served.url));
    let mut answer = request.send_json(json!({"long_url": target})).unwrap();
    let limit = answer.headers().get("ratelimit-limit");
    let limit = limit.and_then(|value| value.to_str().ok()?.parse().ok());
    (answer.status().as_u16(), limit, answer.body_mut().read_json().unwrap())
}

#[test]
fn after_sighup_a_changed_blocklist_certificate_and_limit_are_in_use() {
    let mut certificates = Certificates::new();
    let first = certificates.write("go", "go.example");
    let (certificate, key) = certificates.paths("go");
    let (temp, data) = folder();
    let file = |name: &str| temp.path().join(name);
    let (settings, list, output, log) =
        (file("settings.toml"), file("list"), file("output"), file("log"));
    let write_settings = |limits: &str| {
        let text = format!(
            "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate = {certificate:?}\nkey = {key:?}\n\
             redirect = false\n[safety]\nlists = [{list:?}]\n[limits]\n{limits}\n"
        );
        std::fs::write(&settings, text).unwrap();
    };
    std::fs::write(&list, "0.0.0.0 other.example.net\n").unwrap();
    write_settings("create_per_ip = \"30/h\"");
    let mut serve = command(&data);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&settings);
    serve.args(["--base-url", "https://go.example"]);
    let to = |path: &Path| Stdio::from(std::fs::File::create(path).unwrap());
    let served = Served::spawn(&data, serve.stdout(to(&output)).stderr(to(&log)));
    let said = |path: &Path| std::fs::read_to_string(path).unwrap();
    wait_until("the addresses are printed", || said(&output).contains(" https://127."));
    let text = said(&output);
    let address = text.split_once(" https://").unwrap().1.lines().next().unwrap().trim();
    let address: SocketAddr = address.parse().unwrap();
    let shown = |certificates: &Certificates| {
        let mut stream = connect(address, &certificates.client(&[]), "go.example");
        ask(&mut stream, "GET", "/nosuch99", "go.example");
        stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    };
    assert_eq!(shown(&certificates), first);
    let target = "https://bad.example.net/";
    let (status, limit, link) = create(&served, target);
    assert_eq!((status, limit), (201, Some(30)), "{link}");
    let path = format!("/{}", link["short_code"].as_str().unwrap());
    assert_eq!(served.get(&path).0, 302);

    std::fs::write(&list, "0.0.0.0 bad.example.net\n").unwrap();
    let second = certificates.write("go", "go.example");
    write_settings("create_per_ip = \"20/h\"\nguesses_per_ip = \"90/m\"");
    hang_up(&served);
    wait_until("the files are read", || said(&log).contains("these jobs read changed files now"));
    let log = said(&log);
    let line = |words: &str| log.lines().find(|line| line.contains(words)).unwrap_or_default();
    // They also poll. The signal lets them run at once, and this tells that it did.
    let woken = line("these jobs read changed files now");
    assert!(woken.contains("blocklist files, certificates"), "{log}");
    wait_until("the link is blocked", || served.get(&path).0 == 451);
    assert_eq!(create(&served, target).0, 422);
    wait_until("the certificate is used", || shown(&certificates) == second);
    let (status, limit, link) = create(&served, "https://example.com/");
    assert_eq!((status, limit), (201, Some(20)), "{link}");
    let applied = line("read the settings again");
    assert!(applied.contains("limits.create_per_ip"), "{log}");
    assert!(!applied.contains("guesses"), "{log}");
    // It is in tables of the serving threads.
    let later = line("at the next start");
    assert!(later.contains("limits.guesses_per_ip"), "{log}");
    assert!(!later.contains("create_per_ip"), "{log}");
}
