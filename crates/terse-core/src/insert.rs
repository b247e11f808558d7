//! A link on its way into a store, with everything the store must check and write.
//!
//! The rules are decided here, in [`Insert::new`]. A store applies the result as data, in one
//! atomic conditional write, and has no rules of its own.

use std::collections::HashMap;
use std::time::Duration;

use crate::code::Code;
use crate::link::{Link, LinkKey, LinkStatus, OwnerId};
use crate::outbox::OutboxEvent;

/// Makes a write safe to repeat: the store returns the first answer again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IdempotencyKey {
    /// Names the attempt; unique per owner and intent.
    pub id: [u8; 32],
    /// A hash of the request. The same id with another fingerprint is a mistake of the caller.
    pub fingerprint: [u8; 32],
}

/// An alias in its case-folded form, and its owner. A store keeps one for every alias, to find
/// aliases that differ only by case.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoldedAlias {
    /// The code, folded.
    pub folded: String,
    /// The link's owner.
    pub owner: OwnerId,
}

/// Something that must not exist on the link's domain, or the insert is refused with `CodeTaken`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InsertCondition {
    /// Aliases with this folded form, unless `except` owns all of them.
    Alias {
        /// The folded form.
        folded: String,
        /// The owner whose aliases do not count.
        except: Option<OwnerId>,
    },
    /// This exact code in quarantine, whatever account owned it.
    QuarantinedCode(Code),
    /// Quarantined aliases with this folded form, unless `except` owned all of them.
    QuarantinedAlias {
        /// The folded form.
        folded: String,
        /// The owner whose aliases do not count.
        except: Option<OwnerId>,
    },
    /// A lease that covers the number of this code: the code may have been issued, even if its link
    /// is gone.
    Issued(Code),
}

/// Which existing link the store may return instead of a new one: one of the same owner, on the
/// same domain, with the same target and the same options.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReuseKey {
    /// The link that would be created.
    pub wanted: Link,
    /// How long the link should live, where the request says that instead of a time.
    pub lifetime: Option<Duration>,
}

impl ReuseKey {
    /// The alias that the link must have; without one, its code must be generated. A store finds
    /// the candidate by its key then, and otherwise by its own index.
    pub fn alias(&self) -> Option<&LinkKey> {
        Some(&self.wanted.key).filter(|_| !self.wanted.generated)
    }

    /// Whether a stored link matches. A store checks each candidate with this.
    pub fn matches(&self, have: &Link) -> bool {
        let wanted = &self.wanted;
        let now = wanted.created_at;
        let same_place = match self.alias() {
            Some(key) => have.key == *key,
            None => have.generated && have.reusable && have.key.domain == wanted.key.domain,
        };
        same_place
            && (have.owner, &have.target) == (wanted.owner, &wanted.target)
            && matches!(
                have.status(now),
                LinkStatus::Active | LinkStatus::Scheduled | LinkStatus::Suspicious
            )
            && self.same_expiry(have)
            && (have.valid_from, have.max_clicks, have.redirect)
                == (wanted.valid_from, wanted.max_clicks, wanted.redirect)
            && (have.forward_query, have.crawlable) == (wanted.forward_query, wanted.crawlable)
            && (&have.rules, &have.preview) == (&wanted.rules, &wanted.preview)
            && have.password == wanted.password
            && have.archived_at.is_some() == wanted.archived_at.is_some()
            && have.notes == wanted.notes
            && self.same_title_and_tags(have)
    }

    /// A lifetime counts from the first request. Without an alias it is the same while at least
    /// nine tenths of it are left, so that a repeated request finds its link and a later one gets
    /// its full time.
    fn same_expiry(&self, have: &Link) -> bool {
        match (self.lifetime, have.expires_at) {
            (Some(lifetime), Some(end)) => {
                have.created_at.checked_add(lifetime) == Some(end)
                    && (self.alias().is_some()
                        || have.created_at.checked_add(lifetime / 10)
                            >= Some(self.wanted.created_at))
            }
            (_, end) => end == self.wanted.expires_at,
        }
    }

    /// Once a link was changed, its title may have been fetched and its tags added later, so a
    /// request without any matches too.
    fn same_title_and_tags(&self, have: &Link) -> bool {
        let (wanted, changed) = (&self.wanted, have.revision.0 > 1);
        (have.title == wanted.title || changed && wanted.title.is_none())
            && (have.tags == wanted.tags || changed && wanted.tags.is_empty())
    }
}

/// A link to store. A store checks in this order: the request, the link to reuse, the link's own
/// key, then `absent`. It writes all of it or nothing.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The link. No other link may have its key.
    pub link: Link,
    /// What else must not exist.
    pub absent: Vec<InsertCondition>,
    /// The record to write if the code is an alias. The store also takes this exact code out of
    /// quarantine.
    pub alias: Option<FoldedAlias>,
    /// If given and such a link exists, the store returns it and writes only the request.
    pub reuse: Option<ReuseKey>,
    /// If given, the store keeps it for at least 24 hours, together with the link.
    pub request: Option<IdempotencyKey>,
    /// The events that go to the outbox if the link is new.
    pub events: Vec<OutboxEvent>,
}

impl Insert {
    /// The rules for a new link:
    ///
    /// - An alias may differ only by case from aliases of the same owner. Anonymous links share an
    ///   owner id but not an owner, so theirs may not.
    /// - The former owner of a quarantined alias may take it again, also in another case; an
    ///   anonymous caller never may. A generated code avoids every quarantined one.
    /// - Only the operator may use a code that was issued before as an alias.
    /// - A reusable link is not created twice while the first is live.
    pub fn new(link: Link, request: Option<IdempotencyKey>) -> Self {
        let code = &link.key.code;
        let mut absent = Vec::with_capacity(3);
        if link.generated {
            absent.push(InsertCondition::QuarantinedCode(code.clone()));
        } else {
            let except = Some(link.owner).filter(|owner| *owner != OwnerId::ANONYMOUS);
            absent.push(InsertCondition::Alias { folded: code.folded(), except });
            absent.push(InsertCondition::QuarantinedAlias { folded: code.folded(), except });
            if link.owner != OwnerId::ADMIN {
                absent.push(InsertCondition::Issued(code.clone()));
            }
        }
        let alias =
            (!link.generated).then(|| FoldedAlias { folded: code.folded(), owner: link.owner });
        let reuse = link.reusable.then(|| ReuseKey { wanted: link.clone(), lifetime: None });
        Self { link, absent, alias, reuse, request, events: Vec::new() }
    }

    /// The same with another link to reuse, or none.
    pub(crate) fn reusing(
        link: Link,
        reuse: Option<ReuseKey>,
        request: Option<IdempotencyKey>,
    ) -> Self {
        let reusable = link.reusable;
        let mut insert = Self::new(Link { reusable: false, ..link }, request);
        insert.link.reusable = reusable;
        Self { reuse, ..insert }
    }
}

/// Splits inserts into rounds, by their places. Those of one round do not affect each other: their
/// codes differ in more than case, and their targets differ where an existing link may be reused.
pub(crate) fn independent_rounds(inserts: &[Insert]) -> Vec<Vec<usize>> {
    let (mut rounds, mut seen) = (Vec::<Vec<usize>>::new(), HashMap::<Claim<'_>, usize>::new());
    for (place, insert) in inserts.iter().enumerate() {
        let round = seen.entry(Claim::of(insert)).or_default();
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push(place);
        *round += 1;
    }
    rounds
}

/// What two inserts have in common if they may affect each other.
#[derive(Eq, Hash, PartialEq)]
enum Claim<'a> {
    Alias(&'a str),
    Target(&'a str),
}

impl<'a> Claim<'a> {
    fn of(insert: &'a Insert) -> Self {
        match &insert.alias {
            Some(alias) => Self::Alias(&alias.folded),
            None => Self::Target(insert.link.target.as_str()),
        }
    }
}

/// The outcome of an insert.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Inserted {
    /// It is durable, and every `get` from now on finds it.
    Created,
    /// The owner's live reusable link for the same target. The store wrote only the request, if
    /// there is one: this link is its answer from now on.
    Existing(Box<Link>),
    /// This request was answered before with this link. Nothing was written.
    Replayed {
        /// The link as it is now; `None` if it was deleted permanently.
        link: Option<Box<Link>>,
        /// Whether that request created the link; otherwise it existed before.
        created: bool,
    },
    /// This request id was used before for something else. Nothing was written.
    RequestMismatch,
}
