//! Clicks as they are counted: for those who watch a link, and for who is busiest right now.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::click::{Click, ClickTarget, LinkId};
use super::tally::Count;
use crate::link::OwnerId;
use crate::time::Timestamp;

/// Clicks that a watcher has not taken yet. One who is slower misses some rather than holding
/// anybody up.
const WAITING: usize = 256;
/// How many can watch at once.
const WATCHERS: usize = 1000;
/// How many minutes are looked back on, and how many links of each are remembered.
const MINUTES: usize = 60;
const LINKS: usize = 1000;
/// Clicks made known in one go.
const PORTION: usize = 1000;

/// One who watches a link.
pub type Watch = Receiver<Arc<Click>>;

/// A link and how busy it has been.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Busy {
    /// The link.
    pub link: LinkId,
    /// Its clicks in the stretch that was asked for.
    pub clicks: Count,
    /// The latest of them.
    pub last: Timestamp,
}

/// Where counted clicks are made known.
#[derive(Debug, Default)]
pub struct Live(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    watchers: HashMap<LinkId, Vec<Sender<Arc<Click>>>>,
    watching: usize,
    minutes: VecDeque<Minute>,
}

#[derive(Debug)]
struct Minute {
    number: i64,
    links: HashMap<LinkId, (OwnerId, Count, Timestamp)>,
}

impl Live {
    /// Makes clicks known that have been counted.
    pub fn publish(&self, clicks: &[Click], now: Timestamp) {
        // In portions: others wait for the lock.
        for some in clicks.chunks(PORTION) {
            let mut inside = self.inside();
            inside.forget(minute_of(now));
            for click in some {
                let ClickTarget::Link(link, owner) = &click.place else { continue };
                inside.note(click, link, *owner, minute_of(now));
                if inside.watching > 0 {
                    inside.tell(click, link);
                }
            }
        }
    }

    /// Watches a link from now on; `None` if too many are watching.
    pub fn watch(&self, link: LinkId) -> Option<Watch> {
        let mut inside = self.inside();
        inside.sweep();
        if inside.watching >= WATCHERS {
            return None;
        }
        let (sender, watch) = channel(WAITING);
        inside.watchers.entry(link).or_default().push(sender);
        inside.watching += 1;
        Some(watch)
    }

    /// The busiest links of an owner, or of all, in the last `minutes` (at most 60), the present
    /// one included.
    pub fn busiest(
        &self,
        owner: Option<OwnerId>,
        minutes: i64,
        now: Timestamp,
        limit: usize,
    ) -> Vec<Busy> {
        let first = minute_of(now) - minutes.clamp(1, MINUTES as i64) + 1;
        let mut sums: HashMap<&LinkId, (Count, Timestamp)> = HashMap::new();
        let inside = self.inside();
        for minute in inside.minutes.iter().filter(|minute| minute.number >= first) {
            for (link, (whose, clicks, last)) in &minute.links {
                if owner.is_none_or(|owner| owner == *whose) {
                    let sum = sums.entry(link).or_insert((Count::default(), *last));
                    sum.0.add(*clicks);
                    sum.1 = sum.1.max(*last);
                }
            }
        }
        let mut busy: Vec<Busy> = sums
            .into_iter()
            .map(|(link, (clicks, last))| Busy { link: link.clone(), clicks, last })
            .collect();
        busy.sort_by(|a, b| b.clicks.all().cmp(&a.clicks.all()).then_with(|| a.link.cmp(&b.link)));
        busy.truncate(limit);
        busy
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn tell(&mut self, click: &Click, link: &LinkId) {
        let Some(watchers) = self.watchers.get_mut(link) else { return };
        let click = Arc::new(click.clone());
        let before = watchers.len();
        watchers.retain(|watcher| {
            !matches!(watcher.try_send(Arc::clone(&click)), Err(TrySendError::Closed(_)))
        });
        self.watching -= before - watchers.len();
        if watchers.is_empty() {
            self.watchers.remove(link);
        }
    }

    /// Forgets those who have left.
    fn sweep(&mut self) {
        self.watchers.retain(|_, watchers| {
            watchers.retain(|watcher| !watcher.is_closed());
            !watchers.is_empty()
        });
        self.watching = self.watchers.values().map(Vec::len).sum();
    }

    /// Forgets what is long ago, and what a clock that was ahead has left.
    fn forget(&mut self, present: i64) {
        self.minutes.retain(|minute| is_recent(minute.number, present));
    }

    fn note(&mut self, click: &Click, link: &LinkId, owner: OwnerId, present: i64) {
        let number = minute_of(click.at);
        // Clicks that were counted late are not what is going on now.
        if !is_recent(number, present) {
            return;
        }
        let place = match self.minutes.iter().rposition(|minute| minute.number <= number) {
            Some(at) if self.minutes[at].number == number => at,
            before => {
                let at = before.map_or(0, |before| before + 1);
                self.minutes.insert(at, Minute { number, links: HashMap::new() });
                at
            }
        };
        let links = &mut self.minutes[place].links;
        if let Some((_, clicks, last)) = links.get_mut(link) {
            clicks.add(count_of(click));
            *last = (*last).max(click.at);
        } else if links.len() < LINKS {
            links.insert(link.clone(), (owner, count_of(click), click.at));
        }
    }
}

fn is_recent(minute: i64, present: i64) -> bool {
    (present - MINUTES as i64 + 1..=present + 1).contains(&minute)
}

fn count_of(click: &Click) -> Count {
    match click.machine {
        None => Count { humans: 1, bots: 0 },
        Some(_) => Count { humans: 0, bots: 1 },
    }
}

fn minute_of(at: Timestamp) -> i64 {
    at.as_ms().div_euclid(60_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Domain, LinkKey};

    fn link(code: &str) -> LinkId {
        LinkId {
            key: LinkKey { domain: Domain::primary(), code: Code::parse(code).unwrap() },
            born: Timestamp::from_ms(1),
        }
    }

    fn click(code: &str, minute: i64) -> Click {
        Click::bare(
            Timestamp::from_ms(minute * 60_000 + 5),
            ClickTarget::Link(link(code), OwnerId(code.len() as u64)),
        )
    }

    #[tokio::test]
    async fn a_watcher_hears_of_its_link_alone_and_holds_nobody_up() {
        let live = Live::default();
        let mut watch = live.watch(link("abc")).unwrap();
        let now = Timestamp::from_ms(60_000);
        live.publish(&[click("other", 1), click("abc", 1)], now);
        assert_eq!(watch.recv().await.unwrap().link(), Some(&link("abc")));
        live.publish(&vec![click("abc", 1); WAITING + 50], now);
        assert_eq!(watch.len(), WAITING);
        drop(watch);
        live.publish(&[click("abc", 1)], now);
        assert_eq!(live.inside().watching, 0);
        let all: Vec<_> = (0..WATCHERS).map(|_| live.watch(link("abc")).unwrap()).collect();
        assert!(live.watch(link("abc")).is_none());
        drop(all);
        assert!(live.watch(link("abc")).is_some());
    }

    #[test]
    fn the_busiest_are_those_of_the_last_minutes() {
        let live = Live::default();
        let now = Timestamp::from_ms(102 * 60_000 + 59_000);
        live.publish(
            &[
                click("aaa", 100),
                click("bbbb", 100),
                click("aaa", 100),
                click("bbbb", 102),
                click("bbbb", 101),
            ],
            now,
        );
        live.publish(&[click("aaa", 102), click("late", 1), click("early", 5000)], now);
        let codes = |owner, minutes| -> Vec<(String, u64)> {
            let busy = live.busiest(owner, minutes, now, 10);
            busy.into_iter()
                .map(|busy| (busy.link.key.code.to_string(), busy.clicks.all()))
                .collect()
        };
        assert_eq!(codes(None, 1), [("aaa".to_owned(), 1), ("bbbb".to_owned(), 1)]);
        assert_eq!(codes(None, 3), [("aaa".to_owned(), 3), ("bbbb".to_owned(), 3)]);
        assert_eq!(codes(Some(OwnerId(4)), 60), [("bbbb".to_owned(), 3)]);
        assert_eq!(live.busiest(None, 60, now, 1).len(), 1);
        // A clock that was far ahead for a while blinds nobody once it is right again.
        let ahead = Timestamp::from_ms(1000 * 60_000);
        live.publish(&[click("aaa", 1000)], ahead);
        assert_eq!(live.inside().minutes.len(), 1);
        assert_eq!(live.busiest(None, 60, ahead, 9).len(), 1);
        live.publish(&[click("bbbb", 102)], now);
        assert_eq!(codes(None, 60), [("bbbb".to_owned(), 1)]);
    }
}
