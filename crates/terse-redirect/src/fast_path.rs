//! The fast path: from the bytes of a request to the bytes of its answer, from memory alone.
//!
//! [`answer`] is a function of the bytes, the client's address, the cached routes and the time. It
//! neither waits nor logs. It leaves all unusual requests (another method or version, a body, an
//! upgrade, an unknown `Host`, an escaped path) to hyper by [`FastPathResult::HandOver`], so that
//! HTTP's special cases are handled in one place.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use terse_core::{Answered, PageLanguage, VisitDecision};

use crate::client_addr::ClientAddr;
use crate::edge;
use crate::now::ClockReading;
use crate::redirector::{LinkUnavailable, Redirector};
use crate::route::Route;
use crate::settings::ErrorStyle;
use crate::transport_security::is_https;
use crate::visitor_headers::VisitorHeaders;

/// Requests with a longer head go to hyper, which enforces the limits.
pub(crate) const MAX_HEAD: usize = 8 * 1024;
const MAX_FIELDS: usize = 64;

/// What the fast path did with the first request in the bytes.
#[derive(Debug)]
pub enum FastPathResult {
    /// It appended the answer.
    Answered(AnsweredRequest),
    /// It needs the rest of the head.
    Incomplete,
    /// The link is not in memory.
    Miss(CacheMiss),
    /// The request is for hyper.
    HandOver,
}

/// An answered request.
#[derive(Debug)]
pub struct AnsweredRequest {
    /// The length of the request.
    pub used: usize,
    /// What the visitor was answered.
    pub answered: Answered,
    /// Whether to close the connection after the answer.
    pub close: bool,
    /// A route to refresh in the background.
    pub refresh: Option<Route>,
    /// The owner of the followed link; 0 without one.
    pub owner: u64,
    /// When the followed link was created, in milliseconds; 0 without one.
    pub created_ms: i64,
    /// The route, if the requested code differs from the link's own code by case.
    pub canonical_code: Option<Route>,
}

/// What a click records of its request.
#[derive(Debug, Default)]
pub struct LinkRequest<'a> {
    /// The number of the domain.
    pub domain: u16,
    /// The code in the request.
    pub code: &'a str,
    /// The query, without the question mark.
    pub query: Option<&'a str>,
    /// The headers that a click records.
    pub headers: VisitorHeaders<'a>,
}

/// A link to look up.
#[derive(Debug)]
pub struct CacheMiss {
    /// The number of the domain.
    pub domain: u16,
    /// The position of the code in the bytes.
    pub code: std::ops::Range<usize>,
}

/// The time of a request, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub struct RequestTime<'a> {
    /// On both clocks.
    pub now: ClockReading,
    /// The whole `Date` line, and what else ends every head.
    pub date: &'a [u8],
    /// Whether the server is stopping: connections close after the answer.
    pub closing: bool,
}

/// Answers the first request in `bytes` by appending to `out`. `lookup` is the result of the
/// lookup that an earlier [`FastPathResult::Miss`] for the same bytes asked for. An answered
/// request is described in `request`, an out parameter because a returned value of that size would
/// be copied. The limiter counts a request when it is answered, and not when it is left to hyper.
pub fn answer<'a>(
    bytes: &'a [u8],
    redirector: &Redirector,
    client_addr: &ClientAddr,
    time: RequestTime<'_>,
    lookup: Option<&Result<Route, LinkUnavailable>>,
    request: &mut LinkRequest<'a>,
    out: &mut Vec<u8>,
) -> FastPathResult {
    let RequestTime { now, date, closing } = time;
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let used = match parsed.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(used)) if used <= MAX_HEAD => used,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => {
            return FastPathResult::Incomplete;
        }
        _ => return FastPathResult::HandOver,
    };
    let (Some("GET"), Some(1), Some(target)) = (parsed.method, parsed.version, parsed.path) else {
        return FastPathResult::HandOver;
    };
    let Some((code, query)) = split_target(target) else { return FastPathResult::HandOver };
    let checks_scheme = redirector.settings.hsts.is_some() && client_addr.is_trusted_proxy();
    let Some(head) = RequestHead::of(parsed.headers, &mut request.headers, checks_scheme) else {
        return FastPathResult::HandOver;
    };
    let Some(domain) = redirector.hosts.domain(head.host) else { return FastPathResult::HandOver };
    let close = head.close || closing;
    (request.domain, request.code, request.query) = (domain, code, query);

    let fail = |answered: Answered, out: &mut Vec<u8>| {
        write_failure(redirector, request, answered, &head, (date, close), out);
        FastPathResult::Answered(AnsweredRequest {
            used,
            answered,
            close,
            refresh: None,
            owner: 0,
            created_ms: 0,
            canonical_code: None,
        })
    };
    let client = || client_addr.client(&redirector.settings.proxies, &request.headers);
    let respond = |route: &Route, out: &mut Vec<u8>| {
        let answered = match route.head().decision {
            VisitDecision::Redirect => Answered::Redirected,
            VisitDecision::RedirectWithQuery if query.is_none_or(str::is_empty) => {
                Answered::Redirected
            }
            VisitDecision::NotFound => Answered::NotFound,
            VisitDecision::Gone => Answered::Gone,
            VisitDecision::UsedUp => Answered::UsedUp,
            VisitDecision::Blocked => Answered::Blocked,
            VisitDecision::RedirectWithQuery
            | VisitDecision::RedirectByRules
            | VisitDecision::RedirectOrPreview
            | VisitDecision::RedirectIfSpent
            | VisitDecision::Warning
            | VisitDecision::Password => return FastPathResult::HandOver,
        };
        if answered == Answered::Redirected {
            if redirector.limiter.limits_redirects
                && let Some(limit) = redirector.limiter.redirect(
                    client(),
                    redirector.number_of(route),
                    now.steady_ms,
                )
            {
                return fail(Answered::Limited(limit), out);
            }
            let [own, shared] = route.redirect();
            out.extend_from_slice(own);
            out.extend_from_slice(shared);
            end_head(date, close, out);
            let refresh = route.wants_refresh(now).then(|| route.clone());
            let canonical_code = route.canonical_code().map(|_| route.clone());
            let (owner, created_ms) = (route.head().owner, route.head().created_ms);
            return FastPathResult::Answered(AnsweredRequest {
                used,
                answered,
                close,
                refresh,
                owner,
                created_ms,
                canonical_code,
            });
        }
        if redirector.settings.errors == ErrorStyle::Page {
            return FastPathResult::HandOver;
        }
        if answered == Answered::NotFound
            && let Some(limit) = redirector.limiter.count_unknown_code(client, now.steady_ms)
        {
            return fail(Answered::Limited(limit), out);
        }
        fail(answered, out)
    };

    match lookup {
        Some(Ok(route)) => return respond(route, out),
        Some(Err(LinkUnavailable)) => return fail(Answered::Unavailable, out),
        None => {}
    }
    let name = redirector.routes.name(domain, code.as_bytes());
    let step = redirector.routes.with(name, domain, code.as_bytes(), |route| {
        redirector.is_fresh(route, now).then(|| respond(route, out))
    });
    if let Some(Some(step)) = step {
        return step;
    }
    // Reserved paths are pages of the web plane and never in memory.
    if terse_core::is_reserved(code) {
        return FastPathResult::HandOver;
    }
    if step.is_none()
        && redirector.settings.errors == ErrorStyle::Status
        && redirector.surely_absent(domain, code.as_bytes())
    {
        let limit = redirector.limiter.count_unknown_code(client, now.steady_ms);
        return fail(limit.map_or(Answered::NeverIssued, Answered::Limited), out);
    }
    let start = code.as_ptr() as usize - bytes.as_ptr() as usize;
    FastPathResult::Miss(CacheMiss { domain, code: start..start + code.len() })
}

/// Appends the domain's fallback or the error response. A cold function, so that redirects do not
/// carry its code.
#[cold]
fn write_failure(
    redirector: &Redirector,
    request: &LinkRequest<'_>,
    answered: Answered,
    head: &RequestHead<'_>,
    (date, close): (&[u8], bool),
    out: &mut Vec<u8>,
) {
    let &LinkRequest { domain, code, .. } = request;
    if !redirector.fallbacks.write(domain, answered, code, (date, close), out) {
        let page = head.html().then(|| PageLanguage::preferred(request.headers.languages));
        let name = redirector.hosts.name(domain);
        let edge = edge::missing_lines(answered, name.as_str(), code, &redirector.settings);
        let date = edge.map_or(Cow::Borrowed(date), |lines| [&*lines, date].concat().into());
        redirector
            .error_responses
            .with(|responses| responses.write(answered, page, &date, close, out));
    }
}

/// Ends a head: the date, `connection: close` if wanted, the blank line.
pub(crate) fn end_head(date: &[u8], close: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(date);
    out.extend_from_slice(if close { b"connection: close\r\n\r\n" } else { b"\r\n" });
}

/// Splits `/code` or `/code?query`. `None` if the path is not shaped like a code, or for `?report`,
/// which is a page.
fn split_target(target: &str) -> Option<(&str, Option<&str>)> {
    let rest = target.strip_prefix('/')?;
    // A plain loop: the path is short, and a searcher costs more to set up than the search itself.
    let (code, query) = match rest.bytes().position(|byte| byte == b'?') {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    (terse_core::Code::has_code_form(code.as_bytes()) && query != Some("report"))
        .then_some((code, query))
}

/// The header fields that the fast path needs.
struct RequestHead<'a> {
    host: &'a [u8],
    accept: &'a [u8],
    close: bool,
}

impl<'a> RequestHead<'a> {
    /// Reads the fields; those that a click records go to `headers`. `None` if a field makes the
    /// request one for hyper. `checks_scheme` if the answer to a visitor without https differs.
    fn of(
        fields: &[httparse::Header<'a>],
        headers: &mut VisitorHeaders<'a>,
        checks_scheme: bool,
    ) -> Option<Self> {
        let mut head = Self { host: b"", accept: b"", close: false };
        let mut hosts = 0;
        for field in fields {
            // The length comes first: it rules out most fields without a comparison.
            match field.name.len() {
                4 if is(field, "host") => {
                    head.host = field.value;
                    hosts += 1;
                }
                6 if is(field, "accept") => head.accept = field.value,
                6 if is(field, "expect") => return None,
                7 if is(field, "upgrade") => return None,
                10 if is(field, "connection") => {
                    if field.value.eq_ignore_ascii_case(b"close") {
                        head.close = true;
                    } else if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                        return None;
                    }
                }
                14 if is(field, "content-length") => return None,
                17 if is(field, "transfer-encoding") => return None,
                17 if checks_scheme && is(field, "x-forwarded-proto") && !is_https(field.value) => {
                    return None;
                }
                _ => headers.read(field.name.as_bytes(), field.value),
            }
        }
        (hosts == 1).then_some(head)
    }

    fn html(&self) -> bool {
        accepts_html(self.accept)
    }
}

fn is(field: &httparse::Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

/// Whether an `Accept` value admits HTML, as that of a browser does.
pub fn accepts_html(accept: &[u8]) -> bool {
    const HTML: &[u8] = b"text/html";
    accept.windows(HTML.len()).any(|window| window.eq_ignore_ascii_case(HTML))
}
