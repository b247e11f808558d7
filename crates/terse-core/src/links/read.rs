//! Reading and listing links.

use super::{Caller, LinkError, Links};
use crate::domain::Domain;
use crate::link::{Link, LinkKey, OwnerId};
use crate::principal::{AccessError, Principal};
use crate::registry::Role;
use crate::store::{LinkPage, ListQuery, Sort, StoreError};
use crate::time::Timestamp;

/// Whose links a caller lists, or whose clicks the caller reads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OwnerFilter {
    /// The caller's own.
    #[default]
    Caller,
    /// Those of this owner. The owner and admins may ask for it; moderators for links, not for
    /// clicks.
    Owner(OwnerId),
    /// All that the caller may see: those of all owners, or the caller's own.
    All,
}

impl OwnerFilter {
    /// The owner whose links this principal lists; `None` for all owners.
    pub(super) fn seen_by(self, principal: &Principal) -> Result<Option<OwnerId>, LinkError> {
        let sees_all = principal.role >= Role::Moderator;
        match self {
            Self::All if sees_all => Ok(None),
            Self::Owner(owner) if sees_all || owner == principal.owner() => Ok(Some(owner)),
            Self::Owner(_) => Err(AccessError::ModeratorNeeded.into()),
            Self::Caller | Self::All => match principal.caller {
                Caller::Anonymous => Err(LinkError::KeyNeeded),
                Caller::Owner(owner) | Caller::Admin(owner) => Ok(Some(owner)),
            },
        }
    }

    /// The owner whose clicks this principal reads; `None` for all owners. A moderator sees the
    /// links of others, but not their clicks.
    pub fn clicks_seen_by(self, principal: &Principal) -> Result<Option<OwnerId>, AccessError> {
        let sees_all = principal.caller.sees_all();
        match self {
            _ if principal.caller == Caller::Anonymous => Err(AccessError::KeyNeeded),
            Self::All if sees_all => Ok(None),
            Self::Owner(owner) if sees_all || owner == principal.owner() => Ok(Some(owner)),
            Self::Owner(_) => Err(AccessError::AdminNeeded),
            Self::Caller | Self::All => Ok(Some(principal.owner())),
        }
    }
}

/// A page of a caller's list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The links, and the cursor of the next page.
    pub page: LinkPage,
    /// The time that their statuses refer to.
    pub now: Timestamp,
}

impl Links {
    /// A link that the caller may see.
    pub async fn get(&self, caller: Caller, key: &LinkKey) -> Result<Link, LinkError> {
        let link = self.store.get(key).await?.filter(|link| caller.may_touch(link));
        link.ok_or(LinkError::NotFound)
    }

    /// A link as visitors get it: blocked while its owner is suspended.
    pub async fn preview(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        Ok(self.store.get(key).await?.map(|link| self.suspended.applied(link)))
    }

    /// The caller's own links, whatever owner the query names, to be shown or exported.
    pub async fn list(&self, caller: Caller, mut query: ListQuery) -> Result<Listing, LinkError> {
        match caller {
            Caller::Anonymous => return Err(LinkError::KeyNeeded),
            Caller::Owner(owner) | Caller::Admin(owner) => query.owner = Some(owner),
        }
        self.show(query).await
    }

    /// The links of all owners, or of the one in the query. For background jobs, which act for no
    /// caller and decide by the list; requests use [`Links::list_of`].
    pub async fn list_for_job(&self, query: ListQuery) -> Result<Listing, LinkError> {
        let now = query.now;
        Ok(Listing { page: self.store.list(&query).await?, now })
    }

    pub(super) async fn show(&self, query: ListQuery) -> Result<Listing, LinkError> {
        let now = query.now;
        Ok(Listing { page: self.store.list_to_show(&query).await?, now })
    }

    /// The links of another owner, or all that the principal may see.
    pub async fn list_of(
        &self,
        principal: &Principal,
        owner: OwnerFilter,
        mut query: ListQuery,
    ) -> Result<Listing, LinkError> {
        query.owner = owner.seen_by(principal)?;
        self.show(query).await
    }

    /// Whether a domain has links, deleted ones aside.
    pub async fn has_links_on(&self, domain: &Domain) -> Result<bool, StoreError> {
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
}
