//! Screens targets against blocklists, Safe Browsing and warning flags.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use terse_core::{ListStatus, ModerationStatus, Target};

use crate::flag::{Flag, FlagSet};
use crate::index::{BlocklistIndex, IndexMatch, MatchKind};
use crate::safe_browsing::{SafeBrowsing, SafeBrowsingStatus};
use crate::url_parts::UrlParts;
use crate::{flags, input_flags, open_redirect};

/// The result of screening a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Allowed. The flags, if any, are recorded.
    Clear(FlagSet),
    /// Visitors see a warning with these reasons.
    Suspicious(FlagSet),
    /// Refused.
    Blocked(BlockingMatch),
}

/// Why a target is blocked. Owns its strings, so it outlives the index.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BlockingMatch {
    /// The name of the list.
    pub source: String,
    /// What the entry names.
    pub kind: MatchKind,
    /// The host, or the URL without its scheme and query. Safe to log.
    pub entry: String,
}

/// Screens targets against the current lists. Shared between threads; lists are replaced while it
/// is in use.
#[derive(Debug)]
pub struct Screen {
    /// The lock is held only while the pointer is copied or replaced.
    index: RwLock<Arc<BlocklistIndex>>,
    /// A small index of its own for entries that change one at a time, such as hosts that
    /// moderators block. Changing it does not compile the lists again.
    overlay: RwLock<Arc<BlocklistIndex>>,
    /// The warn lists: a match warns and does not block.
    warnings: RwLock<Arc<BlocklistIndex>>,
    safe_browsing: Option<Arc<SafeBrowsing>>,
    warn_on: FlagSet,
    /// The lists of the settings, as moderators see them.
    lists: RwLock<Vec<ListStatus>>,
    /// How many new targets each list matched, by its name.
    hits: Mutex<HashMap<String, u64>>,
    /// Counts changes of lists and Safe Browsing data.
    version: AtomicU64,
}

/// The source name of blocks by Safe Browsing.
pub const SAFE_BROWSING: &str = "Safe Browsing";
/// The source name of hosts that moderators have blocked.
pub(crate) const MODERATORS: &str = "moderators";

impl Screen {
    /// A screen without lists that warns of these flags.
    pub fn new(warn_on: FlagSet) -> Self {
        Self {
            index: RwLock::default(),
            overlay: RwLock::default(),
            warnings: RwLock::default(),
            safe_browsing: None,
            warn_on,
            lists: RwLock::default(),
            hits: Mutex::default(),
            version: AtomicU64::new(0),
        }
    }

    /// Also checks Safe Browsing.
    #[must_use]
    pub fn with_safe_browsing(self, safe_browsing: Arc<SafeBrowsing>) -> Self {
        Self { safe_browsing: Some(safe_browsing), ..self }
    }

    /// Replaces all blocklists at once. Checks in progress finish with the old lists.
    pub fn replace(&self, index: BlocklistIndex) {
        self.swap(&self.index, index);
    }

    /// Replaces all warn lists at once; the blocklists stay as they are.
    pub fn replace_warnings(&self, index: BlocklistIndex) {
        self.swap(&self.warnings, index);
    }

    /// Replaces the overlay at once; the lists stay as they are.
    pub fn replace_overlay(&self, overlay: BlocklistIndex) {
        self.swap(&self.overlay, overlay);
    }

    fn swap(&self, place: &RwLock<Arc<BlocklistIndex>>, index: BlocklistIndex) {
        let old = std::mem::replace(
            &mut *place.write().unwrap_or_else(PoisonError::into_inner),
            Arc::new(index),
        );
        // After the lists: a caller that reads the new version screens by the new lists, and a
        // caller that screened by the old lists sees that the version changed.
        self.bump_version();
        drop(old); // after unlocking: freeing millions of entries takes time
    }

    /// Sets the lists that [`Screen::list_statuses`] shows; their hits are counted here.
    pub(crate) fn set_lists(&self, lists: Vec<ListStatus>) {
        *self.lists.write().unwrap_or_else(PoisonError::into_inner) = lists;
    }

    /// All lists, those of the settings first.
    pub(crate) fn list_statuses(&self) -> Vec<ListStatus> {
        let mut lists = self.lists.read().unwrap_or_else(PoisonError::into_inner).clone();
        let overlay = self.overlay.read().unwrap_or_else(PoisonError::into_inner).len();
        let (name, blocks, hits) = (MODERATORS.to_owned(), true, 0);
        lists.push(ListStatus { name, blocks, entries: Some(overlay), hits });
        if self.safe_browsing.is_some() {
            let name = SAFE_BROWSING.to_owned();
            lists.push(ListStatus { name, blocks, entries: None, hits });
        }
        let counted = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        for list in &mut lists {
            list.hits = counted.get(&list.name).copied().unwrap_or_default();
        }
        lists
    }

    /// Counts a match of a new target. The names are those of the settings, which are few.
    pub(crate) fn count_hit(&self, list: String) {
        *self.hits.lock().unwrap_or_else(PoisonError::into_inner).entry(list).or_default() += 1;
    }

    /// Records a change outside the lists. Call it after the change, so that a caller that reads
    /// the new version screens by the new data.
    pub fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes with every change of lists or Safe Browsing data.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The entry of the overlay or of the lists that blocks a target.
    fn find(&self, target: &Target) -> Option<BlockingMatch> {
        [&self.overlay, &self.index].into_iter().find_map(|place| find_in(place, target))
    }

    /// The entry of the warn lists that matches a target.
    pub fn warning_match(&self, target: &Target) -> Option<BlockingMatch> {
        find_in(&self.warnings, target)
    }

    /// The entry for which a target is blocked. Safe Browsing also counts while it has no answer: a
    /// link that it blocked stays blocked until then.
    pub fn blocking_match(&self, target: &Target) -> Option<BlockingMatch> {
        self.find(target).or_else(|| {
            let by_service = matches!(
                self.safe_browsing_status(target),
                SafeBrowsingStatus::Threat | SafeBrowsingStatus::Unknown
            );
            by_service.then(|| by_safe_browsing(target))
        })
    }

    /// Screens the target of an existing link. `stored` are the link's flags: those that only the
    /// entered text could raise are carried over.
    pub fn check(&self, target: &Target, stored: FlagSet) -> Verdict {
        self.recheck(target, stored, ModerationStatus::Clear)
    }

    /// Screens the target of a link with this moderation status again. While Safe Browsing has no
    /// answer, a blocked link stays blocked, and a screened link does not become unscreened.
    pub fn recheck(&self, target: &Target, stored: FlagSet, status: ModerationStatus) -> Verdict {
        let safe_browsing = match self.safe_browsing_status(target) {
            SafeBrowsingStatus::Unknown if status == ModerationStatus::Blocked => {
                SafeBrowsingStatus::Threat
            }
            SafeBrowsingStatus::Unknown | SafeBrowsingStatus::CleanByStaleLists
                if !stored.contains(Flag::Unscreened) =>
            {
                SafeBrowsingStatus::Clean
            }
            status => status,
        };
        self.verdict(target, stored.intersection(FlagSet::from_input()), safe_browsing)
    }

    /// Screens a new target, including the text as it was entered.
    pub fn check_input(&self, text: &str, target: &Target) -> Verdict {
        self.verdict(target, input_flags(text, target), self.safe_browsing_status(target))
    }

    /// Whether a list or Safe Browsing blocks a target. Does not compute flags.
    pub fn blocks(&self, target: &Target) -> bool {
        self.find(target).is_some()
            || self.safe_browsing.as_ref().is_some_and(|lists| lists.is_threat(target))
    }

    fn safe_browsing_status(&self, target: &Target) -> SafeBrowsingStatus {
        self.safe_browsing
            .as_ref()
            .map_or(SafeBrowsingStatus::Clean, |safe_browsing| safe_browsing.status(target))
    }

    fn verdict(
        &self,
        target: &Target,
        more: FlagSet,
        safe_browsing: SafeBrowsingStatus,
    ) -> Verdict {
        if let Some(block) = self.find(target) {
            return Verdict::Blocked(block);
        }
        let mut flags = flags(target).union(more);
        if self.warning_match(target).is_some() {
            flags.insert(Flag::OnWarnList);
        }
        match safe_browsing {
            SafeBrowsingStatus::Threat => return Verdict::Blocked(by_safe_browsing(target)),
            SafeBrowsingStatus::Unknown | SafeBrowsingStatus::CleanByStaleLists => {
                flags.insert(Flag::Unscreened);
            }
            SafeBrowsingStatus::Clean => {}
        }
        if flags.intersection(self.warn_on).is_empty() && !flags.contains(Flag::OnWarnList) {
            Verdict::Clear(flags)
        } else {
            Verdict::Suspicious(flags)
        }
    }
}

fn by_safe_browsing(target: &Target) -> BlockingMatch {
    let entry = UrlParts::of(target).map(|parts| parts.host.to_owned()).unwrap_or_default();
    BlockingMatch { source: SAFE_BROWSING.into(), kind: MatchKind::Url, entry }
}

fn find_in(place: &RwLock<Arc<BlocklistIndex>>, target: &Target) -> Option<BlockingMatch> {
    let index = Arc::clone(&place.read().unwrap_or_else(PoisonError::into_inner));
    let IndexMatch { source, kind, entry } = find(&index, target)?;
    Some(BlockingMatch { source: source.to_owned(), kind, entry })
}

/// Also checks the target of a known open redirect, so that a well-known site cannot hide a listed
/// one.
fn find<'a>(index: &'a BlocklistIndex, target: &Target) -> Option<IndexMatch<'a>> {
    index.find(target).or_else(|| index.find(&open_redirect::destination(target)?))
}

/// Warns of the default flags.
impl Default for Screen {
    fn default() -> Self {
        Self::new(FlagSet::default_warnings())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::list::{ProtectedHosts, parse};

    fn target(text: &str) -> Target {
        Target::parse(text, &Default::default()).unwrap()
    }

    fn index(text: &str) -> BlocklistIndex {
        BlocklistIndex::build(&[parse("feed", text.as_bytes(), &ProtectedHosts::default())])
    }

    #[test]
    fn an_overlay_blocks_beside_the_lists() {
        let screen = Screen::default();
        screen.replace(index("listed.example"));
        let version = screen.version();
        screen.replace_overlay(index("added.example"));
        assert!(screen.version() > version);
        let blocked =
            |text: &str| matches!(screen.check(&target(text), FlagSet::NONE), Verdict::Blocked(_));
        assert!(blocked("https://a.added.example/") && blocked("https://listed.example/"));
        assert!(blocked("https://www.google.com/url?q=https://added.example/"));
        screen.replace_overlay(BlocklistIndex::default());
        assert!(!blocked("https://added.example/") && blocked("https://listed.example/"));
    }

    #[test]
    fn a_warn_list_warns_whatever_the_other_settings_say() {
        let screen = Screen::new(FlagSet::NONE);
        screen.replace_warnings(index("new.example\nhttps://old.example/page"));
        let listed: FlagSet = [Flag::OnWarnList].into_iter().collect();
        for text in [
            "https://new.example/",
            "https://a.NEW.example./x",
            "https://old.example/page",
            "https://www.google.com/url?q=https://new.example/",
        ] {
            let verdict = screen.check(&target(text), FlagSet::NONE);
            let Verdict::Suspicious(flags) = verdict else { panic!("{text}: {verdict:?}") };
            assert!(flags.contains(Flag::OnWarnList), "{text}");
            assert!(!screen.blocks(&target(text)), "{text}");
        }
        let other = target("https://old.example/other");
        assert_eq!(screen.check(&other, FlagSet::NONE), Verdict::Clear(FlagSet::NONE));
        // The flag is not taken from the stored ones: a target that left the list is cleared.
        assert_eq!(screen.check(&other, listed), Verdict::Clear(FlagSet::NONE));
        screen.replace(index("new.example"));
        let both = screen.check(&target("https://new.example/"), FlagSet::NONE);
        assert!(matches!(both, Verdict::Blocked(_)), "a block takes precedence");
    }

    #[test]
    fn a_block_takes_precedence_over_flags() {
        let screen = Screen::default();
        let link = target("https://u@paypa1.com/");
        assert_eq!(
            screen.check(&link, FlagSet::NONE),
            Verdict::Suspicious([Flag::Userinfo, Flag::LookAlike].into_iter().collect())
        );
        screen.replace(index("paypa1.com"));
        let block = BlockingMatch {
            source: "feed".into(),
            kind: MatchKind::Host,
            entry: "paypa1.com".into(),
        };
        assert_eq!(screen.check(&link, FlagSet::NONE), Verdict::Blocked(block));
        screen.replace(BlocklistIndex::default());
        assert_eq!(
            screen.check(&target("https://example.com/"), FlagSet::NONE),
            Verdict::Clear(FlagSet::NONE)
        );
    }

    #[test]
    fn an_open_redirect_is_followed() {
        let screen = Screen::default();
        let link = target("https://www.google.com/url?q=https://evil.example/");
        assert_eq!(
            screen.check(&link, FlagSet::NONE),
            Verdict::Suspicious([Flag::OpenRedirect].into_iter().collect())
        );
        screen.replace(index("evil.example"));
        let Verdict::Blocked(block) = screen.check(&link, FlagSet::NONE) else { panic!() };
        assert_eq!(block.entry, "evil.example");
    }

    #[test]
    fn the_operator_chooses_which_flags_warn() {
        let (link, screen) =
            (target("https://bit.ly/x"), Screen::new([Flag::NumericHost].into_iter().collect()));
        let numeric = [Flag::NumericHost].into_iter().collect();
        assert_eq!(
            screen.check(&link, FlagSet::NONE),
            Verdict::Clear([Flag::Shortener].into_iter().collect())
        );
        assert!(matches!(
            screen.check(&target("http://8.8.8.8/"), FlagSet::NONE),
            Verdict::Suspicious(_)
        ));
        assert_eq!(
            Screen::default().check(&target("http://8.8.8.8/"), FlagSet::NONE),
            Verdict::Clear(numeric)
        );
        assert!(matches!(
            Screen::default().check_input("http://134744072/", &target("http://134744072/")),
            Verdict::Suspicious(_)
        ));
    }

    #[test]
    fn input_flags_are_kept_and_other_flags_are_recomputed() {
        let stored = [Flag::DisguisedText, Flag::Shortener].into_iter().collect();
        let verdict = Screen::default().check(&target("https://example.com/"), stored);
        assert_eq!(verdict, Verdict::Suspicious([Flag::DisguisedText].into_iter().collect()));
    }

    #[test]
    fn lists_are_replaced_while_threads_check() {
        let screen = Screen::default();
        thread::scope(|scope| {
            let checker = scope.spawn(|| {
                let link = target("https://a.evil.example/");
                (0..20_000)
                    .filter(|_| matches!(screen.check(&link, FlagSet::NONE), Verdict::Blocked(_)))
                    .count()
            });
            for _ in 0..200 {
                screen.replace(index("evil.example"));
                screen.replace(index("other.example"));
            }
            screen.replace(index("evil.example"));
            assert!(checker.join().unwrap() <= 20_000);
        });
        assert!(matches!(
            screen.check(&target("https://evil.example/"), FlagSet::NONE),
            Verdict::Blocked(_)
        ));
    }
}
