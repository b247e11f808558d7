//! The embedded stores: the contract suites, and tests of their files. One binary, since each links
//! SQLite and the test kit.

mod clicks_blocks;
mod clicks_file;
mod clicks_runs;
mod clicks_versions;
mod contract;
mod damaged_file;
mod file;
mod file_versions;
mod folders;
mod limits;
mod losses;
mod registry_contract;
mod registry_file;
mod registry_versions;
mod slow_counter;
