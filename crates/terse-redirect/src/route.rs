//! A link made ready for answering.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use terse_core::{
    Code, Link, ModerationSource, RedirectKind, Screening, Target, Timestamp, Visit, visit,
};
use triomphe::ThinArc;

use crate::settings::Settings;

/// What stands before the target in a ready answer.
const LOCATION: &str = "\r\nlocation: ";

/// What a visitor gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The ready answer.
    Go,
    /// The ready answer, unless the visitor brings a query to be passed on.
    Forward,
    /// A redirect to where the link's rules send this visitor.
    Choose,
    /// The ready answer, if the store lets one more click be spent.
    Spend,
    /// A warning page.
    Warn,
    /// A page that asks for the password; the redirect for whoever knows it.
    Password,
    /// 404.
    Missing,
    /// 410.
    Gone,
    /// 451.
    Blocked,
}

/// Everything about a route except its code and its answer, which follow in the same allocation.
pub(crate) struct Head {
    pub(crate) domain: u16,
    code_len: usize,
    pub(crate) kind: Kind,
    /// Whether the screen may take it down, or give it back. A moderator's word stays.
    screened: bool,
    /// The link's owner, and when it was made: a click says which link it was. 0 without one.
    pub(crate) owner: u64,
    pub(crate) born_ms: i64,
    /// From here on, whoever comes by has it looked up again in the background.
    refresh_at: AtomicI64,
    /// Until here it is believed. Never past a moment at which the link itself changes by its
    /// dates.
    pub(crate) fresh_until: i64,
    /// Until here it may be served while the store is away.
    pub(crate) valid_until: i64,
    /// Seen since the clock hand last came by.
    pub(crate) used: AtomicBool,
    /// No longer in the map.
    pub(crate) dead: AtomicBool,
    /// Where answering takes more than copying, or the link spells its code otherwise.
    pub(crate) link: Option<Box<Link>>,
    /// The answer as hyper wants it, made when it first does.
    parsed: OnceLock<(StatusCode, HeaderMap)>,
}

/// A link as the redirect plane remembers it: one allocation that holds its code, its answer and
/// what is unusual about it.
#[derive(Clone)]
pub struct Route(ThinArc<Head, u8>);

impl Route {
    /// The route of a link that was just read.
    pub fn of_link(domain: u16, link: Link, now: Timestamp, settings: &Settings) -> Self {
        let code = link.key.code.clone();
        Self::build(domain, code.as_str().as_bytes(), link, now, settings, settings.cache_ttl)
    }

    /// The route of a link that was found although it was spelled otherwise. Not believed for any
    /// time: a change of the link is announced under its own name only.
    pub(crate) fn of_other_spelling(
        domain: u16,
        asked: &[u8],
        link: Link,
        now: Timestamp,
        settings: &Settings,
    ) -> Self {
        Self::build(domain, asked, link, now, settings, Duration::ZERO)
    }

    fn build(
        domain: u16,
        code: &[u8],
        link: Link,
        now: Timestamp,
        settings: &Settings,
        ttl: Duration,
    ) -> Self {
        let now_ms = now.as_ms();
        let kind = match visit(&link, now) {
            Visit::Go if link.rules.is_some() => Kind::Choose,
            Visit::Go if link.forward_query => Kind::Forward,
            Visit::Go => Kind::Go,
            Visit::GoIfSpent => Kind::Spend,
            Visit::NotFound => Kind::Missing,
            Visit::Gone => Kind::Gone,
            Visit::Blocked => Kind::Blocked,
            Visit::Warn => Kind::Warn,
            Visit::Password => Kind::Password,
        };
        let ahead = |at: Option<Timestamp>| {
            at.map(Timestamp::as_ms).filter(|&at| at > now_ms).unwrap_or(i64::MAX)
        };
        let ttl = if kind == Kind::Missing { ttl.min(settings.negative_ttl) } else { ttl };
        let changes_at = ahead(link.expires_at).min(ahead(link.valid_from));
        let fresh_until = now_ms.saturating_add(as_ms(ttl)).min(changes_at);
        let answer = match kind {
            Kind::Go | Kind::Forward | Kind::Spend => {
                redirect_head(&link, link.target.as_str(), now, settings)
            }
            _ => Vec::new(),
        };
        let ready = kind == Kind::Go && code == link.key.code.as_str().as_bytes();
        let head = Head {
            domain,
            code_len: code.len(),
            kind,
            screened: link.judged == ModerationSource::Screen,
            owner: link.owner.0,
            born_ms: link.created_at.as_ms(),
            refresh_at: AtomicI64::new(refresh_time(code, now_ms, fresh_until)),
            fresh_until,
            valid_until: ahead(link.expires_at),
            used: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            link: (kind != Kind::Missing && kind != Kind::Gone && kind != Kind::Blocked && !ready)
                .then(|| Box::new(link)),
            parsed: OnceLock::new(),
        };
        Self::new(head, code, &answer)
    }

    /// Remembers that there is no such link.
    pub fn missing(domain: u16, code: &[u8], now: Timestamp, settings: &Settings) -> Self {
        let fresh_until = now.as_ms().saturating_add(as_ms(settings.negative_ttl));
        let head = Head {
            domain,
            code_len: code.len(),
            kind: Kind::Missing,
            screened: false,
            owner: 0,
            born_ms: 0,
            refresh_at: AtomicI64::new(fresh_until),
            fresh_until,
            valid_until: i64::MIN,
            used: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            link: None,
            parsed: OnceLock::new(),
        };
        Self::new(head, code, &[])
    }

    fn new(head: Head, code: &[u8], answer: &[u8]) -> Self {
        let tail: Vec<u8> = [code, answer].concat();
        Self(ThinArc::from_header_and_slice(head, &tail))
    }

    pub(crate) fn head(&self) -> &Head {
        &self.0.header.header
    }

    /// The code.
    pub fn code(&self) -> &[u8] {
        &self.0.slice[..self.head().code_len]
    }

    /// The code as the link itself has it, if it was found under another spelling.
    pub(crate) fn other_code(&self) -> Option<&Code> {
        let code = &self.head().link.as_ref()?.key.code;
        (code.as_str().as_bytes() != self.code()).then_some(code)
    }

    /// Status line and fields of the redirect, without `Date` and the blank line. Empty where there
    /// is no redirect.
    pub fn answer(&self) -> &[u8] {
        &self.0.slice[self.head().code_len..]
    }

    /// Roughly what it costs to remember it.
    pub(crate) fn bytes(&self) -> usize {
        const MAP_AND_RING: usize = 96;
        let link = self.head().link.as_ref().map_or(0, |link| {
            let rules = link.rules.as_ref().map_or(0, |rules| 2 * rules.show().len());
            size_of::<Link>() + 2 * link.target.as_str().len() + rules
        });
        size_of::<Head>() + 16 + self.0.slice.len() + link + MAP_AND_RING
    }

    /// Whether this visitor should have it looked up again. True for one of many, then not for
    /// another second.
    pub(crate) fn wants_refresh(&self, now_ms: i64) -> bool {
        let at = self.head().refresh_at.load(Ordering::Relaxed);
        let next = now_ms.saturating_add(1000);
        at <= now_ms
            && self
                .head()
                .refresh_at
                .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether it may be served although the store could not confirm it.
    pub(crate) fn may_serve_stale(&self, now_ms: i64) -> bool {
        let redirects = matches!(self.head().kind, Kind::Go | Kind::Forward | Kind::Choose);
        // What must not be followed stays so, however old the knowledge.
        matches!(self.head().kind, Kind::Gone | Kind::Blocked)
            || (redirects && now_ms < self.head().valid_until)
    }

    /// Whether a screen that has learned something would have it otherwise. What is blocked may be
    /// so by the screen's word alone, which no store knows of yet: it is read again.
    pub(crate) fn is_outdated_by(&self, screen: &dyn Screening) -> bool {
        let head = self.head();
        head.screened
            && match head.kind {
                Kind::Blocked => true,
                Kind::Missing | Kind::Gone => false,
                _ => match &head.link {
                    Some(link) => link.targets().any(|target| screen.blocks(target)),
                    None => self.target().is_some_and(|target| screen.blocks(&target)),
                },
            }
    }

    /// Where a ready answer leads: its first field is the location.
    fn target(&self) -> Option<Target> {
        let (_, fields) = std::str::from_utf8(self.answer()).ok()?.split_once(LOCATION)?;
        Some(Target::from_stored(fields.split("\r\n").next()?.to_owned()))
    }

    /// The redirect as a response, for hyper.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let (status, headers) = self.head().parsed.get_or_init(|| parse_head(self.answer()));
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = *status;
        response.headers_mut().clone_from(headers);
        response
    }
}

/// What hyper needs of an answer of ours.
fn parse_head(answer: &[u8]) -> (StatusCode, HeaderMap) {
    let mut fields = [httparse::EMPTY_HEADER; 8];
    let mut parsed = httparse::Response::new(&mut fields);
    let whole = [answer, b"\r\n"].concat();
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
            head.kind
        )
    }
}

/// The redirect to `location` as bytes.
fn redirect_head(link: &Link, location: &str, now: Timestamp, settings: &Settings) -> Vec<u8> {
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

/// The redirect to `location` as a response.
pub(crate) fn redirect_response(
    link: &Link,
    location: &str,
    now: Timestamp,
    settings: &Settings,
) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() =
        StatusCode::from_u16(link.redirect.status()).unwrap_or(StatusCode::FOUND);
    each_field(link, location, now, settings, |name, value| {
        // A target is printable ASCII by construction and a forwarded query was part of a request
        // target: both always fit.
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    });
    response
}

/// The fields of a redirect, for both kinds of answer.
fn each_field(
    link: &Link,
    location: &str,
    now: Timestamp,
    settings: &Settings,
    mut put: impl FnMut(&'static str, &str),
) {
    put("location", location);
    match max_age(link, now, settings) {
        Some(seconds) => put("cache-control", &format!("public, max-age={seconds}")),
        None => put("cache-control", "private, max-age=0, no-store"),
    }
    if !link.crawlable || link.password.is_some() {
        put("x-robots-tag", "noindex");
    }
    put("access-control-allow-origin", "*");
    put("content-length", "0");
}

/// A permanent redirect may be kept, but not past the end of its link, nor where each visit counts,
/// may lead elsewhere, or is asked for a password.
fn max_age(link: &Link, now: Timestamp, settings: &Settings) -> Option<i64> {
    let each = link.max_clicks.is_some() || link.rules.is_some() || link.password.is_some();
    if !link.redirect.is_permanent() || each {
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

/// Towards the end of its life, at another place for each route, so that what was loaded together
/// is not refreshed together.
fn refresh_time(code: &[u8], now_ms: i64, fresh_until: i64) -> i64 {
    let mixed = code
        .iter()
        .fold(now_ms, |mixed, &byte| mixed.wrapping_mul(31).wrapping_add(i64::from(byte)));
    let life = fresh_until.saturating_sub(now_ms);
    fresh_until - life / 16 - life / 4 * (mixed & 255) / 256
}
