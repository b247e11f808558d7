//! The core's services on fakes. One binary, which links faster than one per file.

mod accounts;
mod codes;
mod earlier_nodes;
mod erasing;
mod events;
mod link_codec;
mod permissions;
mod resets;
mod screening;
mod screening_audit;
mod two_factor;
