//! `terse list`.

use clap::Args;
use http::Method;
use serde_json::Value;

use super::{URLS, text};
use crate::CommandContext;
use crate::client::{ApiClient, query};
use crate::terminal::{say, table, width};

/// Links per request.
pub(crate) const PAGE: usize = 100;
/// How many empty pages in a row are an error. A store may return an empty page when a search takes
/// long.
const EMPTY_PAGES: usize = 10_000;

/// List your links, newest first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse list
  terse list --q spring --tag sale --status active
  terse list --owner all
  terse list --all --json | jq -r '.links[].short_url'")]
pub struct ListArgs {
    /// Only links whose code, title or target (also of a redirect rule) contains this text
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
    /// Only links with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only links on this domain
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    /// Only links that are active, scheduled, expired, used_up, suspicious, blocked or deleted
    #[arg(long)]
    status: Option<String>,
    /// The links of the owner with this number, or of all owners; for moderators and admins
    #[arg(long, value_name = "NUMBER|all")]
    owner: Option<String>,
    /// Only archived links
    #[arg(long)]
    archived: bool,
    /// Oldest first
    #[arg(long)]
    oldest: bool,
    /// The most links to list
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// List all links
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// Which links to read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListFilters {
    pub(crate) q: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) archived: Option<&'static str>,
    pub(crate) oldest: bool,
    pub(crate) limit: Option<usize>,
}

/// Reads links page by page. Returns the cursor of what is left.
pub(crate) fn walk(
    api: &ApiClient,
    which: &ListFilters,
    mut each: impl FnMut(&[Value]) -> anyhow::Result<()>,
) -> anyhow::Result<Option<String>> {
    let mut left = which.limit.unwrap_or(usize::MAX);
    let mut cursor: Option<String> = None;
    let mut empty = 0;
    loop {
        let path = query(&[
            ("q", which.q.clone()),
            ("tag", which.tag.clone()),
            ("domain", which.domain.clone()),
            ("status", which.status.clone()),
            ("archived", which.archived.map(str::to_owned)),
            ("owner", which.owner.clone()),
            ("sort", which.oldest.then(|| "created_at".into())),
            ("limit", Some(left.min(PAGE).to_string())),
            ("cursor", cursor.clone()),
        ]);
        let mut body = api.expect(&Method::GET, &format!("{URLS}{path}"), None)?.body;
        let next = body.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
        let Some(Value::Array(links)) = body.get_mut("links").map(Value::take) else {
            anyhow::bail!("the response contains no links: is this a terse server?");
        };
        let links = &links[..links.len().min(left)];
        each(links)?;
        left -= links.len();
        empty = if links.is_empty() { empty + 1 } else { 0 };
        anyhow::ensure!(
            empty < EMPTY_PAGES && (next.is_none() || next != cursor),
            "the server returned only empty pages; try again later"
        );
        if next.is_none() || left == 0 {
            return Ok(next);
        }
        cursor = next;
    }
}

impl ListArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        let api = context.api()?;
        let which = ListFilters {
            q: self.q.clone(),
            tag: self.tag.clone(),
            domain: self.domain.clone(),
            status: self.status.clone(),
            owner: self.owner.clone(),
            archived: self.archived.then_some("true"),
            oldest: self.oldest,
            limit: (!self.all).then_some(usize::try_from(self.limit)?),
        };
        if context.json {
            return json(&api, &which);
        }
        let mut header = true;
        let mut count = 0;
        let more = walk(&api, &which, |links| {
            if !links.is_empty() {
                count += links.len();
                let page = page(links, self.owner.is_some(), width());
                // The header once, above the first page.
                say(if std::mem::take(&mut header) {
                    &page
                } else {
                    page.split_once('\n').map_or("", |(_, rows)| rows)
                })?;
            }
            Ok(())
        })?;
        match (count, more) {
            (0, _) => {
                let matching = self.q.is_some() || self.tag.is_some();
                eprintln!(
                    "There are no links{}{}.",
                    if self.owner.is_none() { " of yours" } else { "" },
                    if matching { " that match" } else { " yet" }
                );
                if self.owner.is_none() {
                    eprintln!("Moderators and admins list those of all owners with --owner all.");
                }
            }
            (_, Some(_)) => eprintln!(
                "There are more links: --limit {} or --all shows them.",
                self.limit.saturating_mul(5)
            ),
            _ => {}
        }
        Ok(true)
    }
}

/// Prints links as they arrive, so that a million links need not fit in memory.
fn json(api: &ApiClient, which: &ListFilters) -> anyhow::Result<bool> {
    use std::io::Write as _;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    out.write_all(b"{\"links\":[")?;
    let mut first = true;
    let next = walk(api, which, |links| {
        for link in links {
            if !std::mem::take(&mut first) {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut out, link).map_err(std::io::Error::from)?;
        }
        Ok(())
    })?;
    writeln!(out, "],\"next_cursor\":{}}}", Value::from(next))?;
    out.flush()?;
    Ok(true)
}

/// A table of links, with their owners if those may differ.
fn page(links: &[Value], with_owner: bool, width: usize) -> String {
    let row = |link: &Value| {
        let day = text(link, "created_at").get(..10).unwrap_or_default();
        let domain = text(link, "short_url").split_once("://").map_or("", |(_, rest)| rest);
        let name = if domain.is_empty() { text(link, "short_code") } else { domain };
        let owner = link.get("owner").map(Value::to_string).unwrap_or_default();
        let mut row = [name, text(link, "long_url"), text(link, "status"), day].to_vec();
        row.extend(with_owner.then_some(owner.as_str()));
        row.push(text(link, "title"));
        row.into_iter().map(str::to_owned).collect()
    };
    let rows: Vec<Vec<String>> = links.iter().map(row).collect();
    if with_owner {
        let header = ["LINK", "TARGET", "STATE", "MADE", "OWNER", "TITLE"];
        table(&header, &rows, &[1, 5], width)
    } else {
        table(&["LINK", "TARGET", "STATE", "MADE", "TITLE"], &rows, &[1, 4], width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_neat_table() {
        let link = serde_json::json!({
            "short_url": "https://go.example/x7Kq", "short_code": "x7Kq",
            "long_url": "https://example.com/a/rather/long/path/indeed",
            "status": "active", "created_at": "2026-01-02T03:04:05Z", "title": null, "owner": 7
        });
        let with_owner = page(std::slice::from_ref(&link), true, 90);
        assert!(with_owner.contains("MADE        OWNER") && with_owner.contains("2026-01-02  7"));
        let page = page(&[link], false, 70);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["LINK", "TARGET", "STATE", "MADE", "TITLE"]
        );
        assert!(lines[1].starts_with("go.example/x7Kq  https://example.com/a/ra"), "{page}");
        assert!(lines[1].ends_with("…  active  2026-01-02"), "{page}");
        assert!(lines.iter().all(|line| line.chars().count() <= 70), "{page}");
    }
}
