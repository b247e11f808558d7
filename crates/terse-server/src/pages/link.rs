//! The pages of one link: what they have in common, and the actions on the link.

use axum::extract::State;
use axum::response::Response;
use terse_core::{
    Caller, Code, Domain, Link, LinkError, LinkKey, LinkPatch, LinkStatus, Revision, Timestamp,
};

use super::format::{ago, middle_cut};
use super::links::states;
use super::links_bulk::{deleted_path, done_path, list_of};
use super::member::{Member, MemberForm};
use super::session::redirect_to;
use super::shell::Shell;
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, message};
use crate::http::extract::Name;
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::qr::Matrix;

/// The longest target in the head of the page, in characters.
const TARGET: usize = 160;
/// The tabs, by the last part of their path.
const TABS: [(&str, &str); 5] = [
    ("", "Statistics"),
    ("live", "Live"),
    ("rules", "Rules"),
    ("qr", "QR code"),
    ("history", "History"),
];

/// What every page of a link shows: what it is, and what can be done with it.
pub(super) struct LinkHead {
    pub(super) code: String,
    /// The short URL without its scheme.
    pub(super) name: String,
    pub(super) short: String,
    pub(super) target: String,
    pub(super) target_cut: String,
    pub(super) title: Option<String>,
    pub(super) notes: Option<String>,
    pub(super) tags: Vec<String>,
    /// Its states, each with the class of its colour.
    pub(super) states: Vec<(String, &'static str)>,
    pub(super) facts: Vec<String>,
    pub(super) made: String,
    pub(super) made_ago: String,
    pub(super) is_archived: bool,
    pub(super) is_deleted: bool,
    /// Its short domain, where it is not the primary one.
    pub(super) domain: Option<String>,
    pub(super) revision: u64,
    pub(super) qr_path: String,
    pub(super) qr_across: u32,
    /// The message about the action that was just done, and whether it can be taken back.
    pub(super) done: Option<(&'static str, bool)>,
    pub(super) tab: &'static str,
}

impl LinkHead {
    pub(super) fn new(
        state: &App,
        shell: &Shell,
        link: &Link,
        owner: Option<String>,
        tab: &'static str,
        done: Option<&str>,
    ) -> Self {
        let now = state.links.now();
        let short = short_url(&link.key, &state.links.rules().hosts);
        let target = link.target.to_string();
        let matrix = Matrix::of(&short, qrcode::EcLevel::M);
        let mut pills = states(link, shell, now);
        if link.status(now) == LinkStatus::Active && link.archived_at.is_none() {
            pills.insert(0, ("active".into(), "good"));
        }
        Self {
            code: link.key.code.to_string(),
            name: short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned(),
            target_cut: middle_cut(&target, TARGET),
            target,
            title: link.title.as_ref().map(|title| title.as_str().to_owned()),
            notes: link.notes.as_ref().map(|notes| notes.as_str().to_owned()),
            tags: link.tags.iter().map(str::to_owned).collect(),
            states: pills,
            facts: facts(link, owner, shell),
            made: shell.date_time(link.created_at),
            made_ago: ago(link.created_at, now),
            is_archived: link.archived_at.is_some(),
            is_deleted: link.deleted_at.is_some(),
            domain: (!link.key.domain.is_primary()).then(|| link.key.domain.as_str().to_owned()),
            revision: link.revision.0,
            qr_path: matrix.as_ref().map(|matrix| matrix.path(2)).unwrap_or_default(),
            qr_across: matrix.as_ref().map_or(1, |matrix| matrix.across(2)),
            done: done.and_then(done_message),
            tab,
            short,
        }
    }

    /// The path of a page or an action of this link.
    pub(super) fn path(&self, part: &str) -> String {
        path(&self.code, self.domain.as_deref(), part, &[])
    }

    /// The tabs: their paths, labels and whether they are shown.
    pub(super) fn tabs(&self) -> impl Iterator<Item = (String, &'static str, bool)> {
        TABS.into_iter().map(|(part, label)| (self.path(part), label, part == self.tab))
    }

    /// The path of the API that the live view reads.
    pub(super) fn live_path(&self) -> String {
        match &self.domain {
            None => format!("/api/v1/urls/{}/live", self.code),
            Some(domain) => format!("/api/v1/urls/{}/live?domain={domain}", self.code),
        }
    }
}

/// The path of a page or an action of a link, with parameters.
pub(super) fn path(
    code: &str,
    domain: Option<&str>,
    part: &str,
    params: &[(&str, String)],
) -> String {
    let mut path = format!("/links/{code}");
    if !part.is_empty() {
        path.push('/');
        path.push_str(part);
    }
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(domain.map(|domain| ("domain", domain)));
    query.extend_pairs(params);
    let query = query.finish();
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

/// The short domains that links can have, the primary one first; empty if there is only that one.
pub(super) fn domain_choices(state: &App) -> Vec<String> {
    let hosts = &state.links.rules().hosts;
    let mut domains: Vec<Domain> = hosts.configured().collect();
    domains.extend(hosts.added().iter().cloned());
    match domains.as_slice() {
        [_] => Vec::new(),
        many => many.iter().map(|domain| hosts.name_of(domain).to_owned()).collect(),
    }
}

/// The path of a link's page.
pub(super) fn page_of(key: &LinkKey) -> String {
    let domain = (!key.domain.is_primary()).then(|| key.domain.as_str());
    path(key.code.as_str(), domain, "", &[])
}

fn facts(link: &Link, owner: Option<String>, shell: &Shell) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(owner.map(|owner| format!("owned by {owner}")));
    facts.push(format!("redirects with {}", link.redirect.status()));
    facts.extend(link.valid_from.map(|at| format!("works from {}", shell.date_time(at))));
    facts.push(match link.expires_at {
        None => "never expires".to_owned(),
        Some(at) => format!("expires {}", shell.date_time(at)),
    });
    if let Some(most) = link.max_clicks {
        facts.push(match most.to_string().as_str() {
            "1" => "at most 1 click".to_owned(),
            most => format!("at most {most} clicks"),
        });
    }
    if link.forward_query {
        facts.push("passes the query on".into());
    }
    facts
}

/// The message after an action, by the `done` word in the query, and whether the action can be
/// taken back by undo.
fn done_message(word: &str) -> Option<(&'static str, bool)> {
    Some(match word {
        "created" => ("The link is created.", false),
        "existing" => ("You already had a link with this target and these options.", false),
        "changed" => ("The link is changed.", true),
        "unchanged" => ("Nothing was different.", false),
        "archived" => ("The link is archived. It still works, and is left out of the list.", true),
        "unarchived" => ("The link is in the list again.", true),
        "restored" => ("The link is restored.", false),
        "undone" => ("The change is undone.", true),
        "conflict" => ("The link was changed in between. Nothing was done.", false),
        "refused" => ("The rules of this server do not allow that. Nothing was done.", false),
        _ => return None,
    })
}

/// The key of the link that a path and `?domain=` name.
pub(super) fn key_of(state: &App, params: &mut Params, code: &str) -> Option<LinkKey> {
    let domain = match params.take("domain").filter(|host| !host.is_empty()) {
        Some(host) => state.links.rules().hosts.domain_of(&host)?,
        None => Domain::primary(),
    };
    Some(LinkKey { domain, code: Code::parse(code)? })
}

/// A link that the member may see, and its owner's name if that is someone else or the member sees
/// all links.
pub(super) async fn find_link(
    state: &App,
    member: &Member,
    params: &mut Params,
    code: &str,
) -> Result<(Link, Option<String>), Response> {
    let key = key_of(state, params, code).ok_or_else(|| message(&NOT_FOUND))?;
    let caller: Caller = member.principal.caller;
    let link = state.links.get(caller, &key).await.map_err(|error| error_page(&error))?;
    if link.owner == member.here.account.id {
        // Who sees the links of others also sees which are their own.
        let name = caller.sees_all().then(|| member.here.account.name.to_string());
        return Ok((link, name));
    }
    let owner = state.accounts.name_of(link.owner).await.ok().flatten();
    Ok((link, Some(owner.unwrap_or_else(|| "no account".to_owned()))))
}

/// The page for an error of a service.
pub(super) fn error_page(error: &LinkError) -> Response {
    match error {
        LinkError::NotFound => message(&NOT_FOUND),
        error => {
            tracing::error!(%error, "a page of a link failed");
            message(&UNAVAILABLE)
        }
    }
}

/// An action that a form asks for: the member, the link and the remaining fields.
struct Action {
    member: Member,
    key: LinkKey,
    fields: Params,
    /// The list that the form was on; none on the pages of the link.
    list: Option<String>,
}

impl Action {
    fn read(
        state: &App,
        query: Result<Params, Problem>,
        code: &str,
        form: MemberForm,
    ) -> Option<Self> {
        let MemberForm { member, mut fields } = form;
        let list = list_of(&mut fields);
        Some(Self { key: key_of(state, &mut query.ok()?, code)?, member, fields, list })
    }

    fn caller(&self) -> Caller {
        self.member.principal.caller
    }

    /// Goes to the page of the form, which says what happened.
    fn back(&self, part: &str, done: &str) -> Response {
        if let Some(list) = &self.list {
            return redirect_to(&done_path(list, done, 1, 1));
        }
        let LinkKey { domain, code } = &self.key;
        let domain = (!domain.is_primary()).then(|| domain.as_str());
        redirect_to(&path(code.as_str(), domain, part, &[("done", done.to_owned())]))
    }

    fn answer(&self, result: Result<Link, LinkError>, part: &str, done: &str) -> Response {
        match result {
            Ok(_) => self.back(part, done),
            Err(LinkError::Conflict) => self.back(part, "conflict"),
            Err(LinkError::Refused(_) | LinkError::Access(_) | LinkError::Limited(_)) => {
                self.back(part, "refused")
            }
            Err(error) => error_page(&error),
        }
    }
}

pub(super) async fn archive(
    State(state): Web,
    Name(code): Name,
    query: Result<Params, Problem>,
    form: MemberForm,
) -> Response {
    let Some(mut action) = Action::read(&state, query, &code, form) else {
        return message(&NOT_FOUND);
    };
    let archived = match action.fields.take("archived").as_deref() {
        Some("true") => true,
        Some("false") => false,
        _ => return message(&BAD_FORM),
    };
    let patch = LinkPatch { archived: Some(archived), ..LinkPatch::default() };
    let changed = state.links.patch(action.caller(), &action.key, &patch, None).await;
    action.answer(changed, "", if archived { "archived" } else { "unarchived" })
}

pub(super) async fn delete(
    State(state): Web,
    Name(code): Name,
    query: Result<Params, Problem>,
    form: MemberForm,
) -> Response {
    let Some(action) = Action::read(&state, query, &code, form) else {
        return message(&NOT_FOUND);
    };
    match state.links.delete(action.caller(), &action.key).await {
        Ok(()) => {
            let list = action.list.as_deref().unwrap_or("/links");
            redirect_to(&deleted_path(list, std::slice::from_ref(&action.key)))
        }
        Err(error) => error_page(&error),
    }
}

pub(super) async fn restore(
    State(state): Web,
    Name(code): Name,
    query: Result<Params, Problem>,
    form: MemberForm,
) -> Response {
    let Some(action) = Action::read(&state, query, &code, form) else {
        return message(&NOT_FOUND);
    };
    let restored = state.links.restore(action.caller(), &action.key).await;
    action.answer(restored, "", "restored")
}

pub(super) async fn undo(
    State(state): Web,
    Name(code): Name,
    query: Result<Params, Problem>,
    form: MemberForm,
) -> Response {
    let Some(mut action) = Action::read(&state, query, &code, form) else {
        return message(&NOT_FOUND);
    };
    let mut number = |name| match action.fields.take(name) {
        None => Ok(None),
        Some(text) => text.parse().map(|number| Some(Revision(number))),
    };
    let (Ok(to), Ok(expected)) = (number("revision"), number("expected")) else {
        return message(&BAD_FORM);
    };
    let undone = state.links.undo(action.caller(), &action.key, to, expected).await;
    action.answer(undone, "history", "undone")
}

/// A time, how long ago it was and the exact one.
pub(super) fn ago_and_exact(shell: &Shell, at: Timestamp, now: Timestamp) -> (String, String) {
    (ago(at, now), shell.date_time(at))
}
