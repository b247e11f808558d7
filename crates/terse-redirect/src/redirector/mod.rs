//! The redirector: answers visits from memory at once, from the store on a miss, and from an old
//! memory while the store is away.

mod answer;
mod lookup;
mod visitor;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use terse_core::registry::Suspended;
use terse_core::rules::VisitorClassifier;
use terse_core::{
    ClickSpender, Clock, Hosts, LinkKey, LinkReader, NoScreening, RouteCache, Screening,
};
use tokio::sync::Semaphore;

pub(crate) use lookup::Resolved;
pub(crate) use visitor::{Answer, VisitFate};
pub use visitor::{Reply, Visitor};

use crate::batch::LookupBatcher;
use crate::chooser::Chooser;
use crate::counts::Snapshot;
use crate::error_responses::{ErrorResponses, FailurePages};
use crate::fallbacks::Fallbacks;
use crate::host_table::HostTable;
use crate::limiter::RedirectLimiter;
use crate::routes::Routes;
use crate::settings::Settings;
use crate::single_flight::SingleFlight;

/// The redirect plane's mind, shared by all serving threads.
pub struct Redirector {
    reader: Arc<dyn LinkReader>,
    spender: Arc<dyn ClickSpender>,
    pub(crate) screen: Arc<dyn Screening>,
    clock: Clock,
    pub(crate) suspended: Suspended,
    pub(crate) single_flight: SingleFlight,
    batch: LookupBatcher,
    gate: Semaphore,
    last_complaint_ms: AtomicI64,
    away_until_ms: AtomicI64,
    slow: SlowCounts,
    chooser: Chooser,
    pub(crate) routes: Routes,
    pub(crate) hosts: HostTable,
    pub(crate) error_responses: ErrorResponses,
    pub(crate) fallbacks: Fallbacks,
    pub(crate) limiter: RedirectLimiter,
    pub(crate) settings: Settings,
}

/// What is counted off the fast path, by all threads.
#[derive(Debug, Default)]
pub(crate) struct SlowCounts {
    redirected: AtomicU64,
    not_found: AtomicU64,
    never_issued: AtomicU64,
    gone: AtomicU64,
    blocked: AtomicU64,
    limited: AtomicU64,
    warned: AtomicU64,
    asked: AtomicU64,
    unavailable: AtomicU64,
    stale: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    refreshes: AtomicU64,
}

impl Redirector {
    /// `reader` answers misses and may be a cache; `spender` is the store itself. `port` is the one
    /// visitors will most likely send in `Host`.
    pub fn new(
        reader: Arc<dyn LinkReader>,
        spender: Arc<dyn ClickSpender>,
        hosts: Hosts,
        port: u16,
        pages: &FailurePages,
        settings: Settings,
        clock: Clock,
    ) -> Self {
        Self {
            clock,
            suspended: Suspended::default(),
            single_flight: SingleFlight::default(),
            batch: LookupBatcher::new(Arc::clone(&reader)),
            gate: Semaphore::new(settings.store_concurrency.max(1)),
            reader,
            spender,
            screen: Arc::new(NoScreening),
            last_complaint_ms: AtomicI64::new(0),
            away_until_ms: AtomicI64::new(0),
            slow: SlowCounts::default(),
            chooser: Chooser::default(),
            routes: Routes::new(settings.cache_bytes, settings.negative_entries),
            hosts: HostTable::new(hosts, port),
            error_responses: ErrorResponses::new(pages, &settings),
            fallbacks: Fallbacks::default(),
            limiter: RedirectLimiter::new(
                settings.redirect_per_address,
                settings.redirect_per_code,
                settings.guesses_per_address,
            ),
            settings,
        }
    }

    /// With somebody who looks closer at visitors where a link's rules need it.
    pub fn with_classifier(self, onlooker: Arc<dyn VisitorClassifier>) -> Self {
        Self { chooser: Chooser::new(onlooker), ..self }
    }

    /// Lets nobody through to what the screen blocks, whatever the store says of the link: the
    /// store is told in due course, a visitor comes at once.
    #[must_use]
    pub fn screened_by(self, screen: Arc<dyn Screening>) -> Self {
        Self { screen, ..self }
    }

    /// Looks again at all that is remembered, because the screen has learned something, and forgets
    /// what it would have otherwise. Says how many that were. Where much is remembered this takes
    /// seconds, so it is nothing for a serving thread.
    pub fn rescreen(&self) -> usize {
        // First: a look-up that begins from here on is judged by what the screen knows now.
        self.single_flight.invalidate_all();
        self.fallbacks.rescreen(&*self.screen);
        let outdated =
            self.routes.all().into_iter().filter(|(_, route)| route.is_outdated_by(&*self.screen));
        outdated.map(|(name, _)| self.single_flight.invalidate(name, &self.routes)).count()
    }

    /// Which domain a `Host` value means.
    pub fn domain(&self, host: &[u8]) -> Option<u16> {
        self.hosts.domain(host)
    }

    /// The time, in milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().as_ms()
    }

    /// The time, in microseconds.
    pub(crate) fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    /// The routes in memory.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Adds what was counted off the fast path.
    pub fn add_counts(&self, to: &mut Snapshot) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        to.redirected += read(&self.slow.redirected);
        to.not_found += read(&self.slow.not_found);
        to.never_issued += read(&self.slow.never_issued);
        to.gone += read(&self.slow.gone);
        to.blocked += read(&self.slow.blocked);
        to.limited += read(&self.slow.limited);
        to.warned += read(&self.slow.warned);
        to.asked += read(&self.slow.asked);
        to.unavailable += read(&self.slow.unavailable);
        to.stale += read(&self.slow.stale);
        to.hits += read(&self.slow.hits);
        to.misses += read(&self.slow.misses);
        to.refreshes += read(&self.slow.refreshes);
    }
}

impl RouteCache for Redirector {
    fn forget(&self, key: &LinkKey) {
        let Some(domain) = self.hosts.number(&key.domain) else { return };
        let code = key.code.as_str().as_bytes();
        self.single_flight.invalidate(self.routes.name(domain, code), &self.routes);
    }

    fn forget_all(&self) {
        // In this order: a look-up that began before is not remembered, and what was remembered
        // before that is removed below.
        self.single_flight.invalidate_all();
        self.routes.remove_where(|_| true);
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
