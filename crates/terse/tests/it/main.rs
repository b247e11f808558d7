//! Behaviour, through the public door.

mod crash;
mod following;
mod harness;
mod races;
mod same_answer;
