//! What came back.

use std::fmt;
use std::time::Duration;

use ureq::http::{HeaderMap, HeaderName, StatusCode, header};

/// Longer header values are of no use to anyone here.
const MAX_VALUE_LEN: usize = 1024;
/// A server may ask us to stay away, but not for ever.
const MAX_PAUSE: u64 = 86_400;

/// What tells whether a document has changed since it was last fetched.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Validators {
    /// The `ETag`, as the server wrote it.
    pub etag: Option<String>,
    /// The `Last-Modified`, as the server wrote it.
    pub last_modified: Option<String>,
}

/// The answer to a get.
#[derive(Clone, Eq, PartialEq)]
pub struct Fetched {
    /// Where the answer came from, after redirects.
    pub url: String,
    /// The status: any, also 404 and 500.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: Option<String>,
    /// To ask next time whether anything has changed.
    pub validators: Validators,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// The body was longer than wanted, and the rest was not read.
    pub truncated: bool,
}

impl Fetched {
    /// What was fetched earlier still holds (304).
    pub fn is_unchanged(&self) -> bool {
        self.status == 304
    }

    /// The server says all is well (2xx).
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

/// Without query and body: either may hold secrets, and debug output may reach a log.
impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched")
            .field("url", &self.url.split(['?', '#']).next().unwrap_or_default())
            .field("status", &self.status)
            .field("content_type", &self.content_type)
            .field("bytes", &self.body.len())
            .field("truncated", &self.truncated)
            .finish_non_exhaustive()
    }
}

/// The answer to a post. Its body is not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Posted {
    /// The status: any, also a redirect, which is not followed.
    pub status: u16,
    /// How long the server asks us to wait before the next post; at most a day.
    pub retry_after: Option<Duration>,
}

impl Posted {
    /// The server has taken it (2xx).
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let retry_after = text(headers, &header::RETRY_AFTER)
            .and_then(|seconds| seconds.parse::<u64>().ok())
            .map(|seconds| Duration::from_secs(seconds.min(MAX_PAUSE)));
        Self { status: status.as_u16(), retry_after }
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (1..=MAX_VALUE_LEN).contains(&value.len()).then(|| value.to_owned())
}
