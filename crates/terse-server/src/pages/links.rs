//! The links of the signed-in account: a list with search, filters and clicks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::clicks::{ClickSubject, Count, Interval, LinkId, Period, Unit, series};
use terse_core::{
    Link, LinkError, LinkStatus, ListQuery, MAX_SEARCH_LENGTH, OwnerFilter, OwnerId, Sort,
    TagCount, Timestamp,
};
use tokio::task::JoinSet;

use super::chart::sparkline;
use super::format::{ago, grouped, middle_cut, parted};
use super::link::{domain_choices, page_of, path};
use super::links_bulk::{Pick, done_message};
use super::member::Member;
use super::session::app_page;
use super::shell::Shell;
use super::{NOT_FOUND, UNAVAILABLE, html, message, overview};
use crate::counts::counts;
use crate::http::cursor::CursorSeal;
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// Links per page: with usual titles, targets and tags the page has less than 50 KB. All of them
/// can be selected in one form.
const PAGE: usize = 20;
/// The most tags that the filter offers.
const TAGS: usize = 100;
/// Links that expire later than this look like any other.
const SOON: Duration = Duration::from_secs(30 * 86_400);
/// The longest target in a row, in characters.
const TARGET: usize = 96;
/// The longest target in a tooltip, and the longest title.
const TOOLTIP: usize = 200;
const TITLE: usize = 120;
/// The days of the small charts, and how long the page waits for them.
const SPARK_DAYS: u64 = 14;
const SPARK_TIMEOUT: Duration = Duration::from_millis(250);

/// What the list shows, by the word in the query.
const SHOWS: [(&str, &str); 9] = [
    ("", "All"),
    ("active", "Active"),
    ("scheduled", "Scheduled"),
    ("expired", "Expired"),
    ("used_up", "Used up"),
    ("suspicious", "Suspicious"),
    ("blocked", "Blocked"),
    ("archived", "Archived"),
    ("deleted", "Deleted"),
];
/// Whose links an admin sees.
const OWNERS: [(&str, &str); 2] = [("", "My links"), ("all", "All accounts")];
const SORTS: [(&str, &str); 3] =
    [("", "Newest first"), ("oldest", "Oldest first"), ("clicks", "Most clicks first")];

#[derive(Template)]
#[template(path = "links.html")]
struct LinksPage {
    shell: Shell,
    /// The clicks of the last 30 days; none where the click store fails or is slow.
    recent: Option<String>,
    rows: Rows,
    /// The short domains; empty if there is one.
    domains: Vec<String>,
    /// The links that were just deleted: in words, and as fields of a form.
    deleted: Option<(String, Vec<Pick>)>,
    /// What a form did, and whether it needs something else first.
    done: Option<(String, bool)>,
}

/// The rows alone, which the script loads while the visitor types.
#[derive(Template)]
#[template(path = "links_rows.html")]
struct Rows {
    rows: Vec<LinkRow>,
    filter: Filter,
    /// The query of the next page.
    next: Option<String>,
    /// The query of this page.
    here: String,
    is_first: bool,
}

/// What the visitor asked for.
#[derive(Clone, Default)]
struct Filter {
    text: String,
    tag: String,
    show: String,
    domain: String,
    sort: String,
    /// `all` for the links of all accounts. Only admins see others' links.
    owner: String,
}

struct LinkRow {
    /// The owner's name, in a list of all accounts.
    owner: Option<String>,
    /// The path of its page.
    path: String,
    edit: String,
    archive: String,
    delete: String,
    restore: String,
    pick: Pick,
    /// The short URL without its scheme.
    name: String,
    short: String,
    target: String,
    /// The target in two parts: a narrow row cuts the end of the first one.
    target_start: String,
    target_end: String,
    title: Option<String>,
    tags: Vec<String>,
    /// The tags that the row has no room for.
    more_tags: String,
    /// What is unusual about the link, and the class of its colour.
    states: Vec<(String, &'static str)>,
    clicks: Option<String>,
    bots: Option<String>,
    /// The clicks of the last days, as a path.
    spark: Option<String>,
    is_archived: bool,
    is_deleted: bool,
    made: String,
    made_ago: String,
    made_at: String,
}

impl LinkRow {
    fn new(
        link: &Link,
        owner: Option<String>,
        clicks: Option<Count>,
        spark: Option<String>,
        state: &App,
        shell: &Shell,
        now: Timestamp,
    ) -> Self {
        let short = short_url(&link.key, &state.links.rules().hosts);
        let target = link.target.to_string();
        // A row has little room: the usual scheme goes without saying.
        let shown = target.strip_prefix("https://").unwrap_or(&target);
        let (target_start, target_end) = parted(&middle_cut(shown, TARGET));
        let code = link.key.code.to_string();
        let domain = (!link.key.domain.is_primary()).then(|| link.key.domain.as_str());
        let part = |part| path(&code, domain, part, &[]);
        Self {
            owner,
            path: page_of(&link.key),
            edit: part("edit"),
            archive: part("archive"),
            delete: part("delete"),
            restore: part("restore"),
            pick: Pick::new(&link.key),
            name: short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned(),
            short,
            target_start,
            target_end,
            target: middle_cut(&target, TOOLTIP),
            title: link.title.as_ref().map(|title| middle_cut(title.as_str(), TITLE)),
            tags: link.tags.iter().map(str::to_owned).collect(),
            more_tags: middle_cut(&link.tags.iter().skip(2).collect::<Vec<_>>().join(", "), TITLE),
            states: states(link, shell, now),
            clicks: clicks.map(|count| grouped(count.humans.saturating_add(link.imported_clicks))),
            bots: clicks.filter(|count| count.bots > 0).map(|count| grouped(count.bots)),
            spark,
            is_archived: link.archived_at.is_some(),
            is_deleted: link.deleted_at.is_some(),
            made: shell.date_time(link.created_at),
            made_ago: ago(link.created_at, now),
            made_at: link.created_at.to_string(),
        }
    }
}

/// What distinguishes a link from one that simply redirects.
pub(super) fn states(link: &Link, shell: &Shell, now: Timestamp) -> Vec<(String, &'static str)> {
    let mut states = Vec::new();
    match link.status(now) {
        LinkStatus::Active => {
            if let Some(at) = link.expires_at.filter(|at| at.saturating_sub(SOON) < now) {
                states.push((format!("expires {}", shell.day(at, now)), "attention"));
            }
        }
        LinkStatus::Scheduled => {
            let from = link.valid_from.map(|at| shell.day(at, now)).unwrap_or_default();
            states.push((format!("starts {from}"), "attention"));
        }
        LinkStatus::Expired => states.push(("expired".into(), "over")),
        LinkStatus::UsedUp => states.push(("used up".into(), "over")),
        LinkStatus::Suspicious => states.push(("suspicious".into(), "attention")),
        LinkStatus::Blocked => states.push(("blocked".into(), "over")),
        LinkStatus::Deleted => states.push(("deleted".into(), "over")),
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
        let one_of = |list: &[(&str, &str)], word: String| {
            if list.iter().any(|(known, _)| *known == word) { word } else { String::new() }
        };
        Self {
            text: take("q").trim().chars().take(MAX_SEARCH_LENGTH).collect(),
            tag: take("tag"),
            show: one_of(&SHOWS, take("show")),
            domain: take("domain"),
            sort: one_of(&SORTS, take("sort")),
            owner: one_of(&OWNERS, take("owner")),
        }
    }

    fn query(&self, state: &App, owner: OwnerId, now: Timestamp) -> ListQuery {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let sort = if self.sort == "oldest" { Sort::Oldest } else { Sort::Newest };
        ListQuery {
            owner: Some(owner),
            text: given(&self.text),
            tag: given(&self.tag),
            domain: given(&self.domain).and_then(|host| state.links.rules().hosts.domain_of(&host)),
            status: LinkStatus::parse(&self.show),
            archived: match self.show.as_str() {
                "archived" => Some(true),
                "deleted" => None,
                _ => Some(false),
            },
            ..ListQuery::all(sort, PAGE, now)
        }
    }

    /// The query of this filter, with something else to show.
    fn with_show(&self, show: &str) -> String {
        Self { show: show.to_owned(), ..self.clone() }.encoded(None)
    }

    fn with_tag(&self, tag: &str) -> String {
        Self { tag: tag.to_owned(), ..self.clone() }.encoded(None)
    }

    /// The parameters that are set, without the text.
    fn without_text(&self) -> Vec<(&'static str, String)> {
        let Self { text: _, tag, show, domain, sort, owner } = self.clone();
        let all =
            [("tag", tag), ("show", show), ("domain", domain), ("sort", sort), ("owner", owner)];
        all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    fn encoded(&self, cursor: Option<&str>) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if !self.text.is_empty() {
            query.append_pair("q", &self.text);
        }
        query.extend_pairs(self.without_text());
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        let query = query.finish();
        if query.is_empty() { "/links".to_owned() } else { format!("/links?{query}") }
    }

    fn here(&self) -> String {
        self.encoded(None)
    }

    fn is_empty(&self) -> bool {
        [&self.text, &self.tag, &self.show, &self.domain, &self.owner]
            .iter()
            .all(|text| text.is_empty())
    }

    /// The words of the filter, each with its label and whether it is chosen.
    fn shows(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        SHOWS.into_iter().map(|(word, label)| (word, label, word == self.show))
    }

    fn owners(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        OWNERS.into_iter().map(|(word, label)| (word, label, word == self.owner))
    }

    fn is_of_all(&self) -> bool {
        self.owner == "all"
    }

    fn sorts(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        SORTS.into_iter().map(|(word, label)| (word, label, word == self.sort))
    }
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let mut take = |name| params.take(name);
    let (cursor, part, deleted, done) =
        (take("cursor"), take("part"), take("deleted"), take("done"));
    if part.as_deref() == Some("tags") {
        return tags(&state, &member).await;
    }
    let mut number = |name| take(name).and_then(|count| count.parse().ok());
    let count = number("count").unwrap_or(0);
    let of = number("of").unwrap_or(count);
    let mut filter = Filter::read(&mut params);
    if !member.principal.caller.sees_all() {
        filter.owner = String::new();
    }
    let shell = member.shell(&state, "/links").searching(&filter.text, filter.without_text());
    // Each keystroke of a search asks for the rows alone, since their charts cost a report each.
    // After a pause the script asks for the rows with charts.
    let is_part = matches!(part.as_deref(), Some("rows" | "charts"));
    let with_charts = part.as_deref() != Some("rows");
    let rows = match list(&state, &member, &shell, filter, cursor, with_charts).await {
        Ok(Some(rows)) => rows,
        Ok(None) => return message(&NOT_FOUND),
        Err(error) => return error_page(&error),
    };
    if is_part {
        return app_page(StatusCode::OK, html(&rows));
    }
    let month = Period { from: Some(state.links.now().saturating_sub(SOON)), to: None };
    let recent = tokio::time::timeout(SPARK_TIMEOUT, overview::report(&state, &member, month));
    let recent = recent.await.ok().and_then(Result::ok);
    let deleted = match deleted {
        Some(text) => just_deleted(&state, &member, &text).await,
        None => None,
    };
    let page = LinksPage {
        shell,
        recent: recent.map(|report| grouped(report.tally.clicks.humans)),
        rows,
        domains: domain_choices(&state),
        deleted,
        done: done.and_then(|word| done_message(&word, count, of)),
    };
    app_page(StatusCode::OK, html(&page))
}

/// The tags of the account, the most used first. A field asks for them when it gets the focus: the
/// store reads all links of the account to count them.
#[derive(Template)]
#[template(
    source = "{% for tag in tags %}<option value=\"{{ tag.tag }}\">{{ tag.links }}</option>{% endfor %}",
    ext = "html"
)]
struct Tags {
    tags: Vec<TagCount>,
}

async fn tags(state: &App, member: &Member) -> Response {
    match state.links.tags(member.principal.caller, TAGS).await {
        Ok(tags) => app_page(StatusCode::OK, html(&Tags { tags })),
        Err(error) => error_page(&error),
    }
}

pub(super) fn error_page(error: &LinkError) -> Response {
    tracing::error!(%error, "the links of an account could not be listed");
    message(&UNAVAILABLE)
}

/// The links that `?deleted=` names and that are still deleted: codes, each with `@` and its domain
/// if that is not the primary one.
async fn just_deleted(state: &App, member: &Member, text: &str) -> Option<(String, Vec<Pick>)> {
    let named = text.split(',').take(PAGE).filter_map(|one| {
        let (code, domain) = one.split_once('@').unwrap_or((one, ""));
        Pick::named(code, domain).key(state)
    });
    let mut keys = Vec::new();
    for key in named {
        let found = state.links.get(member.principal.caller, &key).await;
        if found.is_ok_and(|link| link.deleted_at.is_some()) {
            keys.push(key);
        }
    }
    let words = match keys.as_slice() {
        [] => return None,
        [one] => format!("The link {} is deleted. Visitors get 404.", one.code),
        many => format!("{} links are deleted. Visitors get 404.", many.len()),
    };
    Some((words, keys.iter().map(Pick::new).collect()))
}

/// The rows; `None` if the cursor is not one of this list.
async fn list(
    state: &App,
    member: &Member,
    shell: &Shell,
    filter: Filter,
    cursor: Option<String>,
    with_charts: bool,
) -> Result<Option<Rows>, LinkError> {
    let (caller, owner) = (member.principal.caller, member.here.account.id);
    let now = state.links.now();
    let mut seal = CursorSeal::new(&state.cursor_key, caller);
    seal.bind(Some("my links"));
    let Filter { text, tag, show, domain, sort, owner: whose } = &filter;
    for part in [text, tag, show, domain, sort, whose] {
        seal.bind(Some(part));
    }
    let mut query = filter.query(state, owner, now);
    if let Some(text) = &cursor {
        let Some(after) = seal.open(text) else { return Ok(None) };
        query.after = Some(after);
    }
    let principal = &member.principal;
    let whose = if filter.is_of_all() { OwnerFilter::All } else { OwnerFilter::Caller };
    let listing = match filter.sort.as_str() {
        "clicks" => state.links.list_of_by_clicks(principal, whose, &*state.clicks, query).await?,
        _ => state.links.list_of(principal, whose, query).await?,
    };
    let links = &listing.page.links;
    let owners = owner_names(state, &filter, links).await;
    let counts = counts(state, links.iter()).await;
    let sparks = match with_charts {
        true => sparks(state, shell, links, &counts, now).await,
        false => vec![None; links.len()],
    };
    let rows = links.iter().zip(counts).zip(sparks);
    let rows = rows.map(|((link, clicks), spark)| {
        let owner = owners.get(&link.owner).cloned();
        LinkRow::new(link, owner, clicks, spark, state, shell, now)
    });
    Ok(Some(Rows {
        rows: rows.collect(),
        next: listing.page.next.map(|next| filter.encoded(Some(&seal.close(&next)))),
        here: filter.encoded(cursor.as_deref()),
        is_first: cursor.is_none(),
        filter,
    }))
}

/// The names of the owners of links, in a list of all accounts.
async fn owner_names(state: &App, filter: &Filter, links: &[Link]) -> HashMap<OwnerId, String> {
    let mut names = HashMap::new();
    for link in links.iter().filter(|_| filter.is_of_all()) {
        if let Entry::Vacant(place) = names.entry(link.owner) {
            let name = state.accounts.name_of(link.owner).await.ok().flatten();
            place.insert(name.unwrap_or_else(|| "no account".to_owned()));
        }
    }
    names
}

/// The small charts of links, in order; none where the click store fails or is slow.
async fn sparks(
    state: &App,
    shell: &Shell,
    links: &[Link],
    counts: &[Option<Count>],
    now: Timestamp,
) -> Vec<Option<String>> {
    let from = now.saturating_sub(Duration::from_secs((SPARK_DAYS - 1) * 86_400));
    let from = Unit::Hour.floor(from);
    let period = Period { from: Some(from), to: Some(now) };
    let mut sparks = vec![None; links.len()];
    let mut reading = JoinSet::new();
    for (place, link) in links.iter().enumerate() {
        match counts.get(place).copied().flatten() {
            None => {}
            Some(count) if count.humans == 0 => sparks[place] = Some(sparkline(&[0, 0])),
            Some(_) => {
                let (clicks, subject) =
                    (state.clicks.clone(), ClickSubject::Link(LinkId::of(link)));
                reading.spawn(async move { (place, clicks.report(&subject, period, now).await) });
            }
        }
    }
    let all = async {
        while let Some(read) = reading.join_next().await {
            let Ok((place, Ok(report))) = read else { continue };
            let points = series(&report.buckets, from, now, Interval::Day, shell.zone());
            let values = points.unwrap_or_default().into_iter().map(|point| point.clicks.humans);
            sparks[place] = Some(sparkline(&values.collect::<Vec<_>>()));
        }
    };
    // Dropping the set ends what is still reading.
    let _ = tokio::time::timeout(SPARK_TIMEOUT, all).await;
    sparks
}
