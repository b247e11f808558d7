//! Cells that a spreadsheet would run as formulas.

/// Whether a spreadsheet runs a cell that begins with this character.
fn is_formula_start(c: char) -> bool {
    matches!(c, '=' | '+' | '-' | '@' | '\t' | '\r' | '\n')
}

/// Whether a cell begins like a formula, after any number of apostrophes.
fn looks_like_formula(cell: &str) -> bool {
    cell.trim_start_matches('\'').starts_with(is_formula_start)
}

/// The cell with an apostrophe before it if a spreadsheet would run it, for tables that only people
/// read: visitors and owners control what they hold.
pub fn inert(cell: &str) -> std::borrow::Cow<'_, str> {
    if cell.starts_with(is_formula_start) { format!("'{cell}").into() } else { cell.into() }
}

/// The same for tables that terse reads back. Cells that already look guarded get one more
/// apostrophe, so that `unguard` always restores the exact cell.
pub fn guard(cell: &str) -> std::borrow::Cow<'_, str> {
    if looks_like_formula(cell) { format!("'{cell}").into() } else { cell.into() }
}

/// Removes one guarding apostrophe.
pub(crate) fn unguard(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(rest) if looks_like_formula(rest) => rest,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_are_guarded_and_nothing_else_is() {
        for (cell, guarded) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1", "'+1"),
            ("-alias", "'-alias"),
            ("@x", "'@x"),
            ("\tx", "'\tx"),
            ("'=x", "''=x"),
            ("'quoted'", "'quoted'"),
            ("a=b", "a=b"),
            ("", ""),
            ("'", "'"),
        ] {
            assert_eq!(guard(cell), guarded);
            let is_quoted = cell.starts_with('\'');
            assert_eq!(inert(cell), if is_quoted { cell } else { guarded });
            assert_eq!(unguard(guarded), cell);
        }
    }

    proptest! {
        #[test]
        fn a_guarded_cell_is_inert_and_comes_back_exactly(cell in "['=+@\\-\t\r\na-c \
            ]{0,6}|.{0,20}") {
            let guarded = guard(&cell);
            prop_assert!(!guarded.starts_with(is_formula_start));
            prop_assert_eq!(unguard(&guarded), &*cell);
        }
    }
}
