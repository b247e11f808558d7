//! Blocklists and warn lists: read at start, read again when they change, and compiled into the
//! indexes that screen every target.

mod cache_rescreen;
mod cached_copy;
mod feed;
mod lazy_screen;
mod loaded_list;
mod moderator_blocks;
mod safe_browsing;
mod screen_with_lookup;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use terse_core::{BoxError, Clock, Hosts, Screening};
use terse_outgoing::{Outgoing, OutgoingSettings, Validators};
use terse_safety::safe_browsing::SafeBrowsing;
use terse_safety::{Flag, FlagSet, Index, ParsedList, ProtectedHosts, Screen};
use terse_worker::{Context, Fingerprint, Job, Next, Scheduler};
use tokio::sync::watch;

use crate::config::{Config, ListPlace, ListSource};
pub(crate) use cache_rescreen::CacheRescreen;
use feed::Feed;
pub(crate) use lazy_screen::LazyScreen;
use loaded_list::{ListEffect, ListUpdate, LoadedList};
use moderator_blocks::ModeratorBlocks;
pub(crate) use safe_browsing::{Service, is_loopback};
use screen_with_lookup::ScreenWithLookup;

/// How often the job polls the files. It reads a changed file once two polls find it the same, so
/// that it never reads a half-written list.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The lists and the screen that they are compiled into.
pub(crate) struct Safety {
    /// Screens targets.
    pub(crate) screen: Arc<Screen>,
    /// Safe Browsing, which is asked if the lists do not decide.
    pub(crate) service: Option<Arc<Service>>,
    /// Counters of list updates.
    pub(crate) counts: Arc<ListCounts>,
    /// One per source, in the order of [`sources`]. The lock is held while lists are parsed and
    /// compiled, which runs off the async threads.
    held: Mutex<Vec<LoadedList>>,
    /// The operator's own hosts, as a list.
    blocked_hosts: ParsedList,
    /// The hosts that moderators have blocked.
    moderator_blocks: Mutex<ModeratorBlocks>,
    settings: String,
    changed: watch::Sender<Fingerprint>,
    every: Duration,
    folder: PathBuf,
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

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        let safety = Arc::clone(&self.safety);
        tokio::task::spawn_blocking(move || safety.read_files()).await?;
        Ok(Next::Interval)
    }
}

/// Counters of list updates.
#[derive(Debug, Default)]
pub(crate) struct ListCounts {
    /// New versions accepted.
    pub(crate) taken: AtomicU64,
    /// Versions that were unchanged.
    pub(crate) unchanged: AtomicU64,
    /// New versions refused because they look broken.
    pub(crate) refused: AtomicU64,
    /// Versions that could not be read or fetched.
    pub(crate) failed: AtomicU64,
    /// Entries of blocklists in force.
    pub(crate) entries: AtomicU64,
    /// Entries of warn lists in force.
    pub(crate) warn_entries: AtomicU64,
    /// Lists without any version.
    pub(crate) missing: AtomicU64,
    /// Hosts that moderators have blocked.
    pub(crate) moderated: AtomicU64,
    /// Times that all lists were compiled into the index.
    pub(crate) compiled: AtomicU64,
}

/// The lists of the settings: the blocklists, then the warn lists.
fn sources(config: &Config) -> impl Iterator<Item = (&'static str, ListEffect, &ListSource)> {
    let (block, warn) = (&config.safety.lists.0, &config.safety.warn_lists.0);
    let block = block.iter().map(|source| ("safety.lists", ListEffect::Block, source));
    block.chain(warn.iter().map(|source| ("safety.warn_lists", ListEffect::Warn, source)))
}

impl Safety {
    /// Reads the local files. A file that cannot be read is an error here, and only a warning
    /// later. A list from another server starts with its cached copy; without one it is missing
    /// until fetched.
    pub(crate) fn open(config: &Config, hosts: &Hosts, clock: &Clock) -> anyhow::Result<Self> {
        let safety = Self::closed(config, clock);
        let mut held = Vec::new();
        for (setting, effect, source) in sources(config) {
            let mut list = LoadedList::new(source.clone(), effect, hosts.clone(), &safety.folder);
            match &source.place {
                ListPlace::File(path) => {
                    let offered = list
                        .read_file(path)
                        .with_context(|| format!("{setting}: {}", path.display()))?;
                    if let ListUpdate::Refused(why) = offered {
                        anyhow::bail!("{setting}: {}: {why}", path.display());
                    }
                }
                ListPlace::Url(_) => list.read_kept(),
            }
            held.push(list);
        }
        safety.compile(&held);
        *safety.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(safety)
    }

    /// Builds the screen without any list.
    fn closed(config: &Config, clock: &Clock) -> Self {
        let warn_on: FlagSet =
            config.safety.warn_on.iter().filter_map(|word| Flag::parse(word)).collect();
        let blocked = config.safety.blocked_hosts.join("\n");
        let guard = ProtectedHosts { own_hosts: Vec::new(), allow_platforms: true };
        let folder = config.data_dir.join("lists");
        let known = Arc::new(SafeBrowsing::new(clock.clone()));
        let screen = match config.safety.safe_browsing_key {
            Some(_) => Arc::new(Screen::new(warn_on).with_safe_browsing(Arc::clone(&known))),
            None => Arc::new(Screen::new(warn_on)),
        };
        Self {
            service: Service::open(config, &folder, &known, &screen, clock).map(Arc::new),
            screen,
            counts: Arc::default(),
            held: Mutex::default(),
            blocked_hosts: terse_safety::parse("blocked_hosts", blocked.as_bytes(), &guard),
            moderator_blocks: Mutex::new(ModeratorBlocks::new(&[])),
            settings: format!("{} {warn_on} {blocked}", env!("CARGO_PKG_VERSION")),
            changed: watch::Sender::new([0; 32]),
            every: config.safety.lists_every.get(),
            folder,
        }
    }

    /// The screen, with requests to Safe Browsing if a key is configured.
    pub(crate) fn judging(&self) -> Arc<dyn Screening> {
        Arc::new(ScreenWithLookup {
            screen: Arc::clone(&self.screen),
            service: self.service.clone(),
        })
    }

    /// Identifies the current lists; notified at every change.
    pub(crate) fn changes(&self) -> watch::Receiver<Fingerprint> {
        self.changed.subscribe()
    }

    /// The folder of the copies.
    pub(crate) fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Adds the jobs that read changed files and fetch feeds, where the settings name any.
    pub(crate) fn add_jobs(
        self: &Arc<Self>,
        config: &Config,
        base_url: &str,
        scheduler: &mut Scheduler,
    ) {
        if sources(config).any(|(_, _, source)| matches!(source.place, ListPlace::File(_))) {
            scheduler.add(ListFiles { safety: Arc::clone(self) });
        }
        let mut settings = OutgoingSettings::new(env!("CARGO_PKG_VERSION"), base_url);
        settings.allow_private = config.safety.allow_private_targets;
        // The client starts no thread and sends no request before a feed is due.
        let outgoing = Arc::new(Outgoing::new(settings));
        for (at, (_, _, source)) in sources(config).enumerate() {
            if let ListPlace::Url(url) = &source.place {
                scheduler.add(Feed {
                    safety: Arc::clone(self),
                    outgoing: Arc::clone(&outgoing),
                    every: self.every,
                    at,
                    name: source.name.clone(),
                    url: url.clone(),
                });
            }
        }
    }

    /// Reads the files that have changed.
    fn read_files(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        for list in held.iter_mut() {
            match list.look() {
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
        let index = Index::build([&self.blocked_hosts].into_iter().chain(lists(ListEffect::Block)));
        let warnings = Index::build(lists(ListEffect::Warn));
        self.counts.compiled.fetch_add(1, Ordering::Relaxed);
        self.counts.entries.store(index.len() as u64, Ordering::Relaxed);
        self.counts.warn_entries.store(warnings.len() as u64, Ordering::Relaxed);
        self.counts.missing.store(
            held.iter().filter(|list| list.parsed().is_none()).count() as u64,
            Ordering::Relaxed,
        );
        self.screen.replace(index);
        self.screen.replace_warnings(warnings);
        // After the indexes: receivers scan links with it.
        self.changed.send_replace(self.fingerprint(held));
    }

    /// Notifies receivers that lists outside the index have changed.
    fn announce(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.send_replace(self.fingerprint(&held));
    }

    fn fingerprint(&self, held: &[LoadedList]) -> Fingerprint {
        let mut digest = Sha256::new();
        digest.update(&self.settings);
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
