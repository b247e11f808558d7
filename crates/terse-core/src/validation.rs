//! Validation errors: the field, a message, and a stable code for programs.

use std::borrow::Cow;

/// An invalid input. Nothing was changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field}: {detail}")]
pub struct ValidationError {
    /// The stable code.
    pub kind: ValidationErrorKind,
    /// The name of the field in the API; nested fields with their path: `rules[2].to`.
    pub field: Cow<'static, str>,
    /// A message for the user. Contains no unsafe part of the input.
    pub detail: Cow<'static, str>,
}

impl ValidationError {
    /// An error about `field`.
    pub fn new(
        kind: ValidationErrorKind,
        field: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, field: field.into(), detail: detail.into() }
    }

    /// The same error with another field name.
    pub fn on(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), ..self }
    }
}

/// The stable kinds of validation errors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ValidationErrorKind {
    /// A field is missing, unknown, of the wrong type or out of its range.
    InvalidRequest,
    /// Not an absolute http(s) URL.
    InvalidUrl,
    /// Another scheme than http and https.
    SchemeNotAllowed,
    /// A URL on a short domain of this server.
    SelfReference,
    /// A private, loopback or otherwise unreachable address or name.
    DestinationNotPublic,
    /// On a blocklist.
    BlockedDestination,
    /// Not a well-formed alias.
    InvalidAlias,
    /// A reserved word.
    ReservedAlias,
    /// Taken by another link.
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
