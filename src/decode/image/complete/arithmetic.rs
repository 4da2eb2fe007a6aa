//! Decodes blocks of coefficients from arithmetic codes (ITU-T T.81, annex D and F.2.4).
//!
//! Each binary decision has a *bin*, which stores the more probable value and its probability. Data that ends early is
//! not damaged here: zeros at the end may be left out.

use super::super::baseline::{Block, ZIGZAG};
use super::entropy::Coding;

/// Bins for mean values and for other coefficients, of each of 16 slots, and one bin with fixed probability.
const MEAN_BINS: usize = 64;
const OTHER_BINS: usize = 256;
const OTHERS: usize = 16 * MEAN_BINS;
const EVEN: usize = OTHERS + 16 * OTHER_BINS;

/// The conditioning of T.81, which a file may set for each slot.
#[derive(Clone, Copy)]
pub(super) struct Conditioning {
    /// Differences between mean values are small from the first to the second power of two.
    pub(super) small: [(u8, u8); 16],
    /// Coefficients are low ones up to this position.
    pub(super) low: [u8; 16],
}

impl Default for Conditioning {
    fn default() -> Self {
        Self { small: [(0, 1); 16], low: [5; 16] }
    }
}

/// The state of decoding a scan.
pub(super) struct Arithmetic {
    conditioning: Conditioning,
    /// State of each bin: the index in [`STATES`], and the more probable decision in the highest bit.
    bins: Vec<u8>,
    means: [i32; 4],
    contexts: [usize; 4],
    /// The standard's registers C, A and CT.
    code: u32,
    interval: u32,
    left: u32,
    /// The next byte of the data.
    at: usize,
    /// Whether an invalid code was found. The rest of the restart interval then stays unchanged.
    pub(super) is_stopped: bool,
    pub(super) was_no_code: bool,
}

impl Arithmetic {
    pub(super) fn new(conditioning: Conditioning) -> Self {
        Self {
            conditioning,
            bins: vec![0; EVEN + 1],
            means: [0; 4],
            contexts: [0; 4],
            code: 0,
            interval: 0,
            left: 0,
            at: 0,
            is_stopped: false,
            was_no_code: false,
        }
    }

    /// Begins a restart interval with its data.
    pub(super) fn restart(&mut self, data: &[u8]) {
        self.bins.fill(0);
        self.bins[EVEN] = 113;
        (self.means, self.contexts, self.is_stopped) = ([0; 4], [0; 4], false);
        (self.code, self.interval, self.left, self.at) = (0, 0x1_0000, 0, 0);
        for _ in 0..2 {
            self.byte_in(data);
            self.code <<= 8;
        }
    }

    /// Number of bytes that were taken, including those after the data.
    pub(super) fn consumed(&self) -> usize {
        self.at
    }

    fn byte_in(&mut self, data: &[u8]) {
        self.code += u32::from(data.get(self.at).copied().unwrap_or(0)) << 8;
        self.at += 1;
    }

    /// The next decision of a bin.
    fn decide(&mut self, bin: usize, data: &[u8]) -> bool {
        let state = self.bins[bin];
        let (estimate, next_less, next_more, switches) = STATES[usize::from(state & 0x7f)];
        let estimate = u32::from(estimate);
        self.interval -= estimate;
        let is_upper = self.code >> 16 >= self.interval;
        if !is_upper && self.interval >= 0x8000 {
            return state >> 7 == 1;
        }
        // The smaller part of the interval stands for the less probable decision, whichever part that is.
        let is_less = is_upper != (self.interval < estimate);
        if is_upper {
            self.code -= self.interval << 16;
            self.interval = estimate;
        }
        let more = state & 0x80;
        self.bins[bin] = if is_less { (more ^ (switches << 7)) | next_less } else { more | next_more };
        while self.interval < 0x8000 {
            if self.left == 0 {
                self.byte_in(data);
                self.left = 8;
            }
            self.interval <<= 1;
            self.code <<= 1;
            self.left -= 1;
        }
        (more != 0) != is_less
    }

    /// Decodes a block of the scan's `nth` component, which uses the slots `tables`.
    pub(super) fn decode(&mut self, coding: Coding, data: &[u8], tables: [usize; 2], nth: usize, block: &mut Block) {
        if self.is_stopped {
            return;
        }
        let decoded = match coding {
            Coding::Sequential => self.mean(data, tables[0], nth).and_then(|mean| {
                block[0] = mean as i16;
                self.first(data, tables[1], (1, 63, 0), block)
            }),
            Coding::FirstMeans { low } => self.mean(data, tables[0], nth).map(|mean| block[0] = (mean << low) as i16),
            Coding::MoreMeans { low } => {
                block[0] |= i16::from(self.decide(EVEN, data)) << low;
                Some(())
            }
            Coding::First { first, last, low } => self.first(data, tables[1], (first, last, low), block),
            Coding::More { first, last, low } => self.more(data, tables[1], (first, last, low), block),
        };
        if decoded.is_none() {
            (self.is_stopped, self.was_no_code) = (true, true);
        }
    }

    /// The number of a category: the highest bit is known, the bin gives the others.
    fn number(&mut self, data: &[u8], highest: i32, bin: usize, is_negative: bool) -> i32 {
        let (mut number, mut bit) = (highest, highest >> 1);
        while bit > 0 {
            if self.decide(bin, data) {
                number |= bit;
            }
            bit >>= 1;
        }
        if is_negative { -number - 1 } else { number + 1 }
    }

    /// Doubles `highest` as often as the decisions from `bin` on say; none if that is too often. Also returns the last
    /// bin.
    fn category(&mut self, data: &[u8], mut highest: i32, mut bin: usize) -> Option<(i32, usize)> {
        while self.decide(bin, data) {
            highest <<= 1;
            if highest == 0x8000 {
                return None;
            }
            bin += 1;
        }
        Some((highest, bin))
    }

    fn mean(&mut self, data: &[u8], slot: usize, nth: usize) -> Option<i32> {
        let bins = slot * MEAN_BINS;
        let bin = bins + self.contexts[nth];
        if !self.decide(bin, data) {
            self.contexts[nth] = 0;
            return Some(self.means[nth]);
        }
        let is_negative = self.decide(bin + 1, data);
        let mut bin = bin + 2 + usize::from(is_negative);
        let mut highest = i32::from(self.decide(bin, data));
        if highest != 0 {
            (highest, bin) = self.category(data, 1, bins + 20)?;
        }
        let (from, to) = self.conditioning.small[slot];
        let context = match highest {
            highest if highest < (1 << from) >> 1 => 0,
            highest if highest > (1 << to) >> 1 => 12,
            _ => 4,
        };
        self.contexts[nth] = if context == 0 { 0 } else { context + 4 * usize::from(is_negative) };
        let difference = self.number(data, highest, bin + 14, is_negative);
        self.means[nth] = (self.means[nth] + difference) & 0xffff;
        Some(self.means[nth])
    }

    fn first(
        &mut self,
        data: &[u8],
        slot: usize,
        (first, last, low): (usize, usize, u32),
        block: &mut Block,
    ) -> Option<()> {
        let bins = OTHERS + slot * OTHER_BINS;
        let mut at = first;
        while at <= last {
            let mut bin = bins + 3 * (at - 1);
            if self.decide(bin, data) {
                break;
            }
            while !self.decide(bin + 1, data) {
                (bin, at) = (bin + 3, at + 1);
                if at > last {
                    return None;
                }
            }
            let is_negative = self.decide(EVEN, data);
            bin += 2;
            let mut highest = i32::from(self.decide(bin, data));
            if highest != 0 && self.decide(bin, data) {
                let is_low = at <= usize::from(self.conditioning.low[slot]);
                (highest, bin) = self.category(data, 2, bins + if is_low { 189 } else { 217 })?;
            }
            let number = self.number(data, highest, bin + 14, is_negative);
            block[usize::from(ZIGZAG[at])] = (number << low) as i16;
            at += 1;
        }
        Some(())
    }

    fn more(
        &mut self,
        data: &[u8],
        slot: usize,
        (first, last, low): (usize, usize, u32),
        block: &mut Block,
    ) -> Option<()> {
        let bins = OTHERS + slot * OTHER_BINS;
        let (plus, minus) = (1i16 << low, -1i16 << low);
        // Up to here, the scans before had coefficients, so that the block can't end.
        let known = (1..=last).rev().find(|at| block[usize::from(ZIGZAG[*at])] != 0).unwrap_or(0);
        let mut at = first;
        while at <= last {
            let mut bin = bins + 3 * (at - 1);
            if at > known && self.decide(bin, data) {
                break;
            }
            loop {
                let place = usize::from(ZIGZAG[at]);
                if block[place] != 0 {
                    if self.decide(bin + 2, data) {
                        block[place] = block[place].wrapping_add(if block[place] < 0 { minus } else { plus });
                    }
                    break;
                }
                if self.decide(bin + 1, data) {
                    block[place] = if self.decide(EVEN, data) { minus } else { plus };
                    break;
                }
                (bin, at) = (bin + 3, at + 1);
                if at > last {
                    return None;
                }
            }
            at += 1;
        }
        Some(())
    }
}

/// For each state of a bin: the size of the less probable decision's part, the next state after it and after the other
/// decision, and whether it then becomes the more probable one (T.81, table D.3). The last state always stands for one
/// half.
#[rustfmt::skip]
const STATES: [(u16, u8, u8, u8); 114] = [
    (0x5a1d, 1, 1, 1), (0x2586, 14, 2, 0), (0x1114, 16, 3, 0), (0x080b, 18, 4, 0), (0x03d8, 20, 5, 0),
    (0x01da, 23, 6, 0), (0x00e5, 25, 7, 0), (0x006f, 28, 8, 0), (0x0036, 30, 9, 0), (0x001a, 33, 10, 0),
    (0x000d, 35, 11, 0), (0x0006, 9, 12, 0), (0x0003, 10, 13, 0), (0x0001, 12, 13, 0), (0x5a7f, 15, 15, 1),
    (0x3f25, 36, 16, 0), (0x2cf2, 38, 17, 0), (0x207c, 39, 18, 0), (0x17b9, 40, 19, 0), (0x1182, 42, 20, 0),
    (0x0cef, 43, 21, 0), (0x09a1, 45, 22, 0), (0x072f, 46, 23, 0), (0x055c, 48, 24, 0), (0x0406, 49, 25, 0),
    (0x0303, 51, 26, 0), (0x0240, 52, 27, 0), (0x01b1, 54, 28, 0), (0x0144, 56, 29, 0), (0x00f5, 57, 30, 0),
    (0x00b7, 59, 31, 0), (0x008a, 60, 32, 0), (0x0068, 62, 33, 0), (0x004e, 63, 34, 0), (0x003b, 32, 35, 0),
    (0x002c, 33, 9, 0), (0x5ae1, 37, 37, 1), (0x484c, 64, 38, 0), (0x3a0d, 65, 39, 0), (0x2ef1, 67, 40, 0),
    (0x261f, 68, 41, 0), (0x1f33, 69, 42, 0), (0x19a8, 70, 43, 0), (0x1518, 72, 44, 0), (0x1177, 73, 45, 0),
    (0x0e74, 74, 46, 0), (0x0bfb, 75, 47, 0), (0x09f8, 77, 48, 0), (0x0861, 78, 49, 0), (0x0706, 79, 50, 0),
    (0x05cd, 48, 51, 0), (0x04de, 50, 52, 0), (0x040f, 50, 53, 0), (0x0363, 51, 54, 0), (0x02d4, 52, 55, 0),
    (0x025c, 53, 56, 0), (0x01f8, 54, 57, 0), (0x01a4, 55, 58, 0), (0x0160, 56, 59, 0), (0x0125, 57, 60, 0),
    (0x00f6, 58, 61, 0), (0x00cb, 59, 62, 0), (0x00ab, 61, 63, 0), (0x008f, 61, 32, 0), (0x5b12, 65, 65, 1),
    (0x4d04, 80, 66, 0), (0x412c, 81, 67, 0), (0x37d8, 82, 68, 0), (0x2fe8, 83, 69, 0), (0x293c, 84, 70, 0),
    (0x2379, 86, 71, 0), (0x1edf, 87, 72, 0), (0x1aa9, 87, 73, 0), (0x174e, 72, 74, 0), (0x1424, 72, 75, 0),
    (0x119c, 74, 76, 0), (0x0f6b, 74, 77, 0), (0x0d51, 75, 78, 0), (0x0bb6, 77, 79, 0), (0x0a40, 77, 48, 0),
    (0x5832, 80, 81, 1), (0x4d1c, 88, 82, 0), (0x438e, 89, 83, 0), (0x3bdd, 90, 84, 0), (0x34ee, 91, 85, 0),
    (0x2eae, 92, 86, 0), (0x299a, 93, 87, 0), (0x2516, 86, 71, 0), (0x5570, 88, 89, 1), (0x4ca9, 95, 90, 0),
    (0x44d9, 96, 91, 0), (0x3e22, 97, 92, 0), (0x3824, 99, 93, 0), (0x32b4, 99, 94, 0), (0x2e17, 93, 86, 0),
    (0x56a8, 95, 96, 1), (0x4f46, 101, 97, 0), (0x47e5, 102, 98, 0), (0x41cf, 103, 99, 0), (0x3c3d, 104, 100, 0),
    (0x375e, 99, 93, 0), (0x5231, 105, 102, 0), (0x4c0f, 106, 103, 0), (0x4639, 107, 104, 0), (0x415e, 103, 99, 0),
    (0x5627, 105, 106, 1), (0x50e7, 108, 107, 0), (0x4b85, 109, 103, 0), (0x5597, 110, 109, 0), (0x504f, 111, 107, 0),
    (0x5a10, 110, 111, 1), (0x5522, 112, 109, 0), (0x59eb, 112, 111, 1), (0x5a1d, 113, 113, 0),
];
