//! Checks what clients of a fleet have seen.
//!
//! Clients record every operation with its call, its return and its outcome in a [`History`];
//! [`check`] says which promises of a fleet the history breaks. The checker knows nothing of the
//! nodes: it compares answers with each other, never with the state of a database.

mod checker;
mod history;
#[cfg(test)]
mod tests;

pub use checker::{Predicate, Violation, check};
pub use history::{
    Action, FinalCounts, History, LinkStatistics, Operation, Outcome, VisitAnswer, Window,
};
