//! The statistics of a link: figures, a chart, and where the clicks come from.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::clicks::{
    BotFilter, Click, ClickReport, ClickSubject, Count, LinkId, Period, RawQuery,
};
use terse_core::{Link, StoreError};
use url::form_urlencoded::Serializer;

use super::cards::{CARDS, Card, bot_card, bot_words, card, csv, csv_file};
use super::chart::{Chart, ChartPoint};
use super::form::FormError;
use super::format::{ago, grouped};
use super::link::{LinkHead, find_link, path};
use super::member::Member;
use super::session::app_page;
use super::shell::Shell;
use super::window::Window;
use super::world_map::WorldMap;
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, html, message, names};
use crate::counts::{REPORT_TIMEOUT, clicks_in_time, report_in_time};
use crate::http::extract::Name;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::value_lists::ValueLists;

/// The word for the clicks over time, beside those of the cards.
const TIME: &str = "time";
/// How many values a card shows by name, and how many the whole table.
const ON_CARD: usize = 6;
const IN_TABLE: usize = 200;
/// How many reasons are named beside the number of bots.
const REASONS: usize = 3;

#[derive(Template)]
#[template(path = "link_stats.html")]
struct StatsPage {
    shell: Shell,
    head: LinkHead,
    window: Window,
    figures: Figures,
    chart: Chart,
    cards: Vec<Card>,
    map: Option<WorldMap>,
    /// Whether the period has no clicks.
    is_silent: bool,
    asked: ClickQuery,
    /// The address of the single clicks that the page counts.
    clicks_csv: String,
    problem: Option<FormError>,
}

/// What the visitor asked for, as parameters.
struct ClickQuery {
    code: String,
    domain: Option<String>,
    params: Vec<(&'static str, String)>,
    bots: BotFilter,
}

impl ClickQuery {
    fn new(head: &LinkHead, window: &Window, bots: BotFilter) -> Self {
        let mut params = window.params();
        if bots != BotFilter::Exclude {
            params.push(("bots", word(bots).to_owned()));
        }
        Self { code: head.code.clone(), domain: head.domain.clone(), params, bots }
    }

    fn path(&self, part: &str, change: &[(&'static str, &str)]) -> String {
        let kept = self.params.iter().filter(|(name, _)| !change.iter().any(|(n, _)| n == name));
        let mut params: Vec<(&str, String)> = kept.cloned().collect();
        params.extend(change.iter().map(|(name, value)| (*name, (*value).to_owned())));
        params.retain(|(_, value)| !value.is_empty());
        path(&self.code, self.domain.as_deref(), part, &params)
    }

    fn bots_word(&self) -> &'static str {
        word(self.bots)
    }

    /// Whether only clicks by humans are counted.
    fn is_usual(&self) -> bool {
        self.bots == BotFilter::Exclude
    }

    fn with_period(&self, period: &str) -> String {
        self.path("", &[("period", period), ("from", ""), ("to", "")])
    }

    fn with_bots(&self, bots: &str) -> String {
        self.path("", &[("bots", bots)])
    }

    fn back(&self) -> String {
        self.path("", &[])
    }

    fn values(&self, of: &str) -> String {
        self.path("values", &[("of", of)])
    }

    fn csv(&self, of: &str) -> String {
        self.path("values", &[("of", of), ("format", "csv")])
    }

    /// The address of the single clicks of this period, as CSV.
    fn clicks_csv(&self, period: Period) -> String {
        let mut query = Serializer::new(String::new());
        query.append_pair("format", "csv").append_pair("bots", self.bots_word());
        query.extend_pairs(self.domain.iter().map(|domain| ("domain", domain)));
        let times = [("from", period.from), ("to", period.to)];
        let times = times.into_iter().filter_map(|(name, at)| Some((name, at?.to_string())));
        query.extend_pairs(times);
        format!("/api/v1/urls/{}/clicks?{}", self.code, query.finish())
    }

    /// Which clicks are counted: the word, the label and whether it is chosen.
    fn choices(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        [(BotFilter::Exclude, "Humans"), (BotFilter::Only, "Bots"), (BotFilter::Include, "All")]
            .into_iter()
            .map(|(bots, label)| (word(bots), label, bots == self.bots))
    }
}

fn word(bots: BotFilter) -> &'static str {
    match bots {
        BotFilter::Include => "include",
        BotFilter::Exclude => "exclude",
        BotFilter::Only => "only",
    }
}

/// The figures above the chart.
struct Figures {
    clicks: Figure,
    visitors: Figure,
    bots: String,
    /// Why they count as bots: the most frequent reasons, and whether there are more.
    reasons: String,
    more_reasons: bool,
    repeats: Option<String>,
    imported: Option<String>,
    last: Option<Last>,
}

pub(super) struct Figure {
    pub(super) value: String,
    /// The change against the period before, and the class of its colour.
    pub(super) change: Option<(String, &'static str)>,
}

/// The latest click of the period.
struct Last {
    ago: String,
    exact: String,
    who: String,
}

impl Figure {
    pub(super) fn new(value: u64, before: Option<u64>) -> Self {
        Self { value: grouped(value), change: before.and_then(|before| change(value, before)) }
    }
}

/// A change in words, and its class: a rise is good, anything else is neutral.
fn change(value: u64, before: u64) -> Option<(String, &'static str)> {
    if before == 0 {
        return None;
    }
    let percent = (value as f64 - before as f64) / before as f64 * 100.0;
    let rounded = percent.abs().round();
    Some(match percent {
        _ if rounded < 1.0 => ("as before".to_owned(), ""),
        percent if percent > 0.0 => (format!("▲ {} %", grouped(rounded as u64)), "good"),
        _ => (format!("▼ {rounded} %"), ""),
    })
}

/// Who clicked, as far as it is known: `Lisbon, Firefox on Android`.
pub(super) fn who(click: &Click) -> String {
    let place = click.city.as_deref().map(str::to_owned);
    let country = || click.country.as_deref().map(|code| names::country(code).to_owned());
    let client = match (click.browser.as_deref(), click.system.as_deref()) {
        (Some(browser), Some(system)) => Some(format!("{browser} on {system}")),
        (one, other) => one.or(other).map(str::to_owned),
    };
    let words: Vec<String> = place.or_else(country).into_iter().chain(client).collect();
    if words.is_empty() { "nothing else is known".to_owned() } else { words.join(", ") }
}

async fn report(state: &App, link: &Link, period: Period) -> Result<ClickReport, StoreError> {
    let subject = ClickSubject::Link(LinkId::of(link));
    report_in_time(state, REPORT_TIMEOUT, &subject, period).await
}

/// The single click at the end of a report, as long as single clicks are kept.
async fn last_click(state: &App, link: &Link, report: &ClickReport) -> Option<Click> {
    let from = report.tally.last;
    let query = RawQuery { link: LinkId::of(link), from, to: None, after: None, limit: 64 };
    let page = clicks_in_time(state, REPORT_TIMEOUT, &query).await.ok()?;
    page.clicks.into_iter().rfind(|click| Some(click.at) == from)
}

/// What a page of statistics reads from its query.
struct Read {
    link: Link,
    owner: Option<String>,
    window: Window,
    bots: BotFilter,
    problem: Option<FormError>,
}

impl Read {
    async fn of(
        state: &App,
        member: &Member,
        shell: &Shell,
        params: &mut Params,
        code: &str,
    ) -> Result<Self, Response> {
        let (link, owner) = find_link(state, member, params, code).await?;
        let now = state.links.now();
        let bots = params.take("bots").and_then(|word| BotFilter::parse(&word));
        let read = Window::read(params, shell.zone(), now);
        let (window, problem) = read.map_err(|_| message(&BAD_FORM))?;
        Ok(Self { link, owner, window, bots: bots.unwrap_or(BotFilter::Exclude), problem })
    }
}

fn unavailable(error: &StoreError) -> Response {
    tracing::error!(%error, "the clicks of a link could not be read");
    message(&UNAVAILABLE)
}

/// The page of a link while its clicks cannot be read: all other things can still be done there.
#[derive(Template)]
#[template(path = "link_unread.html")]
struct UnreadPage {
    shell: Shell,
    head: LinkHead,
}

/// Answers with the page of a link without its clicks.
pub(super) fn without_clicks(error: &StoreError, shell: Shell, head: LinkHead) -> Response {
    tracing::error!(%error, "the clicks of a link could not be read");
    app_page(StatusCode::SERVICE_UNAVAILABLE, html(&UnreadPage { shell, head }))
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    Name(code): Name,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let done = params.take("done");
    let shell = member.shell(&state, "/links");
    let read = match Read::of(&state, &member, &shell, &mut params, &code).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let Read { link, owner, window, bots, problem } = read;
    let reports = tokio::try_join!(
        report(&state, &link, window.period()),
        report(&state, &link, window.before())
    );
    let head = LinkHead::new(&state, &shell, &link, owner, "", done.as_deref());
    let (report, before) = match reports {
        Ok(reports) => reports,
        Err(error) => return without_clicks(&error, shell, head),
    };
    let before = window.is_comparable(link.created_at).then_some(before);
    let last = last_click(&state, &link, &report).await;
    let lists = ValueLists { tally: &report.tally, bots, most: ON_CARD };
    // Cities are shown where they are known, and campaigns where there are any.
    let cards = CARDS.iter().map(|(of, ..)| card(&lists, of)).filter(|card| {
        let known = card.rows.iter().any(|row| row.label != "Unknown");
        known || !matches!(card.of, "cities") && CARDS[..7].iter().any(|(of, ..)| *of == card.of)
    });
    let cards = bot_card(&lists).into_iter().chain(cards).collect();
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let asked = ClickQuery::new(&head, &window, bots);
    let page = StatsPage {
        figures: figures(&state, &shell, &link, &report, before.as_ref(), bots, last),
        chart: chart(&window, &report, before.as_ref(), bots),
        cards,
        map: WorldMap::of(&lists),
        is_silent: report.tally.clicks.all() == 0,
        clicks_csv: asked.clicks_csv(window.period()),
        asked,
        shell,
        head,
        window,
        problem,
    };
    app_page(status, html(&page))
}

/// The number of visitors: an estimate, which cannot exceed the number of visits.
pub(super) fn visitors(report: &ClickReport) -> u64 {
    report.visitors.count().min(report.tally.clicks.humans)
}

fn figures(
    state: &App,
    shell: &Shell,
    link: &Link,
    report: &ClickReport,
    before: Option<&ClickReport>,
    bots: BotFilter,
    last: Option<Click>,
) -> Figures {
    let lists = ValueLists { tally: &report.tally, bots: BotFilter::Only, most: ON_CARD };
    let reasons = lists.bot_reasons();
    let more_reasons = reasons.len() > REASONS;
    let reasons: Vec<String> = reasons
        .iter()
        .take(REASONS)
        .map(|named| format!("{} {}", bot_words(&named.name), grouped(named.clicks)))
        .collect();
    let repeats = lists.repeats();
    let now = state.links.now();
    Figures {
        clicks: Figure::new(
            bots.of(report.tally.clicks),
            before.map(|before| bots.of(before.tally.clicks)),
        ),
        visitors: Figure::new(visitors(report), before.map(visitors)),
        bots: grouped(report.tally.clicks.bots),
        reasons: reasons.join(" · "),
        more_reasons,
        repeats: (repeats > 0).then(|| grouped(repeats)),
        imported: (link.imported_clicks > 0).then(|| grouped(link.imported_clicks)),
        last: report.tally.last.map(|at| Last {
            ago: ago(at, now),
            exact: shell.date_time(at),
            who: last
                .map(|click| match click.bot {
                    None => who(&click),
                    Some(_) => format!("{} (bot)", who(&click)),
                })
                .unwrap_or_default(),
        }),
    }
}

/// The chart of a report and of the one before.
pub(super) fn chart(
    window: &Window,
    report: &ClickReport,
    before: Option<&ClickReport>,
    bots: BotFilter,
) -> Chart {
    let none = Vec::new();
    let earlier = before.map_or(&none, |before| &before.buckets);
    let (interval, points, earlier) = window.points(&report.buckets, earlier);
    let compared = before.is_some();
    let value = |clicks: Count| bots.of(clicks);
    let points = points.into_iter().enumerate().map(|(place, point)| {
        let (tick, label) = window.labels(&point.start, interval);
        let before = earlier.get(place).map(|point| value(point.clicks)).filter(|_| compared);
        ChartPoint { tick, label, value: value(point.clicks), before }
    });
    Chart::new(points.collect())
}

/// The points of the chart, as CSV.
fn csv_of_series(window: &Window, report: &ClickReport, bots: BotFilter, link: &Link) -> Response {
    let (_, points, _) = window.points(&report.buckets, &[]);
    let rows = points.iter().map(|point| [point.start.clone(), bots.of(point.clicks).to_string()]);
    csv_file(&["from", "clicks"], rows, link, TIME)
}

#[derive(Template)]
#[template(path = "link_values.html")]
struct ValuesPage {
    shell: Shell,
    head: LinkHead,
    window: Window,
    card: Card,
    map: Option<WorldMap>,
    asked: ClickQuery,
}

impl ValuesPage {
    /// The title of the column of values.
    fn column(&self) -> &'static str {
        match self.card.of {
            "referrers" => "Referrer",
            "countries" => "Country",
            "cities" => "City",
            "devices" => "Device",
            "browsers" => "Browser",
            "systems" => "System",
            "languages" => "Language",
            "campaigns" => "Campaign",
            "sources" => "Source",
            "mediums" => "Medium",
            "terms" => "Term",
            "contents" => "Content",
            _ => "Value",
        }
    }
}

/// All values of a property, as a table or as CSV.
pub(super) async fn values(
    State(state): Web,
    member: Member,
    Name(code): Name,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let (of, format) = (params.take("of").unwrap_or_default(), params.take("format"));
    let shell = member.shell(&state, "/links");
    let place = CARDS.iter().position(|(word, ..)| *word == of);
    let is_time = of == TIME && format.as_deref() == Some("csv");
    if place.is_none() && !is_time {
        return message(&NOT_FOUND);
    }
    let read = match Read::of(&state, &member, &shell, &mut params, &code).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    if read.problem.is_some() {
        return message(&BAD_FORM);
    }
    let Read { link, owner, window, bots, .. } = read;
    let report = match report(&state, &link, window.period()).await {
        Ok(report) => report,
        Err(error) => return unavailable(&error),
    };
    let lists = ValueLists { tally: &report.tally, bots, most: IN_TABLE };
    match (place, format.as_deref()) {
        (None, _) => return csv_of_series(&window, &report, bots, &link),
        (Some(place), Some("csv")) => return csv(&lists, place, &link),
        (Some(_), _) => {}
    }
    let head = LinkHead::new(&state, &shell, &link, owner, "", None);
    let asked = ClickQuery::new(&head, &window, bots);
    let map = (of == "countries").then(|| WorldMap::of(&lists)).flatten();
    let page = ValuesPage { card: card(&lists, &of), map, asked, shell, head, window };
    app_page(StatusCode::OK, html(&page))
}
