//! A link on its way into a store, with everything the store must check and write.
//!
//! The rules are decided here, in [`Insert::new`]. A store applies the result as data, in one
//! atomic conditional write, and has no rules of its own.

use crate::code::Code;
use crate::domain::Domain;
use crate::link::{Link, OwnerId, Status};
use crate::outbox::OutboxEvent;
use crate::target::Target;
use crate::time::Timestamp;

/// Makes a write safe to repeat: the store returns the first answer again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
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
pub enum MustBeAbsent {
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

/// Which existing link the store may return instead of a new one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReuseKey {
    /// The owner of the link.
    pub owner: OwnerId,
    /// The domain of the link.
    pub domain: Domain,
    /// The target of the link.
    pub target: Target,
    /// The time at which the link must be active.
    pub active_at: Timestamp,
}

impl ReuseKey {
    /// Whether a stored link matches. A store finds candidates by its own index and checks each
    /// with this.
    pub fn matches(&self, link: &Link) -> bool {
        link.reusable
            && (link.owner, &link.key.domain, &link.target)
                == (self.owner, &self.domain, &self.target)
            && link.status(self.active_at) == Status::Active
    }
}

/// A link to store. A store checks in this order: the request, the link to reuse, the link's own
/// key, then `absent`. It writes all of it or nothing.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The link. No other link may have its key.
    pub link: Link,
    /// What else must not exist.
    pub absent: Vec<MustBeAbsent>,
    /// The record to write if the code is an alias. The store also takes this exact code out of
    /// quarantine.
    pub alias: Option<FoldedAlias>,
    /// If given and such a link exists, the store returns it and writes only the request.
    pub reuse: Option<ReuseKey>,
    /// If given, the store keeps it for at least 24 hours, together with the link.
    pub request: Option<Request>,
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
    /// - A reusable link is not created twice while the first is active.
    pub fn new(link: Link, request: Option<Request>) -> Self {
        let code = &link.key.code;
        let mut absent = Vec::with_capacity(3);
        if link.generated {
            absent.push(MustBeAbsent::QuarantinedCode(code.clone()));
        } else {
            let except = Some(link.owner).filter(|owner| *owner != OwnerId::ANONYMOUS);
            absent.push(MustBeAbsent::Alias { folded: code.folded(), except });
            absent.push(MustBeAbsent::QuarantinedAlias { folded: code.folded(), except });
            if link.owner != OwnerId::ADMIN {
                absent.push(MustBeAbsent::Issued(code.clone()));
            }
        }
        let alias =
            (!link.generated).then(|| FoldedAlias { folded: code.folded(), owner: link.owner });
        let reuse = link.reusable.then(|| ReuseKey {
            owner: link.owner,
            domain: link.key.domain.clone(),
            target: link.target.clone(),
            active_at: link.created_at,
        });
        Self { link, absent, alias, reuse, request, events: Vec::new() }
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
    /// This request was answered before with this link. Nothing was written. `None` if that link
    /// was deleted permanently.
    Replayed(Option<Box<Link>>),
    /// This request id was used before for something else. Nothing was written.
    RequestMismatch,
}
