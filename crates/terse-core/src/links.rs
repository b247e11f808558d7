//! The acts an owner can do with links, each under all the rules.

mod undo;

use std::sync::Arc;
use std::time::Duration;

use crate::time::Timestamp;

use crate::clock::Clock;
use crate::code::Code;
use crate::codes::{CodeSource, CodeSourceError, Wanted};
use crate::create_link::{CreateLink, NewLink};
use crate::domain::{Domain, Hosts};
use crate::events::{LinkEvents, NoEvents, kind_of};
use crate::host::canonical_host;
use crate::link::{Link, LinkKey, ModerationSource, ModerationStatus, OwnerId, Revision, Status};
use crate::patch::{Patch, PatchField};
use crate::registry::{EventKind, Suspended};
use crate::rules::{self, TypedTarget};
use crate::screening::{
    self, Evidence, Flags, Judgement, REPORTED, Screening, UNREACHABLE, UNSCREENED,
};
use crate::store::{
    ChangeFeed, Insert, Inserted, LinkStore, ListQuery, Page, Request, Sort, StoreError, TagCount,
    Updated,
};
use crate::target::{Target, TargetRules};
use crate::text::{Tags, Title};
use crate::validation::{ValidationError, ValidationErrorKind};

/// How often a generated code may turn out to be taken before something must be wrong.
const CODE_ATTEMPTS: u32 = 32;
/// How often a change is tried again when others change the same link.
const UPDATE_ATTEMPTS: u32 = 8;

/// When erased links were deleted: whatever the grace time is, they are not restored.
const LONG_AGO: Timestamp = Timestamp::EPOCH;

/// About how many targets of one link others are asked before it is made; the rest are looked at
/// again later.
const PREPARED: usize = 4;

/// Who is asking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Caller {
    /// No key was shown.
    Anonymous,
    /// An owner.
    Owner(OwnerId),
    /// An admin, who sees everything. What they make is theirs.
    Admin(OwnerId),
}

impl Caller {
    /// Whoever runs this server.
    pub const OPERATOR: Self = Self::Admin(OwnerId::ADMIN);

    /// Whether everyone's links are shown, not only the caller's own.
    pub fn sees_all(self) -> bool {
        matches!(self, Self::Admin(_))
    }

    /// Whose links this caller makes.
    pub fn owner(self) -> OwnerId {
        match self {
            Self::Anonymous => OwnerId::ANONYMOUS,
            Self::Owner(owner) | Self::Admin(owner) => owner,
        }
    }

    /// Whether this caller may see and change the link. Nobody owns anonymous links, not even
    /// whoever made them.
    fn may_touch(self, link: &Link) -> bool {
        match self {
            Self::Anonymous => false,
            Self::Owner(owner) => link.owner == owner,
            Self::Admin(_) => true,
        }
    }
}

/// What the operator decided.
#[derive(Clone, Debug)]
pub struct LinkPolicy {
    /// Which targets are allowed.
    pub targets: TargetRules,
    /// Which domains are ours.
    pub hosts: Hosts,
    /// Whether links can be made without a key.
    pub anonymous_create: bool,
    /// How long such links live.
    pub anonymous_ttl: Duration,
    /// How long deleted links can be restored.
    pub grace: Duration,
    /// How long an alias stays its former owner's once its link is gone; zero for not at all.
    pub quarantine: Duration,
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The input was refused; nothing changed.
    #[error(transparent)]
    Refused(#[from] ValidationError),
    /// No such link, or none of the caller's.
    #[error("there is no such link")]
    NotFound,
    /// A key is needed for this.
    #[error("a key is needed")]
    KeyNeeded,
    /// Others kept changing the same link.
    #[error("the link was changed by somebody else")]
    Conflict,
    /// The same idempotency key was used for something else.
    #[error("this idempotency key was used for another request")]
    RequestMismatch,
    /// The store did not do it.
    #[error(transparent)]
    Store(StoreError),
    /// No code could be made.
    #[error("no code could be made")]
    NoCode(#[source] CodeSourceError),
}

impl From<StoreError> for LinkError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict => Self::Conflict,
            error => Self::Store(error),
        }
    }
}

/// A link that was asked for.
#[derive(Clone, Debug)]
pub struct Created {
    /// The link.
    pub link: Link,
    /// Whether it is new; otherwise one that existed was given back.
    pub new: bool,
    /// Whether it is the answer to an earlier attempt of the same request.
    pub replayed: bool,
}

/// A part of a caller's list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The links and where to go on.
    pub page: Page,
    /// The moment by which their states were judged.
    pub now: Timestamp,
}

/// The back office: everything that creates or changes links goes through here.
pub struct Links {
    store: Arc<dyn LinkStore>,
    codes: Arc<dyn CodeSource>,
    feed: Arc<dyn ChangeFeed>,
    screen: Arc<dyn Screening>,
    events: Arc<dyn LinkEvents>,
    rules: LinkPolicy,
    suspended: Suspended,
    clock: Clock,
}

impl LinkPolicy {
    /// Until when aliases of links that go now are held.
    pub fn quarantine_until(&self, now: Timestamp) -> Option<Timestamp> {
        (!self.quarantine.is_zero())
            .then(|| now.checked_add(self.quarantine).unwrap_or(Timestamp::MAX))
    }
}

impl Links {
    /// Puts the parts together.
    pub fn new(
        store: Arc<dyn LinkStore>,
        codes: Arc<dyn CodeSource>,
        feed: Arc<dyn ChangeFeed>,
        screen: Arc<dyn Screening>,
        rules: LinkPolicy,
        clock: Clock,
    ) -> Self {
        let (events, suspended) = (Arc::new(NoEvents), Suspended::default());
        Self { store, codes, feed, screen, events, rules, suspended, clock }
    }

    /// The same, with somebody who is told what happens.
    pub fn telling(self, events: Arc<dyn LinkEvents>) -> Self {
        Self { events, ..self }
    }

    /// What the operator decided.
    pub fn rules(&self) -> &LinkPolicy {
        &self.rules
    }

    /// Who is suspended, to be told by whoever asks the registry.
    pub fn suspended(&self) -> &Suspended {
        &self.suspended
    }

    /// What is odd about a link, in sentences for whoever wonders whether to follow it.
    pub fn reasons(&self, link: &Link) -> Vec<&'static str> {
        let sentence = |flag: &str| match flag {
            REPORTED => Some("Several people have reported it."),
            flag => self.screen.sentence(flag),
        };
        link.flags.iter().filter_map(sentence).collect()
    }

    /// A host as a moderator typed it, canonical; or why it cannot be blocked with all names below
    /// it.
    pub fn blockable(&self, typed: &str) -> Result<String, ValidationError> {
        let refuse = |detail: &'static str| {
            ValidationError::new(ValidationErrorKind::InvalidRequest, "host", detail)
        };
        let host = canonical_host(typed)
            .ok_or_else(|| refuse("a host name or an address, without scheme, port or path"))?;
        // Nobody means a host by these: it would be in the list and match nothing.
        if host.contains('*') || host.split('.').any(str::is_empty) {
            return Err(refuse(
                "a host with all names below it is meant anyway; leave out stars and empty labels",
            ));
        }
        let is_ours = |own: &String| {
            own.strip_suffix(&*host)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        if self.rules.hosts.names().iter().any(is_ours) {
            return Err(refuse("this would block our own links"));
        }
        if !self.screen.is_blockable(&host) {
            return Err(refuse("this would block too much"));
        }
        Ok(host)
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Makes a link, or gives back the caller's own for the same target. `Ok` means durable and
    /// visible everywhere.
    pub async fn create(
        &self,
        caller: Caller,
        wish: CreateLink,
        request: Option<Request>,
    ) -> Result<Created, LinkError> {
        let longest = match caller {
            Caller::Anonymous if !self.rules.anonymous_create => return Err(LinkError::KeyNeeded),
            Caller::Anonymous => Some(self.rules.anonymous_ttl),
            _ => None,
        };
        let now = self.clock.now();
        let new = wish.parse(&self.rules.targets, &self.rules.hosts, longest, now)?;
        self.insert(caller, new, request, now).await
    }

    /// Takes over a link made elsewhere, with its code and its age. Taking over the same link twice
    /// is fine: the second time it is given back as not new.
    pub async fn import(
        &self,
        caller: Caller,
        wish: CreateLink,
        created_at: Option<Timestamp>,
    ) -> Result<Created, LinkError> {
        let now = self.clock.now();
        let new = wish.parse(&self.rules.targets, &self.rules.hosts, None, now)?;
        let target = new.target.clone();
        let key = new.alias.clone().map(|code| LinkKey { domain: new.domain.clone(), code });
        let created_at = created_at.map_or(now, |at| at.min(now));
        match (self.insert(caller, new, None, created_at).await, key) {
            (Err(LinkError::Refused(refusal)), Some(key))
                if refusal.kind == ValidationErrorKind::AliasTaken =>
            {
                match self.store.get(&key).await? {
                    Some(link)
                        if link.target == target
                            && link.owner == caller.owner()
                            && link.deleted_at.is_none() =>
                    {
                        Ok(Created { link, new: false, replayed: false })
                    }
                    _ => Err(refusal.into()),
                }
            }
            (outcome, _) => outcome,
        }
    }

    async fn insert(
        &self,
        caller: Caller,
        new: NewLink,
        request: Option<Request>,
        created_at: Timestamp,
    ) -> Result<Created, LinkError> {
        let owner = caller.owner();
        self.prepare(asked_for(&new).map(|asked| asked.target)).await;
        let version = self.screen.version();
        let (standing, flags) = self.judge(caller, owner, asked_for(&new))?;
        for attempt in 0..CODE_ATTEMPTS {
            let code = match &new.alias {
                Some(alias) => alias.clone(),
                None => {
                    let wanted = Wanted { owner, target: &new.target, attempt };
                    self.codes.next(wanted).await.map_err(|error| match error {
                        CodeSourceError::Store(error) => error.into(),
                        error => LinkError::NoCode(error),
                    })?
                }
            };
            let link = stored_form(&new, code, owner, created_at, standing, flags.clone());
            let insert = Insert { link: link.clone(), request: request.clone() };
            match self.store.insert(insert).await {
                Ok(Inserted::Created) => {
                    self.feed.announce(&link.key);
                    self.tell(EventKind::LinkCreated, &link).await;
                    let link = self.learned_since(version, link).await;
                    self.revisit_if_unscreened(&link);
                    return Ok(Created { link, new: true, replayed: false });
                }
                // An earlier attempt may have been written although its answer got lost, and looked
                // for in vain before: whoever remembers the link as missing, or as it was, should
                // look again.
                Ok(Inserted::Existing(link)) => {
                    self.feed.announce(&link.key);
                    return Ok(Created { link: *link, new: false, replayed: false });
                }
                Ok(Inserted::Replayed(Some(link))) => {
                    self.feed.announce(&link.key);
                    return Ok(Created { link: *link, new: false, replayed: true });
                }
                Ok(Inserted::Replayed(None)) => return Err(LinkError::NotFound),
                Ok(Inserted::RequestMismatch) => return Err(LinkError::RequestMismatch),
                Err(StoreError::CodeTaken) if new.alias.is_some() => {
                    return Err(ValidationError::new(
                        ValidationErrorKind::AliasTaken,
                        "custom_alias",
                        "this alias is taken",
                    )
                    .into());
                }
                Err(StoreError::CodeTaken) => {}
                Err(error) => {
                    self.feed.announce(&link.key);
                    return Err(error.into());
                }
            }
        }
        Err(LinkError::NoCode(CodeSourceError::Exhausted))
    }

    /// A link of the caller's.
    pub async fn get(&self, caller: Caller, key: &LinkKey) -> Result<Link, LinkError> {
        let link = self.store.get(key).await?.filter(|link| caller.may_touch(link));
        link.ok_or(LinkError::NotFound)
    }

    /// What anyone may see of a link before following it.
    pub async fn preview(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        Ok(self.store.get(key).await?.map(|link| self.suspended.applied(link)))
    }

    /// Changes a link. With `expected`, only if it is still at that revision.
    pub async fn patch(
        &self,
        caller: Caller,
        key: &LinkKey,
        patch: &Patch,
        expected: Option<Revision>,
    ) -> Result<Link, LinkError> {
        if patch.standing.is_some() && !caller.sees_all() {
            return Err(LinkError::NotFound);
        }
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
            // A deleted link can only be judged: its owner could restore it.
            if link.deleted_at.is_some() && patch.standing.is_none() {
                return Err(LinkError::NotFound);
            }
            let mut new = patch.apply(link, &self.rules.targets, now)?;
            if new.target != link.target || new.rules != link.rules {
                let drafted = match patch.rules(&self.rules.targets)? {
                    PatchField::Set(drafted) => drafted.typed,
                    PatchField::Keep | PatchField::Clear => Vec::new(),
                };
                let asked = asked_anew(patch, link, &new, &drafted);
                let judged = self.judge(caller, link.owner, asked)?;
                // Or whoever was reported would only have to lead the link elsewhere and back.
                let (standing, flags) = screening::still_reported(link, judged);
                new.flags = flags;
                // A moderator who cleared the old target knew nothing of the new one. One who took
                // the link down meant its owner.
                if patch.standing.is_none()
                    && (link.judged == ModerationSource::Screen
                        || link.standing == ModerationStatus::Clear)
                {
                    (new.standing, new.judged) = (standing, ModerationSource::Screen);
                    new.reusable &= standing == ModerationStatus::Clear;
                }
            }
            Ok(new)
        });
        changed.await.inspect(|link| self.revisit_if_unscreened(link))
    }

    /// Deletes a link softly. Deleting it again is fine.
    pub async fn delete(&self, caller: Caller, key: &LinkKey) -> Result<(), LinkError> {
        let deleted = self.change(caller, key, None, |link, now| {
            let mut new = link.clone();
            if new.deleted_at.is_none() {
                new.deleted_at = Some(now);
                new.reusable = false;
                new.revision.0 += 1;
            }
            Ok(new)
        });
        deleted.await.map(|_| ())
    }

    /// Undoes a delete within the grace time.
    pub async fn restore(&self, caller: Caller, key: &LinkKey) -> Result<Link, LinkError> {
        self.change(caller, key, None, |link, now| {
            let mut new = link.clone();
            if let Some(at) = new.deleted_at {
                if at == LONG_AGO || at < now.saturating_sub(self.rules.grace) {
                    return Err(LinkError::NotFound);
                }
                new.deleted_at = None;
                new.updated_at = now.max(link.updated_at);
                new.revision.0 += 1;
                // Nobody looked at it while it was gone.
                if let Some(screened) = self.screened(&new) {
                    new = Link { revision: new.revision, ..screened };
                }
            }
            Ok(new)
        })
        .await
        .inspect(|link| self.revisit_if_unscreened(link))
    }

    /// Takes a link of an owner who leaves out of the world: nobody can restore it, and
    /// [`Links::purge_erased`] deletes it. A blocked one stays, so that its code never leads
    /// anywhere again, but without its owner's words. Doing it again is fine, as is a link that is
    /// gone.
    pub async fn erase(&self, owner: OwnerId, key: &LinkKey) -> Result<(), LinkError> {
        let erased = self.change(Caller::Owner(owner), key, None, |link, _| {
            let mut new = link.clone();
            if new.deleted_at != Some(LONG_AGO) {
                (new.deleted_at, new.reusable, new.title, new.tags) =
                    (Some(LONG_AGO), false, None, Tags::default());
                (new.notes, new.password, new.rules) = (None, None, None);
                new.revision.0 += 1;
            }
            Ok(new)
        });
        match erased.await {
            // Their words were in what the link was before, too.
            Ok(_) => Ok(self.store.forget_history(key).await?),
            Err(LinkError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes up to `limit` erased links for good, and says how many.
    pub async fn purge_erased(&self, limit: usize) -> Result<usize, LinkError> {
        let keys = self
            .store
            .purge(LONG_AGO, limit, self.rules.quarantine_until(self.clock.now()))
            .await?;
        keys.iter().for_each(|key| self.feed.announce(key));
        Ok(keys.len())
    }

    /// The caller's links; an admin sees everyone's.
    pub async fn list(&self, caller: Caller, mut query: ListQuery) -> Result<Listing, LinkError> {
        match caller {
            Caller::Anonymous => return Err(LinkError::KeyNeeded),
            Caller::Owner(owner) => query.owner = Some(owner),
            Caller::Admin(_) => {}
        }
        let now = query.now;
        Ok(Listing { page: self.store.list(&query).await?, now })
    }

    /// The caller's own tags, those of most links first.
    pub async fn tags(&self, caller: Caller, limit: usize) -> Result<Vec<TagCount>, LinkError> {
        match caller {
            Caller::Anonymous => Err(LinkError::KeyNeeded),
            caller => Ok(self.store.tags(caller.owner(), limit).await?),
        }
    }

    /// Puts another tag in the place of one, or none. Doing it again changes nothing.
    pub async fn retag(
        &self,
        caller: Caller,
        key: &LinkKey,
        tag: &str,
        by: Option<&str>,
    ) -> Result<Link, LinkError> {
        self.change(caller, key, None, |link, now| {
            let mut new = Link { tags: link.tags.replaced(tag, by), ..link.clone() };
            if new != *link {
                new.updated_at = now.max(link.updated_at);
                new.revision.0 += 1;
            }
            Ok(new)
        })
        .await
    }

    /// A target of something other than a link, under the same rules.
    pub fn target(
        &self,
        caller: Caller,
        text: &str,
        field: &'static str,
    ) -> Result<Target, ValidationError> {
        let target =
            Target::parse(text, &self.rules.targets).map_err(|refusal| refusal.on(field))?;
        let asked = Asked { field, target: &target, evidence: Evidence::Typed(text) };
        self.judge(caller, caller.owner(), [asked])?;
        Ok(target)
    }

    /// Whether there is any link on a domain, but for deleted ones.
    pub async fn any_on(&self, domain: &Domain) -> Result<bool, StoreError> {
        let (now, domain) = (self.clock.now(), Some(domain.clone()));
        let (owner, tag, text, status, archived, after) = (None, None, None, None, None, None);
        let mut query = ListQuery {
            owner,
            domain,
            tag,
            text,
            status,
            archived,
            sort: Sort::Newest,
            after,
            limit: 1,
            now,
        };
        loop {
            let page = self.store.list(&query).await?;
            if !page.links.is_empty() {
                return Ok(true);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(false),
            }
        }
    }

    /// A stored link as the screen would have it now, or `None` if it is so already. A moderator's
    /// word is not touched.
    pub fn screened(&self, link: &Link) -> Option<Link> {
        screening::screened(&*self.screen, link, self.clock.now())
    }

    /// Has a link judged again, soon, if asking elsewhere would tell more of the places it leads to
    /// than is known here.
    pub fn revisit_if_unsure(&self, link: &Link) {
        if link.judged == ModerationSource::Screen {
            self.unsure_of(link).for_each(|target| self.screen.revisit(&link.key, target));
        }
    }

    fn revisit_if_unscreened(&self, link: &Link) {
        if !link.flags.contains(UNSCREENED) {
            return;
        }
        let mut unsure = self.unsure_of(link).peekable();
        // It may have been told in between: then there is nothing to ask, and still something to
        // judge.
        if unsure.peek().is_none() {
            self.screen.revisit(&link.key, &link.target);
        }
        unsure.for_each(|target| self.screen.revisit(&link.key, target));
    }

    /// Each of them is to be asked about: a visitor may be led to any.
    fn unsure_of<'a>(&'a self, link: &'a Link) -> impl Iterator<Item = &'a Target> {
        link.targets().filter(|target| self.screen.is_unsure(target))
    }

    /// Gives the screen a moment to ask elsewhere about targets that it is unsure of; about few, so
    /// that nobody waits long.
    async fn prepare<'a>(&self, targets: impl Iterator<Item = &'a Target>) {
        for target in targets.filter(|target| self.screen.is_unsure(target)).take(PREPARED) {
            self.screen.prepare(target).await;
        }
    }

    /// Judges a stored link again, by what is known now. `None` if that changes nothing, or if the
    /// link is gone.
    pub async fn rejudge(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.judge_stored(key, |link| self.screened(link)).await
    }

    /// Puts a warning page before a link that enough people have reported. A moderator's word
    /// stands above theirs. `None` if that changes nothing, or if the link that was made at that
    /// moment is gone.
    pub async fn warn(&self, key: &LinkKey, born: Timestamp) -> Result<Option<Link>, StoreError> {
        let reported = |link: &Link| screening::reported(&*self.screen, link, self.clock.now());
        self.judge_stored(key, |link| (link.created_at == born).then(|| reported(link)).flatten())
            .await
    }

    /// Reads, judges, writes if nobody was faster, announces.
    async fn judge_stored(
        &self,
        key: &LinkKey,
        judge: impl Fn(&Link) -> Option<Link>,
    ) -> Result<Option<Link>, StoreError> {
        for _ in 0..UPDATE_ATTEMPTS {
            let Some(old) = self.store.get(key).await? else { return Ok(None) };
            let Some(new) = judge(&old) else { return Ok(None) };
            match self.store.update(&new, old.revision).await {
                Ok(Updated::Done) => {
                    self.feed.announce(key);
                    self.tell(kind_of(&old, &new), &new).await;
                    return Ok(Some(new));
                }
                Ok(Updated::Missing) => return Ok(None),
                Err(StoreError::Conflict) => {}
                Err(error) => {
                    self.feed.announce(key);
                    return Err(error);
                }
            }
        }
        Err(StoreError::Conflict)
    }

    /// Gives a link the title of its target, unless it has one, leads elsewhere by now, or is gone.
    pub async fn entitle(
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

    /// Notes that a link's target has not answered for long, or answers again; not if it leads
    /// elsewhere by now, or is gone.
    pub async fn mark_reach(
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

    /// Tells of links that have expired, if anybody wants to know. Expiring is no change: it
    /// happens by itself.
    pub async fn tell_expired(&self, keys: &[LinkKey]) -> Result<(), StoreError> {
        if !self.events.listens() {
            return Ok(());
        }
        for key in keys {
            let link = self
                .store
                .get(key)
                .await?
                .filter(|link| link.status(self.clock.now()) == Status::Expired);
            if let Some(link) = link {
                self.tell(EventKind::LinkExpired, &link).await;
            }
        }
        Ok(())
    }

    async fn tell(&self, kind: EventKind, link: &Link) {
        if self.events.wants(link.owner) {
            self.events.happened(kind, link, self.clock.now()).await;
        }
    }

    /// Judges targets that are about to become a link's.
    fn judge<'a>(
        &self,
        caller: Caller,
        owner: OwnerId,
        asked: impl IntoIterator<Item = Asked<'a>>,
    ) -> Result<(ModerationStatus, Flags), ValidationError> {
        let mut all: Option<Judgement> = None;
        for Asked { field, target, evidence } in asked {
            let one = match self.screen.judge(target, evidence) {
                // Which list it was would help a stranger to find a way around it.
                Judgement::Blocked { source } if caller.sees_all() => {
                    let detail = format!("this destination is blocked by {source}");
                    return Err(ValidationError::new(
                        ValidationErrorKind::BlockedDestination,
                        field.to_owned(),
                        detail,
                    ));
                }
                Judgement::Blocked { .. } => {
                    let detail = "this destination is blocked";
                    return Err(ValidationError::new(
                        ValidationErrorKind::BlockedDestination,
                        field.to_owned(),
                        detail,
                    ));
                }
                judgement => judgement,
            };
            all = Some(match all {
                None => one,
                Some(before) => before.and(one),
            });
        }
        Ok(screening::standing(
            all.unwrap_or(Judgement::Clear(Flags::default())),
            owner,
            &Flags::default(),
        ))
    }

    /// A link that was judged before something new was learned and written after everybody else was
    /// judged again would be missed. If it cannot be judged again right now, that is left to the
    /// next time everybody is.
    async fn learned_since(&self, version: u64, link: Link) -> Link {
        if self.screen.version() == version {
            return link;
        }
        self.rejudge(&link.key).await.ok().flatten().unwrap_or(link)
    }

    /// Reads, decides, writes if nobody was faster, announces. `decide` returns the link unchanged
    /// to leave it alone.
    async fn change(
        &self,
        caller: Caller,
        key: &LinkKey,
        expected: Option<Revision>,
        decide: impl Fn(&Link, Timestamp) -> Result<Link, LinkError>,
    ) -> Result<Link, LinkError> {
        if caller == Caller::Anonymous {
            return Err(LinkError::KeyNeeded);
        }
        for _ in 0..UPDATE_ATTEMPTS {
            let version = self.screen.version();
            let old = self.get(caller, key).await?;
            if expected.is_some_and(|expected| expected != old.revision) {
                return Err(LinkError::Conflict);
            }
            let new = decide(&old, self.clock.now())?;
            if new == old {
                // Perhaps by an earlier attempt whose answer got lost.
                self.feed.announce(key);
                return Ok(old);
            }
            match self.store.update(&new, old.revision).await {
                Ok(Updated::Done) => {
                    self.feed.announce(key);
                    self.tell(kind_of(&old, &new), &new).await;
                    return Ok(self.learned_since(version, new).await);
                }
                Ok(Updated::Missing) => return Err(LinkError::NotFound),
                Err(StoreError::Conflict) => {}
                // It may have been written all the same: whoever remembers the link should look
                // again.
                Err(error) => {
                    self.feed.announce(key);
                    return Err(error.into());
                }
            }
        }
        Err(LinkError::Conflict)
    }
}

/// A target that is about to become a link's, and where it stands in what was sent.
struct Asked<'a> {
    field: &'a str,
    target: &'a Target,
    evidence: Evidence<'a>,
}

/// All targets of a new link.
fn asked_for(new: &NewLink) -> impl Iterator<Item = Asked<'_>> {
    let own =
        Asked { field: "long_url", target: &new.target, evidence: Evidence::Typed(&new.typed) };
    let ruled = new.rules.iter().flat_map(|drafted| drafted.rules.targets().zip(&drafted.typed));
    std::iter::once(own).chain(ruled.map(|(target, typed)| Asked {
        field: &typed.field,
        target,
        evidence: Evidence::Typed(&typed.text),
    }))
}

/// All targets of a changed link. Those that stay are judged by what was found when they were
/// typed; which of them it was is no longer known, so that it counts for each.
fn asked_anew<'a>(
    patch: &'a Patch,
    old: &'a Link,
    new: &'a Link,
    typed: &'a [TypedTarget],
) -> impl Iterator<Item = Asked<'a>> {
    let kept = Evidence::Kept { flags: &old.flags, standing: old.standing };
    let text = patch.long_url.as_deref().filter(|_| new.target != old.target);
    let own = Asked {
        field: "long_url",
        target: &new.target,
        evidence: text.map_or(kept, Evidence::Typed),
    };
    let ruled = new.rules.iter().flat_map(rules::Rules::targets).enumerate();
    std::iter::once(own).chain(ruled.map(move |(place, target)| match typed.get(place) {
        Some(TypedTarget { field, text }) => {
            Asked { field, target, evidence: Evidence::Typed(text) }
        }
        None => Asked { field: "rules", target, evidence: kept },
    }))
}

/// A new link as the store will keep it.
fn stored_form(
    new: &NewLink,
    code: Code,
    owner: OwnerId,
    created_at: Timestamp,
    standing: ModerationStatus,
    flags: Flags,
) -> Link {
    let mut link = Link {
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
        redirect: new.redirect,
        title: new.title.clone(),
        tags: new.tags.clone(),
        notes: new.notes.clone(),
        password: new.password.clone(),
        archived_at: new.archived.then_some(created_at),
        rules: new.rules.as_ref().map(|drafted| drafted.rules.clone()),
        forward_query: new.forward_query,
        crawlable: new.crawlable,
        standing,
        judged: ModerationSource::Screen,
        flags,
        deleted_at: None,
        reusable: false,
        revision: Revision(1),
    };
    // Strangers share the anonymous owner, so what one of them made is nothing to give to another.
    let plain = new.title.is_none() && new.tags.is_empty() && link.is_plain();
    link.reusable =
        new.reuse && plain && standing == ModerationStatus::Clear && owner != OwnerId::ANONYMOUS;
    link
}
