//! The writing side of the click journal. The serving thread writes a visit here before it answers.
//!
//! Each serving thread owns a [`Writer`], which copies a record into a memory-mapped file of a
//! fixed size, a segment. A killed process loses none of it, because the kernel owns the pages. The
//! segment allocator, a thread of its own, makes segments ahead of their use, so that a serving
//! thread never opens, sizes or unmaps a file. While the click store accepts clicks, serving
//! threads pause when the journal is more than half full, and wait for a segment if there is none.
//! While it does not, they never wait: without a spare segment, the click is lost and counted as
//! lost, and the visitor is redirected.
//!
//! The format is defined in `terse_core::clicks`. The click pipeline reads, counts and deletes.

mod map;
mod orphans;
mod pressure;
mod segment;
mod segment_allocator;
mod shared;
mod writer;

pub use shared::{AddressDetail, Journal, JournalSettings};

pub(crate) use orphans::FailureSampler;
pub(crate) use writer::Writer;
