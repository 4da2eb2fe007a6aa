//! Decodes blocks of coefficients from bits.
//!
//! Most of the time is spent here. Each symbol begins where the previous one ended, so nothing can be faster than the
//! chain *look up, shift*; everything else here (the value, its position) is kept out of that chain.

use super::huffman::{AcTable, DcTable, Step, Symbol};
use super::refusal::{NotOurs, Ours};
use super::scan::Bits;

/// The position in a block, row by row, of the coefficient at each position of the zigzag (figure A.6).
#[rustfmt::skip]
pub(crate) const ZIGZAG: [u8; 64] = [
     0,  1,  8, 16,  9,  2,  3, 10,
    17, 24, 32, 25, 18, 11,  4,  5,
    12, 19, 26, 33, 40, 48, 41, 34,
    27, 20, 13,  6,  7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46,
    53, 60, 61, 54, 47, 55, 62, 63,
];

/// A block's coefficients, row by row, in steps of their quantisation.
pub(crate) type Block = [i16; 64];

/// The tables that decode the blocks of one component.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    pub(super) dc: &'a DcTable,
    pub(super) ac: &'a AcTable,
}

/// The difference from the mean value of the previous block. Of the 56 bits after a refill, 29 are left after this.
#[inline(always)]
fn difference(bits: &mut Bits<'_>, table: &DcTable) -> Ours<i32> {
    let symbol = table.next(bits)?;
    let value = symbol.value(bits);
    bits.consume(symbol.bits());
    Ok(value)
}

/// Decodes a block into zeros; `before` is the mean value of the one before it.
// Not inlined: the loop has the registers for itself then.
#[inline(never)]
pub(super) fn decode(bits: &mut Bits<'_>, tables: Tables<'_>, before: &mut i32, block: &mut Block) -> Ours<()> {
    let mut own = *bits;
    own.refill();
    *before = before.wrapping_add(difference(&mut own, tables.dc)?);
    // It wraps in libjpeg, too.
    block[0] = *before as i16;
    let mut block = Coefficients { bits: own, table: tables.ac, block, next: 1 };
    // At most 27 bits for the mean value, 26 for each coefficient.
    let mut goes_on = block.coefficient()?;
    while goes_on {
        block.bits.refill();
        goes_on = block.coefficient()? && block.coefficient()?;
    }
    *bits = block.bits;
    Ok(())
}

/// A block that is being decoded.
struct Coefficients<'a, 'b> {
    bits: Bits<'b>,
    table: &'a AcTable,
    block: &'a mut Block,
    /// Position of the next coefficient, in zigzag order.
    next: usize,
}

impl Coefficients<'_, '_> {
    /// Decodes one coefficient; false at the end of the block.
    #[inline(always)]
    fn coefficient(&mut self) -> Ours<bool> {
        let mut symbol = self.table.next(&self.bits);
        let mut at = self.next + symbol.run();
        // One branch for all that is rare: the end, a long code, damage.
        if at > 63 {
            match self.last(symbol)? {
                None => return Ok(false),
                Some(long) => (symbol, at) = (long, self.next + long.run()),
            }
        }
        let value = symbol.value(&self.bits);
        self.bits.consume(symbol.bits());
        // Both masks change nothing. They are what spares the checks.
        self.block[usize::from(ZIGZAG[at & 63] & 63)] = value as i16;
        self.next = at + 1;
        Ok(true)
    }

    /// The symbol that begins here, if it is one of a coefficient; none if it ends the block.
    #[inline(always)]
    fn last(&mut self, symbol: Symbol) -> Ours<Option<Symbol>> {
        // A block whose last coefficient is not zero has no symbol for its end.
        if self.next > 63 {
            return Ok(None);
        }
        if symbol.is_end() {
            self.bits.consume(symbol.bits());
            return Ok(None);
        }
        single(&mut self.bits, self.table, self.next)
    }
}

/// The symbol at the front of the bits, where the coefficient `next` is expected: one that stays inside the block. None
/// if it ends the block; then it is consumed.
#[inline(always)]
fn single(bits: &mut Bits<'_>, table: &AcTable, next: usize) -> Ours<Option<Symbol>> {
    let symbol = table.long(bits.peek::<16>() as u32)?;
    if symbol.is_end() {
        bits.consume(symbol.bits());
        return Ok(None);
    }
    match next + symbol.run() > 63 {
        true => Err(NotOurs("a block of more than 64 coefficients")),
        false => Ok(Some(symbol)),
    }
}

/// Skips a block except for its mean value. [`AcTable::build_steps`] must have been called.
#[inline(never)]
pub(super) fn advance(bits: &mut Bits<'_>, tables: Tables<'_>, before: &mut i32) -> Ours<()> {
    let mut own = *bits;
    own.refill();
    *before = before.wrapping_add(difference(&mut own, tables.dc)?);
    let mut next = 1;
    // At most 27 bits for the mean value, 22 for each step, 26 for a single symbol.
    let mut goes_on = steps(&mut own, tables.ac, &mut next)?;
    while goes_on {
        own.refill();
        goes_on = steps(&mut own, tables.ac, &mut next)? && steps(&mut own, tables.ac, &mut next)?;
    }
    *bits = own;
    Ok(())
}

/// Skips the next symbols; false at the end of the block.
#[inline(always)]
fn steps(bits: &mut Bits<'_>, table: &AcTable, next: &mut usize) -> Ours<bool> {
    let step = table.step(bits);
    let then = *next + step.coefficients();
    if then < 64 {
        bits.consume(step.bits());
        *next = then;
        return Ok(true);
    }
    // It ends exactly with the last coefficient, or with the symbol for the end at a place where there can be one.
    if then == 64 || (Step::END..Step::END + 64).contains(&then) {
        bits.consume(step.bits());
        return Ok(false);
    }
    careful(bits, table, next)
}

/// As [`steps`], but only one symbol, if the table knows none or has some that reach into the next block.
#[inline(always)]
fn careful(bits: &mut Bits<'_>, table: &AcTable, next: &mut usize) -> Ours<bool> {
    let Some(symbol) = single(bits, table, *next)? else { return Ok(false) };
    bits.consume(symbol.bits());
    *next += symbol.run() + 1;
    Ok(*next < 64)
}
