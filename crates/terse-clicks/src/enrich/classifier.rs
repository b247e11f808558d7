//! Looks closer at visitors while they wait, for the rules of links.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use terse_core::Timestamp;
use terse_core::rules::{RequiredTraits, VisitorClassifier, VisitorTraits};
use tracing::{info, warn};

use super::geo::{self, GeoDatabase};
use super::user_agents::UserAgents;

/// Tells device, system and country of visitors in the same words as the statistics of clicks.
/// Holds nothing until a link has rules that need it: then the same again as the pipeline holds, so
/// that neither ever waits for the other.
pub struct UserAgentClassifier {
    file: Option<PathBuf>,
    agents: Mutex<UserAgents>,
    places: Mutex<Option<GeoDatabase>>,
    /// How the file of places was when it was last read, or when reading it failed.
    seen: Mutex<Option<(SystemTime, u64)>>,
}

impl UserAgentClassifier {
    /// GeoDatabase come from the file, or without one from the countries that are shipped.
    pub fn new(places: Option<PathBuf>) -> Self {
        Self {
            file: places,
            agents: Mutex::new(UserAgents::new()),
            places: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// To be called now and then, where waiting hurts nobody: reads the file of places again if it
    /// has changed.
    pub fn refresh(&self, now: Timestamp) {
        let Some(file) = self.file.as_ref().filter(|_| held(&self.places).is_some()) else {
            return;
        };
        let state = geo::file_version(file).ok();
        if std::mem::replace(&mut *held(&self.seen), state) == state {
            return;
        }
        match GeoDatabase::open(Some(file.clone()), now) {
            Ok(fresh) => {
                // Not freed with the lock in hand: a visitor may be waiting for it.
                let old = held(&self.places).replace(fresh);
                drop(old);
                info!(path = %file.display(), "read the changed file of places for rules");
            }
            Err(error) => {
                warn!(%error, "the changed file of places cannot be read; rules go by the one \
                    before");
            }
        }
    }
}

impl VisitorClassifier for UserAgentClassifier {
    fn classify(&self, agent: Option<&[u8]>, address: Option<IpAddr>) -> VisitorTraits {
        let agent = agent.map(|agent| held(&self.agents).read(agent)).unwrap_or_default();
        let country = address.and_then(|address| held(&self.places).as_mut()?.find(address).0);
        VisitorTraits { device: agent.device, system: agent.system, country }
    }

    fn prepare(&self, needs: RequiredTraits) {
        if needs.agent {
            held(&self.agents).prepare();
        }
        if needs.country && held(&self.places).is_none() {
            let state = self.file.as_ref().and_then(|file| geo::file_version(file).ok());
            match GeoDatabase::open(self.file.clone(), Timestamp::from_ms(0)) {
                Ok(fresh) => {
                    *held(&self.seen) = state;
                    *held(&self.places) = Some(fresh);
                }
                Err(error) => {
                    warn!(%error, "the file of places cannot be read; rules go without countries");
                }
            }
        }
    }
}

impl std::fmt::Debug for UserAgentClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookout").field("file", &self.file).finish_non_exhaustive()
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::{mmdb, samples};
    use super::*;

    const ALL: RequiredTraits = RequiredTraits { agent: true, country: true };

    #[test]
    fn a_visitor_is_seen_as_the_statistics_see_them() {
        let lookout = UserAgentClassifier::new(None);
        lookout.prepare(ALL);
        for (agent, device, _, system) in samples::BROWSERS {
            let looks = lookout.classify(Some(agent.as_bytes()), None);
            assert_eq!(looks.device.as_deref(), Some(*device), "{agent}");
            assert_eq!(looks.system.as_deref().unwrap_or_default(), *system, "{agent}");
            assert!(terse_core::rules::DEVICES.contains(device), "{device}");
            assert!(
                system.is_empty() || terse_core::rules::SYSTEMS.contains(system),
                "no rule can name {system}"
            );
        }
        assert!(lookout.classify(None, Some("8.8.8.8".parse().unwrap())).country.is_some());
        assert_eq!(
            lookout.classify(Some(b""), Some("127.0.0.1".parse().unwrap())),
            VisitorTraits::default()
        );
    }

    #[test]
    fn a_changed_file_of_places_is_taken_over_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (path, address) = (folder.path().join("places.mmdb"), "8.8.8.8".parse().unwrap());
        let now = Timestamp::from_ms(0);
        let lookout = UserAgentClassifier::new(Some(path.clone()));
        let country =
            || lookout.classify(None, Some(address)).country.as_deref().map(str::to_owned);
        // No file yet: no country, and no end of the process either.
        lookout.prepare(ALL);
        assert_eq!(country(), None);
        std::fs::write(&path, mmdb::file(&mmdb::flat("DE", "Berlin"))).unwrap();
        lookout.prepare(ALL);
        assert_eq!(country().as_deref(), Some("DE"));
        std::fs::write(&path, mmdb::file(&mmdb::flat("AT", "Wien"))).unwrap();
        lookout.refresh(now);
        assert_eq!(country().as_deref(), Some("AT"));
        std::fs::write(&path, b"broken").unwrap();
        lookout.refresh(now);
        assert_eq!(country().as_deref(), Some("AT"));
    }
}
