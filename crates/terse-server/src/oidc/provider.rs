//! The provider: where it is, which keys it signs with, and what it says of a person.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreJwsSigningAlgorithm as Signed,
    CoreProviderMetadata,
};
use openidconnect::{
    AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken,
    IssuerUrl, Nonce, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope,
    SignatureVerificationError, TokenResponse as _,
};
use terse_core::Timestamp;
use terse_core::registry::ForeignIdentity;
use tokio::sync::Semaphore;

use super::flow::{Flow, Purpose, TIMEOUT};
use super::wire::Wire;

/// What was found is looked up again after this.
const FRESH: Duration = Duration::from_secs(3600);
/// Nobody is asked again sooner: not after a failure, not for a key that is not there.
const PAUSE: Duration = Duration::from_secs(1);
/// So many ask the provider at once; others are told to try again.
const AT_ONCE: usize = 8;
/// Signatures that can be checked by whoever has the provider's public keys. Never none, and none
/// by a shared secret.
const ALGORITHMS: [Signed; 9] = [
    Signed::RsaSsaPkcs1V15Sha256,
    Signed::RsaSsaPkcs1V15Sha384,
    Signed::RsaSsaPkcs1V15Sha512,
    Signed::RsaSsaPssSha256,
    Signed::RsaSsaPssSha384,
    Signed::RsaSsaPssSha512,
    Signed::EcdsaP256Sha256,
    Signed::EcdsaP384Sha384,
    Signed::EdDsa,
];

/// What the operator says of the provider.
#[derive(Clone)]
pub struct OidcSettings {
    /// Its name for itself, an absolute URL.
    pub issuer: String,
    /// Its name for us.
    pub client_id: String,
    /// What we show it, if it knows one.
    pub client_secret: Option<String>,
    /// What people call it.
    pub name: String,
    /// Whether people come to have an account by signing in.
    pub sign_up: bool,
    /// Where it sends browsers back.
    pub redirect_url: String,
    /// Signs what browsers hold meanwhile.
    pub key: [u8; 32],
}

/// Why somebody is not known.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The provider is away, or says something that makes no sense. Try again.
    #[error("the provider cannot be asked: {0}")]
    Away(String),
    /// It does not vouch for anybody.
    #[error("the provider does not vouch for them: {0}")]
    Refused(String),
}

/// Somebody the provider vouches for.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) identity: ForeignIdentity,
    /// What they may want to be called, the best first.
    pub(crate) names: Vec<String>,
}

/// One provider.
pub struct Oidc {
    settings: OidcSettings,
    wire: Wire,
    known: Mutex<Known>,
    turns: Arc<Semaphore>,
}

#[derive(Default)]
struct Known {
    metadata: Option<CoreProviderMetadata>,
    asked: Option<Instant>,
}

impl Oidc {
    /// Asks nobody yet.
    pub fn new(settings: OidcSettings) -> Self {
        let wire = Wire::new(&settings.issuer);
        Self { settings, wire, known: Mutex::default(), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    pub(crate) fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// Where to send a browser, and what it must bring back.
    pub(crate) async fn leave(
        self: &Arc<Self>,
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<(String, Flow), OidcError> {
        let metadata = self.ask(Self::metadata).await?;
        let client = self.client(metadata)?;
        let client = client.set_redirect_uri(self.redirect_url()?);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let request = client.authorize_url(
            flow,
            || CsrfToken::new_random_len(32),
            || Nonce::new_random_len(32),
        );
        let scopes = ["profile", "email"].map(|scope| Scope::new(scope.into()));
        let (url, state, nonce) = request.add_scopes(scopes).set_pkce_challenge(challenge).url();
        let until = now.as_ms() + i64::try_from(TIMEOUT * 1000).unwrap_or_default();
        let (state, nonce, verifier) =
            (state.into_secret(), nonce.secret().clone(), verifier.into_secret());
        Ok((url.to_string(), Flow { state, nonce, verifier, purpose, until }))
    }

    /// Who has come back with this code.
    pub(crate) async fn arrive(
        self: &Arc<Self>,
        flow: Flow,
        code: String,
    ) -> Result<Person, OidcError> {
        self.ask(move |oidc| oidc.exchange(flow, code)).await
    }

    /// Asks the provider, on a thread that may wait.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, OidcError> + Send + 'static,
    ) -> Result<T, OidcError> {
        let busy = |_| OidcError::Away("too many ask at once".into());
        let (turn, oidc) =
            (Arc::clone(&self.turns).try_acquire_owned().map_err(busy)?, Arc::clone(self));
        // The turn goes with the work, which ends by itself even if nobody waits for it any more.
        let work = move || {
            let _turn = turn;
            work(&oidc)
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| OidcError::Away(error.to_string()))?
    }

    /// What is known of the provider; found anew when that is old.
    fn metadata(&self) -> Result<CoreProviderMetadata, OidcError> {
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match (&known.metadata, known.asked) {
                (Some(metadata), Some(asked)) if asked.elapsed() < FRESH => {
                    return Ok(metadata.clone());
                }
                (None, Some(asked)) if asked.elapsed() < PAUSE => {
                    return Err(OidcError::Away("it was away just now".into()));
                }
                _ => {}
            }
        }
        self.discover()
    }

    /// Finds the provider and its keys, unless somebody has just done so.
    fn discover(&self) -> Result<CoreProviderMetadata, OidcError> {
        let issuer = IssuerUrl::new(self.settings.issuer.clone()).map_err(away)?;
        let found = CoreProviderMetadata::discover(&issuer, &|request| self.wire.carry(request))
            .map_err(away);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.asked = Some(Instant::now());
        match found {
            Ok(metadata) => {
                known.metadata = Some(metadata.clone());
                Ok(metadata)
            }
            // Rather what was true an hour ago than nobody at all.
            Err(error) => known.metadata.clone().ok_or(error),
        }
    }

    fn redirect_url(&self) -> Result<RedirectUrl, OidcError> {
        RedirectUrl::new(self.settings.redirect_url.clone()).map_err(away)
    }

    fn client(&self, metadata: CoreProviderMetadata) -> Result<Client, OidcError> {
        let OidcSettings { client_id, client_secret, .. } = &self.settings;
        let token_endpoint =
            metadata.token_endpoint().cloned().ok_or_else(|| away("it has no token endpoint"))?;
        let ways = metadata.token_endpoint_auth_methods_supported().cloned().unwrap_or_default();
        let in_body = ways.contains(&CoreClientAuthMethod::ClientSecretPost)
            && !ways.contains(&CoreClientAuthMethod::ClientSecretBasic);
        let secret = client_secret.clone().map(ClientSecret::new);
        let client =
            CoreClient::from_provider_metadata(metadata, ClientId::new(client_id.clone()), secret)
                .set_token_uri(token_endpoint)
                .set_auth_type(if in_body { AuthType::RequestBody } else { AuthType::BasicAuth });
        Ok(client)
    }

    /// The token for a code, and who it speaks of.
    fn exchange(&self, flow: Flow, code: String) -> Result<Person, OidcError> {
        let client = self.client(self.metadata()?)?;
        let redirect = self.redirect_url()?;
        let request = client.exchange_code(AuthorizationCode::new(code));
        let request = request
            .set_pkce_verifier(PkceCodeVerifier::new(flow.verifier))
            .set_redirect_uri(Cow::Owned(redirect));
        let answer =
            request.request(&|request| self.wire.carry(request)).map_err(|error| match error {
                openidconnect::RequestTokenError::ServerResponse(said) => refused(said.error()),
                openidconnect::RequestTokenError::Request(error) => away(error),
                _ => away("its answer makes no sense"),
            })?;
        let token = answer.id_token().ok_or_else(|| refused("there is no token"))?;
        let nonce = Nonce::new(flow.nonce);
        let check = |client: &Client| {
            let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS);
            token.claims(&verifier, &nonce).cloned()
        };
        let claims = match check(&client) {
            // It may have begun to sign with another key since we looked.
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            )) if self.may_ask() => check(&self.client(self.discover()?)?),
            checked => checked,
        };
        let claims = claims.map_err(refused)?;
        let names = [
            claims.preferred_username().map(|name| name.as_str()),
            claims.email().map(|email| email.as_str()),
        ];
        Ok(Person {
            identity: ForeignIdentity {
                issuer: self.settings.issuer.clone(),
                subject: claims.subject().to_string(),
            },
            names: names.into_iter().flatten().map(str::to_owned).collect(),
        })
    }

    /// Whether enough time has passed to ask again.
    fn may_ask(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.asked.is_none_or(|asked| asked.elapsed() >= PAUSE)
    }
}

type Client = CoreClient<
    openidconnect::EndpointSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointSet,
    openidconnect::EndpointMaybeSet,
>;

fn away(error: impl fmt::Display) -> OidcError {
    OidcError::Away(error.to_string())
}

fn refused(why: impl fmt::Display) -> OidcError {
    OidcError::Refused(why.to_string())
}

impl fmt::Debug for Oidc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oidc").field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
}
