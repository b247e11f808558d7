//! The redirect plane through its public door, on a store in memory.

mod connections;
mod fixture;
mod location;
mod misses;
