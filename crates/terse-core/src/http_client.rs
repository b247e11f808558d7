//! The contract of the client for requests to servers that terse does not control.

use std::time::Duration;
use std::{fmt, io};

use async_trait::async_trait;

use crate::store::BoxError;

/// Sends requests to other servers, and only to addresses that are public or that the operator
/// allows. Every call ends within its time and reads a bounded body. `terse-outgoing` implements
/// it; jobs and tests need not know how.
#[async_trait]
pub trait HttpClient: Send + Sync {
    /// Gets a document unless it matches the validators, and follows redirects. Any status is a
    /// response, not an error.
    async fn get_if_changed(
        &self,
        url: &str,
        limits: RequestLimits,
        known: &Validators,
    ) -> Result<GetResponse, OutgoingError>;

    /// Gets a document and follows redirects.
    async fn get(&self, url: &str, limits: RequestLimits) -> Result<GetResponse, OutgoingError> {
        self.get_if_changed(url, limits, &Validators::default()).await
    }

    /// Posts a body and reads the status of the response. Redirects are not followed.
    async fn post(
        &self,
        url: &str,
        content_type: &str,
        body: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Result<PostResponse, OutgoingError>;
}

/// Sends single requests to a server that the operator chose and returns the whole responses, under
/// the guard of [`HttpClient`]. Redirects are not followed.
#[async_trait]
pub trait HttpExchange: Send + Sync {
    /// Sends a request. Any status is a response, not an error.
    async fn exchange(
        &self,
        request: ExchangeRequest,
        limits: RequestLimits,
    ) -> Result<ExchangeResponse, OutgoingError>;
}

/// What a request of [`HttpExchange`] does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExchangeMethod {
    /// Reads a document.
    Get,
    /// Reads the header of one.
    Head,
    /// Sends a body of this content type.
    Post(String, Vec<u8>),
}

/// A request of [`HttpExchange`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExchangeRequest {
    /// Where it goes.
    pub url: String,
    /// What it does.
    pub method: ExchangeMethod,
}

/// The response of [`HttpExchange`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExchangeResponse {
    /// The status.
    pub status: u16,
    /// The header fields whose values are text.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What to do with a body over the limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OversizePolicy {
    /// Keep the start: a title is near the top.
    Truncate,
    /// Fail: half a blocklist is wrong.
    Refuse,
}

/// The limits of one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestLimits {
    /// From the lookup to the last byte, including redirects.
    pub timeout: Duration,
    /// The maximum body size in bytes. With 0 the body is not read.
    pub max_body: usize,
    /// What to do with a longer body.
    pub oversize: OversizePolicy,
}

impl RequestLimits {
    /// A web page: its first 64 KiB within 2 s.
    pub const PAGE: Self = Self {
        timeout: Duration::from_secs(2),
        max_body: 64 << 10,
        oversize: OversizePolicy::Truncate,
    };
    /// Only whether the server responds within 2 s.
    pub const REACHABILITY: Self =
        Self { timeout: Duration::from_secs(2), max_body: 0, oversize: OversizePolicy::Truncate };
    /// A document of an API: 1 MiB within 10 s, never truncated.
    pub const DOCUMENT: Self = Self {
        timeout: Duration::from_secs(10),
        max_body: 1 << 20,
        oversize: OversizePolicy::Refuse,
    };
    /// A blocklist: 64 MiB within a minute, never truncated.
    pub const FEED: Self = Self {
        timeout: Duration::from_secs(60),
        max_body: 64 << 20,
        oversize: OversizePolicy::Refuse,
    };
}

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
}

/// Why a call failed. No variant holds a URL: its query may be a secret, and errors are logged.
#[derive(Debug, thiserror::Error)]
pub enum OutgoingError {
    /// The URL or request is not allowed. No connection was made.
    #[error("the request is not allowed: {0}")]
    NotAllowed(&'static str),
    /// The host has an address that is not public. No connection was made.
    #[error("the host does not have a public address")]
    RefusedAddress,
    /// The name does not exist, or the connection failed.
    #[error("the server cannot be reached")]
    Unreachable(#[source] io::Error),
    /// The certificate is not trusted for this name, or the server does not speak TLS.
    #[error("the server's TLS certificate is not trusted")]
    Untrusted(#[source] BoxError),
    /// The deadline passed while resolving, connecting or reading.
    #[error("the server did not answer in time")]
    Timeout,
    /// The body exceeds the limit.
    #[error("the response is longer than {limit} bytes")]
    TooLarge {
        /// The maximum body size.
        limit: usize,
    },
    /// More redirects than are followed.
    #[error("the server redirects too often")]
    TooManyRedirects,
    /// A redirect to a URL that is not allowed.
    #[error("the redirect is not allowed: {0}")]
    BadRedirect(&'static str),
    /// The response is not valid HTTP or not usable.
    #[error("the server's response is invalid: {0}")]
    InvalidResponse(&'static str),
    /// Too many calls are running or queued. No connection was made.
    #[error("too many outgoing requests are queued")]
    Busy,
}

impl OutgoingError {
    /// Whether the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::Untrusted(_)
            | Self::Timeout
            | Self::InvalidResponse(_)
            | Self::Busy => true,
            Self::NotAllowed(_)
            | Self::RefusedAddress
            | Self::TooLarge { .. }
            | Self::TooManyRedirects
            | Self::BadRedirect(_) => false,
        }
    }

    /// A stable name for metrics and delivery logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) => "not_allowed",
            Self::RefusedAddress => "refused_address",
            Self::Unreachable(_) => "unreachable",
            Self::Untrusted(_) => "untrusted",
            Self::Timeout => "too_slow",
            Self::TooLarge { .. } => "too_large",
            Self::TooManyRedirects => "too_many_redirects",
            Self::BadRedirect(_) => "bad_redirect",
            Self::InvalidResponse(_) => "bad_answer",
            Self::Busy => "busy",
        }
    }
}
