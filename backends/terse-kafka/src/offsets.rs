//! How far a worker may commit each partition.

use std::collections::{BTreeSet, HashMap};

/// The partitions of a worker.
#[derive(Debug, Default)]
pub(crate) struct Offsets(HashMap<i32, PartitionOffsets>);

#[derive(Debug, Default)]
struct PartitionOffsets {
    /// Consumed messages that are neither counted nor set aside.
    open: BTreeSet<i64>,
    /// After the last consumed message.
    next: i64,
    committed: i64,
}

impl Offsets {
    /// Notes a consumed message. Until it is [done](Self::done), no later offset is committed.
    pub(crate) fn begin(&mut self, partition: i32, offset: i64) {
        let of = self.0.entry(partition).or_default();
        of.open.insert(offset);
        of.next = of.next.max(offset + 1);
    }

    /// The store has the message, or it is set aside.
    pub(crate) fn done(&mut self, partition: i32, offset: i64) {
        if let Some(of) = self.0.get_mut(&partition) {
            of.open.remove(&offset);
        }
    }

    /// Forgets partitions that another worker has now.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(i32) -> bool) {
        self.0.retain(|partition, _| is_kept(*partition));
    }

    /// Has [`Self::take_due`] name all partitions again: the brokers have not committed some.
    pub(crate) fn repeat(&mut self) {
        self.0.values_mut().for_each(|of| of.committed = 0);
    }

    /// The partitions that can be committed further, and to where.
    pub(crate) fn take_due(&mut self) -> Vec<(i32, i64)> {
        let mut due = Vec::new();
        for (partition, of) in &mut self.0 {
            let to = of.open.first().copied().unwrap_or(of.next);
            if to > of.committed {
                of.committed = to;
                due.push((*partition, to));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_committed_past_a_message_that_waits() {
        let mut offsets = Offsets::default();
        for offset in 5..10 {
            offsets.begin(0, offset);
        }
        offsets.begin(1, 70);
        for offset in [5, 6, 8, 9] {
            offsets.done(0, offset);
        }
        offsets.done(1, 70);
        let mut due = offsets.take_due();
        due.sort_unstable();
        assert_eq!(due, [(0, 7), (1, 71)]);
        assert_eq!(offsets.take_due(), []);
        offsets.done(0, 7);
        assert_eq!(offsets.take_due(), [(0, 10)]);
        offsets.repeat();
        let mut due = offsets.take_due();
        due.sort_unstable();
        assert_eq!(due, [(0, 10), (1, 71)]);
        offsets.begin(0, 10);
        offsets.keep(|partition| partition == 1);
        offsets.done(0, 10);
        assert_eq!(offsets.take_due(), []);
    }
}
