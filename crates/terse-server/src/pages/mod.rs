//! The HTML pages: home, previews, warnings, accounts, and the errors that a visitor of a link
//! sees.
//!
//! The server renders the pages. They work without scripts and load nothing from other sites. The
//! templates escape all input, and an error page never repeats the requested path.

mod account;
mod accounts;
mod assets;
mod chart;
mod docs;
mod domains;
mod form;
mod format;
mod frame;
mod home;
mod link;
mod link_form;
mod link_history;
mod link_live;
mod link_rules;
mod link_stats;
mod links;
mod login;
mod member;
mod moderation;
mod names;
mod oidc;
mod overview;
mod password;
mod preview;
mod report;
mod reset;
mod rule_form;
mod session;
mod shell;
mod signup;
mod system;
mod two_factor;
mod webhook;
mod webhooks;
mod window;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use terse_core::{Hosts, Operator};

pub(crate) use assets::{app_css, app_js, css, docs_js, js};
pub(crate) use docs::{DOCS_CSP, docs_page};
pub(crate) use frame::{PageFrame, Visitor};
pub(crate) use password::password_page;

use crate::http::refusal::refusal;
use crate::http::state::App;
use crate::site::Site;

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
        .route("/logout", post(login::sign_out))
        .merge(dashboard())
        .merge(connections())
        .merge(running())
        .route("/account", get(account::show))
        .route("/account/keys", post(account::make_key))
        .route("/account/keys/revoke", post(account::revoke_key))
        .route("/account/sessions/end", post(account::end_sessions))
        .route("/account/password", post(account::change_password))
        .route("/account/two-factor", get(two_factor::show).post(two_factor::turn_on))
        .route("/account/two-factor/off", post(account::turn_off_two_factor))
        .route("/account/delete", post(account::delete))
        .route("/account/connect", post(oidc::connect))
        .route("/account/disconnect", post(oidc::disconnect))
        .route("/join/oidc", post(oidc::join))
        .route("/auth/oidc", get(oidc::leave))
        .route("/auth/oidc/callback", get(oidc::arrive))
}

/// The overview and the pages of links. `new` is a reserved word, so it is no code.
fn dashboard() -> Router<Arc<App>> {
    Router::new()
        .route("/dashboard", get(overview::show))
        .route("/links", get(links::show).post(links::act))
        .route("/links/new", get(link_form::new).post(link_form::create))
        .route("/links/new/alias", get(link_form::alias))
        .route("/links/{code}", get(link_stats::show))
        .route("/links/{code}/edit", get(link_form::edit).post(link_form::change))
        .route("/links/{code}/values", get(link_stats::values))
        .route("/links/{code}/live", get(link_live::show))
        .route("/links/{code}/rules", get(link_rules::show))
        .route("/links/{code}/history", get(link_history::show))
        .route("/links/{code}/archive", post(link::archive))
        .route("/links/{code}/delete", post(link::delete))
        .route("/links/{code}/restore", post(link::restore))
        .route("/links/{code}/undo", post(link::undo))
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
        .route("/moderation/decide", post(moderation::decide))
        .route("/moderation/hosts", post(moderation::block_host))
        .route("/moderation/hosts/unblock", post(moderation::unblock_host))
        .route("/accounts", get(accounts::show))
        .route("/accounts/invite", post(accounts::invite))
        .route("/accounts/change", post(accounts::change))
        .route("/accounts/reset", post(accounts::reset))
        .route("/system", get(system::show))
        .route("/system/removal", post(system::confirm_removal))
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

impl Message {
    /// The words before the operator's contact, on pages that name it.
    fn contact_words(&self) -> Option<&'static str> {
        match self.status {
            410 => Some("If you have questions about this link, contact"),
            451 => Some("If you think that this is a mistake, contact"),
            _ => None,
        }
    }
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage<'a> {
    frame: &'a PageFrame,
    message: Message,
}

const NOT_FOUND: Message = Message {
    status: 404,
    heading: "Not found",
    text: "There is no link at this address. It may be mistyped, or its owner has deleted it.",
    hint: "Upper-case and lower-case letters matter. Check the link where you found it.",
};
const EXPIRED: Message = Message {
    status: 410,
    heading: "This link has expired",
    text: "Its expiry time has passed, so it no longer leads anywhere.",
    hint: "Ask the person who gave it to you for a new one.",
};
const USED_UP: Message = Message {
    status: 410,
    heading: "This link is used up",
    text: "It could be followed a limited number of times, and has expired after the last one.",
    hint: "Ask the person who gave it to you for a new one.",
};
const BLOCKED: Message = Message {
    status: 451,
    heading: "This link is blocked",
    text: "It was blocked because of where it leads or because of its owner. We do not show its \
        target.",
    hint: "You did nothing wrong by following it. The link was not opened.",
};
const UNAVAILABLE: Message = Message {
    status: 503,
    heading: "Temporarily unavailable",
    text: "We cannot look this up right now. Links and accounts are not affected.",
    hint: "Try again in a few seconds.",
};
const LIMITED: Message = Message {
    status: 429,
    heading: "Too many requests",
    text: "There were too many requests from your network or from all visitors together.",
    hint: "Wait a minute and try again.",
};
const TOO_MANY_TRIES: Message = Message {
    status: 429,
    heading: "Too many attempts",
    text: "The password was wrong too often, from your network or from all visitors together.",
    hint: "Ask the person who gave you the link for the password, and try again later.",
};
const BAD_FORM: Message = Message {
    status: 400,
    heading: "The form could not be read",
    text: "Your browser sent something other than our form.",
    hint: "Go back, reload the page and try again.",
};
const WRONG_METHOD: Message = Message {
    status: 405,
    heading: "No page here",
    text: "This address has no page of its own. It only accepts our forms.",
    hint: "Start again from the home page.",
};
const CROSS_SITE: Message = Message {
    status: 403,
    heading: "Request from another site",
    text: "Another website tried to send our form in your name. We refused the request.",
    hint: "If you want to do this, start from our own page.",
};

/// Rendered pages for the redirect plane. None contains any part of the request.
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
    /// The `Content-Security-Policy` to send them with.
    pub policy: &'static str,
}

/// Renders the pages for the redirect plane. They load one style sheet and the operator's logo from
/// this server.
pub fn pages(operator: &Operator, hosts: &Hosts) -> Pages {
    let frame = PageFrame::new(Arc::new(Site::new(operator.clone(), hosts)), Visitor::Anyone);
    let rendered = |message| html(&MessagePage { frame: &frame, message });
    Pages {
        not_found: rendered(NOT_FOUND),
        gone: rendered(EXPIRED),
        used_up: rendered(USED_UP),
        blocked: rendered(BLOCKED),
        unavailable: rendered(UNAVAILABLE),
        limited: rendered(LIMITED),
        policy: CSP,
    }
}

/// The page for a request that is refused before routing.
#[derive(Template)]
#[template(path = "refusal.html")]
struct Refusal<'a> {
    frame: &'a PageFrame,
    status: u16,
    heading: &'a str,
    text: &'a str,
    hint: &'a str,
}

/// Makes the pages for requests that are refused before routing.
pub struct RefusalPages(PageFrame);

impl RefusalPages {
    /// With the operator's name and contacts.
    pub fn new(operator: &Operator, hosts: &Hosts) -> Self {
        Self(PageFrame::new(Arc::new(Site::new(operator.clone(), hosts)), Visitor::Anyone))
    }

    /// The answer to a refused request: a page if the client prefers one (`html`), or a problem
    /// document with this stable code. `detail` says what is wrong.
    pub fn answer(
        &self,
        status: StatusCode,
        code: &'static str,
        detail: &str,
        html: bool,
    ) -> Response {
        let mut response = match html {
            true => self.page(status, detail),
            false => refusal(status, code, detail),
        };
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        response
    }

    fn page(&self, status: StatusCode, text: &str) -> Response {
        let (heading, hint) = match status {
            StatusCode::MISDIRECTED_REQUEST => (
                "This address is not set up",
                "If you run this server: set base_url to the address in your browser's address \
                 bar (as TERSE_BASE_URL or in terse.toml), or add its host to domains, and start \
                 terse again.",
            ),
            _ => (
                status.canonical_reason().unwrap_or("Request refused"),
                "Check the address where you found it.",
            ),
        };
        page(
            status,
            html(&Refusal { frame: &self.0, status: status.as_u16(), heading, text, hint }),
        )
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

/// The response with a message. [`framed`] writes its body: only there is the visitor known.
fn message(message: &Message) -> Response {
    let status = StatusCode::from_u16(message.status).unwrap_or(StatusCode::OK);
    let mut response = page(status, Body::empty());
    response.extensions_mut().insert(*message);
    response
}

/// Writes the body of a response that was made by [`message`].
pub(crate) fn framed(mut response: Response, frame: &PageFrame) -> Response {
    match response.extensions_mut().remove::<Message>() {
        Some(message) => response.map(|_| html(&MessagePage { frame, message }).into()),
        None => response,
    }
}

pub(crate) fn not_found() -> Response {
    message(&NOT_FOUND)
}

/// The error page for a form that failed with this status.
pub(crate) fn trouble(status: u16) -> Response {
    message(match status {
        429 => &TOO_MANY_TRIES,
        400..500 => &BAD_FORM,
        _ => &UNAVAILABLE,
    })
}

pub(crate) fn wrong_method() -> Response {
    message(&WRONG_METHOD)
}
