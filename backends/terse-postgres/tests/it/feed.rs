//! The feed of changes while transactions overlap.

use std::sync::Arc;
use std::time::Duration;

use terse_core::job::{Job as _, JobContext};
use terse_core::registry::{JobLease as _, NodeId};
use terse_core::{ChangeFeed, Link, LinkStore, Revision};
use terse_postgres::{OldLinkChanges, PostgresLinks, PostgresOptions, PostgresRegistry};
use terse_testkit::PostgresServer;

use crate::faults::put;
use crate::session::OpenTransaction;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_commits_late_arrives_and_none_arrives_twice() {
    let url = PostgresServer::shared().fresh();
    let store = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    let start = store.last_change().await.unwrap();
    // It takes its row number early and commits late, as another node's transaction may.
    let late = "INSERT INTO link_changes (domain, code, revision) VALUES ('', 'late', 9)";
    let late = OpenTransaction::begin(&url, late);
    let link = put(&store, "early").await;
    // The row of the open transaction has a lower number.
    let page = store.changes(start, 100).await.unwrap();
    assert_eq!(page.changes.len(), 1);
    assert_eq!(page.changes[0].key, link.key);
    for revision in 1..=3 {
        let new = Link { revision: Revision(revision + 1), ..link.clone() };
        store.update(&new, Revision(revision), &[]).await.unwrap();
    }
    let page = store.changes(page.next, 100).await.unwrap();
    let revisions: Vec<u64> = page.changes.iter().map(|change| change.revision.0).collect();
    assert_eq!(revisions, [2, 3, 4]);
    late.commit();
    let page = store.changes(page.next, 100).await.unwrap();
    assert_eq!(page.changes.len(), 1);
    assert_eq!(page.changes[0].key.code.as_str(), "late");
    assert!(!page.gap);
    assert_eq!(store.changes(page.next, 100).await.unwrap().changes, []);
    // A page that was read before can be read again.
    assert_eq!(store.changes(start, 100).await.unwrap().changes.len(), 5);
}

#[tokio::test]
async fn a_reader_that_was_away_for_long_or_saw_a_restore_forgets_everything() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let store = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    let before = store.last_change().await.unwrap();
    store.raise_incarnation(store.incarnation().await.unwrap()).await.unwrap();
    let page = store.changes(before, 100).await.unwrap();
    assert!(page.gap);
    let page = store.changes(page.next, 100).await.unwrap();
    assert!(!page.gap, "once");
    // More than anyone should forget one by one.
    server.sql(
        &url,
        "INSERT INTO link_changes (domain, code, revision) \
         SELECT '', 'code-' || n, 1 FROM generate_series(1, 10001) AS n",
    );
    let page = store.changes(page.next, 100).await.unwrap();
    assert!(page.gap);
    assert!(!store.changes(page.next, 100).await.unwrap().gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_old_changes_are_removed_under_the_lease_however_many_there_are() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let options = PostgresOptions::new(url.clone());
    let store = PostgresLinks::open(options.clone()).await.unwrap();
    let registry = PostgresRegistry::open_beside(&store.connections(), &options).await.unwrap();
    let registry = Arc::new(registry);
    let changes = |n: u32, age: &str| {
        format!(
            "INSERT INTO link_changes (domain, code, revision, at) \
             SELECT '', 'code-' || n, 1, now() - interval '{age}' FROM generate_series(1, {n}) AS n"
        )
    };
    server.sql(&url, &changes(25_000, "21 minutes"));
    server.sql(&url, &changes(3, "19 minutes"));
    let left = || server.sql(&url, "SELECT count(*) FROM link_changes");
    let node = NodeId::parse("one").unwrap();
    let ttl = Duration::from_secs(60);
    let lease = async || registry.acquire_lease("jobs", &node, ttl).await.unwrap().unwrap().token;
    let (before, token) = (lease().await, lease().await);
    let mut job = OldLinkChanges::new(&store.connections());
    assert!(job.needs_lease());
    job.run(&JobContext::leased(registry.clone(), before)).await.unwrap_err();
    assert_eq!(left(), "25003", "the lease has been taken over");
    job.run(&JobContext::leased(registry, token)).await.unwrap();
    assert_eq!(left(), "3");
}
