//! One holder per journal: promises that only two handles on a store can break.

use std::sync::Arc;

use terse_core::Timestamp;
use terse_core::clicks::{
    Added, Batch, ClickSubject, Forgotten, JournalId, JournalSpan, Position, Unit,
};

use super::{
    ALWAYS, ClickStoreHandle, JOURNAL, OpenJournal, click, humans, link, positions, report,
};

const OTHER: JournalId = JournalId([0xfe; 16]);

fn batch(spans: &[JournalSpan]) -> Arc<Batch> {
    Arc::new(Batch::of(spans.to_vec(), [click(&link("abc"), 1)]))
}

async fn assert_counted(store: &ClickStoreHandle, clicks: u64) {
    let everything = report(store, &ClickSubject::Everything, ALWAYS).await.tally.clicks;
    assert_eq!(everything, humans(clicks));
    assert_eq!(store.counts(&[link("abc")]).await.unwrap(), [humans(clicks)]);
}

pub async fn opening_a_journal_fences_the_other_handle([first, second]: [ClickStoreHandle; 2]) {
    let before = OpenJournal::open(&first, JOURNAL).await;
    assert_eq!(first.add(&batch(&[before.span(1, 0, 10)])).await.unwrap(), Added::Done);
    let opened = second.open(JOURNAL).await.unwrap();
    assert!(opened.epoch > before.epoch);
    assert_eq!(opened.positions, [Position { journal: JOURNAL, segment: 1, to: 10 }]);
    for span in [before.span(1, 0, 10), before.span(1, 10, 20), before.span(2, 0, 10)] {
        assert_eq!(first.add(&batch(&[span])).await.unwrap(), Added::Fenced, "{span:?}");
    }
    assert_counted(&first, 1).await;
    let after = OpenJournal { journal: JOURNAL, epoch: opened.epoch };
    assert_eq!(second.add(&batch(&[after.span(1, 10, 20)])).await.unwrap(), Added::Done);
    // The first handle takes the journal back.
    let again = OpenJournal::open(&first, JOURNAL).await;
    assert!(again.epoch > after.epoch);
    assert_eq!(second.add(&batch(&[after.span(1, 20, 30)])).await.unwrap(), Added::Fenced);
    assert_eq!(first.add(&batch(&[again.span(1, 20, 30)])).await.unwrap(), Added::Done);
    assert_counted(&second, 3).await;
}

pub async fn a_batch_of_a_fenced_journal_is_refused_whole([first, second]: [ClickStoreHandle; 2]) {
    let ours = OpenJournal::open(&first, OTHER).await;
    let lost = OpenJournal::open(&first, JOURNAL).await;
    second.open(JOURNAL).await.unwrap();
    let spans = [ours.span(1, 0, 10), lost.span(1, 0, 10)];
    assert_eq!(first.add(&batch(&spans)).await.unwrap(), Added::Fenced);
    assert_counted(&second, 0).await;
    assert_eq!(first.add(&batch(&spans[..1])).await.unwrap(), Added::Done);
    assert_counted(&second, 1).await;
}

pub async fn a_batch_repeated_through_the_other_handle_is_already_counted(
    [first, second]: [ClickStoreHandle; 2],
) {
    let before = OpenJournal::open(&first, JOURNAL).await;
    let sent = batch(&[before.span(1, 0, 10), before.span(2, 0, 20)]);
    assert_eq!(first.add(&sent).await.unwrap(), Added::Done);
    let after = OpenJournal::open(&second, JOURNAL).await;
    let repeated = batch(&[after.span(1, 0, 10), after.span(2, 0, 20)]);
    assert_eq!(repeated.id, sent.id);
    assert_eq!(second.add(&repeated).await.unwrap(), Added::Already);
    assert_counted(&first, 1).await;
}

pub async fn a_gap_says_where_the_store_is([first, second]: [ClickStoreHandle; 2]) {
    let before = OpenJournal::open(&first, JOURNAL).await;
    first.add(&batch(&[before.span(1, 0, 10)])).await.unwrap();
    let after = OpenJournal::open(&second, JOURNAL).await;
    let position = |segment, to| Position { journal: JOURNAL, segment, to };
    let ahead = batch(&[after.span(2, 0, 5), after.span(1, 11, 20)]);
    let gap = Added::Gap(vec![position(2, 0), position(1, 10)]);
    assert_eq!(second.add(&ahead).await.unwrap(), gap);
    assert_counted(&first, 1).await;
    let next = batch(&[after.span(2, 0, 5), after.span(1, 10, 20)]);
    assert_eq!(second.add(&next).await.unwrap(), Added::Done);
    assert_counted(&first, 2).await;
}

pub async fn a_fenced_epoch_forgets_nothing([first, second]: [ClickStoreHandle; 2]) {
    let before = OpenJournal::open(&first, JOURNAL).await;
    first.add(&batch(&[before.span(1, 0, 10)])).await.unwrap();
    let opened = second.open(JOURNAL).await.unwrap();
    let forgotten = first.forget(JOURNAL, before.epoch, 9, &[1]).await.unwrap();
    assert_eq!(forgotten, Forgotten::Fenced);
    let again = first.open(JOURNAL).await.unwrap();
    assert_eq!((again.positions, again.generation), (opened.positions, opened.generation));
    assert_eq!(second.forget(OTHER, 1, 1, &[1]).await.unwrap(), Forgotten::Fenced, "not opened");
    let forgotten = first.forget(JOURNAL, again.epoch, 9, &[1]).await.unwrap();
    assert_eq!(forgotten, Forgotten::Done);
    assert_eq!(positions(&second, JOURNAL).await, []);
}

pub async fn journals_do_not_share_positions([first, second]: [ClickStoreHandle; 2]) {
    let ours = OpenJournal::open(&first, JOURNAL).await;
    let theirs = OpenJournal::open(&second, OTHER).await;
    assert_eq!(first.add(&batch(&[ours.span(1, 0, 10)])).await.unwrap(), Added::Done);
    assert_eq!(second.add(&batch(&[theirs.span(1, 0, 10)])).await.unwrap(), Added::Done);
    assert_counted(&first, 2).await;
    first.forget(JOURNAL, ours.epoch, 1, &[1]).await.unwrap();
    assert_eq!(second.add(&batch(&[theirs.span(1, 0, 10)])).await.unwrap(), Added::Already);
    assert_eq!(positions(&first, OTHER).await, [(1, 10)]);
    assert_eq!(positions(&second, JOURNAL).await, []);
    assert_counted(&first, 2).await;
}

pub async fn generations_only_rise([first, second]: [ClickStoreHandle; 2]) {
    let opened = first.open(JOURNAL).await.unwrap();
    assert_eq!((opened.generation, opened.positions), (0, vec![]));
    for (generation, highest) in [(3, 3), (2, 3), (3, 3), (8, 8)] {
        let epoch = first.open(JOURNAL).await.unwrap().epoch;
        first.forget(JOURNAL, epoch, generation, &[1]).await.unwrap();
        assert_eq!(second.open(JOURNAL).await.unwrap().generation, highest);
    }
    assert_eq!(second.open(OTHER).await.unwrap().generation, 0);
}

pub async fn imported_logs_are_forgotten_after_their_time([first, second]: [ClickStoreHandle; 2]) {
    let day = |day: i64| Timestamp::from_ms(day * Unit::Day.ms() + 5);
    let (old, new) = (JournalId([1; 16]), JournalId([2; 16]));
    for (journal, generation) in [
        (old, JournalId::log_generation(day(20_000))),
        (new, JournalId::log_generation(day(20_001))),
        // The folder of a node.
        (JOURNAL, 3),
    ] {
        let opened = OpenJournal::open(&first, journal).await;
        first.add(&batch(&[opened.span(7, 0, 10)])).await.unwrap();
        first.forget(journal, opened.epoch, generation, &[]).await.unwrap();
    }
    assert_eq!(second.forget_logs(day(20_000)).await.unwrap(), 0);
    assert_eq!(second.forget_logs(day(20_001)).await.unwrap(), 1);
    assert_eq!(positions(&first, old).await, []);
    assert_eq!(positions(&first, new).await, [(7, 10)]);
    assert_eq!(positions(&first, JOURNAL).await, [(7, 10)]);
    assert_eq!(first.open(old).await.unwrap().generation, 0);
    assert_counted(&first, 3).await;
}

pub async fn of_racing_handles_that_open_a_journal_one_can_add(handles: [ClickStoreHandle; 2]) {
    let racing: Vec<_> = (0..20)
        .map(|n| {
            let store = Arc::clone(&handles[n % 2]);
            tokio::spawn(async move { store.open(JOURNAL).await.unwrap().epoch })
        })
        .collect();
    let mut epochs = Vec::new();
    for one in racing {
        epochs.push(one.await.unwrap());
    }
    epochs.sort_unstable();
    assert!(epochs.is_sorted_by(|a, b| a < b), "each opener has an epoch of its own: {epochs:?}");
    for (epoch, n) in epochs.into_iter().zip(1..) {
        let journal = OpenJournal { journal: JOURNAL, epoch };
        let added = handles[n % 2].add(&batch(&[journal.span(1, 0, 10)])).await.unwrap();
        assert_eq!(added, if n == 20 { Added::Done } else { Added::Fenced });
    }
    assert_counted(&handles[0], 1).await;
}
