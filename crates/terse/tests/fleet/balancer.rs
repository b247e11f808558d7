//! HAProxy with the settings of `deploy/haproxy.cfg` in front of the nodes.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use terse_testkit::wait_until;

use crate::client::send;
use crate::nodes::KEY;

/// How many requests a client has sent, and which failed.
type ClientResult = (usize, Vec<String>);

/// Ports that are free now.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    // Held together, so that they differ.
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Ends with the test.
pub(crate) struct Balancer {
    process: Child,
    folder: TempDir,
    url: String,
    stopped: Arc<AtomicBool>,
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Balancer {
    /// Starts HAProxy; `None` where it is not installed.
    pub(crate) fn start(nodes: &[u16]) -> Option<Self> {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_ports(1)[0]);
        let socket = folder.path().join("socket");
        let mut text = std::fs::read_to_string("../../deploy/haproxy.cfg").unwrap();
        text = text.replace("bind :8080", &format!("bind 127.0.0.1:{port}"));
        text =
            text.replace("global\n", &format!("global\n    stats socket {}\n", socket.display()));
        for (n, node) in nodes.iter().enumerate() {
            let (name, place) =
                (format!("node{0} node{0}:8080", n + 1), format!("127.0.0.1:{node}"));
            assert!(text.contains(&name), "{name} is not in {text}");
            text = text.replace(&name, &format!("node{} {place}", n + 1));
        }
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, text).unwrap();
        let mut haproxy = Command::new("haproxy");
        haproxy.args(["-db", "-f"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let process = match haproxy.spawn() {
            Ok(process) => process,
            Err(error) => {
                assert!(std::env::var_os("TERSE_TEST_ALL").is_none(), "{error}");
                println!("skipped: haproxy is not installed");
                return None;
            }
        };
        let url = format!("http://127.0.0.1:{port}");
        Some(Self { process, folder, url, stopped: Arc::default() })
    }

    /// Whether HAProxy sends requests to this node.
    fn is_up(&self, node: usize) -> bool {
        let Ok(mut socket) = UnixStream::connect(self.folder.path().join("socket")) else {
            return false;
        };
        socket.write_all(b"show stat\n").unwrap();
        let mut said = String::new();
        socket.read_to_string(&mut said).unwrap();
        // The name of the group, of the server, and fifteen numbers before its state.
        let line = said.lines().find(|line| line.starts_with(&format!("nodes,node{},", node + 1)));
        line.is_some_and(|line| line.split(',').nth(17) == Some("UP"))
    }

    pub(crate) fn wait_until_up(&self, node: usize) {
        wait_until(&format!("HAProxy uses node {node}"), || self.is_up(node));
    }

    /// HAProxy has noticed that the node ended.
    pub(crate) fn wait_until_down(&self, node: usize) {
        wait_until(&format!("HAProxy leaves node {node} alone"), || !self.is_up(node));
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// A client that creates links and follows them until the end.
    pub(crate) fn client(&self, number: usize) -> JoinHandle<ClientResult> {
        let (url, stopped) = (self.url.clone(), Arc::clone(&self.stopped));
        let authorization = format!("Bearer {KEY}");
        std::thread::spawn(move || {
            let headers =
                [("authorization", authorization.as_str()), ("content-type", "application/json")];
            let (mut sent, mut failures, mut code) = (0, Vec::new(), None::<String>);
            while !stopped.load(Ordering::Relaxed) {
                sent += 1;
                let (expected, reply) = match code.as_ref().filter(|_| sent % 8 != 0) {
                    Some(code) => (302, send(&format!("{url}/{code}"), "GET", &[], None)),
                    None => {
                        let target = format!("https://example.com/{number}/{sent}");
                        let body = json!({ "long_url": target });
                        (201, send(&format!("{url}/api/v1/urls"), "POST", &headers, Some(&body)))
                    }
                };
                if !matches!(&reply, Some((status, ..)) if *status == expected) {
                    failures.push(format!("{reply:?} after {sent} requests"));
                } else if expected == 201 {
                    let created =
                        reply.and_then(|(.., link)| link["short_code"].as_str().map(str::to_owned));
                    code = created;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            (sent, failures)
        })
    }
}
