//! The shipper on the runtime of its caller, for the simulation.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::disk::JournalDisk;
use crate::pace::{Order, Pace};
use crate::priority::Priority;
use crate::shipper::{Prepared, ShipperParts, prepare};

/// Tells a shipper that runs on the caller's runtime when to end.
#[derive(Debug)]
pub struct LocalShipper {
    orders: watch::Sender<Option<Order>>,
}

impl LocalShipper {
    /// The shipper of a journal on this disk, and the future that is its loop; dropping the future
    /// is a crash. The future returns whether everything was counted.
    pub fn start(
        parts: ShipperParts,
        disk: Arc<dyn JournalDisk>,
        pace: Pace,
    ) -> io::Result<(Self, impl Future<Output = bool>)> {
        let (orders, receiver) = watch::channel(None);
        let Prepared { shipping, .. } = prepare(parts, disk, pace, Priority::fixed(), receiver)?;
        Ok((Self { orders }, shipping.run()))
    }

    /// Has the shipper count everything there is and end: no thread writes to the journal any more.
    pub fn stop(&self) {
        let until = Instant::now() + Duration::from_hours(1);
        self.orders.send_replace(Some(Order { until, writers_gone: true }));
    }
}
