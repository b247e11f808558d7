//! How a client spells the names of fields: `long_url` or `longUrl`. Problems name a field as the
//! client sent it, and a create in camelCase is answered in camelCase.

use serde::Serialize;
use serde_json::{Map, Value};

/// A request's body, parsed only to see the names in it.
pub(crate) struct Spelling(Value);

impl Spelling {
    /// Reads the names in a body; a body that is not JSON has none.
    pub(crate) fn of(body: &[u8]) -> Self {
        Self(serde_json::from_slice(body).unwrap_or_default())
    }

    /// Whether the body is written in camelCase: it has such a name, and none in snake_case.
    pub(crate) fn is_camel_case(&self) -> bool {
        let names = || self.0.as_object().into_iter().flat_map(Map::keys);
        names().any(|name| name.bytes().any(|byte| byte.is_ascii_uppercase()))
            && !names().any(|name| name.contains('_'))
    }

    /// A field such as `long_url` or `visitor.user_agent`, as the client spelled it. A field that
    /// was not sent is spelled like the others.
    pub(crate) fn field(&self, field: &str) -> String {
        let mut within = Some(&self.0);
        let mut spelled = String::with_capacity(field.len());
        for (index, step) in field.split('.').enumerate() {
            let (name, place) = step.split_at(step.find('[').unwrap_or(step.len()));
            let sent =
                within.and_then(Value::as_object).and_then(|fields| spelled_in(fields, name));
            if index > 0 {
                spelled.push('.');
            }
            match sent {
                Some((sent, value)) => {
                    spelled.push_str(sent);
                    within = item(value, place);
                }
                None if self.is_camel_case() && is_ours(name) => {
                    spelled.push_str(&camel_case(name));
                }
                None => {
                    spelled.push_str(name);
                    within = None;
                }
            }
            spelled.push_str(place);
        }
        spelled
    }
}

/// The field of an object that a name means, with its spelling.
fn spelled_in<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<(&'a str, &'a Value)> {
    let means = |sent: &str| {
        sent == name || camel_case(name) == sent || (name == "custom_alias" && sent == "alias")
    };
    let exact = fields.get_key_value(name);
    exact
        .or_else(|| fields.iter().find(|(sent, _)| means(sent)))
        .map(|(sent, value)| (sent.as_str(), value))
}

/// The value at `[2]`, `[2][0]` or nothing.
fn item<'a>(value: &'a Value, place: &str) -> Option<&'a Value> {
    place
        .split_terminator(']')
        .try_fold(value, |value, index| value.get(index.strip_prefix('[')?.parse::<usize>().ok()?))
}

/// Whether a name is one of a body: those of headers have capitals and hyphens.
fn is_ours(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// `long_url` as `longUrl`.
pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// A value as JSON, with its own names in camelCase.
pub(crate) fn in_camel_case(value: &impl Serialize) -> Value {
    match serde_json::to_value(value).unwrap_or_default() {
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(name, value)| (camel_case(&name), value)).collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_named_as_it_was_sent() {
        for (body, field, want) in [
            (r#"{"long_url": "x"}"#, "long_url", "long_url"),
            (r#"{"longUrl": "x"}"#, "long_url", "longUrl"),
            (r#"{"alias": "x"}"#, "custom_alias", "alias"),
            (r#"{"customAlias": "x"}"#, "custom_alias", "customAlias"),
            (r#"{"custom_alias": "x", "alias": "y"}"#, "custom_alias", "custom_alias"),
            (r#"{"expiresAt": "x"}"#, "long_url", "longUrl"),
            (r#"{"expiresAt": "x", "max_clicks": 1}"#, "long_url", "long_url"),
            (r#"{"longUrl": "x"}"#, "Idempotency-Key", "Idempotency-Key"),
            (r#"{"longUrl": "x"}"#, "rules[1].to", "rules[1].to"),
            (r#"{"visitor": {"userAgent": 1}}"#, "visitor.user_agent", "visitor.userAgent"),
            ("[]", "custom_alias", "custom_alias"),
            ("not JSON", "long_url", "long_url"),
        ] {
            assert_eq!(Spelling::of(body.as_bytes()).field(field), want, "{body} {field}");
        }
    }

    #[test]
    fn a_body_is_in_camel_case_if_all_its_names_can_be() {
        for (body, want) in [
            (r#"{"longUrl": "x", "alias": "y"}"#, true),
            (r#"{"longUrl": "x", "max_clicks": 1}"#, false),
            (r#"{"title": "x"}"#, false),
            (r#"["longUrl"]"#, false),
        ] {
            assert_eq!(Spelling::of(body.as_bytes()).is_camel_case(), want, "{body}");
        }
    }
}
