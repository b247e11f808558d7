//! Behaviour, through the public door.

mod crash;
mod following;
mod harness;
mod hostile;
mod hostile_gen;
mod hostile_html;
mod openapi;
mod races;
mod same_answer;
