//! Databases of every earlier version, with rows in them, are brought up to date and then have the
//! same columns, indexes and storage settings as new ones.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terse_core::clicks::{Click, ClickReports as _, ClickSubject, ClickTarget, LinkId, Period};
use terse_core::registry::prelude::*;
use terse_core::registry::{AccountName, Actor, Attribution, NewAccount, Role};
use terse_core::{LinkReader as _, LinkStore as _, OwnerId};
use terse_postgres::{PostgresClicks, PostgresLinks, PostgresOptions, PostgresRegistry};
use terse_testkit::{PostgresServer, alias, key, timestamp, wait_until};

use crate::faults::put;
use crate::session::OpenTransaction;

fn options(url: &str) -> PostgresOptions {
    PostgresOptions::new(url.to_owned())
}

/// Runs the first `version` steps of a part in an empty schema, as that version of terse did.
fn create_as_version(server: &PostgresServer, url: &str, part: &str, version: u32) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema");
    server.sql(
        url,
        "CREATE TABLE terse_schema (part text PRIMARY KEY, version integer NOT NULL, \
         needs integer NOT NULL, at timestamptz NOT NULL DEFAULT now())",
    );
    for n in 1..=version {
        let steps = ["", "_search"].map(|end| folder.join(format!("{part}_{n}{end}.sql")));
        assert!(steps.iter().any(|step| step.exists()), "{part} has no step {n}");
        for step in steps.iter().filter(|step| step.exists()) {
            server.sql(url, &std::fs::read_to_string(step).unwrap());
        }
    }
    let row = format!("INSERT INTO terse_schema VALUES ('{part}', {version}, 1)");
    server.sql(url, &row);
}

/// The schema of a URL of [`PostgresServer::fresh`].
fn schema(server: &PostgresServer, url: &str) -> String {
    server.sql(url, "SELECT current_schema()")
}

/// Copies the rows of a present database, as far as the earlier version had their tables and
/// columns.
fn copy_rows(server: &PostgresServer, present: &str, to: &str) {
    let (present, old) = (schema(server, present), schema(server, to));
    let tables = server.sql(
        to,
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition \
         AND relnamespace = current_schema()::regnamespace AND relname <> 'terse_schema'",
    );
    for table in tables.lines() {
        let columns = server.sql(
            to,
            &format!(
                "SELECT string_agg(quote_ident(column_name), ', ') FROM \
                 information_schema.columns o JOIN information_schema.columns p \
                 USING (table_name, column_name) WHERE o.table_schema = '{old}' \
                 AND p.table_schema = '{present}' AND table_name = '{table}' \
                 AND o.is_generated = 'NEVER'"
            ),
        );
        assert!(!columns.is_empty(), "{table} has gone: its rows need a test of their own");
        server.sql(
            to,
            &format!(
                "SET session_replication_role = replica; DELETE FROM {table}; \
                 INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE \
                 SELECT {columns} FROM {present}.{table}"
            ),
        );
    }
}

/// The columns, indexes and storage settings of all tables.
fn shape(server: &PostgresServer, url: &str) -> String {
    let columns = server.sql(
        url,
        "SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default, \
         is_identity, generation_expression FROM information_schema.columns \
         WHERE table_schema = current_schema() ORDER BY 1, 2",
    );
    let indexes = server.sql(
        url,
        "SELECT tablename, indexname, replace(indexdef, current_schema() || '.', '') \
         FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1, 2",
    );
    let settings = server.sql(
        url,
        "SELECT relname, (SELECT array_agg(s ORDER BY s) FROM unnest(reloptions) s) FROM pg_class \
         WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace ORDER BY 1",
    );
    let own = format!("{}.", schema(server, url));
    format!("{columns}\n{indexes}\n{settings}").replace(&own, "")
}

fn version(server: &PostgresServer, url: &str, part: &str) -> u32 {
    let sql = format!("SELECT version FROM terse_schema WHERE part = '{part}'");
    server.sql(url, &sql).parse().unwrap()
}

/// Compares line by line: the whole of it is too long to read.
fn assert_same_shape(found: &str, expected: &str, version: u32) {
    let missing: Vec<_> =
        expected.lines().filter(|line| !found.lines().any(|other| other == *line)).collect();
    let more: Vec<_> =
        found.lines().filter(|line| !expected.lines().any(|other| other == *line)).collect();
    assert!(missing.is_empty() && more.is_empty(), "{version}: {missing:#?}, {more:#?}");
}

#[tokio::test]
async fn links_of_every_version_are_brought_up_to_date() {
    let server = PostgresServer::shared();
    let present = server.fresh();
    let store = PostgresLinks::open(options(&present)).await.unwrap();
    put(&store, "kept").await;
    let kept = alias("kept", "https://x.y/").key;
    let kept = store.get(&kept).await.unwrap().unwrap();
    let expected = shape(server, &present);
    for n in 1..=version(server, &present, "links") {
        let url = server.fresh();
        create_as_version(server, &url, "links", n);
        copy_rows(server, &present, &url);
        let store = PostgresLinks::open(options(&url)).await.unwrap();
        assert_eq!(store.get(&kept.key).await.unwrap().as_ref(), Some(&kept), "version {n}");
        put(&store, "new").await;
        assert_same_shape(&shape(server, &url), &expected, n);
    }
}

#[tokio::test]
async fn a_registry_of_every_version_is_brought_up_to_date() {
    let server = PostgresServer::shared();
    let present = server.fresh();
    let by = || Attribution { actor: Actor::Terse, at: timestamp(0), why: None };
    let new = |name: &str| NewAccount {
        name: AccountName::parse(name).unwrap(),
        role: Role::User,
        password: None,
        identity: None,
        created_at: timestamp(0),
    };
    let registry = PostgresRegistry::open(options(&present)).await.unwrap();
    let ann = registry.add_account(new("ann"), by()).await.unwrap();
    let expected = shape(server, &present);
    for n in 1..=version(server, &present, "registry") {
        let url = server.fresh();
        create_as_version(server, &url, "registry", n);
        copy_rows(server, &present, &url);
        let registry = PostgresRegistry::open(options(&url)).await.unwrap();
        assert_eq!(registry.account(ann.id).await.unwrap().as_ref(), Some(&ann), "version {n}");
        registry.add_account(new("bob"), by()).await.unwrap();
        assert_same_shape(&shape(server, &url), &expected, n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_of_every_version_are_brought_up_to_date() {
    let server = PostgresServer::shared();
    let present = server.fresh();
    let link = LinkId { key: key("one"), created_at: timestamp(-5) };
    let click = |n: i64| {
        let target = ClickTarget::Link(link.clone(), OwnerId(7));
        Click::bare(timestamp(n * 1_000), target)
    };
    let store = PostgresClicks::open(options(&present), true).await.unwrap();
    terse_testkit::add_clicks(&store, vec![click(1), click(2)]).await;
    let expected = shape(server, &present);
    for n in 1..=version(server, &present, "clicks") {
        let url = server.fresh();
        create_as_version(server, &url, "clicks", n);
        copy_rows(server, &present, &url);
        let store = Arc::new(PostgresClicks::open(options(&url), true).await.unwrap());
        terse_testkit::add_clicks(&*store, vec![click(3)]).await;
        for subject in [ClickSubject::Link(link.clone()), ClickSubject::Everything] {
            let report = store.report(&subject, Period::default(), timestamp(9_000)).await.unwrap();
            assert_eq!(report.tally.clicks.humans, 3, "version {n}");
        }
        assert_eq!(server.sql(&url, "SELECT count(*) FROM click_raw"), "3", "version {n}");
        assert_same_shape(&shape(server, &url), &expected, n);
    }
}

/// A later version wrote events that this one cannot read: they stay for a node of that version.
#[tokio::test]
async fn events_of_a_later_version_are_told_apart() {
    use terse_core::registry::EventKind;
    use terse_core::{Insert, Outbox as _, OutboxEvent};
    let server = PostgresServer::shared();
    let url = server.fresh();
    let store = PostgresLinks::open(options(&url)).await.unwrap();
    let event = OutboxEvent { kind: EventKind::LinkCreated, at: timestamp(1) };
    for code in ["one", "two", "three"] {
        let link = alias(code, "https://example.com/");
        store.insert(Insert { events: vec![event], ..Insert::new(link, None) }).await.unwrap();
    }
    let places: Vec<u64> =
        store.outbox(None, 9).await.unwrap().entries.iter().map(|entry| entry.position).collect();
    let change =
        |set: &str, n: usize| format!("UPDATE link_outbox SET {set} WHERE id = {}", places[n]);
    server.sql(&url, &change("kind = 'link.teleported'", 0));
    server.sql(&url, &change("link = set_byte(link, 5, 255 - get_byte(link, 5))", 1));
    let page = store.outbox(None, 9).await.unwrap();
    assert_eq!(page.later.iter().map(|later| later.position).collect::<Vec<_>>(), places[..1]);
    assert_eq!(page.later[0].at, timestamp(1));
    assert_eq!((&page.unreadable[..], page.entries[0].position), (&places[1..2], places[2]));
}

/// A transaction that has written to the table keeps the builder of the index waiting, and other
/// writers do not wait behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_are_created_while_a_new_node_builds_an_index() {
    // A server of its own: the builder of an index waits for the transactions of all tests.
    let server = Arc::new(PostgresServer::start(&["fsync=off"]));
    let url = server.fresh();
    let old = PostgresLinks::open(options(&url)).await.unwrap();
    put(&old, "first").await;
    server.sql(
        &url,
        "DROP INDEX links_search_rules; UPDATE terse_schema SET version = 4 WHERE part = 'links'",
    );
    let holds = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    // Ends with an error when its connection is ended.
    let writer = std::thread::spawn({
        let (server, url) = (Arc::clone(&server), url.clone());
        move || server.sql(&url, "UPDATE links SET title = title; SELECT pg_sleep(600)")
    });
    let count = |what: &str| server.sql(&url, &format!("SELECT count(*) {what}"));
    wait_until("a transaction has written", || count(holds) == "1");
    let new = tokio::spawn(PostgresLinks::open(options(&url)));
    let builds = "FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE NOT granted \
         AND query LIKE '%CREATE INDEX%links_search_rules%'";
    wait_until("the index waits", || count(builds) == "1");
    put(&old, "meanwhile").await;
    server.sql(&url, &format!("SELECT pg_terminate_backend(pid) {holds}"));
    let _ended = writer.join();
    new.await.unwrap().unwrap();
    let valid = "FROM pg_index WHERE indexrelid = to_regclass('links_search_rules') AND indisvalid";
    assert_eq!(count(valid), "1");
}

/// A statement that changes a table waits for the transaction, and lookups wait behind the
/// statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_are_answered_while_an_upgrade_waits_for_a_transaction() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    // Longer than an upgrade waits for a lock, on a busy machine.
    let lookup_timeout = Duration::from_secs(15);
    let old = PostgresOptions { lookup_timeout, ..options(&url) };
    let old = PostgresLinks::open(old).await.unwrap();
    // The columns of the last steps that change a table.
    server.sql(
        &url,
        "ALTER TABLE link_store DROP COLUMN tables_id; ALTER TABLE links DROP COLUMN preview; \
         UPDATE terse_schema SET version = 2 WHERE part = 'links'",
    );
    let reader = OpenTransaction::begin(&url, "LOCK TABLE link_store IN ACCESS SHARE MODE");
    let new = tokio::spawn(PostgresLinks::open(options(&url)));
    let waits = "SELECT count(*) FROM pg_locks \
         WHERE relation = 'link_store'::regclass AND NOT granted";
    for _ in 0..2 {
        wait_until("the upgrade waits", || server.sql(&url, waits) == "1");
        old.incarnation().await.unwrap();
    }
    assert!(!new.is_finished());
    reader.commit();
    new.await.unwrap().unwrap();
}

/// As an interrupted build leaves it.
#[tokio::test]
async fn an_index_whose_build_was_interrupted_is_built_again() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    drop(PostgresLinks::open(options(&url)).await.unwrap());
    server.sql(
        &url,
        "UPDATE pg_index SET indisvalid = false \
         WHERE indexrelid = to_regclass('links_search_rules'); \
         UPDATE terse_schema SET version = 4 WHERE part = 'links'",
    );
    drop(PostgresLinks::open(options(&url)).await.unwrap());
    let valid = "SELECT indisvalid FROM pg_index \
         WHERE indexrelid = to_regclass('links_search_rules')";
    assert_eq!(server.sql(&url, valid), "t");
}
