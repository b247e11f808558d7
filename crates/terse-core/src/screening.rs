//! The screening contract: blocks targets or warns of them.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;

use crate::link::{Link, LinkKey, ModerationSource, ModerationStatus, OwnerId};
use crate::target::Target;
use crate::time::Timestamp;

/// The flag of a target that external services have not scanned yet. Removed by the next scan.
pub const UNSCREENED: &str = "unscreened";

/// Screens targets when a link is created or changed, and again when lists change.
#[async_trait]
pub trait Screening: Send + Sync + 'static {
    /// Screens a target. Must not block.
    fn screen(&self, target: &Target, input: ScreenInput<'_>) -> ScreenResult;

    /// Whether the target is blocked, as in [`ScreenResult::Blocked`]. Called often, so it should
    /// be fast. Must not block.
    fn blocks(&self, target: &Target) -> bool {
        let kept = ScreenInput::Stored {
            flags: &LinkFlags::default(),
            moderation: ModerationStatus::Clear,
        };
        matches!(self.screen(target, kept), ScreenResult::Blocked { .. })
    }

    /// The entry of a list for which a link to this target has a status: one that blocks it, or
    /// one that warns of it. For moderators only. Must not block.
    fn list_match(&self, _target: &Target, _status: ModerationStatus) -> Option<ListMatch> {
        None
    }

    /// The lists that targets are compared with, and how often each matched a new target. Must not
    /// block.
    fn lists(&self) -> Vec<ListStatus> {
        Vec::new()
    }

    /// Changes whenever the result for a target may change. A caller that screens and then writes
    /// compares the version again, because the data may have changed in between.
    fn version(&self) -> u64 {
        0
    }

    /// Requests missing data from external services, within about a second. A failure is not an
    /// error: the target is then scanned with local data.
    async fn prepare(&self, _target: &Target) {}

    /// Whether an external request would add information about a target. Must not block.
    fn needs_lookup(&self, _target: &Target) -> bool {
        false
    }

    /// Queues a link whose target could not be scanned completely for another scan. Must not
    /// block, and may drop links if there are too many.
    fn revisit(&self, _key: &LinkKey, _target: &Target) {}

    /// Whether a canonical host may be blocked with its subdomains: not a whole registry such as
    /// `com`.
    fn is_blockable(&self, _host: &str) -> bool {
        true
    }

    /// The sentence for a flag on the warning page.
    fn sentence(&self, _flag: &str) -> Option<&'static str> {
        None
    }
}

/// A match on a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListMatch {
    /// The name of the list.
    pub list: String,
    /// What its entry names.
    pub kind: EntryKind,
}

/// A list that targets are compared with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListStatus {
    /// Its name in the settings; `moderators` for hosts that moderators block.
    pub name: String,
    /// Whether a match blocks a target. Otherwise it warns of it.
    pub blocks: bool,
    /// The entries in force; `None` if no version of the list could be read yet, or if a service
    /// holds them.
    pub entries: Option<usize>,
    /// How many new or changed targets it matched since this process started.
    pub hits: u64,
}

/// What an entry of a list names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EntryKind {
    /// A host with its subdomains.
    Host,
    /// One URL.
    Url,
}

impl EntryKind {
    /// The stable name, as the API and the audit log show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Url => "url",
        }
    }
}

/// The input besides the target.
#[derive(Clone, Copy, Debug)]
pub enum ScreenInput<'a> {
    /// The entered text that was parsed into the target.
    Text(&'a str),
    /// The earlier result. The entered text is not stored, so flags that only it could raise are
    /// taken from here.
    Stored {
        /// The stored flags.
        flags: &'a LinkFlags,
        /// The stored moderation status.
        moderation: ModerationStatus,
    },
}

/// The result of screening.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ScreenResult {
    /// Allowed. The flags, if any, are recorded without a warning.
    Clear(LinkFlags),
    /// Visitors see a warning with these reasons.
    Suspicious(LinkFlags),
    /// Blocked.
    Blocked {
        /// The name of the list, for the operator only.
        source: String,
    },
}

/// Allows everything: for programs without lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoScreening;

impl Screening for NoScreening {
    fn screen(&self, _target: &Target, input: ScreenInput<'_>) -> ScreenResult {
        ScreenResult::Clear(match input {
            ScreenInput::Text(_) => LinkFlags::default(),
            ScreenInput::Stored { flags, .. } => flags.clone(),
        })
    }
}

/// The flag of a link that several reporters have reported. Only a moderator removes it, not the
/// screening.
pub const REPORTED: &str = "reported";

/// The stable names of warning flags. The screening defines them.
#[derive(Clone, Default, Eq, Hash, PartialEq)]
pub struct LinkFlags(Box<str>);

impl LinkFlags {
    /// Takes names of lower-case letters and underscores; ignores others.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let is_word = |word: &&str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let words: Vec<&str> = words.into_iter().filter(is_word).collect();
        Self(words.join(",").into())
    }

    /// Reads stored flags.
    pub fn from_stored(joined: &str) -> Self {
        Self(joined.into())
    }

    /// The names, joined by commas.
    pub fn joined(&self) -> &str {
        &self.0
    }

    /// The union, sorted.
    fn and(&self, others: &Self) -> Self {
        let words: BTreeSet<&str> = self.iter().chain(others.iter()).collect();
        Self::new(words)
    }

    /// Whether there are no flags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a flag is set.
    pub fn contains(&self, word: &str) -> bool {
        self.iter().any(|have| have == word)
    }

    /// Adds a flag.
    #[must_use]
    pub fn with(&self, word: &str) -> Self {
        if self.contains(word) { self.clone() } else { Self::new(self.iter().chain([word])) }
    }

    /// Removes a flag.
    #[must_use]
    pub fn without(&self, word: &str) -> Self {
        Self::new(self.iter().filter(|have| *have != word))
    }

    /// The flags.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').filter(|word| !word.is_empty())
    }
}

impl fmt::Debug for LinkFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkFlags({})", self.0)
    }
}

impl ScreenResult {
    /// Combines the results for two targets of the same link: the worse result and the flags of
    /// both, because a visitor cannot choose between them.
    pub(crate) fn and(self, other: Self) -> Self {
        use ScreenResult::*;
        match (self, other) {
            (Blocked { source }, _) | (_, Blocked { source }) => Blocked { source },
            (Clear(these), Clear(those)) => Clear(these.and(&those)),
            (Clear(these) | Suspicious(these), Clear(those) | Suspicious(those)) => {
                Suspicious(these.and(&those))
            }
        }
    }
}

/// The flag of a link whose target has been unreachable for days. The link checker sets and removes
/// it.
pub const UNREACHABLE: &str = "unreachable";

/// The moderation status of a link of this owner for a result.
pub(crate) fn moderation(
    result: ScreenResult,
    owner: OwnerId,
    flags: &LinkFlags,
) -> (ModerationStatus, LinkFlags) {
    match result {
        ScreenResult::Clear(flags) => (ModerationStatus::Clear, flags),
        // The operator's own links are not warned of, but lists still block them.
        ScreenResult::Suspicious(flags) if owner == OwnerId::ADMIN => {
            (ModerationStatus::Clear, flags)
        }
        ScreenResult::Suspicious(flags) => (ModerationStatus::Suspicious, flags),
        ScreenResult::Blocked { .. } => (ModerationStatus::Blocked, flags.clone()),
    }
}

/// A reported link keeps at least a warning, whatever the screening result.
pub(crate) fn still_reported(
    link: &Link,
    (moderation, flags): (ModerationStatus, LinkFlags),
) -> (ModerationStatus, LinkFlags) {
    if !link.flags.contains(REPORTED) {
        return (moderation, flags);
    }
    (
        if moderation == ModerationStatus::Clear {
            ModerationStatus::Suspicious
        } else {
            moderation
        },
        flags.with(REPORTED),
    )
}

/// A stored link with the current screening result, or `None` if nothing changes. A moderator's
/// decision is kept.
pub(crate) fn screened(screen: &dyn Screening, link: &Link, now: Timestamp) -> Option<Link> {
    with_screening_of(screen, link, link, now)
}

/// A stored link after enough reports, or `None` if nothing changes. A moderator's decision is
/// kept.
pub(crate) fn reported(screen: &dyn Screening, link: &Link, now: Timestamp) -> Option<Link> {
    with_screening_of(screen, link, &Link { flags: link.flags.with(REPORTED), ..link.clone() }, now)
}

/// The link with the screening result for `known`.
fn with_screening_of(
    screen: &dyn Screening,
    link: &Link,
    known: &Link,
    now: Timestamp,
) -> Option<Link> {
    if link.moderated_by == ModerationSource::Moderator {
        return None;
    }
    let kept = ScreenInput::Stored { flags: &known.flags, moderation: known.moderation };
    let result =
        known.targets().map(|target| screen.screen(target, kept)).reduce(ScreenResult::and)?;
    let (moderation, flags) = still_reported(known, moderation(result, known.owner, &known.flags));
    let flags = if link.flags.contains(UNREACHABLE) { flags.with(UNREACHABLE) } else { flags };
    if (moderation, &flags) == (link.moderation, &link.flags) {
        return None;
    }
    let mut new = Link { moderation, flags, ..link.clone() };
    new.reusable &= moderation != ModerationStatus::Blocked;
    new.updated_at = now.max(link.updated_at);
    new.revision.0 += 1;
    Some(new)
}
