//! `terse stats`.

use clap::Args;
use http::Method;
use serde_json::Value;

use super::chart::{ChartCharacters, number, side_by_side};
use super::{link_path, text};
use crate::CommandContext;
use crate::client::query;
use crate::terminal::{cut, is_utf8, one_line, say, width};

/// How many values of a list are shown; the API returns more.
const SHOWN: usize = 8;
/// The width of a list, if the terminal is wide enough.
const BLOCK: usize = 38;
const GAP: usize = 4;

/// Show the clicks of a link, or of all your links.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse stats x7Kq
  terse stats x7Kq --from 2026-11-01 --interval day --bots exclude
  terse stats --tz Europe/Berlin
  terse stats --owner all
  terse stats --orphans --json")]
pub struct StatsArgs {
    /// A code or a whole short URL; without it, all your links together
    #[arg(value_name = "CODE|URL")]
    code: Option<String>,
    /// From this date, or date and time: 2026-01-31 or 2026-01-31T12:00:00Z [default: the link's
    /// creation, or 30 days ago]
    #[arg(long, value_name = "DATE")]
    from: Option<String>,
    /// Until before this date, or date and time [default: now]
    #[arg(long, value_name = "DATE")]
    to: Option<String>,
    /// By hour, day, week or month [default: depends on the period]
    #[arg(long)]
    interval: Option<String>,
    /// Bots: include, exclude or only
    #[arg(long, value_name = "WHICH")]
    bots: Option<String>,
    /// The time zone of days: Europe/Berlin, UTC, +05:30 [default: the local time zone]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// The short domain, if not the primary one
    #[arg(long, value_name = "HOST", requires = "code")]
    domain: Option<String>,
    /// The links of the owner with this number, or of all owners; for admins
    #[arg(long, value_name = "NUMBER|all", conflicts_with = "code")]
    owner: Option<String>,
    /// Visits without a link instead of clicks
    #[arg(long, conflicts_with_all = ["code", "owner"])]
    orphans: bool,
}

impl StatsArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        let stats = context.api()?.expect(&Method::GET, &self.path()?, None)?.body;
        if context.json {
            say(&stats.to_string())?;
            return Ok(true);
        }
        for line in page(&stats, &self.whose(), width(), is_utf8()) {
            say(&line)?;
        }
        Ok(true)
    }

    /// What statistics of more than one link are about.
    fn whose(&self) -> String {
        match self.owner.as_deref() {
            None => "Your links".to_owned(),
            Some("all") => "Links of all owners".to_owned(),
            Some(number) => format!("Links of owner {number}"),
        }
    }

    fn path(&self) -> anyhow::Result<String> {
        let which = query(&[
            ("owner", self.owner.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("interval", self.interval.clone()),
            ("bots", self.bots.clone()),
            ("tz", self.tz.clone().or_else(zone_here)),
        ]);
        match &self.code {
            None if self.orphans => Ok(format!("/api/v1/admin/orphans{which}")),
            None => Ok(format!("/api/v1/stats{which}")),
            Some(code) => {
                let path = link_path(code, self.domain.as_deref(), "/stats")?;
                let more = which.strip_prefix('?').unwrap_or_default();
                let join = if path.contains('?') { '&' } else { '?' };
                Ok(if more.is_empty() { path } else { format!("{path}{join}{more}") })
            }
        }
    }
}

/// The IANA name of the local time zone, if it has one.
fn zone_here() -> Option<String> {
    jiff::tz::TimeZone::try_system().ok()?.iana_name().map(str::to_owned)
}

/// Formats the statistics in lines of at most `width` columns; `whose` names more than one link.
fn page(stats: &Value, whose: &str, width: usize, unicode: bool) -> Vec<String> {
    let ink = ChartCharacters::new(unicode);
    let mut lines =
        head(stats, whose).into_iter().map(|line| cut(line.trim_end(), width)).collect::<Vec<_>>();
    lines.push(String::new());
    lines.extend(over_time(stats, &ink, width));
    let block = BLOCK.min(width);
    // On a wide terminal the lists use its full width.
    let across = ((width + GAP) / (block + GAP)).max(1);
    let block = ((width + GAP) / across).saturating_sub(GAP).clamp(block, BLOCK * 2);
    let blocks: Vec<Vec<String>> =
        LISTS.iter().filter_map(|(field, title)| list(stats, field, title, &ink, block)).collect();
    if !blocks.is_empty() {
        lines.push(String::new());
        lines.extend(side_by_side(&blocks, block, GAP, width));
    }
    lines
}

fn head(stats: &Value, whose: &str) -> Vec<String> {
    let count = |field: &str| stats.get(field).and_then(Value::as_u64).unwrap_or_default();
    let (orphans, link) = (stats.get("outcomes").is_some(), text(stats, "short_url"));
    let what = match link.split_once("://") {
        Some((_, link)) => link,
        None if orphans => "Visits without a link",
        None => whose,
    };
    let day = |field: &str| text(stats, field).get(..10).unwrap_or_default().to_owned();
    let bots = match text(stats, "bots") {
        "exclude" => ", without bots",
        "only" => ", bots only",
        _ => "",
    };
    let mut lines = vec![
        format!("{what}  {} to {}, {}{bots}", day("from"), day("to"), text(stats, "time_zone")),
        String::new(),
        format!(
            "  {:<11} {} ({} by humans, {} by bots)",
            if orphans { "visits" } else { "clicks" },
            number(count("total_clicks")),
            number(count("human_clicks")),
            number(count("bot_clicks"))
        ),
        format!("  {:<11} {}", "last 24 h", number(count("clicks_24h"))),
    ];
    if !orphans {
        lines.push(format!("  {:<11} about {}", "visitors", number(count("unique_visitors"))));
    }
    let last = text(stats, "last_click_at");
    lines.push(format!("  {:<11} {}", "last one", if last.is_empty() { "never" } else { last }));
    if let Some(took) = stats.get("avg_redirect_ms").and_then(Value::as_f64) {
        lines.push(format!("  {:<11} {took:.3} ms on average", "redirect"));
    }
    lines
}

fn over_time(stats: &Value, ink: &ChartCharacters, width: usize) -> Vec<String> {
    let points: &[Value] = stats.get("series").and_then(Value::as_array).map_or(&[], Vec::as_slice);
    let values: Vec<u64> = points
        .iter()
        .map(|point| point.get("clicks").and_then(Value::as_u64).unwrap_or_default())
        .collect();
    let interval = text(stats, "interval");
    let label = |point: Option<&Value>| {
        let start = point.map_or("", |point| text(point, "start"));
        let (from, to) = match interval {
            "hour" => (5, 16), // 03-28T14:00
            "month" => (0, 7),
            _ => (0, 10),
        };
        one_line(start.get(from..to).unwrap_or_default()).replace('T', " ")
    };
    let (mut lines, together) =
        ink.over_time(&values, &label(points.first()), &label(points.last()), width);
    if together > 1 {
        lines.push(cut(&format!("       each column is {together} {interval}s"), width));
    }
    lines
}

const LISTS: [(&str, &str); 16] = [
    ("top_links", "Links"),
    ("outcomes", "Results"),
    ("top_codes", "Requested codes"),
    ("top_referrers", "Referrers"),
    ("top_countries", "Countries"),
    ("top_cities", "Cities"),
    ("devices", "Devices"),
    ("browsers", "Browsers"),
    ("operating_systems", "Operating systems"),
    ("languages", "Languages"),
    ("utm_sources", "utm_source"),
    ("utm_mediums", "utm_medium"),
    ("utm_campaigns", "utm_campaign"),
    ("utm_terms", "utm_term"),
    ("utm_contents", "utm_content"),
    ("bot_reasons", "Why bots"),
];

/// Formats one list; empty if it has no known values.
fn list(
    stats: &Value,
    field: &str,
    title: &str,
    ink: &ChartCharacters,
    width: usize,
) -> Option<Vec<String>> {
    let item = |item: &Value| {
        let name = if field == "top_links" { text(item, "short_code") } else { text(item, "name") };
        (one_line(name), item.get("clicks").and_then(Value::as_u64).unwrap_or_default())
    };
    let mut items: Vec<(String, u64)> = stats.get(field)?.as_array()?.iter().map(item).collect();
    if items.is_empty() || items.iter().all(|(name, _)| name == "unknown") {
        return None;
    }
    if items.len() > SHOWN {
        let (unknown, mut known): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|(name, _)| name == "unknown");
        let rest = known
            .drain(SHOWN - 1 - unknown.len()..)
            .fold(0, |sum: u64, (_, clicks)| sum.saturating_add(clicks));
        items = known.into_iter().chain(unknown).chain([("other".to_owned(), rest)]).collect();
    }
    Some(ink.ranking(title, &items, width))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn sums(points: usize, clicks: u64) -> Value {
        let start =
            |n: usize| format!("2026-{:02}-{:02}T00:00:00+01:00", n / 28 % 12 + 1, n % 28 + 1);
        let series: Vec<Value> =
            (0..points).map(|n| json!({"start": start(n), "clicks": clicks})).collect();
        let names = ["news.example", "日本語.example", "other", "a\u{1b}[2Jb"];
        let names: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "clicks": clicks})).collect();
        let many = (0..20).map(|n| format!("n{n}")).chain(["unknown".into(), "other".into()]);
        let many: Vec<Value> = many.map(|name| json!({"name": name, "clicks": 1})).collect();
        json!({
            "short_code": "x7Kq", "short_url": "https://go.example/x7Kq",
            "from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z",
            "interval": "day", "time_zone": "Europe/Berlin", "bots": "exclude",
            "total_clicks": clicks, "clicks_24h": 5,
            "unique_visitors": 7, "human_clicks": clicks, "bot_clicks": 0,
            "avg_redirect_ms": 0.0142, "last_click_at": null,
            "series": series, "top_referrers": names, "top_countries": many,
            "devices": [{"name": "unknown", "clicks": 3}],
            "browsers": []
        })
    }

    #[test]
    fn a_page_fits_every_width_and_drives_no_terminal() {
        for (points, clicks) in [(0, 0), (1, 1), (31, 1234), (2000, u64::MAX)] {
            let stats = sums(points, clicks);
            for width in 20..=200 {
                for unicode in [true, false] {
                    let lines = page(&stats, "Your links", width, unicode);
                    assert!(lines.iter().all(|line| line.width() <= width), "{width} {lines:#?}");
                    assert!(lines.iter().all(|line| !line.chars().any(char::is_control)));
                }
            }
        }
    }

    #[test]
    fn a_page_tells_what_there_is() {
        let text = page(&sums(31, 1234), "Your links", 100, true).join("\n");
        for part in [
            "go.example/x7Kq  2026-01-01 to 2026-02-01, Europe/Berlin, without bots",
            "clicks      1,234 (1,234 by humans, 0 by bots)",
            "last one    never",
            "0.014 ms on average",
            "2026-01-01",
            "2026-02-03",
            "Referrers",
            "news.example",
            "n5 ",
            "unknown  1 ",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        // Devices are unknown, and there are no browsers.
        assert!(
            !text.contains("Devices") && !text.contains("Browsers") && !text.contains("n6 "),
            "{text}"
        );
        assert!(text.contains("other   15"), "{text}");
        let orphans = json!({"outcomes": [{"name": "not_found", "clicks": 2}], "series": [],
            "total_clicks": 2});
        let text = page(&orphans, "Your links", 80, true).join("\n");
        assert!(
            text.starts_with("Visits without a link") && text.contains("not_found 2"),
            "{text}"
        );
        assert!(
            page(&json!({"top_links": [{"short_code": "abc", "clicks": 3}]}), "", 80, true)
                .join("\n")
                .contains("abc 3")
        );
        assert!(!page(&json!({"nothing": "of ours"}), "", 80, true).is_empty());
    }

    #[test]
    fn what_is_asked_for_is_in_the_path() {
        let all = StatsArgs {
            code: None,
            from: Some("2026-01-01".into()),
            to: None,
            interval: None,
            bots: None,
            tz: Some("+05:30".into()),
            domain: None,
            owner: None,
            orphans: false,
        };
        assert_eq!(all.path().unwrap(), "/api/v1/stats?from=2026-01-01&tz=%2B05%3A30");
        assert_eq!(all.whose(), "Your links");
        let everybody = StatsArgs { owner: Some("all".into()), ..all };
        assert_eq!(
            everybody.path().unwrap(),
            "/api/v1/stats?owner=all&from=2026-01-01&tz=%2B05%3A30"
        );
        assert_eq!(everybody.whose(), "Links of all owners");
        let all = StatsArgs { owner: None, ..everybody };
        assert_eq!(
            StatsArgs { orphans: true, ..all }.path().unwrap(),
            "/api/v1/admin/orphans?from=2026-01-01&tz=%2B05%3A30"
        );
        let one = StatsArgs {
            code: Some("https://b.example/x7Kq".into()),
            from: None,
            to: Some("x&y".into()),
            interval: Some("day".into()),
            bots: Some("only".into()),
            tz: Some("UTC".into()),
            domain: Some("b.example".into()),
            owner: None,
            orphans: false,
        };
        let path =
            "/api/v1/urls/x7Kq/stats?domain=b.example&to=x%26y&interval=day&bots=only&tz=UTC";
        assert_eq!(one.path().unwrap(), path);
    }
}
