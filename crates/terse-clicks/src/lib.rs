//! The click pipeline: reads the journal, finds out what there is to know about each click, and
//! hands batches to the store.
//!
//! Everything here happens behind the visitors' backs: it may fall behind or stand still without a
//! redirect noticing, and whatever happens to the process, each click is counted once. What is
//! written to the journal is the redirect plane's business, how clicks are summed up the store's.

mod bound;
mod counts;
mod enrich;
mod folder;
mod segment;
mod shipper;
mod shipping;
#[cfg(test)]
mod written;

pub use counts::ShipperCounts;
pub use enrich::{AddressPrecision, Enricher, UserAgentClassifier};
pub use folder::Folder;
pub use segment::{Segment, Until};
pub use shipper::{Shipper, ShipperParts};
