//! Three real nodes on PostgreSQL with a synchronous standby, behind pgbouncer, while parts of them
//! fail. Clients record what they do and see; `terse_testkit::fleet` checks it.
//!
//! A test binary of its own, so that no other test takes its processors. `TERSE_FLEET_SECONDS=3600`
//! runs for longer (the six faults in turn), `TERSE_FLEET_SEED=17` with other choices. After a
//! failure the history is in the folder that the message names.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod balancer;
mod client;
mod nodes;
#[allow(dead_code, reason = "the other test binary uses all of it")]
#[path = "../it/process.rs"]
mod process;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use balancer::Balancer;
use client::{Client, Recorder};
use nodes::Fleet;
use serde_json::{Value, json};
use terse_testkit::TcpProxy;
use terse_testkit::fleet::{History, Window, check};

/// What is broken on purpose.
#[derive(Clone, Copy, Debug)]
enum Fault {
    NodeKilled,
    NodePaused,
    NodeRestarted,
    DatabaseRestarted,
    DatabaseSlow,
    DatabaseRefuses,
    /// By flag, and once, because the primary does not come back.
    DatabaseFailsOver,
}

const FAULTS: [Fault; 6] = [
    Fault::NodeKilled,
    Fault::NodePaused,
    Fault::NodeRestarted,
    Fault::DatabaseRestarted,
    Fault::DatabaseSlow,
    Fault::DatabaseRefuses,
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Breaks one thing for a while, and notes when.
fn apply(fault: Fault, round: usize, fleet: &Fleet, recorder: &Recorder, history: &mut History) {
    let node = round % fleet.len();
    let from = recorder.now();
    eprintln!("{from:>7} ms: {fault:?}, node {node}");
    match fault {
        Fault::NodeKilled => {
            fleet.kill(node);
            sleep(1_500);
            fleet.start_node(node);
        }
        Fault::NodePaused => {
            fleet.pause(node, Duration::from_secs(3));
            history.cuts.push((node, Window { from, to: recorder.now() }));
        }
        Fault::NodeRestarted => fleet.restart(node),
        Fault::DatabaseRestarted => {
            fleet.server.stop();
            let away = recorder.now();
            sleep(3_000);
            history.store_away.push(Window { from: away, to: recorder.now() });
            fleet.server.run();
        }
        Fault::DatabaseSlow => {
            fleet.proxies.iter().for_each(|proxy| proxy.delay(Duration::from_millis(200)));
            sleep(4_000);
            fleet.proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO));
        }
        Fault::DatabaseRefuses => {
            fleet.proxies.iter().for_each(TcpProxy::refuse);
            let away = recorder.now();
            sleep(3_000);
            history.store_away.push(Window { from: away, to: recorder.now() });
            fleet.proxies.iter().for_each(TcpProxy::accept);
        }
        Fault::DatabaseFailsOver => {
            fleet.fail_over();
            history.store_away.push(Window { from, to: recorder.now() });
        }
    }
    let to = recorder.now();
    history.faults.push(Window { from, to });
    history.effects.extend(fleet.tokens());
    let is_database =
        !matches!(fault, Fault::NodeKilled | Fault::NodePaused | Fault::NodeRestarted);
    if is_database {
        // Nodes connect again at random distances of up to two seconds.
        let window = Window { from, to: to + 3_000 };
        history.cuts.extend((0..fleet.len()).map(|node| (node, window)));
        // A node that may have missed a change forgets all links.
        fleet.forget();
    }
}

/// Erases an account through one node. No node shows anything of it afterwards, also not one that
/// is killed and started again.
fn erase(fleet: &Fleet, recorder: &Recorder) {
    let (name, secret) = ("erin-of-the-fleet", "unforgettable");
    // A client that gets 503 waits and asks again.
    let ok = |node: usize, method: &str, path: &str, body: Option<Value>| {
        let mut answer = None;
        for _ in 0..10 {
            answer = client::api(fleet, node, method, path, None, body.as_ref());
            match answer {
                Some((503, ..)) => sleep(1_000),
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
    recorder.record_erasure(call, &[name, secret]);
    // The other nodes read the change within a second. The promise about changes is 5.
    sleep(5_000);
    (0..fleet.len()).for_each(|node| drop(show(node)));
    fleet.kill(1);
    fleet.start_node(1);
    show(1);
}

/// One test at a time has the processors.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nodes are restarted one after the other behind a load balancer that asks them whether they are
/// ready, as for an upgrade.
#[test]
fn a_rolling_restart_fails_no_request() {
    let _alone = alone();
    let fleet = Arc::new(Fleet::start(3, &["shutdown.drain_delay=3s"]));
    let balancer = Balancer::start(Arc::clone(&fleet));
    balancer.wait_until_ready(0..3);
    let clients: Vec<_> = (0..3).map(|n| balancer.client(n)).collect();
    for node in 0..3 {
        fleet.restart(node);
        balancer.wait_until_ready(node..node + 1);
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

#[test]
fn a_fleet_keeps_its_promises_while_parts_of_it_fail() {
    let _alone = alone();
    let seconds = setting("TERSE_FLEET_SECONDS", 90);
    let seed = setting("TERSE_FLEET_SEED", 8);
    let fleet = Arc::new(Fleet::start(3, &[]));
    let recorder = Arc::new(Recorder::default());
    let clients: Vec<_> = (0..4)
        .map(|n| {
            let (fleet, recorder) = (Arc::clone(&fleet), Arc::clone(&recorder));
            std::thread::spawn(move || Client::new(n, seed, fleet, recorder).run())
        })
        .collect();

    let mut history = History::default();
    let end = seconds * 1_000;
    // The first faults come after some links exist; the last are over well before the end.
    let pause = (end.saturating_sub(34_000) / FAULTS.len() as u64).clamp(3_000, 20_000);
    sleep(4_000);
    for round in 0.. {
        apply(FAULTS[round % FAULTS.len()], round, &fleet, &recorder, &mut history);
        if round + 1 >= FAULTS.len() && recorder.now() + pause + 24_000 > end {
            break;
        }
        sleep(pause);
    }
    if setting("TERSE_FLEET_FAILOVER", 0) > 0 {
        sleep(pause);
        apply(Fault::DatabaseFailsOver, 0, &fleet, &recorder, &mut history);
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
    erase(&fleet, &recorder);
    history.operations = recorder.take();

    // All nodes end, and ship what is in their journals; another start reads the statistics.
    fleet.stop();
    fleet.start_node(0);
    history.drained = Some(client::drained(&fleet, &history));
    fleet.stop();
    let (operations, errors) =
        (history.operations.len(), history.operations.iter().filter(|op| op.is_error).count());
    let links = history.drained.as_ref().unwrap().links.len();
    eprintln!("{operations} operations, {errors} without success, {links} links");
    assert!(operations > 500 && links > 20, "too little happened to check anything");
    let broken = check(&history);
    if !broken.is_empty() {
        let file = std::env::temp_dir().join(format!("terse-fleet-{}.txt", std::process::id()));
        std::fs::write(&file, history.to_text()).unwrap();
        let shown: Vec<_> = broken.iter().take(12).collect();
        panic!(
            "{} promises were broken (seed {seed}, history in {}): {shown:#?}",
            broken.len(),
            file.display()
        );
    }
}
