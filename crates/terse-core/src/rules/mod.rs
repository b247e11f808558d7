//! Rules of a link: which visitor goes where instead of to the link's own target.
//!
//! A link has up to [`Rules::MOST`] rules; the first one whose conditions all hold decides, and where none does the link's
//! target stays. Everything here is pure: what is known of a visitor is given as [`Facts`], who finds it out is an
//! [`Onlooker`], and the same judgement can be had in words ([`Rules::explain`]).
//!
//! ```
//! use terse_core::rules::{Facts, Rules};
//! use terse_core::{Moment, TargetRules};
//!
//! let sent = serde_json::json!([{ "device": "mobile", "to": "https://m.example.com/" }]);
//! let rules = Rules::parse(&sent, &TargetRules::default())?.expect("there is one").rules;
//! let facts = Facts { device: Some("mobile"), ..Facts::unknown(Moment::from_ms(0)) };
//! assert_eq!(rules.choose(&facts).map(|target| target.as_str()), Some("https://m.example.com/"));
//! # Ok::<(), terse_core::Refusal>(())
//! ```

mod condition;
mod country;
mod explain;
mod facts;
mod language;
mod parse;
mod rule;
mod sent;
mod show;
mod split;
mod system;
mod weekly;

pub use country::country;
pub use explain::{Explained, Step, Went};
pub use facts::{Facts, Looks, NoOnlooker, Onlooker, Who, cut_agent};
pub use language::preferred;
pub use parse::{Drafted, Typed};
pub use rule::{Needs, Rules};
pub use sent::Sent;
pub use system::{DEVICES, SYSTEMS};

#[cfg(test)]
mod tests;
