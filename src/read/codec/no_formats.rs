//! Replaces the codecs of what single formats hold in a build without them.

use crate::decode::ImageOptions;
use crate::error::Result;
use crate::read::fields::Field;

use super::Varying;

/// None of the remaining codecs needs to look at a value.
pub(in crate::read) fn needs_first(_: &Field) -> bool {
    false
}

/// # Errors
///
/// Never.
pub(in crate::read) fn common_sizes(codecs: &[Option<&ImageOptions>], _: &mut Varying) -> Result<Vec<Option<usize>>> {
    Ok(vec![None; codecs.len()])
}
