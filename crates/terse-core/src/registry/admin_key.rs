//! The operator's admin key, shared by all nodes.

use async_trait::async_trait;

use super::key::SecretHash;
use super::store::RegistryError;

/// Keeps the hash of the operator's admin key. Nodes read it once at start, so that the key works
/// while the registry does not answer.
#[async_trait]
pub trait AdminKeyStore: Send + Sync + 'static {
    /// The hash of the admin key, if there is one.
    async fn admin_key(&self) -> Result<Option<SecretHash>, RegistryError>;

    /// Stores this hash if there is none yet, and returns the stored one. Of several nodes that
    /// start at once, the key of one becomes the admin key.
    async fn create_admin_key(&self, hash: SecretHash) -> Result<SecretHash, RegistryError>;
}
