//! Classifies visitors for the redirect rules and the previews of links.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use terse_core::Timestamp;
use terse_core::clicks::BotKind;
use terse_core::rules::{RequiredTraits, VisitorClassifier, VisitorTraits};
use tracing::{info, warn};

use super::bots::BotDetector;
use super::cache::ConcurrentCache;
use super::geo::{self, FileVersion, GeoDatabase};
use super::user_agents::{UserAgent, UserAgentParser};

/// User agents of one cache generation. The visitors of a site have some hundreds; parsing one
/// again takes about ten microseconds.
const CACHED_USER_AGENTS: usize = 4096;

/// Determines the device, system and country of a visitor, with the same values as the click
/// statistics.
///
/// [`classify`](VisitorClassifier::classify) runs on the serving threads and takes no lock: it
/// reads the parser from a `OnceLock` and the geo database and the cache from lock-free maps. Only
/// [`prepare`](VisitorClassifier::prepare) and [`refresh`](UserAgentClassifier::refresh) take a
/// lock, against each other, while they load data. Neither runs on a serving thread.
///
/// The parser and the geo database are loaded when a link first has rules that need them. The click
/// pipeline has its own copies and refreshes them separately.
pub struct UserAgentClassifier {
    file: Option<PathBuf>,
    parser: OnceLock<UserAgentParser>,
    bots: OnceLock<BotDetector>,
    user_agents: ConcurrentCache<Box<[u8]>, UserAgent>,
    geo: Current<GeoDatabase>,
    /// The version of the file at the last attempt to read it. Held while a file is being read, so
    /// that two threads do not read it at the same time.
    attempted: Mutex<Option<FileVersion>>,
}

impl UserAgentClassifier {
    /// Countries come from the file, or without one from the database that is shipped.
    pub fn new(geo_file: Option<PathBuf>) -> Self {
        Self {
            file: geo_file,
            parser: OnceLock::new(),
            bots: OnceLock::new(),
            user_agents: ConcurrentCache::new(CACHED_USER_AGENTS),
            geo: Current::default(),
            attempted: Mutex::default(),
        }
    }

    /// Reads the geo file again if it has changed. Call it regularly, from a thread that may block.
    pub fn refresh(&self, now: Timestamp) {
        let mut attempted = self.attempted();
        let Some(file) = self.file.as_ref().filter(|_| self.geo.get().is_some()) else { return };
        let version = geo::file_version(file).ok();
        if std::mem::replace(&mut *attempted, version) == version {
            return;
        }
        match GeoDatabase::open(Some(file.clone()), now) {
            Ok(database) => {
                self.geo.set(database);
                info!(path = %file.display(), "read the changed geo database for redirect rules");
            }
            Err(error) => warn!(
                path = %file.display(), %error,
                "cannot read the changed geo database; redirect rules use the previous one"
            ),
        }
    }

    fn attempted(&self) -> MutexGuard<'_, Option<FileVersion>> {
        self.attempted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VisitorClassifier for UserAgentClassifier {
    fn classify(&self, agent: Option<&[u8]>, address: Option<IpAddr>) -> VisitorTraits {
        let agent = agent.zip(self.parser.get()).map(|(agent, parser)| {
            self.user_agents.get_or_insert_with(agent, |agent| parser.parse(agent))
        });
        let agent = agent.unwrap_or_default();
        let country = address.and_then(|address| self.geo.get()?.find(address).0);
        let UserAgent { device, browser, system, bot: _ } = agent;
        VisitorTraits { device, system, country, browser }
    }

    fn fetches_previews(&self, agent: &[u8]) -> bool {
        let Some(bots) = self.bots.get() else { return false };
        bots.kind_of(&String::from_utf8_lossy(agent)) == Some(BotKind::Preview)
    }

    fn prepare(&self, needs: RequiredTraits) {
        if needs.previews {
            self.bots.get_or_init(BotDetector::shipped);
        }
        if needs.agent {
            self.parser.get_or_init(UserAgentParser::shipped);
        }
        if !needs.country || self.geo.get().is_some() {
            return;
        }
        let mut attempted = self.attempted();
        if self.geo.get().is_some() {
            return;
        }
        let version = self.file.as_ref().and_then(|file| geo::file_version(file).ok());
        match GeoDatabase::open(self.file.clone(), Timestamp::from_ms(0)) {
            Ok(database) => {
                *attempted = version;
                self.geo.set(database);
            }
            Err(error) => {
                warn!(%error, "cannot read the geo database; redirect rules go without countries");
            }
        }
    }
}

impl std::fmt::Debug for UserAgentClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserAgentClassifier").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A value that can be replaced while other threads read it without a lock: a lock-free map with at
/// most one entry.
struct Current<T>(papaya::HashMap<(), Arc<T>>);

impl<T> Default for Current<T> {
    fn default() -> Self {
        Self(papaya::HashMap::new())
    }
}

impl<T: Send + Sync> Current<T> {
    fn get(&self) -> Option<Arc<T>> {
        self.0.pin().get(&()).map(Arc::clone)
    }

    fn set(&self, value: T) {
        self.0.pin().insert((), Arc::new(value));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::super::{mmdb, samples};
    use super::*;

    const ALL: RequiredTraits = RequiredTraits { agent: true, country: true, previews: true };

    #[test]
    fn a_visitor_is_classified_as_in_the_statistics() {
        let classifier = UserAgentClassifier::new(None);
        classifier.prepare(ALL);
        for (agent, device, _, system) in samples::BROWSERS {
            let traits = classifier.classify(Some(agent.as_bytes()), None);
            assert_eq!(traits.device.as_deref(), Some(*device), "{agent}");
            assert_eq!(traits.system.as_deref().unwrap_or_default(), *system, "{agent}");
            assert!(terse_core::rules::DEVICES.contains(device), "{device}");
            assert!(
                system.is_empty() || terse_core::rules::SYSTEMS.contains(system),
                "no rule can name {system}"
            );
        }
        assert!(classifier.classify(None, Some("8.8.8.8".parse().unwrap())).country.is_some());
        assert_eq!(
            classifier.classify(Some(b""), Some("127.0.0.1".parse().unwrap())),
            VisitorTraits::default()
        );
    }

    #[test]
    fn fetchers_of_previews_are_told_from_browsers_and_crawlers() {
        let classifier = UserAgentClassifier::new(None);
        let whatsapp = b"WhatsApp/2.23.20.0 A";
        assert!(!classifier.fetches_previews(whatsapp), "before it is prepared");
        classifier.prepare(ALL);
        assert!(classifier.fetches_previews(whatsapp));
        assert!(!classifier.fetches_previews(b"Mozilla/5.0 (compatible; Googlebot/2.1)"));
        for (agent, ..) in samples::BROWSERS {
            assert!(!classifier.fetches_previews(agent.as_bytes()), "{agent}");
        }
    }

    #[test]
    fn before_it_is_prepared_nothing_is_known_of_a_visitor() {
        let classifier = UserAgentClassifier::new(None);
        let (agent, address) = (samples::BROWSERS[0].0.as_bytes(), "8.8.8.8".parse().unwrap());
        let traits = classifier.classify(Some(agent), Some(address));
        assert_eq!(traits, VisitorTraits::default());
        classifier.prepare(ALL);
        let traits = classifier.classify(Some(agent), Some(address));
        assert!(traits.device.is_some() && traits.country.is_some());
    }

    /// Classification must finish while another thread is inside `prepare` or `refresh`. Both hold
    /// `attempted` while they read a file; here the test holds it.
    #[test]
    fn visitors_are_classified_while_another_thread_loads_data() {
        const THREADS: usize = 3;
        const VISITORS: usize = 200;
        let classifier = Arc::new(UserAgentClassifier::new(None));
        classifier.prepare(ALL);
        let loading = classifier.attempted();
        let (sender, classified) = mpsc::channel();
        for _ in 0..THREADS {
            let (classifier, sender) = (Arc::clone(&classifier), sender.clone());
            std::thread::spawn(move || {
                for n in 0..VISITORS {
                    let agent = format!("{} Thing{n}/1.0", samples::BROWSERS[0].0);
                    let address = "8.8.8.8".parse().unwrap();
                    let traits = classifier.classify(Some(agent.as_bytes()), Some(address));
                    sender.send(traits).unwrap();
                }
            });
        }
        drop(sender);
        // The timeout ends the test if a thread waits for the lock that this one holds.
        let in_time = std::iter::from_fn(|| classified.recv_timeout(Duration::from_secs(60)).ok());
        let known = in_time.filter(|traits| traits.device.is_some() && traits.country.is_some());
        assert_eq!(known.count(), THREADS * VISITORS);
        drop(loading);
    }

    #[test]
    fn the_cache_of_user_agents_stays_within_its_bound() {
        let classifier = UserAgentClassifier::new(None);
        classifier.prepare(ALL);
        for n in 0..3 * CACHED_USER_AGENTS {
            let agent = format!("Mozilla/5.0 (Windows NT 10.0) Thing{n}/1.0");
            classifier.classify(Some(agent.as_bytes()), None);
        }
        assert!(classifier.user_agents.len() <= 2 * CACHED_USER_AGENTS + 1);
    }

    #[test]
    fn a_changed_geo_file_is_read_again_and_a_broken_one_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (path, address) = (folder.path().join("geo.mmdb"), "8.8.8.8".parse().unwrap());
        let now = Timestamp::from_ms(0);
        let classifier = UserAgentClassifier::new(Some(path.clone()));
        let country =
            || classifier.classify(None, Some(address)).country.as_deref().map(str::to_owned);
        // Without the file there is no country, and the process continues.
        classifier.prepare(ALL);
        assert_eq!(country(), None);
        std::fs::write(&path, mmdb::file(&mmdb::flat("DE", "Berlin"))).unwrap();
        classifier.prepare(ALL);
        assert_eq!(country().as_deref(), Some("DE"));
        std::fs::write(&path, mmdb::file(&mmdb::flat("AT", "Wien"))).unwrap();
        classifier.refresh(now);
        assert_eq!(country().as_deref(), Some("AT"));
        std::fs::write(&path, b"broken").unwrap();
        classifier.refresh(now);
        assert_eq!(country().as_deref(), Some("AT"));
    }
}
