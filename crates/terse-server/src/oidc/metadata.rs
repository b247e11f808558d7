//! What a provider publishes about itself: its endpoints and the keys it signs with.

use jsonwebtoken::jwk::Jwk;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::http::{OidcHttp, OidcRequest};
use super::provider::OidcError;

/// The provider's metadata and keys.
pub(super) struct Metadata {
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    /// Whether the client secret goes into the body of a token request instead of its
    /// `Authorization` header.
    pub(super) secret_in_body: bool,
    pub(super) keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: Option<String>,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl Metadata {
    /// Reads the discovery document of `issuer`, then the keys that it refers to.
    pub(super) async fn discover(http: &dyn OidcHttp, issuer: &str) -> Result<Self, OidcError> {
        let base = issuer.trim_end_matches('/');
        let document: Document =
            get(http, &format!("{base}/.well-known/openid-configuration"), "metadata").await?;
        // A document of another issuer would let that issuer sign accounts in here.
        if document.issuer != issuer {
            return Err(unavailable("the metadata names another issuer"));
        }
        let token_endpoint =
            document.token_endpoint.ok_or_else(|| unavailable("it has no token endpoint"))?;
        let methods = document.token_endpoint_auth_methods_supported.unwrap_or_default();
        let supports = |method: &str| methods.iter().any(|supported| supported == method);
        let jwks_uri = endpoint(issuer, &document.jwks_uri)?;
        let set: KeySet = get(http, jwks_uri.as_str(), "key set").await?;
        Ok(Self {
            authorization_endpoint: endpoint(issuer, &document.authorization_endpoint)?,
            token_endpoint: endpoint(issuer, &token_endpoint)?,
            secret_in_body: supports("client_secret_post") && !supports("client_secret_basic"),
            // Skips keys of an unknown kind.
            keys: set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect(),
        })
    }
}

async fn get<T: serde::de::DeserializeOwned>(
    http: &dyn OidcHttp,
    url: &str,
    what: &str,
) -> Result<T, OidcError> {
    let response = http.send(OidcRequest::get(url)).await?;
    if response.status != 200 {
        return Err(unavailable(&format!("status {} instead of the {what}", response.status)));
    }
    response.json().ok_or_else(|| unavailable(&format!("its {what} is not valid")))
}

/// An endpoint's address. If the provider uses https, all its endpoints must.
fn endpoint(issuer: &str, text: &str) -> Result<Url, OidcError> {
    let url = Url::parse(text).map_err(|_| unavailable("an endpoint is not a URL"))?;
    let plain = url.scheme() == "http" && issuer.starts_with("http:");
    if url.scheme() == "https" || plain {
        Ok(url)
    } else {
        Err(unavailable("an endpoint is not https"))
    }
}

fn unavailable(why: &str) -> OidcError {
    OidcError::Unavailable(why.to_owned())
}
