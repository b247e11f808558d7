//! What every page shows around its content: the operator's name, logo and contacts, and a link to
//! the visitor's account.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use terse_core::{Contact, FooterLink, Operator, PageLanguage, PageUrl};

use crate::http::cookies::{cookie, session_cookie, set_cookie};
use crate::http::state::App;
use crate::messages::{Catalogue, catalogue};
use crate::site::Site;

/// The cookie with the language that the account of this browser chose.
const LANGUAGE_COOKIE: &str = "terse_language";
/// How long it lasts, in seconds.
const LANGUAGE_TTL: u64 = 365 * 86_400;

/// The cookie that sets or deletes the chosen language.
pub(super) fn language_cookie(state: &App, tag: Option<&str>) -> HeaderValue {
    let ttl = if tag.is_some() { LANGUAGE_TTL } else { 0 };
    set_cookie(state, LANGUAGE_COOKIE, tag.unwrap_or_default(), ttl)
}

/// Whether the visitor is signed in, as far as a page knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Visitor {
    /// The page is the same for all visitors.
    Anyone,
    SignedOut,
    SignedIn,
}

impl Visitor {
    /// By the session cookie alone: a session that has ended leads to the sign-in page.
    pub(crate) fn of(state: &App, headers: &HeaderMap) -> Self {
        match cookie(headers, session_cookie(state)) {
            Some(_) => Self::SignedIn,
            None => Self::SignedOut,
        }
    }
}

/// The header and footer of one page.
#[derive(Clone)]
pub(crate) struct PageFrame {
    site: Arc<Site>,
    visitor: Visitor,
    language: PageLanguage,
}

impl PageFrame {
    pub(crate) fn new(site: Arc<Site>, visitor: Visitor) -> Self {
        Self { site, visitor, language: PageLanguage::English }
    }

    /// The frame of the response to a request.
    pub(crate) fn of(state: &App, headers: &HeaderMap) -> Self {
        Self::new(state.site(), Visitor::of(state, headers))
    }

    /// The frame of a page in the language that the visitor prefers.
    pub(crate) fn translated(state: &App, headers: &HeaderMap) -> Self {
        let chosen = cookie(headers, LANGUAGE_COOKIE).and_then(PageLanguage::parse);
        let language = chosen.unwrap_or_else(|| {
            let languages = headers.get(header::ACCEPT_LANGUAGE).map(HeaderValue::as_bytes);
            PageLanguage::preferred(languages.unwrap_or_default())
        });
        Self::of(state, headers).in_language(language)
    }

    /// The same, for a visitor of whom more is known than the headers say.
    pub(super) fn for_visitor(self, visitor: Visitor) -> Self {
        Self { visitor, ..self }
    }

    pub(crate) fn in_language(self, language: PageLanguage) -> Self {
        Self { language, ..self }
    }

    /// A page whose language depends on the visitor.
    pub(crate) fn page(&self, status: StatusCode, html: impl Into<Body>) -> Response {
        let mut response = super::page(status, html);
        self.mark_language(&mut response);
        response
    }

    /// Says in which language a response is, and that it depends on the visitor.
    pub(crate) fn mark_language(&self, response: &mut Response) {
        let headers = response.headers_mut();
        let tag = HeaderValue::from_static(self.language.tag());
        headers.insert(header::CONTENT_LANGUAGE, tag);
        headers.insert(header::VARY, HeaderValue::from_static("accept-language, cookie"));
    }

    /// The words of the page.
    pub(crate) fn m(&self) -> &'static Catalogue {
        catalogue(self.language)
    }

    pub(super) fn is_english(&self) -> bool {
        self.language == PageLanguage::English
    }

    pub(super) fn lang(&self) -> &'static str {
        self.language.tag()
    }

    /// The operator's name, or that of the software.
    pub(super) fn name(&self) -> String {
        self.site.operator().name.as_ref().map_or_else(|| "terse".to_owned(), ToString::to_string)
    }

    /// What comes before the path of a page of the dashboard: nothing, or the base of its host.
    pub(super) fn dashboard(&self) -> &str {
        self.site.dashboard()
    }

    pub(super) fn operator_name(&self) -> Option<String> {
        self.site.operator().name.as_ref().map(ToString::to_string)
    }

    pub(super) fn logo(&self) -> Option<&str> {
        self.site.logo_path()
    }

    /// The style sheet with the operator's accent colour.
    pub(super) fn style(&self) -> Option<&str> {
        self.site.style_path()
    }

    pub(super) fn links(&self) -> &[FooterLink] {
        &self.site.operator().links
    }

    pub(super) fn imprint(&self) -> Option<&PageUrl> {
        self.site.operator().imprint.as_ref()
    }

    pub(super) fn abuse_contact(&self) -> Option<&Contact> {
        self.site.operator().abuse_contact.as_ref()
    }

    pub(super) fn security_contact(&self) -> Option<&Contact> {
        self.site.operator().security_contact.as_ref()
    }

    /// Whether the footer has a line about the operator.
    pub(super) fn has_operator(&self) -> bool {
        let Operator { name, imprint, abuse_contact, security_contact, links, .. } =
            self.site.operator();
        name.is_some()
            || imprint.is_some()
            || abuse_contact.is_some()
            || security_contact.is_some()
            || !links.is_empty()
    }

    pub(super) fn is_signed_in(&self) -> bool {
        self.visitor == Visitor::SignedIn
    }

    pub(super) fn is_signed_out(&self) -> bool {
        self.visitor == Visitor::SignedOut
    }
}
