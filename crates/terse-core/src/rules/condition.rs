//! One condition of a rule: whether it holds for a visitor, and that in words.

use url::form_urlencoded;

use super::country::Country;
use super::facts::Facts;
use super::language;
use super::rule::{Ask, Rule};
use super::system;
use super::weekly::Weekly;
use crate::time::Timestamp;

/// Borrowed from its rule.
pub(super) enum Condition<'a> {
    Device(&'a [&'static str]),
    Os(&'a [&'static str]),
    Language(&'a [Box<str>]),
    Country(&'a [Country]),
    Query(&'a [Ask]),
    From(Timestamp),
    Until(Timestamp),
    Weekly(&'a Weekly),
}

impl Rule {
    /// The conditions there are.
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
    pub(super) fn holds(&self, facts: &Facts<'_>) -> bool {
        match self {
            Self::Device(any) => facts.device.is_some_and(|device| any.contains(&device)),
            Self::Os(any) => facts
                .system
                .is_some_and(|system| any.iter().any(|wanted| system::is(system, wanted))),
            Self::Language(any) => language::preferred(facts.languages)
                .is_some_and(|tag| any.iter().any(|range| language::covers(range, tag))),
            Self::Country(any) => facts
                .country
                .is_some_and(|country| any.iter().any(|wanted| wanted.as_str() == country)),
            Self::Query(any) => any.iter().any(|ask| ask.is_in(facts.query)),
            Self::From(at) => facts.at >= *at,
            Self::Until(at) => facts.at < *at,
            Self::Weekly(weekly) => weekly.contains(facts.at),
        }
    }

    /// Why it holds or does not, for people.
    pub(super) fn words(&self, facts: &Facts<'_>) -> String {
        let holds = self.holds(facts);
        let compared = |what: &str, have: Option<&str>, wanted: String| match have {
            None => format!("the {what} is not known, and the rule wants {wanted}"),
            Some(have) if holds => format!("the {what} is {have}"),
            Some(have) => format!("the {what} is {have}, not {wanted}"),
        };
        match self {
            Self::Device(any) => compared("device", facts.device, listed(any.iter().copied())),
            Self::Os(any) => {
                compared("operating system", facts.system, listed(any.iter().copied()))
            }
            Self::Language(any) => {
                let first = language::preferred(facts.languages);
                compared("preferred language", first, listed(any.iter().map(|range| &**range)))
            }
            Self::Country(any) => {
                compared("country", facts.country, listed(any.iter().map(Country::as_str)))
            }
            Self::Query(any) if holds => {
                let met = any.iter().find(|ask| ask.is_in(facts.query));
                format!("the query has {}", met.map(Ask::words).unwrap_or_default())
            }
            Self::Query(any) => {
                let wanted: Vec<String> = any.iter().map(Ask::words).collect();
                format!("the query has no {}", listed(wanted.iter().map(String::as_str)))
            }
            Self::From(at) if holds => format!("{} is not before {at}", facts.at),
            Self::From(at) => format!("{} is before {at}", facts.at),
            Self::Until(at) if holds => format!("{} is before {at}", facts.at),
            Self::Until(at) => format!("{} is not before {at}", facts.at),
            Self::Weekly(weekly) => {
                let (now, hours) = (weekly.local(facts.at), weekly.words());
                format!("{now} is {}within {hours}", if holds { "" } else { "not " })
            }
        }
    }
}

impl Ask {
    fn is_in(&self, query: &str) -> bool {
        form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
            *name == *self.name && self.value.as_ref().is_none_or(|wanted| *value == **wanted)
        })
    }

    fn words(&self) -> String {
        match &self.value {
            None => self.name.to_string(),
            Some(value) => format!("{}={value}", self.name),
        }
    }
}

/// `a`, `a or b`, `a, b or c`.
fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}
