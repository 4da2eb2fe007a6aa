//! Names of the parts of a split data set, which are neither classes nor records.

use std::path::Path;

use crate::error::{Error, ErrorKind};

const TRAINING: [&str; 6] = ["train", "training", "trainset", "trainingset", "traindata", "trainingdata"];
const OTHERS: [&str; 15] = [
    "val",
    "valid",
    "validation",
    "valset",
    "validset",
    "validationset",
    "dev",
    "devset",
    "eval",
    "evaluation",
    "test",
    "testing",
    "testset",
    "testdata",
    "holdout",
];

/// A name without what distinguishes shards, years and copies, such as `train2017` or `test_set`.
fn letters(name: &str) -> String {
    name.chars().filter(|character| character.is_alphabetic()).flat_map(char::to_lowercase).collect()
}

pub(super) fn is_training(name: &str) -> bool {
    TRAINING.contains(&letters(name).as_str())
}

fn is_other(name: &str) -> bool {
    OTHERS.contains(&letters(name).as_str())
}

/// Whether training data and other parts of a data set are mixed.
pub(super) fn are_mixed<'a>(names: impl IntoIterator<Item = &'a str> + Clone) -> bool {
    names.clone().into_iter().any(is_training) && names.into_iter().any(is_other)
}

/// Whether these names are parts of a data set: all of them, or training data and at least one other part.
pub(super) fn are_parts<'a>(names: impl IntoIterator<Item = &'a str> + Clone) -> bool {
    let all = || names.clone().into_iter().all(|name| is_training(name) || is_other(name));
    are_mixed(names.clone()) || names.clone().into_iter().next().is_some() && all()
}

/// The error for a folder that holds `names`, which are parts of a data set and not a `what`.
#[cold]
pub(super) fn refuse<'a>(
    folder: &Path,
    names: impl IntoIterator<Item = &'a str> + Clone,
    what: &str,
    or_else: &str,
) -> Error {
    let mut all: Vec<&str> = names.into_iter().collect();
    all.sort_unstable();
    let best = all.iter().copied().find(|name| is_training(name)).or(all.first().copied()).unwrap_or_default();
    let shown = all.iter().take(8).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let more = if all.len() > 8 { ", ..." } else { "" };
    let message = format!(
        "holds {shown}{more}, which by their names are parts of a data set, no {what}; name one of them, such as {:?}{or_else}",
        folder.join(best)
    );
    Error::new(ErrorKind::Config, message).at_path(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names() {
        for parts in [
            &["train", "val"][..],
            &["Training_Set", "test_set"],
            &["train2017", "val2017"],
            &["test"],
            &["train", "unlabeled", "dev"],
        ] {
            assert!(are_parts(parts.iter().copied()), "{parts:?}");
        }
        for names in [&["train", "bus", "tram"][..], &["cat", "dog"], &["attest", "trainer"], &[]] {
            assert!(!are_parts(names.iter().copied()), "{names:?}");
        }
        assert!(are_mixed(["train-000", "val-000"]) && !are_mixed(["train-000", "train-001"]));
    }
}
