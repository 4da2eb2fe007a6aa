//! Tables that turn the next bits into symbols.
//!
//! A Huffman code gives frequent symbols few bits. Looking up the next 11 bits at once finds nearly every symbol in one
//! step; longer codes are found by comparing with the last code of each length. Half of all files have their own
//! tables, so building them must be fast, too.

use super::refusal::{NotOurs, Ours};
use super::scan::Bits;

/// Number of bits that the tables of single symbols look at.
const DC_BITS: u32 = 9;
const AC_BITS: u32 = 11;
/// Number of bits that the table of several symbols looks at.
const STEP_BITS: u32 = 12;

/// Most bits of a value of a baseline file of 8 bits.
const MAX_DC_SIZE: u8 = 11;
const MAX_AC_SIZE: u8 = 10;

/// A code and the value after it, laid out for the decoder's loop. It has the number of bits of both together (a byte:
/// 0 to 26), the number of zeros before the coefficient (a byte: 0 to 15, or [`END`], [`UNKNOWN`]), and a one for each
/// bit of the value (two bytes: up to 11 ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol(u32);

/// Replaces a run: the rest of the block is zero.
const END: u8 = 64;
/// Replaces a run: a longer code, or none. As for [`END`], no coefficient has so late a position.
const UNKNOWN: u8 = 65;

impl Symbol {
    const UNKNOWN: Self = Self((UNKNOWN as u32) << 8);

    fn new(code_bits: u32, size: u8, run: u8) -> Self {
        Self((code_bits + u32::from(size)) | u32::from(run) << 8 | ((1 << size) - 1) << 16)
    }

    /// A symbol of a DC table, which has no run.
    fn dc(symbol: u8, code_bits: u32) -> Option<Self> {
        (symbol <= MAX_DC_SIZE).then(|| Self::new(code_bits, symbol, 0))
    }

    /// A symbol of an AC table.
    fn ac(symbol: u8, code_bits: u32) -> Option<Self> {
        match (symbol >> 4, symbol & 15) {
            (0, 0) => Some(Self::new(code_bits, 0, END)),
            // 16 zeros are 15 and one that is written as a coefficient.
            (run @ 15, size @ 0) | (run, size @ 1..=MAX_AC_SIZE) => Some(Self::new(code_bits, size, run)),
            _ => None,
        }
    }

    /// Number of bits of code and value, in the low six bits of the result.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    /// The value after the code. In the lower half of all numbers of its length, it stands for negative ones (F.2.2.1).
    #[inline(always)]
    pub(super) fn value(self, bits: &Bits<'_>) -> i32 {
        // The last bit of the value becomes the lowest.
        let number = bits.window().rotate_left(self.bits() & 63) as u32 & (self.0 >> 16);
        let below = if number <= self.0 >> 17 { self.0 >> 16 } else { 0 };
        number as i32 - below as i32
    }

    #[inline(always)]
    pub(super) fn run(self) -> usize {
        usize::from((self.0 >> 8) as u8)
    }

    #[inline(always)]
    pub(super) fn is_end(self) -> bool {
        self.run() == usize::from(END)
    }
}

/// A canonical code: codes of one length follow each other.
#[derive(Default)]
struct Code {
    /// The table in the file, to recognise it if the next file has the same.
    spec: Vec<u8>,
    /// For each length, a limit: if the next 16 bits are below it, the code is not longer.
    limits: [u32; 17],
    /// For each length, the number to add to a code to find its symbol.
    offsets: [i32; 17],
}

impl Code {
    /// Whether `spec` was read last.
    fn is(&self, spec: &[u8]) -> bool {
        self.spec == spec
    }

    /// Reads the 16 counts of codes by length and the symbols behind them, and hands each code to `found`, with its
    /// length and symbol.
    fn read(&mut self, spec: &[u8], mut found: impl FnMut(usize, u32, u8)) -> Ours<()> {
        self.spec.clear();
        let (counts, symbols) = spec.split_first_chunk::<16>().ok_or(NotOurs("a Huffman table that is cut off"))?;
        let mut symbols = symbols.iter();
        let (mut code, mut index) = (0, 0);
        for (len, count) in (1..).zip(counts) {
            let at = len as usize;
            self.offsets[at] = index - code;
            for symbol in symbols.by_ref().take(usize::from(*count)) {
                found(code as usize, len, *symbol);
                code += 1;
            }
            index += i32::from(*count);
            // No code has ones alone (C.2), and symbols are bytes.
            if *count > 0 && code >= 1 << len || index > 256 {
                return Err(NotOurs("a Huffman table that is no code"));
            }
            self.limits[at] = (code as u32) << (16 - len);
            code *= 2;
        }
        self.spec.extend_from_slice(spec);
        Ok(())
    }

    /// The symbol that the 16 bits of `next` begin with, and the length of its code.
    #[cold]
    fn find(&self, next: u32) -> Ours<(u8, u32)> {
        let len = (1..17).find(|len| next < self.limits[*len]).ok_or(NotOurs("bits that are no code"))?;
        let index = (next >> (16 - len)) as i32 + self.offsets[len];
        let symbol = self.spec.get(16 + index as usize).ok_or(NotOurs("bits that are no code"))?;
        Ok((*symbol, len as u32))
    }
}

/// Sets the entries of a table of `1 << bits` that begin with `code`.
fn fill<T: Copy>(table: &mut [T], bits: u32, (code, len): (usize, u32), entry: T) {
    if len <= bits {
        // Codes that are no codes are refused once the table is read; until then they must not leave it.
        if let Some(entries) = table.get_mut(code << (bits - len)..(code + 1) << (bits - len)) {
            entries.fill(entry);
        }
    }
}

/// A table of differences between the mean values of blocks.
pub(super) struct DcTable {
    code: Code,
    single: [Symbol; 1 << DC_BITS],
}

impl Default for DcTable {
    fn default() -> Self {
        Self { code: Code::default(), single: [Symbol::UNKNOWN; 1 << DC_BITS] }
    }
}

impl DcTable {
    /// Makes this the table of `spec`.
    pub(super) fn build(&mut self, spec: &[u8]) -> Ours<()> {
        if self.code.is(spec) {
            return Ok(());
        }
        // libjpeg refuses these even where no code of the image has them.
        if spec.iter().skip(16).any(|bits| *bits > 15) {
            return Err(NotOurs("a DC value of more than 15 bits"));
        }
        self.single.fill(Symbol::UNKNOWN);
        self.code.read(spec, |code, len, symbol| {
            if let Some(symbol) = Symbol::dc(symbol, len) {
                fill(&mut self.single, DC_BITS, (code, len), symbol);
            }
        })
    }

    #[inline(always)]
    pub(super) fn next(&self, bits: &Bits<'_>) -> Ours<Symbol> {
        match self.single[bits.peek::<DC_BITS>()] {
            Symbol::UNKNOWN => self.long(bits.peek::<16>() as u32),
            symbol => Ok(symbol),
        }
    }

    // Given the bits by value: a reference to them would keep them out of registers everywhere.
    #[cold]
    fn long(&self, next: u32) -> Ours<Symbol> {
        let (symbol, len) = self.code.find(next)?;
        Symbol::dc(symbol, len).ok_or(NotOurs("a DC value of more than 11 bits"))
    }
}

/// Several symbols at once, as far as they matter to a block that is not needed: their number of bits (6 bits), and the
/// number of their coefficients (10 bits; the highest for the end of the block).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step(u16);

impl Step {
    /// The number that the end of the block adds to the coefficients.
    pub(super) const END: usize = 1 << 9;
    /// No whole code: more coefficients than any block has, and than all symbols that fit a step have (16 each).
    const UNKNOWN: Self = Self(256 << 6);

    fn new(symbol: Symbol) -> Self {
        let coefficients = if symbol.is_end() { Self::END } else { symbol.run() + 1 };
        Self((symbol.bits() & 63) as u16 | (coefficients as u16) << 6)
    }

    /// Number of bits of all symbols, in the low six bits of the result.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        u32::from(self.0)
    }

    #[inline(always)]
    pub(super) fn coefficients(self) -> usize {
        usize::from(self.0 >> 6)
    }
}

/// A table of the other 63 coefficients of a block.
pub(super) struct AcTable {
    code: Code,
    single: [Symbol; 1 << AC_BITS],
    codes: Vec<(usize, u32, Symbol)>,
    has_steps: bool,
    /// A table for each number of bits up to [`STEP_BITS`], if only these bits are known: the table for `n` bits begins
    /// at `1 << n`.
    steps: [Step; 2 << STEP_BITS],
}

impl Default for AcTable {
    fn default() -> Self {
        Self {
            code: Code::default(),
            single: [Symbol::UNKNOWN; 1 << AC_BITS],
            codes: Vec::new(),
            has_steps: false,
            steps: [Step::default(); 2 << STEP_BITS],
        }
    }
}

impl AcTable {
    /// Makes this the table of `spec`.
    pub(super) fn build(&mut self, spec: &[u8]) -> Ours<()> {
        if self.code.is(spec) {
            return Ok(());
        }
        self.single.fill(Symbol::UNKNOWN);
        self.codes.clear();
        self.has_steps = false;
        self.code.read(spec, |code, len, symbol| {
            if let Some(symbol) = Symbol::ac(symbol, len) {
                fill(&mut self.single, AC_BITS, (code, len), symbol);
                self.codes.push((code, len, symbol));
            }
        })
    }

    /// Makes the table of several symbols, from the one for no bits up to the one for [`STEP_BITS`]: a symbol is
    /// followed by those of the remaining bits, which are in the table for that number of bits.
    pub(super) fn build_steps(&mut self) {
        if std::mem::replace(&mut self.has_steps, true) {
            return;
        }
        for bits in 0..=STEP_BITS {
            let (smaller, table) = self.steps.split_at_mut(1 << bits);
            let table = &mut table[..1 << bits];
            table.fill(if bits == STEP_BITS { Step::UNKNOWN } else { Step::default() });
            for (code, len, symbol) in self.codes.iter().take_while(|(_, len, _)| *len <= bits) {
                let (step, left) = (Step::new(*symbol), bits.saturating_sub(symbol.bits() & 63));
                if symbol.is_end() || left == 0 {
                    fill(table, bits, (*code, *len), step);
                    continue;
                }
                let behind = &smaller[1 << left..2 << left];
                let entries = &mut table[code << (bits - len)..(code + 1) << (bits - len)];
                for entries in entries.chunks_exact_mut(1 << left) {
                    for (entry, behind) in entries.iter_mut().zip(behind) {
                        *entry = Step(step.0 + behind.0);
                    }
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn next(&self, bits: &Bits<'_>) -> Symbol {
        self.single[bits.peek::<AC_BITS>()]
    }

    /// The symbol at the beginning of 16 bits, also if its code is long.
    #[cold]
    pub(super) fn long(&self, next: u32) -> Ours<Symbol> {
        let (symbol, len) = self.code.find(next)?;
        Symbol::ac(symbol, len).ok_or(NotOurs("a symbol that no baseline file has"))
    }

    #[inline(always)]
    pub(super) fn step(&self, bits: &Bits<'_>) -> Step {
        self.steps[(1 << STEP_BITS) + bits.peek::<STEP_BITS>()]
    }
}
