use serde::de::DeserializeOwned;

use crate::tree::{Fault, Node};

use super::{ByName, Field};

/// What the options of earlier versions among these said, and the first of their names. None if there are none of `names`.
///
/// # Errors
///
/// What is wrong with them.
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

/// What to say of an option of earlier versions that said what these fields say.
pub(crate) fn instead_of(option: &str, fields: &[(String, Field)]) -> String {
    let written =
        toml::Value::try_from(ByName(fields)).map_or_else(|error| error.to_string(), |value| value.to_string());
    format!(
        "{option:?} is said by fields now, as for every format; take such options out, and write beside the path: \
         fields = {written}"
    )
}
