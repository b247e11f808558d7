//! The screen as the rest of the house knows it.

use terse_core::{Evidence, Judgement, Screening, Target};

use crate::flag::{Flag, FlagSet};
use crate::list::Guard;
use crate::verdict::{Screen, Verdict};

impl Screening for Screen {
    fn judge(&self, target: &Target, evidence: Evidence<'_>) -> Judgement {
        let verdict = match evidence {
            Evidence::Typed(text) => self.judge_typed(text, target),
            Evidence::Kept { flags, standing } => {
                self.judge_again(target, flags.iter().filter_map(Flag::parse).collect(), standing)
            }
        };
        match verdict {
            Verdict::Clear(flags) => Judgement::Clear(words(flags)),
            Verdict::Suspicious(flags) => Judgement::Suspicious(words(flags)),
            Verdict::Blocked(block) => Judgement::Blocked { source: block.source },
        }
    }

    fn blocks(&self, target: &Target) -> bool {
        Screen::blocks(self, target)
    }

    fn version(&self) -> u64 {
        Screen::version(self)
    }

    fn is_blockable(&self, host: &str) -> bool {
        Guard { own_hosts: Vec::new(), platforms: true }.admits_host(host)
    }

    fn sentence(&self, flag: &str) -> Option<&'static str> {
        Flag::parse(flag).map(Flag::sentence)
    }
}

fn words(flags: FlagSet) -> terse_core::Flags {
    terse_core::Flags::new(flags.iter().map(Flag::as_str))
}

#[cfg(test)]
mod tests {
    use terse_core::ModerationStatus;

    use super::*;
    use crate::{Index, parse};

    #[test]
    fn words_and_lists_reach_the_house() {
        let screen = Screen::default();
        let house: &dyn Screening = &screen;
        let target = Target::parse("https://exam\u{2060}ple.com/", &Default::default()).unwrap();
        let Judgement::Suspicious(flags) =
            house.judge(&target, Evidence::Typed("https://exam\u{2060}ple.com/"))
        else {
            panic!()
        };
        assert_eq!(flags.joined(), "disguised_text");
        let kept = Evidence::Kept { flags: &flags, standing: ModerationStatus::Suspicious };
        assert_eq!(house.judge(&target, kept), Judgement::Suspicious(flags.clone()));
        assert!(flags.iter().all(|flag| house.sentence(flag).is_some()));
        let before = house.version();
        screen.replace(Index::build(&[parse("feed", b"example.com", &Guard::default())]));
        assert_eq!(house.judge(&target, kept), Judgement::Blocked { source: "feed".into() });
        assert_ne!(house.version(), before);
    }

    #[test]
    fn nobody_blocks_a_whole_registry() {
        for (host, blockable) in [
            ("com", false),
            ("co.uk", false),
            ("localhost", false),
            ("evil.example", true),
            ("github.io", true),
            ("8.8.8.8", true),
        ] {
            assert_eq!(Screening::is_blockable(&Screen::default(), host), blockable, "{host}");
        }
    }
}
