//! The types of redirect rules.

use std::sync::Arc;

use super::country::Country;
use super::visit_context::VisitContext;
use super::weekly::Weekly;
use crate::target::Target;
use crate::time::Timestamp;

/// The ordered rules of a link; at least one. Cheap to clone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rules(pub(super) Arc<[Rule]>);

/// One rule: conditions that must all hold, each with alternatives, and a destination. An empty
/// list is no condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Rule {
    pub(super) device: Vec<&'static str>,
    pub(super) os: Vec<&'static str>,
    pub(super) language: Vec<Box<str>>,
    pub(super) country: Vec<Country>,
    pub(super) query: Vec<QueryCondition>,
    pub(super) from: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) weekly: Option<Weekly>,
    pub(super) to: Destination,
}

/// A query parameter that the request must have, with this value or with any.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct QueryCondition {
    pub(super) name: Box<str>,
    pub(super) value: Option<Box<str>>,
}

/// The destination of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Destination {
    To(Target),
    /// Two or more branches.
    Split(Vec<Branch>),
}

/// One branch of a split.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Branch {
    pub(super) target: Target,
    pub(super) weight: u32,
}

/// The visitor traits that rules require.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequiredTraits {
    /// Device or operating system, from the user agent.
    pub agent: bool,
    /// The country, from the address.
    pub country: bool,
    /// Whether the visitor fetches previews, from the user agent.
    pub previews: bool,
}

/// What the rules of a link decide by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RuleFactors {
    /// The visitor's device or system.
    pub device: bool,
    /// The visitor's language.
    pub language: bool,
    /// The visitor's country.
    pub country: bool,
    /// Parameters of the short link.
    pub query: bool,
    /// The time of the visit.
    pub time: bool,
    /// Whether a rule divides its visitors among several targets.
    pub divides: bool,
}

impl Rules {
    /// The maximum number of rules per link.
    pub const MAX_RULES: usize = 20;
    /// The maximum number of branches of a split.
    pub const MAX_BRANCHES: usize = 10;
    /// The maximum size of all rules of a link, in bytes of their stored form.
    pub const MAX_SIZE: usize = 32 * 1024;

    /// The target for a visitor; `None` means the link's own target.
    pub fn choose(&self, visit: &VisitContext<'_>) -> Option<&Target> {
        self.0.iter().find(|rule| rule.matches(visit)).map(|rule| rule.to.pick(visit.split_key).1)
    }

    /// The traits that must be known before the rules can be evaluated.
    pub fn required_traits(&self) -> RequiredTraits {
        RequiredTraits {
            agent: self.0.iter().any(|rule| !rule.device.is_empty() || !rule.os.is_empty()),
            country: self.0.iter().any(|rule| !rule.country.is_empty()),
            previews: false,
        }
    }

    /// What decides where a visitor goes.
    pub fn factors(&self) -> RuleFactors {
        let any = |has: fn(&Rule) -> bool| self.0.iter().any(has);
        RuleFactors {
            device: any(|rule| !rule.device.is_empty() || !rule.os.is_empty()),
            language: any(|rule| !rule.language.is_empty()),
            country: any(|rule| !rule.country.is_empty()),
            query: any(|rule| !rule.query.is_empty()),
            time: any(|rule| rule.from.or(rule.until).is_some() || rule.weekly.is_some()),
            divides: any(|rule| matches!(rule.to, Destination::Split(_))),
        }
    }

    /// All targets of the rules, in order.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.0.iter().flat_map(|rule| match &rule.to {
            Destination::To(target) => Branches::One(std::iter::once(target)),
            Destination::Split(branches) => Branches::Many(branches.iter()),
        })
    }

    /// The number of rules.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Rule {
    pub(super) fn matches(&self, visit: &VisitContext<'_>) -> bool {
        self.conditions().all(|condition| condition.holds(visit))
    }
}

enum Branches<'a> {
    One(std::iter::Once<&'a Target>),
    Many(std::slice::Iter<'a, Branch>),
}

impl<'a> Iterator for Branches<'a> {
    type Item = &'a Target;

    fn next(&mut self) -> Option<&'a Target> {
        match self {
            Self::One(one) => one.next(),
            Self::Many(many) => many.next().map(|branch| &branch.target),
        }
    }
}
