//! A synchronous standby that stands still: nothing is acknowledged that only the primary has.

use std::sync::Arc;
use std::time::Duration;

use terse_core::clicks::{
    Added, Batch, Click, ClickIngest as _, ClickTarget, JournalId, JournalSpan, LinkId,
};
use terse_core::registry::{CredentialStore as _, RegistryError, SecretHash};
use terse_core::{
    IdempotencyKey, Insert, Inserted, Link, LinkStore, OwnerId, StoreError, Timestamp,
};
use terse_postgres::{PostgresClicks, PostgresLinks, PostgresOptions, PostgresRegistry};
use terse_testkit::{PostgresServer, alias, key, wait_until};

/// Without a pooler, and with a short timeout: a commit that waits for the standby outlasts it.
fn options(server: &PostgresServer) -> PostgresOptions {
    let url = server.url(&server.fresh_database());
    PostgresOptions { statement_timeout: Duration::from_millis(600), ..PostgresOptions::new(url) }
}

fn request(n: u8) -> IdempotencyKey {
    IdempotencyKey { id: [n; 32], fingerprint: [1; 32] }
}

/// Commits that wait for the standby.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/// Cancels waits for the standby, as an operator may.
fn cancel_waits(server: &PostgresServer) {
    server.sql("postgres", &WAITING.replace("count(*)", "pg_cancel_backend(pid)"));
}

/// Cancels waits for the standby until a link is visible.
fn make_visible(server: &PostgresServer, database: &str, code: &str) {
    let visible = format!("SELECT count(*) FROM links WHERE code = '{code}'");
    wait_until("the link is visible", || {
        cancel_waits(server);
        server.sql(database, &visible) == "1"
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_before_the_standby_has_it() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let options = options(&server);
    let links = PostgresLinks::open(options.clone()).await.unwrap();
    let clicks = PostgresClicks::open(options, true).await.unwrap();
    let journal = JournalId([7; 16]);
    let epoch = clicks.open(journal).await.unwrap().epoch;
    let subject = LinkId { key: key("one"), created_at: Timestamp::EPOCH };
    let click = Click::bare(Timestamp::from_ms(1), ClickTarget::Link(subject, OwnerId(7)));
    let span = JournalSpan { journal, epoch, segment: 1, from: 0, to: 1 };
    let batch = Arc::new(Batch::of(vec![span], [click]));
    let insert = Insert::new(alias("new", "https://example.com/"), Some(request(1)));

    standby.stop_receiving();
    // Each is repeated after the first attempt has given up.
    for attempt in 1..=2 {
        let made = links.insert(insert.clone()).await;
        assert!(matches!(made, Err(StoreError::Unavailable(_))), "attempt {attempt}: {made:?}");
        let added = clicks.add(&batch).await;
        assert!(matches!(added, Err(StoreError::Unavailable(_))), "attempt {attempt}: {added:?}");
    }
    assert_eq!(server.sql("postgres", WAITING), "2", "both commits wait, and none was cancelled");
    standby.receive_again();
    let waits_for_none = || server.sql("postgres", WAITING) == "0";
    wait_until("the commits are done", waits_for_none);
    let replayed = links.insert(insert.clone()).await.unwrap();
    let created = Inserted::Replayed { link: Some(Box::new(insert.link)), created: true };
    assert_eq!(replayed, created);
    assert_eq!(clicks.add(&batch).await.unwrap(), Added::Already);
}

/// An operator may cancel the wait, or the server may end the connection. The row is then visible
/// on the primary, and the standby may never get it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_made_visible_is_not_acknowledged_before_the_standby_has_it() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let options = options(&server);
    let links = Arc::new(PostgresLinks::open(options.clone()).await.unwrap());
    let first = Insert::new(alias("first", "https://example.com/"), Some(request(1)));
    let second = Insert::new(alias("second", "https://example.com/"), Some(request(2)));
    links.insert(first.clone()).await.unwrap();

    standby.stop_receiving();
    let inserter = Arc::clone(&links);
    let sent = second.clone();
    let inserting = tokio::spawn(async move { inserter.insert(sent).await });
    make_visible(&server, &options.url, "second");
    let made = inserting.await.unwrap();
    assert!(matches!(made, Err(StoreError::Unavailable(_))), "{made:?}");
    let again = links.insert(second.clone()).await;
    assert!(again.is_err(), "{again:?}");
    let answered = links.answered(&request(2)).await;
    assert!(answered.is_err(), "{answered:?}");
    standby.receive_again();
    let waits_for_none = || server.sql("postgres", WAITING) == "0";
    wait_until("the commits are done", waits_for_none);
    let answered = links.answered(&request(2)).await.unwrap();
    assert!(matches!(answered, Some(Inserted::Replayed { .. })), "{answered:?}");
}

/// Without a request id the second attempt writes nothing, and an empty commit would not wait for
/// the standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_found_again_is_not_acknowledged_before_the_standby_has_it() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let options = options(&server);
    let links = Arc::new(PostgresLinks::open(options.clone()).await.unwrap());
    let link = Link { reusable: true, ..alias("shared", "https://example.com/") };
    let insert = Insert::new(link.clone(), None);

    standby.stop_receiving();
    let (inserter, sent) = (Arc::clone(&links), insert.clone());
    let inserting = tokio::spawn(async move { inserter.insert(sent).await });
    make_visible(&server, &options.url, "shared");
    let made = inserting.await.unwrap();
    assert!(matches!(made, Err(StoreError::Unavailable(_))), "{made:?}");
    let waits_for_none = || server.sql("postgres", WAITING) == "0";
    // A commit that waits keeps the alias locked.
    wait_until("no commit waits", || {
        cancel_waits(&server);
        waits_for_none()
    });
    let again = links.insert(insert.clone()).await;
    assert!(matches!(again, Err(StoreError::Unavailable(_))), "{again:?}");
    standby.receive_again();
    wait_until("the commits are done", waits_for_none);
    let again = links.insert(insert).await.unwrap();
    assert_eq!(again, Inserted::Existing(Box::new(link)));
}

/// The first attempt may be visible without being on the standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_that_changes_nothing_waits_for_the_standby_too() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let options = options(&server);
    let links = PostgresLinks::open(options.clone()).await.unwrap();
    let registry = PostgresRegistry::open_beside(&links.connections(), &options).await.unwrap();
    let gone = SecretHash([1; 32]);
    links.confirm().await.unwrap();
    registry.end_session(&gone).await.unwrap();

    standby.stop_receiving();
    let confirmed = links.confirm().await;
    assert!(matches!(confirmed, Err(StoreError::Unavailable(_))), "{confirmed:?}");
    let ended = registry.end_session(&gone).await;
    assert!(matches!(ended, Err(RegistryError::Store(_))), "{ended:?}");
    let ended = registry.end_sessions(OwnerId(7), None).await;
    assert!(matches!(ended, Err(RegistryError::Store(_))), "{ended:?}");
    standby.receive_again();
    let waits_for_none = || server.sql("postgres", WAITING) == "0";
    wait_until("the commits are done", waits_for_none);
    links.confirm().await.unwrap();
    registry.end_session(&gone).await.unwrap();
}
