//! Rate limits that all nodes share.
//!
//! A bucket is one key, which holds the time of Redis' clock, in microseconds, at which it is full
//! again. A key that is missing is a full bucket, so nothing breaks if Redis evicts one. All keys
//! have one hash tag: a Cluster runs a script only on keys of one slot.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Script;
use terse_core::limits::{LimitDecision, LimitKey, Limiter, TokenRequest};

use crate::client::Redis;

/// Takes from all buckets or from none. `ARGV[1]`: microseconds to add to the time; then per bucket
/// its interval in microseconds, its size, and how many tokens. Returns whether they were taken,
/// then per bucket the microseconds until it is full and until it holds enough (-1: never).
const TAKE: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + ARGV[1]
local after, answer, allowed = {}, {}, 1
for i, key in ipairs(KEYS) do
    local interval, size = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
    local period, cost = interval * size, interval * ARGV[3 * i + 1]
    local before = after[key]
    if not before then
        local full = tonumber(redis.call('GET', key) or 0) or 0
        before = math.min(math.max(full - now, 0), period)
    end
    -- Sums of fractions are rounded.
    if before + cost <= period + 1 then
        after[key] = before + cost
        answer[2 * i], answer[2 * i + 1] = math.ceil(before + cost), 0
    else
        allowed = 0
        after[key] = before
        answer[2 * i] = math.ceil(before)
        answer[2 * i + 1] = cost > period and -1 or math.ceil(before + cost - period)
    end
end
answer[1] = allowed
if allowed == 1 then
    for key, full in pairs(after) do
        redis.call('SET', key, string.format('%.1f', now + full), 'PX',
            math.ceil(full / 1000) + 1000)
    end
end
return answer
";

/// Puts tokens back; the arguments are those of `TAKE`.
const GIVE_BACK: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + ARGV[1]
for i, key in ipairs(KEYS) do
    local full = tonumber(redis.call('GET', key) or 0) or 0
    if full > now then
        full = full - ARGV[3 * i - 1] * ARGV[3 * i + 1]
        if full > now then
            redis.call('SET', key, string.format('%.1f', full), 'PX',
                math.ceil((full - now) / 1000) + 1000)
        else
            redis.call('DEL', key)
        end
    end
end
return 0
";

/// Counts in Redis; in this process while Redis does not answer.
pub struct RedisLimiter {
    redis: Arc<Redis>,
    local: Arc<dyn Limiter>,
    prefix: String,
    take: Script,
    give_back: Script,
    ahead_micros: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl RedisLimiter {
    /// `local` counts while Redis is away. `store` separates the keys of stores that share one
    /// Redis.
    pub fn new(redis: Arc<Redis>, local: Arc<dyn Limiter>, store: &str) -> Self {
        Self {
            redis,
            local,
            prefix: format!("{{{store}:limits}}"),
            take: Script::new(TAKE),
            give_back: Script::new(GIVE_BACK),
            ahead_micros: Arc::new(|| 0),
        }
    }

    /// Adds this to Redis' time, for tests that control the clock.
    #[doc(hidden)]
    #[must_use]
    pub fn ahead_by(self, ahead_micros: Arc<dyn Fn() -> i64 + Send + Sync>) -> Self {
        Self { ahead_micros, ..self }
    }

    async fn run<T: redis::FromRedisValue>(
        &self,
        script: &Script,
        takes: &[TokenRequest],
    ) -> Option<T> {
        let mut call = script.prepare_invoke();
        call.arg((self.ahead_micros)());
        for take in takes {
            let interval = take.limit.interval().as_nanos() as f64 / 1000.0;
            call.key(self.key(take)).arg(interval).arg(take.limit.count()).arg(take.count);
        }
        self.redis.call(async |connection| call.invoke_async(connection).await).await.ok()
    }

    fn key(&self, take: &TokenRequest) -> String {
        let action = take.subject.action;
        match take.subject.key {
            LimitKey::Network(network) => format!("{}:{action:?}:n:{network:?}", self.prefix),
            LimitKey::Key(key) => format!("{}:{action:?}:k:{key}", self.prefix),
            LimitKey::Account(account, limit) => {
                format!("{}:{action:?}:a:{account}:{limit}", self.prefix)
            }
            LimitKey::Link(link) => format!("{}:{action:?}:l:{link}", self.prefix),
        }
    }
}

/// The takes that have a limit, each of at least one token.
fn limited(takes: &[TokenRequest]) -> Vec<TokenRequest> {
    let limited = takes.iter().filter(|take| !take.limit.is_off());
    limited.map(|take| TokenRequest { count: take.count.max(1), ..*take }).collect()
}

fn decision(take: &TokenRequest, until_full: i64, wait: i64) -> LimitDecision {
    let micros = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or_default());
    let (limit, reset) = (take.limit.count(), micros(until_full));
    let left = take.limit.per().saturating_sub(reset);
    let remaining = u32::try_from(left.as_nanos() / take.limit.interval().as_nanos().max(1));
    let remaining = remaining.unwrap_or(u32::MAX).min(limit);
    let allowed = wait == 0;
    let retry = if wait < 0 { take.limit.per() } else { micros(wait) };
    LimitDecision {
        allowed,
        limit,
        remaining: if wait < 0 { 0 } else { remaining },
        reset: if allowed { reset } else { reset.max(retry) },
        retry,
    }
}

#[async_trait]
impl Limiter for RedisLimiter {
    async fn take(&self, takes: &[TokenRequest]) -> LimitDecision {
        let takes = limited(takes);
        if takes.is_empty() {
            return LimitDecision::UNLIMITED;
        }
        let Some(answer) = self.run::<Vec<i64>>(&self.take, &takes).await else {
            return self.local.take(&takes).await;
        };
        let each = takes.iter().zip(answer.get(1..).unwrap_or_default().chunks_exact(2));
        each.fold(LimitDecision::UNLIMITED, |all, (take, numbers)| {
            all.and(decision(take, numbers[0], numbers[1]))
        })
    }

    async fn give_back(&self, takes: &[TokenRequest]) {
        let takes = limited(takes);
        if !takes.is_empty() && self.run::<i64>(&self.give_back, &takes).await.is_none() {
            self.local.give_back(&takes).await;
        }
    }
}
