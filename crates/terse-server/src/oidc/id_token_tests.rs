//! ID tokens that are right, and all the ways in which they can be wrong.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use jsonwebtoken::get_current_timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _,
};
use serde_json::{Value, json};

use super::*;
use crate::oidc::ring_verifier;

const ISSUER: &str = "https://id.example";
const EXPECTED: Expected<'_> = Expected { issuer: ISSUER, client_id: "terse", nonce: "the nonce" };

/// A key of the provider.
enum Key {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> Self {
        let random = SystemRandom::new();
        let bytes = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Ecdsa(EcdsaKeyPair::from_pkcs8(algorithm, bytes.as_ref(), &random).unwrap())
    }

    fn p256() -> Self {
        Self::ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    fn ed25519() -> Self {
        let bytes = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(bytes.as_ref()).unwrap())
    }

    fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Ecdsa(key) => {
                let (x, y) =
                    key.public_key().as_ref()[1..].split_at(key.public_key().as_ref().len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                let (x, y) = (B64.encode(x), B64.encode(y));
                json!({"kty": "EC", "crv": curve, "x": x, "y": y, "kid": kid, "use": "sig"})
            }
            Self::Ed25519(key) => {
                let x = B64.encode(key.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid})
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
        let signature = match self {
            Self::Ecdsa(key) => {
                key.sign(&SystemRandom::new(), text.as_bytes()).unwrap().as_ref().to_vec()
            }
            Self::Ed25519(key) => key.sign(text.as_bytes()).as_ref().to_vec(),
        };
        format!("{text}.{}", B64.encode(signature))
    }
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "7", "aud": "terse", "nonce": "the nonce",
        "exp": get_current_timestamp() + 300, "iat": get_current_timestamp(),
        "preferred_username": "ann", "email": "ann@example.com",
    })
}

fn keys(keys: &[Value]) -> Vec<Jwk> {
    ring_verifier::install();
    keys.iter().map(|key| serde_json::from_value(key.clone()).unwrap()).collect()
}

fn invalid(result: &Result<Claims, TokenError>) -> bool {
    matches!(result, Err(TokenError::Invalid(_)))
}

#[test]
fn a_token_of_each_kind_of_key_is_accepted() {
    let (p256, ed25519) = (Key::p256(), Key::ed25519());
    let p384 = Key::ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING);
    let set = keys(&[p256.jwk("a"), p384.jwk("b"), ed25519.jwk("c")]);
    for (key, alg, kid) in [(p256, "ES256", "a"), (p384, "ES384", "b"), (ed25519, "EdDSA", "c")] {
        let token = key.sign(&json!({"alg": alg, "kid": kid, "typ": "JWT"}), &claims());
        let claims = verify(&token, &set, &EXPECTED).unwrap();
        assert_eq!((&*claims.sub, claims.email.as_deref()), ("7", Some("ann@example.com")));
        // One key fits each algorithm, so that the key id may be left out.
        let token = key.sign(&json!({"alg": alg}), &self::claims());
        assert!(verify(&token, &set, &EXPECTED).is_ok(), "{alg} without a key id");
        let changed = token.replace(token.split('.').nth(1).unwrap(), &B64.encode("{}"));
        assert!(invalid(&verify(&changed, &set, &EXPECTED)), "{alg} with other claims");
        assert!(invalid(&verify(&token[..token.len() - 2], &set, &EXPECTED)), "{alg} cut off");
    }
}

#[test]
fn rsa_signatures_are_verified() {
    ring_verifier::install();
    let key = DecodingKey::from_rsa_components(RSA_MODULUS, "AQAB").unwrap();
    let zero = [vec![0], B64.decode(RSA_MODULUS).unwrap()].concat();
    let zero = DecodingKey::from_rsa_components(&B64.encode(zero), "AQAB").unwrap();
    let verify = |text: &str, signature, key, algorithm| {
        jsonwebtoken::crypto::verify(signature, text.as_bytes(), key, algorithm).unwrap()
    };
    for (signature, algorithm) in [(RS256, Algorithm::RS256), (PS384, Algorithm::PS384)] {
        assert!(verify("header.payload", signature, &key, algorithm), "{algorithm:?}");
        assert!(verify("header.payload", signature, &zero, algorithm), "a leading zero");
        assert!(!verify("header.payloae", signature, &key, algorithm), "{algorithm:?}");
        assert!(!verify("header.payload", signature, &key, Algorithm::RS512), "{algorithm:?}");
        assert!(!verify("header.payload", signature, &key, Algorithm::ES256), "{algorithm:?}");
        assert!(!verify("header.payload", signature, &key, Algorithm::HS256), "{algorithm:?}");
    }
}

#[test]
fn a_claim_that_is_wrong_or_missing_makes_a_token_invalid() {
    let key = Key::p256();
    let set = keys(&[key.jwk("a")]);
    let now = get_current_timestamp();
    for (name, value) in [
        ("iss", json!("https://id.example/")),
        ("iss", json!([ISSUER])),
        ("iss", Value::Null),
        ("aud", json!("another")),
        ("aud", json!(["terse", "another"])),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("nonce", json!("another")),
        ("nonce", json!("")),
        ("nonce", Value::Null),
        ("exp", json!(now - 1)),
        ("exp", json!("tomorrow")),
        ("exp", Value::Null),
        ("sub", Value::Null),
    ] {
        let mut claims = claims();
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
        let token = key.sign(&json!({"alg": "ES256", "kid": "a"}), &claims);
        assert!(invalid(&verify(&token, &set, &EXPECTED)), "{name}: {value}");
    }
    let mut list = claims();
    list["aud"] = json!(["terse"]);
    let token = key.sign(&json!({"alg": "ES256", "kid": "a"}), &list);
    assert!(verify(&token, &set, &EXPECTED).is_ok(), "a list of one audience");
}

#[test]
fn a_header_that_is_not_plain_makes_a_token_invalid() {
    let key = Key::p256();
    let set = keys(&[key.jwk("a")]);
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "HS256", "kid": "a"}),
        json!({"alg": "ES512", "kid": "a"}),
        json!({"kid": "a"}),
        json!({"alg": "ES256", "kid": "a", "typ": "at+jwt"}),
        json!({"alg": "ES256", "kid": "a", "cty": "JWT"}),
        json!({"alg": "ES256", "kid": "a", "crit": ["b64"], "b64": false}),
    ] {
        let token = key.sign(&header, &claims());
        assert!(invalid(&verify(&token, &set, &EXPECTED)), "{header}");
    }
    let typ = json!({"alg": "ES256", "kid": "a", "typ": "application/JWT"});
    assert!(verify(&key.sign(&typ, &claims()), &set, &EXPECTED).is_ok());
    for junk in ["", ".", "..", "a.b.c", "a.b"] {
        assert!(invalid(&verify(junk, &set, &EXPECTED)), "{junk:?}");
    }
}

#[test]
fn the_key_is_the_only_one_of_its_id_and_for_this_algorithm() {
    let (key, other) = (Key::p256(), Key::p256());
    let token = key.sign(&json!({"alg": "ES256", "kid": "a"}), &claims());
    let check = |set: &[Value]| verify(&token, &keys(set), &EXPECTED);
    assert!(check(&[key.jwk("a"), other.jwk("b")]).is_ok());
    assert_eq!(check(&[key.jwk("b")]).unwrap_err(), TokenError::UnknownKey);
    assert_eq!(check(&[]).unwrap_err(), TokenError::UnknownKey);
    assert!(invalid(&check(&[other.jwk("a")])), "the key of another under this id");
    assert!(invalid(&check(&[key.jwk("a"), other.jwk("a")])), "two keys of one id");
    for (field, value) in [("use", "enc"), ("alg", "ES384"), ("crv", "P-384"), ("kty", "XX")] {
        let mut jwk = key.jwk("a");
        jwk[field] = value.into();
        assert_eq!(check(&[jwk]).unwrap_err(), TokenError::UnknownKey, "{field} {value}");
    }
    let secret = json!({"kty": "oct", "k": B64.encode("secret"), "kid": "a"});
    assert_eq!(check(&[secret]).unwrap_err(), TokenError::UnknownKey);
}

// A key and its signatures of `header.payload`, made with the openssl command.
const RSA_MODULUS: &str = concat!(
    "t4dT8NVqc2AETulGCKDf4bPdNFGIZf-wOHCs-1CXHatiLYn_BrbFr6hvb9AZpu_QVJid6O09vmtQT6NaJqM741cB",
    "3U11UrFcCWz3N_drKO_pCIetre-ai-WXX2Qr84HbPTTIkF6XDRHYxE7ah4-GbBvF7AOggizg8RXOz-zrou7_aCSF",
    "-f0JS-tWALXjyDFFrKdsDba3eN0NKSE36XNhRHf-sjxdoKLJCDdWqL84pliiLsKRXAub__-CXVdWkX3rwX_NbkY4",
    "2OPgUAjFOfTdBNiNQZUE5fLECn4ktXlyIFkUwXym19_0H0FJd30JJzIad53DhtQbAsHazsF4_-hSoQ",
);
const RS256: &str = concat!(
    "jmczjdTl_D9Jn6E9o4KU1Pvp_guwFt846vpLDZbj-WtWb0Q-330tYesK_jxgPkgegQnmb03R-qQJ-wqVusbrNYwc",
    "HSe0BlaVrYfbRvmiUjuR43IwZIjqk1rwn9uTdYXohsJwCBi1cYjqdfqCMwJG6ddoCbGRy-cPf4yYf9l-te05kE_5",
    "HUX9gA3dQVXO2XT9aPEC-iISQEUQDZyMD9u_pKeN-hpE3I_zpJVxvx3030m7VmFPhm2PqXucnNRkOoq9rZHWUrn4",
    "hSayZPgQjhUmEvEo3rTm7yIL1jfbYSNyE7ani6WFgeB-3uOgrFicRKd4TJjbktp4KyfQ9rOqFWMBtw",
);
const PS384: &str = concat!(
    "BDqlaZm2c4lHzMYtep7jDnhzYuMCiL0w2sirriV5fLBWtZ56LD3SMrLpH5JJubFFG6am-1R43X4JqcC7Iw3oagnK",
    "ynE0lSSxK6u_YuPG_9I9xVWkCC_r0uH0uDzXbW5M0YXmkXBl1osekGN2lYkc0PUcgcmmzL_vi-bcDN9rnU9PZ6Uy",
    "GOowbMwBELp-Z-CVywlVqA1dVKgsx5sQ9Pvw6bvHnY4_WQv2xhoSLP8HV3S_Q41M0mWCJ8YERdDI7q1hRaoI6zgN",
    "woILJwljqMeXQ_PvuvGpENwDgkwySKt5emUKAvZafifJK9zTYV4ojmOEFN3z2XLN4smz2WOqaNjP8A",
);
