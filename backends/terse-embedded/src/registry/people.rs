//! Writing accounts: made, changed, erased.

use rusqlite::params;
use terse_core::OwnerId;
use terse_core::registry::{
    Actor, By, Change, ForeignIdentity, Line, NewUser, RegistryError, Role, Token, User, UserName, forget_person,
};

use crate::failure::Failure;
use crate::registry::outbox::{EMPTY_OF, REMOVE_OF};
use crate::registry::rows::{self, audit_columns, filed};
use crate::registry::scribe::{Scribe, Trouble};

pub(crate) const NAME_TAKEN: &str = "SELECT 1 FROM users WHERE name = ?1 AND id <> ?2";
pub(crate) const IDENTITY_TAKEN: &str = "SELECT 1 FROM users WHERE issuer = ?1 AND subject = ?2 AND id <> ?3";
pub(crate) const OTHER_ADMIN: &str =
    "SELECT 1 FROM users INDEXED BY users_governing WHERE role = 'admin' AND suspended_at IS NULL AND id <> ?1 LIMIT 1";
pub(crate) const LINES_ABOUT: &str = concat!("SELECT ", audit_columns!(), " FROM audit WHERE about = ?1");
const ADD: &str = "INSERT INTO users (name, role, created_at, password, issuer, subject, revision) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)";
const CHANGE: &str = "UPDATE users SET name = ?2, role = ?3, password = ?4, issuer = ?5, subject = ?6, \
     suspended_at = ?7, suspended_why = ?8, revision = ?9 WHERE id = ?1";
pub(crate) const ERASE: [&str; 7] = [
    "DELETE FROM users WHERE id = ?1",
    "DELETE FROM keys WHERE owner = ?1",
    END_SESSIONS,
    "DELETE FROM invitations WHERE writer = ?1",
    EMPTY_OF,
    REMOVE_OF,
    "UPDATE reports SET account = NULL, text = NULL WHERE account = ?1",
];
pub(crate) const END_SESSIONS: &str = "DELETE FROM sessions WHERE owner = ?1";

impl Scribe {
    pub(crate) fn offer_setup(&self, token: &Token) -> Result<bool, Trouble> {
        if self.any("SELECT 1 FROM meta WHERE name = 'had_admin'", [])? {
            return Ok(false);
        }
        self.run("INSERT OR REPLACE INTO meta VALUES ('setup', ?1)", [token.0])?;
        Ok(true)
    }

    pub(crate) fn take_setup(&self, token: &Token, user: &NewUser) -> Result<User, Trouble> {
        if self.setup()? != Some(*token) {
            return Err(RegistryError::Missing.into());
        }
        self.come(NewUser { role: Role::Admin, ..user.clone() }, None)
    }

    pub(crate) fn add_user(&self, user: &NewUser, by: &By) -> Result<User, Trouble> {
        let user = self.make(user.clone())?;
        self.write(&Line::user_added(&user, None), by)?;
        Ok(user)
    }

    /// Makes an account whose owner is the one who makes it.
    pub(crate) fn come(&self, user: NewUser, invited_by: Option<OwnerId>) -> Result<User, Trouble> {
        let at = user.created_at;
        let user = self.make(user)?;
        self.write(&Line::user_added(&user, invited_by), &By { actor: Actor::Owner(user.id), at, why: None })?;
        Ok(user)
    }

    fn make(&self, user: NewUser) -> Result<User, Trouble> {
        self.refuse_taken(None, &user.name, user.identity.as_ref())?;
        let NewUser { name, role, password, identity, created_at } = &user;
        let (issuer, subject) = parts(identity.as_ref());
        let row = params![name.as_str(), role.as_str(), created_at.as_ms(), password, issuer, subject];
        let user = user.clone().into_user(OwnerId(self.insert(ADD, row)?));
        self.crown(&user)?;
        Ok(user)
    }

    fn refuse_taken(&self, but: Option<OwnerId>, name: &UserName, identity: Option<&ForeignIdentity>) -> Result<(), Trouble> {
        let but = but.map_or(-1, |id| filed(id.0));
        let mut taken = self.any(NAME_TAKEN, params![name.as_str(), but])?;
        if let Some(ForeignIdentity { issuer, subject }) = identity {
            taken |= self.any(IDENTITY_TAKEN, params![issuer, subject, but])?;
        }
        if taken { Err(RegistryError::NameTaken.into()) } else { Ok(()) }
    }

    /// Once there was an admin, nobody can become the first.
    fn crown(&self, user: &User) -> Result<(), Failure> {
        if user.role == Role::Admin {
            self.run("INSERT OR REPLACE INTO meta VALUES ('had_admin', 1)", [])?;
            self.run("DELETE FROM meta WHERE name = 'setup'", [])?;
        }
        Ok(())
    }

    pub(crate) fn change_user(&self, change: &Change, by: &By) -> Result<User, Trouble> {
        let Change { id, change, expected } = change;
        let before = self.user(*id)?.ok_or(RegistryError::Missing)?;
        if expected.is_some_and(|expected| expected != before.revision) {
            return Err(RegistryError::Conflict.into());
        }
        let Some(effect) = change.effect(&before) else {
            return Ok(before);
        };
        let User { name, role, password, identity, suspended, revision, .. } = &effect.user;
        self.refuse_taken(Some(*id), name, identity.as_ref())?;
        if !effect.user.governs() {
            self.refuse_last_admin(&before)?;
        }
        let (issuer, subject) = parts(identity.as_ref());
        let (at, why) = (suspended.as_ref().map(|since| since.at.as_ms()), suspended.as_ref().map(|since| &since.why));
        let revision = filed(revision.0);
        let row = params![filed(id.0), name.as_str(), role.as_str(), password, issuer, subject, at, why, revision];
        self.run(CHANGE, row)?;
        self.crown(&effect.user)?;
        if effect.ends_sessions {
            self.run(END_SESSIONS, [filed(id.0)])?;
        }
        if effect.moves_watermark {
            self.move_watermark()?;
        }
        for line in &effect.lines {
            self.write(line, by)?;
        }
        Ok(effect.user)
    }

    fn refuse_last_admin(&self, user: &User) -> Result<(), Trouble> {
        if user.governs() && !self.any(OTHER_ADMIN, [filed(user.id.0)])? {
            return Err(RegistryError::LastAdmin.into());
        }
        Ok(())
    }

    pub(crate) fn erase_user(&self, id: OwnerId, by: &By) -> Result<(), Trouble> {
        let user = self.user(id)?.ok_or(RegistryError::Missing)?;
        self.refuse_last_admin(&user)?;
        for sql in ERASE {
            self.run(sql, [filed(id.0)])?;
        }
        self.write(&Line::user_erased(&user), by)?;
        let mut lines = self.all(LINES_ABOUT, [filed(id.0)], rows::entry)?;
        forget_person(&mut lines, &user.name);
        for line in &lines {
            let row = params![filed(line.number), line.why, line.before, line.after];
            self.run("UPDATE audit SET why = ?2, before = ?3, after = ?4 WHERE number = ?1", row)?;
        }
        if user.suspended.is_some() {
            self.move_watermark()?;
        }
        Ok(())
    }
}

fn parts(identity: Option<&ForeignIdentity>) -> (Option<&str>, Option<&str>) {
    (identity.map(|identity| &*identity.issuer), identity.map(|identity| &*identity.subject))
}
