use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryBudget, Reservation};

use super::documents::{WHAT, Windows, each_end};
use super::file::TokenFile;

/// Windows of whole documents from anywhere in the file: twelve bytes per document and eight per window.
#[derive(Debug)]
pub(super) struct Bins {
    /// Documents, and parts of those that are longer than a window. The pieces of a window are adjacent, in the file's
    /// order.
    pieces: Windows,
    /// The first piece of each window, and at the end the number of pieces.
    firsts: Vec<u64>,
    #[expect(dead_code, reason = "held until the windows drop")]
    reservation: Reservation,
}

impl Bins {
    /// Like [`Windows::find`], with documents in any order.
    pub(super) fn find(file: &TokenFile, end: u32, span: u64, overlap: u64, budget: &MemoryBudget) -> Result<Self> {
        let mut found = Windows::new(budget)?;
        let mut begin = 0;
        each_end(file, end, |end| {
            while end - begin > span {
                found.push(begin..begin + span)?;
                begin += span - overlap;
            }
            found.push(begin..end)?;
            begin = end;
            Ok(())
        })?;
        let Ok(count) = u32::try_from(found.len()) else {
            let message = format!("{} documents; at most 2^32 can be sorted by length", found.len());
            return Err(Error::new(ErrorKind::Limit, message));
        };
        // Memory for sorting, in addition to the pieces before and after.
        let _sorting = budget.reserve(u64::from(count) * 2 * size_of::<u32>() as u64, WHAT)?;
        let (window_of, windows) = fit(&found, count, span);
        let mut reservation = budget.reserve(2 * (u64::from(windows) + 1) * size_of::<u64>() as u64, WHAT)?;
        let mut firsts = vec![0u64; windows as usize + 1];
        window_of.iter().for_each(|window| firsts[*window as usize + 1] += 1);
        for window in 0..windows as usize {
            firsts[window + 1] += firsts[window];
        }
        let mut order = vec![0u32; count as usize];
        let mut next = firsts.clone();
        for (piece, window) in (0..count).zip(&window_of) {
            let place = &mut next[*window as usize];
            order[*place as usize] = piece;
            *place += 1;
        }
        drop(next);
        reservation.shrink_to((u64::from(windows) + 1) * size_of::<u64>() as u64);
        let mut pieces = Windows::new(budget)?;
        order.iter().try_for_each(|piece| pieces.push(found.window((*piece).into())))?;
        Ok(Self { pieces, firsts, reservation })
    }

    pub(super) fn len(&self) -> u64 {
        self.firsts.len() as u64 - 1
    }

    /// The pieces of a window; none beyond the last one.
    pub(super) fn pieces(&self, window: u64) -> impl Iterator<Item = Range<u64>> {
        let from = self.firsts.get(usize::try_from(window).unwrap_or(usize::MAX)..);
        let pieces = from.and_then(|firsts| firsts.first_chunk()).map_or(0..0, |[first, end]| *first..*end);
        pieces.map(|piece| self.pieces.window(piece))
    }
}

/// The window of each piece, and the number of windows.
fn fit(pieces: &Windows, count: u32, span: u64) -> (Vec<u32>, u32) {
    let len = |piece: u32| {
        let Range { start, end } = pieces.window(piece.into());
        (end - start) as u32
    };
    let mut longest_first: Vec<u32> = (0..count).collect();
    longest_first.sort_unstable_by_key(|piece| (std::cmp::Reverse(len(*piece)), *piece));
    let mut window_of = vec![0; count as usize];
    // The windows that have room left, by how much.
    let mut open: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut windows = 0;
    for piece in longest_first {
        let len = len(piece);
        let tightest = open.range_mut(len..).next().map(|(room, windows)| (*room, windows.pop(), windows.is_empty()));
        let (room, window) = match tightest {
            Some((room, Some(window), is_last)) => {
                if is_last {
                    open.remove(&room);
                }
                (room, window)
            }
            _ => {
                windows += 1;
                (span as u32, windows - 1)
            }
        };
        window_of[piece as usize] = window;
        if room > len {
            open.entry(room - len).or_default().push(window);
        }
    }
    (window_of, windows)
}
