//! The problem responses of each call, for the OpenAPI document.

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::IntoResponses;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Ref, Type};
use utoipa::openapi::{ContentBuilder, RefOr, Response, ResponseBuilder};

use crate::http::problem;

/// Names a set of problems by their statuses.
macro_rules! problems {
    ($($(#[$about:meta])* $name:ident: $($status:literal)*;)*) => {
        $($(#[$about])*
        pub(crate) struct $name;
        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                [$($status),*].into_iter().map(|status: u16| (status.to_string(),
                    problem_answer(status))).collect()
            }
        })*
    };
}

problems! {
    /// Creating one link.
    CreateProblems: 400 401 403 409 408 413 415 422 429 503;
    /// Creating many links.
    BulkProblems: 400 401 403 408 413 415 429 503;
    /// Importing many links.
    ImportProblems: 400 401 403 408 413 415 503;
    /// Listing links.
    ListProblems: 400 401 403 503;
    /// Listing what only the operator may see.
    AdminListProblems: 400 401 403 503;
    /// Confirming a removal.
    ConfirmRemovalProblems: 400 401 403 404 503;
    /// Reading one link.
    GetProblems: 400 401 403 404 503;
    /// Changing one link.
    PatchProblems: 400 401 403 404 409 412 408 413 415 422 503;
    /// Deleting or restoring one link.
    TouchProblems: 400 401 403 404 409 503;
    /// Trying a link's rules on a visitor.
    TryProblems: 400 401 403 404 408 413 415 503;
    /// Trying rules on a visitor.
    TrialProblems: 400 401 403 408 413 415 422 503;
    /// Setting the moderation status of a link.
    StandingProblems: 400 401 403 404 409 408 413 415 503;
    /// Reading the caller's own account, keys or sessions.
    OwnReadProblems: 400 401 403 409 503;
    /// Changing the caller's own account, keys or sessions.
    OwnChangeProblems: 400 401 403 404 409 408 413 415 429 503;
    /// Reading another account.
    UserReadProblems: 400 401 403 404 503;
    /// Changing another account.
    UserChangeProblems: 400 401 403 404 409 408 413 415 503;
    /// Listing webhooks.
    WebhookListProblems: 400 401 403 503;
    /// Reading or removing a webhook.
    WebhookProblems: 400 401 403 404 503;
    /// Creating or changing a webhook.
    WebhookChangeProblems: 400 401 403 404 409 408 413 415 422 503;
    /// Renaming a tag.
    RenameTagProblems: 400 401 403 409 408 413 415 503;
    /// Removing a tag.
    TouchTagProblems: 400 401 403 409 503;
    /// Adding or changing a domain.
    PutDomainProblems: 400 401 403 409 408 413 415 422 503;
    /// Removing a domain.
    RemoveDomainProblems: 400 401 403 404 409 503;
    /// Reporting a link.
    ReportProblems: 400 401 403 404 408 413 415 429 503;
    /// Suspending an owner.
    BanProblems: 400 401 403 404 409 408 413 415 503;
    /// Blocking a host.
    BlockProblems: 400 401 403 409 408 413 415 503;
    /// Unblocking a host.
    UnblockProblems: 400 401 403 404 503;
    /// Drawing a QR code.
    QrProblems: 400 404 429 503;
}

fn problem_answer(status: u16) -> RefOr<Response> {
    // Only visitors of a link get this problem; the API never returns it.
    let visitors = problem::PASSWORD_NEEDED.code;
    let kinds: Vec<_> =
        problem::ALL.iter().filter(|kind| kind.status == status && kind.code != visitors).collect();
    let codes: Vec<_> = kinds.iter().map(|kind| format!("`{}`", kind.code)).collect();
    let example = kinds.first().map(|kind| {
        json!({
            "type": format!("/api/docs#{}", kind.code), "title": kind.title, "status": status,
            "code": kind.code,
            "detail": kind.title, "field": null, "request_id": null
        })
    });
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .example(example)
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
