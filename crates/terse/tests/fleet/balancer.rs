//! A small load balancer: it asks nodes whether they are ready, and sends requests to those only.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{api, send};
use crate::nodes::Fleet;

/// Longer than a start takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A check that is older says nothing any more: on a busy machine the next one may be late.
const FRESH: Duration = Duration::from_secs(1);

/// How many requests a client has sent, and which failed.
type Seen = (usize, Vec<String>);

#[derive(Clone)]
pub(crate) struct Balancer {
    fleet: Arc<Fleet>,
    /// When the last check began to which each node answered that it is ready. None after another
    /// answer.
    ready: Arc<Vec<Mutex<Option<Instant>>>>,
    stopped: Arc<AtomicBool>,
}

impl Balancer {
    /// Checks each node ten times a second.
    pub(crate) fn start(fleet: Arc<Fleet>) -> Self {
        let ready = Arc::new((0..fleet.len()).map(|_| Mutex::default()).collect());
        let balancer = Self { fleet, ready, stopped: Arc::default() };
        for node in 0..balancer.fleet.len() {
            let at = balancer.clone();
            std::thread::spawn(move || {
                while !at.stopped.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let reply = send(&format!("{}/readyz", at.fleet.url(node)), "GET", &[], None);
                    let is_ready = matches!(reply, Some((200, ..)));
                    *at.ready[node].lock().unwrap() = is_ready.then_some(begun);
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        }
        balancer
    }

    fn is_ready(&self, node: usize) -> bool {
        self.ready[node].lock().unwrap().is_some_and(|checked| checked.elapsed() < FRESH)
    }

    pub(crate) fn wait_until_ready(&self, nodes: Range<usize>) {
        let begun = Instant::now();
        while !nodes.clone().all(|node| self.is_ready(node)) {
            assert!(begun.elapsed() < TIMEOUT, "nodes {nodes:?} are not ready");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// A client that creates links and follows them until the end.
    pub(crate) fn client(&self, number: usize) -> JoinHandle<Seen> {
        let at = self.clone();
        std::thread::spawn(move || {
            let (mut sent, mut failures, mut code) = (number, Vec::new(), None::<String>);
            let mut waiting = Instant::now();
            while !at.stopped.load(Ordering::Relaxed) {
                let ready: Vec<usize> =
                    (0..at.fleet.len()).filter(|node| at.is_ready(*node)).collect();
                let Some(&node) = ready.get(sent % ready.len().max(1)) else {
                    // The checks are late, or no node is ready: a request would wait, as here.
                    assert!(waiting.elapsed() < TIMEOUT, "no node was ready");
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                };
                waiting = Instant::now();
                sent += 1;
                let (expected, reply) = match code.as_ref().filter(|_| sent % 8 != 0) {
                    Some(code) => {
                        let url = format!("{}/{code}", at.fleet.url(node));
                        (302, send(&url, "GET", &[], None))
                    }
                    None => {
                        let target = format!("https://example.com/{number}/{sent}");
                        let body = json!({ "long_url": target });
                        (201, api(&at.fleet, node, "POST", "/urls", None, Some(&body)))
                    }
                };
                if !matches!(&reply, Some((status, ..)) if *status == expected) {
                    failures.push(format!("node {node} answered {reply:?}"));
                } else if expected == 201 {
                    let created =
                        reply.and_then(|(.., link)| link["short_code"].as_str().map(str::to_owned));
                    code = created;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            (sent - number, failures)
        })
    }
}
