//! Tells which clicks the viewer of a page made.

use std::net::IpAddr;
use std::sync::Arc;

use super::click::Click;
use super::visitor::visitor_hash;
use crate::registry::Salts;
use crate::time::Timestamp;

const DAY_MS: i64 = 86_400_000;

/// Recognises the clicks of one visitor by the hash of address and user agent. Only clicks of the
/// current day (UTC) are recognised: the salt of a day is not used for another purpose later.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnVisitor {
    /// The day and the visitor's hash on it.
    today: Option<(i64, u64)>,
}

impl OwnVisitor {
    /// The visitor with this address and user agent. Without an answer of the registry, no click is
    /// recognised.
    pub async fn of(salts: &Arc<dyn Salts>, address: IpAddr, agent: &[u8], now: Timestamp) -> Self {
        let day = day_of(now);
        let salt = salts.salt(day).await.ok();
        Self { today: salt.map(|salt| (day, visitor_hash(&salt, address, agent))) }
    }

    /// Whether the visitor made this click.
    pub fn made(&self, click: &Click) -> bool {
        self.today.is_some_and(|(day, hash)| click.visitor == Some(hash) && day_of(click.at) == day)
    }

    /// Whether it was asked for on another day than this.
    pub fn is_old(&self, now: Timestamp) -> bool {
        self.today.is_none_or(|(day, _)| day != day_of(now))
    }
}

fn day_of(at: Timestamp) -> i64 {
    at.as_ms().div_euclid(DAY_MS)
}
