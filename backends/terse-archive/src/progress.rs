//! How far the job has come, in the registry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use terse_core::clicks::Unit;
use terse_core::registry::{FencingToken, JobProgress, RegistryError};
use terse_core::{BoxError, Timestamp};

/// The name of the job, and of its progress.
pub(crate) const JOB: &str = "click archive";
const VERSION: u8 = 1;
/// The most hours that are remembered: their form has at most 64 KiB.
pub(crate) const MAX_HOURS: usize = 90 * 24;

/// What is known of an hour that was copied.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct CopiedHour {
    /// The length of the ranges of its files, in seconds. Never changes once it is written.
    pub(crate) seconds: u16,
    /// How many clicks the sums had when it was copied. `None` while it is not copied completely.
    pub(crate) counted: Option<u64>,
}

/// How far the job has come.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Progress {
    /// The first hour that is not copied yet, in milliseconds since 1970.
    pub(crate) next_hour: Option<i64>,
    /// Recent hours with clicks, by their number since 1970.
    pub(crate) hours: BTreeMap<i64, CopiedHour>,
    /// When the last search for erased clicks began, by the clock of its node.
    pub(crate) erased_to: i64,
}

impl Progress {
    pub(crate) async fn load(registry: &dyn JobProgress) -> Result<Self, BoxError> {
        let Some(bytes) = registry.job_progress(JOB).await? else { return Ok(Self::default()) };
        match bytes.split_first() {
            Some((&VERSION, fields)) => Ok(postcard::from_bytes(fields)?),
            _ => Err("the progress of the archive was written by a newer terse".into()),
        }
    }

    /// Writes it; `Fenced` if another node has taken over.
    pub(crate) async fn save(
        &self,
        registry: &dyn JobProgress,
        token: FencingToken,
    ) -> Result<(), RegistryError> {
        let bytes = postcard::to_extend(self, vec![VERSION]).unwrap_or_default();
        registry.put_job_progress(token, JOB, &bytes).await
    }

    /// What is known of an hour.
    pub(crate) fn hour(&self, hour: Timestamp) -> Option<CopiedHour> {
        self.hours.get(&number(hour)).copied()
    }

    pub(crate) fn set_hour(&mut self, hour: Timestamp, copied: CopiedHour) {
        self.hours.insert(number(hour), copied);
        while self.hours.len() > MAX_HOURS {
            self.hours.pop_first();
        }
    }
}

fn number(hour: Timestamp) -> i64 {
    hour.as_ms().div_euclid(Unit::Hour.ms())
}

#[cfg(test)]
mod tests {
    use super::*;
    use terse_core::registry::MAX_PROGRESS_BYTES;

    #[test]
    fn the_progress_of_many_busy_hours_fits_into_the_registry() {
        let mut progress =
            Progress { next_hour: Some(i64::MAX), erased_to: i64::MAX, ..Progress::default() };
        for hour in 0..3 * MAX_HOURS as i64 {
            let hour = Timestamp::from_ms(1_800_000_000_000 + hour * Unit::Hour.ms());
            progress.set_hour(hour, CopiedHour { seconds: 3600, counted: Some(u64::MAX) });
        }
        assert_eq!(progress.hours.len(), MAX_HOURS);
        let bytes = postcard::to_extend(&progress, vec![VERSION]).unwrap();
        assert!(bytes.len() < MAX_PROGRESS_BYTES, "{}", bytes.len());
    }
}
