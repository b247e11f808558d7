//! The suites, with two handles on one database as two nodes have them.

use terse_postgres::{Options, PostgresClicks, PostgresLinks, PostgresRegistry};
use terse_testkit::PostgresServer;
use terse_testkit::link_store::Shared;

async fn fresh_links() -> Option<Shared> {
    let url = PostgresServer::shared().fresh();
    let a = PostgresLinks::open(Options::new(url.clone())).await.unwrap();
    let b = PostgresLinks::open(Options::new(url)).await.unwrap();
    Some(Shared::two(a, b))
}
terse_testkit::link_store!(fresh_links);

async fn fresh_registry() -> Option<(PostgresRegistry, PostgresRegistry)> {
    let url = PostgresServer::shared().fresh();
    let a = PostgresRegistry::open(Options::new(url.clone())).await.unwrap();
    let b = PostgresRegistry::open(Options::new(url)).await.unwrap();
    Some((a, b))
}
terse_testkit::registry!(fresh_registry);

async fn fresh_clicks() -> Option<[terse_testkit::click_store::Store; 2]> {
    let url = PostgresServer::shared().fresh();
    let a = PostgresClicks::open(Options::new(url.clone()), true).await.unwrap();
    let b = PostgresClicks::open(Options::new(url), true).await.unwrap();
    Some([std::sync::Arc::new(a), std::sync::Arc::new(b)])
}
terse_testkit::click_store!(fresh_clicks);
