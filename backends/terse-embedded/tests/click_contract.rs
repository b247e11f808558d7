//! Every promise of `ClickStore`, on a real file.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::sync::Once;

use terse_embedded::{ClickOptions, EmbeddedClicks};

/// An empty store in a folder of its own.
async fn fresh() -> Option<EmbeddedClicks> {
    // A folder must outlive its store, which the suite owns; so the next run cleans up after this one.
    static SWEEP: Once = Once::new();
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("click_contract");
    SWEEP.call_once(|| {
        let _swept = std::fs::remove_dir_all(&parent);
        std::fs::create_dir_all(&parent).unwrap();
    });
    let folder = tempfile::tempdir_in(&parent).unwrap().keep();
    Some(EmbeddedClicks::open(ClickOptions::new(folder.join("clicks.db"))).unwrap())
}
terse_testkit::click_store!(fresh);
