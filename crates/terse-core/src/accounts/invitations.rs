//! Invitations: links that create one account each.

use std::time::Duration;

use super::{AccountError, Accounts, BearerSecret, invalid};
use crate::principal::Principal;
use crate::registry::{Invitation, RegistryError, Role, SecretHash};

/// How long an invitation is valid, in seconds, unless the caller says otherwise.
const DEFAULT_TTL: u64 = 7 * 86_400;
const MAX_TTL: u64 = 30 * 86_400;
/// How many may be open at once, and how many of them by one moderator.
const MAX_INVITATIONS: usize = 1000;
const MAX_PER_MODERATOR: usize = 100;

impl Accounts {
    /// The open invitations that the principal may see: a moderator's own, or all for an admin.
    pub async fn invitations(
        &self,
        principal: &Principal,
    ) -> Result<Vec<Invitation>, AccountError> {
        let mut open = self.open_invitations().await?;
        let own = principal.owner();
        open.retain(|invitation| principal.role == Role::Admin || invitation.by == own);
        Ok(open)
    }

    /// Whether an invitation can still be used. Its use also checks whether its author may still
    /// invite.
    pub async fn is_invited(&self, token: &str) -> Result<bool, AccountError> {
        let token = BearerSecret::hash(token);
        Ok(self.open_invitations().await?.iter().any(|invitation| invitation.token == token))
    }

    /// Creates an invitation. Returns the token for its link, shown once, and the stored
    /// invitation. Moderators invite users only.
    pub async fn invite(
        &self,
        principal: &Principal,
        role: Role,
        ttl: Option<u64>,
    ) -> Result<(String, Invitation), AccountError> {
        principal.require(Role::Moderator)?;
        if principal.role < Role::Admin && role > Role::User {
            let detail = "moderators invite users; this needs an admin";
            return Err(AccountError::forbidden(detail).on("role"));
        }
        let ttl = ttl.unwrap_or(DEFAULT_TTL);
        let by = self.by(principal.owner(), None);
        let end = by.at.checked_add(Duration::from_secs(ttl));
        let end = end.filter(|_| (1..=MAX_TTL).contains(&ttl));
        let expires_at =
            end.ok_or_else(|| invalid("ttl", format!("1 to {MAX_TTL} seconds, which is 30 days")))?;
        let open = self.open_invitations().await?;
        let own = open.iter().filter(|invitation| invitation.by == principal.owner()).count();
        let is_admin = principal.role == Role::Admin;
        if open.len() >= MAX_INVITATIONS || !is_admin && own >= MAX_PER_MODERATOR {
            let limit =
                if open.len() >= MAX_INVITATIONS { MAX_INVITATIONS } else { MAX_PER_MODERATOR };
            return Err(AccountError::TooMany { what: "invitations", limit });
        }
        let secret = BearerSecret::key()?;
        let token = secret.token();
        let invitation = Invitation { token, role, by: principal.owner(), expires_at };
        self.registry.invite(invitation.clone(), by).await?;
        Ok((secret.reveal(), invitation))
    }

    /// Withdraws the invitation that `is_wanted` selects, among those the principal may see.
    pub async fn revoke_invitation(
        &self,
        principal: &Principal,
        is_wanted: impl Fn(&SecretHash) -> bool,
    ) -> Result<(), AccountError> {
        let open = self.invitations(principal).await?;
        let wanted = open.iter().find(|invitation| is_wanted(&invitation.token));
        let missing = || AccountError::NotFound("invitation");
        let wanted = wanted.ok_or_else(missing)?;
        let by = self.by(principal.owner(), None);
        match self.registry.revoke_invitation(&wanted.token, by).await {
            Err(RegistryError::Missing) => Err(missing()),
            revoked => Ok(revoked?),
        }
    }

    async fn open_invitations(&self) -> Result<Vec<Invitation>, AccountError> {
        Ok(self.registry.invitations(self.clock.now(), MAX_INVITATIONS).await?)
    }
}
