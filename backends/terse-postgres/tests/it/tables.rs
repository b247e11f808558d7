//! Tables: made once, by whichever node comes first, and refused where they are too new.

use std::error::Error;

use terse_core::{LinkReader, LinkStore, ListQuery, Sort};
use terse_postgres::{
    PostgresClicks, PostgresLinks, PostgresOpenError, PostgresOptions, PostgresRegistry,
};
use terse_testkit::{PostgresServer, alias, timestamp};

use crate::faults::put;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_together_make_the_tables_once() {
    let url = PostgresServer::shared().fresh();
    let nodes: Vec<_> = (0..6)
        .map(|_| tokio::spawn(PostgresLinks::open(PostgresOptions::new(url.clone()))))
        .collect();
    let mut secrets = Vec::new();
    for node in nodes {
        secrets.push(*node.await.unwrap().unwrap().identity().secret());
    }
    assert!(secrets.windows(2).all(|pair| pair[0] == pair[1]), "one store has one secret");
}

#[tokio::test]
async fn an_older_terse_works_beside_a_later_one_until_it_must_not() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let first = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    put(&first, "kept").await;
    // A later terse has added something that this one need not know.
    server.sql(&url, "UPDATE terse_schema SET version = 7 WHERE part = 'links'");
    let beside = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    assert!(beside.get(&alias("kept", "https://x.y/").key).await.unwrap().is_some());
    assert_eq!(server.sql(&url, "SELECT version FROM terse_schema"), "7");
    // A later terse has removed what this one needs.
    server.sql(&url, "UPDATE terse_schema SET version = 9, needs = 8 WHERE part = 'links'");
    let error = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap_err();
    assert!(matches!(error, PostgresOpenError::Newer { found: 9, needed: 8, .. }), "{error}");
    assert!(error.to_string().contains("run the later terse"), "{error}");
    assert_eq!(server.sql(&url, "SELECT version FROM terse_schema"), "9", "nothing was changed");
}

/// Links and registry share a database, and a handle that opens it later finds everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_is_found_as_it_was_left() {
    use terse_testkit::registry::{RegistryHandle, everything, fill};
    let url = PostgresServer::shared().fresh();
    let _links = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    let open = || async {
        let opened = PostgresRegistry::open(PostgresOptions::new(url.clone())).await.unwrap();
        std::sync::Arc::new(opened) as RegistryHandle
    };
    let first = open().await;
    fill(&first).await;
    let before = everything(&first).await;
    drop(first);
    assert_eq!(everything(&open().await).await, before);
}

/// Removes what later versions added to the tables of the first one.
const REGISTRY_1: &str = "ALTER TABLE accounts DROP COLUMN reset_token, \
    DROP COLUMN reset_expires_at, DROP COLUMN totp_seed, DROP COLUMN totp_step, \
    DROP COLUMN recovery_codes, DROP COLUMN preferences; DROP TABLE acme_records; \
    ALTER TABLE webhooks DROP COLUMN active_since; ALTER TABLE api_keys DROP COLUMN requests; \
    ALTER TABLE sessions DROP COLUMN browser; DROP TABLE nodes; \
    UPDATE terse_schema SET version = 1 WHERE part = 'registry'";

#[tokio::test]
async fn a_registry_of_the_first_version_is_brought_up_to_date() {
    use terse_core::registry::prelude::*;
    use terse_core::registry::{
        AccountChange, AccountName, Actor, Attribution, ConditionalAccountChange, NewAccount,
        PasswordReset, Role, SecretHash, TotpSeed, TwoFactor,
    };
    let server = PostgresServer::shared();
    let url = server.fresh();
    let open = || PostgresRegistry::open(PostgresOptions::new(url.clone()));
    let by = || Attribution { actor: Actor::Terse, at: timestamp(0), why: None };
    let name = AccountName::parse("ann").unwrap();
    let new = NewAccount {
        name,
        role: Role::User,
        password: None,
        identity: None,
        created_at: timestamp(0),
    };
    let first = open().await.unwrap();
    let ann = first.add_account(new, by()).await.unwrap();
    drop(first);
    server.sql(&url, REGISTRY_1);
    let registry = open().await.unwrap();
    assert_eq!(registry.account(ann.id).await.unwrap().as_ref(), Some(&ann));
    let token = SecretHash([9; 32]);
    let reset = PasswordReset { token, expires_at: timestamp(9) };
    let two_factor = TwoFactor { seed: TotpSeed([3; 16]), last_step: 7, recovery: vec![token; 2] };
    let two_factor = Some(Some(two_factor));
    let change = AccountChange { reset: Some(Some(reset)), two_factor, ..AccountChange::default() };
    let change = ConditionalAccountChange { id: ann.id, change, expected: Some(ann.revision) };
    let changed = registry.change_account(change, by()).await.unwrap();
    assert_eq!(registry.account_by_reset(&token).await.unwrap(), Some(changed));
}

#[tokio::test]
async fn tables_that_every_batch_updates_are_vacuumed_in_time_also_after_an_upgrade() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let open = || PostgresClicks::open(PostgresOptions::new(url.clone()), true);
    let tuned = || {
        server.sql(
            &url,
            "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relname LIKE \
             'click\\_%' AND relnamespace = current_schema()::regnamespace \
             AND array_to_string(reloptions, ' ') LIKE '%autovacuum_vacuum_threshold%'",
        )
    };
    let hot = "click_buckets click_positions click_subjects";
    drop(open().await.unwrap());
    assert_eq!(tuned(), hot);
    // As the first version left them.
    server.sql(
        &url,
        "ALTER TABLE click_subjects RESET (autovacuum_vacuum_scale_factor, \
         autovacuum_vacuum_threshold); \
         UPDATE terse_schema SET version = 1 WHERE part = 'clicks'",
    );
    drop(open().await.unwrap());
    assert_eq!(tuned(), hot);
}

#[tokio::test]
async fn problems_of_a_url_are_named() {
    let server = PostgresServer::shared();
    for (url, expected) in [
        ("postgres://".to_owned(), "names no host"),
        (server.url("missing"), "database \"missing\" does not exist"),
        ("postgres://u:secret@127.0.0.1:1/terse".to_owned(), "refused"),
        (server.url("postgres") + "?sslmode=require", "TLS"),
        (server.url("postgres") + "?sslrootcert=/missing.pem", "/missing.pem cannot be read"),
    ] {
        let error = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap_err();
        let mut said = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            said = format!("{said}: {error}");
            source = error.source();
        }
        assert!(said.contains(expected), "{url}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[tokio::test]
async fn links_are_searched_without_the_extension_too() {
    let server = PostgresServer::shared();
    let name = "untrusted";
    server.sql(
        "postgres",
        &format!("CREATE ROLE {name} LOGIN; CREATE SCHEMA {name} AUTHORIZATION {name}"),
    );
    let url = format!(
        "postgres://{name}@127.0.0.1:{}/postgres?options=-csearch_path%3D{name}",
        server.port()
    );
    let store = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    assert_eq!(server.sql(&url, "SELECT to_regclass('links_search') IS NULL"), "t");
    put(&store, "findable").await;
    let query =
        ListQuery { text: Some("INDAB".into()), ..ListQuery::all(Sort::Newest, 10, timestamp(0)) };
    assert_eq!(store.list(&query).await.unwrap().links.len(), 1);
}

#[tokio::test]
async fn searches_use_their_index() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let store = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    put(&store, "findable").await;
    let plan = server.sql(
        &url,
        "SET enable_seqscan = off; EXPLAIN SELECT code FROM links l WHERE \
         (lower((l.code || E'\\n' || l.target || E'\\n' || coalesce(l.title, '')) COLLATE \"C\") \
         LIKE '%indab%' \
         OR (l.rules IS NOT NULL AND lower(l.rules COLLATE \"C\") LIKE '%indab%'))",
    );
    for index in ["links_search ", "links_search_rules "] {
        assert!(plan.contains(index), "{index}: {plan}");
    }
    let nul =
        ListQuery { text: Some("a\0b".into()), ..ListQuery::all(Sort::Newest, 10, timestamp(0)) };
    assert!(store.list(&nul).await.unwrap().links.is_empty());
}

/// The order of reads after the wait for a lock decides who owns an alias.
#[tokio::test]
async fn the_isolation_does_not_depend_on_the_databases_default() {
    let server = PostgresServer::shared();
    let database = server.fresh_database();
    let set =
        format!("ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'");
    server.sql("postgres", &set);
    let open = || PostgresLinks::open(PostgresOptions::new(server.url(&database)));
    let (a, b) =
        (std::sync::Arc::new(open().await.unwrap()), std::sync::Arc::new(open().await.unwrap()));
    let shared = terse_testkit::link_store::LinkStorePair { a, b };
    terse_testkit::link_store::an_alias_raced_through_two_handles_has_one_owner(shared).await;
}

#[tokio::test]
async fn a_damaged_row_is_never_served() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let store = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    put(&store, "whole").await;
    put(&store, "changed").await;
    server.sql(&url, "UPDATE links SET target = 'https://evil.example/' WHERE code = 'changed'");
    let found = store.get(&alias("changed", "https://x.y/").key).await;
    assert!(matches!(found, Err(terse_core::StoreError::Corrupt(_))), "{found:?}");
    assert!(store.get(&alias("whole", "https://x.y/").key).await.unwrap().is_some());
}

/// As the server's own estimate says, which it keeps for each partition. Counting would take long.
#[tokio::test]
async fn many_links_are_estimated_with_and_without_partitions() {
    let server = PostgresServer::shared();
    for partitions in [0, 3] {
        let url = server.fresh();
        let options = PostgresOptions { partitions, ..PostgresOptions::new(url.clone()) };
        let store = PostgresLinks::open(options).await.unwrap();
        put(&store, "one").await;
        assert_eq!(store.count_links().await.unwrap(), 1);
        let tables = partitions.max(1);
        let estimate = "UPDATE pg_class SET reltuples = 700000 WHERE relkind = 'r' \
             AND relname ~ '^links(_p?[0-9]+)?$' \
             AND relnamespace = current_schema()::regnamespace RETURNING relname";
        let changed = server.sql(&url, estimate);
        assert_eq!(changed.lines().count() as u32, tables, "{changed}");
        let expected = if partitions == 0 { 1 } else { 2_100_000 };
        assert_eq!(store.count_links().await.unwrap(), expected);
    }
}
