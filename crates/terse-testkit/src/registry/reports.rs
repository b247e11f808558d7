//! Abuse reports.

use std::sync::Arc;

use terse_core::OwnerId;
use terse_core::registry::{
    AbuseReport, AuditAction, NewReport, ReportState, ReportedLink, TEXTS_SHOWN, subject,
};

use super::{RegistryHandle, acts, by, log, race};
use crate::{key, timestamp};

pub(crate) fn report(code: &str, reporter: u8) -> NewReport {
    NewReport {
        link: key(code),
        created_at: timestamp(-5),
        reporter: [reporter; 16],
        account: None,
        reason: "phishing".into(),
        text: None,
        at: timestamp(i64::from(reporter)),
    }
}

async fn reporters(store: &RegistryHandle, code: &str, reporter: u8) -> u64 {
    store.report(report(code, reporter)).await.unwrap().reporters
}

async fn open(store: &RegistryHandle) -> Vec<AbuseReport> {
    store.reports(ReportState::Open, None, 1000).await.unwrap()
}

pub async fn one_reporter_counts_once_while_open(store: RegistryHandle) {
    let report = NewReport {
        account: Some(OwnerId(1000)),
        text: Some("see\u{e9}".into()),
        ..report("abc", 1)
    };
    let first = store.report(report.clone()).await.unwrap();
    assert_eq!(first.reporters, 1);
    assert_eq!(store.report(NewReport { text: None, ..report.clone() }).await.unwrap(), first);
    let NewReport { link, created_at, reporter: _, account, reason, text, at } = report;
    let kept = AbuseReport {
        id: first.id,
        link,
        created_at,
        account,
        reason,
        text,
        at,
        state: ReportState::Open,
    };
    assert_eq!(open(&store).await, [kept], "the first one is kept");
    assert_eq!(reporters(&store, "abc", 2).await, 2);
    assert_eq!(reporters(&store, "abc", 3).await, 3);
    assert_eq!(reporters(&store, "abc", 2).await, 3);
    assert!(acts(&store).await.is_empty(), "reports are not audited");
}

pub async fn reporters_are_counted_per_link(store: RegistryHandle) {
    assert_eq!(reporters(&store, "abc", 1).await, 1);
    assert_eq!(reporters(&store, "ABC", 1).await, 1);
    assert_eq!(reporters(&store, "abd", 2).await, 1);
    // A later link with the same code is another link.
    let younger = NewReport { created_at: timestamp(-4), ..report("abc", 1) };
    assert_eq!(store.report(younger).await.unwrap().reporters, 1);
    assert_eq!(reporters(&store, "abc", 2).await, 2);
    assert_eq!(open(&store).await.len(), 5);
}

pub async fn racing_reports_are_counted_exactly(store: RegistryHandle) {
    let racing = (0..60).map(|n| {
        let store = Arc::clone(&store);
        async move { store.report(report("abc", n % 20)).await.unwrap() }
    });
    let reports = race(racing).await;
    assert_eq!(reports.iter().map(|one| one.reporters).max(), Some(20));
    let mut ids: Vec<_> = reports.iter().map(|one| one.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 20);
    assert_eq!(open(&store).await.len(), 20);
}

pub async fn settled_reports_are_over_and_new_ones_count_anew(store: RegistryHandle) {
    for reporter in 1..=3 {
        reporters(&store, "abc", reporter).await;
    }
    reporters(&store, "other", 1).await;
    assert_eq!(
        store
            .settle_reports(None, &key("abc"), timestamp(-5), ReportState::Open, by())
            .await
            .unwrap(),
        0,
        "which settles nothing"
    );
    // Links that had this code before, or have it since, have reports of their own. An import can
    // bring back a link with an earlier creation time.
    for seconds in [-6, -4] {
        let created_at = timestamp(seconds);
        store.report(NewReport { created_at, ..report("abc", 1) }).await.unwrap();
    }
    assert_eq!(
        store
            .settle_reports(None, &key("abc"), timestamp(-5), ReportState::Cleared, by())
            .await
            .unwrap(),
        3
    );
    assert_eq!(
        store
            .settle_reports(None, &key("abc"), timestamp(-5), ReportState::Confirmed, by())
            .await
            .unwrap(),
        0
    );
    assert_eq!(
        store
            .settle_reports(None, &key("unknown"), timestamp(-5), ReportState::Cleared, by())
            .await
            .unwrap(),
        0
    );
    assert_eq!(acts(&store).await, [AuditAction::ReportSettled]);
    let line = &log(&store).await[0];
    assert_eq!(
        (&line.subject, line.why.as_deref()),
        (&subject::link(&key("abc")), Some("because"))
    );
    let cleared = store.reports(ReportState::Cleared, None, 1000).await.unwrap();
    assert_eq!((cleared.len(), open(&store).await.len()), (3, 3));
    // The same reporter may report again after a decision.
    let again = store.report(report("abc", 1)).await.unwrap();
    assert!(again.reporters == 1 && cleared.iter().all(|report| report.id < again.id));
    assert_eq!(reporters(&store, "abc", 2).await, 2);
    assert_eq!(
        store
            .settle_reports(None, &key("abc"), timestamp(-5), ReportState::Confirmed, by())
            .await
            .unwrap(),
        2
    );
    assert_eq!(store.reports(ReportState::Confirmed, None, 1000).await.unwrap().len(), 2);
}

pub async fn reports_are_walked_by_state(store: RegistryHandle) {
    for n in 0..10 {
        reporters(&store, &format!("abc{n}"), n).await;
    }
    for n in [2, 5, 6] {
        store
            .settle_reports(
                None,
                &key(&format!("abc{n}")),
                timestamp(-5),
                ReportState::Confirmed,
                by(),
            )
            .await
            .unwrap();
    }
    let (mut walked, mut after) = (Vec::new(), None);
    loop {
        let some = store.reports(ReportState::Open, after, 3).await.unwrap();
        after = match some.last() {
            Some(report) => Some(report.id),
            None => break,
        };
        walked.extend(some.into_iter().map(|report| report.at));
    }
    assert_eq!(walked, [0, 1, 3, 4, 7, 8, 9].map(timestamp));
    let confirmed = store.reports(ReportState::Confirmed, None, 2).await.unwrap();
    assert_eq!(confirmed.iter().map(|report| report.at).collect::<Vec<_>>(), [2, 5].map(timestamp));
}

async fn reported(store: &RegistryHandle, state: ReportState) -> Vec<ReportedLink> {
    store.reported(state, None, 1000).await.unwrap()
}

pub async fn reports_are_told_link_by_link(store: RegistryHandle) {
    let said = |code: &str, reporter: u8, reason: &str, text: Option<&str>| NewReport {
        reason: reason.into(),
        text: text.map(Into::into),
        ..report(code, reporter)
    };
    store.report(said("abc", 3, "spam", Some("one"))).await.unwrap();
    let other = store.report(said("other", 1, "malware", None)).await.unwrap();
    store.report(said("abc", 1, "phishing", Some("two"))).await.unwrap();
    store.report(said("abc", 2, "spam", None)).await.unwrap();
    let younger = store
        .report(NewReport { created_at: timestamp(-4), ..said("abc", 1, "illegal", None) })
        .await
        .unwrap();
    let links = reported(&store, ReportState::Open).await;
    assert_eq!(links.len(), 3, "another link that had the same code is another link");
    let ReportedLink { link, created_at, count, reasons, since, last, texts, .. } = &links[0];
    assert_eq!((link, *created_at, *count), (&key("abc"), timestamp(-5), 3));
    assert_eq!(*reasons, [("phishing".to_owned(), 1), ("spam".to_owned(), 2)]);
    assert_eq!((*since, *last), (timestamp(1), timestamp(3)));
    assert_eq!(*texts, ["two", "one"]);
    assert_eq!((links[1].first, links[2].first), (other.id, younger.id));
    // Page by page, and settled ones apart.
    let first = store.reported(ReportState::Open, None, 2).await.unwrap();
    assert_eq!(first, links[..2]);
    assert_eq!(
        store.reported(ReportState::Open, Some(first[1].first), 2).await.unwrap(),
        links[2..]
    );
    store
        .settle_reports(None, &key("abc"), timestamp(-5), ReportState::Cleared, by())
        .await
        .unwrap();
    assert_eq!(reported(&store, ReportState::Open).await, links[1..]);
    assert_eq!(reported(&store, ReportState::Cleared).await, links[..1]);
    // However many texts there are, the list shows only the latest.
    for n in 0..30 {
        store.report(said("loud", n, "other", Some(&n.to_string()))).await.unwrap();
    }
    let loud = reported(&store, ReportState::Open).await.pop().unwrap();
    assert_eq!((loud.count, loud.texts.len(), &*loud.texts[0]), (30, TEXTS_SHOWN, "29"));
}
