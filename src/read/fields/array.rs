use crate::dtype::DType;
use crate::read::fixed::{Endian, Stored, StoredType};

/// An array. Files of arrays give each record as it is; other fields hold the bytes of an NPY file. All records must
/// have the element type and the shape of the first one. Fields of [raw](Array::raw) bytes hold the elements alone.
///
/// ```
/// use ringfeed::arrays::{Endian, StoredType};
/// use ringfeed::field::{Array, Field};
///
/// let field: Field = toml::from_str(r#"array = [3, 32, 32]
/// stored = "f32"
/// endian = "big""#).expect("the example is valid");
/// assert_eq!(field, Array::raw(StoredType::F32, &[3, 32, 32]).endian(Endian::Big).into());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    pub(crate) dtype: Option<DType>,
    pub(crate) shape: Option<Vec<usize>>,
    /// How raw bytes are stored.
    pub(crate) stored: Option<Stored>,
}

impl Array {
    /// An array with the element type and the shape of the first record's array.
    pub fn new() -> Self {
        Self::default()
    }

    /// An array from bytes without a header: elements of this type and shape, row-major, with the least significant
    /// byte first unless [`endian`](Array::endian) says otherwise. Any other number of bytes makes a bad record. In
    /// settings `{ array = [3, 32, 32], stored = "u8" }`; `array = []` is then a single number.
    pub fn raw(stored: StoredType, shape: &[usize]) -> Self {
        Self::new().shape(shape).stored(Stored { kind: stored, endian: Endian::default() })
    }

    pub(crate) fn stored(mut self, stored: Stored) -> Self {
        self.stored = Some(stored);
        self
    }

    /// Which byte of a [raw](Array::raw) element comes first. An NPY file says that itself.
    #[must_use]
    pub fn endian(mut self, endian: Endian) -> Self {
        if let Some(stored) = &mut self.stored {
            stored.endian = endian;
        }
        self
    }

    /// Element type in the batch.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Shape of every array.
    #[must_use]
    pub fn shape(mut self, shape: &[usize]) -> Self {
        self.shape = Some(shape.to_vec());
        self
    }
}
