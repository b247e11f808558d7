//! Errors of outgoing requests.

use std::io;

use terse_core::BoxError;

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

/// Maps ureq's errors. Only errors that cannot contain a URL become a source.
pub(crate) fn from_ureq(error: ureq::Error, tls: bool) -> OutgoingError {
    match error {
        ureq::Error::Timeout(_) => OutgoingError::Timeout,
        ureq::Error::Io(error) => from_io(error, tls),
        ureq::Error::Rustls(error) => OutgoingError::Untrusted(error.into()),
        ureq::Error::Tls(text) => OutgoingError::Untrusted(text.into()),
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
            OutgoingError::Unreachable(io::ErrorKind::NotFound.into())
        }
        ureq::Error::LargeResponseHeader(..) => {
            OutgoingError::InvalidResponse("the header is too long")
        }
        _ => OutgoingError::InvalidResponse("not valid HTTP"),
    }
}

fn from_io(error: io::Error, tls: bool) -> OutgoingError {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => OutgoingError::Timeout,
        io::ErrorKind::InvalidData if tls => OutgoingError::Untrusted(error.into()),
        io::ErrorKind::UnexpectedEof => {
            OutgoingError::InvalidResponse("unexpected end of the response")
        }
        io::ErrorKind::InvalidData | io::ErrorKind::Other => {
            OutgoingError::InvalidResponse("not valid HTTP")
        }
        _ => OutgoingError::Unreachable(error),
    }
}
