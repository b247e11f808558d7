//! The verdict on a target.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use terse_core::{ModerationStatus, Target};

use crate::flag::{Flag, FlagSet};
use crate::index::{Index, Match, MatchKind};
use crate::parts::Parts;
use crate::safe_browsing::{SafeBrowsing, Word};
use crate::{flags, redirector, typed_flags};

/// What to do about a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing. The flags, if any, are worth a note.
    Clear(FlagSet),
    /// Warn visitors, for these reasons.
    Suspicious(FlagSet),
    /// Refuse it.
    Blocked(Block),
}

/// Why a target is blocked. Owns its words, so it outlives the index it came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Block {
    /// The name of the list.
    pub source: String,
    /// What the entry is about.
    pub kind: MatchKind,
    /// The host, or the URL without its scheme and query. Safe to log.
    pub entry: String,
}

/// Judges targets against the lists of the moment. Shared by everybody who asks; new lists come in
/// while they ask.
#[derive(Debug)]
pub struct Screen {
    /// Held for as long as it takes to copy a pointer, on either side.
    index: RwLock<Arc<Index>>,
    safe_browsing: Option<Arc<SafeBrowsing>>,
    warn_on: FlagSet,
    /// How often something was learned.
    version: AtomicU64,
}

/// How a block by Safe Browsing names its source.
pub const SAFE_BROWSING: &str = "Safe Browsing";

impl Screen {
    /// A screen without lists, that warns of these flags.
    pub fn new(warn_on: FlagSet) -> Self {
        Self { index: RwLock::default(), safe_browsing: None, warn_on, version: AtomicU64::new(0) }
    }

    /// One that also knows what Safe Browsing says.
    #[must_use]
    pub fn with_safe_browsing(self, safe_browsing: Arc<SafeBrowsing>) -> Self {
        Self { safe_browsing: Some(safe_browsing), ..self }
    }

    /// Puts new lists in the place of the old ones, at once. Who is asking finishes with the old
    /// ones.
    pub fn replace(&self, index: Index) {
        let old = std::mem::replace(
            &mut *self.index.write().unwrap_or_else(PoisonError::into_inner),
            Arc::new(index),
        );
        // Behind the lists: who sees the new number judges by the new lists, and who judged by the
        // old ones finds another.
        self.has_learned();
        drop(old); // behind the lock: millions of entries may take a moment to free
    }

    /// Something was learned that is not in the lists. Told behind it, so that who sees the new
    /// number judges by what is new.
    pub fn has_learned(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Another number whenever something was learned.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The lists of the moment. Who judges many targets asks once and uses [`Index::find`].
    pub fn index(&self) -> Arc<Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Judges a target, as at any time after it was made. What only the typed text could show is
    /// taken from what was found then.
    pub fn judge(&self, target: &Target, kept: FlagSet) -> Verdict {
        self.judge_again(target, kept, ModerationStatus::Clear)
    }

    /// The same for a link that stands like this. What was taken down stays down until somebody who
    /// knows says otherwise, and what was screened once is not unscreened because nobody can be
    /// asked now.
    pub fn judge_again(
        &self,
        target: &Target,
        kept: FlagSet,
        standing: ModerationStatus,
    ) -> Verdict {
        let word = match self.word(target) {
            Word::Unsure if standing == ModerationStatus::Blocked => Word::Threat,
            Word::Unsure | Word::CleanOfOld if !kept.contains(Flag::Unscreened) => Word::Clean,
            word => word,
        };
        self.verdict(target, kept.intersection(FlagSet::of_typing()), word)
    }

    /// Judges a target when it is made, by what was typed too.
    pub fn judge_typed(&self, text: &str, target: &Target) -> Verdict {
        self.verdict(target, typed_flags(text, target), self.word(target))
    }

    /// Whether a target is named by a list, or known to be dangerous, and nothing else.
    pub fn blocks(&self, target: &Target) -> bool {
        find(&self.index(), target).is_some()
            || self.safe_browsing.as_ref().is_some_and(|known| known.is_threat(target))
    }

    fn word(&self, target: &Target) -> Word {
        self.safe_browsing.as_ref().map_or(Word::Clean, |safe_browsing| safe_browsing.word(target))
    }

    fn verdict(&self, target: &Target, more: FlagSet, word: Word) -> Verdict {
        let index = self.index();
        if let Some(found) = find(&index, target) {
            return Verdict::Blocked(Block {
                source: found.source.to_owned(),
                kind: found.kind,
                entry: found.entry,
            });
        }
        let mut flags = flags(target).union(more);
        match word {
            Word::Threat => {
                let entry =
                    Parts::of(target).map(|parts| parts.host.to_owned()).unwrap_or_default();
                return Verdict::Blocked(Block {
                    source: SAFE_BROWSING.into(),
                    kind: MatchKind::Url,
                    entry,
                });
            }
            Word::Unsure | Word::CleanOfOld => flags.insert(Flag::Unscreened),
            Word::Clean => {}
        }
        if flags.intersection(self.warn_on).is_empty() {
            Verdict::Clear(flags)
        } else {
            Verdict::Suspicious(flags)
        }
    }
}

/// A known redirector is looked through, once: its good name must not carry a bad one past the
/// lists.
fn find<'a>(index: &'a Index, target: &Target) -> Option<Match<'a>> {
    index.find(target).or_else(|| index.find(&redirector::destination(target)?))
}

/// Warns of what is worth a warning page.
impl Default for Screen {
    fn default() -> Self {
        Self::new(FlagSet::that_warn())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::list::{Guard, parse};

    fn target(text: &str) -> Target {
        Target::parse(text, &Default::default()).unwrap()
    }

    fn index(text: &str) -> Index {
        Index::build(&[parse("feed", text.as_bytes(), &Guard::default())])
    }

    #[test]
    fn certainty_goes_before_suspicion() {
        let screen = Screen::default();
        let link = target("https://u@paypa1.com/");
        assert_eq!(
            screen.judge(&link, FlagSet::NONE),
            Verdict::Suspicious([Flag::Userinfo, Flag::LookAlike].into_iter().collect())
        );
        screen.replace(index("paypa1.com"));
        let block =
            Block { source: "feed".into(), kind: MatchKind::Host, entry: "paypa1.com".into() };
        assert_eq!(screen.judge(&link, FlagSet::NONE), Verdict::Blocked(block));
        screen.replace(Index::default());
        assert_eq!(
            screen.judge(&target("https://example.com/"), FlagSet::NONE),
            Verdict::Clear(FlagSet::NONE)
        );
    }

    #[test]
    fn a_redirector_is_looked_through() {
        let screen = Screen::default();
        let link = target("https://www.google.com/url?q=https://evil.example/");
        assert_eq!(
            screen.judge(&link, FlagSet::NONE),
            Verdict::Suspicious([Flag::OpenRedirect].into_iter().collect())
        );
        screen.replace(index("evil.example"));
        assert!(
            matches!(screen.judge(&link, FlagSet::NONE), Verdict::Blocked(block) if block.entry == "evil.example")
        );
    }

    #[test]
    fn an_operator_chooses_what_is_worth_a_warning() {
        let (link, screen) =
            (target("https://bit.ly/x"), Screen::new([Flag::NumericHost].into_iter().collect()));
        let numeric = [Flag::NumericHost].into_iter().collect();
        assert_eq!(
            screen.judge(&link, FlagSet::NONE),
            Verdict::Clear([Flag::Shortener].into_iter().collect())
        );
        assert!(matches!(
            screen.judge(&target("http://8.8.8.8/"), FlagSet::NONE),
            Verdict::Suspicious(_)
        ));
        assert_eq!(
            Screen::default().judge(&target("http://8.8.8.8/"), FlagSet::NONE),
            Verdict::Clear(numeric)
        );
        assert!(matches!(
            Screen::default().judge_typed("http://134744072/", &target("http://134744072/")),
            Verdict::Suspicious(_)
        ));
    }

    #[test]
    fn what_was_typed_is_remembered_and_what_is_seen_is_seen_anew() {
        let kept = [Flag::DisguisedText, Flag::Shortener].into_iter().collect();
        let verdict = Screen::default().judge(&target("https://example.com/"), kept);
        assert_eq!(verdict, Verdict::Suspicious([Flag::DisguisedText].into_iter().collect()));
    }

    #[test]
    fn lists_change_while_others_ask() {
        let screen = Screen::default();
        thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let link = target("https://a.evil.example/");
                (0..20_000)
                    .filter(|_| matches!(screen.judge(&link, FlagSet::NONE), Verdict::Blocked(_)))
                    .count()
            });
            for _ in 0..200 {
                screen.replace(index("evil.example"));
                screen.replace(index("other.example"));
            }
            screen.replace(index("evil.example"));
            assert!(asking.join().unwrap() <= 20_000);
        });
        assert!(matches!(
            screen.judge(&target("https://evil.example/"), FlagSet::NONE),
            Verdict::Blocked(_)
        ));
    }
}
