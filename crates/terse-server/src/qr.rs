//! QR codes, drawn as SVG or PNG.

use qrcode::{Color, EcLevel, QrCode};

use crate::http::host::hex;

/// How to draw a QR code.
#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    pub(crate) png: bool,
    /// In pixels.
    pub(crate) size: u32,
    /// In modules.
    pub(crate) margin: u32,
    pub(crate) level: EcLevel,
    pub(crate) ink: [u8; 3],
    pub(crate) paper: [u8; 3],
}

impl Default for Drawing {
    fn default() -> Self {
        Self { png: false, size: 256, margin: 4, level: EcLevel::M, ink: [0; 3], paper: [255; 3] }
    }
}

/// The modules (black and white squares) of a QR code.
pub(crate) struct Matrix {
    width: u32,
    dark: Vec<bool>,
}

impl Matrix {
    pub(crate) fn of(text: &str, level: EcLevel) -> Option<Self> {
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

    pub(crate) fn svg(&self, drawing: &Drawing) -> String {
        let (size, across, path) =
            (drawing.size, self.across(drawing.margin), self.path(drawing.margin));
        let (ink, paper) = (hex(&drawing.ink), hex(&drawing.paper));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size}\" height=\"{size}\" \
             viewBox=\"0 0 {across} {across}\" \
             shape-rendering=\"crispEdges\"><path fill=\"#{paper}\" d=\"M0 \
             0h{across}v{across}H0z\"/>\
             <path fill=\"#{ink}\" d=\"{path}\"/></svg>"
        )
    }

    /// Draws whole pixels per module, which scanners read best; the remainder becomes margin.
    pub(crate) fn png(&self, drawing: &Drawing) -> Option<Vec<u8>> {
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
