use std::sync::Arc;

use libjpeg_turbo_rs::{DecodeLimits, Decoder, JpegError, PixelFormat, RestartResyncStrategy, ResyncAction};

use super::baseline::{self, Index, NotOurs};
use super::complete;
use super::decoder::{DecodeImage, copy_region, held, resize_buffer};
use super::jpeg_header::jpeg_frame;
use super::options::JpegDecoder;
use super::stored::{Header, Region, Scale};
use crate::counters::Damages;
use crate::error::{Error, ErrorKind, Result};

/// Most scans of a progressive JPEG. Encoders write about ten. Each costs a pass over all coefficients, so a small file
/// with thousands of scans would take minutes.
const MAX_SCANS: usize = 256;

/// Number of pixels that are decoded on each side of a region, so that its pixels are the same as in the whole image:
/// interpolation of colour reads neighbours. A row or column of blocks has at most 32 pixels.
const MARGIN: u32 = 32;

/// Whether the library has vector code for this kind of processor and our own decoder (which has code for AVX2) does
/// not. The vector code saves more time than our decoder saves by skipping. If neither has any, ours is faster.
const LIBRARY_HAS_VECTORS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "wasm32"));

/// Our own decoders. For usual files, the library if only it has vector code for the processor.
#[derive(Default)]
pub(super) struct Auto {
    baseline: baseline::Decoder,
    complete: complete::Decoder,
    turbo: LibjpegTurbo,
    damages: Damages,
    #[cfg(feature = "turbojpeg")]
    c: super::turbojpeg::TurboJpeg,
}

impl Auto {
    /// Uses an index of positions at which decoding can begin, and adds to it as long as it has at most `bytes` bytes.
    pub(super) fn set_index(&mut self, index: impl FnOnce() -> Option<Arc<Index>>, bytes: u64) {
        self.baseline.set_index(index, bytes);
    }

    /// Bytes of memory, beside a few rows and tables.
    pub(super) fn held(&self) -> u64 {
        let held = self.baseline.held() + self.complete.held() + self.turbo.held();
        #[cfg(feature = "turbojpeg")]
        let held = held + self.c.held();
        held
    }
}

/// Most bytes that decoding `region` of a file takes, in addition to its pixels.
pub(super) fn memory(header: &Header, region: Region, bytes: &[u8], decoder: JpegDecoder) -> u64 {
    let own = own_memory(bytes);
    if decoder == JpegDecoder::Auto && !asks_libraries() {
        return own;
    }
    // Libraries hold at most a plane per channel; four channels, and all of them again as colours. If there are several
    // scans, each coefficient takes two more bytes and a bit. A part is cut from the whole image.
    let side = |side: u32| u64::from(side.next_multiple_of(MARGIN));
    let pixels = side(header.width) * side(header.height);
    let samples = match (header.in_scans, header.channels) {
        (true, channels) => pixels * 25 / 8 * u64::from(channels),
        (false, 4) => pixels * 8,
        (false, channels) => pixels * u64::from(channels),
    };
    let cut = if region == Region::whole(header) { 0 } else { 3 * Region::whole(header).pixels() };
    own.max(samples + bytes.len() as u64) + cut
}

/// The same for our own decoders alone, which hold at most a plane per channel. If there are several scans, each
/// coefficient takes two more bytes and a bit; otherwise, those of one row of blocks do. The data of a scan is copied,
/// too.
pub(super) fn own_memory(bytes: &[u8]) -> u64 {
    // A file without these headers is refused before memory is taken.
    let Ok((header, factors)) = jpeg_frame(bytes) else { return 0 };
    let factors = &factors[..usize::from(header.channels)];
    let most = factors.iter().fold((1, 1), |most, factors| (most.0.max(factors.0), most.1.max(factors.1)));
    let blocks = |side: u32, factor: u8, most: u8| {
        let (side, factor) = (u64::from(side) * u64::from(factor), u64::from(factor.max(1)));
        side.div_ceil(u64::from(most)).div_ceil(8).next_multiple_of(factor)
    };
    let planes = factors.iter().map(|(across, down)| {
        let width = blocks(header.width, *across, most.0);
        let height = blocks(header.height, *down, most.1);
        let kept = width * if header.in_scans { height } else { u64::from(*down) };
        (8 * width + complete::BEHIND) * 8 * height + kept * complete::BLOCK
    });
    // A row of each plane as wide as the image, two with their edges, and one of pixels.
    let row = u64::from(header.width).next_multiple_of(32) + 2 * complete::BEHIND;
    let rows = row * (factors.len() as u64 + 5);
    planes.sum::<u64>() + rows + bytes.len() as u64
}

/// Whether [`Auto`] gives some files to libraries.
fn asks_libraries() -> bool {
    cfg!(feature = "turbojpeg") || LIBRARY_HAS_VECTORS && !baseline::Kernels::detect().has_vectors()
}

impl DecodeImage for Auto {
    fn decode_grey(&mut self, bytes: &[u8], region: Region, into: &mut [u8]) -> bool {
        let is_ours = self.baseline.has_vectors() || !LIBRARY_HAS_VECTORS;
        is_ours && self.baseline.decode(bytes, region, 1, into, region.width as usize).is_ok()
    }

    #[cfg_attr(not(feature = "turbojpeg"), expect(unused_variables, reason = "without C, there is one scale"))]
    fn decode(&mut self, bytes: &[u8], header: &Header, scale: Scale, region: Region, into: &mut [u8]) -> Result<()> {
        self.damages = Damages::default();
        #[cfg(feature = "turbojpeg")]
        if scale != Scale::FULL {
            return self.c.decode(bytes, header, scale, region, into);
        }
        if LIBRARY_HAS_VECTORS && !self.baseline.has_vectors() {
            if baseline::is_usual(bytes) && self.turbo.decode(bytes, header, Scale::FULL, region, into).is_ok() {
                return Ok(());
            }
        } else {
            match self.baseline.decode(bytes, region, 3, into, 3 * region.width as usize) {
                Ok(()) => return Ok(()),
                Err(NotOurs(why)) => tracing::trace!(why, "a JPEG that goes to the decoder for all kinds"),
            }
        }
        self.damages = self.complete.decode(bytes, (header.width, header.height), region, into)?;
        Ok(())
    }

    fn damages(&self) -> Damages {
        self.damages
    }
}

/// `libjpeg-turbo-rs`, set to refuse everything that it would have to guess.
#[derive(Default)]
pub(super) struct LibjpegTurbo {
    /// The pixels from which a region is cut.
    around: Vec<u8>,
}

impl LibjpegTurbo {
    /// Bytes of memory.
    pub(super) fn held(&self) -> u64 {
        held(&self.around)
    }
}

/// A restart marker out of order means lost data.
struct Refuse;

impl RestartResyncStrategy for Refuse {
    fn on_desync(&mut self, _expected: u8, _found: Option<u8>) -> ResyncAction {
        ResyncAction::Abort
    }
}

impl DecodeImage for LibjpegTurbo {
    fn decode(&mut self, bytes: &[u8], header: &Header, _: Scale, region: Region, into: &mut [u8]) -> Result<()> {
        let found = complete::survey(bytes)?;
        // The library (0.9.0) gives wrong pixels for the first, or panics; for the others, it does not report damage.
        let kinds = [
            (
                header.channels == 4 && found.is_subsampled,
                "a CMYK image of components with different numbers of samples",
            ),
            (found.is_arithmetic, "an image of arithmetic codes"),
            (found.is_progressive && found.has_restarts, "a progressive image with restart markers"),
        ];
        if let Some((_, kind)) = kinds.into_iter().find(|(is_it, _)| *is_it) {
            let message = format!("{kind}, which the JPEG decoder libjpeg_turbo may decode wrongly; choose auto");
            return Err(Error::new(ErrorKind::Format, message));
        }
        let limits = DecodeLimits { max_scans: MAX_SCANS, ..DecodeLimits::default() };
        let mut decoder = Decoder::new_with_limits(bytes, limits).map_err(jpeg_error)?;
        decoder.set_output_format(PixelFormat::Rgb);
        decoder.set_stop_on_warning(true);
        decoder.set_resync_strategy(Refuse);
        let whole = Region::whole(header);
        let around = match region.with_margin(MARGIN, header) {
            // For nearly the whole image: decoding all of it saves the copies that the library makes for a region.
            around if around.pixels() >= whole.pixels() / 4 * 3 => whole,
            // The library (0.9.0) gives wrong pixels for a region of a CMYK image, and ignores restart markers out of
            // order when it skips rows.
            _ if header.channels == 4 || found.has_restarts => whole,
            around => around,
        };
        let info = if region == whole {
            decoder.decode_image_into(into).map_err(jpeg_error)?
        } else {
            if around != whole {
                let [x, y, width, height] = [around.x, around.y, around.width, around.height].map(|n| n as usize);
                decoder.set_crop_region(x, y, width, height);
            }
            let len = decoder.output_buffer_size().map_err(jpeg_error)?;
            decoder.decode_image_into(resize_buffer(&mut self.around, len)).map_err(jpeg_error)?
        };
        if let Some(warning) = info.warnings.first() {
            return Err(Error::new(ErrorKind::Format, warning.to_string()));
        }
        let (width, height) = (info.width as u32, info.height as u32);
        // The library extends a region's left edge to a block's border.
        let left = (around.x + around.width).saturating_sub(width);
        if info.pixel_format != PixelFormat::Rgb || left > around.x || height != around.height {
            let message = format!("decoded to {width} x {height} pixels, not {} x {}", around.width, around.height);
            return Err(Error::new(ErrorKind::Format, message));
        }
        if region != whole {
            let cut = Region { x: region.x - left, y: region.y - around.y, ..region };
            copy_region(&self.around, width, cut, into);
        }
        Ok(())
    }
}

#[cold]
fn jpeg_error(error: JpegError) -> Error {
    let kind = match error {
        JpegError::LimitExceeded { .. } => ErrorKind::Limit,
        _ => ErrorKind::Format,
    };
    Error::new(kind, format!("damaged JPEG: {error}")).with_source(error)
}
