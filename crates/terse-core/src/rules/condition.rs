//! The conditions of a rule: evaluation and description.

use url::form_urlencoded;

use super::country::Country;
use super::language;
use super::platform;
use super::rule::{QueryCondition, Rule};
use super::visit_context::VisitContext;
use super::weekly::Weekly;
use crate::time::Timestamp;

/// One condition, borrowed from its rule.
pub(super) enum Condition<'a> {
    Device(&'a [&'static str]),
    Os(&'a [&'static str]),
    Language(&'a [Box<str>]),
    Country(&'a [Country]),
    Query(&'a [QueryCondition]),
    From(Timestamp),
    Until(Timestamp),
    Weekly(&'a Weekly),
}

impl Rule {
    /// The conditions of this rule.
    pub(super) fn conditions(&self) -> impl Iterator<Item = Condition<'_>> {
        let some = |there: bool, condition| there.then_some(condition);
        [
            some(!self.device.is_empty(), Condition::Device(&self.device)),
            some(!self.os.is_empty(), Condition::Os(&self.os)),
            some(!self.language.is_empty(), Condition::Language(&self.language)),
            some(!self.country.is_empty(), Condition::Country(&self.country)),
            some(!self.query.is_empty(), Condition::Query(&self.query)),
            self.from.map(Condition::From),
            self.until.map(Condition::Until),
            self.weekly.as_ref().map(Condition::Weekly),
        ]
        .into_iter()
        .flatten()
    }
}

impl Condition<'_> {
    pub(super) fn holds(&self, visit: &VisitContext<'_>) -> bool {
        match self {
            Self::Device(any) => visit.device.is_some_and(|device| any.contains(&device)),
            Self::Os(any) => visit
                .system
                .is_some_and(|system| any.iter().any(|wanted| platform::matches(system, wanted))),
            Self::Language(any) => language::preferred_language(visit.languages)
                .is_some_and(|tag| any.iter().any(|range| language::covers(range, tag))),
            Self::Country(any) => visit
                .country
                .is_some_and(|country| any.iter().any(|wanted| wanted.as_str() == country)),
            Self::Query(any) => any.iter().any(|condition| condition.is_in(visit.query)),
            Self::From(at) => visit.at >= *at,
            Self::Until(at) => visit.at < *at,
            Self::Weekly(weekly) => weekly.contains(visit.at),
        }
    }

    /// Why the condition holds or does not.
    pub(super) fn describe(&self, visit: &VisitContext<'_>) -> String {
        let holds = self.holds(visit);
        let compared = |what: &str, have: Option<&str>, wanted: String| match have {
            None => format!("the {what} is unknown, and the rule requires {wanted}"),
            Some(have) if holds => format!("the {what} is {have}"),
            Some(have) => format!("the {what} is {have}, not {wanted}"),
        };
        match self {
            Self::Device(any) => compared("device", visit.device, listed(any.iter().copied())),
            Self::Os(any) => {
                compared("operating system", visit.system, listed(any.iter().copied()))
            }
            Self::Language(any) => {
                let first = language::preferred_language(visit.languages);
                compared("preferred language", first, listed(any.iter().map(|range| &**range)))
            }
            Self::Country(any) => {
                compared("country", visit.country, listed(any.iter().map(Country::as_str)))
            }
            Self::Query(any) if holds => {
                let met = any.iter().find(|condition| condition.is_in(visit.query));
                format!("the query has {}", met.map(QueryCondition::describe).unwrap_or_default())
            }
            Self::Query(any) => {
                let wanted: Vec<String> = any.iter().map(QueryCondition::describe).collect();
                format!("the query has no {}", listed(wanted.iter().map(String::as_str)))
            }
            Self::From(at) if holds => format!("{} is not before {at}", visit.at),
            Self::From(at) => format!("{} is before {at}", visit.at),
            Self::Until(at) if holds => format!("{} is before {at}", visit.at),
            Self::Until(at) => format!("{} is not before {at}", visit.at),
            Self::Weekly(weekly) => {
                let (now, hours) = (weekly.local(visit.at), weekly.describe());
                format!("{now} is {}within {hours}", if holds { "" } else { "not " })
            }
        }
    }
}

impl QueryCondition {
    fn is_in(&self, query: &str) -> bool {
        form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
            *name == *self.name && self.value.as_ref().is_none_or(|wanted| *value == **wanted)
        })
    }

    fn describe(&self) -> String {
        match &self.value {
            None => self.name.to_string(),
            Some(value) => format!("{}={value}", self.name),
        }
    }
}

/// `a`, `a or b`, `a, b or c`.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}
