//! Blocklists and warn lists: read at start, read again when they change, and compiled into the
//! indexes that screen every target.

mod cached_copy;
mod feed;
mod lazy_screen;
mod loaded_list;
mod moderator_blocks;
mod screen_with_lookup;
mod source;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, Clock, Hosts, HttpClient, Links, ListStatus, Screening, Validators};
use tokio::sync::watch;

use crate::safe_browsing::{SafeBrowsing, SafeBrowsingService, SafeBrowsingSettings};
use crate::{BlocklistIndex, FlagSet, ParsedList, ProtectedHosts, Screen, parse};
use feed::Feed;
pub use lazy_screen::LazyScreen;
pub use loaded_list::ListEffect;
use loaded_list::{ListUpdate, LoadedList};
use moderator_blocks::ModeratorBlocks;
use screen_with_lookup::ScreenWithLookup;
pub use source::{ListLocation, ListSource};

/// How often the job polls the files. It reads a changed file once two polls find it the same, so
/// that it never reads a half-written list.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What the operator has configured.
#[derive(Clone)]
pub struct SafetySettings {
    /// The lists.
    pub lists: Vec<ConfiguredList>,
    /// How often lists are fetched from other servers.
    pub lists_every: Duration,
    /// Fetches them.
    pub client: Arc<dyn HttpClient>,
    /// Hosts that links must not lead to.
    pub blocked_hosts: Vec<String>,
    /// The flags that put a warning page before a link.
    pub warn_on: FlagSet,
    /// Safe Browsing, if there is a key for it.
    pub safe_browsing: Option<SafeBrowsingSettings>,
    /// The folder of the copies of lists from other servers.
    pub folder: PathBuf,
    /// The version of terse: a new one scans all links again.
    pub version: &'static str,
}

/// A list of the settings.
#[derive(Clone, Debug)]
pub struct ConfiguredList {
    /// The setting that names it.
    pub setting: &'static str,
    /// What a match does.
    pub effect: ListEffect,
    /// Where it comes from.
    pub source: ListSource,
}

/// A list in a file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {}: {why}", path.display())]
pub struct OpenListError {
    setting: &'static str,
    path: PathBuf,
    why: String,
}

/// The lists and the screen that they are compiled into.
pub struct Safety {
    /// Screens targets.
    pub screen: Arc<Screen>,
    /// Safe Browsing, for targets that the lists do not decide.
    pub service: Option<Arc<SafeBrowsingService>>,
    /// Counters of list updates.
    pub counts: Arc<ListCounts>,
    /// One per list of the settings, in the same order. The lock is held while lists are parsed and
    /// compiled, which runs off the async threads.
    held: Mutex<Vec<LoadedList>>,
    /// The operator's own hosts, as a list.
    blocked_hosts: ParsedList,
    /// The hosts that moderators have blocked.
    moderator_blocks: Mutex<ModeratorBlocks>,
    settings: SafetySettings,
    changed: watch::Sender<[u8; 32]>,
}

/// Reads blocklist files again when they change.
struct ListFiles {
    safety: Arc<Safety>,
}

#[async_trait]
impl Job for ListFiles {
    fn name(&self) -> &'static str {
        "blocklist files"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let safety = Arc::clone(&self.safety);
        tokio::task::spawn_blocking(move || safety.read_files()).await?;
        Ok(NextRun::Interval)
    }
}

/// Counters of list updates.
#[derive(Debug, Default)]
pub struct ListCounts {
    /// New versions accepted.
    pub taken: AtomicU64,
    /// Versions that were unchanged.
    pub unchanged: AtomicU64,
    /// New versions refused because they look broken.
    pub refused: AtomicU64,
    /// Versions that could not be read or fetched.
    pub failed: AtomicU64,
    /// Entries of blocklists in force.
    pub entries: AtomicU64,
    /// Entries of warn lists in force.
    pub warn_entries: AtomicU64,
    /// Lists without any version.
    pub missing: AtomicU64,
    /// Hosts that moderators have blocked.
    pub moderated: AtomicU64,
    /// Times that all lists were compiled into the index.
    pub compiled: AtomicU64,
}

impl Safety {
    /// Reads the local files. A file that cannot be read is an error here, and only a warning
    /// later. A list from another server starts with its cached copy; without one it is missing
    /// until fetched.
    pub fn open(
        settings: SafetySettings,
        hosts: &Hosts,
        clock: &Clock,
    ) -> Result<Self, OpenListError> {
        let safety = Self::without_lists(settings, clock);
        let mut held = Vec::new();
        for ConfiguredList { setting, effect, source } in &safety.settings.lists {
            let folder = &safety.settings.folder;
            let mut list = LoadedList::new(source.clone(), *effect, hosts.clone(), folder);
            match &source.place {
                ListLocation::File(path) => {
                    let failed = |why: String| OpenListError { setting, path: path.clone(), why };
                    match list.read_file(path).map_err(|error| failed(error.to_string()))? {
                        ListUpdate::Refused(why) => return Err(failed(why.to_owned())),
                        ListUpdate::Taken { .. } | ListUpdate::Same => {}
                    }
                }
                ListLocation::Url(_) => list.read_kept(),
            }
            held.push(list);
        }
        safety.compile(&held);
        *safety.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(safety)
    }

    /// Builds the screen without any list.
    fn without_lists(settings: SafetySettings, clock: &Clock) -> Self {
        let blocked = settings.blocked_hosts.join("\n");
        let guard = ProtectedHosts { own_hosts: Vec::new(), allow_platforms: true };
        let mut screen = Screen::new(settings.warn_on);
        let known =
            settings.safe_browsing.as_ref().map(|_| Arc::new(SafeBrowsing::new(clock.clone())));
        if let Some(known) = &known {
            screen = screen.with_safe_browsing(Arc::clone(known));
        }
        let screen = Arc::new(screen);
        let service = settings.safe_browsing.clone().zip(known).map(|(safe_browsing, known)| {
            let (folder, screen) = (&settings.folder, Arc::clone(&screen));
            Arc::new(SafeBrowsingService::open(safe_browsing, folder, known, screen, clock))
        });
        Self {
            service,
            screen,
            counts: Arc::default(),
            held: Mutex::default(),
            blocked_hosts: parse("blocked_hosts", blocked.as_bytes(), &guard),
            moderator_blocks: Mutex::new(ModeratorBlocks::new(&[])),
            settings,
            changed: watch::Sender::new([0; 32]),
        }
    }

    /// The screen, with requests to Safe Browsing if a key is configured.
    pub fn screen_with_lookup(&self) -> Arc<dyn Screening> {
        Arc::new(ScreenWithLookup {
            screen: Arc::clone(&self.screen),
            service: self.service.clone(),
        })
    }

    /// Identifies the current lists; notified at every change.
    pub fn changes(&self) -> watch::Receiver<[u8; 32]> {
        self.changed.subscribe()
    }

    /// The jobs that read changed files and fetch feeds, where the settings name any, and those of
    /// Safe Browsing.
    pub fn jobs(self: &Arc<Self>, links: &Arc<Links>) -> Vec<Box<dyn Job>> {
        let mut jobs: Vec<Box<dyn Job>> = Vec::new();
        let lists = &self.settings.lists;
        if lists.iter().any(|list| matches!(list.source.place, ListLocation::File(_))) {
            jobs.push(Box::new(ListFiles { safety: Arc::clone(self) }));
        }
        for (at, ConfiguredList { source, .. }) in lists.iter().enumerate() {
            if let ListLocation::Url(url) = &source.place {
                jobs.push(Box::new(Feed {
                    safety: Arc::clone(self),
                    client: Arc::clone(&self.settings.client),
                    every: self.settings.lists_every,
                    at,
                    name: source.name.clone(),
                    url: url.clone(),
                }));
            }
        }
        if let Some(service) = &self.service {
            jobs.extend(service.jobs(self, links));
        }
        jobs
    }

    /// Reads the files that have changed.
    fn read_files(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        for list in held.iter_mut() {
            match list.poll() {
                None => {}
                Some(Ok(offered)) => changed |= self.count(list.name(), offered),
                Some(Err(error)) => {
                    self.counts.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(list = list.name(), %error, "a list cannot be read; its \
                        last version stays in force");
                }
            }
        }
        if changed {
            self.compile(&held);
        }
    }

    /// Offers a fetched version of a list. Returns whether it was accepted.
    fn offer(&self, at: usize, bytes: &[u8], validators: &Validators) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(list) = held.get_mut(at) else { return false };
        let offered = list.offer(bytes);
        let (refused, name) = (matches!(offered, ListUpdate::Refused(_)), list.name().to_owned());
        if !refused {
            list.keep(bytes, validators);
        }
        if self.count(&name, offered) {
            self.compile(&held);
        }
        !refused
    }

    fn validators(&self, at: usize) -> Validators {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(at).map(LoadedList::validators).unwrap_or_default()
    }

    /// Logs and counts the result. Returns whether there is a new version.
    fn count(&self, name: &str, offered: ListUpdate) -> bool {
        let (counter, new) = match offered {
            ListUpdate::Taken { entries, skipped } => {
                tracing::info!(list = name, entries, skipped, "took a new version of a list");
                (&self.counts.taken, true)
            }
            ListUpdate::Same => (&self.counts.unchanged, false),
            ListUpdate::Refused(why) => {
                tracing::warn!(
                    list = name,
                    why,
                    "refused a new version of a list; the last one stays in force"
                );
                (&self.counts.refused, false)
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        new
    }

    /// Compiles all lists and puts the index in force.
    fn compile(&self, held: &[LoadedList]) {
        let lists = |effect| {
            held.iter().filter(move |list| list.effect() == effect).filter_map(LoadedList::parsed)
        };
        let index = BlocklistIndex::build(
            [&self.blocked_hosts].into_iter().chain(lists(ListEffect::Block)),
        );
        let warnings = BlocklistIndex::build(lists(ListEffect::Warn));
        self.counts.compiled.fetch_add(1, Ordering::Relaxed);
        self.counts.entries.store(index.len() as u64, Ordering::Relaxed);
        self.counts.warn_entries.store(warnings.len() as u64, Ordering::Relaxed);
        self.counts.missing.store(
            held.iter().filter(|list| list.parsed().is_none()).count() as u64,
            Ordering::Relaxed,
        );
        self.screen.replace(index);
        self.screen.replace_warnings(warnings);
        self.screen.set_lists(self.list_statuses(held));
        // After the indexes: receivers scan links with it.
        self.changed.send_replace(self.fingerprint(held));
    }

    /// The lists of the settings, for moderators. The screen counts their hits.
    fn list_statuses(&self, held: &[LoadedList]) -> Vec<ListStatus> {
        let own = &self.blocked_hosts;
        let own = (!own.is_empty()).then(|| (own.name(), true, Some(own.len())));
        let lists = held.iter().map(|list| {
            let entries = list.parsed().map(ParsedList::len);
            (list.name(), list.effect() == ListEffect::Block, entries)
        });
        let status = |(name, blocks, entries): (&str, bool, Option<usize>)| ListStatus {
            name: name.to_owned(),
            blocks,
            entries,
            hits: 0,
        };
        own.into_iter().chain(lists).map(status).collect()
    }

    /// Notifies receivers that lists outside the index have changed.
    pub(crate) fn announce(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.send_replace(self.fingerprint(&held));
    }

    fn fingerprint(&self, held: &[LoadedList]) -> [u8; 32] {
        let mut digest = Sha256::new();
        let SafetySettings { version, warn_on, blocked_hosts, .. } = &self.settings;
        digest.update(format!("{version} {warn_on} {}", blocked_hosts.join("\n")));
        for list in held {
            // Moving a list from one setting to the other changes its effect.
            digest.update([if list.effect() == ListEffect::Block { 0 } else { 2 }]);
            digest.update(list.name());
            digest.update(list.digest());
        }
        digest.update([1]);
        digest
            .update(self.moderator_blocks.lock().unwrap_or_else(PoisonError::into_inner).digest());
        if let Some(service) = &self.service {
            digest.update(service.fingerprint());
        }
        digest.finalize().into()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use terse_core::{GetResponse, OutgoingError, PostResponse, RequestLimits};

    use super::*;

    /// A client without a network.
    struct Offline;

    #[async_trait]
    impl HttpClient for Offline {
        async fn get_if_changed(
            &self,
            _url: &str,
            _limits: RequestLimits,
            _known: &Validators,
        ) -> Result<GetResponse, OutgoingError> {
            Err(OutgoingError::Busy)
        }

        async fn post(
            &self,
            _url: &str,
            _content_type: &str,
            _body: Vec<u8>,
            _headers: &[(&str, &str)],
        ) -> Result<PostResponse, OutgoingError> {
            Err(OutgoingError::Busy)
        }
    }

    /// Settings with these lists alone.
    pub(crate) fn settings(lists: Vec<ConfiguredList>) -> SafetySettings {
        SafetySettings {
            lists,
            lists_every: Duration::from_hours(1),
            client: Arc::new(Offline),
            blocked_hosts: Vec::new(),
            warn_on: FlagSet::default_warnings(),
            safe_browsing: None,
            folder: PathBuf::from("nowhere"),
            version: "1",
        }
    }
}
