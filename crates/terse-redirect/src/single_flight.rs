//! One lookup per link at a time, however many visitors wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::route::Route;
use crate::routes::Routes;

/// How a lookup ended.
#[derive(Clone, Debug)]
pub(crate) enum LookupResult {
    /// With a route, also for a link that does not exist.
    Route(Route),
    /// The store did not answer, or could not read the link.
    Failed,
    /// The link changed meanwhile, or the visitor who did the lookup disconnected: look up again.
    Retry,
}

/// The lookups in progress, by the hash of the link's name.
#[derive(Default)]
pub(crate) struct SingleFlight {
    in_progress: Mutex<HashMap<u64, Flight>>,
}

#[derive(Default)]
struct Flight {
    /// Made by the first visitor who has to wait. Most lookups have no other visitor.
    shared: Option<Arc<Shared>>,
    /// The link changed since the lookup began: its result must not be cached.
    outdated: bool,
}

#[derive(Default)]
struct Shared {
    result: OnceLock<LookupResult>,
    finished: Notify,
}

/// What a visitor does about a cache miss.
pub(crate) enum JoinedFlight<'a> {
    /// Look the link up, for all visitors who wait for it.
    FlightGuard(FlightGuard<'a>),
    /// Use the result of another visitor's lookup.
    LookupResult(LookupResult),
}

impl SingleFlight {
    /// Starts the lookup of a name, or waits for the one in progress.
    pub(crate) async fn join(&self, name: u64) -> JoinedFlight<'_> {
        let shared = {
            let mut in_progress = self.lock();
            match in_progress.get_mut(&name) {
                None => {
                    in_progress.insert(name, Flight::default());
                    return JoinedFlight::FlightGuard(FlightGuard {
                        single_flight: self,
                        name,
                        finished: false,
                    });
                }
                Some(flight) => Arc::clone(flight.shared.get_or_insert_default()),
            }
        };
        loop {
            // Registered before the check, so that a result that arrives in between is not missed.
            let finished = shared.finished.notified();
            if let Some(result) = shared.result.get() {
                return JoinedFlight::LookupResult(result.clone());
            }
            finished.await;
        }
    }

    /// Drops the route of a changed link, and prevents the caching of a lookup that began before.
    pub(crate) fn invalidate(&self, name: u64, routes: &Routes) {
        let mut in_progress = self.lock();
        if let Some(flight) = in_progress.get_mut(&name) {
            flight.outdated = true;
        }
        routes.remove(name);
    }

    /// Prevents the caching of all lookups that began before this call. The caller drops the
    /// routes that are cached already.
    pub(crate) fn invalidate_all(&self) {
        for flight in self.lock().values_mut() {
            flight.outdated = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Flight>> {
        self.in_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the visitor who does the lookup. If the visitor disconnects, dropping the guard lets
/// another visitor take over.
pub(crate) struct FlightGuard<'a> {
    single_flight: &'a SingleFlight,
    name: u64,
    finished: bool,
}

impl FlightGuard<'_> {
    /// Ends the lookup, caches its route unless the link changed meanwhile, and wakes the visitors
    /// who wait. Returns the result that they get.
    pub(crate) fn finish(mut self, result: LookupResult, routes: &Routes) -> LookupResult {
        self.end(result, Some(routes))
    }

    fn end(&mut self, mut result: LookupResult, routes: Option<&Routes>) -> LookupResult {
        // Only once: another visitor may be looking the same name up by now.
        if std::mem::replace(&mut self.finished, true) {
            return result;
        }
        let mut in_progress = self.single_flight.lock();
        let Some(flight) = in_progress.remove(&self.name) else { return result };
        if flight.outdated && matches!(result, LookupResult::Route(_)) {
            result = LookupResult::Retry;
        }
        // Under the lock: no change can be announced between the check and the insertion.
        if let (LookupResult::Route(route), Some(routes)) = (&result, routes) {
            routes.insert(self.name, route);
        }
        drop(in_progress);
        if let Some(shared) = flight.shared {
            let _ = shared.result.set(result.clone());
            shared.finished.notify_waiters();
        }
        result
    }
}

impl Drop for FlightGuard<'_> {
    fn drop(&mut self) {
        self.end(LookupResult::Retry, None);
    }
}
