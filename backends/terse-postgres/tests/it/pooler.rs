//! Behind pgbouncer in its transaction mode, where no statement, setting or lock may outlive its
//! transaction.

use std::collections::HashSet;

use terse_core::{
    ChangeFeed, Insert, Inserted, Link, LinkReader, LinkStore, ListQuery, Revision, Sort, Updated,
};
use terse_postgres::{PostgresLinks, PostgresOptions};
use terse_testkit::{PgBouncer, PostgresServer, alias, timestamp};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_work_through_a_pooler_with_fewer_connections_than_they_have() {
    let server = PostgresServer::shared();
    let database = server.fresh_database();
    // One less than the transactions that both nodes can have open: they take turns.
    let pooler = PgBouncer::start(server, 3);
    let options = PostgresOptions {
        direct_url: Some(server.url(&database)),
        ..PostgresOptions::new(pooler.url(&database))
    };
    let a = std::sync::Arc::new(PostgresLinks::open(options.clone()).await.unwrap());
    let b = std::sync::Arc::new(PostgresLinks::open(options).await.unwrap());
    let start = b.last_change().await.unwrap();
    let tasks: Vec<_> = (0..60)
        .map(|n| {
            let (a, b) = if n % 2 == 0 { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
            tokio::spawn(async move {
                let range = a.lease(7, 10, u64::MAX, 0).await.unwrap();
                let link = alias(&format!("link-{n}"), "https://example.com/");
                let made = a.insert(Insert::new(link.clone(), None)).await.unwrap();
                assert_eq!(made, Inserted::Created);
                assert_eq!(b.get(&link.key).await.unwrap().as_ref(), Some(&link));
                let new = Link { revision: Revision(2), updated_at: timestamp(n), ..link };
                assert_eq!(b.update(&new, Revision(1), &[]).await.unwrap(), Updated::Done);
                range.start
            })
        })
        .collect();
    let mut starts = HashSet::new();
    for task in tasks {
        starts.insert(task.await.unwrap());
    }
    assert_eq!(starts.len(), 60);
    let page = b.changes(start, 1000).await.unwrap();
    assert_eq!((page.changes.len(), page.gap), (120, false));
    let all = a.list(&ListQuery::all(Sort::Newest, 100, timestamp(0))).await.unwrap();
    assert_eq!(all.links.len(), 60);
}
