//! `terse account …`: accounts, for the operator.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::{read_password, text};
use crate::CommandContext;
use crate::client::{ApiClient, query};
use crate::terminal::{one_line, say, table, width};
use terse_core::HumanDuration;

/// The path of accounts in the API.
const ACCOUNTS: &str = "/api/v1/admin/users";
/// Accounts per request.
const PAGE: usize = 100;

/// Manage accounts: who may create links, and who moderates them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse account add ann --role admin --password-file password.txt
  terse account invite --role user
  terse account reset ann
  terse account suspend bob --why 'sends spam'")]
pub struct AccountArgs {
    #[command(subcommand)]
    command: AccountCommand,
}

#[derive(Debug, Subcommand)]
enum AccountCommand {
    /// List accounts, oldest first
    List,
    /// Create an account
    Add {
        /// The name to sign in with
        name: String,
        #[command(flatten)]
        about: AccountFields,
    },
    /// Change an account
    Set {
        /// A name, or a number
        account: String,
        /// A new name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// How many links the account may create with all its keys, as in 500/h; "" for the usual
        /// limit
        #[arg(long)]
        plan: Option<String>,
        #[command(flatten)]
        about: AccountFields,
    },
    /// Suspend an account: its links, keys and sessions stop working
    Suspend {
        /// A name, or a number
        account: String,
        /// The reason, for the audit log
        #[arg(long)]
        why: String,
    },
    /// Reinstate a suspended account
    Reinstate {
        /// A name, or a number
        account: String,
        /// The reason, for the audit log
        #[arg(long)]
        why: Option<String>,
    },
    /// Permanently erase an account with all its links and their clicks
    Erase {
        /// A name, or a number
        account: String,
        /// Confirm: this cannot be undone
        #[arg(long)]
        yes: bool,
    },
    /// Print a reset link, with which the holder of an account chooses a new password
    Reset {
        /// A name, or a number
        account: String,
    },
    /// Turn two-factor sign-in of an account off, whose holder lost the device
    TwoFactorOff {
        /// A name, or a number
        account: String,
    },
    /// Print an invitation: a link that creates one account
    Invite {
        /// The role: user, moderator or admin
        #[arg(long, default_value = "user")]
        role: String,
        /// How long the invitation is valid: 8h, 7d, at most 30d [default: 7d]
        #[arg(long, value_name = "DURATION")]
        ttl: Option<HumanDuration>,
    },
}

#[derive(Args, Debug)]
struct AccountFields {
    /// The role: user, moderator or admin [default for a new account: user]
    #[arg(long)]
    role: Option<String>,
    /// The password to sign in with: a file that holds it, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    password_file: Option<PathBuf>,
}

impl AccountFields {
    fn add_to(&self, body: &mut Map<String, Value>) -> anyhow::Result<()> {
        if let Some(role) = &self.role {
            body.insert("role".into(), json!(role));
        }
        if let Some(file) = &self.password_file {
            body.insert("password".into(), json!(read_password(file)?));
        }
        Ok(())
    }
}

impl AccountArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        let api = context.api()?;
        match &self.command {
            AccountCommand::List => list(&api, context.json),
            AccountCommand::Add { name, about } => {
                let mut body = Map::from_iter([("name".to_owned(), json!(name))]);
                about.add_to(&mut body)?;
                let made = api.expect(&Method::POST, ACCOUNTS, Some(&body.into()))?.body;
                print_account(context, &made, |account| {
                    format!(
                        "{} has an account ({}, number {})",
                        account.name, account.role, account.id
                    )
                })?;
                if !context.json && about.password_file.is_none() {
                    eprintln!(
                        "It has no password yet, so signing in is not possible; set one with \
                         `terse account set --password-file`."
                    );
                }
                Ok(true)
            }
            AccountCommand::Set { account, new_name, plan, about } => {
                let path = path_of(&api, account)?;
                let mut body = Map::new();
                body.extend(new_name.as_ref().map(|name| ("name".to_owned(), json!(name))));
                let plan = plan.as_ref().map(|plan| Some(plan).filter(|plan| !plan.is_empty()));
                body.extend(plan.map(|plan| ("plan".to_owned(), json!(plan))));
                about.add_to(&mut body)?;
                let changed = api.expect(&Method::PATCH, &path, Some(&body.into()))?.body;
                print_account(context, &changed, |account| {
                    format!("changed: {} ({})", account.name, account.role)
                })
            }
            AccountCommand::Suspend { account, why } => {
                let path = format!("{}/suspend", path_of(&api, account)?);
                let changed = api.expect(&Method::POST, &path, Some(&json!({ "why": why })))?.body;
                print_account(context, &changed, |account| format!("suspended: {}", account.name))
            }
            AccountCommand::Reinstate { account, why } => {
                let path = format!("{}/reinstate", path_of(&api, account)?);
                let changed = api.expect(&Method::POST, &path, Some(&json!({ "why": why })))?.body;
                print_account(context, &changed, |account| format!("reinstated: {}", account.name))
            }
            AccountCommand::Erase { account, yes } => {
                anyhow::ensure!(
                    *yes,
                    "this erases the account with all its links and clicks and cannot be undone; add --yes"
                );
                let answer = api.expect(&Method::DELETE, &path_of(&api, account)?, None)?;
                let done =
                    if answer.status == 202 { "closed, erasure in progress" } else { "erased" };
                if context.json {
                    say(&json!({ "user": account, "done": answer.status != 202 }).to_string())?;
                } else {
                    say(&format!("{done}: {}", one_line(account)))?;
                }
                Ok(true)
            }
            AccountCommand::Reset { account } => {
                let path = format!("{}/reset_link", path_of(&api, account)?);
                let made = api.expect(&Method::POST, &path, None)?.body;
                say(if context.json { made.to_string() } else { one_line(text(&made, "url")) }
                    .as_str())?;
                if !context.json {
                    let end = one_line(text(&made, "expires_at"));
                    eprintln!("It works once, until {end}. An earlier link no longer works.");
                }
                Ok(true)
            }
            AccountCommand::TwoFactorOff { account } => {
                let path = format!("{}/two_factor", path_of(&api, account)?);
                let changed = api.expect(&Method::DELETE, &path, None)?.body;
                print_account(context, &changed, |account| {
                    format!("two-factor sign-in is off: {}", account.name)
                })
            }
            AccountCommand::Invite { role, ttl } => {
                let mut body = json!({ "role": role });
                if let Some(ttl) = ttl {
                    body["ttl"] = json!(ttl.get().as_secs());
                }
                let made = api.expect(&Method::POST, "/api/v1/invitations", Some(&body))?.body;
                say(if context.json { made.to_string() } else { one_line(text(&made, "url")) }
                    .as_str())?;
                Ok(true)
            }
        }
    }
}

/// An account of a response, safe to print.
struct ShownAccount {
    id: u64,
    name: String,
    role: String,
}

fn print_account(
    context: &CommandContext,
    account: &Value,
    sentence: impl FnOnce(ShownAccount) -> String,
) -> anyhow::Result<bool> {
    if context.json {
        say(&account.to_string())?;
    } else {
        let id = account.get("id").and_then(Value::as_u64).unwrap_or_default();
        say(&sentence(ShownAccount {
            id,
            name: one_line(text(account, "name")),
            role: one_line(text(account, "role")),
        }))?;
    }
    Ok(true)
}

/// The path of an account, by its name or its number.
pub(super) fn path_of(api: &ApiClient, typed: &str) -> anyhow::Result<String> {
    if !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(format!("{ACCOUNTS}/{typed}"));
    }
    let path = format!("{ACCOUNTS}{}", query(&[("name", Some(typed.to_owned()))]));
    let found = api.expect(&Method::GET, &path, None)?.body;
    let id = found.pointer("/users/0/id").and_then(Value::as_u64);
    let id = id.with_context(|| format!("there is no account with the name {typed:?}"))?;
    Ok(format!("{ACCOUNTS}/{id}"))
}

fn list(api: &ApiClient, json: bool) -> anyhow::Result<bool> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let path = query(&[("limit", Some(PAGE.to_string())), ("cursor", cursor.clone())]);
        let mut page = api.expect(&Method::GET, &format!("{ACCOUNTS}{path}"), None)?.body;
        let Some(Value::Array(accounts)) = page.get_mut("users").map(Value::take) else {
            anyhow::bail!("the response contains no accounts: is this a terse server?");
        };
        all.extend(accounts);
        let next = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
        anyhow::ensure!(
            next.is_none() || next != cursor,
            "the server returned the same page twice; try again later"
        );
        if next.is_none() {
            break;
        }
        cursor = next;
    }
    if json {
        say(&json!({ "users": all }).to_string())?;
        return Ok(true);
    }
    if all.is_empty() {
        eprintln!(
            "There are no accounts yet. Create one with `terse account add NAME --role admin`."
        );
        return Ok(true);
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|account| {
            let state = if account["suspended"].is_null() { "" } else { "suspended" };
            vec![
                account["id"].to_string(),
                text(account, "name").into(),
                text(account, "role").into(),
                state.into(),
                text(account, "created_at").into(),
            ]
        })
        .collect();
    say(&table(&["number", "name", "role", "", "since"], &rows, &[1], width()))?;
    Ok(true)
}
