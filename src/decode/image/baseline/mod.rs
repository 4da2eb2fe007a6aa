//! The decoder for the JPEG files that data sets are made of.

mod area;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod entropy;
mod header;
mod huffman;
mod kernels;
mod picture;
mod portable;
mod scan;
mod walk;

use super::Region;
use area::Area;
use entropy::{Block, Tables};
use header::Frame;
use huffman::{AcTable, DcTable};
use kernels::Kernels;
use picture::Picture;
use scan::Scan;
use walk::Walk;

/// A file that another decoder has to look at, and why: it is of another kind, damaged, or in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotOurs(pub(super) &'static str);

type Ours<T> = Result<T, NotOurs>;

/// One worker's decoder. Its buffers and tables stay from image to image.
pub(super) struct Decoder {
    scan: Scan,
    dc: [Option<Box<DcTable>>; 4],
    ac: [Option<Box<AcTable>>; 4],
    blocks: Vec<Block>,
    picture: Picture,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with(Kernels::detect())
    }
}

impl Decoder {
    fn with(kernels: Kernels) -> Self {
        Self {
            scan: Scan::default(),
            dc: Default::default(),
            ac: Default::default(),
            blocks: Vec::new(),
            picture: Picture::new(kernels),
        }
    }

    /// Decodes the pixels in `region` as 8-bit RGB into `into`, whose rows begin `stride` bytes after each other.
    ///
    /// # Errors
    ///
    /// [`NotOurs`] if the file has to go to another decoder. Whatever is in `into` then has no meaning.
    pub(super) fn decode(&mut self, bytes: &[u8], region: Region, into: &mut [u8], stride: usize) -> Ours<()> {
        let frame = Frame::read(bytes)?;
        let area = Area::new(&frame, region)?;
        let row = 3 * area.x.len();
        if stride < row || into.len() < stride * (area.y.len() - 1) + row {
            return Err(NotOurs("too little room for the pixels"));
        }
        for component in frame.components() {
            let (dc, ac) = (frame.dc_table(component.dc)?, frame.ac_table(component.ac)?);
            self.dc[component.dc].get_or_insert_default().build(dc)?;
            let table = self.ac[component.ac].get_or_insert_default();
            table.build(ac)?;
            if area.has_blocks_outside() {
                table.build_steps();
            }
        }
        self.scan.unstuff(frame.scan, frame.restart > 0)?;
        if self.blocks.len() < area.blocks {
            self.blocks.resize(area.blocks, [0; 64]);
        }
        self.picture.prepare(&frame, &area)?;

        let components = frame.components();
        // A grey image's only component stands in for the others, which it has not.
        let tables = |index: usize| {
            let component = components.get(index).unwrap_or(&components[0]);
            match (&self.dc[component.dc], &self.ac[component.ac]) {
                (Some(dc), Some(ac)) => Ok(Tables { dc, ac }),
                _ => Err(NotOurs("no Huffman table")),
            }
        };
        let tables = [tables(0)?, tables(1)?, tables(2)?];
        let mut walk = Walk::new(&frame, &area, &tables, &self.scan)?;
        for y in 0..area.mcu_rows.end {
            walk.row(y, &mut self.blocks)?;
            if area.mcu_rows.contains(&y) {
                self.picture.add(&area, y, &self.blocks, into, stride)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
