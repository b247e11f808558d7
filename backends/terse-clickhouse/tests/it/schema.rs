//! Tables: their migrations, and the statements for a cluster.

use terse_clickhouse::{
    ClickHouseAddress, ClickHouseClicks, ClickHouseOpenError, create_statements,
};
use terse_testkit::{ClickHouseServer, PostgresServer};

use crate::support::{ledger, open, options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_a_later_version_are_refused() {
    let server = ClickHouseServer::shared();
    let (ledger_url, url) = (PostgresServer::shared().fresh(), server.fresh());
    let database = url.rsplit('/').next().unwrap();
    drop(open(&ledger_url, &url).await);
    drop(open(&ledger_url, &url).await);
    assert_eq!(server.sql(&format!("SELECT version FROM {database}.schema_versions")), "1");
    server.sql(&format!("INSERT INTO {database}.schema_versions (version) VALUES (99)"));
    let refused = ClickHouseClicks::open(options(&url), ledger(&ledger_url).await).await;
    let newer = matches!(refused, Err(ClickHouseOpenError::Newer { found: 99, known: 1 }));
    assert!(newer, "{refused:?}");
}

/// Only the syntax: the tests have no cluster with a Keeper.
#[test]
fn the_statements_for_a_cluster_can_be_parsed() {
    let server = ClickHouseServer::shared();
    let url = ClickHouseAddress::parse("clickhouse://127.0.0.1/terse?cluster=clicks").unwrap();
    let statements = create_statements(&url);
    assert_eq!(statements.len(), 3);
    for statement in statements {
        assert!(statement.contains(" ON CLUSTER clicks ("), "{statement}");
        assert!(statement.contains("ReplicatedMergeTree('/clickhouse/tables/{shard}/terse/"));
        server.sql(&format!("EXPLAIN AST {statement}"));
    }
}
