//! The latest clicks of a link. The dashboard's script adds new ones as they arrive.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use terse_core::clicks::{Click, ClickSubject, LinkId, OwnVisitor, Period, RawQuery};
use terse_core::{Link, StoreError, Timestamp};

use super::cards::bot_words;
use super::link::{LinkHead, find_link};
use super::link_stats::{who, without_clicks};
use super::member::Member;
use super::session::app_page;
use super::shell::Shell;
use super::{NOT_FOUND, html, message, names};
use crate::counts::{REPORT_TIMEOUT, clicks_in_time, report_in_time};
use crate::http::extract::{Name, Peer};
use crate::http::own_visitor::own_visitor;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// How many clicks the page shows.
const SHOWN: usize = 50;
/// How many clicks are read to find the latest, which the store gives last.
const READ: usize = 1000;
/// The page searches the latest clicks in these spans before the last click, the longest first.
const SPANS: [Duration; 5] = [
    Duration::from_secs(30 * 86_400),
    Duration::from_secs(86_400),
    Duration::from_secs(3600),
    Duration::from_secs(60),
    Duration::ZERO,
];

#[derive(Template)]
#[template(path = "link_live.html")]
struct LivePage {
    shell: Shell,
    head: LinkHead,
    clicks: Vec<LiveRow>,
    /// For the rows that the script adds: the zone of their times, and the names of countries.
    zone: String,
    countries: String,
}

struct LiveRow {
    time: String,
    exact: String,
    who: String,
    referrer: String,
    /// Why it counts as a bot's.
    bot: Option<String>,
    repeat: bool,
    /// Whether the viewer made it.
    own: bool,
}

impl LiveRow {
    fn new(click: &Click, own: &OwnVisitor, shell: &Shell, now: Timestamp) -> Self {
        let (time, exact) = (shell.clock(click.at, now), shell.date_time(click.at));
        let bot = click.bot.map(|kind| bot_words(kind.as_str()).to_owned());
        let referrer = click.referrer.as_deref().unwrap_or("direct").to_owned();
        let (repeat, own) = (click.repeat, own.made(click));
        Self { time, exact, who: who(click), referrer, bot, repeat, own }
    }
}

/// The latest clicks, the latest first.
async fn latest(state: &App, link: &Link, now: Timestamp) -> Result<Vec<Click>, StoreError> {
    let month = Period { from: Some(now.saturating_sub(SPANS[0])), to: None };
    let subject = ClickSubject::Link(LinkId::of(link));
    let report = report_in_time(state, REPORT_TIMEOUT, &subject, month).await?;
    let Some(last) = report.tally.last else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for span in SPANS {
        let from = Some(last.saturating_sub(span));
        let query = RawQuery { link: LinkId::of(link), from, to: None, after: None, limit: READ };
        let page = clicks_in_time(state, REPORT_TIMEOUT, &query).await?;
        found = page.clicks;
        if page.next.is_none() {
            break;
        }
    }
    found.reverse();
    found.truncate(SHOWN);
    Ok(found)
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    Name(code): Name,
    Peer(address): Peer,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let shell = member.shell(&state, "/links");
    let (link, owner) = match find_link(&state, &member, &mut params, &code).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let now = state.links.now();
    let head = LinkHead::new(&state, &shell, &link, owner, "live", None);
    let clicks = match latest(&state, &link, now).await {
        Ok(clicks) => clicks,
        Err(error) => return without_clicks(&error, shell, head),
    };
    let own = own_visitor(&state, address, &headers).await;
    let clicks = clicks.iter().map(|click| LiveRow::new(click, &own, &shell, now)).collect();
    let zone = shell.zone().iana_name().unwrap_or("UTC").to_owned();
    let countries = names::country_list();
    app_page(StatusCode::OK, html(&LivePage { shell, head, clicks, zone, countries }))
}
