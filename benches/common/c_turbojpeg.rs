//! C's libjpeg-turbo, whole or cropped, with as little around it as it allows: what a JPEG decoder is measured by.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use turbojpeg_sys as tj;

/// Width of a column of blocks, by the library's number of the subsampling.
const MCU_WIDTH: [u32; 7] = [8, 16, 16, 8, 8, 32, 8];

pub(crate) struct Decompressor(NonNull<c_void>);

impl Default for Decompressor {
    fn default() -> Self {
        // SAFETY: takes a plain number; a null result is checked.
        Self(NonNull::new(unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) }).expect("memory"))
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: the handle came from `tj3Init` and is not used again.
        unsafe { tj::tj3Destroy(self.0.as_ptr()) };
    }
}

impl Decompressor {
    /// Decodes the box `[x, y, width, height]`, its left edge moved out to a column of blocks as the library asks, or
    /// everything if `crop` is none, as RGB into the front of `pixels`.
    pub(crate) fn decode(&mut self, bytes: &[u8], size: (u32, u32), crop: Option<[u32; 4]>, pixels: &mut Vec<u8>) {
        let handle = self.0.as_ptr();
        // SAFETY: the handle is alive, and the bytes are borrowed and as long as is said.
        let read = unsafe { tj::tj3DecompressHeader(handle, bytes.as_ptr(), bytes.len() as _) };
        assert_eq!(read, 0, "a header that was read before");
        // SAFETY: the handle is alive.
        let subsampling = unsafe { tj::tj3Get(handle, tj::TJPARAM_TJPARAM_SUBSAMP as c_int) };
        let column = MCU_WIDTH[usize::try_from(subsampling).expect("one of those that the library knows")];
        let [x, y, w, h] = crop.map_or([0; 4], |[x, y, width, height]| {
            let left = x / column * column;
            [left, y, x + width - left, height]
        });
        let (width, height) = if crop.is_some() { (w, h) } else { size };
        let len = width as usize * height as usize * 3;
        pixels.resize(pixels.len().max(len), 0);
        let region = tj::tjregion { x: x as c_int, y: y as c_int, w: w as c_int, h: h as c_int };
        // SAFETY: the handle is alive.
        assert_eq!(unsafe { tj::tj3SetCroppingRegion(handle, region) }, 0, "a box of the image");
        // SAFETY: the bytes are borrowed and as long as is said; the library writes the box, or the image of the size
        // in the header (`size`, from the same bytes), of which `pixels` has room for every byte.
        let decoded = unsafe {
            tj::tj3Decompress8(
                handle,
                bytes.as_ptr(),
                bytes.len() as _,
                pixels.as_mut_ptr(),
                0,
                tj::TJPF_TJPF_RGB as c_int,
            )
        };
        assert_eq!(decoded, 0, "a whole file");
    }
}
