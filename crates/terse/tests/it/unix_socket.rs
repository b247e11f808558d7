//! `listen = "unix:…"`: a Unix socket, for a proxy on this machine.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::process::{Served, command, folder};

const TIMEOUT: Duration = Duration::from_secs(30);

fn start(data: &Path, socket: &Path, settings: &[&str]) -> Served {
    let mut command = command(data);
    let listen = format!("unix:{}", socket.display());
    command.args(["serve", "--listen", &listen, "--set", "base_url=http://go.example"]);
    command.args(["--set", "shutdown.drain_delay=100ms", "--set", "limits.guesses_per_ip=1/h"]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let served = Served::spawn(data, command.stdout(Stdio::null()).stderr(Stdio::piped()));
    assert_eq!(served.url, listen);
    served
}

/// The status of a GET.
fn ask(socket: &Path, before: &[u8], path: &str, fields: &str) -> u16 {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: go.example\r\n{fields}connection: close\r\n\r\n");
    stream.write_all(&[before, request.as_bytes()].concat()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_default()
}

fn run(data: &Path, args: &[&str]) -> (bool, String) {
    let output = command(data).args(args).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_proxy_and_commands_use_the_socket() {
    let (temp, data) = folder();
    let socket = temp.path().join("terse.sock");
    let served = start(&data, &socket, &["trusted_proxies=127.0.0.1"]);
    let (ok, said) = run(&data, &["shorten", "https://example.com/", "--alias", "there"]);
    assert!(ok, "{said}");
    assert_eq!(ask(&socket, b"", "/there", ""), 302);
    // The proxy says who visits.
    let visitor = |last: u8| format!("x-forwarded-for: 203.0.113.{last}\r\n");
    assert_eq!(ask(&socket, b"", "/nosuch99", &visitor(1)), 404);
    assert_eq!(ask(&socket, b"", "/nosuch99", &visitor(1)), 429, "the same visitor");
    assert_eq!(ask(&socket, b"", "/nosuch99", &visitor(2)), 404, "another one");
    let listen = format!("listen=unix:{}", socket.display());
    let settings = ["--set", &listen, "--set", "base_url=http://go.example"];
    let (ok, said) = run(&data, &[&settings[..], &["health"]].concat());
    assert!(ok && said.contains("ready"), "{said}");
    let (_, said) = run(&data, &["doctor"]);
    assert!(said.contains("✔ listen: unix:") && said.contains("for a trusted proxy"), "{said}");

    served.terminate();
    let (status, said) = served.wait();
    assert!(status.success() && !socket.exists(), "{status}: {said}");
    assert!(!said.contains("span.name"), "the log shows no spans: {said}");
    let (ok, said) = run(&data, &[&settings[..], &["health"]].concat());
    assert!(!ok && said.contains("no answer from unix:"), "{said}");
}

#[test]
fn a_balancer_sends_the_proxy_protocol_through_the_socket() {
    let (temp, data) = folder();
    let socket = temp.path().join("terse.sock");
    let settings = ["trusted_proxies=127.0.0.1", "proxy_protocol=true"];
    let served = start(&data, &socket, &settings);
    let v1 = |last: u8| format!("PROXY TCP4 203.0.113.{last} 198.51.100.1 51234 80\r\n");
    let v2 = |last: u8| {
        let addresses = [203, 0, 113, last, 198, 51, 100, 1, 0xc8, 0x22, 0, 80];
        [b"\r\n\r\n\0\r\nQUIT\n".as_slice(), &[0x21, 0x11, 0, 12], &addresses].concat()
    };
    assert_eq!(ask(&socket, v1(1).as_bytes(), "/nosuch99", ""), 404);
    assert_eq!(ask(&socket, &v2(1), "/nosuch99", ""), 429, "the same visitor");
    assert_eq!(ask(&socket, &v2(2), "/nosuch99", ""), 404, "another one");
    // Commands send no header.
    let (ok, said) = run(&data, &["list"]);
    assert!(ok, "{said}");
    served.kill();
}

#[test]
fn the_socket_that_a_killed_server_left_is_replaced() {
    let (temp, data) = folder();
    let socket = temp.path().join("terse.sock");
    start(&data, &socket, &[]).kill();
    assert!(socket.exists());
    let served = start(&data, &socket, &[]);
    assert_eq!(ask(&socket, b"", "/livez", ""), 200);
    // Another server does not take it over.
    let other = temp.path().join("other");
    let listen = format!("unix:{}", socket.display());
    let (ok, said) =
        run(&other, &["serve", "--listen", &listen, "--set", "base_url=http://go.example"]);
    assert!(!ok && said.contains("another process listens there"), "{said}");
    let (ok, said) = run(&other, &["serve", "--listen", &listen]);
    assert!(!ok && said.contains("base_url must be set"), "{said}");
    assert_eq!(ask(&socket, b"", "/livez", ""), 200);
    served.kill();
}
