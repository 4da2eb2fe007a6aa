use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::ImageFolder;
use super::tensors::image_shape;
use crate::decode::image::{ImageFormat, ImageWork};
use crate::decode::{ImageColour, ImageOptions};
use crate::dtype::DType;
use crate::error::Result;
use crate::read::summary::{Figure, Tally};
use crate::read::{FieldSummary, RecordReader};
use crate::storage::Files;

/// What `inspect` reports about one image file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ImageSummary {
    /// `jpeg`, `png`, `webp`, `bmp`, `gif`, `tiff` or `pnm`, by the file's content.
    pub format: &'static str,
    /// Pixels in a row of the upright image, after EXIF orientation.
    pub width: u32,
    /// Rows of the upright image.
    pub height: u32,
    /// Channels as stored: grey 1, with alpha 2, colour (palettes too) 3, with alpha or CMYK 4.
    pub channels: u8,
    /// EXIF orientation, 1 to 8; 1 if there is none.
    pub orientation: u8,
    /// Means of red, green and blue over all pixels, as 8-bit RGB after alpha is dropped, before any resizing.
    pub channel_means: [f64; 3],
    /// The pixels as a field: `[3, height, width]`, 8-bit RGB.
    pub field: FieldSummary,
}

/// Decodes one image file and summarises it.
///
/// # Errors
///
/// Those of reading it as a record: missing, too large, not an image, damaged.
pub fn summarise_image(path: impl AsRef<Path>) -> Result<ImageSummary> {
    summarise_one(&Files::local(), path.as_ref())
}

/// The same for one of these files.
pub(super) fn summarise_one(files: &Files, path: &Path) -> Result<ImageSummary> {
    let options = ImageOptions::default();
    let mut bytes = Vec::new();
    let mut work = ImageWork::default();
    files
        .read_file(files.number_files(1), path, &mut bytes, options.max_file_bytes, u64::MAX)
        .and_then(|_| {
            let (header, pixels) = work.decode(&bytes, &options)?;
            let (width, height) = header.upright_size();
            // 8-bit values are summed exactly, so turning and the order of summation make no difference.
            let mut counts = [[0u64; 256]; 3];
            for pixel in pixels.as_chunks::<3>().0 {
                counts.iter_mut().zip(pixel).for_each(|(counts, value)| counts[usize::from(*value)] += 1);
            }
            let total =
                |counts: &[u64; 256]| counts.iter().zip(0u64..).map(|(count, value)| count * value).sum::<u64>();
            let sums = counts.each_ref().map(total);
            let pixels = u64::from(width) * u64::from(height);
            let present = |value: &usize| counts.iter().any(|counts| counts[*value] > 0);
            let sum = sums.iter().sum::<u64>();
            Ok(ImageSummary {
                format: header.format.as_str(),
                width,
                height,
                channels: header.channels,
                orientation: header.orientation.to_exif(),
                channel_means: sums.map(|sum| sum as f64 / pixels as f64),
                field: FieldSummary {
                    name: options.image_name.clone(),
                    role: "feature".to_owned(),
                    dtype: DType::U8.as_str().to_owned(),
                    shape: vec![3, height as usize, width as usize],
                    count: pixels * 3,
                    missing: 0,
                    sum: Some(Figure::Whole(sum.into())),
                    min: (0..256).find(present).map(|value| Figure::Whole(value as i128)),
                    max: (0..256).rev().find(present).map(|value| Figure::Whole(value as i128)),
                    mean: Some(sum as f64 / (pixels * 3) as f64),
                },
            })
        })
        .map_err(|error| error.at_path(path))
}

/// A class and how many files it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClassCount {
    /// The class name.
    pub name: String,
    /// Its files.
    pub count: u64,
}

/// A format and how many files have its extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FormatCount {
    /// `jpeg`, `png`, `webp`, `bmp`, `gif`, `tiff` or `pnm`; of sounds `wav`, `flac`, `mp3` or `ogg`.
    pub format: &'static str,
    /// Its files.
    pub count: u64,
}

/// An image file as a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ImageRecord {
    /// The file.
    pub path: PathBuf,
    /// Its class name, if there are classes.
    pub label: Option<String>,
}

/// What `inspect` reports about an image folder. No file is opened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FolderSummary {
    /// Image files.
    pub records: u64,
    /// Files that were left out.
    pub ignored: u64,
    /// The first of these files, by their paths below the folder.
    pub ignored_files: Vec<PathBuf>,
    /// The classes in index order.
    pub classes: Vec<ClassCount>,
    /// The formats, by extension.
    pub formats: Vec<FormatCount>,
    /// The image (without statistics; a dimension that differs from file to file is 0) and the label, over class
    /// indices.
    pub fields: Vec<FieldSummary>,
    /// The first file.
    pub first: ImageRecord,
    /// The last file.
    pub last: ImageRecord,
}

impl ImageFolder {
    /// Summarises the listing.
    pub fn summarise(&self) -> FolderSummary {
        let mut classes: Vec<ClassCount> =
            self.classes().iter().map(|name| ClassCount { name: name.clone(), count: 0 }).collect();
        let mut tally = Tally::default();
        for label in &self.files.labels {
            classes[*label as usize].count += 1;
            tally.add_integer((*label).into());
        }
        let mut formats: BTreeMap<ImageFormat, u64> = BTreeMap::new();
        let mut path = PathBuf::new();
        for sample in 0..self.len() {
            self.files.write_path(sample, &mut path);
            let extension = path.extension().and_then(|extension| extension.to_str());
            if let Some(format) = extension.and_then(ImageFormat::of_extension) {
                *formats.entry(format).or_default() += 1;
            }
        }
        let (height, width) = self.options().size.map_or((0, 0), |(height, width)| (height as usize, width as usize));
        let channels = self.options().colour.channels();
        let field = |name: &str, role: &str, dtype: DType, shape: Vec<usize>, figures: Tally| FieldSummary {
            name: name.to_owned(),
            role: role.to_owned(),
            dtype: dtype.as_str().to_owned(),
            shape,
            count: self.len(),
            missing: 0,
            sum: figures.sum(),
            min: figures.min(),
            max: figures.max(),
            mean: figures.mean(),
        };
        let role = if self.options().colour == ImageColour::Index { "label" } else { "feature" };
        let shape = image_shape(self.options(), height, width, channels);
        let mut fields = vec![field(&self.options().image_name, role, self.options().dtype, shape, Tally::default())];
        if !self.files.labels.is_empty() {
            fields.push(field(&self.options().label_name, "label", DType::I64, vec![], tally));
        }
        let record = |sample: u64| ImageRecord {
            path: self.path(sample),
            label: self.label(sample).map(|label| self.classes()[label as usize].clone()),
        };
        FolderSummary {
            records: self.len(),
            ignored: self.ignored(),
            ignored_files: self.ignored_files().to_vec(),
            classes,
            formats: formats
                .into_iter()
                .map(|(format, count)| FormatCount { format: format.as_str(), count })
                .collect(),
            fields,
            first: record(0),
            last: record(self.len() - 1),
        }
    }
}
