//! Screening of targets, and its effect on a link.

use super::scan_audit::RecordedChange;
use super::update::UPDATE_ATTEMPTS;
use super::{Caller, Links};
use crate::create_link::NewLink;
use crate::events::kind_of;
use crate::host::canonical_host;
use crate::link::{Link, LinkKey, ModerationSource, ModerationStatus, OwnerId};
use crate::patch::LinkPatch;
use crate::rules::{self, TargetInput};
use crate::screening::{self, LinkFlags, REPORTED, ScreenInput, ScreenResult, UNSCREENED};
use crate::social_preview::SocialPreview;
use crate::store::{StoreError, Updated};
use crate::target::Target;
use crate::time::Timestamp;
use crate::validation::{ValidationError, ValidationErrorKind};

/// How many targets of one link the scan may look up before the link is created. A job scans the
/// rest later.
const PREPARED: usize = 4;

impl Links {
    /// The reasons for a link's warning: the flags that the warning page shows, each with an
    /// English sentence.
    pub fn reasons<'a>(&self, link: &'a Link) -> Vec<(&'a str, &'static str)> {
        let sentence = |flag: &str| match flag {
            REPORTED => Some("Several visitors have reported it."),
            flag => self.screen.sentence(flag),
        };
        link.flags.iter().filter_map(|flag| Some((flag, sentence(flag)?))).collect()
    }

    /// The canonical form of a host that a moderator wants to block with all its subdomains, or why
    /// it cannot be blocked.
    pub fn parse_blockable_host(&self, typed: &str) -> Result<String, ValidationError> {
        let refuse = |detail: &'static str| {
            ValidationError::new(ValidationErrorKind::InvalidRequest, "host", detail)
        };
        let host = canonical_host(typed)
            .ok_or_else(|| refuse("a host name or an address, without scheme, port or path"))?;
        // Such an entry would match nothing.
        if host.contains('*') || host.split('.').any(str::is_empty) {
            return Err(refuse(
                "a block always covers all subdomains; leave out stars and empty labels",
            ));
        }
        let is_ours = |own: &String| {
            own.strip_suffix(&*host)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        if self.rules.hosts.own_names().iter().any(is_ours) {
            return Err(refuse("this would block our own links"));
        }
        if !self.screen.is_blockable(&host) {
            return Err(refuse("this would block too much"));
        }
        Ok(host)
    }

    /// Checks a target that is not a link's, such as a domain's fallback, by the same rules.
    pub fn target(
        &self,
        caller: Caller,
        text: &str,
        field: &'static str,
    ) -> Result<Target, ValidationError> {
        let target =
            Target::parse(text, &self.rules.targets).map_err(|refusal| refusal.on(field))?;
        let asked = TargetToScreen { field, target: &target, input: ScreenInput::Text(text) };
        self.screen(caller, caller.owner(), [asked])?;
        Ok(target)
    }

    /// Refuses a preview whose image is on a blocklist. Other findings about the image do not
    /// count: no visitor is redirected to it.
    pub(super) fn check_image(
        &self,
        caller: Caller,
        owner: OwnerId,
        preview: Option<&SocialPreview>,
    ) -> Result<(), ValidationError> {
        let Some(target) = preview.and_then(SocialPreview::image_url) else { return Ok(()) };
        let (field, input) = ("preview.image_url", ScreenInput::Text(target.as_str()));
        self.screen(caller, owner, [TargetToScreen { field, target, input }]).map(drop)
    }

    /// A stored link with the current screening result, or `None` if that changes nothing. A
    /// moderator's decision stays.
    pub fn screened(&self, link: &Link) -> Option<Link> {
        screening::screened(&*self.screen, link, self.clock.now())
    }

    /// Queues a link for another scan if a lookup would add information about its targets.
    pub fn queue_rescreen_if_undecided(&self, link: &Link) {
        if link.moderated_by == ModerationSource::Screen {
            self.unsure_of(link).for_each(|target| self.screen.revisit(&link.key, target));
        }
    }

    pub(super) fn revisit_if_unscreened(&self, link: &Link) {
        if !link.flags.contains(UNSCREENED) {
            return;
        }
        let mut unsure = self.unsure_of(link).peekable();
        // If the answers have arrived meanwhile, no lookup is left, but the link still needs a
        // scan.
        if unsure.peek().is_none() {
            self.screen.revisit(&link.key, &link.target);
        }
        unsure.for_each(|target| self.screen.revisit(&link.key, target));
    }

    /// The targets that need a lookup. A visitor may be redirected to any of them.
    fn unsure_of<'a>(&'a self, link: &'a Link) -> impl Iterator<Item = &'a Target> {
        link.targets().filter(|target| self.screen.needs_lookup(target))
    }

    /// Lets the screen look up targets that it is unsure of, only a few, so that the caller does
    /// not wait long.
    pub(super) async fn prepare<'a>(&self, targets: impl Iterator<Item = &'a Target>) {
        for target in targets.filter(|target| self.screen.needs_lookup(target)).take(PREPARED) {
            self.screen.prepare(target).await;
        }
    }

    /// Scans a stored link again. `None` if that changes nothing, or if the link is gone.
    pub async fn rescreen(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.change_moderation(key, |link| self.screened(link)).await
    }

    /// Shows a warning page for a link that has enough reports. A moderator's decision stays.
    /// `None` if that changes nothing, or if the link created at that time is gone.
    pub async fn warn(
        &self,
        key: &LinkKey,
        created_at: Timestamp,
    ) -> Result<Option<Link>, StoreError> {
        let reported = |link: &Link| screening::reported(&*self.screen, link, self.clock.now());
        self.change_moderation(key, |link| {
            (link.created_at == created_at).then(|| reported(link)).flatten()
        })
        .await
    }

    /// Reads and scans the link, writes it if no other change came first, drops the cached route.
    async fn change_moderation(
        &self,
        key: &LinkKey,
        screen: impl Fn(&Link) -> Option<Link>,
    ) -> Result<Option<Link>, StoreError> {
        let mut noted = RecordedChange::default();
        for _ in 0..UPDATE_ATTEMPTS {
            let Some(old) = self.store.get(key).await? else { return Ok(None) };
            let Some(new) = screen(&old) else { return Ok(None) };
            self.note_scan(&old, &new, &mut noted).await?;
            let event = self.event(kind_of(&old, &new), old.owner);
            match self.store.update(&new, old.revision, event.as_slice()).await {
                Ok(Updated::Done) => {
                    self.cache.changed(&new);
                    self.written(event);
                    return Ok(Some(new));
                }
                Ok(Updated::Missing) => return Ok(None),
                Err(StoreError::Conflict) => {}
                Err(error) => {
                    self.cache.forget(key);
                    return Err(error);
                }
            }
        }
        Err(StoreError::Conflict)
    }

    /// Screens the targets of a new or changed link.
    pub(super) fn screen<'a>(
        &self,
        caller: Caller,
        owner: OwnerId,
        asked: impl IntoIterator<Item = TargetToScreen<'a>>,
    ) -> Result<(ModerationStatus, LinkFlags), ValidationError> {
        let mut all: Option<ScreenResult> = None;
        for TargetToScreen { field, target, input } in asked {
            let one = match self.screen.screen(target, input) {
                // The name of the list would help to evade it, so only admins see it.
                ScreenResult::Blocked { source } if caller.sees_all() => {
                    let detail = format!("this destination is blocked by {source}");
                    return Err(ValidationError::new(
                        ValidationErrorKind::BlockedDestination,
                        field.to_owned(),
                        detail,
                    ));
                }
                ScreenResult::Blocked { .. } => {
                    let detail = "this destination is blocked";
                    return Err(ValidationError::new(
                        ValidationErrorKind::BlockedDestination,
                        field.to_owned(),
                        detail,
                    ));
                }
                result => result,
            };
            all = Some(match all {
                None => one,
                Some(before) => before.and(one),
            });
        }
        Ok(screening::moderation(
            all.unwrap_or(ScreenResult::Clear(LinkFlags::default())),
            owner,
            &LinkFlags::default(),
        ))
    }

    /// Scans a link again if the lists changed while it was written: a re-scan of all links may
    /// have passed its place before it was stored. If that fails, the next re-scan finds it.
    pub(super) async fn rescreen_if_lists_changed(&self, version: u64, link: Link) -> Link {
        if self.screen.version() == version {
            return link;
        }
        self.rescreen(&link.key).await.ok().flatten().unwrap_or(link)
    }
}

/// A target to screen, and the field that contained it.
pub(super) struct TargetToScreen<'a> {
    pub(super) field: &'a str,
    pub(super) target: &'a Target,
    pub(super) input: ScreenInput<'a>,
}

/// The targets of a new link.
pub(super) fn targets_of_new(new: &NewLink) -> impl Iterator<Item = TargetToScreen<'_>> {
    let own = TargetToScreen {
        field: "long_url",
        target: &new.target,
        input: ScreenInput::Text(&new.typed),
    };
    let ruled = new.rules.iter().flat_map(|drafted| drafted.rules.targets().zip(&drafted.inputs));
    std::iter::once(own).chain(ruled.map(|(target, typed)| TargetToScreen {
        field: &typed.field,
        target,
        input: ScreenInput::Text(&typed.text),
    }))
}

/// The targets of a changed link. Those that stay are screened with the flags found when they were
/// typed. The link does not record which target a flag was for, so it counts for each.
pub(super) fn targets_of_change<'a>(
    patch: &'a LinkPatch,
    old: &'a Link,
    new: &'a Link,
    typed: &'a [TargetInput],
) -> impl Iterator<Item = TargetToScreen<'a>> {
    let kept = ScreenInput::Stored { flags: &old.flags, moderation: old.moderation };
    let text = patch.long_url.as_deref().filter(|_| new.target != old.target);
    let own = TargetToScreen {
        field: "long_url",
        target: &new.target,
        input: text.map_or(kept, ScreenInput::Text),
    };
    let ruled = new.rules.iter().flat_map(rules::Rules::targets).enumerate();
    std::iter::once(own).chain(ruled.map(move |(place, target)| match typed.get(place) {
        Some(TargetInput { field, text }) => {
            TargetToScreen { field, target, input: ScreenInput::Text(text) }
        }
        None => TargetToScreen { field: "rules", target, input: kept },
    }))
}
