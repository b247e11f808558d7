//! Rules of a link: which visitor goes where instead of to the link's own target.
//!
//! A link has up to [`Rules::MAX_RULES`] rules; the first one whose conditions all hold decides,
//! and where none does the link's target stays. Everything here is pure: what is known of a visitor
//! is given as [`Facts`], who finds it out is an [`VisitorClassifier`], and the same judgement can
//! be had in words ([`Rules::explain`]).
//!
//! ```
//! use terse_core::rules::{Facts, Rules};
//! use terse_core::{Timestamp, TargetRules};
//!
//! let sent = serde_json::json!([{ "device": "mobile", "to": "https://m.example.com/" }]);
//! let rules = Rules::parse(&sent, &TargetRules::default())?.expect("there is one").rules;
//! let facts = Facts { device: Some("mobile"), ..Facts::unknown(Timestamp::from_ms(0)) };
//! assert_eq!(rules.choose(&facts).map(|target| target.as_str()), Some("https://m.example.com/"));
//! # Ok::<(), terse_core::ValidationError>(())
//! ```

mod condition;
mod country;
mod explain;
mod facts;
mod language;
mod parse;
mod raw_rules;
mod rule;
mod show;
mod split;
mod system;
mod weekly;

pub use country::country;
pub use explain::{Explained, Step, Went};
pub use facts::{Facts, NoClassifier, SplitKey, VisitorClassifier, VisitorTraits, cut_agent};
pub use language::preferred;
pub use parse::{ParsedRules, TypedTarget};
pub use raw_rules::RawRules;
pub use rule::{Needs, Rules};
pub use system::{DEVICES, SYSTEMS};

#[cfg(test)]
mod tests;
