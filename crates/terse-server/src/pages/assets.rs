//! The static files that pages load. Each name contains a hash of the content, so browsers may
//! cache the file forever.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::http::extract::Name;
use crate::http::host::hex;

struct Asset {
    path: String,
    kind: &'static str,
    body: &'static str,
}

impl Asset {
    fn new(extension: &str, kind: &'static str, body: &'static str) -> Self {
        let hash = hex(&Sha256::digest(body)[..6]);
        Self { path: format!("/assets/terse-{hash}.{extension}"), kind, body }
    }
}

static CSS: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("css", "text/css; charset=utf-8", include_str!("../../assets/terse.css"))
});
static JS: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("js", "text/javascript; charset=utf-8", include_str!("../../assets/terse.js"))
});
const ICON: &str = include_str!("../../assets/favicon.svg");

/// The path of the style sheet.
pub(crate) fn css() -> &'static str {
    &CSS.path
}

/// The path of the script.
pub(crate) fn js() -> &'static str {
    &JS.path
}

pub(super) async fn asset(Name(name): Name) -> Response {
    let found =
        [&*CSS, &*JS].into_iter().find(|asset| asset.path.strip_prefix("/assets/") == Some(&*name));
    match found {
        Some(asset) => {
            let headers = [
                (header::CONTENT_TYPE, asset.kind),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, asset.body).into_response()
        }
        None => super::not_found(),
    }
}

pub(super) async fn icon() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "public, max-age=86400")],
        ICON,
    )
}

pub(super) async fn robots() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=86400"),
    ];
    (headers, "User-agent: *\nAllow: /\nDisallow: /api/\n")
}
