//! The clients of a schedule: who writes links, who follows them, and the check of what they get.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use terse_core::limits::{
    Limit, LimitKey, LimitSubject, LimitedAction, Limiter as _, TokenRequest,
};
use terse_core::*;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::model::{History, Visit, Write};
use crate::network::AFTER_FAULT;
use crate::node::CACHE_TTL;
use crate::schedule::{NODES, NodeRef, World, finish};

impl World {
    /// A client that creates, changes, deletes and restores one alias, and repeats what was not
    /// acknowledged.
    pub(crate) async fn writer(self: Rc<Self>, number: usize) {
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
                let done = self.on(at, |node| {
                    write_unrepeatable(node, key.clone(), kind, value.clone(), request)
                });
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
    pub(crate) async fn visitor(self: Rc<Self>) {
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

    pub(crate) async fn visit(&self, history: &Rc<RefCell<History>>, at: usize) {
        let (code, called) = (history.borrow().code.clone(), self.now());
        let Some((status, location)) = self.follow(at, &code).await else { return };
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
    pub(crate) async fn creator(self: Rc<Self>) {
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
    pub(crate) async fn racers(self: Rc<Self>) {
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
    pub(crate) async fn limited(self: Rc<Self>) {
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
                        if let Some((302, _)) = world.follow(at, &code).await {
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
    pub(crate) async fn hurried(self: Rc<Self>) {
        const LIMIT: Limit = Limit::per_minute(12);
        let subject = LimitSubject { action: LimitedAction::Create, key: LimitKey::Key(1) };
        let take = [TokenRequest { subject, limit: LIMIT, count: 1 }];
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
    pub(crate) async fn expiring(self: Rc<Self>) {
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
            let called = self.now();
            let Some((status, _)) = self.follow(at, &alias).await else { continue };
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

async fn write_unrepeatable(
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
            let patch = LinkPatch { long_url: value, ..LinkPatch::default() };
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

fn asked(request: u64) -> IdempotencyKey {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&request.to_be_bytes());
    IdempotencyKey { id, fingerprint: id }
}

fn key(code: &str) -> LinkKey {
    LinkKey { domain: Domain::primary(), code: Code::parse(code).unwrap() }
}
