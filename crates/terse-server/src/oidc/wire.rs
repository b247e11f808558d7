//! The way to the provider. It is the operator's choice, so it may be on a private network; but it
//! has little time and space, and is followed nowhere else.

use std::io;
use std::time::Duration;

use openidconnect::{HttpRequest, HttpResponse};

/// How long one request may take.
const TIME: Duration = Duration::from_secs(5);
/// How long an answer may be.
const MAX_RESPONSE_SIZE: u64 = 1 << 20;

pub(super) struct Wire(ureq::Agent);

impl Wire {
    /// Plain http is spoken only where the issuer has no other.
    pub(super) fn new(issuer: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIME))
            .max_redirects(0)
            .http_status_as_error(false)
            .https_only(!issuer.starts_with("http:"))
            .proxy(None)
            .user_agent(concat!("terse/", env!("CARGO_PKG_VERSION")))
            .build();
        Self(config.into())
    }

    /// Blocks. The error holds no URL, since its query may hold a code.
    pub(super) fn carry(&self, request: HttpRequest) -> Result<HttpResponse, io::Error> {
        let sent = match request.body().is_empty() {
            true => self.0.run(request.map(|_| ())),
            false => self.0.run(request),
        };
        let (head, mut body) = sent.map_err(plain)?.into_parts();
        let body = body.with_config().limit(MAX_RESPONSE_SIZE).read_to_vec().map_err(plain)?;
        Ok(HttpResponse::from_parts(head, body))
    }
}

fn plain(error: ureq::Error) -> io::Error {
    match error {
        ureq::Error::Io(error) => error,
        ureq::Error::Timeout(_) => io::ErrorKind::TimedOut.into(),
        ureq::Error::BodyExceedsLimit(_) => io::Error::other("the answer is too long"),
        ureq::Error::RequireHttpsOnly(_) => io::Error::other("it is not https"),
        _ => io::Error::other("it cannot be reached, or speaks otherwise than agreed"),
    }
}
