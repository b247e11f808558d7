//! The salt of the day, with which the journal hashes visitors: one job gives it to the journal and
//! asks for the next one an hour ahead, another deletes old ones.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::Salt;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{RegistryError, Salts};
use terse_core::{BoxError, Clock, StoreError, Timestamp};

/// How often the job compares the day.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the registry may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long before a day begins its salt is made.
const AHEAD: Duration = Duration::from_hours(1);
/// How often old salts are deleted.
const DELETE_INTERVAL: Duration = Duration::from_hours(1);

/// The number of the day in UTC.
fn day_of(now: Timestamp) -> i64 {
    now.as_ms().div_euclid(86_400_000)
}

/// Gives the journal the salt of each new day. While the registry has none for today, the journal
/// writes clicks without a visitor hash.
pub struct DailySalt {
    salts: Arc<dyn Salts>,
    /// Gives the journal a salt, or takes it away.
    set_salt: Box<dyn Fn(Option<Salt>) + Send + Sync>,
    clock: Clock,
    /// The day whose salt the journal has.
    known: Option<i64>,
    /// The salt that was made ahead, and its day.
    next: Option<(i64, Salt)>,
}

impl DailySalt {
    /// `set_salt`: gives the journal a salt, or takes it away.
    pub fn new(
        salts: Arc<dyn Salts>,
        set_salt: impl Fn(Option<Salt>) + Send + Sync + 'static,
        clock: Clock,
    ) -> Self {
        Self { salts, set_salt: Box::new(set_salt), clock, known: None, next: None }
    }

    /// Gives the journal today's salt if it does not have it, and asks for tomorrow's in time.
    pub async fn poll(&mut self) -> Result<(), RegistryError> {
        let now = self.clock.now();
        let day = day_of(now);
        if self.known != Some(day) {
            // Yesterday's salt would link today's visits to yesterday's.
            if self.known.take().is_some() {
                (self.set_salt)(None);
            }
            let salt = match self.next.filter(|(next, _)| *next == day) {
                Some((_, salt)) => salt,
                None => self.salt(day).await?,
            };
            (self.set_salt)(Some(salt));
            self.known = Some(day);
        }
        let ahead = now.checked_add(AHEAD).map_or(day, day_of);
        if ahead != day && self.next.is_none_or(|(next, _)| next != ahead) {
            self.next = Some((ahead, self.salt(ahead).await?));
        }
        Ok(())
    }

    async fn salt(&self, day: i64) -> Result<Salt, RegistryError> {
        match tokio::time::timeout(TIMEOUT, self.salts.salt(day)).await {
            Ok(salt) => salt,
            Err(elapsed) => Err(StoreError::Unavailable(elapsed.into()).into()),
        }
    }
}

#[async_trait]
impl Job for DailySalt {
    fn name(&self) -> &'static str {
        "daily salt"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        self.poll().await?;
        Ok(NextRun::Interval)
    }
}

/// Deletes the salts of past days.
pub struct OldSalts {
    /// Keeps the salts.
    pub salts: Arc<dyn Salts>,
}

#[async_trait]
impl Job for OldSalts {
    fn name(&self) -> &'static str {
        "old salts"
    }

    fn interval(&self) -> Duration {
        DELETE_INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        if let Some(token) = context.token() {
            self.salts.delete_old_salts(token).await?;
        }
        Ok(NextRun::Interval)
    }
}
