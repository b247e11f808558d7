//! `terse delete`, `terse undelete` and `terse forget`.

use clap::Args;
use http::Method;
use serde_json::json;

use super::{URLS, code_of, path_of};
use crate::CommandContext;
use crate::problem::Problem;
use crate::terminal::{one_line, say};

/// Delete links. Visitors get 404 at once; `terse undelete` brings a link back within the grace
/// time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse delete x7Kq spring")]
pub struct DeleteArgs {
    #[command(flatten)]
    which: ListFilters,
}

/// Bring deleted links back within the grace time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse undelete x7Kq")]
pub struct UndeleteArgs {
    #[command(flatten)]
    which: ListFilters,
}

/// Make every node forget its copies of links, in memory and in Redis, and read them from the store
/// again. Nothing is deleted. Needed only after rows of the database were removed or replaced
/// without terse.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse forget x7Kq")]
pub struct ForgetArgs {
    #[command(flatten)]
    which: ListFilters,
}

#[derive(Args, Debug)]
struct ListFilters {
    /// Codes or whole short URLs
    #[arg(value_name = "CODE|URL", required = true)]
    codes: Vec<String>,
    /// The short domain, if not the primary one
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
}

impl DeleteArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        self.which.each(context, &Method::DELETE, URLS, "", "deleted")
    }
}

impl UndeleteArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        self.which.each(context, &Method::POST, URLS, "/restore", "brought back")
    }
}

impl ForgetArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        self.which.each(context, &Method::POST, "/api/v1/admin/links", "/forget", "forgotten")
    }
}

impl ListFilters {
    /// Sends one request per link: one that fails does not stop the others.
    fn each(
        &self,
        context: &CommandContext,
        method: &Method,
        links: &str,
        below: &str,
        done: &str,
    ) -> anyhow::Result<bool> {
        let api = context.api()?;
        let mut results = Vec::new();
        let mut all_well = true;
        for typed in &self.codes {
            let answer =
                api.call(method, &path_of(links, typed, self.domain.as_deref(), below)?, None)?;
            let code = code_of(typed);
            let problem = (!(200..300).contains(&answer.status))
                .then(|| Problem::read(answer.status, &answer.body));
            all_well &= problem.is_none();
            if context.json {
                let problem = problem.map(|problem| problem.to_json());
                results.push(
                    json!({ "short_code": code, "status": answer.status, "problem": problem }),
                );
            } else {
                match problem {
                    None => say(&format!("{done}: {}", one_line(code)))?,
                    Some(problem) => {
                        eprintln!("terse: {}: {}", one_line(code), one_line(&problem.to_string()));
                    }
                }
            }
        }
        if context.json {
            say(&json!({ "results": results }).to_string())?;
        }
        Ok(all_well)
    }
}
