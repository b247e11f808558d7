//! The redirect rules in the form of a link, as rows of fields. Rules that the rows cannot show
//! stay JSON.

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::link_fields::{instant, local};
use crate::http::params::Params;
use crate::http::problem::Problem;

/// The largest number of rules as rows. A link may have more, as JSON.
const MAX_ROWS: usize = 10;
/// The largest number of targets of a row.
const MAX_TARGETS: usize = 10;
/// Names a field of a row: `rule.0.country`.
const PREFIX: &str = "rule.";
/// The choices of devices.
const DEVICES: [(&str, &str); 5] = [
    ("", "Any device"),
    ("mobile", "Phone"),
    ("tablet", "Tablet"),
    ("mobile, tablet", "Phone or tablet"),
    ("desktop", "Computer"),
];
/// The conditions that are a list of words.
const LISTS: [&str; 6] = ["device", "os", "language", "country", "days", "hours"];

/// A rule as it was typed: one text for each field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RuleRow {
    pub(super) device: String,
    pub(super) os: String,
    pub(super) language: String,
    pub(super) country: String,
    /// `name=value` or `name`, separated by commas.
    pub(super) query: String,
    pub(super) from: String,
    pub(super) until: String,
    pub(super) days: String,
    pub(super) hours: String,
    pub(super) tz: String,
    /// Targets with their weights.
    pub(super) to: Vec<(String, String)>,
}

/// A button of the editor that changes the rows instead of saving.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RowAction {
    /// Shows a further row.
    Add,
    /// Tries the rules on a visitor.
    Try,
    /// Removes a row.
    Remove(usize),
    /// Moves a row before the one above it.
    Up(usize),
}

impl RowAction {
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word.split_once('.') {
            None if word == "add" => Some(Self::Add),
            None if word == "try" => Some(Self::Try),
            Some(("remove", row)) => row.parse().ok().map(Self::Remove),
            Some(("up", row)) => row.parse().ok().map(Self::Up),
            _ => None,
        }
    }

    pub(super) fn apply(self, rows: &mut Vec<RuleRow>) {
        match self {
            Self::Add | Self::Try => {}
            Self::Remove(row) if row < rows.len() => drop(rows.remove(row)),
            Self::Up(row) if (1..rows.len()).contains(&row) => rows.swap(row - 1, row),
            Self::Remove(_) | Self::Up(_) => {}
        }
    }
}

/// Takes the rows from a form; `None` if it has none. Empty rows are left out.
pub(super) fn take_rows(fields: &mut Params) -> Option<Vec<RuleRow>> {
    let taken = fields.take_all(PREFIX);
    if taken.is_empty() {
        return None;
    }
    let mut rows = vec![RuleRow::default(); MAX_ROWS];
    for (name, value) in taken {
        let mut parts = name[PREFIX.len()..].split('.');
        let row = parts.next().and_then(|row| row.parse::<usize>().ok());
        let Some(row) = row.and_then(|row| rows.get_mut(row)) else { continue };
        let value = value.trim().to_owned();
        match (parts.next(), parts.next().and_then(|place| place.parse::<usize>().ok())) {
            (Some(kind @ ("url" | "weight")), Some(place)) if place < MAX_TARGETS => {
                if row.to.len() <= place {
                    row.to.resize(place + 1, Default::default());
                }
                if kind == "url" { row.to[place].0 = value } else { row.to[place].1 = value }
            }
            (Some(field), None) => {
                if let Some(kept) = row.field(field) {
                    *kept = value;
                }
            }
            _ => {}
        }
    }
    rows.iter_mut().for_each(|row| row.to.retain(|(url, _)| !url.is_empty()));
    rows.retain(|row| *row != RuleRow { tz: row.tz.clone(), ..RuleRow::default() });
    Some(rows)
}

/// The rules of a link as rows; `None` if rows cannot show them as they are.
pub(super) fn rows_of(rules: &Value, zone: &TimeZone) -> Option<Vec<RuleRow>> {
    let rules = rules.as_array().filter(|rules| rules.len() <= MAX_ROWS)?;
    let mut rows = Vec::new();
    for (place, rule) in rules.iter().enumerate() {
        let row = RuleRow::of(rule, zone)?;
        let same = row.to_json(place, zone).is_ok_and(|shown| shown == *rule);
        rows.push(same.then_some(row)?);
    }
    Some(rows)
}

/// The rows as the services read rules.
pub(super) fn to_json(rows: &[RuleRow], zone: &TimeZone) -> Result<Value, Problem> {
    rows.iter().enumerate().map(|(place, row)| row.to_json(place, zone)).collect()
}

impl RuleRow {
    fn field(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "device" => &mut self.device,
            "os" => &mut self.os,
            "language" => &mut self.language,
            "country" => &mut self.country,
            "query" => &mut self.query,
            "from" => &mut self.from,
            "until" => &mut self.until,
            "days" => &mut self.days,
            "hours" => &mut self.hours,
            "tz" => &mut self.tz,
            _ => return None,
        })
    }

    fn of(rule: &Value, zone: &TimeZone) -> Option<Self> {
        let words = |value: &Value| -> Option<String> {
            match value {
                Value::String(text) => Some(text.clone()),
                Value::Array(items) => {
                    let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                    items.map(|items| items.join(", "))
                }
                _ => None,
            }
        };
        let pair = |value: &Value| -> Option<String> {
            let name = value["name"].as_str()?;
            Some(match &value["value"] {
                Value::Null => name.to_owned(),
                value => format!("{name}={}", value.as_str()?),
            })
        };
        let mut row = Self::default();
        for (name, value) in rule.as_object()? {
            match (name.as_str(), value) {
                ("to", Value::String(url)) => row.to = vec![(url.clone(), String::new())],
                ("to", Value::Array(branches)) => {
                    for branch in branches {
                        let url = branch["url"].as_str()?.to_owned();
                        row.to.push((url, branch["weight"].to_string()));
                    }
                }
                ("query", Value::Array(pairs)) => {
                    let pairs: Option<Vec<String>> = pairs.iter().map(pair).collect();
                    row.query = pairs?.join(", ");
                }
                ("query", one) => row.query = pair(one)?,
                ("from" | "until", Value::String(at)) => {
                    *row.field(name)? = local(terse_core::Timestamp::parse(at), zone);
                }
                (name, value) => *row.field(name)? = words(value)?,
            }
        }
        Some(row)
    }

    fn to_json(&self, place: usize, zone: &TimeZone) -> Result<Value, Problem> {
        let parts = |text: &str| -> Vec<String> {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let mut rule = Map::new();
        let mut put = |name: &str, mut values: Vec<Value>| {
            match values.len() {
                0 => None,
                1 => rule.insert(name.to_owned(), values.remove(0)),
                _ => rule.insert(name.to_owned(), values.into()),
            };
        };
        let texts =
            [&self.device, &self.os, &self.language, &self.country, &self.days, &self.hours];
        for (name, text) in LISTS.into_iter().zip(texts) {
            put(name, parts(text).into_iter().map(Value::from).collect());
        }
        let pair = |part: String| match part.split_once('=') {
            Some((name, value)) => json!({ "name": name, "value": value }),
            None => json!({ "name": part }),
        };
        put("query", parts(&self.query).into_iter().map(pair).collect());
        for (name, typed) in [("from", &self.from), ("until", &self.until)] {
            let at = instant("rules", typed, zone)
                .map_err(|problem| problem.on(format!("rules[{place}].{name}")))?;
            put(name, at.into_iter().map(Value::from).collect());
        }
        if !self.days.is_empty() || !self.hours.is_empty() {
            put("tz", parts(&self.tz).into_iter().map(Value::from).collect());
        }
        match self.to.as_slice() {
            [] => {}
            [(url, _)] => put("to", vec![url.as_str().into()]),
            many => {
                // A weight that is not a number is passed on as it is: the service refuses it and
                // says what is allowed.
                let weight = |text: &str| match text {
                    "" => json!(1),
                    text => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
                };
                let branch =
                    |(url, text): &(String, String)| json!({ "url": url, "weight": weight(text) });
                let branches: Vec<Value> = many.iter().map(branch).collect();
                rule.insert("to".to_owned(), branches.into());
            }
        }
        Ok(rule.into())
    }

    /// The choices of devices, with the one of this row even if it is none of the usual.
    pub(super) fn devices(&self) -> Vec<(String, String, bool)> {
        let usual = DEVICES.iter().map(|(value, label)| {
            ((*value).to_owned(), (*label).to_owned(), *value == self.device)
        });
        let mut all: Vec<_> = usual.collect();
        if !all.iter().any(|(.., chosen)| *chosen) {
            all.push((self.device.clone(), self.device.clone(), true));
        }
        all
    }

    /// The targets, and room for one more.
    pub(super) fn targets(&self) -> Vec<(usize, &str, &str)> {
        let mut all: Vec<(usize, &str, &str)> = self
            .to
            .iter()
            .enumerate()
            .map(|(place, (url, weight))| (place, url.as_str(), weight.as_str()))
            .collect();
        if all.len() < MAX_TARGETS {
            all.push((all.len(), "", ""));
        }
        all
    }

    /// Whether the row has conditions about times.
    pub(super) fn has_times(&self) -> bool {
        [&self.from, &self.until, &self.days, &self.hours].iter().any(|text| !text.is_empty())
    }
}

/// The rows that the form shows: those that are filled, and an empty one.
pub(super) fn shown(rows: &[RuleRow]) -> Vec<(usize, RuleRow)> {
    let mut all: Vec<(usize, RuleRow)> = rows.iter().cloned().enumerate().collect();
    if all.len() < MAX_ROWS {
        all.push((all.len(), RuleRow::default()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_the_same_after_a_visit_to_the_rows() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let rules = json!([
            {"device": ["mobile", "tablet"], "country": "AT", "to": "https://e.com/at"},
            {"os": "iOS", "language": ["de", "pt-BR"], "query": {"name": "a", "value": "b"},
                "to": [{"url": "https://e.com/1", "weight": 3},
                    {"url": "https://e.com/2", "weight": 1}]},
            {"query": [{"name": "a"}, {"name": "b", "value": ""}], "from": "2026-11-30T09:00:00Z",
                "until": "2026-12-30T09:00:00Z", "to": "https://e.com/"},
            {"days": ["mon", "tue"], "hours": "09:00-17:00", "tz": "UTC", "to": "https://e.com/"},
        ]);
        let rows = rows_of(&rules, &zone).unwrap();
        assert_eq!(rows[2].from, "2026-11-30T10:00");
        assert_eq!(to_json(&rows, &zone).unwrap(), rules);
    }

    #[test]
    fn rules_that_the_rows_cannot_show_stay_json() {
        for rule in [
            json!({"query": {"name": "a,b"}, "to": "https://e.com/"}),
            json!({"query": {"name": "a=b"}, "to": "https://e.com/"}),
            json!({"from": "2026-11-30T09:00:07Z", "to": "https://e.com/"}),
        ] {
            assert_eq!(rows_of(&json!([rule]), &TimeZone::UTC), None, "{rule}");
        }
        let many = vec![json!({"to": "https://e.com/"}); MAX_ROWS + 1];
        assert_eq!(rows_of(&many.into(), &TimeZone::UTC), None);
    }

    #[test]
    fn empty_rows_are_left_out_and_rows_move() {
        let mut fields = Params::parse(
            "rule.0.device=&rule.0.tz=UTC&rule.1.country=AT&rule.1.url.1=https://e.com/b\
             &rule.1.url.0=https://e.com/a&rule.1.weight.0=2&rule.2.device=mobile&rule.99.os=x\
             &rule.x.os=x&rule.2.eaten=x",
        )
        .unwrap();
        let mut rows = take_rows(&mut fields).unwrap();
        assert!(fields.done().is_ok());
        let json = to_json(&rows, &TimeZone::UTC).unwrap();
        let branches = json!([{"url": "https://e.com/a", "weight": 2},
            {"url": "https://e.com/b", "weight": 1}]);
        assert_eq!(json, json!([{"country": "AT", "to": branches}, {"device": "mobile"}]));
        for (word, first) in [("up.1", "mobile"), ("up.0", "mobile"), ("remove.0", "")] {
            RowAction::parse(word).unwrap().apply(&mut rows);
            assert_eq!(rows[0].device, first, "{word}");
        }
        RowAction::parse("remove.7").unwrap().apply(&mut rows);
        assert_eq!((rows.len(), RowAction::parse("eat.1")), (1, None));
        assert!(take_rows(&mut Params::parse("a=b").unwrap()).is_none());
    }
}
