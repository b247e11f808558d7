//! What the screen blocks is followed by nobody, whatever the store says.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use terse_core::registry::DomainConfig;
use terse_core::{
    Clock, Domain, Evidence, Flags, Hosts, Insert, Judgement, Link, LinkStore, ModerationSource,
    ModerationStatus, Screening, Target,
};
use terse_redirect::{FailurePages, Redirector, Reply, Settings, Visitor};
use terse_testkit::{MemoryStore, alias};

use crate::fixture::visitor;

/// Blocks every target that contains a word.
#[derive(Default)]
struct Word {
    word: Mutex<&'static str>,
    asked: AtomicUsize,
    /// Whom it tells, while it is asked, that it has learned something.
    tells: OnceLock<Arc<Redirector>>,
    told: AtomicBool,
}

impl Word {
    fn learn(&self, word: &'static str) {
        *self.word.lock().expect("nobody panics") = word;
    }
}

impl Screening for Word {
    fn judge(&self, target: &Target, _evidence: Evidence<'_>) -> Judgement {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let word = *self.word.lock().expect("nobody panics");
        if let Some(redirector) =
            self.tells.get().filter(|_| !self.told.swap(true, Ordering::SeqCst))
        {
            self.learn("bad");
            redirector.rescreen();
        }
        match !word.is_empty() && target.as_str().contains(word) {
            true => Judgement::Blocked { source: "test".into() },
            false => Judgement::Clear(Flags::default()),
        }
    }
}

struct Plane {
    store: Arc<MemoryStore>,
    screen: Arc<Word>,
    redirector: Arc<Redirector>,
}

impl Plane {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let (store, screen) = (Arc::new(MemoryStore::new()), Arc::new(Word::default()));
        let mut settings = Settings::default();
        change(&mut settings);
        let hosts =
            Hosts::new(&"http://go.example/".parse().expect("a URL"), &[], vec![]).expect("hosts");
        let redirector = Redirector::new(
            store.clone(),
            store.clone(),
            hosts,
            80,
            &FailurePages::default(),
            settings,
            Clock::default(),
        );
        let redirector = Arc::new(redirector.screened_by(screen.clone()));
        Self { store, screen, redirector }
    }

    async fn insert(&self, link: Link) {
        self.store.insert(Insert::new(link, None)).await.expect("an insert into memory");
    }

    async fn status(&self, code: &str) -> u16 {
        self.status_of(visitor(code)).await
    }

    async fn status_of(&self, visitor: Visitor<'_>) -> u16 {
        match self.redirector.answer_uncounted(visitor).await {
            Reply::Response(response) => response.status().as_u16(),
            Reply::Warning(_) | Reply::Password(_) => 200,
        }
    }
}

/// A link of every kind that leads somewhere.
fn kinds() -> Vec<Link> {
    let target = "https://bad.example.net/x";
    let mut links = vec![alias("plain", target)];
    links.push(Link { forward_query: true, ..alias("forward", target) });
    links.push(Link { max_clicks: Some(100), ..alias("counted", target) });
    links.push(Link { standing: ModerationStatus::Suspicious, ..alias("warned", target) });
    links
}

#[tokio::test]
async fn a_blocked_target_is_not_followed_whether_its_link_is_remembered_or_not() {
    let plane = Plane::new(|_| ());
    for link in kinds() {
        plane.insert(link).await;
    }
    let unseen = Link { max_clicks: Some(100), ..alias("unseen", "https://bad.example.net/y") };
    plane.insert(unseen).await;
    plane
        .insert(Link {
            judged: ModerationSource::Moderator,
            ..alias("byhand", "https://bad.example.net/")
        })
        .await;
    plane.insert(alias("other", "https://good.example.net/")).await;
    for code in ["plain", "forward", "counted", "warned", "byhand", "other"] {
        assert_ne!(plane.status(code).await, 451, "{code}");
    }
    plane.screen.learn("bad.example.net");
    assert_eq!(plane.redirector.rescreen(), 4);
    for code in ["plain", "forward", "counted", "warned", "unseen"] {
        // Read and judged, then from memory; and HEAD, which spends nothing, is no way around.
        for _ in 0..2 {
            assert_eq!(plane.status(code).await, 451, "{code}");
        }
        assert_eq!(plane.status_of(Visitor { head: true, ..visitor(code) }).await, 451, "{code}");
    }
    assert_eq!((plane.status("byhand").await, plane.status("other").await), (302, 302));

    // The store never knew, so nobody else would bring them back.
    plane.screen.learn("");
    assert_eq!(plane.redirector.rescreen(), 5);
    assert_eq!(
        (plane.status("plain").await, plane.status("warned").await, plane.status("unseen").await),
        (302, 200, 302)
    );
}

#[tokio::test]
async fn a_head_of_a_counted_link_is_judged_by_what_is_known_now() {
    let plane = Plane::new(|_| ());
    plane
        .insert(Link { max_clicks: Some(5), ..alias("counted", "https://bad.example.net/") })
        .await;
    assert_eq!(plane.status("counted").await, 302);
    plane.screen.learn("bad");
    assert_eq!(plane.status_of(Visitor { head: true, ..visitor("counted") }).await, 451);
}

#[tokio::test]
async fn another_spelling_is_judged_too() {
    let plane = Plane::new(|settings| settings.loose = true);
    plane.insert(alias("Spelled", "https://bad.example.net/")).await;
    assert_eq!(plane.status("sPELLED").await, 302);
    plane.screen.learn("bad");
    plane.redirector.rescreen();
    assert_eq!((plane.status("sPELLED").await, plane.status("Spelled").await), (451, 451));
}

#[tokio::test]
async fn what_was_judged_before_the_screen_learned_is_not_remembered_afterwards() {
    let plane = Plane::new(|_| ());
    plane.insert(alias("plain", "https://bad.example.net/")).await;
    let _ = plane.screen.tells.set(Arc::clone(&plane.redirector));
    // In the middle of the look-up, after the screen was asked and before the answer is remembered.
    assert_eq!(plane.status("plain").await, 451);
    assert_eq!(plane.screen.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_hit_asks_nobody() {
    let plane = Plane::new(|_| ());
    plane.insert(alias("plain", "https://good.example.net/")).await;
    for _ in 0..100 {
        assert_eq!(plane.status("plain").await, 302);
    }
    assert_eq!(plane.screen.asked.load(Ordering::Relaxed), 1);
}

/// `cargo test --release -p terse-redirect --test it -- --ignored --nocapture a_million_remembered`
#[tokio::test]
#[ignore = "takes a while"]
async fn a_million_remembered_links_are_looked_at_again() {
    let plane = Plane::new(|settings| settings.cache_bytes = 2 << 30);
    for n in 0..1_000_000 {
        let code = format!("link-{n}");
        plane
            .insert(alias(
                &code,
                &format!("https://site-{}.example.org/some/path/{n}?a=1", n % 5000),
            ))
            .await;
        plane.status(&code).await;
    }
    plane.screen.learn("site-77.");
    let begun = Instant::now();
    let recalled = plane.redirector.rescreen();
    println!(
        "{} remembered, {recalled} forgotten in {:?}",
        plane.redirector.routes().len() + recalled,
        begun.elapsed()
    );
    assert_eq!(recalled, 200);
}

#[tokio::test]
async fn nobody_is_sent_to_a_fallback_that_the_screen_blocks_now() {
    let plane = Plane::new(|_| ());
    let to = |path: &str| Some(Target::from_stored(format!("https://{path}.example/")));
    let place = DomainConfig {
        domain: Domain::primary(),
        root: to("bad"),
        not_found: to("bad"),
        expired: to("good"),
    };
    let open =
        || [plane.redirector.root(0).is_some(), plane.redirector.domain(b"go.example").is_some()];
    let lost = async || match plane.redirector.answer_uncounted(visitor("none")).await {
        Reply::Response(response) => response.status().as_u16(),
        other => panic!("{other:?}"),
    };
    plane.redirector.set_domains(std::slice::from_ref(&place));
    assert_eq!((open(), lost().await), ([true, true], 302));
    plane.screen.learn("bad");
    plane.redirector.rescreen();
    assert_eq!((open(), lost().await), ([false, true], 404));
    // Told again, for whatever reason, it is no other place.
    plane.redirector.set_domains(std::slice::from_ref(&place));
    assert_eq!((open(), lost().await), ([false, true], 404));
    plane.screen.learn("");
    plane.redirector.rescreen();
    assert_eq!((open(), lost().await), ([true, true], 302));
}
