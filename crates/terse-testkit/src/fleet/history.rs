//! What clients of a fleet did and saw.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The answer to a visit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VisitAnswer {
    /// A redirect to this target.
    Redirect(String),
    /// 404.
    Missing,
    /// 410.
    Gone,
    /// 451.
    Blocked,
    /// 503, or 429.
    Unavailable,
    /// Any other answer.
    Status(u16),
    /// The connection broke, or nothing came in time.
    Nothing,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The answer says that it was done.
    Ok,
    /// The answer says that it was not done.
    Failed,
    /// It may have been done.
    Unknown,
}

/// What a client did. Keys are unique over all domains, and each revision of a link has a target of
/// its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Created a link.
    Create {
        /// Its alias, or the code of the answer; empty if there was no answer.
        key: String,
        /// Where it leads.
        target: String,
        /// Who creates it.
        owner: String,
        /// The `Idempotency-Key`; creates without one have a unique text here.
        request: String,
        /// How many redirects it has.
        max_clicks: Option<u64>,
        /// Whether the answer was an existing link of the owner.
        reused: bool,
    },
    /// Changed the target of a link. One client at a time changes a link.
    Update {
        /// The link.
        key: String,
        /// The new target.
        target: String,
        /// The number of this change, counted from 1; a link is created with revision 0.
        revision: u64,
    },
    /// Blocked a link, or suspended its owner.
    Block {
        /// The link.
        key: String,
    },
    /// Removed a block.
    Unblock {
        /// The link.
        key: String,
    },
    /// Deleted a link.
    Delete {
        /// The link.
        key: String,
    },
    /// Visited a link.
    Read {
        /// The link.
        key: String,
        /// Marks this visit; no other has the same.
        mark: String,
        /// What came back.
        answer: VisitAnswer,
        /// Whether this node has answered this link from its memory before and not been restarted.
        remembered: bool,
    },
    /// Read the total of a link's clicks.
    Total {
        /// The link.
        key: String,
        /// What the answer says; `None` without an answer.
        clicks: Option<u64>,
    },
    /// Read something else that may contain what was erased.
    Show {
        /// The answer.
        text: String,
    },
    /// Erased everything that contains this text.
    Erase {
        /// What must never be seen again.
        text: String,
    },
}

impl Action {
    /// The link it is about.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Create { key, .. }
            | Self::Update { key, .. }
            | Self::Block { key }
            | Self::Unblock { key }
            | Self::Delete { key }
            | Self::Read { key, .. }
            | Self::Total { key, .. } => Some(key),
            Self::Show { .. } | Self::Erase { .. } => None,
        }
    }
}

/// One operation of a client. Times are milliseconds since the history began.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Operation {
    /// When the client sent it.
    pub call: u64,
    /// When the client had its outcome.
    pub returned: u64,
    /// Which node was asked.
    pub node: usize,
    /// Its outcome.
    pub outcome: Outcome,
    /// What it was.
    pub action: Action,
    /// Whether the answer was 5xx, or there was none.
    pub is_error: bool,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    /// Its start.
    pub from: u64,
    /// Its end.
    pub to: u64,
}

impl Window {
    pub(super) fn touches(self, from: u64, to: u64) -> bool {
        self.from <= to && from <= self.to
    }
}

/// The statistics of one link after the end.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LinkStatistics {
    /// Its owner.
    pub owner: String,
    /// The total.
    pub total: u64,
    /// The sum of its hours.
    pub hours: u64,
    /// The marks of its single clicks.
    pub marks: Vec<String>,
}

/// What was counted after all clicks were shipped.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FinalCounts {
    /// By link.
    pub links: BTreeMap<String, LinkStatistics>,
    /// The totals of owners all of whose links are in `links`.
    pub owners: BTreeMap<String, u64>,
}

/// Everything that clients did and saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In any order.
    pub operations: Vec<Operation>,
    /// When a node could not reach the store, by node.
    pub cuts: Vec<(usize, Window)>,
    /// When something was broken on purpose: one node, or what all of them need. Errors of that
    /// node, or of all, are allowed then, and for ten seconds after.
    pub faults: Vec<(Option<usize>, Window)>,
    /// When no node could reach the store.
    pub store_away: Vec<Window>,
    /// From when on everything was healed.
    pub healed_at: Option<u64>,
    /// Effects of jobs in the order of their commits, with the token of the lease.
    pub effects: Vec<(String, u64)>,
    /// What was counted in the end; `None` if it was not read.
    pub drained: Option<FinalCounts>,
}

impl History {
    /// One line per operation in the order of calls, and the faults, for a human reader.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "faults {:?}\ncuts {:?}\nstore away {:?}\nhealed at {:?}\neffects {:?}\ndrained {:?}\n",
            self.faults, self.cuts, self.store_away, self.healed_at, self.effects, self.drained
        );
        let mut operations: Vec<&Operation> = self.operations.iter().collect();
        operations.sort_by_key(|operation| operation.call);
        for Operation { call, returned, node, outcome, action, .. } in operations {
            let _written = writeln!(text, "{call:>8} {returned:>8} n{node} {outcome:?} {action:?}");
        }
        text
    }
}
