//! Redirect rules of a link: which visitor goes to another target than the link's own.
//!
//! A link has up to [`Rules::MAX_RULES`] rules. The first rule whose conditions all hold decides;
//! without a match the link's target applies. Evaluation is pure: the caller passes what it knows
//! of the visitor as [`VisitContext`], and a [`VisitorClassifier`] provides the traits that need a
//! lookup. [`Rules::explain`] returns the same decision with its reasons.
//!
//! ```
//! use terse_core::rules::{Rules, VisitContext};
//! use terse_core::{Timestamp, TargetRules};
//!
//! let sent = serde_json::json!([{ "device": "mobile", "to": "https://m.example.com/" }]);
//! let rules = Rules::parse(&sent, &TargetRules::default())?.expect("there is one").rules;
//! let visit =
//!     VisitContext { device: Some("mobile"), ..VisitContext::unknown(Timestamp::from_ms(0)) };
//! assert_eq!(rules.choose(&visit).map(|target| target.as_str()), Some("https://m.example.com/"));
//! # Ok::<(), terse_core::ValidationError>(())
//! ```

mod condition;
mod country;
mod explain;
mod language;
mod parse;
mod platform;
mod raw_rules;
mod rule;
mod split;
mod to_json;
mod visit_context;
mod weekly;

pub use country::parse_country;
pub use explain::{Explanation, RuleEvaluation, RuleMatch};
pub use language::preferred_language;
pub(crate) use language::weighted_ranges;
pub use parse::{MAX_QUERY_NAME, MAX_QUERY_VALUE, ParsedRules, TargetInput};
pub use platform::{DEVICES, SYSTEMS};
pub use raw_rules::RawRules;
pub use rule::{RequiredTraits, RuleFactors, Rules};
pub use visit_context::{
    NoClassifier, SplitKey, VisitContext, VisitorClassifier, VisitorTraits, truncate_user_agent,
};

#[cfg(test)]
mod tests;
