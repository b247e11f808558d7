//! A table that is throttled, and transactions that meet.

use std::sync::Arc;
use std::time::Duration;

use terse_core::{
    ClickSpend, ClickSpender, IdempotencyKey, Insert, Inserted, Link, LinkReader, LinkStore,
    Revision, StoreError, Updated,
};
use terse_dynamodb::{DynamoLinks, DynamoOptions};
use terse_testkit::{AnsweringProxy, DynamoServer, alias, generated, key};

use crate::support::{fresh, open, options};

const THROTTLED: &str = "ProvisionedThroughputExceededException";

/// A store behind a proxy, and one that reaches the same table directly.
async fn behind_proxy() -> (DynamoLinks, AnsweringProxy, DynamoLinks) {
    let direct = fresh().await;
    let proxy = AnsweringProxy::start(DynamoServer::shared().port());
    let through = DynamoOptions {
        budget: Duration::from_secs(3),
        ..options(&direct.address.table, &proxy.endpoint())
    };
    // The first handle writes the identity of the store.
    let direct = open(&direct).await;
    (open(&through).await, proxy, direct)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_throttled_for_a_moment_is_written_once() {
    let (store, proxy, direct) = behind_proxy().await;
    for (n, kind) in [THROTTLED, "ThrottlingException", "RequestLimitExceeded"].iter().enumerate() {
        proxy.fail("PutItem", 3, kind);
        proxy.fail("TransactWriteItems", 3, kind);
        let links = [
            alias(&format!("alias-{n}"), "https://example.com/"),
            generated(&format!("code{n}"), "https://example.com/"),
        ];
        for link in links {
            let made = store.insert(Insert::new(link.clone(), None)).await.unwrap();
            assert_eq!(made, Inserted::Created, "{kind}");
            assert_eq!(direct.get(&link.key).await.unwrap(), Some(link), "{kind}");
        }
    }
    assert_eq!((proxy.seen("PutItem"), proxy.seen("TransactWriteItems")), (12, 12));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_stays_throttled_is_busy_and_nothing_is_written() {
    let (store, proxy, direct) = behind_proxy().await;
    let link = alias("kept", "https://example.com/");
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
    for operation in ["PutItem", "TransactWriteItems", "GetItem", "UpdateItem"] {
        proxy.fail(operation, u32::MAX, THROTTLED);
    }
    let code = generated("busy", "https://example.com/");
    let made = store.insert(Insert::new(code.clone(), None)).await;
    assert!(matches!(made, Err(StoreError::Busy)), "{made:?}");
    let found = store.get(&link.key).await;
    assert!(matches!(found, Err(StoreError::Busy)), "{found:?}");
    let spent = store.spend(&link.key).await;
    assert!(matches!(spent, Err(StoreError::Busy)), "{spent:?}");
    assert!(store.check().await.is_err());
    assert_eq!(direct.get(&code.key).await.unwrap(), None, "nothing was written");
    for operation in ["PutItem", "TransactWriteItems", "GetItem", "UpdateItem"] {
        proxy.fail(operation, 0, THROTTLED);
    }
    let made = store.insert(Insert::new(code.clone(), None)).await.unwrap();
    assert_eq!(made, Inserted::Created);
    assert_eq!(store.get(&code.key).await.unwrap(), Some(code));
    assert_eq!(store.spend(&link.key).await.unwrap(), ClickSpend::Yes);
}

/// While everything is throttled, retries run out: a handle sends fewer requests, not more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_table_gets_fewer_requests_not_more() {
    let (store, proxy, _) = behind_proxy().await;
    let store = Arc::new(store);
    proxy.fail("PutItem", u32::MAX, THROTTLED);
    let callers: Vec<_> = (0..200)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let link = generated(&format!("all{n}"), "https://example.com/");
                store.insert(Insert::new(link, None)).await
            })
        })
        .collect();
    for caller in callers {
        let made = caller.await.unwrap();
        assert!(matches!(made, Err(StoreError::Busy)), "{made:?}");
    }
    // Each once, and as many retries as the handle has tokens for.
    let sent = proxy.seen("PutItem");
    assert!((200..=301).contains(&sent), "{sent} requests");
}

/// Only a failed condition means that a code is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_meets_another_is_repeated_and_not_taken() {
    let (store, proxy, direct) = behind_proxy().await;
    for (n, reason) in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"]
        .iter()
        .enumerate()
    {
        let body = format!(
            r#"{{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "CancellationReasons":[{{"Code":"{reason}"}},{{"Code":"None"}},{{"Code":"None"}}],
            "Message":"cancelled"}}"#
        );
        proxy.answer("TransactWriteItems", 2, &body);
        let link = alias(&format!("met-{n}"), "https://example.com/");
        let made = store.insert(Insert::new(link.clone(), None)).await.unwrap();
        assert_eq!(made, Inserted::Created, "{reason}");
        proxy.answer("TransactWriteItems", 2, &body);
        let new = Link { revision: Revision(2), ..link };
        assert_eq!(store.update(&new, Revision(1), &[]).await.unwrap(), Updated::Done);
        assert_eq!(direct.get(&new.key).await.unwrap(), Some(new));
    }
    proxy.fail("UpdateItem", 2, "TransactionConflictException");
    let limited = Link { max_clicks: Some(2), ..alias("few", "https://example.com/") };
    store.insert(Insert::new(limited.clone(), None)).await.unwrap();
    assert_eq!(store.spend(&limited.key).await.unwrap(), ClickSpend::Yes);
    assert_eq!(direct.get(&limited.key).await.unwrap().unwrap().spent_clicks, 1);
    // A request of an earlier attempt that is still under way.
    proxy.fail("TransactWriteItems", 2, "TransactionInProgressException");
    let request = Some(IdempotencyKey { id: [1; 32], fingerprint: [1; 32] });
    let link = alias("in-progress", "https://example.com/");
    let made = store.insert(Insert::new(link.clone(), request)).await.unwrap();
    assert_eq!(made, Inserted::Created);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn look_ups_of_many_visitors_are_read_together() {
    let (store, proxy, direct) = behind_proxy().await;
    let store = Arc::new(store);
    for n in 0..50 {
        let link = generated(&format!("many{n}"), "https://example.com/");
        direct.insert(Insert::new(link, None)).await.unwrap();
    }
    let visitors: Vec<_> = (0..1000)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.get(&key(&format!("many{}", n % 100))).await })
        })
        .collect();
    let mut found = 0;
    for visitor in visitors {
        found += usize::from(visitor.await.unwrap().unwrap().is_some());
    }
    assert_eq!(found, 500);
    let requests = proxy.seen("GetItem") + proxy.seen("BatchGetItem");
    assert!(requests < 250, "{requests} requests for 1000 look-ups");
    assert!(proxy.seen("BatchGetItem") > 0);
}
