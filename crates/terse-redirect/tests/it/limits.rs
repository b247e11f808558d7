//! Rate limits: on the fast path, for HEAD, and over HTTP/2.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use terse_core::Proxies;
use terse_core::limits::Limit;
use terse_redirect::{ErrorStyle, RedirectSettings};
use terse_testkit::alias;

use crate::fixture::{Fixture, Served};

const TARGET: &str = "https://example.com/";
const BOTH: [bool; 2] = [true, false];

async fn fixture(fast: bool, change: impl FnOnce(&mut RedirectSettings)) -> Fixture {
    let fixture = Fixture::new(|settings| {
        settings.fast_path = fast;
        change(settings);
    });
    for code in ["abc1234", "other12"] {
        fixture.insert(alias(code, TARGET)).await;
    }
    fixture.insert(terse_core::Link { max_clicks: Some(100), ..alias("limited", TARGET) }).await;
    fixture
}

fn ask(served: &Served, line: &str, fields: &str) -> String {
    served.exchange(
        format!("{line} HTTP/1.1\r\nHost: go.example\r\n{fields}Connection: close\r\n\r\n")
            .as_bytes(),
    )
}

fn status(served: &Served, line: &str, fields: &str) -> u16 {
    ask(served, line, fields)[9..12].parse().expect("a status")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_guesses_codes_gets_429_for_a_while_and_still_follows_links() {
    for fast in BOTH {
        let fixture =
            fixture(fast, |settings| settings.guesses_per_address = Limit::per_minute(60)).await;
        let served = fixture.serve_journaled(|_| ());
        assert_eq!(status(&served, "GET /abc1234", ""), 302);
        for i in 0..60 {
            // Some codes were never issued, some are looked up, one is requested repeatedly.
            let line =
                [format!("GET /no-such-{i}"), format!("GET /zzzzz{i:02}"), "HEAD /the-same".into()];
            assert_eq!(status(&served, &line[i % 3], ""), 404, "{fast} {i}");
        }
        let refused = ask(&served, "GET /no-such-one", "");
        assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{refused}");
        for part in [
            "retry-after: 1\r\n",
            "ratelimit-limit: 60\r\n",
            "ratelimit-remaining: 0\r\n",
            "\"code\":\"rate_limited\"",
        ] {
            assert!(refused.contains(part), "{part} is not in {refused}");
        }
        assert!(
            ask(&served, "GET /no-such-one", "Accept: text/html\r\n")
                .contains("content-type: text/html")
        );
        assert_eq!(status(&served, "GET /zzzzzzz", ""), 429);
        assert_eq!(status(&served, "GET /the-same", ""), 429);
        for line in ["GET /abc1234", "HEAD /abc1234", "GET /other12", "GET /limited"] {
            assert_eq!(status(&served, line, ""), 302, "{line}");
        }
        let counts = served.workers.counts();
        assert_eq!((counts.not_found, counts.limited), (60, 4), "{fast}");
        assert_eq!(
            served.journaled().iter().filter(|journaled| journaled.owner == 0).count(),
            60,
            "a refusal is not journaled"
        );
        fixture.clock.advance(Duration::from_mins(1));
        assert_eq!(status(&served, "GET /no-such-one", ""), 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_limited_per_address_and_per_link() {
    for fast in BOTH {
        for code in ["abc1234", "limited"] {
            let by_address =
                fixture(fast, |settings| settings.redirect_per_address = Limit::per_hour(10)).await;
            let by_code =
                fixture(fast, |settings| settings.redirect_per_code = Limit::per_hour(10)).await;
            for (fixture, other) in [(&by_address, 429), (&by_code, 302)] {
                let served = fixture.serve();
                for i in 0..10 {
                    let line = [
                        format!("GET /{code}"),
                        format!("HEAD /{code}"),
                        format!("GET /{code}?x=1"),
                    ];
                    assert_eq!(status(&served, &line[i % 3], ""), 302, "{fast} {code} {i}");
                }
                let refused = ask(&served, &format!("GET /{code}"), "");
                assert!(
                    refused.starts_with("HTTP/1.1 429 ")
                        && refused.contains("retry-after: 360\r\n"),
                    "{refused}"
                );
                assert!(!refused.contains("location:"), "{refused}");
                assert_eq!(status(&served, &format!("HEAD /{code}"), ""), 429);
                assert_eq!(status(&served, "GET /other12", ""), other);
                fixture.clock.advance(Duration::from_secs(361));
                assert_eq!(status(&served, &format!("GET /{code}"), ""), 302);
                assert_eq!(status(&served, &format!("GET /{code}"), ""), 429);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_client_is_one_source_whatever_it_forwards() {
    for fast in BOTH {
        for journaled in BOTH {
            for (trusted, allowed) in [(false, 60), (true, 200)] {
                let fixture = fixture(fast, |settings| {
                    settings.guesses_per_address = Limit::per_hour(60);
                    settings.redirect_per_address = Limit::per_hour(60);
                    settings.proxies = Proxies::new(
                        trusted.then(|| "127.0.0.1".parse().unwrap()).into_iter().collect(),
                    );
                })
                .await;
                let served =
                    if journaled { fixture.serve_journaled(|_| ()) } else { fixture.serve() };
                let mut bytes = String::new();
                for i in 0..200 {
                    for code in ["not-there", "abc1234"] {
                        bytes += &format!(
                            "GET /{code} HTTP/1.1\r\nHost: go.example\r\nX-Forwarded-For: \
                             198.51.100.{i}\r\n\r\n"
                        );
                    }
                }
                let answers = served.exchange(bytes.as_bytes());
                let count = |status: &str| answers.matches(&format!("HTTP/1.1 {status} ")).count();
                assert_eq!(
                    (count("404"), count("302"), count("429")),
                    (allowed, allowed, 400 - 2 * allowed),
                    "{fast} {trusted}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http2_the_same_limits_hold() {
    let fixture = fixture(true, |settings| {
        settings.guesses_per_address = Limit::per_hour(3);
        settings.redirect_per_code = Limit::per_hour(3);
    })
    .await;
    let served = fixture.serve();
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let mut statuses = Vec::new();
    for path in ["/not-there", "/abc1234"].into_iter().flat_map(|path| [path; 5]) {
        let mut client = client.clone().ready().await.unwrap();
        let request = http::Request::get(format!("http://go.example{path}")).body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        let response: http::Response<h2::RecvStream> = response.await.unwrap();
        statuses.push(response.status().as_u16());
        let mut body = response.into_body();
        while let Some(part) = body.data().await {
            let part: Bytes = part.unwrap();
            let _ = body.flow_control().release_capacity(part.len());
        }
    }
    assert_eq!(statuses, [404, 404, 404, 429, 429, 302, 302, 302, 429, 429]);
    driver.abort();
    // One count for all ways.
    assert_eq!(
        (status(&served, "GET /not-there", ""), status(&served, "GET /abc1234", "")),
        (429, 429)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fast_path_and_fallback_refuse_with_the_same_body() {
    let mut said = Vec::new();
    for fast in BOTH {
        let fixture = fixture(fast, |settings| {
            settings.guesses_per_address = Limit::per_hour(7);
            settings.redirect_per_code = Limit::per_hour(7);
            settings.redirect_per_address = Limit::per_hour(20);
        })
        .await;
        let served = fixture.serve();
        let mut words = Vec::new();
        for i in 0..60 {
            let code = ["not-there", "zzzzzzz", "abc1234", "other12"][i % 4];
            let accept = ["", "Accept: text/html\r\n"][i % 2];
            let answer = ask(&served, &format!("GET /{code}"), accept);
            let mut lines: Vec<&str> =
                answer.split("\r\n").filter(|line| !line.starts_with("date:")).collect();
            lines.sort_unstable();
            words.push(lines.join("\n"));
        }
        said.push(words);
    }
    assert!(said[0].iter().filter(|words| words.contains("429")).count() > 20);
    for (at, (one, other)) in said[0].iter().zip(&said[1]).enumerate() {
        assert_eq!(one, other, "answer {at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_failures_have_pages_a_refusal_is_still_a_refusal() {
    for fast in BOTH {
        let fixture = fixture(fast, |settings| {
            settings.guesses_per_address = Limit::per_hour(3);
            settings.errors = ErrorStyle::Page;
        })
        .await;
        let served = fixture.serve();
        let statuses: Vec<u16> = (0..5).map(|_| status(&served, "GET /not-there", "")).collect();
        assert_eq!(statuses, [302, 302, 302, 429, 429], "{fast}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_may_go_on_after_a_refusal() {
    let fixture = fixture(true, |settings| settings.guesses_per_address = Limit::per_hour(1)).await;
    let served = fixture.serve();
    let mut stream = served.connect();
    let mut buffer = [0; 4096];
    for (code, want) in
        [("not-there", "404"), ("not-there", "429"), ("abc1234", "302"), ("not-here", "429")]
    {
        stream
            .write_all(format!("GET /{code} HTTP/1.1\r\nHost: go.example\r\n\r\n").as_bytes())
            .unwrap();
        let count = stream.read(&mut buffer).unwrap();
        assert_eq!(std::str::from_utf8(&buffer[9..12]).unwrap(), want, "{code}");
        assert!(count > 12);
    }
}
