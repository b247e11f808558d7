//! The links of the signed-in account: a list with search, filters and clicks.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::{Link, LinkError, ListQuery, OwnerId, Sort, Status, TagCount, Timestamp};

use super::format::{ago, grouped, middle_cut};
use super::link::{key_of, page_of, path};
use super::member::Member;
use super::session::app_page;
use super::shell::Shell;
use super::{NOT_FOUND, UNAVAILABLE, html, message};
use crate::counts::click_counts;
use crate::http::cursor::Seal;
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// Links per page.
const PAGE: usize = 25;
/// The longest text to search for, as in the API.
const MAX_TEXT: usize = 256;
/// The most tags that the filter offers.
const TAGS: usize = 100;
/// The longest target in a row, in characters.
const TARGET: usize = 72;

/// What the list shows, by the word in the query.
const SHOWS: [(&str, &str); 6] = [
    ("", "All"),
    ("active", "Active"),
    ("scheduled", "Scheduled"),
    ("expired", "Expired"),
    ("archived", "Archived"),
    ("deleted", "Deleted"),
];

#[derive(Template)]
#[template(path = "links.html")]
struct LinksPage {
    shell: Shell,
    rows: Vec<LinkRow>,
    filter: Filter,
    /// The tags of the account, the most used first.
    tags: Vec<TagCount>,
    /// The query of the next page.
    next: Option<String>,
    is_first: bool,
    /// The link that was just deleted: its code, and the path that restores it.
    deleted: Option<(String, String)>,
}

/// What the visitor asked for.
#[derive(Clone, Default)]
struct Filter {
    text: String,
    tag: String,
    show: String,
}

struct LinkRow {
    /// The path of its page.
    path: String,
    /// The short URL without its scheme.
    name: String,
    short: String,
    target: String,
    target_cut: String,
    title: Option<String>,
    tags: Vec<String>,
    /// What is unusual about the link, and the class of its colour.
    states: Vec<(String, &'static str)>,
    clicks: Option<String>,
    made: String,
    made_ago: String,
    made_at: String,
}

impl LinkRow {
    fn new(link: &Link, clicks: Option<u64>, state: &App, shell: &Shell, now: Timestamp) -> Self {
        let short = short_url(&link.key, &state.links.rules().hosts);
        let target = link.target.to_string();
        Self {
            path: page_of(&link.key),
            name: short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned(),
            short,
            target_cut: middle_cut(&target, TARGET),
            target,
            title: link.title.as_ref().map(|title| title.as_str().to_owned()),
            tags: link.tags.iter().map(str::to_owned).collect(),
            states: states(link, shell, now),
            clicks: clicks.map(|clicks| grouped(clicks.saturating_add(link.imported_clicks))),
            made: shell.moment(link.created_at),
            made_ago: ago(link.created_at, now),
            made_at: link.created_at.to_string(),
        }
    }
}

/// What distinguishes a link from one that simply redirects.
pub(super) fn states(link: &Link, shell: &Shell, now: Timestamp) -> Vec<(String, &'static str)> {
    let mut states = Vec::new();
    match link.status(now) {
        Status::Active => {
            if let Some(at) = link.expires_at {
                states.push((format!("expires {}", shell.moment(at)), "attention"));
            }
        }
        Status::Scheduled => {
            let from = link.valid_from.map(|at| shell.moment(at)).unwrap_or_default();
            states.push((format!("starts {from}"), "attention"));
        }
        Status::Expired => states.push(("expired".into(), "over")),
        Status::UsedUp => states.push(("used up".into(), "over")),
        Status::Suspicious => states.push(("suspicious".into(), "attention")),
        Status::Blocked => states.push(("blocked".into(), "over")),
        Status::Deleted => states.push(("deleted".into(), "over")),
    }
    if link.password.is_some() {
        states.push(("password".into(), "attention"));
    }
    if link.archived_at.is_some() {
        states.push(("archived".into(), "over"));
    }
    states
}

impl Filter {
    fn read(params: &mut Params) -> Self {
        let mut take = |name| params.take(name).unwrap_or_default();
        let show = take("show");
        Self {
            text: take("q").trim().chars().take(MAX_TEXT).collect(),
            tag: take("tag"),
            show: if SHOWS.iter().any(|(word, _)| *word == show) { show } else { String::new() },
        }
    }

    fn query(&self, owner: OwnerId, now: Timestamp) -> ListQuery {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        ListQuery {
            owner: Some(owner),
            text: given(&self.text),
            tag: given(&self.tag),
            status: Status::parse(&self.show),
            archived: match self.show.as_str() {
                "archived" => Some(true),
                "deleted" => None,
                _ => Some(false),
            },
            ..ListQuery::all(Sort::Newest, PAGE, now)
        }
    }

    /// The query of this filter, with something else to show.
    fn with_show(&self, show: &str) -> String {
        Self { show: show.to_owned(), ..self.clone() }.encoded(None)
    }

    fn with_tag(&self, tag: &str) -> String {
        Self { tag: tag.to_owned(), ..self.clone() }.encoded(None)
    }

    fn encoded(&self, cursor: Option<&str>) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let cursor = cursor.unwrap_or_default();
        for (name, value) in
            [("q", &*self.text), ("tag", &*self.tag), ("show", &*self.show), ("cursor", cursor)]
        {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        format!("/links?{}", query.finish())
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.tag.is_empty() && self.show.is_empty()
    }

    /// The words of the filter, each with its label and whether it is chosen.
    fn shows(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        SHOWS.into_iter().map(|(word, label)| (word, label, word == self.show))
    }
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let (filter, cursor) = (Filter::read(&mut params), params.take("cursor"));
    let deleted = deleted(&state, &mut params);
    match list(&state, &member, filter, cursor).await {
        Ok(Some(mut page)) => {
            page.deleted = deleted;
            app_page(StatusCode::OK, html(&page))
        }
        Ok(None) => message(&NOT_FOUND),
        Err(error) => {
            tracing::error!(%error, "the links of an account could not be listed");
            message(&UNAVAILABLE)
        }
    }
}

/// The link that `?deleted=` names, and the path that restores it.
fn deleted(state: &App, params: &mut Params) -> Option<(String, String)> {
    let code = params.take("deleted")?;
    let key = key_of(state, params, &code)?;
    let domain = (!key.domain.is_primary()).then(|| key.domain.as_str());
    Some((code, path(key.code.as_str(), domain, "restore", &[])))
}

/// The page; `None` if the cursor is not one of this list.
async fn list(
    state: &App,
    member: &Member,
    filter: Filter,
    cursor: Option<String>,
) -> Result<Option<LinksPage>, LinkError> {
    let (caller, owner) = (member.principal.caller, member.here.account.id);
    let shell = member.shell(state, "/links").searching(&filter.text);
    let now = state.links.now();
    let mut seal = Seal::new(&state.cursor_key, caller);
    seal.bind(Some("my links"));
    for part in [&filter.text, &filter.tag, &filter.show] {
        seal.bind(Some(part));
    }
    let mut query = filter.query(owner, now);
    if let Some(text) = &cursor {
        let Some(after) = seal.open(text) else { return Ok(None) };
        query.after = Some(after);
    }
    let listing = state.links.list(caller, query).await?;
    let counts = click_counts(state, listing.page.links.iter()).await;
    let rows = listing.page.links.iter().zip(counts);
    let rows = rows.map(|(link, clicks)| LinkRow::new(link, clicks, state, &shell, now)).collect();
    Ok(Some(LinksPage {
        shell,
        rows,
        tags: state.links.tags(caller, TAGS).await?,
        next: listing.page.next.map(|next| filter.encoded(Some(&seal.close(&next)))),
        is_first: cursor.is_none(),
        deleted: None,
        filter,
    }))
}
