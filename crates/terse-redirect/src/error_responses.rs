//! Answers that are the same for everyone: failures, ready to be copied.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use terse_core::clicks::ClickOutcome;
use terse_core::limits::Limit;

use crate::settings::Settings;

/// What went wrong with a visit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// 404.
    NotFound,
    /// 410.
    Gone,
    /// 451.
    Blocked,
    /// 503.
    Unavailable,
    /// 429: one source asks for too much that is not there.
    TooManyGuesses,
    /// 429: one source follows links too often.
    TooManyVisits,
    /// 429: one link is followed too often.
    TooManyVisitors,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NotFound,
        Self::Gone,
        Self::Blocked,
        Self::Unavailable,
        Self::TooManyGuesses,
        Self::TooManyVisits,
        Self::TooManyVisitors,
    ];

    /// Whether it is 429.
    pub(crate) fn is_limited(self) -> bool {
        matches!(self, Self::TooManyGuesses | Self::TooManyVisits | Self::TooManyVisitors)
    }

    /// Which limit it is about.
    fn limit(self, settings: &Settings) -> Limit {
        match self {
            Self::TooManyGuesses => settings.guesses_per_address,
            Self::TooManyVisits => settings.redirect_per_address,
            Self::TooManyVisitors => settings.redirect_per_code,
            Self::NotFound | Self::Gone | Self::Blocked | Self::Unavailable => Limit::OFF,
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Gone => StatusCode::GONE,
            Self::Blocked => StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooManyGuesses | Self::TooManyVisits | Self::TooManyVisitors => {
                StatusCode::TOO_MANY_REQUESTS
            }
        }
    }

    /// What the journal says of it. Nothing if the visit was not answered: whether there is such a
    /// link is not known, or we do not say.
    pub(crate) fn outcome(self) -> Option<ClickOutcome> {
        match self {
            Self::NotFound => Some(ClickOutcome::NotFound),
            Self::Gone => Some(ClickOutcome::Gone),
            Self::Blocked => Some(ClickOutcome::Blocked),
            Self::Unavailable
            | Self::TooManyGuesses
            | Self::TooManyVisits
            | Self::TooManyVisitors => None,
        }
    }

    /// The stable word for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Gone => "expired",
            Self::Blocked => "blocked",
            Self::Unavailable => "store_unavailable",
            Self::TooManyGuesses | Self::TooManyVisits | Self::TooManyVisitors => "rate_limited",
        }
    }

    fn problem(self) -> String {
        let (title, detail) = match self {
            Self::NotFound => ("Not found", "There is no such link."),
            Self::Gone => ("Expired", "This link has expired."),
            Self::Blocked => ("Blocked", "This link was blocked."),
            Self::Unavailable => (
                "Unavailable",
                "The link cannot be looked up right now. Please try again in a moment.",
            ),
            Self::TooManyGuesses => (
                "Too many requests",
                "Too many links were asked for that do not exist. Please wait.",
            ),
            Self::TooManyVisits => (
                "Too many requests",
                "Too many links were followed from this address. Please wait.",
            ),
            Self::TooManyVisitors => {
                ("Too many requests", "This link is followed too often. Please try again later.")
            }
        };
        let (status, code) = (self.status().as_u16(), self.code());
        format!(
            r#"{{"type":"about:blank","title":"{title}","status":{status},"code":"{code}","detail":"{detail}","field":null}}"#
        )
    }
}

/// The pages people see, as HTML, and the policy they are served under.
#[derive(Clone, Debug, Default)]
pub struct FailurePages {
    /// For 404.
    pub not_found: String,
    /// For 410.
    pub gone: String,
    /// For 451.
    pub blocked: String,
    /// For 503.
    pub unavailable: String,
    /// For 429.
    pub limited: String,
    /// The `Content-Security-Policy` of all of them.
    pub policy: String,
}

/// One failure in one shape: as a whole response, and as the bytes of one.
pub(crate) struct Ready {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// Status line and fields, without `Date` and the blank line.
    head: Vec<u8>,
}

/// Every failure, for browsers and for programs.
pub struct ErrorResponses {
    ready: Vec<[Ready; 2]>,
}

impl ErrorResponses {
    /// Writes them all.
    pub fn new(pages: &FailurePages, settings: &Settings) -> Self {
        let ready = Failure::ALL.map(|failure| {
            let page = match failure {
                Failure::NotFound => &pages.not_found,
                Failure::Gone => &pages.gone,
                Failure::Blocked => &pages.blocked,
                Failure::Unavailable => &pages.unavailable,
                Failure::TooManyGuesses | Failure::TooManyVisits | Failure::TooManyVisitors => {
                    &pages.limited
                }
            };
            let (problem, limit) = (failure.problem(), failure.limit(settings));
            [
                Ready::new(failure, limit, "application/problem+json", problem, None),
                Ready::new(
                    failure,
                    limit,
                    "text/html; charset=utf-8",
                    page.clone(),
                    Some(&pages.policy),
                ),
            ]
        });
        Self { ready: ready.into() }
    }

    /// Appends a failure, with a `Date` line and what ends the head.
    pub(crate) fn write(
        &self,
        failure: Failure,
        html: bool,
        date: &[u8],
        close: bool,
        out: &mut Vec<u8>,
    ) {
        self.pick(failure, html).write(date, close, out);
    }

    /// A failure as a response.
    pub(crate) fn response(&self, failure: Failure, html: bool) -> Response<Bytes> {
        self.pick(failure, html).response()
    }

    fn pick(&self, failure: Failure, html: bool) -> &Ready {
        &self.ready[failure as usize][usize::from(html)]
    }
}

impl Ready {
    fn new(
        failure: Failure,
        limit: Limit,
        kind: &'static str,
        body: String,
        policy: Option<&str>,
    ) -> Self {
        let status = failure.status();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("private, max-age=0, no-store"),
        );
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        if failure == Failure::Unavailable {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if !limit.is_off() {
            // The same for everyone, so that it can be written beforehand: after so long there is a
            // token again in any case.
            let seconds = limit.interval().as_millis().div_ceil(1000).max(1);
            let seconds = HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX));
            headers.insert(header::RETRY_AFTER, seconds.clone());
            headers.insert("ratelimit-limit", limit.count().into());
            headers.insert("ratelimit-remaining", HeaderValue::from_static("0"));
            headers.insert("ratelimit-reset", seconds);
        }
        if let Some(policy) = policy.and_then(|policy| HeaderValue::from_str(policy).ok()) {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        }
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        let head = write_head(status, &headers);
        Self { status, headers, body: body.into(), head }
    }

    /// A redirect that is not a link's. `None` if a header cannot say where to.
    pub(crate) fn elsewhere(location: &str) -> Option<Self> {
        let (status, mut headers) = (StatusCode::FOUND, HeaderMap::new());
        headers.insert(header::LOCATION, HeaderValue::from_str(location).ok()?);
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("private, max-age=0, no-store"),
        );
        headers.insert("x-robots-tag", HeaderValue::from_static("noindex"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        let head = write_head(status, &headers);
        Some(Self { status, headers, body: Bytes::new(), head })
    }

    /// Appends it, with a `Date` line and what ends the head.
    pub(crate) fn write(&self, date: &[u8], close: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        crate::fast_path::end_head(date, close, out);
        out.extend_from_slice(&self.body);
    }

    /// As a response.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.body.clone());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// The status line and the fields, each ended.
fn write_head(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head
}
