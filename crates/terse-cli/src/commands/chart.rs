//! Text charts.

use unicode_width::UnicodeWidthStr as _;

use crate::terminal::cut;

/// How many rows a chart over time has.
const ROWS: usize = 6;
/// The widest column of a chart over time.
const WIDEST: usize = 6;
/// The width of the scale on the left: `18.4E` and a line.
const SCALE: usize = 7;

/// The characters of charts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChartCharacters {
    /// From an empty to a full cell, growing upwards.
    up: [char; 9],
    /// The same, growing to the right.
    right: [char; 9],
    line: char,
    floor: char,
    corner: char,
}

impl ChartCharacters {
    /// Block characters if the terminal can show them, ASCII otherwise.
    pub(crate) fn new(unicode: bool) -> Self {
        if unicode {
            let up = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
            let right = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
            Self { up, right, line: '│', floor: '─', corner: '└' }
        } else {
            let up = [' ', '.', '.', '.', ':', ':', ':', ':', '#'];
            let right = [' ', ' ', ' ', ' ', '-', '-', '-', '-', '#'];
            Self { up, right, line: '|', floor: '-', corner: '+' }
        }
    }

    /// A chart of values over time, with the labels of its first and last below, in at most `width`
    /// columns. Values that do not fit side by side are summed; the second result is the number of
    /// values per column.
    pub(crate) fn over_time(
        &self,
        values: &[u64],
        first: &str,
        last: &str,
        width: usize,
    ) -> (Vec<String>, usize) {
        let room = width.saturating_sub(SCALE).max(1);
        let together = values.len().div_ceil(room).max(1);
        let sums = values
            .chunks(together)
            .map(|part| part.iter().fold(0_u64, |sum, value| sum.saturating_add(*value)));
        let sums: Vec<u64> = sums.collect();
        let thick = (room / sums.len().max(1)).clamp(1, WIDEST);
        // A gap between columns if they are wide enough.
        let ink = if thick > 2 { thick - 1 } else { thick };
        let most = sums.iter().copied().max().unwrap_or(0);
        let heights: Vec<usize> = sums.iter().map(|sum| eighths(*sum, most, ROWS)).collect();
        let mut lines = Vec::new();
        for row in (0..ROWS).rev() {
            let scale = if row + 1 == ROWS { short(most) } else { String::new() };
            let mut line = format!("{scale:>5} {}", self.line);
            for height in &heights {
                let cell = self.up[height.saturating_sub(row * 8).min(8)];
                line.extend(std::iter::repeat_n(cell, ink));
                line.extend(std::iter::repeat_n(' ', thick - ink));
            }
            lines.push(cut(line.trim_end(), width));
        }
        let long = (thick * sums.len()).max(1);
        let floor: String = std::iter::repeat_n(self.floor, long).collect();
        lines.push(cut(&format!("{:>5} {}{floor}", 0, self.corner), width));
        let pad = long.saturating_sub(first.width() + last.width());
        let labels = match pad {
            _ if values.len() < 2 || first == last => first.to_owned(),
            0 => format!("{first} … {last}"),
            pad => format!("{first}{}{last}", " ".repeat(pad)),
        };
        lines.push(cut(&format!("{:SCALE$}{labels}", ""), width));
        (lines, together)
    }

    /// A list of names and numbers under a title, each with its bar, in exactly `width` columns.
    pub(crate) fn ranking(
        &self,
        title: &str,
        items: &[(String, u64)],
        width: usize,
    ) -> Vec<String> {
        let most = items.iter().map(|(_, value)| *value).max().unwrap_or(0);
        let numbers: Vec<String> = items.iter().map(|(_, value)| number(*value)).collect();
        // If a number takes more than half the width, all numbers are abbreviated.
        let shortened = numbers.iter().any(|number| number.len() * 2 > width);
        let numbers = if shortened {
            items.iter().map(|(_, value)| short(*value)).collect()
        } else {
            numbers
        };
        let wide = numbers.iter().map(String::len).max().unwrap_or(0);
        let rest = width.saturating_sub(wide + 2);
        let names = items
            .iter()
            .map(|(name, _)| name.width())
            .max()
            .unwrap_or(0)
            .min((rest * 2 / 3).max(1));
        let bars = rest.saturating_sub(names).min(40);
        let mut lines = vec![padded(title, width)];
        for ((name, value), number) in items.iter().zip(numbers) {
            let line =
                format!("{} {number:>wide$} {}", padded(name, names), self.bar(*value, most, bars));
            lines.push(padded(&line, width));
        }
        lines
    }

    /// A bar of at most `width` columns.
    pub(crate) fn bar(&self, value: u64, most: u64, width: usize) -> String {
        let mut left = eighths(value, most, width);
        let mut bar = String::new();
        while left > 0 {
            bar.push(self.right[left.min(8)]);
            left = left.saturating_sub(8);
        }
        bar
    }
}

/// How many eighths of `cells` cells a value fills; at least one unless it is 0.
fn eighths(value: u64, most: u64, cells: usize) -> usize {
    if value == 0 || most == 0 || cells == 0 {
        return 0;
    }
    let filled = u128::from(value) * (cells as u128 * 8) / u128::from(most);
    usize::try_from(filled).unwrap_or(0).clamp(1, cells * 8)
}

/// Cuts or pads a text to `width` columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let mut text = cut(text, width);
    let pad = width.saturating_sub(text.width());
    text.extend(std::iter::repeat_n(' ', pad));
    text
}

/// Arranges blocks of lines side by side if they fit, each `block` columns wide.
pub(crate) fn side_by_side(
    blocks: &[Vec<String>],
    block: usize,
    gap: usize,
    width: usize,
) -> Vec<String> {
    let across = ((width + gap) / (block + gap)).max(1);
    let mut lines = Vec::new();
    for row in blocks.chunks(across) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        for n in 0..row.iter().map(Vec::len).max().unwrap_or(0) {
            let cells: Vec<String> = row
                .iter()
                .map(|lines| padded(lines.get(n).map_or("", String::as_str), block))
                .collect();
            lines.push(cells.join(&" ".repeat(gap)).trim_end().to_owned());
        }
    }
    lines
}

/// 1,234,567.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In at most five characters: 1234, 12.3k, 4.5M.
pub(crate) fn short(value: u64) -> String {
    if value < 10_000 {
        return value.to_string();
    }
    let mut unit = 1_000_u64;
    let mut units = ['k', 'M', 'G', 'T', 'P', 'E'].into_iter();
    let mut letter = units.next().unwrap_or('k');
    while let (Some(next), true) = (unit.checked_mul(1000), value / unit >= 1000) {
        (unit, letter) = (next, units.next().unwrap_or('E'));
    }
    let (whole, tenth) = (value / unit, value % unit / (unit / 10));
    if whole >= 100 { format!("{whole}{letter}") } else { format!("{whole}.{tenth}{letter}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[u64], width: usize, unicode: bool) -> Vec<String> {
        ChartCharacters::new(unicode).over_time(values, "2026-01-01", "2026-12-31", width).0
    }

    #[test]
    fn a_chart_fits_every_width() {
        let shapes: [Vec<u64>; 6] = [
            vec![],
            vec![0; 30],
            vec![7],
            vec![u64::MAX; 3],
            (0..24).collect(),
            (0..2000).map(|n| n * n * n).collect(),
        ];
        for values in &shapes {
            for width in 20..=200 {
                for unicode in [true, false] {
                    let lines = chart(values, width, unicode);
                    assert_eq!(lines.len(), ROWS + 2);
                    assert!(lines.iter().all(|line| line.width() <= width), "{width} {lines:#?}");
                    let inked = lines[..ROWS].iter().any(|line| line.contains(['█', '#']));
                    assert_eq!(inked, values.iter().any(|value| *value > 0), "{width} {lines:#?}");
                    if !unicode {
                        assert!(lines[..ROWS].iter().all(|line| line.is_ascii()), "{lines:#?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_chart_looks_like_this() {
        let fine = ChartCharacters::new(true).over_time(&[0, 1, 4567, 9999], "Mon", "Thu", 60).0;
        let want = [
            " 9999 │                  █████",
            "      │                  █████",
            "      │                  █████",
            "      │            ▅▅▅▅▅ █████",
            "      │            █████ █████",
            "      │      ▁▁▁▁▁ █████ █████", // one in ten thousand can still be seen
            "    0 └────────────────────────",
            "       Mon                  Thu",
        ];
        assert_eq!(fine, want);
        let plain = chart(&[8, 4, 0], 20, false);
        assert_eq!(plain[0], "    8 |###", "{plain:#?}");
        assert_eq!(plain[6], "    0 +------------", "{plain:#?}");
    }

    #[test]
    fn what_does_not_fit_side_by_side_is_put_together_and_nothing_is_lost() {
        let (lines, together) = ChartCharacters::new(false).over_time(&[1; 100], "a", "b", 57);
        assert_eq!(together, 2);
        assert!(lines[0].starts_with("    2 |"), "{lines:#?}");
        assert_eq!(lines[0].matches('#').count(), 50);
        assert_eq!(
            ChartCharacters::new(true).over_time(&[u64::MAX; 100], "a", "b", 20).1,
            8,
            "also where the sum is beyond counting"
        );
    }

    #[test]
    fn rankings_are_exactly_as_wide_as_they_are_told() {
        let items = [
            ("日本語のとても長いホスト名.example".to_owned(), u64::MAX),
            ("a\u{1b}[31mb".to_owned(), 1),
            ("🙂🙂🙂".to_owned(), 0),
            (String::new(), 12_345),
        ];
        for width in 10..=200 {
            for unicode in [true, false] {
                let lines = ChartCharacters::new(unicode).ranking("Referrers", &items, width);
                assert_eq!(lines.len(), 5);
                assert!(lines.iter().all(|line| line.width() == width), "{width} {lines:#?}");
                assert!(lines.iter().all(|line| !line.contains('\u{1b}')));
            }
        }
        let lines = ChartCharacters::new(true).ranking(
            "Devices",
            &[("mobile".into(), 1200), ("tablet".into(), 300)],
            30,
        );
        assert_eq!(
            lines,
            [
                "Devices                       ",
                "mobile 1,200 █████████████████",
                "tablet   300 ████▎            "
            ]
        );
        let blocks = vec![lines.clone(), lines[..2].to_vec(), lines];
        for width in 20..=200 {
            let page = side_by_side(&blocks, 30.min(width), 2, width);
            assert!(page.iter().all(|line| line.width() <= width), "{width} {page:#?}");
            assert_eq!(page.iter().flat_map(|line| line.matches("Devices")).count(), 3);
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        let numbers = [
            (0, "0", "0"),
            (999, "999", "999"),
            (9_999, "9,999", "9999"),
            (10_000, "10,000", "10.0k"),
            (123_456, "123,456", "123k"),
            (999_999, "999,999", "999k"),
            (1_000_000, "1,000,000", "1.0M"),
            (u64::MAX, "18,446,744,073,709,551,615", "18.4E"),
        ];
        for (value, long, few) in numbers {
            assert_eq!((&*number(value), &*short(value)), (long, few));
            assert!(short(value).len() <= 5);
        }
    }
}
