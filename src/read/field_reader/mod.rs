//! A reader of any container by any codecs, as `fields` say. This module makes it, from what `scan` finds in the
//! records, and workers run `decode`. `files` opens the files that fields name, `lengths` keeps measured lengths, and
//! `given` makes tensors from values that a caller gives.

mod decode;
mod files;
mod given;
mod lengths;
#[cfg_attr(not(feature = "formats"), path = "no_formats.rs")]
mod of_formats;
mod scan;

use std::fmt;
use std::sync::Arc;

use crate::decode::ImageOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::schema::TensorSpec;

use super::codec::{Decode, Made, Varying, common_sizes, make, needs_names};
use super::container::{Container, FieldInfo};
use super::fields::{Field, with_others};

pub(crate) use given::GivenFields;
use lengths::Lengths;
use scan::{find_for, first_values, info_of, names_in};

/// Most fields that a sample's tensors are made of.
pub(in crate::read) const MAX_SOURCES: usize = 4096;

/// Tensors made of the fields of a [`Container`], each by its codec.
///
/// ```
/// use ringfeed::field::Text;
/// use ringfeed::memory::MemoryBudget;
/// use ringfeed::read::{FieldReader, Lines, RecordReader};
/// use ringfeed::storage::Files;
///
/// let lines = Lines::open(&Files::local(), "fixtures/iris.csv".as_ref(), &Default::default(), &MemoryBudget::unlimited())?;
/// let fields = [("line".to_owned(), Text::new(80).cut().into())];
/// let reader = FieldReader::new(lines, &fields, &MemoryBudget::unlimited())?;
/// assert_eq!((reader.len(), reader.tensors().len()), (151, 2));
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct FieldReader {
    container: Arc<dyn Container>,
    parts: Vec<Part>,
    /// The parts that must be finished when the whole record is written.
    unfinished: Vec<usize>,
    /// For each of the container's fields, by number: the parts it goes to, each with the field's number there, and a
    /// number for both.
    targets: Vec<Vec<Target>>,
    target_count: usize,
    /// For each of the container's fields, by number: its views, if it is a picture with several views. Their targets
    /// come first. Empty if there are no views at all.
    views: Vec<Vec<ImageOptions>>,
    /// Number of codecs that need all values of a record at once.
    stages: usize,
    tensors: Vec<TensorSpec>,
    lengths: Lengths,
    budget: MemoryBudget,
}

impl fmt::Debug for FieldReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldReader").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

struct Part {
    name: String,
    codec: Box<dyn Decode>,
    /// The position of its first tensor.
    first: usize,
    count: usize,
    /// The place of its upright size in the context's sizes, for a map, and for the picture of a map.
    size: Option<usize>,
}

#[derive(Clone, Copy)]
struct Target {
    part: usize,
    nth: usize,
    number: usize,
}

impl FieldReader {
    /// The tensors of these fields, in this order. If names of classes or categories are not listed, all records are
    /// read once to find them, by one thread per core.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a field that the container does not have, [`ErrorKind::Config`] for a field that
    /// can't be decoded as requested, and errors of reading if names must be found.
    pub fn new(
        mut container: impl Container + 'static,
        fields: &[(String, Field)],
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let fields = with_others(&mut container, fields)?;
        Self::boxed(Box::new(container), &fields, budget)
    }

    fn boxed(mut container: Box<dyn Container>, fields: &[(String, Field)], budget: &MemoryBudget) -> Result<Self> {
        let mut names = names_in(&mut *container, fields)?;
        let firsts = first_values(&mut *container, fields)?;
        container.forget();
        let (mut parts, mut tensors) = (Vec::new(), Vec::new());
        let (mut targets, mut target_count): (Vec<Vec<Target>>, usize) = (Vec::new(), 0);
        let mut varying = Varying::default();
        for ((name, field), first) in fields.iter().zip(firsts) {
            let columns = field.columns(name);
            let mut numbers = Vec::with_capacity(columns.len());
            for column in &columns {
                numbers.push(find_for(field, &mut *container, column, name)?);
            }
            let infos: Vec<Option<&FieldInfo>> =
                columns.iter().map(|column| info_of(container.fields(), column)).collect();
            let own = if needs_names(field) { names.drain(..columns.len()).collect() } else { Vec::new() };
            let located = |error: Error| match container.is_empty() {
                true => error,
                false => match container.place(0).path {
                    Some(path) => error.at_path(path),
                    None => error,
                },
            };
            let Made { codec, tensors: made } =
                make(name, field, &infos, own, first.as_deref(), &mut varying).map_err(located)?;
            for (nth, number) in numbers.into_iter().enumerate() {
                if targets.len() <= number {
                    targets.resize_with(number + 1, Vec::new);
                }
                targets[number].push(Target { part: parts.len(), nth, number: target_count });
                target_count += 1;
            }
            parts.push(Part { name: name.clone(), codec, first: tensors.len(), count: made.len(), size: None });
            tensors.extend(made);
        }
        if target_count > MAX_SOURCES {
            let message = format!(
                "{target_count} fields or more; tensors may come from {MAX_SOURCES}: name those to read (`fields`)"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let pictures: Vec<_> = parts.iter().map(|part| part.codec.picture()).collect();
        let sizes = common_sizes(&pictures, &mut varying)?;
        parts.iter_mut().zip(sizes).for_each(|(part, size)| part.size = size);
        let lengths = Lengths::new(&tensors, container.len());
        let unfinished = (0..parts.len()).filter(|part| parts[*part].codec.is_unfinished()).collect();
        let (stages, budget) = (varying.stages(), budget.clone());
        let is_no_picture = |target: &Target| parts[target.part].codec.picture().is_none();
        targets.iter_mut().for_each(|of_field| of_field.sort_by_key(is_no_picture));
        let mut views: Vec<_> = targets.iter().map(|of_field| views_of(&parts, of_field)).collect();
        if views.iter().all(Vec::is_empty) {
            views.clear();
        }
        let container = Arc::from(container);
        Ok(Self { container, parts, unfinished, targets, target_count, views, stages, tensors, lengths, budget })
    }
}

/// The views among a field's targets, if there are several: one file becomes all of them.
fn views_of(parts: &[Part], targets: &[Target]) -> Vec<ImageOptions> {
    let views: Vec<_> = targets.iter().filter_map(|target| parts[target.part].codec.picture()).cloned().collect();
    if views.len() > 1 { views } else { Vec::new() }
}
