//! A decoder for the usual JPEG files of data sets: baseline, with all components in one scan, grey or YCbCr in 4:4:4,
//! 4:2:2 or 4:2:0. It gives the pixels of libjpeg-turbo (accurate integer DCT, fancy upsampling), bit for bit, for any
//! region, and takes about two thirds of its time. Every other file, and every file in doubt, goes to the decoder in
//! [`complete`](super::complete).
//!
//! # What a JPEG file is
//!
//! The encoder turned each pixel into brightness (*luma*) and two differences of colour. It usually kept every other
//! column and row of colour only (4:2:0), because the eye does not see more. It cut each of these components into
//! **blocks** of 8 x 8 samples, and wrote each block as a sum of 64 cosine patterns, from flat to finely checked: the
//! discrete cosine transform (DCT). The factors of the patterns, the **coefficients**, were divided by the steps of a
//! *quantisation* table and rounded. This is where information is lost: most coefficients become zero. The rest was
//! written without loss: in **zigzag** order from coarse to fine patterns, as pairs of *so many zeros, then a number of
//! so many bits*. The pairs are written with a **Huffman code** (few bits for frequent ones); the number's bits follow.
//! The first coefficient, the block's mean value (DC), is written as the difference from that of the previous block.
//! The blocks come in **minimum coded units** (MCUs): for 4:2:0, four blocks of luma and one of each colour, which are
//! 16 x 16 pixels.
//!
//! Nothing in this data says where a block begins: to find the last block, every code before it must be read. (Only
//! *restart markers*, which few files have, divide the data.) But this is needed only once per file: see [`index`].
//!
//! # The way through
//!
//! 1. [`header`]: sizes, tables and the beginning of the data. Files that this decoder does not support are refused
//!    here.
//! 2. [`huffman`]: tables that turn the next bits into symbols. They are kept from image to image if the next file has
//!    the same tables.
//! 3. [`scan`]: the data is copied into one piece, without the bytes of markers and stuffing. Then 64 bits can be read
//!    at once, at any position.
//! 4. [`area`]: which blocks the region needs. Colour is interpolated, so a region needs its neighbours, too.
//! 5. [`walk`] goes from MCU to MCU, and [`entropy`] through the blocks. The needed blocks are decoded; the others are
//!    skipped, several symbols at a time, except for their mean values. The walk ends with the last MCU that is needed.
//!    In a file that was decoded before, it begins near the first one.
//! 6. [`picture`]: after each row of MCUs, coefficients become samples (the inverse DCT), colour is interpolated to the
//!    size of the luma, and both become red, green and blue. [`kernels`] chooses between the [`portable`] code and the
//!    code for AVX2. (There is no code for NEON: on ARM, the library, which has it, decodes everything.)
//!
//! # What makes it fast
//!
//! Step 5 takes three quarters of the time, most of it in one chain of instructions: a symbol must be looked up before
//! the beginning of the next one is known. So everything else is kept out of this chain (see [`entropy`]), refilling
//! the window of bits has no branch, and outside of the region only the chain is left, with several symbols per step.
//!
//! # What makes it safe
//!
//! Headers and coefficients are safe code, and so are the kernels; only calling the kernels for AVX2 is unsafe. Memory
//! use is a copy of the file's data and a few rows, not whole planes. No fault is corrected. Each restart interval must
//! be consumed to within its last byte. No number may leave the range in which all decoders compute the same, and the
//! image must end with its marker. Otherwise the other decoder gets the file, and reports its faults.

mod area;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod entropy;
mod header;
mod huffman;
mod index;
mod kernels;
mod picture;
mod portable;
mod refusal;
mod scan;
mod trace;
mod walk;

use std::sync::Arc;

use super::stored::Region;
use area::Area;
use entropy::Tables;
pub(super) use entropy::{Block, ZIGZAG};
use header::{Frame, Sampling};
use huffman::{AcTable, DcTable};
pub(crate) use index::Index;
pub(super) use kernels::Kernels;
use picture::Picture;
pub(super) use portable::{Quantisation, factors};
pub(super) use refusal::NotOurs;
use refusal::Ours;
pub(super) use scan::Bits;
use scan::Scan;
use trace::Trace;
use walk::Walk;

/// Whether this decoder supports the file, by its header.
pub(super) fn is_usual(bytes: &[u8]) -> bool {
    Frame::read(bytes).is_ok()
}

/// One worker's decoder. Its buffers and tables are kept from image to image.
pub(super) struct Decoder {
    scan: Scan,
    dc: [Option<Box<DcTable>>; 4],
    ac: [Option<Box<AcTable>>; 4],
    blocks: Vec<Block>,
    picture: Picture,
    trace: Trace,
    index: Option<Arc<Index>>,
    /// Maximum number of bytes of the index when a file is added to it.
    index_bytes: u64,
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
            trace: Trace::default(),
            index: None,
            index_bytes: 0,
        }
    }

    /// From now on uses an index, and adds to it as long as it has at most `bytes` bytes.
    pub(super) fn set_index(&mut self, index: impl FnOnce() -> Option<Arc<Index>>, bytes: u64) {
        if self.index.is_none() && bytes > 0 {
            self.index = index();
        }
        self.index_bytes = bytes;
    }

    /// Bytes of memory, beside a few rows and tables.
    pub(super) fn held(&self) -> u64 {
        self.scan.held()
    }

    /// Whether there is special code for this processor.
    pub(super) fn has_vectors(&self) -> bool {
        self.picture.has_vectors()
    }

    /// Decodes the pixels in `region` into `into`, whose rows begin `stride` bytes after each other: as 8-bit RGB with
    /// three `channels`; a grey image also with one.
    ///
    /// # Errors
    ///
    /// [`NotOurs`] if the file must go to another decoder. The content of `into` is then undefined.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        region: Region,
        channels: usize,
        into: &mut [u8],
        stride: usize,
    ) -> Ours<()> {
        let frame = Frame::read(bytes)?;
        let area = Area::new(&frame, region)?;
        if channels != 3 && area.sampling != Sampling::Grey {
            return Err(NotOurs("colour, where one channel is wanted"));
        }
        let row = channels * area.x.len();
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
        self.scan.unstuff(frame.scan, area.intervals(frame.restart))?;
        if self.blocks.len() < area.blocks {
            self.blocks.resize(area.blocks, [0; 64]);
        }
        self.picture.prepare(&frame, &area, channels)?;

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
        self.trace.clear();
        let index = self.index.as_deref().filter(|_| self.index_bytes > 0);
        let known =
            index.and_then(|index| Some((index, index.look_up(bytes, &area, &mut self.trace, self.index_bytes)?)));
        let mut walk = Walk::new(&frame, &area, &tables, &self.scan, &mut self.trace)?;
        for y in walk.rows() {
            walk.row(y, &mut self.blocks)?;
            if area.mcu_rows.contains(&y) {
                self.picture.add(&area, y, &self.blocks, into, stride)?;
            }
        }
        if let Some((index, file)) = known {
            index.keep(file, &area, &self.trace, self.index_bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
