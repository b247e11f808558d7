//! Contract suites and fakes. Knows only the core.
