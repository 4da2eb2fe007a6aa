use std::fmt;

use crate::read::{RecordDecoder, RecordStream};

/// A stream of records, and their decoder.
pub struct Streamed {
    /// The records.
    pub stream: Box<dyn RecordStream>,
    /// Their tensors.
    pub decoder: Box<dyn RecordDecoder>,
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("tensors", &self.decoder.tensors()).finish_non_exhaustive()
    }
}
