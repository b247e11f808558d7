//! Gives memory of the process back to the system.

mod allocator;
mod program_pages;

pub use allocator::{FreeMemory, configure_allocator};
pub use program_pages::ProgramPages;
