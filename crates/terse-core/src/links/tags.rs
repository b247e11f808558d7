//! Tags of an owner's links.

use super::{Caller, LinkError, Links};
use crate::link::{Link, LinkKey};
use crate::store::TagCount;
use crate::text::Tags;

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
}
