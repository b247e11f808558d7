//! Connects the redirect plane's HTTP fallback to the API and the pages.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::body::Bytes;
use axum::response::Response;
use http::{HeaderValue, Method, Request};
use terse_core::PageLanguage;
use terse_redirect::{PasswordDecision, PasswordVisit, RejectedRequest, RequestBody, WebPlane};
use terse_server::{
    ForwardedQuery, GateDecision, PasswordGate, PasswordRequest, Peer, RefusalPages, RequestLog,
    name_problem,
};
use terse_tls::AcmeCertificates;
use tower::ServiceExt as _;

/// The API and the pages.
pub(super) struct WebService {
    pub(super) router: Router,
    pub(super) password_gate: PasswordGate,
    pub(super) refusal_pages: RefusalPages,
    /// Which requests are logged.
    pub(super) log: RequestLog,
    /// Knows the challenges of certificate authorities.
    pub(super) acme: Option<Arc<AcmeCertificates>>,
}

impl WebPlane for WebService {
    type Body = Body;

    fn answer(
        &self,
        mut request: Request<RequestBody>,
        client: IpAddr,
        forwarded_query: Option<String>,
    ) -> impl Future<Output = Response> + Send + 'static {
        request.extensions_mut().insert(Peer(client));
        if let Some(query) = forwarded_query {
            request.extensions_mut().insert(ForwardedQuery(query));
        }
        let answer = self.router.clone().oneshot(request.map(Body::new));
        async { answer.await.unwrap_or_else(|never| match never {}) }
    }

    fn refuse(&self, rejected: &RejectedRequest, page: Option<PageLanguage>) -> Response {
        self.refusal_pages.answer(rejected.status, rejected.code, &rejected.detail, page)
    }

    fn challenge_answer(&self, token: &str) -> Option<Bytes> {
        self.acme.as_ref()?.challenge_answer(token).map(Bytes::from)
    }

    /// Names the request in a problem, and logs it as the router logs the others.
    fn complete(&self, method: &Method, request_id: Option<HeaderValue>, response: &mut Response) {
        let Some(id) = name_problem(response, request_id) else { return };
        let logged = match self.log {
            RequestLog::Off => false,
            RequestLog::Writes => !method.is_safe(),
            RequestLog::All => true,
        };
        if logged {
            let status = response.status().as_u16();
            tracing::info!(%method, route = "none", status, request_id = id, "request");
        }
    }

    fn has_warning_pass(&self, visit: &PasswordVisit, pass: &str) -> bool {
        self.password_gate.has_warning_pass(&password_request(visit.clone()), pass)
    }

    fn check_cookie(
        &self,
        visit: PasswordVisit,
    ) -> impl Future<Output = PasswordDecision<Body>> + Send + 'static {
        let gate = self.password_gate.clone();
        async move { decision(gate.check_cookie(password_request(visit)).await) }
    }

    fn check_password(
        &self,
        visit: PasswordVisit,
        form: RequestBody,
    ) -> impl Future<Output = PasswordDecision<Body>> + Send + 'static {
        let gate = self.password_gate.clone();
        async move { decision(gate.check_password(password_request(visit), Body::new(form)).await) }
    }
}

fn password_request(visit: PasswordVisit) -> PasswordRequest {
    let PasswordVisit { code, uri, headers, client, html } = visit;
    PasswordRequest { code, uri, headers, client, html }
}

fn decision(decision: GateDecision) -> PasswordDecision<Body> {
    match decision {
        GateDecision::Open { knows, pass } => PasswordDecision::Open { knows, pass },
        GateDecision::Closed(response) => PasswordDecision::Closed(response),
        GateDecision::None => PasswordDecision::NoPassword,
    }
}
