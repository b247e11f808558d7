//! How often somebody may do something, and who keeps count.

mod limit;
mod limiter;
mod network;

pub use limit::Limit;
pub use limiter::{
    LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, NoLimiter, give_back_by_address,
    take_by_address,
};
pub use network::{Network, SUBNET_FACTOR};
