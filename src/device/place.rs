use crate::schema::Shape;

/// Where one tensor lies in its slot, row-major and without gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) shape: Shape,
}
