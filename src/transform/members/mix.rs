use std::ops::Range;

use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scope;
use crate::random::RandomKey;
use crate::schema::{Dim, Masked, Role, TensorSpec};
use crate::transform::{BatchMut, BatchTransform, Tensors};

use super::elements::{Float, Mask, with_float};
use super::pixels::pixel_order;

/// Mixes each sample with the one before it in the batch, and the first with the last.
pub(super) struct Mix {
    pub(super) how: How,
    pub(super) alpha: f64,
    pub(super) probability: f64,
    /// The tensors that are mixed as numbers, or in one box, and those that say how much.
    pub(super) features: Vec<String>,
    pub(super) labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    /// Weighted sums.
    Mixup,
    /// One box of the other image.
    Cutmix,
}

/// The tensors of this role, if none is named.
pub(super) fn chosen(named: &[String], role: Role, tensors: &Tensors) -> Result<Vec<String>> {
    if !named.is_empty() {
        named.iter().try_for_each(|name| tensors.get(name).map(drop))?;
        return Ok(named.to_vec());
    }
    Ok(tensors.specs().filter(|spec| spec.role == role).map(|spec| spec.name.clone()).collect())
}

impl BatchTransform for Mix {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        let fault = |name: &str, message: String| Err(Error::new(ErrorKind::Schema, message).at_column(name));
        let mut first = None;
        for name in self.features.iter().chain(&self.labels) {
            let spec = tensors.get(name)?;
            if spec.is_variable() {
                return fault(name, "varies in length; what is mixed has one shape in all samples".to_owned());
            }
            let mask = Mask::of(spec, tensors);
            let mask = mask.as_ref().map(Mask::name).or((spec.masked == Masked::Unknown).then_some("windows"));
            if let Some(mask) = mask {
                let message = format!(
                    "has padding, as {mask:?} says, and mixing would write data into it; if zeros are data, remove the mask \
                     before (`remove`)",
                );
                return fault(name, message);
            }
            let is_cut = self.how == How::Cutmix && self.features.contains(name);
            if is_cut {
                let size = image(spec)?.size();
                let (first, [height, width]) = *first.get_or_insert((name, size));
                if size != [height, width] && !self.labels.is_empty() {
                    let [own_height, own_width] = size;
                    let message = format!(
                        "has {own_height} x {own_width} pixels, and {first:?} has {height} x {width}; labels are \
                         weighted by one area: list images of one size in `features`",
                    );
                    return fault(name, message);
                }
            } else if !spec.dtype.is_float() {
                return fault(
                    name,
                    format!("holds {}, but weighted sums need a floating point type: cast it before", spec.dtype),
                );
            }
        }
        self.features.iter().chain(&self.labels).try_for_each(|name| tensors.change(name))
    }

    fn apply(&self, batch: &mut BatchMut<'_>, scope: &Scope<'_>) -> Result<()> {
        let key = batch.key();
        if key.unit(0) >= self.probability {
            return Ok(());
        }
        let own = beta(self.alpha, key.with(1));
        match self.how {
            How::Mixup => {
                self.features.iter().chain(&self.labels).try_for_each(|name| mix_tensor(batch, name, own, scope))
            }
            How::Cutmix => {
                let mut kept = own;
                for name in &self.features {
                    let index = batch.schema().index_of(name)?;
                    let image = image(&batch.schema().tensors()[index])?;
                    let cut = image.cut(own, key.with(2));
                    // The same for all images, which have the same size if there are labels.
                    kept = 1.0 - (cut[0].len() * cut[1].len()) as f64 / (image.height * image.width).max(1) as f64;
                    cut_tensor(batch, name, image, cut, scope)?;
                }
                self.labels.iter().try_for_each(|name| mix_tensor(batch, name, kept, scope))
            }
        }
    }
}

/// Each row becomes `own` times itself plus the rest of the row before it.
fn mix_tensor(batch: &mut BatchMut<'_>, name: &str, own: f64, scope: &Scope<'_>) -> Result<()> {
    let (rows, dtype) = (batch.len(), batch.tensor(name)?.dtype());
    with_float!(dtype, T => {
        mix_rows(batch.get_mut::<T>(name)?, rows, own, scope);
        Ok(())
    }, else Err(Error::new(ErrorKind::Schema, "this needs a tensor of a floating point type; cast it first").at_column(name)))
}

pub(super) fn mix_rows<T: Float>(values: &mut [T], rows: usize, own: f64, scope: &Scope<'_>) {
    let width = values.len() / rows.max(1);
    let last = scope.copy(&values[values.len() - width..]);
    let mixed = |x: T, before: T| match T::DTYPE {
        DType::F64 => T::from_f64(before.to_f64() * (1.0 - own) + x.to_f64() * own),
        _ => T::from_f32(before.to_f32() * (1.0 - own) as f32 + x.to_f32() * own as f32),
    };
    // Backwards from the last row, so that each earlier row is still unchanged.
    for row in (1..rows).rev() {
        let (before, row) = values[(row - 1) * width..(row + 1) * width].split_at_mut(width);
        row.iter_mut().zip(before).for_each(|(x, before)| *x = mixed(*x, *before));
    }
    values[..width].iter_mut().zip(last).for_each(|(x, before)| *x = mixed(*x, *before));
}

/// How an image is stored in a row: planes, pixels, and bytes per pixel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    planes: usize,
    height: usize,
    width: usize,
    pixel_bytes: usize,
}

/// The image in a tensor.
///
/// # Errors
///
/// As [`pixel_order`].
fn image(spec: &TensorSpec) -> Result<Image> {
    const WANTED: &str = "cutmix takes images of which either the first or the last dimension is 1 to 4: change their \
                          `layout` before, or list others in `features`";
    let (order, channels) = pixel_order(spec, None).map_err(|error| error.and(WANTED))?;
    Ok(Image::new(spec, order, channels))
}

impl Image {
    fn new(spec: &TensorSpec, order: PixelOrder, channels: usize) -> Self {
        let len = |axis: usize| if let Dim::Fixed(len) = spec.shape[axis] { len } else { 0 };
        let bytes = spec.dtype.bytes();
        match order {
            PixelOrder::Nchw => Self { planes: channels, height: len(1), width: len(2), pixel_bytes: bytes },
            PixelOrder::Nhwc => Self { planes: 1, height: len(0), width: len(1), pixel_bytes: channels * bytes },
        }
    }

    fn size(&self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Rows and columns of the box that leaves `own` of the image, unless the box goes beyond the edge.
    fn cut(&self, own: f64, key: RandomKey) -> [Range<usize>; 2] {
        let (x, y) = (key.below(0, self.width as u64) as usize, key.below(1, self.height as u64) as usize);
        self.cut_at(own, x, y)
    }

    pub(super) fn cut_at(&self, own: f64, x: usize, y: usize) -> [Range<usize>; 2] {
        let half = 0.5 * (1.0 - own).sqrt();
        let side = |centre: usize, len: usize| {
            let reach = (half * len as f64) as usize;
            centre.saturating_sub(reach)..(centre + reach).min(len)
        };
        [side(y, self.height), side(x, self.width)]
    }
}

/// The box of each row is replaced by that of the row before.
fn cut_tensor(
    batch: &mut BatchMut<'_>,
    name: &str,
    image: Image,
    cut: [Range<usize>; 2],
    scope: &Scope<'_>,
) -> Result<()> {
    let rows = batch.len();
    cut_rows(batch.bytes_mut(name)?, rows, image, &cut, scope);
    Ok(())
}

pub(super) fn cut_rows(bytes: &mut [u8], rows: usize, image: Image, cut: &[Range<usize>; 2], scope: &Scope<'_>) {
    let [lines, columns] = cut;
    let row_bytes = bytes.len() / rows.max(1);
    let len = columns.len() * image.pixel_bytes;
    let starts = (0..image.planes).flat_map(|plane| {
        lines.clone().map(move |line| ((plane * image.height + line) * image.width + columns.start) * image.pixel_bytes)
    });
    let last = scope.zeros::<u8>([image.planes * lines.len(), len]);
    for (start, kept) in starts.clone().zip(last.chunks_exact_mut(len.max(1))) {
        kept.copy_from_slice(&bytes[(rows - 1) * row_bytes + start..][..len]);
    }
    for row in (1..rows).rev() {
        for start in starts.clone() {
            let before = (row - 1) * row_bytes + start;
            bytes.copy_within(before..before + len, row * row_bytes + start);
        }
    }
    for (start, kept) in starts.zip(last.chunks_exact(len.max(1))) {
        bytes[start..start + len].copy_from_slice(kept);
    }
}

/// A number from the beta distribution with both parameters equal to `alpha`, from two gamma draws.
pub(super) fn beta(alpha: f64, key: RandomKey) -> f64 {
    let (x, y) = (key.with(0).gamma(alpha), key.with(1).gamma(alpha));
    // With tiny parameters, both draws may round to 0: then the number is 0 or 1.
    if x + y > 0.0 { x / (x + y) } else { f64::from(u8::from(key.unit(2) < 0.5)) }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;
    use crate::memory::Scopes;

    #[test]
    fn rows_are_mixed_and_cut_with_the_row_before() {
        let scopes = Scopes::default();
        let scope = scopes.enter();
        let mut values = [1.0f32, 10.0, 2.0, 20.0, 3.0, 30.0];
        mix_rows(&mut values, 3, 0.75, &scope);
        assert_eq!(values, [1.5, 15.0, 1.75, 17.5, 2.75, 27.5]);
        let mut one = [5.0f64, 6.0];
        mix_rows(&mut one, 1, 0.5, &scope);
        assert_eq!(one, [5.0, 6.0]);

        let spec = TensorSpec::new("image", Role::Feature, DType::U8, &[1, 2, 3]);
        let image = Image::new(&spec, PixelOrder::Nchw, 1);
        let mut bytes: Vec<u8> = (0..18).collect();
        cut_rows(&mut bytes, 3, image, &[1..2, 1..3], &scope);
        assert_eq!(bytes, [0, 1, 2, 3, 16, 17, 6, 7, 8, 9, 4, 5, 12, 13, 14, 15, 10, 11]);
        cut_rows(&mut bytes, 3, image, &[1..1, 0..3], &scope);
        assert_eq!(bytes[3..6], [3, 16, 17]);
    }

    #[derive(serde::Deserialize)]
    struct Fixture {
        images: Vec<f32>,
        own: f64,
        mixed: Vec<f32>,
        cuts: Vec<Cut>,
        beta: Vec<Beta>,
    }

    #[derive(serde::Deserialize)]
    struct Cut {
        own: f64,
        x: usize,
        y: usize,
        expected: Vec<f32>,
    }

    #[derive(serde::Deserialize)]
    struct Beta {
        alpha: f64,
        quantiles: Vec<f64>,
    }

    #[test]
    fn mixing_is_that_of_numpy_and_weights_are_spread_as_scipy_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/transforms/mix.json");
        let fixture: Fixture = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let scopes = Scopes::default();
        let mut mixed = fixture.images.clone();
        mix_rows(&mut mixed, 3, fixture.own, &scopes.enter());
        assert_eq!(mixed, fixture.mixed);
        let spec = TensorSpec::new("image", Role::Feature, DType::F32, &[2, 5, 4]);
        for cut in fixture.cuts {
            let image = Image::new(&spec, PixelOrder::Nchw, 2);
            let mut images = fixture.images.clone();
            let places = image.cut_at(cut.own, cut.x, cut.y);
            cut_rows(bytemuck::cast_slice_mut(&mut images), 3, image, &places, &scopes.enter());
            assert_eq!(images, cut.expected);
        }
        for Beta { alpha, quantiles } in fixture.beta {
            let draws: Vec<f64> = (0..20_000).map(|i| beta(alpha, RandomKey::new(9).with(i))).collect();
            for (tenths, quantile) in (1..).zip(quantiles) {
                let below = draws.iter().filter(|x| **x < quantile).count() as f64 / 20_000.0;
                assert!((below - f64::from(tenths) / 10.0).abs() < 0.015, "{alpha}: {below} below {quantile}");
            }
        }
    }

    #[test]
    fn beta_draws_have_the_moments_of_their_distribution() {
        for alpha in [0.05, 0.2, 1.0, 4.0] {
            let draws: Vec<f64> = (0..40_000).map(|i| beta(alpha, RandomKey::new(3).with(i))).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
            let expected = 0.25 / (2.0 * alpha + 1.0);
            assert!((mean - 0.5).abs() < 0.01 && (variance - expected).abs() < 0.004, "{alpha}: {mean} {variance}");
        }
        assert!(beta(1e-300, RandomKey::new(1)).fract() == 0.0);
    }
}
