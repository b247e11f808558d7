//! The suite, with two handles on one table as two nodes have them.

use terse_testkit::link_store::LinkStorePair;

use crate::support::{fresh, open};

async fn fresh_links() -> Option<LinkStorePair> {
    let options = fresh().await;
    Some(LinkStorePair::two(open(&options).await, open(&options).await))
}
terse_testkit::link_store!(fresh_links);
