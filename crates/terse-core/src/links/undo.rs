//! Earlier versions of a link, and undoing changes.

use super::screening::TargetToScreen;
use super::{Caller, LinkError, Links};
use crate::link::{Link, LinkKey, ModerationSource, ModerationStatus, Revision};
use crate::patch::check_window;
use crate::rules::Rules;
use crate::screening::{self, ScreenInput};
use crate::store::{LinkVersion, MAX_REVISIONS};
use crate::target::Target;
use crate::time::Timestamp;
use crate::validation::{ValidationError, ValidationErrorKind};

impl Links {
    /// A link of the caller's, and its earlier versions, the latest first.
    pub async fn history(
        &self,
        caller: Caller,
        key: &LinkKey,
    ) -> Result<(Link, Vec<LinkVersion>), LinkError> {
        let link = self.get(caller, key).await?;
        if link.deleted_at.is_some() {
            return Err(LinkError::NotFound);
        }
        let history = self.store.history(key, MAX_REVISIONS).await?;
        Ok((link, history))
    }

    /// When something that owners see was last changed; `None` if nothing was since the link was
    /// created. Scans and moderators change `updated_at`, but not this.
    pub async fn last_change(&self, link: &Link) -> Result<Option<Timestamp>, LinkError> {
        if link.updated_at <= link.created_at {
            return Ok(None);
        }
        let latest = self.store.history(&link.key, 1).await?;
        let of_this_link = |version: &LinkVersion| version.link.created_at == link.created_at;
        Ok(latest.first().filter(|version| of_this_link(version)).map(|version| version.until))
    }

    /// Takes a link back to its version before the last change, or to an earlier revision. That is
    /// a change like any other: it obeys all rules and can itself be undone. The moderation status
    /// stays, except for what follows from the target. With `expected`, only if the link is still
    /// at that revision.
    pub async fn undo(
        &self,
        caller: Caller,
        key: &LinkKey,
        to: Option<Revision>,
        expected: Option<Revision>,
    ) -> Result<Link, LinkError> {
        let (seen, history) = self.history(caller, key).await?;
        let refuse = |detail: &'static str| {
            ValidationError::new(ValidationErrorKind::InvalidRequest, "revision", detail)
        };
        let past = match to {
            None => {
                history.into_iter().next().ok_or_else(|| refuse("there is nothing to undo"))?.link
            }
            Some(to) if to == seen.revision => seen.clone(),
            Some(to) => history
                .into_iter()
                .map(|past| past.link)
                .find(|past| past.revision == to)
                .ok_or_else(|| refuse("that revision of the link is not stored"))?,
        };
        self.prepare(past.targets()).await;
        // Without this, a concurrent change would be undone instead of the one that the caller saw.
        let expected = Some(expected.unwrap_or(seen.revision));
        let undone = self
            .change(caller, key, expected, |link, now| self.back_to(caller, &past, link, now))
            .await;
        undone.inspect(|link| self.revisit_if_unscreened(link))
    }

    /// The link with the settings of an earlier version.
    fn back_to(
        &self,
        caller: Caller,
        past: &Link,
        link: &Link,
        now: Timestamp,
    ) -> Result<Link, LinkError> {
        let mut new = Link {
            key: link.key.clone(),
            owner: link.owner,
            generated: link.generated,
            created_at: link.created_at,
            spent_clicks: link.spent_clicks,
            imported_clicks: link.imported_clicks,
            moderation: link.moderation,
            moderated_by: link.moderated_by,
            flags: link.flags.clone(),
            deleted_at: link.deleted_at,
            reusable: link.reusable,
            updated_at: link.updated_at,
            revision: link.revision,
            ..past.clone()
        };
        if new == *link {
            return Ok(new);
        }
        // The link would expire at once.
        if new.expires_at != link.expires_at && new.expires_at.is_some_and(|at| at <= now) {
            return Err(ValidationError::new(
                ValidationErrorKind::InvalidExpiry,
                "revision",
                "the expiry of that revision has passed",
            )
            .into());
        }
        check_window(new.valid_from, new.expires_at)?;
        if new.target != link.target || new.rules != link.rules {
            // The rules for targets may have changed since.
            Target::parse(past.target.as_str(), &self.rules.targets)?;
            if let Some(rules) = &past.rules {
                Rules::parse(&rules.to_json(), &self.rules.targets)?;
            }
            let fields = std::iter::once("long_url").chain(std::iter::repeat("rules"));
            let targets = new.targets().zip(fields);
            let targets = targets.map(|(target, field)| TargetToScreen {
                field,
                target,
                input: ScreenInput::Stored { flags: &past.flags, moderation: past.moderation },
            });
            let screened = self.screen(caller, link.owner, targets)?;
            // Reports since then are about this link.
            let (moderation, flags) = screening::still_reported(link, screened);
            new.flags = flags;
            // As for any new target: a block by a moderator is about the owner, and stays.
            if link.moderated_by == ModerationSource::Screen
                || link.moderation == ModerationStatus::Clear
            {
                (new.moderation, new.moderated_by) = (moderation, ModerationSource::Screen);
            }
        }
        new.reusable &= new.target == link.target && new.moderation != ModerationStatus::Blocked;
        new.updated_at = now.max(link.updated_at);
        new.revision.0 += 1;
        Ok(new)
    }
}
