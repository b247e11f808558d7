//! TLS certificates are verified.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use terse_core::HttpClient as _;
use terse_outgoing::{OutgoingClient, OutgoingSettings};

use crate::rig::{
    FakeResolver, LONG_DEADLINE, SHORT_DEADLINE, Server, kind, page, redirect, settings,
};

/// A server with a self-signed certificate for `site.test`, and that certificate.
fn secure(answer: String) -> (Server, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(["site.test".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
    let config = Arc::new(config);
    let server = Server::start(move |stream| {
        let mut stream =
            StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
        let mut head = [0; 1024];
        if stream.read(&mut head).is_ok() {
            let _ = stream.write_all(answer.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (server, certificate.to_vec())
}

fn trusting(server: &Server, certificate: Vec<u8>) -> OutgoingClient {
    OutgoingClient::new(OutgoingSettings {
        trust_only: vec![certificate],
        ..settings(&[server], FakeResolver::new(&[]))
    })
}

fn url(server: &Server, host: &str) -> String {
    format!("https://{host}:{}/", server.port())
}

#[tokio::test]
async fn a_trusted_certificate_for_the_name_is_accepted_and_for_another_refused() {
    let (server, certificate) = secure(page("secure"));
    let client = trusting(&server, certificate);
    assert_eq!(
        client.get(&url(&server, "site.test"), LONG_DEADLINE).await.unwrap().body,
        b"secure"
    );
    assert_eq!(kind(client.get(&url(&server, "other.test"), LONG_DEADLINE).await), "untrusted");
    assert_eq!(
        kind(client.post(&url(&server, "other.test"), "text/plain", Vec::new(), &[]).await),
        "untrusted"
    );
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    let (server, _) = secure(page("secure"));
    assert_eq!(
        kind(crate::rig::client(&[&server]).get(&url(&server, "site.test"), LONG_DEADLINE).await),
        "untrusted"
    );
}

#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let server = Server::responding(page("plain"));
    let got =
        kind(crate::rig::client(&[&server]).get(&url(&server, "site.test"), LONG_DEADLINE).await);
    assert!(matches!(got, "untrusted" | "bad_answer" | "unreachable"), "{got}");
}

#[tokio::test]
async fn https_does_not_redirect_to_http() {
    let plain = Server::responding(page("plain"));
    let (server, certificate) = secure(redirect(&plain.url("site.test")));
    let client = OutgoingClient::new(OutgoingSettings {
        trust_only: vec![certificate],
        ..settings(&[&server, &plain], FakeResolver::new(&[]))
    });
    assert_eq!(kind(client.get(&url(&server, "site.test"), LONG_DEADLINE).await), "bad_redirect");
    assert_eq!(plain.connections(), 0);
}

#[tokio::test]
async fn a_slow_handshake_hits_the_deadline() {
    let server = Server::start(|mut stream| {
        // The start of a long handshake record, then single bytes with pauses.
        let _ = stream.write_all(&[0x16, 0x03, 0x03, 0x3f, 0xff]);
        while stream.write_all(&[0x02]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(
        kind(crate::rig::client(&[&server]).get(&url(&server, "site.test"), SHORT_DEADLINE).await),
        "too_slow"
    );
}
