/// Where the bytes that are read come from, to say in an error which byte of the file it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Origin {
    /// From the file, as they are.
    #[default]
    File,
    /// From an array in Fortran order, which begins at this byte of the file and has records of this shape.
    Fortran { start: u64, shape: Vec<usize> },
    /// From bytes that lie compressed in the file.
    Compressed,
}

impl Origin {
    /// The byte of the file that is the byte at `offset` of what is read: of `count` records of `record_bytes`, with
    /// elements of `size` bytes.
    pub(super) fn in_file(&self, offset: u64, size: usize, record_bytes: usize, count: u64) -> Option<u64> {
        match self {
            Self::File => Some(offset),
            Self::Fortran { start, shape } => {
                let (size, record_bytes) = (size as u64, record_bytes as u64);
                let (record, within) = (offset / record_bytes, offset % record_bytes);
                let column = out_of_row((within / size) as usize, shape) as u64;
                let element = column.saturating_mul(count).saturating_add(record);
                Some(start.saturating_add(element.saturating_mul(size)).saturating_add(within % size))
            }
            Self::Compressed => None,
        }
    }
}

/// The position in a row, in Fortran order, of the element at this position in C order: the inverse of
/// [`in_row`](super::in_row).
pub(super) fn out_of_row(mut place: usize, shape: &[usize]) -> usize {
    let mut column = 0;
    for dim in shape.iter().rev() {
        column = column * dim + place % dim;
        place /= dim;
    }
    column
}
