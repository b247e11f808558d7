//! The remembered routes: a lock-free map in front, a clock hand behind.
//!
//! A hit reads the map and, at most once per round of the clock, sets a flag; it takes no lock and
//! writes no line that other cores are writing. Everything that must be orderly (making room,
//! replacing, forgetting) happens on misses and changes, under one mutex. Room is made by the CLOCK
//! rule: the hand passes over routes in the order of their arrival and spares those that were used
//! since it last came by.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::route::{Kind, Route};

/// The names of routes are hashed with a key of this process, so nobody can aim for collisions. A
/// collision costs a miss and never a wrong answer: the name is compared.
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

/// Routes in the order of their arrival. Each entry is counted until it is dead or has left.
struct Ring {
    queue: VecDeque<(u64, Route)>,
    live: usize,
    used: usize,
    limit: usize,
}

impl Routes {
    /// Room for `bytes` of links and for `missing` names that are known not to exist.
    pub fn new(bytes: usize, missing: usize) -> Self {
        let ring = |limit| Ring { queue: VecDeque::new(), live: 0, used: 0, limit };
        Self {
            map: papaya::HashMap::builder().hasher(IdentityHasher(0)).build(),
            hash: foldhash::quality::RandomState::default(),
            rings: Mutex::new(Rings { found: ring(bytes), missing: ring(missing) }),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The hash under which a name is filed.
    pub(crate) fn name(&self, domain: u16, code: &[u8]) -> u64 {
        let mut hasher = self.hash.build_hasher();
        hasher.write(code);
        hasher.write_u16(domain);
        hasher.finish()
    }

    /// Looks at a route without taking hold of it.
    pub(crate) fn with<T>(
        &self,
        name: u64,
        domain: u16,
        code: &[u8],
        look: impl FnOnce(&Route) -> T,
    ) -> Option<T> {
        let map = self.map.pin();
        let route = map.get(&name)?;
        if route.head().domain != domain || route.code() != code {
            return None;
        }
        // Only the first hit of a round writes: a popular route's line stays shared between the
        // cores.
        if !route.head().used.load(Ordering::Relaxed) {
            route.head().used.store(true, Ordering::Relaxed);
        }
        Some(look(route))
    }

    /// Remembers a route in place of any other of its name, and makes room for it.
    pub(crate) fn insert(&self, name: u64, route: &Route) {
        let mut rings = self.lock();
        self.forget(&mut rings, name);
        let missing = route.head().kind == Kind::Missing;
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
            if oldest.head().dead.load(Ordering::Relaxed) {
                continue;
            }
            if !missing && oldest.head().used.swap(false, Ordering::Relaxed) {
                ring.queue.push_back((name, oldest));
                continue;
            }
            oldest.head().dead.store(true, Ordering::Relaxed);
            self.map.pin().remove(&name);
            ring.live -= 1;
            ring.used -= if missing { 1 } else { oldest.bytes() };
        }
        // Replaced and forgotten routes leave their places behind; sweep before those outnumber the
        // living.
        if ring.queue.len() > 2 * ring.live + 1024 {
            ring.queue.retain(|(_, route)| !route.head().dead.load(Ordering::Relaxed));
        }
        let used = rings.found.used;
        self.bytes.store(used, Ordering::Relaxed);
    }

    /// Forgets whatever has this name.
    pub(crate) fn remove(&self, name: u64) {
        let mut rings = self.lock();
        self.forget(&mut rings, name);
    }

    /// Forgets the routes that are so. Looks at all of them: not for a serving thread.
    pub(crate) fn remove_where(&self, is_so: impl Fn(&Route) -> bool) -> usize {
        let names: Vec<u64> = self
            .map
            .pin()
            .iter()
            .filter(|(_, route)| is_so(route))
            .map(|(&name, _)| name)
            .collect();
        // One at a time, so that no visitor whose link was just looked up waits long.
        names.iter().for_each(|&name| self.remove(name));
        names.len()
    }

    fn forget(&self, rings: &mut Rings, name: u64) {
        let map = self.map.pin();
        let Some(old) = map.remove(&name) else { return };
        old.head().dead.store(true, Ordering::Relaxed);
        let missing = old.head().kind == Kind::Missing;
        let ring = rings.of(missing);
        ring.live -= 1;
        ring.used -= if missing { 1 } else { old.bytes() };
    }

    /// Everything that is remembered now.
    pub(crate) fn all(&self) -> Vec<(u64, Route)> {
        self.map.pin().iter().map(|(name, route)| (*name, route.clone())).collect()
    }

    /// How many names are remembered, found and missing.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Roughly how much memory the found ones take.
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

/// Keys are hashes already.
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
    use crate::settings::Settings;
    use terse_core::Timestamp;
    use terse_testkit::alias;

    fn route(code: &str) -> Route {
        Route::of_link(
            0,
            alias(code, "https://example.com/"),
            Timestamp::from_ms(0),
            &Settings::default(),
        )
    }

    fn hit(routes: &Routes, code: &str) -> bool {
        routes.with(routes.name(0, code.as_bytes()), 0, code.as_bytes(), |_| ()).is_some()
    }

    #[test]
    fn the_budget_is_kept_and_what_is_used_stays() {
        let one = route("code000").bytes();
        let routes = Routes::new(100 * one, 10);
        for i in 0..1000 {
            let code = format!("code{i:03}");
            routes.insert(routes.name(0, code.as_bytes()), &route(&code));
            assert!(i == 0 || hit(&routes, "code000"), "used since the hand came by, after {i}");
            assert!(routes.bytes() <= 100 * one);
        }
        assert!((90..=100).contains(&routes.len()), "{}", routes.len());
        assert!(!hit(&routes, "code500"));
    }

    #[test]
    fn missing_names_have_a_bound_of_their_own() {
        let routes = Routes::new(1 << 20, 10);
        routes.insert(routes.name(0, b"found"), &route("found"));
        for i in 0..1000 {
            let code = format!("miss{i}");
            let missing =
                Route::missing(0, code.as_bytes(), Timestamp::from_ms(0), &Settings::default());
            routes.insert(routes.name(0, code.as_bytes()), &missing);
        }
        assert_eq!(routes.len(), 11);
        assert!(hit(&routes, "found") && hit(&routes, "miss999") && !hit(&routes, "miss1"));
    }

    #[test]
    fn replacing_and_forgetting_do_not_leak_places() {
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
