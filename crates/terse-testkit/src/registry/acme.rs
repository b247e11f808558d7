//! The records of certificates that terse orders itself.

use std::time::Duration;

use terse_core::Secret;
use terse_core::registry::{
    AcmeRecordKind, FencingToken, MAX_ACME_RECORD_BYTES, NodeId, RegistryError,
};

use super::{RegistryHandle, refused};

const DAY: Duration = Duration::from_secs(86_400);

async fn lease(store: &RegistryHandle) -> FencingToken {
    let node = NodeId::parse("a").unwrap();
    store.acquire_lease("jobs", &node, DAY).await.unwrap().unwrap().token
}

/// Every record as text.
async fn records(store: &RegistryHandle) -> Vec<String> {
    let all = store.acme_records().await.unwrap();
    assert_eq!(all.revision, store.acme_revision().await.unwrap());
    let text = |record: terse_core::registry::AcmeRecord| {
        format!("{} {} {}", record.kind.as_str(), record.name, record.value.reveal())
    };
    all.records.into_iter().map(text).collect()
}

pub async fn acme_records_are_replaced_and_removed(store: RegistryHandle) {
    let (token, put) = (lease(&store).await, |text: &str| Some(Secret::new(text)));
    assert_eq!((store.acme_revision().await.unwrap(), records(&store).await), (0, vec![]));
    let mut last = 0;
    for (kind, name, value) in [
        (AcmeRecordKind::Certificate, "go.example", put("one")),
        (AcmeRecordKind::Order, "go.example", put("{}")),
        (AcmeRecordKind::Certificate, "s.example", put("two")),
        (AcmeRecordKind::Certificate, "go.example", put("three")),
        (AcmeRecordKind::Order, "go.example", None),
        // Nothing is there; the revision may grow all the same.
        (AcmeRecordKind::Challenge, "go.example", None),
    ] {
        store.put_acme_record(token, kind, name, value.as_ref()).await.unwrap();
        let revision = store.acme_revision().await.unwrap();
        assert!(revision > last, "{revision} after {last}");
        last = revision;
    }
    assert_eq!(
        records(&store).await,
        ["certificate go.example three", "certificate s.example two"]
    );
    let (largest, longer) =
        ("x".repeat(MAX_ACME_RECORD_BYTES), "x".repeat(MAX_ACME_RECORD_BYTES + 1));
    let account = AcmeRecordKind::Account;
    store.put_acme_record(token, account, "https://ca", put(&largest).as_ref()).await.unwrap();
    refused!(
        store.put_acme_record(token, account, "https://ca", put(&longer).as_ref()).await,
        TooMany
    );
    let shown = format!("{:?}", store.acme_records().await.unwrap());
    assert!(!shown.contains("three"), "values are secrets: {shown}");
}

pub async fn acme_records_reach_the_other_handle(one: RegistryHandle, other: RegistryHandle) {
    let token = lease(&one).await;
    let kind = AcmeRecordKind::Certificate;
    one.put_acme_record(token, kind, "go.example", Some(&Secret::new("one"))).await.unwrap();
    assert_eq!(records(&other).await, ["certificate go.example one"]);
    let before = other.acme_revision().await.unwrap();
    // Another node runs the jobs now.
    let later = lease(&other).await;
    let late = one.put_acme_record(token, kind, "go.example", Some(&Secret::new("late"))).await;
    refused!(late, Fenced);
    assert_eq!(other.acme_revision().await.unwrap(), before);
    other.put_acme_record(later, kind, "go.example", None).await.unwrap();
    assert!(one.acme_revision().await.unwrap() > before, "a removal is a change");
    assert_eq!(records(&one).await, Vec::<String>::new());
}
