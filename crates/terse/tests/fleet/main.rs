//! Three real nodes on PostgreSQL with a synchronous standby, behind pgbouncer, and on Redis, while
//! parts of them fail. Clients record what they do and see; `terse_testkit::fleet` checks it.
//!
//! A test binary of its own, so that no other test takes its processors. `TERSE_FLEET_SECONDS=3600`
//! runs for longer (the faults in turn), `TERSE_FLEET_SEED=17` with other choices, and
//! `TERSE_FLEET_FAULTS=redis-flushed,clock-off` or `all` with other faults than the six usual ones.
//! `TERSE_FLEET_STORES=kafka,clickhouse` or `dynamodb` puts other engines underneath and breaks
//! these. After a failure the history is in the folder that the message names.
#![cfg(all(feature = "postgres", feature = "redis"))]
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod balancer;
mod client;
mod engines;
mod faults;
mod nodes;
#[allow(dead_code, reason = "the other test binary uses all of it")]
#[path = "../it/process.rs"]
mod process;
mod suspended_owner;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use balancer::{Balancer, free_ports};
use client::{Client, Owner, Recorder};
use faults::{Fault, apply};
use nodes::Fleet;
use serde_json::{Value, json};
use suspended_owner::SuspendedOwner;
use terse_testkit::fleet::{Action, History, Outcome, check};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Erases an account through one node. No node shows anything of it afterwards, also not after all
/// nodes were killed and started again.
fn erase(fleet: &Fleet, recorder: &Recorder) {
    let (name, secret) = ("erin-of-the-fleet", "unforgettable");
    // A client that gets 503 waits and asks again.
    let ok = |node: usize, method: &str, path: &str, body: Option<Value>| {
        let mut answer = None;
        let mut unanswered = false;
        for _ in 0..10 {
            answer = client::api(fleet, node, method, path, None, body.as_ref());
            match answer {
                Some((503, ..)) => sleep(1_000),
                // An erasure may be repeated. One whose answer was late may be done by then.
                None if method == "DELETE" => unanswered = true,
                Some((404, ..)) if unanswered => return Value::Null,
                _ => break,
            }
        }
        match answer {
            Some((200..300, _, body)) => body,
            other => panic!("{method} {path}: {other:?}"),
        }
    };
    let account = ok(0, "POST", "/admin/users", Some(json!({ "name": name })));
    let path = format!("/admin/users/{}", account["id"]);
    let key = ok(1, "POST", &format!("{path}/keys"), Some(json!({ "name": "k", "scope": "full" })));
    let key = format!("Bearer {}", key["key"].as_str().unwrap());
    let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
    let link = json!({ "long_url": format!("https://example.com/{secret}"), "title": secret });
    let url = format!("{}/api/v1/urls", fleet.url(2));
    let made = client::send(&url, "POST", &headers, Some(&link)).unwrap();
    let code = made.2["short_code"].as_str().unwrap_or_else(|| panic!("{made:?}")).to_owned();
    let show = |node: usize| {
        let call = recorder.now();
        let visit = client::send(&format!("{}/{code}", fleet.url(node)), "GET", &[], None).unwrap();
        let mut text = format!("{visit:?}");
        for path in ["/admin/users", &format!("/admin/links?q={secret}"), "/admin/audit"] {
            text += &ok(node, "GET", path, None).to_string();
        }
        text +=
            &format!("{:?}", client::api(fleet, node, "GET", &format!("/urls/{code}"), None, None));
        recorder.record_show(call, node, text)
    };
    for node in 0..fleet.len() {
        let text = show(node);
        assert!(text.contains(name) && text.contains(secret), "it was there: {text}");
    }
    let call = recorder.now();
    ok(0, "DELETE", &path, None);
    // A large erasure, or one on a busy machine, goes on after its answer (202).
    let is_erased = || {
        let answer = client::api(fleet, 0, "GET", &path, None, None);
        matches!(answer, Some((404, ..)))
    };
    terse_testkit::wait_until("the account is erased", is_erased);
    recorder.record_erasure(call, &[name, secret]);
    // The other nodes read the change within a second. The promise about changes is 5.
    sleep(5_000);
    (0..fleet.len()).for_each(|node| drop(show(node)));
    (0..fleet.len()).for_each(|node| fleet.kill(node));
    (0..fleet.len()).for_each(|node| fleet.start_node(node));
    (0..fleet.len()).for_each(|node| drop(show(node)));
}

/// One test at a time has the processors.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nodes are restarted one after the other behind HAProxy with the settings of `deploy/`, as for an
/// upgrade.
#[test]
fn a_rolling_restart_fails_no_request() {
    let _alone = alone();
    let ports = free_ports(3);
    let Some(balancer) = Balancer::start(&ports) else { return };
    // As in `deploy/compose.yaml`.
    let settings = ["shutdown.drain_delay=5s", "trusted_proxies=127.0.0.1"];
    let fleet = Fleet::start_at(&ports, &settings);
    (0..3).for_each(|node| balancer.wait_until_up(node));
    let clients: Vec<_> = (0..3).map(|n| balancer.client(n)).collect();
    for node in 0..3 {
        fleet.terminate(node);
        balancer.wait_until_down(node);
        fleet.start_node(node);
        balancer.wait_until_up(node);
    }
    balancer.stop();
    let (mut requests, mut failures) = (0, Vec::new());
    for client in clients {
        let (sent, failed) = client.join().unwrap();
        requests += sent;
        failures.extend(failed);
    }
    fleet.stop();
    assert!(failures.is_empty(), "{} of {requests} requests failed: {failures:?}", failures.len());
    assert!(requests > 50, "only {requests} requests were sent");
}

/// Creates links through all nodes in turn and returns their codes. A client that gets 503 asks
/// again.
fn create_some(fleet: &Fleet, what: &str, count: usize) -> Vec<String> {
    let create = |n: usize| {
        let body = json!({ "long_url": format!("https://example.com/{what}/{n}"), "reuse": false });
        for _ in 0..60 {
            let reply = client::api(fleet, n % fleet.len(), "POST", "/urls", None, Some(&body));
            match reply {
                Some((201, _, link)) => return link["short_code"].as_str().unwrap().to_owned(),
                Some((503, ..)) | None => sleep(500),
                other => panic!("{other:?}"),
            }
        }
        panic!("no node creates links")
    };
    (0..count).map(create).collect()
}

/// By `TERSE_FLEET_FAULTS=database-restored`. Links that were made after the backup are lost, and
/// no node issues their codes again, neither one that still runs nor one that starts.
#[test]
fn codes_stay_unique_after_an_older_backup_was_restored() {
    if !faults::restores_a_backup() {
        return;
    }
    let _alone = alone();
    let fleet = Fleet::start(3, &[]);
    let kept = create_some(&fleet, "kept", 40);
    let dump = fleet.dump();
    let mut codes = create_some(&fleet, "lost", 60);
    fleet.restore(&dump);
    codes.extend(create_some(&fleet, "after", 60));
    fleet.kill(1);
    fleet.start_node(1);
    codes.extend(create_some(&fleet, "restarted", 60));
    for code in &kept {
        for node in 0..fleet.len() {
            let url = format!("{}/{code}", fleet.url(node));
            let reply = client::send(&url, "GET", &[], None);
            assert!(matches!(&reply, Some((302, Some(_), _))), "node {node}, {code}: {reply:?}");
        }
    }
    codes.extend(kept);
    let all = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), all, "no code was issued twice");
    fleet.stop();
}

/// The history of a test. It is written into a file if the test fails, whatever the reason.
struct KeptHistory {
    history: History,
    recorder: Arc<Recorder>,
}

impl Drop for KeptHistory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.history.operations.extend(self.recorder.take());
        let file = std::env::temp_dir().join(format!("terse-fleet-{}.txt", std::process::id()));
        match std::fs::write(&file, self.history.to_text()) {
            Ok(()) => eprintln!("the history is in {}", file.display()),
            Err(error) => eprintln!("{} cannot be written: {error}", file.display()),
        }
    }
}

#[test]
fn a_fleet_keeps_its_promises_while_parts_of_it_fail() {
    let _alone = alone();
    let seconds = setting("TERSE_FLEET_SECONDS", 90);
    let seed = setting("TERSE_FLEET_SEED", 8);
    let faults = Fault::selected();
    if faults.is_empty() {
        return;
    }
    let fleet = Arc::new(Fleet::start(3, &[]));
    let recorder = Arc::new(Recorder::default());
    let shared = || (Arc::clone(&fleet), Arc::clone(&recorder));
    let mut clients: Vec<_> = (0..4)
        .map(|n| {
            let (fleet, recorder) = shared();
            let client = Client::new(n, Owner::admin(), seed, fleet, recorder);
            std::thread::spawn(move || client.run())
        })
        .collect();
    let (other_fleet, other_recorder) = shared();
    let suspended = SuspendedOwner::new(4, seed, other_fleet, other_recorder);
    let owner = suspended.owner.clone();
    clients.push(std::thread::spawn(move || suspended.run()));

    let mut kept = KeptHistory { history: History::default(), recorder: Arc::clone(&recorder) };
    let history = &mut kept.history;
    let end = seconds * 1_000;
    // The first faults come after some links exist; the last are over well before the end. Errors
    // are allowed for ten seconds after a fault: where all nodes may have them, the next one comes
    // later than that, so that the errors of healthy nodes are noticed.
    let pause = (end.saturating_sub(34_000) / faults.len().max(1) as u64).clamp(3_000, 20_000);
    let pause_after = |fault: Fault| match fault.affects_all() {
        true => pause.max(14_000),
        false => pause * 2 / 3,
    };
    sleep(4_000);
    let (last, repeated): (Vec<Fault>, Vec<Fault>) =
        faults.iter().copied().partition(|fault| fault.is_last());
    for round in 0.. {
        let Some(fault) = repeated.get(round % repeated.len().max(1)) else { break };
        apply(*fault, round, &fleet, &recorder, history);
        if round + 1 >= repeated.len() && recorder.now() + pause + 24_000 > end {
            break;
        }
        sleep(pause_after(*fault));
    }
    for fault in last {
        sleep(pause);
        apply(fault, 0, &fleet, &recorder, history);
    }
    // What the faults leave behind is over ten seconds later.
    sleep(11_000);
    let healed_at = recorder.now();
    history.healed_at = Some(healed_at);
    sleep(end.saturating_sub(recorder.now()).max(5_000));
    recorder.stopped.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    eprintln!("{}", fleet.change_delays());
    erase(&fleet, &recorder);
    history.operations = recorder.take();
    history.effects = fleet.fenced_writes();

    // All nodes end, and ship what is in their journals; another start reads the statistics.
    fleet.stop();
    fleet.start_node(0);
    fleet.wait_until_counted();
    history.drained = Some(client::drained(&fleet, history, &[owner]));
    fleet.stop();
    let (operations, errors) =
        (history.operations.len(), history.operations.iter().filter(|op| op.is_error).count());
    let links = history.drained.as_ref().unwrap().links.len();
    let count = |is: fn(&Action) -> bool| {
        history.operations.iter().filter(|at| at.outcome == Outcome::Ok && is(&at.action)).count()
    };
    let blocks = count(|action| matches!(action, Action::Block { .. }));
    let cleared = count(|action| matches!(action, Action::Unblock { .. }));
    let reused = count(|action| matches!(action, Action::Create { reused: true, .. }));
    eprintln!("{blocks} blocks, {cleared} of them undone, {reused} links used again");
    assert!(blocks > 10 && cleared > 10 && reused > 10, "too little happened to check it");
    eprintln!("{operations} operations, {errors} without success, {links} links");
    assert!(operations > 500 && links > 20, "too little happened to check anything");
    eprintln!("{} times a job took the lease or wrote under it", history.effects.len());
    let broken = check(history);
    let shown: Vec<_> = broken.iter().take(12).collect();
    assert!(broken.is_empty(), "{} promises were broken (seed {seed}): {shown:#?}", broken.len());
}
