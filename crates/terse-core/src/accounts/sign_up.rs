//! Sign-up: by the set-up link, an invitation, open sign-up, or an OpenID Connect identity.

use std::net::IpAddr;

use super::profile::{account_name, check_password};
use super::{AccountError, Accounts, BearerSecret};
use crate::limits::LimitReached;
use crate::registry::{
    Account, AccountName, Actor, Attribution, NewAccount, OidcIdentity, RegistryError, Role,
};

/// The longest token, in bytes.
const MAX_TOKEN_LEN: usize = 512;

/// How an account is created at sign-up.
#[derive(Clone, Debug)]
pub enum SignUp<'a> {
    /// The set-up link with this token: the first admin.
    Setup(&'a str),
    /// An invitation with this token.
    Invitation(&'a str),
    /// Open sign-up.
    Open,
}

/// A user that an OpenID Connect provider has authenticated.
#[derive(Clone, Debug)]
pub struct OidcAccount {
    /// Their identity at the provider.
    pub identity: OidcIdentity,
    /// Names to try, the best first.
    pub names: Vec<String>,
}

impl Accounts {
    /// Whether this way is open. A closed one answers like a page that does not exist.
    pub async fn is_open(&self, way: &SignUp<'_>) -> Result<bool, AccountError> {
        Ok(match way {
            SignUp::Setup(token) => {
                self.registry.awaits_setup_by(&BearerSecret::hash(token)).await?
            }
            SignUp::Invitation(token) => !token.is_empty() && token.len() <= MAX_TOKEN_LEN,
            SignUp::Open => self.policy.open,
        })
    }

    /// Creates an account with a name and a password. Attempts count by address, because hashing
    /// costs time and every answer reveals whether a name is taken. `LinkOver` if the link is used,
    /// withdrawn or expired.
    pub async fn sign_up(
        &self,
        way: &SignUp<'_>,
        address: IpAddr,
        name: &str,
        password: String,
    ) -> Result<Account, AccountError> {
        let name = account_name(name.trim())?;
        check_password(&name, &password)?;
        self.limits.sign_in(address, None).await?;
        let password = Some(self.hash_new(password).await?);
        self.add(way, NewAccount { password, ..self.draft(name, None) }).await
    }

    /// Counts an attempt to sign in with an OpenID Connect provider; `proof` completes it. A
    /// successful attempt does not count.
    pub async fn sign_in_oidc<T, E: From<LimitReached>>(
        &self,
        address: IpAddr,
        proof: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let attempt = self.limits.sign_in(address, None).await?;
        let proven = proof.await?;
        self.limits.succeeded(attempt).await;
        Ok(proven)
    }

    /// The account with an OpenID Connect identity.
    pub async fn by_identity(
        &self,
        identity: &OidcIdentity,
    ) -> Result<Option<Account>, AccountError> {
        Ok(self.registry.account_by_identity(identity).await?)
    }

    /// Creates an account for an OpenID Connect identity, under its name there or a similar one.
    /// `IdentityTaken` if an account has the identity already.
    pub async fn sign_up_oidc(
        &self,
        way: &SignUp<'_>,
        person: &OidcAccount,
    ) -> Result<Account, AccountError> {
        let mut random = [0; 4];
        getrandom::fill(&mut random)?;
        let suffix = format!("{:08x}", u32::from_be_bytes(random));
        let like = |name: &String| AccountName::parse(&format!("{name}-{}", &suffix[..4]));
        let names = person.names.iter().filter_map(|name| AccountName::parse(name));
        let spare = person.names.iter().filter_map(like);
        let last = AccountName::parse(&format!("user-{suffix}"));
        for name in names.chain(spare).chain(last) {
            let new = self.draft(name, Some(person.identity.clone()));
            match self.add(way, new).await {
                Err(AccountError::Registry(RegistryError::NameTaken)) => {
                    // Either the name or the identity is taken. Concurrent sign-ups of one identity
                    // also end here.
                    if self.by_identity(&person.identity).await?.is_some() {
                        return Err(AccountError::IdentityTaken);
                    }
                }
                made => return made,
            }
        }
        Err(RegistryError::NameTaken.into())
    }

    fn draft(&self, name: AccountName, identity: Option<OidcIdentity>) -> NewAccount {
        let created_at = self.clock.now();
        NewAccount { name, role: Role::User, password: None, identity, created_at }
    }

    async fn add(&self, way: &SignUp<'_>, account: NewAccount) -> Result<Account, AccountError> {
        let made = match way {
            SignUp::Setup(token) => {
                self.registry.take_setup(&BearerSecret::hash(token), account).await
            }
            SignUp::Invitation(token) => {
                self.registry.accept(&BearerSecret::hash(token), account).await
            }
            SignUp::Open => {
                let by = Attribution { actor: Actor::Terse, at: account.created_at, why: None };
                self.registry.add_account(account, by).await
            }
        };
        match made {
            Err(RegistryError::Missing) => Err(AccountError::LinkOver),
            made => Ok(made?),
        }
    }
}
