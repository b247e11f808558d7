//! The click pipeline: reads the journal, enriches each click, and passes batches to the store.
//!
//! The pipeline runs on a thread of its own. It may fall behind or stop without delaying a
//! redirect, and each click is counted once whenever the process is killed. The redirect plane
//! writes the journal; the store sums the clicks up.

mod bound;
mod counts;
mod disk;
mod edge_log;
mod enrich;
mod folder;
mod geo_refresh;
mod growing_batch;
mod identity;
mod local_shipper;
mod pace;
mod pending;
mod priority;
mod segment;
mod shipper;
mod shipping;
mod sum_adder;
#[cfg(test)]
mod written;

pub use counts::ShipperCounts;
pub use disk::JournalDisk;
pub use edge_log::{EdgeLogCounts, EdgeLogError, EdgeLogFormat, EdgeLogImport};
pub use enrich::{AddressPrecision, Enricher, UserAgentClassifier};
pub use folder::JournalFolder;
pub use geo_refresh::GeoRefresh;
pub use growing_batch::GrowingBatch;
#[doc(hidden)]
pub use local_shipper::LocalShipper;
#[doc(hidden)]
pub use pace::Pace;
pub use segment::{ReadStop, Segment};
pub use shipper::{Shipper, ShipperParts};
