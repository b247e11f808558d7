//! What rules are made of.

use std::sync::Arc;

use super::country::Country;
use super::facts::Facts;
use super::weekly::Weekly;
use crate::target::Target;
use crate::time::Timestamp;

/// The rules of a link, in their order; at least one. Cheap to clone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rules(pub(super) Arc<[Rule]>);

/// One rule: conditions that must all hold, each of them with alternatives, and where to go then.
/// An empty list is no condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Rule {
    pub(super) device: Vec<&'static str>,
    pub(super) os: Vec<&'static str>,
    pub(super) language: Vec<Box<str>>,
    pub(super) country: Vec<Country>,
    pub(super) query: Vec<Ask>,
    pub(super) from: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) weekly: Option<Weekly>,
    pub(super) to: Way,
}

/// A parameter that the visitor's query must have; with this value, or with any.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Ask {
    pub(super) name: Box<str>,
    pub(super) value: Option<Box<str>>,
}

/// Where a rule leads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Way {
    To(Target),
    /// Two or more.
    Split(Vec<Branch>),
}

/// A part of a split.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Branch {
    pub(super) target: Target,
    pub(super) weight: u32,
}

/// What has to be found out about a visitor.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Needs {
    /// Device or system, from the user agent.
    pub agent: bool,
    /// The country, from the address.
    pub country: bool,
}

impl Rules {
    /// So many rules has a link at most.
    pub const MAX_RULES: usize = 20;
    /// So many branches has a split at most.
    pub const MAX_BRANCHES: usize = 10;
    /// So many octets have all rules of a link together at most, in their stored form.
    pub const MAX_SIZE: usize = 32 * 1024;

    /// Where a visitor goes; `None` is to the link's own target.
    pub fn choose(&self, facts: &Facts<'_>) -> Option<&Target> {
        self.0.iter().find(|rule| rule.matches(facts)).map(|rule| rule.to.pick(facts.who).1)
    }

    /// What has to be found out about a visitor before any of them can be judged.
    pub fn needs(&self) -> Needs {
        Needs {
            agent: self.0.iter().any(|rule| !rule.device.is_empty() || !rule.os.is_empty()),
            country: self.0.iter().any(|rule| !rule.country.is_empty()),
        }
    }

    /// Every target that a visitor may be sent to, in the order in which they are written.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.0.iter().flat_map(|rule| match &rule.to {
            Way::To(target) => Branches::One(std::iter::once(target)),
            Way::Split(branches) => Branches::Many(branches.iter()),
        })
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Rule {
    pub(super) fn matches(&self, facts: &Facts<'_>) -> bool {
        self.conditions().all(|condition| condition.holds(facts))
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
