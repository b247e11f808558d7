//! The `LinkStore` and `ClickStore` suites on real files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use terse_embedded::{ClickOptions, EmbeddedClicks, EmbeddedLinks, EmbeddedOptions};
use terse_testkit::link_store::LinkStorePair;

use crate::folders::folder;

/// Only one process can open the folder: both handles are the same store.
async fn fresh_links() -> Option<LinkStorePair> {
    Some(LinkStorePair::one(
        EmbeddedLinks::open(EmbeddedOptions::new(folder().join("terse.db"))).unwrap(),
    ))
}
terse_testkit::link_store!(fresh_links);

/// One process opens the file, and all its parts share one handle.
async fn fresh_clicks() -> Option<[terse_testkit::click_store::ClickStoreHandle; 2]> {
    let store = EmbeddedClicks::open(ClickOptions::new(folder().join("clicks.db"))).unwrap();
    let store: terse_testkit::click_store::ClickStoreHandle = Arc::new(store);
    Some([Arc::clone(&store), store])
}
terse_testkit::click_store!(fresh_clicks);

/// The same promises while the sums are in runs, and while these are being merged.
mod with_runs {
    use terse_embedded::RunLimits;

    use super::*;

    async fn fresh() -> Option<[terse_testkit::click_store::ClickStoreHandle; 2]> {
        let runs = RunLimits { from: 0, runs: 3, step: 100 };
        let options = ClickOptions { runs, ..ClickOptions::new(folder().join("clicks.db")) };
        let store: terse_testkit::click_store::ClickStoreHandle =
            Arc::new(EmbeddedClicks::open(options).unwrap());
        Some([Arc::clone(&store), store])
    }
    terse_testkit::click_store!(fresh);
}
