//! Watches the oldest open report, so that an alert fires when it waits too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::metrics::Metrics;
use terse_core::registry::{ReportState, ReportStore};

/// How often open reports are read from the registry.
const INTERVAL: Duration = Duration::from_secs(30);

/// When the oldest open report was made, in milliseconds since 1970; 0 without one.
#[derive(Debug, Default)]
pub struct OldestReport(AtomicI64);

impl OldestReport {
    /// Writes the time.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let help = "When the oldest open report was made, in seconds since 1970; 0 without one";
        let at = self.0.load(Ordering::Relaxed) as f64 / 1000.0;
        to.gauge("terse_report_oldest_open_timestamp_seconds", help, at);
    }
}

/// Reads the oldest open report.
pub struct ReportWatch {
    /// Holds the reports.
    pub registry: Arc<dyn ReportStore>,
    /// What was found.
    pub oldest: Arc<OldestReport>,
}

#[async_trait]
impl Job for ReportWatch {
    fn name(&self) -> &'static str {
        "report watch"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let oldest = self.registry.reports(ReportState::Open, None, 1).await?;
        let at_ms = oldest.first().map_or(0, |report| report.at.as_ms());
        self.oldest.0.store(at_ms, Ordering::Relaxed);
        Ok(NextRun::Interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terse_core::registry::{Actor, Attribution, NewReport};
    use terse_testkit::{MemoryRegistry, key, timestamp};

    #[tokio::test]
    async fn the_oldest_open_report_is_watched_until_it_is_settled() {
        let (registry, oldest) = (Arc::new(MemoryRegistry::new()), Arc::<OldestReport>::default());
        let mut job = ReportWatch { registry: registry.clone(), oldest: oldest.clone() };
        for (code, second) in [("first", 5), ("second", 9)] {
            let report = NewReport {
                link: key(code),
                created_at: timestamp(0),
                reporter: [7; 16],
                account: None,
                reason: "spam".to_owned(),
                text: None,
                at: timestamp(second),
            };
            registry.report(report).await.unwrap();
        }
        for (settled, left) in [
            (None, timestamp(5).as_ms()),
            (Some("first"), timestamp(9).as_ms()),
            (Some("second"), 0),
        ] {
            if let Some(code) = settled {
                let by = Attribution { actor: Actor::Terse, at: timestamp(10), why: None };
                let (link, state) = (key(code), ReportState::Cleared);
                registry.settle_reports(None, &link, timestamp(0), state, by).await.unwrap();
            }
            job.run(&JobContext::without_lease()).await.unwrap();
            assert_eq!(oldest.0.load(Ordering::Relaxed), left);
        }
    }
}
