//! One schedule: clients, faults and crashes by the seed, and the check of every answer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terse_core::*;
use terse_testkit::{MemoryClickStore, MemoryStore};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

use crate::click_store::SimClickStore;
use crate::counting::ClickCounter;
use crate::dice::Dice;
use crate::disk::SimDisk;
use crate::ledger::Ledger;
use crate::model::{Bucket, History, IssuedFor, Trouble};
use crate::network::{AFTER_FAULT, SimStore, Weather};
use crate::node::{CACHE_TTL, Node, reap};

pub(crate) const NODES: usize = 2;
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
    /// A visit is answered before its record is in the journal.
    pub(crate) journal_late: bool,
    /// The click store counts a repeated batch again.
    pub(crate) count_again: bool,
    pub(crate) verbose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { follow_changes: true, journal_late: false, count_again: false, verbose: false }
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
    /// Clicks that the click store has counted, and records that power cuts took.
    pub(crate) counted: u64,
    pub(crate) lost_records: u64,
    pub(crate) power_cuts: u64,
    /// Ends at which a node has counted everything.
    pub(crate) complete_stops: u64,
    /// Nodes that stopped counting because a late call took their journal over.
    pub(crate) fenced: u64,
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
        self.counted += other.counted;
        self.lost_records += other.lost_records;
        self.power_cuts += other.power_cuts;
        self.complete_stops += other.complete_stops;
        self.fenced += other.fenced;
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
pub(crate) struct Machine {
    pub(crate) clock: Clock,
    /// Its disk, its way to the click store, and the process that journals and counts.
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) click_store: Arc<SimClickStore>,
    pub(crate) counting: RefCell<Option<ClickCounter>>,
    store: Arc<SimStore>,
    pub(crate) node: RefCell<Option<Node>>,
    pub(crate) trouble: RefCell<Trouble>,
    /// When its wall clock last jumped.
    pub(crate) jumped: Cell<Option<u64>>,
    pub(crate) bucket: RefCell<Bucket>,
}

impl Machine {
    pub(crate) fn has_right_time(&self) -> bool {
        (self.clock.now().as_ms() - START).abs() < DAY_MS / 2
    }
}

pub(crate) struct World {
    seed: u64,
    pub(crate) options: Options,
    pub(crate) dice: Arc<Dice>,
    begun: Instant,
    pub(crate) machines: Vec<Machine>,
    pub(crate) clicks: Arc<MemoryClickStore>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    /// Whether power fails in this schedule.
    pub(crate) has_power_cuts: bool,
    /// The reaper's way to the store, and its clock.
    reaper: (Arc<SimStore>, Clock),
    pub(crate) histories: RefCell<Vec<Rc<RefCell<History>>>>,
    pub(crate) issued: RefCell<IssuedFor>,
    outcome: RefCell<Outcome>,
    requests: Cell<u64>,
}

impl World {
    fn new(seed: u64, options: Options) -> Self {
        let (dice, store) = (Arc::new(Dice::new(seed)), Arc::new(MemoryStore::new()));
        // Another node may have leased a code or taken an alias.
        store.be_unsure();
        let reach = || Arc::new(SimStore::new(store.clone(), dice.clone()));
        let (clicks, ledger) =
            (Arc::<MemoryClickStore>::default(), Arc::<Mutex<Ledger>>::default());
        // A batch that a store without transactions has begun, and whose records a power cut took,
        // can never be finished.
        let has_power_cuts = dice.percent(60);
        let count_again = options.count_again;
        let click_store = || {
            let (store, ledger) = (clicks.clone(), ledger.clone());
            SimClickStore::new(store, ledger, dice.clone(), !has_power_cuts, count_again)
        };
        let machine = || Machine {
            clock: Clock::frozen(Timestamp::from_ms(START)),
            disk: Arc::new(SimDisk::new(dice.clone())),
            click_store: Arc::new(click_store()),
            counting: RefCell::new(None),
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
            clicks: clicks.clone(),
            ledger: ledger.clone(),
            has_power_cuts,
            reaper: (reach(), Clock::frozen(Timestamp::from_ms(START))),
            dice,
            histories: RefCell::default(),
            issued: RefCell::default(),
            outcome: RefCell::new(Outcome { schedules: 1, ..Outcome::default() }),
            requests: Cell::new(0),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        if self.options.verbose {
            println!("{:>6} ms  {}", self.now(), text());
        }
    }

    pub(crate) fn must(&self, checked: Result<(), String>, about: impl FnOnce() -> String) {
        if let Err(why) = checked {
            panic!("{why}; {}. Replay with TERSE_SIM_SEED={}", about(), self.seed);
        }
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Outcome)) {
        count(&mut self.outcome.borrow_mut());
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.requests.set(self.requests.get() + 1);
        self.requests.get()
    }

    async fn play(self: &Rc<Self>) {
        let mut background = vec![self.spawn(Self::keep_time)];
        (0..NODES).for_each(|at| assert!(self.start(at), "a new disk works"));
        background.push({
            let (store, clock) = self.reaper.clone();
            spawn_local(reap(store, clock, self.dice.clone()))
        });
        let mut tasks = vec![self.spawn(Self::weather), self.spawn(Self::crashes)];
        tasks.push(self.spawn(Self::jumps));
        tasks.push(self.spawn(Self::click_weather));
        tasks.push(self.spawn(Self::write_back));
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
        self.wait_until_quiet().await;
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

    /// Starts a node. Returns whether its disk let it start.
    fn start(self: &Rc<Self>, at: usize) -> bool {
        let machine = &self.machines[at];
        let node = Node::start(&machine.store, &machine.clock);
        if !self.start_counting(at, node.alive.subscribe()) {
            return false;
        }
        if self.options.follow_changes {
            let end = node.alive.subscribe();
            let follow = Node::follow_changes(machine.store.clone(), node.redirector.clone());
            spawn_local(async move {
                tokio::select! {
                    biased;
                    () = end.wait() => {}
                    () = follow => {}
                }
            });
        }
        *machine.node.borrow_mut() = Some(node);
        machine.trouble.borrow_mut().started = self.now();
        true
    }

    /// Starts a node, as often as it takes.
    pub(crate) async fn start_again(self: &Rc<Self>, at: usize) {
        self.say(|| format!("node {at} starts"));
        while !self.start(at) {
            sleep(Duration::from_millis(300)).await;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
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

    /// Crashes and stops nodes, cuts their power, and starts them again.
    async fn crashes(self: Rc<Self>) {
        while !self.is_over() {
            sleep(Duration::from_secs(1) + self.dice.ms(9_000)).await;
            let at = self.dice.below(NODES as u64) as usize;
            match self.dice.below(10) {
                0..3 => self.stop(at).await,
                3..6 => self.crash_between_file_operations(at).await,
                _ => self.crash(at),
            }
            if self.has_power_cuts && self.dice.percent(50) {
                self.cut_power(at);
            }
            sleep(self.dice.ms(2000)).await;
            self.start_again(at).await;
        }
    }

    /// What runs on a node ends where it waits.
    pub(crate) fn crash(&self, at: usize) {
        self.say(|| format!("node {at} crashes"));
        drop(self.machines[at].node.borrow_mut().take());
        self.machines[at].counting.take();
        self.count(|outcome| outcome.crashes += 1);
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
                machine.clock.shift_wall_clock(days * DAY_MS);
                machine.jumped.set(Some(self.now()));
            }
            None => self.reaper.1.shift_wall_clock(days * DAY_MS),
        }
    }

    /// Runs a call on a node. `None` if the node is down, or crashes before it answers.
    pub(crate) async fn on<T, F: Future<Output = T>>(
        &self,
        at: usize,
        call: impl FnOnce(Rc<NodeRef>) -> F,
    ) -> Option<T> {
        let (node, end) = {
            let node = self.machines[at].node.borrow();
            let node = node.as_ref()?;
            (Rc::new(NodeRef::of(node)), node.alive.subscribe())
        };
        tokio::select! {
            biased;
            () = end.wait() => None,
            answer = call(node) => Some(answer),
        }
    }

    /// Heals everything, waits, and checks that both nodes serve the last state of every link.
    async fn wait_until_quiet(self: &Rc<Self>) {
        self.heal(&[0, 1]);
        self.heal_clicks();
        sleep(AFTER_FAULT + CACHE_TTL + Duration::from_secs(6)).await;
        let histories = self.histories.borrow().clone();
        for history in &histories {
            for at in 0..NODES {
                self.visit(history, at).await;
            }
        }
        for at in 0..NODES {
            let status = self.follow(at, "a-month").await.map(|(status, _)| status);
            let allowed = matches!(status, Some(302 | 404));
            let checked = if allowed { Ok(()) } else { Err(format!("kept: {status:?}")) };
            self.must(checked, || format!("a-month on {at} in the end"));
        }
        self.wait_until_counted().await;
    }
}

/// What a call needs of a node, also while the node is being dropped.
pub(crate) struct NodeRef {
    pub(crate) redirector: Arc<terse_redirect::Redirector>,
    links: Arc<Links>,
}

impl NodeRef {
    fn of(node: &Node) -> Self {
        Self { redirector: node.redirector.clone(), links: node.links.clone() }
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }
}

/// Waits for a task and passes its panic on.
pub(crate) async fn finish(task: JoinHandle<()>) {
    if let Err(error) = task.await {
        std::panic::resume_unwind(error.into_panic());
    }
}
