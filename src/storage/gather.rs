//! Reads many small pieces of a file that are far apart with one system call.
//!
//! A positioned read of some hundred bytes costs several times as much as copying them: the call, and the search for
//! the page. Here the kernel copies from a mapping of the file instead, hundreds of pieces per call, into memory that
//! is a file itself. Our own code never reads the mapping. If a page is gone (the file was truncated, its disk fails),
//! the call only copies less, whereas reading the page would raise a signal that ends the process. (The rest of a
//! file's last page would be read as zeros, so the file's length is checked afterwards.) After such a call, the caller
//! reads piece by piece and gets the error.
//!
//! Only on Linux; elsewhere no [`Window`](super::window::Window) opens.

use std::fs::File;
use std::ops::Range;

use memmap2::Mmap;

use crate::counters::BytesRead;

use super::input::Input;
use super::window::Window;

/// Most bytes that are gathered at once.
const MOST_BYTES: u64 = 1 << 20;

/// Pieces are gathered up to this length on average; for longer ones, the system call is a small part of the cost. In
/// `cargo bench --bench fixed`, records of 3 KB in random order take half the processor time of positioned reads.
const PIECE_BYTES: u64 = 4 << 10;

/// With fewer pieces there is little to gain. Pieces that follow each other count as one.
const FEWEST_PIECES: u64 = 4;

/// Where gathered pieces lie, one after another.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    memory: Option<(File, Mmap)>,
    /// The process that took the memory.
    process: u32,
    /// The system refused the memory.
    refused: bool,
    used: usize,
}

impl Gathered {
    /// Gathers `pieces` of `input`, and replaces the previous content. Returns `false` if that is not worth it, or is
    /// not possible: they must then be read one by one.
    pub(crate) fn gather(&mut self, input: &Input, pieces: impl Iterator<Item = Range<u64>> + Clone) -> bool {
        let (mut count, mut apart, mut bytes, mut end, mut behind) = (0, 0, 0, 0, None);
        for piece in pieces.clone() {
            apart += u64::from(behind != Some(piece.start));
            (count, bytes) = (count + 1, bytes + piece.end.saturating_sub(piece.start));
            if piece.start > piece.end || bytes > MOST_BYTES {
                return false;
            }
            end = piece.end.max(end);
            behind = Some(piece.end);
        }
        if apart < FEWEST_PIECES || 2 * apart < count || bytes > count * PIECE_BYTES || self.refused {
            return false;
        }
        let Some((file, Window(window))) = input.window() else { return false };
        if end > window.len() as u64 {
            return false;
        }
        let process = std::process::id();
        if self.memory.is_none() || self.process != process {
            // A forked child has the same file as its parent, which writes to it.
            self.memory = system::memory(MOST_BYTES);
            self.process = process;
            self.refused = self.memory.is_none();
        }
        let Some((memory, _)) = &self.memory else { return false };
        self.used = bytes as usize;
        BytesRead::note(self.used);
        system::gather(window, pieces, memory, bytes) && file.metadata().is_ok_and(|now| end <= now.len())
    }

    /// The bytes of the last call of `gather`.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |(_, bytes)| &bytes[..self.used])
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::c_void;
    use std::fs::File;
    use std::ops::Range;
    use std::os::fd::{AsRawFd, FromRawFd};

    use memmap2::{Mmap, MmapRaw};

    use crate::storage::prefetch;
    use crate::system::check_file_limit;

    /// Pieces per call; the system allows 1024.
    const A_CALL: usize = 128;

    /// Memory of `bytes` that belongs to a file; the system allocates its pages when they are written.
    pub(super) fn memory(bytes: u64) -> Option<(File, Mmap)> {
        check_file_limit(bytes).ok()?;
        // The system call is made by number: glibc has a function for it since 2.27, and a program that names it does
        // not start with an older version. SAFETY: the name ends in a zero.
        let made = unsafe { libc::syscall(libc::SYS_memfd_create, c"ringfeed".as_ptr(), libc::MFD_CLOEXEC) };
        let descriptor = libc::c_int::try_from(made).ok().filter(|descriptor| *descriptor >= 0)?;
        // SAFETY: a new descriptor, which nobody else has.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(bytes).ok()?;
        // SAFETY: nobody else has the file, and it is written to while its holder is borrowed mutably.
        let map = unsafe { Mmap::map(&file) }.ok()?;
        Some((file, map))
    }

    /// Copies `pieces` of the mapping, which must lie in it, to the beginning of `memory`; returns whether all of their
    /// `bytes` were copied.
    pub(super) fn gather(
        map: &MmapRaw,
        mut pieces: impl Iterator<Item = Range<u64>>,
        memory: &File,
        bytes: u64,
    ) -> bool {
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; A_CALL];
        let mut at = 0;
        while at < bytes {
            let (mut count, mut wanted) = (0, 0usize);
            for (vector, piece) in vectors.iter_mut().zip(&mut pieces) {
                let (start, len) =
                    (map.as_ptr().wrapping_add(piece.start as usize), (piece.end - piece.start) as usize);
                prefetch(start, len);
                *vector = libc::iovec { iov_base: start.cast_mut().cast::<c_void>(), iov_len: len };
                (count, wanted) = (count + 1, wanted + len);
            }
            // SAFETY: the kernel reads the vectors, and copies from where they point, which it checks itself.
            let copied = unsafe {
                libc::pwritev(memory.as_raw_fd(), vectors.as_ptr(), count, libc::off_t::try_from(at).unwrap_or(-1))
            };
            if count == 0 || usize::try_from(copied) != Ok(wanted) {
                return false;
            }
            at += wanted as u64;
        }
        true
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::ops::Range;

    use memmap2::{Mmap, MmapRaw};

    pub(super) fn memory(_: u64) -> Option<(File, Mmap)> {
        None
    }

    pub(super) fn gather(_: &MmapRaw, _: impl Iterator<Item = Range<u64>>, _: &File, _: u64) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::storage::Access;

    /// A file of `bytes`. The folder exists as long as the first value.
    fn input(bytes: &[u8]) -> (tempfile::TempDir, PathBuf, Input) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pieces");
        std::fs::write(&path, bytes).expect("room for a file");
        let input = Input::open(&path, Access::Read, None).expect("the file is there");
        (folder, path, input)
    }

    fn pieces() -> Vec<Range<u64>> {
        (0..500u64).map(|i| i * 7919 % 90_000).map(|start| start..start + start % 700).collect()
    }

    #[test]
    fn pieces_come_in_their_order() {
        let bytes: Vec<u8> = (0..100_000u64).map(|i| ((i * i) >> 3) as u8).collect();
        let (_folder, _, input) = input(&bytes);
        let mut gathered = Gathered::default();
        for pieces in [pieces(), vec![5..9, 99_999..100_000, 7..7, 0..4096], pieces()[..129].to_vec()] {
            assert!(gathered.gather(&input, pieces.iter().cloned()));
            let expected: Vec<u8> =
                pieces.iter().flat_map(|piece| &bytes[piece.start as usize..piece.end as usize]).copied().collect();
            assert_eq!(gathered.bytes(), expected);
        }
    }

    #[test]
    fn what_does_not_pay_or_does_not_exist_is_not_gathered() {
        let (_folder, _, input) = input(&[1; 100_000]);
        let mut gathered = Gathered::default();
        let in_order = (0..100).map(|i| i * 10..i * 10 + 10).collect();
        for pieces in [vec![0..10, 20..30], in_order, vec![0..5000; 10], vec![0..2000; 1000], vec![99_990..100_001; 10]]
        {
            assert!(!gathered.gather(&input, pieces.into_iter()));
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_no_signal() {
        let (_folder, path, input) = input(&[1; 100_000]);
        let mut gathered = Gathered::default();
        assert!(gathered.gather(&input, pieces().into_iter()));
        std::fs::File::options().write(true).open(path).unwrap().set_len(50_000).unwrap();
        assert!(!gathered.gather(&input, pieces().into_iter()));
        assert!(gathered.gather(&input, pieces().into_iter().filter(|piece| piece.end <= 50_000)));
        assert!(gathered.bytes().iter().all(|byte| *byte == 1));
    }
}
