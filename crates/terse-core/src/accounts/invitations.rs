//! Invitations: links that create one account each.

use std::time::Duration;

use super::{AccountError, Accounts, BearerSecret, email_address, invalid};
use crate::mail::MailRequest;
use crate::principal::Principal;
use crate::registry::{Invitation, RegistryError, Role, SecretHash};

/// How long an invitation is valid, in seconds, unless the caller says otherwise.
const DEFAULT_TTL: u64 = 7 * 86_400;
const MAX_TTL: u64 = 30 * 86_400;
/// How many may be open at once, and how many of them by one moderator.
const MAX_INVITATIONS: usize = 1000;
const MAX_PER_MODERATOR: usize = 100;

/// An invitation to create.
#[derive(Clone, Debug)]
pub struct InvitationDraft {
    /// The role of the new account.
    pub role: Role,
    /// How long it is valid, in seconds; a week by default.
    pub ttl: Option<u64>,
    /// The address that the link is sent to; empty if the caller passes the link on.
    pub email: String,
}

/// A new invitation.
#[derive(Clone, Debug)]
pub struct IssuedInvitation {
    /// What the registry stores.
    pub invitation: Invitation,
    /// The link that creates the account. It is shown once and works once.
    pub url: String,
    /// Whether the link is sent by mail. It is not if too many mails wait.
    pub mailed: bool,
}

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

    /// Creates an invitation, and sends its link by mail if the draft has an address. Moderators
    /// invite accounts with the role `user` only.
    pub async fn invite(
        &self,
        principal: &Principal,
        InvitationDraft { role, ttl, email }: InvitationDraft,
    ) -> Result<IssuedInvitation, AccountError> {
        principal.require(Role::Moderator)?;
        if principal.role < Role::Admin && role > Role::User {
            let detail = "moderators invite accounts with the role user; this needs an admin";
            return Err(AccountError::forbidden(detail).on("role"));
        }
        let to = email_address(&email)?;
        if to.is_some() && self.mail.is_none() {
            let detail = "this server sends no mail: leave it out and send the link yourself";
            return Err(invalid("email", detail).into());
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
        let url = format!("{}/join?token={}", self.hosts.api_base(), secret.reveal());
        let mailed = to.zip(self.mail.as_ref()).is_some_and(|(to, queue)| {
            queue.push(
                MailRequest::Invitation { to, url: url.clone(), expires_at },
                self.clock.now(),
            )
        });
        Ok(IssuedInvitation { invitation, url, mailed })
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
