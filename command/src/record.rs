use ringfeed::inspect::{Figure, InspectedRecord};

use super::table::{figure, one_line, things};

/// Most numbers of a record that are listed for a person.
const NUMBERS_SHOWN: usize = 8;

/// A number as it is stored, integers in full.
pub(crate) fn stored(number: Figure) -> String {
    match number {
        Figure::Whole(number) => number.to_string(),
        Figure::Real(number) => figure(number),
        _ => String::new(),
    }
}

/// A record in one line.
pub(crate) fn text_of(record: &InspectedRecord) -> String {
    match record {
        InspectedRecord::Columns(columns) => {
            let columns = columns.iter().map(|(name, field)| format!("{}={}", one_line(name), one_line(field)));
            columns.collect::<Vec<_>>().join(", ")
        }
        InspectedRecord::Numbers(arrays) => {
            let array = |values: &Option<Vec<Figure>>| {
                let values = values.as_deref().unwrap_or_default();
                let shown = values.iter().copied().take(NUMBERS_SHOWN).map(stored).collect::<Vec<_>>();
                format!("{}{}", shown.join(" "), if values.len() > NUMBERS_SHOWN { " …" } else { "" })
            };
            let arrays = arrays.iter().map(|(name, values)| format!("{}={}", one_line(name), array(values)));
            arrays.collect::<Vec<_>>().join(", ")
        }
        InspectedRecord::Image { path, label: None } => one_line(path),
        InspectedRecord::Image { path, label: Some(label) } => format!("{} ({})", one_line(path), one_line(label)),
        InspectedRecord::Member { path, key, label: None } => format!("{} in {}", one_line(key), one_line(path)),
        InspectedRecord::Member { path, key, label: Some(label) } => {
            format!("{} ({}) in {}", one_line(key), one_line(label), one_line(path))
        }
        InspectedRecord::Sequence { path, steps } => format!("{} ({})", one_line(path), things(*steps, "step")),
        _ => String::new(),
    }
}
