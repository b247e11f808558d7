//! Terminal output: widths, tables, and no control characters from stored data.

use std::io::{IsTerminal as _, Write as _};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Whether standard output is a terminal.
pub(crate) fn is_out() -> bool {
    std::io::stdout().is_terminal()
}

/// The number of columns of the terminal.
pub(crate) fn width() -> usize {
    let columns =
        rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| usize::from(size.ws_col)).ok();
    columns.filter(|columns| *columns > 0).unwrap_or(100)
}

/// The number of lines of the terminal.
pub(crate) fn height() -> usize {
    let lines =
        rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| usize::from(size.ws_row)).ok();
    lines.filter(|lines| *lines > 0).unwrap_or(24)
}

/// Whether the terminal can show more than ASCII, according to the locale.
pub(crate) fn is_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).unwrap_or_default());
    says_utf8(set.iter().map(String::as_str))
}

/// The first that is set decides.
fn says_utf8<'a>(mut locales: impl Iterator<Item = &'a str>) -> bool {
    let locale = locales.find(|locale| !locale.is_empty()).unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Writes a line to standard output. A closed pipe is an error like any other, not a panic.
pub fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Text as one line without control characters, so that nothing stored in a link can move a cursor
/// or colour a screen.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_bidi(c) { ' ' } else { c }).collect()
}

fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// The text, or its beginning and an ellipsis, in at most `columns` columns.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let text = one_line(text);
    if text.width() <= columns {
        return text;
    }
    let mut used = 1; // the ellipsis
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= columns
    };
    let mut cut: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        cut.push('…');
    }
    cut
}

/// A table fitted to a width: columns take what they need, and the flexible ones share the rest.
/// `flexible` names the columns that may be cut.
pub(crate) fn table(
    header: &[&str],
    rows: &[Vec<String>],
    flexible: &[usize],
    width: usize,
) -> String {
    const GAP: usize = 2;
    const NARROWEST: usize = 8;
    let mut widths: Vec<usize> = header.iter().map(|name| name.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(one_line(cell).width());
        }
    }
    let gaps = GAP * header.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
    while excess > 0 {
        // Shrinks the widest column first, down to the next one.
        let Some(&widest) =
            flexible.iter().filter(|&&i| widths[i] > NARROWEST).max_by_key(|&&i| widths[i])
        else {
            break;
        };
        let next = flexible
            .iter()
            .filter(|&&i| i != widest)
            .map(|&i| widths[i])
            .max()
            .unwrap_or(0)
            .max(NARROWEST);
        let give = excess.min(widths[widest].saturating_sub(next).max(1));
        widths[widest] -= give;
        excess -= give;
    }
    let mut text = String::new();
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            let cell = cut(cell, width);
            let pad = width.saturating_sub(cell.width()) + GAP;
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', pad));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_link_drives_the_terminal() {
        assert_eq!(one_line("a\u{1b}[31mb\r\nc\u{202e}d"), "a [31mb  c d");
    }

    #[test]
    fn the_first_locale_that_is_set_says_what_can_be_shown() {
        let said = |all: [&'static str; 3]| says_utf8(all.into_iter());
        assert!(
            said(["", "", "de_DE.UTF-8"])
                && said(["C.utf8", "", ""])
                && said(["", "en_GB.UTF-8", "C"])
        );
        assert!(!said(["", "", ""]) && !said(["C", "", "de_DE.UTF-8"]) && !said(["POSIX", "", ""]));
    }

    #[test]
    fn text_is_cut_by_columns() {
        for (text, columns, want) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            let cut = cut(text, columns);
            assert_eq!(cut, want);
            assert!(cut.width() <= columns);
        }
    }

    #[test]
    fn a_table_fits_its_width() {
        let rows = vec![
            vec![
                "abc".into(),
                "https://example.com/a/very/long/path/to/somewhere".into(),
                "title".into(),
            ],
            vec!["日本".into(), "https://e.com/".into(), "a rather long title of a link".into()],
        ];
        let table = table(&["code", "target", "title"], &rows, &[1, 2], 40);
        assert!(table.lines().all(|line| line.width() <= 40), "{table}");
        assert_eq!(table.lines().count(), 3);
        assert!(super::table(&["a"], &rows, &[], 1).lines().count() == 3);
    }
}
