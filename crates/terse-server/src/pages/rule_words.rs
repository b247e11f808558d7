//! Redirect rules in words, for the pages that show them.

use serde_json::Value;
use terse_core::rules::Rules;

use super::names::{country, language};

/// A rule in words.
pub(super) struct RuleWords {
    /// Such as `Country` and `Austria or Germany`.
    pub(super) conditions: Vec<(&'static str, String)>,
    /// The targets, each with its share of the visitors, such as `1 of 3`, if they are split.
    pub(super) targets: Vec<(String, Option<String>)>,
}

impl RuleWords {
    /// The rule as a sentence.
    fn sentence(&self) -> String {
        let conditions: Vec<String> =
            self.conditions.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let who = if conditions.is_empty() { "Everyone".to_owned() } else { conditions.join(", ") };
        let targets: Vec<String> = self
            .targets
            .iter()
            .map(|(target, share)| match share {
                Some(share) => format!("{target} ({share})"),
                None => target.clone(),
            })
            .collect();
        format!("{who} → {}", targets.join(" or "))
    }
}

/// Rules as one text; empty if there are none.
pub(super) fn rule_sentences(rules: Option<&Rules>) -> String {
    let rules = in_words(rules);
    let sentences: Vec<String> = rules.iter().map(RuleWords::sentence).collect();
    sentences.join("; ")
}

/// Each rule in words.
pub(super) fn in_words(rules: Option<&Rules>) -> Vec<RuleWords> {
    let rules = rules.map(Rules::to_json).unwrap_or_default();
    rules.as_array().into_iter().flatten().map(one_rule).collect()
}

fn one_rule(rule: &Value) -> RuleWords {
    let fields = rule.as_object().into_iter().flatten();
    let conditions = fields
        .filter(|(name, _)| *name != "to")
        .map(|(name, value)| (label(name), alternatives(name, value)))
        .collect();
    let targets = match &rule["to"] {
        Value::Array(branches) => {
            let weight = |branch: &Value| branch["weight"].as_u64().unwrap_or_default();
            let all: u64 = branches.iter().map(weight).sum();
            let url = |branch: &Value| branch["url"].as_str().unwrap_or_default().to_owned();
            let target = |one| (url(one), Some(format!("{} of {all}", weight(one))));
            branches.iter().map(target).collect()
        }
        other => vec![(other.as_str().unwrap_or_default().to_owned(), None)],
    };
    RuleWords { conditions, targets }
}

/// The name of a condition.
fn label(name: &str) -> &'static str {
    match name {
        "device" => "Device",
        "os" => "System",
        "language" => "Language",
        "country" => "Country",
        "query" => "Query",
        "from" => "From",
        "until" => "Until",
        "days" => "Days",
        "hours" => "Hours",
        "tz" => "Time zone",
        _ => "Condition",
    }
}

/// The value of a condition, or its alternatives.
fn alternatives(name: &str, value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| one_value(name, item)).collect();
            items.join(" or ")
        }
        one => one_value(name, one),
    }
}

fn one_value(name: &str, value: &Value) -> String {
    match (name, value) {
        ("country", Value::String(code)) => country(code).to_owned(),
        ("language", Value::String(tag)) => language(tag),
        (_, Value::String(text)) => text.clone(),
        ("query", Value::Object(condition)) => {
            let text = |name| condition.get(name).and_then(Value::as_str);
            match (text("name"), text("value")) {
                (Some(name), Some(value)) => format!("{name}={value}"),
                (name, _) => format!("has {}", name.unwrap_or_default()),
            }
        }
        (_, other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_said_in_words() {
        for (rule, want) in [
            (
                json!({"country": ["AT", "DE"], "to": "https://example.com/at"}),
                "Country: Austria or Germany → https://example.com/at",
            ),
            (
                json!({"device": "mobile", "query": {"name": "a", "value": "1"}, "to": [
                    {"url": "https://example.com/a", "weight": 1},
                    {"url": "https://example.com/b", "weight": 2}]}),
                "Device: mobile, Query: a=1 → https://example.com/a (1 of 3) or \
                 https://example.com/b (2 of 3)",
            ),
            (
                json!({"days": ["mon", "tue"], "query": {"name": "ref"}, "to": "https://a.example/"}),
                "Days: mon or tue, Query: has ref → https://a.example/",
            ),
            (json!({"to": "https://a.example/"}), "Everyone → https://a.example/"),
        ] {
            assert_eq!(one_rule(&rule).sentence(), want);
        }
    }
}
