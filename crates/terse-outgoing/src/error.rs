//! What can go wrong outside.

use std::io;

use terse_core::BoxError;

/// Why a call brought nothing. No variant holds a URL: its query may be a secret, and errors reach
/// logs.
#[derive(Debug, thiserror::Error)]
pub enum OutgoingError {
    /// The caller's fault: no attempt was made.
    #[error("this cannot be asked: {0}")]
    NotAllowed(&'static str),
    /// The host is, or has among its addresses, a place that is not on the public Internet. Nothing
    /// was connected.
    #[error("the host does not lead to the public Internet")]
    RefusedAddress,
    /// No such name, or nobody listens.
    #[error("the server cannot be reached")]
    Unreachable(#[source] io::Error),
    /// The certificate is not one we trust for this name, or the other side does not speak TLS.
    #[error("the server could not prove who it is")]
    Untrusted(#[source] BoxError),
    /// The deadline passed: while resolving, connecting, or with an answer that drips.
    #[error("the server did not answer in time")]
    TooSlow,
    /// More than the limits allow.
    #[error("the answer is longer than {limit} bytes")]
    TooLarge {
        /// The longest body that was wanted.
        limit: usize,
    },
    /// Round in circles, or nearly.
    #[error("the server redirects too often")]
    TooManyRedirects,
    /// A redirect that is not followed.
    #[error("the server redirects to where we do not go: {0}")]
    BadRedirect(&'static str),
    /// Not HTTP, or not what was agreed.
    #[error("the server's answer cannot be used: {0}")]
    BadAnswer(&'static str),
    /// Too much is under way already. Nothing was connected.
    #[error("too many outgoing requests are waiting")]
    Busy,
}

impl OutgoingError {
    /// Whether the same call may succeed later without anybody changing anything here.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::Untrusted(_)
            | Self::TooSlow
            | Self::BadAnswer(_)
            | Self::Busy => true,
            Self::NotAllowed(_)
            | Self::RefusedAddress
            | Self::TooLarge { .. }
            | Self::TooManyRedirects
            | Self::BadRedirect(_) => false,
        }
    }

    /// A stable word for metrics and for whoever reads a delivery log.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) => "not_allowed",
            Self::RefusedAddress => "refused_address",
            Self::Unreachable(_) => "unreachable",
            Self::Untrusted(_) => "untrusted",
            Self::TooSlow => "too_slow",
            Self::TooLarge { .. } => "too_large",
            Self::TooManyRedirects => "too_many_redirects",
            Self::BadRedirect(_) => "bad_redirect",
            Self::BadAnswer(_) => "bad_answer",
            Self::Busy => "busy",
        }
    }
}

/// From the client's words to ours. Only what cannot quote a URL is kept as a source.
pub(crate) fn from_ureq(error: ureq::Error, tls: bool) -> OutgoingError {
    match error {
        ureq::Error::Timeout(_) => OutgoingError::TooSlow,
        ureq::Error::Io(error) => from_io(error, tls),
        ureq::Error::Rustls(error) => OutgoingError::Untrusted(error.into()),
        ureq::Error::Tls(text) => OutgoingError::Untrusted(text.into()),
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
            OutgoingError::Unreachable(io::ErrorKind::NotFound.into())
        }
        ureq::Error::LargeResponseHeader(..) => OutgoingError::BadAnswer("its head is too long"),
        _ => OutgoingError::BadAnswer("it is not HTTP as we know it"),
    }
}

fn from_io(error: io::Error, tls: bool) -> OutgoingError {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => OutgoingError::TooSlow,
        io::ErrorKind::InvalidData if tls => OutgoingError::Untrusted(error.into()),
        io::ErrorKind::UnexpectedEof => OutgoingError::BadAnswer("it ends too early"),
        io::ErrorKind::InvalidData | io::ErrorKind::Other => {
            OutgoingError::BadAnswer("it is not HTTP as we know it")
        }
        _ => OutgoingError::Unreachable(error),
    }
}
