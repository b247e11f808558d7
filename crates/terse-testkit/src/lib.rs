//! Contract suites and fakes. Knows only the core.
//!
//! A backend proves itself with one line, [`link_store!`], [`click_store!`], [`limiter!`] or
//! [`registry!`]; whoever needs a store in a test takes a [`MemoryStore`], a [`MemoryClickStore`]
//! or a [`MemoryRegistry`]. There is nothing here about HTTP, and nothing about any one backend.

#[doc(hidden)]
pub mod click_store;
#[doc(hidden)]
pub mod limiter;
#[doc(hidden)]
pub mod link_store;
mod memory;
mod memory_clicks;
mod memory_registry;
#[doc(hidden)]
pub mod registry;
mod sample;
#[doc(hidden)]
pub mod suite;

pub use click_store::add_clicks;
pub use memory::MemoryStore;
pub use memory_clicks::MemoryClickStore;
pub use memory_registry::MemoryRegistry;
pub use sample::{alias, generated, key, moment, rules};
