//! Tests the client with real local sockets.

#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod guard;
mod limits;
mod posts;
mod queue;
mod redirects;
mod rig;
mod tls;
