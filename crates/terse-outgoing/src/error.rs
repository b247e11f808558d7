//! Maps the errors of ureq.

use std::io;

use terse_core::OutgoingError;

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
