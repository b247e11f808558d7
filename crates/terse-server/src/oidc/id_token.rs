//! Verification of an ID token, by OpenID Connect Core 1.0, section 3.1.3.7.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

/// The signature algorithms that public keys verify. Never `none`, and never a shared secret:
/// anyone who knows the client secret could sign tokens.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// The `typ` values of a JWT, without the prefix `application/`.
const TYPES: [&str; 2] = ["jwt", "jose"];

/// Why a token is not accepted.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum TokenError {
    /// None of the keys has the token's key id. The provider may have a new key.
    UnknownKey,
    /// The token is wrong.
    Invalid(String),
}

/// What a token must match.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
}

/// The claims that terse uses.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    pub(super) sub: String,
    pub(super) preferred_username: Option<String>,
    pub(super) email: Option<String>,
    /// Requires a string: an ID token has a single issuer, not a list.
    #[serde(rename = "iss")]
    _issuer: String,
    aud: Audience,
    nonce: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Verifies signature, issuer, audience, expiry and nonce, and returns the claims.
pub(super) fn verify(
    token: &str,
    keys: &[Jwk],
    expected: &Expected<'_>,
) -> Result<Claims, TokenError> {
    let header = decode_header(token).map_err(invalid)?;
    check_header(&header)?;
    let key = DecodingKey::from_jwk(signing_key(&header, keys)?).map_err(invalid)?;
    let mut validation = Validation::new(header.alg);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client_id]);
    validation.leeway = 0;
    // A token ends at `exp`, not a second later.
    validation.reject_tokens_expiring_in_less_than = 1;
    let claims = decode::<Claims>(token, &key, &validation).map_err(invalid)?.claims;
    // With several audiences, another one could present its copy of the token here.
    let only_us = match &claims.aud {
        Audience::One(one) => one == expected.client_id,
        Audience::Many(many) => many.iter().all(|one| one == expected.client_id),
    };
    if !only_us {
        return Err(invalid("the token is for another client too"));
    }
    let nonce = claims.nonce.as_deref().ok_or_else(|| invalid("the token has no nonce"))?;
    if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) {
        return Err(invalid("the nonce is another one"));
    }
    Ok(claims)
}

/// Checks the token's header before any key is used.
fn check_header(header: &Header) -> Result<(), TokenError> {
    if !ALGORITHMS.contains(&header.alg) {
        return Err(invalid(format!("{:?} is not allowed", header.alg)));
    }
    let known = |typ: &String| {
        let typ = typ.to_ascii_lowercase();
        TYPES.contains(&typ.strip_prefix("application/").unwrap_or(&typ))
    };
    if !header.typ.as_ref().is_none_or(known) || header.cty.is_some() {
        return Err(invalid("the token is not a plain JWT"));
    }
    // `crit` names extensions that a verifier must know, and this one knows none.
    if header.crit.is_some() {
        return Err(invalid("the token has critical header fields"));
    }
    Ok(())
}

/// The one key that this token can be signed with.
fn signing_key<'a>(header: &Header, keys: &'a [Jwk]) -> Result<&'a Jwk, TokenError> {
    let mut eligible = keys.iter().filter(|key| {
        (header.kid.is_none() || key.common.key_id == header.kid) && fits(header.alg, key)
    });
    match (eligible.next(), eligible.next()) {
        (Some(key), None) => Ok(key),
        (None, _) => Err(TokenError::UnknownKey),
        _ => Err(invalid("more than one key has the token's key id")),
    }
}

/// Whether a key is for signatures by this algorithm.
fn fits(algorithm: Algorithm, key: &Jwk) -> bool {
    let kind = match &key.algorithm {
        AlgorithmParameters::RSA(_) => matches!(
            algorithm,
            Algorithm::RS256
                | Algorithm::RS384
                | Algorithm::RS512
                | Algorithm::PS256
                | Algorithm::PS384
                | Algorithm::PS512
        ),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => algorithm == Algorithm::ES256,
            EllipticCurve::P384 => algorithm == Algorithm::ES384,
            _ => false,
        },
        AlgorithmParameters::OctetKeyPair(key) => {
            key.curve == EllipticCurve::Ed25519 && algorithm == Algorithm::EdDSA
        }
        _ => false,
    };
    kind && matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature))
        && key.common.key_algorithm.is_none_or(|declared| declared == algorithm.into())
}

fn invalid(why: impl ToString) -> TokenError {
    TokenError::Invalid(why.to_string())
}

#[cfg(test)]
#[path = "id_token_tests.rs"]
mod tests;
