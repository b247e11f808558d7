//! Tells the operator when the disk is nearly full.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{BoxError, Notices};
use terse_worker::{Context, Job, Next};

use crate::backends::DiskReserve;
use crate::config::ByteSize;

const INTERVAL: Duration = Duration::from_secs(10);

/// Looks at the disk, and sets the notice.
pub(crate) struct DiskWatch {
    pub(crate) reserve: Arc<DiskReserve>,
    pub(crate) notices: Arc<Notices>,
}

impl DiskWatch {
    fn look(&self) {
        let notice = self.reserve.is_low().then(|| {
            format!(
                "less than storage.reserve = {} is free on the disk of data_dir: clicks are \
                 counted and not stored one by one. Make room",
                ByteSize::of(self.reserve.bytes())
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

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        self.look();
        Ok(Next::Interval)
    }
}
