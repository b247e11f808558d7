//! The `Registry` suite on a real file.
#![allow(clippy::unwrap_used, reason = "a test")]

use terse_embedded::{EmbeddedRegistry, RegistryOptions};

use crate::folders::folder;

/// Two handles on an empty registry in its own folder.
async fn fresh() -> Option<(EmbeddedRegistry, EmbeddedRegistry)> {
    let folder = folder();
    let open = || EmbeddedRegistry::open(RegistryOptions::new(folder.join("registry.db"))).unwrap();
    Some((open(), open()))
}
terse_testkit::registry!(fresh);
