//! A request to create a link, before and after validation.

use std::time::Duration;

use crate::code::{AliasMinimum, Code};
use crate::domain::Domain;
use crate::human_duration::HumanDuration;
use crate::link::RedirectKind;
use crate::links::LinkPolicy;
use crate::password::PasswordHash;
use crate::patch::{check_window, expiry_after, parse_max_clicks, parse_redirect};
use crate::rules::{ParsedRules, RawRules, Rules};
use crate::social_preview::{RawPreview, SocialPreview};
use crate::target::Target;
use crate::text::{Notes, Tags, Title};
use crate::time::{Timestamp, parse_expiry, parse_start};
use crate::validation::{ValidationError, ValidationErrorKind};

/// A link to create, not yet checked.
#[derive(Clone, Debug, Default)]
pub struct CreateLink {
    /// The target; required.
    pub long_url: String,
    /// A custom alias.
    pub custom_alias: Option<String>,
    /// When it expires, as text.
    pub expires_at: Option<String>,
    /// When it expires, in seconds from now.
    pub ttl: Option<u64>,
    /// When it begins to work, as text.
    pub valid_from: Option<String>,
    /// How many visits it allows.
    pub max_clicks: Option<u64>,
    /// The redirect status.
    pub redirect: Option<u64>,
    /// A title.
    pub title: Option<String>,
    /// Tags.
    pub tags: Option<Vec<String>>,
    /// The owner's notes.
    pub notes: Option<String>,
    /// The hash of the password that visitors must enter.
    pub password: Option<PasswordHash>,
    /// Redirect rules.
    pub rules: Option<RawRules>,
    /// The preview that chats and social networks show.
    pub preview: Option<RawPreview>,
    /// The short domain; the primary one if absent.
    pub domain: Option<String>,
    /// Whether a visitor's query is passed on.
    pub forward_query: Option<bool>,
    /// Whether search engines may follow.
    pub crawlable: Option<bool>,
    /// Whether it is archived from the start.
    pub archived: Option<bool>,
    /// `false` creates a new link even if the owner has one for this target.
    pub reuse: Option<bool>,
    /// The clicks that another shortener has counted; only imports set it.
    pub imported_clicks: Option<u64>,
}

/// A link to create that passed every check that needs no store.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// The target.
    pub target: Target,
    /// The text that the target was parsed from.
    pub typed: String,
    /// The custom alias, if any.
    pub alias: Option<Code>,
    /// The domain.
    pub domain: Domain,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// How long it lives, where the request says that instead of a time.
    pub lifetime: Option<Duration>,
    /// When it begins to work.
    pub valid_from: Option<Timestamp>,
    /// How many visits it allows.
    pub max_clicks: Option<u64>,
    /// The redirect status.
    pub redirect: RedirectKind,
    /// A title.
    pub title: Option<Title>,
    /// Tags.
    pub tags: Tags,
    /// The owner's notes.
    pub notes: Option<Notes>,
    /// The hash of the password that visitors must enter.
    pub password: Option<PasswordHash>,
    /// Whether it is archived from the start, as imported links may be.
    pub archived: bool,
    /// Redirect rules, with the texts of their targets.
    pub rules: Option<ParsedRules>,
    /// The preview that chats and social networks show.
    pub preview: Option<SocialPreview>,
    /// Whether a visitor's query is passed on.
    pub forward_query: bool,
    /// Whether search engines may follow.
    pub crawlable: bool,
    /// Whether an existing link may be returned.
    pub reuse: bool,
    /// The clicks that another shortener has counted.
    pub imported_clicks: u64,
}

/// What a caller may ask for.
#[derive(Clone, Copy, Debug)]
pub struct CreateBounds {
    /// The longest lifetime, for anonymous links: a request for a later expiry is refused, and a
    /// request without an expiry gets this lifetime.
    pub longest: Option<Duration>,
    /// How short the alias may be.
    pub alias: AliasMinimum,
}

impl CreateBounds {
    /// The bounds of an import.
    pub const IMPORT: Self = Self { longest: None, alias: AliasMinimum::One };
}

impl CreateLink {
    /// Checks every field against the operator's settings and what the caller may ask for.
    pub fn parse(
        self,
        policy: &LinkPolicy,
        bounds: CreateBounds,
        now: Timestamp,
    ) -> Result<NewLink, ValidationError> {
        let rules = &policy.targets;
        let target = Target::parse(&self.long_url, rules)?;
        let alias = self
            .custom_alias
            .as_deref()
            .map(|text| Code::parse_alias(text, bounds.alias, "custom_alias"))
            .transpose()?;
        let domain = match &self.domain {
            None => Domain::primary(),
            Some(host) => policy.hosts.domain_of(host).ok_or_else(|| {
                ValidationError::new(
                    ValidationErrorKind::InvalidRequest,
                    "domain",
                    "not a short domain of this server",
                )
            })?,
        };
        let wanted_end = match (&self.expires_at, self.ttl) {
            (Some(_), Some(_)) => {
                return Err(ValidationError::new(
                    ValidationErrorKind::InvalidRequest,
                    "ttl",
                    "give either expires_at or ttl, not both",
                ));
            }
            (Some(text), None) => Some(parse_expiry(text, now)?),
            (None, Some(ttl)) => Some(expiry_after(ttl, now)?),
            (None, None) => None,
        };
        let expires_at = match bounds.longest {
            None => wanted_end,
            Some(longest) => {
                let end = expiry_after(longest.as_secs().max(1), now)?;
                if wanted_end.is_some_and(|wanted| wanted > end) {
                    return Err(ValidationError::new(
                        ValidationErrorKind::InvalidExpiry,
                        if self.ttl.is_some() { "ttl" } else { "expires_at" },
                        format!(
                            "a link that is created without a key lives at most {}; use a key for \
                             a longer life",
                            HumanDuration::of(longest)
                        ),
                    ));
                }
                wanted_end.or(Some(end))
            }
        };
        let valid_from = self.valid_from.as_deref().map(parse_start).transpose()?;
        check_window(valid_from, expires_at)?;
        let title = self.title.as_deref().map(Title::parse).transpose()?.flatten();
        let imported_clicks = self.imported_clicks.unwrap_or_default();
        // Stores hold signed numbers.
        if i64::try_from(imported_clicks).is_err() {
            return Err(ValidationError::new(
                ValidationErrorKind::InvalidRequest,
                "imported_clicks",
                "must be at most 9223372036854775807",
            ));
        }
        Ok(NewLink {
            target,
            typed: self.long_url,
            alias,
            domain,
            expires_at,
            lifetime: self.ttl.map(Duration::from_secs),
            valid_from,
            max_clicks: self.max_clicks.map(parse_max_clicks).transpose()?,
            redirect: self.redirect.map(parse_redirect).transpose()?.unwrap_or_default(),
            title,
            tags: Tags::parse(&self.tags.unwrap_or_default())?,
            notes: self.notes.as_deref().map(Notes::parse).transpose()?.flatten(),
            password: self.password,
            archived: self.archived.unwrap_or(false),
            rules: self
                .rules
                .map(|RawRules(sent)| Rules::parse(&sent, rules))
                .transpose()?
                .flatten(),
            preview: self
                .preview
                .map(|sent| SocialPreview::parse(&sent, rules))
                .transpose()?
                .flatten(),
            forward_query: self.forward_query.unwrap_or(false),
            crawlable: self.crawlable.unwrap_or(false),
            reuse: self.reuse.unwrap_or(true),
            imported_clicks,
        })
    }
}
