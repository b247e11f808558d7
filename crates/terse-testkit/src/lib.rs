//! Contract suites and fakes. Knows only the core.
//!
//! A backend proves itself with one line, [`link_store!`]; whoever needs a store in a test takes a [`MemoryStore`]. There is
//! nothing here about HTTP, and nothing about any one backend.

#[doc(hidden)]
pub mod link_store;
mod memory;
mod sample;

pub use memory::MemoryStore;
pub use sample::{alias, generated, key, moment};
