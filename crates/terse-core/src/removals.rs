//! Removals that stopped: what an operator sees of them, and the confirmation.

use std::sync::Arc;

use crate::clock::Clock;
use crate::moderation::ModerationError;
use crate::principal::Principal;
use crate::registry::{
    Actor, AlarmState, Attribution, RegistryError, RemovalAlarm, RemovalAlarms, Role,
};

/// The service.
pub struct Removals {
    registry: Arc<dyn RemovalAlarms>,
    clock: Clock,
}

impl Removals {
    /// Wires the service.
    pub fn new(registry: Arc<dyn RemovalAlarms>, clock: Clock) -> Self {
        Self { registry, clock }
    }

    /// The alarm that waits for a confirmation, if there is one. Only for admins.
    pub async fn waiting(
        &self,
        principal: &Principal,
    ) -> Result<Option<RemovalAlarm>, ModerationError> {
        principal.require(Role::Admin)?;
        let alarm = self.registry.removal_alarm().await?;
        Ok(alarm.filter(|alarm| alarm.state == AlarmState::Waiting))
    }

    /// Lets the removal of this round continue. Only for admins. `NoRemoval` unless that round
    /// waits, so that an admin confirms only an alarm they have read.
    pub async fn confirm(
        &self,
        principal: &Principal,
        round: u64,
    ) -> Result<RemovalAlarm, ModerationError> {
        principal.require(Role::Admin)?;
        let actor = Actor::Owner(principal.caller.owner());
        let by = Attribution { actor, at: self.clock.now(), why: None };
        match self.registry.confirm_removal(round, by).await {
            Err(RegistryError::Missing) => Err(ModerationError::NoRemoval),
            confirmed => Ok(confirmed?),
        }
    }
}
