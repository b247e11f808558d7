//! Colours and their contrast, as WCAG defines it.

use std::fmt;
use std::str::FromStr;

/// A colour: red, green and blue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Colour([u8; 3]);

impl Colour {
    /// From its three parts.
    pub const fn new(red: u8, green: u8, blue: u8) -> Self {
        Self([red, green, blue])
    }

    /// Red, green and blue.
    pub fn parts(self) -> [u8; 3] {
        self.0
    }

    /// The relative luminance: 0 is black, 1 is white.
    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// The contrast with another colour: from 1 to 21.
    pub fn contrast(self, other: Self) -> f64 {
        let (mine, others) = (self.luminance(), other.luminance());
        (mine.max(others) + 0.05) / (mine.min(others) + 0.05)
    }

    /// Whether it is darker than another colour.
    pub fn is_darker_than(self, other: Self) -> bool {
        self.luminance() < other.luminance()
    }

    /// This colour with a share of another one, in hundredths.
    #[must_use]
    pub fn mixed(self, other: Self, hundredths: u8) -> Self {
        let share = u16::from(hundredths.min(100));
        let mix = |mine: u8, others: u8| {
            let sum = u16::from(mine) * (100 - share) + u16::from(others) * share;
            u8::try_from(sum / 100).unwrap_or(u8::MAX)
        };
        let ([a, b, c], [x, y, z]) = (self.0, other.0);
        Self([mix(a, x), mix(b, y), mix(c, z)])
    }
}

impl FromStr for Colour {
    type Err = &'static str;

    /// Reads `#c8401a`, `c8401a`, `#fa0` or `fa0`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "must be a colour of six hexadecimal digits, such as #c8401a";
        let text = text.trim();
        let digits = text.strip_prefix('#').unwrap_or(text).as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
        let pair = |a: u8, b: u8| Some(digit(a)? * 16 + digit(b)?);
        let parts = match *digits {
            [a, b, c, d, e, f] => (pair(a, b), pair(c, d), pair(e, f)),
            [a, b, c] => (pair(a, a), pair(b, b), pair(c, c)),
            _ => return Err(WRONG),
        };
        match parts {
            (Some(red), Some(green), Some(blue)) => Ok(Self([red, green, blue])),
            _ => Err(WRONG),
        }
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: Colour = Colour::new(0, 0, 0);
    const WHITE: Colour = Colour::new(255, 255, 255);

    #[test]
    fn colours_are_read_and_written() {
        for (text, want) in [
            ("#c8401a", "#c8401a"),
            (" C8401A ", "#c8401a"),
            ("#fa0", "#ffaa00"),
            ("000", "#000000"),
        ] {
            assert_eq!(text.parse::<Colour>().unwrap().to_string(), want);
        }
        for text in ["", "#", "red", "#12345", "#1234567", "#gggggg", "#c8401a;", "é00"] {
            assert!(text.parse::<Colour>().is_err(), "{text}");
        }
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        assert!((BLACK.contrast(WHITE) - 21.0).abs() < 1e-9);
        assert!((WHITE.contrast(WHITE) - 1.0).abs() < 1e-9);
        // #767676 is the lightest grey that may be text on white.
        let grey: Colour = "#767676".parse().unwrap();
        assert!(grey.contrast(WHITE) >= 4.5 && grey.contrast(WHITE) < 4.6);
        assert!(BLACK.is_darker_than(grey) && !WHITE.is_darker_than(grey));
        assert_eq!(BLACK.mixed(WHITE, 50).to_string(), "#7f7f7f");
    }
}
