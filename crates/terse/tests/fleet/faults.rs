//! What is broken on purpose.

use std::time::Duration;

use terse_testkit::fleet::{History, Window};
use terse_testkit::{TcpProxy, wait_until};

use crate::client::Recorder;
use crate::engines::{Engine, EngineFault};
use crate::nodes::{Fleet, RedisFault};
use crate::sleep;

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    NodeKilled,
    NodePaused,
    NodeRestarted,
    DatabaseRestarted,
    DatabaseSlow,
    DatabaseRefuses,
    RedisKilled,
    RedisFrozen,
    RedisFlushed,
    RedisPartitioned,
    /// Another process starts on a copy of a node's data folder.
    FolderCopied,
    /// The clock of a node is a minute ahead.
    ClockOff,
    /// The node that runs the jobs is paused until after its lease has ended.
    LeaseHolderPaused,
    /// An engine of `TERSE_FLEET_STORES`.
    Engine(Engine, EngineFault),
    /// Once and as the last one, because the primary does not come back.
    DatabaseFailsOver,
}

/// All, with the names by which they are selected. The first six are the usual ones.
const FAULTS: [(&str, Fault); 20] = [
    ("node-killed", Fault::NodeKilled),
    ("node-paused", Fault::NodePaused),
    ("redis-frozen", Fault::RedisFrozen),
    ("database-restarted", Fault::DatabaseRestarted),
    ("database-slow", Fault::DatabaseSlow),
    ("database-refuses", Fault::DatabaseRefuses),
    // The test of a rolling restart has it, too.
    ("node-restarted", Fault::NodeRestarted),
    ("redis-killed", Fault::RedisKilled),
    ("redis-flushed", Fault::RedisFlushed),
    ("redis-partitioned", Fault::RedisPartitioned),
    ("folder-copied", Fault::FolderCopied),
    ("clock-off", Fault::ClockOff),
    ("lease-holder-paused", Fault::LeaseHolderPaused),
    ("database-fails-over", Fault::DatabaseFailsOver),
    ("dynamodb-killed", Fault::Engine(Engine::DynamoDb, EngineFault::Killed)),
    ("dynamodb-frozen", Fault::Engine(Engine::DynamoDb, EngineFault::Frozen)),
    ("kafka-killed", Fault::Engine(Engine::Kafka, EngineFault::Killed)),
    ("kafka-frozen", Fault::Engine(Engine::Kafka, EngineFault::Frozen)),
    ("clickhouse-killed", Fault::Engine(Engine::ClickHouse, EngineFault::Killed)),
    ("clickhouse-frozen", Fault::Engine(Engine::ClickHouse, EngineFault::Frozen)),
];

/// A test of its own: what was written after the backup is lost on purpose.
const RESTORED: &str = "database-restored";

/// Whether the test with an older backup runs.
pub(crate) fn restores_a_backup() -> bool {
    let selected = std::env::var("TERSE_FLEET_FAULTS").unwrap_or_default();
    selected == "all" || selected.split(',').any(|name| name.trim() == RESTORED)
}

impl Fault {
    /// Those of `TERSE_FLEET_FAULTS`, or the usual six; with `TERSE_FLEET_STORES` the nodes and
    /// these engines.
    pub(crate) fn selected() -> Vec<Self> {
        let engines = Engine::selected();
        let is_used = |fault: &Self| match fault {
            Self::Engine(engine, _) => engines.contains(engine),
            _ => true,
        };
        let usual = |fault: &Self| match engines.is_empty() {
            true => FAULTS[..6].iter().any(|(_, usual)| usual == fault),
            false => matches!(fault, Self::NodeKilled | Self::NodePaused | Self::Engine(..)),
        };
        let all = FAULTS.iter().map(|(_, fault)| *fault).filter(is_used);
        match std::env::var("TERSE_FLEET_FAULTS").as_deref() {
            Err(_) | Ok("") => all.filter(usual).collect(),
            Ok("all") => all.collect(),
            Ok(names) => {
                let find = |name: &str| FAULTS.iter().find(|(known, _)| *known == name.trim());
                let known = || FAULTS.map(|(name, _)| name).join(", ");
                let fault = |name: &str| match find(name) {
                    Some((_, fault)) => *fault,
                    None => panic!("TERSE_FLEET_FAULTS: {name:?} is none of {}", known()),
                };
                names.split(',').filter(|name| name.trim() != RESTORED).map(fault).collect()
            }
        }
    }

    /// Whether it happens once, after all others.
    pub(crate) fn is_last(self) -> bool {
        self == Self::DatabaseFailsOver
    }

    /// Whether it breaks something that all nodes need, so that all of them may fail.
    pub(crate) fn affects_all(self) -> bool {
        self.is_of_database() || matches!(self, Self::Engine(..))
    }

    fn is_of_database(self) -> bool {
        matches!(
            self,
            Self::DatabaseRestarted
                | Self::DatabaseSlow
                | Self::DatabaseRefuses
                | Self::DatabaseFailsOver
                | Self::Engine(Engine::DynamoDb, _)
        )
    }

    /// Nodes need no Redis, and no Kafka once they run: a fault of these excuses nothing.
    pub(crate) fn excuses_nothing(self) -> bool {
        matches!(
            self,
            Self::RedisKilled
                | Self::RedisFrozen
                | Self::RedisFlushed
                | Self::RedisPartitioned
                | Self::Engine(Engine::Kafka, _)
        )
    }
}

/// Breaks one thing for a while, and notes when.
pub(crate) fn apply(
    fault: Fault,
    round: usize,
    fleet: &Fleet,
    recorder: &Recorder,
    history: &mut History,
) {
    let node = round % fleet.len();
    let from = recorder.now();
    eprintln!("{from:>7} ms: {fault:?}, node {node}");
    // The node whose requests may fail meanwhile; `None` for all.
    let mut affected = None;
    match fault {
        Fault::NodeKilled => {
            affected = Some(node);
            fleet.kill(node);
            sleep(1_500);
            fleet.start_node(node);
        }
        Fault::NodePaused => {
            affected = Some(node);
            fleet.pause(node, Duration::from_secs(3));
            history.cuts.push((node, Window { from, to: recorder.now() }));
        }
        Fault::NodeRestarted => {
            affected = Some(node);
            fleet.restart(node);
        }
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
        Fault::RedisKilled => fleet.break_redis(RedisFault::Killed, node),
        Fault::RedisFrozen => fleet.break_redis(RedisFault::Frozen, node),
        Fault::RedisFlushed => fleet.break_redis(RedisFault::Flushed, node),
        Fault::RedisPartitioned => fleet.break_redis(RedisFault::Partitioned, node),
        Fault::FolderCopied => affected = Some(fleet.run_copy(Duration::from_secs(4))),
        Fault::ClockOff => {
            affected = Some(node);
            fleet.terminate(node);
            fleet.start_node_ahead(node, 60);
            sleep(8_000);
            fleet.restart(node);
        }
        Fault::LeaseHolderPaused => affected = Some(pause_lease_holder(fleet, recorder, history)),
        Fault::Engine(engine, fault) => fleet.break_engine(engine, fault),
        Fault::DatabaseFailsOver => {
            fleet.fail_over();
            history.store_away.push(Window { from, to: recorder.now() });
        }
    }
    let to = recorder.now();
    if !fault.excuses_nothing() {
        history.faults.push((affected, Window { from, to }));
    }
    if fault.is_of_database() {
        // Nodes connect again at random distances of up to two seconds.
        let window = Window { from, to: to + 3_000 };
        history.cuts.extend((0..fleet.len()).map(|node| (node, window)));
        // A node that may have missed a change forgets all links.
        fleet.forget();
    }
}

/// Longer than the lease of the jobs lasts, and than others take to notice.
const LONGER_THAN_THE_LEASE: Duration = Duration::from_secs(45);

/// Another node takes over while the holder is paused. When the holder goes on, its jobs are in the
/// middle of their work: it must notice, and must not get the lease back by itself.
fn pause_lease_holder(fleet: &Fleet, recorder: &Recorder, history: &mut History) -> usize {
    wait_until("a node runs the jobs", || fleet.lease_holder().is_some());
    let holder = fleet.lease_holder().unwrap();
    let from = recorder.now();
    fleet.pause(holder, LONGER_THAN_THE_LEASE);
    history.cuts.push((holder, Window { from, to: recorder.now() }));
    let next = fleet.lease_holder();
    assert!(next.is_some_and(|next| next != holder), "{next:?} runs the jobs of {holder}");
    let lost = "this node lost the lease of the background jobs";
    wait_until("the paused node notices", || fleet.log(holder).contains(lost));
    assert_eq!(fleet.lease_holder(), next);
    holder
}
