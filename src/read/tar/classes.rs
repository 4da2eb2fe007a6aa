//! The classes of all archives together: names or indices, from their members.

use std::collections::HashMap;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::csv::unfit_index;
use crate::schema::{Role, TensorSpec};

use super::class::{IS_NAME, NO_CLASS, Said, number_of};
use super::index::ArchiveIndex;

/// Most classes of a one-hot tensor if they are not listed.
const MAX_ONE_HOT: u32 = 1 << 16;

/// The existing classes.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// The names in the order of the indices, if classes have names.
    names: Option<Arc<[String]>>,
    /// Whether an integer may be the index of a class instead of its name.
    has_indices: bool,
    /// One more than the largest index that occurs.
    count: u32,
}

impl Classes {
    /// Turns the labels of all archives into indices: into the `listed` names, or into the names that are found,
    /// sorted. If a sample has a number as its class, numbers are the indices.
    pub(super) fn settle<'a>(indexes: impl Iterator<Item = &'a mut ArchiveIndex>, listed: Option<&[String]>) -> Self {
        let mut indexes: Vec<&mut ArchiveIndex> = indexes.collect();
        let by_number = |index: &&mut ArchiveIndex| {
            index.labels.iter().any(|label| label & IS_NAME == 0)
                || index.names.iter().any(|name| number_of(name).is_some())
        };
        let names: Option<Vec<String>> = match listed {
            Some(listed) => Some(listed.to_vec()),
            None if indexes.iter().any(by_number) => None,
            None => {
                let mut found: Vec<String> = indexes.iter().flat_map(|index| index.names.iter().cloned()).collect();
                found.sort_unstable();
                found.dedup();
                Some(found).filter(|found| !found.is_empty())
            }
        };
        let has_indices = names.as_ref().is_none_or(|names| !names.iter().any(|name| number_of(name).is_some()));
        let mut classes = Self { names: names.map(Into::into), has_indices, count: 0 };
        let names = classes.names.clone();
        let codes: HashMap<&str, u32> =
            names.iter().flat_map(|names| names.iter().map(String::as_str).zip(0..)).collect();
        for index in &mut indexes {
            let own = std::mem::take(&mut index.names);
            let of_names: Vec<u32> = own.iter().map(|name| classes.index_of_name(name, &codes)).collect();
            for label in index.labels.iter_mut().filter(|label| **label != NO_CLASS) {
                *label = match *label & IS_NAME {
                    0 => classes.index_of_number(*label, &codes),
                    _ => of_names.get((*label & !IS_NAME) as usize).copied().unwrap_or(NO_CLASS),
                };
                if *label != NO_CLASS {
                    classes.count = classes.count.max(*label + 1);
                }
            }
        }
        classes
    }

    fn index_of_number(&self, number: u32, codes: &HashMap<&str, u32>) -> u32 {
        match &self.names {
            _ if !self.has_indices => codes.get(number.to_string().as_str()).copied().unwrap_or(NO_CLASS),
            Some(names) if number as usize >= names.len() => NO_CLASS,
            _ => number,
        }
    }

    fn index_of_name(&self, name: &str, codes: &HashMap<&str, u32>) -> u32 {
        let number = || number_of(name).filter(|_| self.has_indices).and_then(|number| u32::try_from(number).ok());
        let within = |number: &u32| {
            *number < IS_NAME && self.names.as_ref().is_none_or(|names| (*number as usize) < names.len())
        };
        codes.get(name).copied().or_else(|| number().filter(within)).unwrap_or(NO_CLASS)
    }

    /// The names in the order of the indices; none if classes only have indices.
    pub(super) fn names(&self) -> &[String] {
        self.names.as_deref().unwrap_or_default()
    }

    /// The tensor of a class.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if it can't hold them.
    pub(super) fn tensor(&self, name: &str, role: Role, one_hot: bool, dtype: Option<DType>) -> Result<TensorSpec> {
        let count = self.names.as_ref().map_or(self.count, |names| names.len() as u32);
        let config = |message: String| Err(Error::new(ErrorKind::Config, message));
        let (dtype, shape) = match one_hot {
            true if self.names.is_none() && !(1..=MAX_ONE_HOT).contains(&count) => {
                return config(format!("{count} classes; one-hot needs between 1 and {MAX_ONE_HOT}: list them"));
            }
            true => (dtype.unwrap_or(DType::F32), vec![count as usize]),
            false => (dtype.unwrap_or(DType::I64), vec![]),
        };
        let largest = i64::from(count.saturating_sub(1));
        if !one_hot && let Some(index) = unfit_index(dtype, largest) {
            return config(format!("class index {index} does not fit {dtype}"));
        }
        let mut tensor = TensorSpec::new(name, role, dtype, &shape);
        tensor.classes.clone_from(&self.names);
        Ok(tensor)
    }

    /// Why the value of a member is not a class.
    #[cold]
    pub(super) fn fault(&self, said: &Said<'_>) -> Error {
        let message = match (said, &self.names) {
            (Said::Name(name), None) => {
                let name = if number_of(name).is_some() { name.to_string() } else { format!("{name:?}") };
                format!(
                    "the class is {name}; expected its index, an integer from 0 on, as others have; or list the names"
                )
            }
            (Said::Index(index), Some(names)) if self.has_indices => {
                format!("the class is {index}, but there are {}, counted from 0", names.len())
            }
            (Said::Index(index), _) => format!("class \"{index}\" is not among the listed ones"),
            (Said::Name(name), Some(_)) => format!("class {name:?} is not among the listed ones"),
        };
        Error::new(ErrorKind::Data, message)
    }
}
