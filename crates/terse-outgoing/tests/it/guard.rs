//! Nothing that is not public is ever connected to.

use std::process::Command;
use std::sync::Arc;

use terse_core::HttpClient as _;
use terse_outgoing::{OutgoingClient, OutgoingSettings};

use crate::rig::{
    FakeResolver, LONG_DEADLINE, SHORT_DEADLINE, Server, client, client_with, kind, page, redirect,
    settings,
};

/// Places only we can reach, as attackers write them. `{p}` is the port of a listener on all
/// addresses of this machine.
pub(crate) const INSIDE: &[&str] = &[
    "http://127.0.0.1:{p}/",
    "http://127.0.0.2:{p}/",
    "http://127.255.255.254:{p}/",
    "http://127.1:{p}/",
    "http://127.0.1:{p}/",
    "http://127.0.0.1.:{p}/",
    "http://2130706433:{p}/",
    "http://017700000001:{p}/",
    "http://0x7f000001:{p}/",
    "http://0X7F000001:{p}/",
    "http://0x7f.0x0.0x0.0x1:{p}/",
    "http://0x7f.1:{p}/",
    "http://0177.0.0.1:{p}/",
    "http://0177.0.0.01:{p}/",
    "http://00000177.0.0.1:{p}/",
    "http://127.0.0.0x1:{p}/",
    "http://127.0x000000.1:{p}/",
    "http://0:{p}/",
    "http://0.0.0.0:{p}/",
    "http://0x0:{p}/",
    "http://00:{p}/",
    "http://0.1.2.3:{p}/",
    "http://①②⑦.⓪.⓪.①:{p}/",
    "http://127。0。0。1:{p}/",
    "http://127．0．0．1:{p}/",
    "http://１２７.0.0.1:{p}/",
    "http://127%2e0%2e0%2e1:{p}/",
    "http://%31%32%37.0.0.1:{p}/",
    "http://0x7F%2E1:{p}/",
    "http://[::1]:{p}/",
    "http://[::]:{p}/",
    "http://[0:0:0:0:0:0:0:1]:{p}/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]:{p}/",
    "http://[::127.0.0.1]:{p}/",
    "http://[::ffff:127.0.0.1]:{p}/",
    "http://[::FFFF:7F00:1]:{p}/",
    "http://[0:0:0:0:0:ffff:7f00:0001]:{p}/",
    "http://[::ffff:0.0.0.0]:{p}/",
    "http://[::ffff:0:127.0.0.1]:{p}/",
    "http://[::ffff:10.0.0.1]:{p}/",
    "http://[::ffff:169.254.169.254]:{p}/",
    "http://[64:ff9b::127.0.0.1]:{p}/",
    "http://[64:ff9b::a9fe:a9fe]:{p}/",
    "http://[64:ff9b:1::7f00:1]:{p}/",
    "http://[2002:7f00:1::]:{p}/",
    "http://[2002:a9fe:a9fe::1]:{p}/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]:{p}/",
    "http://[fe80::1]:{p}/",
    "http://[fe80::1%25lo]:{p}/",
    "http://[fe80::1%lo]:{p}/",
    "http://[fec0::1]:{p}/",
    "http://[fc00::1]:{p}/",
    "http://[fd00:ec2::254]:{p}/",
    "http://[ff02::1]:{p}/",
    "http://[2001:db8::1]:{p}/",
    "http://[100::1]:{p}/",
    "http://169.254.169.254:{p}/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166:{p}/",
    "http://0xa9fea9fe:{p}/",
    "http://0251.0376.0251.0376:{p}/",
    "http://169.254.43518:{p}/",
    "http://169.16689662:{p}/",
    "http://100.100.100.200:{p}/",
    "http://192.0.0.192:{p}/",
    "http://10.0.0.1:{p}/",
    "http://10.1:{p}/",
    "http://172.16.0.1:{p}/",
    "http://172.31.255.255:{p}/",
    "http://192.168.1.1:{p}/",
    "http://3232235777:{p}/",
    "http://100.64.0.1:{p}/",
    "http://192.0.2.1:{p}/",
    "http://198.18.0.1:{p}/",
    "http://198.51.100.1:{p}/",
    "http://203.0.113.1:{p}/",
    "http://192.88.99.1:{p}/",
    "http://224.0.0.1:{p}/",
    "http://240.0.0.1:{p}/",
    "http://255.255.255.255:{p}/",
    "http://localhost:{p}/",
    "http://LOCALHOST:{p}/",
    "http://LocalHost.:{p}/",
    "http://ｌocalhost:{p}/",
    "http://local\u{ad}host:{p}/",
    "http://%6cocalhost:{p}/",
    "http://a.localhost:{p}/",
    "http://a.b.LOCALHOST.:{p}/",
    "http://localhost.localdomain:{p}/",
    "http://metadata.google.internal:{p}/",
    "http://printer.local:{p}/",
    "http://router:{p}/",
    "http://public.test@127.0.0.1:{p}/",
    "http://public.test:80@127.0.0.1:{p}/",
    "http://public.test%40127.0.0.1:{p}/",
    "http://127.0.0.1:{p}\\@public.test/",
    "http://127.0.0.1:{p}#@public.test/",
    "http://127.0.0.1:{p}?@public.test/",
    "http:\\\\127.0.0.1:{p}\\",
    "http:127.0.0.1:{p}/",
    "http:/127.0.0.1:{p}/",
    "http:////127.0.0.1:{p}/",
    "  http://127.0.0.1:{p}/  ",
    "HTTP://127.0.0.1:{p}/",
    "https://127.0.0.1:{p}/",
    "ht\ntp://127.0.0.1:{p}/",
    "//127.0.0.1:{p}/",
    "127.0.0.1:{p}/",
    "ftp://127.0.0.1:{p}/",
    "gopher://127.0.0.1:{p}/_x",
    "file://127.0.0.1/etc/passwd",
    "ws://127.0.0.1:{p}/",
    "http://any.name.test:{p}/",
    "http://127.0.0.1.nip.test:{p}/",
];

/// Listens on every address of this machine, in both families where there are two.
fn victim() -> Server {
    Server::bind("[::]:0", |_| ()).or_else(|_| Server::bind("0.0.0.0:0", |_| ())).unwrap()
}

#[tokio::test]
async fn no_spelling_of_an_internal_address_is_connected_to() {
    let victim = victim();
    let client = client(&[]);
    assert!(INSIDE.len() >= 60);
    for text in INSIDE {
        let url = text.replace("{p}", &victim.port().to_string());
        let got = kind(client.get(&url, LONG_DEADLINE).await);
        assert!(matches!(got, "refused_address" | "not_allowed"), "{url}: {got}");
        let got = kind(client.post(&url, "text/plain", b"x".to_vec(), &[]).await);
        assert!(matches!(got, "refused_address" | "not_allowed"), "{url}: {got}");
    }
    assert_eq!(victim.connections(), 0);
}

/// Proves that the test above would notice a connection.
#[tokio::test]
async fn the_same_spellings_do_connect_when_private_addresses_are_allowed() {
    let victim = victim();
    let client = OutgoingClient::new(OutgoingSettings {
        allow_private: true,
        ..settings(&[], FakeResolver::new(&[]))
    });
    for text in [
        "http://127.1:{p}/",
        "http://0x7f000001:{p}/",
        "http://LocalHost.:{p}/",
        "http://any.name.test:{p}/",
    ] {
        let got =
            kind(client.get(&text.replace("{p}", &victim.port().to_string()), LONG_DEADLINE).await);
        assert!(matches!(got, "bad_answer" | "unreachable"), "{text}: {got}");
    }
    assert_eq!(victim.connections(), 4);
}

#[tokio::test]
async fn a_name_is_refused_for_any_of_its_addresses() {
    // This address and port count as public, so that even a failing test connects to no other
    // server.
    let public = Server::responding(page("hello"));
    for bad in [
        "127.0.0.3",
        "0.0.0.0",
        "10.0.0.1",
        "172.20.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "fe80::1",
        "fec0::1",
        "fd00::1",
        "ff02::1",
        "100::1",
    ] {
        let resolver = FakeResolver::new(&[
            ("alone.test", &[&[bad]]),
            ("last.test", &[&["127.0.0.1", bad]]),
            ("first.test", &[&[bad, "127.0.0.1"]]),
            (
                "ninth.test",
                &[&[
                    "127.0.0.1",
                    "127.0.0.1",
                    "127.0.0.1",
                    "127.0.0.1",
                    "127.0.0.1",
                    "127.0.0.1",
                    "127.0.0.1",
                    "127.0.0.1",
                    bad,
                ]],
            ),
        ]);
        let client = client_with(&[&public], resolver);
        for name in ["alone.test", "last.test", "first.test", "ninth.test"] {
            assert_eq!(
                kind(client.get(&public.url(name), LONG_DEADLINE).await),
                "refused_address",
                "{name} {bad}"
            );
        }
    }
    assert_eq!(public.connections(), 0);
}

#[tokio::test]
async fn a_name_without_addresses_is_unreachable() {
    let client = client_with(&[], FakeResolver::new(&[("empty.test", &[&[]])]));
    assert_eq!(kind(client.get("http://empty.test/", LONG_DEADLINE).await), "unreachable");
}

#[tokio::test]
async fn a_name_is_resolved_once_however_it_answers_the_second_time() {
    let public = Server::responding(page("public"));
    // The same port on another loopback address stands for an internal service: only the second
    // resolution of the name leads there.
    let Ok(inside) = Server::bind(&format!("127.0.0.2:{}", public.port()), |_| ()) else {
        eprintln!("skipped: 127.0.0.2 is not an address of this machine");
        return;
    };
    let resolver = FakeResolver::new(&[("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let client = client_with(&[&public], Arc::clone(&resolver));
    let fetched = client.get(&public.url("rebind.test"), LONG_DEADLINE).await.unwrap();
    assert_eq!((fetched.body, resolver.calls()), (b"public".to_vec(), 1));
    // The next call resolves again and refuses the address.
    assert_eq!(
        kind(client.get(&public.url("rebind.test"), LONG_DEADLINE).await),
        "refused_address"
    );
    assert_eq!(public.connections(), 1);
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_name_that_becomes_internal_between_redirects_is_refused() {
    let public = Server::responding(redirect("/again"));
    let Ok(inside) = Server::bind(&format!("127.0.0.2:{}", public.port()), |_| ()) else {
        eprintln!("skipped: 127.0.0.2 is not an address of this machine");
        return;
    };
    let resolver = FakeResolver::new(&[("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let client = client_with(&[&public], Arc::clone(&resolver));
    assert_eq!(
        kind(client.get(&public.url("rebind.test"), LONG_DEADLINE).await),
        "refused_address"
    );
    assert_eq!((resolver.calls(), public.connections(), inside.connections()), (2, 1, 0));
}

#[tokio::test]
async fn an_unanswering_public_address_does_not_lead_to_another_lookup() {
    // Nothing listens on this port any more.
    let gone = Server::responding(page("never")).address;
    let resolver = FakeResolver::new(&[("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let client = OutgoingClient::new(OutgoingSettings {
        allow: vec![gone],
        ..settings(&[], Arc::clone(&resolver))
    });
    let _ = client.get(&format!("http://rebind.test:{}/", gone.port()), SHORT_DEADLINE).await;
    assert_eq!(resolver.calls(), 1);
}

#[tokio::test]
async fn no_error_repeats_the_query() {
    let server = Server::responding("nonsense\r\n\r\n");
    let client = client(&[&server]);
    for url in [
        "http://127.0.0.1/?canary".to_owned(),
        "http://u:canary@site.test/?canary".into(),
        "http://site.test:22/?canary".into(),
        "nonsense?canary".into(),
        format!("{}?canary", server.url("site.test")),
    ] {
        let error = client.get(&url, LONG_DEADLINE).await.unwrap_err();
        let mut texts = vec![error.to_string(), format!("{error:?}")];
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            texts.push(inner.to_string());
            source = inner.source();
        }
        assert!(!texts.iter().any(|text| text.contains("canary")), "{texts:?}");
    }
}

#[tokio::test]
async fn an_ordinary_page_is_fetched() {
    let server = Server::start(|mut stream| {
        let head = crate::rig::read_head(&stream).join("\n").to_ascii_lowercase();
        std::io::Write::write_all(&mut stream, page(&head).as_bytes()).unwrap();
    });
    let fetched = client(&[&server])
        .get(&format!("{}p?q=1#f", server.url("Site.test")), LONG_DEADLINE)
        .await
        .unwrap();
    assert_eq!((fetched.status, fetched.truncated), (200, false));
    assert_eq!(fetched.url, format!("http://site.test:{}/p?q=1", server.port()));
    let head = String::from_utf8(fetched.body).unwrap();
    assert!(head.starts_with("get /p?q=1 http/1.1\n"), "{head}");
    assert!(head.contains("user-agent: terse/9.9.9 (+https://go.example)"), "{head}");
    assert!(head.contains("accept-encoding: identity"), "{head}");
    for never in ["referer", "cookie", "authorization", "gzip"] {
        assert!(!head.contains(never), "{head}");
    }
}

/// The environment is shared by the process, so the test above runs again in its own process.
#[test]
fn a_proxy_in_the_environment_is_not_used() {
    let proxy = Server::start(|_| ());
    let mut child = Command::new(std::env::current_exe().unwrap());
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        child.env(name, proxy.url("127.0.0.1"));
    }
    let output = child.args(["--exact", "guard::an_ordinary_page_is_fetched"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    assert_eq!(proxy.connections(), 0);
}
