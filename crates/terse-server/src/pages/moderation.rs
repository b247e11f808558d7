//! Moderation: reported links with one-click decisions, a search for hosts, blocked hosts and
//! lists, and the audit log.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::accounts::reason_or;
use terse_core::moderation::{HostLink, HostSearch, ModerationError};
use terse_core::registry::{Actor, AuditEntry, AuditQuery, BlockedHost, ReportState, ReportedLink};
use terse_core::{Link, ListMatch, OwnerId, Principal, Timestamp};

use super::audit_words::{Subject, action_words, subject};
use super::form::{field_problem, problem_of};
use super::format::{ago, grouped, middle_cut};
use super::member::{Member, MemberForm, ModeratorForm, ModeratorPage};
use super::moderation_decisions::{DecisionLink, Place, Toast, choices, decision_toast};
use super::session::{app_page, app_problem_page, page_with_problem, redirect_to};
use super::shell::Shell;
use super::{NOT_FOUND, UNAVAILABLE, html, message};
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// How many reported links, blocked hosts and records the page shows: with the longest texts it has
/// less than 50 KB.
const REPORTS: usize = 10;
const HOSTS: usize = 20;
const RECORDS: usize = 20;
/// How many texts of the reports on one link the page shows, and how much of each.
const TEXTS: usize = 3;
const TEXT: usize = 200;

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
    done: Option<Toast>,
    wrong: Option<(String, String)>,
    /// What was typed into the form of blocked hosts.
    host: String,
    /// The page of reports, the row that takes the focus, and what was searched for.
    place: Place,
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
    of: DecisionLink,
    path: String,
    /// `None` if the link is gone.
    link: Option<LinkNow>,
    reasons: String,
    texts: Vec<String>,
    more_texts: usize,
    since: String,
    since_exact: String,
}

/// A reported link as it is now.
struct LinkNow {
    target: String,
    status: &'static str,
    owner: Owner,
}

/// The owner of a link.
struct Owner {
    name: String,
    is_suspended: bool,
}

impl Owner {
    async fn of(state: &App, principal: &Principal, link: &Link) -> Result<Self, ModerationError> {
        let account = state.moderation.owner_of(principal, link).await?;
        Ok(match account {
            Some(account) => {
                Self { name: account.name.to_string(), is_suspended: account.suspended.is_some() }
            }
            None => Self { name: "no account".to_owned(), is_suspended: false },
        })
    }
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
    of: DecisionLink,
    path: String,
    /// The target that is on the host, and whether a redirect rule has it.
    target: String,
    by_rule: bool,
    owner: String,
    status: &'static str,
    ago: String,
    /// The decisions that would change something: their names and labels.
    choices: Vec<(&'static str, &'static str)>,
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
        "refused" => "That is not allowed. Nothing was done.",
        "host-blocked" => "The host is blocked.",
        "host-unblocked" => "The host is no longer blocked.",
        _ => return None,
    })
}

async fn reported(
    state: &App,
    principal: &Principal,
    shell: &Shell,
    (reported, link): (ReportedLink, Option<Link>),
    now: Timestamp,
) -> Result<Reported, ModerationError> {
    let key = &reported.link;
    let short = short_url(key, &state.links.rules().hosts);
    let link = match link {
        None => None,
        Some(link) => {
            let target = middle_cut(link.target.as_str(), 120);
            let owner = Owner::of(state, principal, &link).await?;
            Some(LinkNow { target, status: link.status(now).as_str(), owner })
        }
    };
    let reasons = reported.reasons.iter().map(|(reason, count)| match count {
        1 => reason.to_string(),
        _ => format!("{reason} × {count}"),
    });
    Ok(Reported {
        of: DecisionLink::new(state, key, reported.created_at),
        path: format!("{short}+"),
        link,
        reasons: reasons.collect::<Vec<_>>().join(" · "),
        since: ago(reported.since, now),
        since_exact: shell.date_time(reported.since),
        texts: reported.texts.iter().take(TEXTS).map(|text| middle_cut(text, TEXT)).collect(),
        more_texts: reported.texts.len().saturating_sub(TEXTS),
    })
}

async fn found_host(
    state: &App,
    principal: &Principal,
    found: HostSearch,
    now: Timestamp,
) -> Result<FoundHost, ModerationError> {
    let says = |list: &Option<ListMatch>, what| {
        list.as_ref().map(|found| format!("{what} by the list {}", found.list))
    };
    let mut links = Vec::with_capacity(found.links.len());
    for HostLink { link, target, by_rule } in &found.links {
        let short = short_url(&link.key, &state.links.rules().hosts);
        let owner = Owner::of(state, principal, link).await?;
        links.push(FoundLink {
            of: DecisionLink::new(state, &link.key, link.created_at),
            choices: choices(link, owner.is_suspended),
            // The page of a link is for its owner and admins; its preview is for everyone.
            path: format!("{short}+"),
            target: middle_cut(target.as_str(), 120),
            by_rule: *by_rule,
            owner: owner.name,
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
        why: middle_cut(&entry.why.unwrap_or_default(), TEXT),
    }
}

/// The page at a place, with the records before the one with this number.
async fn page_for(
    state: &App,
    member: &Member,
    mut place: Place,
    before: Option<u64>,
) -> Result<ModerationPage, ModerationError> {
    let shell = member.shell(state, "/moderation");
    let (now, principal) = (state.links.now(), &member.principal);
    let mut reports = Vec::new();
    let from = async |after| {
        state.moderation.reported(principal, ReportState::Open, after, REPORTS + 1).await
    };
    let mut waiting = from(place.after).await?;
    if waiting.is_empty() && place.after.take().is_some() {
        // The last page has been decided.
        waiting = from(None).await?;
    }
    let is_more = waiting.len() > REPORTS;
    waiting.truncate(REPORTS);
    let last = waiting.last().filter(|_| is_more).map(|(last, _)| last.first);
    for found in waiting {
        reports.push(reported(state, principal, &shell, found, now).await?);
    }
    place.at = place.at.map(|at| at.min(reports.len().saturating_sub(1)));
    let hosts = state.moderation.blocked_hosts(principal).await?;
    let query = AuditQuery { before, subject: None, action: None, limit: RECORDS + 1 };
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
        why: middle_cut(&why.unwrap_or_default(), TEXT),
        since: ago(at, now),
    };
    Ok(ModerationPage {
        reports,
        next: last.map(|last| format!("/moderation?after={}", last.0)),
        is_first: place.after.is_none(),
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
        place,
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
    let before = params.take("before").and_then(|number| number.parse().ok());
    let done = params.take("done").unwrap_or_default();
    let place = Place::take(&mut params);
    let principal = &member.principal;
    let toast = match done_message(&done) {
        Some(words) => Ok(Some(Toast { words: words.to_owned(), button: None })),
        None => decision_toast(&state, principal, &done, &mut params).await,
    };
    let (toast, mut page) = match (toast, page_for(&state, &member, place, before).await) {
        (Ok(toast), Ok(page)) => (toast, page),
        (Err(error), _) | (_, Err(error)) => return error_page(&error),
    };
    page.done = toast;
    if page.place.search.trim().is_empty() {
        return app_page(StatusCode::OK, html(&page));
    }
    let found = async {
        let found = state.moderation.search_host(principal, &page.place.search).await?;
        found_host(&state, principal, found, state.links.now()).await
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
        page_for(state, member, Place::default(), None),
        error_page,
        |page, problem| {
            page.wrong = field_problem(problem, "host");
            page.host = host;
        },
    )
    .await
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
