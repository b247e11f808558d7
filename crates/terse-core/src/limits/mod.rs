//! Rate limits: how often actions are allowed, and the contract of the limiter that counts them.

mod gcra;
mod limit;
mod limiter;
mod network;
mod policy;

pub use gcra::{Gcra, InsufficientTokens};
pub use limit::Limit;
pub use limiter::{
    LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, NoLimiter, TokenRequest,
    by_address,
};
pub use network::{Network, SUBNET_FACTOR};
pub use policy::{Allowance, LimitOutcome, LimitReached, LimitSettings, RateLimits, SignInAttempt};
