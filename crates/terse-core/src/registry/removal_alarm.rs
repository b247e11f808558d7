//! Alarms of removals: deletions by age that stopped and wait for an operator.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::audit::Attribution;
use super::lease::FencingToken;
use super::store::RegistryError;

/// Why a removal stopped.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum AlarmKind {
    /// The system time is implausible.
    Clock,
    /// It would delete too many links at once.
    Share,
    /// It would delete the single clicks of too long a time at once.
    Clicks,
    /// It would release the aliases of too long a time at once.
    Aliases,
}

/// What became of an alarm.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum AlarmState {
    /// It waits for an operator.
    Waiting,
    /// An operator has confirmed the removal.
    Confirmed,
    /// The removal was done, or its reason is gone.
    Over,
}

/// A removal that stopped.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RemovalAlarm {
    /// The number of the round, which the operator confirms. Every alarm has a higher one.
    pub round: u64,
    /// Why it stopped.
    pub kind: AlarmKind,
    /// Why it stopped, as a sentence for the operator.
    pub why: String,
    /// What became of it.
    pub state: AlarmState,
}

/// Keeps the latest alarm, so that any node can show and confirm it.
#[async_trait]
pub trait RemovalAlarms: Send + Sync + 'static {
    /// The latest alarm.
    async fn removal_alarm(&self) -> Result<Option<RemovalAlarm>, RegistryError>;

    /// Replaces the latest alarm. `Fenced`, and nothing is written, if the token is not current.
    async fn put_removal_alarm(
        &self,
        token: FencingToken,
        alarm: RemovalAlarm,
    ) -> Result<(), RegistryError>;

    /// Confirms the alarm of this round, and returns it. `Missing` unless that round waits.
    async fn confirm_removal(
        &self,
        round: u64,
        by: Attribution,
    ) -> Result<RemovalAlarm, RegistryError>;
}
