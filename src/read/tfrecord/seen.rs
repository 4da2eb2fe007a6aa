//! What the fields of the first records hold, from which the kind and shape of each field are learned.

use crate::dtype::DType;
use crate::read::container::{FieldInfo, FieldKind};

use super::example::{Room, Values, each_step};
use super::wire::{Fault, Part};

/// The values that were seen in a field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// `None` if no value was seen yet.
    pub(super) kind: Option<FieldKind>,
    /// The number of values if it is always the same, otherwise 0; for a list of features, in each step.
    count: usize,
    is_list: bool,
}

impl Seen {
    pub(super) fn of(feature: Part<'_>, is_list: bool, room: &mut Room) -> Result<Self, Fault> {
        if !is_list {
            return Ok(Self::of_values(room.values(feature)?));
        }
        let mut all = Self::default();
        each_step(feature, |step| {
            all = all.and(Self::of_values(room.values(step)?));
            Ok::<(), Fault>(())
        })?;
        Ok(Self { is_list: true, ..all })
    }

    fn of_values(values: Values<'_>) -> Self {
        let (kind, count) = match values {
            Values::None => return Self::default(),
            Values::Bytes(strings) => (FieldKind::Bytes, strings.len()),
            Values::Floats(numbers) => (FieldKind::Numbers(DType::F32), numbers.len()),
            Values::Integers(numbers) => (FieldKind::Numbers(DType::I64), numbers.len()),
        };
        Self { kind: Some(kind), count, is_list: false }
    }

    /// Combines this record with another.
    pub(super) fn and(self, other: Self) -> Self {
        match (self.kind, other.kind) {
            (_, None) => self,
            (None, _) => other,
            (Some(one), Some(another)) => Self {
                kind: Some(if one == another { one } else { FieldKind::Other }),
                count: if self.count == other.count { self.count } else { 0 },
                is_list: self.is_list,
            },
        }
    }

    pub(super) fn info(self, name: &str) -> FieldInfo {
        let info = FieldInfo::new(name, self.kind.unwrap_or(FieldKind::Other));
        match (self.kind, self.is_list, self.count) {
            (None, ..) => info.unseen(true),
            (_, false, 1) => info,
            (_, true, 1) => info.shape(&[0]),
            (_, true, count) => info.shape(&[0, count]),
            (_, false, count) => info.shape(&[count]),
        }
    }
}
