//! A test OpenID Connect provider with real keys, signatures, PKCE and single-use codes. Tests can
//! make its tokens wrong.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as B64};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) const CLIENT: &str = "terse here";
pub(crate) const SECRET: &str = "a secret & more";

/// What is wrong with the next token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TokenFault {
    None,
    Nonce,
    NoNonce,
    Audience,
    FurtherAudience,
    Issuer,
    Expired,
    /// Not signed.
    Unsigned,
    /// Signed with HMAC and the public key as the secret.
    PublicKeyAsSecret,
    /// Signed with another key under the right key id.
    OtherKey,
    /// Changed after signing.
    Changed,
    NoToken,
}

pub(crate) struct Provider {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    issuer: String,
    key: EcdsaKeyPair,
    kid: String,
    fault: TokenFault,
    /// The user and the PKCE challenge of each code.
    codes: HashMap<String, (String, String, String)>,
    /// The paths of the requests so far.
    requests: Vec<String>,
}

fn fresh_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let bytes = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes.as_ref(), &random).unwrap()
}

impl Provider {
    pub(crate) fn start() -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(crate) fn at(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let state = State {
            issuer: format!("http://{address}"),
            key: fresh_key(),
            kid: "first".into(),
            fault: TokenFault::None,
            codes: HashMap::new(),
            requests: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let held = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let held = Arc::clone(&held);
                std::thread::spawn(move || serve(stream, &held));
            }
        });
        Self { address, state }
    }

    pub(crate) fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn fault(&self, fault: TokenFault) {
        self.state.lock().unwrap().fault = fault;
    }

    /// Rotates the signing key.
    pub(crate) fn rotate(&self) {
        let mut state = self.state.lock().unwrap();
        (state.key, state.kid) = (fresh_key(), "second".into());
    }

    pub(crate) fn requests(&self, path: &str) -> usize {
        self.state.lock().unwrap().requests.iter().filter(|requests| *requests == path).count()
    }

    /// Signs a user in at this authorization URL; returns the callback URL.
    pub(crate) fn visit(&self, address: &str, subject: &str) -> String {
        let url = url::Url::parse(address).unwrap();
        assert!(address.starts_with(&format!("{}/authorize?", self.issuer())), "{address}");
        let requests: HashMap<_, _> = url.query_pairs().into_owned().collect();
        assert_eq!((&*requests["response_type"], &*requests["client_id"]), ("code", CLIENT));
        assert_eq!(
            (&*requests["code_challenge_method"], requests["code_challenge"].len()),
            ("S256", 43)
        );
        assert!(
            requests["scope"].split(' ').any(|scope| scope == "openid")
                && requests["state"].len() >= 40
                && requests["nonce"].len() >= 40
        );
        let mut state = self.state.lock().unwrap();
        let code = format!("code-{}", state.requests.len() * 1000 + state.codes.len());
        state.codes.insert(
            code.clone(),
            (requests["code_challenge"].clone(), requests["nonce"].clone(), subject.to_owned()),
        );
        format!("/auth/oidc/callback?code={code}&state={}", requests["state"])
    }
}

impl State {
    fn answer(&mut self, line: &str, head: &[String], body: &str) -> (u16, Value) {
        let path = line.split(' ').nth(1).unwrap_or_default();
        self.requests.push(path.to_owned());
        let issuer = &self.issuer;
        match path {
            "/.well-known/openid-configuration" => (
                200,
                json!({
                    "issuer": issuer,
                    "authorization_endpoint": format!("{issuer}/authorize"),
                    "token_endpoint": format!("{issuer}/token"),
                    "jwks_uri": format!("{issuer}/jwks"),
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                    // Accepts any code: terse must check on its own.
                    "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
                    "token_endpoint_auth_methods_supported":
                        ["client_secret_basic", "client_secret_post"],
                }),
            ),
            "/jwks" => {
                let point = self.key.public_key().as_ref();
                let (x, y) = (B64.encode(&point[1..33]), B64.encode(&point[33..]));
                let key = json!({
                    "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid,
                    "x": x, "y": y
                });
                (200, json!({"keys": [key]}))
            }
            "/token" => self.token(head, body),
            _ => (404, json!({})),
        }
    }

    fn token(&mut self, head: &[String], body: &str) -> (u16, Value) {
        let refuse = |error: &str| {
            (400, json!({ "error": error, "error_description": "<script>alert(1)</script>" }))
        };
        let quoted =
            |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let basic = STANDARD.encode(format!("{}:{}", quoted(CLIENT), quoted(SECRET)));
        if !head
            .iter()
            .any(|field| field.eq_ignore_ascii_case(&format!("authorization: basic {basic}")))
        {
            return refuse("invalid_client");
        }
        let form: HashMap<_, _> =
            url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let Some((challenge, nonce, subject)) =
            self.codes.remove(form.get("code").map_or("", String::as_str))
        else {
            return refuse("invalid_grant");
        };
        let verifier = form.get("code_verifier").map_or("", String::as_str);
        if B64.encode(Sha256::digest(verifier.as_bytes())) != challenge
            || form.get("grant_type").is_none_or(|kind| kind != "authorization_code")
            || form
                .get("redirect_uri")
                .is_none_or(|at| at != "http://go.example/auth/oidc/callback")
        {
            return refuse("invalid_grant");
        }
        let mut answer = json!({"access_token": "at", "token_type": "Bearer", "expires_in": 60});
        if self.fault != TokenFault::NoToken {
            answer["id_token"] = self.id_token(&nonce, &subject).into();
        }
        (200, answer)
    }

    fn id_token(&self, nonce: &str, subject: &str) -> String {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.issuer, "sub": subject, "aud": CLIENT, "nonce": nonce,
            "iat": now, "exp": now + 300,
            "preferred_username": subject, "email": format!("{subject}@example.com"),
        });
        let mut header = json!({"alg": "ES256", "kid": self.kid, "typ": "JWT"});
        match self.fault {
            TokenFault::Nonce => claims["nonce"] = "another".into(),
            TokenFault::NoNonce => drop(claims.as_object_mut().unwrap().remove("nonce")),
            TokenFault::Audience => claims["aud"] = "somebody else".into(),
            TokenFault::FurtherAudience => claims["aud"] = json!([CLIENT, "somebody else"]),
            TokenFault::Issuer => claims["iss"] = "http://127.0.0.1:1".into(),
            TokenFault::Expired => {
                (claims["iat"], claims["exp"]) = ((now - 7200).into(), (now - 3600).into());
            }
            TokenFault::Unsigned => header = json!({"alg": "none"}),
            TokenFault::PublicKeyAsSecret => header["alg"] = "HS256".into(),
            TokenFault::None | TokenFault::OtherKey | TokenFault::Changed | TokenFault::NoToken => {
            }
        }
        let mut said =
            format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
        let random = SystemRandom::new();
        let seal = match self.fault {
            TokenFault::Unsigned => Vec::new(),
            TokenFault::PublicKeyAsSecret => {
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
                ring::hmac::sign(&key, said.as_bytes()).as_ref().to_vec()
            }
            TokenFault::OtherKey => {
                fresh_key().sign(&random, said.as_bytes()).unwrap().as_ref().to_vec()
            }
            _ => self.key.sign(&random, said.as_bytes()).unwrap().as_ref().to_vec(),
        };
        if self.fault == TokenFault::Changed {
            claims["sub"] = "admin".into();
            said = format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
        }
        format!("{said}.{}", B64.encode(seal))
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let length = |field: &String| {
        field
            .to_ascii_lowercase()
            .strip_prefix("content-length:")
            .and_then(|n| n.trim().parse().ok())
    };
    let mut body = vec![0; head.iter().find_map(length).unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() || head.is_empty() {
        return;
    }
    let (status, answer) =
        state.lock().unwrap().answer(&head[0], &head[1..], &String::from_utf8_lossy(&body));
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        answer.len()
    );
    let _ = reader
        .into_inner()
        .write_all(format!("{head}Connection: close\r\n\r\n{answer}").as_bytes());
}
