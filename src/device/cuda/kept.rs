//! Returned memory that is kept for the next request of a similar size.

use crate::sync::Mutex;

/// Memory of a kind, which can be reused for requests of the same kind.
pub(super) trait Piece {
    type Kind: PartialEq;

    fn kind(&self) -> Self::Kind;

    fn bytes(&self) -> usize;
}

/// Pieces of no more than `most` bytes in total.
pub(super) struct Kept<T> {
    pieces: Mutex<Vec<T>>,
    most: usize,
    /// The process that owns the memory: a forked child must not use it.
    process: u32,
}

impl<T: Piece> Kept<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { pieces: Mutex::new(Vec::new()), most, process: std::process::id() }
    }

    /// The smallest piece of this kind with at least `bytes` bytes, and at most twice as many.
    #[expect(clippy::needless_pass_by_value, reason = "a kind is a plain name")]
    pub(super) fn take(&self, kind: T::Kind, bytes: usize) -> Option<T> {
        if self.process != std::process::id() {
            return None;
        }
        let mut pieces = self.pieces.lock();
        let fits = |piece: &T| piece.kind() == kind && (bytes..=bytes.saturating_mul(2)).contains(&piece.bytes());
        let found = pieces.iter().enumerate().filter(|(_, piece)| fits(piece));
        let (at, _) = found.min_by_key(|(_, piece)| piece.bytes())?;
        Some(pieces.swap_remove(at))
    }

    /// Keeps the piece, or returns it if there is no room for it.
    pub(super) fn keep(&self, piece: T) -> Option<T> {
        let mut pieces = self.pieces.lock();
        let held: usize = pieces.iter().map(T::bytes).sum();
        if held.saturating_add(piece.bytes()) > self.most {
            return Some(piece);
        }
        pieces.push(piece);
        None
    }

    /// Returns all pieces, and keeps none.
    pub(super) fn take_all(&self) -> Vec<T> {
        std::mem::take(&mut *self.pieces.lock())
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;

    impl Piece for (char, usize) {
        type Kind = char;

        fn kind(&self) -> char {
            self.0
        }

        fn bytes(&self) -> usize {
            self.1
        }
    }

    #[test]
    fn the_smallest_piece_that_fits_is_used_again_and_only_so_much_is_kept() {
        let kept = Kept::new(100);
        for piece in [('a', 10), ('a', 30), ('b', 12), ('a', 20)] {
            assert_eq!(kept.keep(piece), None);
        }
        assert_eq!(kept.keep(('a', 29)), Some(('a', 29)));
        assert_eq!(kept.take('a', 11), Some(('a', 20)));
        assert_eq!(kept.take('a', 11), None);
        assert_eq!(kept.take('a', usize::MAX), None);
        assert_eq!(kept.take('b', 12), Some(('b', 12)));
        assert_eq!(kept.take('a', 15), Some(('a', 30)));
        assert_eq!(kept.keep(('c', 90)), None);
        assert_eq!(kept.take_all(), [('a', 10), ('c', 90)]);
        assert_eq!(kept.take('a', 10), None);
    }

    #[test]
    fn a_forked_child_gets_nothing_of_its_parents() {
        let parents = Kept { process: std::process::id().wrapping_add(1), ..Kept::new(100) };
        assert_eq!(parents.keep(('a', 10)), None);
        assert_eq!(parents.take('a', 10), None);
        assert_eq!(parents.take_all(), [('a', 10)]);
    }
}
