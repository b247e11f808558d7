//! The HTTP client that asks the provider. The binary supplies the guarded one.

use std::fmt;

use async_trait::async_trait;

use super::provider::OidcError;

/// Sends requests to the provider.
///
/// - Each request is sent once, to the server that its URL names; a redirect is a response like any
///   other and is not followed.
/// - A request has a deadline, and a response a maximum size; past either, `Unavailable`.
/// - Every failure is `Unavailable`. Its text contains no URL and no header, since both can contain
///   secrets.
#[async_trait]
pub trait OidcHttp: Send + Sync {
    /// Sends the request and reads the whole response. Any status is a response.
    async fn send(&self, request: OidcRequest) -> Result<OidcResponse, OidcError>;
}

/// A GET, or a POST of a form.
#[derive(Clone)]
pub struct OidcRequest {
    /// The address of the provider's endpoint.
    pub url: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The body, `application/x-www-form-urlencoded`. With it the request is a POST.
    pub form: Option<String>,
}

impl OidcRequest {
    pub(super) fn get(url: &str) -> Self {
        Self { url: url.to_owned(), authorization: None, form: None }
    }
}

/// Without the header and the body: both contain secrets.
impl fmt::Debug for OidcRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcRequest").field("post", &self.form.is_some()).finish_non_exhaustive()
    }
}

/// What the provider answered.
#[derive(Clone)]
pub struct OidcResponse {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: Option<String>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl OidcResponse {
    /// The JSON document in the body, if the response declares one.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        let essence = self.content_type.as_deref().and_then(|text| text.split(';').next());
        let essence = essence.unwrap_or("application/json").trim().to_ascii_lowercase();
        let is_json = essence == "application/json" || essence.ends_with("+json");
        is_json.then(|| serde_json::from_slice(&self.body).ok()).flatten()
    }
}

/// Without the body: a token response contains tokens.
impl fmt::Debug for OidcResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_body_is_read_only_where_the_response_declares_json() {
        let read = |content_type: Option<&str>, body: &str| {
            let content_type = content_type.map(str::to_owned);
            OidcResponse { status: 200, content_type, body: body.into() }.json::<u32>()
        };
        for good in [
            None,
            Some("application/json"),
            Some("Application/JSON; charset=utf-8"),
            Some("application/jwk-set+json"),
        ] {
            assert_eq!(read(good, "7"), Some(7), "{good:?}");
        }
        assert_eq!(read(Some("text/html"), "7"), None);
        assert_eq!(read(None, "<p>"), None);
    }
}
