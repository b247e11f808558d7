//! The `LinkStore` and `ClickStore` suites on real files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use terse_embedded::{ClickOptions, Embedded, EmbeddedClicks, Options};
use terse_testkit::link_store::Shared;

use crate::folders::folder;

/// Only one process can open the folder: both handles are the same store.
async fn fresh_links() -> Option<Shared> {
    Some(Shared::one(Embedded::open(Options::new(folder().join("terse.db"))).unwrap()))
}
terse_testkit::link_store!(fresh_links);

/// One process opens the file, and all its parts share one handle.
async fn fresh_clicks() -> Option<[terse_testkit::click_store::Store; 2]> {
    let store = EmbeddedClicks::open(ClickOptions::new(folder().join("clicks.db"))).unwrap();
    let store: terse_testkit::click_store::Store = Arc::new(store);
    Some([Arc::clone(&store), store])
}
terse_testkit::click_store!(fresh_clicks);

/// The same promises while the sums are in blocks, and while these are being merged.
mod with_delta_blocks {
    use terse_embedded::DeltaLimits;

    use super::*;

    async fn fresh() -> Option<[terse_testkit::click_store::Store; 2]> {
        let deltas = DeltaLimits { from: 0, blocks: 3, step: 100 };
        let options = ClickOptions { deltas, ..ClickOptions::new(folder().join("clicks.db")) };
        let store: terse_testkit::click_store::Store =
            Arc::new(EmbeddedClicks::open(options).unwrap());
        Some([Arc::clone(&store), store])
    }
    terse_testkit::click_store!(fresh);
}
