//! Taking over links from another shortener.

use super::screening::targets_of_new;
use super::{Caller, Created, LinkError, Links};
use crate::create_link::{CreateBounds, CreateLink};
use crate::link::LinkKey;
use crate::time::Timestamp;
use crate::validation::{ValidationError, ValidationErrorKind};

/// What an import would do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImportPreview {
    /// It would create the link.
    New,
    /// The link is there already.
    Existing,
}

impl Links {
    /// Says what [`import`](Self::import) would do, and writes nothing. A code that another
    /// import or a lookalike takes in between is not foreseen.
    pub async fn preview_import(
        &self,
        caller: Caller,
        command: CreateLink,
    ) -> Result<ImportPreview, LinkError> {
        let new = command.parse(&self.rules, CreateBounds::IMPORT, self.clock.now())?;
        self.check_wanted(&new).await?;
        self.prepare(targets_of_new(&new).map(|asked| asked.target)).await;
        self.screen(caller, caller.owner(), targets_of_new(&new))?;
        let Some(code) = new.alias else { return Ok(ImportPreview::New) };
        let key = LinkKey { domain: new.domain, code };
        match self.store.get(&key).await? {
            None => Ok(ImportPreview::New),
            Some(link)
                if link.target == new.target
                    && link.owner == caller.owner()
                    && link.deleted_at.is_none() =>
            {
                Ok(ImportPreview::Existing)
            }
            Some(_) => Err(ValidationError::new(
                ValidationErrorKind::AliasTaken,
                "custom_alias",
                "this alias is taken",
            )
            .into()),
        }
    }

    /// Imports a link with its code and its creation time. Importing the same link again returns it
    /// as not new.
    pub async fn import(
        &self,
        caller: Caller,
        command: CreateLink,
        created_at: Option<Timestamp>,
    ) -> Result<Created, LinkError> {
        let now = self.clock.now();
        let new = command.parse(&self.rules, CreateBounds::IMPORT, now)?;
        let target = new.target.clone();
        let key = new.alias.clone().map(|code| LinkKey { domain: new.domain.clone(), code });
        let created_at = created_at.map_or(now, |at| at.min(now));
        match (self.insert(caller, new, None, created_at).await, key) {
            (Err(LinkError::Refused(refusal)), Some(key))
                if refusal.kind == ValidationErrorKind::AliasTaken =>
            {
                match self.store.get(&key).await? {
                    Some(link)
                        if link.target == target
                            && link.owner == caller.owner()
                            && link.deleted_at.is_none() =>
                    {
                        Ok(Created { link, new: false, replayed: false })
                    }
                    _ => Err(refusal.into()),
                }
            }
            (outcome, _) => outcome,
        }
    }
}
