use super::{ByName, Field};

/// What to say of an option of earlier versions that said what these fields say.
pub(crate) fn instead_of(option: &str, fields: &[(String, Field)]) -> String {
    let written =
        toml::Value::try_from(ByName(fields)).map_or_else(|error| error.to_string(), |value| value.to_string());
    format!(
        "{option:?} is said by fields now, as for every format; take such options out, and write beside the path: \
         fields = {written}"
    )
}
