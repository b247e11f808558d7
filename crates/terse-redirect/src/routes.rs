//! The route cache: a lock-free map with CLOCK eviction.
//!
//! A hit reads the map and sets a flag at most once per round of the clock. It takes no lock and
//! writes no cache line that other cores are writing. Misses and changes insert, replace, remove
//! and evict routes under one mutex. The clock hand passes over the routes in the order of their
//! arrival and evicts those that were not used since it last passed them.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use terse_core::VisitDecision;

use crate::route::Route;

/// The route cache. Names are hashed with a random key of this process, so that clients cannot
/// produce collisions. A hit compares the whole name: a collision costs a miss, never a wrong
/// answer.
pub struct Routes {
    map: papaya::HashMap<u64, Route, IdentityHasher>,
    hash: foldhash::quality::RandomState,
    rings: Mutex<Rings>,
    bytes: AtomicUsize,
}

struct Rings {
    found: Ring,
    missing: Ring,
}

/// Routes in the order of their arrival. Removed routes stay in the queue until the hand passes
/// them; they count for neither `live` nor `used`.
struct Ring {
    queue: VecDeque<(u64, Route)>,
    live: usize,
    used: usize,
    limit: usize,
}

impl Routes {
    /// A cache for `bytes` of links and for `missing` names without a link.
    pub fn new(bytes: usize, missing: usize) -> Self {
        let ring = |limit| Ring { queue: VecDeque::new(), live: 0, used: 0, limit };
        Self {
            map: papaya::HashMap::builder().hasher(IdentityHasher(0)).build(),
            hash: foldhash::quality::RandomState::default(),
            rings: Mutex::new(Rings { found: ring(bytes), missing: ring(missing) }),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The hash of a name, which is its key in the map.
    pub(crate) fn name(&self, domain: u16, code: &[u8]) -> u64 {
        let mut hasher = self.hash.build_hasher();
        hasher.write(code);
        hasher.write_u16(domain);
        hasher.finish()
    }

    /// Calls `read` with the route of a name.
    pub(crate) fn with<T>(
        &self,
        name: u64,
        domain: u16,
        code: &[u8],
        read: impl FnOnce(&Route) -> T,
    ) -> Option<T> {
        let map = self.map.pin();
        let route = map.get(&name)?;
        if route.head().domain != domain || route.code() != code {
            return None;
        }
        // Only the first hit of a round writes, so the cores share the cache line of a popular
        // route.
        if !route.head().used.load(Ordering::Relaxed) {
            route.head().used.store(true, Ordering::Relaxed);
        }
        Some(read(route))
    }

    /// Inserts or replaces a route, and evicts others to make room.
    pub(crate) fn insert(&self, name: u64, route: &Route) {
        let mut rings = self.lock();
        self.remove_from(&mut rings, name);
        let missing = route.head().decision == VisitDecision::NotFound;
        let ring = rings.of(missing);
        let cost = if missing { 1 } else { route.bytes() };
        if cost > ring.limit {
            return;
        }
        self.map.pin().insert(name, route.clone());
        ring.queue.push_back((name, route.clone()));
        ring.live += 1;
        ring.used += cost;
        while ring.used > ring.limit {
            let Some((name, oldest)) = ring.queue.pop_front() else { break };
            if oldest.head().removed.load(Ordering::Relaxed) {
                continue;
            }
            if !missing && oldest.head().used.swap(false, Ordering::Relaxed) {
                ring.queue.push_back((name, oldest));
                continue;
            }
            oldest.head().removed.store(true, Ordering::Relaxed);
            self.map.pin().remove(&name);
            ring.live -= 1;
            ring.used -= if missing { 1 } else { oldest.bytes() };
        }
        // Sweep before removed routes outnumber the live ones.
        if ring.queue.len() > 2 * ring.live + 1024 {
            ring.queue.retain(|(_, route)| !route.head().removed.load(Ordering::Relaxed));
        }
        let used = rings.found.used;
        self.bytes.store(used, Ordering::Relaxed);
    }

    /// Removes the route of a name.
    pub(crate) fn remove(&self, name: u64) {
        let mut rings = self.lock();
        self.remove_from(&mut rings, name);
    }

    /// Removes the routes that match and returns their number. It walks all routes: do not call it
    /// on a serving thread.
    pub(crate) fn remove_where(&self, matches: impl Fn(&Route) -> bool) -> usize {
        let names: Vec<u64> = self
            .map
            .pin()
            .iter()
            .filter(|(_, route)| matches(route))
            .map(|(&name, _)| name)
            .collect();
        // The lock is taken per route, so that a lookup that ends meanwhile waits only briefly.
        names.iter().for_each(|&name| self.remove(name));
        names.len()
    }

    fn remove_from(&self, rings: &mut Rings, name: u64) {
        let map = self.map.pin();
        let Some(old) = map.remove(&name) else { return };
        old.head().removed.store(true, Ordering::Relaxed);
        let missing = old.head().decision == VisitDecision::NotFound;
        let ring = rings.of(missing);
        ring.live -= 1;
        ring.used -= if missing { 1 } else { old.bytes() };
    }

    /// Calls `visit` for each cached route.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Route)) {
        self.map.pin().iter().for_each(|(_, route)| visit(route));
    }

    /// All cached routes.
    pub(crate) fn all(&self) -> Vec<(u64, Route)> {
        self.map.pin().iter().map(|(name, route)| (*name, route.clone())).collect()
    }

    /// The number of cached names, with and without a link.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The approximate memory of the routes with a link.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rings {
    fn of(&mut self, missing: bool) -> &mut Ring {
        if missing { &mut self.missing } else { &mut self.found }
    }
}

/// Passes keys through: they are hashes already.
#[derive(Clone, Copy, Default)]
struct IdentityHasher(u64);

impl BuildHasher for IdentityHasher {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| hash.rotate_left(8) ^ u64::from(byte));
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::RedirectSettings;
    use terse_core::Timestamp;
    use terse_testkit::alias;

    fn route(code: &str) -> Route {
        Route::of_link(
            0,
            alias(code, "https://example.com/"),
            Timestamp::from_ms(0),
            &RedirectSettings::default(),
        )
    }

    fn hit(routes: &Routes, code: &str) -> bool {
        routes.with(routes.name(0, code.as_bytes()), 0, code.as_bytes(), |_| ()).is_some()
    }

    #[test]
    fn the_cache_stays_within_its_budget_and_keeps_used_routes() {
        let one = route("code000").bytes();
        let routes = Routes::new(100 * one, 10);
        for i in 0..1000 {
            let code = format!("code{i:03}");
            routes.insert(routes.name(0, code.as_bytes()), &route(&code));
            assert!(i == 0 || hit(&routes, "code000"), "used since the hand passed it, after {i}");
            assert!(routes.bytes() <= 100 * one);
        }
        assert!((90..=100).contains(&routes.len()), "{}", routes.len());
        assert!(!hit(&routes, "code500"));
    }

    #[test]
    fn names_without_a_link_have_a_bound_of_their_own() {
        let routes = Routes::new(1 << 20, 10);
        routes.insert(routes.name(0, b"found"), &route("found"));
        for i in 0..1000 {
            let code = format!("miss{i}");
            let missing = Route::missing(
                0,
                code.as_bytes(),
                Timestamp::from_ms(0),
                &RedirectSettings::default(),
            );
            routes.insert(routes.name(0, code.as_bytes()), &missing);
        }
        assert_eq!(routes.len(), 11);
        assert!(hit(&routes, "found") && hit(&routes, "miss999") && !hit(&routes, "miss1"));
    }

    #[test]
    fn replaced_and_removed_routes_leave_the_queue() {
        let routes = Routes::new(1 << 20, 10);
        for _ in 0..10_000 {
            routes.insert(routes.name(0, b"same"), &route("same"));
        }
        assert!(routes.lock().found.queue.len() < 2000);
        assert_eq!(routes.bytes(), route("same").bytes());
        routes.remove(routes.name(0, b"same"));
        assert_eq!((routes.len(), routes.lock().found.used), (0, 0));
    }

    #[test]
    fn a_collision_is_a_miss() {
        let routes = Routes::new(1 << 20, 10);
        routes.insert(7, &route("mine"));
        assert!(routes.with(7, 0, b"mine", |_| ()).is_some());
        assert!(routes.with(7, 0, b"your", |_| ()).is_none());
        assert!(routes.with(7, 1, b"mine", |_| ()).is_none());
    }
}
