//! `LISTEN_FDS`: another process holds the listening sockets, so that a restart fails no request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::process::{Served, command};
use crate::tls::Certificates;

const TIMEOUT: Duration = Duration::from_secs(30);

/// `terse serve` with sockets as file descriptors from 3 on, as systemd starts it.
fn activated(data: &Path, sockets: [OwnedFd; 2], settings: &[&str]) -> Command {
    let plain = command(data);
    let mut activated = Command::new("sh");
    let take = "exec 3<&0 4>&1 0</dev/null 1>/dev/null";
    let script = format!("{take}; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$0\" \"$@\"");
    let [first, second] = sockets;
    activated
        .args(["-c", &script])
        .arg(plain.get_program())
        .args(plain.get_args())
        .args(["serve", "--set", "base_url=http://go.example"])
        .args(["--set", "shutdown.drain_delay=200ms", "--set", "redirect.store_timeout=30s"])
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .current_dir(data.parent().expect("a folder"))
        .stdin(first)
        .stdout(second)
        .stderr(Stdio::piped());
    // Settings of the environment that `command` leaves out.
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => activated.env(name, value),
            None => activated.env_remove(name),
        };
    }
    activated
}

/// An address that visitors connect to.
#[derive(Clone)]
enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Tls(SocketAddr, Arc<ClientConfig>),
}

trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

impl Endpoint {
    fn connect(&self) -> std::io::Result<Box<dyn Connection>> {
        let tcp = |address: &SocketAddr| {
            let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            std::io::Result::Ok(stream)
        };
        Ok(match self {
            Self::Tcp(address) => Box::new(tcp(address)?),
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Box::new(stream)
            }
            Self::Tls(address, client) => {
                let name = ServerName::try_from("go.example").expect("a name");
                let session = ClientConnection::new(Arc::clone(client), name).expect("a session");
                Box::new(StreamOwned::new(session, tcp(address)?))
            }
        })
    }

    /// Sends requests until `over`: each on a connection of its own, or on one until the server
    /// says that it closes it.
    fn visit(&self, keep_alive: bool, over: &AtomicBool, answered: &AtomicU64) {
        let close = if keep_alive { "" } else { "connection: close\r\n" };
        let request = format!("GET /there HTTP/1.1\r\nhost: go.example\r\n{close}\r\n");
        let mut open = None;
        while !over.load(Ordering::Relaxed) {
            let mut stream = open.take().unwrap_or_else(|| self.connect().expect("a connection"));
            stream.write_all(request.as_bytes()).expect("sent");
            let (mut answer, mut part) = (Vec::new(), [0; 2048]);
            while !answer.ends_with(b"\r\n\r\n") {
                let count = stream.read(&mut part).expect("an answer");
                assert!(count > 0, "the connection ends before the answer");
                answer.extend_from_slice(&part[..count]);
            }
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with("HTTP/1.1 302"), "{answer}");
            answered.fetch_add(1, Ordering::Relaxed);
            open = (!answer.contains("connection: close")).then_some(stream);
        }
    }
}

#[test]
fn restarts_under_load_fail_no_request_at_a_port_a_unix_socket_and_with_tls() {
    const RESTARTS: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let (certificate, key) = certificates.paths("go");
    let tls = TcpListener::bind("127.0.0.1:0").unwrap();
    let at_tls = tls.local_addr().unwrap();
    let path = folder.path().join("terse.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let at_port = port.local_addr().unwrap();

    let client = certificates.client(&["http/1.1"]);
    let unix_and_tls = [
        format!("listen=unix:{}", path.display()),
        format!("tls.listen={at_tls}"),
        format!("tls.certificate={}", certificate.display()),
        format!("tls.key={}", key.display()),
        "tls.redirect=false".to_owned(),
    ];
    let port_and_admin = [format!("listen={at_port}"), format!("admin.listen={at_tls}")];
    let fd = |listener: &TcpListener| OwnedFd::from(listener.try_clone().unwrap());
    let start = |settings: &[String], first: OwnedFd| {
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        Served::spawn(&data, &mut activated(&data, [first, fd(&tls)], &settings))
    };
    let start_at_port = || start(&port_and_admin, fd(&port));
    let start_at_unix = || start(&unix_and_tls, unix.try_clone().unwrap().into());
    let served = start_at_port();
    assert_eq!(served.url, format!("http://{at_port}"));
    let made =
        command(&data).args(["shorten", "https://example.com/", "--alias", "there"]).output();
    assert!(made.unwrap().status.success());

    let served = restarts(RESTARTS, served, &[Endpoint::Tcp(at_port)], &start_at_port);
    served.terminate();
    assert!(served.wait().0.success());
    let endpoints = [Endpoint::Unix(path.clone()), Endpoint::Tls(at_tls, client)];
    let served = restarts(RESTARTS, start_at_unix(), &endpoints, &start_at_unix);
    served.terminate();
    assert!(served.wait().0.success() && path.exists(), "the socket belongs to its opener");
}

/// Restarts the server while visitors connect to each endpoint.
fn restarts(
    count: usize,
    mut served: Served,
    endpoints: &[Endpoint],
    start: &(dyn Fn() -> Served + Sync),
) -> Served {
    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let visits = endpoints
        .iter()
        .flat_map(|endpoint| [true, true, false, false].map(|keep| (endpoint, keep)));
    let served = std::thread::scope(|scope| {
        let (over, answered) = (&over, &answered);
        let visitors: Vec<_> = visits
            .map(|(endpoint, keep)| scope.spawn(move || endpoint.visit(keep, over, answered)))
            .collect();
        let busy = || visitors.iter().all(|visitor| !visitor.is_finished());
        let wait_for_more = |more: u64| {
            let (from, begun) = (answered.load(Ordering::Relaxed), Instant::now());
            while busy() && answered.load(Ordering::Relaxed) < from + more {
                assert!(begun.elapsed() < TIMEOUT, "visitors wait");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for_more(50);
        for _ in 0..count {
            served.terminate();
            let (status, said) = served.wait();
            assert!(status.success(), "{status}: {said}");
            served = start();
            wait_for_more(50);
        }
        over.store(true, Ordering::Relaxed);
        for visitor in visitors {
            visitor.join().expect("no request failed");
        }
        served
    });
    assert!(answered.load(Ordering::Relaxed) >= 200);
    served
}

/// The program of systemd that passes sockets on as its socket units do.
#[test]
fn systemd_opens_the_sockets() {
    let program = "systemd-socket-activate";
    if let Err(error) = Command::new(program).arg("--version").output() {
        assert!(std::env::var_os("TERSE_TEST_ALL").is_none(), "{program} is needed: {error}");
        return println!("skipped: {program} is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (path, plain) = (folder.path().join("terse.sock"), command(&data));
    let mut activate = Command::new(program);
    activate
        .arg("--listen")
        .arg(&path)
        .arg(plain.get_program())
        .args(plain.get_args())
        .args(["serve", "--set", "base_url=http://go.example", "--listen"])
        .arg(format!("unix:{}", path.display()))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = activate.spawn().unwrap();
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < TIMEOUT, "no socket");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The first connection starts terse.
    let answer = || -> std::io::Result<String> {
        let (mut stream, mut answer) = (Endpoint::Unix(path.clone()).connect()?, String::new());
        let request = "GET /livez HTTP/1.1\r\nhost: go.example\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes())?;
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = answer();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.as_ref().is_ok_and(|text| text.starts_with("HTTP/1.1 200")), "{answer:?}");
}

#[test]
fn a_socket_that_no_setting_names_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen={}", listener.local_addr().unwrap());
    let path = folder.path().join("terse.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let mut child = activated(&data, [listener.into(), unix.into()], &[&listen]).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("terse.sock, which is neither listen"), "{said}");
}
