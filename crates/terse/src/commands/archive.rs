//! `terse archive`: lists, reads and checks the archive of clicks.

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use terse_cli::terminal::say;
use terse_core::clicks::{Click, Period};
use terse_core::import_file::inert;
use terse_core::{Code, Domain, LinkKey, Timestamp};

use crate::backends::{self, ArchiveFile, ArchiveSelection};
use crate::cli::LocalContext;

/// List, read and check the archive of clicks (setting `clicks.archive`).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse archive list --from 2026-11-01
  terse archive query x7Kq --from 2026-11-18T10:00:00Z --to 2026-11-18T12:00:00Z
  terse archive query --all --from 2026-11-18 --to 2026-11-19 --format csv > clicks.csv
  terse archive verify")]
pub(crate) struct ArchiveArgs {
    #[command(subcommand)]
    command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
enum ArchiveCommand {
    /// List the files
    List(PeriodArgs),
    /// Print clicks, the earliest first
    Query(QueryArgs),
    /// Read all files, and say which are damaged
    Verify(PeriodArgs),
}

#[derive(Args, Debug)]
struct PeriodArgs {
    /// The start: a date, or a time such as 2026-11-18T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<Timestamp>,
    /// The end, exclusive
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<Timestamp>,
}

#[derive(Args, Debug)]
struct QueryArgs {
    /// The code or alias of a link
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    code: Option<String>,
    /// The domain of the link, if it is not the primary one
    #[arg(long, requires = "code")]
    domain: Option<String>,
    /// The clicks of all links
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    period: PeriodArgs,
    /// One JSON object per line, or a table
    #[arg(long, default_value = "json")]
    format: Format,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Json,
    Csv,
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    let time = text.parse::<Timestamp>();
    time.map_err(|error| error.to_string())
}

impl PeriodArgs {
    fn period(&self) -> Period {
        Period { from: self.from, to: self.to }
    }

    fn selection(&self) -> ArchiveSelection {
        ArchiveSelection { link: None, period: self.period() }
    }
}

impl ArchiveArgs {
    pub(crate) fn run(&self, context: &LocalContext) -> anyhow::Result<bool> {
        match &self.command {
            ArchiveCommand::List(args) => list(args, context),
            ArchiveCommand::Query(args) => args.run(context),
            ArchiveCommand::Verify(args) => verify(args, context),
        }
    }
}

fn file_json(file: &ArchiveFile) -> Value {
    json!({
        "file": file.name,
        "from": file.from.to_string(),
        "to": file.to.to_string(),
        "clicks": file.clicks,
        "bytes": file.octets,
    })
}

fn list(args: &PeriodArgs, context: &LocalContext) -> anyhow::Result<bool> {
    let files = backends::list_archive(context.config(), &args.selection())?;
    if context.json {
        let files: Vec<Value> = files.iter().map(file_json).collect();
        say(&json!({ "files": files }).to_string())?;
        return Ok(true);
    }
    for file in &files {
        say(&format!("{:>10} clicks {:>12} bytes  {}", file.clicks, file.octets, file.name))?;
    }
    let (clicks, octets) = files
        .iter()
        .fold((0, 0), |(clicks, octets), file| (clicks + file.clicks, octets + file.octets));
    say(&format!("{} files, {clicks} clicks, {octets} bytes", files.len()))?;
    Ok(true)
}

fn verify(args: &PeriodArgs, context: &LocalContext) -> anyhow::Result<bool> {
    let (mut files, mut clicks, mut damaged) = (0_u64, 0, Vec::new());
    backends::verify_archive(context.config(), &args.selection(), &mut |file, found| {
        files += 1;
        match found {
            Ok(count) => clicks += count,
            Err(why) => {
                if !context.json {
                    say(&format!("damaged: {why}"))?;
                }
                damaged.push(json!({ "file": file.name, "why": why }));
            }
        }
        Ok(())
    })?;
    if context.json {
        let answer = json!({ "files": files, "clicks": clicks, "damaged": damaged });
        say(&answer.to_string())?;
    } else {
        say(&format!("{files} files, {clicks} clicks, {} damaged", damaged.len()))?;
    }
    Ok(damaged.is_empty())
}

impl QueryArgs {
    fn run(&self, context: &LocalContext) -> anyhow::Result<bool> {
        let link = match &self.code {
            None => None,
            Some(code) => {
                let code = Code::parse(code);
                let code = code.with_context(|| format!("{:?} cannot be a code", self.code))?;
                let domain = match &self.domain {
                    Some(domain) => Domain::from_stored(&domain.to_ascii_lowercase()),
                    None => Domain::primary(),
                };
                Some(LinkKey { domain, code })
            }
        };
        let selection = ArchiveSelection { link, period: self.period.period() };
        if self.format == Format::Csv {
            say(&COLUMNS.join(","))?;
        }
        backends::query_archive(context.config(), &selection, &mut |click| {
            let cells = cells(click);
            match self.format {
                Format::Json => {
                    let named = COLUMNS.into_iter().map(str::to_owned).zip(cells);
                    Ok(say(&Value::Object(named.collect()).to_string())?)
                }
                Format::Csv => {
                    let cells: Vec<String> = cells.iter().map(csv_cell).collect();
                    Ok(say(&cells.join(","))?)
                }
            }
        })?;
        Ok(true)
    }
}

/// The columns, named as in the files.
const COLUMNS: [&str; 22] = [
    "time",
    "domain",
    "code",
    "link_created_at",
    "owner",
    "weight",
    "took_nanos",
    "kind",
    "went_on",
    "address",
    "referrer",
    "country",
    "city",
    "device",
    "browser",
    "system",
    "language",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_term",
    "utm_content",
];

fn cells(click: &Click) -> [Value; COLUMNS.len()] {
    use terse_core::clicks::{BotKind, ClickTarget, WarningVisit};
    let text = |value: &Option<terse_core::clicks::Interned>| json!(value.as_deref());
    let (domain, code, created_at, owner) = match &click.target {
        ClickTarget::Link(link, owner) => (
            json!(link.key.domain.as_str()),
            json!(link.key.code.as_str()),
            json!(link.created_at.to_string()),
            json!(owner.0),
        ),
        ClickTarget::Orphan(key, _) => {
            (json!(key.domain.as_str()), json!(key.code.as_str()), Value::Null, Value::Null)
        }
    };
    let kind = match click.bot {
        Some(bot) => BotKind::as_str(bot),
        None if click.repeat => "repeat",
        None => "human",
    };
    let [source, medium, campaign, term, content] = click.utm.each_ref().map(text);
    [
        json!(click.at.to_string()),
        domain,
        code,
        created_at,
        owner,
        json!(click.weight),
        json!(click.took_nanos),
        json!(kind),
        json!(click.warning == WarningVisit::Passed),
        text(&click.address),
        text(&click.referrer),
        text(&click.country),
        text(&click.city),
        text(&click.device),
        text(&click.browser),
        text(&click.system),
        text(&click.language),
        source,
        medium,
        campaign,
        term,
        content,
    ]
}

/// A cell that no spreadsheet runs as a formula: visitors control these values.
fn csv_cell(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = inert(&text);
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_and_runs_as_no_formula() {
        for (value, cell) in [
            (json!("plain"), "plain"),
            (json!("a \"b\", c"), "\"a \"\"b\"\", c\""),
            (json!("=1+1"), "'=1+1"),
            (json!(null), ""),
            (json!(true), "true"),
        ] {
            assert_eq!(csv_cell(&value), cell);
        }
    }
}
