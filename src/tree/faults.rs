//! What is wrong with settings that could be parsed. Every type of settings has a method `faults`, which lists
//! everything that is wrong, one text per fault. A text begins with its key and a colon, unless it is about several
//! keys.

use std::fmt::Display;

use crate::error::{Error, ErrorKind, Result};

/// Turns faults into one error; nothing if there are none.
///
/// # Errors
///
/// [`ErrorKind::Config`] if there are any.
pub(crate) fn no_faults(faults: Vec<String>) -> Result<()> {
    let message = match faults.as_slice() {
        [] => return Ok(()),
        [fault] => fault.clone(),
        faults => format!("{} faults in the settings:\n  {}", faults.len(), faults.join("\n  ")),
    };
    Err(Error::new(ErrorKind::Config, message))
}

/// Adds the key of a table to the faults of the settings in it.
pub(crate) fn under(key: impl Display, faults: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let is_key = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']'))
    };
    faults.into_iter().map(move |fault| {
        let begins_with_key = fault.split_once(": ").is_some_and(|(name, _)| is_key(name));
        format!("{key}{}{fault}", if begins_with_key { "." } else { ": " })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_the_whole_path_of_its_key() {
        let faults = ["low: above high", "cut.stride: 0", "columns[2]: twice", "two of a kind: leave one out", "wrong"];
        let found: Vec<_> = under("sources[1].options", faults.map(str::to_owned)).collect();
        assert_eq!(
            found,
            [
                "sources[1].options.low: above high",
                "sources[1].options.cut.stride: 0",
                "sources[1].options.columns[2]: twice",
                "sources[1].options: two of a kind: leave one out",
                "sources[1].options: wrong",
            ]
        );
        assert!(no_faults(Vec::new()).is_ok());
        assert_eq!(no_faults(vec!["a: 1".to_owned()]).unwrap_err().message(), "a: 1");
        let error = no_faults(found).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().starts_with("5 faults in the settings:\n  sources[1]"), "{error}");
    }
}
