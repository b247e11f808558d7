//! Two processes on one PostgreSQL database, with and without Redis.

mod counting;
mod links;
mod processes;

use std::time::Duration;

use serde_json::Value;
use terse_testkit::wait_until;

use crate::harness::KEY;
use crate::process::Served;

/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A process that shares its store with others.
pub(crate) struct Node {
    pub(crate) served: Served,
    pub(crate) folder: tempfile::TempDir,
}

impl Node {
    fn start(database: &str) -> Self {
        Self::start_with(database, tempfile::tempdir().unwrap(), &[])
    }

    /// In the folder of an earlier process.
    fn start_in(database: &str, folder: tempfile::TempDir) -> Self {
        Self::start_with(database, folder, &[])
    }

    fn start_with(database: &str, folder: tempfile::TempDir, more: &[&str]) -> Self {
        let (store, key) = (format!("store={database}"), format!("admin_key={KEY}"));
        // All nodes have the same short domain, as behind a load balancer.
        let settings = [
            store.as_str(),
            key.as_str(),
            "redirect.threads=1",
            "base_url=http://127.0.0.1:1",
            "clicks.flush=1s",
        ];
        let settings = [&settings, more].concat();
        let served = Served::start(&folder.path().join("data"), &settings);
        Self { served, folder }
    }

    /// Status and body of an API call.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        self.served.call(KEY, method, path, body)
    }

    /// Creates a link, and returns its code.
    pub(crate) fn create(&self, body: Value) -> String {
        let (status, link) = self.call("POST", "/urls", Some(body));
        assert_eq!(status, 201, "{link}");
        link["short_code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn follow(&self, code: &str) -> (u16, Option<String>) {
        let (status, location, _) = self.served.get(&format!("/{code}"));
        (status, location)
    }

    /// The value of a metric, labels included.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, _, text) = self.served.get("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
    }

    /// Waits until a visit is answered like this.
    pub(crate) fn comes_to(&self, code: &str, expected: (u16, Option<&str>)) {
        let expected = (expected.0, expected.1.map(str::to_owned));
        wait_until(&format!("{code} is {expected:?}"), || self.follow(code) == expected);
    }
}

pub(crate) fn found(target: &str) -> (u16, Option<String>) {
    (302, Some(target.to_owned()))
}

/// The clicks of a link, as a node's statistics show them.
pub(crate) fn clicks(node: &Node, code: &str) -> u64 {
    let (status, stats) = node.call("GET", &format!("/urls/{code}/stats"), None);
    assert_eq!(status, 200, "{stats}");
    stats["total_clicks"].as_u64().unwrap()
}
