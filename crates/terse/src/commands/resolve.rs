//! `terse resolve`.

use clap::Args;
use http::Method;
use serde_json::Value;

use super::{link_path, text};
use crate::cli::Context;
use crate::client::Absent;
use crate::terminal::{is_out, one_line, say};

/// Say where a short link leads, without following it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse resolve x7Kq
  terse resolve https://go.example/x7Kq --json

In a pipe only the target is printed.")]
pub(crate) struct Resolve {
    /// A code or a whole short URL
    #[arg(value_name = "CODE|URL")]
    code: String,
    /// The short domain, if not the primary one
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
}

impl Resolve {
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<bool> {
        let path = link_path(&self.code, self.domain.as_deref(), "")?;
        let link = context.door(Absent::Refuse)?.expect(&Method::GET, &path, None)?.body;
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
}

/// What else there is to know about a link, a line each.
pub(crate) fn details(link: &Value) -> Vec<String> {
    let shown = |(name, field): (&str, &str)| {
        let value = match link.get(field)? {
            Value::Null => return None,
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => text.clone(),
            Value::Array(items) if items.is_empty() => return None,
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
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
