//! The HTML pages: home, previews, warnings, accounts, and the errors that a visitor of a link
//! sees.
//!
//! The server renders the pages. They work without scripts and load nothing from other sites. The
//! templates escape all input, and an error page never repeats the requested path.

mod account;
mod accounts;
mod app_message;
mod assets;
mod audit_words;
mod branding;
mod cards;
mod chart;
mod docs;
mod domains;
mod forgot;
mod form;
mod format;
mod frame;
mod home;
mod import;
mod link;
mod link_fields;
mod link_form;
mod link_form_qr;
mod link_history;
mod link_live;
mod link_qr;
mod link_rules;
mod link_stats;
mod links;
mod links_bulk;
mod login;
mod member;
mod moderation;
mod moderation_decisions;
mod names;
mod oidc;
mod overview;
mod overview_lists;
mod password;
mod preview;
mod report;
mod reset;
mod rule_form;
mod rule_words;
mod session;
mod shell;
mod signup;
mod system;
mod tags;
mod two_factor;
mod upload;
mod webhook;
mod webhooks;
mod window;
mod world_map;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use terse_core::{EffectiveOperator, Hosts, Operator, PageLanguage};

pub(crate) use app_message::in_app_frame;
pub(crate) use assets::{app_css, app_js, css, docs_js, js, touch_icon, world};
pub(crate) use docs::{DOCS_CSP, docs_page};
pub(crate) use frame::{PageFrame, Visitor};
pub(crate) use password::{PasswordProblem, password_page};
pub(crate) use shell::SHORTCUTS;

use crate::http::refusal::refusal;
use crate::http::state::App;
use crate::messages::{Catalogue, MessageText, catalogue, fill};
use crate::site::{CurrentSite, Site};

/// The `Content-Security-Policy` of every page: only our own style sheet and script, nothing from
/// other sites.
pub const CSP: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' \
    data:; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";

/// The same for the dashboard: its script may also ask this server.
const APP_CSP: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' \
    data:; connect-src 'self'; manifest-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(home::show).post(home::shorten))
        .route("/r/{code}", get(preview::state_page))
        // The fallback rewrites `/{code}?report` to this path: `/{code}` itself is the link.
        .route("/r/{code}/report", get(report::show).post(report::send))
        .route("/{code}", get(preview::preview))
        .route("/assets/{name}", get(assets::asset))
        .route("/favicon.ico", get(assets::icon))
        .route("/favicon.svg", get(assets::icon))
        .route("/manifest.webmanifest", get(assets::manifest))
        .route("/robots.txt", get(assets::robots))
        .route("/.well-known/security.txt", get(assets::security_txt))
        .merge(account_pages())
}

/// The pages for signing up, signing in and managing an account.
fn account_pages() -> Router<Arc<App>> {
    Router::new()
        .route("/setup", get(signup::setup).post(signup::set_up))
        .route("/join", get(signup::join).post(signup::joined))
        .route("/signup", get(signup::sign_up).post(signup::signed_up))
        .route("/login", get(login::show).post(login::sign_in))
        .route("/login/code", get(login::show_code).post(login::check_code))
        .route("/login/reset", get(reset::show).post(reset::set))
        .route("/login/forgot", get(forgot::show).post(forgot::send))
        .route("/logout", post(login::sign_out))
        .merge(dashboard())
        .merge(connections())
        .merge(running())
        .route("/account", get(account::show))
        .route("/account/keys", post(account::make_key))
        .route("/account/keys/revoke", post(account::revoke_key))
        .route("/account/sessions/end", post(account::end_sessions))
        .route("/account/sessions/revoke", post(account::end_session))
        .route("/account/password", post(account::change_password))
        .route("/account/two-factor", get(two_factor::show).post(two_factor::turn_on))
        .route("/account/two-factor/off", post(account::turn_off_two_factor))
        .route("/account/preferences", post(account::set_preferences))
        .route("/account/delete", post(account::delete))
        .route("/account/connect", post(oidc::connect))
        .route("/account/disconnect", post(oidc::disconnect))
        .route("/join/oidc", post(oidc::join))
        .route("/auth/oidc", get(oidc::to_provider))
        .route("/auth/oidc/callback", get(oidc::callback))
}

/// The overview and the pages of links and tags. `new` is a reserved word, so it is no code.
fn dashboard() -> Router<Arc<App>> {
    Router::new()
        .route("/dashboard", get(overview::show))
        .route("/links", get(links::show).post(links_bulk::act))
        .route("/links/new", get(link_form::new).post(link_form::create))
        .route("/links/new/alias", get(link_form::alias))
        .route("/links/new/qr", get(link_form_qr::draw))
        .route("/links/{code}", get(link_stats::show))
        .route("/links/{code}/edit", get(link_form::edit).post(link_form::change))
        .route("/links/{code}/values", get(link_stats::values))
        .route("/links/{code}/live", get(link_live::show))
        .route("/links/{code}/qr", get(link_qr::show))
        .route("/links/{code}/rules", get(link_rules::show))
        .route("/links/{code}/history", get(link_history::show))
        .route("/links/{code}/archive", post(link::archive))
        .route("/links/{code}/delete", post(link::delete))
        .route("/links/{code}/restore", post(link::restore))
        .route("/links/{code}/undo", post(link::undo))
        .route("/tags", get(tags::show))
        .route("/tags/rename", post(tags::rename))
        .route("/tags/remove", post(tags::remove))
}

/// The webhooks of the account, and the short domains.
fn connections() -> Router<Arc<App>> {
    Router::new()
        .route("/webhooks", get(webhooks::show).post(webhooks::create))
        .route("/webhooks/{id}", get(webhook::show).post(webhook::act))
        .route("/domains", get(domains::show).post(domains::put))
        .route("/domains/remove", post(domains::remove))
}

/// The pages for moderators and admins. Accounts without the role get 404.
fn running() -> Router<Arc<App>> {
    Router::new()
        .route("/moderation", get(moderation::show))
        .route("/moderation/decide", post(moderation_decisions::decide))
        .route("/moderation/hosts", post(moderation::block_host))
        .route("/moderation/hosts/unblock", post(moderation::unblock_host))
        .route("/accounts", get(accounts::show))
        .route("/accounts/invite", post(accounts::invite))
        .route("/accounts/invitations/revoke", post(accounts::revoke))
        .route("/accounts/change", post(accounts::change))
        .route("/accounts/reset", post(accounts::reset))
        .route("/branding", get(branding::show).post(branding::save))
        .route("/import", get(import::show).post(import::check))
        .route("/import/start", post(import::start))
        .route("/import/discard", post(import::discard))
        .route("/import/refused.csv", get(import::report))
        .route("/system", get(system::show))
        .route("/system/removal", post(system::confirm_removal))
        .route("/system/jobs", post(system::run_job))
}

/// A page with a single message, without its frame.
#[derive(Clone, Copy, Debug)]
struct Message {
    status: u16,
    /// Also the page's title.
    heading: &'static str,
    text: &'static str,
    hint: &'static str,
}

/// A message that is shown in the visitor's language.
#[derive(Clone, Copy, Debug)]
struct VisitorMessage {
    status: u16,
    words: fn(&'static Catalogue) -> &'static MessageText,
}

/// What a response says. [`framed`] writes it as a page.
#[derive(Clone, Copy, Debug)]
enum AnyMessage {
    English(Message),
    Translated(VisitorMessage),
}

impl From<&Message> for AnyMessage {
    fn from(message: &Message) -> Self {
        Self::English(*message)
    }
}

impl From<&VisitorMessage> for AnyMessage {
    fn from(message: &VisitorMessage) -> Self {
        Self::Translated(*message)
    }
}

impl AnyMessage {
    fn status(&self) -> u16 {
        match self {
            Self::English(message) => message.status,
            Self::Translated(message) => message.status,
        }
    }

    fn page(&self, frame: &PageFrame) -> Response {
        let status = self.status();
        let code = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        match self {
            Self::English(message) => {
                let frame = frame.clone().in_language(PageLanguage::English);
                let Message { heading, text, hint, .. } = *message;
                let words = MessageText { heading, text, hint };
                page(code, html(&MessagePage { frame: &frame, status, words: &words }))
            }
            Self::Translated(message) => {
                let words = (message.words)(frame.m());
                frame.page(code, html(&MessagePage { frame, status, words }))
            }
        }
    }
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage<'a> {
    frame: &'a PageFrame,
    status: u16,
    words: &'a MessageText,
}

impl MessagePage<'_> {
    /// The sentence with the operator's contact, on pages that have it.
    fn contact(&self) -> Option<&'static str> {
        match self.status {
            410 => Some(self.frame.m().contact_question),
            451 => Some(self.frame.m().contact_mistake),
            _ => None,
        }
    }
}

const NOT_FOUND: VisitorMessage = VisitorMessage { status: 404, words: |m| &m.not_found };
const EXPIRED: VisitorMessage = VisitorMessage { status: 410, words: |m| &m.expired };
const USED_UP: VisitorMessage = VisitorMessage { status: 410, words: |m| &m.used_up };
const BLOCKED: VisitorMessage = VisitorMessage { status: 451, words: |m| &m.blocked };
const UNAVAILABLE: VisitorMessage = VisitorMessage { status: 503, words: |m| &m.unavailable };
const LIMITED: VisitorMessage = VisitorMessage { status: 429, words: |m| &m.limited };
const TOO_MANY_TRIES: VisitorMessage = VisitorMessage { status: 429, words: |m| &m.too_many_tries };
const BAD_FORM: VisitorMessage = VisitorMessage { status: 400, words: |m| &m.bad_form };
const WRONG_METHOD: VisitorMessage = VisitorMessage { status: 405, words: |m| &m.wrong_method };
const CROSS_SITE: VisitorMessage = VisitorMessage { status: 403, words: |m| &m.cross_site };

/// Rendered pages for the redirect plane, in one language. None contains any part of the request.
#[derive(Clone, Debug)]
pub struct Pages {
    /// 404.
    pub not_found: String,
    /// 410, expired.
    pub gone: String,
    /// 410, no clicks left.
    pub used_up: String,
    /// 451.
    pub blocked: String,
    /// 503.
    pub unavailable: String,
    /// 429.
    pub limited: String,
}

/// Renders the pages for the redirect plane. They load one style sheet and the operator's logo from
/// this server.
pub fn pages(operator: &Operator, hosts: &Hosts, language: PageLanguage) -> Pages {
    let site = Arc::new(Site::new(Arc::new(operator.clone()), hosts));
    let frame = PageFrame::new(site, Visitor::Anyone).in_language(language);
    let rendered = |message: VisitorMessage| {
        let (status, words) = (message.status, (message.words)(frame.m()));
        html(&MessagePage { frame: &frame, status, words })
    };
    Pages {
        not_found: rendered(NOT_FOUND),
        gone: rendered(EXPIRED),
        used_up: rendered(USED_UP),
        blocked: rendered(BLOCKED),
        unavailable: rendered(UNAVAILABLE),
        limited: rendered(LIMITED),
    }
}

/// The page for a request that is refused before routing.
#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: &'a PageFrame,
    status: u16,
    heading: &'a str,
    text: &'a str,
    hint: &'a str,
}

/// Makes the pages for requests that are refused before routing.
pub struct RefusalPages {
    site: CurrentSite,
    primary_host: String,
}

impl RefusalPages {
    /// With the operator's name and contacts.
    pub fn new(operator: Arc<EffectiveOperator>, hosts: &Hosts) -> Self {
        let primary_host = hosts.primary_host().to_owned();
        Self { site: CurrentSite::new(operator, hosts.clone()), primary_host }
    }

    fn frame(&self) -> PageFrame {
        PageFrame::new(self.site.get(), Visitor::Anyone)
    }

    /// The answer to a refused request: a page in this language, or a problem document with this
    /// stable code. `detail` says what is wrong.
    pub fn answer(
        &self,
        status: StatusCode,
        code: &'static str,
        detail: &str,
        page: Option<PageLanguage>,
    ) -> Response {
        let mut response = match page {
            Some(language) => self.page(status, detail, language),
            None => refusal(status, code, detail),
        };
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        response
    }

    fn page(&self, status: StatusCode, detail: &str, language: PageLanguage) -> Response {
        let words = match status {
            StatusCode::MISDIRECTED_REQUEST => catalogue(language).unknown_host,
            StatusCode::NOT_FOUND => catalogue(language).not_found,
            StatusCode::INTERNAL_SERVER_ERROR => catalogue(language).failed,
            _ => return self.plain_text(status, detail),
        };
        let frame = self.frame().in_language(language);
        let (status_code, MessageText { heading, text, hint }) = (status.as_u16(), words);
        let text = &match status {
            StatusCode::MISDIRECTED_REQUEST => fill(text, &self.primary_host),
            _ => text.to_owned(),
        };
        let error_page = ErrorPage { frame: &frame, status: status_code, heading, text, hint };
        frame.page(status, html(&error_page))
    }

    /// What browsers do not send by themselves, in English.
    fn plain_text(&self, status: StatusCode, text: &str) -> Response {
        let heading = status.canonical_reason().unwrap_or("Request refused");
        let hint = "Check the address where you found it.";
        let frame = &self.frame();
        page(status, html(&ErrorPage { frame, status: status.as_u16(), heading, text, hint }))
    }
}

/// Renders a template. Writing into a string cannot fail, and no template calls a function that can
/// fail.
fn html(template: &impl Template) -> String {
    template.render().unwrap_or_else(|error| {
        tracing::error!(%error, "page rendering failed");
        "<!doctype html><title>terse</title><p>This page could not be rendered.".to_owned()
    })
}

/// A page with the headers that every page has.
pub(crate) fn page(status: StatusCode, html: impl Into<Body>) -> Response {
    let mut response = (status, Html(html.into())).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP));
    // Not `no-referrer`: with it browsers send `Origin: null` for our own form.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The response with a message. [`framed`] writes its page: only there is the visitor known.
fn message(message: impl Into<AnyMessage>) -> Response {
    let message = message.into();
    let status = StatusCode::from_u16(message.status()).unwrap_or(StatusCode::OK);
    let mut response = page(status, Body::empty());
    response.extensions_mut().insert(message);
    response
}

/// Writes the page of a response that was made by [`message`].
pub(crate) fn in_frame(mut response: Response, frame: &PageFrame) -> Response {
    let Some(message) = response.extensions_mut().remove::<AnyMessage>() else { return response };
    let (page, body) = message.page(frame).into_parts();
    for (name, value) in &page.headers {
        // What the handler has set stays.
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    response.map(|_| body)
}

pub(crate) fn not_found() -> Response {
    message(&NOT_FOUND)
}

/// The error page for a form that failed with this status.
pub(crate) fn error_page_of_status(status: u16) -> Response {
    message(match status {
        429 => &TOO_MANY_TRIES,
        400..500 => &BAD_FORM,
        _ => &UNAVAILABLE,
    })
}

pub(crate) fn wrong_method() -> Response {
    message(&WRONG_METHOD)
}

#[cfg(test)]
mod tests {
    use terse_core::is_reserved;

    /// The redirect plane takes a path of one segment for a link, unless the word is reserved.
    #[test]
    fn the_first_word_of_every_page_is_reserved() {
        let routes = include_str!("mod.rs").split(".route(\"/").skip(1);
        let words = routes.filter_map(|rest| rest.split(['/', '"', '.']).next());
        let words: Vec<&str> =
            words.filter(|word| !word.is_empty() && !word.contains('{')).collect();
        assert!(words.len() > 50);
        for word in words {
            assert!(is_reserved(word), "{word}");
        }
    }
}
