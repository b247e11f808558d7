//! Checks whether targets still answer: one target at a time, each host at most once a minute.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{
    BoxError, Clock, Cursor, Link, LinkError, LinkKey, Links, ListQuery, Sort, Status, Target,
    Timestamp, UNREACHABLE,
};
use terse_outgoing::{Limits, Outgoing, OutgoingError};
use terse_worker::{Context, Job, Next};

use super::OutgoingCounts;

/// The time between two checks.
const PACE: Duration = Duration::from_secs(1);
/// The shortest time between two requests to the same host.
const SAME_HOST: Duration = Duration::from_secs(60);
/// The shortest time between two checks of the same link, so that failures count on different days.
const SAME_LINK: Duration = Duration::from_secs(24 * 3600);
/// The number of failures in a row after which the checker flags a link.
const FAILURES: u32 = 3;
/// The links per page of the walk, and the largest number of waiting links of one host.
const PAGE: usize = 200;
const OF_ONE_HOST: usize = 5;
/// The largest number of links with counted failures. A restart resets the counts.
const MAX_FAILING: usize = 100_000;
/// The largest number of hosts whose last request is remembered.
const MAX_HOSTS: usize = 10_000;

/// The job: requests targets and flags links whose target does not answer.
pub(super) struct LinkChecker {
    links: Arc<Links>,
    client: Arc<Outgoing>,
    clock: Clock,
    counts: Arc<OutgoingCounts>,
    round: Round,
    failing: HashMap<LinkKey, Failing>,
    asked: HashMap<String, Timestamp>,
}

/// The progress of a walk through all links.
#[derive(Default)]
struct Round {
    begun: Option<Timestamp>,
    after: Option<Cursor>,
    ended: bool,
    waiting: VecDeque<Candidate>,
}

#[derive(Clone)]
struct Candidate {
    key: LinkKey,
    target: Target,
    host: String,
    marked: bool,
}

struct Failing {
    candidate: Candidate,
    failures: u32,
    last: Timestamp,
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

    async fn run(&mut self, context: &Context) -> Result<Next, BoxError> {
        self.check_next(context).await?;
        Ok(Next::Interval)
    }
}

impl LinkChecker {
    pub(super) fn new(
        links: Arc<Links>,
        client: Arc<Outgoing>,
        clock: Clock,
        counts: Arc<OutgoingCounts>,
    ) -> Self {
        let (round, failing, asked) = (Round::default(), HashMap::new(), HashMap::new());
        Self { links, client, clock, counts, round, failing, asked }
    }

    /// Checks one target, if one is due.
    async fn check_next(&mut self, context: &Context) -> Result<(), BoxError> {
        let now = self.clock.now();
        let Some(candidate) = self.next(now).await? else { return Ok(()) };
        if self.asked.len() >= MAX_HOSTS {
            self.asked.retain(|_, at| now.saturating_sub(SAME_HOST) < *at);
        }
        self.asked.insert(candidate.host.clone(), now);
        let answers = match self.client.get(candidate.target.as_str(), Limits::REACHABILITY).await {
            // Other errors show that the page exists, even if it refuses this client.
            Ok(fetched) => !matches!(fetched.status, 404 | 410 | 500..),
            Err(OutgoingError::Busy) => return Ok(()),
            Err(_) => false,
        };
        let counter = if answers { &self.counts.reached } else { &self.counts.unreached };
        counter.fetch_add(1, Ordering::Relaxed);
        context.check_lease().await?;
        Ok(self.screen(candidate, answers, now).await?)
    }

    async fn screen(
        &mut self,
        candidate: Candidate,
        answers: bool,
        now: Timestamp,
    ) -> Result<(), LinkError> {
        if answers {
            self.failing.remove(&candidate.key);
            if candidate.marked {
                self.links.mark_reach(&candidate.key, &candidate.target, true).await?;
            }
            return Ok(());
        }
        if self.failing.len() >= MAX_FAILING && !self.failing.contains_key(&candidate.key) {
            return Ok(());
        }
        let new = Failing { candidate: candidate.clone(), failures: 0, last: now };
        let failing = self.failing.entry(candidate.key.clone()).or_insert(new);
        // The owner has changed the target: start counting again.
        if failing.candidate.target != candidate.target {
            *failing = Failing { candidate: candidate.clone(), failures: 0, last: now };
        }
        failing.failures += 1;
        failing.last = now;
        if failing.failures >= FAILURES {
            self.failing.remove(&candidate.key);
            if !candidate.marked {
                self.links.mark_reach(&candidate.key, &candidate.target, false).await?;
            }
        }
        Ok(())
    }

    /// The next target to check: first links that failed a day ago, then the next link of the walk
    /// whose host may be requested.
    async fn next(&mut self, now: Timestamp) -> Result<Option<Candidate>, LinkError> {
        let day_ago = now.saturating_sub(SAME_LINK);
        let free =
            |host: &str| self.asked.get(host).is_none_or(|at| *at <= now.saturating_sub(SAME_HOST));
        let again =
            self.failing.values().find(|one| one.last <= day_ago && free(&one.candidate.host));
        if let Some(again) = again.map(|one| one.candidate.clone()) {
            return Ok(Some(again));
        }
        if let Some(at) = self.round.waiting.iter().position(|one| free(&one.host)) {
            return Ok(self.round.waiting.remove(at));
        }
        if self.round.waiting.len() < PAGE {
            self.read_on(now, day_ago).await?;
        }
        Ok(None)
    }

    async fn read_on(&mut self, now: Timestamp, day_ago: Timestamp) -> Result<(), LinkError> {
        if self.round.ended {
            if self.round.begun.is_some_and(|begun| begun > day_ago) {
                return Ok(());
            }
            self.round =
                Round { waiting: std::mem::take(&mut self.round.waiting), ..Round::default() };
        }
        self.round.begun.get_or_insert(now);
        let query = ListQuery {
            owner: None,
            domain: None,
            tag: None,
            text: None,
            status: Some(Status::Active),
            archived: None,
            sort: Sort::Newest,
            after: self.round.after.clone(),
            limit: PAGE,
            now,
        };
        let page = self.links.list_all(query).await?.page;
        for link in &page.links {
            let Some(candidate) = candidate(link) else { continue };
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

fn candidate(link: &Link) -> Option<Candidate> {
    let marked = link.flags.iter().any(|flag| flag == UNREACHABLE);
    Some(Candidate {
        key: link.key.clone(),
        target: link.target.clone(),
        host: link.target.host()?,
        marked,
    })
}
