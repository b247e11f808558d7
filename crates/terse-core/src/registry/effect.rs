//! What a change of an account brings about, the same in every registry.

use super::account::{User, UserChange};
use super::audit::Act;
use super::line::Line;
use crate::link::Revision;

/// All that is to be written, in one step.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The account as it is to be.
    pub user: User,
    /// The lines for the audit log, in this order.
    pub lines: Vec<Line>,
    /// Whether all its sessions end.
    pub ends_sessions: bool,
    /// Whether those who answer visitors must know.
    pub moves_watermark: bool,
}

impl UserChange {
    /// What comes of it; `None` if the account is like that already.
    pub fn effect(&self, before: &User) -> Option<Effect> {
        let mut changed = before.clone();
        let new_password = self.password.as_ref().is_some_and(|password| *password != before.password);
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
        // Names are equal in any case, but how it is written may change too.
        let is_changed = changed != *before || changed.name.as_str() != before.name.as_str();
        let mut after = changed.clone();
        if let Some(suspended) = &self.suspended {
            after.suspended = suspended.clone();
        }
        let is_judged = after.suspended != before.suspended;
        if !is_changed && !is_judged {
            return None;
        }
        after.revision = Revision(before.revision.0 + 1);
        let mut lines = Vec::new();
        if is_changed {
            lines.push(Line::user_changed(Act::UserChanged, before, &changed, new_password));
        }
        if is_judged {
            let act = if after.suspended.is_some() { Act::UserSuspended } else { Act::UserReinstated };
            lines.push(Line::user_changed(act, &changed, &after, false));
        }
        let now_suspended = after.suspended.is_some() && before.suspended.is_none();
        Some(Effect {
            ends_sessions: new_password || after.role < before.role || now_suspended,
            moves_watermark: after.suspended.is_some() != before.suspended.is_some(),
            user: after,
            lines,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::OwnerId;
    use crate::registry::{ForeignIdentity, NewUser, Role, Suspension, UserName};
    use crate::when::Moment;

    fn ann() -> User {
        let name = UserName::parse("Ann").unwrap();
        let password = Some("$argon2id$old".to_owned());
        NewUser { name, role: Role::Moderator, password, identity: None, created_at: Moment::from_ms(1) }.into_user(OwnerId(1000))
    }

    fn suspension(why: &str) -> Option<Suspension> {
        Some(Suspension { at: Moment::from_ms(5), why: why.into() })
    }

    #[test]
    fn sessions_end_with_the_password_a_lesser_role_and_a_suspension() {
        let change = UserChange::default;
        let identity = ForeignIdentity { issuer: "https://id.example".into(), subject: "7".into() };
        for (what, change, ends, moves) in [
            ("name", UserChange { name: UserName::parse("Bob"), ..change() }, false, false),
            ("case", UserChange { name: UserName::parse("ANN"), ..change() }, false, false),
            ("greater role", UserChange { role: Some(Role::Admin), ..change() }, false, false),
            ("lesser role", UserChange { role: Some(Role::User), ..change() }, true, false),
            ("password", UserChange { password: Some(Some("$argon2id$new".into())), ..change() }, true, false),
            ("no password", UserChange { password: Some(None), ..change() }, true, false),
            ("identity", UserChange { identity: Some(Some(identity)), ..change() }, false, false),
            ("suspension", UserChange { suspended: Some(suspension("spam")), ..change() }, true, true),
        ] {
            let effect = change.effect(&ann()).unwrap();
            assert_eq!((effect.ends_sessions, effect.moves_watermark), (ends, moves), "{what}");
            assert_eq!(effect.user.revision, Revision(2), "{what}");
            assert_eq!(effect.lines.len(), 1, "{what}");
        }
    }

    #[test]
    fn what_is_so_already_changes_nothing() {
        let same = UserChange {
            name: UserName::parse("Ann"),
            role: Some(Role::Moderator),
            password: Some(ann().password),
            identity: Some(None),
            suspended: Some(None),
        };
        assert!(same.effect(&ann()).is_none() && UserChange::default().effect(&ann()).is_none());
    }

    #[test]
    fn a_suspension_has_a_line_of_its_own() {
        let change = UserChange { role: Some(Role::Admin), suspended: Some(suspension("spam")), ..UserChange::default() };
        let suspended = change.effect(&ann()).unwrap();
        assert_eq!(suspended.lines.iter().map(|line| line.act).collect::<Vec<_>>(), [Act::UserChanged, Act::UserSuspended]);
        let other_reason = UserChange { suspended: Some(suspension("more spam")), ..UserChange::default() };
        let still = other_reason.effect(&suspended.user).unwrap();
        assert!(!still.moves_watermark && !still.ends_sessions);
        let back = UserChange { suspended: Some(None), ..UserChange::default() }.effect(&still.user).unwrap();
        assert!(back.moves_watermark && !back.ends_sessions);
        assert_eq!(back.lines[0].act, Act::UserReinstated);
        for line in suspended.lines.iter().chain(&still.lines).chain(&back.lines) {
            assert!(!format!("{line:?}").contains("argon2"), "{line:?}");
        }
    }
}
