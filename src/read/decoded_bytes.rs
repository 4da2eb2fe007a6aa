/// The memory of decoded records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedBytes {
    /// Approximate bytes of all records.
    pub all: u64,
    /// Maximum number of bytes that are kept.
    pub kept: u64,
}
