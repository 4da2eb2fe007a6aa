use std::panic::{AssertUnwindSafe, catch_unwind};

use super::augment::ImageAugment;
use super::augment::keyed;
use super::boxes::crop_box;
use super::container::{check_whole, header};
use super::decoder::{copy_region, held, resize_buffer};
use super::decoders::Decoders;
use super::filter::Blur;
use super::jitter::Jitter;
use super::map::Map;
use super::options::{ImageColour, ImageOptions, JpegDecoder};
use super::order::PixelOrder;
use super::picture::{Picture, Spare, turned};
use super::pixels::{to_grey, turn_upright, write_mirrored, write_pixels};
use super::resize::{Plan, Resampler};
use super::stored::{Header, Orientation, Region, Scale};
use crate::counters::{Damage, Damages, Resizing};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Lent, MemoryBudget, Tool};
use crate::random::RandomKey;
use crate::row::TensorMut;

/// Decodes a file into `tensor` according to `options`. Returns width and height of the written image, and the damage
/// of a file that was loaded in spite of it. Random operations use `key`. `budget` lends the memory.
///
/// # Errors
///
/// Those of the format; [`ErrorKind::Limit`](crate::ErrorKind::Limit) for too many pixels;
/// [`ErrorKind::Budget`](crate::ErrorKind::Budget) for too little memory; and if the image does not fit the tensor.
pub(crate) fn write_image(
    bytes: &[u8],
    options: &ImageOptions,
    key: RandomKey,
    tensor: &mut TensorMut<'_>,
    budget: &MemoryBudget,
) -> Result<((usize, usize), Damages)> {
    let key = options.key(key);
    let wanted = Wanted::new(checked_header(bytes, options)?, options, key)?;
    let mut work = ImageWork::lend(budget, wanted.memory(options, bytes), options.jpeg_index_bytes)?;
    let size = work.write(bytes, wanted, options, key, tensor, None)?;
    Ok((size, work.damages))
}

/// The part of a stored image that is decoded, and how it becomes the wanted image.
pub(super) struct Wanted {
    stored: Header,
    pub(super) scale: Scale,
    /// A box of the image at that scale.
    pub(super) region: Region,
    plan: Plan,
    jitter: Option<Jitter>,
}

impl Wanted {
    pub(super) fn new(stored: Header, options: &ImageOptions, key: RandomKey) -> Result<Self> {
        Self::jittered(stored, options, key, Jitter::of(options, key, stored.upright_size()))
    }

    pub(super) fn jittered(
        stored: Header,
        options: &ImageOptions,
        key: RandomKey,
        jitter: Option<Jitter>,
    ) -> Result<Self> {
        let taken = taken(&stored, options, key);
        let picture = Header { width: taken.width, height: taken.height, ..stored };
        let plan = match &jitter {
            None => Plan::new(&picture, options.size, options.fit, options.resize),
            Some(jitter) => Plan::of_cut(&picture, jitter.cut, jitter.part, options.resize),
        };
        let may_scale = options.dct_scaling && Decoders::can_scale(stored.format, options.jpeg);
        let (scale, region, plan) = to_decode(&stored, taken, plan, may_scale);
        plan.check(&Header { width: region.width, height: region.height, ..stored }, options.max_pixels)?;
        Ok(Self { stored, scale, region, plan, jitter })
    }

    /// Whether the result is the stored image itself.
    pub(super) fn is_as_stored(&self, options: &ImageOptions, key: RandomKey) -> bool {
        self.plan.is_identity(&self.stored)
            && self.region == Region::whole(&self.stored)
            && !self.jitter.is_some_and(|jitter| jitter.is_padded())
            && only_turned(self.stored.orientation, self.size(), options, key).is_some_and(Orientation::is_upright)
    }

    /// Width and height of the upright result.
    fn size(&self) -> (u32, u32) {
        self.jitter
            .map_or_else(|| self.stored.orientation.turn((self.plan.width, self.plan.height)), |jitter| jitter.result)
    }

    /// The most bytes that all of this holds at a time.
    pub(super) fn memory(&self, options: &ImageOptions, bytes: &[u8]) -> u64 {
        let (width, height) = self.size();
        let values = u64::from(width) * u64::from(height);
        let result = 3 * values;
        // Maps are decoded as a whole.
        let region = if options.colour == ImageColour::Index { Region::whole(&self.stored) } else { self.region };
        let decoder = Decoders::memory(&self.stored, region, bytes, options.jpeg);
        let changes = options.augment.iter().any(|operation| !operation.is_before_decoding());
        if options.colour == ImageColour::Index {
            // Numbers of two bytes: as stored, in their places, and once more to move them.
            let moved = if changes || self.jitter.is_some() { values } else { 0 };
            return decoder + 2 * (Region::whole(&self.stored).pixels() + values + moved);
        }
        // Pixels as decoded, between two steps of resizing, as resized, and once more to change places or colour.
        let decoded = Header { width: self.region.width, height: self.region.height, ..self.stored };
        let resized = match self.plan.is_identity(&decoded) {
            true => 0,
            false => u64::from(self.region.width) * u64::from(self.plan.height) * 3 + self.plan.bytes() as u64,
        };
        let moved = if changes || !self.stored.orientation.is_upright() { result } else { 0 };
        let grey = if options.colour == ImageColour::Grey { values } else { 0 };
        let blurs = options.augment.iter().any(|operation| matches!(operation, ImageAugment::GaussianBlur { .. }));
        let filter = if blurs { Blur::memory(width.into()) } else { 0 };
        // A mixture keeps the picture as it was, and a sum of four bytes a value.
        let mixes = options.augment.iter().any(|operation| matches!(operation, ImageAugment::AugMix { .. }));
        let mixture = if mixes { 5 * result } else { 0 };
        let around = if self.jitter.is_some() { result } else { 0 };
        decoder + self.region.bytes() as u64 + resized + moved + grey + filter + mixture + around
    }
}

/// The way from a file's bytes to a tensor: decoders and buffers, reused from image to image.
#[derive(Default)]
pub(crate) struct ImageWork {
    decoders: Decoders,
    resizer: Resampler,
    decoded: Vec<u8>,
    /// The pixels from which several views of an image are cut.
    shared: Vec<u8>,
    resized: Vec<u8>,
    /// The pixels that were placed in a larger picture.
    around: Vec<u8>,
    spare: Spare,
    grey: Vec<u8>,
    map: Map,
    /// The same for maps that are tensors already.
    moved: Map<u64>,
    /// The damage of the image that was decoded last, if the image was loaded in spite of it.
    pub(super) damages: Damages,
}

impl Tool for ImageWork {
    fn held(&self) -> u64 {
        let buffers = [&self.decoded, &self.shared, &self.resized, &self.around, &self.grey];
        let tools =
            self.decoders.held() + self.resizer.held() + self.spare.held() + self.map.held() + self.moved.held();
        buffers.into_iter().map(held).sum::<u64>() + tools
    }
}

impl ImageWork {
    /// An [`ImageWork`] with `bytes` bytes of `budget`, and an index of at most `index_bytes`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`](crate::ErrorKind::Budget) with too little memory.
    pub(super) fn lend(budget: &MemoryBudget, bytes: u64, index_bytes: u64) -> Result<Lent<Self>> {
        let mut work = budget.lend::<Self>(bytes, "decoding an image")?;
        work.decoders.share_index(budget, index_bytes);
        Ok(work)
    }

    /// Decodes a file as 8-bit RGB: as stored, neither resized nor turned.
    ///
    /// # Errors
    ///
    /// Those of the format; [`ErrorKind::Limit`](crate::ErrorKind::Limit) with too many pixels.
    pub(crate) fn decode(&mut self, bytes: &[u8], options: &ImageOptions) -> Result<(Header, &[u8])> {
        let header = checked_header(bytes, options)?;
        let whole = (Scale::FULL, Region::whole(&header));
        let (pixels, damages) = decode(&mut self.decoders, &mut self.decoded, bytes, &header, whole, options.jpeg)?;
        check_damages(damages, options)?;
        Ok((header, pixels))
    }

    /// Decodes a part from which several views are cut.
    pub(super) fn decode_shared(
        &mut self,
        bytes: &[u8],
        header: &Header,
        region: Region,
        jpeg: JpegDecoder,
    ) -> Result<Damages> {
        let (decoders, shared) = (&mut self.decoders, &mut self.shared);
        decode(decoders, shared, bytes, header, (Scale::FULL, region), jpeg).map(|(_, damages)| damages)
    }

    /// Room for the pixels of an image that is decoded already, as the part from which views are cut.
    pub(super) fn shared_mut(&mut self, bytes: usize) -> &mut [u8] {
        resize_buffer(&mut self.shared, bytes)
    }

    /// Moves the values of a segmentation map that is decoded already.
    pub(super) fn change_map(
        &mut self,
        wanted: &Wanted,
        options: &ImageOptions,
        key: RandomKey,
        tensor: &mut TensorMut<'_>,
    ) {
        self.moved.change(&wanted.stored, options, key, wanted.jitter, tensor);
    }

    /// With a `part`, the pixels are cut from that box, which was [decoded](Self::decode_shared) last.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        wanted: Wanted,
        options: &ImageOptions,
        key: RandomKey,
        tensor: &mut TensorMut<'_>,
        part: Option<Region>,
    ) -> Result<(usize, usize)> {
        self.damages = Damages::default();
        let upright = wanted.size();
        let Wanted { stored, scale, region, plan, jitter } = wanted;
        if options.colour == ImageColour::Index {
            let decoders = &mut self.decoders;
            guarded(|| decoders.read_map(bytes, &stored, &mut self.map))?;
            let _counted = Resizing::begin();
            return self.map.write(&stored, options, key, jitter, tensor);
        }
        let padded = jitter.filter(Jitter::is_padded);
        // From here on, what was taken is the picture.
        let header = Header { width: region.width, height: region.height, ..stored };
        let only_turned = only_turned(header.orientation, upright, options, key);
        if part.is_none()
            && padded.is_none()
            && options.colour == ImageColour::Grey
            && stored.channels == 1
            && scale == Scale::FULL
            && let Some(orientation) = only_turned
            && self.decode_grey(bytes, &stored, region, options)
        {
            let _counted = Resizing::begin();
            return self.write_grey(&header, &plan, orientation, options, tensor);
        }
        let decoded;
        (decoded, self.damages) = match part {
            None => decode(&mut self.decoders, &mut self.decoded, bytes, &stored, (scale, region), options.jpeg)?,
            // It stays as it is: other views are cut from it, too.
            Some(part) if part == region && !plan.is_identity(&header) => {
                (&self.shared[..region.bytes()], Damages::default())
            }
            Some(part) => {
                let _counted = Resizing::begin();
                let place = Region { x: region.x - part.x, y: region.y - part.y, ..region };
                let into = resize_buffer(&mut self.decoded, region.bytes());
                copy_region(&self.shared[..part.bytes()], part.width, place, into);
                (&*into, Damages::default())
            }
        };
        check_damages(self.damages, options)?;
        let _counted = Resizing::begin();
        let (width, height) = (upright.0 as usize, upright.1 as usize);

        let turned = only_turned.filter(|_| options.colour == ImageColour::Rgb);
        let is_final = turned.is_some_and(Orientation::is_upright)
            && padded.is_none()
            && options.order == PixelOrder::Nhwc
            && tensor.dtype() == DType::U8
            && tensor.affine().is_none()
            && tensor.shape() == [height, width, 3];
        let pixels = match plan.is_identity(&header) {
            true => &mut self.decoded,
            // What the resizer gives is already what the tensor holds.
            false if is_final => {
                self.resizer.resize(&header, decoded, &plan, tensor.bytes_mut())?;
                return Ok((width, height));
            }
            false => {
                self.resizer.resize(&header, decoded, &plan, resize_buffer(&mut self.resized, plan.bytes()))?;
                &mut self.resized
            }
        };
        let size = header.orientation.turn(upright);
        if let Some(jitter) = padded {
            let around = &mut self.around;
            place(&pixels[..plan.bytes()], &jitter, header.orientation, resize_buffer(around, 3 * width * height));
            std::mem::swap(pixels, around);
        }
        if options.order == PixelOrder::Nchw && turned == Some(Orientation::default().mirrored()) {
            write_mirrored(&pixels[..3 * width * height], (width, height), tensor)?;
            return Ok((width, height));
        }
        let mut picture = Picture { pixels, spare: &mut self.spare, size, orientation: header.orientation };
        for (operation, key) in keyed(&options.augment, key) {
            operation.draw(key, upright, &mut |change| picture.apply(change));
        }
        let pixels = picture.upright();
        let pixels = match options.colour {
            ImageColour::Rgb => pixels,
            ImageColour::Grey | ImageColour::Index => {
                let grey = resize_buffer(&mut self.grey, width * height);
                to_grey(pixels, grey);
                grey
            }
        };
        write_pixels(pixels, (width, height), options.colour.channels(), options.order, tensor)?;
        Ok((width, height))
    }
}

impl ImageWork {
    /// Decodes a grey image as one byte per pixel, if its decoder can.
    fn decode_grey(&mut self, bytes: &[u8], header: &Header, region: Region, options: &ImageOptions) -> bool {
        let into = resize_buffer(&mut self.decoded, region.pixels() as usize);
        self.decoders.of(header.format, options.jpeg).decode_grey(bytes, region, into)
    }

    /// Resizes and turns the pixels of `decode_grey`: a third of the work, with the same result as for three equal
    /// channels.
    fn write_grey(
        &mut self,
        header: &Header,
        plan: &Plan,
        orientation: Orientation,
        options: &ImageOptions,
        tensor: &mut TensorMut<'_>,
    ) -> Result<(usize, usize)> {
        let bytes = plan.bytes() / 3;
        if !plan.is_identity(header) {
            let decoded = &self.decoded[..header.width as usize * header.height as usize];
            self.resizer.resize_grey(header, decoded, plan, resize_buffer(&mut self.resized, bytes))?;
            std::mem::swap(&mut self.decoded, &mut self.resized);
        }
        if !orientation.is_upright() {
            let turned = resize_buffer(&mut self.spare.moved, bytes);
            turn_upright::<1>(&self.decoded[..bytes], plan.width as usize, orientation, turned);
            std::mem::swap(&mut self.decoded, &mut self.spare.moved);
        }
        let (width, height) = orientation.turn((plan.width, plan.height));
        let size = (width as usize, height as usize);
        write_pixels(&self.decoded[..bytes], size, 1, options.order, tensor)?;
        Ok(size)
    }
}

/// Places the pixels of a stored picture in a larger one, both not turned yet.
fn place(pixels: &[u8], jitter: &Jitter, orientation: Orientation, into: &mut [u8]) {
    let ((x, y), (width, height)) = (jitter.at, jitter.part);
    let size = orientation.turn(jitter.result);
    let region = orientation.stored(Region { x, y, width, height }, size);
    into.as_chunks_mut::<3>().0.fill(jitter.fill);
    let rows = into.chunks_exact_mut(3 * size.0 as usize).skip(region.y as usize);
    for (into, row) in rows.zip(pixels.chunks_exact(3 * region.width as usize)) {
        into[3 * region.x as usize..][..row.len()].copy_from_slice(row);
    }
}

/// The orientation of the picture, whose upright size this is, after all operations, if they do nothing else to its
/// pixels.
fn only_turned(
    orientation: Orientation,
    size: (u32, u32),
    options: &ImageOptions,
    key: RandomKey,
) -> Option<Orientation> {
    let mut all = Some(orientation);
    for (operation, key) in keyed(&options.augment, key) {
        operation.draw(key, size, &mut |change| all = all.and_then(|orientation| turned(orientation, change)));
    }
    all
}

/// The part of the stored image that must be decoded to apply `plan` to its box `taken`: the scale, a box of the image
/// at that scale, and the plan for that box.
fn to_decode(stored: &Header, taken: Region, plan: Plan, may_scale: bool) -> (Scale, Region, Plan) {
    let size = (taken.width, taken.height);
    let scale = if may_scale { Scale::least(plan.taken_size(size), (plan.width, plan.height)) } else { Scale::FULL };
    let shrunk = taken.at(scale, stored);
    let ratio = |to: u32, from: u32| f64::from(to) / f64::from(from);
    let plan = plan.scaled((ratio(shrunk.width, size.0), ratio(shrunk.height, size.1)));
    let (read, plan) = plan.narrowed((shrunk.width, shrunk.height));
    (scale, Region { x: shrunk.x + read.x, y: shrunk.y + read.y, ..read }, plan)
}

fn checked_header(bytes: &[u8], options: &ImageOptions) -> Result<Header> {
    let header = header(bytes)?;
    header.check(options.max_pixels)?;
    check_whole(bytes, header.format)?;
    Ok(header)
}

/// The part of the stored image that is decoded: all of it, or the box of a random crop.
fn taken(header: &Header, options: &ImageOptions, key: RandomKey) -> Region {
    match keyed(&options.augment, key).next() {
        Some((ImageAugment::RandomResizedCrop { scale, ratio }, key)) => {
            let upright = crop_box(header.upright_size(), *scale, *ratio, key);
            header.orientation.stored(upright, (header.width, header.height))
        }
        _ => Region::whole(header),
    }
}

fn decode<'a>(
    decoders: &mut Decoders,
    decoded: &'a mut Vec<u8>,
    bytes: &[u8],
    header: &Header,
    (scale, region): (Scale, Region),
    jpeg: JpegDecoder,
) -> Result<(&'a [u8], Damages)> {
    #[cfg(test)]
    DECODED.with(|count| count.set(count.get() + 1));
    let into = resize_buffer(decoded, region.bytes());
    let decoder = decoders.of(header.format, jpeg);
    guarded(|| decoder.decode(bytes, header, scale, region, into))?;
    Ok((into, decoder.damages()))
}

#[cfg(test)]
thread_local! {
    /// How many images this thread decoded.
    pub(super) static DECODED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Refuses damage if the options are strict.
fn check_damages(damages: Damages, options: &ImageOptions) -> Result<()> {
    if options.strict && !damages.is_empty() {
        let kinds: Vec<&str> = damages.iter().map(Damage::as_str).collect();
        let message = format!("damaged JPEG: {}; without `strict`, it is loaded as libjpeg loads it", kinds.join(", "));
        return Err(Error::new(ErrorKind::Format, message));
    }
    Ok(())
}

/// Some damage makes a decoder panic instead of returning an error: the file is still the one at fault.
fn guarded(decode: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
        tracing::debug!(panic = Error::from_panic(&*panic).message(), "a decoder of images panicked");
        let message = "damaged, or of a kind that its decoder can't take; if other programs show it, convert it to PNG";
        Err(Error::new(ErrorKind::Format, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_that_of_the_image_that_was_decoded_whichever_decoder_that_was() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let photo = std::fs::read(folder.join("photos/china.jpg")).unwrap();
        let mut damaged = photo.clone();
        let at = damaged.len() / 2;
        damaged[at..at + 2].copy_from_slice(&[0xff, 0xd3]);
        let other = std::fs::read(folder.join("images/rgb.png")).unwrap();
        let mut work = ImageWork::default();
        let mut damages_of = |bytes: &[u8], jpeg| {
            let header = header(bytes).unwrap();
            let decoded = work.decode_shared(bytes, &header, Region::whole(&header), jpeg);
            decoded.map(|damages| !damages.is_empty())
        };
        for (bytes, jpeg) in
            [(&photo, JpegDecoder::LibjpegTurbo), (&photo, JpegDecoder::Auto), (&other, JpegDecoder::Auto)]
        {
            assert!(damages_of(&damaged, JpegDecoder::Auto).unwrap());
            assert!(!damages_of(bytes, jpeg).unwrap(), "{jpeg:?}");
        }
        let strict = ImageOptions { strict: true, jpeg: JpegDecoder::LibjpegTurbo, ..ImageOptions::default() };
        assert!(damages_of(&damaged, JpegDecoder::Auto).unwrap());
        assert!(work.decode(&photo, &strict).is_ok());
    }

    #[test]
    fn what_a_decoder_says_when_it_panics_is_not_for_users() {
        let error = guarded(|| panic!("index out of bounds")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.message().contains("convert it") && !error.to_string().contains("bounds"), "{error}");
    }
}
