//! Who runs a server: the name, logo and contacts that its public pages show.

use std::fmt;
use std::str::FromStr;

use url::Url;

use crate::branding::{AccentColour, FooterLink};

/// The longest contact or URL of an operator, in bytes.
pub const MAX_CONTACT: usize = 512;
/// The largest logo in bytes.
const MAX_LOGO: usize = 256 * 1024;
/// The greatest width and height of a PNG that terse draws into QR codes, in pixels.
const MAX_LOGO_SIDE: u32 = 512;

/// Who runs the server. Pages leave out what is not set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Operator {
    /// The person or organisation.
    pub name: Option<OperatorName>,
    /// Shown in the header of every page, in place of the name.
    pub logo: Option<Logo>,
    /// The legal notice.
    pub imprint: Option<PageUrl>,
    /// Where to report abusive links.
    pub abuse_contact: Option<Contact>,
    /// Where to report security problems of the server.
    pub security_contact: Option<Contact>,
    /// In place of the usual accent colour.
    pub accent: Option<AccentColour>,
    /// Further links in the footer of pages.
    pub links: Vec<FooterLink>,
}

/// The name of an operator: 1 to [`OperatorName::MAX`] characters on one line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OperatorName(Box<str>);

impl OperatorName {
    /// The longest name, in characters.
    pub const MAX: usize = 64;
}

impl FromStr for OperatorName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if !(1..=Self::MAX).contains(&text.chars().count()) || text.chars().any(char::is_control) {
            return Err("must have 1 to 64 characters on one line");
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An absolute http or https URL that pages may link to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PageUrl(Box<str>);

impl FromStr for PageUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str =
            "must be an http:// or https:// URL such as https://example.com/imprint";
        let url = Url::parse(text.trim()).map_err(|_| WRONG)?;
        let plain = url.username().is_empty() && url.password().is_none();
        if !matches!(url.scheme(), "http" | "https") || url.as_str().len() > MAX_CONTACT || !plain {
            return Err(WRONG);
        }
        Ok(Self(url.as_str().into()))
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How visitors reach the operator: an email address, or a web page with a form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Contact {
    /// An email address.
    Email(Box<str>),
    /// A web page.
    Page(PageUrl),
}

impl Contact {
    /// The target of a hyperlink to this contact.
    pub fn href(&self) -> String {
        match self {
            Self::Email(address) => format!("mailto:{address}"),
            Self::Page(url) => url.to_string(),
        }
    }
}

impl FromStr for Contact {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str =
            "must be an email address such as abuse@example.com, or an http:// or https:// URL";
        let text = text.trim();
        if text.starts_with("http://") || text.starts_with("https://") {
            return text.parse().map(Self::Page).map_err(|_| WRONG);
        }
        let address = text.strip_prefix("mailto:").unwrap_or(text);
        // Characters that need no escaping in a `mailto:` URL.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+~".contains(&byte);
        let is_address = address.split_once('@').is_some_and(|(local, host)| {
            !local.is_empty()
                && local.bytes().all(is_plain)
                && host.contains('.')
                && host.split('.').all(|label| {
                    !label.is_empty()
                        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                })
        });
        if !is_address || address.len() > MAX_CONTACT {
            return Err(WRONG);
        }
        Ok(Self::Email(address.into()))
    }
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Email(address) => f.write_str(address),
            Self::Page(url) => url.fmt(f),
        }
    }
}

/// A picture for the header of pages.
#[derive(Clone, Eq, PartialEq)]
pub struct Logo {
    format: LogoFormat,
    bytes: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LogoFormat {
    Svg,
    Png,
    Jpeg,
    WebP,
}

impl Logo {
    /// Recognises the format by the content.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, &'static str> {
        const WRONG: &str = "must be an SVG, PNG, JPEG or WebP picture";
        if bytes.len() > MAX_LOGO {
            return Err("must have at most 256 KiB");
        }
        let format = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            LogoFormat::Png
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            LogoFormat::Jpeg
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            LogoFormat::WebP
        } else {
            let text = std::str::from_utf8(&bytes).map_err(|_| WRONG)?;
            let text = text.trim_start_matches('\u{feff}').trim_start();
            let is_svg = text.starts_with("<svg")
                || ((text.starts_with("<?xml") || text.starts_with("<!--"))
                    && text.contains("<svg"));
            if !is_svg {
                return Err(WRONG);
            }
            LogoFormat::Svg
        };
        Ok(Self { format, bytes: bytes.into() })
    }

    /// The `Content-Type`.
    pub fn media_type(&self) -> &'static str {
        match self.format {
            LogoFormat::Svg => "image/svg+xml",
            LogoFormat::Png => "image/png",
            LogoFormat::Jpeg => "image/jpeg",
            LogoFormat::WebP => "image/webp",
        }
    }

    /// The width and height of a PNG, in pixels. `None` for other formats and damaged headers.
    pub fn png_size(&self) -> Option<(u32, u32)> {
        let number =
            |at: usize| self.bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let is_header = self.bytes.get(12..16) == Some(b"IHDR");
        if self.format != LogoFormat::Png || !is_header {
            return None;
        }
        number(16).zip(number(20))
    }

    /// Whether terse draws it into QR codes that are PNGs: a PNG of at most 512 pixels in
    /// width and height.
    pub fn fits_png(&self) -> bool {
        let fits = |side: u32| (1..=MAX_LOGO_SIDE).contains(&side);
        self.png_size().is_some_and(|(width, height)| fits(width) && fits(height))
    }

    /// The file's content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Logo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} octets", self.format, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_an_email_address_or_a_page() {
        for (text, href) in [
            ("abuse@example.com", "mailto:abuse@example.com"),
            (" mailto:a.b+c@mail.example.com ", "mailto:a.b+c@mail.example.com"),
            ("https://example.com/abuse?x=1", "https://example.com/abuse?x=1"),
        ] {
            assert_eq!(text.parse::<Contact>().unwrap().href(), href);
        }
        for text in [
            "",
            "abuse",
            "@example.com",
            "a@b",
            "a@b@example.com",
            "a b@example.com",
            "a?subject=x@example.com",
            "a@example..com",
            "javascript:alert(1)",
            "https://",
            "https://user:secret@example.com/",
            "ftp://example.com/",
        ] {
            assert!(text.parse::<Contact>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(" Example Ltd. ".parse::<OperatorName>().unwrap().to_string(), "Example Ltd.");
        for text in ["", "  ", "a\nb", &"x".repeat(65)] {
            assert!(text.parse::<OperatorName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_logo_is_recognised_by_its_content() {
        for (bytes, kind) in [
            (&b"<svg xmlns='http://www.w3.org/2000/svg'/>"[..], "image/svg+xml"),
            (b"<?xml version='1.0'?>\n<svg/>", "image/svg+xml"),
            (b"\x89PNG\r\n\x1a\n....", "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        ] {
            assert_eq!(Logo::parse(bytes.to_vec()).unwrap().media_type(), kind);
        }
        for bytes in [&b""[..], b"<html><svg/>", b"GIF89a", b"\xff\xfe"] {
            assert!(Logo::parse(bytes.to_vec()).is_err(), "{bytes:?}");
        }
        assert!(Logo::parse(vec![b' '; MAX_LOGO + 1]).is_err());
    }
}
