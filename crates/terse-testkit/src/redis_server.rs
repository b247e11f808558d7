//! A Redis server for tests, of Debian's package `redis-server`.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::postgres_server::{folder, free_port, watched};

/// How long a start may take on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server. It belongs to one process and ends with it, however that ends.
pub struct RedisServer {
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    watchdog: Mutex<Option<Child>>,
}

impl RedisServer {
    /// The server that all tests of this process share. Their keys must differ.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<RedisServer> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[]))
    }

    /// Starts a server with further settings (`--name value`), on a free port of 127.0.0.1.
    pub fn start(settings: &[&str]) -> Self {
        let settings = settings.iter().map(ToString::to_string).collect();
        let server =
            Self { folder: folder(), port: free_port(), settings, watchdog: Mutex::new(None) };
        server.run();
        server
    }

    /// Starts the server again after [`RedisServer::stop`].
    pub fn run(&self) {
        let mut watchdog = self.watchdog.lock().unwrap();
        assert!(watchdog.is_none(), "the server runs already");
        let program = Path::new("/usr/bin/redis-server");
        assert!(program.exists(), "these tests need Debian's package `redis-server`");
        let port = self.port.to_string();
        let mut args = vec!["--port", &port, "--bind", "127.0.0.1", "--save", ""];
        args.extend(["--appendonly", "no", "--daemonize", "no"]);
        args.extend(self.settings.iter().map(String::as_str));
        *watchdog = Some(watched(&self.folder, program, &args, None));
        drop(watchdog);
        let begun = Instant::now();
        while self.ask(&["ping"]) != "PONG" {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < START_TIMEOUT, "Redis does not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server. What it held is gone.
    pub fn stop(&self) {
        std::fs::write(self.folder.join("keep"), "").unwrap();
        if let Some(mut watchdog) = self.watchdog.lock().unwrap().take() {
            drop(watchdog.stdin.take());
            watchdog.wait().unwrap();
        }
        std::fs::remove_file(self.folder.join("keep")).unwrap();
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
        let pid = self.watchdog.lock().unwrap().as_ref().unwrap().id().to_string();
        // The server is the only child of the shell that watches over it, beside `cat`.
        let done = Command::new("pkill").args([signal, "-P", &pid, "redis-server"]).status();
        assert!(done.unwrap().success());
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// What `redis-cli` prints for a command.
    pub fn ask(&self, command: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args(["-h", "127.0.0.1", "-p"]).arg(self.port.to_string()).args(command);
        String::from_utf8_lossy(&cli.output().unwrap().stdout).trim().to_owned()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Some(mut watchdog) = self.watchdog.get_mut().ok().and_then(Option::take) {
            drop(watchdog.stdin.take());
            let _ended = watchdog.wait();
        } else {
            let _removed = std::fs::remove_dir_all(&self.folder);
        }
    }
}
