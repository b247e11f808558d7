//! Redirects: limited, and each checked like the first URL.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terse_core::{HttpClient as _, Validators};

use crate::guard::INSIDE;
use crate::rig::{
    FakeResolver, LONG_DEADLINE, Server, client, client_with, kind, page, read_head, redirect,
};

#[tokio::test]
async fn no_redirect_leads_to_an_internal_address() {
    let victim = Server::start(|_| ());
    let at = Arc::new(AtomicUsize::new(0));
    let (next, port) = (Arc::clone(&at), victim.port().to_string());
    let locations: Vec<String> = INSIDE
        .iter()
        .map(|text| text.replace("{p}", &port))
        .filter(|text| text.is_ascii())
        .collect();
    let given = locations.clone();
    let public = Server::start(move |mut stream| {
        read_head(&stream);
        let _ = stream.write_all(
            redirect(&given[next.fetch_add(1, Ordering::SeqCst)].replace('\n', "")).as_bytes(),
        );
    });
    let client = client_with(&[&public], FakeResolver::new(&[]));
    for location in &locations {
        let got = kind(client.get(&public.url("site.test"), LONG_DEADLINE).await);
        // A location without scheme and host is a path on this server, which then sends the next
        // location.
        let here = location.starts_with("127.")
            || location.starts_with("http:1")
            || location.starts_with("http:/1");
        assert!(matches!(got, "refused_address" | "bad_redirect") || here, "{location}: {got}");
        at.store(locations.iter().position(|l| l == location).unwrap() + 1, Ordering::SeqCst);
    }
    assert_eq!(victim.connections(), 0);
}

/// Redirects `/n` to `/n-1`, down to a page.
fn redirect_chain() -> Server {
    Server::start(|mut stream| {
        let head = read_head(&stream);
        let step: usize =
            head.first().map_or(0, |line| line.split(['/', ' ']).nth(2).unwrap().parse().unwrap());
        let answer = if step == 0 { page("down") } else { redirect(&format!("{}", step - 1)) };
        let _ = stream.write_all(answer.as_bytes());
    })
}

#[tokio::test]
async fn three_redirects_are_followed_and_a_fourth_is_not() {
    let server = redirect_chain();
    let client = client(&[&server]);
    let fetched =
        client.get(&format!("{}3", server.url("site.test")), LONG_DEADLINE).await.unwrap();
    assert_eq!(
        (fetched.url, fetched.body),
        (format!("{}0", server.url("site.test")), b"down".to_vec())
    );
    assert_eq!(server.connections(), 4);
    assert_eq!(
        kind(client.get(&format!("{}4", server.url("site.test")), LONG_DEADLINE).await),
        "too_many_redirects"
    );
    assert_eq!(server.connections(), 8);
}

#[tokio::test]
async fn a_loop_ends() {
    let server = Server::responding(redirect("/"));
    assert_eq!(
        kind(client(&[&server]).get(&server.url("site.test"), LONG_DEADLINE).await),
        "too_many_redirects"
    );
    assert_eq!(server.connections(), 4);
}

#[tokio::test]
async fn odd_redirects_are_refused() {
    for answer in [
        "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 301 Moved\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 307 Moved\r\nLocation: http://u:p@site.test/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 308 Moved\r\nLocation: http://site.test:25/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 303 See\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n",
    ] {
        let server = Server::responding(answer);
        assert_eq!(
            kind(client(&[&server]).get(&server.url("site.test"), LONG_DEADLINE).await),
            "bad_redirect",
            "{answer}"
        );
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn a_document_that_has_not_changed_is_not_sent_again() {
    let server = Server::start(|mut stream| {
        let head = read_head(&stream).join("\n").to_ascii_lowercase();
        let known = head.contains("if-none-match: \"v1\"")
            && head.contains("if-modified-since: mon, 05 oct 2026 10:00:00 gmt");
        let answer = match (head.starts_with("get /list "), known) {
            (false, _) => redirect("/list"),
            (true, true) => "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n".into(),
            (true, false) => {
                "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nLast-Modified: Mon, 05 Oct 2026 10:00:00 \
                 GMT\r\nContent-Length: 4\r\n\r\nlist"
                    .into()
            }
        };
        let _ = stream.write_all(answer.as_bytes());
    });
    let client = client(&[&server]);
    let first = client
        .get_if_changed(&server.url("site.test"), LONG_DEADLINE, &Validators::default())
        .await
        .unwrap();
    assert_eq!((first.is_unchanged(), &*first.body), (false, &b"list"[..]));
    let second = client
        .get_if_changed(&server.url("site.test"), LONG_DEADLINE, &first.validators)
        .await
        .unwrap();
    assert_eq!((second.is_unchanged(), &*second.body), (true, &b""[..]));
}
