//! The promises of a fleet, as predicates over a history.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::history::{Action, History, Operation, Outcome, VisitAnswer};

/// How long a change or a block may take to reach a node, and how long a node may answer 404 for a
/// new alias that a visitor asked for before it existed.
const FRESH_MS: u64 = 5_000;
/// How long after a fault errors are allowed.
const RECOVERY_MS: u64 = 10_000;

/// A promise of a fleet.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Predicate {
    /// A created link leads to its target, on every node.
    Durable,
    /// A code has one link.
    Unique,
    /// A create whose outcome is unknown is in the end there, or not, forever.
    UnknownSettles,
    /// A change or a block reaches every node in time, and no node goes back.
    Fresh,
    /// An answered visit is counted once.
    Clicks,
    /// A link with `max_clicks` redirects at most that many times.
    Limit,
    /// A node that has lost its lease does nothing more.
    Fence,
    /// One `Idempotency-Key`, one link.
    Idempotent,
    /// What was erased is never seen again.
    Erased,
    /// There are no errors without a fault, and remembered links are always answered.
    Available,
    /// Totals never decrease.
    Monotone,
}

/// A broken promise.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// Which.
    pub predicate: Predicate,
    /// What was seen.
    pub why: String,
}

/// All broken promises of a history, in the order of the promises.
pub fn check(history: &History) -> Vec<Violation> {
    let view = View::of(history);
    let mut broken = Vec::new();
    for (predicate, found) in [
        (Predicate::Durable, view.durable()),
        (Predicate::Unique, view.unique()),
        (Predicate::UnknownSettles, view.unknown_settles()),
        (Predicate::Fresh, view.fresh()),
        (Predicate::Clicks, view.clicks()),
        (Predicate::Limit, view.limit()),
        (Predicate::Fence, view.fence()),
        (Predicate::Idempotent, view.idempotent()),
        (Predicate::Erased, view.erased()),
        (Predicate::Available, view.available()),
        (Predicate::Monotone, view.monotone()),
    ] {
        broken.extend(found.into_iter().map(|why| Violation { predicate, why }));
    }
    broken
}

/// A visit.
#[derive(Clone, Copy)]
struct Visit<'a> {
    at: &'a Operation,
    mark: &'a str,
    answer: &'a VisitAnswer,
    remembered: bool,
}

impl<'a> Visit<'a> {
    fn target(self) -> Option<&'a str> {
        match self.answer {
            VisitAnswer::Redirect(target) => Some(target),
            _ => None,
        }
    }

    fn is_unanswered(self) -> bool {
        matches!(self.answer, VisitAnswer::Unavailable | VisitAnswer::Nothing)
    }
}

/// A create.
#[derive(Clone, Copy)]
struct Created<'a> {
    at: &'a Operation,
    target: &'a str,
    owner: &'a str,
    request: &'a str,
    max_clicks: Option<u64>,
    reused: bool,
}

/// What a history says about one link.
#[derive(Default)]
struct LinkHistory<'a> {
    creates: Vec<Created<'a>>,
    /// Updates, blocks and deletions, in the order of their calls.
    changes: Vec<&'a Operation>,
    visits: Vec<Visit<'a>>,
    totals: Vec<(&'a Operation, u64)>,
    /// The revision of each target.
    revisions: HashMap<&'a str, u64>,
}

impl LinkHistory<'_> {
    fn may_be_deleted(&self) -> bool {
        let is_deletion = |change: &&&Operation| {
            matches!(change.action, Action::Delete { .. }) && change.outcome != Outcome::Failed
        };
        self.changes.iter().any(|change| is_deletion(&change))
    }

    /// Whether the link is blocked after its last change, or may be, because a block or its end was
    /// not answered.
    fn may_be_blocked(&self) -> bool {
        let mut is_blocked = false;
        for change in &self.changes {
            match (&change.action, change.outcome) {
                (_, Outcome::Failed) => {}
                (Action::Block { .. } | Action::Unblock { .. }, Outcome::Unknown) => return true,
                (Action::Block { .. }, Outcome::Ok) => is_blocked = true,
                (Action::Unblock { .. }, Outcome::Ok) => is_blocked = false,
                _ => {}
            }
        }
        is_blocked
    }

    /// Whether a deletion, a block or an update was called before this time.
    fn is_changed_before(&self, time: u64) -> bool {
        self.changes.iter().any(|change| change.call < time)
    }
}

struct View<'a> {
    history: &'a History,
    links: BTreeMap<&'a str, LinkHistory<'a>>,
}

impl<'a> View<'a> {
    fn of(history: &'a History) -> Self {
        let mut links: BTreeMap<&str, LinkHistory<'_>> = BTreeMap::new();
        for at in &history.operations {
            let Some(key) = at.action.key().filter(|key| !key.is_empty()) else { continue };
            let link = links.entry(key).or_default();
            match &at.action {
                Action::Create { target, owner, request, max_clicks, reused, .. } => {
                    let (max_clicks, reused) = (*max_clicks, *reused);
                    link.creates.push(Created { at, target, owner, request, max_clicks, reused });
                    link.revisions.entry(target).or_insert(0);
                }
                Action::Update { target, revision, .. } => {
                    link.changes.push(at);
                    link.revisions.insert(target, *revision);
                }
                Action::Block { .. } | Action::Unblock { .. } | Action::Delete { .. } => {
                    link.changes.push(at);
                }
                Action::Read { mark, answer, remembered, .. } => {
                    link.visits.push(Visit { at, mark, answer, remembered: *remembered });
                }
                Action::Total { clicks, .. } => link.totals.extend(clicks.map(|n| (at, n))),
                Action::Show { .. } | Action::Erase { .. } => {}
            }
        }
        for link in links.values_mut() {
            link.changes.sort_by_key(|change| change.call);
            link.visits.sort_by_key(|visit| visit.at.call);
            link.totals.sort_by_key(|(at, _)| at.call);
        }
        Self { history, links }
    }

    fn is_healed(&self, at: &Operation) -> bool {
        self.history.healed_at.is_some_and(|healed| at.call >= healed)
    }

    fn durable(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (key, link) in &self.links {
            let made = link.creates.iter().filter(|made| made.at.outcome == Outcome::Ok);
            let Some(made) = made.min_by_key(|made| made.at.returned) else { continue };
            let asked_early = link.visits.iter().any(|visit| visit.at.call < made.at.returned);
            for visit in link.visits.iter().filter(|visit| visit.at.call > made.at.returned) {
                if link.is_changed_before(visit.at.returned) {
                    broken.extend(self.is_lost(key, link, made, visit));
                    continue;
                }
                let is_early = asked_early && visit.at.call < made.at.returned + FRESH_MS;
                let is_right = match visit.answer {
                    VisitAnswer::Redirect(target) => target == made.target,
                    VisitAnswer::Unavailable | VisitAnswer::Nothing => !self.is_healed(visit.at),
                    VisitAnswer::Missing => is_early,
                    VisitAnswer::Gone => made.max_clicks.is_some(),
                    VisitAnswer::Blocked | VisitAnswer::Status(_) => false,
                };
                if !is_right {
                    broken.push(format!(
                        "{key} was created at {} to lead to {}; at {} node {} answered {:?}",
                        made.at.returned, made.target, visit.at.call, visit.at.node, visit.answer
                    ));
                }
            }
        }
        broken
    }

    /// After healing, a link that was changed leads to its last target, on every node.
    fn is_lost(
        &self,
        key: &str,
        link: &LinkHistory<'_>,
        made: &Created<'_>,
        visit: &Visit<'_>,
    ) -> Option<String> {
        let at = visit.at;
        let is_arriving = |change: &&Operation| change.returned + FRESH_MS >= at.call;
        if !self.is_healed(at)
            || made.max_clicks.is_some()
            || link.may_be_deleted()
            || link.may_be_blocked()
            || link.changes.iter().any(is_arriving)
        {
            return None;
        }
        let updates = || {
            link.changes.iter().filter_map(|change| match &change.action {
                Action::Update { target, revision, .. } => {
                    Some((change.outcome, target.as_str(), *revision))
                }
                _ => None,
            })
        };
        let done = updates().filter(|(outcome, ..)| *outcome == Outcome::Ok);
        let (_, last, revision) =
            done.max_by_key(|(.., revision)| *revision).unwrap_or((Outcome::Ok, made.target, 0));
        let mut expected = vec![last];
        // A later one without an answer may have been done, or not.
        expected.extend(
            updates()
                .filter(|(outcome, _, later)| *outcome == Outcome::Unknown && *later > revision)
                .map(|(_, target, _)| target),
        );
        let is_right = visit.target().is_some_and(|target| expected.contains(&target));
        (!is_right).then(|| {
            format!(
                "{key} leads to {last} since revision {revision}; at {} node {} answered {:?}",
                at.call, at.node, visit.answer
            )
        })
    }

    fn unique(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (key, link) in &self.links {
            let made: Vec<_> =
                link.creates.iter().filter(|made| made.at.outcome == Outcome::Ok).collect();
            for (n, first) in made.iter().enumerate() {
                for second in &made[n + 1..] {
                    let is_reuse = (first.reused || second.reused) && first.owner == second.owner;
                    if first.request != second.request && !is_reuse {
                        broken.push(format!(
                            "{key} was created for {} (request {}) and for {} (request {})",
                            first.target, first.request, second.target, second.request
                        ));
                    }
                }
            }
        }
        broken
    }

    fn unknown_settles(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (key, link) in &self.links {
            for made in &link.creates {
                // Another create or update with the same target explains it too.
                let is_explained = |target: &str| {
                    let other = |other: &&Created<'_>| {
                        other.target == target && other.at.outcome != Outcome::Failed
                    };
                    let update = |change: &&&Operation| {
                        matches!(&change.action, Action::Update { target: new, .. }
                            if new == target)
                    };
                    link.creates.iter().any(|create| other(&create))
                        || link.changes.iter().any(|change| update(&change))
                };
                if made.at.outcome == Outcome::Failed
                    && !is_explained(made.target)
                    && let Some(seen) =
                        link.visits.iter().find(|visit| visit.target() == Some(made.target))
                {
                    broken.push(format!(
                        "the create of {key} at {} failed, and at {} it led to {}",
                        made.at.call, seen.at.call, made.target
                    ));
                }
            }
            let is_unknown = link.creates.iter().any(|made| made.at.outcome == Outcome::Unknown);
            let is_made = link.creates.iter().any(|made| made.at.outcome == Outcome::Ok);
            if !is_unknown || is_made || !link.changes.is_empty() {
                continue;
            }
            let healed = link.visits.iter().filter(|visit| self.is_healed(visit.at));
            let mut answers = healed.filter(|visit| !visit.is_unanswered());
            if let Some(first) = answers.next()
                && let Some(other) = answers.find(|other| other.answer != first.answer)
            {
                broken.push(format!(
                    "the create of {key} was never settled: {:?} at {}, {:?} at {}",
                    first.answer, first.at.call, other.answer, other.at.call
                ));
            }
            // What was once seen stays.
            let seen = link.visits.iter().find(|visit| visit.target().is_some());
            if let Some(seen) = seen
                && let Some(gone) = link.visits.iter().find(|visit| {
                    visit.at.call > seen.at.returned + FRESH_MS
                        && *visit.answer == VisitAnswer::Missing
                })
            {
                broken.push(format!(
                    "{key} was there at {} and missing at {}",
                    seen.at.call, gone.at.call
                ));
            }
        }
        broken
    }

    /// Whether a node may serve what it had before a change: it did not reach the store during the
    /// last seconds, or since the change. A node that reaches it again has as long as any other.
    fn may_be_stale(&self, change: &Operation, at: &Operation) -> bool {
        let from = change.returned.max(at.call.saturating_sub(FRESH_MS));
        let is_cut = |(node, window): &(usize, super::Window)| {
            *node == at.node && window.touches(from, at.call)
        };
        change.returned + FRESH_MS >= at.call || self.history.cuts.iter().any(is_cut)
    }

    fn fresh(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (key, link) in &self.links {
            let mut served: HashMap<usize, Vec<(&Operation, u64)>> = HashMap::new();
            for visit in &link.visits {
                broken.extend(self.is_still_blocked(key, link, visit));
                let Some(target) = visit.target() else { continue };
                let Some(&revision) = link.revisions.get(target) else {
                    broken.push(format!("{key} led to {target}, which no client has set"));
                    continue;
                };
                let at = visit.at;
                let is_late = |change: &Operation| {
                    change.outcome == Outcome::Ok && !self.may_be_stale(change, at)
                };
                for change in link.changes.iter().filter(|change| is_late(change)) {
                    let is_broken = match &change.action {
                        Action::Update { revision: later, .. } => *later > revision,
                        Action::Block { .. } => !link.changes.iter().any(|undo| {
                            matches!(undo.action, Action::Unblock { .. })
                                && undo.call >= change.call
                                && undo.call < at.returned
                        }),
                        Action::Delete { .. } => true,
                        _ => false,
                    };
                    if is_broken {
                        broken.push(format!(
                            "{:?} had returned at {}, and at {} node {} served revision {revision}",
                            change.action, change.returned, at.call, at.node
                        ));
                    }
                }
                let earlier = served.entry(at.node).or_default();
                if let Some((before, later)) = earlier
                    .iter()
                    .find(|(before, later)| before.returned < at.call && *later > revision)
                {
                    broken.push(format!(
                        "node {} served revision {later} of {key} at {} and {revision} at {}",
                        at.node, before.call, at.call
                    ));
                }
                earlier.push((at, revision));
            }
        }
        broken
    }

    /// Whether a node answers that a link is blocked long after it was cleared.
    fn is_still_blocked(
        &self,
        key: &str,
        link: &LinkHistory<'_>,
        visit: &Visit<'_>,
    ) -> Option<String> {
        let at = visit.at;
        let changes = || link.changes.iter().filter(|change| change.call < at.returned);
        if *visit.answer != VisitAnswer::Blocked {
            return None;
        }
        let cleared = changes().rev().find(|change| {
            matches!(change.action, Action::Unblock { .. })
                && change.outcome == Outcome::Ok
                && !self.may_be_stale(change, at)
        })?;
        // One that was called before and answered after it may have come later.
        let is_again = changes().any(|change| {
            matches!(change.action, Action::Block { .. }) && change.returned >= cleared.call
        });
        (!is_again).then(|| {
            format!(
                "{key} was cleared at {}, and at {} node {} answered that it is blocked",
                cleared.returned, at.call, at.node
            )
        })
    }

    fn clicks(&self) -> Vec<String> {
        let Some(drained) = &self.history.drained else { return Vec::new() };
        let mut broken = Vec::new();
        let mut owners: BTreeMap<&str, u64> = BTreeMap::new();
        let nothing = super::LinkStatistics::default();
        let known: HashSet<&str> =
            self.links.keys().copied().chain(drained.links.keys().map(String::as_str)).collect();
        for key in known {
            let is_deleted = self.links.get(key).is_some_and(LinkHistory::may_be_deleted);
            if is_deleted && !drained.links.contains_key(key) {
                continue;
            }
            let counted = drained.links.get(key).unwrap_or(&nothing);
            *owners.entry(&counted.owner).or_default() += counted.total;
            let raw = counted.marks.len() as u64;
            if counted.hours != counted.total || raw != counted.total {
                broken.push(format!(
                    "{key} has {} clicks, its hours {}, and {raw} single clicks",
                    counted.total, counted.hours
                ));
            }
            let mut marks: HashMap<&str, u64> = HashMap::new();
            counted.marks.iter().for_each(|mark| *marks.entry(mark).or_default() += 1);
            for visit in self.links.get(key).map_or(&[][..], |link| &link.visits) {
                let times = marks.remove(visit.mark).unwrap_or(0);
                let is_right = match visit.answer {
                    VisitAnswer::Redirect(_) => times == 1,
                    VisitAnswer::Nothing => times <= 1,
                    _ => times == 0,
                };
                if !is_right {
                    broken.push(format!(
                        "visit {} of {key} got {:?} and was counted {times} times",
                        visit.mark, visit.answer
                    ));
                }
            }
            broken.extend(
                marks.keys().map(|mark| format!("visit {mark} of {key} was counted, never made")),
            );
        }
        for (owner, total) in &drained.owners {
            let sum = owners.get(owner.as_str()).copied().unwrap_or(0);
            if sum != *total {
                broken.push(format!("{owner} has {total} clicks, and the links have {sum}"));
            }
        }
        broken
    }

    fn limit(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (key, link) in &self.links {
            let Some(max) = link.creates.iter().find_map(|made| made.max_clicks) else { continue };
            let redirects = link.visits.iter().filter(|visit| visit.target().is_some());
            let count = redirects.count() as u64;
            if count > max {
                broken.push(format!("{key} redirected {count} times, allowed are {max}"));
            }
            let could_spend =
                |visit: &&Visit<'_>| visit.target().is_some() || visit.is_unanswered();
            for visit in link.visits.iter().filter(|visit| *visit.answer == VisitAnswer::Gone) {
                let before = link.visits.iter().filter(could_spend);
                let before = before.filter(|other| other.at.call < visit.at.returned).count();
                if (before as u64) < max {
                    broken.push(format!(
                        "{key} was used up at {} after {before} of {max} redirects",
                        visit.at.call
                    ));
                }
            }
        }
        broken
    }

    fn fence(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut latest: HashMap<&str, u64> = HashMap::new();
        for (job, token) in &self.history.effects {
            let last = latest.entry(job).or_insert(*token);
            if token < last {
                broken.push(format!("{job} wrote with token {token} after {last}"));
            }
            *last = (*last).max(*token);
        }
        broken
    }

    fn idempotent(&self) -> Vec<String> {
        let mut codes: BTreeMap<&str, &str> = BTreeMap::new();
        let mut broken = Vec::new();
        for (key, link) in &self.links {
            for made in link.creates.iter().filter(|made| made.at.outcome == Outcome::Ok) {
                match codes.get(made.request) {
                    Some(other) if other != key => {
                        broken.push(format!("request {} created {other} and {key}", made.request));
                    }
                    _ => {
                        codes.insert(made.request, key);
                    }
                }
            }
        }
        broken
    }

    fn erased(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for erasure in &self.history.operations {
            let (Action::Erase { text }, Outcome::Ok) = (&erasure.action, erasure.outcome) else {
                continue;
            };
            for seen in self.history.operations.iter().filter(|op| op.call > erasure.returned) {
                let shows = match &seen.action {
                    Action::Show { text: shown } => shown.contains(text.as_str()),
                    Action::Read { answer: VisitAnswer::Redirect(target), .. } => {
                        target.contains(text.as_str())
                    }
                    _ => false,
                };
                if shows {
                    broken.push(format!(
                        "{text} was erased at {}; node {} showed it at {}",
                        erasure.returned, seen.node, seen.call
                    ));
                }
            }
        }
        broken
    }

    fn available(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for at in self.history.operations.iter().filter(|at| at.is_error) {
            let is_excused = self.history.faults.iter().any(|(node, fault)| {
                node.is_none_or(|node| node == at.node)
                    && super::Window { from: fault.from, to: fault.to + RECOVERY_MS }
                        .touches(at.call, at.returned)
            });
            if !is_excused {
                broken.push(format!(
                    "node {} failed at {} without a fault: {:?}",
                    at.node, at.call, at.action
                ));
            }
        }
        for visit in self.links.values().flat_map(|link| &link.visits) {
            let is_away = self
                .history
                .store_away
                .iter()
                .any(|away| away.from <= visit.at.call && visit.at.returned <= away.to);
            if is_away && visit.remembered && visit.is_unanswered() {
                broken.push(format!(
                    "node {} knew {:?} and did not answer at {}",
                    visit.at.node,
                    visit.at.action.key(),
                    visit.at.call
                ));
            }
        }
        broken
    }

    fn monotone(&self) -> Vec<String> {
        let erasures = self.history.operations.iter();
        let erased_at = erasures
            .filter(|at| matches!(at.action, Action::Erase { .. }))
            .map(|at| at.call)
            .min()
            .unwrap_or(u64::MAX);
        let mut broken = Vec::new();
        for (key, link) in &self.links {
            for (n, (first, before)) in link.totals.iter().enumerate() {
                let later = link.totals[n + 1..].iter();
                let fewer = later
                    .filter(|(at, _)| at.call > first.returned && at.returned < erased_at)
                    .find(|(_, clicks)| clicks < before);
                if let Some((at, after)) = fewer {
                    broken.push(format!(
                        "{key} had {before} clicks at {} and {after} at {}",
                        first.returned, at.call
                    ));
                }
            }
        }
        broken
    }
}
