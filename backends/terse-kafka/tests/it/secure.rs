//! Brokers that are reached by TLS, and that ask for a password.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terse_core::Clock;
use terse_core::clicks::ClickStore;
use terse_kafka::inspect;
use terse_testkit::{PostgresServer, SecureKafkaServer, pem};

use crate::start::refusal;
use crate::support::{Node, RunningWorker, bus, clicks, options, wait_for_total};

const USER: &str = SecureKafkaServer::USER;
const PASSWORD: &str = SecureKafkaServer::PASSWORD;

/// The broker that all tests of this file share.
fn server() -> &'static SecureKafkaServer {
    static SERVER: OnceLock<SecureKafkaServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = pem("CERTIFICATE", made.cert.der());
        let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
        SecureKafkaServer::start(&certificate, &key)
    })
}

/// Publishes clicks, counts them, and inspects the topic.
async fn carries_clicks(login: &str, port: u16, query: &str) {
    let (database, topic) = (PostgresServer::shared().fresh(), server().fresh_topic());
    let url = format!("kafka://{login}127.0.0.1:{port}/{topic}?group={topic}&{query}");
    let store: Arc<dyn ClickStore> = clicks(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    node.publish(7).await;
    let worker = RunningWorker::start(&url, &store).await;
    wait_for_total(&store, 7).await;
    node.publish(5).await;
    wait_for_total(&store, 12).await;
    worker.stop().await;
    let seen = inspect(&options(&url), Clock::default().now()).await.unwrap();
    assert_eq!((seen.messages, seen.lag, seen.set_aside), (2, 0, 0), "{seen:?}");
}

/// Why a bus at this address is refused. Shows no password.
async fn refused(login: &str, port: u16, query: &str) -> String {
    let url = format!("kafka://{login}127.0.0.1:{port}/refused?{query}");
    let mut options = options(&url);
    options.connect_timeout = Duration::from_secs(5);
    let error = refusal(options).await;
    assert!(error.contains(&format!("Kafka at 127.0.0.1:{port} cannot be used")), "{error}");
    assert!(!error.contains(PASSWORD) && !error.contains("wrong-horse"), "{error}");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_without_tls_is_accepted_and_a_wrong_one_refused() {
    let (port, query) = (server().plain_password, "mechanism=plain&secure=false");
    carries_clicks(&format!("{USER}:{PASSWORD}@"), port, query).await;
    let error = refused(&format!("{USER}:wrong-horse@"), port, query).await;
    assert!(error.contains("Authentication failed"), "{error}");
    let error = refused("", port, "").await;
    assert!(error.contains("SASL"), "{error}");
}

#[cfg(feature = "tls")]
mod tls {
    use super::*;

    fn trusted() -> String {
        format!("secure=true&sslrootcert={}", server().certificate().display())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clicks_are_counted_over_tls() {
        carries_clicks("", server().tls, &trusted()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clicks_are_counted_over_tls_with_a_password() {
        for mechanism in ["plain", "scram-sha-256", "scram-sha-512"] {
            let query = format!("{}&mechanism={mechanism}", trusted());
            carries_clicks(&format!("{USER}:{PASSWORD}@"), server().password, &query).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clicks_are_counted_over_tls_with_a_certificate_of_the_client() {
        let (certificate, key) = (server().certificate(), server().key());
        let (certificate, key) = (certificate.display(), key.display());
        let query = format!("{}&sslcert={certificate}&sslkey={key}", trusted());
        carries_clicks("", server().client_certificate, &query).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_wrong_password_is_refused() {
        for mechanism in ["plain", "scram-sha-512"] {
            let query = format!("{}&mechanism={mechanism}", trusted());
            let login = format!("{USER}:wrong-horse@");
            let error = refused(&login, server().password, &query).await;
            assert!(error.to_lowercase().contains("authentication failed"), "{error}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_certificate_that_nobody_trusts_is_refused() {
        let error = refused("", server().tls, "secure=true").await;
        assert!(error.contains("certificate verify failed"), "{error}");
        assert!(error.contains("sslrootcert"), "the setting is named: {error}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_url_without_tls_at_a_port_with_tls_is_refused() {
        let error = refused("", server().tls, "").await;
        assert!(error.contains("does this port expect TLS (secure=true)"), "{error}");
    }
}
