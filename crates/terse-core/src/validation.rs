//! Why an input was refused: which field, what is wrong, in words for people and a stable word for
//! programs.

use std::borrow::Cow;

/// A refused input. Nothing was changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field}: {detail}")]
pub struct ValidationError {
    /// The stable word.
    pub kind: ValidationErrorKind,
    /// The field as it is called on the wire; one inside another with the way to it: `rules[2].to`.
    pub field: Cow<'static, str>,
    /// A sentence for people. Never contains more of the input than is safe to show.
    pub detail: Cow<'static, str>,
}

impl ValidationError {
    /// A refusal of `field`.
    pub fn new(
        kind: ValidationErrorKind,
        field: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, field: field.into(), detail: detail.into() }
    }

    /// The same, of what clients know under another name.
    pub fn on(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), ..self }
    }
}

/// The kinds of refusal that client programs may rely on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ValidationErrorKind {
    /// A field is missing, unknown, of the wrong type or out of its range.
    InvalidRequest,
    /// Not an absolute http(s) URL that could lead anywhere.
    InvalidUrl,
    /// Another scheme than http and https.
    SchemeNotAllowed,
    /// Points at one of our own short domains.
    SelfReference,
    /// A private, loopback or otherwise unreachable address or name.
    DestinationNotPublic,
    /// On a blocklist.
    BlockedDestination,
    /// Not shaped like an alias.
    InvalidAlias,
    /// A word that belongs to our own pages.
    ReservedAlias,
    /// Held by somebody else.
    AliasTaken,
    /// Not a date, or in the past.
    InvalidExpiry,
}

impl ValidationErrorKind {
    /// The stable `code` on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidUrl => "invalid_url",
            Self::SchemeNotAllowed => "scheme_not_allowed",
            Self::SelfReference => "self_reference",
            Self::DestinationNotPublic => "destination_not_public",
            Self::BlockedDestination => "blocked_destination",
            Self::InvalidAlias => "invalid_alias",
            Self::ReservedAlias => "reserved_alias",
            Self::AliasTaken => "alias_taken",
            Self::InvalidExpiry => "invalid_expiry",
        }
    }
}
