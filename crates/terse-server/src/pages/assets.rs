//! The static files that pages load. Each name contains a hash of the content, so browsers may
//! cache the file forever.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use sha2::{Digest, Sha256};
use terse_core::Logo;

use super::frame::{PageFrame, Visitor};
use crate::http::extract::Name;
use crate::http::host::hex;
use crate::http::state::Web;
use crate::router::nothing_here;

struct Asset {
    path: String,
    kind: &'static str,
    body: Cow<'static, [u8]>,
}

impl Asset {
    fn new(name: &str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        let body = body.into();
        let hash = hex(&Sha256::digest(&body)[..6]);
        let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
        let kind = match extension {
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "png" => "image/png",
            _ => "text/javascript; charset=utf-8",
        };
        Self { path: format!("/assets/{stem}-{hash}.{extension}"), kind, body }
    }
}

static CSS: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("terse.css", &include_bytes!("../../assets/terse.css")[..]));
static JS: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("terse.js", &include_bytes!("../../assets/terse.js")[..]));
static APP_CSS: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("app.css", &include_bytes!("../../assets/app.css")[..]));
static APP_JS: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("app.js", &include_bytes!("../../assets/app.js")[..]));
static DOCS_JS: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("docs.js", &include_bytes!("../../assets/docs.js")[..]));
static WORLD: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("world.svg", &include_bytes!("../../assets/world.svg")[..]));
/// The icon as pictures, for systems that install the dashboard and read no SVG.
static ICONS: LazyLock<[(u32, Asset); 3]> = LazyLock::new(|| {
    [180, 192, 512].map(|size| (size, Asset::new(&format!("icon-{size}.png"), icon_png(size))))
});
const ICON: &str = include_str!("../../assets/favicon.svg");

/// Draws `favicon.svg`: two bars on a square, in a grid of 32 by 32.
fn icon_png(size: u32) -> Vec<u8> {
    const PALETTE: [[u8; 3]; 4] = [[28, 26, 23], [246, 243, 236], [232, 86, 42], [0, 0, 0]];
    let colour = |x: u32, y: u32| match (x * 32 / size, y * 32 / size) {
        (6..26, 11..14) => 1,
        (6..14, 18..22) => 2,
        _ => 0,
    };
    let row_bytes = size.div_ceil(4) as usize;
    let mut rows = vec![0_u8; row_bytes * size as usize];
    for (y, row) in (0..size).zip(rows.chunks_mut(row_bytes)) {
        for x in 0..size {
            row[(x / 4) as usize] |= colour(x, y) << (6 - 2 * (x % 4));
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size, size);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Two);
    encoder.set_palette(PALETTE.concat());
    let written = encoder.write_header().and_then(|mut file| file.write_image_data(&rows));
    written.expect("a picture of this size can be written to memory");
    bytes
}

/// The path of the icon for the home screens of Apple's systems.
pub(crate) fn touch_icon() -> &'static str {
    &ICONS[0].1.path
}

/// The path of the style sheet.
pub(crate) fn css() -> &'static str {
    &CSS.path
}

/// The path of the script.
pub(crate) fn js() -> &'static str {
    &JS.path
}

/// The path of the dashboard's style sheet.
pub(crate) fn app_css() -> &'static str {
    &APP_CSS.path
}

/// The path of the dashboard's script.
pub(crate) fn app_js() -> &'static str {
    &APP_JS.path
}

/// The path of the documentation's script.
pub(crate) fn docs_js() -> &'static str {
    &DOCS_JS.path
}

/// The path of the shapes of all countries.
pub(crate) fn world() -> &'static str {
    &WORLD.path
}

pub(super) async fn asset(State(state): Web, Name(name): Name) -> Response {
    if let Some(logo) = state.site().logo_at(&format!("/assets/{name}")) {
        return logo_response(logo);
    }
    if let Some(style) = state.site().style_at(&format!("/assets/{name}")) {
        let headers = [
            (header::CONTENT_TYPE, "text/css; charset=utf-8"),
            (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        ];
        return (headers, style.to_owned()).into_response();
    }
    let found = [&*CSS, &*JS, &*APP_CSS, &*APP_JS, &*DOCS_JS, &*WORLD]
        .into_iter()
        .chain(ICONS.iter().map(|(_, icon)| icon))
        .find(|asset| asset.path.strip_prefix("/assets/") == Some(&*name));
    match found {
        Some(asset) => {
            let headers = [
                (header::CONTENT_TYPE, asset.kind),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, &*asset.body).into_response()
        }
        None => super::not_found(),
    }
}

/// The operator's logo. An SVG may contain scripts and links: the policy turns them off for a
/// browser that opens the picture by itself.
fn logo_response(logo: &Logo) -> Response {
    let headers = [
        (header::CONTENT_TYPE, logo.media_type()),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; sandbox"),
    ];
    (headers, logo.bytes().to_vec()).into_response()
}

/// `/.well-known/security.txt` (RFC 9116): where to report security problems of this server.
pub(super) async fn security_txt(State(state): Web, uri: Uri, headers: HeaderMap) -> Response {
    /// The file must name a time until which it is valid. It is made anew for every request.
    const VALID: Duration = Duration::from_secs(180 * 86_400);
    let site = state.site();
    let contact =
        site.operator().security_contact.as_ref().zip(state.links.now().checked_add(VALID));
    let Some((contact, until)) = contact else { return nothing_here(uri, headers).await };
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=86400"),
    ];
    (headers, format!("Contact: {}\nExpires: {until}\n", contact.href())).into_response()
}

pub(super) async fn icon() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "public, max-age=86400")],
        ICON,
    )
}

/// What a browser needs to install the dashboard as an app, and to share pages with it.
pub(super) async fn manifest(State(state): Web) -> impl IntoResponse {
    let name = PageFrame::new(state.site(), Visitor::Anyone).name();
    let mut icons = vec![json!({ "src": "/favicon.svg", "sizes": "any", "type": "image/svg+xml" })];
    icons.extend(ICONS.iter().map(|(size, icon)| {
        json!({ "src": icon.path, "sizes": format!("{size}x{size}"), "type": "image/png",
            "purpose": "any maskable" })
    }));
    let manifest = json!({
        "name": name,
        "short_name": name,
        "id": "/dashboard",
        "start_url": "/dashboard",
        "scope": "/",
        "display": "standalone",
        "background_color": "#f7f4ed",
        "theme_color": "#f7f4ed",
        "icons": icons,
        "shortcuts": [{ "name": "New link", "url": "/links/new" }],
        "share_target": {
            "action": "/links/new",
            "method": "GET",
            "params": { "url": "url", "title": "title" },
        },
    });
    let headers = [
        (header::CONTENT_TYPE, "application/manifest+json"),
        (header::CACHE_CONTROL, "public, max-age=86400"),
    ];
    (headers, manifest.to_string())
}

pub(super) async fn robots() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=86400"),
    ];
    (headers, "User-agent: *\nAllow: /\nDisallow: /api/\n")
}
