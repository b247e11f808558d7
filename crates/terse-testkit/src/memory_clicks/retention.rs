//! Erasing and pruning in the click store in memory.

use async_trait::async_trait;
use terse_core::clicks::{
    ClickCursor, ClickRetention, ClickSubject, JournalId, LOG_GENERATIONS, LinkId,
    MAX_VALUES_PER_DAY, Pruned, Retention, Unit,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};

use super::{MemoryClickStore, RAW_BYTES};

#[async_trait]
impl ClickRetention for MemoryClickStore {
    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), StoreError> {
        let erased = |link: &LinkId| link.created_at <= created_by && links.contains(&link.key);
        let mut state = self.enter().await?;
        state
            .subjects
            .retain(|subject, _| !matches!(subject, ClickSubject::Link(link) if erased(link)));
        state.erased_links.extend(links.iter().map(|key| (key.clone(), created_by, erased_at)));
        Ok(())
    }

    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<(), StoreError> {
        let mut state = self.enter().await?;
        state.subjects.retain(|subject, clicks| {
            *subject != ClickSubject::Owner(owner) && clicks.owner != Some(owner)
        });
        state.erased_owners.insert(owner, erased_at);
        Ok(())
    }

    async fn forget_logs(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut state = self.enter().await?;
        let over = LOG_GENERATIONS..JournalId::log_generation(before);
        let logs: Vec<JournalId> = state
            .journals
            .iter()
            .filter(|(_, (_, generation))| over.contains(generation))
            .map(|(journal, _)| *journal)
            .collect();
        for log in &logs {
            state.journals.remove(log);
            state.positions.retain(|(journal, _), _| journal != log);
        }
        Ok(logs.len() as u64)
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError> {
        let mut state = self.enter().await?;
        let mut pruned = Pruned::default();
        let mut left = retention.limit;
        let raw_before = Unit::Hour.floor(retention.raw_before);
        let hours_before = Unit::Day.floor(retention.hours_before);
        for kept in state.subjects.values_mut() {
            while kept
                .raw
                .first_key_value()
                .is_some_and(|(place, _)| place.at_ms < raw_before.as_ms())
            {
                if left == 0 {
                    pruned.more = true;
                    break;
                }
                kept.raw.pop_first();
                left -= 1;
                pruned.raw += 1;
            }
            while kept.hours.first_key_value().is_some_and(|(start, _)| *start < hours_before) {
                if left == 0 {
                    pruned.more = true;
                    break;
                }
                if let Some((start, sum)) = kept.hours.pop_first() {
                    let day = kept.days.entry(Unit::Day.floor(start)).or_default();
                    day.merge(&sum);
                    day.tally.trim(MAX_VALUES_PER_DAY);
                    left -= 1;
                    pruned.hours += 1;
                }
            }
        }
        if let Some(max_raw) = retention.max_raw {
            // The oldest of all go first.
            let raw = state.subjects.iter();
            let raw = raw.flat_map(|(of, kept)| kept.raw.keys().map(move |at| (*at, of.clone())));
            let mut all: Vec<(ClickCursor, ClickSubject)> = raw.collect();
            all.sort_unstable();
            let kept = usize::try_from(max_raw / RAW_BYTES).unwrap_or(usize::MAX);
            for (place, subject) in all.drain(..all.len().saturating_sub(kept)) {
                if let Some(kept) = state.subjects.get_mut(&subject) {
                    kept.raw.remove(&place);
                    pruned.raw += 1;
                }
            }
        }
        let mut is_over = |erased_at: Timestamp| {
            let is_over = erased_at < retention.tombstones_before;
            if is_over && left == 0 {
                pruned.more = true;
                return false;
            }
            left -= usize::from(is_over);
            pruned.tombstones += u64::from(is_over);
            is_over
        };
        state.erased_links.retain(|(.., erased_at)| !is_over(*erased_at));
        state.erased_owners.retain(|_, erased_at| !is_over(*erased_at));
        Ok(pruned)
    }
}
