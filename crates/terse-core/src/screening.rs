//! Screening: what is thought of a target before anybody follows it.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;

use crate::link::{Link, LinkKey, ModerationSource, ModerationStatus, OwnerId};
use crate::target::Target;
use crate::time::Timestamp;

/// The flag of a target about which those who know could not be asked yet. It goes when they were.
pub const UNSCREENED: &str = "unscreened";

/// Who judges targets. Asked when a link is made or led elsewhere, and again when more has become
/// known.
#[async_trait]
pub trait Screening: Send + Sync + 'static {
    /// Judges a target. Must not wait for anything.
    fn judge(&self, target: &Target, evidence: Evidence<'_>) -> Judgement;

    /// Whether nobody is to be sent to this target: the same as [`Judgement::Blocked`], for those
    /// who need no more than that and ask often. Must not wait for anything.
    fn blocks(&self, target: &Target) -> bool {
        let kept = Evidence::Kept { flags: &Flags::default(), standing: ModerationStatus::Clear };
        matches!(self.judge(target, kept), Judgement::Blocked { .. })
    }

    /// Changes whenever a target may be judged otherwise than before. Whoever judged and then wrote
    /// looks here again: what was learned in between is not in what was written.
    fn version(&self) -> u64 {
        0
    }

    /// Asks elsewhere, if this target cannot be judged well without and if it can be done within a
    /// second or so. Failing is no error: then the target is judged by what is known here.
    async fn prepare(&self, _target: &Target) {}

    /// Whether asking elsewhere would tell more of a target than is known here. Must not wait for
    /// anything.
    fn is_unsure(&self, _target: &Target) -> bool {
        false
    }

    /// A link whose target could not be judged well: it is to be judged again when more is known.
    /// Must not wait for anything, and may be forgotten where there are too many.
    fn revisit(&self, _key: &LinkKey, _target: &Target) {}

    /// Whether a canonical host, with all names below it, is not too much to block: not a whole
    /// registry such as `com`.
    fn is_blockable(&self, _host: &str) -> bool {
        true
    }

    /// A flag in a sentence, for the visitor who is asked to look twice.
    fn sentence(&self, _flag: &str) -> Option<&'static str> {
        None
    }
}

/// What there is besides the target itself.
#[derive(Clone, Copy, Debug)]
pub enum Evidence<'a> {
    /// What somebody typed, from which the target was made.
    Typed(&'a str),
    /// What was found earlier. The typed text is gone, so what only it could show is taken from
    /// here.
    Kept {
        /// What was odd.
        flags: &'a Flags,
        /// What it came to.
        standing: ModerationStatus,
    },
}

/// What is thought of a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Judgement {
    /// Let visitors go there. The flags, if any, are worth a note but no warning.
    Clear(Flags),
    /// Warn visitors, for these reasons among them.
    Suspicious(Flags),
    /// Send nobody there.
    Blocked {
        /// Whose word it is: the name of a list. For the operator, not for strangers.
        source: String,
    },
}

/// Lets everything pass: for programs that have no lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoScreening;

impl Screening for NoScreening {
    fn judge(&self, _target: &Target, evidence: Evidence<'_>) -> Judgement {
        Judgement::Clear(match evidence {
            Evidence::Typed(_) => Flags::default(),
            Evidence::Kept { flags, .. } => flags.clone(),
        })
    }
}

/// The flag of a link that several people have reported. Not the screen's word: no list and no new
/// target takes it away, only a moderator does.
pub const REPORTED: &str = "reported";

/// What is odd about a target, in words that programs may rely on. Which words there are is for the
/// screening to say.
#[derive(Clone, Default, Eq, Hash, PartialEq)]
pub struct Flags(Box<str>);

impl Flags {
    /// From words of small letters and underscores; what is no such word is left out.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let is_word = |word: &&str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let words: Vec<&str> = words.into_iter().filter(is_word).collect();
        Self(words.join(",").into())
    }

    /// As a store wrote them.
    pub fn from_stored(joined: &str) -> Self {
        Self(joined.into())
    }

    /// The words, joined by commas.
    pub fn joined(&self) -> &str {
        &self.0
    }

    /// These and those, in the order of the alphabet.
    fn and(&self, others: &Self) -> Self {
        let words: BTreeSet<&str> = self.iter().chain(others.iter()).collect();
        Self::new(words)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this word is among them.
    pub fn contains(&self, word: &str) -> bool {
        self.iter().any(|have| have == word)
    }

    /// The same with one more, unless it is there already.
    #[must_use]
    pub fn with(&self, word: &str) -> Self {
        if self.contains(word) { self.clone() } else { Self::new(self.iter().chain([word])) }
    }

    /// The same without one.
    #[must_use]
    pub fn without(&self, word: &str) -> Self {
        Self::new(self.iter().filter(|have| *have != word))
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').filter(|word| !word.is_empty())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({})", self.0)
    }
}

impl Judgement {
    /// What is thought of this place and another that the same link may lead to: the worse of the
    /// two, and what is odd about either. Whoever follows the link cannot choose between them.
    pub(crate) fn and(self, other: Self) -> Self {
        use Judgement::*;
        match (self, other) {
            (Blocked { source }, _) | (_, Blocked { source }) => Blocked { source },
            (Clear(these), Clear(those)) => Clear(these.and(&those)),
            (Clear(these) | Suspicious(these), Clear(those) | Suspicious(those)) => {
                Suspicious(these.and(&those))
            }
        }
    }
}

/// The word for a link whose target has not answered for days. Not the screen's: whoever looks at
/// targets puts it there and takes it away.
pub const UNREACHABLE: &str = "unreachable";

/// What a judgement means for a link of this owner.
pub(crate) fn standing(
    judgement: Judgement,
    owner: OwnerId,
    flags: &Flags,
) -> (ModerationStatus, Flags) {
    match judgement {
        Judgement::Clear(flags) => (ModerationStatus::Clear, flags),
        // The operator is nobody to warn the operator's own visitors of. A list is another matter.
        Judgement::Suspicious(flags) if owner == OwnerId::ADMIN => (ModerationStatus::Clear, flags),
        Judgement::Suspicious(flags) => (ModerationStatus::Suspicious, flags),
        Judgement::Blocked { .. } => (ModerationStatus::Blocked, flags.clone()),
    }
}

/// What people have said of a link stays said, whatever the screen thinks: at least a warning.
pub(crate) fn still_reported(
    link: &Link,
    (standing, flags): (ModerationStatus, Flags),
) -> (ModerationStatus, Flags) {
    if !link.flags.contains(REPORTED) {
        return (standing, flags);
    }
    (
        if standing == ModerationStatus::Clear { ModerationStatus::Suspicious } else { standing },
        flags.with(REPORTED),
    )
}

/// A stored link as the screen would have it, or `None` if it is so already. A moderator's word is
/// not touched.
pub(crate) fn screened(screen: &dyn Screening, link: &Link, now: Timestamp) -> Option<Link> {
    judged_as(screen, link, link, now)
}

/// A stored link once enough people have reported it, or `None` if it is so already. A moderator's
/// word is not touched.
pub(crate) fn reported(screen: &dyn Screening, link: &Link, now: Timestamp) -> Option<Link> {
    judged_as(screen, link, &Link { flags: link.flags.with(REPORTED), ..link.clone() }, now)
}

/// The link as it would be if it were `known`.
fn judged_as(screen: &dyn Screening, link: &Link, known: &Link, now: Timestamp) -> Option<Link> {
    if link.judged == ModerationSource::Moderator {
        return None;
    }
    let kept = Evidence::Kept { flags: &known.flags, standing: known.standing };
    let judgement =
        known.targets().map(|target| screen.judge(target, kept)).reduce(Judgement::and)?;
    let (standing, flags) = still_reported(known, standing(judgement, known.owner, &known.flags));
    let flags = if link.flags.contains(UNREACHABLE) { flags.with(UNREACHABLE) } else { flags };
    if (standing, &flags) == (link.standing, &link.flags) {
        return None;
    }
    let mut new = Link { standing, flags, ..link.clone() };
    new.reusable &= standing == ModerationStatus::Clear;
    new.updated_at = now.max(link.updated_at);
    new.revision.0 += 1;
    Some(new)
}
