//! Why a visitor goes where, in words.

use super::condition::Condition;
use super::facts::Facts;
use super::rule::Rules;
use crate::target::Target;

/// Where a visitor goes, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explained<'a> {
    /// The rule that matched, from 0, and its target. `None` is the link's own target.
    pub went: Option<Went<'a>>,
    /// Each rule that was looked at, up to the one that matched.
    pub steps: Vec<Step>,
}

/// Which way a visitor took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Went<'a> {
    /// The rule, from 0.
    pub rule: usize,
    /// The branch of its split, from 0.
    pub branch: Option<usize>,
    /// Where it leads.
    pub target: &'a Target,
}

/// What was thought of one rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// Whether all its conditions hold.
    pub matched: bool,
    /// If so, each of them; else each that does not hold. Empty where a rule has none and so
    /// matches everybody.
    pub why: Vec<String>,
}

impl Rules {
    /// The same as [`Rules::choose`], in words.
    pub fn explain(&self, facts: &Facts<'_>) -> Explained<'_> {
        let mut steps = Vec::new();
        for (index, rule) in self.0.iter().enumerate() {
            let failed: Vec<Condition<'_>> =
                rule.conditions().filter(|condition| !condition.holds(facts)).collect();
            let matched = failed.is_empty();
            let told: Vec<Condition<'_>> =
                if matched { rule.conditions().collect() } else { failed };
            steps.push(Step {
                matched,
                why: told.iter().map(|condition| condition.words(facts)).collect(),
            });
            if matched {
                let (branch, target) = rule.to.pick(facts.who);
                return Explained { went: Some(Went { rule: index, branch, target }), steps };
            }
        }
        Explained { went: None, steps }
    }
}
