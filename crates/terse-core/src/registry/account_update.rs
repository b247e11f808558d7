//! The effects of a change of an account, the same in every registry.

use super::account::{Account, AccountChange};
use super::audit::AuditAction;
use super::audit_record::AuditRecord;
use crate::link::Revision;

/// Everything that the registry writes, in one step.
#[derive(Clone, Debug)]
pub struct AccountUpdate {
    /// The changed account.
    pub account: Account,
    /// The records for the audit log, in this order.
    pub lines: Vec<AuditRecord>,
    /// Whether all its sessions end, and with them its reset link.
    pub ends_sessions: bool,
    /// Whether the registry version changes, so that the redirect plane reads it again.
    pub bumps_version: bool,
}

impl AccountChange {
    /// The effects on an account; `None` if nothing changes.
    pub fn effect(&self, before: &Account) -> Option<AccountUpdate> {
        let mut changed = before.clone();
        let new_password =
            self.password.as_ref().is_some_and(|password| *password != before.password);
        if let Some(name) = &self.name {
            changed.name = name.clone();
        }
        changed.role = self.role.unwrap_or(changed.role);
        if let Some(password) = &self.password {
            changed.password = password.clone();
        }
        if let Some(identity) = &self.identity {
            changed.identity = identity.clone();
        }
        if let Some(plan) = &self.plan {
            changed.plan = plan.clone();
        }
        // Names compare without case, but a change of case is a change too.
        let is_changed = changed != *before || changed.name.as_str() != before.name.as_str();
        let mut after = changed.clone();
        if let Some(suspended) = &self.suspended {
            after.suspended = suspended.clone();
        }
        let suspension_changed = after.suspended != before.suspended;
        let now_suspended = after.suspended.is_some() && before.suspended.is_none();
        let ends_sessions = new_password || after.role < before.role || now_suspended;
        if let Some(reset) = &self.reset {
            after.reset = reset.clone();
        } else if ends_sessions {
            after.reset = None;
        }
        if let Some(two_factor) = &self.two_factor {
            after.two_factor = two_factor.clone();
        }
        if let Some(preferences) = &self.preferences {
            after.preferences = preferences.clone();
        }
        let is_reset = new_password && before.reset.is_some() && self.reset == Some(None);
        // The audit log has no email address, so it does not tell of other choices.
        let is_same = after.reset == before.reset
            && after.two_factor == before.two_factor
            && after.preferences == before.preferences;
        if !is_changed && !suspension_changed && is_same {
            return None;
        }
        after.revision = Revision(before.revision.0 + 1);
        let mut lines = Vec::new();
        if is_changed {
            let act = if is_reset { AuditAction::ResetLinkUsed } else { AuditAction::UserChanged };
            lines.push(AuditRecord::account_changed(act, before, &changed, new_password));
        }
        if let Some(reset) = after.reset.as_ref().filter(|_| after.reset != before.reset) {
            lines.push(AuditRecord::reset_link_made(after.id, reset));
        }
        lines.extend(two_factor_line(before, &after));
        if suspension_changed {
            let act = if after.suspended.is_some() {
                AuditAction::UserSuspended
            } else {
                AuditAction::UserReinstated
            };
            lines.push(AuditRecord::account_changed(act, &changed, &after, false));
        }
        Some(AccountUpdate {
            ends_sessions,
            bumps_version: after.suspended.is_some() != before.suspended.is_some(),
            account: after,
            lines,
        })
    }
}

/// What the audit log tells of two-factor sign-in; nothing about an accepted code of the app.
fn two_factor_line(before: &Account, after: &Account) -> Option<AuditRecord> {
    let act = match (&before.two_factor, &after.two_factor) {
        (None, Some(_)) => AuditAction::TwoFactorOn,
        (Some(_), None) => AuditAction::TwoFactorOff,
        (Some(old), Some(new)) if old.recovery != new.recovery => AuditAction::RecoveryCodeUsed,
        _ => return None,
    };
    Some(AuditRecord::two_factor_changed(act, before, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::OwnerId;
    use crate::registry::{
        AccountName, NewAccount, OidcIdentity, PasswordReset, Role, SecretHash, Suspension,
        TotpSeed, TwoFactor,
    };
    use crate::time::Timestamp;

    fn ann() -> Account {
        let name = AccountName::parse("Ann").unwrap();
        let password = Some("$argon2id$old".to_owned());
        NewAccount {
            name,
            role: Role::Moderator,
            password,
            identity: None,
            created_at: Timestamp::from_ms(1),
        }
        .into_account(OwnerId(1000))
    }

    fn suspension(why: &str) -> Option<Suspension> {
        Some(Suspension { at: Timestamp::from_ms(5), why: why.into() })
    }

    #[test]
    fn sessions_end_with_the_password_a_lesser_role_and_a_suspension() {
        let change = AccountChange::default;
        let identity = OidcIdentity { issuer: "https://id.example".into(), subject: "7".into() };
        for (what, change, ends, moves) in [
            ("name", AccountChange { name: AccountName::parse("Bob"), ..change() }, false, false),
            ("case", AccountChange { name: AccountName::parse("ANN"), ..change() }, false, false),
            ("greater role", AccountChange { role: Some(Role::Admin), ..change() }, false, false),
            ("lesser role", AccountChange { role: Some(Role::User), ..change() }, true, false),
            (
                "password",
                AccountChange { password: Some(Some("$argon2id$new".into())), ..change() },
                true,
                false,
            ),
            ("no password", AccountChange { password: Some(None), ..change() }, true, false),
            (
                "identity",
                AccountChange { identity: Some(Some(identity)), ..change() },
                false,
                false,
            ),
            ("plan", AccountChange { plan: Some(Some("500/h".into())), ..change() }, false, false),
            (
                "suspension",
                AccountChange { suspended: Some(suspension("spam")), ..change() },
                true,
                true,
            ),
        ] {
            let effect = change.effect(&ann()).unwrap();
            assert_eq!((effect.ends_sessions, effect.bumps_version), (ends, moves), "{what}");
            assert_eq!(effect.account.revision, Revision(2), "{what}");
            assert_eq!(effect.lines.len(), 1, "{what}");
        }
    }

    #[test]
    fn what_is_so_already_changes_nothing() {
        let same = AccountChange {
            name: AccountName::parse("Ann"),
            role: Some(Role::Moderator),
            password: Some(ann().password),
            identity: Some(None),
            suspended: Some(None),
            plan: Some(None),
            reset: Some(None),
            two_factor: Some(None),
            preferences: Some(ann().preferences),
        };
        assert!(same.effect(&ann()).is_none() && AccountChange::default().effect(&ann()).is_none());
    }

    #[test]
    fn a_reset_link_ends_with_the_password_a_lesser_role_and_a_suspension() {
        let change = AccountChange::default;
        let link = |n: u8| {
            Some(PasswordReset { token: SecretHash([n; 32]), expires_at: Timestamp::from_ms(9) })
        };
        let offered = AccountChange { reset: Some(link(1)), ..change() }.effect(&ann()).unwrap();
        assert!(!offered.ends_sessions && offered.account.reset == link(1));
        assert_eq!(offered.lines[0].act, AuditAction::ResetLinkMade);
        let before = offered.account;
        let new = || Some(Some("$argon2id$new".to_owned()));
        let renamed = AccountChange { name: AccountName::parse("Bob"), ..change() };
        for (what, change, left, act) in [
            ("name", renamed, link(1), AuditAction::UserChanged),
            (
                "other link",
                AccountChange { reset: Some(link(2)), ..change() },
                link(2),
                AuditAction::ResetLinkMade,
            ),
            (
                "password",
                AccountChange { password: new(), ..change() },
                None,
                AuditAction::UserChanged,
            ),
            (
                "role",
                AccountChange { role: Some(Role::User), ..change() },
                None,
                AuditAction::UserChanged,
            ),
            (
                "suspension",
                AccountChange { suspended: Some(suspension("spam")), ..change() },
                None,
                AuditAction::UserSuspended,
            ),
            (
                "its use",
                AccountChange { password: new(), reset: Some(None), ..change() },
                None,
                AuditAction::ResetLinkUsed,
            ),
        ] {
            let effect = change.effect(&before).unwrap();
            assert_eq!(effect.account.reset, left, "{what}");
            assert_eq!(effect.lines.iter().map(|line| line.act).collect::<Vec<_>>(), [act]);
        }
        let same = AccountChange { reset: Some(link(1)), ..change() };
        assert!(same.effect(&before).is_none());
    }

    #[test]
    fn two_factor_sign_in_is_recorded_and_ends_no_session() {
        let state = |last_step, left| TwoFactor {
            seed: TotpSeed([1; 16]),
            last_step,
            recovery: vec![SecretHash([3; 32]); left],
        };
        let change =
            |two_factor| AccountChange { two_factor: Some(two_factor), ..AccountChange::default() };
        let mut account = ann();
        for (n, (after, act)) in (2..).zip([
            (Some(state(5, 10)), Some(AuditAction::TwoFactorOn)),
            (Some(state(6, 10)), None),
            (Some(state(6, 9)), Some(AuditAction::RecoveryCodeUsed)),
            (None, Some(AuditAction::TwoFactorOff)),
        ]) {
            let effect = change(after.clone()).effect(&account).unwrap();
            assert_eq!(
                effect.lines.iter().map(|line| line.act).collect::<Vec<_>>(),
                act.as_slice()
            );
            assert!(!effect.ends_sessions && !effect.bumps_version);
            assert_eq!((&effect.account.two_factor, effect.account.revision.0), (&after, n));
            assert!(change(after).effect(&effect.account).is_none());
            account = effect.account;
        }
    }

    #[test]
    fn a_suspension_has_a_line_of_its_own() {
        let change = AccountChange {
            role: Some(Role::Admin),
            suspended: Some(suspension("spam")),
            ..AccountChange::default()
        };
        let suspended = change.effect(&ann()).unwrap();
        assert_eq!(
            suspended.lines.iter().map(|line| line.act).collect::<Vec<_>>(),
            [AuditAction::UserChanged, AuditAction::UserSuspended]
        );
        let other_reason =
            AccountChange { suspended: Some(suspension("more spam")), ..AccountChange::default() };
        let still = other_reason.effect(&suspended.account).unwrap();
        assert!(!still.bumps_version && !still.ends_sessions);
        let back = AccountChange { suspended: Some(None), ..AccountChange::default() }
            .effect(&still.account)
            .unwrap();
        assert!(back.bumps_version && !back.ends_sessions);
        assert_eq!(back.lines[0].act, AuditAction::UserReinstated);
        for line in suspended.lines.iter().chain(&still.lines).chain(&back.lines) {
            assert!(!format!("{line:?}").contains("argon2"), "{line:?}");
        }
    }
}
