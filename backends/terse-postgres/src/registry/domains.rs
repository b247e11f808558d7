//! Short domains that were added at run time, hosts that moderators blocked, and the look of
//! pages.

use std::sync::Once;

use async_trait::async_trait;
use terse_core::registry::{
    Attribution, AuditRecord, BlockedHost, BlocklistStore, BrandingStore, DomainConfig,
    DomainStore, RegistryError, RegistrySnapshot, RegistrySnapshots, RegistryVersion,
};
use terse_core::{Branding, Domain, OwnerId, Target};

use super::accounts::SUSPENDED;
use super::rows::{self, get, id};
use super::step::step;
use super::{Answer, PostgresRegistry, all, first};
use crate::failure::{Failure, corrupt};
use crate::sql::{SqlTimestamp, params};

const DOMAINS: &str = "SELECT domain, root, not_found, expired FROM domains ORDER BY domain";
const BLOCKED_HOSTS: &str = "SELECT host, at, why FROM blocked_hosts ORDER BY host";
const BRANDING: &str = "SELECT value FROM registry_facts WHERE name = 'branding'";
const VERSION: &str = "SELECT incarnation, version FROM registry_store";

#[async_trait]
impl DomainStore for PostgresRegistry {
    async fn domain_configs(&self) -> Answer<Vec<DomainConfig>> {
        Ok(all(&self.query(DOMAINS, &[]).await?, rows::domain_config)?)
    }

    async fn put_domain(&self, config: DomainConfig, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| {
            let DomainConfig { domain, root, not_found, expired } = &config;
            let sql = "SELECT domain, root, not_found, expired FROM domains WHERE domain = $1";
            let before = step.one(sql, params![domain.as_str()], rows::domain_config).await?;
            if before.as_ref() == Some(&config) {
                return Ok(());
            }
            let text =
                |target: &Option<Target>| target.as_ref().map(|target| target.as_str().to_owned());
            step.run(
                "INSERT INTO domains (domain, root, not_found, expired) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (domain) DO UPDATE SET root = excluded.root, \
                 not_found = excluded.not_found, expired = excluded.expired",
                params![domain.as_str(), text(root), text(not_found), text(expired)],
            )
            .await?;
            step.change_version();
            step.write(&AuditRecord::domain_changed(before.as_ref(), &config), &by).await?;
            Ok(())
        })
    }

    async fn remove_domain(&self, domain: &Domain, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| {
            let sql = "DELETE FROM domains WHERE domain = $1 \
                 RETURNING domain, root, not_found, expired";
            let removed = step
                .one(sql, params![domain.as_str()], rows::domain_config)
                .await?
                .ok_or(RegistryError::Missing)?;
            step.change_version();
            step.write(&AuditRecord::domain_removed(&removed), &by).await?;
            Ok(())
        })
    }
}

fn branding(rows: &[tokio_postgres::Row]) -> Result<Branding, Failure> {
    Ok(first(rows, one_branding)?.unwrap_or_default())
}

/// What cannot be read counts as not set: suspensions and blocks are in the same snapshot.
fn one_branding(row: &tokio_postgres::Row) -> Result<Branding, Failure> {
    static WARNING: Once = Once::new();
    let text = str::from_utf8(get(row, 0)?).unwrap_or_default();
    Ok(Branding::from_stored(text).unwrap_or_else(|error| {
        WARNING.call_once(|| {
            tracing::warn!(%error, "the stored branding cannot be read; the settings apply");
        });
        Branding::default()
    }))
}

#[async_trait]
impl BrandingStore for PostgresRegistry {
    async fn branding(&self) -> Answer<Branding> {
        Ok(branding(&self.query(BRANDING, &[]).await?)?)
    }

    async fn put_branding(&self, branding: Branding, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| {
            let before = step.one(BRANDING, &[], one_branding).await?.unwrap_or_default();
            if before == branding {
                return Ok(());
            }
            step.run(
                "INSERT INTO registry_facts VALUES ('branding', $1) \
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                params![branding.to_stored().into_bytes()],
            )
            .await?;
            step.change_version();
            step.write(&AuditRecord::branding_changed(&before, &branding), &by).await?;
            Ok(())
        })
    }
}

#[async_trait]
impl BlocklistStore for PostgresRegistry {
    async fn blocked_hosts(&self) -> Answer<Vec<BlockedHost>> {
        Ok(all(&self.query(BLOCKED_HOSTS, &[]).await?, rows::blocked_host)?)
    }

    async fn block_host(&self, host: BlockedHost, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| {
            let added = step
                .run(
                    "INSERT INTO blocked_hosts (host, at, why) VALUES ($1, $2, $3) \
                     ON CONFLICT DO NOTHING",
                    params![host.host, SqlTimestamp(host.at), host.why],
                )
                .await?;
            if added > 0 {
                step.change_version();
                step.write(&AuditRecord::host_blocked(&host), &by).await?;
            }
            Ok(())
        })
    }

    async fn unblock_host(&self, host: &str, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| {
            let sql = "DELETE FROM blocked_hosts WHERE host = $1 RETURNING host, at, why";
            let host = step
                .one(sql, params![host], rows::blocked_host)
                .await?
                .ok_or(RegistryError::Missing)?;
            step.change_version();
            step.write(&AuditRecord::host_unblocked(&host), &by).await?;
            Ok(())
        })
    }
}

fn version(rows: &[tokio_postgres::Row]) -> Result<RegistryVersion, Failure> {
    let read = |row: &tokio_postgres::Row| {
        Ok(RegistryVersion { incarnation: id(row, 0)?, version: id(row, 1)? })
    };
    first(rows, read)?.ok_or_else(|| corrupt("the registry has no version").into())
}

impl PostgresRegistry {
    /// All statements see the state of the first one.
    async fn read_snapshot(&self) -> Result<RegistrySnapshot, Failure> {
        let transaction = self.pool.begin_snapshot().await?;
        let version = version(&transaction.query(VERSION, &[]).await?)?;
        let suspended = transaction.query(SUSPENDED, &[]).await?;
        let domains = transaction.query(DOMAINS, &[]).await?;
        let blocked_hosts = transaction.query(BLOCKED_HOSTS, &[]).await?;
        let set = transaction.query(BRANDING, &[]).await?;
        transaction.commit().await?;
        Ok(RegistrySnapshot {
            version,
            suspended: all(&suspended, |row| Ok(OwnerId(id(row, 0)?)))?,
            domains: all(&domains, rows::domain_config)?,
            blocked_hosts: all(&blocked_hosts, rows::blocked_host)?,
            branding: branding(&set)?,
        })
    }
}

#[async_trait]
impl RegistrySnapshots for PostgresRegistry {
    async fn version(&self) -> Answer<RegistryVersion> {
        Ok(version(&self.query(VERSION, &[]).await?)?)
    }

    async fn snapshot(&self) -> Answer<RegistrySnapshot> {
        Ok(crate::pool::retried(|| self.read_snapshot()).await?)
    }
}
