//! A link to import, as the API and the rows of files spell it.

use serde::Deserialize;

use crate::create_link::CreateLink;
use crate::rules::RawRules;
use crate::social_preview::RawPreview;
use crate::time::{Timestamp, TimestampError};
use crate::validation::{ValidationError, ValidationErrorKind};

/// A link to import: as for a new one, with its code and creation time. Nothing is checked yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportLink {
    #[serde(alias = "longUrl")]
    long_url: String,
    #[serde(alias = "shortCode")]
    short_code: Option<String>,
    #[serde(alias = "createdAt")]
    created_at: Option<String>,
    #[serde(alias = "expiresAt")]
    expires_at: Option<String>,
    ttl: Option<u64>,
    #[serde(alias = "validFrom")]
    valid_from: Option<String>,
    #[serde(alias = "maxClicks")]
    max_clicks: Option<u64>,
    redirect: Option<u64>,
    title: Option<String>,
    tags: Option<Vec<String>>,
    notes: Option<String>,
    archived: Option<bool>,
    rules: Option<RawRules>,
    preview: Option<RawPreview>,
    domain: Option<String>,
    #[serde(alias = "forwardQuery")]
    forward_query: Option<bool>,
    crawlable: Option<bool>,
    reuse: Option<bool>,
    #[serde(alias = "importedClicks")]
    imported_clicks: Option<u64>,
}

impl ImportLink {
    /// What two rows for one link have in common: the code, where look-alikes exclude each other,
    /// or else the target.
    pub fn claim(&self) -> String {
        match &self.short_code {
            Some(code) => code.to_ascii_lowercase(),
            None => self.long_url.clone(),
        }
    }

    /// The requested code.
    pub fn short_code(&self) -> Option<&str> {
        self.short_code.as_deref()
    }

    /// The target as written.
    pub fn long_url(&self) -> &str {
        &self.long_url
    }

    /// When the link was created, if the row says so.
    pub fn created_at(&self) -> Result<Option<Timestamp>, ValidationError> {
        let parse = |text: &String| {
            text.parse().map_err(|error: TimestampError| {
                let kind = ValidationErrorKind::InvalidRequest;
                ValidationError::new(kind, "created_at", error.to_string())
            })
        };
        self.created_at.as_ref().map(parse).transpose()
    }

    /// The link to create.
    pub fn into_link(self) -> CreateLink {
        CreateLink {
            long_url: self.long_url,
            custom_alias: self.short_code,
            expires_at: self.expires_at,
            ttl: self.ttl,
            valid_from: self.valid_from,
            max_clicks: self.max_clicks,
            redirect: self.redirect,
            title: self.title,
            tags: self.tags,
            notes: self.notes,
            // Not imported: files should not contain passwords.
            password: None,
            rules: self.rules,
            preview: self.preview,
            domain: self.domain,
            forward_query: self.forward_query,
            crawlable: self.crawlable,
            archived: self.archived,
            reuse: self.reuse,
            imported_clicks: self.imported_clicks,
        }
    }
}
