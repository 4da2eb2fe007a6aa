use memchr::memchr_iter;

use crate::error::Result;
use crate::storage::Input;
use crate::sync::Mutex;

/// Every so many bytes of a file, the number of line ends before is kept.
const STEP: usize = 32 << 10;

/// In which line of a file a byte is: counted when something is wrong, and not again for what is wrong next.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The number of line ends in the first step of the file, in the first two, and so on.
    ends: Mutex<Vec<u64>>,
}

impl Lines {
    /// The line, from 1, of byte `byte`.
    ///
    /// # Errors
    ///
    /// Those of reading.
    #[cold]
    pub(super) fn line_at(&self, input: &Input, terminator: u8, byte: u64) -> Result<u64> {
        let mut buffer = vec![0; STEP];
        let count = |bytes: &[u8]| memchr_iter(terminator, bytes).count() as u64;
        let (steps, rest) = (byte / STEP as u64, (byte % STEP as u64) as usize);
        let before = loop {
            let ends = self.ends.lock();
            let known = ends.len();
            if known as u64 >= steps {
                break steps.checked_sub(1).map_or(0, |last| ends[last as usize]);
            }
            let before = ends.last().copied().unwrap_or(0);
            drop(ends);
            // Without the lock: a few threads may read the same, but none waits for another's reading.
            input.read_at(known as u64 * STEP as u64, &mut buffer)?;
            let mut ends = self.ends.lock();
            if ends.len() == known {
                ends.push(before + count(&buffer));
            }
        };
        let rest = &mut buffer[..rest];
        input.read_at(steps * STEP as u64, rest)?;
        Ok(1 + before + count(rest))
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
        let input = Input::open(file.path(), Access::Read).unwrap();
        let naive = |byte: usize| 1 + text[..byte].iter().filter(|byte| **byte == b'\n').count() as u64;
        for backwards in [false, true] {
            let lines = Lines::default();
            let near = [0, STEP, 2 * STEP, 4 * STEP, 5 * STEP].into_iter();
            let mut bytes: Vec<usize> = near.flat_map(|at| at.saturating_sub(2)..at + 3).chain([text.len()]).collect();
            if backwards {
                bytes.reverse();
            }
            for byte in bytes {
                assert_eq!(lines.line_at(&input, b'\n', byte as u64).unwrap(), naive(byte), "byte {byte}");
            }
            assert_eq!(lines.ends.lock().len(), 5);
        }
        let lines = Lines::default();
        lines.line_at(&input, b'\n', text.len() as u64).unwrap();
        // What was counted is not read again.
        file.rewind().unwrap();
        file.write_all(&vec![b'\n'; 5 * STEP]).unwrap();
        assert_eq!(lines.line_at(&input, b'\n', text.len() as u64).unwrap(), naive(text.len()));
        assert!(lines.line_at(&input, b'\n', 1 << 40).is_err());
    }
}
