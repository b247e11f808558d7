//! The overview: all clicks of an account, its busiest and newest links, and the first steps of a
//! new account.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::clicks::{BotFilter, ClickReport, ClickSubject, Period, TopQuery};
use terse_core::{Link, LinkError, ListQuery, Sort, StoreError};
use url::form_urlencoded::byte_serialize;

use super::cards::{Card, bot_words, card};
use super::chart::Chart;
use super::format::{ago, grouped, middle_cut};
use super::link::page_of;
use super::link_stats::{Figure, chart, visitors};
use super::member::Member;
use super::session::app_page;
use super::shell::Shell;
use super::window::Window;
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, html, message};
use crate::counts::counts;
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::value_lists::ValueLists;

/// How many links each list shows.
const LISTED: usize = 7;
/// More links than are listed, because the busiest links by all clicks need not be the busiest by
/// humans.
const CANDIDATES: usize = 1000;
/// The minutes of the list of busy links.
const BUSY_MINUTES: i64 = 60;
/// How many values a card shows.
const ON_CARD: usize = 6;
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
    window: Window,
    clicks: Figure,
    visitors: Figure,
    bots: String,
    reasons: String,
    chart: Chart,
    cards: Vec<Card>,
    busy: Vec<Listed>,
    /// The links with the most clicks of the period.
    top: Vec<Listed>,
    /// The tags with the most links: the tag, how many links, and the path of their list.
    tags: Vec<(String, String, String)>,
    newest: Vec<Listed>,
    /// Ready-made calls of the API, for the first steps: the name of each, and its text.
    snippets: [(&'static str, String); 3],
}

/// A link in a list: its name, the path of its page, what it leads to, and a figure.
struct Listed {
    name: String,
    path: String,
    about: String,
    figure: String,
    small: String,
}

fn name_of(short: &str) -> String {
    short.split_once("://").map_or(short, |(_, rest)| rest).to_owned()
}

/// The clicks of all links of an account.
pub(super) async fn report(
    state: &App,
    member: &Member,
    period: Period,
) -> Result<ClickReport, StoreError> {
    let subject = ClickSubject::Owner(member.here.account.id);
    let reading = state.clicks.report(&subject, period, state.links.now());
    match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(report) => report,
        Err(_) => Err(StoreError::Unavailable("reading clicks takes too long".into())),
    }
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let shell = member.shell(&state, "/dashboard");
    let Ok(window) = Window::read(&mut params, shell.zone(), state.links.now()) else {
        return message(&BAD_FORM);
    };
    let reports = tokio::try_join!(
        report(&state, &member, window.period()),
        report(&state, &member, window.before())
    );
    let (report, before) = match reports {
        Ok(reports) => reports,
        Err(error) => {
            tracing::error!(%error, "the clicks of an account could not be read");
            return message(&UNAVAILABLE);
        }
    };
    let newest = match newest(&state, &member).await {
        Ok(newest) => newest,
        Err(error) => {
            tracing::error!(%error, "the newest links of an account could not be listed");
            return message(&UNAVAILABLE);
        }
    };
    let top = match top(&state, &member, window.period()).await {
        Ok(top) => top,
        Err(error) => {
            tracing::error!(%error, "the top links of an account could not be read");
            return message(&UNAVAILABLE);
        }
    };
    let tags = state.links.tags(member.principal.caller, LISTED).await.unwrap_or_default();
    let tags = tags.into_iter().map(|counted| {
        let query: String = byte_serialize(counted.tag.as_bytes()).collect();
        let links = grouped(counted.links);
        (counted.tag.to_string(), links, format!("/links?tag={query}"))
    });
    let tags = tags.collect();
    let before = window.is_comparable(member.here.account.created_at).then_some(before);
    let lists = ValueLists { tally: &report.tally, bots: BotFilter::Exclude, most: ON_CARD };
    let only_bots = ValueLists { tally: &report.tally, bots: BotFilter::Only, most: ON_CARD };
    let reasons = only_bots.bot_reasons();
    let reasons =
        reasons.iter().map(|named| format!("{} {}", bot_words(&named.name), grouped(named.clicks)));
    let page = OverviewPage {
        clicks: Figure::new(
            report.tally.clicks.humans,
            before.as_ref().map(|before| before.tally.clicks.humans),
        ),
        visitors: Figure::new(visitors(&report), before.as_ref().map(visitors)),
        bots: grouped(report.tally.clicks.bots),
        reasons: reasons.collect::<Vec<_>>().join(" · "),
        chart: chart(&window, &report, before.as_ref(), BotFilter::Exclude),
        cards: ["referrers", "countries"].into_iter().map(|of| card(&lists, of)).collect(),
        busy: busy(&state, &member),
        top,
        tags,
        newest,
        snippets: snippets(&state.links.rules().hosts.api_base()),
        shell,
        window,
    };
    app_page(StatusCode::OK, html(&page))
}

/// Calls of the API that create a link, with the address of this server.
fn snippets(base: &str) -> [(&'static str, String); 3] {
    let curl = format!(
        "curl {base}/api/v1/urls \\\n  -H \"Authorization: Bearer $KEY\" \\\n  \
         -H \"Content-Type: application/json\" \\\n  \
         -d '{{\"long_url\": \"https://example.com/\"}}'"
    );
    let javascript = format!(
        "const answer = await fetch(\"{base}/api/v1/urls\", {{\n  method: \"POST\",\n  \
         headers: {{ Authorization: `Bearer ${{key}}`, \"Content-Type\": \"application/json\" }},\n  \
         body: JSON.stringify({{ long_url: \"https://example.com/\" }}),\n}});\n\
         console.log((await answer.json()).short_url);"
    );
    let python = format!(
        "import json, urllib.request\n\nrequest = urllib.request.Request(\n    \
         \"{base}/api/v1/urls\",\n    \
         json.dumps({{\"long_url\": \"https://example.com/\"}}).encode(),\n    \
         {{\"Authorization\": f\"Bearer {{key}}\", \"Content-Type\": \"application/json\"}},\n)\n\
         print(json.load(urllib.request.urlopen(request))[\"short_url\"])"
    );
    [("curl", curl), ("JavaScript", javascript), ("Python", python)]
}

/// The links with the most clicks by humans in a period.
async fn top(state: &App, member: &Member, period: Period) -> Result<Vec<Listed>, StoreError> {
    let owner = Some(member.here.account.id);
    let (bots, after) = (BotFilter::Exclude, None);
    let query = TopQuery { owner, period, bots, after, limit: LISTED };
    let reading = tokio::time::timeout(TIMEOUT, state.clicks.top(&query)).await;
    let slow = |_| StoreError::Unavailable("reading clicks takes too long".into());
    let found = reading.map_err(slow)??.into_iter();
    let listed = found.filter(|found| found.clicks.humans > 0).map(|found| Listed {
        name: name_of(&short_url(&found.link.key, &state.links.rules().hosts)),
        path: page_of(&found.link.key),
        about: String::new(),
        figure: grouped(found.clicks.humans),
        small: String::new(),
    });
    Ok(listed.collect())
}

/// The links with the most clicks in the last hour.
fn busy(state: &App, member: &Member) -> Vec<Listed> {
    let now = state.links.now();
    let owner = Some(member.here.account.id);
    let mut busy = state.live.busiest(owner, BUSY_MINUTES, now, CANDIDATES);
    busy.sort_by(|a, b| b.clicks.humans.cmp(&a.clicks.humans).then_with(|| a.link.cmp(&b.link)));
    let listed =
        busy.into_iter().take(LISTED).filter(|busy| busy.clicks.humans > 0).map(|busy| Listed {
            name: name_of(&short_url(&busy.link.key, &state.links.rules().hosts)),
            path: page_of(&busy.link.key),
            about: String::new(),
            figure: grouped(busy.clicks.humans),
            small: ago(busy.last, now),
        });
    listed.collect()
}

async fn newest(state: &App, member: &Member) -> Result<Vec<Listed>, LinkError> {
    let now = state.links.now();
    let query = ListQuery {
        owner: Some(member.here.account.id),
        archived: Some(false),
        ..ListQuery::all(Sort::Newest, LISTED, now)
    };
    let links = state.links.list(member.principal.caller, query).await?.page.links;
    let counts = counts(state, links.iter()).await;
    let about = |link: &Link| match &link.title {
        Some(title) => middle_cut(title.as_str(), 120),
        None => middle_cut(link.target.as_str(), 60),
    };
    let listed = links.iter().zip(counts).map(|(link, count)| Listed {
        name: name_of(&short_url(&link.key, &state.links.rules().hosts)),
        path: page_of(&link.key),
        about: about(link),
        figure: count.map_or_else(
            || "–".to_owned(),
            |count| grouped(count.humans.saturating_add(link.imported_clicks)),
        ),
        small: ago(link.created_at, now),
    });
    Ok(listed.collect())
}
