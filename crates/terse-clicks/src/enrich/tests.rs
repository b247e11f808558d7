use proptest::prelude::*;
use terse_core::clicks::Click;

use super::*;

fn enricher() -> Enricher {
    Enricher::new(None, AddressPrecision::Network, Timestamp::from_ms(0)).unwrap()
}

impl Enricher {
    /// The click of a record in a batch of its own.
    fn click(&mut self, record: &JournalRecord<'_>) -> Option<Click> {
        let mut gathering = GrowingBatch::default();
        gathering.read(record, self);
        gathering.add_in_order(self);
        gathering.columns().iter().next()
    }
}

fn record() -> JournalRecord<'static> {
    JournalRecord {
        at_ms: 1_763_000_000_123,
        took_nanos: 42_000,
        weight: 1,
        visitor: 99,
        owner: 7,
        created_ms: 5,
        code: b"x7Kq2Lm",
        address: &[8, 8, 8],
        referrer: b"www.News.example",
        language: b"de-de",
        agent: samples::BROWSERS[0].0.as_bytes(),
        campaign: b"utm_source=mail",
        ..JournalRecord::default()
    }
}

#[test]
fn a_record_becomes_a_click() {
    let click = enricher().click(&record()).unwrap();
    let key = LinkKey { domain: Domain::primary(), code: Code::parse("x7Kq2Lm").unwrap() };
    let text = |text: &str| Some(Interned::from(text));
    let want = Click {
        took_nanos: 42_000,
        visitor: Some(99),
        address: text("8.8.8.0/24"),
        referrer: text("news.example"),
        country: text("US"),
        device: text("desktop"),
        browser: text("Chrome"),
        system: text("Windows"),
        language: text("de-DE"),
        utm: [text("mail"), None, None, None, None],
        ..Click::bare(
            Timestamp::from_ms(1_763_000_000_123),
            ClickTarget::Link(LinkId { key, created_at: Timestamp::from_ms(5) }, OwnerId(7)),
        )
    };
    assert_eq!(click, want);
}

#[test]
fn a_visit_without_a_redirect_is_an_orphan() {
    let sent =
        JournalRecord { outcome: Answered::Gone, weight: 64, domain: b"go.example", ..record() };
    let click = enricher().click(&sent).unwrap();
    let ClickTarget::Orphan(key, Answered::Gone) = click.target else { panic!("{click:?}") };
    assert_eq!(
        (key.domain.as_str(), key.code.as_str(), click.weight),
        ("go.example", "x7Kq2Lm", 64)
    );
}

#[test]
fn a_visitor_who_asked_not_to_be_tracked_is_only_counted() {
    let quiet = RequestFlags::DO_NOT_TRACK;
    let click = enricher().click(&JournalRecord { marks: quiet, ..record() }).unwrap();
    let bare = Click { took_nanos: 42_000, ..Click::bare(click.at, click.target.clone()) };
    assert_eq!(click, bare);
    let nameless = enricher().click(&JournalRecord { agent: b"", ..record() }).unwrap();
    assert_eq!(nameless.bot, Some(BotKind::NoUserAgent));
}

#[test]
fn a_bot_that_asks_not_to_be_tracked_is_a_bot() {
    let quiet = RequestFlags::DO_NOT_TRACK;
    for (marks, agent, want) in [
        (quiet, &b"Mozilla/5.0 (compatible; Googlebot/2.1)"[..], Some(BotKind::Crawler)),
        (quiet, b"curl/8.0", Some(BotKind::Tool)),
        (quiet.with(RequestFlags::NO_USER_AGENT, true), b"", Some(BotKind::NoUserAgent)),
        (quiet, b"", None),
    ] {
        let click = enricher().click(&JournalRecord { marks, agent, ..record() }).unwrap();
        let bare = Click { took_nanos: 42_000, ..Click::bare(click.at, click.target.clone()) };
        assert_eq!(click, Click { bot: want, ..bare }, "and nothing else is kept");
    }
}

#[test]
fn of_several_kinds_of_bot_the_most_certain_is_reported() {
    let curl: &[u8] = b"curl/8.0";
    for (marks, agent, want) in [
        (RequestFlags::HEAD.with(RequestFlags::PREFETCH, true), curl, BotKind::Head),
        (RequestFlags::HEAD.with(RequestFlags::DO_NOT_TRACK, true), b"", BotKind::Head),
        (RequestFlags::PREFETCH, curl, BotKind::Prefetch),
        (RequestFlags::default(), curl, BotKind::Tool),
    ] {
        let mut enricher = enricher();
        // The second one is no repeat either, and the first human click after it counts.
        for _ in 0..2 {
            assert_eq!(
                enricher.click(&JournalRecord { marks, agent, ..record() }).unwrap().bot,
                Some(want)
            );
        }
        let first = enricher.click(&record()).unwrap();
        assert_eq!((first.bot, first.repeat), (None, false));
        let second = enricher.click(&record()).unwrap();
        assert_eq!((second.bot, second.repeat), (None, true), "a double click is no bot");
        assert!(!enricher.click(&JournalRecord { code: b"other", ..record() }).unwrap().repeat);
        assert!(
            !enricher.click(&JournalRecord { visitor: 0, ..record() }).unwrap().repeat,
            "without a visitor hash there are no repeats"
        );
    }
}

#[test]
fn an_address_is_stored_as_precisely_as_the_setting_says() {
    for (precision, want) in [
        (AddressPrecision::Network, Some("8.8.8.0/24")),
        (AddressPrecision::Omitted, None),
        (AddressPrecision::Full, Some("8.8.8.8")),
    ] {
        let mut enricher = Enricher::new(None, precision, Timestamp::from_ms(0)).unwrap();
        let click = enricher.click(&JournalRecord { address: &[8, 8, 8, 8], ..record() }).unwrap();
        assert_eq!((click.address.as_deref(), click.country.as_deref()), (want, Some("US")));
    }
}

#[test]
fn a_record_with_an_impossible_code_or_domain_is_no_click() {
    for code in [&b""[..], b"a b", b"a/b/c", b"\xff\xff\xff"] {
        assert_eq!(enricher().click(&JournalRecord { code, ..record() }), None);
    }
    assert_eq!(enricher().click(&JournalRecord { domain: b"\xff", ..record() }), None);
}

#[test]
fn a_changed_geo_file_is_used_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("geo.mmdb");
    std::fs::write(&path, mmdb::file(&mmdb::flat("DE", "Berlin"))).unwrap();
    let mut enricher =
        Enricher::new(Some(path.clone()), AddressPrecision::Network, Timestamp::from_ms(0))
            .unwrap();
    assert_eq!(enricher.click(&record()).unwrap().city.as_deref(), Some("Berlin, DE"));
    std::fs::write(&path, mmdb::file(&mmdb::nested("FR", "Paris"))).unwrap();
    enricher.refresh(Timestamp::from_ms(10_000));
    assert_eq!(enricher.click(&record()).unwrap().city.as_deref(), Some("Paris, FR"));
}

#[test]
fn the_caches_stay_within_their_bounds() {
    let mut enricher = enricher();
    for n in 0..1_000_000u32 {
        let text = format!("host{n}.example");
        let language = format!("aa-{:03}", n % 1000);
        let campaign = format!("utm_source={n}");
        let agent = if n % 100 == 0 { text.as_bytes() } else { record().agent };
        enricher.click(&JournalRecord {
            visitor: u64::from(n) + 1,
            address: &n.to_be_bytes(),
            domain: text.as_bytes(),
            referrer: text.as_bytes(),
            language: language.as_bytes(),
            agent,
            campaign: campaign.as_bytes(),
            ..record()
        });
    }
    assert!(enricher.referrers.len() <= 2 * REFERRERS);
    assert!(enricher.languages.len() <= 2 * LANGUAGES);
    assert!(enricher.campaigns.len() <= 2 * CAMPAIGNS);
    assert!(enricher.domains.len() <= 2 * DOMAINS);
    assert!(enricher.addresses.len() <= 2 * ADDRESSES);
    assert!(enricher.agents.len() <= 2 * AGENTS);
    assert!(enricher.repeats.len() <= 2 * 65_536);
}

proptest! {
    #[test]
    fn any_record_can_be_enriched(
        texts in proptest::array::uniform7(proptest::collection::vec(any::<u8>(), 0..300)),
        numbers in any::<(i64, u64, u16, u64, u64, i64, u8, u8)>(),
        code in "[A-Za-z0-9_-]{3,10}",
    ) {
        let [domain, odd_code, address, referrer, language, agent, campaign] = &texts;
        let (at_ms, took_nanos, weight, visitor, owner, created_ms, marks, outcome) = numbers;
        let mut record = JournalRecord {
            at_ms, took_nanos, weight, visitor, owner, created_ms,
            marks: RequestFlags(marks),
            outcome: Answered::from_journal_byte(outcome % 5).unwrap(),
            domain: b"",
            code: code.as_bytes(),
            address: &address[..address.len() % 17],
            referrer, language, agent, campaign,
        };
        ENRICHER.with_borrow_mut(|enricher| {
            assert!(enricher.click(&record).is_some());
            (record.code, record.domain) = (odd_code, domain);
            enricher.click(&record);
        });
    }
}

thread_local! {
    static ENRICHER: std::cell::RefCell<Enricher> = std::cell::RefCell::new(enricher());
}
