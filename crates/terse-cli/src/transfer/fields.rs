//! The fields of a link in a file, and how each becomes JSON for the API.
//!
//! The API validates every value. This module handles only what the API does not know: time formats
//! of other shorteners, and rows that are marked as not to be followed.

use serde_json::{Map, Value};
use terse_core::Timestamp;

/// A field of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Field {
    LongUrl,
    Code,
    Title,
    Tags,
    Notes,
    Archived,
    HasPassword,
    CreatedAt,
    ExpiresAt,
    ValidFrom,
    MaxClicks,
    Redirect,
    Rules,
    ForwardQuery,
    Crawlable,
    Domain,
    Status,
}

impl Field {
    pub(crate) const ALL: [Self; 17] = [
        Self::Code,
        Self::LongUrl,
        Self::Domain,
        Self::Title,
        Self::Tags,
        Self::Notes,
        Self::CreatedAt,
        Self::ExpiresAt,
        Self::ValidFrom,
        Self::MaxClicks,
        Self::Redirect,
        Self::Rules,
        Self::ForwardQuery,
        Self::Crawlable,
        Self::Archived,
        Self::HasPassword,
        Self::Status,
    ];

    /// The name on the wire and in our own files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LongUrl => "long_url",
            Self::Code => "short_code",
            Self::Title => "title",
            Self::Tags => "tags",
            Self::Notes => "notes",
            Self::Archived => "archived",
            Self::HasPassword => "has_password",
            Self::CreatedAt => "created_at",
            Self::ExpiresAt => "expires_at",
            Self::ValidFrom => "valid_from",
            Self::MaxClicks => "max_clicks",
            Self::Redirect => "redirect",
            Self::Rules => "rules",
            Self::ForwardQuery => "forward_query",
            Self::Crawlable => "crawlable",
            Self::Domain => "domain",
            Self::Status => "status",
        }
    }

    /// Converts a cell to JSON for the API; `None` for an empty one.
    pub(crate) fn read_cell(
        self,
        cell: &str,
        tag_separators: &[char],
    ) -> Result<Option<Value>, &'static str> {
        if cell.is_empty() {
            return Ok(None);
        }
        let number =
            |max: u64| cell.trim().parse::<u64>().ok().filter(|n| *n <= max).map(Value::from);
        let value = match self {
            Self::Tags => {
                let tags = cell.split(tag_separators).map(str::trim).filter(|tag| !tag.is_empty());
                tags.map(Value::from).collect()
            }
            Self::MaxClicks => number(i64::MAX as u64).ok_or("not a whole number")?,
            Self::Redirect => number(999).ok_or("not a redirect status")?,
            Self::Rules => serde_json::from_str(cell).map_err(|_| "not JSON")?,
            Self::ForwardQuery | Self::Crawlable | Self::Archived | Self::HasPassword => {
                match cell.trim().to_ascii_lowercase().as_str() {
                    "true" | "1" | "yes" => true.into(),
                    "false" | "0" | "no" => false.into(),
                    _ => return Err("neither true nor false"),
                }
            }
            Self::CreatedAt | Self::ExpiresAt | Self::ValidFrom => rfc3339(cell.trim()).into(),
            Self::Title | Self::Notes => cell.into(),
            Self::LongUrl | Self::Code | Self::Domain | Self::Status => cell.trim().into(),
        };
        Ok(Some(value))
    }

    /// A field of a link as a cell.
    pub(crate) fn write_cell(self, link: &Value) -> String {
        match link.get(self.name()) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(items)) if self == Self::Tags => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            Some(other) => other.to_string(),
        }
    }
}

/// Fields of a link's JSON that an import does not use.
const IGNORED: [&str; 11] = [
    "short_url",
    "flags",
    "updated_at",
    "deleted_at",
    "owner",
    "qr_url",
    "preview_url",
    "revision",
    "spent_clicks",
    "total_clicks",
    "click_count",
];

/// Keeps the fields of a JSON line that an import uses. Ignores nulls; refuses unknown fields.
pub(crate) fn from_object(
    object: Map<String, Value>,
    ignore_unknown: bool,
) -> Result<Map<String, Value>, (String, String)> {
    let mut kept = Map::new();
    for (name, value) in object {
        let known = Field::ALL.into_iter().map(Field::name).find(|known| *known == name);
        let known = known.or(match name.as_str() {
            "longUrl" | "url" => Some("long_url"),
            "shortCode" | "alias" | "custom_alias" | "customAlias" | "keyword" => {
                Some("short_code")
            }
            "createdAt" => Some("created_at"),
            "expiresAt" => Some("expires_at"),
            "validFrom" => Some("valid_from"),
            "maxClicks" => Some("max_clicks"),
            "forwardQuery" => Some("forward_query"),
            "hasPassword" => Some("has_password"),
            _ => None,
        });
        match known {
            _ if value.is_null() => {}
            Some(known) if kept.contains_key(known) => {
                return Err((name, "given twice under different names".into()));
            }
            Some(known) => {
                kept.insert(known.to_owned(), value);
            }
            None if ignore_unknown || IGNORED.contains(&name.as_str()) => {}
            None => {
                return Err((
                    crate::terminal::cut(&name, 40),
                    "unknown field; --ignore-unknown passes over it".into(),
                ));
            }
        }
    }
    Ok(kept)
}

/// Other shorteners' times as RFC 3339: without an offset they are taken as UTC, a number is
/// seconds since 1970, and `+0000` is an offset. The API refuses anything else.
fn rfc3339(text: &str) -> String {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    if (9..=11).contains(&shape.len()) && shape.bytes().all(|b| b == b'9') {
        return match text.parse::<i64>() {
            Ok(seconds) => Timestamp::from_ms(seconds.saturating_mul(1000)).to_string(),
            Err(_) => text.to_owned(),
        };
    }
    let Some(rest) =
        shape.strip_prefix("9999-99-99").and_then(|rest| rest.strip_prefix(['T', ' ']))
    else {
        return text.to_owned();
    };
    let Some(rest) = rest.strip_prefix("99:99:99") else { return text.to_owned() };
    let offset = rest.strip_prefix('.').map_or(rest, |fraction| fraction.trim_start_matches('9'));
    match offset {
        "" => format!("{text}Z"),
        " UTC" => text.replace(" UTC", "Z"),
        "+9999" | "-9999" => format!("{}:{}", &text[..text.len() - 2], &text[text.len() - 2..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_shorteners_times_become_rfc_3339() {
        for (text, want) in [
            ("2020-05-01 12:00:00", "2020-05-01T12:00:00Z"),
            ("2020-05-01T12:00:00", "2020-05-01T12:00:00Z"),
            ("2020-05-01T12:00:00+0200", "2020-05-01T10:00:00Z"),
            ("2020-05-01T12:00:00.5-0000", "2020-05-01T12:00:00.5Z"),
            ("2020-05-01 12:00:00 UTC", "2020-05-01T12:00:00Z"),
            ("1588334400", "2020-05-01T12:00:00Z"),
            ("2020-05-01", "2020-05-01T00:00:00Z"),
            ("2020-05-01T12:00:00Z", "2020-05-01T12:00:00Z"),
        ] {
            assert_eq!(
                Timestamp::parse(&rfc3339(text)).map(|at| at.to_string()).as_deref(),
                Some(want),
                "{text}"
            );
        }
        for text in [
            "",
            "yesterday",
            "12",
            "99999999999999999999",
            "2020-05-01T12:00:00 CEST",
            "２０２０-05-01T12:00:00",
        ] {
            assert_eq!(rfc3339(text), text);
        }
    }

    #[test]
    fn cells_become_what_the_api_wants() {
        let json = |field: Field, cell| {
            field.read_cell(cell, &[',']).map(|value| value.map(|v| v.to_string()))
        };
        assert_eq!(json(Field::Tags, "a, b,,c").unwrap().unwrap(), r#"["a","b","c"]"#);
        assert_eq!(json(Field::MaxClicks, "5").unwrap().unwrap(), "5");
        assert_eq!(json(Field::Crawlable, "TRUE").unwrap().unwrap(), "true");
        assert_eq!(json(Field::Title, " x ").unwrap().unwrap(), "\" x \"");
        assert_eq!(json(Field::Title, "").unwrap(), None);
        for (field, cell) in [
            (Field::MaxClicks, "99999999999999999999"),
            (Field::Crawlable, "maybe"),
            (Field::Redirect, "x"),
        ] {
            assert!(json(field, cell).is_err());
        }
    }
}
