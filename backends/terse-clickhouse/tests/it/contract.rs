//! The suites, with two handles on one database as two nodes have them.

use std::sync::Arc;

use terse_testkit::click_store::ClickStoreHandle;
use terse_testkit::{ClickHouseServer, PostgresServer};

use crate::support::open;

async fn fresh_clicks() -> Option<[ClickStoreHandle; 2]> {
    let (ledger, url) = (PostgresServer::shared().fresh(), ClickHouseServer::shared().fresh());
    Some([Arc::new(open(&ledger, &url).await), Arc::new(open(&ledger, &url).await)])
}
terse_testkit::click_store!(fresh_clicks);
