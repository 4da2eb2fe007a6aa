//! Decodes blocks of coefficients from bits, for each way in which scans are coded. Nothing here is an error: invalid
//! data has the meaning that it has in libjpeg.

use super::super::baseline::{Bits, Block, ZIGZAG};
use super::huffman::{Table, number, plain};

/// What a scan does to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// All coefficients, with all of their bits.
    Sequential,
    /// The higher bits of mean values.
    FirstMeans { low: u32 },
    /// One more bit of mean values.
    MoreMeans { low: u32 },
    /// The higher bits of other coefficients.
    First { first: usize, last: usize, low: u32 },
    /// One more bit of other coefficients.
    More { first: usize, last: usize, low: u32 },
}

/// What goes on from block to block.
#[derive(Default)]
pub(super) struct State {
    /// Mean values of the last block of each component of the scan.
    pub(super) means: [i32; 4],
    /// Blocks without further coefficients in this scan.
    empty_blocks: u32,
    /// Whether bits were no code.
    pub(super) was_no_code: bool,
    /// Whether mean values left the numbers that libjpeg counts in.
    pub(super) overflowed: bool,
}

/// The Huffman tables of a component, as far as the scan uses them.
#[derive(Clone, Copy, Default)]
pub(super) struct Tables<'a> {
    pub(super) means: Option<&'a Table>,
    pub(super) others: Option<&'a Table>,
}

/// Place of the coefficient at `position` of the zigzag; what lies beyond the block goes to its last one.
#[inline(always)]
fn place(position: usize) -> usize {
    usize::from(ZIGZAG[position.min(63)])
}

impl State {
    /// Begins a restart interval.
    pub(super) fn restart(&mut self) {
        self.means = [0; 4];
        self.empty_blocks = 0;
    }

    #[inline(always)]
    fn symbol(&mut self, table: &Table, bits: &mut Bits<'_>) -> u32 {
        bits.refill();
        table.next(bits).map(u32::from).unwrap_or_else(|| {
            self.was_no_code = true;
            0
        })
    }

    /// Decodes a block of the scan's `nth` component.
    #[inline]
    pub(super) fn decode(
        &mut self,
        coding: Coding,
        bits: &mut Bits<'_>,
        tables: Tables<'_>,
        nth: usize,
        block: &mut Block,
    ) {
        match (coding, tables.means, tables.others) {
            (Coding::Sequential, Some(means), Some(others)) => {
                block[0] = self.mean(bits, means, nth) as i16;
                self.others(bits, others, block);
            }
            (Coding::FirstMeans { low }, Some(means), _) => block[0] = (self.mean(bits, means, nth) << low) as i16,
            (Coding::MoreMeans { low }, ..) => {
                bits.refill();
                block[0] |= (plain(bits, 1) << low) as i16;
            }
            (Coding::First { first, last, low }, _, Some(others)) => {
                self.first(bits, others, (first, last, low), block)
            }
            (Coding::More { first, last, low }, _, Some(others)) => self.more(bits, others, (first, last, low), block),
            // A scan is not begun without its tables.
            _ => {}
        }
    }

    #[inline(always)]
    fn mean(&mut self, bits: &mut Bits<'_>, table: &Table, nth: usize) -> i32 {
        let size = self.symbol(table, bits);
        let difference = number(bits, size & 15);
        let (mean, overflowed) = self.means[nth].overflowing_add(difference);
        self.overflowed |= overflowed;
        self.means[nth] = mean;
        mean
    }

    #[inline(always)]
    fn others(&mut self, bits: &mut Bits<'_>, table: &Table, block: &mut Block) {
        let mut at = 1;
        while at < 64 {
            let symbol = self.symbol(table, bits);
            let (run, size) = ((symbol >> 4) as usize, symbol & 15);
            if size == 0 {
                if run != 15 {
                    break;
                }
                at += 16;
                continue;
            }
            at += run;
            block[place(at)] = number(bits, size) as i16;
            at += 1;
        }
    }

    fn first(
        &mut self,
        bits: &mut Bits<'_>,
        table: &Table,
        (first, last, low): (usize, usize, u32),
        block: &mut Block,
    ) {
        if self.empty_blocks > 0 {
            self.empty_blocks -= 1;
            return;
        }
        let mut at = first;
        while at <= last {
            let symbol = self.symbol(table, bits);
            let (run, size) = (symbol >> 4, symbol & 15);
            if size == 0 {
                if run != 15 {
                    self.empty_blocks = (1 << run) + plain(bits, run) - 1;
                    break;
                }
                at += 16;
                continue;
            }
            at += run as usize;
            block[place(at)] = (number(bits, size) << low) as i16;
            at += 1;
        }
    }

    fn more(&mut self, bits: &mut Bits<'_>, table: &Table, (first, last, low): (usize, usize, u32), block: &mut Block) {
        let mut at = first;
        if self.empty_blocks == 0 {
            while at <= last {
                let symbol = self.symbol(table, bits);
                let (mut run, size) = (symbol >> 4, symbol & 15);
                let mut new = 0;
                if size != 0 {
                    // A new coefficient has one bit, its sign.
                    self.was_no_code |= size != 1;
                    new = if plain(bits, 1) == 1 { 1 << low } else { -1 << low };
                } else if run != 15 {
                    self.empty_blocks = (1 << run) + plain(bits, run);
                    break;
                }
                // Passes over as many zeros, and over all other coefficients, which get their next bit.
                loop {
                    let coefficient = &mut block[place(at)];
                    if *coefficient != 0 {
                        refine(bits, coefficient, low);
                    } else if run == 0 {
                        break;
                    } else {
                        run -= 1;
                    }
                    at += 1;
                    if at > last {
                        break;
                    }
                }
                if new != 0 {
                    block[place(at)] = new as i16;
                }
                at += 1;
            }
        }
        if self.empty_blocks > 0 {
            for at in at..=last {
                let coefficient = &mut block[place(at)];
                if *coefficient != 0 {
                    refine(bits, coefficient, low);
                }
            }
            self.empty_blocks -= 1;
        }
    }
}

/// Reads the next bit of a coefficient that is not zero.
#[inline(always)]
fn refine(bits: &mut Bits<'_>, coefficient: &mut i16, low: u32) {
    bits.refill();
    if plain(bits, 1) == 1 && *coefficient & (1 << low) == 0 {
        let step = if *coefficient >= 0 { 1 << low } else { -1 << low };
        *coefficient = coefficient.wrapping_add(step);
    }
}
