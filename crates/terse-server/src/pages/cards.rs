//! Lists of values with their share, such as the countries of clicks: as cards, as a table and as
//! CSV.

use std::cmp::Reverse;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use terse_core::Link;
use terse_core::clicks::Dimension;
use terse_core::import_file::inert;

use super::format::grouped;
use super::{UNAVAILABLE, message, names};
use crate::value_lists::{ValueCount, ValueLists};

/// The cards: the word in the query, the title, the property, and whether clicks without a value
/// are listed.
pub(super) const CARDS: [(&str, &str, Dimension, bool); 12] = [
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

/// A list of values with their share.
pub(super) struct Card {
    /// The word of the property in the query; empty if there is no page with all values.
    pub(super) of: &'static str,
    pub(super) title: &'static str,
    pub(super) rows: Vec<ValueRow>,
    /// Whether the whole table has further values.
    pub(super) more: bool,
}

pub(super) struct ValueRow {
    pub(super) label: String,
    pub(super) clicks: String,
    /// In percent.
    pub(super) share: String,
    /// The length of the bar in percent of the longest; none for what is not one value, which
    /// would make all others look short.
    pub(super) width: Option<String>,
}

/// The card of a property, by its word in the query.
pub(super) fn card(lists: &ValueLists<'_>, of: &str) -> Card {
    let place = CARDS.iter().position(|(word, ..)| *word == of).unwrap_or(0);
    let (of, title, dimension, unknown) = CARDS[place];
    let mut named = if unknown { lists.with_unknown(dimension) } else { lists.known(dimension) };
    let more = named.iter().any(|named| named.name == "other");
    if of == "referrers" {
        // Clicks without a referrer are a value like the others, and not a remainder.
        named.sort_by_key(|named| (named.name == "other", Reverse(named.clicks)));
    }
    Card { of, title, rows: rows(of, &named, lists.bots.of(lists.tally.clicks)), more }
}

fn rows(of: &str, named: &[ValueCount], total: u64) -> Vec<ValueRow> {
    let is_one = |named: &ValueCount| {
        named.name != "other" && (named.name != "unknown" || of == "referrers")
    };
    let longest = named.iter().filter(|named| is_one(named)).map(|named| named.clicks).max();
    let longest = longest.unwrap_or(1).max(1) as f64;
    let row = |named: &ValueCount| ValueRow {
        label: label(of, &named.name),
        clicks: grouped(named.clicks),
        share: percent(named.clicks, total),
        width: is_one(named).then(|| format!("{:.1}", named.clicks as f64 / longest * 100.0)),
    };
    named.iter().map(row).collect()
}

/// Why clicks count as bots'; none where bots are left out, or there are none.
pub(super) fn bot_card(lists: &ValueLists<'_>) -> Option<Card> {
    let reasons: Vec<ValueCount> = lists
        .bot_reasons()
        .into_iter()
        .map(|named| ValueCount { name: capital(bot_words(&named.name)), ..named })
        .collect();
    let rows = rows("bots", &reasons, lists.tally.clicks.bots);
    (!rows.is_empty()).then_some(Card { of: "", title: "Why they are bots", rows, more: false })
}

/// A word with a capital letter at its beginning.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn percent(part: u64, whole: u64) -> String {
    match part as f64 / whole.max(1) as f64 * 100.0 {
        share if share > 0.0 && share < 1.0 => "< 1 %".to_owned(),
        share => format!("{share:.0} %"),
    }
}

/// A value in words.
pub(super) fn label(of: &str, name: &str) -> String {
    match (of, name) {
        ("referrers", "unknown") => "Direct or unknown".to_owned(),
        (_, "unknown") => "Unknown".to_owned(),
        (_, "other") => "Others".to_owned(),
        ("countries", code) => names::country(code).to_owned(),
        ("languages", code) => names::language(code),
        ("devices", kind) => capital(kind),
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

/// All values of a property as CSV.
pub(super) fn csv(lists: &ValueLists<'_>, place: usize, link: &Link) -> Response {
    let (of, _, dimension, unknown) = CARDS[place];
    let named = if unknown { lists.with_unknown(dimension) } else { lists.known(dimension) };
    let total = lists.bots.of(lists.tally.clicks).max(1) as f64;
    let rows = named.iter().map(|row| {
        let share = format!("{:.4}", row.clicks as f64 / total);
        let [name, label] = [&row.name, &label(of, &row.name)].map(|cell| inert(cell).into_owned());
        [name, label, row.clicks.to_string(), share]
    });
    csv_file(&["value", "name", "clicks", "share"], rows, link, of)
}

/// A CSV file about a link, with a header row.
pub(super) fn csv_file<const N: usize>(
    head: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
    link: &Link,
    of: &str,
) -> Response {
    let mut table =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let mut written = table.write_record(head);
    for row in rows {
        written = written.and_then(|()| table.write_record(row));
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
