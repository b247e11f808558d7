//! The canonical JSON of rules: the stored form and the form in API responses.

use serde_json::{Map, Value, json};

use super::country::Country;
use super::rule::{Destination, QueryCondition, Rule, Rules};

impl Rules {
    /// The JSON form. A condition with one alternative is written without a list.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(Rule::to_json).collect()
    }

    /// The stored form.
    pub fn show(&self) -> String {
        self.to_json().to_string()
    }
}

impl Rule {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, mut values: Vec<Value>| {
            let value = match values.len() {
                0 => return,
                1 => values.remove(0),
                _ => values.into(),
            };
            object.insert(name.to_owned(), value);
        };
        put("device", self.device.iter().map(|name| json!(name)).collect());
        put("os", self.os.iter().map(|name| json!(name)).collect());
        put("language", self.language.iter().map(|tag| json!(tag)).collect());
        put("country", self.country.iter().map(Country::as_str).map(Value::from).collect());
        put("query", self.query.iter().map(QueryCondition::to_json).collect());
        put("from", self.from.iter().map(|at| at.to_string().into()).collect());
        put("until", self.until.iter().map(|at| at.to_string().into()).collect());
        if let Some(weekly) = &self.weekly {
            put("days", weekly.days.iter().map(|day| day.as_str().into()).collect());
            put("hours", weekly.hours.iter().map(|hours| hours.show().into()).collect());
            put("tz", weekly.zone.iter().map(|zone| zone.as_str().into()).collect());
        }
        let to = match &self.to {
            Destination::To(target) => target.as_str().into(),
            Destination::Split(branches) => {
                let branches = branches.iter().map(
                    |branch| json!({ "url": branch.target.as_str(), "weight": branch.weight }),
                );
                branches.collect()
            }
        };
        object.insert("to".to_owned(), to);
        object.into()
    }
}

impl QueryCondition {
    fn to_json(&self) -> Value {
        match &self.value {
            None => json!({ "name": self.name }),
            Some(value) => json!({ "name": self.name, "value": value }),
        }
    }
}
