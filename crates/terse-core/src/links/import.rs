//! Taking over links from another shortener.

use super::{Caller, Created, LinkError, Links};
use crate::create_link::CreateLink;
use crate::link::LinkKey;
use crate::time::Timestamp;
use crate::validation::ValidationErrorKind;

impl Links {
    /// Imports a link with its code and its creation time. Importing the same link again returns it
    /// as not new.
    pub async fn import(
        &self,
        caller: Caller,
        command: CreateLink,
        created_at: Option<Timestamp>,
    ) -> Result<Created, LinkError> {
        let now = self.clock.now();
        let new = command.parse(&self.rules.targets, &self.rules.hosts, None, now)?;
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
