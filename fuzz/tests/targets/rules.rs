//! Redirect rules, as clients send them.

use terse_core::rules::{RawRules, Rules, VisitContext};
use terse_core::{TargetRules, Timestamp};

use crate::input::fuzz;

#[test]
fn rules() {
    let targets = TargetRules::default();
    fuzz("rules", |bytes| {
        let Ok(RawRules(sent)) = serde_json::from_slice(bytes) else { return false };
        let Ok(Some(parsed)) = Rules::parse(&sent, &targets) else { return false };
        let stored = parsed.rules.show();
        let again = Rules::from_stored(&stored).expect("what was accepted can be stored");
        assert_eq!(again, parsed.rules, "{stored}");
        for at in [0, 1_767_225_600_000, i64::MAX, i64::MIN] {
            let visit = VisitContext::unknown(Timestamp::from_ms(at));
            if let Some(target) = parsed.rules.choose(&visit) {
                assert!(parsed.rules.targets().any(|one| one == target));
            }
        }
        true
    });
}
