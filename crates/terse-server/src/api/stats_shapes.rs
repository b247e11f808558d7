//! The JSON bodies of statistics.

use crate::describe::ToSchema;
use serde::Serialize;
use terse_core::clicks::{BotFilter, ClickReport, Count, Dimension, Interval, Point, RankedLink};
use terse_core::{Hosts, Link};

use super::period::ClickQuery;
use super::shapes::host_of;
use crate::http::host::short_url;
use crate::http::problem::Problem;
use crate::value_lists::{ValueCount, ValueLists};

/// The largest number of values listed by name.
const MAX_LISTED: usize = 20;
/// The largest number of links listed by their clicks.
pub(super) const MAX_TOP: usize = 20;

/// An interval.
#[derive(Serialize, ToSchema)]
pub(crate) struct SeriesPoint {
    /// When it begins, with the offset of the time zone.
    #[schema(format = DateTime)]
    start: String,
    /// Its clicks, as selected by `bots`.
    clicks: u64,
    /// Clicks by humans.
    human_clicks: u64,
    /// Clicks by bots.
    bot_clicks: u64,
}

/// A busy link.
#[derive(Serialize, ToSchema)]
pub(crate) struct TopLink {
    /// The code.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    short_code: String,
    /// Its short domain.
    domain: String,
    /// The short link itself.
    short_url: String,
    /// Its clicks in the period, as selected by `bots`.
    clicks: u64,
}

impl TopLink {
    fn new(ranked: RankedLink, bots: BotFilter, hosts: &Hosts) -> Self {
        let RankedLink { link, clicks } = ranked;
        Self {
            short_code: link.key.code.to_string(),
            domain: host_of(&link.key, hosts).to_owned(),
            short_url: short_url(&link.key, hosts),
            clicks: bots.of(clicks),
        }
    }
}

/// The schema of a series' interval.
#[cfg(feature = "openapi")]
fn interval_word() -> utoipa::openapi::schema::Object {
    super::schemas::word(
        "The length of the series' time buckets.",
        &["hour", "day", "week", "month"],
    )
}

/// Which clicks are counted.
#[cfg(feature = "openapi")]
fn bots_word() -> utoipa::openapi::schema::Object {
    super::schemas::word("Whether clicks of bots are included.", &["include", "exclude", "only"])
}

/// Declares the bodies, which share most fields. Each is one flat object with its own schema.
macro_rules! stats_bodies {
    ($($(#[$about:meta])* $name:ident { $($first:tt)* } { $($last:tt)* })*) => { $(
        #[derive(Serialize, ToSchema)]
        $(#[$about])*
        pub(crate) struct $name {
            $($first)*
            /// The beginning of the period.
            #[schema(format = DateTime)]
            pub(super) from: String,
            /// The end of the period.
            #[schema(format = DateTime)]
            pub(super) to: String,
            /// The interval of the series.
            #[schema(schema_with = interval_word)]
            pub(super) interval: &'static str,
            /// The time zone of days.
            pub(super) time_zone: String,
            /// Which clicks are counted.
            #[schema(schema_with = bots_word)]
            pub(super) bots: &'static str,
            /// All clicks, as selected by `bots`.
            pub(super) total_clicks: u64,
            /// Clicks of the last 24 hours, whatever the period, as selected by `bots`.
            pub(super) clicks_24h: u64,
            /// Unique human visitors (an estimate), each counted once a day.
            pub(super) unique_visitors: u64,
            /// Clicks by humans, repeated ones included.
            pub(super) human_clicks: u64,
            /// Clicks by bots.
            pub(super) bot_clicks: u64,
            /// Clicks by humans less than ten seconds after another of theirs on the same link,
            /// such as the second half of a double click.
            pub(super) repeat_clicks: u64,
            /// How often a warning page was shown instead of a redirect, as selected by `bots`.
            /// These visits are not clicks.
            pub(super) warned: u64,
            /// Clicks of visitors who saw the warning page and went on, as selected by `bots`.
            pub(super) went_on: u64,
            /// How long answers took on average, in milliseconds; null if there were none.
            #[schema(required = true, minimum = 0.0)]
            pub(super) avg_redirect_ms: Option<f64>,
            /// The latest click; null if there was none.
            #[schema(required = true, format = DateTime)]
            pub(super) last_click_at: Option<String>,
            /// Clicks over time, including empty intervals.
            #[schema(max_items = 2000)]
            pub(super) series: Vec<SeriesPoint>,
            /// The hosts that visitors came from.
            #[schema(max_items = 22)]
            pub(super) top_referrers: Vec<ValueCount>,
            /// Countries, two letters each.
            #[schema(max_items = 22)]
            pub(super) top_countries: Vec<ValueCount>,
            /// Cities, each with its country.
            #[schema(max_items = 22)]
            pub(super) top_cities: Vec<ValueCount>,
            /// Kinds of devices.
            #[schema(max_items = 22)]
            pub(super) devices: Vec<ValueCount>,
            /// Browsers.
            #[schema(max_items = 22)]
            pub(super) browsers: Vec<ValueCount>,
            /// Operating systems.
            #[schema(max_items = 22)]
            pub(super) operating_systems: Vec<ValueCount>,
            /// Languages.
            #[schema(max_items = 22)]
            pub(super) languages: Vec<ValueCount>,
            /// Values of `utm_source`.
            #[schema(max_items = 21)]
            pub(super) utm_sources: Vec<ValueCount>,
            /// Values of `utm_medium`.
            #[schema(max_items = 21)]
            pub(super) utm_mediums: Vec<ValueCount>,
            /// Values of `utm_campaign`.
            #[schema(max_items = 21)]
            pub(super) utm_campaigns: Vec<ValueCount>,
            /// Values of `utm_term`.
            #[schema(max_items = 21)]
            pub(super) utm_terms: Vec<ValueCount>,
            /// Values of `utm_content`.
            #[schema(max_items = 21)]
            pub(super) utm_contents: Vec<ValueCount>,
            /// Why clicks count as clicks by bots.
            #[schema(max_items = 21)]
            pub(super) bot_reasons: Vec<ValueCount>,
            $($last)*
        }
    )* };
}

stats_bodies! {
    /// The clicks of a link, summed up.
    #[schema(example = json!({
        "short_code": "spring-sale", "short_url": "https://go.example/spring-sale",
        "from": "2026-11-14T00:00:00Z",
        "to": "2026-11-16T00:00:00Z", "interval": "day", "time_zone": "UTC", "bots": "include",
        "total_clicks": 812,
        "clicks_24h": 500, "unique_visitors": 640, "human_clicks": 790, "bot_clicks": 22,
        "repeat_clicks": 3, "warned": 0, "went_on": 0, "avg_redirect_ms": 0.014,
        "last_click_at": "2026-11-15T21:00:00Z", "series": [
            { "start": "2026-11-14T00:00:00+00:00", "clicks": 312, "human_clicks": 300,
                "bot_clicks": 12 },
            { "start": "2026-11-15T00:00:00+00:00", "clicks": 500, "human_clicks": 490,
                "bot_clicks": 10 }],
        "top_referrers": [{ "name": "news.example", "clicks": 700 }, { "name": "unknown",
            "clicks": 112 }],
        "top_countries": [{ "name": "DE", "clicks": 812 }], "top_cities": [{ "name": "unknown",
            "clicks": 812 }],
        "devices": [{ "name": "mobile", "clicks": 790 }, { "name": "unknown", "clicks": 22 }],
        "browsers": [{ "name": "Firefox", "clicks": 790 }, { "name": "unknown", "clicks": 22 }],
        "operating_systems": [{ "name": "Android", "clicks": 790 }, { "name": "unknown",
            "clicks": 22 }],
        "languages": [{ "name": "de", "clicks": 812 }], "utm_sources": [{ "name": "newsletter",
            "clicks": 600 }],
        "utm_mediums": [], "utm_campaigns": [], "utm_terms": [], "utm_contents": [],
        "bot_reasons": [{ "name": "crawler", "clicks": 22 }]
    }))]
    LinkStats {
        /// The code.
        #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
        short_code: String,
        /// The short link itself.
        short_url: String,
    } {}

    /// Statistics of all links.
    AllStats {} {
        /// The links with the most clicks in the period, as selected by `bots`.
        #[schema(max_items = 20)]
        top_links: Vec<TopLink>,
    }

    /// Statistics of visits without a redirect.
    OrphanStats {} {
        /// By outcome.
        #[schema(max_items = 21)]
        outcomes: Vec<ValueCount>,
        /// By code.
        #[schema(max_items = 21)]
        top_codes: Vec<ValueCount>,
    }
}

/// Fills the fields that all bodies have.
macro_rules! stats_body {
    ($name:ident, $asked:expr, $report:expr, { $($first:ident: $one:expr),* $(,)? }) => {{
        let (asked, ClickReport { tally, visitors, recent, buckets }) = ($asked, $report);
        let (interval, points) = asked.series(buckets)?;
        let [warned, went_on] = tally.warnings();
        let lists = ValueLists { tally, bots: asked.bots, most: MAX_LISTED };
        $name {
            $($first: $one(&lists),)*
            from: asked.from.to_string(),
            to: asked.to.to_string(),
            interval: Interval::as_str(interval),
            time_zone: asked.zone_name(),
            bots: bots_name(asked.bots),
            total_clicks: asked.bots.of(tally.clicks),
            clicks_24h: asked.bots.of(*recent),
            // The number of visitors is an estimate; it cannot exceed the number of visits.
            unique_visitors: visitors.count().min(tally.clicks.humans),
            human_clicks: tally.clicks.humans,
            bot_clicks: tally.clicks.bots,
            repeat_clicks: lists.repeats(),
            warned: asked.bots.of(warned),
            went_on: asked.bots.of(went_on),
            // Rounded to nanoseconds, the precision of the measurement.
            avg_redirect_ms: (tally.took.count > 0).then(|| (tally.took.mean * 1e6).round() / 1e6),
            last_click_at: tally.last.map(|at| at.to_string()),
            series: points.into_iter().map(|point| series_point(point, asked.bots)).collect(),
            top_referrers: lists.with_unknown(Dimension::Referrer),
            top_countries: lists.with_unknown(Dimension::Country),
            top_cities: lists.with_unknown(Dimension::City),
            devices: lists.with_unknown(Dimension::Device),
            browsers: lists.with_unknown(Dimension::Browser),
            operating_systems: lists.with_unknown(Dimension::System),
            languages: lists.with_unknown(Dimension::Language),
            utm_sources: lists.known(Dimension::Source),
            utm_mediums: lists.known(Dimension::Medium),
            utm_campaigns: lists.known(Dimension::Campaign),
            utm_terms: lists.known(Dimension::Term),
            utm_contents: lists.known(Dimension::Content),
            bot_reasons: lists.bot_reasons(),
        }
    }};
}

impl LinkStats {
    pub(super) fn new(
        link: &Link,
        hosts: &Hosts,
        asked: &ClickQuery,
        report: &ClickReport,
    ) -> Result<Self, Problem> {
        Ok(stats_body!(LinkStats, asked, report, {
            short_code: |_: &ValueLists<'_>| link.key.code.to_string(),
            short_url: |_: &ValueLists<'_>| short_url(&link.key, hosts),
        }))
    }
}

impl AllStats {
    pub(super) fn new(
        top: Vec<RankedLink>,
        hosts: &Hosts,
        asked: &ClickQuery,
        report: &ClickReport,
    ) -> Result<Self, Problem> {
        Ok(stats_body!(AllStats, asked, report, {
                top_links: |lists: &ValueLists<'_>| {
                    top.into_iter().map(|link| TopLink::new(link, lists.bots, hosts)).collect()
                } }))
    }
}

impl OrphanStats {
    pub(super) fn new(asked: &ClickQuery, report: &ClickReport) -> Result<Self, Problem> {
        Ok(stats_body!(OrphanStats, asked, report, {
            outcomes: |lists: &ValueLists<'_>| lists.known(Dimension::Outcome),
            top_codes: |lists: &ValueLists<'_>| lists.known(Dimension::Code),
        }))
    }
}

fn series_point(point: Point, bots: BotFilter) -> SeriesPoint {
    let Count { humans: human_clicks, bots: bot_clicks } = point.clicks;
    SeriesPoint { start: point.start, clicks: bots.of(point.clicks), human_clicks, bot_clicks }
}

fn bots_name(bots: BotFilter) -> &'static str {
    match bots {
        BotFilter::Include => "include",
        BotFilter::Exclude => "exclude",
        BotFilter::Only => "only",
    }
}
