//! Cells of CSV tables.

/// Makes a cell that no spreadsheet runs as a formula: visitors control these values.
pub(crate) fn safe(cell: &str) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{cell}")
    } else {
        cell.to_owned()
    }
}
