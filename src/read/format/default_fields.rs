//! The default fields of a container's records.

use crate::error::{Error, ErrorKind, Result};
use crate::read::Scratch;
use crate::read::container::{Container, FieldInfo, FieldKind, read_one};
use crate::read::fields::{Field, Numbers, example};

/// A tensor for each field of numbers, with the field's name. Text, bytes and other fields have no default: the user
/// must set the longest length of a text or the size of a picture.
///
/// # Errors
///
/// [`ErrorKind::Config`] if no field holds numbers, with the existing fields and how to define their tensors;
/// [`ErrorKind::Format`] if there are no fields at all, as in a file without records; those of the first record.
pub(crate) fn default_fields(container: &dyn Container) -> Result<Vec<(String, Field)>> {
    let infos = container.fields();
    let field = |info: &FieldInfo| match info.kind {
        FieldKind::Numbers(dtype) => {
            let numbers = Numbers { ragged: info.ragged, ..Numbers::of(dtype) };
            Some((info.name.clone(), numbers.into()))
        }
        _ => None,
    };
    if infos.is_empty() {
        if container.is_empty() {
            let message = "there are no records, so it is not known which fields they have";
            return Err(Error::new(ErrorKind::Format, message));
        }
        // A file of another format shows in its first record.
        read_one(container, 0, &mut Scratch::default(), &mut |_, _| Ok(()))?;
        return Err(Error::new(ErrorKind::Format, "the records that were looked at have no fields"));
    }
    let fields: Vec<_> = infos.iter().filter_map(field).collect();
    if fields.is_empty() {
        const SHOWN: usize = 10;
        let shown = infos.iter().take(SHOWN).map(|info| format!("{} ({})", info.name, info.type_name()));
        let names = shown.collect::<Vec<_>>().join(", ");
        let message = format!(
            "no field holds numbers alone; say in `fields` how to decode those that there are: {names}{} (for example \
             fields = {{ x = {{ from = {:?}, {} }} }})",
            if infos.len() > SHOWN { ", ..." } else { "" },
            infos.first().map_or("", |info| info.name.as_str()),
            infos.first().map_or("text = 80", example),
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(fields)
}
