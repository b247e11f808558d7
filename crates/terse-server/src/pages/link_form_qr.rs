//! The QR code beside the form of a link: drawn for the alias that is typed.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use terse_core::{Code, Domain, Link, LinkKey};
use url::form_urlencoded;

use super::link::key_of;
use super::link_fields::LinkForm;
use super::member::Member;
use super::{BAD_FORM, NOT_FOUND, message};
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::qr::{Drawing, Matrix};

/// Stands for the code that terse generates: it has as many characters, so the QR code looks alike.
const SAMPLE: &str = "Sample7";

/// The QR code of the form.
pub(super) struct FormQr {
    /// The path of the image, without colours.
    pub(super) image: String,
    /// For a link that exists: its short URL and its code, for files, and the path of its QR page.
    pub(super) files: Option<(String, String, String)>,
}

impl FormQr {
    pub(super) fn new(state: &App, form: &LinkForm, link: Option<&Link>) -> Self {
        let (code, domain) = match link {
            Some(link) => {
                let host = state.links.rules().hosts.name_of(&link.key.domain);
                (link.key.code.as_str(), host)
            }
            None => (form.alias.trim(), form.domain.as_str()),
        };
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("alias", code)
            .append_pair("domain", domain)
            .finish();
        let files = link.map(|link| {
            let domain = (!link.key.domain.is_primary()).then(|| link.key.domain.as_str());
            let code = link.key.code.to_string();
            let page = super::link::path(&code, domain, "qr", &[]);
            (short_url(&link.key, &state.links.rules().hosts), code, page)
        });
        Self { image: format!("/links/new/qr?{query}"), files }
    }
}

/// Draws the QR code that a link with this alias would have, as SVG.
pub(super) async fn draw(
    State(state): Web,
    _: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let alias = params.take("alias").unwrap_or_default();
    let alias = alias.trim();
    let key = match key_of(&state, &mut params, alias) {
        Some(key) => key,
        // While an alias is typed, it may be none yet.
        None => match Code::parse(SAMPLE) {
            Some(code) => LinkKey { domain: Domain::primary(), code },
            None => return message(&NOT_FOUND),
        },
    };
    let Ok(drawing) = Drawing::parse(&mut params) else { return message(&BAD_FORM) };
    let site = state.site();
    let logo = site.operator().logo.as_ref().filter(|_| drawing.logo);
    let text = short_url(&key, &state.links.rules().hosts);
    let Some(matrix) = Matrix::of(&text, drawing.level) else { return message(&BAD_FORM) };
    let svg = matrix.with_room(logo.is_some()).svg(&drawing, logo);
    let headers = [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "no-store")];
    (headers, svg).into_response()
}
