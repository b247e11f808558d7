//! The salt of the day, with which the journal hashes visitors.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::{ClickStore, Salt};
use terse_core::{BoxError, Clock, StoreError, Timestamp};
use terse_redirect::Journal;
use terse_worker::{Context, Job, Next};

/// How often the job compares the day.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// The number of the day in UTC.
fn day_of(now: Timestamp) -> i64 {
    now.as_ms().div_euclid(86_400_000)
}

/// The salt of today.
pub(crate) async fn salt_of_today(
    store: &dyn ClickStore,
    clock: &Clock,
) -> Result<(i64, Salt), StoreError> {
    let day = day_of(clock.now());
    match tokio::time::timeout(TIMEOUT, store.salt(day)).await {
        Ok(salt) => Ok((day, salt?)),
        Err(elapsed) => Err(StoreError::Unavailable(elapsed.into())),
    }
}

/// Gives the journal the salt of each new day. While the store is away, the journal hashes visitors
/// with the last one.
pub(crate) struct DailySalt {
    /// Makes and keeps the salts.
    pub(crate) store: Arc<dyn ClickStore>,
    /// The time.
    pub(crate) clock: Clock,
    /// The day of the salt that the journal has.
    pub(crate) known: i64,
    /// Hashes visitors.
    pub(crate) journal: Arc<Journal>,
}

#[async_trait]
impl Job for DailySalt {
    fn name(&self) -> &'static str {
        "daily salt"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        if day_of(self.clock.now()) != self.known {
            let (day, salt) = salt_of_today(&*self.store, &self.clock).await?;
            self.known = day;
            self.journal.set_salt(salt);
        }
        Ok(Next::Interval)
    }
}
