//! Tells the operator when the disk is nearly full.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, Notices};

use crate::disk_reserve::DiskReserve;

const INTERVAL: Duration = Duration::from_secs(10);

/// Looks at the disk, and sets the notice.
pub struct DiskWatch {
    /// The reserve.
    pub reserve: Arc<DiskReserve>,
    /// Its size, as the settings name it.
    pub size: String,
    /// Where the notice goes.
    pub notices: Arc<Notices>,
}

impl DiskWatch {
    fn check(&self) {
        let notice = self.reserve.is_low().then(|| {
            format!(
                "less than storage.reserve = {} is free on the disk of data_dir: clicks are \
                 counted and not stored one by one. Make room",
                self.size
            )
        });
        self.notices.set("disk", notice);
    }
}

#[async_trait]
impl Job for DiskWatch {
    fn name(&self) -> &'static str {
        "disk watch"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        self.check();
        Ok(NextRun::Interval)
    }
}
