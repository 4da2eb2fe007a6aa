use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result, nearest};

/// Maximum number of dimensions of one sample's tensor (the batch adds one in front).
pub const MAX_RANK: usize = 5;

/// Maximum number of lengths that may differ from sample to sample.
pub const MAX_EXTENTS: usize = 4;

/// The purpose of a tensor in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a model takes a tensor, learns to give it, or masks it")]
pub enum Role {
    /// Input of the model.
    Feature,
    /// What the model should predict.
    Label,
    /// 1 where another tensor holds data and 0 where it holds padding; or the offsets of a [ragged](Rows::Ragged)
    /// tensor.
    Mask,
}

/// One dimension of a sample's tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a length is the same in every sample, or it is not")]
pub enum Dim {
    /// The same length in every sample.
    Fixed(usize),
    /// The sample's extent with this index. A batch uses the longest one and pads the others with zeros.
    Extent(usize),
}

/// How the samples of a batch are stored in a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rows {
    /// All samples have the same shape: `[samples, ...]`. The default.
    #[default]
    Even,
    /// One after another, each with its own length, without padding: `[elements of all samples]`. The shape of one
    /// sample is its extent alone.
    Ragged,
    /// Where each sample begins in the ragged tensors of its extent, and where the last one ends: `i64 [samples + 1]`.
    /// The loader writes it, not the decoder of a sample.
    Offsets,
}

/// The lengths of one sample that vary from sample to sample, by extent index. Unused lengths are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extents(pub [u32; MAX_EXTENTS]);

impl Extents {
    /// The extents of a sample with one varying length, such as a sequence.
    pub fn of_length(length: u32) -> Self {
        Self([length, 0, 0, 0])
    }

    /// The larger of both, extent by extent.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].max(other.0[i])))
    }
}

/// The shape of a tensor, held inline.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; MAX_RANK + 1],
    rank: u8,
}

impl Shape {
    /// The shape with these dimensions.
    ///
    /// # Panics
    ///
    /// With more than `MAX_RANK + 1` dimensions.
    pub fn new(dims: &[usize]) -> Self {
        let mut shape = Self::default();
        dims.iter().for_each(|dim| shape.push(*dim));
        shape
    }

    pub(crate) fn push(&mut self, dim: usize) {
        self.dims[usize::from(self.rank)] = dim;
        self.rank += 1;
    }

    /// Product of the dimensions; 1 for a scalar. `None` if so many elements, of eight bytes each, are more bytes than
    /// memory can have. This check ignores dimensions of 0, so that the strides of an empty tensor do not overflow
    /// either.
    pub fn elements(&self) -> Option<usize> {
        const MOST: usize = isize::MAX as usize / 8;
        let mut others = self.iter().filter(|dim| **dim > 0);
        let product = others.try_fold(1usize, |product, dim| product.checked_mul(*dim).filter(|all| *all <= MOST))?;
        Some(if self.contains(&0) { 0 } else { product })
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.dims[..usize::from(self.rank)]
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A transformation of a tensor's values while they are decoded: `fma(x, scale, bias)` in f32, rounded once more for 16
/// bits, or step by step in f64 for a tensor of f64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Affine {
    /// Factors: one for all elements, or one for each index of `axis`.
    pub scale: Vec<f32>,
    /// Summands, as many as factors.
    pub bias: Vec<f32>,
    /// The steps for a tensor of f64 instead, as many as factors.
    pub steps: Vec<AffineSteps>,
    /// The dimension of the sample's tensor whose index selects factor and summand; `None` if there is only one of
    /// each.
    pub axis: Option<usize>,
}

/// `(x - shift) / unit * factor + start` in f64, so that values close to `shift` keep their digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AffineSteps {
    /// Subtracted first.
    pub shift: f64,
    /// The divisor; not 0.
    pub unit: f64,
    /// Multiplied after the division.
    pub factor: f64,
    /// Added last.
    pub start: f64,
}

impl AffineSteps {
    /// The transformed value of `x`.
    pub fn apply(self, x: f64) -> f64 {
        (x - self.shift) / self.unit * self.factor + self.start
    }

    /// The value whose transformed value is `y`.
    pub fn revert(self, y: f64) -> f64 {
        (y - self.start) / self.factor * self.unit + self.shift
    }

    fn scale(self) -> f64 {
        self.factor / self.unit
    }

    fn bias(self) -> f64 {
        self.start - self.shift / self.unit * self.factor
    }
}

impl Affine {
    /// The transformation with these steps, for each index of `axis` or for all elements.
    pub fn new(steps: Vec<AffineSteps>, axis: Option<usize>) -> Self {
        let (scale, bias) = steps.iter().map(|steps| (steps.scale() as f32, steps.bias() as f32)).unzip();
        Self { scale, bias, steps, axis }
    }

    /// Why this can't belong to a tensor of `shape`.
    fn fault(&self, shape: &[Dim]) -> Option<String> {
        let found = [self.scale.len(), self.bias.len(), self.steps.len()];
        let wanted = match self.axis.map(|axis| shape.get(axis)) {
            None => 1,
            Some(Some(Dim::Fixed(len))) => *len,
            Some(_) => return Some(format!("its transformation is along axis {:?} of {shape:?}", self.axis)),
        };
        (found != [wanted; 3] || wanted == 0).then(|| {
            let [factors, summands, steps] = found;
            format!(
                "its transformation has {factors} factors, {summands} summands and {steps} steps, but needs {wanted} of each"
            )
        })
    }
}

/// Name, role, element type and shape of one tensor of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSpec {
    /// Its name for the trainer; unique in a schema.
    pub name: String,
    /// Its purpose in training.
    pub role: Role,
    /// Element type in the batch.
    pub dtype: DType,
    /// Shape of one sample, without the batch dimension.
    pub shape: Vec<Dim>,
    /// The class names that its numbers stand for, in index order.
    pub classes: Option<Arc<[String]>>,
    /// The names that its codes stand for, one list per column, if it holds categories.
    pub categories: Option<Arc<[Vec<String>]>>,
    /// The transformation that was applied to its values while decoding.
    pub affine: Option<Arc<Affine>>,
    /// How the samples of a batch are stored in it.
    pub rows: Rows,
    /// How its data are told from padding.
    pub masked: Masked,
}

/// How the data of a tensor are told from padding: by a tensor with [`Role::Mask`], which is not 0 where there is data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Masked {
    /// Its mask is the tensor of its name with `_mask`; without one, it is `features_mask`, or for a label `labels_mask`,
    /// if their lengths vary together. If there is none of these, all are data.
    #[default]
    ByName,
    /// All are data.
    Never,
    /// Some of it may be padding, and no mask of this form says which. Transforms that must not change padding are errors.
    Unknown,
    /// It has this mask.
    By {
        /// Name of the mask.
        mask: Arc<str>,
        /// The dimension of the masked tensor that corresponds to the first one of the mask; the others follow.
        axis: usize,
    },
}

/// The mask of a tensor.
pub(crate) struct MaskOf<'a> {
    pub(crate) name: &'a str,
    /// As in [`Masked::By`].
    pub(crate) axis: usize,
    /// Number of its dimensions.
    pub(crate) rank: usize,
}

impl From<MaskOf<'_>> for Masked {
    fn from(MaskOf { name, axis, .. }: MaskOf<'_>) -> Self {
        Self::By { mask: name.into(), axis }
    }
}

impl TensorSpec {
    /// The mask of this tensor among all tensors of its samples.
    pub(crate) fn mask<'a>(&self, all: impl Iterator<Item = &'a Self> + Clone) -> Option<MaskOf<'a>> {
        let find = |name: &str| all.clone().find(|mask| mask.name == name && mask.role == Role::Mask);
        let of = |mask: &'a Self, axis| MaskOf { name: &mask.name, axis, rank: mask.shape.len() };
        match &self.masked {
            _ if self.role == Role::Mask => None,
            Masked::Never | Masked::Unknown => None,
            Masked::By { mask, axis } => {
                let mask = find(mask)?;
                self.shape.get(*axis..)?.starts_with(&mask.shape).then(|| of(mask, *axis))
            }
            Masked::ByName => {
                let own = format!("{}_mask", self.name);
                let shared: &[&str] =
                    if self.role == Role::Label { &["labels_mask", "features_mask"] } else { &["features_mask"] };
                [own.as_str()].iter().chain(shared).find_map(|name| {
                    let mask = find(name)?;
                    let dims = &mask.shape;
                    // Only lengths that vary together show that a mask of another name belongs to this tensor.
                    let vary = !dims.is_empty() && dims.iter().all(|dim| matches!(dim, Dim::Extent(_)));
                    let axis = self.shape.windows(dims.len().max(1)).position(|part| part == dims);
                    axis.filter(|_| *name == own || vary).map(|axis| of(mask, axis))
                })
            }
        }
    }

    /// A tensor of fixed shape; `&[]` is one number per sample.
    pub fn new(name: impl Into<String>, role: Role, dtype: DType, shape: &[usize]) -> Self {
        Self::with_dims(name, role, dtype, shape.iter().map(|dim| Dim::Fixed(*dim)).collect())
    }

    /// A feature of type `f32` and fixed shape; `[]` is one number per sample.
    pub fn f32(name: impl Into<String>, shape: impl AsRef<[usize]>) -> Self {
        Self::new(name, Role::Feature, DType::F32, shape.as_ref())
    }

    /// A feature of type `i64` and fixed shape; `[]` is one number per sample.
    pub fn i64(name: impl Into<String>, shape: impl AsRef<[usize]>) -> Self {
        Self::new(name, Role::Feature, DType::I64, shape.as_ref())
    }

    /// Sets the role.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// A tensor with some dimensions that vary from sample to sample.
    pub fn with_dims(name: impl Into<String>, role: Role, dtype: DType, shape: Vec<Dim>) -> Self {
        Self {
            name: name.into(),
            role,
            dtype,
            shape,
            classes: None,
            categories: None,
            affine: None,
            rows: Rows::Even,
            masked: Masked::ByName,
        }
    }

    /// A ragged tensor: samples one after another, each as long as its extent `extent`.
    pub fn ragged(name: impl Into<String>, role: Role, dtype: DType, extent: usize) -> Self {
        Self { rows: Rows::Ragged, ..Self::with_dims(name, role, dtype, vec![Dim::Extent(extent)]) }
    }

    /// A tensor of offsets: where the samples of the ragged tensors of this extent begin, and where the last one ends.
    pub fn offsets(name: impl Into<String>, extent: usize) -> Self {
        Self { rows: Rows::Offsets, ..Self::with_dims(name, Role::Mask, DType::I64, vec![Dim::Extent(extent)]) }
    }

    /// The extent of its first dimension that varies from sample to sample.
    pub(crate) fn extent(&self) -> Option<usize> {
        self.shape.iter().find_map(|dim| match dim {
            Dim::Extent(extent) => Some(*extent),
            Dim::Fixed(_) => None,
        })
    }

    /// The extent that decides the sizes of its samples, if they differ.
    pub(crate) fn ragged_extent(&self) -> Option<usize> {
        match (self.rows, self.shape.as_slice()) {
            (Rows::Ragged | Rows::Offsets, [Dim::Extent(extent)]) => Some(*extent),
            _ => None,
        }
    }

    /// The shape of one sample in a batch whose longest extents are `extents`.
    pub fn row_shape(&self, extents: &Extents) -> Shape {
        let mut shape = Shape::default();
        for dim in &self.shape {
            shape.push(match dim {
                Dim::Fixed(len) => *len,
                Dim::Extent(index) => extents.0[*index] as usize,
            });
        }
        shape
    }

    /// Whether a dimension varies from sample to sample.
    pub fn is_variable(&self) -> bool {
        self.shape.iter().any(|dim| matches!(dim, Dim::Extent(_)))
    }
}

/// Names, roles, types and shapes of the tensors of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    tensors: Vec<TensorSpec>,
}

impl Schema {
    /// A schema of these tensors.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if there are no tensors, if a name occurs twice, if there are too many dimensions or
    /// extents, or if a transformation does not fit its tensor's shape.
    pub fn new(tensors: Vec<TensorSpec>) -> Result<Self> {
        if tensors.is_empty() {
            return Err(Error::new(ErrorKind::Schema, "a sample needs at least one tensor"));
        }
        for (index, tensor) in tensors.iter().enumerate() {
            let fault = if tensors[..index].iter().any(|other| other.name == tensor.name) {
                "two tensors have this name; give one of them another in the `fields` of its source".to_owned()
            } else if tensor.shape.len() > MAX_RANK {
                format!("{} dimensions; at most {MAX_RANK} are allowed", tensor.shape.len())
            } else if tensor.shape.iter().any(|dim| matches!(dim, Dim::Extent(e) if *e >= MAX_EXTENTS)) {
                format!("extent index out of range; at most {MAX_EXTENTS} extents are allowed")
            } else if tensor.rows != Rows::Even && tensor.ragged_extent().is_none() {
                "ragged samples have one dimension, which varies".to_owned()
            } else if tensor.rows == Rows::Offsets && (tensor.dtype != DType::I64 || tensor.affine.is_some()) {
                "offsets are plain numbers of i64".to_owned()
            } else if let Some(fault) = tensor.affine.as_ref().and_then(|affine| affine.fault(&tensor.shape)) {
                fault
            } else {
                continue;
            };
            return Err(Error::new(ErrorKind::Schema, fault).at_column(&tensor.name));
        }
        Ok(Self { tensors })
    }

    /// All tensors, in the order in which a batch holds them.
    pub fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    /// Whether samples must be measured before a batch can be laid out.
    pub fn is_variable(&self) -> bool {
        self.tensors.iter().any(TensorSpec::is_variable)
    }

    /// Whether a tensor is ragged: its samples lie one after another, each with its own length.
    pub fn is_ragged(&self) -> bool {
        self.tensors.iter().any(|tensor| tensor.rows != Rows::Even)
    }

    /// The index of the tensor with this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub fn index_of(&self, name: &str) -> Result<usize> {
        self.tensors.iter().position(|tensor| tensor.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            let hint = nearest(name, names.iter().copied()).map(|near| format!("; did you mean {near:?}?"));
            Error::new(ErrorKind::NotFound, format!("no tensor {name:?} among {names:?}{}", hint.unwrap_or_default()))
        })
    }
}
