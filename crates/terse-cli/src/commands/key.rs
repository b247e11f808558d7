//! `terse key …`: API keys.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::account::path_of;
use super::text;
use crate::CommandContext;
use crate::client::ApiClient;
use crate::terminal::{is_out, one_line, say, table, width};
use terse_core::HumanDuration;

/// Create, list and revoke API keys: your own, or those of an account with --account.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse key add newsletter --account ann --scope create --ttl 90d
  terse key list --account ann
  terse key revoke 7 --account ann")]
pub struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// List API keys, oldest first
    List {
        #[command(flatten)]
        account: AccountArg,
    },
    /// Create an API key and print it; it is never shown again
    Add {
        /// Name
        name: String,
        #[command(flatten)]
        account: AccountArg,
        /// Permissions: create, read or full
        #[arg(long, default_value = "full")]
        scope: String,
        /// When it expires, as a date or a date and time: 2030-01-31 or 2030-01-31T12:00:00Z
        #[arg(long, value_name = "DATE", conflicts_with = "ttl")]
        expires: Option<String>,
        /// How long until it expires: 8h, 90d
        #[arg(long, value_name = "DURATION")]
        ttl: Option<HumanDuration>,
        /// How many links it may create, as in 100/h
        #[arg(long)]
        plan: Option<String>,
    },
    /// Revoke an API key
    Revoke {
        /// Its number
        id: u64,
        #[command(flatten)]
        account: AccountArg,
    },
}

#[derive(Args, Debug)]
struct AccountArg {
    /// The account, by name or number [default: the account of the key that is sent to --server]
    #[arg(long, alias = "user")]
    account: Option<String>,
}

impl AccountArg {
    fn path(&self, context: &CommandContext, api: &ApiClient) -> anyhow::Result<String> {
        match &self.account {
            Some(account) => Ok(format!("{}/keys", path_of(api, account)?)),
            // Without --server, commands use the operator's key, which belongs to no account.
            None if context.remote.is_none() => {
                anyhow::bail!(
                    "--account NAME is missing: name the account (`terse account list` shows all)"
                )
            }
            None => Ok("/api/v1/keys".into()),
        }
    }
}

impl KeyArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        let api = context.api()?;
        match &self.command {
            KeyCommand::List { account } => {
                let keys = api.expect(&Method::GET, &account.path(context, &api)?, None)?.body;
                if context.json { say(&keys.to_string())? } else { list(&keys)? }
            }
            KeyCommand::Add { name, account, scope, expires, ttl, plan } => {
                let mut body = json!({ "name": name, "scope": scope });
                let ends = ttl.map(|ttl| {
                    terse_core::Clock::default()
                        .now()
                        .checked_add(ttl.get())
                        .map(|at| at.to_string())
                });
                if let Some(expiry) = expires.clone().or(ends.flatten()) {
                    body["expires_at"] = json!(expiry);
                }
                if let Some(plan) = plan {
                    body["plan"] = json!(plan);
                }
                let made =
                    api.expect(&Method::POST, &account.path(context, &api)?, Some(&body))?.body;
                say(if context.json { made.to_string() } else { one_line(text(&made, "key")) }
                    .as_str())?;
                if !context.json && is_out() {
                    eprintln!("The key is not shown again. Its number is {}.", made["id"]);
                }
            }
            KeyCommand::Revoke { id, account } => {
                api.expect(
                    &Method::DELETE,
                    &format!("{}/{id}", account.path(context, &api)?),
                    None,
                )?;
                say(if context.json {
                    json!({ "id": id }).to_string()
                } else {
                    format!("revoked: {id}")
                }
                .as_str())?;
            }
        }
        Ok(true)
    }
}

fn list(keys: &Value) -> anyhow::Result<()> {
    let keys = keys["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    if keys.is_empty() {
        eprintln!("There are no API keys yet.");
        return Ok(());
    }
    let or = |key: &Value, field: &str, nothing: &str| match text(key, field) {
        "" => nothing.to_owned(),
        text => text.to_owned(),
    };
    let row = |key: &Value| {
        vec![
            key["id"].to_string(),
            text(key, "name").into(),
            format!("{}…", text(key, "prefix")),
            text(key, "scope").into(),
            or(key, "plan", ""),
            or(key, "expires_at", "never"),
            or(key, "last_used_at", "never"),
            key["requests"].as_u64().map_or_else(|| "–".to_owned(), |count| count.to_string()),
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    say(&table(
        &["number", "name", "begins", "opens", "plan", "ends", "last used", "requests"],
        &rows,
        &[1],
        width(),
    ))
}
