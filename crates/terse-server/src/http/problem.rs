//! Error responses: RFC 9457 with a stable `code`. The only module that maps errors to statuses.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::describe::ToSchema;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use terse_core::accounts::AccountError;
use terse_core::limits::{LimitDecision, LimitReached};
use terse_core::moderation::ModerationError;
use terse_core::registry::RegistryError;
use terse_core::webhooks::WebhookError;
use terse_core::{
    AccessError, LinkError, PasswordError, StoreError, ValidationError, ValidationErrorKind,
};

use super::limit_headers;
use super::request_id::RequestId;
use super::spelling::Spelling;

/// A kind of problem, with a code that clients may rely on.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) title: &'static str,
    /// When a call returns it, in one sentence for the documentation.
    pub(crate) about: &'static str,
}

macro_rules! kinds {
    ($($name:ident = $status:literal $code:literal $title:literal $about:literal;)*) => {
        $(pub(crate) static $name: Kind =
            Kind { status: $status, code: $code, title: $title, about: $about };)*
        /// All kinds, for the documentation.
        pub(crate) static ALL: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    INVALID_REQUEST = 400 "invalid_request" "Invalid request"
        "A field, parameter or header is missing, unknown, of the wrong type or out of \
        its range; `field` names it.";
    INVALID_URL = 400 "invalid_url" "Invalid URL"
        "The target is not an absolute http or https URL of at most 8,192 bytes.";
    SCHEME_NOT_ALLOWED = 400 "scheme_not_allowed" "Only http and https URLs can be shortened"
        "The target has another scheme than http and https.";
    INVALID_ALIAS = 400 "invalid_alias" "Invalid alias"
        "The alias has a length or characters that are not allowed.";
    RESERVED_ALIAS = 400 "reserved_alias" "Reserved alias"
        "The alias is the path of a page of this server, or the operator does not allow \
        it.";
    INVALID_EXPIRY = 400 "invalid_expiry" "Invalid expiry"
        "The expiry is not a date and time, is in the past, or is later than allowed.";
    PASSWORD_NEEDED = 401 "password_needed" "The link has a password"
        "The link has a password, and the request has none.";
    UNAUTHORIZED = 401 "unauthorized" "A valid key is needed"
        "The request has no key where one is needed, or its key is unknown, revoked or \
        expired.";
    WRONG_PASSWORD = 403 "wrong_password" "Wrong password"
        "The password is not the right one.";
    FORBIDDEN = 403 "forbidden" "Not permitted"
        "The key, or the role of its account, does not permit this.";
    SUSPENDED = 403 "suspended" "The account is suspended"
        "The account is suspended.";
    WEBHOOKS_OFF = 403 "webhooks_off" "Webhooks are switched off"
        "The operator has not switched webhooks on.";
    NOT_FOUND = 404 "not_found" "Not found"
        "It does not exist, or it belongs to another owner.";
    METHOD_NOT_ALLOWED = 405 "method_not_allowed" "Method not allowed"
        "The address does not answer to this method; `Allow` names those that it \
        answers to.";
    REQUEST_TIMEOUT = 408 "request_timeout" "The body took too long to arrive"
        "The body did not arrive in time.";
    ALIAS_TAKEN = 409 "alias_taken" "The alias is taken"
        "Another link has this alias or one that differs only by case, or the alias is \
        reserved for a former owner.";
    NAME_TAKEN = 409 "name_taken" "The name is taken"
        "Another account has this name.";
    LAST_ADMIN = 409 "last_admin" "This is the last admin"
        "The last admin cannot be demoted, suspended or erased.";
    TOO_MANY = 409 "too_many" "Limit reached"
        "The limit of these is reached; remove one first.";
    NO_ACCOUNT = 409 "no_account" "The key belongs to no account"
        "The key is the operator's and belongs to no account.";
    DOMAIN_IN_USE = 409 "domain_in_use" "The domain has links"
        "There are links on the domain; delete them first.";
    NO_OWNER = 409 "no_owner" "No account owns the link"
        "The link was created without an account, so there is no owner to suspend.";
    CONFLICT = 409 "conflict" "Conflicting change"
        "Another request changed the same thing at the same time; read it and try \
        again.";
    PRECONDITION_FAILED = 412 "precondition_failed" "The link has changed"
        "The link no longer has the revision in `If-Match`.";
    TOO_LARGE = 413 "too_large" "The body is too large"
        "The body is larger than this call accepts.";
    UNSUPPORTED_MEDIA_TYPE = 415 "unsupported_media_type" "The body must be plain JSON"
        "The body is not declared as application/json, or it is compressed.";
    SELF_REFERENCE = 422 "self_reference" "The URL leads back to this server"
        "The target is a short domain of this server, which would make a loop.";
    DESTINATION_NOT_PUBLIC = 422 "destination_not_public" "The destination is not public"
        "The target is a private or loopback address.";
    BLOCKED_DESTINATION = 422 "blocked_destination" "The destination is blocked"
        "The target is on a blocklist, or it is a known threat.";
    IDEMPOTENCY_MISMATCH = 422 "idempotency_mismatch" "The idempotency key was used for another request"
        "The `Idempotency-Key` was used for another request before.";
    RATE_LIMITED = 429 "rate_limited" "Too many requests"
        "A limit is reached; `Retry-After` says when to try again.";
    STORE_UNAVAILABLE = 503 "store_unavailable" "Service unavailable"
        "The store is away or busy, and nothing was changed; try again after \
        `Retry-After`.";
}

/// An error response before it is serialised.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: &'static Kind,
    detail: Cow<'static, str>,
    field: Option<String>,
    /// The decision of the rate limit that was exceeded.
    verdict: Option<LimitDecision>,
}

/// What went wrong (RFC 9457, application/problem+json).
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem, example = json!({
    "type": "/api/docs#alias_taken", "title": "The alias is \
        taken", "status": 409, "code": "alias_taken",
    "detail": "this alias is taken", "field": "custom_alias", "request_id": "5f1c0a9d3b7e2846"
}))]
pub(crate) struct ProblemBody {
    /// Where this kind of problem is documented.
    #[serde(rename = "type")]
    about: String,
    /// The kind of problem, as text.
    title: &'static str,
    /// The HTTP status of the response.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The kind of problem, for programs; stable.
    code: &'static str,
    /// What is wrong this time, as text.
    detail: Cow<'static, str>,
    /// The field, parameter or header it is about, as it was sent.
    #[schema(required = true)]
    field: Option<String>,
    /// The id of the request, also in `X-Request-Id` and in the server's log. Null for an item of a
    /// list.
    #[schema(required = true)]
    request_id: Option<String>,
}

impl Problem {
    pub(crate) fn new(kind: &'static Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), field: None, verdict: None }
    }

    /// A malformed request, with the field that is wrong.
    pub(crate) fn invalid(field: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(&INVALID_REQUEST, detail).on(field)
    }

    /// Sets the field that the problem is about.
    pub(crate) fn on(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Adds the decision of the rate limit that was exceeded.
    pub(crate) fn limited(mut self, verdict: LimitDecision) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// The decision of the rate limit that was exceeded, if there is one.
    pub(crate) fn verdict(&self) -> Option<&LimitDecision> {
        self.verdict.as_ref()
    }

    /// Renames the field to the name that clients use.
    pub(crate) fn renamed(mut self, from: &str, to: &str) -> Self {
        if self.field.as_deref() == Some(from) {
            self.field = Some(to.to_owned());
        }
        self
    }

    pub(crate) fn status(&self) -> u16 {
        self.kind.status
    }

    /// The kind of problem, for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.kind.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    pub(crate) fn into_body(self) -> ProblemBody {
        let Kind { status, code, title, .. } = *self.kind;
        ProblemBody {
            about: format!("/api/docs#{code}"),
            title,
            status,
            code,
            detail: self.detail,
            field: self.field,
            request_id: None,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let verdict = self.verdict;
        let body = self.into_body();
        let fields = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, fields, body.text()).into_response();
        response.extensions_mut().insert(body);
        if let Some(verdict) = &verdict {
            limit_headers::add(verdict, response.headers_mut());
        }
        let (name, value) = match status {
            StatusCode::UNAUTHORIZED => (header::WWW_AUTHENTICATE, "Bearer"),
            StatusCode::SERVICE_UNAVAILABLE => (header::RETRY_AFTER, "1"),
            _ => return response,
        };
        response.headers_mut().insert(name, HeaderValue::from_static(value));
        response
    }
}

impl ProblemBody {
    /// A problem that the documentation of the API does not list.
    pub(super) fn undocumented(status: StatusCode, code: &'static str, detail: String) -> Self {
        Self {
            about: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            code,
            detail: detail.into(),
            field: None,
            request_id: None,
        }
    }

    pub(super) fn with_id(mut self, id: &RequestId) -> Self {
        self.request_id = Some(id.as_str().to_owned());
        self
    }

    pub(super) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Names the field as the client spelled it.
    pub(crate) fn with_spelling(mut self, spelling: &Spelling) -> Self {
        if let Some(field) = self.field.take() {
            let spelled = spelling.field(&field);
            if spelled != field {
                self.detail =
                    self.detail.replace(&format!("`{field}`"), &format!("`{spelled}`")).into();
            }
            self.field = Some(spelled);
        }
        self
    }
}

/// The body that a request sent, if it was read: see [`complete`].
#[derive(Clone, Default)]
pub(crate) struct SentBody(Arc<OnceLock<Bytes>>);

impl SentBody {
    pub(crate) fn keep(&self, body: &Bytes) {
        // A request has one body.
        let _ = self.0.set(body.clone());
    }
}

/// Completes a problem in a response: its field is named as the request's body spelled it, and the
/// request has an id.
pub(crate) fn complete(response: &mut Response, sent: &SentBody, id: &RequestId) {
    let Some(mut problem) = response.extensions_mut().remove::<ProblemBody>() else { return };
    if let Some(sent) = sent.0.get() {
        problem = problem.with_spelling(&Spelling::of(sent));
    }
    *response.body_mut() = problem.with_id(id).text().into();
}

impl From<ValidationError> for Problem {
    fn from(refusal: ValidationError) -> Self {
        let kind = match refusal.kind {
            ValidationErrorKind::InvalidRequest => &INVALID_REQUEST,
            ValidationErrorKind::InvalidUrl => &INVALID_URL,
            ValidationErrorKind::SchemeNotAllowed => &SCHEME_NOT_ALLOWED,
            ValidationErrorKind::SelfReference => &SELF_REFERENCE,
            ValidationErrorKind::DestinationNotPublic => &DESTINATION_NOT_PUBLIC,
            ValidationErrorKind::BlockedDestination => &BLOCKED_DESTINATION,
            ValidationErrorKind::InvalidAlias => &INVALID_ALIAS,
            ValidationErrorKind::ReservedAlias => &RESERVED_ALIAS,
            ValidationErrorKind::AliasTaken => &ALIAS_TAKEN,
            ValidationErrorKind::InvalidExpiry => &INVALID_EXPIRY,
        };
        Self::new(kind, refusal.detail).on(refusal.field)
    }
}

impl From<LinkError> for Problem {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Refused(refusal) => refusal.into(),
            LinkError::NotFound => Self::no_link(),
            LinkError::KeyNeeded => AccessError::KeyNeeded.into(),
            LinkError::Access(error) => error.into(),
            LinkError::Limited(reached) => reached.into(),
            LinkError::Password(error) => Self::from(error).on("password"),
            LinkError::Conflict => {
                Self::new(&CONFLICT, "the link changed at the same time; read it and try again")
            }
            LinkError::RequestMismatch => Self::new(
                &IDEMPOTENCY_MISMATCH,
                "this idempotency key was used for another request",
            )
            .on("Idempotency-Key"),
            LinkError::Store(StoreError::Busy) => {
                Self::new(&STORE_UNAVAILABLE, "the store is busy; try again")
            }
            LinkError::EarlierNodes => {
                let detail = "the server is being upgraded; try again when all its nodes have the new \
                    version";
                Self::new(&STORE_UNAVAILABLE, detail)
            }
            error @ LinkError::Store(StoreError::LaterVersion) => {
                tracing::error!(error = chain(&error), "an API request could not be answered");
                let detail = "the server is being upgraded, and this node cannot read the data yet";
                Self::new(&STORE_UNAVAILABLE, detail)
            }
            // The client gets the same answer for a corrupt and an unavailable store; the log has
            // the difference.
            error @ (LinkError::Store(_) | LinkError::NoCode(_)) => {
                tracing::error!(error = chain(&error), "the store did not answer an API request");
                Self::new(&STORE_UNAVAILABLE, "the store cannot be reached; try again")
            }
        }
    }
}

impl From<AccessError> for Problem {
    fn from(error: AccessError) -> Self {
        let kind = match error {
            AccessError::KeyNeeded => &UNAUTHORIZED,
            AccessError::ReadOnlyKey
            | AccessError::CreateOnlyKey
            | AccessError::AdminNeeded
            | AccessError::ModeratorNeeded => &FORBIDDEN,
        };
        Self::new(kind, error.to_string()).on("Authorization")
    }
}

impl From<LimitReached> for Problem {
    fn from(reached: LimitReached) -> Self {
        Self::new(&RATE_LIMITED, reached.detail).limited(reached.decision)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        LinkError::from(error).into()
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::NameTaken => {
                Self::new(&NAME_TAKEN, "another account has this name").on("name")
            }
            RegistryError::Conflict => {
                Self::new(&CONFLICT, "this changed at the same time; read it and try again")
            }
            RegistryError::Missing => Self::new(&NOT_FOUND, "not found"),
            RegistryError::LastAdmin => {
                Self::new(&LAST_ADMIN, "this is the last admin; create another one first")
            }
            RegistryError::TooMany => {
                Self::new(&TOO_MANY, "the limit is reached; remove one first")
            }
            // Only jobs send fencing tokens.
            RegistryError::Fenced => {
                Self::new(&STORE_UNAVAILABLE, "another node does this now; try again")
            }
            RegistryError::Store(error) => error.into(),
        }
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        let kind = match &error {
            AccountError::Invalid(_)
            | AccountError::Access(_)
            | AccountError::Limited(_)
            | AccountError::Password(_)
            | AccountError::Registry(_) => &INVALID_REQUEST,
            AccountError::UnknownKey | AccountError::ExpiredKey => &UNAUTHORIZED,
            AccountError::Suspended => &SUSPENDED,
            AccountError::WrongCredentials
            | AccountError::Forbidden { .. }
            | AccountError::SignInOver
            | AccountError::OwnAccount => &FORBIDDEN,
            AccountError::WrongPassword { .. } | AccountError::WrongCode { .. } => &WRONG_PASSWORD,
            AccountError::NotFound(_) | AccountError::LinkOver => &NOT_FOUND,
            AccountError::NoAccount => &NO_ACCOUNT,
            AccountError::BeingErased => &CONFLICT,
            AccountError::TooMany { .. } => &TOO_MANY,
            AccountError::IdentityTaken => &NAME_TAKEN,
            AccountError::Random(_) => &STORE_UNAVAILABLE,
        };
        let problem = Self::new(kind, error.to_string());
        match error {
            AccountError::Invalid(error) => error.into(),
            AccountError::Access(error) => error.into(),
            AccountError::Limited(reached) => reached.into(),
            AccountError::Password(error) => error.into(),
            AccountError::Registry(error) => error.into(),
            AccountError::UnknownKey | AccountError::ExpiredKey => problem.on("Authorization"),
            AccountError::WrongPassword { field } | AccountError::WrongCode { field } => {
                problem.on(field)
            }
            AccountError::Forbidden { field: Some(field), .. } => problem.on(field),
            AccountError::OwnAccount => {
                Self::new(&FORBIDDEN, "this is your own account; DELETE /api/v1/account erases it")
            }
            AccountError::NoAccount => {
                let detail = "this is a key of the operator and belongs to no account; create an \
                              account (POST /api/v1/admin/users) and use a key of its own";
                Self::new(&NO_ACCOUNT, detail).on("Authorization")
            }
            AccountError::Random(error) => {
                tracing::error!(%error, "the system gives no random numbers");
                Self::new(&STORE_UNAVAILABLE, "this could not be done; try again")
            }
            _ => problem,
        }
    }
}

impl From<ModerationError> for Problem {
    fn from(error: ModerationError) -> Self {
        let (kind, field) = match error {
            ModerationError::Invalid(error) => return error.into(),
            ModerationError::Access(error) => return error.into(),
            ModerationError::Link(error) => return error.into(),
            ModerationError::Account(error) => return error.into(),
            ModerationError::Limited(reached) => return reached.into(),
            ModerationError::Registry(error) => return error.into(),
            ModerationError::NoOwner => (&NO_OWNER, None),
            ModerationError::OperatorsLink => (&FORBIDDEN, None),
            ModerationError::NotBlocked => (&NOT_FOUND, None),
            ModerationError::TooManyHosts(_) => (&TOO_MANY, None),
            ModerationError::NoRemoval => (&NOT_FOUND, None),
            ModerationError::NoDomain => (&NOT_FOUND, Some("domain")),
            ModerationError::DomainInUse => (&DOMAIN_IN_USE, Some("domain")),
            ModerationError::TooManyDomains(_) => (&TOO_MANY, Some("domain")),
        };
        let problem = Self::new(kind, error.to_string());
        match field {
            Some(field) => problem.on(field),
            None => problem,
        }
    }
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::Invalid(error) => error.into(),
            WebhookError::NotFound => Self::new(&NOT_FOUND, error.to_string()),
            WebhookError::Registry(error) => error.into(),
        }
    }
}

impl From<PasswordError> for Problem {
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::Length => Self::invalid("password", error.to_string()),
            PasswordError::Busy => {
                Self::new(&STORE_UNAVAILABLE, "too many passwords are being checked; try again")
            }
            PasswordError::Failed => {
                tracing::error!("a password could not be hashed");
                Self::new(&STORE_UNAVAILABLE, "this could not be done; try again")
            }
        }
    }
}

impl Problem {
    /// The link does not exist or is not the caller's. The answer is the same for both, so that it
    /// does not reveal which codes exist.
    pub(crate) fn no_link() -> Self {
        Self::new(&NOT_FOUND, "there is no such link")
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
