//! Reports and exports of the click store in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use terse_core::clicks::{
    ClickCursor, ClickExport, ClickPage, ClickReport, ClickReports, ClickSubject, Count,
    ErasedLink, JournalId, LinkId, MAX_VALUES_TOTAL, Period, PeriodQuery, RankedLink, RawQuery,
    ReportSnapshot, TopQuery, Unit,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};

use super::{MemoryClickStore, Sum};

#[async_trait]
impl ClickReports for MemoryClickStore {
    async fn counts_with(
        &self,
        links: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, StoreError> {
        let state = self.enter().await?;
        let count = |link: &LinkId| {
            state
                .subjects
                .get(&ClickSubject::Link(link.clone()))
                .map(|kept| kept.total.tally.clicks)
        };
        let answer = links.iter().map(|link| count(link).unwrap_or_default()).collect();
        Ok(ReportSnapshot { answer, positions: state.positions_of(journal) })
    }

    async fn report_with(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, StoreError> {
        let state = self.enter().await?;
        let positions = state.positions_of(journal);
        let Some(kept) = state.subjects.get(subject) else {
            return Ok(ReportSnapshot { answer: ClickReport::default(), positions });
        };
        let from = period.from.map_or(i64::MIN, Timestamp::as_ms);
        let to = period.to.map_or(i64::MAX, Timestamp::as_ms);
        let touched = kept.touching(from, to);
        let mut sum = Sum::default();
        match period == Period::default() {
            true => sum = kept.total.clone(),
            false => touched.iter().for_each(|(_, one)| sum.merge(one)),
        }
        sum.tally.trim(MAX_VALUES_TOTAL);
        let hour = Unit::Hour.floor(now).as_ms();
        let mut recent = Count::default();
        let lately = kept.touching(hour - 23 * Unit::Hour.ms(), hour + Unit::Hour.ms());
        lately.iter().for_each(|(bucket, _)| recent.add(bucket.clicks));
        let buckets = touched.into_iter().map(|(bucket, _)| bucket);
        let buckets = buckets.filter(|bucket| bucket.clicks != Count::default()).collect();
        let answer = ClickReport { tally: sum.tally, visitors: sum.visitors, recent, buckets };
        Ok(ReportSnapshot { answer, positions })
    }

    async fn top_with(
        &self,
        query: &TopQuery,
        also: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, StoreError> {
        let state = self.enter().await?;
        let from = query.period.from.map_or(i64::MIN, Timestamp::as_ms);
        let to = query.period.to.map_or(i64::MAX, Timestamp::as_ms);
        let (mut ranked, mut others) = (Vec::new(), Vec::new());
        for (subject, kept) in &state.subjects {
            let ClickSubject::Link(link) = subject else { continue };
            let mut clicks = Count::default();
            match query.period == Period::default() {
                true => clicks = kept.total.tally.clicks,
                false => {
                    kept.touching(from, to).iter().for_each(|(of, _)| clicks.add(of.clicks));
                }
            }
            let found = RankedLink { link: link.clone(), clicks };
            if also.contains(link) && clicks != Count::default() {
                others.push(found.clone());
            }
            if query.owner.is_none() || kept.owner == query.owner {
                ranked.push(found);
            }
        }
        let mut answer = query.rank(ranked);
        others.retain(|other| !answer.contains(other));
        answer.append(&mut others);
        Ok(ReportSnapshot { answer, positions: state.positions_of(journal) })
    }

    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        let state = self.enter().await?;
        let Some(kept) = state.subjects.get(&ClickSubject::Link(query.link.clone())) else {
            return Ok(ClickPage::default());
        };
        let wanted = |place: &ClickCursor| {
            query.from.is_none_or(|from| place.at_ms >= from.as_ms())
                && query.to.is_none_or(|to| place.at_ms < to.as_ms())
                && query.after.is_none_or(|after| *place > after)
        };
        let mut found = kept.raw.iter().filter(|(place, _)| wanted(place));
        let page: Vec<_> = found.by_ref().take(query.limit).collect();
        let next = found.next().and(page.last().map(|(place, _)| **place));
        Ok(ClickPage { clicks: page.into_iter().map(|(_, click)| click.clone()).collect(), next })
    }

    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError> {
        let state = self.enter().await?;
        let links = state.subjects.keys().filter_map(|subject| match subject {
            ClickSubject::Link(link) => Some(link),
            _ => None,
        });
        Ok(links
            .filter(|link| after.is_none_or(|after| *link > after))
            .take(limit)
            .cloned()
            .collect())
    }
}

#[async_trait]
impl ClickExport for MemoryClickStore {
    async fn clicks_between(&self, query: &PeriodQuery) -> Result<ClickPage, StoreError> {
        let state = self.enter().await?;
        let period = query.from.as_ms()..query.to.as_ms();
        let wanted = |place: &ClickCursor| {
            period.contains(&place.at_ms) && query.after.is_none_or(|after| *place > after)
        };
        let all = state.subjects.values().flat_map(|kept| &kept.raw);
        let mut found: Vec<_> = all.filter(|(place, _)| wanted(place)).collect();
        found.sort_by_key(|(place, _)| **place);
        let more = found.len() > query.limit;
        found.truncate(query.limit);
        let next = found.last().filter(|_| more).map(|(place, _)| **place);
        Ok(ClickPage { clicks: found.into_iter().map(|(_, click)| click.clone()).collect(), next })
    }

    async fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, StoreError> {
        let state = self.enter().await?;
        let mut found: BTreeMap<(LinkKey, Timestamp), Timestamp> = BTreeMap::new();
        for (key, created_by, erased_at) in &state.erased_links {
            let latest = found.entry((key.clone(), *created_by)).or_insert(*erased_at);
            *latest = *erased_at.max(latest);
        }
        let after = after.map(|after| (after.key.clone(), after.created_by));
        let erased = found.into_iter().filter(|(stone, erased_at)| {
            *erased_at >= since && after.as_ref().is_none_or(|after| stone > after)
        });
        let link = |((key, created_by), erased_at)| ErasedLink { key, created_by, erased_at };
        Ok(erased.take(limit).map(link).collect())
    }

    async fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, StoreError> {
        let state = self.enter().await?;
        let erased = state.erased_owners.iter().filter(|(_, erased_at)| **erased_at >= since);
        Ok(erased.map(|(owner, _)| *owner).collect())
    }
}
