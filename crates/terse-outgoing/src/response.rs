//! Responses.

use std::fmt;
use std::time::Duration;

use ureq::http::{HeaderMap, HeaderName, StatusCode, header};

/// Longer header values are ignored.
const MAX_VALUE_LEN: usize = 1024;
/// The longest `Retry-After` that is honoured, in seconds.
const MAX_RETRY_AFTER: u64 = 86_400;

/// Validators for conditional requests.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Validators {
    /// The `ETag`, as the server wrote it.
    pub etag: Option<String>,
    /// The `Last-Modified`, as the server wrote it.
    pub last_modified: Option<String>,
}

/// The response to a GET.
#[derive(Clone, Eq, PartialEq)]
pub struct GetResponse {
    /// The URL of the response, after redirects.
    pub url: String,
    /// The status, including errors such as 404 and 500.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: Option<String>,
    /// The validators for the next request.
    pub validators: Validators,
    /// The body, possibly truncated.
    pub body: Vec<u8>,
    /// Whether the body was longer than the limit.
    pub truncated: bool,
}

impl GetResponse {
    /// Whether the document is unchanged (304).
    pub fn is_unchanged(&self) -> bool {
        self.status == 304
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn of(url: &str, status: StatusCode, headers: &HeaderMap) -> Self {
        Self {
            url: url.to_owned(),
            status: status.as_u16(),
            content_type: text(headers, &header::CONTENT_TYPE),
            validators: Validators {
                etag: text(headers, &header::ETAG),
                last_modified: text(headers, &header::LAST_MODIFIED),
            },
            body: Vec::new(),
            truncated: false,
        }
    }
}

/// Omits query and body: either may contain secrets, and debug output may be logged.
impl fmt::Debug for GetResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetResponse")
            .field("url", &self.url.split(['?', '#']).next().unwrap_or_default())
            .field("status", &self.status)
            .field("content_type", &self.content_type)
            .field("bytes", &self.body.len())
            .field("truncated", &self.truncated)
            .finish_non_exhaustive()
    }
}

/// The response to a POST. Its body is not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PostResponse {
    /// The status, including redirects, which are not followed.
    pub status: u16,
    /// The server's `Retry-After`, at most a day.
    pub retry_after: Option<Duration>,
}

impl PostResponse {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let retry_after = text(headers, &header::RETRY_AFTER)
            .and_then(|seconds| seconds.parse::<u64>().ok())
            .map(|seconds| Duration::from_secs(seconds.min(MAX_RETRY_AFTER)));
        Self { status: status.as_u16(), retry_after }
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (1..=MAX_VALUE_LEN).contains(&value.len()).then(|| value.to_owned())
}
