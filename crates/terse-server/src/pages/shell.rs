//! What the pages of the dashboard show around their content: the side bar, the search and the
//! account.

use axum::http::HeaderMap;
use jiff::tz::TimeZone;
use terse_core::registry::{Account, Role};
use terse_core::{Domain, Timestamp};

use super::PageFrame;
use super::format::date_time_in;
use super::frame::Visitor;
use crate::http::cookies::cookie;
use crate::http::state::App;

/// The cookie with the viewer's time zone. The dashboard's script sets it.
const ZONE_COOKIE: &str = "terse_zone";

/// An entry of the side bar.
pub(super) struct Entry {
    pub(super) path: &'static str,
    pub(super) label: &'static str,
    pub(super) icon: &'static str,
    pub(super) current: bool,
    /// What waits there, such as `3`.
    pub(super) waiting: Option<String>,
}

/// The paths, labels and icons of the entries that every account has.
const ENTRIES: [(&str, &str, &str); 6] = [
    ("/dashboard", "Overview", "overview"),
    ("/links", "Links", "links"),
    ("/tags", "Tags", "tags"),
    ("/domains", "Domains", "domains"),
    ("/webhooks", "Webhooks", "webhooks"),
    ("/api/docs", "API", "api"),
];
/// How many of them are in the bar of a phone. The others are behind "More".
const ON_PHONE: usize = 2;
/// The same for those who run the server, with the least role that sees each.
const ADMIN_ENTRIES: [(&str, &str, &str, Role); 4] = [
    ("/moderation", "Moderation", "moderation", Role::Moderator),
    ("/accounts", "Accounts", "accounts", Role::Admin),
    ("/branding", "Branding", "branding", Role::Admin),
    ("/system", "System", "system", Role::Admin),
];

/// The keys of the dashboard, and what each does.
pub(crate) const SHORTCUTS: [(&str, &str); 10] = [
    ("/", "Search links"),
    ("n", "New link"),
    ("↓ j", "Next row; from the search or the page, the first one"),
    ("↑ k", "Previous row"),
    ("Enter", "Open the link of the row"),
    ("x", "Select the row"),
    ("c", "Copy the short link of the row"),
    ("e", "Edit the link of the row"),
    ("Esc", "Leave a field, or close a menu"),
    ("?", "Show these keys"),
];

/// Up to how many reported links are counted.
pub(super) const MAX_COUNTED_REPORTS: usize = 100;

/// The frame of a page of the dashboard.
#[derive(Clone)]
pub(super) struct Shell {
    frame: PageFrame,
    account: String,
    role: Role,
    host: String,
    /// The entry that the page belongs to.
    current: &'static str,
    search: String,
    /// What else a search keeps: the names and values of hidden fields.
    search_fields: Vec<(&'static str, String)>,
    zone: TimeZone,
    shortcuts: bool,
    /// How many reported links wait for a decision, counted up to [`MAX_COUNTED_REPORTS`].
    reports: usize,
}

impl Shell {
    pub(super) fn new(
        state: &App,
        headers: &HeaderMap,
        account: &Account,
        current: &'static str,
    ) -> Self {
        Self {
            frame: PageFrame::new(state.site(), Visitor::SignedIn),
            account: account.name.to_string(),
            role: account.role,
            host: state.links.rules().hosts.name_of(&Domain::primary()).to_owned(),
            current,
            search: String::new(),
            search_fields: Vec::new(),
            zone: chosen_zone(account).unwrap_or_else(|| zone_of(headers)),
            shortcuts: !account.preferences.shortcuts_off,
            reports: 0,
        }
    }

    /// The same, with the number of reported links that wait for a decision.
    pub(super) fn with_reports(self, reports: usize) -> Self {
        Self { reports, ..self }
    }

    /// The same, with a text in the search field, and with filters that the next search keeps.
    pub(super) fn searching(self, search: &str, kept: Vec<(&'static str, String)>) -> Self {
        Self { search: search.to_owned(), search_fields: kept, ..self }
    }

    pub(super) fn site_name(&self) -> String {
        self.frame.name()
    }

    pub(super) fn logo(&self) -> Option<&str> {
        self.frame.logo()
    }

    /// The style sheet with the operator's accent colour.
    pub(super) fn style(&self) -> Option<&str> {
        self.frame.style()
    }

    /// Whether the page shows the software's own logo.
    pub(super) fn is_ours(&self) -> bool {
        self.frame.operator_name().is_none()
    }

    pub(super) fn home(&self) -> &'static str {
        ENTRIES[0].0
    }

    pub(super) fn account(&self) -> &str {
        &self.account
    }

    /// The first letter of the account's name.
    pub(super) fn initial(&self) -> String {
        self.account.chars().take(1).flat_map(char::to_uppercase).collect()
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn search(&self) -> &str {
        &self.search
    }

    pub(super) fn search_fields(&self) -> &[(&'static str, String)] {
        &self.search_fields
    }

    /// Whether single keys are shortcuts: the account can turn them off.
    pub(super) fn has_shortcuts(&self) -> bool {
        self.shortcuts
    }

    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// A date and time in the viewer's zone.
    pub(super) fn date_time(&self, at: Timestamp) -> String {
        date_time_in(at, &self.zone)
    }

    /// A date in the viewer's zone, with the year if it is another one than now.
    pub(super) fn day(&self, at: Timestamp, now: Timestamp) -> String {
        let Some((at, now)) = self.zoned(at).zip(self.zoned(now)) else { return at.to_string() };
        let format = if at.year() == now.year() { "%-d %b" } else { "%-d %b %Y" };
        at.strftime(format).to_string()
    }

    /// The time of day with seconds, and the date if it is not today's.
    pub(super) fn clock(&self, at: Timestamp, now: Timestamp) -> String {
        let Some((at, now)) = self.zoned(at).zip(self.zoned(now)) else { return at.to_string() };
        let format = if at.date() == now.date() { "%H:%M:%S" } else { "%-d %b, %H:%M:%S" };
        at.strftime(format).to_string()
    }

    fn zoned(&self, at: Timestamp) -> Option<jiff::Zoned> {
        let at = jiff::Timestamp::from_millisecond(at.as_ms()).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }

    pub(super) fn is_current(&self, path: &str) -> bool {
        self.current == path
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        ENTRIES.into_iter().map(|(path, label, icon)| self.entry(path, label, icon))
    }

    pub(super) fn admin_entries(&self) -> impl Iterator<Item = Entry> {
        let seen = ADMIN_ENTRIES.into_iter().filter(|(.., role)| self.role >= *role);
        seen.map(|(path, label, icon, _)| self.entry(path, label, icon))
    }

    /// The entries that a phone shows behind "More".
    pub(super) fn more_entries(&self) -> impl Iterator<Item = Entry> {
        self.entries().skip(ON_PHONE).chain(self.admin_entries())
    }

    pub(super) fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    pub(super) fn has_admin(&self) -> bool {
        self.admin_entries().next().is_some()
    }

    fn entry(&self, path: &'static str, label: &'static str, icon: &'static str) -> Entry {
        let waiting = match self.reports {
            _ if path != "/moderation" => None,
            0 => None,
            count if count >= MAX_COUNTED_REPORTS => Some(format!("{}+", MAX_COUNTED_REPORTS - 1)),
            count => Some(count.to_string()),
        };
        Entry { path, label, icon, current: self.is_current(path), waiting }
    }
}

/// The time zone that the account chose.
fn chosen_zone(account: &Account) -> Option<TimeZone> {
    named_zone(account.preferences.time_zone.as_deref()?)
}

/// The viewer's time zone; UTC while it is not known.
fn zone_of(headers: &HeaderMap) -> TimeZone {
    cookie(headers, ZONE_COOKIE).and_then(named_zone).unwrap_or(TimeZone::UTC)
}

/// A zone of the IANA database.
pub(super) fn named_zone(name: &str) -> Option<TimeZone> {
    let shaped = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte));
    shaped.then(|| TimeZone::get(name).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use axum::http::header::COOKIE;

    #[test]
    fn times_are_in_the_zone_of_the_cookie_or_in_utc() {
        for (sent, want) in [
            ("terse_zone=Europe/Berlin", "Europe/Berlin"),
            ("terse_zone=Mars/Olympus", "UTC"),
            ("terse_zone=../etc/passwd", "UTC"),
            ("other=1", "UTC"),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(COOKIE, HeaderValue::from_static(sent));
            assert_eq!(zone_of(&headers).iana_name(), Some(want), "{sent}");
        }
    }
}
