//! Hosts that moderators block, each with all its subdomains.

use super::{Moderation, ModerationError};
use crate::host::canonical_host;
use crate::principal::Principal;
use crate::registry::{BlockedHost, RegistryError, Role};

/// The largest number of blocked hosts; more belong in a blocklist file.
const MAX_HOSTS: usize = 10_000;

impl Moderation {
    /// All blocked hosts, by name. Only for moderators and admins.
    pub async fn blocked_hosts(
        &self,
        principal: &Principal,
    ) -> Result<Vec<BlockedHost>, ModerationError> {
        principal.require(Role::Moderator)?;
        Ok(self.registry.blocked_hosts().await?)
    }

    /// Blocks a host. The block is in force on this node when this returns. `false` if it was
    /// blocked before; then nothing changes.
    pub async fn block_host(
        &self,
        principal: &Principal,
        host: &str,
        why: String,
    ) -> Result<(BlockedHost, bool), ModerationError> {
        principal.require(Role::Moderator)?;
        let host = self.links.parse_blockable_host(host.trim_matches(' '))?;
        let blocked = self.registry.blocked_hosts().await?;
        if let Some(before) = blocked.iter().find(|before| before.host == host) {
            return Ok((before.clone(), false));
        }
        if blocked.len() >= MAX_HOSTS {
            return Err(ModerationError::TooManyHosts(MAX_HOSTS));
        }
        let by = self.by(principal.owner(), Some(why.clone()));
        let blocked = BlockedHost { host, at: by.at, why: Some(why) };
        self.registry.block_host(blocked.clone(), by).await?;
        self.refresh.refresh().await;
        Ok((blocked, true))
    }

    /// Unblocks a host. The change is in force on this node when this returns.
    pub async fn unblock_host(
        &self,
        principal: &Principal,
        host: &str,
        why: Option<String>,
    ) -> Result<(), ModerationError> {
        principal.require(Role::Moderator)?;
        // Skips the checks for blocking, so that every blocked host can be unblocked.
        let host = canonical_host(host.trim_matches(' ')).ok_or(ModerationError::NotBlocked)?;
        match self.registry.unblock_host(&host, self.by(principal.owner(), why)).await {
            Err(RegistryError::Missing) => return Err(ModerationError::NotBlocked),
            unblocked => unblocked?,
        }
        self.refresh.refresh().await;
        Ok(())
    }
}
