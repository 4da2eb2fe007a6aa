//! Several views of one image, which is decoded once.

use super::container::{check_whole, header};
use super::decoders::Decoders;
use super::options::{ImageColour, ImageOptions, JpegDecoder};
use super::stored::{Header, Region, Scale};
use super::work::{ImageWork, Wanted};
use crate::counters::Damages;
use crate::error::Result;
use crate::memory::{Lent, MemoryBudget};
use crate::random::RandomKey;
use crate::row::TensorMut;

/// An image that is decoded for several views, as far as they need it together. It holds memory that the budget lends.
pub(crate) struct Shared {
    work: Lent<ImageWork>,
    stored: Header,
    jpeg: JpegDecoder,
    part: Region,
}

/// Whether a view is cut from pixels from which others are cut, too.
fn shares(options: &ImageOptions, wanted: &Wanted, jpeg: JpegDecoder) -> bool {
    options.colour != ImageColour::Index && options.jpeg == jpeg && wanted.scale == Scale::FULL
}

impl Shared {
    /// Decodes the part of a file that `views` need together, in the sample of `key`. `None` if fewer than two of them
    /// can share it, and if anything is wrong: views that are written one by one then report it as usual, each for its
    /// own crop.
    pub(crate) fn new(bytes: &[u8], views: &[ImageOptions], key: RandomKey, budget: &MemoryBudget) -> Option<Self> {
        if views.len() < 2 {
            return None;
        }
        let stored = header(bytes).ok()?;
        check_whole(bytes, stored.format).ok()?;
        let jpeg = views.iter().find(|options| options.colour != ImageColour::Index)?.jpeg;
        let (mut region, mut sharing, mut most) = (None, 0, 0);
        for options in views {
            stored.check(options.max_pixels).ok()?;
            let wanted = Wanted::new(stored, options, options.key(key)).ok()?;
            let mut memory = wanted.memory(options, bytes);
            if shares(options, &wanted, jpeg) {
                memory -= Decoders::memory(&stored, wanted.region, bytes, options.jpeg);
                region = Some(region.map_or(wanted.region, |region: Region| region.around(wanted.region)));
                sharing += 1;
            }
            most = most.max(memory);
        }
        let region = region.filter(|_| sharing > 1)?;
        let index_bytes = views.iter().map(|view| view.jpeg_index_bytes).max()?;
        let memory = Decoders::memory(&stored, region, bytes, jpeg) + region.bytes() as u64 + most;
        let mut work = ImageWork::lend(budget, memory, index_bytes).ok()?;
        let damages = work.decode_shared(bytes, &stored, region, jpeg).ok()?;
        damages.is_empty().then_some(Self { work, stored, jpeg, part: region })
    }

    /// Writes one of the views; as [`write_image`](super::write_image), to the bit.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        options: &ImageOptions,
        key: RandomKey,
        tensor: &mut TensorMut<'_>,
    ) -> Result<((usize, usize), Damages)> {
        let key = options.key(key);
        let wanted = Wanted::new(self.stored, options, key)?;
        let part = shares(options, &wanted, self.jpeg).then_some(self.part);
        let size = self.work.write(bytes, wanted, options, key, tensor, part)?;
        Ok((size, self.work.damages))
    }
}

#[cfg(test)]
mod tests {
    use super::super::augment::{AugmentRecipe, ImageAugment, Interpolation};
    use super::super::options::{CropFit, ResizeFilter};
    use super::super::order::PixelOrder;
    use super::super::work::{DECODED, write_image};
    use super::*;
    use crate::dtype::DType;
    use crate::layout::Layout;
    use crate::read::RowMut;
    use crate::schema::{Dim, Extents, Role, Schema, TensorSpec};

    /// Global and local crops, one that is not cut, one of its own size, and one in other colours.
    fn views() -> Vec<ImageOptions> {
        let of = |geometry: &str, options: ImageOptions| ImageOptions { geometry: Some(geometry.into()), ..options };
        let view = |side: u32, recipe: AugmentRecipe| ImageOptions {
            size: Some((side, side)),
            resize: ResizeFilter::Bicubic,
            augment: recipe.operations(),
            ..ImageOptions::default()
        };
        let turned = vec![ImageAugment::Rotation { degrees: 30.0, interpolation: Interpolation::Bilinear }];
        let centre = CropFit::CenterCrop { shorter: 20 };
        vec![
            of("one", view(24, AugmentRecipe::DinoGlobal)),
            of("two", ImageOptions { dtype: DType::F32, ..view(24, AugmentRecipe::Simclr) }),
            of("three", ImageOptions { order: PixelOrder::Nhwc, ..view(9, AugmentRecipe::DinoLocal) }),
            of("four", ImageOptions { colour: ImageColour::Grey, ..view(11, AugmentRecipe::DinoLocal) }),
            of("five", ImageOptions { colour: ImageColour::Grey, size: Some((8, 8)), ..ImageOptions::default() }),
            of("six", ImageOptions { size: Some((16, 12)), fit: centre, augment: turned, ..ImageOptions::default() }),
            of("seven", ImageOptions { size: None, order: PixelOrder::Nhwc, ..ImageOptions::default() }),
        ]
    }

    /// The result of `write` for a view.
    fn written(
        options: &ImageOptions,
        (width, height): (u32, u32),
        write: impl FnOnce(&mut TensorMut<'_>) -> Result<((usize, usize), Damages)>,
    ) -> (Vec<u8>, (usize, usize), Damages) {
        let (height, width) = options.size.unwrap_or((height, width));
        let dims = [height as usize, width as usize];
        let channels = options.colour.channels();
        let shape = match options.order {
            PixelOrder::Nchw => vec![channels, dims[0], dims[1]],
            PixelOrder::Nhwc => vec![dims[0], dims[1], channels],
        };
        let shape = shape.into_iter().map(Dim::Fixed).collect();
        let schema = Schema::new(vec![TensorSpec::with_dims("image", Role::Feature, options.dtype, shape)]).unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, 1, Extents::default()).unwrap();
        let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
        let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
        let (size, damages) = write(&mut row.tensor(0)).unwrap();
        let bytes = row.tensor(0).bytes_mut().to_vec();
        (bytes, size, damages)
    }

    fn files() -> Vec<std::path::PathBuf> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let folders = ["images", "jpeg", "tiff", "bmp", "pnm"];
        let listed = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
        let mut files: Vec<_> = listed.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
        files.sort();
        files
    }

    #[test]
    fn views_that_share_a_picture_are_those_of_pictures_decoded_alone() {
        let (views, budget) = (views(), MemoryBudget::unlimited());
        let decoded = || DECODED.with(std::cell::Cell::get);
        let (mut shared_files, mut formats) = (0, std::collections::BTreeSet::new());
        for path in files() {
            let bytes = std::fs::read(&path).unwrap();
            let Ok(stored) = header(&bytes) else { continue };
            if u64::from(stored.width) * u64::from(stored.height) > 40_000 {
                continue;
            }
            for sample in 0..3 {
                let key = RandomKey::new(7).with(sample);
                let before = decoded();
                let Some(mut shared) = Shared::new(&bytes, &views, key, &budget) else {
                    // Only files are left alone that are bad, or damaged.
                    let refuse = |tensor: &mut TensorMut<'_>| {
                        let found = write_image(&bytes, &views[6], key, tensor, &budget);
                        assert!(found.is_err() || found.is_ok_and(|(_, damages)| !damages.is_empty()), "{path:?}");
                        Ok(((0, 0), Damages::default()))
                    };
                    written(&views[6], stored.upright_size(), refuse);
                    break;
                };
                let of_all: Vec<_> = views
                    .iter()
                    .map(|view| written(view, stored.upright_size(), |into| shared.write(&bytes, view, key, into)))
                    .collect();
                assert_eq!(decoded() - before, 1, "{path:?}");
                drop(shared);
                for (view, found) in views.iter().zip(of_all) {
                    let alone =
                        written(view, stored.upright_size(), |into| write_image(&bytes, view, key, into, &budget));
                    assert!(found == alone, "{path:?}, sample {sample}: {:?}", view.geometry);
                }
                shared_files += 1;
                formats.insert(stored.format);
            }
        }
        assert!(shared_files > 150 && formats.len() == 7, "{shared_files} of {formats:?}");
    }

    #[test]
    fn what_can_not_be_shared_is_not() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/images/grey.png");
        let bytes = std::fs::read(path).unwrap();
        let (key, budget) = (RandomKey::new(1), MemoryBudget::unlimited());
        let plain = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
        let map = ImageOptions { colour: ImageColour::Index, ..plain.clone() };
        let new = |views: &[ImageOptions]| Shared::new(&bytes, views, key, &budget).is_some();
        assert!(!new(std::slice::from_ref(&plain)) && !new(&[plain.clone(), map.clone()]) && !new(&[map.clone(), map]));
        assert!(new(&[plain.clone(), plain.clone()]));
        // With too little memory for both, each is decoded alone, or says so.
        assert!(Shared::new(&bytes, &[plain.clone(), plain], key, &MemoryBudget::new(10)).is_none());
    }
}
