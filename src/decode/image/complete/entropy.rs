//! Decodes blocks of coefficients from bits, for each way in which scans are coded. Nothing here is an error: invalid
//! data has the meaning that it has in libjpeg.

use super::super::baseline::{Bits, Block, ZIGZAG};
use super::huffman::{Table, number, plain};

/// The effect of a scan on blocks.
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

/// State that is kept from block to block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Mean values of the last block of each component of the scan.
    pub(super) means: [i32; 4],
    /// Blocks without further coefficients in this scan.
    empty_blocks: u32,
    /// Whether some bits were not a valid code.
    pub(super) was_no_code: bool,
    /// Whether mean values left libjpeg's range of numbers.
    pub(super) overflowed: bool,
}

/// The Huffman tables of a component, as far as the scan uses them.
#[derive(Clone, Copy, Default)]
pub(super) struct Tables<'a> {
    pub(super) means: Option<&'a Table>,
    pub(super) others: Option<&'a Table>,
}

/// Position of the coefficient at `position` of the zigzag; positions after the block go to its last coefficient.
#[inline(always)]
fn place(position: usize) -> usize {
    usize::from(ZIGZAG[position.min(63)])
}

/// The positions in the zigzag at which a block of a progressive image has a coefficient other than zero, except its
/// mean value: a bit for each. With it, scans that bring one more bit skip zeros, many at a time.
pub(super) type Found = u64;

/// The bit of a position; positions after the block are its last one.
#[inline(always)]
fn bit(position: usize) -> Found {
    1 << position.min(63)
}

/// The bits of the positions from `at` to `last`, which must be in the block.
#[inline(always)]
fn range(at: usize, last: usize) -> Found {
    if at > last { 0 } else { Found::MAX << at & Found::MAX >> (63 - last) }
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

    /// Decodes a block of the scan's `nth` component. A block that is not needed gets no further bits.
    #[inline]
    pub(super) fn decode(
        &mut self,
        coding: Coding,
        bits: &mut Bits<'_>,
        tables: Tables<'_>,
        nth: usize,
        block: &mut Block,
        (found, is_needed): (&mut Found, bool),
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
                self.first(bits, others, (first, last, low), block, found)
            }
            (Coding::More { first, last, low }, _, Some(others)) if is_needed => {
                self.more::<true>(bits, others, (first, last, low), block, found)
            }
            (Coding::More { first, last, low }, _, Some(others)) => {
                self.more::<false>(bits, others, (first, last, low), block, found)
            }
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
        found: &mut Found,
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
            let coefficient = (number(bits, size) << low) as i16;
            block[place(at)] = coefficient;
            *found = *found & !bit(at) | if coefficient == 0 { 0 } else { bit(at) };
            at += 1;
        }
    }

    fn more<const IS_NEEDED: bool>(
        &mut self,
        bits: &mut Bits<'_>,
        table: &Table,
        (first, last, low): (usize, usize, u32),
        block: &mut Block,
        found: &mut Found,
    ) {
        let mut at = first;
        if self.empty_blocks == 0 {
            while at <= last {
                let symbol = self.symbol(table, bits);
                let (run, size) = (symbol >> 4, symbol & 15);
                let mut new = 0;
                if size != 0 {
                    // A new coefficient has one bit, its sign.
                    self.was_no_code |= size != 1;
                    new = if plain(bits, 1) == 1 { 1 << low } else { -1 << low };
                } else if run != 15 {
                    self.empty_blocks = (1 << run) + plain(bits, run);
                    break;
                }
                // Passes over as many zeros, up to the next one, and over all other coefficients, which get their next
                // bit.
                let mut zeros = !*found & range(at, last);
                for _ in 0..run {
                    zeros &= zeros.wrapping_sub(1);
                }
                let end = if zeros == 0 { last + 1 } else { zeros.trailing_zeros() as usize };
                refine::<IS_NEEDED>(bits, block, *found & range(at, end - 1), low);
                if new != 0 {
                    block[place(end)] = new as i16;
                    *found |= bit(end);
                }
                at = end + 1;
            }
        }
        if self.empty_blocks > 0 {
            refine::<IS_NEEDED>(bits, block, *found & range(at, last), low);
            self.empty_blocks -= 1;
        }
    }
}

/// Reads the next bit of each of these coefficients, or skips it if the block is not needed.
#[inline(always)]
fn refine<const IS_NEEDED: bool>(bits: &mut Bits<'_>, block: &mut Block, mut positions: Found, low: u32) {
    let mut left = positions.count_ones();
    while left > 0 {
        bits.refill();
        let count = left.min(AT_ONCE);
        let mut next = bits.window();
        for _ in 0..if IS_NEEDED { count } else { 0 } {
            let coefficient = &mut block[place(positions.trailing_zeros() as usize)];
            // Nothing to add to one that has the bit already.
            let is_more = (next >> 63) as i16 & !(*coefficient >> low) & 1;
            *coefficient = coefficient.wrapping_add((is_more << low) * (*coefficient >> 15 | 1));
            positions &= positions - 1;
            next <<= 1;
        }
        bits.consume(count);
        left -= count;
    }
}

/// Most bits that are taken between two refills.
const AT_ONCE: u32 = 56;

#[cfg(test)]
mod tests {
    use super::super::huffman::STANDARD;
    use super::*;
    use crate::random::RandomKey;

    /// Like `State::more`, coefficient by coefficient, as in the standard (ITU-T T.81, G.1.2.3) and libjpeg.
    fn more(
        state: &mut State,
        bits: &mut Bits<'_>,
        table: &Table,
        (first, last, low): (usize, usize, u32),
        block: &mut Block,
    ) {
        let refine = |bits: &mut Bits<'_>, coefficient: &mut i16| {
            bits.refill();
            if plain(bits, 1) == 1 && *coefficient & (1 << low) == 0 {
                *coefficient += if *coefficient >= 0 { 1 << low } else { -1 << low };
            }
        };
        let mut at = first;
        if state.empty_blocks == 0 {
            while at <= last {
                let symbol = state.symbol(table, bits);
                let (mut run, size) = (symbol >> 4, symbol & 15);
                let mut new = 0;
                if size != 0 {
                    state.was_no_code |= size != 1;
                    new = if plain(bits, 1) == 1 { 1 << low } else { -1 << low };
                } else if run != 15 {
                    state.empty_blocks = (1 << run) + plain(bits, run);
                    break;
                }
                while at <= last {
                    let coefficient = &mut block[place(at)];
                    if *coefficient != 0 {
                        refine(bits, coefficient);
                    } else if run == 0 {
                        break;
                    } else {
                        run -= 1;
                    }
                    at += 1;
                }
                if new != 0 {
                    block[place(at)] = new as i16;
                }
                at += 1;
            }
        }
        if state.empty_blocks > 0 {
            for at in at..=last {
                let coefficient = &mut block[place(at)];
                if *coefficient != 0 {
                    refine(bits, coefficient);
                }
            }
            state.empty_blocks -= 1;
        }
    }

    fn found(block: &Block) -> Found {
        (1..64).filter(|at| block[place(*at)] != 0).map(bit).sum()
    }

    #[test]
    fn a_bit_more_of_many_coefficients_at_once_is_a_bit_more_of_each() {
        let tables = [0, 1].map(|slot| Table::new(STANDARD[1][slot], false).expect("a code"));
        let mut ended = 0;
        for seed in 0..4000 {
            let key = RandomKey::new(seed);
            let draw = |nth: u64, most: u64| key.bits(nth) % most;
            // Bits that are mostly ones have long codes, which stand for long runs.
            let ones = [0xff, 0x00, 0x7f, 0xf7][draw(0, 4) as usize];
            let mut data: Vec<u8> = (0..8 + draw(1, 400))
                .map(|nth| key.bits(100 + nth) as u8 | ones & key.bits(1000 + nth) as u8)
                .collect();
            let end = data.len();
            data.resize(end + 16, 0);
            let (first, low) = (1 + draw(2, 40) as usize, draw(3, 14) as u32);
            let band = (first, first + draw(4, 64 - first as u64) as usize, low);
            let table = &tables[draw(5, 2) as usize];
            let (mut bits, mut bits_of_each) = (Bits::new(&data, 0), Bits::new(&data, 0));
            let (mut state, mut state_of_each) = (State::default(), State::default());
            for nth in 0..12 {
                let is_zero = |at: u64| key.bits(5000 + 64 * nth + at) % 16 >= draw(6, 17);
                let number = |at: u64| ((key.bits(9000 + 64 * nth + at) % 2000) as i16 - 1000) << low.min(4);
                let mut block: Block = std::array::from_fn(|at| if is_zero(at as u64) { 0 } else { number(at as u64) });
                let (mut each, mut mask) = (block, found(&block));
                let (mut passing, mut passed, mut passed_mask) = (bits, state.clone(), mask);
                passed.more::<false>(&mut passing, table, band, &mut block.clone(), &mut passed_mask);
                state.more::<true>(&mut bits, table, band, &mut block, &mut mask);
                assert_eq!((passing.consumed(), &passed, passed_mask), (bits.consumed(), &state, mask), "seed {seed}");
                more(&mut state_of_each, &mut bits_of_each, table, band, &mut each);
                assert_eq!(block, each, "seed {seed}, block {nth}");
                assert_eq!(mask, found(&block), "seed {seed}, block {nth}");
                assert_eq!(bits.is_beyond(end), bits_of_each.is_beyond(end), "seed {seed}, block {nth}");
                if bits.is_beyond(end) {
                    ended += 1;
                    break;
                }
                assert_eq!(bits.consumed(), bits_of_each.consumed(), "seed {seed}, block {nth}");
                assert_eq!(state.empty_blocks, state_of_each.empty_blocks, "seed {seed}, block {nth}");
                assert_eq!(state.was_no_code, state_of_each.was_no_code, "seed {seed}, block {nth}");
            }
        }
        assert!((200..3800).contains(&ended), "{ended} came to the end of the data");
    }
}
