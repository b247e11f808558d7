//! What the journal records of a visit, on the fast path and behind it.

use std::time::Duration;

use terse_core::clicks::RequestFlags;
use terse_core::{Answered, Link, ModerationStatus, OwnerId, Proxies};
use terse_redirect::{AddressDetail, ErrorStyle};
use terse_testkit::{alias, timestamp};

use crate::fixture::{Fixture, Served};
use crate::segments::JournaledVisit;

const TARGET: &str = "https://example.com/";
const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

async fn fixture(change: impl FnOnce(&mut terse_redirect::RedirectSettings)) -> Fixture {
    let fixture = Fixture::new(|settings| {
        settings.threads = 1;
        change(settings);
    });
    fixture
        .insert(Link { owner: OwnerId(77), created_at: timestamp(5), ..alias("abc1234", TARGET) })
        .await;
    fixture.insert(Link { forward_query: true, ..alias("forward1", TARGET) }).await;
    fixture.insert(Link { max_clicks: Some(2), ..alias("limited1", TARGET) }).await;
    fixture
        .insert(Link { moderation: ModerationStatus::Blocked, ..alias("blocked1", TARGET) })
        .await;
    fixture
        .insert(Link { moderation: ModerationStatus::Suspicious, ..alias("flagged1", TARGET) })
        .await;
    fixture.insert(Link { expires_at: Some(timestamp(1)), ..alias("expired1", TARGET) }).await;
    fixture
}

/// Sends a request with these fields and returns what the journal recorded.
fn ask(served: &Served, line: &str, fields: &[&str]) -> Vec<JournaledVisit> {
    let before = served.journaled().len();
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    served.exchange(format!("{line} HTTP/1.1\r\nHost: go.example\r\n{fields}\r\n").as_bytes());
    served.journaled().split_off(before)
}

fn one(journaled: Vec<JournaledVisit>) -> JournaledVisit {
    assert_eq!(journaled.len(), 1, "{journaled:?}");
    journaled.into_iter().next().expect("one")
}

const BOTH: [bool; 2] = [true, false];

#[tokio::test(flavor = "multi_thread")]
async fn a_click_records_what_is_counted_and_no_more() {
    for fast in BOTH {
        let served = fixture(|settings| settings.fast_path = fast).await.serve_journaled(|_| ());
        let agent = format!("User-Agent: {BROWSER}");
        let journaled = one(ask(
            &served,
            "GET /abc1234?utm_source=news%20letter&x=secret&utm_medium=mail",
            &[
                &agent,
                "Referer: https://me:pw@News.example:8080/private?q=1",
                "Accept-Language: de-AT,de;q=0.8",
                "Cookie: a=b",
            ],
        ));
        assert_ne!(journaled.visitor, 0);
        let want = JournaledVisit {
            outcome: Answered::Redirected,
            marks: RequestFlags::default(),
            weight: 1,
            visitor: journaled.visitor,
            owner: 77,
            created_ms: timestamp(5).as_ms(),
            domain: String::new(),
            code: "abc1234".into(),
            address: vec![127, 0, 0],
            referrer: "News.example".into(),
            language: "de-AT".into(),
            agent: BROWSER.into(),
            campaign: "utm_source=news%20letter&utm_medium=mail".into(),
        };
        assert_eq!(journaled, want, "fast path: {fast}");
        // The same visitor has the same hash, another browser has another.
        assert_eq!(one(ask(&served, "GET /forward1", &[&agent])).visitor, journaled.visitor);
        assert_ne!(
            one(ask(&served, "GET /abc1234", &["User-Agent: x"])).visitor,
            journaled.visitor
        );
        assert_eq!(served.workers.counts().clicks_journaled, 3);
        assert_eq!(served.workers.counts().clicks_lost, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_visit_is_journaled_once_however_it_is_answered() {
    for fast in BOTH {
        let fixture = fixture(|settings| settings.fast_path = fast).await;
        let served = fixture.serve_journaled(|_| ());
        let head = RequestFlags::HEAD;
        let none = RequestFlags::default();
        for (line, want) in [
            ("GET /abc1234", Some((Answered::Redirected, none))),
            ("GET /abc1234", Some((Answered::Redirected, none))),
            ("HEAD /abc1234", Some((Answered::Redirected, head))),
            ("GET /forward1", Some((Answered::Redirected, none))),
            ("GET /forward1?x=1", Some((Answered::Redirected, none))),
            ("HEAD /limited1", Some((Answered::Redirected, head))),
            ("GET /limited1", Some((Answered::Redirected, none))),
            ("GET /limited1", Some((Answered::Redirected, none))),
            ("GET /limited1", Some((Answered::Gone, none))),
            ("HEAD /limited1", Some((Answered::Gone, head))),
            ("GET /expired1", Some((Answered::Gone, none))),
            ("GET /blocked1", Some((Answered::Blocked, none))),
            ("GET /nothing1", Some((Answered::NotFound, none))),
            ("GET /nothing1", Some((Answered::NotFound, none))),
            ("GET /flagged1", Some((Answered::Warned, none))),
            ("GET /flagged1", Some((Answered::Warned, none))),
            ("POST /flagged1", None),
            ("GET /abc1234?report", None),
            ("POST /abc1234", None),
            ("GET /login", None),
        ] {
            let journaled = ask(&served, line, &[]);
            assert_eq!(
                journaled.first().map(|journaled| (journaled.outcome, journaled.marks)),
                want,
                "{line}, fast path: {fast}"
            );
            assert!(journaled.len() <= 1, "{line}");
            if let Some(journaled) = journaled.first() {
                let named = matches!(journaled.outcome, Answered::Redirected | Answered::Warned);
                assert_eq!(
                    (journaled.owner != 0, journaled.created_ms != 0),
                    (named, named),
                    "{line}"
                );
                assert!(line.contains(&journaled.code));
            }
        }
        // While the store is away, a visit is neither a click nor a failure of the link.
        fixture.store.fail(true);
        assert_eq!(ask(&served, "GET /un-known", &[]), []);
        assert_eq!(served.workers.counts().unavailable, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_in_page_mode_is_journaled_as_a_failure() {
    let served =
        fixture(|settings| settings.errors = ErrorStyle::Page).await.serve_journaled(|_| ());
    assert_eq!(one(ask(&served, "GET /expired1", &[])).outcome, Answered::Gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stream_of_an_http_2_connection_is_a_click() {
    let fixture = fixture(|_| ()).await;
    let served = fixture.serve_journaled(|_| ());
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    for method in ["GET", "HEAD", "GET"] {
        let request =
            http::Request::builder().method(method).uri("http://go.example/abc1234?utm_id=2");
        let request = request
            .header("user-agent", BROWSER)
            .header("referer", "https://news.example/")
            .body(())
            .unwrap();
        let mut client = client.clone().ready().await.unwrap();
        let (answer, _) = client.send_request(request, true).unwrap();
        let answer: http::Response<h2::RecvStream> = answer.await.unwrap();
        assert_eq!(answer.status(), 302);
    }
    driver.abort();
    let journaled = served.journaled();
    assert_eq!(
        journaled
            .iter()
            .map(|journaled| journaled.marks.has(RequestFlags::HEAD))
            .collect::<Vec<_>>(),
        [false, true, false]
    );
    for journaled in journaled {
        assert_eq!(
            (&*journaled.agent, &*journaled.referrer, &*journaled.campaign),
            (BROWSER, "news.example", "utm_id=2")
        );
        assert_eq!((journaled.owner, journaled.address), (77, vec![127, 0, 0]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_who_ask_not_to_be_tracked_are_only_counted() {
    for (fast, field) in BOTH.into_iter().flat_map(|fast| [(fast, "DNT: 1"), (fast, "Sec-GPC: 1")])
    {
        let fixture = fixture(|settings| settings.fast_path = fast).await;
        let fields = [
            "User-Agent: x",
            "Referer: https://a.example/",
            "Accept-Language: de",
            "Sec-Purpose: prefetch",
            field,
        ];
        let journaled =
            one(ask(&fixture.serve_journaled(|_| ()), "GET /abc1234?utm_source=x", &fields));
        assert_eq!(
            journaled.marks,
            RequestFlags::DO_NOT_TRACK.with(RequestFlags::PREFETCH, true),
            "{field}"
        );
        assert_eq!(
            (journaled.visitor, &*journaled.address, &*journaled.referrer, &*journaled.language),
            (0, &[][..], "", ""),
            "{field}"
        );
        assert_eq!(
            (&*journaled.agent, &*journaled.campaign, &*journaled.code, journaled.owner),
            ("", "", "abc1234", 77),
            "{field}"
        );
        // Without `honour_dnt` the visit is recorded as any other.
        let journaled = one(ask(
            &fixture.serve_journaled(|settings| settings.honour_dnt = false),
            "GET /abc1234",
            &fields,
        ));
        assert_eq!((journaled.marks, &*journaled.agent), (RequestFlags::PREFETCH, "x"), "{field}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_visitor_who_asks_not_to_be_tracked_only_the_name_of_a_bot_is_kept() {
    for fast in BOTH {
        let fixture = fixture(|settings| settings.fast_path = fast).await;
        let (quiet, nameless) = (
            RequestFlags::DO_NOT_TRACK,
            RequestFlags::DO_NOT_TRACK.with(RequestFlags::NO_USER_AGENT, true),
        );
        for (agent, marks, kept) in [
            ("User-Agent: ExampleBot/1.0", quiet, "ExampleBot/1.0"),
            ("User-Agent: curl/8.9", quiet, "curl/8.9"),
            ("User-Agent: Mozilla/5.0 (Linux; Android 14; CUBOT KINGKONG) Mobile", quiet, ""),
            ("X-Other: 1", nameless, ""),
        ] {
            let fields = [agent, "DNT: 1", "Accept-Language: de"];
            let journaled = one(ask(&fixture.serve_journaled(|_| ()), "GET /abc1234", &fields));
            assert_eq!((journaled.marks, &*journaled.agent), (marks, kept), "{agent}");
            assert_eq!((journaled.visitor, &*journaled.language), (0, ""));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_trusted_proxies_can_name_the_client() {
    let trusting =
        || Proxies::new(vec!["127.0.0.1".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]);
    for fast in BOTH {
        let trusting =
            fixture(|settings| (settings.fast_path, settings.proxies) = (fast, trusting())).await;
        let through = trusting.serve_journaled(|_| ());
        let full = trusting.serve_journaled(|settings| settings.address = AddressDetail::Full);
        let direct = fixture(|settings| settings.fast_path = fast).await.serve_journaled(|_| ());
        let v4 = ["X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 7.7.7.7, 203.0.113.9, 10.1.1.1"];
        let v6 = ["X-Forwarded-For: 2001:db8:1:2::3"];
        assert_eq!(one(ask(&through, "GET /abc1234", &v4)).address, [203, 0, 113]);
        assert_eq!(one(ask(&full, "GET /abc1234", &v4)).address, [203, 0, 113, 9]);
        assert_eq!(one(ask(&through, "GET /abc1234", &v6)).address, [0x20, 0x01, 0x0d, 0xb8, 0, 1]);
        assert_eq!(one(ask(&full, "GET /abc1234", &v6)).address.len(), 16);
        assert_eq!(one(ask(&through, "GET /abc1234", &[])).address, [127, 0, 0]);
        assert_eq!(one(ask(&direct, "GET /abc1234", &v4)).address, [127, 0, 0]);
        // Visitors behind the same proxy have different hashes.
        let [one_of_them, another] =
            ["X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.10"]
                .map(|from| one(ask(&through, "GET /abc1234", &[from])));
        assert_eq!(one_of_them.address, another.address);
        assert_ne!(one_of_them.visitor, another.visitor);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_found_under_another_spelling_is_journaled_under_its_own_code() {
    for fast in BOTH {
        let fixture = fixture(|settings| {
            settings.loose = true;
            settings.fast_path = fast;
        })
        .await;
        fixture.insert(Link { owner: OwnerId(5), ..alias("My-Link", TARGET) }).await;
        fixture.insert(Link { forward_query: true, ..alias("For-Ward", TARGET) }).await;
        let served = fixture.serve_journaled(|_| ());
        for line in ["GET /my-LINK", "HEAD /my-LINK", "GET /My-Link", "GET /my-link?x"] {
            let journaled = one(ask(&served, line, &[]));
            assert_eq!((&*journaled.code, journaled.owner), ("My-Link", 5), "{line}");
        }
        assert_eq!(one(ask(&served, "GET /for-ward?x=1", &[])).code, "For-Ward");
        assert_eq!(one(ask(&served, "GET /No-Such", &[])).code, "No-Such");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_salt_of_the_day_reaches_the_threads() {
    let fixture = fixture(|_| ()).await;
    let served = fixture.serve_journaled(|_| ());
    let visitor = || one(ask(&served, "GET /abc1234", &["User-Agent: x"])).visitor;
    let yesterday = visitor();
    served.journal().set_salt([8; 16]);
    // Each sweep copies the salt.
    for _ in 0..1000 {
        if visitor() != yesterday {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the threads never used the new salt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_codes_is_sampled_and_its_weights_add_up() {
    const CAME: u64 = 20_000;
    let fixture = fixture(|_| ()).await;
    let served = fixture.serve_journaled(|_| ());
    let requests: String = (0..CAME / 20)
        .map(|n| format!("GET /scan-{n} HTTP/1.1\r\nHost: go.example\r\n\r\n"))
        .collect();
    for _ in 0..20 {
        served.exchange(requests.as_bytes());
    }
    let journaled = served.journaled();
    let counts = served.workers.counts();
    assert_eq!(counts.not_found, CAME);
    assert_eq!(counts.clicks_journaled + counts.orphans_skipped, CAME);
    assert_eq!(journaled.len() as u64, counts.clicks_journaled);
    let stood_for: u64 = journaled.iter().map(|journaled| u64::from(journaled.weight)).sum();
    // The error depends on how many seconds it took: at most half a sample's weight per second.
    assert!(journaled.iter().any(|journaled| journaled.weight > 1), "never sampled");
    assert!(stood_for.abs_diff(CAME) <= CAME / 5, "{stood_for} for {CAME}");
    // Clicks and views of a warning are never sampled.
    assert_eq!(one(ask(&served, "GET /abc1234", &[])).weight, 1);
    for _ in 0..10 {
        assert_eq!(one(ask(&served, "GET /flagged1", &[])).weight, 1);
    }
}

/// A small repeatable source of choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

const LINES: &[&str] = &[
    "GET /abc1234",
    "GET /abc1234?utm_source=a&b=c&utm_medium=d",
    "GET /abc1234?utm_source=a#utm_medium=b",
    "GET /abc1234?",
    "GET /forward1?utm_id=1",
    "GET /expired1",
    "GET /blocked1",
    "GET /flagged1",
    "GET /nothing1?utm_source=x",
    "GET /Abc1234",
    "HEAD /abc1234",
    "POST /abc1234",
    "GET http://go.example/abc1234",
];
const FIELDS: &[&str] = &[
    "User-Agent: one",
    "user-agent: two",
    "USER-AGENT:",
    "User-Agent: caf\u{e9}\u{ff}",
    "Referer: https://a.example/x",
    "referer: http://user:pass@b.example:80/",
    "Referer: nonsense",
    "Referer: http://[::1]:80/",
    "Accept-Language: de-AT, en",
    "accept-language: *;q=0.1",
    "DNT: 1",
    "DNT: 0",
    "Sec-GPC: 1",
    "Sec-Purpose: prefetch;prerender",
    "Purpose: prefetch",
    "X-Moz: prefetch",
    "X-Purpose: preview",
    "X-Purpose: none",
    "X-Forwarded-For: 203.0.113.1",
    "X-Forwarded-For: 198.51.100.2, 10.0.0.1",
    "x-forwarded-for: 2001:db8::1",
    "X-Forwarded-For: nonsense",
    "X-Forwarded-For:",
    "Accept: text/html",
    "Cookie: a=b",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_are_journaled_alike_with_and_without_the_fast_path() {
    let [(fast, fast_served), (plain, plain_served)] = {
        let mut both = Vec::new();
        for way in BOTH {
            let fixture = fixture(|settings| {
                settings.fast_path = way;
                settings.loose = true;
                // The test's clock runs much faster than the real one.
                settings.header_timeout = Duration::from_secs(1_000_000);
                settings.idle_timeout = Duration::from_secs(1_000_000);
                settings.proxies =
                    Proxies::new(vec!["127.0.0.1".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]);
            })
            .await;
            let served = fixture.serve_journaled(|_| ());
            both.push((fixture, served));
        }
        <[_; 2]>::try_from(both).ok().expect("two")
    };
    let mut dice = Dice(0x7e45e);
    for _ in 0..1500 {
        let mut text = String::new();
        for _ in 0..=dice.roll(3) {
            text += LINES[dice.roll(LINES.len())];
            text += " HTTP/1.1\r\nHost: go.example\r\n";
            for _ in 0..dice.roll(9) {
                text += FIELDS[dice.roll(FIELDS.len())];
                text += "\r\n";
            }
            text += "\r\n";
        }
        // Latin-1, so that single bytes above 127 can be sent. Some requests get a random byte.
        let mut bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
        if dice.roll(4) == 0 {
            let at = dice.roll(bytes.len());
            bytes[at] = dice.roll(256) as u8;
        }
        for (fixture, served) in [(&fast, &fast_served), (&plain, &plain_served)] {
            // Each in a second of its own, so that no failure is sampled.
            fixture.clock.advance(Duration::from_secs(1));
            served.raw(&bytes);
        }
    }
    let (one, other) = (fast_served.journaled(), plain_served.journaled());
    assert!(one.len() > 1500, "{}", one.len());
    for (at, (one, other)) in one.iter().zip(&other).enumerate() {
        assert_eq!(one, other, "record {at}");
    }
    assert_eq!(one.len(), other.len());
    // The fast path was used.
    assert!(fast_served.workers.counts().hits > 0);
    assert_eq!(
        fast_served.workers.counts().clicks_lost + plain_served.workers.counts().clicks_lost,
        0
    );
}
