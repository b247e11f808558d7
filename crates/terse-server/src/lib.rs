//! The web side.
