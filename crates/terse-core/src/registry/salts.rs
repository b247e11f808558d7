//! The salts of visitor hashes.

use async_trait::async_trait;

use super::lease::FencingToken;
use super::store::RegistryError;
use crate::clicks::Salt;

/// The salt of each day, the same on every node. A node without the salt of a day writes clicks
/// without a visitor hash; it never creates a salt of its own.
#[async_trait]
pub trait Salts: Send + Sync + 'static {
    /// The salt of a day (days since 1970, UTC). The first call creates it; every caller gets the
    /// same one. A node asks for the next day's salt an hour before midnight.
    async fn salt(&self, day: i64) -> Result<Salt, RegistryError>;

    /// Stores salts that were created elsewhere, except for days that have one.
    async fn import_salts(&self, salts: &[(i64, Salt)]) -> Result<(), RegistryError>;

    /// Deletes the salts of all days but yesterday, today and tomorrow by the store's clock, beyond
    /// recovery, and returns how many. After that, the visitors of those days cannot be identified.
    /// `Fenced` if the token is not current.
    async fn delete_old_salts(&self, token: FencingToken) -> Result<u64, RegistryError>;
}
