//! Changes to an existing link.

use std::time::Duration;

use crate::time::{Timestamp, parse_expiry, parse_start};

use crate::link::{Link, ModerationSource, ModerationStatus, RedirectKind};
use crate::password::PasswordHash;
use crate::rules::{ParsedRules, RawRules, Rules};
use crate::screening::REPORTED;
use crate::secret::Secret;
use crate::social_preview::{RawPreview, SocialPreview};
use crate::target::{Target, TargetRules};
use crate::text::{Notes, Tags, Title};
use crate::validation::{ValidationError, ValidationErrorKind};

/// A change of a field that may be absent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum PatchField<T> {
    /// Stays as it is.
    #[default]
    Keep,
    /// Becomes absent.
    Clear,
    /// Gets a value.
    Set(T),
}

/// Changes to a link, not yet checked. The code, the owner and the domain never change.
#[derive(Clone, Debug, Default)]
pub struct LinkPatch {
    /// A new target.
    pub long_url: Option<String>,
    /// A new expiry, as text.
    pub expires_at: PatchField<String>,
    /// A new expiry, in seconds from now.
    pub ttl: Option<u64>,
    /// A new start, as text.
    pub valid_from: PatchField<String>,
    /// A new limit.
    pub max_clicks: PatchField<u64>,
    /// A new status.
    pub redirect: Option<u64>,
    /// A new title.
    pub title: PatchField<String>,
    /// New tags, replacing the old ones.
    pub tags: Option<Vec<String>>,
    /// New notes.
    pub notes: PatchField<String>,
    /// A new password, in clear text. The service hashes it.
    pub password: PatchField<Secret>,
    /// Whether it is archived.
    pub archived: Option<bool>,
    /// New rules, replacing the old ones.
    pub rules: PatchField<RawRules>,
    /// A new preview, replacing the old one.
    pub preview: PatchField<RawPreview>,
    /// Whether a visitor's query is passed on.
    pub forward_query: Option<bool>,
    /// Whether search engines may follow.
    pub crawlable: Option<bool>,
    /// The moderation status; only admins and moderators may set it.
    pub moderation: Option<ModerationStatus>,
}

impl LinkPatch {
    /// The changed link, or why the change is invalid. A patch that changes nothing returns the
    /// link as it is. `password` is the change of the password, hashed. Screening a new target is
    /// up to the caller.
    pub(crate) fn apply(
        &self,
        link: &Link,
        password: &PatchField<PasswordHash>,
        rules: &TargetRules,
        now: Timestamp,
    ) -> Result<Link, ValidationError> {
        let mut new = link.clone();
        if let Some(text) = &self.long_url {
            new.target = Target::parse(text, rules)?;
        }
        match (&self.expires_at, self.ttl) {
            (PatchField::Keep, None) => {}
            (PatchField::Keep, Some(ttl)) => new.expires_at = Some(expiry_after(ttl, now)?),
            (_, Some(_)) => {
                return Err(ValidationError::new(
                    ValidationErrorKind::InvalidRequest,
                    "ttl",
                    "give either expires_at or ttl, not both",
                ));
            }
            (PatchField::Clear, None) => new.expires_at = None,
            (PatchField::Set(text), None) => new.expires_at = Some(parse_expiry(text, now)?),
        }
        match &self.valid_from {
            PatchField::Keep => {}
            PatchField::Clear => new.valid_from = None,
            PatchField::Set(text) => new.valid_from = Some(parse_start(text)?),
        }
        match self.max_clicks {
            PatchField::Keep => {}
            PatchField::Clear => new.max_clicks = None,
            PatchField::Set(max) => new.max_clicks = Some(parse_max_clicks(max)?),
        }
        if let Some(status) = self.redirect {
            new.redirect = parse_redirect(status)?;
        }
        match &self.title {
            PatchField::Keep => {}
            PatchField::Clear => new.title = None,
            PatchField::Set(text) => new.title = Title::parse(text)?,
        }
        if let Some(tags) = &self.tags {
            new.tags = Tags::parse(tags)?;
        }
        match &self.notes {
            PatchField::Keep => {}
            PatchField::Clear => new.notes = None,
            PatchField::Set(text) => new.notes = Notes::parse(text)?,
        }
        match password {
            PatchField::Keep => {}
            PatchField::Clear => new.password = None,
            PatchField::Set(hash) => new.password = Some(hash.clone()),
        }
        if let Some(archived) = self.archived {
            // Archiving an archived link keeps its time.
            new.archived_at = archived.then(|| link.archived_at.unwrap_or(now));
        }
        match self.rules(rules)? {
            PatchField::Keep => {}
            PatchField::Clear => new.rules = None,
            PatchField::Set(drafted) => new.rules = Some(drafted.rules),
        }
        match &self.preview {
            PatchField::Keep => {}
            PatchField::Clear => new.preview = None,
            PatchField::Set(sent) => new.preview = SocialPreview::parse(sent, rules)?,
        }
        new.forward_query = self.forward_query.unwrap_or(new.forward_query);
        new.crawlable = self.crawlable.unwrap_or(new.crawlable);
        if let Some(moderation) = self.moderation {
            (new.moderation, new.moderated_by) = (moderation, ModerationSource::Moderator);
            // A moderator who clears the link has considered the reports.
            if moderation == ModerationStatus::Clear {
                new.flags = new.flags.without(REPORTED);
            }
        }
        check_window(new.valid_from, new.expires_at)?;
        // A link that leads elsewhere by now is not returned when its target is shortened again.
        new.reusable = link.reusable
            && new.target == link.target
            && new.moderation != ModerationStatus::Blocked;
        if new != *link {
            new.updated_at = now.max(link.updated_at);
            new.revision.0 += 1;
        }
        Ok(new)
    }

    /// The new rules, with the texts of their targets.
    pub(crate) fn rules(
        &self,
        targets: &TargetRules,
    ) -> Result<PatchField<ParsedRules>, ValidationError> {
        Ok(match &self.rules {
            PatchField::Keep => PatchField::Keep,
            PatchField::Clear => PatchField::Clear,
            PatchField::Set(RawRules(sent)) => {
                Rules::parse(sent, targets)?.map_or(PatchField::Clear, PatchField::Set)
            }
        })
    }
}

/// The longest life of a link, in seconds, so that the bound in the API's schema holds at any time.
pub const MAX_TTL: u64 = 250_000_000_000;

/// The end of a link that lives `ttl` seconds from now.
pub(crate) fn expiry_after(ttl: u64, now: Timestamp) -> Result<Timestamp, ValidationError> {
    let refuse = |detail: &'static str| {
        ValidationError::new(ValidationErrorKind::InvalidExpiry, "ttl", detail)
    };
    if ttl == 0 {
        return Err(refuse("a link must be valid for at least one second"));
    }
    let end = now.checked_add(Duration::from_secs(ttl)).filter(|_| ttl <= MAX_TTL);
    end.ok_or_else(|| refuse("too far in the future"))
}

pub(crate) fn parse_max_clicks(max: u64) -> Result<u64, ValidationError> {
    if max == 0 || i64::try_from(max).is_err() {
        return Err(ValidationError::new(
            ValidationErrorKind::InvalidRequest,
            "max_clicks",
            "a whole number from 1 to 9223372036854775807",
        ));
    }
    Ok(max)
}

pub(crate) fn parse_redirect(status: u64) -> Result<RedirectKind, ValidationError> {
    RedirectKind::from_status(status).ok_or_else(|| {
        ValidationError::new(
            ValidationErrorKind::InvalidRequest,
            "redirect",
            "one of 301, 302, 307 and 308",
        )
    })
}

pub(crate) fn check_window(
    from: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<(), ValidationError> {
    match (from, until) {
        (Some(from), Some(until)) if from >= until => Err(ValidationError::new(
            ValidationErrorKind::InvalidRequest,
            "valid_from",
            "a link must become valid before it expires",
        )),
        _ => Ok(()),
    }
}
