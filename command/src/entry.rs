use ringfeed::Result;
use serde::{Serialize, Serializer};

use crate::table::{figure, one_line, things};

/// A record.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Entry {
    #[serde(serialize_with = "as_map")]
    Columns(Vec<(String, String)>),
    #[serde(serialize_with = "as_map")]
    Numbers(Vec<(String, Option<Vec<f64>>)>),
    Image {
        path: String,
        label: Option<String>,
    },
    Sequence {
        path: String,
        steps: u64,
    },
    Member {
        path: String,
        key: String,
        label: Option<String>,
    },
}

/// Most numbers of a record that are listed for a person.
const NUMBERS_SHOWN: usize = 8;

impl Entry {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Columns(columns) => {
                let columns = columns.iter().map(|(name, field)| format!("{}={}", one_line(name), one_line(field)));
                columns.collect::<Vec<_>>().join(", ")
            }
            Self::Numbers(arrays) => {
                let array = |values: &Option<Vec<f64>>| {
                    let values = values.as_deref().unwrap_or_default();
                    let shown = values.iter().take(NUMBERS_SHOWN).map(|value| figure(*value)).collect::<Vec<_>>();
                    format!("{}{}", shown.join(" "), if values.len() > NUMBERS_SHOWN { " …" } else { "" })
                };
                let arrays = arrays.iter().map(|(name, values)| format!("{}={}", one_line(name), array(values)));
                arrays.collect::<Vec<_>>().join(", ")
            }
            Self::Image { path, label: None } => one_line(path),
            Self::Image { path, label: Some(label) } => format!("{} ({})", one_line(path), one_line(label)),
            Self::Member { path, key, label: None } => format!("{} in {}", one_line(key), one_line(path)),
            Self::Member { path, key, label: Some(label) } => {
                format!("{} ({}) in {}", one_line(key), one_line(label), one_line(path))
            }
            Self::Sequence { path, steps } => format!("{} ({})", one_line(path), things(*steps, "step")),
        }
    }
}

fn as_map<V: Serialize, S: Serializer>(entries: &[(String, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, value)| (name, value)))
}
