use crate::error::{Error, Result};
use crate::tree::under;

use super::{Codec, Field, Numbers, of_formats};

/// What is wrong with fields by themselves, each with its key in settings.
pub(crate) fn field_faults(fields: &[(String, Field)]) -> Vec<String> {
    let of_one = |(name, field): &(String, Field)| under(name.clone(), field.faults()).collect::<Vec<_>>();
    fields.iter().flat_map(of_one).collect()
}

/// The faults from a check that ended with an error.
pub(crate) fn fault_of<T>(looked: Result<T>) -> Vec<String> {
    let fault = |error: Error| match error.location().column.as_deref() {
        Some(field) => format!("{field}: {}", error.message()),
        None => error.message().to_owned(),
    };
    looked.err().map(fault).into_iter().collect()
}

/// The faults from a check of fields that ends with its first error: that error, and those of other fields that are wrong
/// by themselves.
pub(crate) fn faults_of_fields<T>(
    fields: &[(String, Field)],
    check: impl Fn(&[(String, Field)]) -> Result<T>,
) -> Vec<String> {
    let mut faults = fault_of(check(fields));
    if !faults.is_empty() {
        let alone = fields.iter().filter(|(_, field)| !field.codec.goes_with_others());
        for fault in alone.flat_map(|field| fault_of(check(std::slice::from_ref(field)))) {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    faults
}

impl Field {
    fn faults(&self) -> Vec<String> {
        let faults = match &self.codec {
            Codec::Class { names: Some(names), .. } => twice("class", names).into_iter().collect(),
            Codec::Category { names: Some(lists), .. } => {
                lists.iter().filter_map(|names| twice("category", names)).collect()
            }
            Codec::Numbers(Numbers { max_len, list, ragged, .. })
                if self.is_several() && (max_len.is_some() || *list || *ragged) =>
            {
                let fault = "from: each of several fields gives one number, and a list is made of one field; name one, or leave out \
                             max_len, list and ragged";
                vec![fault.to_owned()]
            }
            Codec::Text { max_len: 0, .. } => vec!["text: 0; a text has room for one byte at least".to_owned()],
            codec => of_formats::faults(codec),
        };
        if self.is_file { under("file", faults).collect() } else { faults }
    }
}

fn twice(key: &str, names: &[String]) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    names.iter().find(|name| !seen.insert(*name)).map(|name| format!("{key}: {name:?} is listed twice"))
}
