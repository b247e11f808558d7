//! `terse resolve`.

use clap::Args;
use http::Method;
use serde_json::{Map, Value};

use super::{link_path, text};
use crate::CommandContext;
use crate::terminal::{is_out, one_line, say};

/// Show where a short link leads, without following it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse resolve x7Kq
  terse resolve https://go.example/x7Kq --json
  terse resolve x7Kq --as-country AT --as-language de

With any of --as-…, says where the link's rules lead such a visitor, and why. In a pipe only the \
target is printed.")]
pub struct ResolveArgs {
    /// A code or a whole short URL
    #[arg(value_name = "CODE|URL")]
    code: String,
    /// The short domain, if not the primary one
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    #[command(flatten)]
    visitor: Visitor,
}

/// The visitor to evaluate the link's rules for.
#[derive(Args, Debug)]
struct Visitor {
    /// As a visitor with this user agent
    #[arg(long, value_name = "TEXT")]
    as_agent: Option<String>,
    /// As a visitor from this country
    #[arg(long, value_name = "CC", conflicts_with = "as_address")]
    as_country: Option<String>,
    /// As a visitor from this address
    #[arg(long, value_name = "IP")]
    as_address: Option<String>,
    /// As a visitor with these languages, as in Accept-Language
    #[arg(long, value_name = "TAGS")]
    as_language: Option<String>,
    /// As a visitor with this query
    #[arg(long, value_name = "QUERY")]
    as_query: Option<String>,
    /// As a visitor at this date and time
    #[arg(long, value_name = "TIME")]
    as_at: Option<String>,
    /// As the visitor with this name, for splits
    #[arg(long, value_name = "NAME")]
    as_visitor: Option<String>,
}

impl Visitor {
    /// The visitor as the API expects it; `None` if no option describes one.
    fn body(&self) -> Option<Value> {
        let given = [
            ("user_agent", &self.as_agent),
            ("country", &self.as_country),
            ("address", &self.as_address),
            ("accept_language", &self.as_language),
            ("query", &self.as_query),
            ("at", &self.as_at),
            ("visitor_id", &self.as_visitor),
        ];
        let fields: Map<String, Value> = given
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into())))
            .collect();
        (!fields.is_empty()).then_some(fields.into())
    }
}

impl ResolveArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        if let Some(visitor) = self.visitor.body() {
            return self.try_on(context, &visitor);
        }
        let path = link_path(&self.code, self.domain.as_deref(), "")?;
        let link = context.api()?.expect(&Method::GET, &path, None)?.body;
        if context.json {
            say(&link.to_string())?;
            return Ok(true);
        }
        say(&one_line(text(&link, "long_url")))?;
        if is_out() {
            for line in details(&link) {
                say(&line)?;
            }
        }
        Ok(true)
    }

    /// Where the link's rules lead this visitor, and why.
    fn try_on(&self, context: &CommandContext, visitor: &Value) -> anyhow::Result<bool> {
        let path = link_path(&self.code, self.domain.as_deref(), "/try")?;
        let response = context.api()?.expect(&Method::POST, &path, Some(visitor))?.body;
        if context.json {
            say(&response.to_string())?;
            return Ok(true);
        }
        say(&one_line(text(&response, "location")))?;
        if is_out() {
            say(&format!("  {}", one_line(text(&response, "why"))))?;
            for step in response["steps"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|step| step["matched"] == false)
            {
                let why: Vec<&str> = step["why"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                say(&format!("  not rules[{}]: {}", step["rule"], one_line(&why.join(", "))))?;
            }
        }
        Ok(true)
    }
}

/// The details of a link, one per line.
pub(crate) fn details(link: &Value) -> Vec<String> {
    let shown = |(name, field): (&str, &str)| {
        let value = match link.get(field)? {
            Value::Null => return None,
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => text.clone(),
            Value::Array(items) if items.is_empty() => return None,
            Value::Array(items) => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
            }
            other => other.to_string(),
        };
        Some(format!("  {name:<9} {}", one_line(&value)))
    };
    [
        ("link", "short_url"),
        ("state", "status"),
        ("title", "title"),
        ("tags", "tags"),
        ("notes", "notes"),
        ("made", "created_at"),
        ("changed", "updated_at"),
        ("begins", "valid_from"),
        ("ends", "expires_at"),
        ("deleted", "deleted_at"),
        ("clicks", "click_count"),
        ("visits ≤", "max_clicks"),
        ("redirect", "redirect"),
    ]
    .into_iter()
    .filter_map(shown)
    .collect()
}
