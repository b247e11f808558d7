//! A ClickHouse server for tests: the library of the npm package `@chdb/lib-linux-x64-gnu`, which
//! is ClickHouse itself, with its HTTP interface.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::download::{cached, run};
use crate::server_process::{ServerProcess, folder, free_port};

const PACKAGE: &str = "@chdb/lib-linux-x64-gnu@26.7.3-stable.1";

/// A running server. It belongs to one process and ends with it, however that ends.
pub struct ClickHouseServer {
    process: ServerProcess,
    folder: PathBuf,
    port: u16,
    databases: AtomicU32,
}

impl ClickHouseServer {
    /// The server that all tests of this process share.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<ClickHouseServer> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// Starts a server on a free port of 127.0.0.1.
    pub fn start() -> Self {
        let (folder, port) = (folder(), free_port());
        std::fs::write(folder.join("launcher.py"), include_str!("clickhouse_launcher.py")).unwrap();
        let process = ServerProcess::new(folder.clone(), None);
        let server = Self { process, folder, port, databases: AtomicU32::new(0) };
        server.run();
        server
    }

    /// Starts the server again after [`ClickHouseServer::kill`].
    pub fn run(&self) {
        let library = library().display().to_string();
        let (data, port) = (self.folder.join("data").display().to_string(), self.port.to_string());
        let args = ["launcher.py", &library, &data, &port];
        self.process.start(Path::new("/usr/bin/python3"), &args, || {
            self.post("SELECT 1").is_some_and(|answer| answer == "1\n")
        });
    }

    /// Ends the server at once, as `kill -9` does, and keeps its data for
    /// [`ClickHouseServer::run`].
    pub fn kill(&self) {
        self.process.signal("-KILL", "python3");
        self.process.stop();
    }

    /// Stops the process without ending it: connections stay and nothing is answered.
    pub fn freeze(&self) {
        self.process.signal("-STOP", "python3");
    }

    /// Lets it continue.
    pub fn thaw(&self) {
        self.process.signal("-CONT", "python3");
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("clickhouse://127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a new, empty database.
    pub fn fresh(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Runs a statement and returns what the server answers, as text with tabs.
    pub fn sql(&self, sql: &str) -> String {
        let answer = self.post(sql).unwrap_or_else(|| panic!("{sql}: no answer"));
        assert!(!answer.contains("DB::Exception"), "{sql}: {answer}");
        answer.trim_end().to_owned()
    }

    fn post(&self, sql: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(600))).ok()?;
        let length = sql.len();
        write!(stream, "POST / HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{sql}").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer.split_once("\r\n\r\n")?.1.to_owned())
    }
}

/// ClickHouse as a library.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = cached("clickhouse-26.7.3", |folder| {
            run(Command::new("npm").args(["pack", "--silent", PACKAGE]).current_dir(folder));
            let unpack = "tar xzf *.tgz --strip-components=1 package/libchdb.so && rm *.tgz";
            run(Command::new("sh").args(["-c", unpack]).current_dir(folder));
        });
        folder.join("libchdb.so")
    })
}
