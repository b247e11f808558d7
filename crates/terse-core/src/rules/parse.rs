//! Parses rules from JSON, as sent by a client or as stored.

use serde_json::{Map, Value};

use super::country::Country;
use super::language;
use super::platform::{DEVICES, SYSTEMS};
use super::rule::{Branch, Destination, QueryCondition, Rule, Rules};
use super::weekly::{Day, Hours, NamedZone, Weekly};
use crate::target::{Target, TargetRules};
use crate::time::{Timestamp, TimestampError};
use crate::validation::{ValidationError, ValidationErrorKind};

const RULE: &[&str] =
    &["device", "os", "language", "country", "query", "from", "until", "days", "hours", "tz", "to"];
/// The earlier name of `tz`. Clients may still send it, and stored rules may contain it.
const OLD_TZ: &str = "zone";
/// The maximum number of alternatives of a condition.
const MAX_ALTERNATIVES: usize = 250;
/// The longest name of a parameter in a rule, in characters.
pub const MAX_QUERY_NAME: usize = 100;
/// The longest value of a parameter in a rule, in characters.
pub const MAX_QUERY_VALUE: usize = 500;
const MAX_WEIGHT: u64 = 10_000;

/// Parsed rules, with the text that was sent for each target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParsedRules {
    /// The rules.
    pub rules: Rules,
    /// One per target, in the order of [`Rules::targets`].
    pub inputs: Vec<TargetInput>,
}

/// The text that was sent for a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetInput {
    /// The path of the field: `rules[2].to`.
    pub field: String,
    /// The text.
    pub text: String,
}

impl Rules {
    /// Parses rules from a client. Targets are validated like a link's own target. Null and an
    /// empty list mean no rules.
    pub fn parse(
        sent: &Value,
        targets: &TargetRules,
    ) -> Result<Option<ParsedRules>, ValidationError> {
        let mut inputs = Vec::new();
        let read = read(sent, &mut |text, field| {
            let target =
                Target::parse(text, targets).map_err(|refusal| refusal.on(field.to_owned()))?;
            inputs.push(TargetInput { field: field.to_owned(), text: text.to_owned() });
            Ok(target)
        })?;
        let Some(rules) = read else { return Ok(None) };
        if rules.show().len() > Self::MAX_SIZE {
            return refuse(
                "rules",
                format!("all rules of a link together may have at most {} bytes", Self::MAX_SIZE),
            );
        }
        Ok(Some(ParsedRules { rules, inputs }))
    }

    /// Parses stored rules; `None` if they are damaged.
    pub fn from_stored(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        read(&value, &mut |text, _| Ok(Target::from_stored(text.to_owned()))).ok()?
    }
}

type TargetParser<'a> = &'a mut dyn FnMut(&str, &str) -> Result<Target, ValidationError>;

fn read(sent: &Value, parse: TargetParser<'_>) -> Result<Option<Rules>, ValidationError> {
    let items = match sent {
        Value::Null => return Ok(None),
        Value::Array(items) => items,
        _ => return refuse("rules", "must be a list of rules"),
    };
    if items.len() > Rules::MAX_RULES {
        return refuse("rules", format!("a link may have at most {} rules", Rules::MAX_RULES));
    }
    let mut rules = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        rules.push(rule(item, &format!("rules[{index}]"), parse)?);
    }
    Ok((!rules.is_empty()).then(|| Rules(rules.into())))
}

fn rule(sent: &Value, at: &str, parse: TargetParser<'_>) -> Result<Rule, ValidationError> {
    let object = Object::new(sent, at, RULE)?;
    let from = object.get("from").map(|(sent, at)| timestamp(sent, &at)).transpose()?;
    let until = object.get("until").map(|(sent, at)| timestamp(sent, &at)).transpose()?;
    if from.zip(until).is_some_and(|(from, until)| from >= until) {
        return refuse(format!("{at}.until"), "must be after from");
    }
    Ok(Rule {
        device: object.any("device", |sent, at| one_of(sent, at, DEVICES))?,
        os: object.any("os", |sent, at| one_of(sent, at, SYSTEMS))?,
        language: object.any("language", |sent, at| match text(sent, at)? {
            tag if language::is_tag(tag) => Ok(language::canonical_tag(tag).into()),
            _ => refuse(at, "must be a language tag such as de or pt-BR"),
        })?,
        country: object.any("country", |sent, at| {
            Country::parse(text(sent, at)?).ok_or_else(|| {
                invalid(at, "must be a two-letter country code such as DE (ISO 3166)")
            })
        })?,
        query: object.any("query", query_condition)?,
        from,
        until,
        weekly: weekly(&object)?,
        to: match object.get("to") {
            Some((sent, at)) => destination(sent, &at, parse)?,
            None => {
                return refuse(
                    format!("{at}.to"),
                    "is required: a URL, or a list of URLs with weights",
                );
            }
        },
    })
}

fn weekly(object: &Object<'_>) -> Result<Option<Weekly>, ValidationError> {
    let mut days = object.any("days", |sent, at| {
        Day::parse(text(sent, at)?)
            .ok_or_else(|| invalid(at, "must be mon, tue, wed, thu, fri, sat or sun"))
    })?;
    days.sort_unstable();
    let hours = object.any("hours", |sent, at| {
        Hours::parse(text(sent, at)?).ok_or_else(|| {
            invalid(at, "must be a range such as 09:00-17:30; 22:00-06:00 ends on the next day")
        })
    })?;
    let tz = match (object.get("tz"), object.get(OLD_TZ)) {
        (Some(_), Some((_, at))) => return refuse(at, "is the same as tz; send only tz"),
        (tz, old_tz) => tz.or(old_tz),
    };
    let zone =
        match tz {
            None => None,
            Some((_, at)) if days.is_empty() && hours.is_empty() => {
                return refuse(at, "is allowed only together with days or hours");
            }
            Some((sent, at)) => {
                let zone = NamedZone::parse(text(sent, &at)?);
                Some(zone.ok_or_else(|| {
                    invalid(&at, "must be an IANA time zone such as Europe/Berlin")
                })?)
            }
        };
    Ok((!days.is_empty() || !hours.is_empty()).then_some(Weekly { days, hours, zone }))
}

fn query_condition(sent: &Value, at: &str) -> Result<QueryCondition, ValidationError> {
    let object = Object::new(sent, at, &["name", "value"])?;
    let Some((name, name_at)) = object.get("name") else {
        return refuse(format!("{at}.name"), "is required");
    };
    let name = text(name, &name_at)?;
    if !(1..=MAX_QUERY_NAME).contains(&name.chars().count()) {
        return refuse(name_at, format!("must have 1 to {MAX_QUERY_NAME} characters"));
    }
    let value = match object.get("value") {
        None => None,
        Some((value, at)) => {
            let value = text(value, &at)?;
            if value.chars().count() > MAX_QUERY_VALUE {
                return refuse(at, format!("must have at most {MAX_QUERY_VALUE} characters"));
            }
            Some(value.into())
        }
    };
    Ok(QueryCondition { name: name.into(), value })
}

fn destination(
    sent: &Value,
    at: &str,
    parse: TargetParser<'_>,
) -> Result<Destination, ValidationError> {
    let items = match sent {
        Value::String(text) => return parse(text, at).map(Destination::To),
        Value::Array(items) if (1..=Rules::MAX_BRANCHES).contains(&items.len()) => items,
        Value::Array(_) => {
            return refuse(at, format!("must have 1 to {} branches", Rules::MAX_BRANCHES));
        }
        _ => return refuse(at, "must be a URL, or a list of URLs with weights"),
    };
    let mut branches = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let object = Object::new(item, &at, &["url", "weight"])?;
        let Some((url, url_at)) = object.get("url") else {
            return refuse(format!("{at}.url"), "is required");
        };
        let target = parse(text(url, &url_at)?, &url_at)?;
        let weight = match object.get("weight") {
            None => 1,
            Some((sent, at)) => {
                let weight = sent.as_u64().filter(|weight| (1..=MAX_WEIGHT).contains(weight));
                let weight = weight.and_then(|weight| u32::try_from(weight).ok());
                weight.ok_or_else(|| {
                    invalid(&at, format!("must be a whole number from 1 to {MAX_WEIGHT}"))
                })?
            }
        };
        branches.push(Branch { target, weight });
    }
    Ok(match <[Branch; 1]>::try_from(branches) {
        Ok([only]) => Destination::To(only.target),
        Err(branches) => Destination::Split(branches),
    })
}

/// A JSON object without unknown fields. A null counts as absent.
struct Object<'a> {
    fields: &'a Map<String, Value>,
    at: &'a str,
}

impl<'a> Object<'a> {
    fn new(sent: &'a Value, at: &'a str, known: &[&str]) -> Result<Self, ValidationError> {
        let Value::Object(fields) = sent else { return refuse(at, "must be an object") };
        let is_known =
            |name: &str| known.contains(&name) || (name == OLD_TZ && known.contains(&"tz"));
        match fields.keys().find(|name| !is_known(name)) {
            None => Ok(Self { fields, at }),
            Some(name) => {
                // The name comes from the client: truncate it.
                let name: String = name.chars().take(64).collect();
                refuse(
                    format!("{at}.{name}"),
                    format!("is unknown; allowed are {}", known.join(", ")),
                )
            }
        }
    }

    fn get(&self, name: &str) -> Option<(&'a Value, String)> {
        let value = self.fields.get(name).filter(|value| !value.is_null())?;
        Some((value, format!("{}.{name}", self.at)))
    }

    /// Parses one value or a list of alternatives, without duplicates.
    fn any<T: PartialEq>(
        &self,
        name: &str,
        parse: impl Fn(&Value, &str) -> Result<T, ValidationError>,
    ) -> Result<Vec<T>, ValidationError> {
        let Some((sent, at)) = self.get(name) else { return Ok(Vec::new()) };
        let items = match sent {
            Value::Array(items) if (1..=MAX_ALTERNATIVES).contains(&items.len()) => items,
            Value::Array(_) => {
                return refuse(at, format!("must have 1 to {MAX_ALTERNATIVES} alternatives"));
            }
            one => return Ok(vec![parse(one, &at)?]),
        };
        let mut all = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let one = parse(item, &format!("{at}[{index}]"))?;
            if !all.contains(&one) {
                all.push(one);
            }
        }
        Ok(all)
    }
}

fn text<'a>(sent: &'a Value, at: &str) -> Result<&'a str, ValidationError> {
    sent.as_str().ok_or_else(|| invalid(at, "must be a string"))
}

fn one_of(
    sent: &Value,
    at: &str,
    allowed: &[&'static str],
) -> Result<&'static str, ValidationError> {
    let text = text(sent, at)?;
    let known = allowed.iter().find(|name| name.eq_ignore_ascii_case(text));
    known.copied().ok_or_else(|| invalid(at, format!("must be one of {}", allowed.join(", "))))
}

fn timestamp(sent: &Value, at: &str) -> Result<Timestamp, ValidationError> {
    let parsed = text(sent, at)?.parse();
    parsed.map_err(|error: TimestampError| invalid(at, error.to_string()))
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
