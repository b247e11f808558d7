//! Removals that stopped: what an operator sees of them, and the confirmation.

use std::sync::Arc;

use crate::clock::Clock;
use crate::principal::Principal;
use crate::registry::{Actor, AlarmState, Attribution, Registry, RegistryError, RemovalAlarm};

/// The service.
pub struct Removals {
    registry: Arc<dyn Registry>,
    clock: Clock,
}

impl Removals {
    /// Wires the service.
    pub fn new(registry: Arc<dyn Registry>, clock: Clock) -> Self {
        Self { registry, clock }
    }

    /// The alarm that waits for a confirmation, if there is one.
    pub async fn waiting(&self) -> Result<Option<RemovalAlarm>, RegistryError> {
        let alarm = self.registry.removal_alarm().await?;
        Ok(alarm.filter(|alarm| alarm.state == AlarmState::Waiting))
    }

    /// Lets the removal of this round continue. The adapter admits admins only. `Missing` unless
    /// that round waits, so that an operator confirms only an alarm they have read.
    pub async fn confirm(
        &self,
        principal: &Principal,
        round: u64,
    ) -> Result<RemovalAlarm, RegistryError> {
        let actor = Actor::Owner(principal.caller.owner());
        let by = Attribution { actor, at: self.clock.now(), why: None };
        self.registry.confirm_removal(round, by).await
    }
}
