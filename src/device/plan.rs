use std::ops::Range;
use std::sync::Arc;

use crate::counters::Traced;
use crate::dataset::{DataSet, State};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::TENSOR_ALIGNMENT;
use crate::schema::{Schema, TensorSpec};
use crate::transform::Operation;
use crate::tree::{no_faults, under};

use super::convert::{CONVERTS, ON_HOST, Prepared, Work};
use super::place::Place;

/// The part that is the same for all batches: the tensors, and how each is converted.
#[derive(Debug)]
pub(super) struct Plan {
    /// The tensors that every batch must have.
    schema: Schema,
    /// The tensors that it has on the device.
    pub(super) given: Arc<Schema>,
    conversions: Vec<Prepared>,
}

/// The description of a batch on the device. It is kept in the batch's slot and recycled with it.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) epoch: u64,
    pub(super) index: u64,
    pub(super) positions: Vec<u64>,
    pub(super) samples: Vec<u64>,
    pub(super) padding: usize,
    pub(super) bad_records: usize,
    pub(super) after: Option<State>,
    /// Where each tensor lies, in the schema's order.
    pub(super) places: Vec<Place>,
    outputs: Vec<Place>,
    /// The conversions on the device.
    pub(super) works: Vec<Work>,
    /// Number of bytes that are copied to the slot's beginning.
    pub(super) copied: usize,
    /// Number of bytes that the slot must have.
    pub(super) bytes: usize,
    /// Where the batch's events are recorded, if there is a trace.
    pub(super) traced: Option<Traced>,
}

/// The tensors on a device that does these operations.
///
/// # Errors
///
/// A fault in `operations`, or an operation that a device can't do.
pub(crate) fn uploaded(schema: &Schema, operations: &[Operation]) -> Result<Arc<Schema>> {
    Ok(Plan::new(schema, operations)?.given)
}

impl Plan {
    /// # Errors
    ///
    /// A fault in `operations`, or an operation that a device can't do.
    pub(super) fn new(schema: &Schema, operations: &[Operation]) -> Result<Self> {
        let mut tensors = schema.tensors().to_vec();
        let mut prepared: Vec<Prepared> = Vec::with_capacity(operations.len());
        for (at, operation) in operations.iter().enumerate() {
            no_faults(under(format_args!("transforms[{at}]"), operation.faults()).collect())?;
            let fault = |message: String| Err(Error::new(ErrorKind::Config, format!("transforms[{at}]: {message}")));
            let Some(name) = operation.tensor() else {
                return fault(format!("{ON_HOST}; {CONVERTS}"));
            };
            let is_changed = |other: &&str| operations[..at].iter().any(|before| before.tensor() == Some(*other));
            if let Some(beside) = operation.beside().find(is_changed) {
                return fault(format!(
                    "reads {beside:?} as it was copied, but an earlier transform has changed it; do that on the host"
                ));
            }
            let index = schema.index_of(name)?;
            if prepared.iter().any(|other| other.tensor() == index) {
                continue;
            }
            let all = operations.iter().filter(|other| other.tensor() == Some(name));
            let conversion = Prepared::new(schema, &schema.tensors()[index], all)?;
            tensors[index] = conversion.spec().clone();
            prepared.push(conversion);
        }
        Ok(Self { schema: schema.clone(), given: Arc::new(Schema::new(tensors)?), conversions: prepared })
    }

    /// Whether anything is converted on the device.
    pub(super) fn converts(&self) -> bool {
        !self.conversions.is_empty()
    }

    /// Checks that the batch has this plan's schema, in all respects that matter to the device.
    fn check(&self, batch: &DataSet) -> Result<()> {
        let (planned, given) = (self.schema.tensors(), batch.schema().tensors());
        let (layout, extents) = (batch.layout().tensors(), batch.layout().extents());
        if planned.len() != given.len() || planned.len() != layout.len() {
            let message = format!("the batch has {} tensors, and {} were planned", given.len(), planned.len());
            return Err(Error::new(ErrorKind::Schema, message));
        }
        for ((planned, given), laid_out) in planned.iter().zip(given).zip(layout) {
            let is_planned = planned.name == given.name
                && (planned.role, planned.dtype, &planned.shape, planned.rows)
                    == (given.role, given.dtype, &given.shape, given.rows)
                && planned.classes == given.classes
                && planned.categories == given.categories
                && planned.masked == given.masked
                && planned.dtype == laid_out.dtype()
                && planned.row_shape(&extents) == *laid_out.row_shape();
            if !is_planned {
                return Err(other_schema(planned, given));
            }
        }
        Ok(())
    }

    /// Describes `batch` as it will be on the device.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the batch is of another schema than the plan.
    pub(super) fn describe(&self, batch: &DataSet, about: &mut About) -> Result<()> {
        self.check(batch)?;
        about.epoch = batch.epoch();
        about.index = batch.index();
        about.positions.clear();
        about.positions.extend_from_slice(batch.positions());
        about.samples.clear();
        about.samples.extend_from_slice(batch.sample_ids());
        about.padding = batch.padding();
        about.bad_records = batch.bad_records();
        about.after = Some(batch.state_after());
        about.places.clear();
        let layout = batch.layout();
        for index in 0..layout.tensors().len() {
            let Range { start: offset, end } = layout.range(index);
            about.places.push(Place { offset, bytes: end - offset, shape: layout.shape(index) });
        }
        about.copied = batch.slot_bytes().len();
        about.bytes = about.copied.next_multiple_of(TENSOR_ALIGNMENT);
        about.works.clear();
        about.outputs.clear();
        for conversion in &self.conversions {
            conversion.check(&self.schema, batch.slot_bytes(), &about.places)?;
            let (place, work) = conversion.work(&about.places, about.bytes)?;
            // This can't overflow, because what `work` returns ends below `isize::MAX`.
            about.bytes = (place.offset + place.bytes).next_multiple_of(TENSOR_ALIGNMENT);
            about.outputs.push(place);
            about.works.push(work);
        }
        // Only now, because a conversion may read what another one converts.
        for (conversion, place) in self.conversions.iter().zip(&about.outputs) {
            about.places[conversion.tensor()] = *place;
        }
        Ok(())
    }
}

#[cold]
fn other_schema(planned: &TensorSpec, given: &TensorSpec) -> Error {
    let named = |spec: &TensorSpec| {
        let classes = spec.classes.as_ref().map(|classes| format!(" of {} classes", classes.len()));
        let counts = |names: &Arc<[Vec<String>]>| names.iter().map(|names| names.len().to_string()).collect::<Vec<_>>();
        let categories = spec.categories.as_ref().map(|names| format!(" of {} categories", counts(names).join(", ")));
        let (name, role, dtype, shape) = (&spec.name, spec.role, spec.dtype, &spec.shape);
        format!(
            "{name:?} ({role:?}, {dtype} {shape:?}{}{})",
            classes.unwrap_or_default(),
            categories.unwrap_or_default()
        )
    };
    let (found, wanted) = (named(given), named(planned));
    // Otherwise both look the same.
    let but = match found == wanted {
        true if planned.classes != given.classes => ", but with other names of classes",
        true if planned.categories != given.categories => ", but with other names of categories",
        true if planned.masked != given.masked => ", but with another mask",
        _ => "",
    };
    let message = format!(
        "the batch is of another schema than the upload: it holds {found} in place of {wanted}{but}; make an upload for \
         its schema"
    );
    Error::new(ErrorKind::Schema, message).at_column(&planned.name)
}
