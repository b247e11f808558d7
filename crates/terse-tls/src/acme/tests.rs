//! Tests without an authority. `crates/terse/tests/it/acme.rs` has those with a real one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rcgen::{CertificateParams, KeyPair};
use terse_core::job::{Job as _, JobContext};
use terse_core::registry::prelude::*;
use terse_core::registry::{AcmeRecordKind, AcmeRecords, FencingToken, NodeId};
use terse_core::{
    CertificateState, CertificateStatus as _, CheckResult, Clock, Domain, DomainChecks,
    ExchangeRequest, ExchangeResponse, Hosts, HttpExchange, NoLookup, OutgoingError, RequestLimits,
    Secret, Timestamp,
};
use terse_testkit::MemoryRegistry;

use super::challenges::ChallengeKind;
use super::records::{CertificateRecord, ChallengeRecord, OrderRecord, encode};
use super::{AcmeCertificates, AcmeSettings, CertificateOrders};
use crate::Certificates;

/// Noon of a day in 2026.
const NOW: i64 = 1_790_000_000_000;
const DIRECTORY: &str = "https://ca.example/directory";

struct Fixture {
    registry: Arc<MemoryRegistry>,
    token: FencingToken,
    certificates: Arc<Certificates>,
    hosts: Hosts,
    clock: Clock,
    node: Arc<AcmeCertificates>,
}

impl Fixture {
    async fn new(base_url: &str, domains: &[&str]) -> Self {
        let registry = Arc::new(MemoryRegistry::new());
        let name = NodeId::parse("a").expect("a name");
        let lease = registry.acquire_lease("jobs", &name, Duration::from_hours(24)).await;
        let token = lease.expect("a lease").expect("a lease").token;
        let further = domains.iter().filter_map(|domain| Domain::parse(domain)).collect();
        let base_url = url::Url::parse(base_url).expect("a URL");
        let hosts = Hosts::new(&base_url, &["localhost"], further).expect("hosts");
        let (certificates, clock) =
            (Arc::new(Certificates::default()), Clock::frozen(Timestamp::from_ms(NOW)));
        let node = AcmeCertificates::open(
            registry.clone(),
            Arc::clone(&certificates),
            hosts.clone(),
            DIRECTORY.to_owned(),
            clock.clone(),
        );
        let node = node.await.expect("a node");
        Self { registry, token, certificates, hosts, clock, node }
    }

    async fn put(&self, kind: AcmeRecordKind, name: &str, value: Option<Secret>) {
        let put = self.registry.put_acme_record(self.token, kind, name, value.as_ref());
        put.await.expect("written");
        self.node.refresh().await.expect("read");
    }

    fn orders(&self, http: Arc<dyn HttpExchange>) -> CertificateOrders {
        let settings =
            AcmeSettings { directory: DIRECTORY.to_owned(), email: None, challenge: None };
        let checks = DomainChecks::new(Arc::new(NoLookup), self.hosts.clone());
        CertificateOrders::new(Arc::clone(&self.node), http, settings, checks, false)
    }
}

/// A certificate that is valid for about 90 days.
fn certificate(host: &str) -> Secret {
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
    params.not_before = rcgen::date_time_ymd(2026, 9, 21);
    params.not_after = rcgen::date_time_ymd(2026, 12, 20);
    let key = KeyPair::generate().expect("a key");
    let made = params.self_signed(&key).expect("a certificate");
    encode(&CertificateRecord { chain: made.pem(), key: key.serialize_pem() }).expect("encoded")
}

#[tokio::test]
async fn a_certificate_of_the_registry_is_used_until_it_is_due() {
    let fixture = Fixture::new("https://go.example", &["s.example"]).await;
    assert_eq!(fixture.node.due(None), ["go.example", "s.example"]);
    fixture.put(AcmeRecordKind::Certificate, "go.example", Some(certificate("go.example"))).await;
    assert!(fixture.certificates.for_name("go.example").is_some());
    assert_eq!(fixture.node.due(None), ["s.example"]);
    let state = fixture.node.certificate_state("go.example");
    assert!(matches!(state, Some(CertificateState::Valid(_))), "{state:?}");
    fixture.clock.advance(Duration::from_hours(24 * 64));
    // One without a certificate is more urgent than one that must be renewed.
    assert_eq!(fixture.node.due(None), ["s.example", "go.example"]);

    // What cannot be read is not used, and the others are.
    fixture.put(AcmeRecordKind::Certificate, "s.example", Some(Secret::new("{}"))).await;
    assert!(fixture.certificates.for_name("go.example").is_some());
    assert!(fixture.certificates.for_name("s.example").is_none());
    fixture.put(AcmeRecordKind::Certificate, "go.example", None).await;
    assert!(fixture.certificates.for_name("go.example").is_none());
}

#[tokio::test]
async fn a_failed_host_waits_and_the_others_go_on() {
    let fixture = Fixture::new("https://go.example", &["s.example"]).await;
    let problem = "It has no DNS record. It says: 192.0.2.7 is closed".to_owned();
    let failed = OrderRecord { failures: 2, tried_at: NOW, next_at: NOW + 60_000, problem };
    fixture.put(AcmeRecordKind::Order, "go.example", Some(encode(&failed).expect("text"))).await;
    assert_eq!(fixture.node.due(None), ["s.example"]);
    // Everyone can read the notice; only admins see what the authority says.
    let notice = fixture.node.notice();
    assert_eq!(notice.as_deref(), Some("no certificate for go.example: It has no DNS record."));
    let said = format!("{:?}", fixture.node.findings());
    assert!(said.contains("192.0.2.7 is closed"), "{said}");
    assert!(said.contains("go.example has none") && said.contains("s.example has none yet"));
    fixture.clock.advance(Duration::from_mins(1));
    assert_eq!(fixture.node.due(None), ["go.example", "s.example"]);
}

#[tokio::test]
async fn a_registry_that_went_back_is_followed() {
    let fixture = Fixture::new("https://go.example", &[]).await;
    let at_first = fixture.registry.acme_records().await.expect("read");
    let certificate = certificate("go.example");
    fixture.put(AcmeRecordKind::Certificate, "go.example", Some(certificate)).await;
    let later = fixture.registry.acme_records().await.expect("read");
    assert!(at_first.revision < later.revision);
    fixture.node.apply(at_first);
    assert!(fixture.certificates.for_name("go.example").is_none());
    // And forward again.
    fixture.node.refresh().await.expect("read");
    assert!(fixture.certificates.for_name("go.example").is_some());
    fixture.node.apply(AcmeRecords { revision: 0, ..later });
    assert!(fixture.certificates.for_name("go.example").is_some());
}

#[tokio::test]
async fn a_host_that_no_node_orders_for_is_a_problem_after_10_minutes() {
    let fixture = Fixture::new("https://go.example", &["s.example"]).await;
    let problems = || {
        fixture.node.note_waiting();
        let findings = fixture.node.findings().into_iter();
        let problems = findings.filter(|finding| finding.verdict == CheckResult::Problem);
        problems.map(|finding| finding.found).collect::<Vec<String>>()
    };
    assert_eq!(problems(), Vec::<String>::new());
    fixture.clock.advance(Duration::from_mins(10));
    assert_eq!(problems(), Vec::<String>::new());
    fixture.put(AcmeRecordKind::Certificate, "go.example", Some(certificate("go.example"))).await;
    fixture.clock.advance(Duration::from_secs(31));
    assert_eq!(problems(), ["s.example has none, and no node ordered it for 10 minutes"]);
}

#[tokio::test]
async fn only_public_names_of_ours_get_certificates() {
    let domains = ["s.example", "localhost", "intranet", "10.0.0.1", "printer.local", "S.Example"];
    let fixture = Fixture::new("https://go.example", &domains).await;
    assert_eq!(fixture.node.ordered_hosts(), ["go.example", "s.example"]);
    let local = Fixture::new("https://192.0.2.1", &[]).await;
    assert_eq!(local.node.ordered_hosts(), Vec::<String>::new());

    // A handshake for a host without a certificate starts the orders, if the host is ours, and not
    // again at once.
    let wanted = async || {
        let notified = fixture.node.wanted.notified();
        tokio::time::timeout(Duration::ZERO, notified).await.is_ok()
    };
    fixture.clock.advance(Duration::from_mins(1));
    for (host, starts) in [
        ("evil.example", false),
        ("x.go.example", false),
        ("S.example", true),
        ("s.example", false),
    ] {
        fixture.node.note_missing(host);
        assert_eq!(wanted().await, starts, "{host}");
    }
    fixture.clock.advance(Duration::from_mins(1));
    handshake(&fixture.certificates, "evil.example");
    assert!(!wanted().await);
    handshake(&fixture.certificates, "go.example");
    assert!(wanted().await);
}

/// Sends a client's first message to a TLS server with these certificates.
fn handshake(certificates: &Arc<Certificates>, host: &str) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(host.to_owned()).expect("a name");
    let mut client = rustls::ClientConnection::new(Arc::new(client), name).expect("a client");
    let config = crate::server_config(Arc::clone(certificates), true).expect("settings");
    let mut server = rustls::ServerConnection::new(config).expect("a server");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("a message");
    server.read_tls(&mut hello.as_slice()).expect("read");
    // There is no certificate yet.
    server.process_new_packets().expect_err("a handshake without a certificate");
}

#[tokio::test]
async fn challenges_are_answered_while_they_are_under_way() {
    let fixture = Fixture::new("https://go.example", &[]).await;
    let record = |kind| ChallengeRecord {
        kind,
        token: "token".to_owned(),
        answer: "token.thumbprint".to_owned(),
        digest: vec![7; 32],
    };
    let answer = || fixture.node.challenge_answer("token");
    let put = async |kind| {
        let value = encode(&record(kind)).expect("text");
        fixture.put(AcmeRecordKind::Challenge, "go.example", Some(value)).await;
    };
    put(ChallengeKind::Http01).await;
    assert_eq!(answer().as_deref(), Some("token.thumbprint"));
    assert_eq!(fixture.node.challenge_answer("other"), None);
    put(ChallengeKind::TlsAlpn01).await;
    assert_eq!(answer(), None);
    // An interrupted order left it; the next run removes it.
    let mut orders = fixture.orders(Arc::new(Offline::default()));
    let context = JobContext::leased(fixture.registry.clone(), fixture.token);
    orders.run(&context).await.expect("a run");
    assert!(fixture.node.known().challenges.is_empty());
}

/// An authority that cannot be reached.
#[derive(Default)]
struct Offline(AtomicUsize);

#[async_trait]
impl HttpExchange for Offline {
    async fn exchange(
        &self,
        request: ExchangeRequest,
        _: RequestLimits,
    ) -> Result<ExchangeResponse, OutgoingError> {
        assert_eq!(request.url, DIRECTORY);
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(OutgoingError::Timeout)
    }
}

#[tokio::test]
async fn while_the_authority_is_away_every_host_waits() {
    let fixture = Fixture::new("https://go.example", &["s.example"]).await;
    let http = Arc::new(Offline::default());
    let mut orders = fixture.orders(http.clone());
    let context = JobContext::leased(fixture.registry.clone(), fixture.token);
    for (requests, pause) in
        [(1, Duration::from_secs(59)), (1, Duration::from_secs(1)), (2, Duration::ZERO)]
    {
        orders.run(&context).await.expect("a run");
        assert_eq!(http.0.load(Ordering::Relaxed), requests);
        fixture.clock.advance(pause);
    }
    // That is no failure of the host, which does not wait for hours therefore.
    fixture.clock.advance(Duration::from_hours(24));
    for _ in 0..10 {
        orders.run(&context).await.expect("a run");
        fixture.clock.advance(Duration::from_mins(30));
    }
    assert_eq!(http.0.load(Ordering::Relaxed), 12);
    assert_eq!(fixture.node.known().orders["go.example"].failures, 0);
    let state = fixture.node.certificate_state("go.example");
    let Some(CertificateState::Failing { problem, valid_until: None, .. }) = state else {
        panic!("{state:?}")
    };
    assert!(problem.starts_with("The certificate authority cannot be reached"), "{problem}");
    // Another node holds the lease now.
    let name = NodeId::parse("b").expect("a name");
    fixture.registry.release_lease(fixture.token).await.expect("released");
    fixture.registry.acquire_lease("jobs", &name, Duration::from_mins(1)).await.expect("a lease");
    fixture.clock.advance(Duration::from_hours(1));
    assert!(orders.run(&context).await.is_err(), "it is fenced");
    assert_eq!(http.0.load(Ordering::Relaxed), 12, "and orders nothing");
}

#[tokio::test]
async fn a_start_tries_waiting_hosts_once_more() {
    let fixture = Fixture::new("https://go.example", &[]).await;
    let (tried_at, next_at, problem) = (NOW, NOW + 24 * 3_600_000, String::new());
    let failed = OrderRecord { failures: 9, tried_at, next_at, problem };
    fixture.put(AcmeRecordKind::Order, "go.example", Some(encode(&failed).expect("text"))).await;
    let context = JobContext::leased(fixture.registry.clone(), fixture.token);
    let http = Arc::new(Offline::default());
    // Frequent restarts try it at most every 15 minutes.
    for (requests, pause) in [(0, 14), (0, 1), (1, 14), (1, 1), (2, 0)] {
        let mut orders = fixture.orders(http.clone());
        orders.run(&context).await.expect("a run");
        orders.run(&context).await.expect("a run");
        assert_eq!(http.0.load(Ordering::Relaxed), requests);
        let known = fixture.node.known();
        let mut order = known.orders["go.example"].clone();
        assert_eq!(order.failures, 9);
        order.next_at = next_at;
        let order = encode(&order).expect("text");
        fixture.put(AcmeRecordKind::Order, "go.example", Some(order)).await;
        fixture.clock.advance(Duration::from_mins(pause));
    }
}

/// An authority that makes accounts and nothing else.
#[derive(Default)]
struct AccountsOnly(AtomicUsize);

#[async_trait]
impl HttpExchange for AccountsOnly {
    async fn exchange(
        &self,
        request: ExchangeRequest,
        _: RequestLimits,
    ) -> Result<ExchangeResponse, OutgoingError> {
        let (status, body) = match request.url.rsplit('/').next() {
            Some("directory") => (
                200,
                r#"{"newNonce": "https://ca.example/nonce", "newOrder": "https://ca.example/order",
                    "newAccount": "https://ca.example/account"}"#,
            ),
            Some("account") => {
                self.0.fetch_add(1, Ordering::Relaxed);
                (201, r#"{"status": "valid"}"#)
            }
            _ => (200, ""),
        };
        let headers = [("replay-nonce", "bm9uY2U"), ("location", "https://ca.example/account/1")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Ok(ExchangeResponse { status, headers, body: body.into() })
    }
}

#[tokio::test]
async fn an_account_that_could_not_be_stored_is_not_used() {
    let fixture = Fixture::new("https://go.example", &[]).await;
    let http = Arc::new(AccountsOnly::default());
    let mut orders = fixture.orders(http.clone());
    let name = NodeId::parse("b").expect("a name");
    fixture.registry.release_lease(fixture.token).await.expect("released");
    let lease = fixture.registry.acquire_lease("jobs", &name, Duration::from_mins(1)).await;
    let token = lease.expect("a lease").expect("a lease").token;
    assert!(orders.account(fixture.token).await.is_err(), "it is fenced");
    for _ in 0..2 {
        assert!(orders.account(token).await.is_ok());
        assert!(fixture.node.known().account.is_some());
        assert_eq!(http.0.load(Ordering::Relaxed), 2);
    }
}
