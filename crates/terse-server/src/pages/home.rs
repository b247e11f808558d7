//! The home page: a form that shortens a URL, without an account and without scripts.

use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use terse_core::{Caller, CreateLink, Domain, Link, LinkDraft, LinkStatus};

use super::form::{fields, problem_page, sentence};
use super::preview::not_shown;
use super::session::redirect_to;
use super::{CROSS_SITE, NOT_FOUND, PageFrame, Visitor, html, message};
use crate::http::cookies::{cookie, session_cookie};
use crate::http::extract::Peer;
use crate::http::host::{domain_of, key_of, short_url};
use crate::http::limit_headers;
use crate::http::origin::Origin;
use crate::http::params::Params;
use crate::http::principal::{principal_of, reader_of};
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::qr::Matrix;

/// The lifetimes that the form offers, in seconds, up to the longest that the operator allows.
const LIFETIMES: [u64; 7] = [600, 3600, 28_800, 86_400, 604_800, 2_592_000, 31_536_000];

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    frame: PageFrame,
    /// Whether the visitor is signed in.
    known: bool,
    /// Whether the visitor can create links here.
    open: bool,
    /// Whether anyone may create an account.
    sign_up: bool,
    /// When a link expires at the latest, such as `in 30 days`.
    longest: String,
    base: String,
    form: Form,
    lives: Vec<(u64, String, bool)>,
    made: Option<Made>,
    /// The field with the problem, and the problem.
    problem: Option<(&'static str, String)>,
    /// Whether the problem is in English on a page in another language.
    is_foreign_problem: bool,
}

/// The domain that the request is for, whether the visitor is signed in, and the page around the
/// form in the visitor's language.
struct Here {
    domain: Domain,
    known: bool,
    frame: PageFrame,
}

impl Here {
    /// An ended session counts as none. Otherwise the page would promise a permanent link and
    /// create a temporary one.
    async fn of(state: &App, uri: &Uri, headers: &HeaderMap) -> Self {
        let known = cookie(headers, session_cookie(state)).is_some()
            && reader_of(state, headers)
                .await
                .is_ok_and(|principal| principal.caller != Caller::Anonymous);
        let visitor = if known { Visitor::SignedIn } else { Visitor::SignedOut };
        let frame = PageFrame::translated(state, headers).for_visitor(visitor);
        Self { domain: domain_of(state, uri, headers), known, frame }
    }
}

#[derive(Default)]
struct Form {
    long_url: String,
    alias: String,
    ttl: String,
}

/// The link that was just created.
struct Made {
    /// The part of the short URL before the code.
    before: String,
    code: String,
    short: String,
    target: String,
    ends: Option<(String, String)>,
    qr_path: String,
    qr_across: u32,
}

impl Made {
    /// The link, if the public preview shows it too.
    fn visible(link: &Link, state: &App, frame: &PageFrame) -> Option<Self> {
        let status = link.status(state.links.now());
        let shown = matches!(status, LinkStatus::Active | LinkStatus::Suspicious);
        (shown && link.password.is_none()).then(|| Self::new(link, state, frame))
    }

    fn new(link: &Link, state: &App, frame: &PageFrame) -> Self {
        let short = short_url(&link.key, &state.links.rules().hosts);
        let matrix = Matrix::of(&short, qrcode::EcLevel::M);
        let code = link.key.code.to_string();
        Self {
            before: short.strip_suffix(&code).unwrap_or_default().to_owned(),
            code,
            target: link.target.to_string(),
            ends: link.expires_at.map(|at| (frame.m().date_time(at), at.to_string())),
            qr_path: matrix.as_ref().map(|matrix| matrix.path(2)).unwrap_or_default(),
            qr_across: matrix.as_ref().map_or(1, |matrix| matrix.across(2)),
            short,
        }
    }
}

impl Home {
    /// Whether the problem is about this field.
    fn is_wrong(&self, field: &str) -> bool {
        self.problem.as_ref().is_some_and(|(wrong, _)| *wrong == field)
    }

    fn new(state: &App, here: &Here, form: Form) -> Self {
        let rules = state.links.rules();
        let shorter = LIFETIMES
            .into_iter()
            .filter(|life| here.known || Duration::from_secs(*life) < rules.anonymous_ttl);
        let base = rules.hosts.base_of(&here.domain);
        let m = here.frame.m();
        Self {
            frame: here.frame.clone(),
            known: here.known,
            open: rules.anonymous_create || here.known,
            sign_up: state.accounts.policy().open,
            longest: m.after(rules.anonymous_ttl),
            base: base.split_once("://").map_or(base.as_str(), |(_, rest)| rest).to_owned(),
            lives: shorter
                .map(|life| {
                    (life, m.after(Duration::from_secs(life)), form.ttl == life.to_string())
                })
                .collect(),
            form,
            made: None,
            problem: None,
            is_foreign_problem: false,
        }
    }
}

/// Shows the form, and after it was sent the link that it created: `/?made=CODE`. `/?url=` fills it
/// in, for bookmarklets; a signed-in account gets the form of the dashboard.
pub(super) async fn show(
    State(state): Web,
    peer: Peer,
    uri: Uri,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let here = Here::of(&state, &uri, &headers).await;
    let mut params = params.ok();
    let mut take = |name| params.as_mut().and_then(|params| params.take(name));
    let (made, typed) = (take("made"), take("url").filter(|typed| !typed.trim().is_empty()));
    if let (Some(typed), true) = (&typed, here.known) {
        let query: String = url::form_urlencoded::byte_serialize(typed.as_bytes()).collect();
        return redirect_to(&format!("/links/new?url={query}"));
    }
    let long_url = typed.map(|typed| with_scheme(&typed)).unwrap_or_default();
    let mut home = Home::new(&state, &here, Form { long_url, ..Form::default() });
    if let Some(code) = made {
        let Some(key) = key_of(&state, &uri, &headers, &code) else { return message(&NOT_FOUND) };
        match state.public_links.find(&key, peer.0).await {
            Ok(link) => home.made = Made::visible(&link, &state, &here.frame),
            Err(error) => return not_shown(error),
        }
    }
    here.frame.page(StatusCode::OK, html(&home))
}

pub(super) async fn shorten(
    State(state): Web,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let here = Here::of(&state, &uri, &headers).await;
    if Origin::of(&state, &uri, &headers) == Origin::Foreign {
        return message(&CROSS_SITE);
    }
    // A browser that is signed in creates links for its account.
    let admitted = async {
        let principal = principal_of(&state, &Method::POST, &uri, &headers).await?;
        Ok(state.creation.admit(&principal, Some(address)).await?)
    };
    let creator = match admitted.await {
        Ok(creator) => creator,
        Err(problem) => return refused(&state, &here, Form::default(), &problem),
    };
    let form = match read_form(&headers, body).await {
        Ok(form) => form,
        Err(problem) => return refused(&state, &here, Form::default(), &problem),
    };
    if !form.ttl.is_empty() && !LIFETIMES.iter().any(|life| life.to_string() == form.ttl) {
        let problem = Problem::invalid("ttl", "choose one of the listed times");
        return refused(&state, &here, form, &problem);
    }
    let link = CreateLink {
        long_url: form.long_url.clone(),
        custom_alias: Some(form.alias.trim().to_owned()).filter(|alias| !alias.is_empty()),
        ttl: form.ttl.parse().ok(),
        domain: Some(here.domain.as_str().to_owned()).filter(|name| !name.is_empty()),
        ..CreateLink::default()
    };
    let creation = match state.creation.begin(&creator, 1).await {
        Ok(creation) => creation,
        Err(error) => return refused(&state, &here, form, &error.into()),
    };
    let result = creation.create(LinkDraft { link, ..LinkDraft::default() }).await;
    let left = creation.finish().await;
    let mut response = match result {
        // A redirect, so that reloading the result creates nothing.
        Ok(created) => redirect_to(&format!("/?made={}", created.link.key.code)),
        Err(error) => refused(&state, &here, form, &error.into()),
    };
    limit_headers::add(&left, response.headers_mut());
    response
}

/// Shows the form again with the problem and the typed values.
fn refused(state: &App, here: &Here, form: Form, problem: &Problem) -> Response {
    let mut home = Home::new(state, here, form);
    let field = match problem.field() {
        Some("custom_alias") => "alias",
        Some("ttl") => "ttl",
        _ => "long_url",
    };
    // In English the problem has a sentence of its own, which is more specific.
    let is_english = here.frame.is_english();
    let translated = here.frame.m().problem(problem.code(), problem.field());
    let words = match translated.filter(|_| !is_english) {
        Some(words) => words.to_owned(),
        None => sentence(problem),
    };
    home.is_foreign_problem = !is_english && translated.is_none();
    home.problem = Some((field, words));
    let mut response = problem_page(problem, html(&home));
    here.frame.mark_language(&mut response);
    response
}

async fn read_form(headers: &HeaderMap, body: Body) -> Result<Form, Problem> {
    let mut params = fields(headers, body).await?;
    let mut take = |name| params.take(name).unwrap_or_default();
    let form =
        Form { long_url: with_scheme(&take("long_url")), alias: take("alias"), ttl: take("ttl") };
    params.done()?;
    Ok(form)
}

/// Adds `https://` to input such as `example.com`. Only this form does so: it shows the visitor the
/// result.
pub(super) fn with_scheme(text: &str) -> String {
    let text = text.trim();
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    // The part before the colon is a host in `example.com:8080`, but a scheme in
    // `mailto:me@example.com`.
    let has_scheme = match first.split_once(':') {
        None => false,
        Some((before, port)) => {
            !(before.contains('.')
                && !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit()))
        }
    };
    if has_scheme || first.is_empty() { text.to_owned() } else { format!("https://{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_added_only_where_none_was_typed() {
        for (typed, want) in [
            (" example.com ", "https://example.com"),
            ("example.com:8080/x?y=z:1", "https://example.com:8080/x?y=z:1"),
            ("example.com/a:b", "https://example.com/a:b"),
            ("http://example.com", "http://example.com"),
            ("javascript:alert(1)", "javascript:alert(1)"),
            ("mailto:me@example.com", "mailto:me@example.com"),
            ("", ""),
            ("/path", "/path"),
        ] {
            assert_eq!(with_scheme(typed), want);
        }
    }
}
