use memchr::memchr_iter;

use crate::error::Result;
use crate::memory::{MemoryBudget, Reservation};
use crate::storage::Input;
use crate::sync::Mutex;

/// The number of line ends is kept for each step of so many bytes.
const STEP: usize = 32 << 10;

/// Finds the line of a byte in a file. Lines are counted only when there is an error. The counts are kept for the next
/// error, as far as the memory budget has room.
#[derive(Debug)]
pub(super) struct Lines(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    /// The number of line ends in the first step of the file, in the first two, and so on.
    ends: Vec<u64>,
    reservation: Reservation,
}

impl Lines {
    /// The memory of the counts belongs to `budget`.
    pub(super) fn new(budget: &MemoryBudget) -> Self {
        Self(Mutex::new(Kept { ends: Vec::new(), reservation: budget.empty_reservation() }))
    }

    /// The line, from 1, of byte `byte`.
    ///
    /// # Errors
    ///
    /// Those of reading.
    #[cold]
    pub(super) fn line_at(&self, input: &Input, terminator: u8, byte: u64) -> Result<u64> {
        let mut buffer = vec![0; STEP];
        let count = |bytes: &[u8]| memchr_iter(terminator, bytes).count() as u64;
        let (steps, rest) = ((byte / STEP as u64) as usize, (byte % STEP as u64) as usize);
        let (mut counted, mut before) = (0, 0);
        while counted < steps {
            let (known, ends) = self.0.lock().nearest(steps);
            if known > counted {
                (counted, before) = (known, ends);
                continue;
            }
            // Without the lock: several threads may read the same bytes, but none waits for another one's reading.
            input.read_at(counted as u64 * STEP as u64, &mut buffer)?;
            before += count(&buffer);
            counted += 1;
            self.0.lock().keep(counted, before);
        }
        let rest = &mut buffer[..rest];
        input.read_at(steps as u64 * STEP as u64, rest)?;
        Ok(1 + before + count(rest))
    }
}

impl Kept {
    /// The largest number of steps, up to `steps`, that was counted, and the line ends in them.
    fn nearest(&self, steps: usize) -> (usize, u64) {
        let known = self.ends.len().min(steps);
        (known, known.checked_sub(1).map_or(0, |last| self.ends[last]))
    }

    /// Keeps the number of line ends in the first `steps`, if the number for one step fewer is kept and there is room.
    fn keep(&mut self, steps: usize, ends: u64) {
        let len = self.ends.len();
        if steps != len + 1 {
            return;
        }
        if len == self.ends.capacity() {
            let room = (2 * len).max(64);
            if !self.reservation.grow_if_free((room * size_of::<u64>()) as u64) {
                return;
            }
            self.ends.reserve_exact(room - len);
        }
        self.ends.push(ends);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;
    use crate::random::RandomKey;
    use crate::storage::Access;

    #[test]
    fn lines_are_those_of_counting_from_the_beginning_and_counted_once() {
        let key = RandomKey::new(5);
        let text: Vec<u8> =
            (0..5 * STEP as u64 + 100).map(|at| if key.bits(at).is_multiple_of(50) { b'\n' } else { b'x' }).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&text).unwrap();
        let input = Input::open(file.path(), Access::Read, None).unwrap();
        let naive = |byte: usize| 1 + text[..byte].iter().filter(|byte| **byte == b'\n').count() as u64;
        for (backwards, budget, kept) in [
            (false, MemoryBudget::unlimited(), 5),
            (true, MemoryBudget::unlimited(), 5),
            (false, MemoryBudget::new(511), 0),
            (true, MemoryBudget::new(511), 0),
        ] {
            let lines = Lines::new(&budget);
            let near = [0, STEP, 2 * STEP, 4 * STEP, 5 * STEP].into_iter();
            let mut bytes: Vec<usize> = near.flat_map(|at| at.saturating_sub(2)..at + 3).chain([text.len()]).collect();
            if backwards {
                bytes.reverse();
            }
            for byte in bytes {
                assert_eq!(lines.line_at(&input, b'\n', byte as u64).unwrap(), naive(byte), "byte {byte}");
            }
            assert_eq!(lines.0.lock().ends.len(), kept);
            assert_eq!(budget.used(), if kept > 0 { 512 } else { 0 });
            drop(lines);
            assert_eq!(budget.used(), 0);
        }
        let lines = Lines::new(&MemoryBudget::unlimited());
        lines.line_at(&input, b'\n', text.len() as u64).unwrap();
        // Bytes that were counted are not read again.
        file.rewind().unwrap();
        file.write_all(&vec![b'\n'; 5 * STEP]).unwrap();
        assert_eq!(lines.line_at(&input, b'\n', text.len() as u64).unwrap(), naive(text.len()));
        assert!(lines.line_at(&input, b'\n', 1 << 40).is_err());
    }
}
