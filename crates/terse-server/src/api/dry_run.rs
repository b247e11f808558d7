//! Dry runs of rules: where a given visitor would go, and why.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use terse_core::rules::RawRules;

use super::links::readable;
use crate::dry_run::{DryRunOutcome, DryRunVisitor, try_drafted, try_on};
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Name, ReadOnly};
use crate::http::params::{NoParams, Params};
use crate::http::problem::Problem;
use crate::http::state::Web;

/// Rules without a link, and a visitor to try them on.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "long_url": "https://example.com/", "rules": [{ "country": "AT",
        "to": "https://example.com/at" }], "visitor": { "country": "DE" }
}))]
pub(crate) struct DryRunRequest {
    /// The target if no rule matches.
    #[serde(alias = "longUrl")]
    #[schema(min_length = 8, max_length = 8192, pattern = "^https?://", nullable = false)]
    long_url: String,
    /// The rules.
    #[schema(schema_with = super::rule_schemas::rules_or_null)]
    rules: Option<RawRules>,
    /// The visitor.
    visitor: Option<DryRunVisitor>,
}

/// Where a visitor would go, and why.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "rule": 1, "branch": null, "long_url": "https://example.com/at",
    "location": "https://example.com/at",
    "why": "rules[1] matches: the country is AT", "status": "active",
    "steps": [{ "rule": 0, "matched": false, "why": ["the device is desktop, not mobile"] },
        { "rule": 1, "matched": true, "why": ["the country is AT"] }],
    "seen": { "device": "desktop", "os": "Windows", "language": "de-AT", "country": "AT",
        "at": "2026-11-15T21:00:00Z" }
}))]
pub(crate) struct DryRunResult {
    /// The rule that matched, from 0; null if none did.
    #[schema(required = true, minimum = 0)]
    rule: Option<usize>,
    /// The branch of its split, from 0; null if it has none.
    #[schema(required = true, minimum = 0)]
    branch: Option<usize>,
    /// Where the visitor goes.
    #[schema(max_length = 8192, pattern = "^https?://")]
    long_url: String,
    /// The same with the visitor's query, where the link passes it on.
    location: String,
    /// Why, in a sentence.
    why: String,
    /// The link's status now: only an active link redirects. Null for rules without a link.
    #[schema(schema_with = super::schemas::status_or_null)]
    status: Option<&'static str>,
    /// Each rule that was tried, up to the one that matched.
    #[schema(max_items = 20)]
    steps: Vec<DryRunStep>,
    /// What is known of the visitor.
    seen: ClassifiedVisitor,
}

/// The result of one rule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DryRunStep {
    /// Its index, from 0.
    #[schema(minimum = 0)]
    rule: usize,
    /// Whether all its conditions hold.
    matched: bool,
    /// The conditions that hold if all do, else those that do not.
    why: Vec<String>,
}

/// What is known of a visitor.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClassifiedVisitor {
    /// The kind of device.
    #[schema(required = true)]
    device: Option<String>,
    /// The operating system.
    #[schema(required = true)]
    os: Option<String>,
    /// The preferred language.
    #[schema(required = true)]
    language: Option<String>,
    /// The country.
    #[schema(required = true)]
    country: Option<String>,
    /// When.
    #[schema(format = DateTime)]
    at: String,
}

/// Try a link's rules on a visitor
///
/// Says where the visitor would go and, for each earlier rule, why it did not match. Nothing is
/// redirected or counted.
#[describe::path(post, path = "/api/v1/urls/{code}/try", operation_id = "try_link", tag = "Links",
    request_body(content = DryRunVisitor),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "Where the visitor would \
        go", body = DryRunResult), super::answers::DryRunLinkProblems),
    security(("key" = [])))]
pub(super) async fn try_link(
    State(state): Web,
    ReadOnly(caller): ReadOnly,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<DryRunResult>, Problem> {
    let link = readable(&state, caller, params, &code).await?;
    let outcome = try_on(&state, &link, parse_object(&body)?).await?;
    Ok(axum::Json(outcome.into()))
}

/// Try rules on a visitor
///
/// The same for rules without a link.
#[describe::path(post, path = "/api/v1/rules/try", operation_id = "try_rules", tag = "Links",
    request_body(content = DryRunRequest),
    responses((status = 200, description = "Where the visitor would \
        go", body = DryRunResult), super::answers::DryRunProblems),
    security(("key" = [])))]
pub(super) async fn try_rules(
    State(state): Web,
    ReadOnly(_): ReadOnly,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<DryRunResult>, Problem> {
    let body: DryRunRequest = parse_object(&body)?;
    let visitor = body.visitor.unwrap_or_default();
    let outcome = try_drafted(&state, &body.long_url, body.rules, visitor, "visitor.").await?;
    Ok(axum::Json(outcome.into()))
}

impl From<DryRunOutcome> for DryRunResult {
    fn from(outcome: DryRunOutcome) -> Self {
        let steps = outcome.steps.into_iter().enumerate();
        Self {
            rule: outcome.rule,
            branch: outcome.branch,
            long_url: outcome.target,
            location: outcome.location,
            why: outcome.why,
            status: outcome.status,
            steps: steps
                .map(|(rule, step)| DryRunStep { rule, matched: step.matched, why: step.why })
                .collect(),
            seen: ClassifiedVisitor {
                device: outcome.device,
                os: outcome.os,
                language: outcome.language,
                country: outcome.country,
                at: outcome.at.to_string(),
            },
        }
    }
}
