//! The guarded client for the OpenID Connect provider.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::{OversizePolicy, RequestLimits};
use terse_outgoing::{OutgoingClient, OutgoingSettings};
use terse_server::{OidcError, OidcHttp, OidcRequest, OidcResponse};

use crate::config::Config;

/// One request to the provider: 5 s, and a body of at most 1 MiB.
const LIMITS: RequestLimits = RequestLimits {
    timeout: Duration::from_secs(5),
    max_body: 1 << 20,
    oversize: OversizePolicy::Refuse,
};

/// Asks the provider. It has a client of its own, since the operator named the provider: it may be
/// on a private network even if `outgoing.allow_private` is off.
pub(crate) struct ProviderHttp(OutgoingClient);

impl ProviderHttp {
    pub(crate) fn new(config: &Config) -> Self {
        let mut settings =
            OutgoingSettings::new(env!("CARGO_PKG_VERSION"), config.base_url().as_str());
        settings.allow_private = true;
        Self(OutgoingClient::new(settings))
    }
}

#[async_trait]
impl OidcHttp for ProviderHttp {
    async fn send(&self, request: OidcRequest) -> Result<OidcResponse, OidcError> {
        let mut headers = vec![("accept", "application/json")];
        if let Some(authorization) = &request.authorization {
            headers.push(("authorization", authorization));
        }
        let form = request.form.map(String::into_bytes);
        let body = form.map(|form| ("application/x-www-form-urlencoded", form));
        let answer = self.0.call(&request.url, &headers, body, LIMITS).await;
        // An `OutgoingError` quotes no URL.
        let answer = answer.map_err(|error| OidcError::Unavailable(error.to_string()))?;
        Ok(OidcResponse {
            status: answer.status,
            content_type: answer.content_type,
            body: answer.body,
        })
    }
}
