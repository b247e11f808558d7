//! QR codes of short links.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use terse_core::Logo;
use tokio::sync::Semaphore;

use crate::describe;
use crate::http::extract::{Name, Peer};
use crate::http::host::{hex, key_of, short_url};
use crate::http::params::Params;
use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::Web;
use crate::qr::{Drawing, Matrix, Pixels};

/// The QR code of a short link
///
/// For links that exist and are neither deleted nor blocked. Colours that scanners cannot tell
/// apart are refused.
#[describe::path(get, path = "/{code}/qr", operation_id = "draw_qr", tag = "Pages",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("format" = inline(Option<FormatParam>), Query, description = "`svg` by \
            default", nullable = false),
        ("size" = Option<u32>, Query, description = "Width and height in pixels, 256 by default. \
            A PNG has whole pixels per \
            module, and is larger where the modules would not \
            fit.", minimum = 64, maximum = 2048, nullable = false),
        ("margin" = Option<u32>, Query, description = "The quiet zone in modules, 4 by \
            default", minimum = 0, maximum = 16, nullable = false),
        ("level" = inline(Option<LevelParam>), Query,
            description = "The error correction level, `M` by default", nullable = false),
        ("fg" = Option<String>, Query, description = "The foreground colour, 000000 by default",
            pattern = "^#?[0-9A-Fa-f]{6}$", nullable = false),
        ("bg" = Option<String>, Query, description = "The background colour, ffffff by default; \
            lighter than the foreground", pattern = "^#?[0-9A-Fa-f]{6}$", nullable = false),
        ("logo" = Option<bool>, Query, description = "Whether the logo of this server is in the \
            middle; the level is then `H`. A PNG can have a PNG logo only.", nullable = false)),
    responses((status = 200, description = "The image", content((String = "image/svg+xml"),
        (String = "image/png"))),
        super::answers::QrProblems))]
pub(super) async fn draw(
    State(state): Web,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    mut params: Params,
    Name(code): Name,
) -> Result<Response, Problem> {
    let drawing = Drawing::parse(&mut params)?;
    params.done()?;
    let key = key_of(&state, &uri, &headers, &code);
    let link = state.public_links.find_for_qr(key.as_ref(), address).await?;
    let text = short_url(&link.key, &state.links.rules().hosts);
    let site = state.site();
    let logo = site.operator().logo.as_ref().zip(site.logo_path()).filter(|_| drawing.logo);
    if drawing.logo && logo.is_none() {
        return Err(Problem::invalid("logo", "this server has no logo"));
    }
    let known = headers.get(header::IF_NONE_MATCH);
    answer(&state.turns.drawings, &text, drawing, logo, known).await
}

/// The image, or 304 without drawing it. `logo` is the logo and its path, which contains a hash of
/// it.
async fn answer(
    turns: &Arc<Semaphore>,
    text: &str,
    drawing: Drawing,
    logo: Option<(&Logo, &str)>,
    known: Option<&HeaderValue>,
) -> Result<Response, Problem> {
    // Another version may draw the same differently.
    let version = env!("CARGO_PKG_VERSION");
    let all = format!("{version} {text} {drawing:?} {:?}", logo.map(|(_, path)| path));
    let etag = format!("\"{}\"", hex(&Sha256::digest(all)[..8]));
    let headers = [(header::ETAG, etag.as_str()), (header::CACHE_CONTROL, "public, max-age=86400")];
    if known.is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    let matrix = Matrix::of(text, drawing.level)
        .ok_or_else(|| Problem::invalid("level", "too long for a QR code"))?
        .with_room(drawing.logo);
    let logo = logo.map(|(logo, _)| logo);
    let (kind, bytes) = match drawing.png {
        false => ("image/svg+xml", matrix.svg(&drawing, logo).into_bytes()),
        true => ("image/png", draw_png(turns, matrix, drawing, logo.cloned()).await?),
    };
    Ok((headers, [(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// Draws a PNG outside of the threads that serve requests. 503 if too many are being drawn.
async fn draw_png(
    turns: &Arc<Semaphore>,
    matrix: Matrix,
    drawing: Drawing,
    logo: Option<Logo>,
) -> Result<Vec<u8>, Problem> {
    let busy = |_| Problem::new(&STORE_UNAVAILABLE, "too many QR codes at once; try again");
    let turn = Arc::clone(turns).try_acquire_owned().map_err(busy)?;
    let drawn = tokio::task::spawn_blocking(move || {
        // Held until the drawing ends, also if the client goes away.
        let _turn = turn;
        const NO_PNG: &str =
            "for a PNG the logo must be a PNG of at most 512 by 512 pixels; ask for format=svg";
        let pixels = logo.map(|logo| Pixels::of(&logo).ok_or(NO_PNG)).transpose();
        let pixels = pixels.map_err(|why| Problem::invalid("logo", why))?;
        let bytes = matrix.png(&drawing, pixels.as_ref());
        bytes.ok_or_else(|| Problem::invalid("size", "this cannot be drawn"))
    });
    drawn.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a QR code was not drawn");
        Err(Problem::new(&STORE_UNAVAILABLE, "the QR code was not drawn; try again"))
    })
}

/// The image formats.
#[derive(crate::describe::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
enum FormatParam {
    Svg,
    Png,
}

/// How much of the code may be damaged: about 7, 15, 25 or 30 %.
#[derive(crate::describe::ToSchema)]
#[expect(dead_code, reason = "its names are what matters")]
enum LevelParam {
    L,
    M,
    Q,
    H,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn few_codes_are_drawn_at_once_and_known_ones_not_again() {
        let turns = Arc::new(Semaphore::new(1));
        let drawing = Drawing { png: true, ..Drawing::default() };
        let ask = async |known: Option<&HeaderValue>| {
            let text = "https://go.example/abc";
            let answer = answer(&turns, text, drawing.clone(), None, known).await;
            answer.unwrap_or_else(IntoResponse::into_response)
        };
        let first = ask(None).await;
        assert_eq!((first.status(), turns.available_permits()), (StatusCode::OK, 1));
        let etag = first.headers()[header::ETAG].clone();
        let turn = turns.try_acquire().unwrap();
        assert_eq!(ask(Some(&etag)).await.status(), StatusCode::NOT_MODIFIED);
        let refused = ask(None).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        drop(turn);
        assert_eq!(ask(None).await.status(), StatusCode::OK);
    }
}
