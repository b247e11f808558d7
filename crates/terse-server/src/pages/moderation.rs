//! Moderation: reported links with one-click decisions, blocked hosts, and the audit log.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::moderation::ModerationError;
use terse_core::registry::{
    Actor, AuditEntry, Audits, BlockedHost, ReportId, ReportState, ReportedLink, Role,
};
use terse_core::{Code, Domain, LinkKey, ModerationStatus, Principal, Timestamp};

use super::form::sentence;
use super::format::{ago, middle_cut};
use super::member::{Member, MemberForm};
use super::session::{app_page, go};
use super::shell::Shell;
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, html, message};
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// How many reported links, blocked hosts and records the page shows.
const REPORTS: usize = 20;
const HOSTS: usize = 100;
const RECORDS: usize = 30;

#[derive(Template)]
#[template(path = "moderation.html")]
struct ModerationPage {
    shell: Shell,
    reports: Vec<Reported>,
    /// The path of the next page of reports.
    next: Option<String>,
    is_first: bool,
    hosts: Vec<Host>,
    more_hosts: usize,
    records: Vec<Record>,
    done: Option<&'static str>,
    wrong: Option<(String, String)>,
    /// What was typed into the form of blocked hosts.
    host: String,
}

impl ModerationPage {
    fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|(wrong, _)| wrong == field)
    }

    fn message(&self) -> &str {
        self.wrong.as_ref().map(|(_, words)| words.as_str()).unwrap_or_default()
    }
}

/// A reported link.
struct Reported {
    code: String,
    domain: String,
    name: String,
    path: String,
    /// Its target, owner and state; `None` if the link is gone.
    link: Option<(String, String, &'static str)>,
    reasons: String,
    texts: Vec<String>,
    /// When the reported link was created: a later one may have the same code.
    created: i64,
    since: String,
    since_exact: String,
}

struct Host {
    host: String,
    why: String,
    since: String,
}

struct Record {
    ago: String,
    exact: String,
    who: String,
    act: &'static str,
    subject: String,
    why: String,
}

fn said(word: &str) -> Option<&'static str> {
    Some(match word {
        "blocked" => "The link is blocked. Visitors get 451.",
        "cleared" => "The link is cleared. It redirects, whatever lists and reports say.",
        "banned" => "The owner is suspended: keys, sessions and all links.",
        "refused" => "That is not allowed. Nothing was done.",
        "host-blocked" => "The host is blocked.",
        "host-unblocked" => "The host is no longer blocked.",
        _ => return None,
    })
}

async fn reported(
    state: &App,
    shell: &Shell,
    reported: ReportedLink,
    now: Timestamp,
) -> Result<Reported, ModerationError> {
    let key = &reported.link;
    // A later link with the same code is not the reported one.
    let link = state.links.preview(key).await?;
    let link = link.filter(|link| link.created_at == reported.created_at);
    let short = short_url(key, &state.links.rules().hosts);
    let link = match link {
        None => None,
        Some(link) => {
            let owner = state.accounts.name_of(link.owner).await.ok().flatten();
            let owner = owner.unwrap_or_else(|| "no account".to_owned());
            Some((middle_cut(link.target.as_str(), 120), owner, link.status(now).as_str()))
        }
    };
    let reasons = reported.reasons.iter().map(|(reason, count)| format!("{reason} {count}"));
    Ok(Reported {
        code: key.code.to_string(),
        domain: if key.domain.is_primary() {
            String::new()
        } else {
            key.domain.as_str().to_owned()
        },
        name: short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned(),
        path: format!("{short}+"),
        link,
        reasons: reasons.collect::<Vec<_>>().join(" · "),
        since: ago(reported.since, now),
        since_exact: shell.moment(reported.since),
        texts: reported.texts.iter().map(|text| middle_cut(text, 400)).collect(),
        created: reported.created_at.as_ms(),
    })
}

async fn record(state: &App, shell: &Shell, entry: AuditEntry, now: Timestamp) -> Record {
    let who = match entry.actor {
        Actor::Owner(id) => match state.accounts.name_of(id).await.ok().flatten() {
            Some(name) => name,
            None => "a deleted account or the operator".to_owned(),
        },
        _ => "terse".to_owned(),
    };
    Record {
        ago: ago(entry.at, now),
        exact: shell.moment(entry.at),
        who,
        act: entry.act.as_str(),
        subject: entry.subject,
        why: entry.why.unwrap_or_default(),
    }
}

async fn page_for(
    state: &App,
    member: &Member,
    after: Option<ReportId>,
) -> Result<ModerationPage, ModerationError> {
    let shell = member.shell(state, "/moderation");
    let now = state.links.now();
    let mut reports = Vec::new();
    let mut waiting = state.moderation.reported(ReportState::Open, after, REPORTS + 1).await?;
    let is_more = waiting.len() > REPORTS;
    waiting.truncate(REPORTS);
    let last = waiting.last().filter(|_| is_more).map(|last| last.first);
    for found in waiting {
        reports.push(reported(state, &shell, found, now).await?);
    }
    let hosts = state.moderation.blocked_hosts().await?;
    let query = Audits { before: None, subject: None, act: None, limit: RECORDS };
    let mut records = Vec::new();
    for entry in state.moderation.audit(&query).await? {
        records.push(record(state, &shell, entry, now).await);
    }
    let row = |BlockedHost { host, at, why }| Host {
        host,
        why: why.unwrap_or_default(),
        since: ago(at, now),
    };
    Ok(ModerationPage {
        reports,
        next: last.map(|last| format!("/moderation?after={}", last.0)),
        is_first: after.is_none(),
        more_hosts: hosts.len().saturating_sub(HOSTS),
        hosts: hosts.into_iter().take(HOSTS).map(row).collect(),
        records,
        done: None,
        wrong: None,
        host: String::new(),
        shell,
    })
}

fn failed(error: &ModerationError) -> Response {
    tracing::error!(%error, "the page of moderation failed");
    message(&UNAVAILABLE)
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    if member.principal.clone().at_least(Role::Moderator).is_err() {
        return message(&NOT_FOUND);
    }
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let after = params.take("after").and_then(|id| id.parse().ok()).map(ReportId);
    match page_for(&state, &member, after).await {
        Ok(mut page) => {
            page.done = params.take("done").and_then(|word| said(&word));
            app_page(StatusCode::OK, html(&page))
        }
        Err(error) => failed(&error),
    }
}

/// Shows the page again with the problem of a form.
async fn again(state: &App, member: &Member, host: String, error: ModerationError) -> Response {
    let problem = Problem::from(error);
    if problem.status() >= 500 {
        return message(&UNAVAILABLE);
    }
    match page_for(state, member, None).await {
        Ok(mut page) => {
            let field = problem.field().unwrap_or("host").to_owned();
            page.wrong = Some((field, sentence(&problem)));
            page.host = host;
            let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::BAD_REQUEST);
            app_page(status, html(&page))
        }
        Err(error) => failed(&error),
    }
}

/// A decision about a reported link.
pub(super) async fn decide(
    State(state): Web,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let Ok(principal) = member.principal.clone().at_least(Role::Moderator) else {
        return message(&NOT_FOUND);
    };
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (code, domain, why) = (take("code"), take("domain"), take("why"));
    let (decision, created) = (take("decision"), take("created"));
    let domain = match domain.as_str() {
        "" => Some(Domain::primary()),
        host => state.links.rules().hosts.domain_of(host),
    };
    let (Some(domain), Some(code)) = (domain, Code::parse(&code)) else {
        return message(&BAD_FORM);
    };
    let key = LinkKey { domain, code };
    let why = match why.trim() {
        "" => "decided in the dashboard".to_owned(),
        text => text.chars().take(1000).collect(),
    };
    // A later link with the same code is not the reported one.
    match state.links.preview(&key).await {
        Ok(Some(link)) if link.created_at.as_ms().to_string() == created => {}
        Ok(_) => return go("/moderation?done=refused"),
        Err(error) => return failed(&error.into()),
    }
    match act(&state, &principal, &key, &decision, why).await {
        None => message(&BAD_FORM),
        Some(Ok(word)) => go(&format!("/moderation?done={word}")),
        Some(Err(error)) => match Problem::from(error).status() {
            500.. => message(&UNAVAILABLE),
            _ => go("/moderation?done=refused"),
        },
    }
}

/// Does what was decided; `None` if there is no such decision.
async fn act(
    state: &App,
    principal: &Principal,
    key: &LinkKey,
    decision: &str,
    why: String,
) -> Option<Result<&'static str, ModerationError>> {
    let (status, word) = match decision {
        "block" => (ModerationStatus::Blocked, "blocked"),
        "clear" => (ModerationStatus::Clear, "cleared"),
        "ban" => {
            return Some(state.moderation.ban_owner(principal, key, why).await.map(|_| "banned"));
        }
        _ => return None,
    };
    let set = state.moderation.set_status(principal, key, status, Some(why)).await;
    Some(set.map(|_| word))
}

pub(super) async fn block_host(
    State(state): Web,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let Ok(principal) = member.principal.clone().at_least(Role::Moderator) else {
        return message(&NOT_FOUND);
    };
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (host, why) = (take("host"), take("why"));
    let why = match why.trim() {
        "" => "blocked in the dashboard".to_owned(),
        text => text.chars().take(1000).collect(),
    };
    match state.moderation.block_host(&principal, &host, why).await {
        Ok(_) => go("/moderation?done=host-blocked"),
        Err(error) => again(&state, &member, host, error).await,
    }
}

pub(super) async fn unblock_host(
    State(state): Web,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let Ok(principal) = member.principal.clone().at_least(Role::Moderator) else {
        return message(&NOT_FOUND);
    };
    let host = fields.take("host").unwrap_or_default();
    match state.moderation.unblock_host(&principal, &host, None).await {
        // A host that is not blocked any more counts as unblocked.
        Ok(()) | Err(ModerationError::NotBlocked) => go("/moderation?done=host-unblocked"),
        Err(error) => failed(&error),
    }
}
