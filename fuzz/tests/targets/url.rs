//! URLs that people shorten.

use terse_core::{Target, TargetRules};
use terse_safety::{FlagSet, flags, input_flags};

use crate::input::fuzz;

#[test]
fn url() {
    let rules = TargetRules::default();
    fuzz("url", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let Ok(target) = Target::parse(&text, &rules) else { return false };
        let stored = target.as_str();
        assert!(stored.starts_with("http://") || stored.starts_with("https://"), "{stored}");
        // It becomes a header line.
        assert!(stored.bytes().all(|byte| byte.is_ascii_graphic()), "{stored:?}");
        assert!(stored.len() <= Target::MAX);
        let again = Target::parse(stored, &rules).expect("what was accepted is accepted again");
        assert_eq!(again.as_str(), stored, "from {text:?}");
        let with_query = target.with_query(&text);
        assert!(with_query.bytes().all(|byte| byte.is_ascii_graphic()), "{with_query:?}");
        let _: (FlagSet, FlagSet) = (flags(&target), input_flags(&text, &target));
        true
    });
}
