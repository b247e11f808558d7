//! The statistics of a link: figures, a chart, and where the clicks come from.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use terse_core::clicks::{
    Bots, Click, ClickReport, ClickSubject, Count, Dimension, LinkId, Period, RawQuery,
};
use terse_core::{Link, StoreError};

use super::chart::{Chart, ChartPoint};
use super::format::{ago, grouped};
use super::link::{LinkHead, found, path};
use super::member::Member;
use super::session::app_page;
use super::shell::Shell;
use super::window::Window;
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, html, message, names};
use crate::http::extract::Name;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::value_lists::{Named, ValueLists};

/// How long the click store may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many values a card shows by name, and how many the whole table.
const ON_CARD: usize = 6;
const IN_TABLE: usize = 200;

/// The cards: the word in the query, the title, the property, and whether clicks without a value
/// are listed.
const CARDS: [(&str, &str, Dimension, bool); 12] = [
    ("referrers", "Referrers", Dimension::Referrer, true),
    ("countries", "Countries", Dimension::Country, true),
    ("cities", "Cities", Dimension::City, true),
    ("devices", "Devices", Dimension::Device, true),
    ("browsers", "Browsers", Dimension::Browser, true),
    ("systems", "Systems", Dimension::System, true),
    ("languages", "Languages", Dimension::Language, true),
    ("campaigns", "Campaigns", Dimension::Campaign, false),
    ("sources", "Campaign sources", Dimension::Source, false),
    ("mediums", "Campaign mediums", Dimension::Medium, false),
    ("terms", "Campaign terms", Dimension::Term, false),
    ("contents", "Campaign contents", Dimension::Content, false),
];

#[derive(Template)]
#[template(path = "link_stats.html")]
struct StatsPage {
    shell: Shell,
    head: LinkHead,
    window: Window,
    figures: Figures,
    chart: Chart,
    cards: Vec<Card>,
    asked: ClickQuery,
    problem: Option<(&'static str, String)>,
}

/// What the visitor asked for, as parameters.
struct ClickQuery {
    code: String,
    domain: Option<String>,
    params: Vec<(&'static str, String)>,
    bots: Bots,
}

impl ClickQuery {
    fn new(head: &LinkHead, window: &Window, bots: Bots) -> Self {
        let mut params = window.params();
        if bots != Bots::Exclude {
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
        self.bots == Bots::Exclude
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

    /// Which clicks are counted: the word, the label and whether it is chosen.
    fn choices(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        [(Bots::Exclude, "Humans"), (Bots::Only, "Bots"), (Bots::Include, "All")]
            .into_iter()
            .map(|(bots, label)| (word(bots), label, bots == self.bots))
    }
}

fn word(bots: Bots) -> &'static str {
    match bots {
        Bots::Include => "include",
        Bots::Exclude => "exclude",
        Bots::Only => "only",
    }
}

/// The figures above the chart.
struct Figures {
    clicks: Figure,
    visitors: Figure,
    bots: String,
    /// Why they count as bots.
    reasons: String,
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

/// A list of values with their share.
pub(super) struct Card {
    of: &'static str,
    pub(super) title: &'static str,
    pub(super) rows: Vec<ValueRow>,
    /// How many further values the whole table has.
    more: bool,
}

pub(super) struct ValueRow {
    pub(super) label: String,
    pub(super) clicks: String,
    /// In percent.
    pub(super) share: String,
    /// The length of the bar in percent of the longest.
    pub(super) width: String,
}

/// The card of a property, by its word in the query.
pub(super) fn card(lists: &ValueLists<'_>, of: &str) -> Card {
    let place = CARDS.iter().position(|(word, ..)| *word == of).unwrap_or(0);
    let (of, title, dimension, unknown) = CARDS[place];
    let named = if unknown { lists.with_unknown(dimension) } else { lists.known(dimension) };
    let more = named.iter().any(|named| named.name == "other");
    Card { of, title, rows: rows(of, &named, lists.bots.of(lists.tally.clicks)), more }
}

fn rows(of: &str, named: &[Named], total: u64) -> Vec<ValueRow> {
    let longest = named.iter().map(|named| named.clicks).max().unwrap_or(1).max(1);
    let row = |named: &Named| ValueRow {
        label: label(of, &named.name),
        clicks: grouped(named.clicks),
        share: percent(named.clicks, total),
        width: format!("{:.1}", named.clicks as f64 / longest as f64 * 100.0),
    };
    named.iter().map(row).collect()
}

fn percent(part: u64, whole: u64) -> String {
    match part as f64 / whole.max(1) as f64 * 100.0 {
        share if share > 0.0 && share < 1.0 => "< 1 %".to_owned(),
        share => format!("{share:.0} %"),
    }
}

/// A value in words.
fn label(of: &str, name: &str) -> String {
    match (of, name) {
        ("referrers", "unknown") => "Direct or unknown".to_owned(),
        (_, "unknown") => "Unknown".to_owned(),
        (_, "other") => "Others".to_owned(),
        ("countries", code) => names::country(code).to_owned(),
        ("languages", code) => names::language(code),
        ("devices", kind) => {
            let mut letters = kind.chars();
            letters
                .next()
                .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        }
        (_, name) => name.to_owned(),
    }
}

/// Why clicks count as bots', in words.
pub(super) fn bot_words(kind: &str) -> &str {
    match kind {
        "crawler" => "crawlers",
        "preview" => "previews",
        "ai" => "AI crawlers",
        "monitor" => "monitors",
        "tool" => "tools",
        "nameless" => "without a name",
        "prefetch" => "prefetches",
        "head" => "HEAD requests",
        other => other,
    }
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
    match tokio::time::timeout(TIMEOUT, state.clicks.report(&subject, period, state.links.now()))
        .await
    {
        Ok(report) => report,
        Err(_) => Err(StoreError::Unavailable("reading clicks takes too long".into())),
    }
}

/// The single click at the end of a report, as long as single clicks are kept.
async fn last_click(state: &App, link: &Link, report: &ClickReport) -> Option<Click> {
    let from = report.tally.last;
    let query = RawQuery { link: LinkId::of(link), from, to: None, after: None, limit: 64 };
    let reading = tokio::time::timeout(TIMEOUT, state.clicks.clicks(&query));
    let page = reading.await.ok()?.ok()?;
    page.clicks.into_iter().rfind(|click| Some(click.at) == from)
}

/// What a page of statistics reads from its query.
struct Read {
    link: Link,
    owner: Option<String>,
    window: Window,
    bots: Bots,
    problem: Option<(&'static str, String)>,
}

impl Read {
    async fn of(
        state: &App,
        member: &Member,
        shell: &Shell,
        params: &mut Params,
        code: &str,
    ) -> Result<Self, Response> {
        let (link, owner) = found(state, member, params, code).await?;
        let now = state.links.now();
        let bots = params.take("bots").and_then(|word| Bots::parse(&word));
        let (window, problem) = match Window::read(params, shell.zone(), now) {
            Ok(window) => (window, None),
            Err(problem) => {
                let usual = Window::until("30d", shell.zone(), now);
                (usual.map_err(|_| message(&BAD_FORM))?, Some(problem))
            }
        };
        Ok(Self { link, owner, window, bots: bots.unwrap_or(Bots::Exclude), problem })
    }
}

fn unavailable(error: &StoreError) -> Response {
    tracing::error!(%error, "the clicks of a link could not be read");
    message(&UNAVAILABLE)
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
    let (report, before) = match reports {
        Ok(reports) => reports,
        Err(error) => return unavailable(&error),
    };
    let before = window.is_comparable(link.created_at).then_some(before);
    let last = last_click(&state, &link, &report).await;
    let lists = ValueLists { tally: &report.tally, bots, most: ON_CARD };
    // Cities are shown where they are known, and campaigns where there are any.
    let cards = CARDS.iter().map(|(of, ..)| card(&lists, of)).filter(|card| {
        let known = card.rows.iter().any(|row| row.label != "Unknown");
        known || !matches!(card.of, "cities") && CARDS[..7].iter().any(|(of, ..)| *of == card.of)
    });
    let cards = cards.collect();
    let head = LinkHead::new(&state, &shell, &link, owner, "", done.as_deref());
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let page = StatsPage {
        figures: figures(&state, &shell, &link, &report, before.as_ref(), bots, last),
        chart: chart(&window, &report, before.as_ref(), bots),
        cards,
        asked: ClickQuery::new(&head, &window, bots),
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
    bots: Bots,
    last: Option<Click>,
) -> Figures {
    let lists = ValueLists { tally: &report.tally, bots: Bots::Only, most: ON_CARD };
    let reasons: Vec<String> = lists
        .bot_reasons()
        .iter()
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
        repeats: (repeats > 0).then(|| grouped(repeats)),
        imported: (link.imported_clicks > 0).then(|| grouped(link.imported_clicks)),
        last: report.tally.last.map(|at| Last {
            ago: ago(at, now),
            exact: shell.moment(at),
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
    bots: Bots,
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

#[derive(Template)]
#[template(path = "link_values.html")]
struct ValuesPage {
    shell: Shell,
    head: LinkHead,
    window: Window,
    card: Card,
    asked: ClickQuery,
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
    let Some(place) = CARDS.iter().position(|(word, ..)| *word == of) else {
        return message(&NOT_FOUND);
    };
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
    if format.as_deref() == Some("csv") {
        return csv(&lists, place, &link);
    }
    let head = LinkHead::new(&state, &shell, &link, owner, "", None);
    let asked = ClickQuery::new(&head, &window, bots);
    let page = ValuesPage { card: card(&lists, &of), asked, shell, head, window };
    app_page(StatusCode::OK, html(&page))
}

fn csv(lists: &ValueLists<'_>, place: usize, link: &Link) -> Response {
    let (of, _, dimension, unknown) = CARDS[place];
    let named = if unknown { lists.with_unknown(dimension) } else { lists.known(dimension) };
    let mut table =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let total = lists.bots.of(lists.tally.clicks).max(1) as f64;
    let mut written = table.write_record(["value", "name", "clicks", "share"]);
    for row in &named {
        let share = format!("{:.4}", row.clicks as f64 / total);
        let cells = [
            &crate::csv_cell::safe(&row.name),
            &crate::csv_cell::safe(&label(of, &row.name)),
            &row.clicks.to_string(),
            &share,
        ];
        written = written.and_then(|()| table.write_record(cells));
    }
    let (Ok(()), Ok(bytes)) = (written, table.into_inner()) else { return message(&UNAVAILABLE) };
    // A code has only letters, digits, `-` and `_`, so the file name needs no escaping.
    let name = format!("attachment; filename=\"{}-{of}.csv\"", link.key.code);
    let kind = "text/csv; charset=utf-8; header=present";
    let mut response = ([(header::CONTENT_TYPE, kind)], bytes).into_response();
    let name = HeaderValue::try_from(name).ok();
    response.headers_mut().extend(name.map(|name| (header::CONTENT_DISPOSITION, name)));
    response
}
