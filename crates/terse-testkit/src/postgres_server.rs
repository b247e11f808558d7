//! A PostgreSQL server for tests, of Debian's package `postgresql`.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::server_process::{ServerProcess, command, folder, free_port};
use crate::wait_until;

/// A running server. It belongs to one process and ends with it, however that ends.
pub struct PostgresServer {
    process: ServerProcess,
    port: u16,
    user: Option<(u32, u32)>,
    databases: AtomicU32,
}

impl PostgresServer {
    /// The server that all tests of this process share. Fast rather than durable.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<PostgresServer> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&["fsync=off", "synchronous_commit=off"]))
    }

    /// Starts a server with further settings, on a free port of 127.0.0.1.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_with_files(settings, &[])
    }

    /// Starts a server with TLS. Certificate and key are PEM.
    pub fn start_tls(certificate: &str, key: &str) -> Self {
        let files = [("server.crt", certificate), ("server.key", key)];
        Self::start_with_files(&["fsync=off", "ssl=on"], &files)
    }

    /// With these files in its data folder.
    fn start_with_files(settings: &[&str], files: &[(&str, &str)]) -> Self {
        let folder = folder();
        let user = other_user();
        if let Some((uid, gid)) = user {
            chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let data = folder.join("data");
        let mut initdb = program("initdb", user);
        initdb.arg("-D").arg(&data).args(["-U", "terse", "--auth=trust", "--no-sync"]);
        initdb.args(["-E", "UTF8", "--locale=C.UTF-8"]).current_dir(&folder);
        let made = initdb.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let server = Self {
            port: free_port(),
            process: ServerProcess::new(folder, user),
            user,
            databases: AtomicU32::new(0),
        };
        let mut lines = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\n\
             shared_buffers = 64MB\nmax_connections = 400\nlog_min_messages = warning\n\
             full_page_writes = off\nautovacuum_naptime = 1min\n",
            server.port
        );
        for setting in settings {
            lines.push_str(setting);
            lines.push('\n');
        }
        std::fs::write(data.join("postgresql.auto.conf"), lines).unwrap();
        for (name, content) in files {
            let path = data.join(name);
            std::fs::write(&path, content).unwrap();
            // The server refuses a key that others may read.
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            if let Some((uid, gid)) = user {
                chown(&path, Some(uid), Some(gid)).unwrap();
            }
        }
        server.run();
        server.sql("template1", "CREATE EXTENSION pg_trgm SCHEMA public");
        server.sql("postgres", "CREATE EXTENSION pg_trgm SCHEMA public");
        server
    }

    /// Starts a standby that commits of this server wait for from now on.
    pub fn synchronous_standby(&self) -> Self {
        let folder = folder();
        if let Some((uid, gid)) = self.user {
            chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let data = folder.join("data");
        let mut copy = program("pg_basebackup", self.user);
        copy.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-U", "terse", "-R", "-X", "stream"]);
        copy.args(["-c", "fast", "--no-sync", "-p"]).arg(self.port.to_string());
        let made = copy.current_dir(&folder).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let standby = Self {
            port: free_port(),
            process: ServerProcess::new(folder, self.user),
            user: self.user,
            databases: AtomicU32::new(0),
        };
        let settings = data.join("postgresql.auto.conf");
        let copied = std::fs::read_to_string(&settings).unwrap();
        // The last of several equal settings counts.
        std::fs::write(&settings, format!("{copied}\nport = {}\n", standby.port)).unwrap();
        standby.run();
        self.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.sql("postgres", "SELECT pg_reload_conf()");
        let waits = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        wait_until("the standby follows", || self.sql("postgres", waits) == "1");
        standby
    }

    /// Stops the process of a standby that receives from its primary, until
    /// [`PostgresServer::receive_again`].
    pub fn stop_receiving(&self) {
        self.signal_receiver("-STOP");
    }

    /// Continues after [`PostgresServer::stop_receiving`].
    pub fn receive_again(&self) {
        self.signal_receiver("-CONT");
    }

    fn signal_receiver(&self, signal: &str) {
        let pid = self.sql("postgres", "SELECT pid FROM pg_stat_wal_receiver");
        let done = Command::new("kill").args([signal, &pid]).status();
        assert!(done.unwrap().success());
    }

    /// Starts the server again after [`PostgresServer::stop`].
    pub fn run(&self) {
        let postgres = bin_folder().join("postgres");
        // An immediate shutdown (QUIT) of the server also ends its children.
        self.process.start(&postgres, &["-D", "data"], || self.answers());
    }

    /// Ends the server at once, as a crash would, and keeps its data for [`PostgresServer::run`].
    pub fn stop(&self) {
        self.process.stop();
    }

    fn answers(&self) -> bool {
        let mut ready = program("pg_isready", self.user);
        ready.args(["-h", "127.0.0.1", "-U", "terse", "-d", "postgres", "-p"]);
        ready.arg(self.port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        ready.status().unwrap().success()
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://terse@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a new, empty schema: as good as a database of its own, and made much faster.
    pub fn fresh(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE SCHEMA {name}"));
        format!("{}?options=-csearch_path%3D{name}%2Cpublic", self.url("postgres"))
    }

    /// The name of a new, empty database.
    pub fn fresh_database(&self) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// A dump of a database, as `pg_dump` makes it.
    pub fn dump(&self, database: &str) -> Vec<u8> {
        let mut dump = program("pg_dump", None);
        let output = dump.arg(self.url(database)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Replaces a database by a dump of it. Ends all connections to it.
    pub fn restore(&self, database: &str, dump: &[u8]) {
        self.sql("postgres", &format!("DROP DATABASE {database} WITH (FORCE)"));
        self.sql("postgres", &format!("CREATE DATABASE {database} TEMPLATE template0"));
        let mut psql = program("psql", None);
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]).arg(self.url(database));
        psql.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut psql = psql.spawn().unwrap();
        std::io::Write::write_all(&mut psql.stdin.take().unwrap(), dump).unwrap();
        assert!(psql.wait().unwrap().success(), "the dump is restored");
    }

    /// Runs statements in a database (or a URL) and returns what `psql` prints, unadorned.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let place = if database.contains("://") { database.to_owned() } else { self.url(database) };
        let mut psql = program("psql", None);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]).arg(place);
        let output = psql.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}: {error}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// A pgbouncer in front of a server, in its transaction mode, which gives every transaction another
/// connection. Of Debian's package `pgbouncer`.
pub struct PgBouncer {
    port: u16,
    /// Ends with this value.
    process: ServerProcess,
}

impl PgBouncer {
    /// Starts one with this many connections to the server, on a free port of 127.0.0.1.
    pub fn start(server: &PostgresServer, connections: usize) -> Self {
        let (folder, user, port) = (folder(), other_user(), free_port());
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=terse\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 200\n\
             server_login_retry = 1\n",
            server.port()
        );
        std::fs::write(folder.join("pgbouncer.ini"), settings).unwrap();
        if let Some((uid, gid)) = user {
            chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let program = Path::new("/usr/sbin/pgbouncer");
        assert!(program.exists(), "this test needs Debian's package `pgbouncer`");
        let process = ServerProcess::new(folder, user);
        process.start(program, &["pgbouncer.ini"], || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { port, process }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it has logged since its start.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The URL of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://terse@127.0.0.1:{}/{database}", self.port)
    }
}

/// Where the newest installed server has its programs.
fn bin_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        versions
            .filter_map(|entry| {
                let version: u32 = entry.file_name().to_str()?.parse().ok()?;
                let bin = entry.path().join("bin");
                bin.join("initdb").exists().then_some((version, bin))
            })
            .max()
            .expect("these tests need PostgreSQL: install Debian's package `postgresql`")
            .1
    })
}

fn program(name: &str, user: Option<(u32, u32)>) -> Command {
    command(bin_folder().join(name), user)
}

/// PostgreSQL refuses to run as root: the user that its package made, if this process is root.
fn other_user() -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("a user other than root"))
}
