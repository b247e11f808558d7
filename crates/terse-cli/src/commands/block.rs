//! `terse block`: hosts that links must not lead to.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::text;
use crate::CommandContext;
use crate::client::{query, segment};
use crate::terminal::{one_line, say, table, width};

const BLOCKLIST: &str = "/api/v1/admin/blocklist";

/// Block a host and all its subdomains: new links to it are refused, and existing links to it are
/// blocked.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse block evil.example --why 'phishing kits'
  terse block --list
  terse block --remove evil.example --why 'cleaned up'")]
pub struct BlockArgs {
    /// The host
    #[arg(value_name = "HOST", required_unless_present_any = ["list", "remove"], requires = "why")]
    host: Option<String>,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// List the hosts that are blocked
    #[arg(long, conflicts_with_all = ["host", "remove", "why"])]
    list: bool,
    /// Unblock a host
    #[arg(long, value_name = "HOST", conflicts_with = "host")]
    remove: Option<String>,
}

impl BlockArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        let api = context.api()?;
        if let Some(host) = &self.remove {
            let path =
                format!("{BLOCKLIST}/{}{}", escaped(host), query(&[("why", self.why.clone())]));
            api.expect(&Method::DELETE, &path, None)?;
            let shown = json!({ "host": host, "blocked": false }).to_string();
            say(&if context.json { shown } else { format!("unblocked: {}", one_line(host)) })?;
        } else if let Some(host) = &self.host {
            let answer = api.expect(
                &Method::POST,
                BLOCKLIST,
                Some(&json!({ "host": host, "why": self.why })),
            )?;
            let result = if answer.status == 201 { "blocked" } else { "already blocked" };
            say(&match context.json {
                true => answer.body.to_string(),
                false => format!("{result}: {}", one_line(text(&answer.body, "host"))),
            })?;
        } else {
            let answer = api.expect(&Method::GET, BLOCKLIST, None)?;
            if context.json {
                say(&answer.body.to_string())?;
                return Ok(true);
            }
            let row = |host: &Value| {
                ["host", "since", "why"].map(|field| one_line(text(host, field))).to_vec()
            };
            let rows: Vec<_> =
                answer.body["hosts"].as_array().into_iter().flatten().map(row).collect();
            say(&match rows.is_empty() {
                true => "No hosts are blocked.".to_owned(),
                false => {
                    table(&["host", "since", "why"], &rows, &[2], width()).trim_end().to_owned()
                }
            })?;
        }
        Ok(true)
    }
}

/// Escapes a host as one segment of a path. Its dots stay: a host never consists of dots alone.
fn escaped(host: &str) -> String {
    segment(host).replace("%2E", ".").trim_matches('.').to_owned()
}
