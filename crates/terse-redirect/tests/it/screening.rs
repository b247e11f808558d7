//! A target that the screen blocks is not redirected to, whatever the store says.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use terse_core::registry::DomainConfig;
use terse_core::{
    Clock, Domain, Hosts, Insert, Link, LinkFlags, LinkStore, ModerationSource, ModerationStatus,
    ScreenInput, ScreenResult, Screening, Target,
};
use terse_redirect::{FailurePages, RedirectSettings, Redirector, Reply, VisitMethod, Visitor};
use terse_testkit::{MemoryStore, alias};

use crate::fixture::visitor;

/// Blocks every target that contains a word.
#[derive(Default)]
struct WordScreen {
    word: Mutex<&'static str>,
    calls: AtomicUsize,
    /// Is scanned again during the first call, as if the screen changed meanwhile.
    rescreens: OnceLock<Arc<Redirector>>,
    rescreened: AtomicBool,
}

impl WordScreen {
    fn block(&self, word: &'static str) {
        *self.word.lock().expect("no test thread panics") = word;
    }
}

impl Screening for WordScreen {
    fn screen(&self, target: &Target, _input: ScreenInput<'_>) -> ScreenResult {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let word = *self.word.lock().expect("no test thread panics");
        if let Some(redirector) =
            self.rescreens.get().filter(|_| !self.rescreened.swap(true, Ordering::SeqCst))
        {
            self.block("bad");
            redirector.rescreen();
        }
        match !word.is_empty() && target.as_str().contains(word) {
            true => ScreenResult::Blocked { source: "test".into() },
            false => ScreenResult::Clear(LinkFlags::default()),
        }
    }
}

struct Plane {
    store: Arc<MemoryStore>,
    screen: Arc<WordScreen>,
    redirector: Arc<Redirector>,
}

impl Plane {
    fn new(change: impl FnOnce(&mut RedirectSettings)) -> Self {
        let (store, screen) = (Arc::new(MemoryStore::new()), Arc::new(WordScreen::default()));
        let mut settings = RedirectSettings::default();
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
            Reply::Page(..) => 200,
            Reply::WrongMethod => 405,
        }
    }
}

/// A link of each kind that redirects.
fn kinds() -> Vec<Link> {
    let target = "https://bad.example.net/x";
    let mut links = vec![alias("plain", target)];
    links.push(Link { forward_query: true, ..alias("forward", target) });
    links.push(Link { max_clicks: Some(100), ..alias("counted", target) });
    links.push(Link { moderation: ModerationStatus::Suspicious, ..alias("warned", target) });
    links
}

#[tokio::test]
async fn a_blocked_target_is_not_followed_whether_its_link_is_cached_or_not() {
    let plane = Plane::new(|_| ());
    for link in kinds() {
        plane.insert(link).await;
    }
    let unseen = Link { max_clicks: Some(100), ..alias("unseen", "https://bad.example.net/y") };
    plane.insert(unseen).await;
    plane
        .insert(Link {
            moderated_by: ModerationSource::Moderator,
            ..alias("byhand", "https://bad.example.net/")
        })
        .await;
    plane.insert(alias("other", "https://good.example.net/")).await;
    for code in ["plain", "forward", "counted", "warned", "byhand", "other"] {
        assert_ne!(plane.status(code).await, 451, "{code}");
    }
    plane.screen.block("bad.example.net");
    assert_eq!(plane.redirector.rescreen(), 4);
    for code in ["plain", "forward", "counted", "warned", "unseen"] {
        // From the store and then from memory; HEAD, which spends no click, is blocked too.
        for _ in 0..2 {
            assert_eq!(plane.status(code).await, 451, "{code}");
        }
        assert_eq!(
            plane.status_of(Visitor { method: VisitMethod::Head, ..visitor(code) }).await,
            451,
            "{code}"
        );
    }
    assert_eq!((plane.status("byhand").await, plane.status("other").await), (302, 302));

    // The store never knew of the block, so only the scan of the cache can undo it.
    plane.screen.block("");
    assert_eq!(plane.redirector.rescreen(), 5);
    assert_eq!(
        (plane.status("plain").await, plane.status("warned").await, plane.status("unseen").await),
        (302, 200, 302)
    );
}

#[tokio::test]
async fn head_of_a_link_with_limited_clicks_is_screened() {
    let plane = Plane::new(|_| ());
    plane
        .insert(Link { max_clicks: Some(5), ..alias("counted", "https://bad.example.net/") })
        .await;
    assert_eq!(plane.status("counted").await, 302);
    plane.screen.block("bad");
    assert_eq!(
        plane.status_of(Visitor { method: VisitMethod::Head, ..visitor("counted") }).await,
        451
    );
}

#[tokio::test]
async fn another_spelling_is_screened_too() {
    let plane = Plane::new(|settings| settings.loose = true);
    plane.insert(alias("Spelled", "https://bad.example.net/")).await;
    assert_eq!(plane.status("sPELLED").await, 302);
    plane.screen.block("bad");
    plane.redirector.rescreen();
    assert_eq!((plane.status("sPELLED").await, plane.status("Spelled").await), (451, 451));
}

#[tokio::test]
async fn a_look_up_that_was_screened_before_a_change_is_not_cached() {
    let plane = Plane::new(|_| ());
    plane.insert(alias("plain", "https://bad.example.net/")).await;
    let _ = plane.screen.rescreens.set(Arc::clone(&plane.redirector));
    // During the lookup, after the screen decided and before the route is cached.
    assert_eq!(plane.status("plain").await, 451);
    assert_eq!(plane.screen.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_cache_hit_does_not_call_the_screen() {
    let plane = Plane::new(|_| ());
    plane.insert(alias("plain", "https://good.example.net/")).await;
    for _ in 0..100 {
        assert_eq!(plane.status("plain").await, 302);
    }
    assert_eq!(plane.screen.calls.load(Ordering::Relaxed), 1);
}

/// `cargo test --release -p terse-redirect --test it -- --ignored --nocapture a_million_cached`
#[tokio::test]
#[ignore = "takes a while"]
async fn a_million_cached_links_are_rescreened() {
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
    plane.screen.block("site-77.");
    let begun = Instant::now();
    let dropped = plane.redirector.rescreen();
    println!(
        "{} cached, {dropped} dropped in {:?}",
        plane.redirector.routes().len() + dropped,
        begun.elapsed()
    );
    assert_eq!(dropped, 200);
}

#[tokio::test]
async fn a_fallback_that_the_screen_blocks_is_not_used() {
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
    plane.screen.block("bad");
    plane.redirector.rescreen();
    assert_eq!((open(), lost().await), ([false, true], 404));
    // The same configuration again does not unblock it.
    plane.redirector.set_domains(std::slice::from_ref(&place));
    assert_eq!((open(), lost().await), ([false, true], 404));
    plane.screen.block("");
    plane.redirector.rescreen();
    assert_eq!((open(), lost().await), ([true, true], 302));
}
