//! The lists of the overview: the newest and the busiest links, clicks by tag, and recent activity.

use std::cmp::Reverse;
use std::collections::HashSet;

use terse_core::clicks::{BusyLink, Period};
use terse_core::{
    BusiestLink, Link, LinkError, LinkKey, LinkStatus, ListQuery, Sort, TagClicks, Timestamp,
};
use url::form_urlencoded::byte_serialize;

use super::audit_words::action_words;
use super::format::{ago, grouped, middle_cut};
use super::link::{page_of, path};
use super::member::Member;
use super::shell::Shell;
use crate::counts::{REPORT_TIMEOUT, counts, in_time};
use crate::http::host::short_url;
use crate::http::state::App;

/// How many links each list shows.
const MAX_ROWS: usize = 7;
/// With this many links, an account needs no next steps.
const FEW_LINKS: usize = 4;
/// How many pages of a list are read to count its links.
const MAX_PAGES: usize = 10;
/// How many of the busiest links of the period have their tags added up.
const WITH_TAGS: usize = 200;
/// More links than are listed, because the busiest links by all clicks need not be the busiest by
/// humans.
const CANDIDATES: usize = 1000;
/// The minutes of the list of busy links.
const BUSY_MINUTES: i64 = 60;
/// How much happened recently, and how many records of the account are read for it.
const ACTIVITY: usize = 8;
/// For how many links the history is read: the latest changes of some are scans.
const WITH_HISTORY: usize = 24;

/// The lists of the overview.
pub(super) struct Lists {
    /// Whether the account has no link at all, also no archived or deleted one.
    pub(super) is_new: bool,
    /// Whether it has so few links that the page shows the next steps.
    pub(super) has_few: bool,
    pub(super) newest: Vec<Listed>,
    /// The links with the most clicks of the period.
    pub(super) top: Vec<Listed>,
    /// The tags with the most clicks of the period: the tag, its clicks, and the path of its links.
    pub(super) tags: Vec<(String, String, String)>,
    pub(super) activity: Vec<Activity>,
}

/// A link in a list: its name, the path of its page, what it leads to, and a figure.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) about: String,
    pub(super) figure: String,
    pub(super) small: String,
}

/// Something that happened.
pub(super) struct Activity {
    at: Timestamp,
    /// What, such as `created` or `12 clicks in the last hour`.
    pub(super) what: String,
    /// The name and the path of the link, unless it is about the account.
    pub(super) link: Option<(String, String)>,
    pub(super) ago: String,
    pub(super) exact: String,
}

impl Lists {
    /// Reads all lists of an account.
    pub(super) async fn read(
        state: &App,
        member: &Member,
        shell: &Shell,
        period: Period,
    ) -> Result<Self, LinkError> {
        let now = state.links.now();
        let newest = newest(state, member, now).await?;
        let all = ListQuery::all(Sort::Newest, FEW_LINKS, now);
        let has_few =
            newest.len() < FEW_LINKS && count(state, member, all.clone()).await? < FEW_LINKS;
        let deleted = ListQuery { status: Some(LinkStatus::Deleted), limit: 1, ..all.clone() };
        let is_new = newest.is_empty()
            && count(state, member, ListQuery { limit: 1, ..all }).await? == 0
            && count(state, member, deleted).await? == 0;
        let clicks = &*state.clicks;
        let reading = state.links.busiest(member.principal.caller, clicks, period, WITH_TAGS);
        let busiest = in_time(REPORT_TIMEOUT, reading).await?;
        let busy = busy(state, member, now);
        let counts = counts(state, newest.iter()).await;
        let figures = counts.iter().zip(&newest).map(|(count, link)| match count {
            Some(count) => grouped(count.humans.saturating_add(link.imported_clicks)),
            None => "–".to_owned(),
        });
        let listed = newest.iter().zip(figures).map(|(link, figure)| Listed {
            name: name_of(state, &link.key),
            path: page_of(&link.key),
            about: about(link),
            figure,
            small: ago(link.created_at, now),
        });
        Ok(Self {
            is_new,
            has_few,
            newest: listed.collect(),
            top: busiest.iter().take(MAX_ROWS).map(|found| top(state, found)).collect(),
            tags: TagClicks::ranked(&busiest, MAX_ROWS).into_iter().map(tag).collect(),
            activity: activity(state, member, shell, &newest, &busiest, &busy).await,
        })
    }
}

fn name_of(state: &App, key: &LinkKey) -> String {
    let short = short_url(key, &state.links.rules().hosts);
    short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned()
}

fn about(link: &Link) -> String {
    match &link.title {
        Some(title) => middle_cut(title.as_str(), 120),
        None => middle_cut(link.target.as_str(), 60),
    }
}

fn top(state: &App, found: &BusiestLink) -> Listed {
    Listed {
        name: name_of(state, &found.id.key),
        path: page_of(&found.id.key),
        about: found.link.as_ref().map(about).unwrap_or_default(),
        figure: grouped(found.clicks.humans),
        small: String::new(),
    }
}

fn tag(counted: TagClicks) -> (String, String, String) {
    let query: String = byte_serialize(counted.tag.as_bytes()).collect();
    (counted.tag, grouped(counted.clicks), format!("/links?tag={query}"))
}

/// The links with the most clicks by humans in the last hour.
fn busy(state: &App, member: &Member, now: Timestamp) -> Vec<BusyLink> {
    let owner = Some(member.here.account.id);
    let mut busy = state.live.busiest(owner, BUSY_MINUTES, now, CANDIDATES);
    busy.retain(|found| found.clicks.humans > 0);
    busy.sort_by(|a, b| b.clicks.humans.cmp(&a.clicks.humans).then_with(|| a.link.cmp(&b.link)));
    busy.truncate(MAX_ROWS);
    busy
}

/// How many links of the account there are, counted up to the limit of the query.
async fn count(state: &App, member: &Member, mut query: ListQuery) -> Result<usize, LinkError> {
    query.owner = Some(member.here.account.id);
    let (caller, most) = (member.principal.caller, query.limit);
    let mut found = 0;
    // A page may be empty although there are more.
    for _ in 0..MAX_PAGES {
        let page = state.links.list(caller, query.clone()).await?.page;
        found += page.links.len();
        match page.next {
            Some(next) if found < most => query.after = Some(next),
            _ => break,
        }
    }
    Ok(found.min(most))
}

async fn newest(state: &App, member: &Member, now: Timestamp) -> Result<Vec<Link>, LinkError> {
    let query = ListQuery {
        owner: Some(member.here.account.id),
        archived: Some(false),
        ..ListQuery::all(Sort::Newest, MAX_ROWS, now)
    };
    Ok(state.links.list(member.principal.caller, query).await?.page.links)
}

/// What happened lately, the latest first: new and changed links among those of the other lists,
/// clicks of the last hour, and changes of the account.
async fn activity(
    state: &App,
    member: &Member,
    shell: &Shell,
    newest: &[Link],
    busiest: &[BusiestLink],
    busy: &[BusyLink],
) -> Vec<Activity> {
    let now = state.links.now();
    let entry = |at, what: String, link| Activity {
        at,
        what,
        link,
        ago: ago(at, now),
        exact: shell.date_time(at),
    };
    let named = |key: &LinkKey| Some((name_of(state, key), page_of(key)));
    let mut all = Vec::new();
    let (mut seen, mut updated) = (HashSet::new(), Vec::new());
    for link in newest.iter().chain(busiest.iter().filter_map(|found| found.link.as_ref())) {
        if !seen.insert(&link.key) {
            continue;
        }
        all.push(entry(link.created_at, "created".to_owned(), named(&link.key)));
        match link.deleted_at {
            Some(at) => all.push(entry(at, "deleted".to_owned(), named(&link.key))),
            None => updated.push(link),
        }
    }
    updated.sort_by_key(|link| Reverse(link.updated_at));
    for link in updated.into_iter().take(WITH_HISTORY) {
        // Without an answer, the change is left out.
        if let Ok(Some(at)) = state.links.last_change(link).await {
            let domain = (!link.key.domain.is_primary()).then(|| link.key.domain.as_str());
            let history = path(link.key.code.as_str(), domain, "history", &[]);
            let what = "changed".to_owned();
            all.push(entry(at, what, Some((name_of(state, &link.key), history))));
        }
    }
    for found in busy {
        let what = match found.clicks.humans {
            1 => "1 click in the last hour".to_owned(),
            count => format!("{} clicks in the last hour", grouped(count)),
        };
        all.push(entry(found.last, what, named(&found.link.key)));
    }
    let own = state.accounts.own_subject(&member.principal);
    // Without an answer, the list is about links alone.
    for record in state.moderation.own_audit(&own, None, ACTIVITY).await.unwrap_or_default() {
        let what = action_words(record.act).unwrap_or("Account changed").to_owned();
        all.push(entry(record.at, what, None));
    }
    all.sort_by_key(|entry| Reverse(entry.at));
    all.truncate(ACTIVITY);
    all
}
