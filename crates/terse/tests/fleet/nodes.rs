//! The machines: PostgreSQL with its standby, pgbouncer, Redis, other engines by setting, and nodes
//! with a proxy to each.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use tempfile::TempDir;
use terse_testkit::{PgBouncer, PostgresServer, RedisServer, TcpProxy};

use crate::engines::{self, Engine, EngineFault, Engines};
use crate::process::Served;

pub(crate) const KEY: &str = "a-key-for-tests-0123456789";

/// A trigger knows which node writes by the name of its connection. The lock makes the order of the
/// rows the order of the commits.
const RECORD_FENCED_WRITES: &str = "
    CREATE TABLE fence_log (n bigserial PRIMARY KEY, node text NOT NULL, token bigint);
    CREATE FUNCTION note_fenced() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE taken bigint;
        BEGIN
            PERFORM pg_advisory_xact_lock(7300, 1);
            IF TG_TABLE_NAME = 'job_leases' THEN taken := NEW.token; END IF;
            INSERT INTO fence_log (node, token)
                VALUES (current_setting('application_name'), taken);
            RETURN NULL;
        END $$;
    CREATE TRIGGER note_lease AFTER INSERT OR UPDATE OF node ON job_leases FOR EACH ROW
        WHEN (NEW.name = 'jobs' AND NEW.node IS NOT NULL) EXECUTE FUNCTION note_fenced();
    CREATE TRIGGER note_progress AFTER INSERT OR UPDATE ON job_progress
        FOR EACH STATEMENT EXECUTE FUNCTION note_fenced();
    CREATE TRIGGER note_salts AFTER DELETE ON salts
        FOR EACH STATEMENT EXECUTE FUNCTION note_fenced();";

struct Node {
    served: Mutex<Option<Served>>,
    folder: TempDir,
    /// The port; 0 for another one after each start.
    port: u16,
    /// Where it listens.
    url: RwLock<String>,
    /// Links that it has answered since it started.
    remembered: Mutex<HashSet<String>>,
}

pub(crate) struct Fleet {
    nodes: Vec<Node>,
    pub(crate) proxies: Vec<TcpProxy>,
    database: String,
    /// Further settings of every node.
    settings: Vec<&'static str>,
    pooler: PgBouncer,
    standby: PostgresServer,
    pub(crate) server: PostgresServer,
    redis: Redis,
    engines: Engines,
    /// Whether the standby has taken over.
    failed_over: AtomicBool,
}

/// Redis, and the way of each node to it.
struct Redis {
    server: RedisServer,
    proxies: Vec<TcpProxy>,
}

/// How Redis is broken.
#[derive(Clone, Copy)]
pub(crate) enum RedisFault {
    Killed,
    Frozen,
    Flushed,
    /// One node does not reach it.
    Partitioned,
}

/// A failed test shows what its nodes and pgbouncer logged last.
impl Drop for Fleet {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let log = std::fs::read_to_string(node.folder.path().join("log")).unwrap_or_default();
            eprintln!("node {number} logged last:\n{}", last_lines(&log));
        }
        eprintln!("pgbouncer logged last:\n{}", last_lines(&self.pooler.log()));
    }
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

impl Fleet {
    pub(crate) fn start(size: usize, settings: &[&'static str]) -> Self {
        Self::start_at(&vec![0; size], settings)
    }

    /// With a node at each of these ports.
    pub(crate) fn start_at(ports: &[u16], settings: &[&'static str]) -> Self {
        let size = ports.len();
        let server = PostgresServer::start(&["shared_buffers = 128MB"]);
        let database = server.fresh_database();
        let standby = server.synchronous_standby();
        let pooler = PgBouncer::start(&server, 20);
        let proxies = (0..size).map(|_| TcpProxy::start(pooler.port())).collect();
        let node = |port: &u16| Node {
            served: Mutex::default(),
            folder: tempfile::tempdir().unwrap(),
            port: *port,
            url: RwLock::default(),
            remembered: Mutex::default(),
        };
        let nodes = ports.iter().map(node).collect();
        let redis_server = RedisServer::start(&[]);
        let redis = Redis {
            proxies: (0..size).map(|_| TcpProxy::start(redis_server.port())).collect(),
            server: redis_server,
        };
        let fleet = Self {
            nodes,
            proxies,
            database,
            settings: settings.to_vec(),
            pooler,
            standby,
            server,
            redis,
            engines: Engines::start(size),
            failed_over: AtomicBool::new(false),
        };
        (0..size).for_each(|node| fleet.start_node(node));
        fleet.record_fenced_writes();
        fleet
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn url(&self, node: usize) -> String {
        self.nodes[node].url.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server that takes writes.
    fn primary(&self) -> &PostgresServer {
        if self.failed_over.load(Ordering::Relaxed) { &self.standby } else { &self.server }
    }

    /// The primary ends, and the standby takes its place, for good. Nodes reach it without
    /// pgbouncer.
    pub(crate) fn fail_over(&self) {
        self.proxies.iter().for_each(TcpProxy::refuse);
        self.server.stop();
        self.standby.sql("postgres", "SELECT pg_promote()");
        self.failed_over.store(true, Ordering::Relaxed);
        self.proxies.iter().for_each(|proxy| proxy.lead_to(self.standby.port()));
        self.proxies.iter().for_each(TcpProxy::accept);
    }

    /// A backup of the database.
    pub(crate) fn dump(&self) -> Vec<u8> {
        self.server.dump(&self.database)
    }

    /// Puts the backup in place of the database.
    pub(crate) fn restore(&self, dump: &[u8]) {
        self.proxies.iter().for_each(TcpProxy::refuse);
        self.server.restore(&self.database, dump);
        self.proxies.iter().for_each(TcpProxy::accept);
    }

    /// Lets the database record who takes the lease of the jobs and who writes under it, in the
    /// order of the commits.
    fn record_fenced_writes(&self) {
        self.server.sql(&self.database, RECORD_FENCED_WRITES);
        let Some(holder) = self.lease_holder() else { return };
        // It took the lease before anything was recorded.
        let first = format!(
            "INSERT INTO fence_log (node, token) SELECT 'node-{holder}', token FROM job_leases \
             WHERE name = 'jobs' AND NOT EXISTS (SELECT FROM fence_log)"
        );
        self.server.sql(&self.database, &first);
    }

    /// Who took the lease and what was written under it, each with the last token that the node had
    /// taken by then.
    pub(crate) fn fenced_writes(&self) -> Vec<(String, u64)> {
        let sql = "SELECT node, coalesce(token, 0) FROM fence_log ORDER BY n";
        let rows = self.primary().sql(&self.database, sql);
        let mut taken: HashMap<&str, u64> = HashMap::new();
        let effect = |line| {
            let (node, token) = str::rsplit_once(line, '|').unwrap();
            let last = taken.entry(node).or_default();
            *last = (*last).max(token.parse().unwrap());
            ("jobs".to_owned(), *last)
        };
        rows.lines().map(effect).collect()
    }

    /// The node that runs the background jobs, if one does.
    pub(crate) fn lease_holder(&self) -> Option<usize> {
        let name = self.primary().sql(
            &self.database,
            "SELECT node FROM job_leases WHERE name = 'jobs' AND expires_at > clock_timestamp()",
        );
        (0..self.len()).find(|node| {
            let file = self.nodes[*node].folder.path().join("data/node");
            !name.is_empty() && std::fs::read_to_string(file).is_ok_and(|own| own.trim() == name)
        })
    }

    /// What a node has logged since it was started.
    pub(crate) fn log(&self, node: usize) -> String {
        std::fs::read_to_string(self.nodes[node].folder.path().join("log")).unwrap_or_default()
    }

    /// How long changes took to reach the nodes, since each of them was started.
    pub(crate) fn change_delays(&self) -> String {
        let mut buckets: Vec<(String, u64)> = Vec::new();
        for node in 0..self.len() {
            let url = format!("{}/metrics", self.url(node));
            let text = ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
            for line in text.lines() {
                let Some(rest) = line.strip_prefix("terse_change_delay_seconds_bucket{le=\"")
                else {
                    continue;
                };
                let (end, count) = rest.split_once("\"} ").unwrap();
                let count: u64 = count.parse().unwrap();
                match buckets.iter_mut().find(|(other, _)| other == end) {
                    Some((_, sum)) => *sum += count,
                    None => buckets.push((end.to_owned(), count)),
                }
            }
        }
        let all = buckets.last().map_or(0, |(_, count)| *count);
        let shown: Vec<_> =
            buckets.iter().map(|(end, count)| format!("{count} within {end} s")).collect();
        format!("{all} changes reached a node: {}", shown.join(", "))
    }

    /// Starts a process in the node's folder.
    pub(crate) fn start_node(&self, node: usize) {
        self.start_node_ahead(node, 0);
    }

    /// The same, with a clock that is some seconds ahead.
    pub(crate) fn start_node_ahead(&self, node: usize, seconds: u64) {
        let at = &self.nodes[node];
        let log = std::fs::File::create(at.folder.path().join("log")).unwrap();
        let data = at.folder.path().join("data");
        let served = self.serve(node, at.port, &data, log, seconds);
        at.remembered.lock().unwrap().clear();
        *at.url.write().unwrap() = served.url.clone();
        *at.served.lock().unwrap() = Some(served);
    }

    /// Starts a process in a copy of the first node's folder, which has the identity of its
    /// journal, and ends it. The first node then starts again. Returns its number.
    pub(crate) fn run_copy(&self, time: Duration) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let from = self.nodes[0].folder.path().join("data");
        let mut copy = std::process::Command::new("cp");
        assert!(copy.arg("-r").arg(from).arg(folder.path()).status().unwrap().success());
        let data = folder.path().join("data");
        // It is of the process that runs in the original.
        let _removed = std::fs::remove_file(data.join("run.json"));
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let copy = self.serve(0, 0, &data, log, 0);
        std::thread::sleep(time);
        copy.kill();
        self.restart(0);
        0
    }

    pub(crate) fn break_redis(&self, fault: RedisFault, node: usize) {
        let redis = &self.redis;
        let wait = || std::thread::sleep(Duration::from_secs(3));
        match fault {
            RedisFault::Killed => {
                redis.server.stop();
                wait();
                redis.server.run();
            }
            RedisFault::Frozen => {
                redis.server.freeze();
                wait();
                redis.server.thaw();
            }
            RedisFault::Flushed => assert_eq!(redis.server.ask(&["flushall"]), "OK"),
            RedisFault::Partitioned => {
                redis.proxies[node].refuse();
                wait();
                redis.proxies[node].accept();
            }
        }
    }

    pub(crate) fn break_engine(&self, engine: Engine, fault: EngineFault) {
        self.engines.break_one(engine, fault);
    }

    /// Waits until the first node, the only one that runs, has counted what is on the bus.
    pub(crate) fn wait_until_counted(&self) {
        let data = self.nodes[0].folder.path().join("data");
        self.engines.wait_until_counted(&data, &self.settings(0));
    }

    fn settings(&self, node: usize) -> Vec<String> {
        let database = &self.database;
        let port = self.proxies[node].port();
        let redis = self.redis.proxies[node].port();
        // pgbouncer passes the name on, also where nodes share its connections.
        let url =
            format!("postgres://terse@127.0.0.1:{port}/{database}?application_name=node-{node}");
        let mut settings = self.engines.settings(node, &url);
        settings.extend([
            format!("cache.url=redis://127.0.0.1:{redis}"),
            format!("store_direct={}", self.primary().url(database)),
            format!("admin_key={KEY}"),
            "base_url=http://127.0.0.1:1".to_owned(),
            "redirect.threads=1".to_owned(),
            "clicks.flush=1s".to_owned(),
        ]);
        settings
    }

    fn serve(
        &self,
        node: usize,
        listen: u16,
        data: &Path,
        log: std::fs::File,
        ahead: u64,
    ) -> Served {
        let settings = self.settings(node);
        let mut command = crate::process::command(data);
        command.args(["serve", "--listen", &format!("127.0.0.1:{listen}")]);
        settings.iter().map(String::as_str).chain(self.settings.iter().copied()).for_each(|set| {
            command.args(["--set", set]);
        });
        engines::set_credentials(&mut command);
        if ahead > 0 {
            let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
            assert!(Path::new(library).exists(), "this fault needs Debian's package `faketime`");
            command.env("LD_PRELOAD", library).env("FAKETIME", format!("+{ahead}s"));
            command.env("DONT_FAKE_MONOTONIC", "1");
        }
        command.stdout(std::process::Stdio::null()).stderr(log);
        Served::spawn(data, &mut command)
    }

    pub(crate) fn kill(&self, node: usize) {
        if let Some(served) = self.nodes[node].served.lock().unwrap().take() {
            served.kill();
        }
        self.nodes[node].remembered.lock().unwrap().clear();
    }

    pub(crate) fn pause(&self, node: usize, time: Duration) {
        if let Some(served) = &*self.nodes[node].served.lock().unwrap() {
            served.pause(time);
        }
    }

    /// Ends a process in order. It must have succeeded.
    pub(crate) fn terminate(&self, node: usize) {
        if let Some(served) = self.nodes[node].served.lock().unwrap().take() {
            served.terminate();
            let (status, _) = served.wait();
            let log = std::fs::read_to_string(self.nodes[node].folder.path().join("log"));
            assert!(status.success(), "node {node}: {status} {}", log.unwrap_or_default());
        }
    }

    pub(crate) fn restart(&self, node: usize) {
        self.terminate(node);
        self.start_node(node);
    }

    pub(crate) fn stop(&self) {
        (0..self.len()).for_each(|node| self.terminate(node));
    }

    /// Notes that nodes may have forgotten all links.
    pub(crate) fn forget(&self) {
        self.nodes.iter().for_each(|node| node.remembered.lock().unwrap().clear());
    }

    /// Notes that a node has answered a link.
    pub(crate) fn remember(&self, node: usize, key: &str) {
        self.nodes[node].remembered.lock().unwrap().insert(key.to_owned());
    }

    pub(crate) fn remembers(&self, node: usize, key: &str) -> bool {
        self.nodes[node].remembered.lock().unwrap().contains(key)
    }
}
