//! The form of a link: creates one with every field that the API has, or changes one.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;
use terse_core::rules::{RawRules, Rules};
use terse_core::{
    CreateLink, Domain, Draft, Link, LinkError, PasswordHash, PasswordHasher as _, Patch,
    PatchField, Revision, Timestamp,
};

use super::form::sentence;
use super::home::with_scheme;
use super::link::{domain_choices, found, page_of, path};
use super::link_rules::DryRunForm;
use super::member::{Member, MemberForm};
use super::rule_form::{RowAction, RuleRow, rows_of, shown, take_rows, to_json};
use super::session::{app_again, app_page, go};
use super::shell::{Shell, named_zone};
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, html, message};
use crate::dry_run::{Outcome, try_drafted};
use crate::http::extract::{Name, Peer};
use crate::http::host::short_url;
use crate::http::limit_headers;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// The lifetimes that the form offers, in seconds.
const LIFETIMES: [(&str, &str); 5] = [
    ("3600", "In 1 hour"),
    ("86400", "In 1 day"),
    ("604800", "In 7 days"),
    ("2592000", "In 30 days"),
    ("31536000", "In 1 year"),
];
const REDIRECTS: [(&str, &str); 4] = [
    ("302", "302: temporary (usual)"),
    ("301", "301: permanent, browsers remember it"),
    ("307", "307: temporary, keeps the method"),
    ("308", "308: permanent, keeps the method"),
];
/// The parameters of campaigns, with their labels.
const CAMPAIGN: [(&str, &str); 5] = [
    ("utm_source", "Source"),
    ("utm_medium", "Medium"),
    ("utm_campaign", "Campaign"),
    ("utm_term", "Term"),
    ("utm_content", "Content"),
];
/// Of a time in the form, which is in the viewer's zone.
const LOCAL: &str = "%Y-%m-%dT%H:%M";

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
    /// Where the tried visitor would go.
    outcome: Option<Outcome>,
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
        const FIELDS: [&str; 13] = [
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
            "utm",
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

/// What was typed.
#[derive(Clone, Default)]
struct LinkForm {
    long_url: String,
    alias: String,
    domain: String,
    title: String,
    tags: String,
    notes: String,
    expires: String,
    expires_at: String,
    valid_from: String,
    max_clicks: String,
    password: String,
    no_password: bool,
    redirect: String,
    forward_query: bool,
    crawlable: bool,
    /// The rules as JSON.
    rules: String,
    /// The rules as rows; `None` if the JSON applies.
    rows: Option<Vec<RuleRow>>,
    /// A button of the rules that was pressed instead of Save.
    row_action: Option<RowAction>,
    tried: DryRunForm,
    campaign: [String; 5],
    has_password: bool,
    /// The revision that is changed.
    revision: String,
    /// The time zone that the form was shown in.
    tz: String,
    /// Whether a password was typed, which the form does not show again.
    password_again: bool,
}

impl LinkForm {
    fn read(fields: &mut Params) -> Self {
        let mut take = |name| fields.take(name).unwrap_or_default();
        Self {
            long_url: with_scheme(&take("long_url")),
            alias: take("alias"),
            domain: take("domain"),
            title: take("title"),
            tags: take("tags"),
            notes: take("notes").replace("\r\n", "\n"),
            expires: take("expires"),
            expires_at: take("expires_at"),
            valid_from: take("valid_from"),
            max_clicks: take("max_clicks"),
            password: take("password"),
            no_password: !take("no_password").is_empty(),
            redirect: take("redirect"),
            forward_query: !take("forward_query").is_empty(),
            crawlable: !take("crawlable").is_empty(),
            rules: take("rules"),
            rows: None,
            row_action: RowAction::parse(&take("rows")),
            tried: DryRunForm {
                agent: take("try.agent"),
                country: take("try.country"),
                language: take("try.language"),
                query: take("try.query"),
            },
            campaign: CAMPAIGN.map(|(name, _)| take(name)),
            has_password: false,
            revision: take("revision"),
            tz: take("tz"),
            password_again: false,
        }
    }

    /// Takes the rules: the rows, unless the form says that the JSON applies.
    fn take_rules(&mut self, fields: &mut Params) {
        let rows = take_rows(fields);
        self.rows = if fields.take("as_json").is_some() { None } else { rows };
    }

    /// The form with the values of a link.
    fn of(link: &Link, zone: &TimeZone) -> Self {
        let tags: Vec<&str> = link.tags.iter().collect();
        let rules = link.rules.as_ref().map(Rules::to_json);
        let rows = match &rules {
            None => Some(Vec::new()),
            Some(rules) => rows_of(rules, zone),
        };
        let rules = rules.and_then(|rules| serde_json::to_string_pretty(&rules).ok());
        Self {
            long_url: link.target.to_string(),
            title: link.title.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default(),
            tags: tags.join(", "),
            notes: link.notes.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default(),
            expires_at: local(link.expires_at, zone),
            valid_from: local(link.valid_from, zone),
            max_clicks: link.max_clicks.map(|most| most.to_string()).unwrap_or_default(),
            redirect: link.redirect.status().to_string(),
            forward_query: link.forward_query,
            crawlable: link.crawlable,
            rules: rules.unwrap_or_default(),
            rows,
            has_password: link.password.is_some(),
            revision: link.revision.0.to_string(),
            ..Self::default()
        }
    }

    /// The zone of the times in the form. The cookie may be newer than the form.
    fn zone(&self, shell: &Shell) -> TimeZone {
        named_zone(&self.tz).unwrap_or_else(|| shell.zone().clone())
    }

    /// The target with the parameters of the campaign.
    fn target(&self) -> String {
        let given = CAMPAIGN.iter().zip(&self.campaign);
        let given: Vec<(&str, &str)> = given
            .map(|((name, _), value)| (*name, value.trim()))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let Ok(mut url) = url::Url::parse(&self.long_url) else { return self.long_url.clone() };
        if given.is_empty() {
            return self.long_url.clone();
        }
        // The rest of the query stays as it was typed: the target may depend on its spelling.
        let named = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default();
            !given.iter().any(|(new, _)| *new == name)
        };
        let query = url.query().unwrap_or_default().to_owned();
        let mut parts: Vec<String> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .filter(named)
            .map(str::to_owned)
            .collect();
        let added =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&given).finish();
        parts.push(added);
        url.set_query(Some(&parts.join("&")));
        url.into()
    }

    fn tags(&self) -> Vec<String> {
        let tags = self.tags.split(',').map(str::trim);
        tags.filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    }

    fn max_clicks(&self) -> Result<Option<u64>, Problem> {
        match self.max_clicks.trim() {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Problem::invalid("max_clicks", "give a whole number, such as 100")),
        }
    }

    fn redirect(&self) -> Result<Option<u64>, Problem> {
        match self.redirect.as_str() {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Problem::invalid("redirect", "choose one of the listed ones")),
        }
    }

    fn ttl(&self) -> Result<Option<u64>, Problem> {
        match self.expires.as_str() {
            "" => Ok(None),
            text if LIFETIMES.iter().any(|(life, _)| *life == text) => Ok(text.parse().ok()),
            _ => Err(Problem::invalid("expires_at", "choose one of the listed times")),
        }
    }

    fn rules(&self, zone: &TimeZone) -> Result<Option<RawRules>, Problem> {
        if let Some(rows) = &self.rows {
            let rules = to_json(rows, zone)?;
            return Ok(Some(RawRules(rules)).filter(|_| !rows.is_empty()));
        }
        if self.rules.trim().is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_str(&self.rules)
            .map_err(|error| Problem::invalid("rules", format!("this is not JSON: {error}")))?;
        Ok(Some(RawRules(value)))
    }

    fn create(&self, zone: &TimeZone) -> Result<Draft, Problem> {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let ttl = self.ttl()?;
        let expires_at =
            if ttl.is_some() { None } else { instant("expires_at", &self.expires_at, zone)? };
        let link = CreateLink {
            long_url: self.target(),
            custom_alias: given(&self.alias),
            expires_at,
            ttl,
            valid_from: instant("valid_from", &self.valid_from, zone)?,
            max_clicks: self.max_clicks()?,
            redirect: self.redirect()?,
            title: given(&self.title),
            tags: Some(self.tags()),
            notes: given(&self.notes),
            rules: self.rules(zone)?,
            domain: given(&self.domain),
            forward_query: Some(self.forward_query),
            crawlable: Some(self.crawlable),
            ..CreateLink::default()
        };
        Ok(Draft {
            link,
            password: Some(self.password.clone()).filter(|text| !text.is_empty()),
            request: None,
        })
    }

    async fn patch(&self, state: &App, link: &Link, zone: &TimeZone) -> Result<Patch, Problem> {
        let field = |text: Option<String>| text.map_or(PatchField::Clear, PatchField::Set);
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        // A time whose minute is unchanged keeps its seconds.
        let time = |name, typed: &str, now: Option<Timestamp>| {
            if typed == local(now, zone) {
                return Ok(PatchField::Keep);
            }
            instant(name, typed, zone).map(field)
        };
        let ttl = self.ttl()?;
        let password = match (self.password.is_empty(), self.no_password) {
            (false, _) => {
                let hash = state.passwords.hash(self.password.clone()).await;
                let hash = hash.map_err(|error| Problem::from(error).on("password"))?;
                PatchField::Set(PasswordHash::from_phc(hash))
            }
            (true, true) => PatchField::Clear,
            (true, false) => PatchField::Keep,
        };
        Ok(Patch {
            long_url: Some(self.target()),
            expires_at: match ttl {
                Some(_) => PatchField::Keep,
                None => time("expires_at", &self.expires_at, link.expires_at)?,
            },
            ttl,
            valid_from: time("valid_from", &self.valid_from, link.valid_from)?,
            max_clicks: self.max_clicks()?.map_or(PatchField::Clear, PatchField::Set),
            redirect: self.redirect()?,
            title: field(given(&self.title)),
            tags: Some(self.tags()),
            notes: field(given(&self.notes)),
            password,
            rules: self.rules(zone)?.map_or(PatchField::Clear, PatchField::Set),
            forward_query: Some(self.forward_query),
            crawlable: Some(self.crawlable),
            ..Patch::default()
        })
    }

    fn lives(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        LIFETIMES.into_iter().map(|(life, label)| (life, label, life == self.expires))
    }

    fn redirects(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        REDIRECTS.into_iter().map(|(word, label)| (word, label, word == self.redirect))
    }

    fn campaign(&self) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
        let pairs = CAMPAIGN.into_iter().zip(&self.campaign);
        pairs.map(|((name, label), value)| (name, label, value.as_str()))
    }

    fn has_campaign(&self) -> bool {
        self.campaign.iter().any(|value| !value.is_empty())
    }

    /// The rows of the editor.
    fn shown_rows(&self) -> Vec<(usize, RuleRow)> {
        shown(self.rows.as_deref().unwrap_or_default())
    }

    fn has_rules(&self) -> bool {
        self.row_action.is_some()
            || !self.rules.trim().is_empty()
            || self.rows.as_ref().is_some_and(|rows| !rows.is_empty())
    }

    /// Whether an option is set that the form shows only when opened.
    fn has_options(&self) -> bool {
        let texts = [&self.valid_from, &self.max_clicks, &self.password, &self.notes];
        texts.iter().any(|text| !text.is_empty())
            || self.has_password
            || self.password_again
            || self.forward_query
            || self.crawlable
            || !matches!(self.redirect.as_str(), "" | "302")
    }
}

/// A time as the form shows it.
pub(super) fn local(at: Option<Timestamp>, zone: &TimeZone) -> String {
    let at = at.and_then(|at| jiff::Timestamp::from_millisecond(at.as_ms()).ok());
    at.map(|at| at.to_zoned(zone.clone()).strftime(LOCAL).to_string()).unwrap_or_default()
}

/// A time in the form as the services read it.
pub(super) fn instant(
    field: &'static str,
    typed: &str,
    zone: &TimeZone,
) -> Result<Option<String>, Problem> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Ok(None);
    }
    let refuse = || Problem::invalid(field, "give a date and a time, such as 2026-11-30T18:00");
    let time: DateTime = typed.parse().map_err(|_| refuse())?;
    let at = time.to_zoned(zone.clone()).map_err(|_| refuse())?;
    Ok(Some(at.timestamp().to_string()))
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
            form,
            domains: domain_choices(state),
            link: shown,
            action,
            outcome: None,
            wrong: None,
        }
    }

    /// The part of the short URL before the alias.
    fn base(&self) -> String {
        format!("{}/", self.shell.host())
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
            Err(problem) => return again(page, &problem),
        }
    }
    // The browser does not send a password back that a page shows, so the form asks for it again.
    page.form.password_again = !page.form.password.is_empty();
    page.form.password = String::new();
    app_page(StatusCode::OK, html(&page))
}

/// Shows the form again with the problem and the typed values, but no password.
fn again(mut page: FormPage, problem: &Problem) -> Response {
    page.form.password_again = !page.form.password.is_empty();
    page.form.password = String::new();
    let field = match problem.field() {
        Some("ttl") => "expires_at",
        Some(field) => field,
        None => "",
    };
    page.wrong = Some((field.to_owned(), sentence(problem)));
    app_again(problem, html(&page))
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
        Err(problem) => return again(page, &problem),
    };
    let creator = match state.creation.admit(&member.principal, Some(address)).await {
        Ok(creator) => creator,
        Err(error) => return again(page, &error.into()),
    };
    let creation = match state.creation.begin(&creator, 1).await {
        Ok(creation) => creation,
        Err(error) => return again(page, &error.into()),
    };
    let result = creation.create(draft).await;
    let left = creation.finish().await;
    let mut response = match result {
        Ok(made) => {
            let domain = &made.link.key.domain;
            let domain = (!domain.is_primary()).then(|| domain.as_str());
            let done = if made.new { "created" } else { "existing" };
            go(&path(made.link.key.code.as_str(), domain, "", &[("done", done.to_owned())]))
        }
        Err(error) => again(page, &error.into()),
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
    let link = match found(&state, &member, &mut params, &code).await {
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
    let link = match found(&state, &member, &mut query, &code).await {
        Ok((link, _)) => link,
        Err(response) => return response,
    };
    let mut form = LinkForm::read(&mut fields);
    form.take_rules(&mut fields);
    form.has_password = link.password.is_some();
    let page = FormPage::new(&state, &member, form, Some(&link));
    if let Some(action) = page.form.row_action {
        return after_row_action(&state, page, action).await;
    }
    let Ok(revision) = page.form.revision.parse() else { return message(&BAD_FORM) };
    let expected = Some(Revision(revision));
    let patch = async {
        fields.done()?;
        page.form.patch(&state, &link, &page.form.zone(&page.shell)).await
    };
    let patch = match patch.await {
        Ok(patch) => patch,
        Err(problem) => return again(page, &problem),
    };
    let domain = (!link.key.domain.is_primary()).then(|| link.key.domain.as_str());
    let done = |word: &str| path(&code, domain, "", &[("done", word.to_owned())]);
    match state.links.patch(member.principal.caller, &link.key, &patch, expected).await {
        Ok(changed) if changed.revision == link.revision => go(&done("unchanged")),
        Ok(_) => go(&done("changed")),
        Err(LinkError::Conflict) => go(&done("conflict")),
        Err(error) => again(page, &error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_campaign_is_added_to_the_target() {
        let form = LinkForm {
            long_url: "https://e.com/a?utm_source=old&b=%20x+y;z#c".to_owned(),
            campaign: ["news letter", "", "q&a", "", ""].map(str::to_owned),
            ..LinkForm::default()
        };
        assert_eq!(
            form.target(),
            "https://e.com/a?b=%20x+y;z&utm_source=news+letter&utm_campaign=q%26a#c"
        );
        let plain =
            LinkForm { long_url: "https://e.com/a?x=%20".to_owned(), ..LinkForm::default() };
        assert_eq!(plain.target(), "https://e.com/a?x=%20", "without a campaign it stays");
    }

    #[test]
    fn times_are_in_the_zone_of_the_viewer() {
        let zone = TimeZone::get("Asia/Tokyo").unwrap();
        let at = instant("expires_at", "2026-11-30T18:00", &zone).unwrap().unwrap();
        assert_eq!(at, "2026-11-30T09:00:00Z");
        assert_eq!(local(Timestamp::parse(&at), &zone), "2026-11-30T18:00");
        assert!(instant("expires_at", "soon", &zone).is_err());
        assert_eq!(instant("expires_at", " ", &zone).unwrap(), None);
    }
}
