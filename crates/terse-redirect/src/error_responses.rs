//! Responses to visitors who are not redirected, written once at the start and copied per visit.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use terse_core::limits::Limit;
use terse_core::{Answered, ExceededLimit, PageLanguage};

use crate::settings::RedirectSettings;

/// The answers that have a prepared response, in the order of [`index`].
const PREPARED: [Answered; 9] = [
    Answered::NotFound,
    Answered::Gone,
    Answered::Blocked,
    Answered::Unavailable,
    Answered::Limited(ExceededLimit::Guesses),
    Answered::Limited(ExceededLimit::RedirectsPerAddress),
    Answered::Limited(ExceededLimit::RedirectsPerLink),
    Answered::UsedUp,
    Answered::PrefetchRefused,
];

/// The place of an answer in [`PREPARED`]. Redirects and pages of the web plane are not prepared
/// here; asking for one returns the place of 404.
fn index(answered: Answered) -> usize {
    match answered {
        Answered::NotFound
        | Answered::NeverIssued
        | Answered::Redirected
        | Answered::Previewed
        | Answered::Warned
        | Answered::PasswordAsked
        | Answered::WrongMethod => 0,
        Answered::Gone => 1,
        Answered::Blocked => 2,
        Answered::Unavailable => 3,
        Answered::Limited(ExceededLimit::Guesses) => 4,
        Answered::Limited(ExceededLimit::RedirectsPerAddress) => 5,
        Answered::Limited(ExceededLimit::RedirectsPerLink) => 6,
        Answered::UsedUp => 7,
        Answered::PrefetchRefused => 8,
    }
}

/// The HTML pages for browsers in all languages, and the policy they are served under.
#[derive(Clone, Debug, Default)]
pub struct FailurePages {
    /// The pages, by language.
    pub pages: [LanguagePages; PageLanguage::COUNT],
    /// Where to ask about a blocked link, for programs. The page has it already.
    pub contact: Option<String>,
    /// The `Content-Security-Policy` of all pages.
    pub policy: String,
}

/// The HTML pages in one language.
#[derive(Clone, Debug, Default)]
pub struct LanguagePages {
    /// For 404.
    pub not_found: String,
    /// For 410, if the link has expired.
    pub gone: String,
    /// For 410, if the link has no clicks left.
    pub used_up: String,
    /// For 451.
    pub blocked: String,
    /// For 503.
    pub unavailable: String,
    /// For 429.
    pub limited: String,
}

/// The page of an answer.
type PageOf = fn(&LanguagePages) -> &String;

/// What one answer says: its status, its limit, and its texts for programs and browsers.
struct Description {
    status: StatusCode,
    limit: Limit,
    title: &'static str,
    detail: Cow<'static, str>,
    page: PageOf,
}

fn describe(answered: Answered, pages: &FailurePages, settings: &RedirectSettings) -> Description {
    let (status, title, detail, page): (_, _, _, PageOf) = match answered {
        Answered::Gone => {
            (StatusCode::GONE, "Expired", "This link has expired.", |pages| &pages.gone)
        }
        Answered::UsedUp => (
            StatusCode::GONE,
            "Used up",
            "This link has been followed as often as its owner allowed.",
            |pages| &pages.used_up,
        ),
        Answered::PrefetchRefused => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Not prefetched",
            "This link has a limited number of clicks. A prefetch does not spend one.",
            |pages| &pages.unavailable,
        ),
        Answered::Blocked => (
            StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS,
            "Blocked",
            "This link was blocked.",
            |pages| &pages.blocked,
        ),
        Answered::Unavailable => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Unavailable",
            "The link cannot be looked up right now. Please try again in a moment.",
            |pages| &pages.unavailable,
        ),
        Answered::Limited(limit) => {
            let detail = match limit {
                ExceededLimit::Guesses => {
                    "There were too many requests for links that do not exist. Please wait."
                }
                ExceededLimit::RedirectsPerAddress => {
                    "Too many links were followed from this address. Please wait."
                }
                ExceededLimit::RedirectsPerLink => {
                    "This link is followed too often. Please try again later."
                }
            };
            (StatusCode::TOO_MANY_REQUESTS, "Too many requests", detail, |pages| &pages.limited)
        }
        Answered::NotFound
        | Answered::NeverIssued
        | Answered::Redirected
        | Answered::Previewed
        | Answered::Warned
        | Answered::PasswordAsked
        | Answered::WrongMethod => {
            (StatusCode::NOT_FOUND, "Not found", "There is no such link.", |pages| &pages.not_found)
        }
    };
    let limit = match answered {
        Answered::Limited(ExceededLimit::Guesses) => settings.guesses_per_address,
        Answered::Limited(ExceededLimit::RedirectsPerAddress) => settings.redirect_per_address,
        Answered::Limited(ExceededLimit::RedirectsPerLink) => settings.redirect_per_code,
        _ => Limit::OFF,
    };
    let detail = match &pages.contact {
        Some(contact) if answered == Answered::Blocked => {
            // The detail is part of a JSON string.
            let contact = contact.replace('\\', "\\\\").replace('"', "\\\"");
            format!("{detail} If you think that this is a mistake, contact {contact}.").into()
        }
        _ => detail.into(),
    };
    Description { status, limit, title, detail, page }
}

/// One response: as parts for hyper, and as bytes for the fast path.
#[derive(Clone)]
pub(crate) struct PreparedResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// Status line and fields, without `Date` and the blank line.
    head: Vec<u8>,
}

/// All prepared responses, each as a problem document and as a page in every language.
pub struct ErrorResponses {
    responses: Vec<ErrorResponse>,
}

/// The responses in force. Serving threads read them without a lock.
pub(crate) struct CurrentResponses {
    /// One entry, under 0.
    current: papaya::HashMap<u8, ErrorResponses, foldhash::fast::RandomState>,
}

impl CurrentResponses {
    pub(crate) fn new(responses: ErrorResponses) -> Self {
        let current = Self { current: papaya::HashMap::default() };
        current.replace(responses);
        current
    }

    pub(crate) fn replace(&self, responses: ErrorResponses) {
        self.current.pin().insert(0, responses);
    }

    /// Reads the responses. There are always some: they are replaced, never removed.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&ErrorResponses) -> T) -> T {
        let pinned = self.current.pin();
        read(pinned.get(&0).expect("the responses are never removed"))
    }
}

/// One response in all its forms.
struct ErrorResponse {
    problem: PreparedResponse,
    pages: [PreparedResponse; PageLanguage::COUNT],
}

impl ErrorResponses {
    /// Writes all responses.
    pub fn new(pages: &FailurePages, settings: &RedirectSettings) -> Self {
        let prepare = |answered: Answered| {
            let description = describe(answered, pages, settings);
            let Description { status, title, ref detail, page, .. } = description;
            let (number, code) = (status.as_u16(), answered.as_str());
            let problem = format!(
                concat!(
                    r#"{{"type":"about:blank","title":"{title}","status":{number},"#,
                    r#""code":"{code}","detail":"{detail}","field":null,"request_id":null}}"#
                ),
                title = title,
                number = number,
                code = code,
                detail = detail
            );
            let (json, html) = ("application/problem+json", "text/html; charset=utf-8");
            ErrorResponse {
                problem: PreparedResponse::new(&description, json, problem, None),
                pages: PageLanguage::ALL.map(|language| {
                    let body = page(&pages.pages[language as usize]).clone();
                    let form = Some((language, pages.policy.as_str()));
                    PreparedResponse::new(&description, html, body, form)
                }),
            }
        };
        Self { responses: PREPARED.map(prepare).into() }
    }

    /// Appends a response, with the `Date` line and the end of the head.
    pub(crate) fn write(
        &self,
        answered: Answered,
        page: Option<PageLanguage>,
        date: &[u8],
        close: bool,
        out: &mut Vec<u8>,
    ) {
        self.get(answered, page).write(date, close, out);
    }

    /// A response for hyper.
    pub(crate) fn response(
        &self,
        answered: Answered,
        page: Option<PageLanguage>,
    ) -> Response<Bytes> {
        self.get(answered, page).response()
    }

    /// The page in this language, or the problem document.
    fn get(&self, answered: Answered, page: Option<PageLanguage>) -> &PreparedResponse {
        let response = &self.responses[index(answered)];
        match page {
            Some(language) => &response.pages[language as usize],
            None => &response.problem,
        }
    }
}

impl PreparedResponse {
    fn new(
        description: &Description,
        content_type: &'static str,
        body: String,
        page: Option<(PageLanguage, &str)>,
    ) -> Self {
        let &Description { status, limit, .. } = description;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("private, max-age=0, no-store"),
        );
        headers.insert(header::VARY, HeaderValue::from_static("accept, accept-language"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if !limit.is_off() {
            // The same value for all visitors, so that the response can be prepared: after one
            // interval the bucket has a token in any case.
            let seconds = limit.interval().as_millis().div_ceil(1000).max(1);
            let seconds = HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX));
            headers.insert(header::RETRY_AFTER, seconds.clone());
            headers.insert("ratelimit-limit", limit.count().into());
            headers.insert("ratelimit-remaining", HeaderValue::from_static("0"));
            headers.insert("ratelimit-reset", seconds);
        }
        if let Some((language, policy)) = page {
            let tag = HeaderValue::from_static(language.tag());
            headers.insert(header::CONTENT_LANGUAGE, tag);
            headers.extend(
                HeaderValue::from_str(policy)
                    .map(|policy| (header::CONTENT_SECURITY_POLICY, policy)),
            );
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        }
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        let head = write_head(status, &headers);
        Self { status, headers, body: body.into(), head }
    }

    /// A redirect to a domain's fallback. `None` if the location is not a valid header value.
    pub(crate) fn redirect_to(location: &str) -> Option<Self> {
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

    /// Appends the response, with the `Date` line and the end of the head.
    pub(crate) fn write(&self, date: &[u8], close: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        crate::fast_path::end_head(date, close, out);
        out.extend_from_slice(&self.body);
    }

    /// The response for hyper.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.body.clone());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// The status line and the fields, each with its line end.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prepared_answer_is_found_at_its_place() {
        for (at, answered) in PREPARED.into_iter().enumerate() {
            assert_eq!(index(answered), at, "{answered:?}");
        }
        assert_eq!(index(Answered::NeverIssued), index(Answered::NotFound));
    }
}
