//! Redis between the nodes and their store.

use std::sync::Arc;

use anyhow::Context as _;
use terse_core::{CheckResult, Clock, Finding, LinkStore};
use terse_redis::{
    AnnouncingRoutes, Redis, RedisInspection, RedisLimiter, RedisLinkOptions, RedisLinks, RedisUrl,
};

use super::{SharedServices, limiter};
use crate::config::{CacheUrl, Config};

/// Checks a URL, and returns it without its password.
pub(crate) fn check_url(text: &str) -> Result<String, String> {
    RedisUrl::parse(text).map(|url| url.to_string()).map_err(|error| error.to_string())
}

/// Connects to Redis and puts it in front of the store.
pub(super) async fn open(
    config: &Config,
    url: &CacheUrl,
    store: &Arc<dyn LinkStore>,
    clock: &Clock,
) -> anyhow::Result<SharedServices> {
    let url = RedisUrl::parse(url.reveal()).context("cache.url")?;
    let redis = Arc::new(Redis::open(url).await.context("connecting to cache.url")?);
    let options = RedisLinkOptions {
        write_through: config.cache.write_through,
        max_stale: config.redirect.max_stale.get(),
    };
    let links = Arc::new(RedisLinks::new(redis.clone(), store.clone(), options));
    let tag = store.identity().derive("terse redis limits v1");
    let tag: String = tag[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    let shared_limiter = Arc::new(RedisLimiter::new(redis.clone(), limiter(clock), &tag));
    let (measured, announced, clock) = (links.clone(), links.clone(), clock.clone());
    Ok(SharedServices {
        reader: links.clone(),
        cache: Some(links),
        limiter: shared_limiter,
        metrics: Some(Box::new(move |to| measured.write_metrics(to))),
        announce: Box::new(move |routes, on_change| {
            Arc::new(AnnouncingRoutes::new(&announced, routes, clock, on_change))
        }),
    })
}

/// Looks at Redis. Blocks, and may be called on any thread.
pub(super) fn doctor(url: &CacheUrl) -> Vec<Finding> {
    let url = url.reveal().to_owned();
    let inspected = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let url = RedisUrl::parse(&url)?;
        anyhow::Ok(runtime.block_on(terse_redis::inspect(&url))?)
    });
    match inspected.join() {
        Ok(Ok(inspection)) => findings(&inspection),
        Ok(Err(error)) => vec![finding(
            CheckResult::Problem,
            format!("Redis: {error:#}"),
            "start Redis, or correct the setting `cache.url`; meanwhile nodes use the store alone",
        )],
        Err(_) => vec![finding(CheckResult::Problem, "it could not be checked".into(), "")],
    }
}

fn finding(verdict: CheckResult, found: String, advice: &str) -> Finding {
    Finding { what: "cache".to_owned(), verdict, found, advice: advice.to_owned() }
}

fn findings(seen: &RedisInspection) -> Vec<Finding> {
    use CheckResult::{Good, Warning};
    let (used, most) = (seen.used_memory >> 20, seen.max_memory >> 20);
    let servers =
        if seen.servers > 1 { format!(", {} servers", seen.servers) } else { String::new() };
    let state = format!("Redis {}{servers}; {used} MiB of memory in use", seen.version);
    if seen.max_memory == 0 {
        let found = format!("{state}, without a limit (maxmemory is 0)");
        let advice = "set maxmemory below the machine's memory, and maxmemory-policy allkeys-lfu";
        return vec![finding(Warning, found, advice)];
    }
    let found = format!("{state} of {most} MiB, maxmemory-policy is {}", seen.eviction_policy);
    vec![if seen.eviction_policy == "noeviction" {
        let advice = "set maxmemory-policy allkeys-lfu: a full Redis refuses writes otherwise, and \
                      nodes then use the store alone";
        finding(Warning, found, advice)
    } else {
        finding(Good, found, "")
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_needs_a_limit_and_a_policy() {
        let seen = |max_memory, policy: &str| {
            let inspection = RedisInspection {
                version: "7.0.15".into(),
                servers: 1,
                used_memory: 5 << 20,
                max_memory,
                eviction_policy: policy.into(),
            };
            findings(&inspection).remove(0)
        };
        for (max, policy, verdict, part) in [
            (0, "noeviction", CheckResult::Warning, "maxmemory is 0"),
            (64 << 20, "noeviction", CheckResult::Warning, "policy is noeviction"),
            (64 << 20, "allkeys-lfu", CheckResult::Good, "5 MiB of memory in use of 64 MiB"),
            (64 << 20, "volatile-lru", CheckResult::Good, "Redis 7.0.15"),
        ] {
            let found = seen(max, policy);
            assert_eq!(found.verdict, verdict, "{}", found.found);
            assert!(found.found.contains(part), "{}", found.found);
        }
    }
}
