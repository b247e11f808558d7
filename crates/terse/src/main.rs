//! The terse binary.

fn main() {}
