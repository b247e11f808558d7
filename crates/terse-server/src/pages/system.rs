//! The System page, for admins: what the server finds when it checks itself.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::moderation::ModerationError;
use terse_core::registry::RemovalAlarm;
use terse_core::{
    CheckResult, Finding, JobStatus, SettingInForce, SystemReport, Timestamp, system_report,
};

use super::format::{ago, grouped, span};
use super::member::{AdminForm, AdminPage, MemberForm};
use super::session::{app_page, redirect_to};
use super::shell::Shell;
use super::{BAD_FORM, UNAVAILABLE, html, message};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::self_check;
use crate::http::state::Web;

/// How long reading the figures may take.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    shell: Shell,
    version: &'static str,
    now: String,
    /// Problems and warnings, and the checks that are good.
    open: Vec<FindingRow>,
    good: Vec<FindingRow>,
    jobs: Vec<JobRow>,
    /// Sizes, cache, journal, queues and backup: the name of each, and its value.
    figures: Vec<(String, String)>,
    /// The settings that differ from their defaults, and the others.
    changed: Vec<SettingInForce>,
    usual: Vec<SettingInForce>,
    /// A removal of links that waits for a confirmation.
    removal: Option<RemovalAlarm>,
    done: Option<&'static str>,
}

/// A background job.
struct JobRow {
    name: &'static str,
    /// What it does; empty for a job that this page does not know.
    about: &'static str,
    every: String,
    /// When the last run ended, exactly.
    at: String,
    last: String,
    word: &'static str,
    class: &'static str,
    error: Option<String>,
}

impl JobRow {
    fn new(job: JobStatus, shell: &Shell, now: Timestamp) -> Self {
        let (word, class) = match (&job.running_since, &job.last) {
            (Some(_), _) => ("running", "over"),
            (None, Some(run)) if run.error.is_some() => ("failed", "bad"),
            (None, Some(_)) => ("good", "good"),
            (None, None) if job.needs_lease => ("not on this node", "over"),
            (None, None) => ("waiting", "over"),
        };
        let last = job.last.as_ref();
        Self {
            name: job.name,
            about: job_words(job.name),
            every: every(job.interval),
            at: last.map(|run| shell.date_time(run.ended_at)).unwrap_or_default(),
            last: last.map_or_else(
                || "never here".to_owned(),
                |run| format!("{}, took {}", ago(run.ended_at, now), took(run.took)),
            ),
            word,
            class,
            error: job.last.and_then(|run| run.error),
        }
    }
}

/// What a job does, by its name.
fn job_words(name: &str) -> &'static str {
    match name {
        "Safe Browsing revisits" => "scans links again that Safe Browsing could not scan at once",
        "Safe Browsing updates" => "fetches the lists of Safe Browsing",
        "backup" => "sends a backup to the storage that backup.url names",
        "blocklist feeds" => "fetches the blocklists of other servers",
        "blocklist files" => "reads changed blocklist files",
        "cache rescreen" => "scans cached links again when the lists change",
        "cdn purge" => "deletes changed links at the CDN",
        "certificate orders" => "orders and renews certificates",
        "certificate sync" | "certificates" => "puts new certificates to use",
        "click archive" => "copies finished hours of single clicks into the archive",
        "click retention" => "deletes clicks that are older than the settings allow",
        "daily salt" => "makes the salts of the visitor hashes",
        "database watch" => "compares clocks with the database, and watches how far replicas lag",
        "disk watch" => "watches the free disk space",
        "erasures" => "continues erasures of accounts that were interrupted",
        "free memory" => "gives unused memory back to the system",
        "geo database" => "reads a changed geo database",
        "hot links" => "notes the busiest links, to have them in memory after a restart",
        "link changes" => "forgets cached links that other nodes changed",
        "link checker" => "checks whether targets still answer",
        "live clicks" => "shows the clicks of all nodes in live views",
        "mail" => "sends mails",
        "old link changes" => "deletes changes of links that all nodes have read",
        "old salts" => "deletes old salts, so that old visitor hashes say nothing",
        "program pages" => "gives memory back that only the start needed",
        "reaper" => "marks expired links, and deletes links after the grace time",
        "registry retention" => "deletes old records of accounts, reports and deliveries",
        "registry watcher" => "applies suspensions, blocked hosts and domains of other nodes",
        "report watch" => "watches how long the oldest report waits",
        "reports" => "completes reports that were interrupted",
        "rescan" => "scans all links again when the lists change, and once in a while",
        "titles" => "fetches the titles of targets",
        "trace export" => "sends sampled spans to the OpenTelemetry collector",
        "node report" => "tells the other nodes which links this one can read",
        "used keys" => "counts the requests of API keys",
        "webhook deliveries" => "sends events to webhooks",
        "webhook events" => "makes deliveries of new events",
        "webhook owners" => "reads which accounts have webhooks",
        _ => "",
    }
}

/// How often a job runs.
fn every(interval: Duration) -> String {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    match interval {
        Duration::ZERO => "when needed".to_owned(),
        long if long >= YEAR => "once".to_owned(),
        short if short < Duration::from_secs(1) => format!("{} ms", short.as_millis()),
        other => span(other),
    }
}

/// A short duration.
fn took(of: Duration) -> String {
    match of.as_millis() {
        ms @ 0..1000 => format!("{ms} ms"),
        ms @ 1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => span(of),
    }
}

/// A text in parts, and whether each is code: commands are between backticks.
type Marked = Vec<(String, bool)>;

fn marked(text: &str) -> Marked {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(place, part)| (part.to_owned(), place % 2 == 1));
    parts.filter(|(part, _)| !part.is_empty()).collect()
}

struct FindingRow {
    what: String,
    found: Marked,
    advice: Marked,
    word: &'static str,
    class: &'static str,
}

impl From<Finding> for FindingRow {
    fn from(finding: Finding) -> Self {
        let (word, class) = match finding.verdict {
            CheckResult::Good => ("good", "good"),
            CheckResult::Warning => ("warning", "attention"),
            CheckResult::Problem => ("problem", "bad"),
        };
        let Finding { what, found, advice, .. } = finding;
        Self { what, found: marked(&found), advice: marked(&advice), word, class }
    }
}

pub(super) async fn show(
    State(state): Web,
    AdminPage(member): AdminPage,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut findings) = self_check::findings(&state, member.principal.clone()).await else {
        return message(&UNAVAILABLE);
    };
    // Problems come before warnings; the order of the checks stays.
    findings.sort_by_key(|finding| finding.verdict != CheckResult::Problem);
    let removal = match state.removals.waiting(&member.principal).await {
        Ok(removal) => removal,
        Err(error) => {
            tracing::error!(%error, "the removal that waits could not be read");
            return message(&UNAVAILABLE);
        }
    };
    let Ok(jobs) = state.jobs.list(&member.principal) else { return message(&UNAVAILABLE) };
    let (info, principal) = (Arc::clone(&state.system_info), member.principal.clone());
    let reading = tokio::task::spawn_blocking(move || system_report(&principal, &*info));
    let Ok(Ok(Ok(report))) = tokio::time::timeout(TIMEOUT, reading).await else {
        return message(&UNAVAILABLE);
    };
    let shell = member.shell(&state, "/system");
    let now = state.links.now();
    let Ok(erasures) = state.erasures.unfinished().await else { return message(&UNAVAILABLE) };
    let deliveries = match &state.webhooks {
        Some(webhooks) => webhooks.waiting_deliveries(&member.principal).await.map(Some),
        None => Ok(None),
    };
    let Ok(deliveries) = deliveries else { return message(&UNAVAILABLE) };
    let figures = figures(&report, (erasures.len(), deliveries), now);
    let (changed, usual) = report.settings.into_iter().partition(|setting| setting.is_changed);
    let (good, open): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|finding| finding.verdict == CheckResult::Good);
    let page = SystemPage {
        figures,
        changed,
        usual,
        jobs: jobs.into_iter().map(|job| JobRow::new(job, &shell, now)).collect(),
        version: env!("CARGO_PKG_VERSION"),
        now: shell.date_time(now),
        open: open.into_iter().map(FindingRow::from).collect(),
        good: good.into_iter().map(FindingRow::from).collect(),
        removal,
        done: params.ok().and_then(|mut params| match params.take("done")?.as_str() {
            "job" => Some("The job starts now."),
            "removal" => Some("The removal continues."),
            _ => None,
        }),
        shell,
    };
    app_page(StatusCode::OK, html(&page))
}

/// The figures of a report, for the page.
fn figures(
    report: &SystemReport,
    (erasures, deliveries): (usize, Option<u64>),
    now: Timestamp,
) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    let mut add = |name: &str, value: String| figures.push((name.to_owned(), value));
    if let Some(per_mille) = report.cache_hits {
        add("Cache hits", format!("{}.{} %", per_mille / 10, per_mille % 10));
    }
    if let Some(links) = report.cached_links {
        add("Links in memory", grouped(links));
    }
    if let Some(waiting) = report.journal_waiting {
        add("Clicks not counted yet", bytes(waiting));
    }
    for (name, waiting) in &report.queues {
        add(&format!("Waiting: {name}"), grouped(*waiting));
    }
    if let Some(deliveries) = deliveries {
        add("Waiting: Webhook deliveries", grouped(deliveries));
    }
    if erasures > 0 {
        add("Waiting: Erasures of accounts", grouped(erasures as u64));
    }
    let backup = report.last_backup.map(|at| ago(at, now));
    add("Last backup", backup.unwrap_or_else(|| "never".to_owned()));
    if let Some((free, size)) = report.disk {
        add("Free disk space", format!("{} of {}", bytes(free), bytes(size)));
    }
    figures.extend(report.sizes.iter().map(|(name, size)| (name.clone(), bytes(*size))));
    figures
}

/// A size in a unit that people read.
fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut rest = size as f64;
    while rest >= 1024.0 && unit + 1 < UNITS.len() {
        rest /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{size} bytes"),
        _ => format!("{rest:.1} {}", UNITS[unit]),
    }
}

/// Lets a removal continue that stopped because it would delete many links.
pub(super) async fn confirm_removal(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let Some(round) = fields.take("round").and_then(|round| round.parse().ok()) else {
        return message(&BAD_FORM);
    };
    match state.removals.confirm(&member.principal, round).await {
        Ok(_) | Err(ModerationError::NoRemoval) => redirect_to("/system?done=removal"),
        Err(error) => {
            tracing::error!(%error, "a removal could not be confirmed");
            message(&UNAVAILABLE)
        }
    }
}

/// Lets a job run before its interval is over.
pub(super) async fn run_job(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let name = fields.take("job").unwrap_or_default();
    match state.jobs.run_now(&member.principal, &name) {
        Ok(()) => redirect_to("/system?done=job#jobs"),
        Err(_) => message(&BAD_FORM),
    }
}
