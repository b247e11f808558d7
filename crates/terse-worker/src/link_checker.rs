//! Checks whether targets still answer: all links about once a day, and new links soon after they
//! were created. Each host gets at most one request a minute.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{
    BoxError, Clock, Cursor, HttpClient, Link, LinkError, LinkKey, LinkStatus, Links, ListQuery,
    OutgoingError, RequestLimits, Sort, Target, Timestamp, UNREACHABLE,
};

use crate::outgoing_counts::OutgoingCounts;

/// The largest number of checks at once.
pub const MAX_CHECKS: usize = 2;

/// The time between two checks.
const PACE: Duration = Duration::from_secs(1);
/// The shortest time between two requests to the same host.
const SAME_HOST: Duration = Duration::from_secs(60);
/// The shortest time between two checks of the same link, so that failures count on different days.
const SAME_LINK: Duration = Duration::from_secs(24 * 3600);
/// The number of failures in a row after which the checker flags a link.
const FAILURES: u32 = 3;
/// The same for a new link, whose failures are a minute apart: most often its target is mistyped.
const FRESH_FAILURES: u32 = 2;
/// How often the checker looks for new links.
const FRESH_INTERVAL: Duration = Duration::from_secs(15);
/// How many new links one poll reads, and how many may wait. The daily walk checks the others.
const MAX_FRESH: usize = 200;
/// A link can become visible up to this much later than a link that was created after it.
const OVERLAP: Duration = Duration::from_secs(5);
/// The links per page of the walk, and the largest number of waiting links of one host.
const PAGE: usize = 200;
const OF_ONE_HOST: usize = 5;
/// The largest number of links with counted failures. A restart resets the counts.
const MAX_FAILING: usize = 100_000;
/// The largest number of hosts whose last request is remembered.
const MAX_HOSTS: usize = 10_000;

/// The job: requests targets and flags links whose target does not answer.
pub struct LinkChecker {
    links: Arc<Links>,
    client: Arc<dyn HttpClient>,
    clock: Clock,
    counts: Arc<OutgoingCounts>,
    round: CheckRound,
    fresh: NewLinkQueue,
    failing: HashMap<LinkKey, FailingLink>,
    /// When each host got its last request, by the steady clock, as all times but dates of links.
    asked: HashMap<String, Duration>,
}

/// The progress of a walk through all links.
#[derive(Default)]
struct CheckRound {
    begun: Option<Duration>,
    after: Option<Cursor>,
    ended: bool,
    waiting: VecDeque<Candidate>,
}

/// New links that wait for their first check. Read from the store, so that the create does not wait
/// and links from all nodes are found.
#[derive(Default)]
struct NewLinkQueue {
    looked: Option<Duration>,
    /// When the newest link that was found was created.
    newest: Option<Timestamp>,
    /// The links that were found near `newest`.
    known: HashSet<LinkKey>,
    waiting: VecDeque<QueuedLink>,
}

struct QueuedLink {
    candidate: Candidate,
    failures: u32,
    due: Duration,
}

#[derive(Clone)]
struct Candidate {
    key: LinkKey,
    target: Target,
    host: String,
    marked: bool,
}

struct FailingLink {
    candidate: Candidate,
    failures: u32,
    last: Duration,
}

#[async_trait]
impl Job for LinkChecker {
    fn name(&self) -> &'static str {
        "link checker"
    }

    fn interval(&self) -> Duration {
        PACE
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        self.check_fresh(context).await?;
        self.check_next(context).await?;
        Ok(NextRun::Interval)
    }
}

impl LinkChecker {
    /// Begins with links that are created from now on, and walks through all others.
    pub fn new(
        links: Arc<Links>,
        client: Arc<dyn HttpClient>,
        clock: Clock,
        counts: Arc<OutgoingCounts>,
    ) -> Self {
        let (round, failing, asked) = (CheckRound::default(), HashMap::new(), HashMap::new());
        let fresh = NewLinkQueue { newest: Some(clock.now()), ..NewLinkQueue::default() };
        Self { links, client, clock, counts, round, fresh, failing, asked }
    }

    /// Checks a few new links, as many at once as the client has room for.
    async fn check_fresh(&mut self, context: &JobContext) -> Result<(), BoxError> {
        let now = self.clock.steady();
        if self.fresh.looked.is_none_or(|at| now.saturating_sub(at) >= FRESH_INTERVAL) {
            self.fresh.looked = Some(now);
            self.find_fresh(now).await?;
        }
        let mut chosen = Vec::new();
        while chosen.len() < MAX_CHECKS {
            let free = |one: &QueuedLink| one.due <= now && self.is_free(&one.candidate.host, now);
            let Some(at) = self.fresh.waiting.iter().position(free) else { break };
            let Some(one) = self.fresh.waiting.remove(at) else { break };
            self.remember_host(&one.candidate.host, now);
            chosen.push(one);
        }
        let asked = chosen.iter().map(|one| self.ask(&one.candidate));
        let answers = futures_util::future::join_all(asked).await;
        for (one, answers) in chosen.into_iter().zip(answers) {
            let QueuedLink { candidate, failures, .. } = one;
            match answers {
                // The client has no room: the link keeps its place.
                None => self.fresh.waiting.push_front(QueuedLink { candidate, failures, due: now }),
                Some(true) => {}
                Some(false) if failures + 1 < FRESH_FAILURES => {
                    let due = now.saturating_add(SAME_HOST);
                    let failures = failures + 1;
                    self.fresh.waiting.push_back(QueuedLink { candidate, failures, due });
                }
                Some(false) => {
                    context.check_lease().await?;
                    self.links.set_unreachable(&candidate.key, &candidate.target, false).await?;
                }
            }
        }
        Ok(())
    }

    /// Reads the newest links and queues those that were not found before.
    async fn find_fresh(&mut self, now: Duration) -> Result<(), LinkError> {
        let date = self.clock.now();
        // A date in the future is that of a clock that was wrong.
        self.fresh.newest = self.fresh.newest.min(Some(date));
        let since = self.fresh.newest.map(|newest| newest.saturating_sub(OVERLAP));
        let links = self.links.list_for_job(active_links(None, MAX_FRESH, date)).await?.page.links;
        let newest = links.iter().map(|link| link.created_at).max();
        self.fresh.newest = newest.max(self.fresh.newest);
        let near = self.fresh.newest.map(|newest| newest.saturating_sub(OVERLAP));
        let (mut known, mut found) = (HashSet::new(), Vec::new());
        for link in links.iter().filter(|link| Some(link.created_at) > since) {
            if Some(link.created_at) > near {
                known.insert(link.key.clone());
            }
            if !self.fresh.known.contains(&link.key) {
                found.extend(candidate(link));
            }
        }
        self.fresh.known = known;
        // Oldest first: they have waited longest.
        for candidate in found.into_iter().rev() {
            let waiting = &mut self.fresh.waiting;
            let of_host = waiting.iter().filter(|one| one.candidate.host == candidate.host).count();
            if waiting.len() < MAX_FRESH && of_host < OF_ONE_HOST {
                waiting.push_back(QueuedLink { candidate, failures: 0, due: now });
            }
        }
        Ok(())
    }

    /// Requests a target: whether it answers, or `None` if the client has no room.
    async fn ask(&self, candidate: &Candidate) -> Option<bool> {
        let answers =
            match self.client.get(candidate.target.as_str(), RequestLimits::REACHABILITY).await {
                // Other errors show that the page exists, even if it refuses this client.
                Ok(fetched) => !matches!(fetched.status, 404 | 410 | 500..),
                Err(OutgoingError::Busy) => return None,
                Err(_) => false,
            };
        let counter = if answers { &self.counts.reached } else { &self.counts.unreached };
        counter.fetch_add(1, Ordering::Relaxed);
        Some(answers)
    }

    /// Whether the first check of a link is still to come.
    fn is_fresh(&self, link: &Link) -> bool {
        let near = self.fresh.newest.map(|newest| newest.saturating_sub(OVERLAP));
        let is_new = Some(link.created_at) > near && !self.fresh.known.contains(&link.key);
        is_new || self.fresh.waiting.iter().any(|one| one.candidate.key == link.key)
    }

    fn is_free(&self, host: &str, now: Duration) -> bool {
        self.asked.get(host).is_none_or(|at| now.saturating_sub(*at) >= SAME_HOST)
    }

    fn remember_host(&mut self, host: &str, now: Duration) {
        if self.asked.len() >= MAX_HOSTS {
            self.asked.retain(|_, at| now.saturating_sub(*at) < SAME_HOST);
        }
        self.asked.insert(host.to_owned(), now);
    }

    /// Checks one target, if one is due.
    async fn check_next(&mut self, context: &JobContext) -> Result<(), BoxError> {
        let now = self.clock.steady();
        let Some(candidate) = self.next(now).await? else { return Ok(()) };
        self.remember_host(&candidate.host, now);
        let Some(answers) = self.ask(&candidate).await else { return Ok(()) };
        context.check_lease().await?;
        Ok(self.screen(candidate, answers, now).await?)
    }

    async fn screen(
        &mut self,
        candidate: Candidate,
        answers: bool,
        now: Duration,
    ) -> Result<(), LinkError> {
        if answers {
            self.failing.remove(&candidate.key);
            if candidate.marked {
                self.links.set_unreachable(&candidate.key, &candidate.target, true).await?;
            }
            return Ok(());
        }
        if self.failing.len() >= MAX_FAILING && !self.failing.contains_key(&candidate.key) {
            return Ok(());
        }
        let new = FailingLink { candidate: candidate.clone(), failures: 0, last: now };
        let failing = self.failing.entry(candidate.key.clone()).or_insert(new);
        // The owner has changed the target: start counting again.
        if failing.candidate.target != candidate.target {
            *failing = FailingLink { candidate: candidate.clone(), failures: 0, last: now };
        }
        failing.failures += 1;
        failing.last = now;
        if failing.failures >= FAILURES {
            self.failing.remove(&candidate.key);
            if !candidate.marked {
                self.links.set_unreachable(&candidate.key, &candidate.target, false).await?;
            }
        }
        Ok(())
    }

    /// The next target to check: first links that failed a day ago, then the next link of the walk
    /// whose host may be requested.
    async fn next(&mut self, now: Duration) -> Result<Option<Candidate>, LinkError> {
        let is_due = |one: &FailingLink| now.saturating_sub(one.last) >= SAME_LINK;
        let again =
            self.failing.values().find(|one| is_due(one) && self.is_free(&one.candidate.host, now));
        if let Some(again) = again.map(|one| one.candidate.clone()) {
            return Ok(Some(again));
        }
        if let Some(at) = self.round.waiting.iter().position(|one| self.is_free(&one.host, now)) {
            return Ok(self.round.waiting.remove(at));
        }
        if self.round.waiting.len() < PAGE {
            self.read_on(now).await?;
        }
        Ok(None)
    }

    async fn read_on(&mut self, now: Duration) -> Result<(), LinkError> {
        if self.round.ended {
            if self.round.begun.is_some_and(|begun| now.saturating_sub(begun) < SAME_LINK) {
                return Ok(());
            }
            self.round = CheckRound {
                waiting: std::mem::take(&mut self.round.waiting),
                ..CheckRound::default()
            };
        }
        self.round.begun.get_or_insert(now);
        let query = active_links(self.round.after.clone(), PAGE, self.clock.now());
        let page = self.links.list_for_job(query).await?.page;
        for link in &page.links {
            let Some(candidate) = candidate(link).filter(|_| !self.is_fresh(link)) else {
                continue;
            };
            let of_host =
                self.round.waiting.iter().filter(|one| one.host == candidate.host).count();
            if of_host < OF_ONE_HOST && !self.failing.contains_key(&candidate.key) {
                self.round.waiting.push_back(candidate);
            }
        }
        self.round.ended = page.next.is_none();
        self.round.after = page.next;
        Ok(())
    }
}

/// The links that redirect now, newest first.
fn active_links(after: Option<Cursor>, limit: usize, now: Timestamp) -> ListQuery {
    ListQuery {
        owner: None,
        domain: None,
        tag: None,
        text: None,
        status: Some(LinkStatus::Active),
        archived: None,
        sort: Sort::Newest,
        after,
        limit,
        now,
    }
}

fn candidate(link: &Link) -> Option<Candidate> {
    let marked = link.flags.iter().any(|flag| flag == UNREACHABLE);
    Some(Candidate {
        key: link.key.clone(),
        target: link.target.clone(),
        host: link.target.host()?,
        marked,
    })
}
