//! Tags of an owner's links.

use super::{Caller, LinkError, Links};
use crate::link::{Link, LinkKey};
use crate::store::TagCount;

impl Links {
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
}
