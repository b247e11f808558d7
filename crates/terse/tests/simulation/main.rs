//! A deterministic simulation of two nodes on one store.
//!
//! The services of the core, the redirector with its cache, the change follower, the limiter, the
//! reaper and the shipper of clicks are the real ones. The stores are the ones in memory behind a
//! simulated network ([`network`], [`click_store`]): slow, gone, or losing answers after a write.
//! The click journal is on a simulated disk ([`disk`]): a power cut loses what was not synced,
//! whole, in part or torn. Nodes crash in the middle of calls and between file operations, and
//! their wall clocks jump. Everything runs on one thread in simulated time, so that a minute
//! takes milliseconds, and everything random comes from the seed. A model ([`model`]) checks every
//! answer, and a ledger ([`ledger`]) that each click is counted once.
//!
//! Our own schedule on tokio's paused clock, and not turmoil or shuttle: the parts talk through
//! traits and not through sockets, which turmoil simulates, and wait for futures and not for locks,
//! whose order shuttle explores.
//!
//! `TERSE_SIM_SECONDS=3600` runs for longer, `TERSE_SIM_SEED=17` runs one seed and prints what
//! happens. What lies below the store's contract (torn writes, lost syncs, failing disks) is
//! simulated below SQLite, in `terse-embedded/tests/power_cut`.
#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod alive;
mod click_store;
mod clients;
mod counting;
mod dice;
mod disk;
mod journal;
mod ledger;
mod model;
mod network;
mod node;
mod schedule;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use schedule::{Options, Outcome, run};

/// Without another order, few seconds; CI runs two minutes.
fn seconds() -> u64 {
    let asked = std::env::var("TERSE_SIM_SECONDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("TERSE_TEST_ALL").is_some() { 120 } else { 10 })
}

#[test]
fn every_promise_holds_in_every_schedule() {
    if let Some(seed) = std::env::var("TERSE_SIM_SEED").ok().and_then(|text| text.parse().ok()) {
        let outcome = run(seed, &Options { verbose: true, ..Options::default() });
        println!("{outcome:?}");
        return;
    }
    let (begun, next) = (Instant::now(), AtomicU64::new(1));
    let end = Duration::from_secs(seconds());
    let total = std::sync::Mutex::new(Outcome::default());
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(2));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while begun.elapsed() < end {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let outcome = run(seed, &Options::default());
                    total.lock().unwrap().add(&outcome);
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).tv_sec.max(1);
    println!(
        "{} schedules in {:?}, {} per minute of CPU time: {total:?}",
        total.schedules,
        begun.elapsed(),
        total.schedules * 60 / cpu.cast_unsigned()
    );
    // A simulation in which nothing happens would pass, too.
    assert!(total.redirects > total.schedules && total.created > total.schedules, "{total:?}");
    assert!(total.crashes > 0 && total.unknown > 0 && total.refused_by_faults > 0, "{total:?}");
    assert!(total.within_limit > 0 && total.over_limit > 0, "{total:?}");
    assert!(total.counted > total.schedules && total.power_cuts > 0, "{total:?}");
    assert!(total.lost_records > 0 && total.complete_stops > 0, "{total:?}");
}

/// The first violation that the model finds with these options.
fn violation(options: &Options) -> String {
    let found = (1..=300).find_map(|seed| {
        let run = std::panic::catch_unwind(|| run(seed, options));
        run.err().and_then(|panic| panic.downcast_ref::<String>().cloned())
    });
    let message = found.expect("a violation within 300 schedules");
    assert!(message.contains("TERSE_SIM_SEED="), "{message}");
    message
}

/// The model sees what it must see: without the change feed, a node serves what another one
/// replaced.
#[test]
fn a_node_that_does_not_follow_changes_is_found() {
    let message = violation(&Options { follow_changes: false, ..Options::default() });
    assert!(message.contains("fresh") || message.contains("durable"), "{message}");
}

#[test]
fn a_server_that_answers_before_it_journals_is_found() {
    let message = violation(&Options { journal_late: true, ..Options::default() });
    assert!(message.contains("answered and not counted"), "{message}");
}

#[test]
fn a_click_store_that_counts_a_repeated_batch_again_is_found() {
    let message = violation(&Options { count_again: true, ..Options::default() });
    assert!(message.contains("counted twice"), "{message}");
}

/// The same seed is the same schedule, so that a violation can be looked at.
#[test]
fn a_seed_replays() {
    for seed in 1..=12 {
        let once = format!("{:?}", run(seed, &Options::default()));
        assert_eq!(format!("{:?}", run(seed, &Options::default())), once, "seed {seed}");
    }
}
