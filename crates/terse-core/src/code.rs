//! Codes and aliases: the `x7Kq` in `https://go.example/x7Kq`.

use std::fmt;

use crate::validation::{ValidationError, ValidationErrorKind};

/// Path segments reserved for terse's own pages. No alias and no generated code may equal one of
/// them, in upper or lower case; admins and imports cannot choose one either. None contains a
/// digit.
const RESERVED: &[&str] = &[
    "about",
    "abuse",
    "account",
    "accounts",
    "admin",
    "administrator",
    "api",
    "apple-touch-icon",
    "app",
    "apps",
    "assets",
    "auth",
    "blocked",
    "blog",
    "branding",
    "bulk",
    "callback",
    "cdn",
    "config",
    "contact",
    "css",
    "dashboard",
    "debug",
    "doc",
    "docs",
    "domains",
    "download",
    "error",
    "errors",
    "expired",
    "export",
    "favicon",
    "fonts",
    "forgot",
    "graphql",
    "health",
    "healthz",
    "help",
    "home",
    "image",
    "images",
    "img",
    "imprint",
    "import",
    "index",
    "internal",
    "invite",
    "join",
    "keys",
    "legal",
    "links",
    "live",
    "livez",
    "login",
    "logout",
    "logs",
    "manage",
    "manifest",
    "me",
    "metrics",
    "moderation",
    "new",
    "not-found",
    "oauth",
    "oidc",
    "openapi",
    "password",
    "ping",
    "preview",
    "pricing",
    "privacy",
    "profile",
    "public",
    "qr",
    "r",
    "readyz",
    "register",
    "report",
    "reports",
    "reset",
    "rest",
    "robots",
    "root",
    "search",
    "security",
    "session",
    "sessions",
    "settings",
    "setup",
    "shorten",
    "sign-in",
    "sign-out",
    "sign-up",
    "signin",
    "signout",
    "signup",
    "sitemap",
    "sso",
    "static",
    "stats",
    "status",
    "support",
    "system",
    "tags",
    "team",
    "terms",
    "terse",
    "token",
    "url",
    "urls",
    "user",
    "users",
    "verify",
    "warning",
    "webhook",
    "webhooks",
    "well-known",
    "wp-admin",
    "www",
    "yourls-api",
];

/// Whether a word is reserved for terse's own pages, in any case.
pub fn is_reserved(word: &str) -> bool {
    // Reserved words contain no digit and most codes do, so this check is usually enough.
    if word.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let first = word.bytes().next().unwrap_or_default().to_ascii_lowercase();
    RESERVED.iter().any(|reserved| {
        reserved.as_bytes().first() == Some(&first) && reserved.eq_ignore_ascii_case(word)
    })
}

/// How short an alias may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AliasMinimum {
    /// The minimum for owners and anonymous callers: short aliases are few.
    Usual,
    /// One character: for admins, and for links that come from another shortener.
    One,
}

impl AliasMinimum {
    /// The number of characters.
    pub fn characters(self) -> usize {
        match self {
            Self::Usual => Code::MIN_ALIAS,
            Self::One => Code::MIN,
        }
    }
}

/// The short part of a short link. A `Code` always matches `[A-Za-z0-9_-]{1,64}`.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Code(Box<str>);

impl Code {
    /// The maximum length.
    pub const MAX: usize = 64;
    /// The minimum length.
    pub const MIN: usize = 1;
    /// The minimum length of an alias that is not an admin's.
    pub const MIN_ALIAS: usize = 3;

    /// Parses a code from a path. `None` if no link can have this code.
    pub fn parse(text: &str) -> Option<Self> {
        Self::has_code_form(text.as_bytes()).then(|| Self(text.into()))
    }

    /// Whether bytes have the form of a code, without allocating.
    pub fn has_code_form(bytes: &[u8]) -> bool {
        (Self::MIN..=Self::MAX).contains(&bytes.len()) && bytes.iter().all(|&b| is_code_byte(b))
    }

    /// Parses a custom alias: a code that is not a reserved word and not too short.
    pub fn parse_alias(
        text: &str,
        minimum: AliasMinimum,
        field: &'static str,
    ) -> Result<Self, ValidationError> {
        let refuse = |kind, detail: &'static str| Err(ValidationError::new(kind, field, detail));
        if !(minimum.characters()..=Self::MAX).contains(&text.len()) {
            return refuse(
                ValidationErrorKind::InvalidAlias,
                match minimum {
                    AliasMinimum::Usual if (Self::MIN..Self::MIN_ALIAS).contains(&text.len()) => {
                        "an alias must have 3 to 64 characters; only admins and imports may use \
                         shorter ones"
                    }
                    AliasMinimum::Usual => "an alias must have 3 to 64 characters",
                    AliasMinimum::One => "an alias must have 1 to 64 characters",
                },
            );
        }
        if !text.bytes().all(is_code_byte) {
            return refuse(
                ValidationErrorKind::InvalidAlias,
                "an alias may contain only A-Z, a-z, 0-9, - and _",
            );
        }
        if is_reserved(text) {
            return refuse(
                ValidationErrorKind::ReservedAlias,
                "this alias is reserved for pages of this server",
            );
        }
        Ok(Self(text.into()))
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The code in lower case: aliases with the same folded form are easily confused.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({})", self.0)
    }
}

/// By byte, whether a code may contain it. A table, because every redirect asks for every byte.
const CODE_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    // No code has a byte beyond ASCII.
    while byte < 128u8 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        byte += 1;
    }
    table
};

fn is_code_byte(byte: u8) -> bool {
    CODE_BYTES[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_refused_for_the_right_reason() {
        for (text, kind) in [
            ("", ValidationErrorKind::InvalidAlias),
            ("ab", ValidationErrorKind::InvalidAlias),
            ("a b c", ValidationErrorKind::InvalidAlias),
            ("a+b", ValidationErrorKind::InvalidAlias),
            ("日本語", ValidationErrorKind::InvalidAlias),
            ("api", ValidationErrorKind::ReservedAlias),
            ("HEALTHZ", ValidationErrorKind::ReservedAlias),
            ("lOgIn", ValidationErrorKind::ReservedAlias),
        ] {
            let error = Code::parse_alias(text, AliasMinimum::Usual, "alias").unwrap_err();
            assert_eq!(error.kind, kind, "{text}");
        }
        assert!(Code::parse_alias(&"a".repeat(65), AliasMinimum::One, "alias").is_err());
        for text in
            ["000", "1e5", "administer", "login-page", "null-ish", "my_link", &"a".repeat(64)]
        {
            assert!(Code::parse_alias(text, AliasMinimum::Usual, "alias").is_ok(), "{text}");
        }
    }

    #[test]
    fn short_aliases_are_for_admins_and_imports() {
        for text in ["a", "-", "7", "ab", "R2"] {
            let error = Code::parse_alias(text, AliasMinimum::Usual, "alias").unwrap_err();
            assert_eq!(error.kind, ValidationErrorKind::InvalidAlias, "{text}");
            assert!(error.detail.contains("only admins"), "{text}");
            assert!(Code::parse_alias(text, AliasMinimum::One, "alias").is_ok(), "{text}");
        }
        for (text, kind) in [
            ("", ValidationErrorKind::InvalidAlias),
            ("+", ValidationErrorKind::InvalidAlias),
            ("é", ValidationErrorKind::InvalidAlias),
            ("r", ValidationErrorKind::ReservedAlias),
            ("R", ValidationErrorKind::ReservedAlias),
            ("me", ValidationErrorKind::ReservedAlias),
            ("Qr", ValidationErrorKind::ReservedAlias),
        ] {
            let error = Code::parse_alias(text, AliasMinimum::One, "alias").unwrap_err();
            assert_eq!(error.kind, kind, "{text}");
        }
    }

    #[test]
    fn every_reserved_word_is_reserved() {
        assert!(RESERVED.iter().all(|word| is_reserved(word) && is_reserved(&word.to_uppercase())));
        assert!(!is_reserved("adm1n") && !is_reserved("administer"));
    }

    #[test]
    fn an_impossible_path_is_not_a_code() {
        for text in ["", "a+", "a/b", "ok1234%2F", "ok1234.", "é234", &"a".repeat(65)] {
            assert!(Code::parse(text).is_none(), "{text}");
        }
    }
}
