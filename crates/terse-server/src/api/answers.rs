//! The problem responses of each call, for the OpenAPI document.

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::IntoResponses;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Ref, Type};
use utoipa::openapi::{ContentBuilder, RefOr, Response, ResponseBuilder};

use crate::http::problem::{self, Kind};

/// Names a set of problems: groups of kinds, and single kinds.
macro_rules! problems {
    ($($(#[$about:meta])* $name:ident: $($group:ident)* [$($kind:ident)*];)*) => {
        $($(#[$about])*
        pub(crate) struct $name;
        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                let groups: &[&[&'static Kind]] = &[$($group),*];
                let kinds: &[&'static Kind] = &[$(&problem::$kind),*];
                problem_answers(groups.iter().copied().flatten().chain(kinds).copied())
            }
        })*
    };
}

/// Every call with a key.
const CALL: &[&Kind] = &[
    &problem::INVALID_REQUEST,
    &problem::UNAUTHORIZED,
    &problem::FORBIDDEN,
    &problem::SUSPENDED,
    &problem::STORE_UNAVAILABLE,
];
/// Every call with a body.
const BODY: &[&Kind] =
    &[&problem::REQUEST_TIMEOUT, &problem::TOO_LARGE, &problem::UNSUPPORTED_MEDIA_TYPE];
/// A call that checks a target or another URL.
const TARGET: &[&Kind] = &[
    &problem::INVALID_URL,
    &problem::SCHEME_NOT_ALLOWED,
    &problem::SELF_REFERENCE,
    &problem::DESTINATION_NOT_PUBLIC,
    &problem::BLOCKED_DESTINATION,
];

problems! {
    /// Creating one link.
    CreateProblems: CALL BODY TARGET [
        INVALID_ALIAS RESERVED_ALIAS INVALID_EXPIRY NOT_FOUND ALIAS_TAKEN IDEMPOTENCY_MISMATCH
        RATE_LIMITED
    ];
    /// Creating many links.
    BulkProblems: CALL BODY [RATE_LIMITED];
    /// Importing many links.
    ImportProblems: CALL BODY [];
    /// Listing links.
    ListProblems: CALL [];
    /// Listing what only the operator may see.
    AdminListProblems: CALL [];
    /// Confirming a removal.
    ConfirmRemovalProblems: CALL [NOT_FOUND];
    /// Forgetting the copies of a link.
    ForgetProblems: CALL [NOT_FOUND];
    /// Reading one link.
    GetProblems: CALL [NOT_FOUND];
    /// Changing one link.
    PatchProblems: CALL BODY TARGET [INVALID_EXPIRY NOT_FOUND CONFLICT PRECONDITION_FAILED];
    /// Deleting or restoring one link.
    TouchProblems: CALL [NOT_FOUND CONFLICT];
    /// Trying a link's rules on a visitor.
    DryRunLinkProblems: CALL BODY [NOT_FOUND];
    /// Trying rules on a visitor.
    DryRunProblems: CALL BODY TARGET [];
    /// Setting the moderation status of a link.
    ModerationStatusProblems: CALL BODY [NOT_FOUND CONFLICT];
    /// Reading the caller's own account, keys or sessions.
    OwnReadProblems: CALL [NO_ACCOUNT];
    /// Changing the caller's own account.
    EditAccountProblems: CALL BODY [WRONG_PASSWORD NAME_TAKEN NO_ACCOUNT CONFLICT RATE_LIMITED];
    /// Erasing the caller's own account.
    EraseAccountProblems: CALL BODY [WRONG_PASSWORD LAST_ADMIN NO_ACCOUNT CONFLICT RATE_LIMITED];
    /// Creating a key of the caller.
    CreateKeyProblems: CALL BODY [INVALID_EXPIRY TOO_MANY NO_ACCOUNT CONFLICT RATE_LIMITED];
    /// Ending all sessions of the caller.
    EndSessionsProblems: CALL [NO_ACCOUNT CONFLICT];
    /// Revoking a key or ending a session of the caller.
    RevokeProblems: CALL [NOT_FOUND NO_ACCOUNT CONFLICT];
    /// Reading another account.
    UserReadProblems: CALL [NOT_FOUND];
    /// Creating an account.
    CreateUserProblems: CALL BODY [NAME_TAKEN CONFLICT];
    /// Changing another account.
    ChangeUserProblems: CALL BODY [NOT_FOUND NAME_TAKEN LAST_ADMIN CONFLICT];
    /// Suspending or reinstating another account.
    SuspendUserProblems: CALL BODY [NOT_FOUND LAST_ADMIN CONFLICT];
    /// Erasing another account.
    EraseUserProblems: CALL [NOT_FOUND LAST_ADMIN CONFLICT];
    /// Creating a key of another account.
    CreateUserKeyProblems: CALL BODY [INVALID_EXPIRY NOT_FOUND TOO_MANY CONFLICT];
    /// Revoking a key of another account, or an invitation, or making a reset link.
    RevokeOfOthersProblems: CALL [NOT_FOUND CONFLICT];
    /// Creating an invitation.
    InviteProblems: CALL BODY [TOO_MANY CONFLICT];
    /// Listing webhooks.
    WebhookListProblems: CALL [WEBHOOKS_OFF];
    /// Reading or removing a webhook.
    WebhookProblems: CALL [WEBHOOKS_OFF NOT_FOUND];
    /// Creating a webhook.
    CreateWebhookProblems: CALL BODY TARGET [WEBHOOKS_OFF TOO_MANY CONFLICT];
    /// Changing a webhook.
    WebhookChangeProblems: CALL BODY TARGET [WEBHOOKS_OFF NOT_FOUND CONFLICT];
    /// Renaming a tag.
    RenameTagProblems: CALL BODY [CONFLICT];
    /// Removing a tag.
    TouchTagProblems: CALL [CONFLICT];
    /// Adding or changing a domain.
    PutDomainProblems: CALL BODY TARGET [TOO_MANY CONFLICT];
    /// Removing a domain.
    RemoveDomainProblems: CALL [NOT_FOUND DOMAIN_IN_USE CONFLICT];
    /// Reporting a link.
    ReportProblems: CALL BODY [NOT_FOUND RATE_LIMITED];
    /// Suspending an owner.
    SuspendOwnerProblems: CALL BODY [NOT_FOUND LAST_ADMIN NO_OWNER CONFLICT];
    /// Blocking a host.
    BlockProblems: CALL BODY [TOO_MANY CONFLICT];
    /// Unblocking a host.
    UnblockProblems: CALL [NOT_FOUND];
    /// Drawing a QR code.
    QrProblems: [INVALID_REQUEST NOT_FOUND RATE_LIMITED STORE_UNAVAILABLE];
}

/// The responses with these problems, by status.
fn problem_answers(
    kinds: impl Iterator<Item = &'static Kind>,
) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<&Kind>> = BTreeMap::new();
    for kind in kinds {
        by_status.entry(kind.status).or_default().push(kind);
    }
    let answer =
        |(status, kinds): (u16, Vec<&Kind>)| (status.to_string(), problem_answer(status, &kinds));
    by_status.into_iter().map(answer).collect()
}

/// A response with one of these problems: its examples say which there are and when they occur.
fn problem_answer(status: u16, kinds: &[&Kind]) -> RefOr<Response> {
    let codes: Vec<_> = kinds.iter().map(|kind| format!("`{}`", kind.code)).collect();
    let examples = kinds.iter().map(|kind| {
        let value = json!({
            "type": format!("/api/docs#{}", kind.code), "title": kind.title, "status": status,
            "code": kind.code,
            "detail": kind.title, "field": null, "request_id": null
        });
        let example = ExampleBuilder::new().summary(kind.about).value(Some(value)).build();
        (kind.code, example)
    });
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .examples_from_iter(examples)
        .build();
    let mut response = ResponseBuilder::new()
        .description(codes.join(", "))
        .content("application/problem+json", content);
    let wait = ("Retry-After", "Seconds to wait before trying again.");
    let headers: &[(&str, &str)] = match status {
        401 => &[("WWW-Authenticate", "Always `Bearer`.")],
        429 => &[
            wait,
            ("RateLimit-Limit", "How many are allowed."),
            ("RateLimit-Remaining", "How many of them are left."),
            ("RateLimit-Reset", "Seconds until the whole limit is available again."),
        ],
        503 => &[wait],
        _ => &[],
    };
    for (name, about) in headers {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        response = response.header(
            *name,
            HeaderBuilder::new().schema(Some(text)).description(Some(*about)).build(),
        );
    }
    response.build().into()
}
