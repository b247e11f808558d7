//! The short domains and the fallback targets of each.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::Target;
use terse_core::moderation::{DomainDraft, ShortDomain};

use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Admin, Authenticated, Name};
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::state::Web;

/// The largest body: three targets of the largest length, even with every character escaped.
const THREE_TARGETS: usize = 4 * SMALL;

/// A short domain.
#[derive(Serialize, ToSchema)]
#[schema(as = Domain, example = json!({
    "domain": "go.example", "base_url": "https://go.example", "primary": true, "settled": true,
    "root": "https://example.com/", "not_found": null, "expired": null
}))]
pub(crate) struct DomainBody {
    /// Its name.
    domain: String,
    /// What its short links begin with.
    base_url: String,
    /// Whether it is the primary domain, which new links get by default.
    primary: bool,
    /// Whether it is in the settings, so that it cannot be removed here.
    settled: bool,
    /// The target of `/`; null is the server's own page.
    #[schema(required = true)]
    root: Option<String>,
    /// The target of unknown codes; null is the server's own page.
    #[schema(required = true)]
    not_found: Option<String>,
    /// The target of links that are expired or used up; null is the server's own page.
    #[schema(required = true)]
    expired: Option<String>,
}

/// All of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainList {
    /// The primary one first.
    domains: Vec<DomainBody>,
}

/// The fallbacks of a domain. Without one the server shows its own page.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({ "root": "https://example.com/",
    "not_found": "https://example.com/lost" }))]
pub(crate) struct PutDomain {
    /// The target of `/`.
    #[schema(max_length = 8192)]
    root: Option<String>,
    /// The target of unknown codes.
    #[serde(alias = "notFound")]
    #[schema(max_length = 8192)]
    not_found: Option<String>,
    /// The target of links that are expired or used up.
    #[schema(max_length = 8192)]
    expired: Option<String>,
}

impl From<ShortDomain> for DomainBody {
    fn from(domain: ShortDomain) -> Self {
        let text = |target: Option<Target>| target.map(|target| target.to_string());
        Self {
            domain: domain.name,
            base_url: domain.base_url,
            primary: domain.is_primary,
            settled: domain.is_configured,
            root: text(domain.root),
            not_found: text(domain.not_found),
            expired: text(domain.expired),
        }
    }
}

/// List the short domains
///
/// The domains that links can be created on, with their fallbacks.
#[describe::path(get, path = "/api/v1/domains", operation_id = "list_domains", tag = "Domains",
    responses((status = 200, description = "All of them", body = DomainList), super::answers::ListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Authenticated(_): Authenticated,
    _: NoParams,
) -> Result<axum::Json<DomainList>, Problem> {
    let domains = state.moderation.short_domains().await?.into_iter();
    Ok(axum::Json(DomainList { domains: domains.map(DomainBody::from).collect() }))
}

/// Add or change a short domain
///
/// A new domain works at once on this node and within seconds on all others; its DNS name must
/// point here. For a domain from the settings, only the fallbacks are stored.
#[describe::path(put, path = "/api/v1/domains/{domain}", operation_id = "put_domain", tag = "Domains",
    request_body(content = PutDomain),
    params(("domain" = String, Path, description = "A host name, without a \
        port", min_length = 1, max_length = 253)),
    responses((status = 200, description = "The domain as it is \
        now", body = DomainBody), super::answers::PutDomainProblems),
    security(("key" = [])))]
pub(super) async fn put(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(name): Name,
    Json(body): Json<THREE_TARGETS>,
) -> Result<axum::Json<DomainBody>, Problem> {
    let PutDomain { root, not_found, expired } = parse_object(&body)?;
    let draft = DomainDraft { root, not_found, expired };
    Ok(axum::Json(state.moderation.put_domain(&principal, &name, draft).await?.into()))
}

/// Remove a short domain
///
/// Refused while it has links. For a domain from the settings, only the fallbacks are removed.
#[describe::path(delete, path = "/api/v1/domains/{domain}", operation_id = "remove_domain",
    tag = "Domains",
    params(("domain" = String, Path, description = "A host name, without a \
        port", min_length = 1, max_length = 253)),
    responses((status = 204, description = "It is removed"), super::answers::RemoveDomainProblems),
    security(("key" = [])))]
pub(super) async fn remove(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(name): Name,
) -> Result<StatusCode, Problem> {
    state.moderation.remove_domain(&principal, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
