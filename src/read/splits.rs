//! Names of the parts of a split data set, which are neither classes nor records.

use std::collections::BTreeSet;
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

/// A name without the letters or digits that distinguish shards, years and copies, such as `train2017` or `test_set`.
fn letters(name: &str) -> String {
    name.chars().filter(|character| character.is_alphabetic()).flat_map(char::to_lowercase).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Training,
    Other,
}

fn part(name: &str) -> Option<Part> {
    let letters = letters(name);
    match () {
        () if TRAINING.contains(&letters.as_str()) => Some(Part::Training),
        () if OTHERS.contains(&letters.as_str()) => Some(Part::Other),
        () => None,
    }
}

/// The part that a name stands for, as a whole or by its first or last word; and the rest of the name.
fn part_and_rest(name: &str) -> Option<(Part, String)> {
    const BETWEEN_WORDS: [char; 4] = ['_', '-', '.', ' '];
    let name = name.trim_matches(|character: char| !character.is_alphabetic());
    let whole = part(name).map(|part| (part, ""));
    let last = || name.rsplit_once(BETWEEN_WORDS).and_then(|(rest, word)| Some((part(word)?, rest)));
    let first = || name.split_once(BETWEEN_WORDS).and_then(|(word, rest)| Some((part(word)?, rest)));
    whole.or_else(last).or_else(first).map(|(part, rest)| (part, letters(rest)))
}

/// Whether training data and other parts of a data set are mixed, under names that differ only in the part.
pub(super) fn are_mixed<'a>(names: impl IntoIterator<Item = &'a str>) -> bool {
    let (mut training, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (part, rest) in names.into_iter().filter_map(part_and_rest) {
        match part {
            Part::Training => training.insert(rest),
            Part::Other => others.insert(rest),
        };
    }
    training.iter().any(|rest| others.contains(rest))
}

/// Whether these names are parts of a data set: all of them, or training data and at least one other part.
pub(super) fn are_parts<'a>(names: impl IntoIterator<Item = &'a str> + Clone) -> bool {
    let all = || names.clone().into_iter().all(|name| part(name).is_some());
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
    let training = |name: &str| part_and_rest(name).is_some_and(|(part, _)| part == Part::Training);
    let best = all.iter().copied().find(|name| training(name)).or(all.first().copied()).unwrap_or_default();
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
            &["seg_pred", "seg_test", "seg_train"],
            &["Train-images", "Test-images"],
        ] {
            assert!(are_parts(parts.iter().copied()), "{parts:?}");
        }
        for names in [
            &["train", "bus", "tram"][..],
            &["cat", "dog"],
            &["attest", "trainer"],
            &["toy_train", "crash_test"],
            &["toy_train"],
            &[],
        ] {
            assert!(!are_parts(names.iter().copied()), "{names:?}");
        }
        assert!(are_mixed(["train-000", "val-000"]) && !are_mixed(["train-000", "train-001"]));
        assert!(are_mixed(["web_train_", "web_val_"]) && !are_mixed(["web_train_", "news_val_"]));
    }
}
