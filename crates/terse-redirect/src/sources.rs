//! The open connections of each source, so that one of them cannot take all.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;
use terse_core::limits::Network;

/// Threads rarely wait for one another: a connection locks one of these parts twice.
const PARTS: usize = 64;

/// Counts open connections by source: an address of IPv4 or a /64 of IPv6.
pub(crate) struct Sources {
    parts: [Mutex<HashMap<Network, usize, RandomState>>; PARTS],
    hash: RandomState,
    share: usize,
}

/// Permits one connection of a source; dropping it gives the permit back.
pub(crate) struct SourcePermit {
    sources: Arc<Sources>,
    network: Network,
}

impl Sources {
    /// Each source may have `share` connections.
    pub(crate) fn new(share: usize) -> Self {
        Self {
            parts: std::array::from_fn(|_| Mutex::default()),
            hash: RandomState::default(),
            share,
        }
    }

    /// A place for a connection from an address; `None` if its source has taken its share.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<SourcePermit> {
        let (network, _) = Network::of(address);
        let mut part = self.part(network);
        let open = part.entry(network).or_default();
        if *open >= self.share {
            return None;
        }
        *open += 1;
        drop(part);
        Some(SourcePermit { sources: Arc::clone(self), network })
    }

    fn part(
        &self,
        network: Network,
    ) -> std::sync::MutexGuard<'_, HashMap<Network, usize, RandomState>> {
        let part = self.hash.hash_one(network) as usize % PARTS;
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SourcePermit {
    fn drop(&mut self) {
        let mut part = self.sources.part(self.network);
        if let Some(open) = part.get_mut(&self.network) {
            *open -= 1;
            if *open == 0 {
                part.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_its_share_and_gives_places_back() {
        let sources = Arc::new(Sources::new(2));
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = sources.take(address("192.0.2.1")).unwrap();
        let _two = sources.take(address("192.0.2.1")).unwrap();
        assert!(sources.take(address("192.0.2.1")).is_none());
        assert!(sources.take(address("192.0.2.2")).is_some());
        drop(one);
        let three = sources.take(address("192.0.2.1"));
        assert!(three.is_some() && sources.take(address("192.0.2.1")).is_none());
        let _a = sources.take(address("2001:db8::1")).unwrap();
        let _b = sources.take(address("2001:db8::2:0:0:1")).unwrap();
        assert!(sources.take(address("2001:db8::3")).is_none(), "a /64 is one source");
        drop((three, _two));
        let open: usize = sources.parts.iter().map(|part| part.lock().unwrap().len()).sum();
        assert_eq!(open, 1, "sources without connections take no memory");
    }
}
