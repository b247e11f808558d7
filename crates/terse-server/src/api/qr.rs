//! QR codes of short links.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::describe;
use crate::http::extract::{Name, Peer};
use crate::http::host::{hex, key_of, short_url};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::Web;
use crate::qr::{Drawing, Matrix, Pixels};

/// The QR code of a short link
///
/// For links that exist and are neither deleted nor blocked. Colours that scanners cannot tell apart
/// are refused.
#[describe::path(get, path = "/{code}/qr", operation_id = "draw_qr", tag = "Pages",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("format" = inline(Option<FormatWord>), Query, description = "`svg` by \
            default", nullable = false),
        ("size" = Option<u32>, Query, description = "Width and height in pixels, 256 by default. \
            A PNG has whole pixels per \
            module, and is larger where the modules would not \
            fit.", minimum = 64, maximum = 2048, nullable = false),
        ("margin" = Option<u32>, Query, description = "The quiet zone in modules, 4 by \
            default", minimum = 0, maximum = 16, nullable = false),
        ("level" = inline(Option<LevelWord>), Query,
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
    let matrix = Matrix::of(&text, drawing.level)
        .ok_or_else(|| Problem::invalid("level", "too long for a QR code"))?
        .with_room(drawing.logo);
    let site = state.site();
    let logo = site.operator().logo.as_ref().filter(|_| drawing.logo);
    if drawing.logo && logo.is_none() {
        return Err(Problem::invalid("logo", "this server has no logo"));
    }
    let (kind, bytes) = match drawing.png {
        false => ("image/svg+xml", matrix.svg(&drawing, logo).into_bytes()),
        true => {
            let pixels = logo
                .map(|logo| Pixels::of(logo).ok_or("the logo is no PNG; ask for format=svg"))
                .transpose()
                .map_err(|why| Problem::invalid("logo", why))?;
            let bytes = matrix
                .png(&drawing, pixels.as_ref())
                .ok_or_else(|| Problem::invalid("size", "this cannot be drawn"))?;
            ("image/png", bytes)
        }
    };
    let etag = format!("\"{}\"", hex(&Sha256::digest(&bytes)[..8]));
    let known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let headers = [(header::ETAG, etag.as_str()), (header::CACHE_CONTROL, "public, max-age=86400")];
    if known {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, [(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// The image formats.
#[derive(crate::describe::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
enum FormatWord {
    Svg,
    Png,
}

/// How much of the code may be damaged: about 7, 15, 25 or 30 %.
#[derive(crate::describe::ToSchema)]
#[expect(dead_code, reason = "its names are what matters")]
enum LevelWord {
    L,
    M,
    Q,
    H,
}
