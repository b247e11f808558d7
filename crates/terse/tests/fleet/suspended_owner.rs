//! An owner who is suspended and reinstated again and again: all links of the account are blocked
//! and cleared at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use terse_testkit::fleet::{Action, Outcome};

use crate::client::{Client, Owner, Recorder, api};
use crate::nodes::Fleet;

/// How many links the owner has.
const LINKS: usize = 8;

pub(crate) struct SuspendedOwner {
    pub(crate) owner: Owner,
    client: Client,
    /// The account in the API.
    path: String,
}

impl SuspendedOwner {
    /// Creates the account and an API key of it, before the first fault.
    pub(crate) fn new(number: u64, seed: u64, fleet: Arc<Fleet>, recorder: Arc<Recorder>) -> Self {
        let post = |path: &str, body| match api(&fleet, 0, "POST", path, None, Some(&body)) {
            Some((201, _, body)) => body,
            other => panic!("{path}: {other:?}"),
        };
        let name = "sam-of-the-fleet";
        let account = post("/admin/users", json!({ "name": name }));
        let path = format!("/admin/users/{}", account["id"]);
        let key = post(&format!("{path}/keys"), json!({ "name": "k", "scope": "full" }));
        let owner = Owner { name, key: key["key"].as_str().unwrap().to_owned() };
        let client = Client::new(number, owner.clone(), seed, fleet, recorder);
        Self { owner, client, path }
    }

    /// Creates links, visits them, and suspends and reinstates their owner meanwhile. In the end
    /// the owner is reinstated.
    pub(crate) fn run(mut self) {
        while self.client.keys().len() < LINKS {
            self.client.create(None, None);
        }
        self.client.expect_blocks();
        let is_stopped = |client: &Client| client.recorder.stopped.load(Ordering::Relaxed);
        while !is_stopped(&self.client) {
            for suspended in [true, false] {
                self.set(suspended);
                // For several times as long as a change may take, or for a moment.
                let visits = 100 + self.client.pick(900);
                for _ in 0..visits {
                    if is_stopped(&self.client) {
                        break;
                    }
                    self.client.visit();
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }

    /// Suspends or reinstates the owner, and asks again if no answer comes.
    fn set(&mut self, suspended: bool) {
        let verb = if suspended { "suspend" } else { "reinstate" };
        let (path, body) = (format!("{}/{verb}", self.path), json!({ "why": "a test" }));
        for _ in 0..120 {
            let node = self.client.node();
            let call = self.client.recorder.now();
            let reply = api(&self.client.fleet, node, "POST", &path, None, Some(&body));
            let outcome = match &reply {
                Some((200, ..)) => Outcome::Ok,
                _ => Outcome::Unknown,
            };
            for key in self.client.keys() {
                let action = match suspended {
                    true => Action::Block { key },
                    false => Action::Unblock { key },
                };
                self.client.record(call, node, outcome, &reply, action);
            }
            if outcome == Outcome::Ok {
                return;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        panic!("no node can {verb} the owner");
    }
}
