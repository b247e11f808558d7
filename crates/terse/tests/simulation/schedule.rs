//! One schedule: clients, faults and crashes by the seed, and the check of every answer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use terse_core::limits::{Limit, LimitKey, LimitSubject, LimitedAction, Limiter as _, Take};
use terse_core::*;
use terse_testkit::MemoryStore;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

use crate::dice::Dice;
use crate::model::{Bucket, History, Issued, Trouble, Visit, Write};
use crate::network::{AFTER_FAULT, SimStore, Weather};
use crate::node::{CACHE_TTL, Node, reap};

const NODES: usize = 2;
/// The simulated length of a schedule, before everything heals.
const LENGTH: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(20);
const DAY_MS: i64 = 86_400_000;
/// 2026-06-01.
const START: i64 = 1_780_272_000_000;

/// What a schedule does differently.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) follow_changes: bool,
    pub(crate) verbose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { follow_changes: true, verbose: false }
    }
}

/// What happened in one or many schedules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) schedules: u64,
    pub(crate) created: u64,
    pub(crate) changed: u64,
    pub(crate) redirects: u64,
    pub(crate) missing: u64,
    pub(crate) refused_by_faults: u64,
    /// Writes whose answer was lost.
    pub(crate) unknown: u64,
    pub(crate) crashes: u64,
    pub(crate) jumps: u64,
    pub(crate) within_limit: u64,
    pub(crate) over_limit: u64,
}

impl Outcome {
    pub(crate) fn add(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.created += other.created;
        self.changed += other.changed;
        self.redirects += other.redirects;
        self.missing += other.missing;
        self.refused_by_faults += other.refused_by_faults;
        self.unknown += other.unknown;
        self.crashes += other.crashes;
        self.jumps += other.jumps;
        self.within_limit += other.within_limit;
        self.over_limit += other.over_limit;
    }
}

/// Runs one schedule. Panics with the seed if an answer is not allowed.
pub(crate) fn run(seed: u64, options: &Options) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let world = Rc::new(World::new(seed, options.clone()));
        world.play().await;
        world.outcome.borrow().clone()
    })
}

/// A place for a node, and what is outside of it.
struct Machine {
    clock: Clock,
    store: Arc<SimStore>,
    node: RefCell<Option<Node>>,
    trouble: RefCell<Trouble>,
    /// When its wall clock last jumped.
    jumped: Cell<Option<u64>>,
    bucket: RefCell<Bucket>,
}

impl Machine {
    fn has_right_time(&self) -> bool {
        (self.clock.now().as_ms() - START).abs() < DAY_MS / 2
    }
}

struct World {
    seed: u64,
    options: Options,
    dice: Arc<Dice>,
    begun: Instant,
    machines: Vec<Machine>,
    /// The reaper's way to the store, and its clock.
    reaper: (Arc<SimStore>, Clock),
    histories: RefCell<Vec<Rc<RefCell<History>>>>,
    issued: RefCell<Issued>,
    outcome: RefCell<Outcome>,
    requests: Cell<u64>,
}

impl World {
    fn new(seed: u64, options: Options) -> Self {
        let (dice, store) = (Arc::new(Dice::new(seed)), Arc::new(MemoryStore::new()));
        // Another node may have leased a code or taken an alias.
        store.be_unsure();
        let reach = || Arc::new(SimStore::new(store.clone(), dice.clone()));
        let machine = || Machine {
            clock: Clock::frozen(Timestamp::from_ms(START)),
            store: reach(),
            node: RefCell::new(None),
            trouble: RefCell::default(),
            jumped: Cell::new(None),
            bucket: RefCell::default(),
        };
        Self {
            seed,
            options,
            begun: Instant::now(),
            machines: (0..NODES).map(|_| machine()).collect(),
            reaper: (reach(), Clock::frozen(Timestamp::from_ms(START))),
            dice,
            histories: RefCell::default(),
            issued: RefCell::default(),
            outcome: RefCell::new(Outcome { schedules: 1, ..Outcome::default() }),
            requests: Cell::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn say(&self, text: impl FnOnce() -> String) {
        if self.options.verbose {
            println!("{:>6} ms  {}", self.now(), text());
        }
    }

    fn must(&self, checked: Result<(), String>, about: impl FnOnce() -> String) {
        if let Err(why) = checked {
            panic!("{why}; {}. Replay with TERSE_SIM_SEED={}", about(), self.seed);
        }
    }

    fn count(&self, count: impl FnOnce(&mut Outcome)) {
        count(&mut self.outcome.borrow_mut());
    }

    fn next_request(&self) -> u64 {
        self.requests.set(self.requests.get() + 1);
        self.requests.get()
    }

    async fn play(self: &Rc<Self>) {
        let mut background = vec![self.spawn(Self::keep_time)];
        (0..NODES).for_each(|at| self.start(at));
        background.push({
            let (store, clock) = self.reaper.clone();
            spawn_local(reap(store, clock, self.dice.clone()))
        });
        let mut tasks = vec![self.spawn(Self::weather), self.spawn(Self::crashes)];
        tasks.push(self.spawn(Self::jumps));
        for number in 0..3 {
            tasks.push(self.spawn(move |world| Self::writer(world, number)));
            tasks.push(self.spawn(Self::visitor));
        }
        tasks.push(self.spawn(Self::visitor));
        tasks.push(self.spawn(Self::creator));
        tasks.push(self.spawn(Self::racers));
        tasks.push(self.spawn(Self::limited));
        tasks.push(self.spawn(Self::expiring));
        tasks.push(self.spawn(Self::hurried));
        for task in tasks {
            finish(task).await;
        }
        self.settle().await;
        background.iter().for_each(JoinHandle::abort);
    }

    fn spawn<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        what: impl FnOnce(Rc<Self>) -> F,
    ) -> JoinHandle<()> {
        spawn_local(what(Rc::clone(self)))
    }

    /// Moves the clocks of all nodes with the simulated time.
    async fn keep_time(self: Rc<Self>) {
        loop {
            sleep(TICK).await;
            self.machines.iter().for_each(|machine| machine.clock.advance(TICK));
            self.reaper.1.advance(TICK);
        }
    }

    fn start(self: &Rc<Self>, at: usize) {
        let machine = &self.machines[at];
        let node = Node::start(&machine.store, &machine.clock);
        if self.options.follow_changes {
            let mut alive = node.alive.subscribe();
            let follow = Node::follow_changes(machine.store.clone(), node.redirector.clone());
            spawn_local(async move {
                tokio::select! {
                    biased;
                    _ = alive.changed() => {}
                    () = follow => {}
                }
            });
        }
        *machine.node.borrow_mut() = Some(node);
        machine.trouble.borrow_mut().started = self.now();
    }

    fn is_over(&self) -> bool {
        self.begun.elapsed() > LENGTH
    }

    /// Cuts nodes off, slows them down, and heals them.
    async fn weather(self: Rc<Self>) {
        // Some schedules have no faults at all.
        if self.dice.percent(20) {
            return;
        }
        while !self.is_over() {
            sleep(Duration::from_secs(1) + self.dice.ms(8_000)).await;
            let weather = [Weather::Slow, Weather::Flaky, Weather::Flaky, Weather::Down];
            let weather = weather[self.dice.below(4) as usize];
            let both = self.dice.percent(50);
            let one = self.dice.below(NODES as u64) as usize;
            let hit: Vec<usize> = (0..NODES).filter(|at| both || *at == one).collect();
            self.say(|| format!("{weather:?} for {hit:?}"));
            for &at in &hit {
                let machine = &self.machines[at];
                machine.store.set(weather);
                machine.trouble.borrow_mut().faults.push((self.now(), None));
            }
            sleep(Duration::from_millis(50) + self.dice.ms(3000)).await;
            self.heal(&hit);
        }
    }

    fn heal(&self, hit: &[usize]) {
        self.say(|| format!("fine again for {hit:?}"));
        for &at in hit {
            let machine = &self.machines[at];
            machine.store.set(Weather::Fine);
            // Calls that are still under way may take long or fail: see `AFTER_FAULT`.
            if let Some(last) = machine.trouble.borrow_mut().faults.last_mut() {
                last.1.get_or_insert(self.now());
            }
        }
    }

    /// Crashes nodes and starts them again.
    async fn crashes(self: Rc<Self>) {
        while !self.is_over() {
            sleep(Duration::from_secs(2) + self.dice.ms(14_000)).await;
            let at = self.dice.below(NODES as u64) as usize;
            self.say(|| format!("node {at} crashes"));
            // What runs on it ends where it waits.
            drop(self.machines[at].node.borrow_mut().take());
            self.count(|outcome| outcome.crashes += 1);
            sleep(self.dice.ms(2000)).await;
            self.say(|| format!("node {at} starts"));
            self.start(at);
        }
    }

    /// Sets wall clocks forward and back.
    async fn jumps(self: Rc<Self>) {
        while !self.is_over() {
            sleep(Duration::from_secs(1) + self.dice.ms(10_000)).await;
            let days = [1, 8, 60, 365, -1, -365][self.dice.below(6) as usize];
            let at = self.dice.below(NODES as u64 + 1) as usize;
            self.say(|| format!("the clock of {at} jumps by {days} days"));
            self.jump(at, days);
            self.count(|outcome| outcome.jumps += 1);
            sleep(self.dice.ms(5000)).await;
            self.jump(at, -days);
        }
    }

    fn jump(&self, at: usize, days: i64) {
        match self.machines.get(at) {
            Some(machine) => {
                machine.clock.set_wall_off(days * DAY_MS);
                machine.jumped.set(Some(self.now()));
            }
            None => self.reaper.1.set_wall_off(days * DAY_MS),
        }
    }

    /// Runs a call on a node. `None` if the node is down, or crashes before it answers.
    async fn on<T, F: Future<Output = T>>(
        &self,
        at: usize,
        call: impl FnOnce(Rc<NodeRef>) -> F,
    ) -> Option<T> {
        let (node, mut alive) = {
            let node = self.machines[at].node.borrow();
            let node = node.as_ref()?;
            (Rc::new(NodeRef::of(node)), node.alive.subscribe())
        };
        tokio::select! {
            biased;
            _ = alive.changed() => None,
            answer = call(node) => Some(answer),
        }
    }

    /// A client that creates, changes, deletes and restores one alias, and repeats what was not
    /// acknowledged.
    async fn writer(self: Rc<Self>, number: usize) {
        let code = format!("alias-{number}");
        let history = Rc::new(RefCell::new(History::new(code.clone(), false)));
        self.histories.borrow_mut().push(history.clone());
        let (key, request) = (key(&code), self.next_request());
        let mut version = 0;
        while !self.is_over() {
            sleep(self.dice.ms(3000)).await;
            let (exists, has_been) = {
                let history = history.borrow();
                let last = &history.writes[history.writes.len() - 1];
                (last.value.clone(), history.writes.len() > 1)
            };
            let kind = match (exists.is_some(), has_been, self.dice.percent(25)) {
                (false, false, _) => Kind::Create,
                (false, true, _) => Kind::Restore,
                (true, _, true) => Kind::Delete,
                (true, _, false) => Kind::Change,
            };
            version += 1;
            let value = match kind {
                Kind::Create | Kind::Change => {
                    Some(format!("https://example.com/{code}/{version}"))
                }
                Kind::Delete => None,
                Kind::Restore => {
                    let history = history.borrow();
                    history.writes.iter().rev().find_map(|write| write.value.clone())
                }
            };
            let called = self.now();
            let write = Write { value: value.clone(), called, node: 0, returned: None };
            history.borrow_mut().writes.push(write);
            loop {
                let at = self.dice.below(NODES as u64) as usize;
                // The time of a deletion decides how long the link can be restored.
                let needs_time = matches!(kind, Kind::Delete | Kind::Restore);
                if needs_time && !self.machines[at].has_right_time() {
                    sleep(self.dice.ms(800)).await;
                    continue;
                }
                let done =
                    self.on(at, |node| write_once(node, key.clone(), kind, value.clone(), request));
                let done = done.await;
                self.say(|| format!("{kind:?} {code} {value:?} on {at}: {done:?}"));
                match done {
                    Some(Ok(())) => {
                        let mut history = history.borrow_mut();
                        let last = history.writes.last_mut().unwrap();
                        (last.node, last.returned) = (at, Some(self.now()));
                        self.count(|outcome| match kind {
                            Kind::Create => outcome.created += 1,
                            _ => outcome.changed += 1,
                        });
                        break;
                    }
                    Some(Err(error)) if error.is_unknown => {
                        self.count(|outcome| outcome.unknown += 1);
                    }
                    // Deleted or restored while a clock jumped: too late by that clock.
                    Some(Err(_)) if needs_time && self.has_jumped(&history.borrow()) => {}
                    Some(Err(error)) => self.must(Err(error.text), || format!("{kind:?} {code}")),
                    None => self.count(|outcome| outcome.unknown += 1),
                }
                if self.is_over() {
                    return;
                }
                sleep(self.dice.ms(800)).await;
            }
        }
    }

    /// Whether a clock has jumped since the last state of a link but one.
    fn has_jumped(&self, history: &History) -> bool {
        let since = history.writes.iter().rev().nth(1).map_or(0, |write| write.called);
        self.machines.iter().any(|machine| machine.jumped.get().is_some_and(|at| at >= since))
    }

    /// Visitors of all known links, on all nodes.
    async fn visitor(self: Rc<Self>) {
        while !self.is_over() {
            sleep(self.dice.ms(400)).await;
            let all = self.histories.borrow().len() as u64;
            if all == 0 {
                continue;
            }
            let history = self.histories.borrow()[self.dice.below(all) as usize].clone();
            let at = self.dice.below(NODES as u64) as usize;
            self.visit(&history, at).await;
        }
    }

    async fn visit(&self, history: &Rc<RefCell<History>>, at: usize) {
        let (code, called) = (history.borrow().code.clone(), self.now());
        let answer = self.on(at, |node| async move { Node::visit(&node.redirector, &code).await });
        let Some((status, location)) = answer.await else { return };
        let visit = Visit { node: at, called, returned: self.now(), status, location };
        let mut history = history.borrow_mut();
        self.say(|| format!("visit {} on {at}: {status} {:?}", history.code, visit.location));
        self.count(|outcome| match status {
            302 => outcome.redirects += 1,
            503 => outcome.refused_by_faults += 1,
            _ => outcome.missing += 1,
        });
        let checked = history.check(&visit, &self.machines[at].trouble.borrow());
        self.must(checked, || format!("{visit:?} of {history:?}"));
    }

    /// Creates links with generated codes. A request that was not acknowledged is repeated, also on
    /// the other node, and yields one link.
    async fn creator(self: Rc<Self>) {
        while !self.is_over() {
            sleep(self.dice.ms(1500)).await;
            let request = self.next_request();
            let target = format!("https://example.com/generated/{request}");
            loop {
                let at = self.dice.below(NODES as u64) as usize;
                let called = self.now();
                let made = self.on(at, |node| create(node, target.clone(), None, request, None));
                match made.await {
                    Some(Ok(link)) => {
                        let code = link.key.code.as_str().to_owned();
                        self.say(|| format!("created {code} on {at}"));
                        let checked = self.issued.borrow_mut().check(&code, request);
                        self.must(checked, || format!("request {request}"));
                        let mut history = History::new(code, true);
                        let (value, returned) = (Some(target), Some(self.now()));
                        history.writes.push(Write { value, called, node: at, returned });
                        self.histories.borrow_mut().push(Rc::new(RefCell::new(history)));
                        self.count(|outcome| outcome.created += 1);
                        break;
                    }
                    Some(Err(error)) if error.is_unknown => {}
                    Some(Err(error)) => self.must(Err(error.text), || "a create".into()),
                    None => {}
                }
                self.count(|outcome| outcome.unknown += 1);
                sleep(self.dice.ms(500)).await;
            }
        }
    }

    /// Two clients want the same alias at the same time, each on a node of its own.
    async fn racers(self: Rc<Self>) {
        let mut round = 0;
        while !self.is_over() {
            sleep(Duration::from_secs(1) + self.dice.ms(4000)).await;
            round += 1;
            let alias = format!("race-{round}");
            let one = |at: usize| {
                let target = format!("https://example.com/{alias}/{at}");
                let (world, alias, request) = (self.clone(), alias.clone(), self.next_request());
                spawn_local(async move {
                    sleep(world.dice.ms(6)).await;
                    world.on(at, |node| create(node, target, Some(alias), request, None)).await
                })
            };
            let (first, second) = (one(0), one(1));
            let won = [first.await.unwrap(), second.await.unwrap()];
            let winners = won.iter().flatten().filter(|made| made.is_ok()).count();
            let checked = if winners < 2 { Ok(()) } else { Err("unique: both won".to_owned()) };
            self.must(checked, || format!("{alias}: {won:?}"));
        }
    }

    /// A link with `max_clicks`, and more visitors than that.
    async fn limited(self: Rc<Self>) {
        let most = 1 + self.dice.below(4);
        let (request, target) = (self.next_request(), "https://example.com/limited".to_owned());
        let code = loop {
            let at = self.dice.below(NODES as u64) as usize;
            let made = self
                .on(at, |node| {
                    create(node, target.clone(), Some("limited".into()), request, Some(most))
                })
                .await;
            if let Some(Ok(link)) = made {
                break link.key.code.as_str().to_owned();
            }
            sleep(self.dice.ms(300)).await;
            if self.is_over() {
                return;
            }
        };
        // Until then another node may still think that there is none.
        sleep(Duration::from_secs(5)).await;
        let redirects = Rc::new(Cell::new(0));
        let visitors: Vec<_> = (0..8)
            .map(|_| {
                let (world, code, redirects) = (self.clone(), code.clone(), redirects.clone());
                spawn_local(async move {
                    for _ in 0..4 {
                        sleep(world.dice.ms(2000)).await;
                        let at = world.dice.below(NODES as u64) as usize;
                        let code = code.clone();
                        let visit = world.on(at, |node| async move {
                            Node::visit(&node.redirector, &code).await
                        });
                        let answer = visit.await;
                        if let Some((302, _)) = answer {
                            redirects.set(redirects.get() + 1);
                        }
                        let within = redirects.get() <= most;
                        let checked = if within { Ok(()) } else { Err("limit".to_owned()) };
                        world.must(checked, || format!("{} of {most}", redirects.get()));
                    }
                })
            })
            .collect();
        for visitor in visitors {
            finish(visitor).await;
        }
    }

    /// A client that does more than its limit allows.
    async fn hurried(self: Rc<Self>) {
        const LIMIT: Limit = Limit::per_minute(12);
        let subject = LimitSubject { action: LimitedAction::Create, key: LimitKey::Key(1) };
        let take = [Take { subject, limit: LIMIT, count: 1 }];
        while !self.is_over() {
            sleep(self.dice.ms(300)).await;
            let at = self.dice.below(NODES as u64) as usize;
            let machine = &self.machines[at];
            let limiter = machine.node.borrow().as_ref().map(|node| node.limiter.clone());
            let Some(limiter) = limiter else { continue };
            let allowed = limiter.take(&take).await.allowed;
            let started = machine.trouble.borrow().started;
            let time = (started, machine.clock.steady().as_millis() as u64);
            let size = (u64::from(LIMIT.count()), LIMIT.interval().as_millis() as u64);
            let checked = machine.bucket.borrow_mut().check(time, size, allowed);
            self.must(checked, || format!("on {at}: {:?}", machine.bucket));
            self.count(|outcome| match allowed {
                true => outcome.within_limit += 1,
                false => outcome.over_limit += 1,
            });
        }
    }

    /// A link that expires in a month: clocks that are wrong for seconds must not delete it.
    async fn expiring(self: Rc<Self>) {
        let request = self.next_request();
        let (target, alias) = ("https://example.com/month".to_owned(), "a-month".to_owned());
        let made = loop {
            // On a node whose clock is right.
            let at = self.dice.below(NODES as u64) as usize;
            let is_right = self.machines[at].has_right_time();
            let command = CreateLink {
                long_url: target.clone(),
                custom_alias: Some(alias.clone()),
                ttl: Some(30 * 86_400),
                ..CreateLink::default()
            };
            if is_right {
                let asked = asked(request);
                let create = |node: Rc<NodeRef>| async move {
                    node.links().create(Caller::OPERATOR, command, Some(asked)).await.is_ok()
                };
                if self.on(at, create).await == Some(true) {
                    break true;
                }
            }
            sleep(self.dice.ms(300)).await;
            if self.is_over() {
                break false;
            }
        };
        if !made {
            return;
        }
        let created = self.now();
        while !self.is_over() {
            sleep(self.dice.ms(1000)).await;
            let at = self.dice.below(NODES as u64) as usize;
            let (called, code) = (self.now(), alias.clone());
            let visit =
                self.on(at, |node| async move { Node::visit(&node.redirector, &code).await });
            let Some((status, _)) = visit.await else { continue };
            let machine = &self.machines[at];
            let is_right = machine.has_right_time();
            let steady = machine.jumped.get().is_none_or(|jumped| {
                called > jumped + CACHE_TTL.as_millis() as u64 + AFTER_FAULT.as_millis() as u64
            });
            let felt = machine.trouble.borrow().is_felt(called, self.now());
            let allowed = match status {
                302 => true,
                // Only by a clock that is wrong, or was a moment ago.
                410 => !(is_right && steady),
                503 => felt,
                // Only before the other node can know of it.
                404 => felt || called < created + 5_000,
                _ => false,
            };
            let checked = if allowed { Ok(()) } else { Err(format!("kept: {status}")) };
            self.must(checked, || format!("a-month on {at} at {called}"));
        }
    }

    /// Heals everything, waits, and checks that both nodes serve the last state of every link.
    async fn settle(self: &Rc<Self>) {
        self.heal(&[0, 1]);
        sleep(AFTER_FAULT + CACHE_TTL + Duration::from_secs(6)).await;
        let histories = self.histories.borrow().clone();
        for history in &histories {
            for at in 0..NODES {
                self.visit(history, at).await;
            }
        }
        for at in 0..NODES {
            let visit =
                self.on(at, |node| async move { Node::visit(&node.redirector, "a-month").await });
            let status = visit.await.map(|(status, _)| status);
            let allowed = matches!(status, Some(302 | 404));
            let checked = if allowed { Ok(()) } else { Err(format!("kept: {status:?}")) };
            self.must(checked, || format!("a-month on {at} in the end"));
        }
    }
}

/// What a call needs of a node, also while the node is being dropped.
struct NodeRef {
    redirector: Arc<terse_redirect::Redirector>,
    links: Arc<Links>,
}

impl NodeRef {
    fn of(node: &Node) -> Self {
        Self { redirector: node.redirector.clone(), links: node.links.clone() }
    }

    fn links(&self) -> &Links {
        &self.links
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Create,
    Change,
    Delete,
    Restore,
}

/// A call that failed.
#[derive(Debug)]
struct Failed {
    /// Whether it may have been done.
    is_unknown: bool,
    text: String,
}

impl From<LinkError> for Failed {
    fn from(error: LinkError) -> Self {
        let is_unknown = matches!(
            &error,
            LinkError::Store(StoreError::Unavailable(_) | StoreError::Busy)
                | LinkError::NoCode(CodeSourceError::Store(_))
                | LinkError::Conflict
        );
        Self { is_unknown, text: format!("durable: {error}") }
    }
}

async fn write_once(
    node: Rc<NodeRef>,
    key: LinkKey,
    kind: Kind,
    value: Option<String>,
    request: u64,
) -> Result<(), Failed> {
    match kind {
        Kind::Create => {
            let alias = key.code.as_str().to_owned();
            let target = value.unwrap_or_default();
            create(node, target, Some(alias), request, None).await.map(|_| ())
        }
        Kind::Change => {
            let patch = Patch { long_url: value, ..Patch::default() };
            Ok(node.links().patch(Caller::OPERATOR, &key, &patch, None).await.map(|_| ())?)
        }
        Kind::Delete => Ok(node.links().delete(Caller::OPERATOR, &key).await?),
        Kind::Restore => Ok(node.links().restore(Caller::OPERATOR, &key).await.map(|_| ())?),
    }
}

async fn create(
    node: Rc<NodeRef>,
    target: String,
    custom_alias: Option<String>,
    request: u64,
    max_clicks: Option<u64>,
) -> Result<Link, Failed> {
    let command =
        CreateLink { long_url: target, custom_alias, max_clicks, ..CreateLink::default() };
    let made = node.links().create(Caller::OPERATOR, command, Some(asked(request))).await?;
    Ok(made.link)
}

fn asked(request: u64) -> Request {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&request.to_be_bytes());
    Request { id, fingerprint: id }
}

fn key(code: &str) -> LinkKey {
    LinkKey { domain: Domain::primary(), code: Code::parse(code).unwrap() }
}

/// Waits for a task and passes its panic on.
async fn finish(task: JoinHandle<()>) {
    if let Err(error) = task.await {
        std::panic::resume_unwind(error.into_panic());
    }
}
