//! The links of the signed-in account: a list with search, filters, clicks and bulk actions.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use terse_core::clicks::{ClickSubject, Count, Interval, LinkId, Period, Unit, series};
use terse_core::{
    Code, Domain, Link, LinkError, LinkKey, LinkStatus, ListQuery, OwnerFilter, OwnerId, Patch,
    Sort, TagCount, Timestamp,
};
use tokio::task::JoinSet;

use super::chart::sparkline;
use super::format::{ago, grouped, middle_cut};
use super::link::{domain_choices, page_of, path};
use super::login::inside;
use super::member::{Member, MemberForm};
use super::session::{app_page, go};
use super::shell::Shell;
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, html, message};
use crate::counts::counts;
use crate::csv_cell::safe;
use crate::http::cursor::Seal;
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// Links per page. All of them can be selected in one form.
const PAGE: usize = 25;
/// The longest text to search for, as in the API.
const MAX_TEXT: usize = 256;
/// The most tags that the filter offers.
const TAGS: usize = 100;
/// The longest target in a row, in characters.
const TARGET: usize = 72;
/// The longest target in a tooltip, and the longest title.
const TOOLTIP: usize = 300;
const TITLE: usize = 120;
/// The days of the small charts, and how long the page waits for them.
const SPARK_DAYS: u64 = 14;
const SPARK_TIMEOUT: Duration = Duration::from_millis(250);

/// What the list shows, by the word in the query.
const SHOWS: [(&str, &str); 6] = [
    ("", "All"),
    ("active", "Active"),
    ("scheduled", "Scheduled"),
    ("expired", "Expired"),
    ("archived", "Archived"),
    ("deleted", "Deleted"),
];
const SORTS: [(&str, &str); 3] =
    [("", "Newest first"), ("oldest", "Oldest first"), ("clicks", "Most clicks first")];

#[derive(Template)]
#[template(path = "links.html")]
struct LinksPage {
    shell: Shell,
    rows: Rows,
    /// The tags of the account, the most used first.
    tags: Vec<TagCount>,
    /// The short domains; empty if there is one.
    domains: Vec<String>,
    /// The links that were just deleted: in words, and as fields of a form.
    deleted: Option<(String, Vec<Pick>)>,
    done: Option<String>,
}

/// The rows alone, which the script loads while the visitor types.
#[derive(Template)]
#[template(path = "links_rows.html")]
struct Rows {
    rows: Vec<LinkRow>,
    filter: Filter,
    /// The query of the next page.
    next: Option<String>,
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
}

struct LinkRow {
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
    target_cut: String,
    title: Option<String>,
    tags: Vec<String>,
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

/// A link in a form: `pick.CODE` or `pick.CODE@DOMAIN`, with the domain as the value.
#[derive(Clone)]
struct Pick {
    name: String,
    domain: String,
}

impl Pick {
    const PREFIX: &'static str = "pick.";

    fn new(key: &LinkKey) -> Self {
        let domain = if key.domain.is_primary() { "" } else { key.domain.as_str() };
        Self::named(key.code.as_str(), domain)
    }

    /// The domain is in the name as well: two links of one list may have the same code.
    fn named(code: &str, domain: &str) -> Self {
        let joint = if domain.is_empty() { "" } else { "@" };
        let name = format!("{}{code}{joint}{domain}", Self::PREFIX);
        Self { name, domain: domain.to_owned() }
    }

    fn key(&self, state: &App) -> Option<LinkKey> {
        let name = self.name.strip_prefix(Self::PREFIX)?;
        let code = Code::parse(name.split('@').next().unwrap_or_default())?;
        let domain = match self.domain.as_str() {
            "" => Domain::primary(),
            host => state.links.rules().hosts.domain_of(host)?,
        };
        Some(LinkKey { domain, code })
    }
}

impl LinkRow {
    fn new(
        link: &Link,
        clicks: Option<Count>,
        spark: Option<String>,
        state: &App,
        shell: &Shell,
        now: Timestamp,
    ) -> Self {
        let short = short_url(&link.key, &state.links.rules().hosts);
        let target = link.target.to_string();
        let code = link.key.code.to_string();
        let domain = (!link.key.domain.is_primary()).then(|| link.key.domain.as_str());
        let part = |part| path(&code, domain, part, &[]);
        Self {
            path: page_of(&link.key),
            edit: part("edit"),
            archive: part("archive"),
            delete: part("delete"),
            restore: part("restore"),
            pick: Pick::new(&link.key),
            name: short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned(),
            short,
            target_cut: middle_cut(&target, TARGET),
            target: middle_cut(&target, TOOLTIP),
            title: link.title.as_ref().map(|title| middle_cut(title.as_str(), TITLE)),
            tags: link.tags.iter().map(str::to_owned).collect(),
            states: states(link, shell, now),
            clicks: clicks.map(|count| grouped(count.humans.saturating_add(link.imported_clicks))),
            bots: clicks.filter(|count| count.bots > 0).map(|count| grouped(count.bots)),
            spark,
            is_archived: link.archived_at.is_some(),
            is_deleted: link.deleted_at.is_some(),
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
        LinkStatus::Active => {
            if let Some(at) = link.expires_at {
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
            text: take("q").trim().chars().take(MAX_TEXT).collect(),
            tag: take("tag"),
            show: one_of(&SHOWS, take("show")),
            domain: take("domain"),
            sort: one_of(&SORTS, take("sort")),
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

    fn encoded(&self, cursor: Option<&str>) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let cursor = cursor.unwrap_or_default();
        for (name, value) in [
            ("q", &*self.text),
            ("tag", &*self.tag),
            ("show", &*self.show),
            ("domain", &*self.domain),
            ("sort", &*self.sort),
            ("cursor", cursor),
        ] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        let query = query.finish();
        if query.is_empty() { "/links".to_owned() } else { format!("/links?{query}") }
    }

    fn here(&self) -> String {
        self.encoded(None)
    }

    fn is_empty(&self) -> bool {
        [&self.text, &self.tag, &self.show, &self.domain].iter().all(|text| text.is_empty())
    }

    /// The words of the filter, each with its label and whether it is chosen.
    fn shows(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        SHOWS.into_iter().map(|(word, label)| (word, label, word == self.show))
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
    let count = take("count").and_then(|count| count.parse().ok()).unwrap_or(0);
    let filter = Filter::read(&mut params);
    let shell = member.shell(&state, "/links").searching(&filter.text);
    // Each keystroke of a search asks for the rows alone: their charts would cost a report each.
    let is_part = part.as_deref() == Some("rows");
    let rows = match list(&state, &member, &shell, filter, cursor, !is_part).await {
        Ok(Some(rows)) => rows,
        Ok(None) => return message(&NOT_FOUND),
        Err(error) => return failed(&error),
    };
    if is_part {
        return app_page(StatusCode::OK, html(&rows));
    }
    let tags = match state.links.tags(member.principal.caller, TAGS).await {
        Ok(tags) => tags,
        Err(error) => return failed(&error),
    };
    let page = LinksPage {
        shell,
        rows,
        tags,
        domains: domain_choices(&state),
        deleted: deleted.and_then(|text| just_deleted(&state, &text)),
        done: done.and_then(|word| said(&word, count)),
    };
    app_page(StatusCode::OK, html(&page))
}

fn failed(error: &LinkError) -> Response {
    tracing::error!(%error, "the links of an account could not be listed");
    message(&UNAVAILABLE)
}

/// The links that `?deleted=` names: codes, each with `@` and its domain if that is not the primary
/// one.
fn just_deleted(state: &App, text: &str) -> Option<(String, Vec<Pick>)> {
    let keys: Vec<LinkKey> = text
        .split(',')
        .take(PAGE)
        .filter_map(|one| {
            let (code, domain) = one.split_once('@').unwrap_or((one, ""));
            Pick::named(code, domain).key(state)
        })
        .collect();
    let words = match keys.as_slice() {
        [] => return None,
        [one] => format!("The link {} is deleted. Visitors get 404.", one.code),
        many => format!("{} links are deleted. Visitors get 404.", many.len()),
    };
    Some((words, keys.iter().map(Pick::new).collect()))
}

/// The message after a bulk action.
fn said(word: &str, count: usize) -> Option<String> {
    let links = if count == 1 { "1 link is".to_owned() } else { format!("{count} links are") };
    Some(match word {
        "archived" => format!("{links} archived."),
        "unarchived" => format!("{links} in the list again."),
        "restored" => format!("{links} restored."),
        "tagged" => format!("{links} tagged."),
        "untagged" => format!("{links} without that tag now."),
        "none" => "Select links first, and what to do with them.".to_owned(),
        "tag" => "Type the tag: 1 to 50 characters.".to_owned(),
        _ => return None,
    })
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
    let mut seal = Seal::new(&state.cursor_key, caller);
    seal.bind(Some("my links"));
    for part in [&filter.text, &filter.tag, &filter.show, &filter.domain, &filter.sort] {
        seal.bind(Some(part));
    }
    let mut query = filter.query(state, owner, now);
    if let Some(text) = &cursor {
        let Some(after) = seal.open(text) else { return Ok(None) };
        query.after = Some(after);
    }
    let listing = match filter.sort.as_str() {
        "clicks" => {
            let (principal, own) = (&member.principal, OwnerFilter::Caller);
            state.links.list_of_by_clicks(principal, own, &*state.clicks, query).await?
        }
        _ => state.links.list(caller, query).await?,
    };
    let links = &listing.page.links;
    let counts = counts(state, links.iter()).await;
    let sparks = match with_charts {
        true => sparks(state, shell, links, &counts, now).await,
        false => vec![None; links.len()],
    };
    let rows = links.iter().zip(counts).zip(sparks);
    let rows =
        rows.map(|((link, clicks), spark)| LinkRow::new(link, clicks, spark, state, shell, now));
    Ok(Some(Rows {
        rows: rows.collect(),
        next: listing.page.next.map(|next| filter.encoded(Some(&seal.close(&next)))),
        is_first: cursor.is_none(),
        filter,
    }))
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

/// A bulk action on the selected links.
pub(super) async fn act(
    State(state): Web,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (action, tag, back) = (take("action"), take("tag").trim().to_owned(), take("back"));
    let back =
        if back.starts_with("/links") { inside(&back).to_owned() } else { "/links".to_owned() };
    let picks = fields.take_all(Pick::PREFIX).into_iter();
    let picks = picks.map(|(name, domain)| Pick { name, domain }.key(&state));
    let Some(keys) = picks.collect::<Option<Vec<LinkKey>>>() else { return message(&BAD_FORM) };
    if keys.is_empty() || action.is_empty() {
        return go(&said_at(&back, "none", 0));
    }
    if action == "export" {
        return export(&state, &member, &keys).await;
    }
    if matches!(&*action, "tag" | "untag") && !(1..=50).contains(&tag.chars().count()) {
        return go(&said_at(&back, "tag", 0));
    }
    let mut done = Vec::new();
    for key in keys {
        match apply(&state, &member, &action, &tag, &key).await {
            Some(Ok(())) => done.push(key),
            // A link that is gone, or that the rules do not let change, is left out of the count.
            Some(Err(LinkError::NotFound | LinkError::Refused(_) | LinkError::Conflict)) => {}
            Some(Err(error)) => return failed(&error),
            None => return message(&BAD_FORM),
        }
    }
    if action == "delete" {
        let codes = done.iter().map(|LinkKey { domain, code }| match domain.is_primary() {
            true => code.to_string(),
            false => format!("{code}@{}", domain.as_str()),
        });
        let codes = codes.collect::<Vec<_>>().join(",");
        return go(&with(&back, &[("deleted", &codes)]));
    }
    let word = match &*action {
        "archive" => "archived",
        "unarchive" => "unarchived",
        "restore" => "restored",
        "tag" => "tagged",
        _ => "untagged",
    };
    go(&said_at(&back, word, done.len()))
}

/// Does one action on one link; `None` if there is no such action.
async fn apply(
    state: &App,
    member: &Member,
    action: &str,
    tag: &str,
    key: &LinkKey,
) -> Option<Result<(), LinkError>> {
    let caller = member.principal.caller;
    let archive = |archived| Patch { archived: Some(archived), ..Patch::default() };
    let patch = match action {
        "archive" => archive(true),
        "unarchive" => archive(false),
        "delete" => return Some(state.links.delete(caller, key).await),
        "restore" => return Some(state.links.restore(caller, key).await.map(|_| ())),
        "tag" => return Some(state.links.add_tag(caller, key, tag).await.map(|_| ())),
        "untag" => return Some(state.links.retag(caller, key, tag, None).await.map(|_| ())),
        _ => return None,
    };
    Some(state.links.patch(caller, key, &patch, None).await.map(|_| ()))
}

fn said_at(back: &str, word: &str, count: usize) -> String {
    with(back, &[("done", word), ("count", &count.to_string())])
}

/// A path of the list with further parameters.
fn with(back: &str, params: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
    let joint = if back.contains('?') { '&' } else { '?' };
    format!("{back}{joint}{query}")
}

/// The selected links as CSV, in the columns that `terse import` reads.
async fn export(state: &App, member: &Member, keys: &[LinkKey]) -> Response {
    let mut table =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let mut links = Vec::new();
    for key in keys {
        match state.links.get(member.principal.caller, key).await {
            Ok(link) => links.push(link),
            Err(LinkError::NotFound) => {}
            Err(error) => return failed(&error),
        }
    }
    let counts = counts(state, links.iter()).await;
    let mut written = table.write_record([
        "short_code",
        "short_url",
        "long_url",
        "title",
        "tags",
        "created_at",
        "expires_at",
        "click_count",
    ]);
    for (link, count) in links.iter().zip(counts) {
        let tags: Vec<&str> = link.tags.iter().collect();
        let count = count.map(|count| count.all().saturating_add(link.imported_clicks));
        let cells = [
            short_url(&link.key, &state.links.rules().hosts),
            link.target.to_string(),
            link.title.as_ref().map(|title| title.as_str().to_owned()).unwrap_or_default(),
            tags.join(","),
            link.created_at.to_string(),
            link.expires_at.map(|at| at.to_string()).unwrap_or_default(),
            count.map(|count| count.to_string()).unwrap_or_default(),
        ];
        // A code has letters, digits, `-` and `_` only, and an import reads it back as it is.
        let code = std::iter::once(link.key.code.to_string());
        let row = code.chain(cells.iter().map(|cell| safe(cell)));
        written = written.and_then(|()| table.write_record(row));
    }
    let (Ok(()), Ok(bytes)) = (written, table.into_inner()) else { return message(&UNAVAILABLE) };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8; header=present")),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"links.csv\""),
        ),
    ];
    (headers, bytes).into_response()
}
