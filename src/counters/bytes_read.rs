use std::cell::Cell;

/// Bytes that were read from files or storages, and the number of requests for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BytesRead {
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
}

thread_local! {
    /// For the calling thread: readers do not know for which stage they read.
    static READ: Cell<BytesRead> = const { Cell::new(BytesRead { bytes: 0, requests: 0 }) };
}

impl BytesRead {
    /// Counts a request that gave the calling thread this many bytes.
    #[inline]
    pub(crate) fn note(bytes: usize) {
        Self { bytes: bytes as u64, requests: 1 }.note_all();
    }

    /// Counts reads that another thread did for the calling thread.
    #[inline]
    pub(crate) fn note_all(self) {
        READ.with(|read| {
            let before = read.get();
            read.set(Self { bytes: before.bytes + self.bytes, requests: before.requests + self.requests });
        });
    }

    /// The reads of the calling thread since the last call.
    #[inline]
    pub(crate) fn take() -> Self {
        READ.take()
    }
}
