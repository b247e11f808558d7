//! A line chart, drawn as SVG paths for a box that is stretched to any width.

use super::format::grouped;

/// The width and height of the box that paths are drawn in.
const WIDTH: f64 = 1000.0;
pub(super) const HEIGHT: f64 = 200.0;
/// At most this many labels below the chart.
const MAX_LABELS: usize = 7;

/// A point of the series, and its counterpart in the period before.
pub(super) struct ChartPoint {
    /// The short label below the chart.
    pub(super) tick: String,
    /// The whole label.
    pub(super) label: String,
    pub(super) value: u64,
    pub(super) before: Option<u64>,
}

pub(super) struct Chart {
    pub(super) line: String,
    pub(super) area: String,
    /// The line of the period before; empty if there is none.
    pub(super) before: String,
    /// Horizontal lines: the label, and the distance from the top.
    pub(super) levels: Vec<(String, f64)>,
    /// Labels below: the text, the distance from the left in percent, the anchor and whether it is
    /// left out on narrow screens.
    pub(super) ticks: Vec<(String, String, &'static str, bool)>,
    pub(super) rows: Vec<Row>,
}

/// A row of the table with the same data.
pub(super) struct Row {
    pub(super) label: String,
    pub(super) value: String,
    pub(super) before: Option<String>,
    /// The distance of the point from the top.
    pub(super) y: String,
}

impl Chart {
    pub(super) fn new(points: Vec<ChartPoint>) -> Self {
        let most = points.iter().map(|point| point.value.max(point.before.unwrap_or(0))).max();
        let (step, top) = scale(most.unwrap_or(0));
        let y = |value: u64| HEIGHT - value as f64 / top as f64 * HEIGHT;
        let last = points.len().saturating_sub(1).max(1) as f64;
        let x = |place: usize| place as f64 / last * WIDTH;
        let drawn = |values: &[u64]| {
            let mut path = String::new();
            for (place, value) in values.iter().enumerate() {
                let letter = if place == 0 { 'M' } else { 'L' };
                path.push_str(&format!("{letter}{:.1} {:.1}", x(place), y(*value)));
            }
            if let [only] = values {
                path.push_str(&format!("L{WIDTH} {:.1}", y(*only)));
            }
            path
        };
        let line = drawn(&points.iter().map(|point| point.value).collect::<Vec<_>>());
        let before: Vec<u64> = points.iter().map_while(|point| point.before).collect();
        let before =
            if before.iter().any(|value| *value > 0) { drawn(&before) } else { String::new() };
        let every = points.len().div_ceil(MAX_LABELS).max(1);
        let ticks = points.iter().enumerate().step_by(every).map(|(place, point)| {
            let percent = x(place) / WIDTH * 100.0;
            let anchor = match percent {
                ..4.0 => "start",
                ..96.0 => "middle",
                _ => "end",
            };
            (point.tick.clone(), format!("{percent:.2}"), anchor, (place / every) % 2 == 1)
        });
        let ticks = ticks.collect();
        let levels = (0..=top / step).map(|level| (short(level * step), y(level * step)));
        Self {
            area: format!("{line}L{WIDTH} {HEIGHT}L0 {HEIGHT}Z"),
            line,
            before,
            levels: levels.collect(),
            ticks,
            rows: points
                .into_iter()
                .map(|point| Row {
                    y: format!("{:.1}", y(point.value)),
                    label: point.label,
                    value: grouped(point.value),
                    before: point.before.map(grouped),
                })
                .collect(),
        }
    }
}

/// The distance of the horizontal lines and the value at the top: round numbers.
fn scale(most: u64) -> (u64, u64) {
    let most = most.max(4);
    let mut step = 1_u64;
    'found: for power in 0..19 {
        for factor in [1, 2, 5] {
            step = 10_u64.saturating_pow(power).saturating_mul(factor);
            if step.saturating_mul(4) >= most {
                break 'found;
            }
        }
    }
    (step, most.div_ceil(step).saturating_mul(step))
}

/// A number in at most four characters: 1.5k, 20k, 3M.
pub(super) fn short(number: u64) -> String {
    let (divisor, unit) = match number {
        ..1_000 => return number.to_string(),
        1_000..1_000_000 => (1_000, "k"),
        1_000_000..1_000_000_000 => (1_000_000, "M"),
        _ => (1_000_000_000, "G"),
    };
    let (whole, tenth) = (number / divisor, number % divisor * 10 / divisor);
    match (whole, tenth) {
        (..10, 1..) => format!("{whole}.{tenth}{unit}"),
        _ => format!("{whole}{unit}"),
    }
}

/// The path of a small line without labels, in a box of 96 by 24.
pub(super) fn sparkline(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1) as f64;
    let last = values.len().saturating_sub(1).max(1) as f64;
    let mut path = String::new();
    for (place, value) in values.iter().enumerate() {
        let letter = if place == 0 { 'M' } else { 'L' };
        let (x, y) = (place as f64 / last * 96.0, 22.5 - *value as f64 / most * 21.0);
        path.push_str(&format!("{letter}{x:.0} {y:.1}"));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_round_and_holds_every_value() {
        for (most, want) in [
            (0, (1, 4)),
            (3, (1, 4)),
            (7, (2, 8)),
            (18, (5, 20)),
            (1357, (500, 1500)),
            (u64::MAX / 2, (5_000_000_000_000_000_000, 10_000_000_000_000_000_000)),
        ] {
            assert_eq!(scale(most), want, "{most}");
        }
        for (number, want) in
            [(999, "999"), (1000, "1k"), (1500, "1.5k"), (20_000, "20k"), (3_100_000, "3.1M")]
        {
            assert_eq!(short(number), want);
        }
    }

    #[test]
    fn a_chart_draws_both_periods_and_tells_every_value() {
        let point = |value, before| ChartPoint {
            tick: format!("t{value}"),
            label: format!("l{value}"),
            value,
            before,
        };
        let chart = Chart::new(vec![point(0, Some(4)), point(4, Some(2)), point(2000, None)]);
        assert_eq!(chart.line, "M0.0 200.0L500.0 199.6L1000.0 0.0");
        assert_eq!(chart.before, "M0.0 199.6L500.0 199.8");
        assert_eq!(chart.rows[2].value, "2,000");
        assert_eq!(chart.levels.first(), Some(&("0".to_owned(), 200.0)));
        assert_eq!(chart.levels.last(), Some(&("2k".to_owned(), 0.0)));
        let alone = Chart::new(vec![point(3, Some(0))]);
        assert_eq!((&*alone.line, &*alone.before), ("M0.0 50.0L1000 50.0", ""));
        assert!(Chart::new(Vec::new()).rows.is_empty());
    }
}
