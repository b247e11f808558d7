//! The click plane of each node: its journal, its shipper, and the faults of both.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use terse_clicks::{AddressPrecision, LocalShipper, Pace, ShipperParts};
use terse_core::Answered;
use terse_core::clicks::{JournalRecord, RequestFlags};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::alive::End;
use crate::click_store::{MAX_DELAY_MS, TIMEOUT};
use crate::journal::SimJournal;
use crate::ledger::JournaledClick;
use crate::network::Weather;
use crate::node::Node;
use crate::schedule::{NODES, World};

/// As in a server, but faster, so that a schedule sees batches, retries and forgotten positions.
fn pace() -> Pace {
    Pace {
        timeout: TIMEOUT,
        max_retry_delay: Duration::from_secs(1),
        flush: Duration::from_secs(1),
        batch: 24,
        // Longer than a call is on its way.
        keep_positions: Duration::from_millis(2 * MAX_DELAY_MS),
        late_open: Duration::from_millis(MAX_DELAY_MS),
        ..Pace::default()
    }
}

/// What journals and counts the clicks of one process.
pub(crate) struct ClickCounter {
    journal: Option<SimJournal>,
    shipper: LocalShipper,
    /// Whether everything was counted, once the shipper has ended.
    ended: Rc<Cell<Option<bool>>>,
}

impl World {
    /// Starts the click plane of a process. Returns whether the disk let it start.
    pub(crate) fn start_counting(&self, at: usize, end: End) -> bool {
        let machine = &self.machines[at];
        let (disk, clock) = (machine.disk.clone(), machine.clock.clone());
        disk.revive();
        let run = self.next_request();
        let parts = ShipperParts {
            folder: PathBuf::new(),
            run,
            store: machine.click_store.clone(),
            live: Default::default(),
            places: None,
            keep: AddressPrecision::Network,
            limit_bytes: u64::MAX,
            batch_bytes: pace().batch_bytes,
            flush: pace().flush,
            clock: clock.clone(),
        };
        let Ok((shipper, ship)) = LocalShipper::start(parts, disk.clone(), pace()) else {
            return false;
        };
        let ended = Rc::new(Cell::new(None));
        let has_ended = Rc::clone(&ended);
        spawn_local(async move {
            tokio::select! {
                biased;
                () = end.wait() => {}
                complete = ship => has_ended.set(Some(complete)),
            }
        });
        let journal = Some(SimJournal::new(disk, self.dice.clone(), clock, run));
        *machine.counting.borrow_mut() = Some(ClickCounter { journal, shipper, ended });
        true
    }

    /// A visit on a node: status and location of the answer, once the visitor has it.
    pub(crate) async fn follow(&self, at: usize, code: &str) -> Option<(u16, Option<String>)> {
        let visit = self.on(at, |node| async move {
            let answer = Node::visit(&node.redirector, code).await;
            let number = match answer.followed {
                Some(_) if self.options.journal_late => None,
                Some(link) => Some(self.journal(at, code, link).await),
                None => None,
            };
            // The answer is on its way.
            sleep(self.dice.ms(3)).await;
            (answer, number)
        });
        let (answer, number) = visit.await?;
        if let Some(number) = number {
            self.ledger.lock().unwrap().answered(number);
        } else if let Some(link) = answer.followed {
            self.journal_after_the_answer(at, code, link).await;
        }
        let checked = self.ledger.lock().unwrap().check();
        self.must(checked, || format!("a visit of {code} on {at}"));
        Some((answer.status, answer.location))
    }

    /// Writes the record of a visit. Returns its number.
    async fn journal(&self, at: usize, code: &str, (owner, created_ms): (u64, i64)) -> usize {
        let machine = &self.machines[at];
        if !machine.disk.is_dead()
            && let Some(counting) = machine.counting.borrow_mut().as_mut()
            && let Some(journal) = &mut counting.journal
        {
            let mut ledger = self.ledger.lock().unwrap();
            let number = ledger.next();
            let record = JournalRecord {
                at_ms: machine.clock.now().as_ms(),
                took_nanos: number as u64 * 1000,
                outcome: Answered::Redirected,
                // Otherwise each process would compile the lists of user agents.
                marks: RequestFlags::DO_NOT_TRACK,
                weight: 1,
                owner,
                created_ms,
                code: code.as_bytes(),
                ..JournalRecord::default()
            };
            let position = journal.write(&record).expect("a new segment has room");
            let code = code.to_owned();
            let (answered, lost, counted) = (false, false, 0);
            let node = at;
            ledger.add(JournaledClick {
                node,
                code,
                created_ms,
                position,
                answered,
                lost,
                counted,
            });
            return number;
        }
        // The process has ended: the visitor gets no answer.
        std::future::pending().await
    }

    /// What a server would do that answers first. Only to see that the model finds it.
    async fn journal_after_the_answer(&self, at: usize, code: &str, link: (u64, i64)) {
        let position = crate::journal::JournalPosition { segment: String::new(), from: 0, to: 0 };
        let (node, created_ms) = (at, link.1);
        let late = self.on(at, |_| async {
            sleep(Duration::from_millis(20)).await;
            self.journal(at, code, link).await
        });
        match late.await {
            Some(number) => self.ledger.lock().unwrap().answered(number),
            None => {
                let code = code.to_owned();
                let (answered, lost, counted) = (true, false, 0);
                let click =
                    JournaledClick { node, code, created_ms, position, answered, lost, counted };
                self.ledger.lock().unwrap().add(click);
            }
        }
    }

    /// Slows the click store down, cuts nodes off from it, and makes their disks fail.
    pub(crate) async fn click_weather(self: Rc<Self>) {
        if self.dice.percent(20) {
            return;
        }
        while !self.is_over() {
            sleep(Duration::from_millis(500) + self.dice.ms(5_000)).await;
            let at = self.dice.below(NODES as u64) as usize;
            let machine = &self.machines[at];
            let weather = [Weather::Slow, Weather::Flaky, Weather::Down, Weather::Fine];
            let weather = weather[self.dice.below(4) as usize];
            let ill = weather == Weather::Fine || self.dice.percent(20);
            self.say(|| format!("clicks of {at}: {weather:?}, disk ill: {ill}"));
            machine.click_store.set(weather);
            machine.disk.set_ill(ill);
            sleep(Duration::from_millis(50) + self.dice.ms(4000)).await;
            machine.click_store.set(Weather::Fine);
            machine.disk.set_ill(false);
        }
    }

    /// The kernels write to the disks when they like.
    pub(crate) async fn write_back(self: Rc<Self>) {
        while !self.is_over() {
            sleep(Duration::from_millis(100) + self.dice.ms(2_500)).await;
            self.machines[self.dice.below(NODES as u64) as usize].disk.write_back();
        }
    }

    /// Kills a process between two of its file operations.
    pub(crate) async fn crash_between_file_operations(&self, at: usize) {
        self.machines[at].disk.die_after(self.dice.below(30));
        sleep(self.dice.ms(600)).await;
        self.crash(at);
    }

    /// The power of a node that has crashed fails.
    pub(crate) fn cut_power(&self, at: usize) {
        let lost = self.ledger.lock().unwrap().cut_power(at, &self.machines[at].disk);
        self.say(|| format!("the power of {at} fails: {lost} records are lost"));
        self.count(|outcome| {
            outcome.power_cuts += 1;
            outcome.lost_records += lost;
        });
    }

    /// Ends a node as SIGTERM does: no more visits, then the rest is counted.
    pub(crate) async fn stop(&self, at: usize) {
        self.say(|| format!("node {at} stops"));
        let machine = &self.machines[at];
        let node = machine.node.borrow_mut().take();
        let ended = machine.counting.borrow_mut().as_mut().map(|counting| {
            // Visits that are not over yet find no journal and get no answer.
            counting.journal.take().iter_mut().for_each(SimJournal::finish);
            counting.shipper.stop();
            Rc::clone(&counting.ended)
        });
        for _ in 0..80 {
            if ended.as_ref().is_none_or(|ended| ended.get().is_some()) {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        if ended.is_some_and(|ended| ended.get() == Some(true)) {
            let checked = self.ledger.lock().unwrap().check_counted(&[at]);
            self.must(checked, || format!("{at} says that it has counted everything"));
            self.count(|outcome| outcome.complete_stops += 1);
        }
        machine.counting.take();
        drop(node);
    }

    /// Heals click stores and disks.
    pub(crate) fn heal_clicks(&self) {
        for machine in &self.machines {
            machine.click_store.set(Weather::Fine);
            machine.disk.set_ill(false);
        }
    }

    /// Starts the nodes again that count no more, as their log asks for: a call of an earlier
    /// process was late and took the journal over. Returns whether there were any.
    async fn restart_fenced(self: &Rc<Self>) -> bool {
        let mut any = false;
        for at in 0..NODES {
            let has_ended = |one: &ClickCounter| one.ended.get().is_some();
            if self.machines[at].counting.borrow().as_ref().is_none_or(has_ended) {
                any = true;
                self.say(|| format!("node {at} counts no more"));
                self.count(|outcome| outcome.fenced += 1);
                self.crash(at);
                self.start_again(at).await;
            }
        }
        any
    }

    /// Waits until everything is counted, and checks it.
    pub(crate) async fn wait_until_counted(self: &Rc<Self>) {
        // Longer than it takes to retry, to flush and to forget positions.
        sleep(Duration::from_secs(10)).await;
        if self.restart_fenced().await {
            sleep(Duration::from_secs(10)).await;
        }
        let nodes: Vec<usize> = (0..NODES).collect();
        let checked = self.ledger.lock().unwrap().check_counted(&nodes);
        self.must(checked, || "in the end".into());
        let ledger = std::mem::take(&mut *self.ledger.lock().unwrap());
        let checked = ledger.check_sums(&self.clicks).await;
        self.must(checked, || "in the end".into());
        self.count(|outcome| outcome.counted += ledger.counted());
    }
}
