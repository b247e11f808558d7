//! `terse serve`: opens the parts, joins them, runs until told to stop.

use anyhow::bail;

use crate::client::LocalDoor;
use crate::config::Config;

/// Runs the server until it is told to stop.
pub fn run(_config: Config) -> anyhow::Result<()> {
    bail!("serving is not wired yet")
}

/// The API without a server: the same router, on the store of a data folder that nobody else is using. Called inside a
/// runtime, with the folder's lock held.
pub fn local_door(_config: &Config) -> anyhow::Result<LocalDoor> {
    bail!("no server is running on this folder, and working without one is not wired yet")
}
