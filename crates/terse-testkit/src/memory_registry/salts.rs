//! The salts of visitor hashes, and the operator's admin key.

use std::hash::{BuildHasher as _, RandomState};

use async_trait::async_trait;
use terse_core::clicks::Salt;
use terse_core::registry::{AdminKeyStore, FencingToken, Salts, SecretHash};

use super::jobs::now;
use super::{Answer, MemoryRegistry};

fn random_salt() -> Salt {
    let seed = RandomState::new();
    let mut salt = Salt::default();
    salt.chunks_mut(8)
        .zip(0..)
        .for_each(|(half, n): (_, u8)| half.copy_from_slice(&seed.hash_one(n).to_le_bytes()));
    salt
}

#[async_trait]
impl Salts for MemoryRegistry {
    async fn salt(&self, day: i64) -> Answer<Salt> {
        Ok(*self.enter().await?.salts.entry(day).or_insert_with(random_salt))
    }

    async fn import_salts(&self, salts: &[(i64, Salt)]) -> Answer<()> {
        let mut state = self.enter().await?;
        for (day, salt) in salts {
            state.salts.entry(*day).or_insert(*salt);
        }
        Ok(())
    }

    async fn delete_old_salts(&self, token: FencingToken) -> Answer<u64> {
        let mut state = self.enter().await?;
        state.jobs.current(token)?;
        let (today, before) = (now().as_ms().div_euclid(86_400_000), state.salts.len());
        state.salts.retain(|day, _| (today - 1..=today + 1).contains(day));
        Ok((before - state.salts.len()) as u64)
    }
}

#[async_trait]
impl AdminKeyStore for MemoryRegistry {
    async fn admin_key(&self) -> Answer<Option<SecretHash>> {
        Ok(self.enter().await?.admin_key)
    }

    async fn create_admin_key(&self, hash: SecretHash) -> Answer<SecretHash> {
        Ok(*self.enter().await?.admin_key.get_or_insert(hash))
    }
}
