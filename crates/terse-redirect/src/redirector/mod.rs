//! The redirector answers visits: from memory at once, from the store on a miss, and from expired
//! cache entries while the store is away.

mod answer;
mod lookup;
mod visitor;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use terse_core::registry::Suspended;
use terse_core::rules::VisitorClassifier;
use terse_core::{
    ClickSpender, Clock, Hosts, LinkKey, LinkReader, LogLimit, NoScreening, RouteCache, Screening,
};
use tokio::sync::Semaphore;

pub use lookup::LinkUnavailable;
pub(crate) use visitor::Answer;
pub use visitor::{Reply, VisitMethod, Visitor};

use crate::batch::LookupBatcher;
use crate::counts::{Counter as _, Counts, SLOW_MICROS, SharedCounter, Snapshot};
use crate::error_responses::{ErrorResponses, FailurePages};
use crate::fallbacks::Fallbacks;
use crate::host_table::HostTable;
use crate::limiter::RedirectLimiter;
use crate::routes::Routes;
use crate::rule_evaluator::RuleEvaluator;
use crate::settings::Settings;
use crate::single_flight::SingleFlight;

/// The state of the redirect plane, shared by all serving threads.
pub struct Redirector {
    reader: Arc<dyn LinkReader>,
    spender: Arc<dyn ClickSpender>,
    pub(crate) screen: Arc<dyn Screening>,
    clock: Clock,
    pub(crate) suspended: Suspended,
    pub(crate) single_flight: SingleFlight,
    batch: LookupBatcher,
    /// Bounds the look-ups that wait for the store.
    store_permits: Semaphore,
    store_log: LogLimit,
    slow_log: LogLimit,
    /// Until then the store counts as away.
    away_until_ms: AtomicI64,
    /// Whether the last look-up in the store failed.
    last_read_failed: AtomicBool,
    /// Counts visits off the fast path.
    counts: Counts<SharedCounter>,
    rules: RuleEvaluator,
    pub(crate) routes: Routes,
    pub(crate) hosts: HostTable,
    pub(crate) error_responses: ErrorResponses,
    pub(crate) fallbacks: Fallbacks,
    pub(crate) limiter: RedirectLimiter,
    pub(crate) settings: Settings,
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
        settings: Settings,
        clock: Clock,
    ) -> Self {
        Self {
            clock,
            suspended: Suspended::default(),
            single_flight: SingleFlight::default(),
            batch: LookupBatcher::new(Arc::clone(&reader)),
            store_permits: Semaphore::new(settings.store_concurrency.max(1)),
            reader,
            spender,
            screen: Arc::new(NoScreening),
            store_log: LogLimit::default(),
            slow_log: LogLimit::default(),
            away_until_ms: AtomicI64::new(0),
            last_read_failed: AtomicBool::new(false),
            counts: Counts::default(),
            rules: RuleEvaluator::default(),
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
        // This comes first: look-ups that start from here on use the changed screen.
        self.single_flight.invalidate_all();
        self.fallbacks.rescreen(&*self.screen);
        let outdated =
            self.routes.all().into_iter().filter(|(_, route)| route.is_outdated_by(&*self.screen));
        outdated.map(|(name, _)| self.single_flight.invalidate(name, &self.routes)).count()
    }

    /// The number of the domain that a `Host` value names.
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

    /// Counts and logs an answer that took too long.
    pub(crate) fn note_if_slow(&self, arrived_micros: i64, code: &str) {
        let took = self.now_micros() - arrived_micros;
        if took > SLOW_MICROS {
            self.note_slow(took, Some(code));
        }
    }

    /// Counts an answer that took too long, and logs it unless some were logged in this minute.
    #[cold]
    pub(crate) fn note_slow(&self, took_micros: i64, code: Option<&str>) {
        self.counts.slow.add(1);
        if let Some(suppressed) = self.slow_log.admit(self.clock.steady()) {
            let took_ms = took_micros / 1000;
            tracing::warn!(took_ms, link.code = code, suppressed, "a visitor waited {took_ms} ms");
        }
    }

    /// Whether the last look-up in the store succeeded. Links that are not in memory are unavailable
    /// otherwise.
    pub fn reads_links(&self) -> bool {
        !self.last_read_failed.load(Ordering::Relaxed)
    }

    /// The routes in memory.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Adds the counters of visits off the fast path.
    pub fn add_counts(&self, to: &mut Snapshot) {
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
        // The order matters. Look-ups that began before are not cached, and routes that were cached
        // before that are removed.
        self.single_flight.invalidate_all();
        self.routes.remove_where(|_| true);
    }
}
