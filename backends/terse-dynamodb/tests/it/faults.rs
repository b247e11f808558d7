//! Connections that break, and a server that goes away.

use std::time::{Duration, Instant};

use terse_core::{
    ChangeFeed, ClickSpend, ClickSpender, IdempotencyKey, Insert, Inserted, Link, LinkReader,
    LinkStore, Revision, StoreError, Updated,
};
use terse_dynamodb::{DynamoLinks, DynamoOptions};
use terse_testkit::{DynamoServer, TcpProxy, alias, generated};

use crate::support::{fresh, open, options};

/// Longer than a recovery takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn behind_proxy() -> (DynamoLinks, TcpProxy) {
    let direct = fresh().await;
    let proxy = TcpProxy::start(DynamoServer::shared().port());
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let through = DynamoOptions {
        budget: Duration::from_secs(5),
        ..options(&direct.address.table, &endpoint)
    };
    (open(&through).await, proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_link_whose_write_was_not_answered_is_created_once() {
    let (store, proxy) = behind_proxy().await;
    for n in 0..8 {
        let request =
            (n >= 4).then_some(IdempotencyKey { id: [n as u8; 32], fingerprint: [1; 32] });
        let name = format!("cut{n}");
        let link = match n % 4 {
            0 | 1 => generated(&name, "https://example.com/"),
            _ => alias(&name, "https://example.com/"),
        };
        let operation = if n < 2 {
            "DynamoDB_20120810.PutItem"
        } else {
            "DynamoDB_20120810.TransactWriteItems"
        };
        match n % 2 {
            0 => proxy.cut_after(operation, "200 OK"),
            _ => proxy.cut_before(operation),
        }
        let made = store.insert(Insert::new(link.clone(), request.clone())).await.unwrap();
        assert_eq!(made, Inserted::Created, "{name}");
        assert_eq!(proxy.cuts(), n + 1, "the connection was cut");
        assert_eq!(store.get(&link.key).await.unwrap().as_ref(), Some(&link));
        // The client that got no answer asks again, by its request id.
        if let Some(request) = request {
            let again = store.insert(Insert::new(alias("again", "https://x.y/"), Some(request)));
            let replayed = Inserted::Replayed { link: Some(Box::new(link)), created: true };
            assert_eq!(again.await.unwrap(), replayed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_whose_write_was_not_answered_is_made_once() {
    let (store, proxy) = behind_proxy().await;
    let link = alias("changed", "https://example.com/");
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
    proxy.cut_after("TransactWriteItems", "200 OK");
    let new = Link { crawlable: true, revision: Revision(2), ..link.clone() };
    assert_eq!(store.update(&new, Revision(1), &[]).await.unwrap(), Updated::Done);
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(store.get(&link.key).await.unwrap(), Some(new));
    assert_eq!(store.history(&link.key, 10).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_click_whose_spending_was_not_answered_is_not_spent_twice() {
    let (store, proxy) = behind_proxy().await;
    let link = Link { max_clicks: Some(2), ..alias("few", "https://example.com/") };
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
    proxy.cut_after("UpdateItem", "200 OK");
    let spent = store.spend(&link.key).await;
    assert!(matches!(spent, Err(StoreError::Unavailable(_))), "{spent:?}");
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(store.get(&link.key).await.unwrap().unwrap().spent_clicks, 1);
    assert_eq!(store.spend(&link.key).await.unwrap(), ClickSpend::Yes);
    assert_eq!(store.spend(&link.key).await.unwrap(), ClickSpend::UsedUp);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_goes_away_is_unavailable_and_comes_back() {
    let (store, proxy) = behind_proxy().await;
    let link = alias("kept", "https://example.com/");
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
    proxy.refuse();
    let (found, made, checked, feed) = tokio::join!(
        store.get(&link.key),
        store.insert(Insert::new(generated("other", "https://x.y/"), None)),
        store.check(),
        store.changes(terse_core::ChangeCursor(0), 1),
    );
    assert!(matches!(found, Err(StoreError::Unavailable(_))), "{found:?}");
    assert!(matches!(made, Err(StoreError::Unavailable(_))), "{made:?}");
    assert!(checked.is_err() && feed.is_err());
    proxy.accept();
    let begun = Instant::now();
    while store.get(&link.key).await.ok().flatten().is_none() {
        assert!(begun.elapsed() < TIMEOUT, "it does not come back");
    }
    store.check().await.unwrap();
    let later = generated("later", "https://x.y/");
    assert_eq!(store.insert(Insert::new(later, None)).await.unwrap(), Inserted::Created);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_store_is_unavailable_within_the_budget_and_its_writes_are_settled_later() {
    let direct = fresh().await;
    let proxy = TcpProxy::start(DynamoServer::shared().port());
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let impatient = DynamoOptions {
        attempt_timeout: Duration::from_millis(300),
        budget: Duration::from_millis(900),
        ..options(&direct.address.table, &endpoint)
    };
    let link = generated("slow", "https://example.com/");
    let request = Some(IdempotencyKey { id: [7; 32], fingerprint: [7; 32] });
    let patient = open(&direct).await;
    let store = loop {
        // Opening may be slower than that on a busy machine.
        if let Ok(store) = DynamoLinks::open(impatient.clone()).await {
            break store;
        }
    };
    proxy.delay(Duration::from_secs(2));
    let made = store.insert(Insert::new(link.clone(), request.clone())).await;
    assert!(matches!(made, Err(StoreError::Unavailable(_))), "{made:?}");
    proxy.delay(Duration::ZERO);
    // The caller does not know that the link was written. The request id settles it.
    let again = generated("slow2", "https://example.com/");
    let made = patient.insert(Insert::new(again, request)).await.unwrap();
    let replayed = Inserted::Replayed { link: Some(Box::new(link)), created: true };
    assert_eq!(made, replayed);
}

/// What was acknowledged is there after a crash of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_keeps_what_was_acknowledged() {
    let server = DynamoServer::start();
    let options = DynamoOptions {
        budget: Duration::from_secs(5),
        ..options(&server.fresh_name(), &server.endpoint())
    };
    terse_dynamodb::create(&options).await.unwrap();
    let store = open(&options).await;
    let mut kept = Vec::new();
    for n in 0..20 {
        let link = alias(&format!("kept-{n}"), "https://example.com/");
        store.insert(Insert::new(link.clone(), None)).await.unwrap();
        kept.push(link);
    }
    // Unlike the service, DynamoDB Local writes its file a moment after it has answered.
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.kill();
    let away = store.get(&kept[0].key).await;
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    server.run();
    let begun = Instant::now();
    while store.get(&kept[0].key).await.is_err() {
        assert!(begun.elapsed() < TIMEOUT, "it does not come back");
    }
    for link in kept {
        assert_eq!(store.get(&link.key).await.unwrap(), Some(link));
    }
    store.close().await;
}
