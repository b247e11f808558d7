//! Implements the core's screening contract.

use terse_core::{
    EntryKind, ListMatch, ListStatus, ModerationStatus, ScreenInput, ScreenResult, Screening,
    Target,
};

use crate::flag::{Flag, FlagSet};
use crate::index::MatchKind;
use crate::list::ProtectedHosts;
use crate::screen::{BlockingMatch, Screen, Verdict};

impl Screening for Screen {
    fn screen(&self, target: &Target, input: ScreenInput<'_>) -> ScreenResult {
        let verdict = match input {
            ScreenInput::Text(text) => self.check_input(text, target),
            ScreenInput::Stored { flags, moderation } => {
                self.recheck(target, flags.iter().filter_map(Flag::parse).collect(), moderation)
            }
        };
        if let ScreenInput::Text(_) = input {
            let list = match &verdict {
                Verdict::Blocked(block) => Some(block.source.clone()),
                Verdict::Suspicious(flags) if flags.contains(Flag::OnWarnList) => {
                    self.warning_match(target).map(|found| found.source)
                }
                _ => None,
            };
            if let Some(list) = list {
                self.count_hit(list);
            }
        }
        match verdict {
            Verdict::Clear(flags) => ScreenResult::Clear(to_core(flags)),
            Verdict::Suspicious(flags) => ScreenResult::Suspicious(to_core(flags)),
            Verdict::Blocked(block) => ScreenResult::Blocked { source: block.source },
        }
    }

    fn blocks(&self, target: &Target) -> bool {
        Screen::blocks(self, target)
    }

    fn list_match(&self, target: &Target, status: ModerationStatus) -> Option<ListMatch> {
        let BlockingMatch { source, kind, .. } = match status {
            ModerationStatus::Clear => return None,
            ModerationStatus::Suspicious => self.warning_match(target)?,
            ModerationStatus::Blocked => self.blocking_match(target)?,
        };
        let kind = match kind {
            MatchKind::Host => EntryKind::Host,
            MatchKind::Url => EntryKind::Url,
        };
        Some(ListMatch { list: source, kind })
    }

    fn lists(&self) -> Vec<ListStatus> {
        self.list_statuses()
    }

    fn version(&self) -> u64 {
        Screen::version(self)
    }

    fn is_blockable(&self, host: &str) -> bool {
        ProtectedHosts { own_hosts: Vec::new(), allow_platforms: true }.allows_host(host)
    }

    fn sentence(&self, flag: &str) -> Option<&'static str> {
        Flag::parse(flag).map(Flag::sentence)
    }
}

fn to_core(flags: FlagSet) -> terse_core::LinkFlags {
    terse_core::LinkFlags::new(flags.iter().map(Flag::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlocklistIndex, parse};

    #[test]
    fn flags_and_lists_reach_the_contract() {
        let screen = Screen::default();
        let contract: &dyn Screening = &screen;
        let target = Target::parse("https://exam\u{2060}ple.com/", &Default::default()).unwrap();
        let ScreenResult::Suspicious(flags) =
            contract.screen(&target, ScreenInput::Text("https://exam\u{2060}ple.com/"))
        else {
            panic!()
        };
        assert_eq!(flags.joined(), "disguised_text");
        let kept = ScreenInput::Stored { flags: &flags, moderation: ModerationStatus::Suspicious };
        assert_eq!(contract.screen(&target, kept), ScreenResult::Suspicious(flags.clone()));
        assert!(flags.iter().all(|flag| contract.sentence(flag).is_some()));
        let before = contract.version();
        screen.replace(BlocklistIndex::build(&[parse(
            "feed",
            b"example.com",
            &ProtectedHosts::default(),
        )]));
        assert_eq!(contract.screen(&target, kept), ScreenResult::Blocked { source: "feed".into() });
        assert_ne!(contract.version(), before);
    }

    #[test]
    fn lists_count_the_new_targets_that_they_match() {
        let screen = Screen::default();
        let (blocked, warned) = ("https://bad.example/", "https://odd.example/");
        let index = |name: &str, text: &str| {
            BlocklistIndex::build(&[parse(name, text.as_bytes(), &ProtectedHosts::default())])
        };
        screen.replace_overlay(index("moderators", "bad.example"));
        screen.replace_warnings(index("odd ones", "odd.example"));
        let (name, entries) = ("odd ones".to_owned(), Some(1));
        screen.set_lists(vec![ListStatus { name, blocks: false, entries, hits: 0 }]);
        for text in [blocked, warned, warned, "https://fine.example/"] {
            let target = Target::parse(text, &Default::default()).unwrap();
            screen.screen(&target, ScreenInput::Text(text));
            // A scan of stored links counts nothing.
            let (flags, moderation) = (Default::default(), ModerationStatus::Clear);
            screen.screen(&target, ScreenInput::Stored { flags: &flags, moderation });
        }
        let hits: Vec<_> =
            screen.lists().into_iter().map(|list| (list.name, list.blocks, list.hits)).collect();
        assert_eq!(hits, [("odd ones".to_owned(), false, 2), ("moderators".to_owned(), true, 1)]);
    }

    #[test]
    fn registries_cannot_be_blocked() {
        for (host, parse_blockable_host) in [
            ("com", false),
            ("co.uk", false),
            ("localhost", false),
            ("evil.example", true),
            ("github.io", true),
            ("8.8.8.8", true),
        ] {
            assert_eq!(
                Screening::is_blockable(&Screen::default(), host),
                parse_blockable_host,
                "{host}"
            );
        }
    }
}
