/// The numbers that are tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) workers: usize,
    pub(crate) prefetch: usize,
}

/// Upper limits; `None` for a number that is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) workers: Option<usize>,
    pub(crate) prefetch: Option<usize>,
    /// Maximum number of bytes for all slots of the ring.
    pub(crate) bytes: u64,
    #[cfg(test)]
    pub(crate) is_restless: bool,
}
