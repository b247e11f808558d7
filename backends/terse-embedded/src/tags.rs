//! Counts the tags of an owner's links.

use std::collections::HashMap;

use terse_core::{OwnerId, TagCount};

use crate::failure::Failure;
use crate::queries::LinkQueries;

/// Tags are stored joined, so links with the same tags are counted together.
pub(crate) const TAGS: &str = "SELECT tags, count(*) FROM links \
     WHERE owner = ?1 AND owner <> 0 AND tags IS NOT NULL AND deleted_at IS NULL GROUP BY tags";

impl LinkQueries {
    /// An owner's most frequent tags.
    pub(crate) fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, Failure> {
        let mut statement = self.conn.prepare_cached(TAGS)?;
        let mut rows = statement.query([owner.0 as i64])?;
        let mut counts = HashMap::<String, u64>::new();
        while let Some(row) = rows.next()? {
            let (joined, links): (_, i64) =
                (row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?, row.get(1)?);
            for tag in joined.split(',').filter(|tag| !tag.is_empty()) {
                if let Some(count) = counts.get_mut(tag) {
                    *count += links.unsigned_abs();
                } else if counts.len() < TagCount::MAX_TAGS {
                    counts.insert(tag.to_owned(), links.unsigned_abs());
                }
            }
        }
        Ok(TagCount::ranked(counts, limit))
    }
}
