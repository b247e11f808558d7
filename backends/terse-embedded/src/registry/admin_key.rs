//! The operator's admin key.

use async_trait::async_trait;
use terse_core::registry::{AdminKeyStore, SecretHash};

use crate::failure::Failure;
use crate::registry::queries::RegistryQueries;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

const ADMIN_KEY: &str = "SELECT value FROM meta WHERE name = 'admin_key'";
const CREATE_ADMIN_KEY: &str = "INSERT INTO meta VALUES ('admin_key', ?1) ON CONFLICT DO NOTHING";

impl RegistryQueries {
    pub(crate) fn admin_key(&self) -> Result<Option<SecretHash>, Failure> {
        self.one(ADMIN_KEY, [], |row| Ok(SecretHash(row.get(0)?)))
    }
}

impl RegistryWrites {
    fn create_admin_key(&self, hash: SecretHash) -> Result<SecretHash, RegistryWriteError> {
        self.run(CREATE_ADMIN_KEY, [hash.0])?;
        Ok(self.admin_key()?.unwrap_or(hash))
    }
}

#[async_trait]
impl AdminKeyStore for EmbeddedRegistry {
    async fn admin_key(&self) -> Answer<Option<SecretHash>> {
        self.read(RegistryQueries::admin_key).await
    }

    async fn create_admin_key(&self, hash: SecretHash) -> Answer<SecretHash> {
        self.write(move |writes| writes.create_admin_key(hash)).await
    }
}
