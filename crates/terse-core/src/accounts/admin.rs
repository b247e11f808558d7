//! Reading accounts, and the changes that admins make.

use super::keys::parse_plan;
use super::profile::account_name;
use super::{AccountError, Accounts, ErasureProgress, Erasures, invalid, reason};
use crate::link::OwnerId;
use crate::principal::Principal;
use crate::registry::{Account, AccountChange, NewAccount, Role};

/// An account that an admin creates.
#[derive(Clone, Debug, Default)]
pub struct AccountDraft {
    /// Its name.
    pub name: String,
    /// Its role; `user` if absent.
    pub role: Option<String>,
    /// Its password. Without one the account has only the keys that an admin creates for it.
    pub password: Option<String>,
}

/// Changes that an admin makes to an account; `None` keeps a value.
#[derive(Clone, Debug, Default)]
pub struct AccountEdit {
    /// Another name.
    pub name: Option<String>,
    /// Another role.
    pub role: Option<String>,
    /// Another password.
    pub password: Option<String>,
    /// Whether it is suspended. `true` needs a reason.
    pub suspended: Option<bool>,
    /// How many links it may create with all its keys; `Some(None)` for the usual limit.
    pub plan: Option<Option<String>>,
    /// Why, for the audit log.
    pub why: Option<String>,
}

impl Accounts {
    pub(super) async fn find(&self, id: OwnerId) -> Result<Account, AccountError> {
        self.registry.account(id).await?.ok_or(AccountError::NotFound("account"))
    }

    /// An account. Only for admins.
    pub async fn account(
        &self,
        principal: &Principal,
        id: OwnerId,
    ) -> Result<Account, AccountError> {
        principal.require(Role::Admin)?;
        self.find(id).await
    }

    /// The account with a name, in any case. Only for admins.
    pub async fn named(
        &self,
        principal: &Principal,
        name: &str,
    ) -> Result<Option<Account>, AccountError> {
        principal.require(Role::Admin)?;
        Ok(self.registry.account_by_name(&account_name(name)?).await?)
    }

    /// The name of an account. `None` for the operator, anonymous owners and erased accounts.
    pub async fn name_of(&self, id: OwnerId) -> Result<Option<String>, AccountError> {
        let account = self.registry.account(id).await?;
        Ok(account.map(|account| account.name.as_str().to_owned()))
    }

    /// Up to `limit` accounts after `after`, the oldest first. Only for admins.
    pub async fn accounts(
        &self,
        principal: &Principal,
        after: Option<OwnerId>,
        limit: usize,
    ) -> Result<Vec<Account>, AccountError> {
        principal.require(Role::Admin)?;
        Ok(self.registry.accounts(after, limit).await?)
    }

    /// Creates an account. Only for admins.
    pub async fn create(
        &self,
        principal: &Principal,
        draft: AccountDraft,
    ) -> Result<Account, AccountError> {
        principal.require(Role::Admin)?;
        let name = account_name(&draft.name)?;
        let role = draft.role.map_or(Ok(Role::User), |word| role_of(&word))?;
        let password = match draft.password {
            Some(password) => Some(self.hash_new(password).await?),
            None => None,
        };
        let by = self.by(principal.owner(), None);
        let new = NewAccount { name, role, password, identity: None, created_at: by.at };
        Ok(self.registry.add_account(new, by).await?)
    }

    /// Changes an account. Only for admins.
    pub async fn edit(
        &self,
        principal: &Principal,
        id: OwnerId,
        edit: AccountEdit,
    ) -> Result<Account, AccountError> {
        principal.require(Role::Admin)?;
        let name = edit.name.as_deref().map(account_name).transpose()?;
        let role = edit.role.as_deref().map(role_of).transpose()?;
        let why = edit.why.as_deref().map(reason).transpose()?;
        let account = self.find(id).await?;
        let suspended = match edit.suspended {
            None => None,
            Some(suspend) => {
                Self::may_suspend(principal, &account).map_err(|error| error.on("suspended"))?;
                let why = why.clone().filter(|_| suspend);
                if suspend && why.is_none() {
                    return Err(invalid("why", "a suspension needs a reason").into());
                }
                Some(why.map(|why| self.suspension(&account, why)))
            }
        };
        let password = match edit.password {
            Some(password) => Some(Some(self.hash_new(password).await?)),
            None => None,
        };
        let plan = match edit.plan {
            None => None,
            Some(None) => Some(None),
            Some(Some(plan)) => Some(Some(parse_plan(&plan)?.to_string())),
        };
        let change =
            AccountChange { name, role, password, suspended, plan, ..AccountChange::default() };
        self.change(&account, change, self.by(principal.owner(), why)).await
    }

    /// Erases another account, with everything that belongs to it. Only for admins.
    pub async fn erase(
        &self,
        erasures: &Erasures,
        principal: &Principal,
        id: OwnerId,
    ) -> Result<ErasureProgress, AccountError> {
        let account = self.account(principal, id).await?;
        if account.id == principal.owner() {
            return Err(AccountError::OwnAccount);
        }
        let by = self.by(principal.owner(), None);
        Ok(erasures.erase(&*self.refresh, &account, by).await?)
    }
}

/// Parses a role.
pub fn role_of(word: &str) -> Result<Role, crate::validation::ValidationError> {
    Role::parse(word).ok_or_else(|| invalid("role", "must be user, moderator or admin"))
}
