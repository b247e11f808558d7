//! Dry runs of rules: where a given visitor would go, and why.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::State;
use serde::{Deserialize, Serialize};
use terse_core::rules::{self, RawRules, Rules, SplitKey, Step, VisitorTraits};
use terse_core::{Link, LinkKey, Target, Timestamp, TimestampError};
use utoipa::ToSchema;

use super::answers::{TrialProblems, TryProblems};
use super::links::readable;
use super::rule_schemas;
use super::schemas;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Name, ReadOnly};
use crate::http::params::{NoParams, Params};
use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::{App, Web};
use crate::resolve_target;

const MAX_TEXT_LEN: usize = 8192;
const MAX_ID_LEN: usize = 200;

/// A visitor to try rules on. Absent fields are unknown; null means absent.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "user_agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 \
        (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "country": "AT", "accept_language": "de-AT,de;q=0.9", "query": "utm_source=mail"
}))]
pub(crate) struct TriedVisitor {
    /// The `User-Agent` header: determines device and operating system.
    #[serde(alias = "userAgent")]
    #[schema(max_length = 8192)]
    user_agent: Option<String>,
    /// The country: two letters (ISO 3166). Not together with `address`.
    #[schema(pattern = "^[A-Za-z]{2}$")]
    country: Option<String>,
    /// The address: determines the country and the branch of a split.
    #[schema(max_length = 45)]
    address: Option<String>,
    /// The `Accept-Language` header.
    #[serde(alias = "acceptLanguage")]
    #[schema(max_length = 8192)]
    accept_language: Option<String>,
    /// The query string, without the question mark.
    #[schema(max_length = 8192)]
    query: Option<String>,
    /// When: RFC 3339 with an offset, or a date. Now by default.
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    at: Option<String>,
    /// Any text: the same text takes the same branch of a split. Without it, address and user agent
    /// decide, as for real visitors.
    #[serde(alias = "visitorId")]
    #[schema(max_length = 200)]
    visitor_id: Option<String>,
}

/// Rules without a link, and a visitor to try them on.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "long_url": "https://example.com/", "rules": [{ "country": "AT",
        "to": "https://example.com/at" }], "visitor": { "country": "DE" }
}))]
pub(crate) struct TryRules {
    /// The target if no rule matches.
    #[serde(alias = "longUrl")]
    #[schema(min_length = 8, max_length = 8192, pattern = "^https?://", nullable = false)]
    long_url: String,
    /// The rules.
    #[schema(schema_with = rule_schemas::rules_or_null)]
    rules: Option<RawRules>,
    /// The visitor.
    visitor: Option<TriedVisitor>,
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
pub(crate) struct Trial {
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
    #[schema(schema_with = schemas::status_or_null)]
    status: Option<&'static str>,
    /// Each rule that was tried, up to the one that matched.
    #[schema(max_items = 20)]
    steps: Vec<TrialStep>,
    /// What is known of the visitor.
    seen: SeenVisitor,
}

/// The result of one rule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TrialStep {
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
pub(crate) struct SeenVisitor {
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
#[utoipa::path(post, path = "/api/v1/urls/{code}/try", operation_id = "try_link", tag = "Links",
    request_body(content = TriedVisitor),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "Where the visitor would \
        go", body = Trial), TryProblems),
    security(("key" = [])))]
pub(super) async fn try_link(
    State(state): Web,
    ReadOnly(caller): ReadOnly,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<Trial>, Problem> {
    let link = readable(&state, caller, params, &code).await?;
    let visitor = Visitor::parse(parse_object(&body)?, "", state.links.now())?;
    let tried = Tried {
        rules: link.rules.as_ref(),
        target: &link.target,
        link: Some(&link),
        key: Some(&link.key),
    };
    tried.on(&state, visitor).await.map(axum::Json)
}

/// Try rules on a visitor
///
/// The same for rules without a link.
#[utoipa::path(post, path = "/api/v1/rules/try", operation_id = "try_rules", tag = "Links",
    request_body(content = TryRules),
    responses((status = 200, description = "Where the visitor would \
        go", body = Trial), TrialProblems),
    security(("key" = [])))]
pub(super) async fn try_rules(
    State(state): Web,
    ReadOnly(_): ReadOnly,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<Trial>, Problem> {
    let body: TryRules = parse_object(&body)?;
    let targets = &state.links.rules().targets;
    let target = Target::parse(&body.long_url, targets)?;
    let drafted =
        body.rules.map(|RawRules(sent)| Rules::parse(&sent, targets)).transpose()?.flatten();
    let visitor = Visitor::parse(body.visitor.unwrap_or_default(), "visitor.", state.links.now())?;
    let rules = drafted.as_ref().map(|drafted| &drafted.rules);
    Tried { rules, target: &target, link: None, key: None }
        .on(&state, visitor)
        .await
        .map(axum::Json)
}

/// A visitor whose fields are validated.
struct Visitor {
    agent: Option<String>,
    address: Option<IpAddr>,
    country: Option<&'static str>,
    languages: String,
    query: String,
    at: Timestamp,
    id: Option<String>,
}

impl Visitor {
    /// `within` is the prefix of field names in problems.
    fn parse(sent: TriedVisitor, within: &str, now: Timestamp) -> Result<Self, Problem> {
        let refuse = |field: &str, detail: &'static str| {
            Problem::invalid(format!("{within}{field}"), detail)
        };
        let short = |field: &str, text: &Option<String>, most: usize| match text {
            Some(text) if text.len() > most => {
                Err(Problem::invalid(format!("{within}{field}"), format!("at most {most} octets")))
            }
            _ => Ok(()),
        };
        short("user_agent", &sent.user_agent, MAX_TEXT_LEN)?;
        short("accept_language", &sent.accept_language, MAX_TEXT_LEN)?;
        short("query", &sent.query, MAX_TEXT_LEN)?;
        short("visitor_id", &sent.visitor_id, MAX_ID_LEN)?;
        if sent.country.is_some() && sent.address.is_some() {
            return Err(refuse("country", "give either country or address, not both"));
        }
        let country = sent.country.as_deref().map(|text| {
            rules::parse_country(text).ok_or_else(|| {
                refuse("country", "the two letters of a country, such as DE (ISO 3166)")
            })
        });
        let address = sent
            .address
            .as_deref()
            .map(|text| text.parse().map_err(|_| refuse("address", "not an IP address")));
        let at = sent.at.as_deref().map(|text| {
            text.parse().map_err(|error: TimestampError| {
                Problem::invalid(format!("{within}at"), error.to_string())
            })
        });
        let query = sent.query.unwrap_or_default();
        Ok(Self {
            agent: sent.user_agent,
            address: address.transpose()?,
            country: country.transpose()?,
            languages: sent.accept_language.unwrap_or_default(),
            query: query.strip_prefix('?').unwrap_or(&query).to_owned(),
            at: at.transpose()?.unwrap_or(now),
            id: sent.visitor_id,
        })
    }

    /// The visitor's key in a split.
    fn who(&self, key: Option<&LinkKey>) -> SplitKey {
        let agent = self.agent.as_deref().unwrap_or_default().as_bytes();
        let address = self.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let who = self.id.as_deref().map_or_else(
            || SplitKey::of(address, rules::truncate_user_agent(agent)),
            SplitKey::named,
        );
        key.map_or(who, |key| who.at(key))
    }
}

/// The rules and the default target of a dry run.
struct Tried<'a> {
    rules: Option<&'a Rules>,
    target: &'a Target,
    link: Option<&'a Link>,
    key: Option<&'a LinkKey>,
}

impl Tried<'_> {
    async fn on(self, state: &App, visitor: Visitor) -> Result<Trial, Problem> {
        let traits = classify(state, &visitor).await?;
        let facts =
            traits.context(&visitor.languages, &visitor.query, visitor.at, visitor.who(self.key));
        let (went, steps) = match self.rules {
            Some(rules) => {
                let explained = rules.explain(&facts);
                (explained.matched, explained.steps)
            }
            None => (None, Vec::new()),
        };
        let target = went.map_or(self.target, |went| went.target);
        let forward = self.link.is_some_and(|link| link.forward_query) && !visitor.query.is_empty();
        let why = match (went, self.rules) {
            (Some(went), _) => sentence(went.rule, steps.last()),
            (None, Some(_)) => "no rule matches, so the link's own target stays".to_owned(),
            (None, None) => "there are no rules, so the link's own target stays".to_owned(),
        };
        Ok(Trial {
            rule: went.map(|went| went.rule),
            branch: went.and_then(|went| went.branch),
            long_url: target.to_string(),
            location: if forward { target.with_query(&visitor.query) } else { target.to_string() },
            why,
            status: self.link.map(|link| link.status(visitor.at).as_str()),
            steps: steps
                .into_iter()
                .enumerate()
                .map(|(rule, Step { matched, why })| TrialStep { rule, matched, why })
                .collect(),
            seen: SeenVisitor {
                device: traits.device.as_deref().map(str::to_owned),
                os: traits.system.as_deref().map(str::to_owned),
                language: rules::preferred_language(&visitor.languages).map(str::to_owned),
                country: traits.country.as_deref().map(str::to_owned),
                at: visitor.at.to_string(),
            },
        })
    }
}

fn sentence(rule: usize, step: Option<&Step>) -> String {
    match step.map(|step| &*step.why) {
        None | Some([]) => format!("rules[{rule}] matches everybody"),
        Some(why) => format!("rules[{rule}] matches: {}", why.join(", ")),
    }
}

/// Classifies the visitor. A given country overrides the one of the address.
async fn classify(state: &App, visitor: &Visitor) -> Result<VisitorTraits, Problem> {
    let agent = visitor.agent.as_ref().map(|agent| agent.clone().into_bytes());
    let mut traits =
        resolve_target::classify(state, agent, visitor.address).await.ok_or_else(|| {
            Problem::new(&STORE_UNAVAILABLE, "the visitor could not be looked at; try again")
        })?;
    if let Some(country) = visitor.country {
        traits.country = Some(country.into());
    }
    Ok(traits)
}
