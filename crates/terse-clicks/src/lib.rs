//! The click pipeline: reads the journal, finds out what there is to know about each click, and hands batches to the store.
//!
//! Everything here happens behind the visitors' backs: it may fall behind or stand still without a redirect noticing, and
//! whatever happens to the process, each click is counted once.
