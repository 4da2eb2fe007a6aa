//! What files are called in messages.

use std::path::Path;

/// What standard input is called.
pub(crate) const STANDARD_INPUT: &str = "standard input";

/// Files whose names nobody gave them: the one that standard input is kept in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// This file is called standard input.
    pub(crate) fn of(path: &Path) -> Self {
        let path = path.to_string_lossy().into_owned();
        // As it is, and as JSON has it.
        let quoted = serde_json::to_string(&path).unwrap_or_default();
        Self(vec![path, quoted.trim_matches('"').to_owned()])
    }

    /// Whether there is such a file.
    pub(crate) fn are_some(&self) -> bool {
        !self.0.is_empty()
    }

    /// The text with the names that people know.
    pub(crate) fn put_into(&self, text: String) -> String {
        self.0.iter().filter(|path| !path.is_empty()).fold(text, |text, path| text.replace(path, STANDARD_INPUT))
    }
}
