//! `terse edit`.

use std::path::PathBuf;

use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};

use super::preview::PreviewArgs;
use super::resolve::details;
use super::{link_path, read_password, read_rules, text};
use crate::CommandContext;
use crate::problem::UsageError;
use crate::terminal::{one_line, say};
use terse_core::HumanDuration;

/// Change a link. Its code, owner and domain cannot change.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse edit x7Kq --url https://example.com/new
  terse edit spring --title 'Spring sale' --tag sale --tag 2030
  terse edit spring --clear-expiry
  terse edit spring --archive --notes 'over since May'
  terse edit spring --rules by-device.json
  terse edit spring --undo")]
pub struct EditArgs {
    /// A code or a whole short URL
    #[arg(value_name = "CODE|URL")]
    code: String,
    /// The short domain, if not the primary one
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    /// A new target
    #[arg(long)]
    url: Option<String>,
    /// A new title
    #[arg(long)]
    title: Option<String>,
    /// No title
    #[arg(long, conflicts_with = "title")]
    clear_title: bool,
    /// New tags, replacing the old ones (may be repeated)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// No tags
    #[arg(long, conflicts_with = "tags")]
    clear_tags: bool,
    /// New notes, visible only to you
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
    /// No notes
    #[arg(long, conflicts_with = "notes")]
    clear_notes: bool,
    /// A password that visitors must know: a file that holds it, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    password_file: Option<PathBuf>,
    /// No password
    #[arg(long, conflicts_with = "password_file")]
    clear_password: bool,
    /// Archive the link: it keeps working, but lists leave it out
    #[arg(long)]
    archive: bool,
    /// Take the link out of the archive
    #[arg(long, conflicts_with = "archive")]
    unarchive: bool,
    /// A new expiry, as a date or a date and time: 2030-01-31 or 2030-01-31T12:00:00Z
    #[arg(long, value_name = "DATE")]
    expires: Option<String>,
    /// A new expiry, from now: 30s, 15m, 8h, 90d
    #[arg(long, value_name = "DURATION", conflicts_with = "expires")]
    ttl: Option<HumanDuration>,
    /// The link never expires
    #[arg(long, conflicts_with_all = ["expires", "ttl"])]
    clear_expiry: bool,
    /// Valid from this date, or date and time
    #[arg(long, value_name = "DATE")]
    valid_from: Option<String>,
    /// Valid immediately
    #[arg(long, conflicts_with = "valid_from")]
    clear_valid_from: bool,
    /// The most visits the link allows
    #[arg(long, value_name = "COUNT")]
    max_clicks: Option<u64>,
    /// Any number of visits
    #[arg(long, conflicts_with = "max_clicks")]
    clear_max_clicks: bool,
    /// Redirect rules that replace the old ones: a file with JSON, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    rules: Option<PathBuf>,
    /// No rules
    #[arg(long, conflicts_with = "rules")]
    clear_rules: bool,
    #[command(flatten)]
    preview: PreviewArgs,
    /// No social preview
    #[arg(long, conflicts_with_all = ["preview_title", "preview_description", "preview_image"])]
    clear_preview: bool,
    /// The redirect status: 301, 302, 307 or 308
    #[arg(long, value_name = "STATUS")]
    redirect: Option<u64>,
    /// Whether to pass a visitor's query on to the target
    #[arg(long, value_name = "true|false")]
    forward_query: Option<bool>,
    /// Whether search engines may follow the link
    #[arg(long, value_name = "true|false")]
    crawlable: Option<bool>,
    /// Undo the last change, or all changes since a revision
    #[arg(long, value_name = "REVISION", num_args = 0..=1, require_equals = true)]
    undo: Option<Option<u64>>,
}

impl EditArgs {
    fn body(&self, password: Option<String>, rules: Option<Value>) -> Value {
        let mut body = Map::new();
        let mut give = |name: &str, value: Option<Value>| {
            body.extend(value.map(|value| (name.to_owned(), value)));
        };
        let or_null = |value: Option<Value>, clear: bool| value.or(clear.then_some(Value::Null));
        give("long_url", self.url.as_deref().map(Value::from));
        give("title", or_null(self.title.as_deref().map(Value::from), self.clear_title));
        give(
            "tags",
            (self.clear_tags || !self.tags.is_empty()).then(|| self.tags.as_slice().into()),
        );
        give("notes", or_null(self.notes.as_deref().map(Value::from), self.clear_notes));
        give("password", or_null(password.map(Value::from), self.clear_password));
        give("archived", (self.archive || self.unarchive).then_some(self.archive.into()));
        give("expires_at", or_null(self.expires.as_deref().map(Value::from), self.clear_expiry));
        give("ttl", self.ttl.map(|ttl| ttl.get().as_secs().into()));
        give(
            "valid_from",
            or_null(self.valid_from.as_deref().map(Value::from), self.clear_valid_from),
        );
        give("max_clicks", or_null(self.max_clicks.map(Value::from), self.clear_max_clicks));
        give("rules", or_null(rules, self.clear_rules));
        give("preview", or_null(self.preview.body(), self.clear_preview));
        give("redirect", self.redirect.map(Value::from));
        give("forward_query", self.forward_query.map(Value::from));
        give("crawlable", self.crawlable.map(Value::from));
        Value::Object(body)
    }

    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        let password = self.password_file.as_deref().map(read_password).transpose()?;
        let body = self.body(password, self.rules.as_deref().map(read_rules).transpose()?);
        let (method, after, body) = match (self.undo, body.as_object().is_none_or(Map::is_empty)) {
            (None, true) => {
                return Err(UsageError(
                    "nothing to change: use --url, --title or another option of `terse edit --help`",
                )
                .into());
            }
            (Some(_), false) => {
                return Err(UsageError(
                    "--undo cannot be combined with changes: undo a change, or make one",
                )
                .into());
            }
            (None, false) => (Method::PATCH, "", body),
            (Some(revision), true) => (Method::POST, "/undo", json!({ "revision": revision })),
        };
        let path = link_path(&self.code, self.domain.as_deref(), after)?;
        let link = context.api()?.expect(&method, &path, Some(&body))?.body;
        if context.json {
            say(&link.to_string())?;
        } else {
            say(&one_line(text(&link, "long_url")))?;
            for line in details(&link) {
                say(&line)?;
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
        edit: EditArgs,
    }

    #[test]
    fn clearing_is_told_apart_from_leaving_alone() {
        let body = |line: &[&str]| {
            Line::parse_from([&["x", "abc"], line].concat())
                .edit
                .body(Some("p".into()).filter(|_| line.contains(&"--password-file")), None)
        };
        assert_eq!(
            body(&["--clear-expiry", "--clear-tags"]),
            serde_json::json!({"expires_at": null, "tags": []})
        );
        assert_eq!(
            body(&["--title", "t", "--crawlable", "false"]),
            serde_json::json!({"title": "t", "crawlable": false})
        );
        assert_eq!(body(&["--domain", "b.example"]), serde_json::json!({}));
        assert_eq!(
            body(&["--archive", "--clear-password"]),
            serde_json::json!({"archived": true, "password": null})
        );
        assert_eq!(
            body(&["--unarchive", "--notes", "n"]),
            serde_json::json!({"archived": false, "notes": "n"})
        );
        assert_eq!(body(&["--clear-rules"]), serde_json::json!({"rules": null}));
        assert_eq!(body(&["--clear-preview"]), serde_json::json!({"preview": null}));
        assert_eq!(body(&["--password-file", "x"]), serde_json::json!({"password": "p"}));
    }
}
