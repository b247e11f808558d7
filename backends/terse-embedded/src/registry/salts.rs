//! The salts of visitor hashes.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use rusqlite::params;
use terse_core::clicks::Salt;
use terse_core::registry::{FencingToken, Salts};

use crate::engine;
use crate::failure::{Failure, unavailable};
use crate::registry::queries::RegistryQueries;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

pub(crate) const SALT: &str = "SELECT salt FROM salts WHERE day = ?1";
const ADD_SALT: &str = "INSERT INTO salts VALUES (?1, ?2) ON CONFLICT DO NOTHING";
/// Keeps yesterday's salt, because clicks of yesterday may still arrive, and tomorrow's, which
/// nodes create ahead.
const DELETE_OLD: &str = "DELETE FROM salts WHERE day < unixepoch() / 86400 - 1 \
    OR day > unixepoch() / 86400 + 1";

impl RegistryQueries {
    fn salt(&self, day: i64) -> Result<Option<Salt>, Failure> {
        self.one(SALT, [day], |row| Ok(row.get(0)?))
    }
}

impl RegistryWrites {
    /// Adds a salt unless the day has one, and returns the day's salt.
    fn make_salt(&self, day: i64) -> Result<Salt, RegistryWriteError> {
        let mut salt = Salt::default();
        getrandom::fill(&mut salt)
            .map_err(|error| Failure::from(unavailable(error.to_string())))?;
        self.run(ADD_SALT, params![day, salt])?;
        Ok(self.salt(day)?.unwrap_or(salt))
    }

    fn import_salts(&self, salts: &[(i64, Salt)]) -> Result<(), RegistryWriteError> {
        for (day, salt) in salts {
            self.run(ADD_SALT, params![day, salt])?;
        }
        Ok(())
    }

    fn delete_old_salts(&self, token: FencingToken) -> Result<usize, RegistryWriteError> {
        self.check_lease(token)?;
        Ok(self.run(DELETE_OLD, [])?)
    }
}

impl EmbeddedRegistry {
    /// Empties the write-ahead log if it may still hold a deleted salt. If a reader prevents that,
    /// the next call tries again.
    async fn wipe_log(&self) {
        if !self.to_wipe.load(Ordering::Relaxed) {
            return;
        }
        let site = self.site().clone();
        match tokio::task::spawn_blocking(move || engine::empty_log(&site)).await {
            Ok(Ok(true)) => self.to_wipe.store(false, Ordering::Relaxed),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the log of the registry may still hold a deleted salt; \
                    trying again later");
            }
            Err(_stopping) => {}
        }
    }
}

#[async_trait]
impl Salts for EmbeddedRegistry {
    async fn salt(&self, day: i64) -> Answer<Salt> {
        match self.read(move |queries| queries.salt(day)).await? {
            Some(salt) => Ok(salt),
            None => self.write(move |writes| writes.make_salt(day)).await,
        }
    }

    async fn import_salts(&self, salts: &[(i64, Salt)]) -> Answer<()> {
        let salts = salts.to_vec();
        self.write(move |writes| writes.import_salts(&salts)).await
    }

    async fn delete_old_salts(&self, token: FencingToken) -> Answer<u64> {
        let count = self.write(move |writes| writes.delete_old_salts(token)).await?;
        if count > 0 {
            self.to_wipe.store(true, Ordering::Relaxed);
        }
        self.wipe_log().await;
        Ok(count as u64)
    }
}
