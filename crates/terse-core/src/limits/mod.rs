//! Rate limits: how often something may be done, and the contract of what keeps count.

mod gcra;
mod limit;
mod limiter;
mod network;
mod policy;

pub use gcra::{Gcra, NotEnough};
pub use limit::Limit;
pub use limiter::{
    LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, NoLimiter, Take, by_address,
};
pub use network::{Network, SUBNET_FACTOR};
pub use policy::{Allowance, Attempt, LimitOutcome, LimitReached, Limits};
