//! Alarms of removals.

use async_trait::async_trait;
use rusqlite::params;
use terse_core::registry::{
    AlarmState, Attribution, AuditRecord, FencingToken, RegistryError, RemovalAlarm, RemovalAlarms,
};

use crate::failure::{Failure, corrupt};
use crate::registry::queries::RegistryQueries;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

const ALARM: &str = "SELECT value FROM meta WHERE name = 'removal_alarm'";
const PUT_ALARM: &str = "INSERT OR REPLACE INTO meta VALUES ('removal_alarm', ?1)";

impl RegistryQueries {
    fn removal_alarm(&self) -> Result<Option<RemovalAlarm>, Failure> {
        let text: Option<String> = self.one(ALARM, [], |row| Ok(row.get(0)?))?;
        let read = |text: String| {
            serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()).into())
        };
        text.map(read).transpose()
    }
}

impl RegistryWrites {
    fn keep_alarm(&self, alarm: &RemovalAlarm) -> Result<(), RegistryWriteError> {
        let text = serde_json::to_string(alarm)
            .map_err(|error| Failure::from(corrupt(error.to_string())))?;
        self.run(PUT_ALARM, params![text])?;
        Ok(())
    }

    fn put_removal_alarm(
        &self,
        token: FencingToken,
        alarm: &RemovalAlarm,
    ) -> Result<(), RegistryWriteError> {
        self.check_lease(token)?;
        self.keep_alarm(alarm)
    }

    fn confirm_removal(
        &self,
        round: u64,
        by: &Attribution,
    ) -> Result<RemovalAlarm, RegistryWriteError> {
        let waits =
            |alarm: &RemovalAlarm| alarm.round == round && alarm.state == AlarmState::Waiting;
        let alarm = self.removal_alarm()?.filter(waits).ok_or(RegistryError::Missing)?;
        let alarm = RemovalAlarm { state: AlarmState::Confirmed, ..alarm };
        self.keep_alarm(&alarm)?;
        self.write(&AuditRecord::removal_confirmed(&alarm), by)?;
        Ok(alarm)
    }
}

#[async_trait]
impl RemovalAlarms for EmbeddedRegistry {
    async fn removal_alarm(&self) -> Answer<Option<RemovalAlarm>> {
        self.read(RegistryQueries::removal_alarm).await
    }

    async fn put_removal_alarm(&self, token: FencingToken, alarm: RemovalAlarm) -> Answer<()> {
        self.write(move |writes| writes.put_removal_alarm(token, &alarm)).await
    }

    async fn confirm_removal(&self, round: u64, by: Attribution) -> Answer<RemovalAlarm> {
        self.write(move |writes| writes.confirm_removal(round, &by)).await
    }
}
