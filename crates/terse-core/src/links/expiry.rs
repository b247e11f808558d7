//! Events for links that have expired.

use super::Links;
use crate::link::{LinkKey, Status};
use crate::registry::EventKind;
use crate::store::StoreError;

impl Links {
    /// Tells of links that have expired, if anybody wants to know. Expiring is no change: it
    /// happens by itself.
    pub async fn tell_expired(&self, keys: &[LinkKey]) -> Result<(), StoreError> {
        if !self.events.listens() {
            return Ok(());
        }
        for key in keys {
            let link = self
                .store
                .get(key)
                .await?
                .filter(|link| link.status(self.clock.now()) == Status::Expired);
            if let Some(link) = link {
                self.tell(EventKind::LinkExpired, &link).await;
            }
        }
        Ok(())
    }
}
