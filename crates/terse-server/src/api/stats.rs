//! Statistics of a link, of all links and of visits without a redirect, and the busiest links right
//! now.

use std::time::Duration;

use crate::counts::{API_REPORT_TIMEOUT, in_time, report_in_time};
use crate::describe;
use crate::describe::ToSchema;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use terse_core::clicks::{ClickReport, ClickSubject, LinkId};
use terse_core::{MAX_TAG_REPORT_LINKS, OwnerFilter, Principal, TagReport, Tags};

use super::links::readable;
use super::list::owner_param;
use super::period::{ClickQuery, PeriodText};
use super::shapes::host_of;
use super::stats_shapes::{AllStats, LinkStats, OrphanStats};
use crate::http::extract::{Admin, Authenticated, Member, Name};
use crate::http::host::short_url;
use crate::http::params::{Params, whole_number};
use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::{App, Web};

/// The default period of statistics over many links.
const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// Statistics of a link
///
/// From its creation until now, unless `from` and `to` say otherwise. Clicks are counted within
/// about two seconds. Old clicks are kept by UTC day instead of by hour; where such a day spans two
/// days of the time zone, it counts for the one in which it begins.
#[describe::path(get, path = "/api/v1/urls/{code}/stats", operation_id = "link_stats", tag = "Clicks",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        super::schemas::PeriodParams,
        ("interval" = inline(Option<IntervalParam>), Query,
            description = "The interval of the series; by default it fits the period",
            nullable = false),
        ("bots" = Option<BotsParam>, Query,
            description = "Whether clicks by bots are included (the default), excluded, or the \
                only ones. Also true and false",
            nullable = false),
        ("tz" = Option<String>, Query, description = "The time zone of dates and days: \
            `Europe/Berlin`, `UTC` (the default), \
            `+05:30`. Also `time_zone`", min_length = 1, max_length = 64, nullable = false),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The sums", body = LinkStats), super::answers::GetProblems),
    security(("key" = [])))]
pub(super) async fn link_stats(
    State(state): Web,
    Authenticated(caller): Authenticated,
    mut params: Params,
    Name(code): Name,
) -> Result<Json<LinkStats>, Problem> {
    let period = PeriodText::take(&mut params)?;
    let link = readable(&state, caller, params, &code).await?;
    let asked = period.read(state.links.now(), |_| link.created_at)?;
    let report = report(&state, &ClickSubject::Link(LinkId::of(&link)), &asked).await?;
    LinkStats::new(&link, &state.links.rules().hosts, &asked.extended_to(&report.buckets), &report)
        .map(Json)
}

/// Statistics of all your links
///
/// Of the last 30 days, unless `from` and `to` say otherwise. Deleted links are included, unless
/// the statistics are of the links with a `tag`. Admins see clicks of others with `owner`.
#[describe::path(get, path = "/api/v1/stats", operation_id = "all_stats", tag = "Clicks",
    params(super::schemas::PeriodParams,
        ("interval" = inline(Option<IntervalParam>), Query,
            description = "The interval of the series; by default it fits the period",
            nullable = false),
        ("bots" = Option<BotsParam>, Query,
            description = "Whether clicks by bots are included (the default), excluded, or the \
                only ones. Also true and false",
            nullable = false),
        ("tz" = Option<String>, Query, description = "The time zone of dates and days: \
            `Europe/Berlin`, `UTC` (the default), \
            `+05:30`. Also `time_zone`", min_length = 1, max_length = 64, nullable = false),
        ("owner" = Option<String>, Query, description = "The clicks of the owner with this number, for \
            admins; `all` for those of every owner, or your own if you are not an \
            admin", pattern = "^(all|[0-9]{1,19})$", nullable = false),
        ("tag" = Option<String>, Query, description = "Only the links that have this tag now, at \
            most 1,000", min_length = 1, max_length = 50, nullable = false)),
    responses((status = 200, description = "The sums", body = AllStats), super::answers::ListProblems),
    security(("key" = [])))]
pub(super) async fn all_stats(
    State(state): Web,
    Member(principal): Member,
    mut params: Params,
) -> Result<Json<AllStats>, Problem> {
    let filter = owner_param(&mut params)?;
    let owner = filter.clicks_seen_by(&principal)?;
    let tag = params.take("tag");
    let asked = read_all(params, &state)?;
    if let Some(tag) = tag {
        return of_tag(&state, &principal, filter, &tag, &asked).await.map(Json);
    }
    let subject = owner.map_or(ClickSubject::Everything, ClickSubject::Owner);
    let report = report(&state, &subject, &asked).await?;
    let top = in_time(API_REPORT_TIMEOUT, state.clicks.top(&asked.top(owner))).await?;
    AllStats::new(top, &state.links.rules().hosts, &asked, &report).map(Json)
}

async fn of_tag(
    state: &App,
    principal: &Principal,
    owner: OwnerFilter,
    tag: &str,
    asked: &ClickQuery,
) -> Result<AllStats, Problem> {
    Tags::check_length(tag).map_err(|error| error.on("tag"))?;
    asked.series(&[])?;
    let turns = &state.turns.tag_reports;
    let _turn = turns.try_acquire().map_err(|_| {
        Problem::new(&STORE_UNAVAILABLE, "too many statistics of tags are being read at once")
    })?;
    let (clicks, now) = (&*state.clicks, state.links.now());
    let period = asked.period();
    let reading = state.links.report_of_tag(principal, owner, clicks, tag, period, now);
    let found = in_time(API_REPORT_TIMEOUT, reading).await?;
    let Some(TagReport { report, links }) = found else {
        let detail = format!(
            "more than {MAX_TAG_REPORT_LINKS} links have this tag; ask for the statistics of single \
             links"
        );
        return Err(Problem::invalid("tag", detail));
    };
    let top = asked.top(None).rank(links);
    AllStats::new(top, &state.links.rules().hosts, asked, &report)
}

/// Statistics of visits without a redirect
///
/// Unknown codes, expired links and blocked links. Under a flood they are sampled.
#[describe::path(get, path = "/api/v1/admin/orphans", operation_id = "orphan_stats", tag = "Admin",
    params(super::schemas::PeriodParams,
        ("interval" = inline(Option<IntervalParam>), Query,
            description = "The interval of the series; by default it fits the period",
            nullable = false),
        ("bots" = Option<BotsParam>, Query,
            description = "Whether visits by bots are included (the default), excluded, or the \
                only ones. Also true and false",
            nullable = false),
        ("tz" = Option<String>, Query, description = "The time zone of dates and days: \
            `Europe/Berlin`, `UTC` (the default), \
            `+05:30`. Also `time_zone`", min_length = 1, max_length = 64, nullable = false)),
    responses((status = 200, description = "The sums", body = OrphanStats), super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn orphan_stats(
    State(state): Web,
    Admin(principal): Admin,
    params: Params,
) -> Result<Json<OrphanStats>, Problem> {
    let asked = read_all(params, &state)?;
    let report = report(&state, &ClickSubject::orphans(&principal)?, &asked).await?;
    OrphanStats::new(&asked, &report).map(Json)
}

/// The busiest links of the last minutes.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "minutes": 5, "links": [{ "short_code": "spring-sale",
    "domain": "go.example",
    "short_url": "https://go.example/spring-sale", "clicks": 812, "human_clicks": 790,
    "bot_clicks": 22,
    "last_click_at": "2026-11-15T21:00:00Z" }] }))]
pub(crate) struct TopLinks {
    /// The number of minutes, the present one included.
    #[schema(minimum = 1, maximum = 60)]
    minutes: u64,
    /// The busiest first.
    #[schema(max_items = 100)]
    links: Vec<BusyLinkBody>,
}

/// A link and its recent clicks.
#[derive(Serialize, ToSchema)]
#[schema(as = BusyLink)]
pub(crate) struct BusyLinkBody {
    /// The code.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    short_code: String,
    /// Its short domain.
    domain: String,
    /// The short link itself.
    short_url: String,
    /// Its clicks in these minutes.
    clicks: u64,
    /// Clicks by humans.
    human_clicks: u64,
    /// Clicks by bots.
    bot_clicks: u64,
    /// The latest of them.
    #[schema(format = DateTime)]
    last_click_at: String,
}

/// Your links that are busiest right now
///
/// As counted by this node since it started. Admins see links of others with `owner`.
#[describe::path(get, path = "/api/v1/top", operation_id = "top_links", tag = "Clicks",
    params(("minutes" = Option<u8>, Query, description = "Of how many minutes, the present one \
        included; 5 by default", minimum = 1, maximum = 60, nullable = false),
        ("limit" = Option<u8>, Query, description = "At most this many; 20 by \
            default", minimum = 1, maximum = 100, nullable = false),
        ("owner" = Option<String>, Query, description = "The links of the owner with this number, for \
            admins; `all` for those of every owner, or your own if you are not an \
            admin", pattern = "^(all|[0-9]{1,19})$", nullable = false)),
    responses((status = 200, description = "The busiest first", body = TopLinks), super::answers::ListProblems),
    security(("key" = [])))]
pub(super) async fn top(
    State(state): Web,
    Member(principal): Member,
    mut params: Params,
) -> Result<Json<TopLinks>, Problem> {
    let owner = owner_param(&mut params)?.clicks_seen_by(&principal)?;
    let (minutes, limit) = (params.take("minutes"), params.take("limit"));
    params.done()?;
    let minutes = minutes.map_or(Ok(5), |text| whole_number("minutes", &text, 60))?;
    let limit = limit.map_or(Ok(20), |text| whole_number("limit", &text, 100))?;
    let hosts = &state.links.rules().hosts;
    let (minutes_back, now) = (minutes.cast_signed(), state.links.now());
    let busy = state.live.busiest(owner, minutes_back, now, limit as usize);
    let links = busy.into_iter().map(|busy| BusyLinkBody {
        short_code: busy.link.key.code.to_string(),
        domain: host_of(&busy.link.key, hosts).to_owned(),
        short_url: short_url(&busy.link.key, hosts),
        clicks: busy.clicks.all(),
        human_clicks: busy.clicks.humans,
        bot_clicks: busy.clicks.bots,
        last_click_at: busy.last.to_string(),
    });
    Ok(Json(TopLinks { minutes, links: links.collect() }))
}

fn read_all(mut params: Params, state: &App) -> Result<ClickQuery, Problem> {
    let period = PeriodText::take(&mut params)?;
    params.done()?;
    // Without `from`, statistics over many links cover a month.
    let mut asked = period.read(state.links.now(), |to| to.saturating_sub(MONTH))?;
    asked.whole = false;
    Ok(asked)
}

async fn report(
    state: &App,
    subject: &ClickSubject,
    asked: &ClickQuery,
) -> Result<ClickReport, Problem> {
    // Refuses too many points before the store sums up clicks.
    asked.series(&[])?;
    Ok(report_in_time(state, API_REPORT_TIMEOUT, subject, asked.period()).await?)
}

/// The intervals of a series.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
enum IntervalParam {
    Hour,
    Day,
    Week,
    Month,
}

/// Which clicks are counted.
#[derive(ToSchema)]
#[schema(as = BotsParameter, rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
pub(super) enum BotsParam {
    Include,
    Exclude,
    Only,
    True,
    False,
}
