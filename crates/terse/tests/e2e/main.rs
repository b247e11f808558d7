//! Browser tests of the pages with the real binary.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod accent;
mod accounts;
mod axe;
mod browser;
mod dashboard;
mod dashboard_states;
mod first_run;
mod hostile;
mod import;
mod journeys;
mod keyboard;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the other test binary uses the rest")]
mod process;
mod scripts;
mod showcase;
mod signed_in;
mod states;
mod walks;
mod world_map;
