//! What somebody asks for when creating a link, and what of it is granted.

use std::time::Duration;

use crate::code::Code;
use crate::domain::{Domain, Hosts};
use crate::link::RedirectKind;
use crate::password::PasswordHash;
use crate::patch::{check_window, expiry_after, parse_max_clicks, parse_redirect};
use crate::rules::{ParsedRules, RawRules, Rules};
use crate::target::{Target, TargetRules};
use crate::text::{Notes, Tags, Title};
use crate::time::{Timestamp, parse_expiry, parse_start};
use crate::validation::{ValidationError, ValidationErrorKind};

/// A create request as it arrives, whichever door it came through.
#[derive(Clone, Debug, Default)]
pub struct CreateLink {
    /// The target; required.
    pub long_url: String,
    /// A chosen code.
    pub custom_alias: Option<String>,
    /// When it ends; a moment as text.
    pub expires_at: Option<String>,
    /// When it ends; seconds from now.
    pub ttl: Option<u64>,
    /// When it begins; a moment as text.
    pub valid_from: Option<String>,
    /// How many visits it is good for.
    pub max_clicks: Option<u64>,
    /// The redirect status.
    pub redirect: Option<u64>,
    /// A name for people.
    pub title: Option<String>,
    /// Words to find it by.
    pub tags: Option<Vec<String>>,
    /// What the owner wants to remember about it.
    pub notes: Option<String>,
    /// The hash of what a visitor must know.
    pub password: Option<PasswordHash>,
    /// Which visitors go elsewhere.
    pub rules: Option<RawRules>,
    /// The short domain; the primary one if absent.
    pub domain: Option<String>,
    /// Whether a visitor's query is passed on.
    pub forward_query: Option<bool>,
    /// Whether search engines may follow.
    pub crawlable: Option<bool>,
    /// Whether it is put away from the start.
    pub archived: Option<bool>,
    /// `false` asks for a new link even where an old one would do.
    pub reuse: Option<bool>,
}

/// A wish that passed every rule that can be checked without a store.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// Where it leads.
    pub target: Target,
    /// What was typed for it.
    pub typed: String,
    /// The chosen code, if any.
    pub alias: Option<Code>,
    /// The domain.
    pub domain: Domain,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// When it begins.
    pub valid_from: Option<Timestamp>,
    /// How many visits it is good for.
    pub max_clicks: Option<u64>,
    /// The redirect status.
    pub redirect: RedirectKind,
    /// A name for people.
    pub title: Option<Title>,
    /// Words to find it by.
    pub tags: Tags,
    /// What the owner wants to remember about it.
    pub notes: Option<Notes>,
    /// The hash of what a visitor must know.
    pub password: Option<PasswordHash>,
    /// Whether it is put away from the start, as links from elsewhere may be.
    pub archived: bool,
    /// Which visitors go elsewhere, and what was typed for that.
    pub rules: Option<ParsedRules>,
    /// Whether a visitor's query is passed on.
    pub forward_query: bool,
    /// Whether search engines may follow.
    pub crawlable: bool,
    /// Whether an existing link may be given back.
    pub reuse: bool,
}

impl CreateLink {
    /// Checks every field. `longest` bounds the life of the link, as for links without an owner.
    pub fn parse(
        self,
        rules: &TargetRules,
        hosts: &Hosts,
        longest: Option<Duration>,
        now: Timestamp,
    ) -> Result<NewLink, ValidationError> {
        let target = Target::parse(&self.long_url, rules)?;
        let alias = self
            .custom_alias
            .as_deref()
            .map(|text| Code::parse_alias(text, "custom_alias"))
            .transpose()?;
        let domain = match &self.domain {
            None => Domain::primary(),
            Some(host) => hosts.domain_of(host).ok_or_else(|| {
                ValidationError::new(
                    ValidationErrorKind::InvalidRequest,
                    "domain",
                    "not a short domain of this server",
                )
            })?,
        };
        let mut expires_at = match (&self.expires_at, self.ttl) {
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
        if let Some(longest) = longest {
            let end = expiry_after(longest.as_secs().max(1), now)?;
            expires_at = Some(expires_at.map_or(end, |at| at.min(end)));
        }
        let valid_from = self.valid_from.as_deref().map(parse_start).transpose()?;
        check_window(valid_from, expires_at)?;
        let title = self.title.as_deref().map(Title::parse).transpose()?.flatten();
        Ok(NewLink {
            target,
            typed: self.long_url,
            alias,
            domain,
            expires_at,
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
            forward_query: self.forward_query.unwrap_or(false),
            crawlable: self.crawlable.unwrap_or(false),
            reuse: self.reuse.unwrap_or(true),
        })
    }
}
