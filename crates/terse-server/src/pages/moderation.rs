//! Moderation: reported links with one-click decisions, a search for hosts, blocked hosts and
//! lists, and the audit log.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::accounts::reason_or;
use terse_core::moderation::{HostLink, HostSearch, ModerationError, ReportDecision};
use terse_core::registry::{
    Actor, AuditEntry, AuditQuery, BlockedHost, ReportId, ReportState, ReportedLink,
};
use terse_core::{Code, Domain, Link, LinkKey, ListMatch, OwnerId, Timestamp};

use super::audit_words::{Subject, action_words, subject};
use super::form::{field_problem, problem_of};
use super::format::{ago, grouped, middle_cut};
use super::member::{Member, MemberForm, ModeratorForm, ModeratorPage};
use super::session::{app_page, app_problem_page, page_with_problem, redirect_to};
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
    /// What the search for a host found.
    found: Option<FoundHost>,
    lists: Vec<ListRow>,
    records: Vec<Record>,
    /// The path of the next records, and whether these are the latest.
    older: Option<String>,
    is_latest: bool,
    done: Option<&'static str>,
    wrong: Option<(String, String)>,
    /// What was typed into the form of blocked hosts.
    host: String,
    /// What was searched for.
    search: String,
}

impl ModerationPage {
    fn is_wrong(&self, field: &str) -> bool {
        problem_of(self.wrong.as_ref(), field).is_some()
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

/// A host, and the links to it.
struct FoundHost {
    host: String,
    /// What lists say about it.
    says: Vec<String>,
    /// Whether moderators can block it: no list blocks it already.
    can_block: bool,
    links: Vec<FoundLink>,
    is_more: bool,
}

struct FoundLink {
    name: String,
    path: String,
    /// The target that is on the host, and whether a redirect rule has it.
    target: String,
    by_rule: bool,
    owner: String,
    status: &'static str,
    ago: String,
}

/// A list that targets are compared with.
struct ListRow {
    name: String,
    effect: &'static str,
    entries: String,
    hits: String,
}

struct Record {
    ago: String,
    exact: String,
    who: String,
    /// What was done, in words and as it is stored.
    act: String,
    act_name: String,
    /// The object, in words and as it is stored.
    about: String,
    subject: String,
    why: String,
}

fn done_message(word: &str) -> Option<&'static str> {
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
    (reported, link): (ReportedLink, Option<Link>),
    now: Timestamp,
) -> Reported {
    let key = &reported.link;
    let short = short_url(key, &state.links.rules().hosts);
    let link = match link {
        None => None,
        Some(link) => {
            let owner = state.accounts.name_of(link.owner).await.ok().flatten();
            let owner = owner.unwrap_or_else(|| "no account".to_owned());
            Some((middle_cut(link.target.as_str(), 120), owner, link.status(now).as_str()))
        }
    };
    let reasons = reported.reasons.iter().map(|(reason, count)| match count {
        1 => reason.to_string(),
        _ => format!("{reason} × {count}"),
    });
    Reported {
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
        since_exact: shell.date_time(reported.since),
        texts: reported.texts.iter().map(|text| middle_cut(text, 400)).collect(),
        created: reported.created_at.as_ms(),
    }
}

async fn found_host(
    state: &App,
    found: HostSearch,
    now: Timestamp,
) -> Result<FoundHost, ModerationError> {
    let says = |list: &Option<ListMatch>, what| {
        list.as_ref().map(|found| format!("{what} by the list {}", found.list))
    };
    let mut links = Vec::with_capacity(found.links.len());
    for HostLink { link, target, by_rule } in &found.links {
        let short = short_url(&link.key, &state.links.rules().hosts);
        let owner = state.accounts.name_of(link.owner).await.ok().flatten();
        links.push(FoundLink {
            name: short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned(),
            // The page of a link is for its owner and admins; its preview is for everyone.
            path: format!("{short}+"),
            target: middle_cut(target.as_str(), 120),
            by_rule: *by_rule,
            owner: owner.unwrap_or_else(|| "no account".to_owned()),
            status: link.status(now).as_str(),
            ago: ago(link.created_at, now),
        });
    }
    Ok(FoundHost {
        can_block: found.blocked_by.is_none(),
        says: [says(&found.blocked_by, "Blocked"), says(&found.warned_by, "Warned of")]
            .into_iter()
            .flatten()
            .collect(),
        host: found.host,
        links,
        is_more: found.is_more,
    })
}

/// The name of an account in the audit log.
async fn account_name(state: &App, id: OwnerId) -> String {
    if id == OwnerId::ADMIN {
        return "the operator".to_owned();
    }
    let name = state.accounts.name_of(id).await.ok().flatten();
    name.unwrap_or_else(|| "a deleted account".to_owned())
}

async fn record(state: &App, shell: &Shell, entry: AuditEntry, now: Timestamp) -> Record {
    let who = match entry.actor {
        Actor::Owner(id) => account_name(state, id).await,
        _ => "terse".to_owned(),
    };
    let about = match subject(&entry.subject) {
        Subject::Account(id) => account_name(state, OwnerId(id)).await,
        Subject::Link("", code) => format!("{}/{code}", shell.host()),
        Subject::Link(domain, code) => format!("{domain}/{code}"),
        Subject::Named(kind, name) => format!("{kind}{name}"),
        Subject::Nothing => String::new(),
        Subject::Raw(text) => text.to_owned(),
    };
    Record {
        ago: ago(entry.at, now),
        exact: shell.date_time(entry.at),
        who,
        act: action_words(entry.act).unwrap_or_else(|| entry.act_name()).to_owned(),
        act_name: entry.act_name().to_owned(),
        about,
        subject: entry.subject,
        why: entry.why.unwrap_or_default(),
    }
}

/// Which page of the reports and of the audit log is shown.
#[derive(Default)]
struct Pages {
    /// Reports after this one.
    after: Option<ReportId>,
    /// Records before the one with this number.
    before: Option<u64>,
}

async fn page_for(
    state: &App,
    member: &Member,
    Pages { after, before }: Pages,
) -> Result<ModerationPage, ModerationError> {
    let shell = member.shell(state, "/moderation");
    let (now, principal) = (state.links.now(), &member.principal);
    let mut reports = Vec::new();
    let mut waiting =
        state.moderation.reported(principal, ReportState::Open, after, REPORTS + 1).await?;
    let is_more = waiting.len() > REPORTS;
    waiting.truncate(REPORTS);
    let last = waiting.last().filter(|_| is_more).map(|(last, _)| last.first);
    for found in waiting {
        reports.push(reported(state, &shell, found, now).await);
    }
    let hosts = state.moderation.blocked_hosts(principal).await?;
    let query = AuditQuery { before, subject: None, act: None, limit: RECORDS + 1 };
    let mut entries = state.moderation.audit(principal, &query).await?;
    let is_older = entries.len() > RECORDS;
    entries.truncate(RECORDS);
    let older = entries.last().filter(|_| is_older);
    let older = older.map(|last| format!("/moderation?before={}#audit", last.number));
    let mut records = Vec::new();
    for entry in entries {
        records.push(record(state, &shell, entry, now).await);
    }
    let lists = state.moderation.lists(principal)?.into_iter().map(|list| ListRow {
        name: list.name,
        effect: if list.blocks { "blocks" } else { "warns" },
        entries: list.entries.map_or_else(|| "–".to_owned(), |count| grouped(count as u64)),
        hits: grouped(list.hits),
    });
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
        found: None,
        lists: lists.collect(),
        records,
        older,
        is_latest: before.is_none(),
        done: None,
        wrong: None,
        host: String::new(),
        search: String::new(),
        shell,
    })
}

fn error_page(error: &ModerationError) -> Response {
    tracing::error!(%error, "the page of moderation failed");
    message(&UNAVAILABLE)
}

pub(super) async fn show(
    State(state): Web,
    ModeratorPage(member): ModeratorPage,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let mut number = |name| params.take(name).and_then(|id| id.parse().ok());
    let pages = Pages { after: number("after").map(ReportId), before: number("before") };
    let mut page = match page_for(&state, &member, pages).await {
        Ok(page) => page,
        Err(error) => return error_page(&error),
    };
    page.done = params.take("done").and_then(|word| done_message(&word));
    page.search = params.take("search").unwrap_or_default();
    if page.search.trim().is_empty() {
        return app_page(StatusCode::OK, html(&page));
    }
    let found = async {
        let found = state.moderation.search_host(&member.principal, &page.search).await?;
        found_host(&state, found, state.links.now()).await
    };
    match found.await {
        Ok(found) => page.found = Some(found),
        Err(error) => {
            let problem = Problem::from(error);
            if problem.status() >= 500 {
                return message(&UNAVAILABLE);
            }
            page.wrong = field_problem(&problem, "search");
            return app_problem_page(&problem, html(&page));
        }
    }
    app_page(StatusCode::OK, html(&page))
}

/// Shows the page again with the problem of a form.
async fn form_problem(
    state: &App,
    member: &Member,
    host: String,
    error: ModerationError,
) -> Response {
    page_with_problem(
        error,
        page_for(state, member, Pages::default()),
        error_page,
        |page, problem| {
            page.wrong = field_problem(problem, "host");
            page.host = host;
        },
    )
    .await
}

/// A decision about a reported link.
pub(super) async fn decide(
    State(state): Web,
    ModeratorForm(MemberForm { member, mut fields }): ModeratorForm,
) -> Response {
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
    let (decision, word) = match decision.as_str() {
        "block" => (ReportDecision::Block, "blocked"),
        "clear" => (ReportDecision::Clear, "cleared"),
        "ban" => (ReportDecision::SuspendOwner, "banned"),
        _ => return message(&BAD_FORM),
    };
    let Some(created_at) = created.parse().ok().map(Timestamp::from_ms) else {
        return redirect_to("/moderation?done=refused");
    };
    let why = reason_or(&why, "decided in the dashboard");
    let reported = (&key, created_at);
    match state.moderation.decide_report(&member.principal, reported, decision, why).await {
        Ok(()) => redirect_to(&format!("/moderation?done={word}")),
        Err(error) => match Problem::from(error).status() {
            500.. => message(&UNAVAILABLE),
            _ => redirect_to("/moderation?done=refused"),
        },
    }
}

pub(super) async fn block_host(
    State(state): Web,
    ModeratorForm(MemberForm { member, mut fields }): ModeratorForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (host, why) = (take("host"), take("why"));
    let why = reason_or(&why, "blocked in the dashboard");
    match state.moderation.block_host(&member.principal, &host, why).await {
        Ok(_) => redirect_to("/moderation?done=host-blocked"),
        Err(error) => form_problem(&state, &member, host, error).await,
    }
}

pub(super) async fn unblock_host(
    State(state): Web,
    ModeratorForm(MemberForm { member, mut fields }): ModeratorForm,
) -> Response {
    let host = fields.take("host").unwrap_or_default();
    match state.moderation.unblock_host(&member.principal, &host, None).await {
        // A host that is not blocked any more counts as unblocked.
        Ok(()) | Err(ModerationError::NotBlocked) => redirect_to("/moderation?done=host-unblocked"),
        Err(error) => error_page(&error),
    }
}
