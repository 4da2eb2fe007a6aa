use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::schema::Schema;
use crate::transform::{Operation, Transforms, has_padding};

use super::Prepared;

type Names = BTreeSet<String>;

/// Splits a list into the part for the host and the work for a device: for each tensor, the longest end of the list
/// that a device can do with the same bits.
///
/// # Errors
///
/// Errors of the transforms on the tensors of `source`.
pub(crate) fn split(list: Transforms, source: &Schema) -> Result<(Transforms, Vec<Operation>)> {
    let schemas = list.schemas(source)?;
    let members: Vec<Option<&Operation>> = list.members().collect();
    // Tensors that later members name, and those that members on the device read, must be on the host without changes.
    let (mut named, mut touched, mut read) = (Names::new(), Names::new(), Names::new());
    let mut candidates: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, member) in members.iter().enumerate().rev() {
        // A transform that may read any tensor stays on the host, together with everything before it.
        let Some((operation, tensor)) = member.and_then(|operation| Some((operation, operation.tensor()?))) else {
            break;
        };
        let is_free = !touched.contains(tensor) && !read.contains(tensor);
        if is_free && keeps_padding(operation, &schemas[at]) && operation.beside().all(|name| !named.contains(name)) {
            candidates.entry(tensor).or_default().insert(0, at);
            read.extend(operation.beside().map(str::to_owned));
        } else {
            let specs = schemas[at].tensors();
            let mask = schemas[at].index_of(tensor).ok().and_then(|index| specs[index].mask(specs.iter()));
            let mask = mask.map(|mask| mask.name.to_owned());
            touched.extend(operation.beside().chain([tensor]).map(str::to_owned).chain(mask));
        }
        named.extend(operation.beside().chain([tensor]).map(str::to_owned));
    }
    let mut on_device = vec![false; members.len()];
    for (tensor, places) in candidates {
        for (nth, first) in places.iter().enumerate() {
            let rest = &places[nth..];
            let behind = &schemas[*rest.last().unwrap_or(first)];
            let spec = &schemas[*first].tensors()[schemas[*first].index_of(tensor)?];
            if Prepared::new(behind, spec, rest.iter().filter_map(|at| members[*at]))
                .is_ok_and(|prepared| !prepared.may_overflow)
            {
                rest.iter().for_each(|at| on_device[*at] = true);
                break;
            }
        }
    }
    let moved = members.iter().zip(&on_device).filter(|(_, on_device)| **on_device);
    let moved = moved.filter_map(|(member, _)| member.cloned()).collect();
    Ok((list.without(&on_device), moved))
}

/// Whether a device, which does not know padding, does the same as the host: zeros must stay zeros.
fn keeps_padding(operation: &Operation, schema: &Schema) -> bool {
    match operation {
        Operation::Cast { .. } | Operation::Layout { .. } | Operation::Flip { .. } | Operation::Dense { .. } => true,
        Operation::Normalise { tensor, .. } | Operation::OneHot { tensor, .. } => {
            schema.index_of(tensor).is_ok_and(|index| !has_padding(&schema.tensors()[index], schema))
        }
        _ => false,
    }
}
