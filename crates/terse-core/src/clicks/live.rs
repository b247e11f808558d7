//! Live clicks: for watchers of a link, and for the list of busiest links.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::click::{Click, ClickTarget, LinkId};
use super::columns::{ClickColumns, ClickRow, WarningVisit};
use super::tally::Count;
use crate::link::{LinkKey, OwnerId};
use crate::time::Timestamp;

/// The queue length of a watcher. A slow watcher misses clicks instead of delaying the shipper.
const WAITING: usize = 256;
/// The largest number of watchers at a time.
const WATCHERS: usize = 1000;
/// How many past minutes are kept, and how many links of each: those with the most clicks. The
/// current minute may hold twice as many.
const MINUTES: usize = 60;
const LINKS: usize = 1000;
/// How many clicks are published per hold of the lock.
const CHUNK: usize = 1000;
/// The largest number of clicks that are remembered as shown. Further ones may be shown twice, if
/// other nodes share the store.
const MAX_SHOWN: usize = 100_000;

/// The clicks of a watched link.
pub type LiveSubscription = Receiver<Arc<Click>>;

/// A link and its recent clicks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BusyLink {
    /// The link.
    pub link: LinkId,
    /// Its clicks in the requested minutes.
    pub clicks: Count,
    /// The latest of them.
    pub last: Timestamp,
}

/// Publishes clicks within this process as soon as they are read from the journal.
#[derive(Debug, Default)]
pub struct LiveFeed(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    watchers: HashMap<LinkId, Vec<Sender<Arc<Click>>>>,
    watching: usize,
    minutes: VecDeque<Minute>,
    /// Clicks that watchers have been shown: how many alike, and when they were made. `None` if no
    /// other node counts clicks in the same store, so that every click is published once.
    shown: Option<HashMap<u64, (u32, Timestamp)>>,
}

#[derive(Debug)]
struct Minute {
    number: i64,
    links: HashMap<LinkId, (OwnerId, Count, Timestamp)>,
}

impl LiveFeed {
    /// Publishes clicks.
    pub fn publish(&self, clicks: &ClickColumns, now: Timestamp) {
        self.publish_from(clicks, 0, now);
    }

    /// Publishes the clicks from this one on.
    pub fn publish_from(&self, clicks: &ClickColumns, first: usize, now: Timestamp) {
        let mut recent: HashMap<(u32, i64), (Count, Timestamp), RandomState> = HashMap::default();
        let is_click = |row: &ClickRow| row.warning != WarningVisit::Shown;
        for row in (first..clicks.len()).map(|at| clicks.row(at)).filter(is_click) {
            let (sum, last) = recent
                .entry((row.target, minute_of(Timestamp::from_ms(row.at_ms))))
                .or_insert((Count::default(), Timestamp::from_ms(row.at_ms)));
            sum.add(match row.kind.bot() {
                None => Count { humans: 1, bots: 0 },
                Some(_) => Count { humans: 0, bots: 1 },
            });
            *last = (*last).max(Timestamp::from_ms(row.at_ms));
        }
        let recent: Vec<_> = recent.into_iter().collect();
        // In chunks: watchers and requests wait for the lock.
        for some in recent.chunks(CHUNK) {
            let mut state = self.state();
            state.forget(minute_of(now));
            for ((target, minute), (count, last)) in some {
                if let ClickTarget::Link(link, owner) = &clicks.targets[*target as usize] {
                    state.note(*minute, link, *owner, *count, *last, minute_of(now));
                }
            }
        }
        if self.state().watching == 0 {
            return;
        }
        for from in (first..clicks.len()).step_by(CHUNK) {
            let mut state = self.state();
            for at in from..clicks.len().min(from + CHUNK) {
                let row = clicks.row(at);
                if let ClickTarget::Link(link, _) = &clicks.targets[row.target as usize]
                    && is_click(&row)
                {
                    state.send(link, || clicks.click(&row), true);
                }
            }
        }
    }

    /// From now on [`LiveFeed::publish_stored`] may be called: clicks that are published are
    /// remembered.
    pub(super) fn remember(&self) {
        self.state().shown.get_or_insert_default();
    }

    /// The links that are watched.
    pub(super) fn watched(&self) -> Vec<LinkId> {
        let mut state = self.state();
        state.sweep();
        state.watchers.keys().cloned().collect()
    }

    /// Shows the stored clicks of a link that were not shown before, whichever node has counted
    /// them. `clicks` are all that are stored from some time on.
    pub(super) fn publish_stored(&self, link: &LinkId, clicks: &[Click]) {
        let mut alike: HashMap<u64, u32> = HashMap::new();
        let mut state = self.state();
        for click in clicks.iter().filter(|click| click.warning != WarningVisit::Shown) {
            let print = fingerprint(link, click);
            let count = alike.entry(print).or_default();
            *count += 1;
            let Some(shown) = &mut state.shown else { return };
            let before = shown.get(&print).map_or(0, |(count, _)| *count);
            if *count > before {
                // Remembered even above the bound, which the caller's limits keep near: these
                // clicks come again with the next call.
                shown.insert(print, (*count, click.at));
                state.send(link, || click.clone(), false);
            }
        }
    }

    /// Forgets that clicks before this time were shown.
    pub(super) fn forget_shown(&self, before: Timestamp) {
        if let Some(shown) = &mut self.state().shown {
            shown.retain(|_, (_, at)| *at >= before);
        }
    }

    /// Watches a link from now on; `None` if too many are watching.
    pub fn watch(&self, link: LinkId) -> Option<LiveSubscription> {
        let mut state = self.state();
        state.sweep();
        if state.watching >= WATCHERS {
            return None;
        }
        let (sender, watch) = channel(WAITING);
        state.watchers.entry(link).or_default().push(sender);
        state.watching += 1;
        Some(watch)
    }

    /// The busiest links of an owner, or of all, in the last `minutes` (at most 60), including the
    /// current one.
    pub fn busiest(
        &self,
        owner: Option<OwnerId>,
        minutes: i64,
        now: Timestamp,
        limit: usize,
    ) -> Vec<BusyLink> {
        let first = minute_of(now) - minutes.clamp(1, MINUTES as i64) + 1;
        let mut sums: HashMap<&LinkId, (Count, Timestamp)> = HashMap::new();
        let state = self.state();
        for minute in state.minutes.iter().filter(|minute| minute.number >= first) {
            for (link, (whose, clicks, last)) in &minute.links {
                if owner.is_none_or(|owner| owner == *whose) {
                    let sum = sums.entry(link).or_insert((Count::default(), *last));
                    sum.0.add(*clicks);
                    sum.1 = sum.1.max(*last);
                }
            }
        }
        let mut busy: Vec<BusyLink> = sums
            .into_iter()
            .map(|(link, (clicks, last))| BusyLink { link: link.clone(), clicks, last })
            .collect();
        busy.sort_by(|a, b| b.clicks.all().cmp(&a.clicks.all()).then_with(|| a.link.cmp(&b.link)));
        busy.truncate(limit);
        busy
    }

    /// Forgets clicks of the links with these keys that were created by `created_by`.
    pub fn erase_links(&self, links: &[LinkKey], created_by: Timestamp) {
        let links: HashSet<&LinkKey> = links.iter().collect();
        let erased = |link: &LinkId| link.created_at <= created_by && links.contains(&link.key);
        for minute in &mut self.state().minutes {
            minute.links.retain(|link, _| !erased(link));
        }
    }

    /// Forgets clicks of an owner's links.
    pub fn erase_owner(&self, owner: OwnerId) {
        for minute in &mut self.state().minutes {
            minute.links.retain(|_, (of, ..)| *of != owner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn send(&mut self, link: &LinkId, click: impl FnOnce() -> Click, is_new: bool) {
        let Some(watchers) = self.watchers.get_mut(link) else { return };
        let click = Arc::new(click());
        if let Some(shown) = self.shown.as_mut().filter(|_| is_new) {
            let print = fingerprint(link, &click);
            if shown.len() < MAX_SHOWN || shown.contains_key(&print) {
                shown.entry(print).or_insert((0, click.at)).0 += 1;
            }
        }
        let before = watchers.len();
        watchers.retain(|watcher| {
            !matches!(watcher.try_send(Arc::clone(&click)), Err(TrySendError::Closed(_)))
        });
        self.watching -= before - watchers.len();
        if watchers.is_empty() {
            self.watchers.remove(link);
        }
    }

    /// Removes watchers that have disconnected.
    fn sweep(&mut self) {
        self.watchers.retain(|_, watchers| {
            watchers.retain(|watcher| !watcher.is_closed());
            !watchers.is_empty()
        });
        self.watching = self.watchers.values().map(Vec::len).sum();
    }

    /// Drops old minutes, and minutes in the future that a wrong clock created.
    fn forget(&mut self, current: i64) {
        self.minutes.retain(|minute| is_recent(minute.number, current));
    }

    fn note(
        &mut self,
        number: i64,
        link: &LinkId,
        owner: OwnerId,
        count: Count,
        at: Timestamp,
        current: i64,
    ) {
        // Clicks that were counted late are not recent.
        if !is_recent(number, current) {
            return;
        }
        let place = match self.minutes.iter().rposition(|minute| minute.number <= number) {
            Some(at) if self.minutes[at].number == number => at,
            before => {
                if let Some(last) = self.minutes.back_mut() {
                    last.keep_busiest();
                }
                let at = before.map_or(0, |before| before + 1);
                self.minutes.insert(at, Minute { number, links: HashMap::new() });
                at
            }
        };
        let minute = &mut self.minutes[place];
        if let Some((_, clicks, last)) = minute.links.get_mut(link) {
            clicks.add(count);
            *last = (*last).max(at);
            return;
        }
        // Not one by one, so that finding the quietest costs little.
        if minute.links.len() >= 2 * LINKS {
            minute.keep_busiest();
        }
        minute.links.insert(link.clone(), (owner, count, at));
    }
}

impl Minute {
    /// Forgets the links with the fewest clicks, where there are more than [`LINKS`].
    fn keep_busiest(&mut self) {
        if self.links.len() <= LINKS {
            return;
        }
        let mut links: Vec<_> = self.links.drain().collect();
        links.select_nth_unstable_by_key(LINKS, |(_, (_, clicks, _))| Reverse(clicks.all()));
        links.truncate(LINKS);
        self.links = links.into_iter().collect();
    }
}

/// A hash of what a store keeps of a click: two clicks of a link with the same hash look the same.
fn fingerprint(link: &LinkId, click: &Click) -> u64 {
    let mut hasher = DefaultHasher::new();
    let place = (click.referrer.as_deref(), click.country.as_deref(), click.city.as_deref());
    (link, click.at, click.took_nanos, click.visitor, click.kind().octet()).hash(&mut hasher);
    (place, click.utm.each_ref().map(|value| value.as_deref())).hash(&mut hasher);
    hasher.finish()
}

fn is_recent(minute: i64, current: i64) -> bool {
    (current - MINUTES as i64 + 1..=current + 1).contains(&minute)
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
            created_at: Timestamp::from_ms(1),
        }
    }

    fn click(code: &str, minute: i64) -> Click {
        Click::bare(
            Timestamp::from_ms(minute * 60_000 + 5),
            ClickTarget::Link(link(code), OwnerId(code.len() as u64)),
        )
    }

    fn publish(live: &LiveFeed, clicks: &[Click], now: Timestamp) {
        live.publish(&crate::clicks::Batch::of(vec![], clicks.iter().cloned()).clicks, now);
    }

    #[tokio::test]
    async fn a_watcher_gets_the_clicks_of_its_link_and_delays_nothing() {
        let live = LiveFeed::default();
        let mut watch = live.watch(link("abc")).unwrap();
        let now = Timestamp::from_ms(60_000);
        publish(&live, &[click("other", 1), click("abc", 1)], now);
        assert_eq!(watch.recv().await.unwrap().link(), Some(&link("abc")));
        publish(&live, &vec![click("abc", 1); WAITING + 50], now);
        assert_eq!(watch.len(), WAITING);
        drop(watch);
        publish(&live, &[click("abc", 1)], now);
        assert_eq!(live.state().watching, 0);
        let all: Vec<_> = (0..WATCHERS).map(|_| live.watch(link("abc")).unwrap()).collect();
        assert!(live.watch(link("abc")).is_none());
        drop(all);
        assert!(live.watch(link("abc")).is_some());
    }

    #[tokio::test]
    async fn a_stored_click_is_shown_once_whichever_node_counted_it() {
        let live = LiveFeed::default();
        live.remember();
        let mut watch = live.watch(link("abc")).unwrap();
        let now = Timestamp::from_ms(60_000);
        let (own, other) = (click("abc", 1), Click { visitor: Some(7), ..click("abc", 1) });
        publish(&live, std::slice::from_ref(&own), now);
        // The store returns own clicks, too, and the same ones again and again.
        let stored = [own.clone(), other.clone()];
        live.publish_stored(&link("abc"), &stored);
        live.publish_stored(&link("abc"), &stored);
        // A second click that looks the same is shown too.
        let more = [own.clone(), other.clone(), other.clone()];
        live.publish_stored(&link("abc"), &more);
        live.publish_stored(&link("other"), &[click("other", 1)]);
        let mut seen = Vec::new();
        while let Ok(click) = watch.try_recv() {
            seen.push(Click::clone(&click));
        }
        assert_eq!(seen, [own, other.clone(), other]);
        assert_eq!(live.watched(), [link("abc")]);
        live.forget_shown(Timestamp::from_ms(61_000));
        assert!(live.state().shown.as_ref().unwrap().is_empty());
        drop(watch);
        assert!(live.watched().is_empty());
    }

    #[test]
    fn a_busy_link_is_found_among_very_many() {
        let live = LiveFeed::default();
        let now = Timestamp::from_ms(3 * 60_000);
        for minute in [1, 2, 3] {
            // The busy ones come last.
            let many = (0..5 * LINKS).map(|n| click(&format!("many-{n}"), minute));
            let busy = (0..30).map(|n| click(&format!("busy-{}", n % 10), minute));
            publish(&live, &many.chain(busy).collect::<Vec<_>>(), now);
        }
        let busiest = live.busiest(None, 60, now, 10);
        let is_busy = |busy: &BusyLink| busy.link.key.code.as_str().starts_with("busy-");
        assert!(busiest.iter().all(|busy| is_busy(busy) && busy.clicks.all() == 9), "{busiest:?}");
        let minutes = &live.state().minutes;
        assert!(minutes.iter().all(|minute| minute.links.len() <= 2 * LINKS));
        assert!(minutes.iter().take(2).all(|minute| minute.links.len() <= LINKS));
    }

    #[test]
    fn the_busiest_are_those_of_the_last_minutes() {
        let live = LiveFeed::default();
        let now = Timestamp::from_ms(102 * 60_000 + 59_000);
        publish(
            &live,
            &[
                click("aaa", 100),
                click("bbbb", 100),
                click("aaa", 100),
                click("bbbb", 102),
                click("bbbb", 101),
            ],
            now,
        );
        publish(&live, &[click("aaa", 102), click("late", 1), click("early", 5000)], now);
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
        live.erase_links(&[link("aaa").key], Timestamp::from_ms(0));
        assert_eq!(codes(None, 60).len(), 2, "only links that were created by then");
        live.erase_links(&[link("aaa").key], Timestamp::from_ms(1));
        assert_eq!(codes(None, 60), [("bbbb".to_owned(), 3)]);
        live.erase_owner(OwnerId(4));
        assert_eq!(codes(None, 60), []);
        // A clock that ran far ahead has no effect once it is correct again.
        let ahead = Timestamp::from_ms(1000 * 60_000);
        publish(&live, &[click("aaa", 1000)], ahead);
        assert_eq!(live.state().minutes.len(), 1);
        assert_eq!(live.busiest(None, 60, ahead, 9).len(), 1);
        publish(&live, &[click("bbbb", 102)], now);
        assert_eq!(codes(None, 60), [("bbbb".to_owned(), 1)]);
    }
}
