//! `tls.*`: https with certificates from files.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use tempfile::TempDir;
use terse::Config;
use terse::config::Paths;

use crate::harness::TestTerse;
use crate::process::{Served, command};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Certificates in a folder, each its own root.
pub(crate) struct Certificates {
    folder: TempDir,
    roots: RootCertStore,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, roots: RootCertStore::empty() }
    }

    pub(crate) fn paths(&self, file: &str) -> (PathBuf, PathBuf) {
        let path = |end: &str| self.folder.path().join(format!("{file}.{end}"));
        (path("pem"), path("key"))
    }

    /// Writes a certificate for a name, which clients trust from now on.
    pub(crate) fn write(&mut self, file: &str, name: &str) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("made");
        self.roots.add(made.cert.der().clone()).expect("a root");
        let (certificate, key) = self.paths(file);
        // The key first: terse sees no pair of a new certificate with an old key for long.
        write_pem(&key, "PRIVATE KEY", &made.signing_key.serialize_der());
        write_pem(&certificate, "CERTIFICATE", made.cert.der());
        made.cert.der().clone()
    }

    pub(crate) fn set(&self, config: &mut Config, files: &[&str]) {
        let paths: Vec<_> = files.iter().map(|file| self.paths(file)).collect();
        config.base_url = Some("https://go.example".parse().expect("a URL"));
        config.tls.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.tls.certificate = Paths(paths.iter().map(|(path, _)| path.clone()).collect());
        config.tls.key = Paths(paths.iter().map(|(_, path)| path.clone()).collect());
    }

    pub(crate) fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        client.alpn_protocols =
            protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(client)
    }
}

fn write_pem(path: &Path, kind: &str, der: &[u8]) {
    let text = format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", BASE64.encode(der));
    std::fs::write(path, text).expect("a file");
}

pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

pub(crate) fn connect(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> TlsStream {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let session = ClientConnection::new(Arc::clone(client), name).expect("a session");
    StreamOwned::new(session, socket)
}

/// Sends a request and reads the answer until the server ends the connection as TLS prescribes.
pub(crate) fn ask(stream: &mut TlsStream, method: &str, path: &str, host: &str) -> String {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end of the session");
    answer
}

fn start(
    certificates: &Certificates,
    files: &[&str],
    change: impl FnOnce(&mut Config),
) -> TestTerse {
    TestTerse::with(|config| {
        certificates.set(config, files);
        change(config);
    })
}

/// Creates a link on this machine, without https.
fn alias(terse: &TestTerse, alias: &str, target: &str) {
    let body = serde_json::json!({"long_url": target, "custom_alias": alias}).to_string();
    let key = format!("Bearer {}", crate::harness::KEY);
    let fields = [("authorization", key.as_str()), ("host", "localhost")];
    let answer = terse.send("POST", "/api/v1/urls", &fields, Some(body.as_bytes()));
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// The value of a metric.
fn metric(terse: &TestTerse, name: &str) -> u64 {
    let text = terse.get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).unwrap_or_default()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_fast_path_answers_over_tls_and_counts_the_click() {
    const VISITS: u64 = 5;
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |_| ());
    alias(&terse, "there", "https://example.com/a?b");
    let client = certificates.client(&[]);
    let handed_over = || metric(&terse, "terse_connections_special_total{what=\"handed_over\"}");
    let before = handed_over();
    for _ in 0..VISITS {
        let mut stream = connect(terse.tls_address(), &client, "go.example");
        let answer = ask(&mut stream, "GET", "/there", "go.example");
        assert!(answer.starts_with("HTTP/1.1 302 Found\r\n"), "{answer}");
        assert!(answer.contains("location: https://example.com/a?b\r\n"), "{answer}");
    }
    // Asking for the metrics may hand a connection of its own over.
    assert!(handed_over() < before + VISITS, "hyper answered");
    assert_eq!(metric(&terse, "terse_redirects_total{outcome=\"redirected\"}"), VISITS);
    assert_eq!(metric(&terse, "terse_clicks_total{what=\"journaled\"}"), VISITS);
    let answer =
        ask(&mut connect(terse.tls_address(), &client, "go.example"), "GET", "/", "go.example");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "a page: {answer}");
}

#[test]
fn answers_that_the_client_does_not_read_at_once_all_arrive() {
    const REQUESTS: usize = 10_000;
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |_| ());
    alias(&terse, "there", &format!("https://example.com/{}", "x".repeat(1000)));
    let client = certificates.client(&[]);
    let mut stream = connect(terse.tls_address(), &client, "go.example");
    let request = b"GET /there HTTP/1.1\r\nhost: go.example\r\n\r\n";
    stream.write_all(request).expect("sent");
    let mut first = vec![0; 4096];
    let len = stream.read(&mut first).expect("an answer");
    assert!(first[..len].starts_with(b"HTTP/1.1 302") && first[..len].ends_with(b"\r\n\r\n"));

    // Far more answers than sockets and TLS hold: the server has to wait for its client, which
    // reads only when it can send nothing.
    let requests = request.repeat(REQUESTS);
    let (session, sock) = (&mut stream.conn, &mut stream.sock);
    sock.set_nonblocking(true).expect("no waiting");
    let (mut left, mut answers, mut buffer) = (&requests[..], Vec::new(), [0; 65_536]);
    let begun = Instant::now();
    while answers.len() < REQUESTS * len {
        assert!(begun.elapsed() < TIMEOUT, "{} of {}", answers.len(), REQUESTS * len);
        let sent = session.writer().write(left).expect("buffered");
        left = &left[sent..];
        match session.wants_write().then(|| session.write_tls(sock)) {
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
            Some(sent) => {
                sent.expect("sent");
                continue;
            }
            None => {}
        }
        match session.read_tls(sock) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            read => assert!(read.expect("read") > 0, "the connection stays open"),
        }
        session.process_new_packets().expect("records");
        while let Ok(read @ 1..) = session.reader().read(&mut buffer) {
            answers.extend_from_slice(&buffer[..read]);
        }
    }
    let answers =
        answers.chunks(len).filter(|answer| answer.starts_with(b"HTTP/1.1 302 Found\r\n"));
    assert_eq!(answers.count(), REQUESTS);
}

/// What TLS holds because the socket is full is sent when the client reads, also if the client
/// sends nothing more.
#[test]
fn the_last_answers_arrive_whatever_the_socket_holds() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |_| ());
    alias(&terse, "there", &format!("https://example.com/{}", "x".repeat(1000)));
    let client = certificates.client(&[]);
    let request = b"GET /there HTTP/1.1\r\nhost: go.example\r\n\r\n";
    // In steps of less than TLS holds, up to more than the sockets hold.
    for requests in (1..=100).map(|step| step * 40) {
        let mut stream = connect(terse.tls_address(), &client, "go.example");
        stream.write_all(&request.repeat(requests)).expect("sent");
        // The server answers as far as the socket lets it.
        std::thread::sleep(Duration::from_millis(10));
        let (mut heads, mut buffer, mut newlines) = (0, [0; 65_536], 0);
        while heads < requests {
            let read = stream.read(&mut buffer).expect("more answers");
            assert!(read > 0, "the connection ended after {heads} answers");
            for byte in &buffer[..read] {
                match byte {
                    b'\n' if newlines == 1 => (heads, newlines) = (heads + 1, 0),
                    b'\n' => newlines = 1,
                    b'\r' => {}
                    _ => newlines = 0,
                }
            }
        }
    }
}

/// The protocol that ALPN chooses, and the status and target of a link over it.
fn over_http2(certificates: &Certificates, terse: &TestTerse) -> (Option<Vec<u8>>, u16) {
    let (client, address) = (certificates.client(&["h2", "http/1.1"]), terse.tls_address());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("go.example").unwrap();
        let stream = tokio_rustls::TlsConnector::from(client).connect(name, socket).await.unwrap();
        let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        if protocol.as_deref() != Some(b"h2") {
            return (protocol, 0);
        }
        let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::get("https://go.example/there").body(()).unwrap();
        let answer = requests.send_request(request, true).unwrap().0.await.unwrap();
        (protocol, answer.status().as_u16())
    })
}

#[test]
fn alpn_chooses_http2() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |_| ());
    alias(&terse, "there", "https://example.com/");
    assert_eq!(over_http2(&certificates, &terse), (Some(b"h2".to_vec()), 302));
}

/// As on a node without the role `redirect`.
#[test]
fn http2_is_spoken_where_hyper_serves_all_requests() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = TestTerse::with_fast_path(false, |config| certificates.set(config, &["go"]));
    alias(&terse, "there", "https://example.com/");
    assert_eq!(over_http2(&certificates, &terse), (Some(b"h2".to_vec()), 302));
}

#[test]
fn one_source_takes_an_eighth_of_the_handshakes() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |config| config.tls.max_handshakes = 16);
    let silent: Vec<_> = (0..3).map(|_| TcpStream::connect(terse.tls_address()).unwrap()).collect();
    // One of the three is closed at once, and the others wait for their time to end.
    let begun = std::time::Instant::now();
    while metric(&terse, "terse_tls_handshakes_total{result=\"refused\"}") < 1 {
        assert!(begun.elapsed() < TIMEOUT, "none is refused");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(silent);
}

#[test]
fn the_name_that_a_client_asks_for_chooses_the_certificate() {
    let mut certificates = Certificates::new();
    let first = certificates.write("go", "go.example");
    let second = certificates.write("s", "*.s.example");
    let terse = start(&certificates, &["go", "s"], |config| {
        config.domains = vec!["a.s.example".into()];
    });
    let client = certificates.client(&[]);
    for (name, wanted) in [("go.example", &first), ("a.s.example", &second)] {
        let mut stream = connect(terse.tls_address(), &client, name);
        let answer = ask(&mut stream, "GET", "/nosuch99", name);
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        let got = stream.conn.peer_certificates().expect("a certificate");
        assert_eq!(got, std::slice::from_ref(wanted), "{name}");
    }
    // Another name gets the first certificate, which is not for it.
    let mut stream = connect(terse.tls_address(), &client, "other.example");
    let error = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect_err("not trusted");
    assert!(error.to_string().contains("not valid for name"), "{error}");
    wait_until("the failure is counted", || {
        metric(&terse, "terse_tls_handshakes_total{result=\"failed\"}") > 0
    });
}

#[test]
fn a_session_is_resumed() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |_| ());
    let client = certificates.client(&[]);
    let kinds: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = connect(terse.tls_address(), &client, "go.example");
            ask(&mut stream, "GET", "/nosuch99", "go.example");
            stream.conn.handshake_kind()
        })
        .collect();
    assert_eq!(kinds[0], Some(HandshakeKind::Full));
    assert_eq!(kinds[1..], [Some(HandshakeKind::Resumed); 2]);
    assert_eq!(metric(&terse, "terse_tls_handshakes_total{result=\"full\"}"), 1);
    assert_eq!(metric(&terse, "terse_tls_handshakes_total{result=\"resumed\"}"), 2);
}

#[test]
fn changed_files_are_used_without_a_restart_and_bad_ones_are_not() {
    let mut certificates = Certificates::new();
    let first = certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |_| ());
    let shown = |certificates: &Certificates| {
        let client = certificates.client(&[]);
        let mut stream = connect(terse.tls_address(), &client, "go.example");
        ask(&mut stream, "GET", "/nosuch99", "go.example");
        stream.conn.peer_certificates().expect("a certificate")[0].clone().into_owned()
    };
    assert_eq!(shown(&certificates), first);
    let mut open = connect(terse.tls_address(), &certificates.client(&[]), "go.example");
    open.flush().expect("a handshake");

    let second = certificates.write("go", "go.example");
    wait_until("the new certificate is used", || shown(&certificates) == second);

    std::fs::write(certificates.paths("go").0, "nothing").expect("a file");
    wait_until("a notice", || terse.get("/readyz").text().contains("certificate was not replaced"));
    assert_eq!(shown(&certificates), second, "the old one stays");
    assert_eq!(terse.get("/readyz").status, 200);

    let third = certificates.write("go", "go.example");
    wait_until("the third certificate is used", || shown(&certificates) == third);
    wait_until("no notice", || !terse.get("/readyz").text().contains("not replaced"));
    let answer = ask(&mut open, "GET", "/nosuch99", "go.example");
    assert!(answer.starts_with("HTTP/1.1 404"), "open connections stay: {answer}");
}

#[test]
fn handshakes_are_bounded_in_number_and_time() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |config| {
        config.tls.max_handshakes = 1;
        config.tls.handshake_timeout = "1s".parse().unwrap();
    });
    let client = certificates.client(&[]);
    let mut silent = TcpStream::connect(terse.tls_address()).unwrap();
    silent.set_read_timeout(Some(TIMEOUT)).unwrap();
    // A second connection that says nothing is closed at once, unless it was first; the first is
    // closed when its time is over.
    let mut second = TcpStream::connect(terse.tls_address()).unwrap();
    second.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut end = [0; 1];
    assert_eq!(silent.read(&mut end).expect("an end"), 0);
    assert_eq!(second.read(&mut end).expect("an end"), 0);
    assert_eq!(metric(&terse, "terse_tls_handshakes_total{result=\"refused\"}"), 1);
    assert_eq!(metric(&terse, "terse_connections_special_total{what=\"timed_out\"}"), 1);
    let mut stream = connect(terse.tls_address(), &client, "go.example");
    let answer = ask(&mut stream, "GET", "/nosuch99", "go.example");
    assert!(answer.starts_with("HTTP/1.1 404"), "the place is free again: {answer}");
}

#[test]
fn http_redirects_to_https_except_health_checks_and_commands() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(&certificates, &["go"], |config| {
        config.tls.hsts = "365d".parse().unwrap();
        config.domains = vec!["s.example".into()];
    });
    alias(&terse, "there", "https://example.com/");
    for (method, host, path, status) in [
        ("GET", "go.example", "/there?a=b", 301),
        ("HEAD", "go.example:80", "/there?a=b", 301),
        ("GET", "s.example", "/", 301),
        ("GET", "s.example", "/%2e/x//y?z=%0d%0a", 301),
        ("POST", "go.example", "/api/v1/urls", 308),
        ("DELETE", "go.example", "/api/v1/urls/there", 308),
    ] {
        let answer = terse.send(method, path, &[("host", host)], None);
        let host = host.split(':').next().unwrap();
        assert_eq!(answer.status, status, "{method} {host}{path}");
        assert_eq!(answer.location(), Some(&*format!("https://{host}{path}")));
        assert_eq!(answer.header("strict-transport-security"), None, "not in the clear");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(terse.send("GET", path, &[("host", "10.0.0.1")], None).status, 200, "{path}");
    }
    let unknown = terse.send("GET", "/there", &[("host", "evil.example")], None);
    assert_eq!((unknown.status, unknown.location()), (421, None));
    let local = terse.send("GET", "/there", &[("host", "localhost")], None);
    assert_eq!((local.status, local.location()), (302, Some("https://example.com/")));
    // terse ignores the field of a client that is no trusted proxy.
    let fields = [("host", "go.example"), ("x-forwarded-proto", "https")];
    assert_eq!(terse.send("GET", "/there", &fields, None).status, 301);

    let mut stream = connect(terse.tls_address(), &certificates.client(&[]), "go.example");
    let answer = ask(&mut stream, "GET", "/there", "go.example");
    assert!(answer.contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");
}

#[test]
fn a_trusted_proxy_and_the_setting_turn_the_redirect_off() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let behind = start(&certificates, &["go"], |config| {
        config.trusted_proxies = vec!["127.0.0.1".into()];
    });
    alias(&behind, "there", "https://example.com/");
    for (scheme, status) in [("https", 302), ("http", 301)] {
        let fields = [("host", "go.example"), ("x-forwarded-proto", scheme)];
        assert_eq!(behind.send("GET", "/there", &fields, None).status, status, "{scheme}");
    }
    assert_eq!(behind.get("/there").status, 301);

    let off = start(&certificates, &["go"], |config| {
        config.tls.redirect = false;
        config.tls.hsts = "1d".parse().unwrap();
    });
    off.alias("there", "https://example.com/");
    // From the store, from memory on the fast path, and from hyper.
    for method in ["GET", "GET", "POST"] {
        let answer = off.send(method, "/there", &[], None);
        assert_ne!(answer.status, 301, "{method}");
        assert_eq!(answer.header("strict-transport-security"), None, "{method}: not in the clear");
    }
}

#[test]
fn bad_files_stop_the_start_with_a_message() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    certificates.write("other", "other.example");
    let (certificate, key) = certificates.paths("go");
    let (_, other) = certificates.paths("other");
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem");
    for (certificate, key, message) in [
        (&certificate, &other, "does not belong to the certificate"),
        (&missing, &key, "missing.pem cannot be read"),
        (&certificate, &certificate, "has no private key"),
    ] {
        let data = folder.path().join("data");
        let set = |name: &str, path: &Path| format!("tls.{name}={}", path.display());
        let mut child = command(&data)
            .args(["serve", "--listen", "127.0.0.1:0", "--set", "tls.listen=127.0.0.1:0"])
            .args(["--set", &set("certificate", certificate), "--set", &set("key", key)])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("terse runs");
        let begun = Instant::now();
        while child.try_wait().expect("a status").is_none() && begun.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let output = child.wait_with_output().expect("it has ended");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(message), "{said}");
        let secret = std::fs::read_to_string(key).unwrap_or_default();
        let secret = secret.lines().nth(1).unwrap_or("nothing to see here");
        assert!(!said.contains(&secret[..16]), "{said}");
    }
}

#[test]
fn the_binary_serves_https_and_doctor_checks_the_certificate() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let (certificate, key) = certificates.paths("go");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (data, output) = (folder.path().join("data"), folder.path().join("out"));
    let settings = [
        "base_url=https://go.example".to_owned(),
        "domains=s.example".to_owned(),
        "tls.listen=127.0.0.1:0".to_owned(),
        format!("tls.certificate={}", certificate.display()),
        format!("tls.key={}", key.display()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let served = Served::start_with_output(&data, &settings, &output);
    let said = std::fs::read_to_string(&output).unwrap();
    let address = said.split_once(" https://").expect("an address").1;
    let address: SocketAddr = address.lines().next().unwrap().trim().parse().unwrap();

    // Commands find the server without https.
    let made =
        command(&data).args(["shorten", "https://example.com/", "--alias", "there"]).output();
    let made = made.expect("terse runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(String::from_utf8_lossy(&made.stdout).trim(), "https://go.example/there");
    let mut stream = connect(address, &certificates.client(&[]), "go.example");
    let answer = ask(&mut stream, "GET", "/there", "go.example");
    assert!(answer.contains("location: https://example.com/\r\n"), "{answer}");

    let doctor = command(&data).args(["doctor", "--json"]).output().expect("terse runs");
    let said = String::from_utf8_lossy(&doctor.stdout);
    for part in ["none is for s.example", "every user of this machine can read", "days left"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    served.kill();
}
