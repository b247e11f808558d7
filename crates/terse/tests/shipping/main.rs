//! What people get and follow: the commands for a fresh installation, the Debian package, the
//! image, and the guides, whose commands are run.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "../it/process.rs"]
mod process;

mod fresh_install;
mod guides;
mod image;
mod package;
mod sandbox;
