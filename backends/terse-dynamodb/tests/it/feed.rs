//! The feed of changes, where transactions become visible one item at a time.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use terse_core::{ChangeFeed, Insert, Link, LinkStore, Revision};
use terse_testkit::alias;

use crate::support::{fresh, open, raw};

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// DynamoDB shows the row of a change before the changed link, for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_passed_on_once_its_link_shows_it() {
    let options = fresh().await;
    let store = open(&options).await;
    let link = alias("early", "https://example.com/");
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
    let after = store.last_change().await.unwrap();
    let client = raw(&options);
    let table = &options.address.table;
    let item = client
        .get_item()
        .table_name(table)
        .key("pk", text("L##early"))
        .key("sk", text("L"))
        .send()
        .await
        .unwrap();
    let serial = item.item.unwrap()["serial"].clone();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ms = now.as_millis();
    let row = client
        .put_item()
        .table_name(table)
        .item("pk", text("C#1"))
        .item("sk", text(&format!("{ms:015}#0000000000000001")))
        .item("kind", text("changed"))
        .item("link", text("L##early"))
        .item("revision", AttributeValue::N("2".into()))
        .item("serial", serial)
        .item("at", AttributeValue::N(ms.to_string()));
    row.send().await.unwrap();
    assert_eq!(store.changes(after, 10).await.unwrap().changes, [], "the link has revision 1");
    let new = Link { revision: Revision(2), ..link };
    store.update(&new, Revision(1), &[]).await.unwrap();
    let page = store.changes(after, 10).await.unwrap();
    assert_eq!(page.changes.len(), 2, "both rows: {page:?}");
    assert!(!page.gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recent_changes_are_those_of_all_handles() {
    let options = fresh().await;
    let (a, b) = (open(&options).await, open(&options).await);
    for n in 0..5 {
        let link = alias(&format!("new-{n}"), "https://example.com/");
        a.insert(Insert::new(link, None)).await.unwrap();
    }
    let recent = b.recent_changes(Duration::from_secs(60), 5).await.unwrap();
    assert_eq!(recent.map(|changes| changes.len()), Some(5));
    assert_eq!(b.recent_changes(Duration::from_secs(60), 4).await.unwrap(), None);
}
