//! Both forms of a batch, and answers that say how far a journal is in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use terse_core::clicks::{
    Added, Batch, BatchStart, BotKind, Click, ClickSubject, ClickSum, Count, JournalId, LinkId,
    PendingClicks, PendingCounts, PendingHour, PendingLinks, PendingSum, Period, Position,
    RankedLink, Sketch, Unit, WithPending,
};
use terse_core::{Answered, LinkKey, OwnerId, Timestamp};

use super::values::telling;
use super::{
    ALWAYS, ClickStoreHandle, HOUR, JOURNAL, OWNER, OpenJournal, click, humans, link, orphan, put,
    report,
};

/// Clicks of several links, owners, hours and kinds.
fn mixed() -> Vec<Click> {
    let theirs = |n: i64| {
        let target = terse_core::clicks::ClickTarget::Link(link("theirs"), OwnerId(8));
        Click { target, ..telling(n as usize % 3, n * HOUR / 2) }
    };
    let mut clicks: Vec<Click> = (0..40)
        .map(|n| Click {
            visitor: (n % 4 != 0).then_some(n as u64 % 9 + 1),
            bot: (n % 5 == 0).then_some(BotKind::Tool),
            repeat: n % 7 == 1 && n % 5 != 0,
            took_nanos: n as u64 * 333,
            ..telling(n as usize % 30, n * HOUR / 3)
        })
        .collect();
    clicks.extend((0..20).map(theirs));
    clicks.extend((0..9).map(|n| Click {
        weight: u32::MAX - n as u32,
        ..orphan("lost", n, if n % 2 == 0 { Answered::Gone } else { Answered::NotFound })
    }));
    clicks
}

/// A store may count from the clicks or from the sums of a batch: this compares what it has with
/// both.
pub async fn the_clicks_and_the_sums_of_a_batch_are_the_same(store: ClickStoreHandle) {
    let clicks = mixed();
    let batch = Batch::of(vec![], clicks.clone());
    assert_eq!(batch.clicks.iter().collect::<Vec<_>>(), clicks);
    put(&store, clicks.clone()).await;
    for subject in [
        ClickSubject::Link(link("abc")),
        ClickSubject::Link(link("theirs")),
        ClickSubject::Owner(OWNER),
        ClickSubject::Owner(OwnerId(8)),
        ClickSubject::Everything,
        ClickSubject::Orphans,
    ] {
        let mut plain = (ClickSum::default(), Sketch::default());
        for click in clicks.iter().filter(|click| subject.includes(&click.target)) {
            plain.0.add(click);
            if let (Some(visitor), None) = (click.visitor, click.bot) {
                plain.1.add(visitor);
            }
        }
        let mut summed = (ClickSum::default(), Sketch::default());
        for delta in &batch.sums {
            if batch.subject(delta.subject).as_ref() == Some(&subject) {
                delta.add_to(&batch.clicks, &mut summed.0);
                delta.visitors.iter().for_each(|visitors| summed.1.merge(visitors));
            }
        }
        let found = report(&store, &subject, ALWAYS).await;
        for (tally, visitors) in [&summed, &(found.tally, found.visitors)] {
            assert!((tally.took.mean - plain.0.took.mean).abs() < 1e-9, "{subject:?}");
            let mut tally = tally.clone();
            tally.took = plain.0.took;
            assert_eq!((tally, visitors.count()), (plain.0.clone(), plain.1.count()));
        }
    }
}

pub async fn a_finished_batch_is_not_repeated_by_the_next_opener(
    [first, second]: [ClickStoreHandle; 2],
) {
    let journal = OpenJournal::open(&first, JOURNAL).await;
    let batch = Arc::new(Batch::of(vec![journal.span(1, 0, 10)], [click(&link("abc"), 1)]));
    assert_eq!(first.add(&batch).await.unwrap(), Added::Done);
    let opened = second.open(JOURNAL).await.unwrap();
    assert_eq!(opened.unfinished, vec![]);
    assert_eq!(opened.positions, [Position { journal: JOURNAL, segment: 1, to: 10 }]);
}

pub async fn an_answer_says_how_far_the_journal_is_in_it([first, second]: [ClickStoreHandle; 2]) {
    let now = Timestamp::from_ms(0);
    let subject = ClickSubject::Everything;
    let before = second.report_with(&subject, ALWAYS, now, Some(JOURNAL)).await.unwrap();
    assert_eq!(before.positions, []);
    put(&first, vec![click(&link("abc"), 1)]).await;
    let journal = OpenJournal::open(&first, JOURNAL).await;
    let spans = vec![journal.span(7, 0, 10), journal.span(9, 0, 20)];
    let batch = Arc::new(Batch::of(spans, [click(&link("abc"), 1)]));
    first.add(&batch).await.unwrap();
    let want = [(7, 10), (9, 20)].map(|(segment, to)| Position { journal: JOURNAL, segment, to });
    let found = second.report_with(&subject, ALWAYS, now, Some(JOURNAL)).await.unwrap();
    assert_eq!((found.answer.tally.clicks, &*found.positions), (humans(2), &want[..]));
    let unknown = ClickSubject::Link(link("nobody"));
    let found = second.report_with(&unknown, ALWAYS, now, Some(JOURNAL)).await.unwrap();
    assert_eq!(found.positions, want, "also without an answer");
    let found = second.counts_with(&[link("abc")], Some(JOURNAL)).await.unwrap();
    assert_eq!((&*found.answer, &*found.positions), (&[humans(2)][..], &want[..]));
    let found = second.counts_with(&[link("abc")], None).await.unwrap();
    assert_eq!((&*found.answer, &*found.positions), (&[humans(2)][..], &[][..]));
}

pub async fn an_answer_and_its_positions_are_of_one_snapshot(
    [first, second]: [ClickStoreHandle; 2],
) {
    let journal = OpenJournal::open(&first, JOURNAL).await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let done = Arc::clone(&done);
        async move {
            let (now, subject) = (Timestamp::from_ms(0), ClickSubject::Owner(OWNER));
            loop {
                let last = done.load(Ordering::Relaxed);
                let found = second.report_with(&subject, ALWAYS, now, Some(JOURNAL)).await.unwrap();
                let to = found.positions.first().map_or(0, |position| position.to);
                assert_eq!(found.answer.tally.clicks, humans(to), "a click for each octet");
                let found = second.counts_with(&[link("abc")], Some(JOURNAL)).await.unwrap();
                let to = found.positions.first().map_or(0, |position| position.to);
                assert_eq!(found.answer, [humans(to)]);
                if last {
                    return to;
                }
            }
        }
    });
    for n in 0..100 {
        let clicks = (0..3).map(|_| click(&link("abc"), n as i64));
        let batch = Arc::new(Batch::of(vec![journal.span(1, n * 3, n * 3 + 3)], clicks));
        assert_eq!(first.add(&batch).await.unwrap(), Added::Done);
    }
    done.store(true, Ordering::Relaxed);
    assert_eq!(reader.await.unwrap(), 300);
}

/// A batch in memory, also after it is stored.
pub(super) struct InMemory(pub(super) Arc<Batch>);

impl InMemory {
    fn start(&self) -> BatchStart {
        let span = &self.0.spans[0];
        BatchStart { segment: span.segment, from: span.from }
    }
}

#[async_trait]
impl PendingClicks for InMemory {
    fn journal(&self) -> Option<JournalId> {
        Some(JOURNAL)
    }

    fn sums(&self, subject: &ClickSubject) -> Vec<PendingSum> {
        let Self(batch) = self;
        let of = batch.sums.iter();
        let of = of.filter(|delta| batch.subject(delta.subject).as_ref() == Some(subject));
        let hours = of.map(|delta| {
            let mut tally = ClickSum::default();
            delta.add_to(&batch.clicks, &mut tally);
            PendingHour { start: delta.start(), tally, visitors: delta.visitors.clone() }
        });
        vec![PendingSum { start: self.start(), hours: hours.collect() }]
    }

    fn counts(&self, links: &[LinkId]) -> Vec<PendingCounts> {
        let count = |link: &LinkId| {
            let mut count = Count::default();
            for sum in self.sums(&ClickSubject::Link(link.clone())) {
                sum.hours.iter().for_each(|hour| count.add(hour.tally.clicks));
            }
            count
        };
        vec![PendingCounts { start: self.start(), counts: links.iter().map(count).collect() }]
    }

    fn links(&self, owner: Option<OwnerId>, period: Period) -> Vec<PendingLinks> {
        let Self(batch) = self;
        let mut links: Vec<RankedLink> = Vec::new();
        for delta in &batch.sums {
            let counts = owner.is_none_or(|owner| owner == delta.owner)
                && period.touches(delta.start(), Unit::Hour)
                && delta.clicks != Count::default();
            if let (true, Some(ClickSubject::Link(link))) = (counts, batch.subject(delta.subject)) {
                match links.iter_mut().find(|found| found.link == link) {
                    Some(found) => found.clicks.add(delta.clicks),
                    None => links.push(RankedLink { link, clicks: delta.clicks }),
                }
            }
        }
        vec![PendingLinks { start: self.start(), links }]
    }

    fn erase_links(&self, _: &[LinkKey], _: Timestamp, _: Timestamp) {}

    fn erase_owner(&self, _: OwnerId, _: Timestamp) {}

    async fn flush(&self) {}
}

/// A node adds what it holds in memory to what the store has: the sum is the same whether the batch
/// is stored or not.
pub async fn what_is_in_memory_is_added_until_it_is_stored([first, second]: [ClickStoreHandle; 2]) {
    put(&first, mixed()).await;
    let journal = OpenJournal::open(&first, JOURNAL).await;
    let begun = Arc::new(Batch::of(vec![journal.span(1, 0, 5)], [click(&link("abc"), 1)]));
    assert_eq!(first.add(&begun).await.unwrap(), Added::Done);
    let batch = Arc::new(Batch::of(vec![journal.span(1, 5, 9), journal.span(2, 0, 7)], mixed()));
    let with: ClickStoreHandle =
        Arc::new(WithPending::new(second, Arc::new(InMemory(Arc::clone(&batch)))));
    let subjects = [
        ClickSubject::Link(link("abc")),
        ClickSubject::Link(link("theirs")),
        ClickSubject::Owner(OWNER),
        ClickSubject::Everything,
        ClickSubject::Orphans,
    ];
    let now = crate::timestamp(13 * HOUR);
    let mut before = Vec::new();
    for stored in [false, true] {
        for (at, subject) in subjects.iter().enumerate() {
            for (n, period) in [ALWAYS, super::since(2 * HOUR, 9 * HOUR)].into_iter().enumerate() {
                let found = with.report_with(subject, period, now, Some(JOURNAL)).await.unwrap();
                assert_eq!(found.positions.len(), 1 + usize::from(stored));
                let found = found.answer;
                assert_eq!(super::in_buckets(&found), found.tally.clicks);
                let mean = found.tally.took.mean;
                let mut tally = found.tally.clone();
                tally.took = Default::default();
                let facts = (
                    tally,
                    found.visitors.count(),
                    found.recent,
                    super::starts(&found),
                    with.counts(&[link("theirs"), link("none"), link("abc")]).await.unwrap(),
                );
                match stored {
                    false => before.push((facts, mean)),
                    true => {
                        let (same, same_mean) = &before[2 * at + n];
                        assert_eq!(facts, *same, "{subject:?} {period:?}");
                        assert!((mean - same_mean).abs() < 1e-9);
                    }
                }
            }
        }
        first.add(&batch).await.unwrap();
    }
    let plain = report(&first, &ClickSubject::Everything, ALWAYS).await;
    assert_eq!(before[6].0.0.clicks, plain.tally.clicks);
}
