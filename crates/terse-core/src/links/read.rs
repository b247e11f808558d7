//! Reading and listing links.

use super::{Caller, LinkError, Links};
use crate::domain::Domain;
use crate::link::{Link, LinkKey};
use crate::store::{ListQuery, Page, Sort, StoreError};
use crate::time::Timestamp;

/// A page of a caller's list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The links, and the cursor of the next page.
    pub page: Page,
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

    /// The caller's links; an admin lists all.
    pub async fn list(&self, caller: Caller, mut query: ListQuery) -> Result<Listing, LinkError> {
        match caller {
            Caller::Anonymous => return Err(LinkError::KeyNeeded),
            Caller::Owner(owner) => query.owner = Some(owner),
            Caller::Admin(_) => {}
        }
        let now = query.now;
        Ok(Listing { page: self.store.list(&query).await?, now })
    }

    /// Whether a domain has links, deleted ones aside.
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
}
