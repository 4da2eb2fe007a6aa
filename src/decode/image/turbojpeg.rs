//! C's libjpeg-turbo, behind the feature `turbojpeg`.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use turbojpeg_sys as tj;

use super::complete::survey;
use super::decoder::{DecodeImage, copy_region, held, resize_buffer};
use super::stored::{Header, Region, Scale};
use crate::error::{Error, ErrorKind, Result};

/// The same as for the other decoders: more scans cost too much for the file's size.
const MAX_SCANS: c_int = 256;

/// Width of a column of blocks, for each kind of subsampling, in the library's order.
const MCU_WIDTH: [u32; 7] = [8, 16, 16, 8, 8, 32, 8];

/// A decompressor of C's library, set to refuse everything that it would have to guess.
#[derive(Default)]
pub(super) struct TurboJpeg {
    handle: Option<Handle>,
    /// The pixels from which a region is cut.
    around: Vec<u8>,
}

impl TurboJpeg {
    /// Bytes of memory, beside those of the library.
    pub(super) fn held(&self) -> u64 {
        held(&self.around)
    }
}

struct Handle(NonNull<c_void>);

// SAFETY: a decompressor belongs to no thread; it is only ever used by the one that holds it.
unsafe impl Send for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle came from `tj3Init` and is not used again.
        unsafe { tj::tj3Destroy(self.0.as_ptr()) };
    }
}

impl Handle {
    fn new() -> Result<Self> {
        // SAFETY: takes a plain number; a null result is checked.
        let handle = unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) };
        let handle =
            NonNull::new(handle).ok_or_else(|| Error::new(ErrorKind::Budget, "no memory for a decompressor"))?;
        let this = Self(handle);
        this.set(tj::TJPARAM_TJPARAM_STOPONWARNING as c_int, 1)?;
        this.set(tj::TJPARAM_TJPARAM_SCANLIMIT as c_int, MAX_SCANS)?;
        Ok(this)
    }

    fn set(&self, parameter: c_int, value: c_int) -> Result<()> {
        // SAFETY: the handle is alive.
        self.check(unsafe { tj::tj3Set(self.0.as_ptr(), parameter, value) })
    }

    fn get(&self, parameter: c_int) -> c_int {
        // SAFETY: the handle is alive.
        unsafe { tj::tj3Get(self.0.as_ptr(), parameter) }
    }

    fn check(&self, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the handle is alive.
        let text = unsafe { tj::tj3GetErrorStr(self.0.as_ptr()) };
        // SAFETY: the library gives a string that ends in zero and lasts until the next call.
        let text = unsafe { CStr::from_ptr(text) };
        Err(Error::new(ErrorKind::Format, format!("damaged JPEG: {}", text.to_string_lossy())))
    }

    fn read_header(&self, bytes: &[u8], header: &Header) -> Result<()> {
        // SAFETY: the bytes are borrowed for the call and as long as is said.
        self.check(unsafe { tj::tj3DecompressHeader(self.0.as_ptr(), bytes.as_ptr(), bytes.len() as _) })?;
        let width = self.get(tj::TJPARAM_TJPARAM_JPEGWIDTH as c_int);
        let height = self.get(tj::TJPARAM_TJPARAM_JPEGHEIGHT as c_int);
        if (i64::from(width), i64::from(height)) != (i64::from(header.width), i64::from(header.height)) {
            return Err(Error::new(ErrorKind::Format, "two headers disagree on the image's size"));
        }
        Ok(())
    }

    /// The part of the shrunk image to decode, so that the pixels of `region` are the same as in the whole image.
    /// Interpolation of colour reads neighbours, and the library begins at a block's left border.
    fn around(&self, region: Region, whole: (u32, u32), scale: Scale) -> Region {
        let subsampling = self.get(tj::TJPARAM_TJPARAM_SUBSAMP as c_int);
        let Some(column) = usize::try_from(subsampling).ok().and_then(|kind| MCU_WIDTH.get(kind)) else {
            return Region { x: 0, y: 0, width: whole.0, height: whole.1 };
        };
        let column = scale.of(*column);
        let left = region.x.saturating_sub(column) / column * column;
        let right = (region.x + region.width + column).next_multiple_of(column).min(whole.0);
        let top = region.y.saturating_sub(8);
        let bottom = (region.y + region.height + 8).min(whole.1);
        Region { x: left, y: top, width: right - left, height: bottom - top }
    }

    fn decompress(&self, bytes: &[u8], part: Region, whole: (u32, u32), scale: Scale, into: &mut [u8]) -> Result<()> {
        let factor = tj::tjscalingfactor { num: 1, denom: 8 / scale.eighths() as c_int };
        // SAFETY: the handle is alive.
        self.check(unsafe { tj::tj3SetScalingFactor(self.0.as_ptr(), factor) })?;
        // Zeros mean the whole image, which also works for images that the library can't cut.
        let sides = [part.x, part.y, part.width, part.height];
        let [x, y, w, h] = if (part.width, part.height) == whole { [0; 4] } else { sides.map(|side| side as c_int) };
        // SAFETY: the handle is alive.
        self.check(unsafe { tj::tj3SetCroppingRegion(self.0.as_ptr(), tj::tjregion { x, y, w, h }) })?;
        assert_eq!(into.len(), part.bytes());
        // SAFETY: the bytes are borrowed for the call and as long as is said; the cropping region that was accepted
        // (or, without one, the size that `read_header` compared, at the scale that was accepted) makes the library
        // write `height` rows of `width` pixels of three bytes, which is the length of `into` (asserted above).
        self.check(unsafe {
            tj::tj3Decompress8(
                self.0.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as _,
                into.as_mut_ptr(),
                0,
                tj::TJPF_TJPF_RGB as c_int,
            )
        })
    }
}

impl DecodeImage for TurboJpeg {
    fn decode(&mut self, bytes: &[u8], header: &Header, scale: Scale, region: Region, into: &mut [u8]) -> Result<()> {
        // It does not notice missing scans, which C's library smooths over.
        survey(bytes)?;
        let handle = match &mut self.handle {
            Some(handle) => handle,
            none => none.insert(Handle::new()?),
        };
        handle.read_header(bytes, header)?;
        let whole = (scale.of(header.width), scale.of(header.height));
        let around = handle.around(region, whole, scale);
        if around == region {
            return handle.decompress(bytes, region, whole, scale, into);
        }
        let pixels = resize_buffer(&mut self.around, around.bytes());
        handle.decompress(bytes, around, whole, scale, pixels)?;
        let cut = Region { x: region.x - around.x, y: region.y - around.y, ..region };
        copy_region(pixels, around.width, cut, into);
        Ok(())
    }
}
