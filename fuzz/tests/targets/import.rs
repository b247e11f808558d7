//! Files that people import: CSV, JSON and JSON lines.

use crate::input::fuzz;

#[test]
fn import() {
    fuzz("import", |bytes| {
        let rows = terse_core::import_file::rows_of(bytes.to_vec()).unwrap_or(0);
        // Another name of a link is a row of its own; each takes a few bytes of the file.
        assert!(rows <= bytes.len() + 1, "{rows} rows of {} bytes", bytes.len());
        rows > 0
    });
}
