//! Decisions of moderators: the buttons beside a link, what they do, and how each is taken back.

use axum::extract::State;
use axum::response::Response;
use terse_core::accounts::reason_or;
use terse_core::moderation::{ModerationError, ReportDecision};
use terse_core::registry::ReportId;
use terse_core::{Code, Domain, Link, LinkKey, ModerationStatus, Principal, Timestamp};
use url::form_urlencoded::Serializer;

use super::member::{MemberForm, ModeratorForm};
use super::session::redirect_to;
use super::{BAD_FORM, UNAVAILABLE, message};
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// A link as the forms of decisions name it.
pub(super) struct DecisionLink {
    pub(super) code: String,
    pub(super) domain: String,
    /// When it was created: a later link may have the same code.
    pub(super) created: i64,
    /// Its address, without the scheme.
    pub(super) name: String,
}

impl DecisionLink {
    pub(super) fn new(state: &App, key: &LinkKey, created_at: Timestamp) -> Self {
        let short = short_url(key, &state.links.rules().hosts);
        Self {
            code: key.code.to_string(),
            domain: match key.domain.is_primary() {
                true => String::new(),
                false => key.domain.as_str().to_owned(),
            },
            created: created_at.as_ms(),
            name: short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned(),
        }
    }
}

/// The part of the page that a decision leads back to.
#[derive(Clone, Default)]
pub(super) struct Place {
    /// The reports after this one.
    pub(super) after: Option<ReportId>,
    /// The reports' row that takes the focus, counted from 0.
    pub(super) at: Option<usize>,
    /// The host that was searched for.
    pub(super) search: String,
}

impl Place {
    pub(super) fn take(params: &mut Params) -> Self {
        let mut text = |name| params.take(name).unwrap_or_default();
        Self {
            after: text("after").parse().ok().map(ReportId),
            at: text("at").parse().ok(),
            search: text("search"),
        }
    }

    /// Whether this row takes the focus.
    pub(super) fn is_at(&self, row: &usize) -> bool {
        self.at == Some(*row)
    }

    /// The hidden fields that keep the page of reports and the search.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let after = self.after.map(|after| ("after", after.0.to_string()));
        let search = Some(("search", self.search.clone())).filter(|(_, text)| !text.is_empty());
        after.into_iter().chain(search).collect()
    }

    /// The page, with these fields of its query first.
    fn path(&self, fields: &[(&str, &str)]) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(fields).extend_pairs(self.fields());
        if let Some(at) = self.at {
            query.append_pair("at", &at.to_string());
        }
        format!("/moderation?{}", query.finish())
    }
}

/// The message about what was done.
pub(super) struct Toast {
    pub(super) words: String,
    /// A button that takes it back, or decides otherwise.
    pub(super) button: Option<ToastButton>,
}

pub(super) struct ToastButton {
    pub(super) link: DecisionLink,
    pub(super) decision: &'static str,
    pub(super) label: &'static str,
}

/// The decisions: their names in forms, and the words of the page's address once they are made.
const DECISIONS: [(&str, &str, ReportDecision); 5] = [
    ("block", "blocked", ReportDecision::Block),
    ("warn", "warned", ReportDecision::Warn),
    ("clear", "cleared", ReportDecision::Clear),
    ("ban", "banned", ReportDecision::SuspendOwner),
    ("reinstate", "reinstated", ReportDecision::ReinstateOwner),
];

fn name_of(decision: ReportDecision) -> &'static str {
    let found = DECISIONS.iter().find(|(.., one)| *one == decision);
    found.map(|(name, ..)| *name).unwrap_or_default()
}

fn key_of(state: &App, domain: &str, code: &str) -> Option<LinkKey> {
    let domain = match domain {
        "" => Domain::primary(),
        host => state.links.rules().hosts.domain_of(host)?,
    };
    Some(LinkKey { domain, code: Code::parse(code)? })
}

/// The decisions that would change something about a link in a search: their names and labels.
pub(super) fn choices(link: &Link, is_suspended: bool) -> Vec<(&'static str, &'static str)> {
    let mut choices = Vec::new();
    if link.moderation != ModerationStatus::Blocked {
        choices.push(("block", "Block"));
    }
    if link.moderation != ModerationStatus::Clear {
        choices.push(("clear", "Clear"));
    }
    if is_suspended {
        choices.push(("reinstate", "Reinstate owner"));
    }
    choices
}

/// The message about a decision in the page's address; `None` if the link is not as it says.
pub(super) async fn decision_toast(
    state: &App,
    principal: &Principal,
    done: &str,
    params: &mut Params,
) -> Result<Option<Toast>, ModerationError> {
    let mut text = |name| params.take(name).unwrap_or_default();
    let (code, domain, undo) = (text("code"), text("domain"), text("undo"));
    let created = text("created");
    let decision = DECISIONS.iter().find(|(_, word, _)| *word == done).map(|(.., one)| *one);
    let Some((decision, key)) = decision.zip(key_of(state, &domain, &code)) else {
        return Ok(None);
    };
    let Some(link) = state.moderation.link(principal, &key).await? else { return Ok(None) };
    if link.created_at.as_ms().to_string() != created {
        return Ok(None);
    }
    let owner = state.moderation.owner_of(principal, &link).await?;
    let is_suspended = owner.as_ref().is_some_and(|owner| owner.suspended.is_some());
    let owner = owner.map_or_else(|| "The owner".to_owned(), |owner| owner.name.to_string());
    let link_of = DecisionLink::new(state, &key, link.created_at);
    let name = &link_of.name;
    let (is_so, words) = match decision {
        ReportDecision::Block => (
            link.moderation == ModerationStatus::Blocked,
            format!("{name} is blocked. Visitors get 451."),
        ),
        ReportDecision::Warn => (
            link.moderation == ModerationStatus::Suspicious,
            format!("{name} shows visitors a warning first."),
        ),
        ReportDecision::Clear => (
            link.moderation == ModerationStatus::Clear,
            format!("{name} is cleared. It redirects, whatever lists and reports say."),
        ),
        ReportDecision::SuspendOwner => {
            (is_suspended, format!("{owner} is suspended: keys, sessions and all links."))
        }
        ReportDecision::ReinstateOwner => {
            (!is_suspended, format!("{owner} is reinstated: keys and links work again."))
        }
    };
    if !is_so {
        return Ok(None);
    }
    let undo = DECISIONS.iter().find(|(name, ..)| *name == undo);
    let (decision, label) = match (undo, decision) {
        (Some((name, _, undo)), _) if *undo != decision => (*name, "Undo"),
        // The link was clear before: only the reports were settled.
        (None, ReportDecision::Clear) => ("block", "Block instead"),
        _ => return Ok(Some(Toast { words, button: None })),
    };
    let button = ToastButton { link: link_of, decision, label };
    Ok(Some(Toast { words, button: Some(button) }))
}

/// A decision about a link.
pub(super) async fn decide(
    State(state): Web,
    ModeratorForm(MemberForm { member, mut fields }): ModeratorForm,
) -> Response {
    let mut place = Place::take(&mut fields);
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (code, domain, why) = (take("code"), take("domain"), take("why"));
    let (decision, created) = (take("decision"), take("created"));
    let Some(key) = key_of(&state, &domain, &code) else { return message(&BAD_FORM) };
    let decision = DECISIONS.iter().find(|(name, ..)| *name == decision);
    let Some((_, word, decision)) = decision else { return message(&BAD_FORM) };
    let refused = |place: &Place| redirect_to(&place.path(&[("done", "refused")]));
    let Some(created_at) = created.parse().ok().map(Timestamp::from_ms) else {
        return refused(&place);
    };
    let why = reason_or(&why, "decided in the dashboard");
    let reported = (&key, created_at);
    match state.moderation.decide_report(&member.principal, reported, *decision, why).await {
        Ok(undo) => {
            // A settled case leaves the list, and the next one takes its place.
            let stays =
                matches!(decision, ReportDecision::SuspendOwner | ReportDecision::ReinstateOwner);
            place.at = place.at.map(|at| at + usize::from(stays));
            let mut fields = vec![("done", *word), ("code", key.code.as_str())];
            fields.extend([("domain", &*domain), ("created", &*created)]);
            fields.extend(undo.map(|undo| ("undo", name_of(undo))));
            redirect_to(&place.path(&fields))
        }
        Err(error) => match Problem::from(error).status() {
            500.. => message(&UNAVAILABLE),
            _ => refused(&place),
        },
    }
}
