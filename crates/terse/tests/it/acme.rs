//! `tls.acme.*`: certificates that terse orders itself, from a real Pebble.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;
use tempfile::TempDir;
use terse::Config;
use terse::config::AcmeChallenge;
use terse_testkit::{PebbleServer, PostgresServer, wait_until};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::harness::{KEY, TestTerse};
use crate::process::command;

/// An authority, and the certificate of its API, which terse trusts.
struct Authority {
    pebble: PebbleServer,
    folder: TempDir,
    roots: RootCertStore,
}

impl Authority {
    fn start() -> Self {
        let api = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = api.cert.pem();
        let pebble = PebbleServer::start(&certificate, &api.signing_key.serialize_pem());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("api.pem"), &certificate).unwrap();
        // Pebble signs with another certificate than that of its API.
        let trusted = Certificate::from_der(api.cert.der()).to_owned();
        let tls = TlsConfig::builder().root_certs(RootCerts::from(vec![trusted])).build();
        let agent: ureq::Agent = ureq::Agent::config_builder().tls_config(tls).build().into();
        let root = agent.get(pebble.root_url()).call().unwrap().body_mut().read_to_string();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(root.unwrap().as_bytes()).unwrap()).unwrap();
        Self { pebble, folder, roots }
    }

    /// Lets a server order certificates here, for these domains beside go.example.
    fn set(&self, config: &mut Config, domains: &[&str], challenge: AcmeChallenge) {
        config.base_url = Some("https://go.example".parse().unwrap());
        config.domains = domains.iter().map(|domain| (*domain).to_owned()).collect();
        config.tls.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.tls.acme.enabled = true;
        config.tls.acme.accept_terms = true;
        config.tls.acme.email = Some("admin@example.org".to_owned());
        config.tls.acme.directory = self.pebble.directory();
        config.tls.acme.directory_ca = Some(self.folder.path().join("api.pem"));
        config.tls.acme.challenge = challenge;
    }

    /// Lets a server listen where the authority connects to.
    fn listen_at(&self, config: &mut Config) {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        config.listen = at(self.pebble.http_port()).into();
        config.tls.listen = Some(at(self.pebble.tls_port()));
    }

    /// The certificate that a client gets for a host; `None` if it cannot trust it.
    fn certificate(&self, at: SocketAddr, host: &str) -> Option<CertificateDer<'static>> {
        let stream = self.connect(at, host)?;
        Some(stream.conn.peer_certificates()?.first()?.clone().into_owned())
    }

    fn connect(
        &self,
        at: SocketAddr,
        host: &str,
    ) -> Option<StreamOwned<ClientConnection, TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let mut socket = TcpStream::connect(at).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut session = ClientConnection::new(Arc::new(client), name).unwrap();
        session.complete_io(&mut socket).ok()?;
        Some(StreamOwned::new(session, socket))
    }

    /// Waits until clients trust the certificate for a host.
    fn wait_for(&self, terse: &TestTerse, host: &str) -> CertificateDer<'static> {
        let at = terse.tls_address();
        wait_until(&format!("{host} has a certificate"), || self.certificate(at, host).is_some());
        self.certificate(at, host).unwrap()
    }
}

/// What `terse doctor` says about certificates, with its advice.
fn doctor(terse: &TestTerse) -> String {
    let key = format!("Bearer {KEY}");
    let fields = [("authorization", key.as_str()), ("host", "localhost")];
    let answer = terse.send("GET", "/api/v1/admin/doctor", &fields, None);
    let findings = answer.json();
    let about = findings["findings"].as_array().unwrap_or_else(|| panic!("{findings}")).iter();
    let about = about.filter(|finding| finding["what"] == "certificates");
    about.map(|finding| format!("{} {}\n", finding["found"], finding["advice"])).collect()
}

#[test]
fn certificates_are_ordered_by_both_challenges_kept_and_renewed() {
    let authority = Authority::start();
    // Nothing listens there.
    authority.pebble.set_address("broken.example", "127.0.0.3");
    let domains = ["broken.example", "s.example"];
    let mut terse = TestTerse::with(|config| {
        authority.set(config, &domains, AcmeChallenge::Http01);
        authority.listen_at(config);
    });
    let first = authority.wait_for(&terse, "go.example");
    // The order of the broken host fails first, and does not stop the next one.
    let second = authority.wait_for(&terse, "s.example");
    wait_until("the failure is explained", || doctor(&terse).contains("port 80"));
    let said = doctor(&terse);
    assert!(said.contains("broken.example has none"), "{said}");
    assert!(said.contains("cannot connect to port 80 of broken.example"), "{said}");
    assert!(said.contains("ordered and valid: 2"), "{said}");
    wait_until("the notice is there", || {
        terse.get("/readyz").text().contains("no certificate for")
    });
    assert!(authority.certificate(terse.tls_address(), "broken.example").is_none());

    // The plain port answers challenges and leads everything else to https.
    let answer = terse.get("/.well-known/acme-challenge/unknown");
    assert_eq!(answer.status, 301);
    assert_eq!(answer.location(), Some("https://go.example/.well-known/acme-challenge/unknown"));
    let mut stream = authority.connect(terse.tls_address(), "s.example").unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: s.example\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    // A restart keeps what was ordered: it is there before anything can be ordered.
    terse.stop();
    terse.config.tls.acme.challenge = AcmeChallenge::TlsAlpn01;
    terse.restart();
    assert_eq!(authority.certificate(terse.tls_address(), "go.example"), Some(first.clone()));

    // A new domain gets its certificate by the other challenge.
    let key = format!("Bearer {KEY}");
    let fields = [("authorization", key.as_str()), ("host", "localhost")];
    let body = json!({}).to_string();
    let added = terse.send("PUT", "/api/v1/domains/new.example", &fields, Some(body.as_bytes()));
    assert!((200..300).contains(&added.status), "{}", added.text());
    authority.wait_for(&terse, "new.example");

    // After two thirds of the 90 days.
    terse.clock().advance(Duration::from_hours(24 * 64));
    for (host, old) in [("go.example", first), ("s.example", second)] {
        wait_until(&format!("{host} is renewed"), || {
            let now = authority.certificate(terse.tls_address(), host);
            now.is_some_and(|now| now != old)
        });
    }
}

#[test]
fn another_node_answers_challenges_and_serves_the_same_certificate() {
    let authority = Authority::start();
    let database = PostgresServer::shared().fresh();
    // The authority reaches only the node that orders nothing.
    let served = TestTerse::with(|config| {
        authority.set(config, &[], AcmeChallenge::TlsAlpn01);
        authority.listen_at(config);
        config.store = database.parse().unwrap();
        config.roles.worker = false;
    });
    assert!(authority.certificate(served.tls_address(), "go.example").is_none());
    // The one that orders has no listener for TLS.
    let _worker = TestTerse::with(|config| {
        authority.set(config, &[], AcmeChallenge::TlsAlpn01);
        config.tls.listen = None;
        config.store = database.parse().unwrap();
    });
    let certificate = authority.wait_for(&served, "go.example");
    let further = TestTerse::with(|config| {
        authority.set(config, &[], AcmeChallenge::TlsAlpn01);
        config.store = database.parse().unwrap();
        config.roles.worker = false;
    });
    assert_eq!(authority.wait_for(&further, "go.example"), certificate);
}

#[test]
fn a_worker_without_a_listener_for_tls_may_order_for_other_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let store = "store=postgres://terse@127.0.0.1/terse";
    for (settings, is_allowed) in
        [(&[store][..], true), (&[store, "roles=worker"], true), (&[store, "roles=web"], false)]
    {
        let mut command = command(&folder.path().join("data"));
        command.args(["config", "--set", "tls.acme.enabled=true"]);
        command.args(["--set", "tls.acme.accept_terms=true"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.success(), is_allowed, "{settings:?}: {said}");
        assert!(is_allowed || said.contains("tls.acme.enabled: needs tls.listen"), "{said}");
    }
}

#[test]
fn settings_that_cannot_order_are_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (on, listen, terms) =
        ("tls.acme.enabled=true", "tls.listen=127.0.0.1:0", "tls.acme.accept_terms=true");
    for (settings, name, why) in [
        (&[listen][..], "tls.listen", "or tls.acme.enabled"),
        (&[on, terms], "tls.acme.enabled", "needs tls.listen"),
        (&[on, listen], "tls.acme.accept_terms", "must be true"),
        (&["tls.acme.directory=http://ca.example"], "tls.acme.directory", "https"),
        (&["tls.acme.email=me"], "tls.acme.email", "email address"),
        (&["tls.acme.email=a@b?cc=c"], "tls.acme.email", "email address"),
        (&["tls.acme.challenge=dns-01"], "tls.acme.challenge", "http-01, tls-alpn-01"),
        (
            &[on, listen, terms, "tls.acme.directory_ca=/nowhere/ca.pem"],
            "tls.acme.directory_ca",
            "cannot be read",
        ),
    ] {
        let mut command = command(&folder.path().join("data"));
        // Only the server reads the file.
        command.arg(if name.ends_with("_ca") { "serve" } else { "config" });
        for setting in settings {
            command.args(["--set", setting]);
        }
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{settings:?}: {said}");
        assert!(said.contains(name) && said.contains(why), "{settings:?}: {said}");
    }
}
