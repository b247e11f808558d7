//! An account's own profile: reading, changing and erasing it.

use super::{AccountError, Accounts, ErasureProgress, Erasures, invalid};
use crate::principal::{Credential, Principal};
use crate::registry::{
    Account, AccountChange, AccountName, OidcIdentity, RegistryError, Webhook, subject,
};
use crate::validation::ValidationError;

/// Changes to the caller's own account; `None` keeps a value.
#[derive(Clone, Debug, Default)]
pub struct ProfileEdit {
    /// Another name.
    pub name: Option<String>,
    /// Another password.
    pub password: Option<String>,
    /// The current password, required to set another one.
    pub current_password: Option<String>,
}

/// Confirms that the caller intends to erase the account.
#[derive(Clone, Debug, Default)]
pub struct ErasureConfirmation {
    /// The password, where the account has one.
    pub password: Option<String>,
    /// The name of the account, where it has no password.
    pub confirm: Option<String>,
}

/// A subject of the audit log that belongs to the account which reads it.
#[derive(Clone, Debug)]
pub struct OwnSubject(String);

impl OwnSubject {
    /// As the audit log writes it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Accounts {
    /// The account of a principal. The operator's keys have none.
    pub async fn own_account(&self, principal: &Principal) -> Result<Account, AccountError> {
        if principal.credential == Credential::OperatorKey {
            return Err(AccountError::NoAccount);
        }
        self.registry.account(principal.owner()).await?.ok_or(AccountError::NoAccount)
    }

    /// Changes the caller's own account. A new password requires the current one. An account
    /// without a password sets its first one only in a session, so that a leaked key cannot take
    /// over the account. A new password ends all sessions but the caller's.
    pub async fn edit_profile(
        &self,
        principal: &Principal,
        edit: ProfileEdit,
    ) -> Result<Account, AccountError> {
        let account = self.own_account(principal).await?;
        let name = edit.name.as_deref().map(account_name).transpose()?;
        let password = match (edit.password, &account.password) {
            (None, _) => None,
            (Some(new), Some(_)) => {
                let current = edit.current_password.ok_or_else(|| {
                    invalid("current_password", "a new password needs the current one")
                })?;
                self.prove(&account, current, "current_password").await?;
                Some(Some(self.hash_new(new).await?))
            }
            (Some(new), None) if matches!(principal.credential, Credential::Session(_)) => {
                Some(Some(self.hash_new(new).await?))
            }
            (Some(_), None) => {
                let detail = "this account has no password; it gets its first one in the browser \
                              or from an admin";
                return Err(AccountError::forbidden(detail).on("password"));
            }
        };
        let session = match principal.credential {
            Credential::Session(token) if password.is_some() => {
                self.registry.session(&token, self.clock.now()).await?
            }
            _ => None,
        };
        let change = AccountChange { name, password, ..AccountChange::default() };
        let changed = self.change(&account, change, self.by(account.id, None)).await?;
        if let Some((session, _)) = session {
            self.registry.add_session(session, changed.revision).await?;
        }
        Ok(changed)
    }

    /// Changes the password of an account in its own session. Ends all its sessions, including this
    /// one.
    pub async fn change_password(
        &self,
        account: &Account,
        current: String,
        new: String,
    ) -> Result<Account, AccountError> {
        check_password(&account.name, &new)?;
        if account.password.is_some() {
            self.prove(account, current, "current").await?;
        }
        let password = Some(Some(self.hash_new(new).await?));
        let change = AccountChange { password, ..AccountChange::default() };
        self.change(account, change, self.by(account.id, None)).await
    }

    /// Erases the caller's own account, with everything that belongs to it.
    pub async fn erase_own(
        &self,
        erasures: &Erasures,
        principal: &Principal,
        proof: ErasureConfirmation,
    ) -> Result<ErasureProgress, AccountError> {
        let account = self.own_account(principal).await?;
        self.confirm_erasure(&account, proof).await?;
        let by = self.by(account.id, Some("asked for by its owner".to_owned()));
        Ok(erasures.erase(&*self.refresh, &account, by).await?)
    }

    /// Checks that the caller intends to erase this account.
    async fn confirm_erasure(
        &self,
        account: &Account,
        proof: ErasureConfirmation,
    ) -> Result<(), AccountError> {
        match (&account.password, proof.password, proof.confirm) {
            (Some(_), Some(password), _) => self.prove(account, password, "password").await,
            (Some(_), None, _) => Err(invalid("password", "this needs your password").into()),
            (None, _, Some(name)) if name.eq_ignore_ascii_case(account.name.as_str()) => Ok(()),
            (None, _, _) => Err(invalid("confirm", "this needs the name of your account").into()),
        }
    }

    /// Connects an account with an OpenID Connect identity, in its own session.
    pub async fn connect(
        &self,
        account: &Account,
        identity: OidcIdentity,
    ) -> Result<Account, AccountError> {
        let change = AccountChange { identity: Some(Some(identity)), ..AccountChange::default() };
        match self.change(account, change, self.by(account.id, None)).await {
            Err(AccountError::Registry(RegistryError::NameTaken)) => {
                Err(AccountError::IdentityTaken)
            }
            connected => connected,
        }
    }

    /// Disconnects the identity, if the account can sign in with a password.
    pub async fn disconnect(&self, account: &Account) -> Result<Account, AccountError> {
        if account.password.is_none() {
            return Err(AccountError::forbidden("this is the only way to sign in"));
        }
        let change = AccountChange { identity: Some(None), ..AccountChange::default() };
        self.change(account, change, self.by(account.id, None)).await
    }

    /// The webhooks of the caller's own account, for its export.
    pub async fn webhooks(&self, principal: &Principal) -> Result<Vec<Webhook>, AccountError> {
        let account = self.own_account(principal).await?;
        Ok(self.registry.webhooks(account.id).await?)
    }

    /// What the audit log calls the caller's own account.
    pub fn own_subject(&self, principal: &Principal) -> OwnSubject {
        OwnSubject(subject::account(principal.owner()))
    }

    /// What the audit log calls the caller's own account, its keys and its webhooks.
    pub async fn own_subjects(
        &self,
        principal: &Principal,
    ) -> Result<Vec<OwnSubject>, AccountError> {
        let account = self.own_account(principal).await?;
        let keys = self.registry.keys(account.id).await?;
        let webhooks = self.registry.webhooks(account.id).await?;
        let keys = keys.iter().map(|key| subject::key(key.id));
        let webhooks = webhooks.iter().map(|webhook| subject::webhook(webhook.id));
        let all = keys.chain(webhooks).chain([subject::account(account.id)]);
        Ok(all.map(OwnSubject).collect())
    }
}

/// Checks an account name.
pub(super) fn account_name(text: &str) -> Result<AccountName, ValidationError> {
    let detail = format!(
        "the name must have {} to {} letters, digits or . _ - + @ and begin with a letter or digit",
        AccountName::MIN,
        AccountName::MAX
    );
    AccountName::parse(text).ok_or_else(|| invalid("name", detail))
}

/// Checks the length of a new password.
pub(super) fn check_password_length(password: &str) -> Result<(), ValidationError> {
    let least = super::MIN_PASSWORD_LEN;
    if password.chars().count() < least {
        let detail = format!("the password must have at least {least} characters");
        return Err(invalid("password", detail));
    }
    Ok(())
}

/// Checks a new password of the account with this name.
pub(super) fn check_password(name: &AccountName, password: &str) -> Result<(), ValidationError> {
    check_password_length(password)?;
    if password.eq_ignore_ascii_case(name.as_str()) {
        return Err(invalid("password", "the password must differ from the name"));
    }
    Ok(())
}
