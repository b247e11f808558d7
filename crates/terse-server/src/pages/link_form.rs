//! The form of a link: creates one with every field that the API has, or changes one.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use terse_core::{Domain, Link, LinkError, LinkKey, Revision};

use super::form::sentence;
use super::home::with_scheme;
use super::link::{domain_choices, find_link, page_of, path};
use super::link_fields::LinkForm;
use super::link_form_qr::FormQr;
use super::member::{Member, MemberForm};
use super::rule_form::RowAction;
use super::session::{app_page, app_problem_page, redirect_to};
use super::shell::Shell;
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, html, message};
use crate::dry_run::{DryRunOutcome, try_drafted};
use crate::http::extract::{Name, Peer};
use crate::http::host::short_url;
use crate::http::limit_headers;
use crate::http::params::Params;
use crate::http::problem::{CONFLICT, Problem};
use crate::http::state::{App, Web};

#[derive(Template)]
#[template(path = "link_form.html")]
struct FormPage {
    shell: Shell,
    form: LinkForm,
    /// The short domains to choose from; empty if there is one.
    domains: Vec<String>,
    /// The link that is changed: the short URL without its scheme, and the path of its page.
    link: Option<(String, String)>,
    action: String,
    qr: FormQr,
    /// Where the tried visitor would go.
    outcome: Option<DryRunOutcome>,
    /// The field with the problem, and the problem.
    wrong: Option<(String, String)>,
}

impl FormPage {
    /// The problem of a field.
    fn wrong(&self, field: &str) -> Option<&str> {
        let (wrong, words) = self.wrong.as_ref()?;
        // A rule is named with its place: `rules[2].to`.
        let same = wrong == field || wrong.split('[').next() == Some(field);
        same.then_some(words.as_str())
    }

    /// Whether the problem belongs to no field of the form.
    fn general_problem(&self) -> Option<&str> {
        const FIELDS: [&str; 16] = [
            "long_url",
            "custom_alias",
            "domain",
            "title",
            "tags",
            "notes",
            "expires_at",
            "valid_from",
            "max_clicks",
            "password",
            "redirect",
            "rules",
            "try.country",
            "preview.title",
            "preview.description",
            "preview.image_url",
        ];
        let (_, words) = self.wrong.as_ref()?;
        FIELDS.iter().all(|field| self.wrong(field).is_none()).then_some(words.as_str())
    }

    /// The problem of a rule, by its place.
    fn rule_wrong(&self, place: &usize) -> Option<&str> {
        let (wrong, words) = self.wrong.as_ref()?;
        let rest = wrong.strip_prefix(&format!("rules[{place}]"))?;
        (rest.is_empty() || rest.starts_with('.')).then_some(words)
    }

    /// Whether the problem of this rule is about this field; `to0` is its first target, and `w0`
    /// the weight of it. A problem of no field of the row is shown at its first.
    fn rule_field_wrong(&self, place: &usize, field: &str) -> bool {
        const FIELDS: [&str; 9] =
            ["os", "country", "language", "query", "from", "until", "days", "hours", "to"];
        let Some((wrong, _)) = &self.wrong else { return false };
        let Some(rest) = wrong.strip_prefix(&format!("rules[{place}]")) else { return false };
        let rest = rest.trim_start_matches('.');
        let (name, rest) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
        let is_known = FIELDS.contains(&name);
        if name != "to" {
            return if is_known { name == field } else { field == "device" };
        }
        let (index, part) =
            rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).unwrap_or(("0", ""));
        let kind = if part == ".weight" { "w" } else { "to" };
        field.strip_prefix(kind) == Some(index)
    }

    /// The same, of a target or its weight.
    fn rule_target_wrong(&self, place: &usize, kind: &str, index: &usize) -> bool {
        self.rule_field_wrong(place, &format!("{kind}{index}"))
    }

    /// Whether a problem is about the times of a rule.
    fn rule_times_wrong(&self, place: &usize) -> bool {
        ["from", "until", "days", "hours"].iter().any(|field| self.rule_field_wrong(place, field))
    }

    /// A problem of the rules that belongs to none of the rows.
    fn rules_wrong(&self) -> Option<&str> {
        let rows = self.form.rows.as_ref().map_or(0, Vec::len);
        let in_row = (0..rows).any(|place| self.rule_wrong(&place).is_some());
        self.wrong("rules").filter(|_| !in_row)
    }

    /// Whether the part of the form that is closed at first must be open.
    fn is_open(&self, fields: &[&str]) -> bool {
        fields.iter().any(|field| self.wrong(field).is_some())
    }

    fn zone(&self) -> String {
        self.form.zone(&self.shell).iana_name().unwrap_or("UTC").to_owned()
    }
}

impl FormPage {
    fn new(state: &App, member: &Member, form: LinkForm, link: Option<&Link>) -> Self {
        let hosts = &state.links.rules().hosts;
        let shown = link.map(|link| {
            let short = short_url(&link.key, hosts);
            let name = short.split_once("://").map_or(short.as_str(), |(_, rest)| rest).to_owned();
            (name, page_of(&link.key))
        });
        let action = match link {
            Some(link) => {
                let domain = (!link.key.domain.is_primary()).then(|| link.key.domain.as_str());
                path(link.key.code.as_str(), domain, "edit", &[])
            }
            None => "/links/new".to_owned(),
        };
        Self {
            shell: member.shell(state, "/links"),
            qr: FormQr::new(state, &form, link),
            form,
            domains: domain_choices(state),
            link: shown,
            action,
            outcome: None,
            wrong: None,
        }
    }

    /// The part of the short URL before the alias, with the chosen domain.
    fn base(&self) -> String {
        let chosen = self.domains.iter().find(|name| **name == self.form.domain);
        format!("{}/", chosen.map_or(self.shell.host(), String::as_str))
    }
}

/// Shows the form after a button of the rules: with another row, or with where a visitor goes.
async fn after_row_action(state: &App, mut page: FormPage, action: RowAction) -> Response {
    if let Some(rows) = &mut page.form.rows {
        action.apply(rows);
    }
    if action == RowAction::Try {
        let zone = page.form.zone(&page.shell);
        let (long_url, visitor) = (page.form.target(), page.form.tried.visitor());
        let tried = match page.form.rules(&zone) {
            Ok(rules) => try_drafted(state, &long_url, rules, visitor, "try.").await,
            Err(problem) => Err(problem),
        };
        match tried {
            Ok(outcome) => page.outcome = Some(outcome),
            Err(problem) => return form_problem(page, &problem),
        }
    }
    // The browser does not send a password back that a page shows, so the form asks for it again.
    page.form.password_again = !page.form.password.is_empty();
    page.form.password = String::new();
    app_page(StatusCode::OK, html(&page))
}

/// Shows the form again with the problem and the typed values, but no password.
fn form_problem(mut page: FormPage, problem: &Problem) -> Response {
    page.form.password_again = !page.form.password.is_empty();
    page.form.password = String::new();
    let field = match problem.field() {
        Some("ttl") => "expires_at",
        Some(field) => field,
        None => "",
    };
    page.wrong = Some((field.to_owned(), sentence(problem)));
    app_problem_page(problem, html(&page))
}

pub(super) async fn new(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let mut take = |name| params.take(name).unwrap_or_default();
    let typed = take("url");
    let long_url = if typed.is_empty() { typed } else { with_scheme(&typed) };
    let rows = Some(Vec::new());
    let form = LinkForm { long_url, title: take("title"), rows, ..LinkForm::default() };
    app_page(StatusCode::OK, html(&FormPage::new(&state, &member, form, None)))
}

pub(super) async fn create(
    State(state): Web,
    Peer(address): Peer,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let mut form = LinkForm::read(&mut fields);
    form.take_rules(&mut fields);
    let page = FormPage::new(&state, &member, form, None);
    if let Some(action) = page.form.row_action {
        return after_row_action(&state, page, action).await;
    }
    let draft = match fields.done().and_then(|()| page.form.create(&page.form.zone(&page.shell))) {
        Ok(draft) => draft,
        Err(problem) => return form_problem(page, &problem),
    };
    let creator = match state.creation.admit(&member.principal, Some(address)).await {
        Ok(creator) => creator,
        Err(error) => return form_problem(page, &error.into()),
    };
    let creation = match state.creation.begin(&creator, 1).await {
        Ok(creation) => creation,
        Err(error) => return form_problem(page, &error.into()),
    };
    let result = creation.create(draft).await;
    let left = creation.finish().await;
    let mut response = match result {
        Ok(made) => {
            let domain = &made.link.key.domain;
            let domain = (!domain.is_primary()).then(|| domain.as_str());
            let done = if made.new { "created" } else { "existing" };
            redirect_to(&path(
                made.link.key.code.as_str(),
                domain,
                "",
                &[("done", done.to_owned())],
            ))
        }
        Err(error) => form_problem(page, &error.into()),
    };
    limit_headers::add(&left, response.headers_mut());
    response
}

/// Whether an alias is free, for the form's script.
pub(super) async fn alias(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let (alias, host) = (params.take("alias").unwrap_or_default(), params.take("domain"));
    let hosts = &state.links.rules().hosts;
    let domain = match host.filter(|host| !host.is_empty()) {
        Some(host) => hosts.domain_of(&host),
        None => Some(Domain::primary()),
    };
    let Some(domain) = domain else { return message(&NOT_FOUND) };
    match state.links.check_alias(member.principal.caller, &domain, alias.trim()).await {
        Ok(()) => "Free.".to_owned().into_response(),
        Err(error @ LinkError::Refused(_)) => {
            (StatusCode::CONFLICT, sentence(&error.into())).into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "an alias could not be checked");
            message(&UNAVAILABLE)
        }
    }
}

pub(super) async fn edit(
    State(state): Web,
    member: Member,
    Name(code): Name,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let link = match find_link(&state, &member, &mut params, &code).await {
        Ok((link, _)) if link.deleted_at.is_none() => link,
        Ok(_) => return message(&NOT_FOUND),
        Err(response) => return response,
    };
    let form = LinkForm::of(&link, member.shell(&state, "/links").zone());
    app_page(StatusCode::OK, html(&FormPage::new(&state, &member, form, Some(&link))))
}

pub(super) async fn change(
    State(state): Web,
    Name(code): Name,
    query: Result<Params, Problem>,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let Ok(mut query) = query else { return message(&NOT_FOUND) };
    let link = match find_link(&state, &member, &mut query, &code).await {
        Ok((link, _)) => link,
        Err(response) => return response,
    };
    let mut form = LinkForm::read(&mut fields);
    form.take_rules(&mut fields);
    form.has_password = link.password.is_some();
    form.set_campaign_before(&link);
    let page = FormPage::new(&state, &member, form, Some(&link));
    if let Some(action) = page.form.row_action {
        return after_row_action(&state, page, action).await;
    }
    let Ok(revision) = page.form.revision.parse() else { return message(&BAD_FORM) };
    let expected = Some(Revision(revision));
    let patch = fields.done().and_then(|()| page.form.patch(&link, &page.form.zone(&page.shell)));
    let patch = match patch {
        Ok(patch) => patch,
        Err(problem) => return form_problem(page, &problem),
    };
    let domain = (!link.key.domain.is_primary()).then(|| link.key.domain.as_str());
    let done = |word: &str| path(&code, domain, "", &[("done", word.to_owned())]);
    match state.links.patch(member.principal.caller, &link.key, &patch, expected).await {
        Ok(changed) if changed.revision == link.revision => redirect_to(&done("unchanged")),
        Ok(_) => redirect_to(&done("changed")),
        Err(LinkError::Conflict) => conflict(&state, &member, page.form, &link.key).await,
        Err(error) => form_problem(page, &error.into()),
    }
}

/// Shows what was typed again, for the revision that another change has made.
async fn conflict(state: &App, member: &Member, mut form: LinkForm, key: &LinkKey) -> Response {
    let link = match state.links.get(member.principal.caller, key).await {
        Ok(link) if link.deleted_at.is_none() => link,
        Ok(_) => return message(&NOT_FOUND),
        Err(error) => {
            return message(if Problem::from(error).status() >= 500 {
                &UNAVAILABLE
            } else {
                &NOT_FOUND
            });
        }
    };
    form.revision = link.revision.0.to_string();
    form.has_password = link.password.is_some();
    form.set_campaign_before(&link);
    let detail = "the link was changed elsewhere while you edited it; what you typed is below. Save \
                  again to keep it and replace that change, which stays in the history";
    let page = FormPage::new(state, member, form, Some(&link));
    form_problem(page, &Problem::new(&CONFLICT, detail))
}
