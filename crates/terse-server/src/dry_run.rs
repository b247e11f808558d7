//! Dry runs of rules: where a given visitor would go, and why.

use std::net::{IpAddr, Ipv4Addr};

use crate::describe::ToSchema;
use serde::Deserialize;
use terse_core::rules::{self, RawRules, RuleEvaluation, Rules, SplitKey, VisitorTraits};
use terse_core::{Link, LinkKey, Target, Timestamp, TimestampError};

use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::App;
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
pub(crate) struct DryRunVisitor {
    /// The `User-Agent` header: determines device and operating system.
    #[serde(alias = "userAgent")]
    #[schema(max_length = 8192)]
    pub(crate) user_agent: Option<String>,
    /// The country: two letters (ISO 3166). Not together with `address`.
    #[schema(pattern = "^[A-Za-z]{2}$")]
    pub(crate) country: Option<String>,
    /// The address: determines the country and the branch of a split.
    #[schema(max_length = 45)]
    pub(crate) address: Option<String>,
    /// The `Accept-Language` header.
    #[serde(alias = "acceptLanguage")]
    #[schema(max_length = 8192)]
    pub(crate) accept_language: Option<String>,
    /// The query string, without the question mark.
    #[schema(max_length = 8192)]
    pub(crate) query: Option<String>,
    /// When: RFC 3339 with an offset, or a date. Now by default.
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    pub(crate) at: Option<String>,
    /// Any text: the same text takes the same branch of a split. Without it, address and user agent
    /// decide, as for real visitors.
    #[serde(alias = "visitorId")]
    #[schema(max_length = 200)]
    pub(crate) visitor_id: Option<String>,
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
    fn parse(sent: DryRunVisitor, within: &str, now: Timestamp) -> Result<Self, Problem> {
        let refuse = |field: &str, detail: &'static str| {
            Problem::invalid(format!("{within}{field}"), detail)
        };
        let short = |field: &str, text: &Option<String>, most: usize| match text {
            Some(text) if text.len() > most => {
                Err(Problem::invalid(format!("{within}{field}"), format!("at most {most} bytes")))
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
struct DryRun<'a> {
    rules: Option<&'a Rules>,
    target: &'a Target,
    link: Option<&'a Link>,
}

/// Where a visitor would go, and why.
pub(crate) struct DryRunOutcome {
    /// The rule that matched, from 0.
    pub(crate) rule: Option<usize>,
    /// The branch of its split, from 0.
    pub(crate) branch: Option<usize>,
    pub(crate) target: String,
    /// The target with the visitor's query, where the link passes it on.
    pub(crate) location: String,
    pub(crate) why: String,
    /// The status of the link at that time.
    pub(crate) status: Option<&'static str>,
    /// Each rule that was tried, up to the one that matched.
    pub(crate) steps: Vec<RuleEvaluation>,
    pub(crate) device: Option<String>,
    pub(crate) os: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) country: Option<String>,
    pub(crate) at: Timestamp,
}

impl DryRunOutcome {
    /// Why, with the number that the pages give the rule.
    pub(crate) fn why_on_pages(&self) -> String {
        match self.rule {
            Some(rule) => {
                self.why.replacen(&format!("rules[{rule}]"), &format!("Rule {}", rule + 1), 1)
            }
            None => self.why.clone(),
        }
    }
}

/// Tries the rules of a link on a visitor.
pub(crate) async fn try_on(
    state: &App,
    link: &Link,
    visitor: DryRunVisitor,
) -> Result<DryRunOutcome, Problem> {
    let visitor = Visitor::parse(visitor, "", state.links.now())?;
    DryRun { rules: link.rules.as_ref(), target: &link.target, link: Some(link) }
        .on(state, visitor)
        .await
}

/// Tries rules that no link has yet. `within` is the prefix of the visitor's fields in problems.
pub(crate) async fn try_drafted(
    state: &App,
    long_url: &str,
    rules: Option<RawRules>,
    visitor: DryRunVisitor,
    within: &str,
) -> Result<DryRunOutcome, Problem> {
    let targets = &state.links.rules().targets;
    let target = Target::parse(long_url, targets)?;
    let drafted = rules.map(|RawRules(sent)| Rules::parse(&sent, targets)).transpose()?.flatten();
    let visitor = Visitor::parse(visitor, within, state.links.now())?;
    let rules = drafted.as_ref().map(|drafted| &drafted.rules);
    DryRun { rules, target: &target, link: None }.on(state, visitor).await
}

impl DryRun<'_> {
    async fn on(self, state: &App, visitor: Visitor) -> Result<DryRunOutcome, Problem> {
        let traits = classify(state, &visitor).await?;
        let key = self.link.map(|link| &link.key);
        let facts =
            traits.context(&visitor.languages, &visitor.query, visitor.at, visitor.who(key));
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
        Ok(DryRunOutcome {
            rule: went.map(|went| went.rule),
            branch: went.and_then(|went| went.branch),
            target: target.to_string(),
            location: if forward { target.with_query(&visitor.query) } else { target.to_string() },
            why,
            status: self.link.map(|link| link.status(visitor.at).as_str()),
            steps,
            device: traits.device.as_deref().map(str::to_owned),
            os: traits.system.as_deref().map(str::to_owned),
            language: rules::preferred_language(&visitor.languages).map(str::to_owned),
            country: traits.country.as_deref().map(str::to_owned),
            at: visitor.at,
        })
    }
}

fn sentence(rule: usize, step: Option<&RuleEvaluation>) -> String {
    match step.map(|step| &*step.why) {
        None | Some([]) => format!("rules[{rule}] matches every visitor"),
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
