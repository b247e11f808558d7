//! A Varnish server for tests, of Debian's packages `varnish` and `varnish-modules`.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server_process::{ServerProcess, folder, free_port};

/// A server that ends with the process of the tests.
pub struct VarnishServer {
    process: ServerProcess,
    folder: PathBuf,
    port: u16,
}

impl Default for VarnishServer {
    fn default() -> Self {
        Self::new()
    }
}

impl VarnishServer {
    /// A server that is not started yet. Its port is known, so that the server behind it can be
    /// told.
    pub fn new() -> Self {
        let (folder, port) = (folder(), free_port());
        Self { process: ServerProcess::new(folder.clone(), None), folder, port }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it with this configuration.
    pub fn start(&self, vcl: &str) {
        let file = self.folder.join("test.vcl");
        std::fs::write(&file, vcl).unwrap();
        let (listen, file) = (format!("127.0.0.1:{}", self.port), file.display().to_string());
        let work = self.folder.join("work").display().to_string();
        let args = ["-F", "-a", &listen, "-f", &file, "-n", &work];
        let more = ["-s", "malloc,16m", "-j", "none", "-T", "none", "-p", "thread_pool_min=5"];
        let program = Path::new("/usr/sbin/varnishd");
        self.process.start(program, &[&args[..], &more].concat(), || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// What `varnishncsa` writes about everything that the server has answered, in this format.
    pub fn log(&self, format: &str) -> String {
        let mut ncsa = Command::new("/usr/bin/varnishncsa");
        ncsa.args(["-d", "-F", format, "-n"]).arg(self.folder.join("work"));
        let output = ncsa.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Stops it. It has forgotten everything when it starts again.
    pub fn stop(&self) {
        self.process.stop();
    }
}
