//! A cached link: its decision, and its redirect as prepared bytes.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use terse_core::{
    Code, Link, ModerationSource, ModerationStatus, RedirectKind, Screening, Target, Timestamp,
    VisitDecision,
};
use triomphe::ThinArc;

use crate::edge;
use crate::now::ClockReading;
use crate::settings::RedirectSettings;

/// Precedes the target in a prepared redirect.
const LOCATION: &str = "\r\nlocation: ";

/// The fields after the location of an ordinary 302. Routes share them: they are longer than most
/// targets, and a redirect reads fewer cache lines of its own.
const SHARED_FIELDS: &[u8] = b"cache-control: private, max-age=0, no-store\r\n\
    x-robots-tag: noindex\r\naccess-control-allow-origin: *\r\ncontent-length: 0\r\n";

/// A redirect that may be cached for at least a week is `immutable`: browsers do not ask again when
/// a page is reloaded.
const IMMUTABLE_SECONDS: i64 = 7 * 86_400;

/// The fixed part of a route. Its code and its redirect follow in the same allocation.
pub(crate) struct RouteHead {
    pub(crate) domain: u16,
    code_len: usize,
    pub(crate) decision: VisitDecision,
    /// Whether the screen may block or unblock the link. A moderator's decision stays.
    screened: bool,
    /// The link's owner and creation time, which identify the link of a click; 0 without a link.
    pub(crate) owner: u64,
    pub(crate) created_ms: i64,
    /// From then on, by the steady clock, the next visitor causes a lookup in the background.
    refresh_at: AtomicI64,
    /// The end of its time to live, by the steady clock.
    fresh_until: i64,
    /// The next date at which the link's status changes, by the wall clock.
    changes_at: i64,
    /// Until then, by the wall clock, it may be served while the store is away.
    valid_until: i64,
    /// Used since the clock hand last passed it.
    pub(crate) used: AtomicBool,
    /// Removed from the map.
    pub(crate) removed: AtomicBool,
    /// Whether the redirect ends with [`SHARED_FIELDS`], which the route does not hold itself.
    shares_fields: bool,
    /// The link, if the prepared redirect is not enough: for rules, a query, limited clicks, a
    /// page, or another spelling of the code.
    pub(crate) link: Option<Box<Link>>,
    /// The prepared redirect as hyper needs it, parsed on first use. Boxed, because most routes
    /// never need it.
    parsed: OnceLock<Box<(StatusCode, HeaderMap)>>,
}

/// A cached link. One allocation holds its decision, its code and its prepared redirect.
#[derive(Clone)]
pub struct Route(ThinArc<RouteHead, u8>);

impl Route {
    /// The route of a link that was read from the store.
    pub fn of_link(
        domain: u16,
        link: Link,
        now: impl Into<ClockReading>,
        settings: &RedirectSettings,
    ) -> Self {
        let (code, now) = (link.key.code.clone(), now.into());
        Self::build(domain, code.as_str().as_bytes(), link, now, settings, settings.cache_ttl)
    }

    /// The route of a link that was found under another spelling of its code. Its time to live is
    /// zero, because a change of the link is announced under the link's own code only.
    pub(crate) fn of_other_spelling(
        domain: u16,
        requested: &[u8],
        link: Link,
        now: ClockReading,
        settings: &RedirectSettings,
    ) -> Self {
        Self::build(domain, requested, link, now, settings, Duration::ZERO)
    }

    fn build(
        domain: u16,
        code: &[u8],
        mut link: Link,
        ClockReading { wall_ms, steady_ms }: ClockReading,
        settings: &RedirectSettings,
        ttl: Duration,
    ) -> Self {
        let now = Timestamp::from_ms(wall_ms);
        let decision = VisitDecision::of(&link, now);
        if is_stable(&link, decision, now, settings) {
            link.redirect = RedirectKind::MovedPermanently;
        }
        let ahead = |at: Option<Timestamp>| {
            at.map(Timestamp::as_ms).filter(|&at| at > wall_ms).unwrap_or(i64::MAX)
        };
        let missing = decision == VisitDecision::NotFound;
        let ttl = if missing { ttl.min(settings.negative_ttl) } else { ttl };
        let changes_at = ahead(link.expires_at).min(ahead(link.valid_from));
        let fresh_until = steady_ms.saturating_add(as_ms(ttl));
        let redirect = match decision {
            VisitDecision::Redirect | VisitDecision::RedirectWithQuery => {
                redirect_head(&link, link.target.as_str(), now, settings)
            }
            _ => Vec::new(),
        };
        let own_fields = redirect.strip_suffix(SHARED_FIELDS);
        let needs_link = match decision {
            VisitDecision::NotFound
            | VisitDecision::Gone
            | VisitDecision::UsedUp
            | VisitDecision::Blocked => false,
            VisitDecision::Redirect => code != link.key.code.as_str().as_bytes(),
            _ => true,
        };
        let head = RouteHead {
            domain,
            code_len: code.len(),
            decision,
            screened: link.moderated_by == ModerationSource::Screen,
            owner: link.owner.0,
            created_ms: link.created_at.as_ms(),
            refresh_at: AtomicI64::new(refresh_time(code, steady_ms, fresh_until)),
            fresh_until,
            changes_at,
            valid_until: ahead(link.expires_at),
            used: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            shares_fields: own_fields.is_some(),
            link: needs_link.then(|| Box::new(link)),
            parsed: OnceLock::new(),
        };
        Self::new(head, code, own_fields.unwrap_or(&redirect))
    }

    /// The route of a code without a link.
    pub fn missing(
        domain: u16,
        code: &[u8],
        now: impl Into<ClockReading>,
        settings: &RedirectSettings,
    ) -> Self {
        let fresh_until = now.into().steady_ms.saturating_add(as_ms(settings.negative_ttl));
        let head = RouteHead {
            domain,
            code_len: code.len(),
            decision: VisitDecision::NotFound,
            screened: false,
            owner: 0,
            created_ms: 0,
            refresh_at: AtomicI64::new(fresh_until),
            fresh_until,
            changes_at: i64::MAX,
            valid_until: i64::MIN,
            used: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            shares_fields: false,
            link: None,
            parsed: OnceLock::new(),
        };
        Self::new(head, code, &[])
    }

    fn new(head: RouteHead, code: &[u8], redirect: &[u8]) -> Self {
        let tail: Vec<u8> = [code, redirect].concat();
        Self(ThinArc::from_header_and_slice(head, &tail))
    }

    pub(crate) fn head(&self) -> &RouteHead {
        &self.0.header.header
    }

    /// The code under which the route is cached.
    pub fn code(&self) -> &[u8] {
        &self.0.slice[..self.head().code_len]
    }

    /// The link's own code, if it was found under another spelling.
    pub(crate) fn canonical_code(&self) -> Option<&Code> {
        let code = &self.head().link.as_ref()?.key.code;
        (code.as_str().as_bytes() != self.code()).then_some(code)
    }

    /// Status line and fields of the redirect, without `Date` and the blank line, in two parts: the
    /// route's own bytes, and the fields that it shares with others. Empty if the decision is not
    /// an unconditional redirect.
    pub fn redirect(&self) -> [&[u8]; 2] {
        let head = self.head();
        [&self.0.slice[head.code_len..], if head.shares_fields { SHARED_FIELDS } else { &[] }]
    }

    /// Whether the redirect is a 307 or 308, which keeps the method of a request.
    pub(crate) fn keeps_method(&self) -> bool {
        match &self.head().link {
            Some(link) => link.redirect.keeps_method(),
            None => matches!(self.redirect()[0].get(9..12), Some(b"307" | b"308")),
        }
    }

    /// The approximate memory that it takes in the cache.
    pub(crate) fn bytes(&self) -> usize {
        const MAP_AND_RING: usize = 96;
        let link = self.head().link.as_ref().map_or(0, |link| {
            let rules = link.rules.as_ref().map_or(0, |rules| 2 * rules.show().len());
            let preview = link.preview.as_ref().map_or(0, |preview| preview.show().len());
            size_of::<Link>() + 2 * link.target.as_str().len() + rules + preview
        });
        size_of::<RouteHead>() + 16 + self.0.slice.len() + link + MAP_AND_RING
    }

    /// Whether it may be served without asking the store.
    pub(crate) fn is_fresh(&self, now: ClockReading) -> bool {
        now.steady_ms < self.head().fresh_until && now.wall_ms < self.head().changes_at
    }

    /// Whether this visitor causes a refresh. True for one visitor per second.
    pub(crate) fn wants_refresh(&self, now: ClockReading) -> bool {
        let at = self.head().refresh_at.load(Ordering::Relaxed);
        let next = now.steady_ms.saturating_add(1000);
        at <= now.steady_ms
            && self
                .head()
                .refresh_at
                .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether it may be served past its time to live, for at most `max_stale`: meanwhile the link
    /// may have been changed or blocked.
    pub(crate) fn may_serve_stale(&self, now: ClockReading, max_stale: Duration) -> bool {
        let head = self.head();
        match head.decision {
            VisitDecision::Redirect
            | VisitDecision::RedirectWithQuery
            | VisitDecision::RedirectByRules
            | VisitDecision::RedirectOrPreview => {
                now.wall_ms < head.valid_until
                    && now.steady_ms < head.fresh_until.saturating_add(as_ms(max_stale))
            }
            // A link that does not redirect stays so, however old the entry.
            VisitDecision::Gone | VisitDecision::UsedUp | VisitDecision::Blocked => true,
            VisitDecision::RedirectIfSpent
            | VisitDecision::Warning
            | VisitDecision::Password
            | VisitDecision::NotFound => false,
        }
    }

    /// Whether the changed screen may decide otherwise. A blocked link counts as outdated, because
    /// the previous version of the screen may have blocked it before the store knew.
    pub(crate) fn is_outdated_by(&self, screen: &dyn Screening) -> bool {
        let head = self.head();
        head.screened
            && match head.decision {
                VisitDecision::Blocked => true,
                VisitDecision::NotFound | VisitDecision::Gone | VisitDecision::UsedUp => false,
                _ => match &head.link {
                    Some(link) => link.targets().any(|target| screen.blocks(target)),
                    None => self.target().is_some_and(|target| screen.blocks(&target)),
                },
            }
    }

    /// The target of the prepared redirect: its first field is the location.
    fn target(&self) -> Option<Target> {
        let (_, fields) = std::str::from_utf8(self.redirect()[0]).ok()?.split_once(LOCATION)?;
        Some(Target::from_stored(fields.split("\r\n").next()?.to_owned()))
    }

    /// The prepared redirect for hyper.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let (status, headers) =
            &**self.head().parsed.get_or_init(|| Box::new(parse_head(self.redirect())));
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = *status;
        response.headers_mut().clone_from(headers);
        response
    }
}

/// Parses a prepared redirect for hyper.
fn parse_head([own, shared]: [&[u8]; 2]) -> (StatusCode, HeaderMap) {
    let mut fields = [httparse::EMPTY_HEADER; 12];
    let mut parsed = httparse::Response::new(&mut fields);
    let whole = [own, shared, b"\r\n"].concat();
    let mut headers = HeaderMap::new();
    if parsed.parse(&whole).is_ok() {
        for field in parsed.headers.iter() {
            if let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(field.name.as_bytes()),
                HeaderValue::from_bytes(field.value),
            ) {
                headers.insert(name, value);
            }
        }
    }
    (
        parsed
            .code
            .and_then(|code| StatusCode::from_u16(code).ok())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        headers,
    )
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.head();
        write!(
            f,
            "Route({} {:?} {:?})",
            head.domain,
            String::from_utf8_lossy(self.code()),
            head.decision
        )
    }
}

/// The redirect to `location`, as bytes for the fast path.
fn redirect_head(
    link: &Link,
    location: &str,
    now: Timestamp,
    settings: &RedirectSettings,
) -> Vec<u8> {
    let status_line: &[u8] = match link.redirect {
        RedirectKind::MovedPermanently => b"HTTP/1.1 301 Moved Permanently\r\n",
        RedirectKind::Found => b"HTTP/1.1 302 Found\r\n",
        RedirectKind::Temporary => b"HTTP/1.1 307 Temporary Redirect\r\n",
        RedirectKind::Permanent => b"HTTP/1.1 308 Permanent Redirect\r\n",
    };
    let mut head = Vec::with_capacity(location.len() + 192);
    head.extend_from_slice(status_line);
    each_field(link, location, now, settings, |name, value| {
        for part in [name, ": ", value, "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
    });
    head
}

/// The redirect to `location`, for hyper.
pub(crate) fn redirect_response(
    link: &Link,
    location: &str,
    now: Timestamp,
    settings: &RedirectSettings,
) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() =
        StatusCode::from_u16(link.redirect.status()).unwrap_or(StatusCode::FOUND);
    each_field(link, location, now, settings, |name, value| {
        // Always valid: a target is printable ASCII by construction, and a forwarded query was part
        // of a request target.
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    });
    response
}

/// The header fields of a redirect.
fn each_field(
    link: &Link,
    location: &str,
    now: Timestamp,
    settings: &RedirectSettings,
    mut put: impl FnMut(&'static str, &str),
) {
    put("location", location);
    let edge = edge::seconds(link, now, settings);
    let shared = match (edge, settings.edge) {
        (Some(seconds), Some(edge)) if edge.reads_cache_control_only => {
            format!(", s-maxage={seconds}")
        }
        _ => String::new(),
    };
    match max_age(link, now, settings) {
        Some(seconds) if seconds >= IMMUTABLE_SECONDS => {
            put("cache-control", &format!("public, max-age={seconds}, immutable{shared}"));
        }
        Some(seconds) => put("cache-control", &format!("public, max-age={seconds}{shared}")),
        None if shared.is_empty() => put("cache-control", "private, max-age=0, no-store"),
        None => put("cache-control", &format!("max-age=0{shared}")),
    }
    if let Some(seconds) = edge {
        edge::each_field(link, seconds, settings, &mut put);
    }
    if !link.crawlable || link.password.is_some() {
        put("x-robots-tag", "noindex");
    }
    put("access-control-allow-origin", "*");
    put("content-length", "0");
}

/// Whether a 302 is answered as 301: the operator wants that for links that have not changed for
/// some time, and nothing about the link is due to change.
fn is_stable(
    link: &Link,
    decision: VisitDecision,
    now: Timestamp,
    settings: &RedirectSettings,
) -> bool {
    let Some(after) = settings.permanent_after else { return false };
    // `Redirect` rules out a password, rules, limited clicks and a forwarded query.
    decision == VisitDecision::Redirect
        && link.redirect == RedirectKind::Found
        && link.expires_at.is_none()
        && link.moderation == ModerationStatus::Clear
        && link.flags.is_empty()
        && link.updated_at <= now.saturating_sub(after)
}

/// How long clients may cache a permanent redirect: not past the link's expiry, and not at all if
/// clicks are limited, rules choose the target, preview fetchers get another answer, or there is a
/// password.
fn max_age(link: &Link, now: Timestamp, settings: &RedirectSettings) -> Option<i64> {
    let per_visit = link.max_clicks.is_some()
        || link.rules.is_some()
        || link.preview.is_some()
        || link.password.is_some();
    if !link.redirect.is_permanent() || per_visit {
        return None;
    }
    let left = link
        .expires_at
        .map_or(i64::MAX, |end| end.as_ms() - now.as_ms() - as_ms(settings.cache_ttl));
    let seconds = as_ms(settings.permanent_max_age).min(left) / 1000;
    (seconds > 0).then_some(seconds)
}

fn as_ms(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A time in the last third of the time to live. It differs per route, so that routes that were
/// loaded together are not refreshed together.
fn refresh_time(code: &[u8], now_ms: i64, fresh_until: i64) -> i64 {
    let mixed = code
        .iter()
        .fold(now_ms, |mixed, &byte| mixed.wrapping_mul(31).wrapping_add(i64::from(byte)));
    let life = fresh_until.saturating_sub(now_ms);
    fresh_until - life / 16 - life / 4 * (mixed & 255) / 256
}
