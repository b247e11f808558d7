//! Behaviour, through the public door.

mod following;
mod harness;
mod races;
mod same_answer;
