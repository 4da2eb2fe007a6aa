use serde::de::DeserializeOwned;

use crate::tree::{Fault, Node, any};

use super::{ByName, Field};

/// The values of those options that earlier versions had, and the first name among them. `None` if there are none of
/// `names`.
///
/// # Errors
///
/// The original error.
pub(crate) fn old_among<'o, T: DeserializeOwned>(
    options: &'o Node,
    names: &[&str],
) -> Result<Option<(&'o str, T)>, Fault> {
    let Node::Table(entries) = options else { return Ok(None) };
    let old: Vec<_> = entries.iter().filter(|(name, _)| names.contains(&name.as_str())).collect();
    let Some((first, _)) = old.first() else { return Ok(None) };
    let said = T::deserialize(&Node::Table(old.iter().copied().cloned().collect()))?;
    Ok(Some((first, said)))
}

/// The advice for an option of earlier versions that these fields replace.
pub(crate) fn instead_of(option: &str, fields: &[(String, Field)]) -> String {
    let written =
        toml::Value::try_from(any(&ByName(fields))).map_or_else(|error| error.to_string(), |value| value.to_string());
    format!(
        "{option:?} is no longer an option, because fields define this for every format; remove such options, and \
         write beside the path: fields = {written}"
    )
}
