//! Adds clicks to the sums of the growing batch: on the shipper's thread, or on a helper's while
//! the shipper reads on.

use std::mem;

use terse_core::clicks::{ClickKind, ClickRow, SumRow, Sums, WarningVisit};

use crate::enrich::RepeatDetector;

/// A click that is in the columns, with all that its sum and the detector of repeats need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyRow {
    pub(crate) sum: SumRow,
    /// The hash of its link; `None` for a visit that did not lead to a link.
    pub(crate) link: Option<u64>,
}

impl ReadyRow {
    /// Whether it can be a repeat: a human's click on a link, by a visitor who is known.
    fn visit(&self) -> Option<(u64, u64)> {
        let ClickRow { visitor, kind, warning, .. } = self.sum.row;
        let is_human = kind == ClickKind::HUMAN && warning != WarningVisit::Shown;
        self.link.filter(|_| visitor != 0 && is_human).map(|link| (visitor, link))
    }
}

/// Clicks in the order of time, and where the first of them is in the columns.
#[derive(Debug, Default)]
pub(crate) struct ReadyRows {
    pub(crate) rows: Vec<ReadyRow>,
    pub(crate) first: usize,
}

/// The sums of a batch and what is needed to add to them. It refers to no columns.
#[derive(Debug, Default)]
pub(crate) struct SumAdder {
    pub(crate) sums: Sums,
    pub(crate) repeats: RepeatDetector,
    /// Places of repeats in the columns, which do not say yet that they are.
    pub(crate) found_repeats: Vec<usize>,
    /// Used while rows are added: target and place of each.
    by_target: Vec<u64>,
}

impl SumAdder {
    /// Adds clicks, which are later than all before them.
    pub(crate) fn add(&mut self, ready: &mut ReadyRows) {
        for (at, ready_row) in ready.rows.iter_mut().enumerate() {
            if let Some(visit) = ready_row.visit()
                && self.repeats.is_repeat(visit, ready_row.sum.row.at_ms)
            {
                ready_row.sum.row.kind = ClickKind::REPEAT;
                self.found_repeats.push(ready.first + at);
            }
        }
        // One link after the other: the sum of a link stays in the processor's cache.
        let place = |(ready, at): (&ReadyRow, u64)| u64::from(ready.sum.row.target) << 32 | at;
        let mut by_target = mem::take(&mut self.by_target);
        by_target.clear();
        by_target.extend(ready.rows.iter().zip(0..).map(place));
        by_target.sort_unstable();
        for place in &by_target {
            self.sums.add_row(&ready.rows[*place as u32 as usize].sum);
        }
        self.by_target = by_target;
    }
}
