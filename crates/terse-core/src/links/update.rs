//! Changing a link.

use super::scan_audit::RecordedChange;
use super::screening::targets_of_change;
use super::{Caller, LinkError, Links};
use crate::events::kind_of;
use crate::link::{Link, LinkKey, ModerationSource, ModerationStatus, Revision};
use crate::link_codec::version_for;
use crate::password::PasswordHash;
use crate::patch::{LinkPatch, PatchField};
use crate::rules;
use crate::screening::{self, UNREACHABLE};
use crate::store::{StoreError, Updated};
use crate::target::Target;
use crate::text::Title;
use crate::time::Timestamp;

/// How often a change is tried again when concurrent changes win.
pub(super) const UPDATE_ATTEMPTS: u32 = 8;

impl Links {
    /// Changes a link. With `expected`, only if it is still at that revision.
    pub async fn patch(
        &self,
        caller: Caller,
        key: &LinkKey,
        patch: &LinkPatch,
        expected: Option<Revision>,
    ) -> Result<Link, LinkError> {
        if patch.moderation.is_some() && !caller.sees_all() {
            return Err(LinkError::NotFound);
        }
        let password = self.hashed(caller, key, expected, patch).await?;
        let target = patch
            .long_url
            .as_ref()
            .and_then(|typed| Target::parse(typed, &self.rules.targets).ok());
        let drafted = match patch.rules(&self.rules.targets) {
            Ok(PatchField::Set(drafted)) => Some(drafted.rules),
            _ => None,
        };
        self.prepare(target.iter().chain(drafted.iter().flat_map(rules::Rules::targets))).await;
        let changed = self.change(caller, key, expected, |link, now| {
            // Only moderation changes a deleted link, as its owner could restore it.
            if link.deleted_at.is_some() && patch.moderation.is_none() {
                return Err(LinkError::NotFound);
            }
            let mut new = patch.apply(link, &password, &self.rules.targets, now)?;
            if new.preview != link.preview {
                self.check_image(caller, link.owner, new.preview.as_ref())?;
            }
            if new.target != link.target || new.rules != link.rules {
                let drafted = match patch.rules(&self.rules.targets)? {
                    PatchField::Set(drafted) => drafted.inputs,
                    PatchField::Keep | PatchField::Clear => Vec::new(),
                };
                let targets = targets_of_change(patch, link, &new, &drafted);
                let screened = self.screen(caller, link.owner, targets)?;
                // Reports stay, or else an owner could clear them by changing the target and back.
                let (moderation, flags) = screening::still_reported(link, screened);
                new.flags = flags;
                // A moderator who cleared the link did not know the new target. A block is about
                // the owner, so it stays.
                if patch.moderation.is_none()
                    && (link.moderated_by == ModerationSource::Screen
                        || link.moderation == ModerationStatus::Clear)
                {
                    (new.moderation, new.moderated_by) = (moderation, ModerationSource::Screen);
                    new.reusable &= moderation != ModerationStatus::Blocked;
                }
            }
            Ok(new)
        });
        changed.await.inspect(|link| self.revisit_if_unscreened(link))
    }

    /// The change of the password, hashed. Hashing is slow on purpose, so a caller who may not
    /// change the link is refused first.
    async fn hashed(
        &self,
        caller: Caller,
        key: &LinkKey,
        expected: Option<Revision>,
        patch: &LinkPatch,
    ) -> Result<PatchField<PasswordHash>, LinkError> {
        let password = match &patch.password {
            PatchField::Keep => return Ok(PatchField::Keep),
            PatchField::Clear => return Ok(PatchField::Clear),
            PatchField::Set(password) => password,
        };
        if caller == Caller::Anonymous {
            return Err(LinkError::KeyNeeded);
        }
        let link = self.get(caller, key).await?;
        if link.deleted_at.is_some() && patch.moderation.is_none() {
            return Err(LinkError::NotFound);
        }
        if expected.is_some_and(|expected| expected != link.revision) {
            return Err(LinkError::Conflict);
        }
        let hash = self.passwords.hash(password.reveal().to_owned()).await?;
        Ok(PatchField::Set(PasswordHash::from_phc(hash)))
    }

    /// Gives a link the title of its target, unless it has a title, has another target by now, or
    /// is gone.
    pub async fn set_fetched_title(
        &self,
        key: &LinkKey,
        target: &Target,
        title: Title,
    ) -> Result<Option<Link>, LinkError> {
        let changed = self.change(Caller::OPERATOR, key, None, |link, now| {
            let mut new = link.clone();
            if link.title.is_none() && link.target == *target && link.deleted_at.is_none() {
                new.title = Some(title.clone());
                new.updated_at = now.max(link.updated_at);
                new.revision.0 += 1;
            }
            Ok(new)
        });
        match changed.await {
            Ok(link) => Ok(Some(link).filter(|link| link.title.as_ref() == Some(&title))),
            Err(LinkError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets or clears the flag that a link's target does not answer. Does nothing if the link has
    /// another target by now, or is gone.
    pub async fn set_unreachable(
        &self,
        key: &LinkKey,
        target: &Target,
        answers: bool,
    ) -> Result<(), LinkError> {
        let changed = self.change(Caller::OPERATOR, key, None, |link, now| {
            let mut new = link.clone();
            if link.flags.contains(UNREACHABLE) == answers
                && link.target == *target
                && link.deleted_at.is_none()
            {
                let flags = &link.flags;
                new.flags =
                    if answers { flags.without(UNREACHABLE) } else { flags.with(UNREACHABLE) };
                new.updated_at = now.max(link.updated_at);
                new.revision.0 += 1;
            }
            Ok(new)
        });
        match changed.await {
            Ok(_) | Err(LinkError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads, decides, writes if no other change came first, drops the cached route. `decide`
    /// returns the link unchanged to leave it alone.
    pub(super) async fn change(
        &self,
        caller: Caller,
        key: &LinkKey,
        expected: Option<Revision>,
        decide: impl Fn(&Link, Timestamp) -> Result<Link, LinkError>,
    ) -> Result<Link, LinkError> {
        if caller == Caller::Anonymous {
            return Err(LinkError::KeyNeeded);
        }
        let mut noted = RecordedChange::default();
        for _ in 0..UPDATE_ATTEMPTS {
            let version = self.screen.version();
            let old = self.get(caller, key).await?;
            if expected.is_some_and(|expected| expected != old.revision) {
                return Err(LinkError::Conflict);
            }
            let new = decide(&old, self.clock.now())?;
            if new == old {
                // An earlier attempt whose answer got lost may have made this change.
                self.cache.forget(key);
                self.store.confirm().await?;
                return Ok(old);
            }
            let codec = |link: &Link| version_for(link.preview.as_ref(), link.imported_clicks);
            if codec(&new) > codec(&old) && !self.codec_limit.allows(codec(&new)) {
                return Err(LinkError::EarlierNodes);
            }
            self.note_scan(&old, &new, &mut noted).await?;
            let event = self.event(kind_of(&old, &new), old.owner);
            match self.store.update(&new, old.revision, event.as_slice()).await {
                Ok(Updated::Done) => {
                    self.cache.changed(&new);
                    self.written(event);
                    return Ok(self.rescreen_if_lists_changed(version, new).await);
                }
                Ok(Updated::Missing) => return Err(LinkError::NotFound),
                Err(StoreError::Conflict) => {}
                // The write may have happened in spite of the error, so the cached route is
                // dropped.
                Err(error) => {
                    self.cache.forget(key);
                    return Err(error.into());
                }
            }
        }
        Err(LinkError::Conflict)
    }
}
