//! Explains which rule decides.

use super::condition::Condition;
use super::rule::Rules;
use super::visit_context::VisitContext;
use crate::target::Target;

/// The decision of the rules and its reasons.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation<'a> {
    /// The rule that matched. `None`: the link's own target applies.
    pub matched: Option<RuleMatch<'a>>,
    /// The rules that were evaluated, up to the one that matched.
    pub steps: Vec<RuleEvaluation>,
}

/// The rule that matched and its target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RuleMatch<'a> {
    /// The index of the rule, from 0.
    pub rule: usize,
    /// The index of the split branch, from 0.
    pub branch: Option<usize>,
    /// The chosen target.
    pub target: &'a Target,
}

/// The evaluation of one rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleEvaluation {
    /// Whether all its conditions hold.
    pub matched: bool,
    /// The conditions that hold if the rule matched, else those that do not hold. Empty for a rule
    /// without conditions, which always matches.
    pub why: Vec<String>,
}

impl Rules {
    /// The same decision as [`Rules::choose`], with reasons.
    pub fn explain(&self, visit: &VisitContext<'_>) -> Explanation<'_> {
        let mut steps = Vec::new();
        for (index, rule) in self.0.iter().enumerate() {
            let failed: Vec<Condition<'_>> =
                rule.conditions().filter(|condition| !condition.holds(visit)).collect();
            let matched = failed.is_empty();
            let shown: Vec<Condition<'_>> =
                if matched { rule.conditions().collect() } else { failed };
            steps.push(RuleEvaluation {
                matched,
                why: shown.iter().map(|condition| condition.describe(visit)).collect(),
            });
            if matched {
                let (branch, target) = rule.to.pick(visit.split_key);
                return Explanation {
                    matched: Some(RuleMatch { rule: index, branch, target }),
                    steps,
                };
            }
        }
        Explanation { matched: None, steps }
    }
}
