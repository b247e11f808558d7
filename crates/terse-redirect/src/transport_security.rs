//! `Strict-Transport-Security`, which makes browsers use https only.
//!
//! Without a TLS listener, an https `base_url` means that visitors use https, unless a trusted
//! proxy sends another scheme in `X-Forwarded-Proto`.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY};

use crate::client_addr::{ClientAddr, Transport};

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The field of all answers over https, or nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransportSecurity(Option<HeaderValue>);

impl TransportSecurity {
    pub(crate) fn new(max_age: Option<Duration>) -> Self {
        let value = max_age.map(|age| format!("max-age={}", age.as_secs()));
        Self(value.and_then(|value| HeaderValue::from_str(&value).ok()))
    }

    /// The line for the head of an answer; empty without the field.
    pub(crate) fn line(&self) -> Vec<u8> {
        match &self.0 {
            Some(value) => [b"strict-transport-security: ", value.as_bytes(), b"\r\n"].concat(),
            None => Vec::new(),
        }
    }

    /// The field for the answer to a request with these headers.
    pub(crate) fn field(&self, headers: &HeaderMap, from: &ClientAddr) -> Option<HeaderValue> {
        let value = self.0.as_ref().filter(|_| from.transport() != Transport::Plain)?;
        let mut schemes = headers.get_all(FORWARDED_PROTO).iter();
        let https = !from.is_trusted_proxy() || schemes.all(|scheme| is_https(scheme.as_bytes()));
        https.then(|| value.clone())
    }

    /// Sets the field of an answer.
    pub(crate) fn set(field: Option<HeaderValue>, headers: &mut HeaderMap) {
        if let Some(value) = field {
            headers.insert(STRICT_TRANSPORT_SECURITY, value);
        }
    }
}

/// Whether a visitor sent a request without https, although terse has a listener for it.
pub(crate) fn should_redirect_to_https(headers: &HeaderMap, from: &ClientAddr) -> bool {
    let mut schemes = headers.get_all(FORWARDED_PROTO).iter().peekable();
    let proxied = from.is_trusted_proxy()
        && schemes.peek().is_some()
        && schemes.all(|scheme| is_https(scheme.as_bytes()));
    from.transport() == Transport::Plain && !proxied
}

/// Whether a value of `X-Forwarded-Proto` says https. A list, or anything else, does not.
pub(crate) fn is_https(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"https")
}
