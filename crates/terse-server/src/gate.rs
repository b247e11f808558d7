//! The gate before links that have a password: who shows a pass goes through, who tells the password is given one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use terse_core::{Code, Link, LinkKey, PasswordHash, Status};

use crate::api::problem::{INVALID_REQUEST, PASSWORD_NEEDED, Problem, STORE_UNAVAILABLE, UNSUPPORTED_MEDIA_TYPE, WRONG_PASSWORD};
use crate::api::request::{Params, read};
use crate::limits;
use crate::pages::{self, is_own_form, key_of, password_page};
use crate::passes::Passes;
use crate::router::Parts;

/// Longer than a password takes to arrive and to be checked.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest password, each octet escaped, and its name.
const LONGEST_FORM: usize = 1024;

/// Keeps the gate. Asked by whoever answers visitors, about links that have a password.
#[derive(Clone)]
pub struct Gatekeeper(Arc<Parts>);

/// Somebody before the gate.
#[derive(Clone, Debug)]
pub struct Knock {
    /// The link's own code, whatever was asked for.
    pub code: Code,
    /// As it was asked for.
    pub uri: Uri,
    /// All of them.
    pub headers: HeaderMap,
    /// Whom it is from.
    pub client: IpAddr,
    /// Whether a page is preferred to a problem.
    pub html: bool,
}

/// What the gatekeeper says.
#[derive(Debug)]
pub enum Gate {
    /// The visitor knows the password.
    Open {
        /// Whose hash this is. The link may have another one by now.
        knows: PasswordHash,
        /// A cookie to give on the way, where the password was told just now.
        pass: Option<HeaderValue>,
    },
    /// This is all there is to see.
    Closed(Response),
    /// There is nothing to open: no such link, or none with a password.
    None,
}

impl Gatekeeper {
    /// With what the web side is made of.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Somebody wants to go through: only with a pass.
    pub async fn look(&self, knock: Knock) -> Gate {
        self.in_time(&knock, self.passed(&knock)).await
    }

    /// Somebody tells a password, by the form that asks for it.
    pub async fn hear(&self, knock: Knock, body: Body) -> Gate {
        self.in_time(&knock, self.heard(&knock, body)).await
    }

    async fn in_time(&self, knock: &Knock, answer: impl Future<Output = Result<Gate, Problem>>) -> Gate {
        let late = || Err(Problem::new(&STORE_UNAVAILABLE, "this took too long; try again"));
        let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| late());
        answer.unwrap_or_else(|problem| Gate::Closed(told(problem, knock.html)))
    }

    async fn passed(&self, knock: &Knock) -> Result<Gate, Problem> {
        let Some(link) = self.link(knock).await? else { return Ok(Gate::None) };
        let Some(password) = link.password.clone() else { return Ok(Gate::None) };
        if Passes::new(&self.0.pass_key).shown(&knock.headers, &link, self.0.links.now()) {
            return Ok(Gate::Open { knows: password, pass: None });
        }
        if knock.html {
            return Ok(Gate::Closed(password_page(&self.0, &link, knock.uri.query(), StatusCode::OK, None)));
        }
        let mut response = Problem::new(&PASSWORD_NEEDED, "this link has a password: POST it here as a form").into_response();
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Password"));
        headers.insert("x-robots-tag", HeaderValue::from_static("noindex"));
        Ok(Gate::Closed(closed_to_caches(response)))
    }

    async fn heard(&self, knock: &Knock, body: Body) -> Result<Gate, Problem> {
        let parts = &self.0;
        let link = self.link(knock).await?;
        let Some((link, password)) = link.and_then(|link| link.password.clone().map(|password| (link, password))) else {
            // Else this would be a place to find links by guessing.
            parts.limits.guess(Some(knock.client)).await?;
            return Ok(Gate::None);
        };
        if !matches!(link.status(parts.links.now()), Status::Active | Status::Suspicious) {
            // It ended while somebody was typing: the link itself says how.
            let again = (StatusCode::SEE_OTHER, [(header::LOCATION, format!("/{}", link.key.code))]).into_response();
            return Ok(Gate::Closed(closed_to_caches(again)));
        }
        let base = parts.links.rules().hosts.base_of(&link.key.domain).to_owned();
        if !is_own_form(&knock.headers, &knock.uri, &base) {
            // Another site would have its visitors guess for it.
            return Ok(Gate::Closed(self.refuse(knock, &link, "Type the password here, please.")));
        }
        let number = number_of(&link.key);
        parts.limits.try_password(knock.client, number).await?;
        let typed = typed(&knock.headers, body).await?;
        if !parts.passwords.verify(typed, Some(password.as_str().to_owned())).await? {
            return Ok(Gate::Closed(self.refuse(knock, &link, "This is not the password.")));
        }
        // Only wrong ones count: many may know the right one.
        parts.limits.right_password(knock.client, number).await;
        let pass = Passes::new(&parts.pass_key).give(&link, base.starts_with("https:"), parts.links.now());
        Ok(Gate::Open { knows: password, pass })
    }

    fn refuse(&self, knock: &Knock, link: &Link, words: &'static str) -> Response {
        if knock.html {
            return password_page(&self.0, link, knock.uri.query(), StatusCode::FORBIDDEN, Some(words));
        }
        closed_to_caches(Problem::new(&WRONG_PASSWORD, "this is not the password").on("password").into_response())
    }

    async fn link(&self, knock: &Knock) -> Result<Option<Link>, Problem> {
        match key_of(&self.0, &knock.uri, &knock.headers, knock.code.as_str()) {
            Some(key) => Ok(self.0.links.preview(&key).await?),
            None => Ok(None),
        }
    }
}

/// What was typed into the form.
async fn typed(headers: &HeaderMap, body: Body) -> Result<String, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Problem::new(&UNSUPPORTED_MEDIA_TYPE, "the password is told by a form").on("Content-Type"));
    }
    let bytes = read(body, LONGEST_FORM).await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Problem::new(&INVALID_REQUEST, "this is not what our form sends"))?;
    let mut params = Params::parse(text)?;
    let password = params.take("password").ok_or_else(|| Problem::invalid("password", "missing field `password`"))?;
    params.done()?;
    Ok(password)
}

/// A problem as whoever knocked wants it.
fn told(problem: Problem, html: bool) -> Response {
    if !html {
        return closed_to_caches(problem.into_response());
    }
    let verdict = problem.verdict().copied();
    let mut response = pages::trouble(problem.status());
    if let Some(verdict) = verdict {
        limits::tell(&verdict, response.headers_mut());
    }
    closed_to_caches(response)
}

fn closed_to_caches(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A number that stands for a link's name.
fn number_of(key: &LinkKey) -> u64 {
    let digest = Sha256::new().chain_update(key.domain.as_str()).chain_update("\0").chain_update(key.code.as_str()).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first)
}
