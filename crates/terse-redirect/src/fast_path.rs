//! From the bytes of a request to the bytes of its answer, if that takes no more than memory.
//!
//! A function of the bytes, where they come from, the remembered routes and the time: it neither
//! waits nor logs. What is unusual in the least (another method or version, a body, an upgrade, a
//! strange `Host`, an escaped path) is left to hyper by [`Step::HandOver`], so that HTTP's odd
//! cases live in one place.

use std::mem::MaybeUninit;

use crate::client_addr::ClientAddr;
use crate::error_responses::Failure;
use crate::redirector::Redirector;
use crate::route::{Kind, Route};
use crate::settings::ErrorStyle;
use crate::visitor_headers::VisitorHeaders;

/// Requests with a longer head go to hyper, which knows the limits.
pub(crate) const MAX_HEAD: usize = 8 * 1024;
const MAX_FIELDS: usize = 64;

/// What became of the first request in the bytes.
#[derive(Debug)]
pub enum Step {
    /// Its answer was appended.
    Answered(Answered),
    /// Its head has not arrived whole.
    Incomplete,
    /// It asks for a link that is not in memory.
    Miss(Missed),
    /// It is for hyper.
    HandOver,
}

/// An answered request.
#[derive(Debug)]
pub struct Answered {
    /// How many bytes it took.
    pub used: usize,
    /// What it was.
    pub outcome: FastPathOutcome,
    /// Whether the client wants the connection closed.
    pub close: bool,
    /// A route that this visitor should have looked up again.
    pub refresh: Option<Route>,
    /// The owner of the link that was followed, and when it was made; 0 without one.
    pub owner: u64,
    /// In milliseconds.
    pub born_ms: i64,
    /// The route, if the link spells its code otherwise than the visitor.
    pub canonical_code: Option<Route>,
}

/// What a click says about its request.
#[derive(Debug, Default)]
pub struct Asked<'a> {
    /// The number of the domain.
    pub domain: u16,
    /// As it was asked for.
    pub code: &'a str,
    /// What followed the question mark.
    pub query: Option<&'a str>,
    /// About the visitor.
    pub seen: VisitorHeaders<'a>,
}

/// What a visitor was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FastPathOutcome {
    /// A redirect.
    Redirected,
    /// 404, 410, 451, 503 or 429.
    Failed(Failure),
    /// 404 by arithmetic.
    NeverIssued,
}

/// A link to be looked up.
#[derive(Debug)]
pub struct Missed {
    /// The number of the domain.
    pub domain: u16,
    /// Where in the bytes its code stands.
    pub code: std::ops::Range<usize>,
}

/// How a request whose look-up has ended is to be answered.
#[derive(Clone, Debug)]
pub enum Found {
    /// With this route.
    Route(Route),
    /// With 503.
    Unavailable,
}

/// When a request is answered.
#[derive(Clone, Copy, Debug)]
pub struct RequestTime<'a> {
    /// In milliseconds.
    pub now_ms: i64,
    /// As a whole `Date` line.
    pub date: &'a [u8],
    /// Whether the connection is to be closed whatever the client wishes.
    pub closing: bool,
}

/// Answers the first request in `bytes` by appending to `out`. `found` is the end of a look-up that
/// an earlier [`Step::Miss`] for the same bytes asked for. If it is answered, `asked` says who
/// asked for what; given out this way because it is large and would be copied from hand to hand.
/// What is limited is counted when it is answered, and never for a request that is left to hyper.
pub fn answer<'a>(
    bytes: &'a [u8],
    redirector: &Redirector,
    client_addr: &ClientAddr,
    moment: RequestTime<'_>,
    found: Option<&Found>,
    asked: &mut Asked<'a>,
    out: &mut Vec<u8>,
) -> Step {
    let RequestTime { now_ms, date, closing } = moment;
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    let used = match request.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(used)) if used <= MAX_HEAD => used,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Step::Incomplete,
        _ => return Step::HandOver,
    };
    let (Some("GET"), Some(1), Some(target)) = (request.method, request.version, request.path)
    else {
        return Step::HandOver;
    };
    let Some((code, query)) = split_target(target) else { return Step::HandOver };
    let Some(head_fields) = RequestHead::of(request.headers, &mut asked.seen) else {
        return Step::HandOver;
    };
    let Some(domain) = redirector.hosts.domain(head_fields.host) else { return Step::HandOver };
    let close = head_fields.close || closing;
    (asked.domain, asked.code, asked.query) = (domain, code, query);

    let fail = |failure: Failure, outcome: FastPathOutcome, out: &mut Vec<u8>| {
        write_failure(redirector, domain, failure, &head_fields, (date, close), out);
        Step::Answered(Answered {
            used,
            outcome,
            close,
            refresh: None,
            owner: 0,
            born_ms: 0,
            canonical_code: None,
        })
    };
    let client = || client_addr.client(&redirector.settings.proxies, &asked.seen);
    let respond = |route: &Route, out: &mut Vec<u8>| {
        let failure = match route.head().kind {
            Kind::Go => None,
            Kind::Forward if query.is_none_or(str::is_empty) => None,
            Kind::Missing => Some(Failure::NotFound),
            Kind::Gone => Some(Failure::Gone),
            Kind::Blocked => Some(Failure::Blocked),
            Kind::Forward | Kind::Choose | Kind::Spend | Kind::Warn | Kind::Password => {
                return Step::HandOver;
            }
        };
        match failure {
            None => {
                if redirector.limiter.limits_redirects
                    && let Some(failure) =
                        redirector.limiter.redirect(client(), redirector.number_of(route), now_ms)
                {
                    return fail(failure, FastPathOutcome::Failed(failure), out);
                }
                out.extend_from_slice(route.answer());
                end_head(date, close, out);
                let refresh = route.wants_refresh(now_ms).then(|| route.clone());
                let canonical_code = route.other_code().map(|_| route.clone());
                let (owner, born_ms) = (route.head().owner, route.head().born_ms);
                Step::Answered(Answered {
                    used,
                    outcome: FastPathOutcome::Redirected,
                    close,
                    refresh,
                    owner,
                    born_ms,
                    canonical_code,
                })
            }
            Some(_) if redirector.settings.errors == ErrorStyle::Page => Step::HandOver,
            Some(Failure::NotFound) => {
                let failure = redirector.limiter.guess(client, now_ms).unwrap_or(Failure::NotFound);
                fail(failure, FastPathOutcome::Failed(failure), out)
            }
            Some(failure) => fail(failure, FastPathOutcome::Failed(failure), out),
        }
    };

    match found {
        Some(Found::Route(route)) => return respond(route, out),
        Some(Found::Unavailable) => {
            return fail(Failure::Unavailable, FastPathOutcome::Failed(Failure::Unavailable), out);
        }
        None => {}
    }
    let name = redirector.routes.name(domain, code.as_bytes());
    let step = redirector.routes.with(name, domain, code.as_bytes(), |route| {
        redirector.is_fresh(route, now_ms).then(|| respond(route, out))
    });
    if let Some(Some(step)) = step {
        return step;
    }
    // Not in memory. A page of ours never is.
    if terse_core::is_reserved(code) {
        return Step::HandOver;
    }
    if step.is_none()
        && redirector.settings.errors == ErrorStyle::Status
        && redirector.surely_absent(domain, code.as_bytes())
    {
        return match redirector.limiter.guess(client, now_ms) {
            None => fail(Failure::NotFound, FastPathOutcome::NeverIssued, out),
            Some(failure) => fail(failure, FastPathOutcome::Failed(failure), out),
        };
    }
    let start = code.as_ptr() as usize - bytes.as_ptr() as usize;
    Step::Miss(Missed { domain, code: start..start + code.len() })
}

/// Where a visitor is sent instead, or what they are told. Apart, so that those who are redirected
/// do not carry it along.
#[cold]
fn write_failure(
    redirector: &Redirector,
    domain: u16,
    failure: Failure,
    head_fields: &RequestHead<'_>,
    (date, close): (&[u8], bool),
    out: &mut Vec<u8>,
) {
    if !redirector.fallbacks.write(domain, failure, date, close, out) {
        redirector.error_responses.write(failure, head_fields.html(), date, close, out);
    }
}

/// Ends a head: the date, the wish to close, the blank line.
pub(crate) fn end_head(date: &[u8], close: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(date);
    out.extend_from_slice(if close { b"connection: close\r\n\r\n" } else { b"\r\n" });
}

/// `/code` or `/code?query`, where the code is shaped like one. `?report` is a page.
fn split_target(target: &str) -> Option<(&str, Option<&str>)> {
    let rest = target.strip_prefix('/')?;
    let (code, query) = match rest.split_once('?') {
        Some((code, query)) => (code, Some(query)),
        None => (rest, None),
    };
    (terse_core::Code::shaped(code.as_bytes()) && query != Some("report")).then_some((code, query))
}

/// What the fields of a request say that matters here.
struct RequestHead<'a> {
    host: &'a [u8],
    accept: &'a [u8],
    close: bool,
}

impl<'a> RequestHead<'a> {
    /// `None` if a field makes the request one for hyper. What they say about the visitor goes to
    /// `seen`.
    fn of(fields: &[httparse::Header<'a>], seen: &mut VisitorHeaders<'a>) -> Option<Self> {
        let mut head_fields = Self { host: b"", accept: b"", close: false };
        let mut hosts = 0;
        for field in fields {
            // By length first: most fields are told apart from these by it alone.
            match field.name.len() {
                4 if is(field, "host") => {
                    head_fields.host = field.value;
                    hosts += 1;
                }
                6 if is(field, "accept") => head_fields.accept = field.value,
                6 if is(field, "expect") => return None,
                7 if is(field, "upgrade") => return None,
                10 if is(field, "connection") => {
                    if field.value.eq_ignore_ascii_case(b"close") {
                        head_fields.close = true;
                    } else if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                        return None;
                    }
                }
                14 if is(field, "content-length") => return None,
                17 if is(field, "transfer-encoding") => return None,
                _ => seen.note(field.name.as_bytes(), field.value),
            }
        }
        (hosts == 1).then_some(head_fields)
    }

    fn html(&self) -> bool {
        accepts_html(self.accept)
    }
}

fn is(field: &httparse::Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

/// Whether a browser is asking.
pub fn accepts_html(accept: &[u8]) -> bool {
    const HTML: &[u8] = b"text/html";
    accept.windows(HTML.len()).any(|window| window.eq_ignore_ascii_case(HTML))
}
