//! The `Registry` suite on a real file.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::sync::Once;

use terse_embedded::{EmbeddedRegistry, RegistryOptions};

/// Two handles on an empty registry in its own folder.
async fn fresh() -> Option<(EmbeddedRegistry, EmbeddedRegistry)> {
    // The folder must outlive its store, which the suite owns, so the next run removes it.
    static SWEEP: Once = Once::new();
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("registry_contract");
    SWEEP.call_once(|| {
        let _swept = std::fs::remove_dir_all(&parent);
        std::fs::create_dir_all(&parent).unwrap();
    });
    let folder = tempfile::tempdir_in(&parent).unwrap().keep();
    let open = || EmbeddedRegistry::open(RegistryOptions::new(folder.join("registry.db"))).unwrap();
    Some((open(), open()))
}
terse_testkit::registry!(fresh);
