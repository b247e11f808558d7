//! Tags of an owner's links.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Caller, LinkError, Links, for_each_link};
use crate::link::{Link, LinkKey};
use crate::store::{ListQuery, Sort, TagCount};
use crate::text::Tags;

/// The number of links after which a call of [`Links::retag_all`] stops.
const MAX_CHANGED: usize = 1000;
/// The time after which it reads no further page. It still changes the links it has read.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of links per page.
const PAGE: usize = 100;
/// The largest number of writes in flight.
const WRITES: usize = 16;

/// How far a change of a tag on all links of an owner has come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RetagProgress {
    /// The number of links that this call changed.
    pub changed: usize,
    /// Whether links are left. The caller repeats the call.
    pub more: bool,
}

impl Links {
    /// The caller's tags, the most frequent first.
    pub async fn tags(&self, caller: Caller, limit: usize) -> Result<Vec<TagCount>, LinkError> {
        match caller {
            Caller::Anonymous => Err(LinkError::KeyNeeded),
            caller => Ok(self.store.tags(caller.owner(), limit).await?),
        }
    }

    /// Adds a tag to a link, beside those that it has when the write happens. Repeating it changes
    /// nothing.
    pub async fn add_tag(
        &self,
        caller: Caller,
        key: &LinkKey,
        tag: &str,
    ) -> Result<Link, LinkError> {
        self.change(caller, key, None, |link, now| {
            let has = link.tags.iter().any(|have| have == tag.trim());
            let tags: Vec<&str> = link.tags.iter().chain((!has).then_some(tag)).collect();
            let mut new = Link { tags: Tags::parse(&tags)?, ..link.clone() };
            if new != *link {
                new.updated_at = now.max(link.updated_at);
                new.revision.0 += 1;
            }
            Ok(new)
        })
        .await
    }

    /// Replaces a tag of a link by another, or removes it. Repeating it changes nothing.
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

    /// Replaces a tag by another, or removes it, on the caller's own links, page by page until none
    /// is left or a limit of one call is reached. An admin sees all links, but this changes only
    /// the admin's own. Deleted links keep the tag.
    pub async fn retag_all(
        self: &Arc<Self>,
        caller: Caller,
        tag: &str,
        by: Option<&str>,
    ) -> Result<RetagProgress, LinkError> {
        if caller == Caller::Anonymous {
            return Err(LinkError::KeyNeeded);
        }
        // Otherwise every page would find the same links again.
        if by == Some(tag) {
            return Ok(RetagProgress::default());
        }
        let caller = Caller::Owner(caller.owner());
        let (begun, mut changed) = (Instant::now(), 0);
        let all = ListQuery::all(Sort::Newest, PAGE, self.now());
        let owner = Some(caller.owner());
        let mut query = ListQuery { owner, tag: Some(tag.to_owned()), ..all };
        loop {
            let page = self.store.list(&query).await?;
            changed += page.links.len();
            for_each_link(page.links, WRITES, |link| {
                let (tag, by) = (tag.to_owned(), by.map(str::to_owned));
                let links = Arc::clone(self);
                async move {
                    match links.retag(caller, &link.key, &tag, by.as_deref()).await {
                        // The link was purged in the meantime.
                        Ok(_) | Err(LinkError::NotFound) => Ok(()),
                        Err(error) => Err(error),
                    }
                }
            })
            .await?;
            let Some(next) = page.next else {
                if changed == 0 {
                    // An earlier attempt whose answer got lost may have changed all.
                    self.store.confirm().await?;
                }
                return Ok(RetagProgress { changed, more: false });
            };
            if changed >= MAX_CHANGED || begun.elapsed() >= TIMEOUT {
                return Ok(RetagProgress { changed, more: true });
            }
            query.after = Some(next);
        }
    }
}
