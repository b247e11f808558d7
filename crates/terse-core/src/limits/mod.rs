//! How often somebody may do something, and who keeps count.

mod limit;
mod limiter;
mod network;

pub use limit::Limit;
pub use limiter::{Act, Limiter, NoLimiter, Subject, Verdict, Who, give_back_by_address, take_by_address};
pub use network::{Network, WIDER};
