//! Fields that name files, whose bytes go to the codecs.

use std::sync::Arc;

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::read::RecordReader;
use crate::read::container::{Container, Table};
use crate::read::fields::{Field, named_geometries, with_others};
use crate::storage::Files;

use super::FieldReader;
use super::of_formats::{are_views, of_files};

impl FieldReader {
    /// Readers that together give the tensors of all `fields`: one for the container's own values, and one for each
    /// field that names a file, whose bytes are read from `files`. The names of all files are kept in memory.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_files(
        mut container: Box<dyn Container>,
        fields: &[(String, Field)],
        files: &Files,
        budget: &MemoryBudget,
    ) -> Result<Vec<Arc<dyn RecordReader>>> {
        let fields = named_geometries(&with_others(&mut *container, fields)?)?;
        // One reader for the container's own values, and one for each file. Views of one picture are read together.
        let mut groups: Vec<Vec<(String, Field)>> = Vec::new();
        for (name, field) in fields {
            let goes_with = |(first, of): &(String, Field)| match field.is_file {
                false => !of.is_file,
                true => of.is_file && are_views((first, of), (&name, &field)),
            };
            let group = groups.iter_mut().find(|group| goes_with(&group[0]));
            match group {
                Some(group) => group.push((name, field)),
                None => groups.push(vec![(name, field)]),
            }
        }
        let (mut readers, mut own) = (Vec::with_capacity(groups.len()), None);
        let table = Table::default();
        for (at, group) in groups.into_iter().enumerate() {
            match group[0].1.is_file {
                true => readers.push(of_files((&mut *container, &table), &group, files, budget)?),
                false => own = Some((at, group)),
            }
        }
        let container = match own {
            Some((at, group)) => {
                let reader = Arc::new(Self::boxed(container, &group, budget)?);
                let container = reader.container.clone();
                readers.insert(at, reader);
                container
            }
            None => Arc::from(container),
        };
        table.get_or_init(|| container);
        Ok(readers)
    }
}
