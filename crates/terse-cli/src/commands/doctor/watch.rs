//! `terse doctor --watch`: repeats the checks and prints what has changed.

use std::time::Duration;

use serde_json::json;
use terse_core::{CheckResult, Finding};

use super::{mark, tell};
use crate::terminal::{one_line, say};

/// The shortest interval: each round asks the server, and databases, too.
const SHORTEST: Duration = Duration::from_secs(1);

/// Prints the findings of the first round, and then each result that changes, until the process is
/// ended.
pub(super) fn watch(
    interval: Duration,
    json: bool,
    mut check: impl FnMut() -> Vec<Finding>,
) -> anyhow::Result<bool> {
    let mut known = check();
    tell(&known, json)?;
    loop {
        std::thread::sleep(interval.max(SHORTEST));
        let now = check();
        let at = jiff::Timestamp::now();
        for changed in changes(&known, &now) {
            say(&line(&changed, at, json))?;
        }
        known = now;
    }
}

fn line(changed: &Finding, at: jiff::Timestamp, json: bool) -> String {
    let Finding { what, verdict, found, advice } = changed;
    if json {
        let verdict = verdict.as_str();
        let at = at.to_string();
        let line = json!({
            "at": at, "what": what, "verdict": verdict, "found": found, "advice": advice
        });
        return line.to_string();
    }
    let at = at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S");
    let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
    format!("{at} {} {what}: {}{advice}", mark(*verdict), one_line(found))
}

/// The findings whose verdict is another one than before. A check that reports nothing more is
/// good. Texts are not compared, except that of the server, which starts and stops: many contain a
/// number that changes all the time.
fn changes(before: &[Finding], now: &[Finding]) -> Vec<Finding> {
    // Several findings may be of the same check: the first of them is compared with the first, …
    let nth = |all: &[Finding], at: usize| {
        all[..at].iter().filter(|finding| finding.what == all[at].what).count()
    };
    let find = |all: &'_ [Finding], what: &str, number: usize| {
        all.iter().filter(|finding| finding.what == what).nth(number).cloned()
    };
    let mut changed = Vec::new();
    for (at, finding) in now.iter().enumerate() {
        let earlier = find(before, &finding.what, nth(now, at));
        let restarted =
            |earlier: &Finding| finding.what == super::SERVER && earlier.found != finding.found;
        let is_other = match &earlier {
            Some(earlier) => earlier.verdict != finding.verdict || restarted(earlier),
            None => finding.verdict != CheckResult::Good,
        };
        if is_other {
            changed.push(finding.clone());
        }
    }
    for (at, finding) in before.iter().enumerate() {
        let is_gone = find(now, &finding.what, nth(before, at)).is_none();
        if is_gone && finding.verdict != CheckResult::Good {
            let (what, found) = (finding.what.clone(), "no longer reported".to_owned());
            changed.push(Finding {
                what,
                verdict: CheckResult::Good,
                found,
                advice: String::new(),
            });
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(what: &str, verdict: CheckResult) -> Finding {
        Finding { what: what.into(), verdict, found: "it".into(), advice: "do".into() }
    }

    #[test]
    fn a_verdict_that_changes_is_printed_once() {
        use CheckResult::{Good, Problem, Warning};
        let before = [finding("space", Good), finding("cdn", Problem), finding("cdn", Good)];
        assert!(changes(&before, &before).is_empty());
        let now = [finding("space", Warning), finding("cdn", Problem), finding("cdn", Problem)];
        let changed = changes(&before, &now);
        assert_eq!(changed, [finding("space", Warning), finding("cdn", Problem)]);
        // New and vanished findings are compared with a good one.
        let [gone, other] =
            &changes(&now[..2], &[finding("clock", Good), finding("tls", Warning)])[1..]
        else {
            panic!("two are gone")
        };
        assert_eq!((gone.what.as_str(), gone.verdict), ("space", Good));
        assert_eq!((other.what.as_str(), other.verdict), ("cdn", Good));
    }

    #[test]
    fn a_change_is_one_line() {
        let at = "2030-01-02T03:04:05Z".parse().unwrap();
        let text = line(&finding("space", CheckResult::Problem), at, false);
        assert!(text.ends_with(" ✖ space: it; do"), "{text}");
        let text = line(&finding("space", CheckResult::Problem), at, true);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&read["at"], &read["verdict"]),
            (&"2030-01-02T03:04:05Z".into(), &"problem".into())
        );
    }
}
