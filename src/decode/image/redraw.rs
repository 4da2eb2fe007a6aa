//! Operations on images that are tensors already.

use super::augment::ImageAugment;
use super::map::Map;
use super::options::{ImageColour, ImageOptions, MAX_PIXELS};
use super::order::PixelOrder;
use super::stored::{Header, ImageFormat, MAX_SIDE, Orientation, Region};
use super::work::{ImageWork, Wanted};
use crate::counters::uncounted;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::row::TensorMut;

/// Changes images of one size and channels, and moves their segmentation maps in the same way.
pub(crate) struct Redraw {
    options: ImageOptions,
    header: Header,
}

impl Redraw {
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if images have no pixels, more than are ever decoded, or neither one channel nor three.
    pub(crate) fn new(
        operations: &[ImageAugment],
        (height, width): (usize, usize),
        channels: usize,
        order: PixelOrder,
    ) -> Result<Self> {
        let fault = |message: String| Err(Error::new(ErrorKind::Schema, message));
        let side = |length: usize| u32::try_from(length).ok().filter(|side| (1..=MAX_SIDE).contains(side));
        let sides = side(height).zip(side(width));
        let Some((height, width)) = sides.filter(|sides| u64::from(sides.0) * u64::from(sides.1) <= MAX_PIXELS) else {
            let most = format!("there are 1 to {MAX_PIXELS} pixels, and {MAX_SIDE} on a side at most");
            return fault(format!("holds images of {width} x {height} pixels; {most}"));
        };
        let colour = match channels {
            1 => ImageColour::Grey,
            3 => ImageColour::Rgb,
            _ => return fault(format!("holds images of {channels} channels; operations change those of 1 or 3")),
        };
        let augment = operations.to_vec();
        let options = ImageOptions { size: Some((height, width)), order, colour, augment, ..ImageOptions::default() };
        let header = Header {
            format: ImageFormat::Pnm,
            width,
            height,
            channels: channels as u8,
            orientation: Orientation::default(),
            in_scans: false,
        };
        Ok(Self { options, header })
    }

    /// Changes an image of `u8`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] and [`ErrorKind::Budget`] for too little memory.
    pub(crate) fn image(&self, key: RandomKey, tensor: &mut TensorMut<'_>, budget: &MemoryBudget) -> Result<()> {
        let Some(wanted) = self.wanted(key)? else { return Ok(()) };
        let whole = Region::whole(&self.header);
        let memory = whole.bytes() as u64 + wanted.memory(&self.options, &[]);
        let mut work = budget.lend::<ImageWork>(memory, "changing an image")?;
        let pixels = work.shared_mut(whole.bytes()).as_chunks_mut::<3>().0;
        let values = tensor.bytes_mut();
        match (self.options.colour, self.options.order) {
            (ImageColour::Rgb, PixelOrder::Nhwc) => pixels.as_flattened_mut().copy_from_slice(values),
            (ImageColour::Rgb, PixelOrder::Nchw) => {
                for (channel, plane) in values.chunks_exact(pixels.len()).enumerate() {
                    pixels.iter_mut().zip(plane).for_each(|(pixel, value)| pixel[channel] = *value);
                }
            }
            _ => pixels.iter_mut().zip(values).for_each(|(pixel, value)| *pixel = [*value; 3]),
        }
        uncounted(|| work.write(&[], wanted, &self.options, key, tensor, Some(whole))).map(|_| ())
    }

    /// Moves the classes of a segmentation map, a tensor of integers of the images' height and width.
    ///
    /// # Errors
    ///
    /// As [`image`](Self::image).
    pub(crate) fn map(&self, key: RandomKey, tensor: &mut TensorMut<'_>, budget: &MemoryBudget) -> Result<()> {
        let Some(wanted) = self.wanted(key)? else { return Ok(()) };
        let memory = Map::<u64>::memory(&self.header);
        let mut work = budget.lend::<ImageWork>(memory, "changing a segmentation map")?;
        work.change_map(&wanted, &self.options, key, tensor);
        Ok(())
    }

    /// What the operations do with the image of this key; `None` for nothing.
    fn wanted(&self, key: RandomKey) -> Result<Option<Wanted>> {
        let wanted = Wanted::new(self.header, &self.options, key)?;
        Ok((!wanted.is_as_stored(&self.options, key)).then_some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::super::augment::{AugmentRecipe, Edge, Interpolation, LearnedPolicy};
    use super::super::container::header;
    use super::super::work::write_image;
    use super::*;
    use crate::dtype::DType;
    use crate::layout::Layout;
    use crate::read::RowMut;
    use crate::schema::{Dim, Extents, Role, Schema, TensorSpec};

    fn lists() -> Vec<Vec<ImageAugment>> {
        use super::super::augment as of;
        let turned = ImageAugment::Rotation { degrees: 30.0, interpolation: Interpolation::Bilinear };
        let reflected = ImageAugment::RandomCrop { padding: 4, edge: Edge::Reflect, fill: [0; 3] };
        let mut lists: Vec<Vec<ImageAugment>> = [
            of::random_resized_crop(),
            of::scale_jitter(),
            of::horizontal_flip(),
            of::vertical_flip(),
            of::colour_jitter(0.4, 0.4, 0.4, 0.1),
            of::random_erasing(),
            of::gaussian_blur(),
            of::rand_augment(),
            of::trivial_augment(),
            of::auto_augment(LearnedPolicy::Cifar10),
            of::aug_mix(),
            turned,
            reflected,
        ]
        .into_iter()
        .map(|operation| vec![operation])
        .collect();
        lists.extend([AugmentRecipe::Imagenet, AugmentRecipe::Cifar, AugmentRecipe::Simclr].map(|of| of.operations()));
        lists
    }

    /// The bytes of a tensor after `write`.
    fn written(
        dtype: DType,
        shape: &[usize],
        first: &[u8],
        write: impl FnOnce(&mut TensorMut<'_>) -> Result<()>,
    ) -> Vec<u8> {
        let shape = shape.iter().copied().map(Dim::Fixed).collect();
        let schema = Schema::new(vec![TensorSpec::with_dims("image", Role::Feature, dtype, shape)]).unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, 1, Extents::default()).unwrap();
        let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
        let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
        let mut tensor = row.tensor(0);
        tensor.bytes_mut()[..first.len()].copy_from_slice(first);
        write(&mut tensor).unwrap();
        tensor.bytes_mut().to_vec()
    }

    fn fixture(name: &str) -> (Vec<u8>, [usize; 2]) {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let bytes = std::fs::read(root.join(name)).unwrap();
        let (width, height) = header(&bytes).unwrap().upright_size();
        (bytes, [height as usize, width as usize])
    }

    #[test]
    fn images_of_tensors_become_those_of_files() {
        let budget = MemoryBudget::unlimited();
        let mut changed = 0;
        for order in [PixelOrder::Nchw, PixelOrder::Nhwc] {
            let (file, [height, width]) = fixture("images/rgb.png");
            let channels = 3;
            let shape = match order {
                PixelOrder::Nchw => [channels, height, width],
                PixelOrder::Nhwc => [height, width, channels],
            };
            let plain = ImageOptions { order, ..ImageOptions::default() };
            let of_file = |options: &ImageOptions, key| {
                written(DType::U8, &shape, &[], |tensor| write_image(&file, options, key, tensor, &budget).map(|_| ()))
            };
            let pixels = of_file(&plain, RandomKey::new(0));
            for augment in lists() {
                let redraw = Redraw::new(&augment, (height, width), channels, order).unwrap();
                let size = Some((height as u32, width as u32));
                let options = ImageOptions { augment, size, ..plain.clone() };
                for key in (0..6).map(RandomKey::new) {
                    let expected = of_file(&options, key);
                    let found = written(DType::U8, &shape, &pixels, |tensor| redraw.image(key, tensor, &budget));
                    assert!(found == expected, "{order:?}, {:?}, {key:?}", options.augment);
                    changed += usize::from(found != pixels);
                }
            }
        }
        assert!(changed > 150, "{changed}");
    }

    #[test]
    fn grey_images_and_maps_become_those_of_files() {
        let budget = MemoryBudget::unlimited();
        for (name, colour) in [("images/grey.png", ImageColour::Grey), ("maps/palette-8.png", ImageColour::Index)] {
            let (file, [height, width]) = fixture(name);
            for (augment, dtype) in lists().into_iter().zip([DType::I64, DType::U16, DType::I32, DType::U8].repeat(4)) {
                let is_map = colour == ImageColour::Index;
                if is_map && augment == [super::super::augment::aug_mix()] {
                    continue;
                }
                let dtype = if is_map { dtype } else { DType::U8 };
                let size = Some((height as u32, width as u32));
                let redraw = Redraw::new(&augment, (height, width), 1, PixelOrder::Nchw).unwrap();
                let options = ImageOptions { augment, size, colour, ..ImageOptions::default() };
                let plain = ImageOptions { augment: Vec::new(), ..options.clone() };
                let shape = if is_map { vec![height, width] } else { vec![1, height, width] };
                let of_file = |options: &ImageOptions, key| {
                    written(dtype, &shape, &[], |tensor| write_image(&file, options, key, tensor, &budget).map(|_| ()))
                };
                let values = of_file(&plain, RandomKey::new(0));
                for key in (0..6).map(RandomKey::new) {
                    let found = written(dtype, &shape, &values, |tensor| {
                        if is_map { redraw.map(key, tensor, &budget) } else { redraw.image(key, tensor, &budget) }
                    });
                    assert!(found == of_file(&options, key), "{name}, {dtype}, {:?}, {key:?}", options.augment);
                }
            }
        }
    }

    #[test]
    fn classes_of_every_type_are_moved_as_they_are() {
        let (budget, flip) = (MemoryBudget::unlimited(), super::super::augment::vertical_flip());
        let redraw = Redraw::new(&[flip], (2, 1), 3, PixelOrder::Nchw).unwrap();
        let check = |dtype: DType, upright: &[u8]| {
            let (first, second) = upright.split_at(dtype.bytes());
            let turned = [second, first].concat();
            let moved = |key| written(dtype, &[2, 1], upright, |tensor| redraw.map(key, tensor, &budget));
            let found: std::collections::BTreeSet<Vec<u8>> = (0..20).map(|key| moved(RandomKey::new(key))).collect();
            assert_eq!(found, [upright.to_vec(), turned].into(), "{dtype}");
        };
        check(DType::I64, bytemuck::bytes_of(&[i64::MIN, 70_000]));
        check(DType::U64, bytemuck::bytes_of(&[u64::MAX, 1]));
        check(DType::I32, bytemuck::bytes_of(&[-100i32, 40_000]));
        check(DType::I8, bytemuck::bytes_of(&[-1i8, 5]));
    }

    #[test]
    fn maps_of_a_jittered_picture_are_surrounded_by_the_class_of_the_fill() {
        let budget = MemoryBudget::unlimited();
        let jitter = ImageAugment::ScaleJitter { scale: (0.3, 0.5), fill: [200, 0, 0] };
        let redraw = Redraw::new(&[jitter], (8, 8), 3, PixelOrder::Nchw).unwrap();
        let check = |dtype: DType, own: &[u8], fill: &[u8]| {
            for key in (0..20).map(RandomKey::new) {
                let moved = written(dtype, &[8, 8], &own.repeat(64), |tensor| redraw.map(key, tensor, &budget));
                let classes = moved.chunks_exact(own.len());
                let inside = classes.clone().filter(|class| *class == own).count();
                assert!((4..=16).contains(&inside), "{dtype}: {inside}");
                assert!(classes.filter(|class| *class != own).all(|class| class == fill), "{dtype}: {moved:?}");
            }
        };
        check(DType::U8, &[7], &[200]);
        check(DType::I16, bytemuck::bytes_of(&-3i16), bytemuck::bytes_of(&200i16));
        check(DType::I64, bytemuck::bytes_of(&i64::MIN), bytemuck::bytes_of(&200i64));
    }
}
