//! One file per command. Each prints text, or JSON with `--json`, and returns whether it succeeded.

mod account;
pub(crate) mod backup;
mod block;
mod chart;
mod delete;
pub(crate) mod doctor;
mod edit;
mod export;
pub(crate) mod health;
mod import;
mod key;
mod list;
mod preview;
mod resolve;
pub(crate) mod restore_drill;
pub(crate) mod self_test;
mod shorten;
mod stats;
pub(crate) mod stored_backups;
mod top;

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::Value;

use crate::client::{ApiClient, RemoteServer, query, segment};

/// The commands that work through the API.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a short link
    Shorten(shorten::ShortenArgs),
    /// Show where a short link leads, without following it
    Resolve(resolve::ResolveArgs),
    /// List links, newest first
    List(list::ListArgs),
    /// Change a link
    Edit(edit::EditArgs),
    /// Delete links; `undelete` restores them within the grace period
    Delete(delete::DeleteArgs),
    /// Restore deleted links
    Undelete(delete::UndeleteArgs),
    /// Make every node forget its copies of links and read them from the store again
    Forget(delete::ForgetArgs),
    /// Show the clicks of a link, or of all links
    Stats(stats::StatsArgs),
    /// Show the links with the most clicks right now
    Top(top::TopArgs),
    /// Import links from a CSV or JSON file
    Import(import::ImportArgs),
    /// Export all links to a CSV or JSON file
    Export(export::ExportArgs),
    /// Manage accounts
    #[command(alias = "user")]
    Account(account::AccountArgs),
    /// Create, list and revoke API keys
    Key(key::KeyArgs),
    /// Block a host, list blocked hosts, or unblock one
    Block(block::BlockArgs),
}

impl Command {
    /// Runs the command; `false` if it met a problem that it has already printed.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        match self {
            Self::Shorten(command) => command.run(context),
            Self::Resolve(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Edit(command) => command.run(context),
            Self::Delete(command) => command.run(context),
            Self::Undelete(command) => command.run(context),
            Self::Forget(command) => command.run(context),
            Self::Stats(command) => command.run(context),
            Self::Top(command) => command.run(context),
            Self::Import(command) => command.run(context),
            Self::Export(command) => command.run(context),
            Self::Account(command) => command.run(context),
            Self::Key(command) => command.run(context),
            Self::Block(command) => command.run(context),
        }
    }
}

/// What every command gets.
pub struct CommandContext {
    /// Print JSON.
    pub json: bool,
    /// The server to work on, if one was named.
    pub remote: Option<RemoteServer>,
    /// Opens the API of the local data folder.
    pub local: Box<dyn Fn() -> anyhow::Result<ApiClient>>,
}

impl CommandContext {
    /// The API: of the named server, or of the data folder.
    pub(crate) fn api(&self) -> anyhow::Result<ApiClient> {
        match &self.remote {
            Some(remote) => Ok(ApiClient::remote(remote)),
            None => (self.local)(),
        }
    }
}

/// The path of links in the API.
const URLS: &str = "/api/v1/urls";

/// A field of a link as text; empty if it is missing.
fn text<'a>(link: &'a Value, field: &str) -> &'a str {
    link.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The code in an argument: a code, or a whole short URL, also of the preview page.
fn code_of(typed: &str) -> &str {
    let path = typed
        .trim()
        .split_once("://")
        .map_or(typed.trim(), |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let last = path.trim_matches('/').rsplit('/').next().unwrap_or_default();
    last.strip_suffix('+').unwrap_or(last)
}

/// The API path of the link in an argument.
fn link_path(typed: &str, domain: Option<&str>, below: &str) -> anyhow::Result<String> {
    path_of(URLS, typed, domain, below)
}

/// The same, in this part of the API.
fn path_of(links: &str, typed: &str, domain: Option<&str>, below: &str) -> anyhow::Result<String> {
    let code = code_of(typed);
    anyhow::ensure!(
        !code.is_empty(),
        "{typed:?} contains no code: a code or a short URL is expected"
    );
    Ok(format!(
        "{links}/{}{below}{}",
        segment(code),
        query(&[("domain", domain.map(str::to_owned))])
    ))
}

/// Reads a password from a file or from standard input: other local users can see arguments.
fn read_password(file: &Path) -> anyhow::Result<String> {
    // More than the longest password and a line break; the API refuses a longer one.
    let text = read_text(file, 4096)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Reads redirect rules from a file with JSON. The API checks them.
fn read_rules(file: &Path) -> anyhow::Result<Value> {
    // More than the API accepts.
    let text = read_text(file, 1 << 20)?;
    serde_json::from_str(&text)
        .with_context(|| format!("reading the JSON of the rules in {}", file.display()))
}

/// Reads at most `most` bytes of a file or of standard input.
fn read_text(file: &Path, most: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    match file == Path::new("-") {
        true => std::io::stdin()
            .lock()
            .take(most)
            .read_to_string(&mut text)
            .context("reading standard input")?,
        false => {
            let reading = || format!("reading {}", file.display());
            std::fs::File::open(file)
                .with_context(reading)?
                .take(most)
                .read_to_string(&mut text)
                .with_context(reading)?
        }
    };
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_what_its_file_holds_but_for_the_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        for (held, want) in
            [("open sesame\n", "open sesame"), ("a\r\n", "a"), (" a \n\n", " a \n"), ("", "")]
        {
            std::fs::write(&file, held).unwrap();
            assert_eq!(read_password(&file).unwrap(), want);
        }
        assert!(read_password(&folder.path().join("none")).is_err());
    }

    #[test]
    fn rules_are_json_and_a_file_without_them_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.json");
        std::fs::write(&file, r#"[{"to": "https://example.com/"}]"#).unwrap();
        assert_eq!(read_rules(&file).unwrap()[0]["to"], "https://example.com/");
        std::fs::write(&file, "none").unwrap();
        assert!(format!("{:#}", read_rules(&file).unwrap_err()).contains("rules.json"));
    }

    #[test]
    fn a_code_is_found_in_whatever_was_typed() {
        for (typed, code) in [
            ("x7Kq", "x7Kq"),
            ("/x7Kq", "x7Kq"),
            ("https://go.example/x7Kq", "x7Kq"),
            ("https://go.example:8080/x7Kq+", "x7Kq"),
            ("https://go.example/x7Kq?utm=1#f", "x7Kq"),
            ("go.example/x7Kq/", "x7Kq"),
            ("https://go.example/", ""),
            ("https://go.example", ""),
        ] {
            assert_eq!(code_of(typed), code, "{typed}");
        }
        assert_eq!(
            link_path("a b", Some("b.example"), "/restore").unwrap(),
            "/api/v1/urls/a%20b/restore?domain=b.example"
        );
    }
}
