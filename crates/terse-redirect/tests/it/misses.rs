//! Links that are not in memory, or have changed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{
    AbsenceCertainty, Domain, Link, LinkKey, LinkReader, LinkStore, ModerationStatus, Numbering,
    PasswordHash, Revision, RouteCache, StoreError,
};
use terse_redirect::{ErrorStyle, Reply, VisitMethod, Visitor};
use terse_testkit::{MemoryStore, alias, key};
use tokio::sync::watch;

use crate::fixture::{Fixture, visitor};

const TARGET: &str = "https://example.com/a?b=c#d";

#[tokio::test]
async fn a_link_is_read_once_and_then_cached() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(alias("abc1234", TARGET)).await;
    for _ in 0..10 {
        assert_eq!(fixture.visit("abc1234").await, (302, Some(TARGET.into())));
    }
    assert_eq!(fixture.store.gets(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_answers_are_counted_and_an_unreadable_store_is_known() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.insert(alias("def1234", TARGET)).await;
    let served = fixture.serve();
    let get = |method: &str, code: &str| {
        served.exchange(format!("{method} /{code} HTTP/1.1\r\nHost: go.example\r\n\r\n").as_bytes())
    };
    fixture.store.delay(Duration::from_millis(80));
    assert!(get("GET", "abc1234").starts_with("HTTP/1.1 302"));
    assert!(served.workers.counts().slow >= 1, "on the fast path");
    let before = served.workers.counts().slow;
    assert!(get("HEAD", "def1234").starts_with("HTTP/1.1 302"));
    assert!(served.workers.counts().slow > before, "by hyper");
    let seen = served.workers.counts();
    assert_eq!(seen.latency.iter().sum::<u64>(), 2);
    assert!(seen.latency_nanos >= 160_000_000, "the look-up is part of it: {}", seen.latency_nanos);
    fixture.store.delay(Duration::ZERO);
    assert!(get("GET", "abc1234").starts_with("HTTP/1.1 302"));
    assert!(fixture.redirector.reads_links().await);
    fixture.store.fail(true);
    assert!(get("GET", "cold-one").starts_with("HTTP/1.1 503"));
    assert!(!fixture.redirector.reads_links().await);
    assert!(get("GET", "abc1234").starts_with("HTTP/1.1 302"));
    assert!(!fixture.redirector.reads_links().await, "that was from memory");
    fixture.store.fail(false);
    assert!(fixture.redirector.reads_links().await, "without another visitor");
    assert!(get("GET", "cold-one").starts_with("HTTP/1.1 404"));
    assert!(fixture.redirector.reads_links().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_a_browser_is_in_its_language_on_both_paths() {
    let fixture = Fixture::new(|_| ());
    let served = fixture.serve();
    for (accepted, tag) in [
        ("", "en"),
        ("Accept-Language: de-CH,en;q=0.9\r\n", "de"),
        ("Accept-Language: en;q=0.2,pt-BR;q=0.9,nl\r\n", "pt"),
        ("Accept-Language: zh-CN\r\n", "zh-Hans"),
    ] {
        for (method, body) in [("GET", true), ("HEAD", false)] {
            let answer = served.exchange(
                format!(
                    "{method} /none123 HTTP/1.1\r\nHost: go.example\r\nAccept: text/html\r\n\
                     {accepted}\r\n"
                )
                .as_bytes(),
            );
            assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
            assert!(answer.contains(&format!("\r\ncontent-language: {tag}\r\n")), "{answer}");
            assert!(answer.contains("\r\nvary: accept, accept-language\r\n"), "{answer}");
            assert_eq!(answer.contains(&format!("<p lang={tag}>")), body, "{answer}");
        }
    }
    let program = served
        .exchange(b"GET /none123 HTTP/1.1\r\nHost: go.example\r\nAccept-Language: de\r\n\r\n");
    assert!(program.contains("There is no such link.") && !program.contains("content-language"));
}

#[tokio::test]
async fn a_missing_link_is_cached_as_missing_until_it_is_created() {
    let fixture = Fixture::new(|_| ());
    for _ in 0..10 {
        assert_eq!(fixture.visit("my-link").await.0, 404);
    }
    assert_eq!(fixture.store.gets(), 1);
    fixture.insert(alias("my-link", TARGET)).await;
    fixture.redirector.forget(&key("my-link"));
    assert_eq!(fixture.visit("my-link").await.0, 302);
    // And without an announcement, as on another node of a fleet, after the negative time-to-live.
    assert_eq!(fixture.visit("other-one").await.0, 404);
    fixture.insert(alias("other-one", TARGET)).await;
    fixture.clock.advance(Duration::from_secs(31));
    assert_eq!(fixture.visit("other-one").await.0, 302);
}

#[tokio::test]
async fn only_certain_absence_is_answered_without_a_read() {
    let never_issued = "zzzzzzz";
    let fixture = Fixture::new(|_| ());
    assert_eq!(fixture.visit(never_issued).await.0, 404);
    assert_eq!(fixture.store.gets(), 0, "the store was certain");
    let fixture = Fixture::new(|_| ());
    fixture.store.be_unsure();
    assert_eq!(fixture.visit(never_issued).await.0, 404);
    assert_eq!(fixture.store.gets(), 1, "another node may have made it");
}

/// Answers codes that were probably never issued only once `gate` is open, as a store does that is
/// flooded with them.
struct GatedReader {
    store: Arc<MemoryStore>,
    gate: watch::Receiver<bool>,
}

#[async_trait]
impl LinkReader for GatedReader {
    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        if self.surely_absent(&key.domain, key.code.as_str()) == AbsenceCertainty::Likely {
            self.gate.clone().wait_for(|open| *open).await.expect("the gate exists");
        }
        self.store.get(key).await
    }

    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.store.get_folded(key).await
    }

    fn surely_absent(&self, domain: &Domain, code: &str) -> AbsenceCertainty {
        self.store.surely_absent(domain, code)
    }
}

/// Codes that no lease covers.
fn unissued(count: u64) -> Vec<String> {
    let numbering = Numbering::new(MemoryStore::new().identity());
    (0..count).map(|n| numbering.code(7, 5_000_000 + n).to_string()).collect()
}

#[tokio::test]
async fn a_flood_of_unknown_codes_does_not_hold_ordinary_misses_up() {
    let (open, gate) = watch::channel(false);
    let fixture = Arc::new(Fixture::reading_through(
        |store| Arc::new(GatedReader { store, gate }),
        |settings| {
            settings.store_timeout = Duration::from_mins(5);
            settings.store_concurrency = 4;
        },
    ));
    fixture.store.be_unsure();
    let visit = |code: String| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { fixture.visit(&code).await })
    };
    // More than one batch and all places in the queue.
    let mut flood: Vec<_> = unissued(1_000).into_iter().map(visit).collect();
    let mut refused = 0;
    for _ in 0..100_000 {
        tokio::task::yield_now().await;
        for visit in flood.extract_if(.., |visit| visit.is_finished()).collect::<Vec<_>>() {
            assert_eq!(visit.await.unwrap().0, 503, "never 404");
            refused += 1;
        }
    }
    assert!((1_000 - 32 - 256..=1_000 - 256).contains(&refused), "{refused} were refused");
    // Ordinary misses are answered meanwhile, and the store does not count as away.
    fixture.insert(alias("my-link", TARGET)).await;
    assert_eq!(fixture.visit("my-link").await, (302, Some(TARGET.into())));
    assert_eq!(fixture.visit("no-link").await.0, 404);
    assert!(fixture.redirector.reads_links().await);
    open.send(true).unwrap();
    for visit in flood {
        assert_eq!(visit.await.unwrap().0, 404);
    }
}

#[tokio::test]
async fn a_link_of_another_node_is_found_though_its_code_looks_unissued() {
    let fixture = Fixture::new(|_| ());
    fixture.store.be_unsure();
    let [code] = &unissued(1)[..] else { panic!("one code") };
    fixture.insert(Link { generated: true, ..alias(code, TARGET) }).await;
    assert_eq!(fixture.visit(code).await, (302, Some(TARGET.into())));
    assert_eq!(fixture.visit(code).await.0, 302);
    assert_eq!(fixture.store.gets(), 1, "it is cached");
}

#[tokio::test]
async fn everything_can_be_forgotten_at_once() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(alias("abc1234", TARGET)).await;
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    assert_eq!(fixture.visit("my-link").await.0, 404);
    fixture.insert(alias("my-link", TARGET)).await;
    fixture.redirector.forget_all();
    assert!(fixture.redirector.routes().is_empty());
    assert_eq!(fixture.visit("my-link").await.0, 302);
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    assert_eq!(fixture.store.gets(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_visitors_of_one_cold_link_cost_one_read() {
    let fixture = Arc::new(Fixture::new(|_| ()));
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.store.delay(Duration::from_millis(50));
    let visits = (0..200).map(|_| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { fixture.visit("abc1234").await.0 })
    });
    for visit in visits.collect::<Vec<_>>() {
        assert_eq!(visit.await.unwrap(), 302);
    }
    assert_eq!(fixture.store.gets(), 1);
}

#[tokio::test]
async fn when_the_visitor_of_a_lookup_disconnects_another_continues_it() {
    let fixture = Arc::new(Fixture::new(|_| ()));
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.store.delay(Duration::from_millis(50));
    let spawn = || {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { fixture.visit("abc1234").await.0 })
    };
    let first = spawn();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let second = spawn();
    tokio::time::sleep(Duration::from_millis(10)).await;
    first.abort();
    assert_eq!(second.await.unwrap(), 302);
}

#[tokio::test]
async fn a_change_during_a_look_up_is_not_overwritten_by_its_result() {
    let fixture = Arc::new(Fixture::new(|_| ()));
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.store.delay(Duration::from_millis(50));
    let visit = {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { fixture.visit("abc1234").await })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    fixture.store.delay(Duration::ZERO);
    let mut changed = alias("abc1234", "https://example.com/new");
    changed.revision = Revision(2);
    fixture.store.update(&changed, Revision(1), &[]).await.unwrap();
    fixture.redirector.forget(&key("abc1234"));
    assert_eq!(visit.await.unwrap().1.as_deref(), Some("https://example.com/new"));
    assert_eq!(fixture.visit("abc1234").await.1.as_deref(), Some("https://example.com/new"));
}

#[tokio::test]
async fn while_the_store_is_away_cached_links_are_served_and_others_are_503() {
    let fixture = Fixture::new(|_| ());
    let mut expiring = alias("expiring", TARGET);
    expiring.expires_at = fixture.clock.now().checked_add(Duration::from_hours(1));
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.insert(alias("unseen1", TARGET)).await;
    fixture.insert(expiring).await;
    fixture.visit("abc1234").await;
    fixture.visit("expiring").await;
    fixture.store.fail(true);
    fixture.clock.advance(Duration::from_mins(30));
    assert_eq!(fixture.visit("abc1234").await, (302, Some(TARGET.into())));
    assert_eq!(fixture.visit("expiring").await.0, 302);
    assert_eq!(fixture.visit("unseen1").await.0, 503);
    // A stale link is not served past its expiry, and no link longer than `max_stale` past its
    // time to live: it may have been blocked meanwhile.
    fixture.clock.advance(Duration::from_mins(31));
    assert_eq!(fixture.visit("expiring").await.0, 503);
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    fixture.clock.advance(Duration::from_mins(5));
    assert_eq!(fixture.visit("abc1234").await.0, 503);
    fixture.store.fail(false);
    assert_eq!(fixture.visit("expiring").await.0, 410);
    assert_eq!(fixture.visit("unseen1").await.0, 302);
}

/// A cache between memory and the store answers with an old copy while the store is away.
#[tokio::test]
async fn an_old_copy_is_served_for_the_rest_of_its_time_only() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.store.set_age(Duration::from_mins(50));
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    // Its time to live is over: one visitor a second asks again.
    let reads = fixture.store.gets();
    for _ in 0..20 {
        assert_eq!(fixture.visit("abc1234").await.0, 302);
    }
    assert!(fixture.store.gets() <= reads + 2, "{} reads", fixture.store.gets() - reads);
    fixture.store.fail(true);
    // Five minutes to live and an hour of `max_stale`, of which fifty minutes were over.
    fixture.clock.advance(Duration::from_mins(14));
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    fixture.clock.advance(Duration::from_mins(2));
    assert_eq!(fixture.visit("abc1234").await.0, 503);
}

#[tokio::test]
async fn a_visitor_waits_for_a_slow_store_until_the_timeout() {
    let fixture = Fixture::new(|settings| settings.store_timeout = Duration::from_millis(50));
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.store.delay(Duration::from_secs(60));
    assert_eq!(fixture.visit("abc1234").await.0, 503);
}

#[tokio::test]
async fn while_the_store_hangs_only_one_visitor_a_second_waits_for_it() {
    let fixture = Fixture::new(|settings| settings.store_timeout = Duration::from_millis(200));
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.visit("abc1234").await;
    fixture.clock.advance(Duration::from_mins(6));
    fixture.store.delay(Duration::from_secs(60));
    // The first visitor waits for the timeout and is served from memory; the others do not wait.
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    let reads = fixture.store.gets();
    for _ in 0..100 {
        assert_eq!(fixture.visit("abc1234").await.0, 302);
    }
    assert!(
        fixture.store.gets() <= reads + 2,
        "{} reads while the store hung",
        fixture.store.gets() - reads
    );
}

/// An earlier node of a fleet that is being upgraded can read all links but this one.
#[tokio::test]
async fn a_row_of_a_later_version_is_503_and_does_not_count_as_damage() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(alias("later-1", TARGET)).await;
    fixture.insert(alias("my-link", TARGET)).await;
    fixture.store.write_later_version(key("later-1"));
    assert_eq!(fixture.visit("later-1").await, (503, None));
    assert!(fixture.redirector.reads_links().await, "the node stays ready");
    assert_eq!(fixture.visit("my-link").await.0, 302);
}

#[tokio::test]
async fn a_corrupt_row_is_503_for_its_link_and_other_links_are_still_read_from_the_store() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(alias("damaged1", TARGET)).await;
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.insert(alias("unseen1", TARGET)).await;
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    fixture.clock.advance(Duration::from_mins(6));
    fixture.store.corrupt(key("damaged1"));
    assert_eq!(fixture.visit("damaged1").await, (503, None));
    // The cached link is past its time to live. A redirector that took the store for away would
    // serve it from memory.
    let reads = fixture.store.gets();
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    assert_eq!(fixture.store.gets(), reads + 1, "the store is read again after a corrupt row");
    assert_eq!(fixture.visit("unseen1").await.0, 302);
    assert_eq!(fixture.store.gets(), reads + 2);
    assert_eq!(fixture.visit("damaged1").await.0, 503);
    // A corrupt row is an answer: it ends the time for which the store counts as away.
    fixture.store.fail(true);
    fixture.clock.advance(Duration::from_mins(6));
    assert_eq!(fixture.visit("abc1234").await.0, 302, "from memory");
    fixture.store.fail(false);
    assert_eq!(fixture.visit("damaged1").await.0, 503);
    let reads = fixture.store.gets();
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    assert_eq!(fixture.store.gets(), reads + 1);
}

#[tokio::test]
async fn a_link_in_use_is_refreshed_before_it_expires_from_the_cache() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture.visit("abc1234").await;
    let mut changed = alias("abc1234", "https://example.com/new");
    changed.revision = Revision(2);
    fixture.store.update(&changed, Revision(1), &[]).await.unwrap();
    // One second before the end of its five minutes: answered from memory and refreshed in the
    // background.
    fixture.clock.advance(Duration::from_secs(299));
    fixture.visit("abc1234").await;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if fixture.store.gets() == 2 {
            break;
        }
    }
    assert_eq!(fixture.visit("abc1234").await.1.as_deref(), Some("https://example.com/new"));
    assert_eq!(fixture.store.gets(), 2);
}

#[tokio::test]
async fn a_cached_link_changes_exactly_at_its_dates() {
    let fixture = Fixture::new(|_| ());
    let now = fixture.clock.now();
    let mut link = alias("window1", TARGET);
    link.valid_from = now.checked_add(Duration::from_secs(10));
    link.expires_at = now.checked_add(Duration::from_secs(20));
    fixture.insert(link).await;
    assert_eq!(fixture.visit("window1").await.0, 404);
    fixture.clock.advance(Duration::from_secs(10));
    assert_eq!(fixture.visit("window1").await.0, 302);
    fixture.clock.advance(Duration::from_secs(10));
    assert_eq!(fixture.visit("window1").await.0, 410);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_good_for_three_clicks_redirects_three_times() {
    let fixture = Arc::new(Fixture::new(|_| ()));
    let mut link = alias("limited1", TARGET);
    link.max_clicks = Some(3);
    fixture.insert(link).await;
    let head = Visitor { method: VisitMethod::Head, ..visitor("limited1") };
    assert_eq!(fixture.visit_as(head).await.0, 302);
    let visits = (0..50).map(|_| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { fixture.visit("limited1").await.0 })
    });
    let mut redirected = 0;
    for visit in visits.collect::<Vec<_>>() {
        match visit.await.unwrap() {
            302 => redirected += 1,
            other => assert_eq!(other, 410),
        }
    }
    assert_eq!(redirected, 3);
    assert_eq!(fixture.visit_as(head).await.0, 410);
}

#[tokio::test]
async fn head_of_a_used_up_link_is_gone_although_its_route_is_cached() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(terse_core::Link { max_clicks: Some(1), ..alias("limited1", TARGET) }).await;
    let head = Visitor { method: VisitMethod::Head, ..visitor("limited1") };
    assert_eq!(fixture.visit_as(head).await.0, 302);
    assert_eq!(fixture.visit("limited1").await.0, 302);
    assert_eq!(fixture.visit_as(head).await.0, 410);
    assert_eq!(fixture.visit("limited1").await.0, 410);
}

#[tokio::test]
async fn the_moderation_status_decides_and_a_query_is_forwarded_only_where_set() {
    let fixture = Fixture::new(|_| ());
    for (code, moderation) in
        [("blocked1", ModerationStatus::Blocked), ("flagged1", ModerationStatus::Suspicious)]
    {
        fixture.insert(terse_core::Link { moderation, ..alias(code, TARGET) }).await;
    }
    fixture.insert(terse_core::Link { forward_query: true, ..alias("forward1", TARGET) }).await;
    fixture.insert(alias("ordinary", TARGET)).await;
    assert_eq!(fixture.visit("blocked1").await, (451, None));
    assert_eq!(fixture.visit("flagged1").await, (200, None));
    let with = |code| Visitor { query: Some("x=1"), ..visitor(code) };
    assert_eq!(fixture.visit_as(with("ordinary")).await.1.as_deref(), Some(TARGET));
    assert_eq!(
        fixture.visit_as(with("forward1")).await.1.as_deref(),
        Some("https://example.com/a?b=c&x=1#d")
    );
}

#[tokio::test]
async fn in_page_mode_a_failure_is_a_redirect_to_its_page() {
    let fixture = Fixture::new(|settings| settings.errors = ErrorStyle::Page);
    assert_eq!(fixture.visit("nothing1").await, (302, Some("/r/nothing1?error=not_found".into())));
    fixture.store.fail(true);
    assert_eq!(fixture.visit("nothing-2").await, (503, None));
}

#[tokio::test]
async fn in_loose_mode_an_alias_is_found_whatever_its_case() {
    let fixture = Fixture::new(|settings| settings.loose = true);
    fixture.insert(alias("My-Link", TARGET)).await;
    assert_eq!(fixture.visit("my-LINK").await.0, 302);
    assert_eq!(Fixture::new(|_| ()).visit("my-LINK").await.0, 404);
    // A change is announced under the link's own code and takes effect for every spelling.
    let blocked = terse_core::Link {
        moderation: ModerationStatus::Blocked,
        revision: Revision(2),
        ..alias("My-Link", TARGET)
    };
    fixture.store.update(&blocked, Revision(1), &[]).await.unwrap();
    fixture.redirector.forget(&key("My-Link"));
    assert_eq!(fixture.visit("my-LINK").await.0, 451);
    fixture.insert(terse_core::Link { max_clicks: Some(1), ..alias("Limited", TARGET) }).await;
    assert_eq!(fixture.visit("limited").await.0, 302);
    assert_eq!(fixture.visit("LIMITED").await.0, 410);
}

#[tokio::test]
async fn the_password_form_is_shown_unless_the_visitor_has_given_the_password() {
    let fixture = Fixture::new(|_| ());
    let (right, wrong) =
        (PasswordHash::from_phc("$argon2id$right"), PasswordHash::from_phc("$argon2id$wrong"));
    let locked = |code| terse_core::Link {
        password: Some(right.clone()),
        forward_query: true,
        redirect: terse_core::RedirectKind::Permanent,
        ..alias(code, TARGET)
    };
    fixture.insert(locked("locked12")).await;
    fixture.insert(terse_core::Link { max_clicks: Some(1), ..locked("once1234") }).await;
    fixture.insert(alias("ordinary", TARGET)).await;
    for code in ["locked12", "once1234"] {
        for password in [None, Some(&wrong)] {
            for method in [VisitMethod::Head, VisitMethod::Get] {
                assert_eq!(
                    fixture.visit_as(Visitor { password, method, ..visitor(code) }).await,
                    (200, None),
                    "{code}"
                );
            }
        }
    }
    let with_password = |code| Visitor { password: Some(&right), ..visitor(code) };
    let with_query = Visitor { query: Some("x=1"), ..with_password("locked12") };
    assert_eq!(
        fixture.visit_as(with_query).await,
        (308, Some("https://example.com/a?b=c&x=1#d".into()))
    );
    let Reply::Response(response) =
        fixture.redirector.answer_uncounted(with_password("locked12")).await
    else {
        panic!("a redirect")
    };
    assert_eq!(
        response.headers()["cache-control"],
        "private, max-age=0, no-store",
        "no cache may store it"
    );
    // HEAD spends no click, GET does.
    assert_eq!(
        fixture
            .visit_as(Visitor { method: VisitMethod::Head, ..with_password("once1234") })
            .await
            .0,
        308
    );
    assert_eq!(fixture.visit_as(with_password("once1234")).await.0, 308);
    assert_eq!(fixture.visit_as(with_password("once1234")).await.0, 410);
    assert_eq!(
        fixture.visit_as(with_password("ordinary")).await.0,
        302,
        "a password for a link without one changes nothing"
    );
    let mut counts = terse_redirect::RedirectCounts::default();
    fixture.redirector.add_counts(&mut counts);
    assert_eq!(counts.password_asked, 8);
}
