//! What admins have set for the look of pages.

use async_trait::async_trait;
use rusqlite::params;
use terse_core::Branding;
use terse_core::registry::{Attribution, AuditRecord, BrandingStore};

use crate::failure::{Failure, corrupt};
use crate::registry::queries::RegistryQueries;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWrites, WriteError};

const BRANDING: &str = "SELECT value FROM meta WHERE name = 'branding'";
const PUT_BRANDING: &str = "INSERT OR REPLACE INTO meta VALUES ('branding', ?1)";

impl RegistryQueries {
    pub(crate) fn branding(&self) -> Result<Branding, Failure> {
        let text: Option<String> = self.one(BRANDING, [], |row| Ok(row.get(0)?))?;
        let read = |text: String| {
            Branding::from_stored(&text).map_err(|error| corrupt(error.to_string()).into())
        };
        text.map_or_else(|| Ok(Branding::default()), read)
    }
}

impl RegistryWrites {
    fn put_branding(&self, branding: &Branding, by: &Attribution) -> Result<(), WriteError> {
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
        self.look(RegistryQueries::branding).await
    }

    async fn put_branding(&self, branding: Branding, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.put_branding(&branding, &by)).await
    }
}
