//! What admins have set for the look of pages.

use async_trait::async_trait;

use super::audit::Attribution;
use super::store::RegistryError;
use crate::branding::Branding;

/// Keeps the branding, so that all nodes show the same.
#[async_trait]
pub trait BrandingStore: Send + Sync + 'static {
    /// What admins have set; nothing at first.
    async fn branding(&self) -> Result<Branding, RegistryError>;

    /// Replaces it. Does nothing if it is the same. Changes the version.
    async fn put_branding(&self, branding: Branding, by: Attribution) -> Result<(), RegistryError>;
}
