//! What is known of the way through a file's data, and what is noted on it.

use super::area::Area;
use super::scan::Bits;

/// MCUs from one point of a row to the next.
const STEP: usize = 16;

/// What a decoder has to know at an MCU: the bits before it, and the mean values of the blocks before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    /// The high and the low half of a number of bits: so it needs no more than ten bytes.
    bits: [u16; 2],
    means: [i16; 3],
}

impl Point {
    /// None if it is too far back, or a mean value is too large, as in no file but damaged ones.
    fn new(bits: &Bits<'_>, means: [i32; 3]) -> Option<Self> {
        let bits = u32::try_from(bits.consumed()).ok()?;
        let [Ok(y), Ok(blue), Ok(red)] = means.map(i16::try_from) else { return None };
        Some(Self { bits: [(bits >> 16) as u16, bits as u16], means: [y, blue, red] })
    }

    pub(super) fn bits(self) -> usize {
        usize::from(self.bits[0]) << 16 | usize::from(self.bits[1])
    }

    pub(super) fn means(self) -> [i32; 3] {
        self.means.map(i32::from)
    }
}

/// Points in a row of MCUs.
pub(super) fn across(area: &Area) -> usize {
    area.mcus.0.div_ceil(STEP)
}

/// The points of one file that a decoder knows, and those that it notes. By default, none of both.
#[derive(Default)]
pub(super) struct Trace {
    is_noted: bool,
    /// Rows of MCUs whose points are known.
    rows: usize,
    /// The first row that has to be looked at.
    first: usize,
    /// Of each known row from the first on, the last point before what is wanted of it. Of the first row that is not, its
    /// beginning, if that is known.
    known: Vec<Point>,
    /// Those of the other rows.
    new: Vec<Point>,
}

impl Trace {
    /// Forgets the last file.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.new.clear();
        (self.is_noted, self.rows, self.first) = (false, 0, 0);
    }

    /// Takes what is needed to decode `area` from the points of so many rows, and notes further ones.
    pub(super) fn begin(&mut self, area: &Area, rows: usize, points: &[Point]) {
        let (across, wanted) = (across(area), &area.mcu_rows);
        self.clear();
        self.is_noted = true;
        // Where a row ends is not known before the next one was begun: beyond the last, one has to read it again.
        self.rows = if rows < wanted.end { rows.saturating_sub(1) } else { rows };
        self.first = self.rows.min(wanted.start);
        let of_rows = self.first..self.rows.min(wanted.end);
        self.known.extend(of_rows.map(|y| points[y * across + area.mcu_columns.start / STEP]));
        if self.rows < wanted.end {
            self.known.extend(points.get(self.rows * across));
        }
    }

    /// The first row that has to be looked at.
    pub(super) fn first_row(&self) -> usize {
        self.first
    }

    /// The MCU of row `y` from which on it has to be read to get to the MCU `wanted`, and what is known there. None if
    /// the end of the row before it is there.
    pub(super) fn start(&self, y: usize, wanted: usize) -> Option<(usize, Point)> {
        let point = *self.known.get(y - self.first)?;
        Some((if self.is_known(y) { wanted / STEP * STEP } else { 0 }, point))
    }

    /// Whether all points of row `y` are known.
    pub(super) fn is_known(&self, y: usize) -> bool {
        y < self.rows
    }

    /// The next MCU of a row behind the MCU `x` that is noted.
    pub(super) fn next(&self, x: usize) -> usize {
        if self.is_noted { (x / STEP + 1) * STEP } else { usize::MAX }
    }

    /// Notes a point before MCU `x` of a row that is not known.
    pub(super) fn note(&mut self, x: usize, bits: &Bits<'_>, means: [i32; 3]) {
        if self.is_noted && x.is_multiple_of(STEP) {
            match Point::new(bits, means) {
                Some(point) => self.new.push(point),
                None => self.clear_new(),
            }
        }
    }

    #[cold]
    fn clear_new(&mut self) {
        self.is_noted = false;
        self.new.clear();
    }

    /// The points of whole rows that were noted, and the first of these rows.
    pub(super) fn noted(&self, area: &Area) -> (usize, &[Point]) {
        let across = across(area);
        (self.rows, &self.new[..self.new.len() / across * across])
    }
}
