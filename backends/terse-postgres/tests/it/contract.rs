//! The suites, with two handles on one database as two nodes have them.

use terse_postgres::{PostgresClicks, PostgresLinks, PostgresOptions, PostgresRegistry};
use terse_testkit::PostgresServer;
use terse_testkit::link_store::LinkStorePair;

async fn fresh_links() -> Option<LinkStorePair> {
    let url = PostgresServer::shared().fresh();
    let a = PostgresLinks::open(PostgresOptions::new(url.clone())).await.unwrap();
    let b = PostgresLinks::open(PostgresOptions::new(url)).await.unwrap();
    Some(LinkStorePair::two(a, b))
}
terse_testkit::link_store!(fresh_links);

/// The same promises hold for a table of links that is divided into partitions.
mod partitioned {
    use super::*;

    async fn fresh_links() -> Option<LinkStorePair> {
        let options = PostgresOptions {
            partitions: 3,
            ..PostgresOptions::new(PostgresServer::shared().fresh())
        };
        let a = PostgresLinks::open(options.clone()).await.unwrap();
        let b = PostgresLinks::open(options.clone()).await.unwrap();
        let kind = "SELECT relkind FROM pg_class WHERE oid = 'links'::regclass";
        assert_eq!(PostgresServer::shared().sql(&options.url, kind), "p");
        Some(LinkStorePair::two(a, b))
    }
    terse_testkit::link_store!(fresh_links);
}

async fn fresh_registry() -> Option<(PostgresRegistry, PostgresRegistry)> {
    let url = PostgresServer::shared().fresh();
    let a = PostgresRegistry::open(PostgresOptions::new(url.clone())).await.unwrap();
    let b = PostgresRegistry::open(PostgresOptions::new(url)).await.unwrap();
    Some((a, b))
}
terse_testkit::registry!(fresh_registry);

async fn fresh_clicks() -> Option<[terse_testkit::click_store::ClickStoreHandle; 2]> {
    let url = PostgresServer::shared().fresh();
    let a = PostgresClicks::open(PostgresOptions::new(url.clone()), true).await.unwrap();
    let b = PostgresClicks::open(PostgresOptions::new(url), true).await.unwrap();
    Some([std::sync::Arc::new(a), std::sync::Arc::new(b)])
}
terse_testkit::click_store!(fresh_clicks);
