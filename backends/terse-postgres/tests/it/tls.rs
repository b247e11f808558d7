//! TLS to the server, whose certificate is always checked.

use std::path::Path;

use terse_postgres::{PostgresLinks, PostgresOpenError, PostgresOptions};
use terse_testkit::{PostgresServer, pem};

use crate::faults::put;

/// A certificate that signs itself, and its key.
fn certificate(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
    (pem("CERTIFICATE", made.cert.der()), key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_of_the_server_is_checked() {
    let (own, key) = certificate("localhost");
    let server = PostgresServer::start_tls(&own, &key);
    let folder = std::env::temp_dir().join(format!("terse-postgres-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, pem: &str| {
        let file = folder.join(name);
        std::fs::write(&file, pem).unwrap();
        file
    };
    let (own, other) = (write("own.pem", &own), write("other.pem", &certificate("localhost").0));
    let trusting = |host: &str, roots: Option<&Path>| {
        let roots = roots.map(|file| format!("&sslrootcert={}", file.display()));
        let place = format!("{host}:{}/postgres", server.port());
        format!("postgres://terse@{place}?sslmode=require{}", roots.unwrap_or_default())
    };
    let open = |url: String| PostgresLinks::open(PostgresOptions::new(url));

    let store = open(trusting("localhost", Some(&own))).await.unwrap();
    put(&store, "safe").await;
    let encrypted = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE application_name = 'terse'";
    assert_eq!(server.sql("postgres", encrypted), "t");
    for (host, roots, why) in [
        ("localhost", Some(&*other), "another authority"),
        ("localhost", None, "the public authorities"),
        ("127.0.0.1", Some(&*own), "another name"),
    ] {
        let refused = open(trusting(host, roots)).await.map(drop);
        let Err(PostgresOpenError::Connect { source, .. }) = refused else {
            panic!("{why}: {refused:?}")
        };
        let mut said = source.to_string();
        let mut cause = source.source();
        while let Some(error) = cause {
            said = format!("{said}: {error}");
            cause = error.source();
        }
        assert!(said.contains("certificate"), "{why}: {said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
