use crate::dtype::DType;
use crate::read::{Longer, Missing};

/// Numbers. One field gives a tensor of shape `[]`, several fields give `[fields]`, or another [shape](Numbers::shape)
/// with as many elements. Lists of numbers all have the same shape, or are [padded](Numbers::max_len), or [stored one
/// after another](Numbers::ragged).
///
/// An integer type takes whole numbers in its range, exactly, also if they are written as `3.0` or `3e0`. A floating point type rounds once, to the nearest number; a number that is too
/// large for it makes the record bad. True and false are 1 and 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    pub(crate) dtype: DType,
    pub(crate) shape: Option<Vec<usize>>,
    pub(crate) missing: Missing,
    pub(crate) max_len: Option<usize>,
    pub(crate) longer: Longer,
    pub(crate) pad: f64,
    pub(crate) list: bool,
    pub(crate) ragged: bool,
}

impl Numbers {
    /// With this element type.
    pub fn of(dtype: DType) -> Self {
        Self {
            dtype,
            shape: None,
            missing: Missing::Error,
            max_len: None,
            longer: Longer::Error,
            pad: 0.0,
            list: false,
            ragged: false,
        }
    }

    /// With element type `f32`.
    pub fn f32() -> Self {
        Self::of(DType::F32)
    }

    /// With element type `f64`.
    pub fn f64() -> Self {
        Self::of(DType::F64)
    }

    /// With element type `i64`: whole numbers are read exactly.
    pub fn i64() -> Self {
        Self::of(DType::I64)
    }

    /// Another shape with the same number of elements: `[]` for a single number.
    #[must_use]
    pub fn shape(mut self, shape: &[usize]) -> Self {
        self.shape = Some(shape.to_vec());
        self
    }

    /// What to do with a missing value. By default its record is bad. A missing list whose length may vary is an empty one.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Lists of at most this many numbers, padded at the end, with a mask that is 1 for the numbers of the list: a `u8`
    /// tensor with the suffix `_mask`. Without `max_len` and without a shape, lists of different lengths are padded to
    /// the longest one of their batch.
    #[must_use]
    pub fn max_len(mut self, max_len: usize) -> Self {
        self.max_len = Some(max_len);
        self
    }

    /// Cuts off the end of a longer list. By default, a longer list makes its record bad.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.longer = Longer::Cut;
        self
    }

    /// Lists of any length, padded to the longest one of their batch, with a mask. Without this setting, the data
    /// decide whether a field holds lists: of one length, of different lengths, or single numbers. If [single records
    /// are served](crate::Loader::serve), there are no data.
    #[must_use]
    pub fn list(mut self) -> Self {
        self.list = true;
        self
    }

    /// Stores lists one after another, without padding: one tensor holds the numbers of all lists of a batch. Instead
    /// of a mask there is a tensor with the suffix `_offsets`, `i64 [samples + 1]`, which says where each list begins
    /// and where the last one ends. For a sparse matrix in compressed rows (CSR), the offsets are `indptr`.
    #[must_use]
    pub fn ragged(mut self) -> Self {
        self.ragged = true;
        self
    }

    /// The number that fills up a padded list. Default: 0. In settings it may also be `"nan"`, `"inf"` or `"-inf"`.
    #[must_use]
    pub fn pad(mut self, value: f64) -> Self {
        self.pad = value;
        self
    }
}

/// Lists of tokens: `i64 [max_len]`, padded at the end, with a mask (`u8`, suffix `_mask`). Short for [`Numbers`].
#[derive(Clone, Copy, Debug)]
pub struct Tokens;

impl Tokens {
    /// Lists of at most this many tokens. A longer one makes its record bad, unless it is [cut](Numbers::cut).
    #[expect(clippy::new_ret_no_self, reason = "tokens are numbers")]
    pub fn new(max_len: usize) -> Numbers {
        Numbers::i64().max_len(max_len)
    }
}
