//! Concurrent calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terse_core::clicks::{Added, Batch, Click, ClickSubject};

use super::{
    ALWAYS, ClickStoreHandle, HOUR, JOURNAL, OWNER, OpenJournal, click, humans, link, positions,
    put, report,
};

pub async fn a_huge_batch_is_counted(store: ClickStoreHandle) {
    let links: Vec<_> = (0..500).map(|n| link(&format!("link-{n}"))).collect();
    let clicks = (0..20_000).map(|n: usize| Click {
        visitor: Some(n as u64 + 1),
        referrer: Some(format!("host-{}.example", n % 1000).into()),
        ..click(&links[n % 500], n as i64)
    });
    let journal = OpenJournal::open(&store, JOURNAL).await;
    let spans = (1..=100).map(|segment| journal.span(segment, 0, 1_000_000)).collect();
    let batch = Arc::new(Batch::of(spans, clicks));
    assert_eq!(store.add(&batch).await.unwrap(), Added::Done);
    assert_eq!(store.add(&batch).await.unwrap(), Added::Already);
    assert!(store.counts(&links).await.unwrap().iter().all(|count| *count == humans(40)));
    assert_eq!(
        report(&store, &ClickSubject::Everything, ALWAYS).await.tally.clicks,
        humans(20_000)
    );
    assert_eq!(positions(&store, JOURNAL).await.len(), 100);
}

pub async fn a_reader_never_sees_half_a_batch(store: ClickStoreHandle) {
    let links: Vec<_> = (0..20).map(|n| link(&format!("link-{n}"))).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, stop, links) = (store.clone(), stop.clone(), links.clone());
            tokio::spawn(async move {
                let mut seen = 0;
                loop {
                    let counts = store.counts(&links).await.unwrap();
                    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
                    let whole = report(&store, &ClickSubject::Everything, ALWAYS).await;
                    assert_eq!(whole.tally.clicks.humans % 40, 0);
                    assert_eq!(super::in_buckets(&whole), whole.tally.clicks);
                    assert!(
                        whole.tally.clicks.humans >= counts[0].humans * 20,
                        "never back in time"
                    );
                    seen += 1;
                    if stop.load(Ordering::Relaxed) {
                        return seen;
                    }
                }
            })
        })
        .collect();
    for round in 0..30 {
        // Each link twice, in two hours.
        let clicks = links.iter().flat_map(|link| [click(link, round), click(link, HOUR + round)]);
        put(&store, clicks.collect()).await;
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    let mut sum = 0;
    for count in store.counts(&links).await.unwrap() {
        sum += count.humans;
    }
    assert_eq!(sum, 1200);
    assert_eq!(report(&store, &ClickSubject::Everything, ALWAYS).await.tally.clicks, humans(sum));
    assert_eq!(report(&store, &ClickSubject::Owner(OWNER), ALWAYS).await.tally.clicks, humans(sum));
}
