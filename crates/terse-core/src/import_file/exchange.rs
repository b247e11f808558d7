//! The rows of a file as a request to the API, and what the API answers about each.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::rows::Row;

/// What became of a row.
#[derive(Debug, Deserialize)]
pub struct RowAnswer {
    /// Its place in the request, from 0.
    pub index: Option<usize>,
    /// The status that the row would have got in a request of its own.
    pub status: u16,
    /// What is wrong with it.
    #[serde(default)]
    pub problem: Value,
}

/// The body of a request to import these rows.
pub fn request_of(rows: &[&Row]) -> Vec<u8> {
    let bodies: Vec<&Map<String, Value>> = rows.iter().map(|row| &row.body).collect();
    serde_json::to_vec(&bodies).expect("a list of JSON objects is JSON")
}

/// The answers about each row; `None` if the text does not say them.
pub fn answers_in(json: &[u8]) -> Option<Vec<RowAnswer>> {
    #[derive(Deserialize)]
    struct Answers {
        results: Vec<RowAnswer>,
    }
    serde_json::from_slice(json).ok().map(|answers: Answers| answers.results)
}

impl Row {
    /// A hash of what the row claims: its code, in lower case because look-alikes exclude each
    /// other, or its target where the code will be generated.
    pub fn claim(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let text = |name: &str| self.body.get(name).and_then(Value::as_str);
        text("domain").hash(&mut hasher);
        match text("short_code") {
            Some(code) => code.bytes().for_each(|byte| byte.to_ascii_lowercase().hash(&mut hasher)),
            None => text("long_url").hash(&mut hasher),
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(body: Value) -> Row {
        Row { line: 1, body: body.as_object().cloned().unwrap_or_default() }
    }

    #[test]
    fn a_request_is_the_list_of_the_rows_and_its_answers_are_read_with_and_without_problems() {
        let rows = [row(json!({ "long_url": "https://e.com/" })), row(json!({ "x": [1] }))];
        let body = request_of(&rows.iter().collect::<Vec<_>>());
        assert_eq!(body, br#"[{"long_url":"https://e.com/"},{"x":[1]}]"#);
        let answers = answers_in(
            br#"{"results":[{"index":1,"status":201,"link":null,"problem":null},
                {"status":400,"problem":{"code":"invalid_url"}}]}"#,
        );
        let [first, second] = &answers.unwrap()[..] else { panic!("two answers") };
        assert_eq!((first.index, first.status, &first.problem), (Some(1), 201, &Value::Null));
        assert_eq!((second.index, second.problem["code"].as_str()), (None, Some("invalid_url")));
        assert!(answers_in(b"[]").is_none() && answers_in(b"<html>").is_none());
    }

    #[test]
    fn rows_claim_the_same_if_their_codes_differ_only_by_case() {
        let claim = |body| row(body).claim();
        let a = claim(json!({ "short_code": "Ab", "long_url": "https://e.com/1" }));
        assert_eq!(a, claim(json!({ "short_code": "aB", "long_url": "https://e.com/2" })));
        assert_ne!(a, claim(json!({ "short_code": "ab", "domain": "d.example" })));
        let target = claim(json!({ "long_url": "https://e.com/1" }));
        assert_ne!(target, claim(json!({ "long_url": "https://e.com/2" })));
        assert_eq!(target, claim(json!({ "long_url": "https://e.com/1", "title": "t" })));
    }
}
