//! Clicks that come after their hour was copied: from a node that was away, or from a CDN's log.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::clicks::{ClickSubject, Period, Unit};
use terse_core::job::JobContext;
use terse_core::registry::FencingToken;
use terse_core::{BoxError, Timestamp};

use crate::job::{ArchiveJob, CopyResult};
use crate::progress::{MAX_HOURS, Progress};

/// The archive cannot copy an hour again once the store has deleted some of its clicks, so it
/// retries such an hour rarely.
const RETRY_INTERVAL: Duration = Duration::from_hours(6);

/// Hours that could not be copied again, and when by the steady clock they are tried next.
#[derive(Debug, Default)]
pub(crate) struct LateHourRetries(HashMap<i64, Duration>);

impl ArchiveJob {
    /// Copies hours again whose sums have changed since.
    pub(crate) async fn copy_late_hours(
        &mut self,
        context: &JobContext,
        token: FencingToken,
        progress: &mut Progress,
    ) -> Result<(), BoxError> {
        let Some(next_hour) = progress.next_hour.map(Timestamp::from_ms) else { return Ok(()) };
        let now = self.parts.clock.now();
        let remembered = Duration::from_hours(MAX_HOURS as u64);
        let from = self.kept_from(now).max(now.saturating_sub(remembered));
        let period = Period { from: Some(from), to: Some(next_hour) };
        let clicks = &self.parts.clicks;
        let report = clicks.report(&ClickSubject::Everything, period, now).await?;
        let steady = self.parts.clock.steady();
        self.late.0.retain(|_, retry_at| *retry_at > steady);
        for bucket in report.buckets {
            // The day of hours that are not kept any more says nothing about its hours. The first
            // hour may begin before the time from which on the store has all clicks.
            if bucket.unit != Unit::Hour || bucket.start < from || bucket.start >= next_hour {
                continue;
            }
            let copied = progress.hour(bucket.start);
            if copied.and_then(|copied| copied.counted) == Some(bucket.clicks.all())
                || self.late.0.contains_key(&bucket.start.as_ms())
            {
                continue;
            }
            match self.copy_hour(context, token, progress, bucket.start).await? {
                CopyResult::Whole(_) => {
                    self.parts.counts.late.fetch_add(1, Ordering::Relaxed);
                    progress.save(&*self.parts.registry, token).await?;
                }
                CopyResult::NotReplaced => {
                    self.late.0.insert(bucket.start.as_ms(), steady + RETRY_INTERVAL);
                }
            }
        }
        Ok(())
    }
}
