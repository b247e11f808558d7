//! The id of a request, in its response, in problems and in the log.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::host::hex;

/// The header that carries the id.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Which requests to the API and the pages are logged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RequestLog {
    /// None.
    #[default]
    Off,
    /// Those that can change something.
    Writes,
    /// All.
    All,
}

/// Names a request: with the id that a proxy or client sent, or else with a new one.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(String);

impl RequestId {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(HEADER).and_then(|value| value.to_str().ok());
        let is_plain = |id: &&str| {
            (1..=64).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        Self(sent.filter(is_plain).map_or_else(generated, str::to_owned))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(&self.0).ok()
    }
}

/// 64 random bits; without random numbers a request has a fixed id rather than none.
fn generated() -> String {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    hex(&bytes)
}
