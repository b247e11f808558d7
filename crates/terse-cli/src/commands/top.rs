//! `terse top`.

use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;
use http::Method;
use serde_json::Value;

use super::chart::{ChartCharacters, number};
use super::text;
use crate::CommandContext;
use crate::client::{ApiClient, query};
use crate::terminal::{cut, height, is_out, is_utf8, say, table, width};
use terse_core::HumanDuration;

/// Lines of a screen that are not links.
const AROUND: usize = 4;
/// The counts of a link, and their widths.
const COUNTS: [(&str, usize); 3] = [("clicks", 11), ("human_clicks", 11), ("bot_clicks", 11)];
/// The width of the bars, if the terminal is wide enough.
const BARS: usize = 20;
/// The widest terminal without bars.
const NARROW: usize = 90;

/// Show which of your links have the most clicks right now.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse top
  terse top --minutes 60 --limit 50 --every 10s
  terse top --owner all --once

Repeats until Ctrl-C; prints once in a pipe, with --once or with --json.")]
pub struct TopArgs {
    /// Count clicks of this many past minutes, up to 60
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=60))]
    minutes: u8,
    /// The most links to show, up to 100
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
    /// The links of the owner with this number, or of all owners; for admins
    #[arg(long, value_name = "NUMBER|all")]
    owner: Option<String>,
    /// How often to refresh
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    every: HumanDuration,
    /// Print once and exit
    #[arg(long)]
    once: bool,
}

impl TopArgs {
    pub(crate) fn run(&self, context: &CommandContext) -> anyhow::Result<bool> {
        let api = context.api()?;
        if context.json {
            say(&self.fetch(&api)?.to_string())?;
            return Ok(true);
        }
        // Only a running server has current clicks. Waiting here would also hold the lock that a
        // server needs to start.
        if api.is_in_process() {
            eprintln!("No server is running on this data folder, so there is nothing to watch.");
            return Ok(true);
        }
        let first = self.fetch(&api)?;
        if self.once || !is_out() {
            return say(&picture(&first, width(), usize::MAX, is_utf8()).join("\n")).map(|()| true);
        }
        self.watch(&api, first)
    }

    fn fetch(&self, api: &ApiClient) -> anyhow::Result<Value> {
        let which = query(&[
            ("minutes", Some(self.minutes.to_string())),
            ("limit", Some(self.limit.to_string())),
            ("owner", self.owner.clone()),
        ]);
        Ok(api.expect(&Method::GET, &format!("/api/v1/top{which}"), None)?.body)
    }

    /// Redraws the list in place until the user stops it.
    fn watch(&self, api: &ApiClient, first: Value) -> anyhow::Result<bool> {
        let mut screen = Screen::take()?;
        let mut top = first;
        let mut trouble = None;
        loop {
            let mut lines =
                picture(&top, width(), height().saturating_sub(AROUND).max(1), is_utf8());
            lines.extend(trouble.take().map(|line: String| cut(&line, width())));
            screen.draw(&lines)?;
            // At least 100 ms, whatever the option says.
            std::thread::sleep(self.every.get().max(std::time::Duration::from_millis(100)));
            match self.fetch(api) {
                Ok(seen) => top = seen,
                Err(error) => trouble = Some(format!("{error:#}; trying again")),
            }
        }
    }
}

/// Formats the list in lines of at most `width` columns, with at most `rows` links.
fn picture(top: &Value, width: usize, rows: usize, unicode: bool) -> Vec<String> {
    let ink = ChartCharacters::new(unicode);
    let count =
        |link: &Value, field: &str| link.get(field).and_then(Value::as_u64).unwrap_or_default();
    let minutes = count(top, "minutes");
    let links: &[Value] = top.get("links").and_then(Value::as_array).map_or(&[], Vec::as_slice);
    let span = if minutes == 1 { "minute".to_owned() } else { format!("{minutes} minutes") };
    let mut lines =
        vec![cut(&format!("The busiest links of the last {span}"), width), String::new()];
    if links.is_empty() {
        lines.push(cut("No clicks yet.", width));
        return lines;
    }
    let most = links.iter().map(|link| count(link, "clicks")).max().unwrap_or(0);
    // In a narrow terminal, the links are more useful than bars.
    let bars = width.saturating_sub(NARROW).min(BARS);
    let row = |link: &Value| {
        let name = text(link, "short_url")
            .split_once("://")
            .map_or(text(link, "short_code"), |(_, rest)| rest);
        let last = text(link, "last_click_at").get(11..19).unwrap_or_default();
        let [clicks, humans, bots] =
            COUNTS.map(|(field, wide)| format!("{:>wide$}", number(count(link, field))));
        vec![
            name.to_owned(),
            clicks,
            humans,
            bots,
            last.to_owned(),
            if bars > 0 { ink.bar(count(link, "clicks"), most, bars) } else { String::new() },
        ]
    };
    let shown: Vec<Vec<String>> = links.iter().take(rows).map(row).collect();
    let table = table(
        &["LINK", "     CLICKS", "     HUMANS", "       BOTS", "LAST (UTC)", ""],
        &shown,
        &[0],
        width,
    );
    lines.extend(table.lines().map(|line| cut(line.trim_end(), width)));
    lines
}

/// The part of a terminal that is redrawn, with the cursor hidden. The cursor is always restored.
struct Screen {
    drawn: usize,
}

const HIDE: &str = "\x1b[?25l";
const SHOW: &str = "\x1b[?25h";

impl Screen {
    fn take() -> anyhow::Result<Self> {
        let signals = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                if signals.block_on(stop_signal()).is_ok() {
                    // Waits for the lock, so that it does not write into the middle of a frame.
                    let mut out = std::io::stdout().lock();
                    let _ = write!(out, "{SHOW}").and_then(|()| out.flush());
                    std::process::exit(0);
                }
            })
            .context("listening for Ctrl-C")?;
        let screen = Self { drawn: 0 };
        print!("{HIDE}");
        Ok(screen)
    }

    fn draw(&mut self, lines: &[String]) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(frame(self.drawn, lines).as_bytes())?;
        self.drawn = lines.len();
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = std::io::stdout().lock();
        let _ = write!(out, "{SHOW}").and_then(|()| out.flush());
    }
}

/// The output that replaces the lines that were drawn before.
fn frame(drawn: usize, lines: &[String]) -> String {
    let mut text = if drawn > 0 { format!("\x1b[{drawn}F") } else { String::new() };
    for line in lines {
        text.push_str(line);
        // Clears the rest of a line that was longer before.
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    text
}

async fn stop_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn top(links: usize) -> Value {
        let link = |n: usize| {
            json!({"short_code": format!("c{n}"), "domain": "go.example",
                "short_url": format!("https://go.example/c{n}\u{1b}[2J"),
                "clicks": u64::MAX >> n, "human_clicks": 5, "bot_clicks": 1,
                "last_click_at": "2026-11-15T21:02:03.004Z"})
        };
        json!({"minutes": 5, "links": (0..links).map(link).collect::<Vec<_>>()})
    }

    #[test]
    fn a_picture_fits_the_terminal() {
        for width in 20..=200 {
            for unicode in [true, false] {
                let lines = picture(&top(40), width, 10, unicode);
                assert_eq!(lines.len(), 13);
                assert!(
                    lines
                        .iter()
                        .all(|line| line.width() <= width && !line.chars().any(char::is_control)),
                    "{lines:#?}"
                );
            }
        }
        let lines = picture(&top(2), 120, 10, false);
        assert_eq!(lines[0], "The busiest links of the last 5 minutes");
        assert!(
            lines[3].contains("go.example/c0")
                && lines[3].contains("21:02:03")
                && lines[3].ends_with(&"#".repeat(BARS))
        );
        assert!(lines[4].ends_with("  #########-"), "{lines:#?}");
        assert_eq!(
            picture(&json!({"minutes": 1, "links": []}), 80, 10, true)[0],
            "The busiest links of the last minute"
        );
        assert_eq!(picture(&json!({}), 80, 10, true)[2], "No clicks yet.");
    }

    #[test]
    fn a_picture_takes_the_place_of_the_one_before() {
        let lines = ["a".to_owned(), "b".to_owned()];
        assert_eq!(frame(0, &lines), "a\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(frame(3, &lines), "\x1b[3Fa\x1b[K\nb\x1b[K\n\x1b[J");
    }
}
