//! What answers are allowed. Times are milliseconds of simulated time.
//!
//! The predicates: *durable* (an acknowledged link is served, or nothing is), *unique* (a code
//! belongs to one request), *fresh* (a change is served on its own node at once, elsewhere within
//! five seconds, and nothing older after it), *limit* (never more than `max_clicks` redirects),
//! *available* (no 503 without a fault), *kept* (no clock makes a live link disappear), and *rate*
//! (a bucket refills with the time that passes, whatever the wall clock says).

use std::collections::HashMap;

use crate::network::AFTER_FAULT;

/// How long a change takes to reach the other nodes, at most.
const SPREADS_MS: u64 = 5_000;

/// One state of a link: its target, or `None` while there is no link to follow.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) value: Option<String>,
    /// When the first attempt began, and on which node the last one ran.
    pub(crate) called: u64,
    pub(crate) node: usize,
    /// When an attempt was acknowledged.
    pub(crate) returned: Option<u64>,
}

/// All states of one link, in order. One client writes it, and repeats a write until it is
/// acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) code: String,
    pub(crate) writes: Vec<Write>,
    /// Nobody can have asked for it before it was created.
    pub(crate) generated: bool,
    /// Per node: what earlier visits were served at least, and when they returned.
    served: [Vec<(u64, usize)>; 2],
}

/// A visit and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) node: usize,
    pub(crate) called: u64,
    pub(crate) returned: u64,
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
}

/// When a node was cut off from the store, and when it started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    pub(crate) faults: Vec<(u64, Option<u64>)>,
    pub(crate) started: u64,
}

impl Trouble {
    /// Whether a fault may be felt between two times.
    pub(crate) fn is_felt(&self, from: u64, to: u64) -> bool {
        let felt = |&(begin, end): &(u64, Option<u64>)| begin <= to && end_of(end) > from;
        self.faults.iter().any(felt)
    }

    /// From when on a change that was acknowledged at `at` on another node must be served: after
    /// the first five seconds without a fault, or after a restart. `None` for not yet.
    fn settled(&self, at: u64) -> Option<u64> {
        let mut from = at;
        for &(begin, end) in &self.faults {
            if end_of(end) > from && begin < from + SPREADS_MS {
                from = end_of(end);
            }
        }
        let spread = from.checked_add(SPREADS_MS);
        if self.started > at { Some(spread.unwrap_or(u64::MAX).min(self.started)) } else { spread }
    }
}

fn end_of(end: Option<u64>) -> u64 {
    end.map_or(u64::MAX, |end| end + AFTER_FAULT.as_millis() as u64)
}

impl History {
    pub(crate) fn new(code: String, generated: bool) -> Self {
        let absent = Write { value: None, called: 0, node: 0, returned: Some(0) };
        Self { code, writes: vec![absent], generated, served: Default::default() }
    }

    /// The oldest state that a node may still serve to a visit that begins now.
    fn oldest(&self, node: usize, called: u64, trouble: &Trouble) -> usize {
        let must = |(index, write): (usize, &Write)| {
            let returned = write.returned?;
            let at_once = write.node == node || (self.generated && index == 1);
            let from = if at_once { Some(returned) } else { trouble.settled(returned) };
            // Within one millisecond either may have come first.
            from.is_some_and(|from| from < called).then_some(index)
        };
        self.writes.iter().enumerate().filter_map(must).max().unwrap_or(0)
    }

    /// Checks a visit. The error names the predicate.
    pub(crate) fn check(&mut self, visit: &Visit, trouble: &Trouble) -> Result<(), String> {
        let &Visit { node, called, returned, status, ref location } = visit;
        let value = match status {
            302 => location.clone(),
            404 => None,
            503 if trouble.is_felt(called, returned) => return Ok(()),
            503 => return Err("available: 503 without a fault".into()),
            _ => return Err(format!("no such answer: {status}")),
        };
        let oldest = self.oldest(node, called, trouble);
        let possible: Vec<usize> = (oldest..self.writes.len())
            .filter(|&at| self.writes[at].called <= returned && self.writes[at].value == value)
            .collect();
        let (Some(&first), Some(&last)) = (possible.first(), possible.last()) else {
            let known = self.writes.iter().any(|write| write.value == value);
            return Err(match (value, known) {
                (None, _) => format!("durable: nothing is served, state {oldest} must be"),
                (Some(_), true) => format!("fresh: an old state is served, {oldest} must be"),
                (Some(_), false) => "durable: a target that was never written".into(),
            });
        };
        let before = self.served[node].iter().filter(|(at, _)| *at < called).map(|(_, at)| *at);
        if let Some(least) = before.max().filter(|least| last < *least) {
            return Err(format!("fresh: state {least} was served before {last}"));
        }
        self.served[node].push((returned, first));
        Ok(())
    }
}

/// A bucket of a limit, as one start of a node should count it.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    started: u64,
    at_ms: u64,
    until_full_ms: u64,
}

impl Bucket {
    /// Checks a decision at this time of the steady clock. The bucket holds `count` tokens, and one
    /// more every `interval_ms`. A node that has started begins with a full one.
    pub(crate) fn check(
        &mut self,
        (started, at_ms): (u64, u64),
        (count, interval_ms): (u64, u64),
        allowed: bool,
    ) -> Result<(), String> {
        let passed = at_ms.saturating_sub(self.at_ms);
        let left = if self.started == started { self.until_full_ms } else { 0 };
        let until_full_ms = left.saturating_sub(passed);
        let after = until_full_ms + interval_ms;
        let may = after <= count * interval_ms;
        *self = Self { started, at_ms, until_full_ms: if may { after } else { until_full_ms } };
        match may == allowed {
            true => Ok(()),
            false => Err(format!("rate: allowed {allowed}, but {may} is right")),
        }
    }
}

/// Codes and the request that each was issued for.
#[derive(Debug, Default)]
pub(crate) struct IssuedFor(HashMap<String, u64>);

impl IssuedFor {
    pub(crate) fn check(&mut self, code: &str, request: u64) -> Result<(), String> {
        match self.0.insert(code.to_owned(), request) {
            Some(other) if other != request => {
                Err(format!("unique: {code} was issued for requests {other} and {request}"))
            }
            _ => Ok(()),
        }
    }
}
