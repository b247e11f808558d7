//! QR codes of short links, as SVG and PNG.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use qrcode::{Color, EcLevel, QrCode};
use sha2::{Digest, Sha256};
use terse_core::{Status, StoreError};

use super::key_of;
use crate::api::QrProblems;
use crate::api::problem::Problem;
use crate::api::request::{Name, Params, Peer};
use crate::api::shapes::short_url;
use crate::router::{AppState, Web};

/// How a code is to be drawn.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    png: bool,
    /// In pixels.
    pub(super) size: u32,
    /// In modules.
    pub(super) margin: u32,
    level: EcLevel,
    pub(super) ink: [u8; 3],
    pub(super) paper: [u8; 3],
}

impl Default for Drawing {
    fn default() -> Self {
        Self { png: false, size: 256, margin: 4, level: EcLevel::M, ink: [0; 3], paper: [255; 3] }
    }
}

impl Drawing {
    fn parse(mut params: Params) -> Result<Self, Problem> {
        let mut drawing = Self::default();
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
#[utoipa::path(get, path = "/{code}/qr", operation_id = "draw_qr", tag = "Pages",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{3,64}$"),
        ("format" = inline(Option<FormatWord>), Query, description = "`svg` by \
            default", nullable = false),
        ("size" = Option<u32>, Query, description = "Width and height in pixels, 256 by default. \
            A PNG has whole pixels per \
            module, and is larger where the modules would not \
            fit.", minimum = 64, maximum = 2048, nullable = false),
        ("margin" = Option<u32>, Query, description = "The quiet zone in modules, 4 by \
            default", minimum = 0, maximum = 16, nullable = false),
        ("level" = inline(Option<LevelWord>), Query, description = "How much damage it survives, \
            `M` by default", nullable = false),
        ("fg" = Option<String>, Query, description = "The ink, 000000 by \
            default", pattern = "^#?[0-9A-Fa-f]{6}$", nullable = false),
        ("bg" = Option<String>, Query, description = "The paper, ffffff by \
            default", pattern = "^#?[0-9A-Fa-f]{6}$", nullable = false)),
    responses((status = 200, description = "The \
        picture", content((String = "image/svg+xml"), (String = "image/png"))),
        QrProblems))]
pub(crate) async fn draw(
    State(state): Web,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    params: Params,
    Name(code): Name,
) -> Result<Response, Problem> {
    let drawing = Drawing::parse(params)?;
    let Some(text) = existing(&state, &uri, &headers, &code).await? else {
        state.limits.guess(Some(address)).await?;
        return Err(Problem::no_link());
    };
    let matrix = Matrix::of(&text, drawing.level)
        .ok_or_else(|| Problem::invalid("level", "too long for a QR code"))?;
    let (kind, bytes) = match drawing.png {
        false => ("image/svg+xml", matrix.svg(&drawing).into_bytes()),
        true => (
            "image/png",
            matrix.png(&drawing).ok_or_else(|| Problem::invalid("size", "this cannot be drawn"))?,
        ),
    };
    let etag = format!("\"{}\"", super::hex(&Sha256::digest(&bytes)[..8]));
    let known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let headers = [(header::ETAG, etag.as_str()), (header::CACHE_CONTROL, "public, max-age=86400")];
    if known {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, [(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// The short URL, if there is such a link to be drawn.
async fn existing(
    state: &Arc<AppState>,
    uri: &Uri,
    headers: &HeaderMap,
    code: &str,
) -> Result<Option<String>, StoreError> {
    let Some(key) = key_of(state, uri, headers, code) else { return Ok(None) };
    let link = state.links.preview(&key).await?;
    let link = link.filter(|link| {
        !matches!(link.status(state.links.now()), Status::Deleted | Status::Blocked)
    });
    Ok(link.map(|link| short_url(&link.key, &state.links.rules().hosts)))
}

/// The black and white squares.
pub(super) struct Matrix {
    width: u32,
    dark: Vec<bool>,
}

impl Matrix {
    pub(super) fn of(text: &str, level: EcLevel) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, level).ok()?;
        let width = u32::try_from(code.width()).ok()?;
        Some(Self {
            width,
            dark: code.to_colors().into_iter().map(|module| module == Color::Dark).collect(),
        })
    }

    fn is_dark(&self, x: u32, y: u32) -> bool {
        self.dark.get((y * self.width + x) as usize).copied().unwrap_or(false)
    }

    /// Each row's runs of dark modules, as one path.
    pub(super) fn path(&self, margin: u32) -> String {
        let mut path = String::new();
        for y in 0..self.width {
            let mut x = 0;
            while x < self.width {
                let run = (x..self.width).take_while(|&x| self.is_dark(x, y)).count() as u32;
                if run > 0 {
                    path.push_str(&format!("M{} {}h{run}v1h-{run}z", x + margin, y + margin));
                }
                x += run.max(1);
            }
        }
        path
    }

    /// With the quiet zone, in modules.
    pub(super) fn across(&self, margin: u32) -> u32 {
        self.width + 2 * margin
    }

    fn svg(&self, drawing: &Drawing) -> String {
        let (size, across, path) =
            (drawing.size, self.across(drawing.margin), self.path(drawing.margin));
        let (ink, paper) = (super::hex(&drawing.ink), super::hex(&drawing.paper));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size}\" height=\"{size}\" \
             viewBox=\"0 0 {across} {across}\" \
             shape-rendering=\"crispEdges\"><path fill=\"#{paper}\" d=\"M0 \
             0h{across}v{across}H0z\"/>\
             <path fill=\"#{ink}\" d=\"{path}\"/></svg>"
        )
    }

    /// Whole pixels per module, as scanners like it; what is left over becomes margin.
    fn png(&self, drawing: &Drawing) -> Option<Vec<u8>> {
        let across = self.across(drawing.margin);
        let scale = (drawing.size / across).max(1);
        let size = drawing.size.max(across);
        let before = (size - self.width * scale) / 2;
        let row_bytes = size.div_ceil(8) as usize;
        let mut rows = vec![0_u8; row_bytes * size as usize];
        for y in 0..self.width * scale {
            let row = &mut rows[(y + before) as usize * row_bytes..][..row_bytes];
            for x in (0..self.width * scale).filter(|x| self.is_dark(x / scale, y / scale)) {
                let place = x + before;
                row[(place / 8) as usize] |= 0x80 >> (place % 8);
            }
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, size, size);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::One);
        encoder.set_palette([drawing.paper, drawing.ink].concat());
        encoder.write_header().ok()?.write_image_data(&rows).ok()?;
        Some(bytes)
    }
}

/// How the picture is written.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
enum FormatWord {
    Svg,
    Png,
}

/// How much of the code may be lost: about 7, 15, 25 or 30 %.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "its names are what matters")]
enum LevelWord {
    L,
    M,
    Q,
    H,
}
