//! Errors, as text and as JSON.

use std::fmt;

use serde_json::{Value, json};

/// A problem response of the API (RFC 9457).
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) title: String,
    pub(crate) detail: String,
    pub(crate) field: Option<String>,
}

impl Problem {
    /// Parses a response that is not a success.
    pub(crate) fn read(status: u16, body: &Value) -> Self {
        let text = |name: &str| {
            body.get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let title = text("title").unwrap_or_else(|| format!("the server answered {status}"));
        Self {
            status: body
                .get("status")
                .and_then(Value::as_u64)
                .and_then(|s| u16::try_from(s).ok())
                .unwrap_or(status),
            code: text("code").unwrap_or_else(|| "failed".into()),
            detail: text("detail").unwrap_or_else(|| title.clone()),
            title,
            field: text("field"),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "title": self.title, "status": self.status, "code": self.code,
            "detail": self.detail, "field": self.field })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{}: {} ({})", field, self.detail, self.code),
            None => write!(f, "{} ({})", self.detail, self.code),
        }
    }
}

impl std::error::Error for Problem {}

/// A usage error that clap cannot detect, only the command itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub &'static str);

/// One line of text, or one JSON object; both contain the whole chain of causes.
pub fn describe(error: &anyhow::Error, as_json: bool) -> String {
    if !as_json {
        return format!("terse: {}", crate::terminal::one_line(&format!("{error:#}")));
    }
    let problem = match error.downcast_ref::<Problem>() {
        Some(problem) => problem.to_json(),
        None => {
            json!({ "title": "the command \
                failed", "status": null, "code": "failed", "detail": format!("{error:#}"),
                "field": null })
        }
    };
    problem.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_well_however_little_the_server_says() {
        let full = json!({"title": "Alias \
            taken", "status": 409, "code": "alias_taken", "detail": "this alias is \
                taken", "field": "custom_alias"});
        let problem = Problem::read(409, &full);
        assert_eq!(problem.to_string(), "custom_alias: this alias is taken (alias_taken)");
        assert_eq!(problem.to_json(), full);
        assert_eq!(
            Problem::read(502, &Value::Null).to_string(),
            "the server answered 502 (failed)"
        );
        let error = anyhow::Error::new(problem);
        assert_eq!(describe(&error, true), full.to_string());
        let error = anyhow::anyhow!("no\nroom").context("writing");
        assert_eq!(describe(&error, false), "terse: writing: no room");
        assert_eq!(
            serde_json::from_str::<Value>(&describe(&error, true)).unwrap()["detail"],
            "writing: no\nroom"
        );
    }
}
