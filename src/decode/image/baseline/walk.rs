//! Goes from MCU to MCU through the entropy-coded data.

use std::ops::Range;

use super::area::Area;
use super::entropy::{Block, Tables, advance, decode};
use super::header::Frame;
use super::refusal::{NotOurs, Ours};
use super::scan::{Bits, Scan};
use super::trace::{Point, Trace};

/// A block of an MCU.
#[derive(Clone, Copy, Default)]
struct Unit {
    component: usize,
    /// Its column and row in the MCU.
    at: (usize, usize),
}

/// The place for the blocks of a unit, along a row.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The current column among those that are needed, and the distance to the next one.
    column: usize,
    step: usize,
    /// The position of the first one.
    first: usize,
    /// How many are needed.
    width: usize,
}

/// The way through a scan, one row of MCUs after another.
pub(super) struct Walk<'a> {
    area: &'a Area,
    tables: &'a [Tables<'a>],
    /// The blocks of an MCU in their order: at most four of luma and two of colour.
    units: [Unit; 6],
    count: usize,
    bits: Bits<'a>,
    /// The ends of all restart intervals, the end of the current one, and those after it.
    all_ends: &'a [usize],
    end: usize,
    ends: &'a [usize],
    /// Number of MCUs of a whole restart interval, and of those left in the current one.
    interval: usize,
    left: usize,
    /// Mean values of the last block of each component.
    before: [i32; 3],
    trace: &'a mut Trace,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        frame: &Frame<'_>,
        area: &'a Area,
        tables: &'a [Tables<'a>],
        scan: &'a Scan,
        trace: &'a mut Trace,
    ) -> Ours<Self> {
        let interval = if frame.restart == 0 { area.mcus.0 * area.mcus.1 } else { frame.restart };
        let all_ends = scan.ends();
        let (&end, ends) = all_ends.split_first().ok_or(NotOurs("no data"))?;
        let (mut units, mut count) = ([Unit::default(); 6], 0);
        for (component, span) in area.spans().iter().enumerate() {
            let (h, v) = span.per_mcu;
            for at in 0..h * v {
                units[count] = Unit { component, at: (at % h, at / h) };
                count += 1;
            }
        }
        let bits = Bits::new(scan.bytes(), 0);
        let (left, before) = (interval, [0; 3]);
        Ok(Self { area, tables, units, count, bits, all_ends, end, ends, interval, left, before, trace })
    }

    /// The rows of MCUs to read.
    pub(super) fn rows(&self) -> Range<usize> {
        self.trace.first_row()..self.area.mcu_rows.end
    }

    /// Reads row `y` of the MCUs. Its needed blocks go to `blocks`.
    pub(super) fn row(&mut self, y: usize, blocks: &mut [Block]) -> Ours<()> {
        let (columns, rows) = (&self.area.mcu_columns, &self.area.mcu_rows);
        let is_last = y + 1 == rows.end;
        let is_known = self.trace.is_known(y);
        // Nobody needs what follows the last needed MCU, but the image's end is looked at if it is as near as that.
        let end = if is_known || is_last && rows.end < self.area.mcus.1 { columns.end } else { self.area.mcus.0 };
        let mut x = 0;
        if let Some((at, point)) = self.trace.start(y, columns.start) {
            x = at;
            self.go_to(y * self.area.mcus.0 + x, point);
        }
        while x < end {
            if self.left == 0 {
                self.next_interval()?;
            }
            let mut next = usize::MAX;
            if !is_known {
                self.trace.note(x, &self.bits, self.before);
                next = self.trace.next(x);
            }
            let here = rows.contains(&y) && columns.contains(&x);
            let until = match (here, x < columns.start && rows.contains(&y)) {
                (true, _) => columns.end,
                (_, true) => columns.start,
                _ => end,
            };
            let until = until.min(x + self.left).min(next);
            self.left -= until - x;
            match here {
                true => self.decode(x..until, y, blocks)?,
                false => self.advance(until - x)?,
            }
            x = until;
            if self.bits.is_beyond(self.end) {
                return Err(NotOurs("data that ends early"));
            }
        }
        if is_last && rows.end == self.area.mcus.1 && !is_known {
            self.check_end()?;
        }
        Ok(())
    }

    /// Moves to an MCU whose point is known.
    fn go_to(&mut self, mcu: usize, point: Point) {
        let (bits, interval) = (point.bits(), mcu / self.interval);
        self.bits = self.bits.at(bits / 8);
        self.bits.refill();
        self.bits.consume(bits as u32 % 8);
        self.before = point.means();
        (self.end, self.ends) = (self.all_ends[interval], &self.all_ends[interval + 1..]);
        self.left = self.interval - mcu % self.interval;
    }

    fn check_end(&self) -> Ours<()> {
        self.bits.is_at(self.end).then_some(()).ok_or(NotOurs("data that ends early or late"))
    }

    /// Continues after a restart marker.
    fn next_interval(&mut self) -> Ours<()> {
        self.check_end()?;
        self.bits = self.bits.at(self.end);
        self.left = self.interval;
        self.before = [0; 3];
        (self.end, self.ends) = match self.ends {
            [next, rest @ ..] => (*next, rest),
            [] => return Err(NotOurs("a restart marker that is missing")),
        };
        Ok(())
    }

    fn decode(&mut self, columns: Range<usize>, y: usize, blocks: &mut [Block]) -> Ours<()> {
        let mut places = [Place::default(); 6];
        for (place, unit) in places.iter_mut().zip(&self.units[..self.count]) {
            let span = &self.area.spans()[unit.component];
            let (h, v) = span.per_mcu;
            // Counted from the first needed column; before it, numbers wrap to very large ones.
            let width = span.columns.len();
            place.column = (columns.start * h + unit.at.0).wrapping_sub(span.columns.start);
            place.step = h;
            place.first = span.first_block + unit.at.1 * width;
            place.width = if span.rows.contains(&(y * v + unit.at.1)) { width } else { 0 };
        }
        // Bits of its own are in registers.
        let mut bits = self.bits;
        for _ in columns {
            for (unit, place) in self.units[..self.count].iter().zip(&mut places) {
                let (tables, before) = (self.tables[unit.component], &mut self.before[unit.component]);
                if place.column < place.width {
                    let block = &mut blocks[place.first + place.column];
                    *block = [0; 64];
                    decode(&mut bits, tables, before, block)?;
                } else {
                    advance(&mut bits, tables, before)?;
                }
                place.column = place.column.wrapping_add(place.step);
            }
        }
        self.bits = bits;
        Ok(())
    }

    fn advance(&mut self, mcus: usize) -> Ours<()> {
        let mut bits = self.bits;
        for _ in 0..mcus {
            for unit in &self.units[..self.count] {
                advance(&mut bits, self.tables[unit.component], &mut self.before[unit.component])?;
            }
        }
        self.bits = bits;
        Ok(())
    }
}
