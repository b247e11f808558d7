//! What admins have set for the look of pages.

use std::sync::Once;

use async_trait::async_trait;
use rusqlite::params;
use terse_core::Branding;
use terse_core::registry::{Attribution, AuditRecord, BrandingStore};

use crate::failure::Failure;
use crate::registry::queries::RegistryQueries;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

const BRANDING: &str = "SELECT value FROM meta WHERE name = 'branding'";
const PUT_BRANDING: &str = "INSERT OR REPLACE INTO meta VALUES ('branding', ?1)";

impl RegistryQueries {
    /// What cannot be read counts as not set: suspensions and blocks are in the same snapshot.
    pub(crate) fn branding(&self) -> Result<Branding, Failure> {
        let text = self
            .one(BRANDING, [], |row| Ok(row.get_ref(0)?.as_str().unwrap_or_default().to_owned()))?;
        Ok(text.map_or_else(Branding::default, |text| read(&text)))
    }
}

fn read(text: &str) -> Branding {
    static WARNING: Once = Once::new();
    Branding::from_stored(text).unwrap_or_else(|error| {
        WARNING.call_once(|| {
            tracing::warn!(%error, "the stored branding cannot be read; the settings apply");
        });
        Branding::default()
    })
}

impl RegistryWrites {
    fn put_branding(
        &self,
        branding: &Branding,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let before = self.branding()?;
        if before == *branding {
            return Ok(());
        }
        self.run(PUT_BRANDING, params![branding.to_stored()])?;
        self.change_version();
        self.write(&AuditRecord::branding_changed(&before, branding), by)?;
        Ok(())
    }
}

#[async_trait]
impl BrandingStore for EmbeddedRegistry {
    async fn branding(&self) -> Answer<Branding> {
        self.read(RegistryQueries::branding).await
    }

    async fn put_branding(&self, branding: Branding, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.put_branding(&branding, &by)).await
    }
}
