//! Where clicks are written down before they are answered: the writing side of the journal.
//!
//! Each serving thread owns a [`Writer`], which copies a record into a memory-mapped file of a
//! fixed size. A killed process loses nothing of it: the pages are the kernel's. A thread of its
//! own, the keeper, makes the files ahead of their use, so that a serving thread neither opens,
//! sizes nor unmaps one. If there is no file to go on with, the click is lost and counted, and the
//! visitor goes on.
//!
//! The format is `terse_core::clicks`. Reading, counting and deleting are the click pipeline's.

mod map;
mod orphans;
mod segment;
mod segment_allocator;
mod shared;
mod writer;

pub use shared::{AddressDetail, Journal, JournalSettings};

pub(crate) use orphans::Sampler;
pub(crate) use writer::Writer;
