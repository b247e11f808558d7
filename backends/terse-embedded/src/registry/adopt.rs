//! Moves data that earlier versions stored in the links and clicks files into the registry.

use terse_core::registry::{AdminKeyStore as _, RegistryError, Salts as _, SecretHash};

use crate::clicks::EmbeddedClicks;
use crate::registry::store::EmbeddedRegistry;
use crate::store::EmbeddedLinks;

/// Moves the admin key and the salts of the last days into the registry. Each is deleted in its old
/// file only after the registry has it, so an interrupted move continues at the next start.
pub async fn move_into_registry(
    links: &EmbeddedLinks,
    clicks: &EmbeddedClicks,
    registry: &EmbeddedRegistry,
) -> Result<(), RegistryError> {
    if let Some(hash) = links.admin_key().await? {
        registry.create_admin_key(SecretHash(hash)).await?;
        links.delete_admin_key().await?;
    }
    let salts = clicks.old_salts().await?;
    if !salts.is_empty() {
        registry.import_salts(&salts).await?;
        clicks.delete_old_salts().await?;
    }
    Ok(())
}
