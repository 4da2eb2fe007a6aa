//! The known points of the way through a file's data, and the points that are recorded on it.

use super::area::Area;
use super::scan::Bits;

/// Number of MCUs between two points of a row.
const STEP: usize = 16;

/// The decoder's state at an MCU: the bits before it, and the mean values of the blocks before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    /// The high and the low half of a number of bits, so that a point needs only ten bytes.
    bits: [u16; 2],
    means: [i16; 3],
}

impl Point {
    /// None if it is too far into the data, or a mean value is too large, which happens only in damaged files.
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

/// The points of one file that a decoder knows, and those that it records. By default, it has neither.
#[derive(Default)]
pub(super) struct Trace {
    is_noted: bool,
    /// Rows of MCUs whose points are known.
    rows: usize,
    /// The first row that must be read.
    first: usize,
    /// For each known row from the first one on, the last point before the wanted part. For the first unknown row, its
    /// beginning, if that is known.
    known: Vec<Point>,
    /// The recorded points of the other rows.
    new: Vec<Point>,
}

impl Trace {
    /// Forgets the last file.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.new.clear();
        (self.is_noted, self.rows, self.first) = (false, 0, 0);
    }

    /// Takes the points that are needed to decode `area` from those of so many rows, and starts recording further ones.
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

    /// The first row that must be read.
    pub(super) fn first_row(&self) -> usize {
        self.first
    }

    /// The MCU of row `y` from which data must be read to reach the MCU `wanted`, and the point there. None if this is
    /// the end of the previous row.
    pub(super) fn start(&self, y: usize, wanted: usize) -> Option<(usize, Point)> {
        let point = *self.known.get(y - self.first)?;
        Some((if self.is_known(y) { wanted / STEP * STEP } else { 0 }, point))
    }

    /// Whether all points of row `y` are known.
    pub(super) fn is_known(&self, y: usize) -> bool {
        y < self.rows
    }

    /// The next MCU of a row, after the MCU `x`, that is recorded.
    pub(super) fn next(&self, x: usize) -> usize {
        if self.is_noted { (x / STEP + 1) * STEP } else { usize::MAX }
    }

    /// Records a point before MCU `x` of a row that is not known.
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

    /// The recorded points of whole rows, and the first of these rows.
    pub(super) fn noted(&self, area: &Area) -> (usize, &[Point]) {
        let across = across(area);
        (self.rows, &self.new[..self.new.len() / across * across])
    }
}
