//! Keeps the ids of new accounts ahead of those that links refer to.

use rusqlite::params;
use terse_core::registry::RegistryError;

use crate::registry::store::EmbeddedRegistry;
use crate::registry::writes::{RegistryWriteError, RegistryWrites};
use crate::store::EmbeddedLinks;

/// How many ids are left out: accounts without links may have had ids beyond the highest that a
/// link refers to.
const DISTANCE: i64 = 1_000_000;

const BEHIND: &str = "SELECT 1 FROM sqlite_sequence WHERE name = 'users' AND seq < ?1";
const SKIP: &str = "UPDATE sqlite_sequence SET seq = ?1 + ?2 WHERE name = 'users'";

impl RegistryWrites {
    fn skip_account_ids(&self, highest: i64) -> Result<bool, RegistryWriteError> {
        let is_behind = self.any(BEHIND, [highest])?;
        if is_behind {
            self.run(SKIP, params![highest, DISTANCE])?;
        }
        Ok(is_behind)
    }
}

/// Skips the ids of accounts that links refer to and that this registry has not issued: its file is
/// older than the links, as after an older copy of it alone was put back. A new account would
/// otherwise own the links of another. Returns whether there were any.
pub async fn skip_owners_of_links(
    links: &EmbeddedLinks,
    registry: &EmbeddedRegistry,
) -> Result<bool, RegistryError> {
    let highest = i64::try_from(links.highest_owner().await?).unwrap_or(0);
    registry.write(move |writes| writes.skip_account_ids(highest)).await
}
