//! The fields of a link in a file, and how each becomes JSON for the API.
//!
//! The API validates every value. This module handles only what the API does not know: time formats
//! of other shorteners, and rows that are marked as blocked or deleted.

use serde_json::{Map, Value};

use super::columns::{Column, meaning};
use crate::time::Timestamp;

/// A field of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Field {
    /// The target.
    LongUrl,
    /// The code.
    Code,
    /// The title.
    Title,
    /// The tags.
    Tags,
    /// The notes.
    Notes,
    /// Whether it is archived.
    Archived,
    /// Whether it has a password.
    HasPassword,
    /// When it was created.
    CreatedAt,
    /// When it expires.
    ExpiresAt,
    /// When it begins to work.
    ValidFrom,
    /// How many visits it allows.
    MaxClicks,
    /// The redirect status.
    Redirect,
    /// The rules, as JSON.
    Rules,
    /// The social preview, as JSON.
    Preview,
    /// Whether the query is passed on.
    ForwardQuery,
    /// Whether search engines may follow.
    Crawlable,
    /// The short domain.
    Domain,
    /// The status.
    Status,
}

/// The column with clicks in our own files. Imported, they are the count before the first click.
pub const CLICKS: &str = "click_count";

impl Field {
    /// All of them, in the order of our own files.
    pub const ALL: [Self; 18] = [
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
        Self::Preview,
        Self::ForwardQuery,
        Self::Crawlable,
        Self::Archived,
        Self::HasPassword,
        Self::Status,
    ];

    /// The name on the wire and in our own files.
    pub fn name(self) -> &'static str {
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
            Self::Preview => "preview",
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
            Self::Rules | Self::Preview => serde_json::from_str(cell).map_err(|_| "not JSON")?,
            Self::ForwardQuery | Self::Crawlable | Self::Archived | Self::HasPassword => {
                match cell.trim().to_ascii_lowercase().as_str() {
                    "true" | "t" | "1" | "yes" => true.into(),
                    "false" | "f" | "0" | "no" => false.into(),
                    _ => return Err("neither true nor false"),
                }
            }
            // chhoto-url and MySQL write zeros for no time.
            Self::CreatedAt | Self::ExpiresAt | Self::ValidFrom
                if matches!(cell.trim(), "0" | "0000-00-00 00:00:00") =>
            {
                return Ok(None);
            }
            Self::CreatedAt | Self::ExpiresAt | Self::ValidFrom => rfc3339(cell.trim()).into(),
            Self::Title | Self::Notes => cell.into(),
            Self::LongUrl | Self::Code | Self::Domain | Self::Status => cell.trim().into(),
        };
        Ok(Some(value))
    }

    /// A field of a link as a cell.
    pub fn write_cell(self, link: &Value) -> String {
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

/// What a row says about a link.
#[derive(Debug, Default)]
pub(crate) struct RowFields {
    body: Map<String, Value>,
    /// The code in a short URL; a column with the code itself comes first.
    short_url: Option<String>,
    more_codes: Vec<String>,
    clicks: Option<u64>,
}

impl RowFields {
    /// Takes a cell of a table.
    pub(crate) fn put_cell(
        &mut self,
        column: Column,
        cell: &str,
        tag_separators: &[char],
    ) -> Result<(), &'static str> {
        match column {
            Column::Field(field) => {
                if let Some(value) = field.read_cell(cell, tag_separators)? {
                    self.body.insert(field.name().to_owned(), value);
                }
            }
            Column::ShortUrl => self.short_url = code_in(cell).or(self.short_url.take()),
            Column::MoreShortUrls => {
                self.more_codes.extend(cell.split([',', ' ']).filter_map(code_in));
            }
            Column::Clicks if !cell.trim().is_empty() => {
                let count = cell.trim().parse::<i64>().ok();
                let count =
                    count.and_then(|count| u64::try_from(count).ok()).ok_or("not a count")?;
                self.clicks = self.clicks.max(Some(count));
            }
            Column::Password if is_set(cell) => self.set(Field::HasPassword, true.into()),
            Column::Banned if is_set(cell) => self.set(Field::Status, "blocked".into()),
            Column::Deleted if is_set(cell) => self.set(Field::Status, "deleted".into()),
            Column::Clicks
            | Column::Password
            | Column::Banned
            | Column::Deleted
            | Column::Nested
            | Column::Unused => {}
        }
        Ok(())
    }

    /// Takes a field of a JSON object. `false` if a field inside of it is unknown.
    pub(crate) fn put_json(
        &mut self,
        column: Column,
        value: Value,
        tag_separators: &[char],
    ) -> Result<bool, &'static str> {
        let text = match (column, value) {
            (_, Value::Null) | (Column::Unused, _) => return Ok(true),
            (Column::Field(field), _) if self.body.contains_key(field.name()) => {
                return Err("given twice under different names");
            }
            (_, Value::String(text)) => text,
            (
                Column::Field(Field::CreatedAt | Field::ExpiresAt | Field::ValidFrom)
                | Column::Clicks
                | Column::Password
                | Column::Banned
                | Column::Deleted,
                value @ (Value::Number(_) | Value::Bool(_)),
            ) => value.to_string(),
            (Column::Field(field), value) => {
                self.set(field, value);
                return Ok(true);
            }
            // Shlink writes humans, bots and their sum.
            (Column::Clicks, Value::Object(mut summary)) => {
                let total = summary.remove("total").unwrap_or_default();
                return self.put_json(column, total, tag_separators);
            }
            // Kutt: with and without the scheme.
            (Column::ShortUrl, Value::Object(mut link)) => {
                let url = link.remove("url").or(link.remove("link")).unwrap_or_default();
                return self.put_json(column, url, tag_separators);
            }
            (Column::MoreShortUrls, Value::Array(urls)) => {
                self.more_codes.extend(urls.iter().filter_map(Value::as_str).filter_map(code_in));
                return Ok(true);
            }
            (Column::Nested, Value::Object(inner)) => {
                let mut all_known = true;
                for (name, value) in inner {
                    match meaning(&name) {
                        Some(Column::Nested) | None => all_known = false,
                        Some(column) => {
                            all_known &= self.put_json(column, value, tag_separators)?;
                        }
                    }
                }
                return Ok(all_known);
            }
            _ => return Err("not a value that can be read"),
        };
        self.put_cell(column, &text, tag_separators).map(|()| true)
    }

    fn set(&mut self, field: Field, value: Value) {
        self.body.insert(field.name().to_owned(), value);
    }

    /// The JSON for the API, and the codes of further links to the same target.
    pub(crate) fn finish(mut self) -> (Map<String, Value>, Vec<String>) {
        if let (Some(code), false) = (self.short_url, self.body.contains_key(Field::Code.name())) {
            self.body.insert(Field::Code.name().to_owned(), code.into());
        }
        if let Some(clicks) = self.clicks.filter(|clicks| *clicks > 0) {
            self.body.insert("imported_clicks".into(), clicks.into());
        }
        (self.body, self.more_codes)
    }
}

/// Whether a cell says yes. A password counts as set whatever it is.
fn is_set(cell: &str) -> bool {
    // PostgreSQL writes `f`.
    !["", "0", "f", "false", "no", "null"].contains(&cell.trim().to_ascii_lowercase().as_str())
}

/// The code at the end of a short URL. A text without a slash is the code itself.
fn code_in(url: &str) -> Option<String> {
    let path = url.trim().split(['?', '#']).next()?;
    let code = match path.split_once("://") {
        Some((_, rest)) => rest.trim_end_matches('/').split_once('/')?.1.rsplit('/').next()?,
        None => path.trim_end_matches('/').rsplit('/').next()?,
    };
    (!code.is_empty()).then(|| code.to_owned())
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
            // PostgreSQL leaves out the minutes of an offset that has none.
            ("2020-05-01 12:00:00+00", "2020-05-01T12:00:00Z"),
            ("2020-05-01 12:00:00.715463-03", "2020-05-01T15:00:00.715Z"),
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
    fn truth_is_read_as_databases_write_it() {
        for (cell, set) in [
            ("", false),
            ("0", false),
            ("f", false),
            ("F", false),
            ("false", false),
            ("no", false),
            ("null", false),
            ("1", true),
            ("t", true),
            ("true", true),
            ("$2a$12$abcdefghijklmnopqrstuu", true),
        ] {
            assert_eq!(is_set(cell), set, "{cell}");
        }
        for (cell, archived) in [("t", true), ("f", false), ("1", true), ("No", false)] {
            assert_eq!(Field::Archived.read_cell(cell, &[]), Ok(Some(archived.into())), "{cell}");
        }
        assert!(Field::Archived.read_cell("maybe", &[]).is_err());
    }

    #[test]
    fn a_code_is_found_in_a_short_url() {
        for (url, code) in [
            ("https://bit.ly/3xYz", Some("3xYz")),
            ("bit.ly/3xYz?x=1", Some("3xYz")),
            ("https://s.test/a/b/", Some("b")),
            ("3xYz", Some("3xYz")),
            ("https://s.test", None),
            ("", None),
        ] {
            assert_eq!(code_in(url).as_deref(), code, "{url}");
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
