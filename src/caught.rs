//! Panics of others' code as errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result};

/// Runs user or decoder code; a panic becomes an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let error = Error::from_panic(&*panic);
        // The panic's payload is the user's, too: if its destructor panics, it is leaked.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        Err(error)
    })
}
