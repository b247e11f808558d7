//! A click store in memory, just enough for the server's tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use terse_core::clicks::*;
use terse_core::*;

#[derive(Default)]
pub(crate) struct FakeClicks {
    clicks: Mutex<Vec<Click>>,
    /// While set, every call fails.
    pub(crate) away: AtomicBool,
    /// While set, no call returns.
    pub(crate) stuck: AtomicBool,
    /// Days that begin before this time are stored as days, without hours.
    pub(crate) days_before: Mutex<Option<Timestamp>>,
    /// How often counts, and pages of clicks, were requested.
    pub(crate) counted: AtomicUsize,
    pub(crate) pages: AtomicUsize,
    /// How often a ranking was requested.
    pub(crate) rankings: AtomicUsize,
    /// Pages after this many fail.
    pub(crate) last_page: Mutex<Option<usize>>,
}

impl FakeClicks {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    #[allow(dead_code, reason = "the example has no clicks")]
    pub(crate) fn add(&self, clicks: impl IntoIterator<Item = Click>) {
        let mut all = self.clicks.lock().expect("no test panics in here");
        all.extend(clicks);
        all.sort_by_key(|click| click.at);
    }

    async fn enter(&self) -> Result<MutexGuard<'_, Vec<Click>>, StoreError> {
        if self.stuck.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("pulled the plug".into()));
        }
        Ok(self.clicks.lock().expect("no test panics in here"))
    }

    fn unit(&self, at: Timestamp) -> Unit {
        let before = *self.days_before.lock().expect("no test panics in here");
        if before.is_some_and(|before| at < before) { Unit::Day } else { Unit::Hour }
    }
}

fn count_of(click: &Click) -> Count {
    let mut tally = ClickSum::default();
    tally.add(click);
    tally.clicks
}

#[async_trait]
impl ClickIngest for FakeClicks {
    async fn open(&self, _: JournalId) -> Result<Opened, StoreError> {
        Ok(Opened::default())
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        self.enter().await?.extend(batch.clicks.iter());
        Ok(Added::Done)
    }

    async fn forget(
        &self,
        _: JournalId,
        _: u32,
        _: u64,
        _: &[u64],
    ) -> Result<Forgotten, StoreError> {
        Ok(Forgotten::Done)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.enter().await.map(|_| ())
    }
}

#[async_trait]
impl ClickReports for FakeClicks {
    async fn counts_with(
        &self,
        links: &[LinkId],
        _: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, StoreError> {
        self.counted.fetch_add(1, Ordering::Relaxed);
        let clicks = self.enter().await?;
        let count = |link: &LinkId| {
            let mut sum = Count::default();
            clicks
                .iter()
                .filter(|click| click.link() == Some(link))
                .for_each(|click| sum.add(count_of(click)));
            sum
        };
        let answer = links.iter().map(count).collect();
        Ok(ReportSnapshot { answer, positions: vec![] })
    }

    async fn report_with(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        _: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, StoreError> {
        let clicks = self.enter().await?;
        let mut report = ClickReport::default();
        let mut buckets: BTreeMap<Timestamp, Bucket> = BTreeMap::new();
        let day_ago = Unit::Hour.floor(now).as_ms() - 23 * Unit::Hour.ms();
        for click in clicks.iter().filter(|click| subject.includes(&click.target)) {
            if click.at.as_ms() >= day_ago {
                report.recent.add(count_of(click));
            }
            let unit = self.unit(click.at);
            let start = unit.floor(click.at);
            let after = period.to.is_some_and(|to| start >= to);
            if after || period.from.is_some_and(|from| start.as_ms() + unit.ms() <= from.as_ms()) {
                continue;
            }
            report.tally.add(click);
            click.visitor.into_iter().for_each(|visitor| report.visitors.add(visitor));
            buckets
                .entry(start)
                .or_insert(Bucket { start, unit, clicks: Count::default() })
                .clicks
                .add(count_of(click));
        }
        report.buckets = buckets.into_values().collect();
        Ok(ReportSnapshot { answer: report, positions: vec![] })
    }

    async fn top_with(
        &self,
        query: &TopQuery,
        _: &[LinkId],
        _: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, StoreError> {
        self.rankings.fetch_add(1, Ordering::Relaxed);
        let clicks = self.enter().await?;
        let counted = clicks.iter().filter_map(|click| match &click.target {
            ClickTarget::Link(link, owner)
                if query.owner.is_none_or(|of| of == *owner)
                    && query
                        .period
                        .touches(self.unit(click.at).floor(click.at), self.unit(click.at)) =>
            {
                Some(RankedLink { link: link.clone(), clicks: count_of(click) })
            }
            _ => None,
        });
        Ok(ReportSnapshot { answer: query.rank(counted), positions: vec![] })
    }

    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        let asked = self.pages.fetch_add(1, Ordering::Relaxed);
        if self.last_page.lock().expect("no test panics in here").is_some_and(|last| asked >= last)
        {
            return Err(StoreError::Unavailable("the disk is gone".into()));
        }
        let clicks = self.enter().await?;
        let after = query.after.map_or(0, |cursor| usize::try_from(cursor.number).expect("small"));
        let wanted = |(_, click): &(usize, &Click)| {
            click.link() == Some(&query.link)
                && query.from.is_none_or(|from| click.at >= from)
                && query.to.is_none_or(|to| click.at < to)
        };
        let found: Vec<_> =
            clicks.iter().enumerate().skip(after).filter(wanted).take(query.limit + 1).collect();
        let next = (found.len() > query.limit).then(|| {
            let (number, click) = found[query.limit - 1];
            ClickCursor { at_ms: click.at.as_ms(), number: number as u64 + 1 }
        });
        Ok(ClickPage {
            clicks: found.into_iter().take(query.limit).map(|(_, click)| click.clone()).collect(),
            next,
        })
    }

    async fn links(&self, _: Option<&LinkId>, _: usize) -> Result<Vec<LinkId>, StoreError> {
        Ok(vec![])
    }
}

#[async_trait]
impl ClickRetention for FakeClicks {
    async fn erase_links(
        &self,
        _: &[LinkKey],
        _: Timestamp,
        _: Timestamp,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn erase_owner(&self, owner: OwnerId, _: Timestamp) -> Result<(), StoreError> {
        self.enter()
            .await?
            .retain(|click| !matches!(click.target, ClickTarget::Link(_, of) if of == owner));
        Ok(())
    }

    async fn prune(&self, _: Retention) -> Result<Pruned, StoreError> {
        Ok(Pruned::default())
    }
}

/// No test copies clicks.
#[async_trait]
impl ClickExport for FakeClicks {
    async fn clicks_between(&self, _: &PeriodQuery) -> Result<ClickPage, StoreError> {
        Ok(ClickPage::default())
    }

    async fn erased_links(
        &self,
        _: Timestamp,
        _: Option<&ErasedLink>,
        _: usize,
    ) -> Result<Vec<ErasedLink>, StoreError> {
        Ok(vec![])
    }

    async fn erased_owners(&self, _: Timestamp) -> Result<Vec<OwnerId>, StoreError> {
        Ok(vec![])
    }
}
