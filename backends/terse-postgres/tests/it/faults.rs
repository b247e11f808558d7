//! Connections that break, and a server that goes away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use terse_core::{
    ChangeFeed, ClickSpend, ClickSpender, IdempotencyKey, Insert, Inserted, Link, LinkReader,
    LinkStore, Revision, StoreError, Updated,
};
use terse_postgres::{PostgresLinks, PostgresOptions};
use terse_testkit::{PostgresServer, TcpProxy, alias, key, wait_until};

use crate::session::OpenTransaction;

/// Longer than a recovery takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn put(store: &PostgresLinks, code: &str) -> Link {
    let link = alias(code, "https://example.com/");
    let outcome = store.insert(Insert::new(link.clone(), None)).await.unwrap();
    assert_eq!(outcome, Inserted::Created);
    link
}

/// A store behind a proxy.
async fn behind_proxy(server: &PostgresServer) -> (PostgresLinks, TcpProxy, String) {
    let url = server.fresh();
    let proxy = TcpProxy::start(server.port());
    let through = url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let options =
        PostgresOptions { direct_url: Some(url.clone()), ..PostgresOptions::new(through) };
    (PostgresLinks::open(options).await.unwrap(), proxy, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_link_whose_commit_was_not_answered_is_created_once() {
    let (store, proxy, _) = behind_proxy(PostgresServer::shared()).await;
    for n in 0..6 {
        let code = format!("cut-{n}");
        let request =
            (n >= 2).then_some(IdempotencyKey { id: [n as u8; 32], fingerprint: [1; 32] });
        let link = Link { reusable: n >= 4, ..alias(&code, "https://example.com/") };
        match n % 2 {
            0 => proxy.cut_after("; COMMIT", "COMMIT"),
            _ => proxy.cut_before("; COMMIT"),
        }
        let outcome = store.insert(Insert::new(link.clone(), request.clone())).await.unwrap();
        assert_eq!(outcome, Inserted::Created, "{code}");
        assert_eq!(proxy.cuts(), n + 1, "the connection was cut");
        assert_eq!(store.get(&link.key).await.unwrap(), Some(link.clone()));
        let again = store.insert(Insert::new(link.clone(), request.clone())).await;
        match (request, link.reusable) {
            (Some(_), _) => assert_eq!(
                again.unwrap(),
                Inserted::Replayed { link: Some(Box::new(link)), created: true }
            ),
            (None, true) => assert_eq!(again.unwrap(), Inserted::Existing(Box::new(link))),
            (None, false) => assert!(matches!(again, Err(StoreError::CodeTaken)), "{again:?}"),
        }
    }
}

/// Only the caller may decide about these: a second attempt could spend a second click, or undo
/// what another caller did in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_writes_whose_commit_was_not_answered_are_unavailable() {
    let (store, proxy, url) = behind_proxy(PostgresServer::shared()).await;
    let link = Link { max_clicks: Some(5), ..alias("limited", "https://example.com/") };
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
    proxy.cut_after("SET spent_clicks", "COMMIT");
    let spent = store.spend(&link.key).await;
    assert!(matches!(spent, Err(StoreError::Unavailable(_))), "{spent:?}");
    let spent = PostgresServer::shared().sql(&url, "SELECT spent_clicks FROM links");
    assert_eq!(spent, "1", "it happened, once");
    proxy.cut_after("; COMMIT", "COMMIT");
    let new = Link { revision: Revision(2), ..link.clone() };
    let updated = store.update(&new, Revision(1), &[]).await;
    assert!(matches!(updated, Err(StoreError::Unavailable(_))), "{updated:?}");
    let again = store.update(&new, Revision(1), &[]).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    assert_eq!(proxy.cuts(), 2);
}

/// Nothing was committed, so the caller does not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_was_cut_before_its_commit_is_repeated() {
    let (store, proxy, _) = behind_proxy(PostgresServer::shared()).await;
    let link = put(&store, "changed").await;
    proxy.cut_before("link_changes");
    let new = Link { revision: Revision(2), ..link };
    assert_eq!(store.update(&new, Revision(1), &[]).await.unwrap(), Updated::Done);
    assert_eq!(proxy.cuts(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_goes_away_is_unavailable_and_comes_back() {
    let (store, proxy, _) = behind_proxy(PostgresServer::shared()).await;
    let link = put(&store, "kept").await;
    proxy.refuse();
    for _ in 0..3 {
        let found = store.get(&link.key).await;
        assert!(matches!(found, Err(StoreError::Unavailable(_))), "{found:?}");
        let made = store.insert(Insert::new(alias("other", "https://x.y/"), None)).await;
        assert!(matches!(made, Err(StoreError::Unavailable(_))), "{made:?}");
        assert!(store.check().await.is_err());
        assert!(store.changes(terse_core::ChangeCursor(0), 1).await.is_err());
    }
    proxy.accept();
    let begun = Instant::now();
    while store.get(&link.key).await.ok().flatten().is_none()
        || store.insert(Insert::new(alias("later", "https://x.y/"), None)).await.is_err()
    {
        assert!(begun.elapsed() < TIMEOUT, "it does not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
        if store.get(&key("later")).await.ok().flatten().is_some() {
            break;
        }
    }
    store.check().await.unwrap();
}

/// A cancel request is a connection of its own. pgbouncer 1.18 exits when such a connection is
/// closed early, so terse sends none through a pooler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_sends_no_cancel_request_through_a_pooler() {
    let server = PostgresServer::shared();
    let (store, proxy, url) = behind_proxy(server).await;
    let link = put(&store, "locked").await;
    let before = proxy.connections();
    let holder = std::thread::spawn(move || {
        PostgresServer::shared().sql(&url, "BEGIN; LOCK TABLE links; SELECT pg_sleep(2); COMMIT")
    });
    let new = Link { revision: Revision(2), ..link };
    // The write waits for the lock once its holder has it.
    loop {
        let update = store.update(&new, new.revision, &[]);
        if tokio::time::timeout(Duration::from_millis(300), update).await.is_err() {
            break;
        }
        assert!(!holder.is_finished(), "nobody held the lock");
    }
    holder.join().unwrap();
    assert_eq!(store.update(&new, Revision(1), &[]).await.unwrap(), Updated::Done);
    let connections = proxy.connections() - before;
    assert_eq!(connections, 1, "one replaces the connection that was given up");
}

/// The server goes on with a statement whose client is gone, so its connection counts until it
/// ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_give_up_behind_a_pooler_open_no_more_connections_than_the_pool_has() {
    let (store, proxy, url) = behind_proxy(PostgresServer::shared()).await;
    let link = put(&store, "locked").await;
    let holder = std::thread::spawn(move || {
        PostgresServer::shared().sql(&url, "BEGIN; LOCK TABLE links; SELECT pg_sleep(4); COMMIT")
    });
    let new = Link { revision: Revision(2), ..link };
    let (before, mut given_up) = (proxy.connections(), 0);
    while given_up < 8 {
        let update = store.update(&new, new.revision, &[]);
        let waited = tokio::time::timeout(Duration::from_millis(200), update).await;
        given_up += u32::from(waited.is_err());
        assert!(!holder.is_finished(), "nobody held the lock for long enough");
    }
    let connections = proxy.connections() - before;
    assert!(connections < PostgresOptions::WRITE_CONNECTIONS, "{connections} beside the first");
    holder.join().unwrap();
}

/// Waits until a link is found again.
async fn wait_for_lookups(store: &PostgresLinks, link: &Link) {
    let begun = Instant::now();
    while store.get(&link.key).await.ok().flatten().is_none() {
        assert!(begun.elapsed() < TIMEOUT, "lookups do not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The server goes on with a statement whose client is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_that_give_up_do_not_pile_up_in_the_server() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let lookup_timeout = Duration::from_secs(1);
    let options = PostgresOptions { lookup_timeout, ..PostgresOptions::new(url.clone()) };
    let store = PostgresLinks::open(options).await.unwrap();
    let link = put(&store, "locked").await;
    let lock = OpenTransaction::begin(&url, "LOCK TABLE links");
    let waiting = "SELECT count(*) FROM pg_locks \
         WHERE relation = 'links'::regclass AND NOT granted";
    for _ in 0..6 {
        let found = store.get(&link.key).await;
        assert!(matches!(found, Err(StoreError::Unavailable(_))), "{found:?}");
        let waiting: usize = server.sql(&url, waiting).parse().unwrap();
        assert!(waiting <= PostgresOptions::LOOKUP_CONNECTIONS, "{waiting} statements");
    }
    lock.commit();
    wait_for_lookups(&store, &link).await;
}

/// Behind a pooler terse cannot limit nor cancel a lookup, so its connection counts until it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_that_give_up_behind_a_pooler_open_no_further_connections() {
    let (store, proxy, url) = behind_proxy(PostgresServer::shared()).await;
    let link = put(&store, "locked").await;
    // They take turns on the connections.
    for _ in 0..PostgresOptions::LOOKUP_CONNECTIONS {
        assert!(store.get(&link.key).await.unwrap().is_some());
    }
    let before = proxy.connections();
    let lock = OpenTransaction::begin(&url, "LOCK TABLE links");
    for _ in 0..2 * PostgresOptions::LOOKUP_CONNECTIONS {
        let found = store.get(&link.key).await;
        assert!(matches!(found, Err(StoreError::Unavailable(_))), "{found:?}");
    }
    assert_eq!(proxy.connections() - before, 0);
    lock.commit();
    wait_for_lookups(&store, &link).await;
}

/// The transaction of the first visit waits for a lock; the others wait for that transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visits_of_one_link_are_counted_together_and_do_not_hold_up_creates() {
    let server = PostgresServer::shared();
    let database = server.fresh_database();
    let sql = |text: &str| server.sql(&database, text);
    // No timeout ends the wait for the lock.
    let statement_timeout = Duration::from_secs(600);
    let url = server.url(&database);
    let options = PostgresOptions { statement_timeout, ..PostgresOptions::new(url.clone()) };
    let store = Arc::new(PostgresLinks::open(options).await.unwrap());
    let link = Link { max_clicks: Some(9), ..alias("limited", "https://example.com/") };
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
    sql("CREATE TABLE updates (n bigint); CREATE FUNCTION note() RETURNS trigger AS $$ \
         BEGIN INSERT INTO updates VALUES (NEW.spent_clicks); RETURN NEW; END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER note AFTER UPDATE ON links FOR EACH ROW EXECUTE FUNCTION note()");
    let lock = OpenTransaction::begin(&url, "SELECT FROM links FOR UPDATE");
    let visit = || {
        let (store, key) = (Arc::clone(&store), link.key.clone());
        async move { store.spend(&key).await }
    };
    let first = tokio::spawn(visit());
    let waiting = "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_until("the first visit waits for the lock", || sql(waiting) == "1");
    // It is in the server already, and its click is lost.
    first.abort();
    let mut given_up = Box::pin(futures_util::future::join_all((0..5).map(|_| visit())));
    assert!((&mut given_up).now_or_never().is_none());
    let mut others = Box::pin(futures_util::future::join_all((0..20).map(|_| visit())));
    assert!((&mut others).now_or_never().is_none());
    // These are not, and cost nothing.
    drop(given_up);
    put(&store, "meanwhile").await;
    assert_eq!(sql(waiting), "1", "creates and other visits do not wait");
    lock.commit();
    let answers: Vec<_> = others.await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers[..8], [ClickSpend::Yes; 8]);
    assert_eq!(answers[8..], [ClickSpend::UsedUp; 12]);
    assert_eq!(sql("SELECT string_agg(n::text, ' ' ORDER BY n) FROM updates"), "1 9");
}

/// A node whose transaction locked the link does not keep visits of other links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visit_of_a_locked_link_fails_alone() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let store = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    let mut keys = Vec::new();
    for code in ["first", "locked", "second"] {
        let link = Link { max_clicks: Some(1), ..alias(code, "https://example.com/") };
        store.insert(Insert::new(link.clone(), None)).await.unwrap();
        keys.push(link.key);
    }
    let _lock = OpenTransaction::begin(&url, "SELECT FROM links WHERE code = 'locked' FOR UPDATE");
    let spent = futures_util::future::join_all(keys.iter().map(|key| store.spend(key))).await;
    assert!(matches!(spent[0], Ok(ClickSpend::Yes)), "{spent:?}");
    assert!(matches!(spent[1], Err(StoreError::Unavailable(_))), "{spent:?}");
    assert!(matches!(spent[2], Ok(ClickSpend::Yes)), "{spent:?}");
}

/// Durable: what was acknowledged is there after a crash of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_keeps_what_was_acknowledged() {
    let server = PostgresServer::start(&["fsync=on"]);
    let store = PostgresLinks::open(PostgresOptions::new(server.fresh())).await.unwrap();
    let mut kept = Vec::new();
    for n in 0..20 {
        kept.push(put(&store, &format!("kept-{n}")).await.key);
    }
    server.stop();
    let away = store.get(&kept[0]).await;
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    server.run();
    let begun = Instant::now();
    while store.get(&kept[0]).await.is_err() {
        assert!(begun.elapsed() < TIMEOUT, "it does not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for key in &kept {
        assert!(store.get(key).await.unwrap().is_some(), "{key:?}");
    }
    let begun = Instant::now();
    loop {
        match store.spend(&kept[0]).await {
            Ok(spent) => break assert_eq!(spent, ClickSpend::Yes),
            Err(_) => assert!(begun.elapsed() < TIMEOUT, "writes do not come back"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.close().await;
    let closed = store.get(&kept[0]).await;
    assert!(matches!(closed, Err(StoreError::Unavailable(_))), "{closed:?}");
}

/// On one thread, so that all links wait for the same commit.
#[tokio::test]
async fn a_link_that_the_database_refuses_fails_alone() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let store = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    server.sql(&url, "ALTER TABLE links ADD CHECK (code <> 'refused')");
    let codes: Vec<String> =
        (0..9).map(|n| format!("fine-{n}")).chain(["refused".into()]).collect();
    let insert =
        |code: &String| store.insert(Insert::new(alias(code, "https://example.com/"), None));
    let outcomes = futures_util::future::join_all(codes.iter().map(insert)).await;
    for (code, outcome) in codes.iter().zip(outcomes) {
        if code == "refused" {
            assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
        } else {
            assert_eq!(outcome.unwrap(), Inserted::Created, "{code}");
        }
    }
}

/// On one thread, so that all links wait for the same commit. Each link has two locks, and the
/// server has room for fewer than a batch needs.
#[tokio::test]
async fn a_batch_that_needs_more_locks_than_the_server_has_is_written_in_parts() {
    let server = Arc::new(PostgresServer::start(&["fsync=off", "max_connections=12"]));
    let url = server.fresh();
    let store = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    // Takes all locks that there are, and gives 300 back.
    let take = "DO $$ BEGIN FOR n IN 1..1000000 LOOP PERFORM pg_advisory_lock(1, n); END LOOP; \
         EXCEPTION WHEN out_of_memory THEN NULL; END $$; \
         SELECT pg_advisory_unlock(1, n) FROM generate_series(1, 300) AS n; \
         SELECT pg_sleep(600)";
    let holds = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let holder = std::thread::spawn({
        let (server, url) = (Arc::clone(&server), url.clone());
        // Ends with an error when its connection is ended.
        move || server.sql(&url, take)
    });
    wait_until("the locks are taken", || {
        server.sql(&url, &format!("SELECT count(*) {holds}")) == "1"
    });
    let insert = |n: u8| {
        let request = IdempotencyKey { id: [n; 32], fingerprint: [1; 32] };
        let link = alias(&format!("many-{n}"), "https://example.com/");
        store.insert(Insert::new(link, Some(request)))
    };
    let outcomes = futures_util::future::join_all((0..200).map(insert)).await;
    server.sql(&url, &format!("SELECT pg_terminate_backend(pid) {holds}"));
    let _ended = holder.join();
    for outcome in outcomes {
        assert_eq!(outcome.unwrap(), Inserted::Created);
    }
}
