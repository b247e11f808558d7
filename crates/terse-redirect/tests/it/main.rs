//! The redirect plane through its public interface, on a store in memory.
#![allow(clippy::disallowed_methods, reason = "tests are clients, which may wait")]

mod connections;
mod domains;
mod fixture;
mod inherited_sockets;
mod journal;
mod journal_files;
mod limits;
mod location;
mod misses;
mod overload;
mod screening;
mod segments;
mod slow;
mod suspensions;
