//! One look-up per name, however many visitors wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::route::Route;
use crate::routes::Routes;

/// How a flight ended.
#[derive(Clone, Debug)]
pub(crate) enum LookupResult {
    /// With a route, found or missing.
    Route(Route),
    /// The store did not answer.
    Failed,
    /// The link changed meanwhile, or whoever was looking went away: look again.
    Again,
}

/// The look-ups under way, by the hash of their name.
#[derive(Default)]
pub(crate) struct SingleFlight {
    under_way: Mutex<HashMap<u64, Flight>>,
}

#[derive(Default)]
struct Flight {
    /// Made by the first who has to wait: most look-ups have nobody waiting.
    shared: Option<Arc<Shared>>,
    /// The link changed since the look-up began: its result must not be remembered.
    outdated: bool,
}

#[derive(Default)]
struct Shared {
    result: OnceLock<LookupResult>,
    bell: Notify,
}

/// What a visitor does about a missing route.
pub(crate) enum JoinedFlight<'a> {
    /// Look it up, for everyone.
    FlightGuard(FlightGuard<'a>),
    /// Somebody else was looking; this is how it ended.
    LookupResult(LookupResult),
}

impl SingleFlight {
    /// Takes the look-up of a name, or waits for whoever has taken it.
    pub(crate) async fn join(&self, name: u64) -> JoinedFlight<'_> {
        let shared = {
            let mut under_way = self.lock();
            match under_way.get_mut(&name) {
                None => {
                    under_way.insert(name, Flight::default());
                    return JoinedFlight::FlightGuard(FlightGuard {
                        single_flight: self,
                        name,
                        result: false,
                    });
                }
                Some(flight) => Arc::clone(flight.shared.get_or_insert_default()),
            }
        };
        loop {
            // Registered before looking, so that a landing in between is not missed.
            let rung = shared.bell.notified();
            if let Some(result) = shared.result.get() {
                return JoinedFlight::LookupResult(result.clone());
            }
            rung.await;
        }
    }

    /// The link changed: forget its route, and let no look-up that began before this be remembered.
    pub(crate) fn invalidate(&self, name: u64, routes: &Routes) {
        let mut under_way = self.lock();
        if let Some(flight) = under_way.get_mut(&name) {
            flight.outdated = true;
        }
        routes.remove(name);
    }

    /// Something changed that may be about any link: lets no look-up that began before this be
    /// remembered. What is remembered already is left to the caller.
    pub(crate) fn invalidate_all(&self) {
        for flight in self.lock().values_mut() {
            flight.outdated = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Flight>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever looks up. Dropping it, as when the visitor hangs up, lets another take over.
pub(crate) struct FlightGuard<'a> {
    single_flight: &'a SingleFlight,
    name: u64,
    result: bool,
}

impl FlightGuard<'_> {
    /// Ends the flight. The route is remembered unless the link changed meanwhile, which is what is
    /// returned.
    pub(crate) fn finish(mut self, result: LookupResult, routes: &Routes) -> LookupResult {
        self.end(result, Some(routes))
    }

    fn end(&mut self, mut result: LookupResult, routes: Option<&Routes>) -> LookupResult {
        // Only once: by now the name may be under way again, with another pilot.
        if std::mem::replace(&mut self.result, true) {
            return result;
        }
        let mut under_way = self.single_flight.lock();
        let Some(flight) = under_way.remove(&self.name) else { return result };
        if flight.outdated && matches!(result, LookupResult::Route(_)) {
            result = LookupResult::Again;
        }
        // Under the lock: a change cannot slip in between the check and the remembering.
        if let (LookupResult::Route(route), Some(routes)) = (&result, routes) {
            routes.insert(self.name, route);
        }
        drop(under_way);
        if let Some(shared) = flight.shared {
            let _ = shared.result.set(result.clone());
            shared.bell.notify_waiters();
        }
        result
    }
}

impl Drop for FlightGuard<'_> {
    fn drop(&mut self) {
        self.end(LookupResult::Again, None);
    }
}
