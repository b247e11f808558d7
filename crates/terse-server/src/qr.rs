//! QR codes, drawn as SVG or PNG, with a logo in the middle if wanted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use qrcode::{EcLevel, QrCode};
use terse_core::{Colour, Logo};

use crate::http::params::Params;
use crate::http::problem::Problem;

/// The least contrast that scanners read reliably.
const LEAST_CONTRAST: f64 = 3.0;
/// The share of the width that a logo covers, in hundredths. The highest level of error correction
/// repairs six times the area.
const LOGO_SHARE: u32 = 22;

/// How to draw a QR code.
#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    pub(crate) png: bool,
    /// In pixels.
    pub(crate) size: u32,
    /// In modules.
    pub(crate) margin: u32,
    pub(crate) level: EcLevel,
    pub(crate) ink: Colour,
    pub(crate) paper: Colour,
    /// Whether the server's logo is in the middle.
    pub(crate) logo: bool,
}

impl Default for Drawing {
    fn default() -> Self {
        Self {
            png: false,
            size: 256,
            margin: 4,
            level: EcLevel::M,
            ink: Colour::new(0, 0, 0),
            paper: Colour::new(255, 255, 255),
            logo: false,
        }
    }
}

impl Drawing {
    /// Reads the parameters of a drawing. Refuses one that scanners could not read.
    pub(crate) fn parse(params: &mut Params) -> Result<Self, Problem> {
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
        drawing.logo = match params.take("logo").as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(Problem::invalid("logo", "true or false")),
        };
        drawing.level = match params.take("level").as_deref() {
            None if drawing.logo => EcLevel::H,
            Some("L" | "M" | "Q") if drawing.logo => {
                return Err(Problem::invalid("level", "H, because the logo covers a part"));
            }
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
        if !drawing.ink.is_darker_than(drawing.paper) {
            return Err(Problem::invalid("fg", "darker than bg, or scanners cannot read the code"));
        }
        if drawing.ink.contrast(drawing.paper) < LEAST_CONTRAST {
            let detail = "more different from bg, or scanners cannot read the code";
            return Err(Problem::invalid("fg", detail));
        }
        Ok(drawing)
    }

    /// The name of the level in parameters.
    pub(crate) fn level_name(&self) -> &'static str {
        match self.level {
            EcLevel::L => "L",
            EcLevel::M => "M",
            EcLevel::Q => "Q",
            EcLevel::H => "H",
        }
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

fn colour(field: &'static str, text: &str) -> Result<Colour, Problem> {
    let six = text.strip_prefix('#').unwrap_or(text).len() == 6;
    text.parse().ok().filter(|_| six).ok_or_else(|| {
        Problem::invalid(field, "a colour as six hexadecimal digits, such as 1a2b3c")
    })
}

/// The modules (black and white squares) of a QR code.
pub(crate) struct Matrix {
    width: u32,
    dark: Vec<bool>,
    /// The width of the square in the middle that a logo covers.
    clear: u32,
}

impl Matrix {
    pub(crate) fn of(text: &str, level: EcLevel) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, level).ok()?;
        let width = u32::try_from(code.width()).ok()?;
        let dark = code.to_colors().into_iter().map(|module| module == qrcode::Color::Dark);
        Some(Self { width, dark: dark.collect(), clear: 0 })
    }

    /// The same, with room for a logo in the middle.
    #[must_use]
    pub(crate) fn with_room(self, logo: bool) -> Self {
        // Odd like the width, so that it is in the middle.
        let clear = if logo { (self.width * LOGO_SHARE / 100) | 1 } else { 0 };
        Self { clear, ..self }
    }

    fn is_dark(&self, x: u32, y: u32) -> bool {
        let from = (self.width - self.clear) / 2;
        let covered = |n: u32| (from..from + self.clear).contains(&n);
        let dark = self.dark.get((y * self.width + x) as usize).copied().unwrap_or(false);
        dark && !(covered(x) && covered(y))
    }

    /// Each row's runs of dark modules, as one path.
    pub(crate) fn path(&self, margin: u32) -> String {
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

    /// The width including the quiet zone, in modules.
    pub(crate) fn across(&self, margin: u32) -> u32 {
        self.width + 2 * margin
    }

    /// Where the logo begins and how wide it is, in modules. Half a module around it stays free.
    pub(crate) fn logo_place(&self, margin: u32) -> Option<(f64, f64)> {
        let from = f64::from((self.width - self.clear) / 2 + margin) + 0.5;
        (self.clear > 0).then(|| (from, f64::from(self.clear) - 1.0))
    }

    pub(crate) fn svg(&self, drawing: &Drawing, logo: Option<&Logo>) -> String {
        let (size, across, path) =
            (drawing.size, self.across(drawing.margin), self.path(drawing.margin));
        let Drawing { ink, paper, .. } = drawing;
        let picture = logo.zip(self.logo_place(drawing.margin)).map(|(logo, (from, width))| {
            format!(
                "<image x=\"{from}\" y=\"{from}\" width=\"{width}\" height=\"{width}\" \
                 href=\"data:{};base64,{}\"/>",
                logo.media_type(),
                BASE64.encode(logo.bytes())
            )
        });
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size}\" height=\"{size}\" \
             viewBox=\"0 0 {across} {across}\" \
             shape-rendering=\"crispEdges\"><path fill=\"{paper}\" d=\"M0 \
             0h{across}v{across}H0z\"/>\
             <path fill=\"{ink}\" d=\"{path}\"/>{}</svg>",
            picture.unwrap_or_default()
        )
    }

    /// Draws whole pixels per module, which scanners read best; the remainder becomes margin.
    pub(crate) fn png(&self, drawing: &Drawing, logo: Option<&Pixels>) -> Option<Vec<u8>> {
        let across = self.across(drawing.margin);
        let scale = (drawing.size / across).max(1);
        let size = drawing.size.max(across);
        let before = (size - self.width * scale) / 2;
        let dark = |x: u32, y: u32| {
            let module = |n: u32| n.checked_sub(before).map(|n| n / scale);
            let inside = |n: &u32| *n < self.width;
            let (x, y) = (module(x).filter(inside), module(y).filter(inside));
            x.zip(y).is_some_and(|(x, y)| self.is_dark(x, y))
        };
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, size, size);
        let (paper, ink) = (drawing.paper.parts(), drawing.ink.parts());
        let Some(logo) = logo.filter(|_| self.clear > 0) else {
            let row_bytes = size.div_ceil(8) as usize;
            let mut rows = vec![0_u8; row_bytes * size as usize];
            for (y, row) in (0..size).zip(rows.chunks_mut(row_bytes)) {
                for x in (0..size).filter(|x| dark(*x, y)) {
                    row[(x / 8) as usize] |= 0x80 >> (x % 8);
                }
            }
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_depth(png::BitDepth::One);
            encoder.set_palette([paper, ink].concat());
            encoder.write_header().ok()?.write_image_data(&rows).ok()?;
            return Some(bytes);
        };
        let mut rows = Vec::with_capacity(3 * (size * size) as usize);
        for (y, x) in (0..size).flat_map(|y| (0..size).map(move |x| (y, x))) {
            rows.extend(if dark(x, y) { ink } else { paper });
        }
        let from = before + (self.width - self.clear) / 2 * scale + scale / 2;
        logo.draw(&mut rows, size, from, (self.clear - 1) * scale);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header().ok()?.write_image_data(&rows).ok()?;
        Some(bytes)
    }
}

/// A decoded picture: red, green, blue and alpha of each pixel.
pub(crate) struct Pixels {
    width: u32,
    height: u32,
    pixels: Vec<[u8; 4]>,
}

impl Pixels {
    /// Decodes a PNG; `None` for other formats, and for pictures that are damaged or too large.
    pub(crate) fn of(logo: &Logo) -> Option<Self> {
        if !logo.fits_png() {
            return None;
        }
        let mut decoder = png::Decoder::new(std::io::Cursor::new(logo.bytes()));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().ok()?;
        let (width, height) = (reader.info().width, reader.info().height);
        let mut bytes = vec![0; reader.output_buffer_size()?];
        let info = reader.next_frame(&mut bytes).ok()?;
        let pixels = bytes.chunks_exact(info.color_type.samples());
        let pixels = pixels.map(|samples| match *samples {
            [grey] => [grey, grey, grey, 255],
            [grey, alpha] => [grey, grey, grey, alpha],
            [red, green, blue] => [red, green, blue, 255],
            [red, green, blue, alpha] => [red, green, blue, alpha],
            _ => [0; 4],
        });
        let pixels: Vec<_> = pixels.take((width * height) as usize).collect();
        (pixels.len() == (width * height) as usize).then_some(Self { width, height, pixels })
    }

    /// Draws the picture as large as it fits into a square of an image of `size` pixels.
    fn draw(&self, rows: &mut [u8], size: u32, from: u32, side: u32) {
        let longer = self.width.max(self.height).max(1);
        let scaled = |length: u32| (length * side / longer).clamp(1, side.max(1));
        let (width, height) = (scaled(self.width), scaled(self.height));
        let (left, top) = (from + (side - width) / 2, from + (side - height) / 2);
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let [red, green, blue, alpha] = self.mean(x, y, width, height);
            let at = 3 * ((top + y) * size + left + x) as usize;
            let Some(pixel) = rows.get_mut(at..at + 3) else { continue };
            for (below, above) in pixel.iter_mut().zip([red, green, blue]) {
                let alpha = u16::from(alpha);
                let mixed = (u16::from(*below) * (255 - alpha) + u16::from(above) * alpha) / 255;
                *below = u8::try_from(mixed).unwrap_or(u8::MAX);
            }
        }
    }

    /// The mean of the pixels that one pixel of a smaller picture stands for.
    fn mean(&self, x: u32, y: u32, width: u32, height: u32) -> [u8; 4] {
        let range = |n: u32, of: u32, length: u32| {
            let from = n * length / of;
            from..((n + 1) * length / of).max(from + 1).min(length.max(1))
        };
        let (mut sums, mut count) = ([0_u64; 4], 0);
        for row in range(y, height, self.height) {
            for column in range(x, width, self.width) {
                let pixel = self.pixels[(row * self.width + column) as usize];
                let alpha = u64::from(pixel[3]);
                for (sum, part) in sums.iter_mut().zip(&pixel[..3]) {
                    *sum += u64::from(*part) * alpha;
                }
                sums[3] += alpha;
                count += 1;
            }
        }
        let alpha = sums[3];
        let part = |sum: u64| u8::try_from(sum / alpha.max(1)).unwrap_or(u8::MAX);
        let mean = u8::try_from(alpha / u64::max(count, 1)).unwrap_or(u8::MAX);
        [part(sums[0]), part(sums[1]), part(sums[2]), mean]
    }
}
