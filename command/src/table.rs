//! Aligned columns of text.

use ringfeed::stats::DamageStats;

use crate::output::plain;

/// Fewest characters that a column is shortened to.
const MIN_WIDTH: usize = 8;

/// Rows under a header. Columns of numbers stand to the right.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Column {
    Text(&'static str),
    Number(&'static str),
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Self::Text(name) | Self::Number(name) => name,
        }
    }
}

/// The length of a line with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: vec![columns.iter().map(|column| column.name().to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// Whether lines of `width` characters have room for all numbers in full.
    pub(crate) fn has_room(&self, width: usize) -> bool {
        total(&self.widths(width)) <= width
    }

    /// The width of each column in lines of `width` characters, if they have room.
    fn widths(&self, width: usize) -> Vec<usize> {
        let longest = |index: usize| self.rows.iter().map(|row| len(&row[index])).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..self.columns.len()).map(longest).collect();
        let texts = || self.columns.iter().enumerate().filter(|(_, column)| matches!(column, Column::Text(_)));
        while total(&widths) > width {
            let Some((index, _)) = texts().max_by_key(|(index, _)| widths[*index]) else { break };
            if widths[index] <= MIN_WIDTH {
                break;
            }
            widths[index] -= (total(&widths) - width).min(widths[index] - MIN_WIDTH);
        }
        widths
    }

    /// The lines, none longer than `width` characters: text columns are shortened first, the longest of them first.
    pub(crate) fn render(&self, width: usize) -> String {
        let widths = self.widths(width);
        let mut lines = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (index, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                let cell = shorten(cell, widths[index]);
                let space = " ".repeat(widths[index] - len(&cell));
                let gap = if index == 0 { "" } else { "  " };
                line += &match column {
                    Column::Text(_) => format!("{gap}{cell}{space}"),
                    Column::Number(_) => format!("{gap}{space}{cell}"),
                };
            }
            lines += &shorten(line.trim_end(), width);
            lines.push('\n');
        }
        lines
    }
}

fn len(text: &str) -> usize {
    text.chars().count()
}

/// Text from data as one line that changes nothing on a terminal.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).replace('\n', "\\n")
}

/// At most `width` characters, with an ellipsis for what is cut.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if len(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A number of things, in groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A time that a person waited for.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.1} s"),
        s => format!("{:.1} ms", 1e3 * s),
    }
}

/// How many things of a name: `1 sample`, `2 samples`.
pub(crate) fn things(number: u64, name: &str) -> String {
    let plural = match number {
        1 => "",
        _ if name.ends_with("tch") || name.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {name}{plural}", count(number))
}

/// How many images are damaged, and how: `2 images (1 surplus data, 1 wrong restart markers)`.
pub(crate) fn damages(images: u64, kinds: &[DamageStats]) -> String {
    let kinds: Vec<String> = kinds.iter().map(|damage| format!("{} {}", count(damage.images), damage.kind)).collect();
    format!("{} ({})", things(images, "image"), kinds.join(", "))
}

/// What a clock measured, to three significant digits; large numbers in groups of three digits.
pub(crate) fn measured(number: f64) -> String {
    match number {
        n if (999.5..1e15).contains(&n) => count(n.round() as u64),
        n => to_digits(n, 3),
    }
}

/// A figure to six significant digits; whole numbers in full.
pub(crate) fn figure(number: f64) -> String {
    to_digits(number, 6)
}

fn to_digits(number: f64, digits: usize) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    let magnitude = number.abs().log10().floor();
    if !(-4.0..15.0).contains(&magnitude) {
        return format!("{number:.*e}", digits - 1);
    }
    let decimals = (digits as f64 - 1.0 - magnitude).max(0.0) as usize;
    let text = format!("{number:.decimals$}");
    if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_whole_numbers_exact() {
        let shown = [876.5, 5.843333333333333, 150.0, -0.0001234567, 1.5e300, 123456789.4, f64::INFINITY, 0.0];
        let expected = ["876.5", "5.84333", "150", "-0.000123457", "1.50000e300", "123456789", "inf", "0"];
        assert_eq!(shown.map(figure), expected);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn what_was_measured_has_three_digits() {
        let shown = [0.552859, 45.1004, 7.0, 0.00123456, 999.4, 1234.56, 74510.2];
        assert_eq!(shown.map(measured), ["0.553", "45.1", "7", "0.00123", "999", "1,235", "74,510"]);
    }

    #[test]
    fn durations_have_a_unit_that_fits() {
        assert_eq!([0.00792037, 0.5, 12.345, 1234.5].map(duration), ["7.9 ms", "500.0 ms", "12.3 s", "1234 s"]);
    }

    #[test]
    fn one_thing_is_no_plural() {
        let shown = [(0, "sample"), (1, "sample"), (1, "batch"), (2, "batch"), (3, "class"), (1_234_567, "epoch")];
        let expected = ["0 samples", "1 sample", "1 batch", "2 batches", "3 classes", "1,234,567 epochs"];
        assert_eq!(shown.map(|(number, name)| things(number, name)), expected);
        let kinds = [("surplus data", 1), ("wrong scan headers", 1000)].map(|(kind, images)| {
            let mut damage = DamageStats::default();
            (damage.kind, damage.images) = (kind, images);
            damage
        });
        assert_eq!(damages(1000, &kinds), "1,000 images (1 surplus data, 1,000 wrong scan headers)");
    }

    #[test]
    fn numbers_stand_to_the_right_and_lines_keep_the_width() {
        let mut table = Table::new(&[Column::Text("field"), Column::Number("sum")]);
        table.row(["a".to_owned(), "12345".to_owned()]);
        table.row(["a name that goes on\nand on".to_owned(), "7".to_owned()]);
        let lines = table.render(20);
        assert_eq!(lines, "field            sum\na              12345\na name that …      7\n");
        assert!(table.render(10).lines().all(|line| line.chars().count() <= 10));
    }
}
