//! Durations, numbers and sizes within their bounds.

use crate::config::{ByteSize, Config, HumanDuration};

pub(super) fn durations(c: &Config) -> Result<(), (&'static str, String)> {
    let day = HumanDuration::days(1);
    let hour = HumanDuration::secs(3600);
    spans(&[
        ("cache.ttl", c.cache.ttl, HumanDuration::secs(1), day),
        (
            "cache.negative_ttl",
            c.cache.negative_ttl,
            HumanDuration::secs(0),
            HumanDuration::secs(60),
        ),
        (
            "redirect.permanent_max_age",
            c.redirect.permanent_max_age,
            HumanDuration::secs(0),
            HumanDuration::days(365),
        ),
        (
            "redirect.permanent_after",
            c.redirect.permanent_after,
            HumanDuration::secs(0),
            HumanDuration::days(3650),
        ),
        (
            "redirect.store_timeout",
            c.redirect.store_timeout,
            HumanDuration::ms(1),
            HumanDuration::secs(60),
        ),
        (
            "redirect.max_stale",
            c.redirect.max_stale,
            HumanDuration::secs(0),
            HumanDuration::days(7),
        ),
        (
            "redirect.header_timeout",
            c.redirect.header_timeout,
            HumanDuration::secs(1),
            HumanDuration::secs(300),
        ),
        ("redirect.idle_timeout", c.redirect.idle_timeout, HumanDuration::secs(1), hour),
        ("clicks.flush", c.clicks.flush, HumanDuration::secs(0), HumanDuration::secs(60)),
        ("clicks.keep_raw", c.clicks.keep_raw, HumanDuration::secs(0), HumanDuration::days(36_500)),
        (
            "clicks.keep_hours",
            c.clicks.keep_hours,
            HumanDuration::days(2),
            HumanDuration::days(366),
        ),
        (
            "accounts.session_ttl",
            c.accounts.session_ttl,
            HumanDuration::secs(60),
            HumanDuration::days(365),
        ),
        ("anonymous.ttl", c.anonymous.ttl, HumanDuration::secs(1), HumanDuration::days(3650)),
        (
            "safety.lists_every",
            c.safety.lists_every,
            HumanDuration::secs(60),
            HumanDuration::days(7),
        ),
        (
            "safety.rescan_every",
            c.safety.rescan_every,
            HumanDuration::secs(60),
            HumanDuration::days(365),
        ),
        ("backup.every", c.backup.every, hour, HumanDuration::days(365)),
        ("backup.keep", c.backup.keep, hour, HumanDuration::days(36_500)),
        (
            "backup.drill_every",
            c.backup.drill_every,
            HumanDuration::secs(0),
            HumanDuration::days(365),
        ),
        ("cdn.ttl", c.cdn.ttl, HumanDuration::secs(1), day),
        ("links.grace", c.links.grace, HumanDuration::secs(0), HumanDuration::days(3650)),
        (
            "links.keep_expired",
            c.links.keep_expired,
            HumanDuration::secs(0),
            HumanDuration::days(36_500),
        ),
        ("links.reap_every", c.links.reap_every, HumanDuration::secs(1), day),
        (
            "tls.handshake_timeout",
            c.tls.handshake_timeout,
            HumanDuration::secs(1),
            HumanDuration::secs(60),
        ),
        ("tls.hsts", c.tls.hsts, HumanDuration::secs(0), HumanDuration::days(3650)),
        ("shutdown.drain_delay", c.shutdown.drain_delay, HumanDuration::secs(0), hour),
        ("shutdown.timeout", c.shutdown.timeout, HumanDuration::secs(0), hour),
    ])
}

pub(super) fn counts(c: &Config) -> Result<(), (&'static str, String)> {
    numbers(&[
        ("codes.length", c.codes.length.into(), 4, 10),
        ("codes.lease", c.codes.lease.into(), 1, 100_000),
        ("cache.negative_entries", c.cache.negative_entries.into(), 0, 100_000_000),
        ("redirect.threads", c.redirect.threads.into(), 0, 1024),
        ("redirect.store_concurrency", c.redirect.store_concurrency.into(), 1, 100_000),
        ("redirect.max_connections", c.redirect.max_connections.into(), 1, 10_000_000),
        (
            "redirect.max_connections_per_ip",
            c.redirect.max_connections_per_ip.into(),
            0,
            10_000_000,
        ),
        ("tls.max_handshakes", c.tls.max_handshakes.into(), 1, 1_000_000),
        ("links.reap_batch", c.links.reap_batch.into(), 1, 100_000),
        ("links.max_purge_percent", c.links.max_purge_percent.into(), 1, 100),
    ])
}

pub(super) fn sizes(c: &Config) -> Result<(), (&'static str, String)> {
    if c.memory.budget < ByteSize::mib(64) || c.memory.budget > ByteSize::mib(1 << 20) {
        return Err(("memory.budget", "must be from 64MiB to 1024GiB".into()));
    }
    if c.cache.size.is_some_and(|size| size < ByteSize::mib(1) || size > ByteSize::mib(1 << 20)) {
        return Err(("cache.size", "must be from 1MiB to 1024GiB".into()));
    }
    if c.clicks.journal_size < ByteSize::mib(16) || c.clicks.journal_size > ByteSize::mib(1 << 20) {
        return Err(("clicks.journal_size", "must be from 16MiB to 1024GiB".into()));
    }
    Ok(())
}

fn spans(
    bounds: &[(&'static str, HumanDuration, HumanDuration, HumanDuration)],
) -> Result<(), (&'static str, String)> {
    match bounds.iter().find(|(_, is, from, to)| is < from || is > to) {
        Some((name, _, from, to)) => Err((name, format!("must be from {from} to {to}"))),
        None => Ok(()),
    }
}

fn numbers(bounds: &[(&'static str, u64, u64, u64)]) -> Result<(), (&'static str, String)> {
    match bounds.iter().find(|(_, is, from, to)| is < from || is > to) {
        Some((name, _, from, to)) => Err((name, format!("must be from {from} to {to}"))),
        None => Ok(()),
    }
}
