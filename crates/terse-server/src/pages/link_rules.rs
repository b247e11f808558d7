//! The redirect rules of a link, and a form that tries them on a visitor.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::form::sentence;
use super::link::{LinkHead, find_link};
use super::member::Member;
use super::rule_words::{RuleWords, in_words};
use super::session::app_page;
use super::shell::Shell;
use super::{NOT_FOUND, html, message};
use crate::dry_run::{DryRunOutcome, DryRunVisitor, try_on};
use crate::http::extract::Name;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::Web;

/// Visitors that the form offers, by their user agents.
const AGENTS: [(&str, &str); 5] = [
    (
        "iPhone",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
         Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    ),
    (
        "Android phone",
        "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/126.0.0.0 Mobile Safari/537.36",
    ),
    (
        "Windows",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/126.0.0.0 Safari/537.36",
    ),
    (
        "Mac",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
         Version/17.5 Safari/605.1.15",
    ),
    ("Linux", "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"),
];

#[derive(Template)]
#[template(path = "link_rules.html")]
struct RulesPage {
    shell: Shell,
    head: LinkHead,
    rules: Vec<RuleWords>,
    tried: DryRunForm,
    outcome: Option<DryRunOutcome>,
    problem: Option<(String, String)>,
}

impl RulesPage {
    fn is_wrong(&self, field: &str) -> bool {
        self.problem.as_ref().is_some_and(|(wrong, _)| wrong == field)
    }

    fn message(&self) -> &str {
        self.problem.as_ref().map(|(_, words)| words.as_str()).unwrap_or_default()
    }
}

/// The visitor in the form.
#[derive(Clone, Default)]
pub(super) struct DryRunForm {
    pub(super) agent: String,
    pub(super) country: String,
    pub(super) language: String,
    pub(super) query: String,
}

impl DryRunForm {
    pub(super) fn agents(&self) -> impl Iterator<Item = (&'static str, bool)> {
        AGENTS.into_iter().map(|(name, _)| (name, name == self.agent))
    }

    pub(super) fn visitor(&self) -> DryRunVisitor {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let agent = AGENTS.iter().find(|(name, _)| *name == self.agent);
        DryRunVisitor {
            user_agent: agent.map(|(_, agent)| (*agent).to_owned()),
            country: given(&self.country),
            accept_language: given(&self.language),
            query: given(&self.query),
            ..DryRunVisitor::default()
        }
    }
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    Name(code): Name,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let (done, asked) = (params.take("done"), params.take("try").is_some());
    let shell = member.shell(&state, "/links");
    let mut take = |name| params.take(name).unwrap_or_default();
    let tried = DryRunForm {
        agent: take("agent"),
        country: take("country"),
        language: take("language"),
        query: take("query"),
    };
    let (link, owner) = match find_link(&state, &member, &mut params, &code).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let (mut outcome, mut problem) = (None, None);
    if asked {
        match try_on(&state, &link, tried.visitor()).await {
            Ok(found) => outcome = Some(found),
            Err(refused) => {
                let field = refused.field().unwrap_or("agent").to_owned();
                problem = Some((field, sentence(&refused)));
            }
        }
    }
    let rules = in_words(link.rules.as_ref());
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let head = LinkHead::new(&state, &shell, &link, owner, "rules", done.as_deref());
    app_page(status, html(&RulesPage { shell, head, rules, tried, outcome, problem }))
}
