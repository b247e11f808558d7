//! Clients that pick a node for every request, and record what they do and see.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terse_testkit::fleet::{
    Action, FinalCounts, History, LinkStatistics, Operation, Outcome, VisitAnswer,
};

use crate::nodes::{Fleet, KEY};

/// Longer than any answer that is not lost.
const TIMEOUT: Duration = Duration::from_secs(8);

/// The operations of all clients.
pub(crate) struct Recorder {
    begun: Instant,
    operations: Mutex<Vec<Operation>>,
    marks: AtomicU64,
    pub(crate) stopped: AtomicBool,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            operations: Mutex::default(),
            marks: AtomicU64::new(1),
            stopped: AtomicBool::new(false),
        }
    }
}

impl Recorder {
    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn push(&self, call: u64, returned: u64, node: usize, action: Action) {
        let (outcome, is_error) = (Outcome::Ok, false);
        let operation = Operation { call, returned, node, outcome, action, is_error };
        self.operations.lock().unwrap().push(operation);
    }

    /// A node's answers, in which nothing erased may be.
    pub(crate) fn record_show(&self, call: u64, node: usize, text: String) -> String {
        self.push(call, self.now(), node, Action::Show { text: text.clone() });
        text
    }

    /// Everything with these texts was erased.
    pub(crate) fn record_erasure(&self, call: u64, texts: &[&str]) {
        let returned = self.now();
        for text in texts {
            self.push(call, returned, 0, Action::Erase { text: (*text).to_owned() });
        }
    }

    pub(crate) fn take(&self) -> Vec<Operation> {
        // Also after a client panicked.
        std::mem::take(&mut *self.operations.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A status and a body; `None` if nothing came.
pub(crate) type Reply = Option<(u16, Option<String>, Value)>;

pub(crate) fn send(
    url: &str,
    method: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Reply {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        // A connection per request: one that was closed meanwhile would make the outcome unclear.
        .max_idle_connections(0)
        .timeout_global(Some(TIMEOUT))
        .build()
        .into();
    let mut request = http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = body.map_or(String::new(), Value::to_string);
    let mut answer = agent.run(request.body(body).unwrap()).ok()?;
    let location = answer.headers().get("location");
    let location = location.map(|at| String::from_utf8_lossy(at.as_bytes()).into_owned());
    let text = answer.body_mut().read_to_string().ok()?;
    // Clicks are a JSON object per line.
    let lines = || text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::Array(lines()));
    Some((answer.status().as_u16(), location, body))
}

/// Sends an API call of the admin to a node.
pub(crate) fn api(
    fleet: &Fleet,
    node: usize,
    method: &str,
    path: &str,
    request: Option<&str>,
    body: Option<&Value>,
) -> Reply {
    api_as(KEY, fleet, node, method, path, request, body)
}

/// The same, with another API key.
fn api_as(
    key: &str,
    fleet: &Fleet,
    node: usize,
    method: &str,
    path: &str,
    request: Option<&str>,
    body: Option<&Value>,
) -> Reply {
    let key = format!("Bearer {key}");
    let mut headers = vec![("authorization", key.as_str()), ("content-type", "application/json")];
    headers.extend(request.map(|request| ("idempotency-key", request)));
    send(&format!("{}/api/v1{path}", fleet.url(node)), method, &headers, body)
}

fn outcome(reply: &Reply) -> Outcome {
    match reply {
        Some((200..300, ..)) => Outcome::Ok,
        Some((400..500, ..)) => Outcome::Failed,
        // A commit whose answer was lost may be 503, too.
        _ => Outcome::Unknown,
    }
}

/// A link that this client has made.
struct Made {
    key: String,
    revision: u64,
    limited: bool,
    /// Whether its next state is known: after a lost change it is not changed again.
    settled: bool,
    /// Other clients may have it too, as it leads to a target that they shorten: none changes it.
    shared: bool,
    blocked: bool,
    /// Whether it was ever blocked. Nodes forget such a link.
    was_blocked: bool,
}

/// Whose links a client creates.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) name: &'static str,
    pub(crate) key: String,
}

impl Owner {
    pub(crate) fn admin() -> Self {
        Self { name: "admin", key: KEY.to_owned() }
    }
}

pub(crate) struct Client {
    number: u64,
    owner: Owner,
    random: u64,
    serial: u64,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) recorder: Arc<Recorder>,
    made: Vec<Made>,
    /// Aliases whose creation has no known outcome.
    lost: Vec<String>,
}

impl Client {
    pub(crate) fn new(
        number: u64,
        owner: Owner,
        seed: u64,
        fleet: Arc<Fleet>,
        recorder: Arc<Recorder>,
    ) -> Self {
        let random = (seed << 8 | number).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let (made, lost) = (Vec::new(), Vec::new());
        Self { number, owner, random, serial: 0, fleet, recorder, made, lost }
    }

    /// A number below `below`.
    pub(crate) fn pick(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % below
    }

    pub(crate) fn node(&mut self) -> usize {
        self.pick(self.fleet.len())
    }

    pub(crate) fn run(mut self) {
        while !self.recorder.stopped.load(Ordering::Relaxed) {
            match self.pick(100) {
                0..6 => self.create(None, None),
                6..9 => {
                    // A few clients ask for the same alias.
                    let alias = format!("race-{}", self.recorder.now() / 500);
                    self.create(Some(alias), None);
                }
                9..11 => self.create(None, Some(3)),
                11..16 => self.update(),
                16..17 => self.delete(),
                17..21 => self.total(),
                21..23 => self.create_shared(),
                23..26 => self.block_or_clear(),
                _ => self.visit(),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // Everything is healed: what was lost is there or not, on all nodes alike.
        for key in std::mem::take(&mut self.lost) {
            for node in 0..self.fleet.len() {
                self.read(node, &key, false);
            }
        }
    }

    pub(crate) fn record(
        &self,
        call: u64,
        node: usize,
        outcome: Outcome,
        reply: &Reply,
        action: Action,
    ) {
        let is_error = reply.as_ref().is_none_or(|(status, ..)| *status >= 500);
        let returned = self.recorder.now();
        let operation = Operation { call, returned, node, outcome, action, is_error };
        self.recorder.operations.lock().unwrap().push(operation);
    }

    /// Creates a link of its own.
    pub(crate) fn create(&mut self, alias: Option<String>, max_clicks: Option<u64>) {
        let target = format!("https://example.com/{}/{}/0", self.number, self.serial + 1);
        self.create_to(target, alias, max_clicks, false);
    }

    /// Shortens a target that other clients shorten at the same time: the first to come creates the
    /// link, and the others get it.
    fn create_shared(&mut self) {
        let target = format!("https://example.com/shared/{}", self.recorder.now() / 2_000);
        self.create_to(target, None, None, true);
    }

    /// Creates a link, and asks other nodes with the same `Idempotency-Key` if no answer comes.
    fn create_to(
        &mut self,
        target: String,
        alias: Option<String>,
        max_clicks: Option<u64>,
        shared: bool,
    ) {
        self.serial += 1;
        let request = format!("request-{}-{}", self.number, self.serial);
        let mut body = json!({ "long_url": target, "reuse": shared });
        if let Some(alias) = &alias {
            body["custom_alias"] = json!(alias);
        }
        if let Some(max_clicks) = max_clicks {
            body["max_clicks"] = json!(max_clicks);
        }
        for _ in 0..4 {
            let node = self.node();
            let call = self.recorder.now();
            let (fleet, key) = (&self.fleet, &self.owner.key);
            let reply = api_as(key, fleet, node, "POST", "/urls", Some(&request), Some(&body));
            let outcome = outcome(&reply);
            let code = reply.as_ref().and_then(|(.., link)| link["short_code"].as_str());
            let key = code.or(alias.as_deref()).unwrap_or_default().to_owned();
            let action = Action::Create {
                key: key.clone(),
                target: target.clone(),
                owner: self.owner.name.to_owned(),
                request: request.clone(),
                max_clicks,
                // 201 is the answer to the one that created it.
                reused: matches!(&reply, Some((200, ..))),
            };
            self.record(call, node, outcome, &reply, action);
            match outcome {
                Outcome::Ok => {
                    let limited = max_clicks.is_some();
                    // A replay of a create that was answered before is the same link.
                    self.made.push(Made {
                        key,
                        revision: 0,
                        limited,
                        settled: true,
                        shared,
                        blocked: false,
                        was_blocked: false,
                    });
                    return;
                }
                Outcome::Failed => return,
                Outcome::Unknown => std::thread::sleep(Duration::from_millis(300)),
            }
        }
        self.lost.extend(alias);
    }

    /// One of the links that this client may still change. The first twenty never change.
    fn changeable(&mut self) -> Option<usize> {
        let count = self.made.len().checked_sub(20).filter(|count| *count > 0)?;
        let n = 20 + self.pick(count);
        let Made { settled, limited, shared, .. } = self.made[n];
        (settled && !limited && !shared).then_some(n)
    }

    /// Blocks a link as a moderator, or clears one that is blocked.
    fn block_or_clear(&mut self) {
        let blocked = (0..self.made.len()).find(|n| self.made[*n].blocked && self.made[*n].settled);
        let blocked = blocked.filter(|_| self.serial.is_multiple_of(2));
        let Some(n) = blocked.or_else(|| self.changeable()) else { return };
        let (node, key, block) = (self.node(), self.made[n].key.clone(), !self.made[n].blocked);
        let (verb, action) = match block {
            true => ("confirm", Action::Block { key: key.clone() }),
            false => ("clear", Action::Unblock { key: key.clone() }),
        };
        let (path, body) = (format!("/admin/links/{key}/{verb}"), json!({ "why": "a test" }));
        self.made[n].was_blocked = true;
        let call = self.recorder.now();
        let reply = api(&self.fleet, node, "POST", &path, None, Some(&body));
        let outcome = outcome(&reply);
        self.made[n].settled = outcome == Outcome::Ok;
        self.made[n].blocked = block;
        self.record(call, node, outcome, &reply, action);
    }

    /// The links that it has created.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.made.iter().map(|made| made.key.clone()).collect()
    }

    /// Notes that all its links are blocked with their owner from time to time.
    pub(crate) fn expect_blocks(&mut self) {
        self.made.iter_mut().for_each(|made| made.was_blocked = true);
    }

    fn update(&mut self) {
        let Some(n) = self.changeable().filter(|n| !self.made[*n].blocked) else { return };
        let (node, key) = (self.node(), self.made[n].key.clone());
        let revision = self.made[n].revision + 1;
        self.made[n].revision = revision;
        let target = format!("https://example.com/{key}/{revision}");
        let body = json!({ "long_url": target });
        let call = self.recorder.now();
        let reply = api(&self.fleet, node, "PATCH", &format!("/urls/{key}"), None, Some(&body));
        let outcome = outcome(&reply);
        self.made[n].settled = outcome == Outcome::Ok;
        self.record(call, node, outcome, &reply, Action::Update { key, target, revision });
    }

    fn delete(&mut self) {
        let Some(n) = self.changeable() else { return };
        let (node, key) = (self.node(), self.made[n].key.clone());
        self.made[n].settled = false;
        let call = self.recorder.now();
        let reply = api(&self.fleet, node, "DELETE", &format!("/urls/{key}"), None, None);
        self.record(call, node, outcome(&reply), &reply, Action::Delete { key });
    }

    fn total(&mut self) {
        if self.made.is_empty() {
            return;
        }
        let (node, n) = (self.node(), self.pick(self.made.len().min(20)));
        let key = self.made[n].key.clone();
        let call = self.recorder.now();
        let reply = api(&self.fleet, node, "GET", &format!("/urls/{key}/stats"), None, None);
        let clicks = match &reply {
            Some((200, _, stats)) => Some(stats["total_clicks"].as_u64().unwrap()),
            _ => None,
        };
        self.record(call, node, outcome(&reply), &reply, Action::Total { key, clicks });
    }

    pub(crate) fn visit(&mut self) {
        if self.made.is_empty() {
            return;
        }
        let (node, n) = (self.node(), self.pick(self.made.len()));
        let Made { key, revision, limited, settled, was_blocked, shared, .. } = &self.made[n];
        // A node forgets a link that a create through it uses again, as if it were new.
        let is_changed = *revision > 0 || *was_blocked || *shared;
        let (key, stable) = (key.clone(), !is_changed && !*limited && *settled);
        self.read(node, &key, stable);
    }

    /// Visits a link. A stable one stays in the memory of a node that has answered it.
    fn read(&mut self, node: usize, key: &str, stable: bool) {
        let mark = format!("m{}", self.recorder.marks.fetch_add(1, Ordering::Relaxed));
        let remembered = stable && self.fleet.remembers(node, key);
        let url = format!("{}/{key}?utm_content={mark}", self.fleet.url(node));
        let call = self.recorder.now();
        let reply = send(&url, "GET", &[], None);
        let answer = match &reply {
            Some((301 | 302 | 307 | 308, Some(target), _)) => VisitAnswer::Redirect(target.clone()),
            Some((404, ..)) => VisitAnswer::Missing,
            Some((410, ..)) => VisitAnswer::Gone,
            Some((451, ..)) => VisitAnswer::Blocked,
            Some((429 | 503, ..)) => VisitAnswer::Unavailable,
            Some((status, ..)) => VisitAnswer::Status(*status),
            None => VisitAnswer::Nothing,
        };
        if stable && matches!(answer, VisitAnswer::Redirect(_)) {
            self.fleet.remember(node, key);
        }
        let outcome = match answer {
            VisitAnswer::Nothing => Outcome::Unknown,
            VisitAnswer::Unavailable => Outcome::Failed,
            _ => Outcome::Ok,
        };
        let action = Action::Read { key: key.to_owned(), mark, answer, remembered };
        self.record(call, node, outcome, &reply, action);
    }
}

/// Reads the statistics of all links from the first node, and the sums of `owners`, who have
/// deleted no link.
pub(crate) fn drained(fleet: &Fleet, history: &History, owners: &[Owner]) -> FinalCounts {
    let mut drained = FinalCounts::default();
    let get = |api_key: &str, path: &str| match api_as(api_key, fleet, 0, "GET", path, None, None) {
        Some((200, _, body)) => Some(body),
        Some((404, ..)) => None,
        other => panic!("{path}: {other:?}"),
    };
    for Owner { name, key } in owners {
        let total = get(key, "/stats").unwrap()["total_clicks"].as_u64().unwrap();
        drained.owners.insert((*name).to_owned(), total);
    }
    for operation in &history.operations {
        let Action::Create { key, owner, .. } = &operation.action else { continue };
        if key.is_empty() || drained.links.contains_key(key) {
            continue;
        }
        let api_key = owners.iter().find(|other| other.name == owner).map_or(KEY, |own| &own.key);
        let get = |path: String| get(api_key, &path);
        // The statistics of deleted links cannot be read.
        let Some(stats) = get(format!("/urls/{key}/stats?interval=hour")) else { continue };
        let clicks = get(format!("/urls/{key}/clicks")).unwrap();
        let series = stats["series"].as_array().unwrap();
        let clicks = match clicks {
            Value::Array(clicks) => clicks,
            click => vec![click],
        };
        let marks = clicks.iter();
        let counted = LinkStatistics {
            owner: owner.clone(),
            total: stats["total_clicks"].as_u64().unwrap(),
            hours: series.iter().map(|hour| hour["clicks"].as_u64().unwrap()).sum(),
            marks: marks.map(|click| click["utm_content"].as_str().unwrap().to_owned()).collect(),
        };
        drained.links.insert(key.clone(), counted);
    }
    drained
}
