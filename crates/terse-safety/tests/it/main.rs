//! The screen on lists of real and of hostile targets.

mod hostile;
mod ordinary;
