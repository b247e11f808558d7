//! Rules from JSON: as somebody sent them, or as a store wrote them.

use serde_json::{Map, Value};

use super::country::Country;
use super::language;
use super::rule::{Ask, Branch, Rule, Rules, Way};
use super::system::{DEVICES, SYSTEMS};
use super::weekly::{Day, Hours, Weekly, Zone};
use crate::target::{Target, TargetRules};
use crate::time::Timestamp;
use crate::validation::{ValidationError, ValidationErrorKind};

const RULE: &[&str] = &[
    "device", "os", "language", "country", "query", "from", "until", "days", "hours", "zone", "to",
];
/// So many alternatives has a condition at most; there are more countries than that, and fewer of
/// anything else.
const MAX_ALTERNATIVES: usize = 250;
const MAX_NAME_LEN: usize = 100;
const MAX_VALUE_LEN: usize = 500;
const MAX_WEIGHT: u64 = 10_000;

/// Rules that somebody sent, and what was typed for each of their targets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParsedRules {
    /// The rules.
    pub rules: Rules,
    /// One for each target, in the order of [`Rules::targets`].
    pub typed: Vec<TypedTarget>,
}

/// What was typed for a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TypedTarget {
    /// Where it stands: `rules[2].to`.
    pub field: String,
    /// The text.
    pub text: String,
}

impl Rules {
    /// Checks rules as they were sent, each target like any other target. Null and an empty list
    /// are none.
    pub fn parse(
        sent: &Value,
        targets: &TargetRules,
    ) -> Result<Option<ParsedRules>, ValidationError> {
        let mut typed = Vec::new();
        let read = read(sent, &mut |text, field| {
            let target =
                Target::parse(text, targets).map_err(|refusal| refusal.on(field.to_owned()))?;
            typed.push(TypedTarget { field: field.to_owned(), text: text.to_owned() });
            Ok(target)
        })?;
        let Some(rules) = read else { return Ok(None) };
        if rules.show().len() > Self::MAX_SIZE {
            return refuse(
                "rules",
                format!("all rules of a link together have at most {} octets", Self::MAX_SIZE),
            );
        }
        Ok(Some(ParsedRules { rules, typed }))
    }

    /// As a store wrote them; `None` if it did not.
    pub fn from_stored(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        read(&value, &mut |text, _| Ok(Target::from_stored(text.to_owned()))).ok()?
    }
}

type Take<'a> = &'a mut dyn FnMut(&str, &str) -> Result<Target, ValidationError>;

fn read(sent: &Value, take: Take<'_>) -> Result<Option<Rules>, ValidationError> {
    let items = match sent {
        Value::Null => return Ok(None),
        Value::Array(items) => items,
        _ => return refuse("rules", "expected a list of rules"),
    };
    if items.len() > Rules::MAX_RULES {
        return refuse("rules", format!("a link has at most {} rules", Rules::MAX_RULES));
    }
    let mut rules = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        rules.push(rule(item, &format!("rules[{place}]"), take)?);
    }
    Ok((!rules.is_empty()).then(|| Rules(rules.into())))
}

fn rule(sent: &Value, at: &str, take: Take<'_>) -> Result<Rule, ValidationError> {
    let object = Object::new(sent, at, RULE)?;
    let from = object.get("from").map(|(sent, at)| moment(sent, &at)).transpose()?;
    let until = object.get("until").map(|(sent, at)| moment(sent, &at)).transpose()?;
    if from.zip(until).is_some_and(|(from, until)| from >= until) {
        return refuse(format!("{at}.until"), "a window ends after it begins");
    }
    Ok(Rule {
        device: object.any("device", |sent, at| word(sent, at, DEVICES))?,
        os: object.any("os", |sent, at| word(sent, at, SYSTEMS))?,
        language: object.any("language", |sent, at| match text(sent, at)? {
            tag if language::is_tag(tag) => Ok(language::spelled(tag).into()),
            _ => refuse(at, "a language, such as de or pt-BR"),
        })?,
        country: object.any("country", |sent, at| {
            Country::parse(text(sent, at)?)
                .ok_or_else(|| invalid(at, "the two letters of a country, such as DE (ISO 3166)"))
        })?,
        query: object.any("query", ask)?,
        from,
        until,
        weekly: weekly(&object)?,
        to: match object.get("to") {
            Some((sent, at)) => way(sent, &at, take)?,
            None => {
                return refuse(
                    format!("{at}.to"),
                    "missing: a URL, or a list of them with weights",
                );
            }
        },
    })
}

fn weekly(object: &Object<'_>) -> Result<Option<Weekly>, ValidationError> {
    let mut days = object.any("days", |sent, at| {
        Day::parse(text(sent, at)?)
            .ok_or_else(|| invalid(at, "one of mon, tue, wed, thu, fri, sat and sun"))
    })?;
    days.sort_unstable();
    let hours = object.any("hours", |sent, at| {
        Hours::parse(text(sent, at)?).ok_or_else(|| {
            invalid(at, "from and until, such as 09:00-17:30; 22:00-06:00 is a night")
        })
    })?;
    let zone = match object.get("zone") {
        None => None,
        Some((_, at)) if days.is_empty() && hours.is_empty() => {
            return refuse(at, "only together with days or hours");
        }
        Some((sent, at)) => {
            let zone = Zone::parse(text(sent, &at)?);
            Some(zone.ok_or_else(|| {
                invalid(&at, "not a time zone that is known here, such as Europe/Berlin")
            })?)
        }
    };
    Ok((!days.is_empty() || !hours.is_empty()).then_some(Weekly { days, hours, zone }))
}

fn ask(sent: &Value, at: &str) -> Result<Ask, ValidationError> {
    let object = Object::new(sent, at, &["name", "value"])?;
    let Some((name, name_at)) = object.get("name") else {
        return refuse(format!("{at}.name"), "missing");
    };
    let name = text(name, &name_at)?;
    if !(1..=MAX_NAME_LEN).contains(&name.chars().count()) {
        return refuse(name_at, format!("a name has 1 to {MAX_NAME_LEN} characters"));
    }
    let value = match object.get("value") {
        None => None,
        Some((value, at)) => {
            let value = text(value, &at)?;
            if value.chars().count() > MAX_VALUE_LEN {
                return refuse(at, format!("a value has at most {MAX_VALUE_LEN} characters"));
            }
            Some(value.into())
        }
    };
    Ok(Ask { name: name.into(), value })
}

fn way(sent: &Value, at: &str, take: Take<'_>) -> Result<Way, ValidationError> {
    let items = match sent {
        Value::String(text) => return take(text, at).map(Way::To),
        Value::Array(items) if (1..=Rules::MAX_BRANCHES).contains(&items.len()) => items,
        Value::Array(_) => {
            return refuse(at, format!("a split has 1 to {} branches", Rules::MAX_BRANCHES));
        }
        _ => return refuse(at, "expected a URL, or a list of them with weights"),
    };
    let mut branches = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let at = format!("{at}[{place}]");
        let object = Object::new(item, &at, &["url", "weight"])?;
        let Some((url, url_at)) = object.get("url") else {
            return refuse(format!("{at}.url"), "missing");
        };
        let target = take(text(url, &url_at)?, &url_at)?;
        let weight = match object.get("weight") {
            None => 1,
            Some((sent, at)) => {
                let weight = sent.as_u64().filter(|weight| (1..=MAX_WEIGHT).contains(weight));
                let weight = weight.and_then(|weight| u32::try_from(weight).ok());
                weight
                    .ok_or_else(|| invalid(&at, format!("a whole number from 1 to {MAX_WEIGHT}")))?
            }
        };
        branches.push(Branch { target, weight });
    }
    Ok(match <[Branch; 1]>::try_from(branches) {
        Ok([only]) => Way::To(only.target),
        Err(branches) => Way::Split(branches),
    })
}

/// An object all of whose names are known. A null is as good as absent.
struct Object<'a> {
    fields: &'a Map<String, Value>,
    at: &'a str,
}

impl<'a> Object<'a> {
    fn new(sent: &'a Value, at: &'a str, known: &[&str]) -> Result<Self, ValidationError> {
        let Value::Object(fields) = sent else { return refuse(at, "expected an object") };
        match fields.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self { fields, at }),
            Some(name) => {
                // Names of strangers are shown, but not at length.
                let name: String = name.chars().take(64).collect();
                refuse(
                    format!("{at}.{name}"),
                    format!("unknown field; there are {}", known.join(", ")),
                )
            }
        }
    }

    fn get(&self, name: &str) -> Option<(&'a Value, String)> {
        let value = self.fields.get(name).filter(|value| !value.is_null())?;
        Some((value, format!("{}.{name}", self.at)))
    }

    /// One, or a list of alternatives, each of them once.
    fn any<T: PartialEq>(
        &self,
        name: &str,
        parse: impl Fn(&Value, &str) -> Result<T, ValidationError>,
    ) -> Result<Vec<T>, ValidationError> {
        let Some((sent, at)) = self.get(name) else { return Ok(Vec::new()) };
        let items = match sent {
            Value::Array(items) if (1..=MAX_ALTERNATIVES).contains(&items.len()) => items,
            Value::Array(_) => {
                return refuse(at, format!("expected 1 to {MAX_ALTERNATIVES} alternatives"));
            }
            one => return Ok(vec![parse(one, &at)?]),
        };
        let mut all = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            let one = parse(item, &format!("{at}[{place}]"))?;
            if !all.contains(&one) {
                all.push(one);
            }
        }
        Ok(all)
    }
}

fn text<'a>(sent: &'a Value, at: &str) -> Result<&'a str, ValidationError> {
    sent.as_str().ok_or_else(|| invalid(at, "expected a text"))
}

fn word(sent: &Value, at: &str, words: &[&'static str]) -> Result<&'static str, ValidationError> {
    let text = text(sent, at)?;
    let known = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    known.copied().ok_or_else(|| invalid(at, format!("one of {}", words.join(", "))))
}

fn moment(sent: &Value, at: &str) -> Result<Timestamp, ValidationError> {
    let expected =
        "not an RFC 3339 time with offset (2030-01-31T12:00:00Z) nor a date (2030-01-31)";
    Timestamp::parse(text(sent, at)?).ok_or_else(|| invalid(at, expected))
}

fn invalid(at: &str, detail: impl Into<std::borrow::Cow<'static, str>>) -> ValidationError {
    ValidationError::new(ValidationErrorKind::InvalidRequest, at.to_owned(), detail)
}

fn refuse<T>(
    at: impl AsRef<str>,
    detail: impl Into<std::borrow::Cow<'static, str>>,
) -> Result<T, ValidationError> {
    Err(invalid(at.as_ref(), detail))
}
