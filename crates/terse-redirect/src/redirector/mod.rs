//! The redirector answers visits: from memory at once, from the store on a miss, and from expired
//! cache entries while the store is away.

mod answer;
mod lookup;
mod visitor;

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};

use terse_core::registry::SuspendedOwners;
use terse_core::rules::VisitorClassifier;
use terse_core::{
    ClickSpender, Clock, Code, Hosts, LinkKey, LinkReader, LogLimit, NoScreening, RouteCache,
    Screening, VisitDecision,
};
use tokio::sync::Semaphore;

pub use lookup::LinkUnavailable;
pub(crate) use visitor::VisitResult;
pub use visitor::{Reply, VisitMethod, Visitor};

use crate::batch::LookupBatcher;
use crate::counts::{Counter as _, Counts, RedirectCounts, SLOW_NANOS, SharedCounter};
use crate::error_responses::{CurrentResponses, ErrorResponses, FailurePages};
use crate::fallbacks::Fallbacks;
use crate::host_table::HostTable;
use crate::limiter::RedirectLimiter;
use crate::now::ClockReading;
use crate::route::Route;
use crate::routes::Routes;
use crate::rule_evaluator::RuleEvaluator;
use crate::settings::RedirectSettings;
use crate::single_flight::SingleFlight;
use crate::unissued_lane::UnissuedLane;

/// Links that are read ahead in one call of the store.
const LOADED_AT_ONCE: usize = 32;

/// Links, by domain and code, that could not be read.
#[derive(Clone, Default)]
struct Unread {
    /// The link of the last lookup, if the store did not answer it.
    last: Option<(u16, Box<[u8]>)>,
    /// A link that the store answered for and could not read: its page or row is damaged.
    damaged: Option<(u16, Box<[u8]>)>,
}

/// The state of the redirect plane, shared by all serving threads.
pub struct Redirector {
    reader: Arc<dyn LinkReader>,
    spender: Arc<dyn ClickSpender>,
    pub(crate) screen: Arc<dyn Screening>,
    clock: Clock,
    pub(crate) suspended: SuspendedOwners,
    pub(crate) single_flight: SingleFlight,
    batch: LookupBatcher,
    /// Reads the codes that were probably never issued.
    unissued: UnissuedLane,
    /// Bounds the other lookups that wait for the store.
    store_permits: Semaphore,
    store_log: LogLimit,
    slow_log: LogLimit,
    pub(crate) accept_log: LogLimit,
    /// Until then, by the steady clock, the store counts as away.
    away_until_ms: AtomicI64,
    unread: Mutex<Unread>,
    /// Counts visits off the fast path.
    counts: Counts<SharedCounter>,
    rules: RuleEvaluator,
    pub(crate) routes: Routes,
    pub(crate) hosts: HostTable,
    pub(crate) error_responses: CurrentResponses,
    pub(crate) fallbacks: Fallbacks,
    pub(crate) limiter: RedirectLimiter,
    pub(crate) settings: RedirectSettings,
}

impl Redirector {
    /// `reader` answers misses and may be a cache; `spender` is the store itself. `port` is the one
    /// that most visitors have in their `Host` field.
    pub fn new(
        reader: Arc<dyn LinkReader>,
        spender: Arc<dyn ClickSpender>,
        hosts: Hosts,
        port: u16,
        pages: &FailurePages,
        settings: RedirectSettings,
        clock: Clock,
    ) -> Self {
        Self {
            clock,
            suspended: SuspendedOwners::default(),
            single_flight: SingleFlight::default(),
            batch: LookupBatcher::new(Arc::clone(&reader)),
            unissued: UnissuedLane::new(Arc::clone(&reader), settings.store_timeout),
            store_permits: Semaphore::new(settings.store_concurrency.max(1)),
            reader,
            spender,
            screen: Arc::new(NoScreening),
            store_log: LogLimit::default(),
            slow_log: LogLimit::default(),
            accept_log: LogLimit::default(),
            away_until_ms: AtomicI64::new(0),
            unread: Mutex::default(),
            counts: Counts::default(),
            rules: RuleEvaluator::default(),
            routes: Routes::new(settings.cache_bytes, settings.negative_entries),
            hosts: HostTable::new(hosts, port),
            error_responses: CurrentResponses::new(ErrorResponses::new(pages, &settings)),
            fallbacks: Fallbacks::default(),
            limiter: RedirectLimiter::new(
                settings.redirect_per_address,
                settings.redirect_per_code,
                settings.guesses_per_address,
            ),
            settings,
        }
    }

    /// Classifies visitors with `classifier` where the rules of a link need it.
    pub fn with_classifier(self, classifier: Arc<dyn VisitorClassifier>) -> Self {
        Self { rules: RuleEvaluator::new(classifier), ..self }
    }

    /// Blocks links with a target that the screen blocks, whatever the store says. The scan writes
    /// a block to the store later than a visitor may arrive.
    #[must_use]
    pub fn screened_by(self, screen: Arc<dyn Screening>) -> Self {
        Self { screen, ..self }
    }

    /// Checks all cached routes against the changed screen, drops those that it would decide
    /// otherwise, and returns their number. With a large cache this takes seconds: do not call it
    /// on a serving thread.
    pub fn rescreen(&self) -> usize {
        // This comes first: lookups that start from here on use the changed screen.
        self.single_flight.invalidate_all();
        self.fallbacks.rescreen(&*self.screen);
        let outdated =
            self.routes.all().into_iter().filter(|(_, route)| route.is_outdated_by(&*self.screen));
        outdated.map(|(name, _)| self.single_flight.invalidate(name, &self.routes)).count()
    }

    /// Replaces the pages of errors, as when the look of pages has changed.
    pub fn set_failure_pages(&self, pages: &FailurePages) {
        self.error_responses.replace(ErrorResponses::new(pages, &self.settings));
    }

    /// The number of the domain that a `Host` value names.
    pub fn domain(&self, host: &[u8]) -> Option<u16> {
        self.hosts.domain(host)
    }

    /// The time, on both clocks.
    pub(crate) fn now(&self) -> ClockReading {
        ClockReading::of(&self.clock)
    }

    /// The time of the steady clock.
    pub(crate) fn steady(&self) -> std::time::Duration {
        self.clock.steady()
    }

    /// The time of the steady clock, in nanoseconds.
    pub(crate) fn steady_nanos(&self) -> i64 {
        self.clock.steady_nanos()
    }

    /// The time of the steady clock, in microseconds.
    pub(crate) fn steady_micros(&self) -> i64 {
        self.clock.steady_micros()
    }

    /// How far the wall clock is ahead of the steady one, in microseconds.
    pub(crate) fn wall_offset_micros(&self) -> i64 {
        self.clock.now_micros() - self.clock.steady_micros()
    }

    /// Counts and logs an answer that took too long.
    pub(crate) fn note_if_slow(&self, arrived_nanos: i64, code: &str) {
        let took = self.steady_nanos() - arrived_nanos;
        if took > SLOW_NANOS {
            self.note_slow(took, Some(code));
        }
    }

    /// Counts an answer that took too long, and logs it unless some were logged in this minute.
    #[cold]
    pub(crate) fn note_slow(&self, took_nanos: i64, code: Option<&str>) {
        self.counts.slow.add(1);
        if let Some(suppressed) = self.slow_log.admit(self.clock.steady()) {
            let took_ms = took_nanos / 1_000_000;
            tracing::warn!(took_ms, link.code = code, suppressed, "a visitor waited {took_ms} ms");
        }
    }

    /// Whether links that are not in memory can be read. If a lookup failed, it looks the same
    /// link up again, so that the answer is true before the next visitor comes.
    pub async fn reads_links(&self) -> bool {
        let unread = || {
            let Unread { last, damaged } =
                self.unread.lock().unwrap_or_else(PoisonError::into_inner).clone();
            last.or(damaged)
        };
        // Once for the last lookup that failed, once for a damaged link.
        for _ in 0..2 {
            let Some((domain, code)) = unread() else { return true };
            let _ = self.fetch(self.routes.name(domain, &code), domain, &code, true).await;
        }
        unread().is_none()
    }

    /// The routes in memory.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Calls `visit` for each link that was visited within its time to live, one after the other:
    /// there may be millions of them.
    pub fn for_each_link_in_use(&self, visit: &mut dyn FnMut(LinkKey)) {
        let now = self.now();
        let key = |route: &Route| {
            let code = Code::parse(std::str::from_utf8(route.code()).ok()?)?;
            Some(LinkKey { domain: self.hosts.name(route.head().domain).clone(), code })
        };
        self.routes.for_each(|route| {
            let in_use = route.is_fresh(now) && route.head().decision != VisitDecision::NotFound;
            if let Some(key) = in_use.then(|| key(route)).flatten() {
                visit(key);
            }
        });
    }

    /// Reads links into memory before they are visited, a few at a time, until half of the memory
    /// for links is used. Returns how many were read.
    pub async fn load_ahead(&self, keys: &[LinkKey]) -> usize {
        let mut loaded = 0;
        for some in keys.chunks(LOADED_AT_ONCE) {
            if self.routes.bytes() > self.settings.cache_bytes / 2 {
                break;
            }
            let look_ups = some.iter().filter_map(|key| {
                let domain = self.hosts.number(&key.domain)?;
                let code = key.code.as_str().as_bytes();
                let name = self.routes.name(domain, code);
                Some(async move { self.fetch(name, domain, code, false).await })
            });
            let found = futures_util::future::join_all(look_ups).await;
            loaded += found.iter().flatten().count();
            if found.iter().any(Option::is_none) {
                // The store is busy or away: leave it to visitors.
                break;
            }
        }
        loaded
    }

    /// Adds the counters of visits off the fast path.
    pub fn add_counts(&self, to: &mut RedirectCounts) {
        to.add(&self.counts);
    }
}

impl RouteCache for Redirector {
    fn forget(&self, key: &LinkKey) {
        let Some(domain) = self.hosts.number(&key.domain) else { return };
        let code = key.code.as_str().as_bytes();
        self.single_flight.invalidate(self.routes.name(domain, code), &self.routes);
    }

    fn forget_all(&self) {
        // The order matters. Lookups that began before are not cached, and routes that were cached
        // before that are removed.
        self.single_flight.invalidate_all();
        self.routes.remove_where(|_| true);
    }
}
