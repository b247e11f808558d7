//! Protects links that have a password. A valid pass opens the link; the right password gets a
//! pass.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use terse_core::{Code, Link, LinkError, LinkKey, LinkStatus, MAX_PASSWORD_LEN, PasswordHash};

use crate::access_cookies::AccessCookies;
use crate::http::body::read;
use crate::http::host::key_of;
use crate::http::limit_headers;
use crate::http::origin::Origin;
use crate::http::params::Params;
use crate::http::problem::{
    INVALID_REQUEST, PASSWORD_NEEDED, Problem, STORE_UNAVAILABLE, UNSUPPORTED_MEDIA_TYPE,
    WRONG_PASSWORD,
};
use crate::http::state::App;
use crate::pages::{self, PageFrame, PasswordProblem, password_page};
use crate::warning_pass::WarningPass;

/// Longer than a password takes to arrive and to be verified.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest password, each byte escaped, and its name.
const MAX_FORM_LEN: usize = 3 * MAX_PASSWORD_LEN + "password=".len();

/// Decides about visits to links that have a password. The HTTP fallback of the binary calls it.
#[derive(Clone)]
pub struct PasswordGate(Arc<App>);

/// A visit to a link that has a password.
#[derive(Clone, Debug)]
pub struct PasswordRequest {
    /// The link's own code, even if the path has another spelling.
    pub code: Code,
    /// The URI as requested.
    pub uri: Uri,
    /// All headers of the request.
    pub headers: HeaderMap,
    /// The client's address.
    pub client: IpAddr,
    /// Whether the client prefers a page to a problem document.
    pub html: bool,
}

/// The result of a check.
#[derive(Debug)]
pub enum GateDecision {
    /// The visitor knows the password.
    Open {
        /// The hash of that password. The link may have another password by now.
        knows: PasswordHash,
        /// The pass to set as a cookie, if the visitor has just entered the password.
        pass: Option<HeaderValue>,
    },
    /// The link stays closed; send this response.
    Closed(Response),
    /// No such link, or a link without a password.
    None,
}

impl PasswordGate {
    /// On the services of the web plane.
    pub(crate) fn new(state: Arc<App>) -> Self {
        Self(state)
    }

    /// Checks a visit: only a valid pass opens the link.
    pub async fn check_cookie(&self, request: PasswordRequest) -> GateDecision {
        self.in_time(&request, self.passed(&request)).await
    }

    /// Checks a password that the password form sent.
    pub async fn check_password(&self, request: PasswordRequest, body: Body) -> GateDecision {
        self.in_time(&request, self.verify_password(&request, body)).await
    }

    /// Whether a visitor goes on from the warning page of a link: with the pass that the page gave.
    pub fn has_warning_pass(&self, request: &PasswordRequest, pass: &str) -> bool {
        let state = &self.0;
        key_of(state, &request.uri, &request.headers, request.code.as_str()).is_some_and(|key| {
            WarningPass(&state.pass_key).is_good(pass, &key, request.client, state.links.now())
        })
    }

    async fn in_time(
        &self,
        request: &PasswordRequest,
        answer: impl Future<Output = Result<GateDecision, Problem>>,
    ) -> GateDecision {
        let late = || Err(Problem::new(&STORE_UNAVAILABLE, "this took too long; try again"));
        let answer = tokio::time::timeout(TIMEOUT, answer).await.unwrap_or_else(|_| late());
        answer.unwrap_or_else(|problem| GateDecision::Closed(self.render_problem(problem, request)))
    }

    async fn passed(&self, request: &PasswordRequest) -> Result<GateDecision, Problem> {
        let Some(link) = self.link(request).await? else { return Ok(GateDecision::None) };
        let Some(password) = link.password.clone() else { return Ok(GateDecision::None) };
        if AccessCookies::new(&self.0.pass_key).grants(&request.headers, &link, self.0.links.now())
        {
            return Ok(GateDecision::Open { knows: password, pass: None });
        }
        if request.html {
            return Ok(GateDecision::Closed(password_page(
                &self.0,
                &request.headers,
                &link,
                request.uri.query(),
                StatusCode::OK,
                None,
            )));
        }
        let mut response =
            Problem::new(&PASSWORD_NEEDED, "this link has a password: POST it here as a form")
                .into_response();
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Password"));
        headers.insert("x-robots-tag", HeaderValue::from_static("noindex"));
        Ok(GateDecision::Closed(closed_to_caches(response)))
    }

    async fn verify_password(
        &self,
        request: &PasswordRequest,
        body: Body,
    ) -> Result<GateDecision, Problem> {
        let state = &self.0;
        let key = self.key(request);
        let (link, password) =
            match state.public_links.find_protected(key.as_ref(), request.client).await {
                Ok(found) => found,
                Err(LinkError::NotFound) => return Ok(GateDecision::None),
                Err(error) => return Err(error.into()),
            };
        if !matches!(link.status(state.links.now()), LinkStatus::Active | LinkStatus::Suspicious) {
            // The link ended while the visitor typed: redirect to it, which shows its present
            // state.
            let again =
                (StatusCode::SEE_OTHER, [(header::LOCATION, format!("/{}", link.key.code))])
                    .into_response();
            return Ok(GateDecision::Closed(closed_to_caches(again)));
        }
        let base = state.links.rules().hosts.base_of(&link.key.domain).to_owned();
        if Origin::of(state, &request.uri, &request.headers) == Origin::Foreign {
            // Another site could make its visitors' browsers guess passwords.
            return Ok(GateDecision::Closed(
                self.wrong_password(request, &link, |m| m.password_here),
            ));
        }
        let typed = typed(&request.headers, body);
        let protected = (&link.key, &password);
        let client = request.client;
        let passwords = &state.passwords;
        if !state.public_links.try_password(passwords, protected, client, typed).await? {
            return Ok(GateDecision::Closed(
                self.wrong_password(request, &link, |m| m.password_wrong),
            ));
        }
        let pass = AccessCookies::new(&state.pass_key).give(
            &link,
            base.starts_with("https:"),
            state.links.now(),
        );
        Ok(GateDecision::Open { knows: password, pass })
    }

    fn wrong_password(
        &self,
        request: &PasswordRequest,
        link: &Link,
        problem: PasswordProblem,
    ) -> Response {
        if request.html {
            return password_page(
                &self.0,
                &request.headers,
                link,
                request.uri.query(),
                StatusCode::FORBIDDEN,
                Some(problem),
            );
        }
        closed_to_caches(
            Problem::new(&WRONG_PASSWORD, "this is not the password")
                .on("password")
                .into_response(),
        )
    }

    /// Renders a problem as a page or as a problem document.
    fn render_problem(&self, problem: Problem, request: &PasswordRequest) -> Response {
        if !request.html {
            return closed_to_caches(problem.into_response());
        }
        let verdict = problem.verdict().copied();
        let frame = PageFrame::translated(&self.0, &request.headers);
        let mut response = pages::in_frame(pages::error_page_of_status(problem.status()), &frame);
        if let Some(verdict) = verdict {
            limit_headers::add(&verdict, response.headers_mut());
        }
        closed_to_caches(response)
    }

    async fn link(&self, request: &PasswordRequest) -> Result<Option<Link>, Problem> {
        match self.key(request) {
            Some(key) => Ok(self.0.links.preview(&key).await?),
            None => Ok(None),
        }
    }

    fn key(&self, request: &PasswordRequest) -> Option<LinkKey> {
        key_of(&self.0, &request.uri, &request.headers, request.code.as_str())
    }
}

/// Reads the password from the form.
async fn typed(headers: &HeaderMap, body: Body) -> Result<String, Problem> {
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(
            Problem::new(&UNSUPPORTED_MEDIA_TYPE, "send the password as a form").on("Content-Type")
        );
    }
    let bytes = read(body, MAX_FORM_LEN).await?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Problem::new(&INVALID_REQUEST, "this is not what our form sends"))?;
    let mut params = Params::parse(text)?;
    let password = params
        .take("password")
        .ok_or_else(|| Problem::invalid("password", "missing field `password`"))?;
    params.done()?;
    Ok(password)
}

fn closed_to_caches(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
