//! QR codes of short links.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use qrcode::EcLevel;
use sha2::{Digest, Sha256};

use crate::describe;
use crate::http::extract::{Name, Peer};
use crate::http::host::{hex, key_of, short_url};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::Web;
use crate::qr::{Drawing, Matrix};

/// Reads the parameters of a drawing.
fn drawing(mut params: Params) -> Result<Drawing, Problem> {
    let mut drawing = Drawing::default();
    match params.take("format").as_deref() {
        None | Some("svg") => {}
        Some("png") => drawing.png = true,
        Some(_) => return Err(Problem::invalid("format", "svg or png")),
    }
    if let Some(text) = params.take("size") {
        drawing.size = number("size", &text, 64, 2048)?;
    }
    if let Some(text) = params.take("margin") {
        drawing.margin = number("margin", &text, 0, 16)?;
    }
    drawing.level = match params.take("level").as_deref() {
        Some("L") => EcLevel::L,
        None | Some("M") => EcLevel::M,
        Some("Q") => EcLevel::Q,
        Some("H") => EcLevel::H,
        Some(_) => return Err(Problem::invalid("level", "one of L, M, Q and H")),
    };
    if let Some(text) = params.take("fg") {
        drawing.ink = colour("fg", &text)?;
    }
    if let Some(text) = params.take("bg") {
        drawing.paper = colour("bg", &text)?;
    }
    params.done()?;
    Ok(drawing)
}

fn number(field: &'static str, text: &str, least: u32, most: u32) -> Result<u32, Problem> {
    let digits = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits
        .then(|| text.parse().ok())
        .flatten()
        .filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Problem::invalid(field, format!("a whole number from {least} to {most}")))
}

fn colour(field: &'static str, text: &str) -> Result<[u8; 3], Problem> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    let hex = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten();
    let [_, red, green, blue] = number
        .ok_or_else(|| {
            Problem::invalid(field, "a colour as six hexadecimal digits, such as 1a2b3c")
        })?
        .to_be_bytes();
    Ok([red, green, blue])
}

/// The QR code of a short link
///
/// For links that exist and are neither deleted nor blocked.
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
        ("bg" = Option<String>, Query, description = "The background colour, ffffff by default",
            pattern = "^#?[0-9A-Fa-f]{6}$", nullable = false)),
    responses((status = 200, description = "The image", content((String = "image/svg+xml"),
        (String = "image/png"))),
        super::answers::QrProblems))]
pub(super) async fn draw(
    State(state): Web,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    params: Params,
    Name(code): Name,
) -> Result<Response, Problem> {
    let drawing = drawing(params)?;
    let key = key_of(&state, &uri, &headers, &code);
    let link = state.public_links.find_for_qr(key.as_ref(), address).await?;
    let text = short_url(&link.key, &state.links.rules().hosts);
    let matrix = Matrix::of(&text, drawing.level)
        .ok_or_else(|| Problem::invalid("level", "too long for a QR code"))?;
    let (kind, bytes) = match drawing.png {
        false => ("image/svg+xml", matrix.svg(&drawing).into_bytes()),
        true => (
            "image/png",
            matrix.png(&drawing).ok_or_else(|| Problem::invalid("size", "this cannot be drawn"))?,
        ),
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
