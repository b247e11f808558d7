//! Reset links by mail, and the choices of an account.

use std::net::IpAddr;
use std::sync::Arc;

use super::profile::account_name;
use super::resets::{TTL, new_reset};
use super::{AccountError, Accounts, email_address, invalid};
use crate::clock::Clock;
use crate::mail::{Mail, MailQueue, MailRequest};
use crate::page_language::PageLanguage;
use crate::principal::Principal;
use crate::registry::{
    Account, AccountChange, AccountName, AccountPreferences, Actor, Attribution,
    ConditionalAccountChange, Registry, RegistryError,
};
use crate::time::Timestamp;

/// The longest name of a time zone, in bytes.
pub const MAX_TIME_ZONE: usize = 64;

/// Changes to the choices of an account; an empty text removes a choice.
#[derive(Clone, Debug, Default)]
pub struct PreferencesEdit {
    /// Where reset links are sent.
    pub email: String,
    /// The time zone.
    pub time_zone: String,
    /// The language tag.
    pub language: String,
    /// Whether the keyboard shortcuts of the dashboard are off.
    pub shortcuts_off: bool,
    /// The account's password, if it has one. A change of the email address needs it, because a
    /// reset link sent to the new address takes the account over.
    pub password: String,
}

impl Accounts {
    /// Asks for a reset link by mail. The answer is the same whether or not there is such an
    /// account: a job looks for it. Attempts count by address and by name.
    pub async fn mail_reset(
        &self,
        queue: &MailQueue,
        address: IpAddr,
        name: &str,
    ) -> Result<(), AccountError> {
        let name = account_name(name.trim())?;
        self.limits.sign_in(address, Some(&name.folded())).await?;
        queue.push(MailRequest::PasswordReset(name), self.clock.now());
        Ok(())
    }

    /// Changes what an account chose, in its own session.
    pub async fn set_preferences(
        &self,
        principal: &Principal,
        edit: PreferencesEdit,
    ) -> Result<Account, AccountError> {
        let account = self.own_account(principal).await?;
        let email = email_address(&edit.email)?;
        let time_zone = match edit.time_zone.trim() {
            "" => None,
            text if text.len() <= MAX_TIME_ZONE && jiff::tz::TimeZone::get(text).is_ok() => {
                Some(text.to_owned())
            }
            _ => return Err(invalid("time_zone", "choose one of the listed time zones").into()),
        };
        let language = match edit.language.as_str() {
            "" => None,
            tag => Some(
                PageLanguage::parse(tag)
                    .ok_or_else(|| invalid("language", "choose one of the listed languages"))?,
            ),
        };
        if email != account.preferences.email && account.password.is_some() {
            self.prove(&account, edit.password, "proof").await?;
        }
        let shortcuts_off = edit.shortcuts_off;
        let preferences = Some(AccountPreferences { email, time_zone, language, shortcuts_off });
        let change = AccountChange { preferences, ..AccountChange::default() };
        self.change(&account, change, self.by(account.id, None)).await
    }
}

/// Writes the mails that were asked for. The job that sends them calls it.
pub struct MailWriter {
    registry: Arc<dyn Registry>,
    clock: Clock,
    /// The address of the dashboard, without a slash at its end.
    base: String,
    /// The name of the server, in subjects.
    site: String,
}

impl MailWriter {
    /// Wires the writer.
    pub fn new(registry: Arc<dyn Registry>, clock: Clock, base: String, site: String) -> Self {
        Self { registry, clock, base, site }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The mail for a request; `None` if nothing is to be sent. Makes the reset link of an account,
    /// which replaces an earlier one.
    pub async fn write(&self, request: &MailRequest) -> Result<Option<Mail>, RegistryError> {
        match request {
            MailRequest::PasswordReset(name) => self.reset(name).await,
            MailRequest::Invitation { to, url, expires_at } => {
                let (site, at) = (&self.site, self.clock.now());
                let text = format!(
                    "You are invited to create an account on {site}:\n\n{url}\n\n\
                     The link works once, until {expires_at}.\n\
                     If you did not expect this mail, ignore it.\n"
                );
                let subject = format!("Your invitation to {site}");
                Ok(Some(Mail { to: to.clone(), subject, text, at }))
            }
        }
    }

    async fn reset(&self, name: &AccountName) -> Result<Option<Mail>, RegistryError> {
        let Some(account) = self.registry.account_by_name(name).await? else { return Ok(None) };
        let Some(to) = account.preferences.email.clone() else { return Ok(None) };
        if account.suspended.is_some() {
            return Ok(None);
        }
        let now = self.clock.now();
        let (secret, reset) = new_reset(now).map_err(|error| {
            RegistryError::Store(crate::store::StoreError::Unavailable(Box::new(error)))
        })?;
        let change = AccountChange { reset: Some(Some(reset)), ..AccountChange::default() };
        let why = Some("asked for on the sign-in page".to_owned());
        let by = Attribution { actor: Actor::Owner(account.id), at: now, why };
        let (id, expected) = (account.id, Some(account.revision));
        self.registry.change_account(ConditionalAccountChange { id, change, expected }, by).await?;
        let (site, base, hours) = (&self.site, &self.base, TTL.as_secs() / 3600);
        let name = &account.name;
        let text = format!(
            "{site} received a request for a new password for your account {name}. To choose \
             one:\n\n{base}/login/reset?token={secret}\n\n\
             The link works once, for {hours} hours.\n\
             If you did not request it, ignore this mail: your password does not change.\n"
        );
        Ok(Some(Mail { to, subject: format!("A new password for {site}"), text, at: now }))
    }
}
