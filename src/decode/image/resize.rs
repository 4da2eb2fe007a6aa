use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{Filter, FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};

use super::options::{CropFit, ResizeFilter};
use super::stored::{Header, Region};
use crate::error::{Error, ErrorKind, Result};

/// How a stored image is resized to the wanted size (both before turning upright).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    /// The result's size.
    pub(super) width: u32,
    pub(super) height: u32,
    /// The part of the stored image that is used: left, top, width and height in its pixels. `None` means all of it.
    taken: Option<[f64; 4]>,
    filter: ResizeFilter,
}

impl Plan {
    /// The plan for `size` = (height, width) of the upright image; `None` keeps the image's own size.
    pub(super) fn new(header: &Header, size: Option<(u32, u32)>, fit: CropFit, filter: ResizeFilter) -> Self {
        let Some((height, width)) = size else {
            return Self { width: header.width, height: header.height, taken: None, filter };
        };
        match fit {
            CropFit::Stretch => {
                let (width, height) = header.orientation.turn((width, height));
                Self { width, height, taken: None, filter }
            }
            CropFit::CenterCrop { shorter } => {
                let cut = centre(header.upright_size(), shorter, (width, height));
                Self::of_cut(header, cut, (width, height), filter)
            }
        }
    }

    /// The plan for a part of this width and height that is cut out of the upright image after resizing.
    pub(super) fn of_cut(
        header: &Header,
        Cut { full, skipped }: Cut,
        (width, height): (u32, u32),
        filter: ResizeFilter,
    ) -> Self {
        let orientation = header.orientation;
        let (result_width, result_height) = orientation.turn((width, height));
        let (full_width, full_height) = (full.0 as f64, full.1 as f64);
        let (left, top) = (skipped.0 as f64, skipped.1 as f64);
        // The same cut in the resized image before it is turned, then in the stored image.
        let ((mut left, mut top), (full_width, full_height)) = if orientation.swap {
            ((top, left), (full_height, full_width))
        } else {
            ((left, top), (full_width, full_height))
        };
        if orientation.flip_x {
            left = full_width - left - f64::from(result_width);
        }
        if orientation.flip_y {
            top = full_height - top - f64::from(result_height);
        }
        let (step_x, step_y) = (f64::from(header.width) / full_width, f64::from(header.height) / full_height);
        let (left, top) = (left * step_x, top * step_y);
        let taken_width = (f64::from(result_width) * step_x).min(f64::from(header.width) - left);
        let taken_height = (f64::from(result_height) * step_y).min(f64::from(header.height) - top);
        let taken = Some([left, top, taken_width, taken_height]);
        Self { width: result_width, height: result_height, taken, filter }
    }

    /// Width and height of the part of an image of `size` that is used.
    pub(super) fn taken_size(&self, size: (u32, u32)) -> (f64, f64) {
        self.taken.map_or((size.0.into(), size.1.into()), |[.., width, height]| (width, height))
    }

    /// The same for an image that was already resized by these factors.
    pub(super) fn scaled(self, (x, y): (f64, f64)) -> Self {
        let taken = self.taken.map(|[left, top, width, height]| [left * x, top * y, width * x, height * y]);
        Self { taken, ..self }
    }

    /// The part of an image of `size` that the filter reads, and the same plan for this part.
    pub(super) fn narrowed(self, size: (u32, u32)) -> (Region, Self) {
        let Some([left, top, width, height]) = self.taken else {
            return (Region { x: 0, y: 0, width: size.0, height: size.1 }, self);
        };
        // The number of steps around its middle that a new pixel depends on.
        let steps = if self.filter == ResizeFilter::Bicubic { 2.0 } else { 1.0 };
        let (x, right) = reach(left, width, self.width, size.0, steps);
        let (y, bottom) = reach(top, height, self.height, size.1, steps);
        let taken = Some([left - f64::from(x), top - f64::from(y), width, height]);
        (Region { x, y, width: right - x, height: bottom - y }, Self { taken, ..self })
    }

    /// Whether the result is the stored image itself.
    pub(super) fn is_identity(&self, header: &Header) -> bool {
        let all = [0.0, 0.0, f64::from(header.width), f64::from(header.height)];
        (self.width, self.height) == (header.width, header.height) && self.taken.is_none_or(|taken| taken == all)
    }

    /// Checks the image between the two steps of resizing, which has the new height and the old width.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] for an image so wide and low that this has more pixels than allowed.
    pub(super) fn check(&self, header: &Header, max_pixels: u64) -> Result<()> {
        let between = u64::from(header.width) * u64::from(self.height);
        if between > max_pixels {
            let message = format!(
                "{} x {} pixels, resized to a height of {}, are {between}: more than max_pixels = {max_pixels}",
                header.width, header.height, self.height
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// Bytes of the result as 8-bit RGB.
    pub(super) fn bytes(&self) -> usize {
        self.width as usize * self.height as usize * 3
    }
}

/// A cut out of a resized image.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Width and height of the image that is cut.
    pub(super) full: (u64, u64),
    /// How many pixels are cut off on the left and above.
    pub(super) skipped: (u64, u64),
}

/// A cut of `result` = (width, height) from the middle of an upright image of `size` whose shorter side is resized to
/// `shorter`.
pub(super) fn centre((width, height): (u32, u32), shorter: u32, result: (u32, u32)) -> Cut {
    // torchvision rounds the longer side down, and the cut's edges half to even.
    let longer = |long: u32, short: u32| u64::from(shorter) * u64::from(long) / u64::from(short);
    let full = match width <= height {
        true => (shorter.into(), longer(height, width)),
        false => (longer(width, height), shorter.into()),
    };
    let half = |surplus: u64| surplus / 2 + u64::from(surplus % 4 == 3);
    Cut { full, skipped: (half(full.0 - u64::from(result.0)), half(full.1 - u64::from(result.1))) }
}

/// The range that the filter reads to make `result` pixels from the `length` pixels after `start`, on a side of `side`
/// pixels.
fn reach(start: f64, length: f64, result: u32, side: u32, steps: f64) -> (u32, u32) {
    // A pixel is the mean of those closer than so many steps: steps of the result, or of the source if it is enlarged.
    let support = (length / f64::from(result)).max(1.0) * steps + 1.0;
    let end = (start + length + support).ceil().min(side.into());
    ((start - support).floor().max(0.0) as u32, end as u32)
}

/// Resizes with antialiasing, or takes the nearest pixel.
///
/// Each level differs from that of Pillow's `resize` by at most one, except where a bicubic filter overshoots. Values
/// beyond 0 or 255 are cut off after each pass. The first pass is vertical here, and horizontal in Pillow. Next to hard
/// edges, this is worth some levels: up to 21 were seen, in noise of all levels.
#[derive(Default)]
pub(super) struct Resampler {
    resizer: Resizer,
}

impl Resampler {
    /// Bytes of memory.
    pub(super) fn held(&self) -> u64 {
        self.resizer.size_of_internal_buffers() as u64
    }

    /// Resizes the RGB pixels `from` to `into`.
    ///
    /// With a cut, the filter reads beyond its edges, as it does when the whole image is resized and then cut.
    pub(super) fn resize(&mut self, header: &Header, from: &[u8], plan: &Plan, into: &mut [u8]) -> Result<()> {
        match filter_of(plan.filter) {
            Some(filter) => self.resize_as::<U8x3>(header, from, plan, filter, into),
            None => take_nearest::<3>(header, from, plan, into),
        }
    }

    /// The same with pixels of one byte.
    pub(super) fn resize_grey(&mut self, header: &Header, from: &[u8], plan: &Plan, into: &mut [u8]) -> Result<()> {
        match filter_of(plan.filter) {
            Some(filter) => self.resize_as::<U8>(header, from, plan, filter, into),
            None => take_nearest::<1>(header, from, plan, into),
        }
    }

    fn resize_as<P: PixelTrait>(
        &mut self,
        header: &Header,
        from: &[u8],
        plan: &Plan,
        filter: FilterType,
        into: &mut [u8],
    ) -> Result<()> {
        let wrong = |error: &dyn std::fmt::Display| {
            let message = format!(
                "{} x {} pixels do not resize to {} x {}: {error}",
                header.width, header.height, plan.width, plan.height
            );
            Error::new(ErrorKind::Format, message)
        };
        let from = TypedImageRef::<P>::from_buffer(header.width, header.height, from).map_err(|e| wrong(&e))?;
        let mut into = TypedImage::<P>::from_buffer(plan.width, plan.height, into).map_err(|e| wrong(&e))?;
        let mut options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter)).use_alpha(false);
        if let Some([left, top, width, height]) = plan.taken {
            let (width, height) = (within(left, width, header.width), within(top, height, header.height));
            options = options.crop(left, top, width, height);
        }
        self.resizer.resize_typed(&from, &mut into, &options).map_err(|e| wrong(&e))
    }
}

fn filter_of(filter: ResizeFilter) -> Option<FilterType> {
    match filter {
        ResizeFilter::Bilinear => Some(FilterType::Bilinear),
        ResizeFilter::Bicubic => Filter::new("bicubic", bicubic, 2.0).ok().map(FilterType::Custom),
        ResizeFilter::Nearest => None,
    }
}

/// The length of a range from `start` on that exceeds a side of `side` pixels by at most a rounding error.
fn within(start: f64, length: f64, side: u32) -> f64 {
    let side = f64::from(side);
    if start + length > side { side - start } else { length }
}

/// The Catmull-Rom spline, but nowhere 0 between its ends.
///
/// `fast_image_resize` (6.1.0) leaves out weights of 0 at the ends of the neighbourhood of a pixel, and assumes that
/// the first and the last pixel of the result reach furthest. If the centre of the first one is on the centre of a
/// source pixel, all its weights but one are 0. The second one then reaches further, and the library would read outside
/// of its memory. With weights of 0 only from a distance of 2 on, the neighbourhoods follow one another, because
/// rounding does not change the order of distances. The weight that replaces 0 is lost when weights become integers.
fn bicubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    let weight = match x {
        ..1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        ..2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => return 0.0,
    };
    if weight == 0.0 { f64::MIN_POSITIVE } else { weight }
}

/// For each pixel of `N` bytes, takes the one that contains its centre.
fn take_nearest<const N: usize>(header: &Header, from: &[u8], plan: &Plan, into: &mut [u8]) -> Result<()> {
    let [left, top, width, height] = plan.taken.unwrap_or([0.0, 0.0, header.width.into(), header.height.into()]);
    // A middle on the border between two pixels belongs to the second one of the upright picture. Rounding can't change
    // that, because borders lie further apart.
    const ROUNDING: f64 = 1e-7;
    let place = |at: usize, start: f64, step: f64, side: u32, is_flipped: bool| {
        let to_second = if is_flipped { -ROUNDING } else { ROUNDING };
        ((start + (at as f64 + 0.5) * step + to_second) as usize).min(side as usize - 1)
    };
    let (flip_x, flip_y) = (header.orientation.flip_x, header.orientation.flip_y);
    let (step_x, step_y) = (width / f64::from(plan.width), height / f64::from(plan.height));
    let (from, _) = from.as_chunks::<N>();
    let (into, _) = into.as_chunks_mut::<N>();
    for (y, row) in into.chunks_exact_mut(plan.width as usize).enumerate() {
        let was =
            &from[place(y, top, step_y, header.height, flip_y) * header.width as usize..][..header.width as usize];
        for (x, pixel) in row.iter_mut().enumerate() {
            *pixel = was[place(x, left, step_x, header.width, flip_x)];
        }
    }
    Ok(())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use fast_image_resize::CpuExtensions;

    use super::*;
    use crate::decode::image::stored::{ImageFormat, Orientation, Scale};
    use crate::random::RandomKey;

    #[test]
    fn a_tie_belongs_to_the_second_pixel_of_the_upright_picture() {
        let stored: Vec<u8> = (0..16).collect();
        for exif in 1..=8 {
            let orientation = Orientation::from_exif(exif);
            let format = ImageFormat::Png;
            let header = Header { format, width: 4, height: 4, channels: 1, orientation, in_scans: false };
            let plan = Plan::new(&header, Some((2, 2)), CropFit::Stretch, ResizeFilter::Nearest);
            let mut taken = [0; 4];
            Resampler::default().resize_grey(&header, &stored, &plan, &mut taken).unwrap();
            let at = |width: usize, x: usize, y: usize| {
                let (x, y) = if orientation.swap { (y, x) } else { (x, y) };
                let x = if orientation.flip_x { width - 1 - x } else { x };
                let y = if orientation.flip_y { width - 1 - y } else { y };
                y * width + x
            };
            for (x, y) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                assert_eq!(taken[at(2, x, y)], stored[at(4, 2 * x + 1, 2 * y + 1)], "{exif}");
            }
        }
    }

    #[test]
    fn the_part_that_the_filter_reads_is_enough() {
        let key = RandomKey::new(9);
        for case in 0..60 {
            let draw =
                |counter: u64, from: u32, to: u32| from + (key.with(case).bits(counter) % u64::from(to - from)) as u32;
            let (width, height) = (draw(0, 20, 400), draw(1, 20, 400));
            let size = (draw(2, 1, 60), draw(3, 1, 60));
            let shorter = size.0.max(size.1) + draw(4, 0, 300);
            let header = Header {
                format: ImageFormat::Png,
                width,
                height,
                channels: 3,
                orientation: Orientation::default(),
                in_scans: false,
            };
            let from: Vec<u8> = (0..u64::from(width * height * 3)).map(|i| key.bits(i) as u8).collect();
            let filter = [ResizeFilter::Bilinear, ResizeFilter::Bicubic, ResizeFilter::Nearest][case as usize % 3];
            let plan = Plan::new(&header, Some(size), CropFit::CenterCrop { shorter }, filter);
            let mut whole = vec![0; plan.bytes()];
            Resampler::default().resize(&header, &from, &plan, &mut whole).unwrap();

            let (region, narrowed) = plan.narrowed((width, height));
            let mut part = vec![0; region.bytes()];
            crate::decode::image::decoder::copy_region(&from, width, region, &mut part);
            let header = Header { width: region.width, height: region.height, ..header };
            let mut cut = vec![0; plan.bytes()];
            Resampler::default().resize(&header, &part, &narrowed, &mut cut).unwrap();
            // A fraction of a pixel is rounded at another place, so a weight may differ in its last bit.
            let most = whole.iter().zip(&cut).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(most <= Some(1), "{width} x {height} to {size:?} of {shorter}: {most:?}");
        }
    }

    /// One for each kind of processor that this one can stand for.
    fn resamplers() -> Vec<Resampler> {
        let kinds = [CpuExtensions::None, CpuExtensions::Sse4_1, CpuExtensions::Avx2];
        let of_kind = |extensions: CpuExtensions| {
            let mut resampler = Resampler::default();
            // SAFETY: the processor was just asked for these instructions.
            unsafe { resampler.resizer.set_cpu_extensions(extensions) };
            resampler
        };
        kinds.into_iter().filter(CpuExtensions::is_supported).map(of_kind).collect()
    }

    /// The weights of each of `result` pixels, made from the range of `length` pixels from `start` on.
    fn weights(filter: ResizeFilter, (start, length): (f64, f64), result: u32, side: u32) -> Vec<Vec<f64>> {
        let step = length / f64::from(result);
        let weight = |at: f64, x: u32| {
            let x = ((f64::from(x) + 0.5 - at) / step.max(1.0)).abs();
            match filter {
                ResizeFilter::Bicubic if x < 1.0 => 1.5 * x.powi(3) - 2.5 * x.powi(2) + 1.0,
                ResizeFilter::Bicubic if x < 2.0 => -0.5 * x.powi(3) + 2.5 * x.powi(2) - 4.0 * x + 2.0,
                ResizeFilter::Bilinear if x < 1.0 => 1.0 - x,
                _ => 0.0,
            }
        };
        let middles = (0..result).map(|nth| start + (f64::from(nth) + 0.5) * step);
        let of_pixel = middles.map(|at| {
            let all: Vec<f64> = (0..side).map(|x| weight(at, x)).collect();
            let sum: f64 = all.iter().sum();
            all.iter().map(|weight| weight / sum).collect()
        });
        of_pixel.collect()
    }

    /// Grey pixels resized by the definition, with numbers that are never rounded.
    fn resized(header: &Header, from: &[u8], plan: &Plan) -> Vec<f64> {
        let (width, height) = (header.width as usize, header.height as usize);
        let [left, top, taken_width, taken_height] = plan.taken.unwrap_or([0.0, 0.0, width as f64, height as f64]);
        let level = |sum: f64| sum.clamp(0.0, 255.0);
        let down = weights(plan.filter, (top, taken_height), plan.height, header.height);
        let across = weights(plan.filter, (left, taken_width), plan.width, header.width);
        let rows = down.iter().map(|weights| -> Vec<f64> {
            let column = |x: usize| (0..height).map(|y| weights[y] * f64::from(from[y * width + x])).sum();
            (0..width).map(|x| level(column(x))).collect()
        });
        let of_row = |row: Vec<f64>| -> Vec<f64> {
            let sum = |weights: &Vec<f64>| weights.iter().zip(&row).map(|(weight, x)| weight * x).sum();
            across.iter().map(|weights| level(sum(weights))).collect()
        };
        rows.flat_map(of_row).collect()
    }

    /// Compares with [`resized`], as grey and as three channels.
    fn check_by_the_book((width, height): (u32, u32), plan: &Plan, resampler: &mut Resampler) -> Result<()> {
        let (format, orientation) = (ImageFormat::Png, Orientation::default());
        let header = Header { format, width, height, channels: 3, orientation, in_scans: false };
        let key = RandomKey::new(u64::from(width));
        let from: Vec<u8> = (0..u64::from(width * height)).map(|at| key.bits(at) as u8).collect();
        let expected = resized(&header, &from, plan);
        let mut grey = vec![0; expected.len()];
        resampler.resize_grey(&header, &from, plan, &mut grey)?;
        let most = grey.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
        // Half a level is rounded after each pass, and weights of both signs have a sum of up to 1.25.
        assert!(most < 1.2, "{width} x {height}, {plan:?}: {most} apart");
        let (from, grey): (Vec<_>, Vec<_>) =
            (from.iter().flat_map(|level| [*level; 3]).collect(), grey.iter().flat_map(|level| [*level; 3]).collect());
        let mut rgb = vec![0; plan.bytes()];
        resampler.resize(&header, &from, plan, &mut rgb)?;
        assert!(rgb == grey, "{width} x {height}, {plan:?}");
        Ok(())
    }

    #[test]
    fn cuts_whose_first_or_last_pixel_lies_on_one_of_the_source_are_resized_by_the_book() {
        let sizes = [
            ((105, 96), 224, 224),
            ((96, 105), 224, 224),
            ((35, 32), 96, 96),
            ((171, 96), 224, 224),
            ((165, 160), 224, 224),
            ((225, 160), 224, 224),
            ((64, 64), 112, 192),
        ];
        for ((width, height), side, shorter) in sizes {
            let (format, orientation) = (ImageFormat::Png, Orientation::default());
            let header = Header { format, width, height, channels: 3, orientation, in_scans: false };
            for filter in [ResizeFilter::Bilinear, ResizeFilter::Bicubic] {
                let plan = Plan::new(&header, Some((side, side)), CropFit::CenterCrop { shorter }, filter);
                check_by_the_book((width, height), &plan, &mut Resampler::default()).unwrap();
            }
        }
    }

    #[test]
    fn cuts_of_every_place_and_scale_are_resized_by_the_book() {
        let mut resamplers = resamplers();
        // Source pixels to pixels of the result. Middles often meet if both are small and odd.
        let ratios = [(1, 3), (3, 7), (1, 2), (5, 7), (2, 3), (1, 1), (5, 4), (3, 1), (9, 2), (15, 7)];
        let ratios = ratios.into_iter().flat_map(|(from, to)| (1..4).map(move |times| (from * times, to * times)));
        for (nth, (from, to)) in ratios.enumerate() {
            let side = from * 6_u32.div_ceil(from);
            let full = side / from * to;
            for part in 1..=full.min(9) {
                for skipped in 0..=full - part {
                    let [left, top, width, height] = [skipped, full - part - skipped, part, part].map(f64::from);
                    let step = f64::from(side) / f64::from(full);
                    let taken = Some([left * step, top * step, width * step, height * step]);
                    for filter in [ResizeFilter::Bilinear, ResizeFilter::Bicubic] {
                        let plan = Plan { width: part, height: part, taken, filter };
                        let which = (nth + skipped as usize) % resamplers.len();
                        check_by_the_book((side, side), &plan, &mut resamplers[which]).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn a_part_that_rounding_takes_past_the_edge_is_resized() {
        let mut past = 0;
        for (side, full, eighths) in [(2877, 4, 4), (1305, 442, 4), (3121, 434, 1), (1851, 546, 4), (823, 244, 4)] {
            let (format, orientation) = (ImageFormat::Jpeg, Orientation::default());
            let header = Header { format, width: side, height: 8, channels: 3, orientation, in_scans: false };
            let shrunk = Header { width: Scale(eighths).of(side), height: Scale(eighths).of(8), ..header };
            for part in 1..=full.min(40) {
                let cut = Cut { full: (full.into(), 8), skipped: ((full - part).into(), 0) };
                let plan = Plan::of_cut(&header, cut, (part, 8), ResizeFilter::Bilinear);
                let ratio = |to: u32, from: u32| f64::from(to) / f64::from(from);
                let plan = plan.scaled((ratio(shrunk.width, side), ratio(shrunk.height, 8)));
                past += usize::from(plan.taken.is_some_and(|[x, _, width, _]| x + width > shrunk.width.into()));
                let from = vec![7; Region::whole(&shrunk).bytes()];
                let mut into = vec![0; plan.bytes()];
                Resampler::default().resize(&shrunk, &from, &plan, &mut into).unwrap();
                assert!(into.iter().all(|level| *level == 7));
            }
        }
        assert!(past > 0);
    }

    #[test]
    fn every_processor_gives_the_same_pixels() {
        let (width, height) = (211, 150);
        let orientation = Orientation::default();
        let header = Header { format: ImageFormat::Png, width, height, channels: 3, orientation, in_scans: false };
        let key = RandomKey::new(4);
        let from: Vec<u8> = (0..u64::from(width * height * 3)).map(|i| key.bits(i) as u8).collect();
        let sizes = [(64, 64), (20, 190), (300, 301), (149, 1)].into_iter();
        let filters = [ResizeFilter::Bilinear, ResizeFilter::Bicubic];
        for (size, filter) in sizes.flat_map(|size| filters.map(|filter| (size, filter))) {
            let plan = Plan::new(&header, Some(size), CropFit::Stretch, filter);
            let mut results = Vec::new();
            for mut resampler in resamplers() {
                let mut into = vec![0; plan.bytes()];
                resampler.resize(&header, &from, &plan, &mut into).unwrap();
                results.push(into);
            }
            assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{size:?}, {filter:?}");
        }
    }

    #[test]
    fn pixels_are_those_of_pillow() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let from = std::fs::read(root.join("images/rgb-50x37-pillow.rgb")).unwrap();
        let expected = std::fs::read(root.join("augment/expected.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
        let orientation = Orientation::default();
        let header =
            Header { format: ImageFormat::Png, width: 50, height: 37, channels: 3, orientation, in_scans: false };
        for case in expected["resized"].as_array().unwrap() {
            let filter: ResizeFilter = serde_json::from_value(case["filter"].clone()).unwrap();
            let size: (u32, u32) = serde_json::from_value(case["size"].clone()).unwrap();
            let shorter = case["shorter"].as_u64();
            let fit = shorter.map_or(CropFit::Stretch, |shorter| CropFit::CenterCrop { shorter: shorter as u32 });
            let plan = Plan::new(&header, Some(size), fit, filter);
            let mut found = vec![0; plan.bytes()];
            Resampler::default().resize(&header, &from, &plan, &mut found).unwrap();
            let digits = case["pixels"].as_str().unwrap();
            let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
            assert_eq!(digits.len(), 2 * found.len());
            let most = found.iter().enumerate().map(|(at, value)| value.abs_diff(byte(at))).max();
            assert!(most <= Some(u8::from(filter != ResizeFilter::Nearest)), "{filter:?}, {size:?}, {fit:?}: {most:?}");
            let (grey, three): (Vec<u8>, Vec<u8>) =
                (from.iter().step_by(3).copied().collect(), found.iter().step_by(3).copied().collect());
            let mut found = vec![0; plan.bytes() / 3];
            Resampler::default().resize_grey(&header, &grey, &plan, &mut found).unwrap();
            assert_eq!(found, three, "one channel is resized as each of three");
        }
    }
}
