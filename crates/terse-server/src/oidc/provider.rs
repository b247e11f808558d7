//! The provider: its metadata, the authorization request, and the exchange of a code for an
//! identity.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use terse_core::Timestamp;
use terse_core::registry::OidcIdentity;
use tokio::sync::{Semaphore, SemaphorePermit};
use url::form_urlencoded::{Serializer, byte_serialize};

use super::flow::{Flow, Purpose, TIMEOUT};
use super::http::{OidcHttp, OidcRequest};
use super::id_token::{self, Claims, Expected, TokenError};
use super::metadata::Metadata;
use super::ring_verifier;

/// How long metadata and keys are used before `OidcProvider` reads them again.
const METADATA_TTL: Duration = Duration::from_secs(3600);
/// The shortest time between two attempts to read the metadata, after a failure and for an unknown
/// key.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How many sign-ins ask the provider at once. More of them get `Unavailable`.
const MAX_CONCURRENT: usize = 8;
/// The longest error code of the provider that is logged.
const MAX_ERROR_LEN: usize = 64;

/// The provider, as the operator configured it.
#[derive(Clone)]
pub struct OidcSettings {
    /// The issuer, an absolute URL, as the provider writes it.
    pub issuer: String,
    /// The client id of this server at the provider.
    pub client_id: String,
    /// The client secret, if the provider has given one.
    pub client_secret: Option<String>,
    /// The provider's name on the sign-in page.
    pub name: String,
    /// Whether the first sign-in creates an account.
    pub sign_up: bool,
    /// The address the provider sends browsers back to.
    pub redirect_url: String,
    /// Signs the cookie of a sign-in that is under way.
    pub key: [u8; 32],
}

/// Why a sign-in did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The provider does not answer, or its answer cannot be used. A later attempt may succeed.
    #[error("the provider is unavailable: {0}")]
    Unavailable(String),
    /// The provider refused the code, or its token did not pass verification.
    #[error("the sign-in is not valid: {0}")]
    Rejected(String),
}

/// An account at the provider.
#[derive(Debug)]
pub(crate) struct ProviderAccount {
    pub(crate) identity: OidcIdentity,
    /// Suggestions for the account name here, the best first.
    pub(crate) names: Vec<String>,
}

/// One provider.
pub struct OidcProvider {
    settings: OidcSettings,
    http: Arc<dyn OidcHttp>,
    cache: Mutex<MetadataCache>,
    concurrent: Semaphore,
}

#[derive(Default)]
struct MetadataCache {
    metadata: Option<Arc<Metadata>>,
    /// When the last attempt to read the metadata ended.
    attempted: Option<Instant>,
}

/// The answer to a token request.
#[derive(Deserialize)]
struct TokenResponse {
    id_token: Option<String>,
}

/// The answer to a token request that the provider refuses.
#[derive(Deserialize)]
struct TokenErrorResponse {
    error: String,
}

impl OidcProvider {
    /// Sends nothing yet: the first sign-in reads the provider's metadata.
    pub fn new(settings: OidcSettings, http: Arc<dyn OidcHttp>) -> Self {
        ring_verifier::install();
        let concurrent = Semaphore::new(MAX_CONCURRENT);
        Self { settings, http, cache: Mutex::default(), concurrent }
    }

    pub(crate) fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// The address at the provider where the browser signs in, and the flow that its cookie keeps.
    pub(crate) async fn begin(
        &self,
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<(String, Flow), OidcError> {
        let metadata = {
            let _permit = self.permit()?;
            self.metadata().await?
        };
        let until = now.as_ms() + i64::try_from(TIMEOUT * 1000).unwrap_or_default();
        let (state, nonce, verifier) = (random()?, random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let mut url = metadata.authorization_endpoint.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("state", &state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("redirect_uri", &self.settings.redirect_url)
            .append_pair("scope", "openid profile email")
            .append_pair("nonce", &nonce);
        Ok((url.into(), Flow { state, nonce, verifier, purpose, until }))
    }

    /// Exchanges the code for an ID token and verifies it.
    pub(crate) async fn finish(
        &self,
        flow: Flow,
        code: String,
    ) -> Result<ProviderAccount, OidcError> {
        let _permit = self.permit()?;
        let metadata = self.metadata().await?;
        let token = self.exchange(&metadata, &flow, &code).await?;
        let claims = match self.verify(&metadata, &token, &flow) {
            // The provider may sign with a new key since its keys were read.
            Err(TokenError::UnknownKey) if self.may_read_again() => {
                self.verify(&*self.discover().await?, &token, &flow)
            }
            verified => verified,
        };
        let claims = claims.map_err(|error| match error {
            TokenError::UnknownKey => rejected("the provider has no such key"),
            TokenError::Invalid(why) => OidcError::Rejected(why),
        })?;
        let issuer = self.settings.issuer.clone();
        Ok(ProviderAccount {
            identity: OidcIdentity { issuer, subject: claims.sub },
            names: [claims.preferred_username, claims.email].into_iter().flatten().collect(),
        })
    }

    fn permit(&self) -> Result<SemaphorePermit<'_>, OidcError> {
        let full = |_| OidcError::Unavailable("too many sign-ins at once".into());
        self.concurrent.try_acquire().map_err(full)
    }

    /// The metadata, read again when it is older than `METADATA_TTL`.
    async fn metadata(&self) -> Result<Arc<Metadata>, OidcError> {
        {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            match (&cache.metadata, cache.attempted) {
                (Some(metadata), Some(at)) if at.elapsed() < METADATA_TTL => {
                    return Ok(Arc::clone(metadata));
                }
                (None, Some(at)) if at.elapsed() < RETRY_DELAY => {
                    return Err(OidcError::Unavailable("it did not answer just now".into()));
                }
                _ => {}
            }
        }
        self.discover().await
    }

    /// Reads the metadata and the keys.
    async fn discover(&self) -> Result<Arc<Metadata>, OidcError> {
        // Also recorded if the request is cancelled: visitors who leave while the provider hangs
        // must not make the next ones wait as long.
        let attempt = FetchAttempt(&self.cache);
        let found = Metadata::discover(&*self.http, &self.settings.issuer).await;
        drop(attempt);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                cache.metadata = Some(Arc::clone(&metadata));
                Ok(metadata)
            }
            // Uses the old metadata while the provider does not answer.
            Err(error) => cache.metadata.clone().ok_or(error),
        }
    }

    /// Whether the last attempt to read the metadata is long enough ago.
    fn may_read_again(&self) -> bool {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.attempted.is_none_or(|at| at.elapsed() >= RETRY_DELAY)
    }

    /// The ID token for a code.
    async fn exchange(
        &self,
        metadata: &Metadata,
        flow: &Flow,
        code: &str,
    ) -> Result<String, OidcError> {
        let response = self.http.send(self.token_request(metadata, flow, code)).await?;
        let unusable = || OidcError::Unavailable("its token response is not valid".into());
        if response.status != 200 {
            let refusal: TokenErrorResponse = response.json().ok_or_else(unusable)?;
            let code: String = refusal.error.escape_debug().take(MAX_ERROR_LEN).collect();
            return Err(OidcError::Rejected(code));
        }
        let token: TokenResponse = response.json().ok_or_else(unusable)?;
        token.id_token.ok_or_else(|| rejected("the token response has no ID token"))
    }

    /// The request for the token. A client with a secret authenticates in the header, or in the
    /// form where the provider supports only that.
    fn token_request(&self, metadata: &Metadata, flow: &Flow, code: &str) -> OidcRequest {
        let OidcSettings { client_id, client_secret, redirect_url, .. } = &self.settings;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("code_verifier", &flow.verifier)
            .append_pair("redirect_uri", redirect_url);
        let mut authorization = None;
        match client_secret {
            Some(secret) if !metadata.secret_in_body => {
                authorization = Some(basic(client_id, secret));
            }
            secret => {
                form.append_pair("client_id", client_id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret);
                }
            }
        }
        let url = metadata.token_endpoint.as_str().to_owned();
        OidcRequest { url, authorization, form: Some(form.finish()) }
    }

    fn verify(&self, metadata: &Metadata, token: &str, flow: &Flow) -> Result<Claims, TokenError> {
        let OidcSettings { issuer, client_id, .. } = &self.settings;
        id_token::verify(token, &metadata.keys, &Expected { issuer, client_id, nonce: &flow.nonce })
    }
}

/// An attempt to read the metadata. Records its end in the cache, however it ends.
struct FetchAttempt<'a>(&'a Mutex<MetadataCache>);

impl Drop for FetchAttempt<'_> {
    fn drop(&mut self) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.attempted = Some(Instant::now());
    }
}

/// The `Authorization` header of a client with a secret (RFC 6749, section 2.3.1: both parts are
/// form-encoded first).
fn basic(client_id: &str, secret: &str) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(secret));
    format!("Basic {}", STANDARD.encode(pair))
}

/// 256 random bits as text.
fn random() -> Result<String, OidcError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|_| OidcError::Unavailable("the system has no random numbers".into()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn rejected(why: &str) -> OidcError {
    OidcError::Rejected(why.to_owned())
}

impl fmt::Debug for OidcProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcProvider")
            .field("issuer", &self.settings.issuer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::oidc::http::OidcResponse;

    /// A provider that never answers.
    #[derive(Default)]
    struct Hanging(AtomicUsize);

    #[async_trait]
    impl OidcHttp for Hanging {
        async fn send(&self, _: OidcRequest) -> Result<OidcResponse, OidcError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn a_cancelled_attempt_counts_as_one() {
        let settings = OidcSettings {
            issuer: "https://id.example".into(),
            client_id: "terse".into(),
            client_secret: None,
            name: "Example".into(),
            sign_up: false,
            redirect_url: "https://go.example/oidc".into(),
            key: [7; 32],
        };
        let http = Arc::new(Hanging::default());
        let oidc = OidcProvider::new(settings, http.clone());
        let metadata = oidc.metadata();
        assert!(tokio::time::timeout(Duration::from_millis(10), metadata).await.is_err());
        // The visitor has left. terse refuses the next one at once and does not ask the provider.
        assert!(matches!(oidc.metadata().await, Err(OidcError::Unavailable(_))));
        assert!(!oidc.may_read_again());
        assert_eq!(http.0.load(Ordering::SeqCst), 1);
    }
}
