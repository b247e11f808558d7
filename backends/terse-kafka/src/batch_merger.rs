//! Several messages as one batch: a store writes it much faster than one after the other.

use std::collections::HashMap;
use std::sync::Arc;

use terse_core::clicks::{Batch, Click, JournalId, JournalSpan};

/// Batches that follow one another.
#[derive(Debug, Default)]
pub(crate) struct BatchMerger {
    batches: Vec<Arc<Batch>>,
    spans: Vec<JournalSpan>,
    /// Where the span of a segment is.
    places: HashMap<(JournalId, u64), usize>,
}

impl BatchMerger {
    /// Takes a batch whose spans all begin where the store is, or where an earlier batch ends.
    /// Returns whether they do.
    pub(crate) fn take(
        &mut self,
        batch: &Arc<Batch>,
        position: impl Fn(&JournalSpan) -> u64,
    ) -> bool {
        let begins = |span: &JournalSpan| match self.places.get(&(span.journal, span.segment)) {
            Some(place) => self.spans[*place].to,
            None => position(span),
        };
        if !batch.spans.iter().all(|span| begins(span) == span.from) {
            return false;
        }
        for span in &batch.spans {
            match self.places.get(&(span.journal, span.segment)) {
                Some(place) => self.spans[*place].to = span.to,
                None => {
                    self.places.insert((span.journal, span.segment), self.spans.len());
                    self.spans.push(*span);
                }
            }
        }
        self.batches.push(Arc::clone(batch));
        true
    }

    /// How many batches it has.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// All of them as one.
    pub(crate) fn finish(self) -> Arc<Batch> {
        if let [one] = &*self.batches {
            return Arc::clone(one);
        }
        // In the order of time, as one node's batch is.
        let mut clicks: Vec<Click> =
            self.batches.iter().flat_map(|batch| batch.clicks.iter()).collect();
        clicks.sort_by_key(|click| click.at.as_ms());
        Arc::new(Batch::of(self.spans, clicks))
    }
}

#[cfg(test)]
mod tests {
    use terse_core::clicks::ClickTarget;
    use terse_core::{Answered, Code, Domain, LinkKey, Timestamp};

    use super::*;

    fn batch(journal: u8, spans: &[(u64, u64, u64)], at: i64) -> Arc<Batch> {
        let journal = JournalId([journal; 16]);
        let span = |&(segment, from, to): &(u64, u64, u64)| JournalSpan {
            journal,
            epoch: 1,
            segment,
            from,
            to,
        };
        let key = LinkKey { domain: Domain::primary(), code: Code::parse("abc").unwrap() };
        let target = ClickTarget::Orphan(key, Answered::NotFound);
        let click = Click::bare(Timestamp::from_ms(at), target);
        Arc::new(Batch::of(spans.iter().map(span).collect(), [click]))
    }

    #[test]
    fn stretches_that_follow_one_another_become_one() {
        let mut merger = BatchMerger::default();
        let position = |span: &JournalSpan| if span.segment == 2 { 50 } else { 0 };
        assert!(merger.take(&batch(1, &[(1, 0, 10), (2, 50, 60)], 3), position));
        assert!(merger.take(&batch(2, &[(1, 0, 7)], 1), position));
        assert!(merger.take(&batch(1, &[(1, 10, 30)], 2), position));
        // A repetition, and one that begins too late.
        assert!(!merger.take(&batch(1, &[(1, 10, 30)], 2), position));
        assert!(!merger.take(&batch(1, &[(3, 0, 5), (1, 31, 40)], 2), position));
        assert_eq!(merger.len(), 3);
        let merged = merger.finish();
        let spans: Vec<_> =
            merged.spans.iter().map(|s| (s.journal.0[0], s.segment, s.from, s.to)).collect();
        assert_eq!(spans, [(1, 1, 0, 30), (1, 2, 50, 60), (2, 1, 0, 7)]);
        assert_eq!(merged.clicks.at_ms, [1, 2, 3]);
        assert_eq!(merged.id, Batch::id_of(&merged.spans));
    }
}
