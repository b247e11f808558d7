//! A few walks through the pages, in a real browser, on the real binary.

mod browser;
#[path = "../it/process.rs"]
#[allow(dead_code)] // the other test binary uses the rest
mod process;
mod walks;
