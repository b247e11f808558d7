//! The registry's version, and the content with that version.

use async_trait::async_trait;
use terse_core::registry::{RegistrySnapshot, RegistrySnapshots, RegistryVersion};

use crate::failure::{Failure, corrupt};
use crate::registry::queries::RegistryQueries;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::RegistryWrites;

pub(crate) const META_NUMBER: &str = "SELECT value FROM meta WHERE name = ?1";
const RAISE_VERSION: &str = "UPDATE meta SET value = value + 1 WHERE name = 'version'";

impl RegistryQueries {
    pub(crate) fn version(&self) -> Result<RegistryVersion, Failure> {
        let number = |name: &str| {
            self.one(META_NUMBER, [name], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))?
                .ok_or_else(|| Failure::from(corrupt(format!("the registry has no {name}"))))
        };
        Ok(RegistryVersion { incarnation: number("incarnation")?, version: number("version")? })
    }

    /// One connection reads everything within one transaction, so all of it has the same state.
    fn snapshot(&self) -> Result<RegistrySnapshot, Failure> {
        Ok(RegistrySnapshot {
            version: self.version()?,
            suspended: self.suspended()?,
            domains: self.domain_configs()?,
            blocked_hosts: self.blocked_hosts()?,
            branding: self.branding()?,
        })
    }
}

impl RegistryWrites {
    /// The last statement of a transaction whose steps called
    /// [`change_version`](Self::change_version).
    pub(crate) fn raise_version(&self) -> rusqlite::Result<()> {
        self.conn.prepare_cached(RAISE_VERSION)?.execute([]).map(|_| ())
    }
}

#[async_trait]
impl RegistrySnapshots for EmbeddedRegistry {
    async fn version(&self) -> Answer<RegistryVersion> {
        self.read(RegistryQueries::version).await
    }

    async fn snapshot(&self) -> Answer<RegistrySnapshot> {
        self.list(RegistryQueries::snapshot).await
    }
}
