//! `terse shorten`.

use std::path::PathBuf;

use clap::Args;
use http::Method;
use serde_json::{Map, Value};

use super::preview::PreviewArgs;
use super::{URLS, read_password, read_rules, text};
use crate::CommandContext;
use crate::terminal::{is_out, one_line, say};
use terse_core::HumanDuration;

/// Create a short link and print it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse shorten https://example.com/some/page
  terse shorten https://example.com/ --alias spring --title 'Spring sale' --tag sale
  terse shorten https://example.com/ --ttl 8h
  open \"$(terse shorten https://example.com/)\"")]
pub struct ShortenArgs {
    /// Where the link leads
    url: String,
    /// A custom alias instead of a generated code
    #[arg(long)]
    alias: Option<String>,
    /// When it expires, as a date or a date and time: 2030-01-31 or 2030-01-31T12:00:00Z
    #[arg(long, value_name = "DATE", conflicts_with = "ttl")]
    expires: Option<String>,
    /// How long until it expires: 30s, 15m, 8h, 90d
    #[arg(long, value_name = "DURATION")]
    ttl: Option<HumanDuration>,
    /// Valid from this date, or date and time
    #[arg(long, value_name = "DATE")]
    valid_from: Option<String>,
    /// The most visits the link allows
    #[arg(long, value_name = "COUNT")]
    max_clicks: Option<u64>,
    /// A title
    #[arg(long)]
    title: Option<String>,
    /// A tag (may be repeated)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Notes, visible only to you
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
    /// A password that visitors must know: a file that holds it, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    password_file: Option<PathBuf>,
    /// Redirect rules: a file with JSON, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    rules: Option<PathBuf>,
    #[command(flatten)]
    preview: PreviewArgs,
    /// The redirect status: 301, 302, 307 or 308
    #[arg(long, value_name = "STATUS")]
    redirect: Option<u64>,
    /// The short domain, if not the primary one
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    /// Pass a visitor's query on to the target
    #[arg(long)]
    forward_query: bool,
    /// Let search engines follow the link
    #[arg(long)]
    crawlable: bool,
    /// Create a new link even if you have one for the same target
    #[arg(long)]
    no_reuse: bool,
}

impl ShortenArgs {
    fn body(&self, password: Option<String>, rules: Option<Value>) -> Value {
        let mut body = Map::from_iter([("long_url".to_owned(), Value::from(self.url.as_str()))]);
        let mut give = |name: &str, value: Option<Value>| {
            body.extend(value.map(|value| (name.to_owned(), value)));
        };
        give("custom_alias", self.alias.as_deref().map(Value::from));
        give("expires_at", self.expires.as_deref().map(Value::from));
        give("ttl", self.ttl.map(|ttl| ttl.get().as_secs().into()));
        give("valid_from", self.valid_from.as_deref().map(Value::from));
        give("max_clicks", self.max_clicks.map(Value::from));
        give("title", self.title.as_deref().map(Value::from));
        give("tags", (!self.tags.is_empty()).then(|| self.tags.as_slice().into()));
        give("notes", self.notes.as_deref().map(Value::from));
        give("password", password.map(Value::from));
        give("rules", rules);
        give("preview", self.preview.body());
        give("redirect", self.redirect.map(Value::from));
        give("domain", self.domain.as_deref().map(Value::from));
        give("forward_query", self.forward_query.then_some(true.into()));
        give("crawlable", self.crawlable.then_some(true.into()));
        give("reuse", self.no_reuse.then_some(false.into()));
        Value::Object(body)
    }

    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        let password = self.password_file.as_deref().map(read_password).transpose()?;
        let body = self.body(password, self.rules.as_deref().map(read_rules).transpose()?);
        let answer = context.api()?.expect(&Method::POST, URLS, Some(&body))?;
        let link = &answer.body;
        if context.json {
            say(&link.to_string())?;
            return Ok(true);
        }
        say(&one_line(text(link, "short_url")))?;
        if is_out() {
            let known = if answer.status == 200 { "  (it already existed)" } else { "" };
            say(&format!("→ {}{known}", one_line(text(link, "long_url"))))?;
            if let Some(end) = link.get("expires_at").and_then(Value::as_str) {
                say(&format!("  expires {}", one_line(end)))?;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        shorten: ShortenArgs,
    }

    #[test]
    fn only_options_that_were_given_are_sent() {
        let body =
            |line: &[&str]| Line::parse_from([&["x"], line].concat()).shorten.body(None, None);
        assert_eq!(body(&["https://e.com/"]), serde_json::json!({"long_url": "https://e.com/"}));
        let line = [
            "https://e.com/",
            "--alias",
            "a",
            "--ttl",
            "8h",
            "--tag",
            "x",
            "--tag",
            "y",
            "--no-reuse",
            "--redirect",
            "301",
            "--preview-title",
            "Sale",
        ];
        let want = serde_json::json!({
            "long_url": "https://e.com/", "custom_alias": "a", "ttl": 28_800, "tags": ["x", "y"],
            "reuse": false, "redirect": 301,
            "preview": {"title": "Sale", "description": null, "image_url": null}
        });
        assert_eq!(body(&line), want);
    }
}
