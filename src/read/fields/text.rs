use crate::read::Longer;

/// UTF-8 text of at most `max_len` bytes: `u8 [max_len]`, padded with zeros, and its length in a tensor with the suffix
/// `_len`. Several fields give `[fields, max_len]` and `[fields]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub(super) max_len: usize,
    pub(super) longer: Longer,
}

impl Text {
    /// A longer text makes its record bad.
    pub fn new(max_len: usize) -> Self {
        Self { max_len, longer: Longer::Error }
    }

    /// Cuts off the end of a longer text, at a whole character.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.longer = Longer::Cut;
        self
    }
}
