//! The client against real sockets on this machine.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod guard;
mod limits;
mod posts;
mod queue;
mod redirects;
mod rig;
mod tls;
