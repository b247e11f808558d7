//! Creating a link.

use super::screening::targets_of_new;
use super::{Caller, LinkError, Links};
use crate::code::{AliasMinimum, Code};
use crate::codes::{CodeRequest, CodeSourceError};
use crate::create_link::{CreateBounds, CreateLink, NewLink};
use crate::domain::Domain;
use crate::insert::{IdempotencyKey, Insert, Inserted, ReuseKey};
use crate::link::{Link, LinkKey, ModerationSource, ModerationStatus, OwnerId, Revision};
use crate::link_codec::version_for;
use crate::outbox::OutboxEvent;
use crate::registry::EventKind;
use crate::screening::LinkFlags;
use crate::store::{MAX_REVISIONS, StoreError};
use crate::time::Timestamp;
use crate::validation::{ValidationError, ValidationErrorKind};

/// How many generated codes may be in use already before the service gives up.
const CODE_ATTEMPTS: u32 = 32;

/// The revision of a new link.
const FIRST_REVISION: Revision = Revision(1);

/// The result of a create request.
#[derive(Clone, Debug)]
pub struct Created {
    /// The link.
    pub link: Link,
    /// Whether this request created it, or an earlier attempt of the same request; otherwise it
    /// existed before.
    pub new: bool,
    /// Whether this repeats the answer to an earlier attempt.
    pub replayed: bool,
}

/// A new link that passed the screening.
pub(super) struct ScreenedLink {
    pub(super) new: NewLink,
    owner: OwnerId,
    pub(super) created_at: Timestamp,
    /// The version of the lists that it was compared with.
    version: u64,
    moderation: ModerationStatus,
    flags: LinkFlags,
    event: Option<OutboxEvent>,
}

impl Created {
    /// Whether the link was created just now.
    pub fn is_fresh(&self) -> bool {
        self.new && !self.replayed
    }
}

impl Links {
    /// Creates a link, or returns the caller's own with the same target and options. `Ok` means
    /// durable and visible everywhere. Nothing is limited here: adapters use
    /// [`LinkCreation`](super::LinkCreation).
    pub async fn create(
        &self,
        caller: Caller,
        command: CreateLink,
        request: Option<IdempotencyKey>,
    ) -> Result<Created, LinkError> {
        let bounds = self.bounds(caller)?;
        let now = self.clock.now();
        let new = command.parse(&self.rules, bounds, now)?;
        self.insert(caller, new, request, now).await
    }

    /// Checks an alias that a caller would like: its form, the words that this server does not
    /// allow, and whether a link has it now. A create can still find it taken.
    pub async fn check_alias(
        &self,
        caller: Caller,
        domain: &Domain,
        alias: &str,
    ) -> Result<(), LinkError> {
        let code = Code::parse_alias(alias, self.bounds(caller)?.alias, "custom_alias")?;
        self.rules.unwanted_aliases.check(&code, "custom_alias")?;
        let key = LinkKey { domain: domain.clone(), code };
        match self.store.get(&key).await? {
            None => Ok(()),
            Some(_) => Err(alias_taken().into()),
        }
    }

    /// What a caller may ask for.
    fn bounds(&self, caller: Caller) -> Result<CreateBounds, LinkError> {
        let longest = match caller {
            Caller::Anonymous if !self.rules.anonymous_create => return Err(LinkError::KeyNeeded),
            Caller::Anonymous => Some(self.rules.anonymous_ttl),
            Caller::Owner(_) | Caller::Admin(_) => None,
        };
        let alias = match caller {
            Caller::Anonymous | Caller::Owner(_) => AliasMinimum::Usual,
            Caller::Admin(_) => AliasMinimum::One,
        };
        Ok(CreateBounds { longest, alias })
    }

    /// Refuses a new link with an alias that the operator does not want. A link that exists already
    /// is returned to its owner, or taken, as any other.
    pub(super) async fn check_wanted(&self, new: &NewLink) -> Result<(), LinkError> {
        let Some(alias) = &new.alias else { return Ok(()) };
        let Err(unwanted) = self.rules.unwanted_aliases.check(alias, "custom_alias") else {
            return Ok(());
        };
        let key = LinkKey { domain: new.domain.clone(), code: alias.clone() };
        match self.store.get(&key).await? {
            Some(_) => Ok(()),
            None => Err(unwanted.into()),
        }
    }

    pub(super) async fn insert(
        &self,
        caller: Caller,
        new: NewLink,
        request: Option<IdempotencyKey>,
        created_at: Timestamp,
    ) -> Result<Created, LinkError> {
        let draft = self.screen_new(caller, new, created_at).await?;
        for attempt in 0..CODE_ATTEMPTS {
            let insert = self.insert_of(&draft, attempt, request.clone()).await?;
            let link = insert.link.clone();
            let outcome = self.store.insert(insert).await;
            if let Some(done) = self.finish_insert(&draft, link, outcome).await {
                return done;
            }
        }
        Err(LinkError::NoCode(CodeSourceError::Exhausted))
    }

    /// Screens a new link, with everything else that comes before its insert.
    pub(super) async fn screen_new(
        &self,
        caller: Caller,
        new: NewLink,
        created_at: Timestamp,
    ) -> Result<ScreenedLink, LinkError> {
        let owner = caller.owner();
        if !self.codec_limit.allows(version_for(new.preview.as_ref(), new.imported_clicks)) {
            return Err(LinkError::EarlierNodes);
        }
        self.check_wanted(&new).await?;
        self.prepare(targets_of_new(&new).map(|asked| asked.target)).await;
        let version = self.screen.version();
        let (moderation, flags) = self.screen(caller, owner, targets_of_new(&new))?;
        self.check_image(caller, owner, new.preview.as_ref())?;
        let event = self.event(EventKind::LinkCreated, owner);
        Ok(ScreenedLink { new, owner, created_at, version, moderation, flags, event })
    }

    /// The insert of a screened link, with its alias or the next code.
    pub(super) async fn insert_of(
        &self,
        draft: &ScreenedLink,
        attempt: u32,
        request: Option<IdempotencyKey>,
    ) -> Result<Insert, LinkError> {
        let ScreenedLink { new, owner, created_at, moderation, flags, .. } = draft;
        let code = match &new.alias {
            Some(alias) => alias.clone(),
            None => {
                let wanted = CodeRequest { owner: *owner, target: &new.target, attempt };
                self.codes.next(wanted).await.map_err(|error| match error {
                    CodeSourceError::Store(error) => error.into(),
                    error => LinkError::NoCode(error),
                })?
            }
        };
        let link = stored_form(new, code, *owner, *created_at, *moderation, flags.clone());
        let reuse = reuse_key(new, &link);
        let events = draft.event.into_iter().collect();
        Ok(Insert { events, ..Insert::reusing(link, reuse, request) })
    }

    /// Ends the creation of a link with what the store answered. `None` if another link has the
    /// generated code.
    pub(super) async fn finish_insert(
        &self,
        draft: &ScreenedLink,
        link: Link,
        outcome: Result<Inserted, StoreError>,
    ) -> Option<Result<Created, LinkError>> {
        let new = &draft.new;
        Some(match outcome {
            Ok(Inserted::Created) => {
                self.cache.changed(&link);
                self.events.created(&link);
                self.written(draft.event);
                let first = link.revision;
                let link = self.rescreen_if_lists_changed(draft.version, link).await;
                self.revisit_if_unscreened(&link);
                // A later scan has its own record.
                if link.revision == first {
                    self.note_created(&link).await;
                }
                Ok(Created { link, new: true, replayed: false })
            }
            // An earlier attempt may have been written although its answer got lost. The cache may
            // hold the link as missing or in its old form, so the service drops it.
            Ok(Inserted::Existing(link)) => {
                self.cache.forget(&link.key);
                Ok(Created { link: *link, new: false, replayed: false })
            }
            Ok(Inserted::Replayed { link: Some(stored), created }) => {
                self.cache.forget(&stored.key);
                let first = match created {
                    true => self.as_created(*stored).await,
                    false => self.as_reused(*stored, reuse_key(new, &link)).await,
                };
                first.map(|first| Created { link: first, new: created, replayed: true })
            }
            Ok(Inserted::Replayed { link: None, .. }) => Err(LinkError::NotFound),
            Ok(Inserted::RequestMismatch) => Err(LinkError::RequestMismatch),
            Err(StoreError::CodeTaken) if new.alias.is_some() => Err(alias_taken().into()),
            Err(StoreError::CodeTaken) => return None,
            Err(error) => {
                self.cache.forget(&link.key);
                Err(error.into())
            }
        })
    }

    /// Repeats the first answer to a request, if it was answered before. Nothing about the request
    /// is checked again: its target may be blocked by now, or its expiry over.
    pub(super) async fn replay(
        &self,
        request: &IdempotencyKey,
    ) -> Result<Option<Created>, LinkError> {
        match self.store.answered(request).await? {
            Some(Inserted::Replayed { link: Some(link), created: new }) => {
                let link = if new { self.as_created(*link).await? } else { *link };
                Ok(Some(Created { link, new, replayed: true }))
            }
            Some(Inserted::Replayed { link: None, .. }) => Err(LinkError::NotFound),
            Some(Inserted::RequestMismatch) => Err(LinkError::RequestMismatch),
            Some(Inserted::Created | Inserted::Existing(_)) | None => Ok(None),
        }
    }

    /// A link as the answer to its creation showed it, from its earlier versions. What its owner
    /// does not see there stays as it is.
    async fn as_created(&self, link: Link) -> Result<Link, LinkError> {
        if link.revision == FIRST_REVISION {
            return Ok(link);
        }
        let earlier = self.store.history(&link.key, MAX_REVISIONS).await?;
        // After more changes than a store keeps, the link is shown as it is now.
        let first = earlier.into_iter().last().map(|version| version.link);
        let Some(first) = first.filter(|first| first.revision == FIRST_REVISION) else {
            return Ok(link);
        };
        let (updated_at, revision) = (first.created_at, FIRST_REVISION);
        Ok(Link { deleted_at: None, spent_clicks: 0, updated_at, revision, ..first })
    }

    /// A link as the answer to a request that reused it showed it: the newest of its versions that
    /// matches the request.
    async fn as_reused(&self, link: Link, reuse: Option<ReuseKey>) -> Result<Link, LinkError> {
        let Some(reuse) = reuse.filter(|reuse| !reuse.matches(&link)) else { return Ok(link) };
        let earlier = self.store.history(&link.key, MAX_REVISIONS).await?;
        let mut earlier = earlier.into_iter().map(|version| version.link);
        Ok(earlier.find(|version| reuse.matches(version)).unwrap_or(link))
    }
}

pub(super) fn alias_taken() -> ValidationError {
    ValidationError::new(ValidationErrorKind::AliasTaken, "custom_alias", "this alias is taken")
}

/// A new link as the store keeps it.
pub(super) fn stored_form(
    new: &NewLink,
    code: Code,
    owner: OwnerId,
    created_at: Timestamp,
    moderation: ModerationStatus,
    flags: LinkFlags,
) -> Link {
    Link {
        key: LinkKey { domain: new.domain.clone(), code },
        generated: new.alias.is_none(),
        owner,
        target: new.target.clone(),
        created_at,
        updated_at: created_at,
        expires_at: new.expires_at,
        valid_from: new.valid_from,
        max_clicks: new.max_clicks,
        spent_clicks: 0,
        imported_clicks: new.imported_clicks,
        redirect: new.redirect,
        title: new.title.clone(),
        tags: new.tags.clone(),
        notes: new.notes.clone(),
        password: new.password.clone(),
        archived_at: new.archived.then_some(created_at),
        rules: new.rules.as_ref().map(|drafted| drafted.rules.clone()),
        preview: new.preview.clone(),
        forward_query: new.forward_query,
        crawlable: new.crawlable,
        moderation,
        moderated_by: ModerationSource::Screen,
        flags,
        deleted_at: None,
        reusable: new.alias.is_none() && may_reuse(new, owner),
        revision: FIRST_REVISION,
    }
}

/// Anonymous callers share one owner, so a link of one is never returned to another.
fn may_reuse(new: &NewLink, owner: OwnerId) -> bool {
    new.reuse && owner != OwnerId::ANONYMOUS
}

/// Which link the store may return instead of this one.
pub(super) fn reuse_key(new: &NewLink, link: &Link) -> Option<ReuseKey> {
    may_reuse(new, link.owner).then(|| ReuseKey { wanted: link.clone(), lifetime: new.lifetime })
}
