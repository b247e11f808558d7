//! A certificate authority for tests, of Debian's package `pebble`, with the DNS server of that
//! package.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use crate::server_process::{ServerProcess, folder, free_port};

/// How long its certificates are valid: 90 days.
const LIFE_SECONDS: u64 = 90 * 86_400;

/// A running authority. It resolves every name to 127.0.0.1, and checks hosts at the ports that it
/// was started with.
pub struct PebbleServer {
    _authority: ServerProcess,
    _dns: ServerProcess,
    port: u16,
    management: u16,
    dns_management: u16,
    http_port: u16,
    tls_port: u16,
}

impl PebbleServer {
    /// Starts an authority whose API has this certificate, for 127.0.0.1, and its key in PEM.
    pub fn start(certificate: &str, key: &str) -> Self {
        let (dns_port, dns_management) = (free_port(), free_port());
        let dns = ServerProcess::new(folder(), None);
        let (at, management_at) =
            (format!("127.0.0.1:{dns_port}"), format!("127.0.0.1:{dns_management}"));
        let args = [
            ["-dns01", &at],
            ["-management", &management_at],
            ["-http01", ""],
            ["-https01", ""],
            ["-tlsalpn01", ""],
            ["-defaultIPv4", "127.0.0.1"],
            ["-defaultIPv6", ""],
        ];
        let is_open = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok();
        let ready = || is_open(dns_management) && is_open(dns_port);
        dns.start(program("/usr/bin/pebble-challtestsrv"), args.as_flattened(), ready);

        let (port, management) = (free_port(), free_port());
        let (http_port, tls_port) = (free_port(), free_port());
        let home = folder();
        let (certificate_file, key_file) = (home.join("api.pem"), home.join("api.key"));
        std::fs::write(&certificate_file, certificate).unwrap();
        std::fs::write(&key_file, key).unwrap();
        let settings = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{port}",
                "managementListenAddress": "127.0.0.1:{management}",
                "certificate": {certificate_file:?}, "privateKey": {key_file:?},
                "httpPort": {http_port}, "tlsPort": {tls_port},
                "certificateValidityPeriod": {LIFE_SECONDS},
                "ocspResponderURL": "", "externalAccountBindingRequired": false}}}}"#
        );
        let file = home.join("pebble.json");
        std::fs::write(&file, settings).unwrap();
        let authority = ServerProcess::new(home, None);
        let pebble = program("/usr/bin/pebble").display().to_string();
        let file = file.display().to_string();
        // Without pauses, and without reuse of earlier checks.
        let args =
            ["PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0", &pebble, "-config", &file, "-dnsserver"];
        let args = [&args[..], &[&at]].concat();
        authority.start(Path::new("/usr/bin/env"), &args, || is_open(port) && is_open(management));
        Self {
            _authority: authority,
            _dns: dns,
            port,
            management,
            dns_management,
            http_port,
            tls_port,
        }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// The URL of its root certificate in PEM format, which is another one after each start.
    pub fn root_url(&self) -> String {
        format!("https://127.0.0.1:{}/roots/0", self.management)
    }

    /// The port at which it checks hosts by HTTP-01.
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// The port at which it checks hosts by TLS-ALPN-01.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Lets a name lead to an address.
    pub fn set_address(&self, host: &str, address: &str) {
        let body = format!(r#"{{"host": "{host}.", "addresses": ["{address}"]}}"#);
        self.tell_dns("/clear-a", &format!(r#"{{"host": "{host}."}}"#));
        self.tell_dns("/add-a", &body);
    }

    fn tell_dns(&self, path: &str, body: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.dns_management)).unwrap();
        let len = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: dns\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n\
             {body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
}

fn program(path: &str) -> &Path {
    assert!(Path::new(path).exists(), "these tests need Debian's package `pebble`");
    Path::new(path)
}
