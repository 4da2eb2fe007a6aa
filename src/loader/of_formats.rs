//! The parts of the builder that belong to single formats, without CSV.

use std::path::PathBuf;

use crate::decode::ImageAugment;
use crate::dtype::DType;
use crate::read::fields::Image;
use crate::read::{
    CsvSequences, FolderOptions, Idx, IdxOptions, Images, Npy, NpyOptions, Raw, RawOptions, SequenceOptions,
    SourceConfig, Tar, TarOptions, TokenFiles, TokenOptions, named_geometries, usual_fields,
};

use super::Loader;

/// Whether this is a folder of images with its default fields.
pub(super) fn has_usual_pictures(source: &SourceConfig) -> bool {
    source.is::<Images>() && source.fields.is_empty()
}

/// Whether these are segmentation maps in files of their own.
pub(super) fn is_of_maps(source: &SourceConfig) -> bool {
    source.is::<Images>() && !source.fields.is_empty() && source.fields.iter().all(|(_, field)| field.is_map())
}

impl Loader {
    /// A folder of CSV files, one sequence per file.
    pub fn csv_sequences(path: impl Into<PathBuf>, options: SequenceOptions) -> Self {
        Self::new(SourceConfig::new(CsvSequences, path, options))
    }

    /// An IDX file of features and one of labels.
    pub fn idx(features: impl Into<PathBuf>, labels: impl Into<PathBuf>) -> Self {
        let mut labels = SourceConfig::new(Idx, labels, IdxOptions::default());
        labels.fields = Idx::label_fields();
        Self::new(SourceConfig::new(Idx, features, IdxOptions::default())).and(labels)
    }

    /// An NPY file of features. Add a file of labels with [`and`](Self::and).
    pub fn npy(path: impl Into<PathBuf>) -> Self {
        Self::new(SourceConfig::new(Npy, path, NpyOptions::default()))
    }

    /// A file of numbers without a header. Add a file of labels with [`and`](Self::and).
    pub fn raw(path: impl Into<PathBuf>, options: RawOptions) -> Self {
        Self::new(SourceConfig::new(Raw, path, options))
    }

    /// A file of tokens for a language model. Random windows, the default, need [`shuffle`](Self::shuffle) for its
    /// seed.
    pub fn tokens(path: impl Into<PathBuf>, options: TokenOptions) -> Self {
        Self::new(SourceConfig::new(TokenFiles, path, options))
    }

    /// A folder with one subfolder of images per class; without subfolders, images without labels. Without
    /// [fields](Self::field), it has these tensors:
    ///
    /// ```
    /// use ringfeed::field::{Class, Image};
    /// use ringfeed::{DType, Loader};
    ///
    /// let short = Loader::images("photos").size(224, 224);
    /// let long = Loader::images("photos").field("image", Image::rgb(224, 224).dtype(DType::U8)).field("label", Class);
    /// assert_eq!(short.config().sources[0].fields, long.config().fields);
    /// ```
    pub fn images(path: impl Into<PathBuf>) -> Self {
        Self::new(SourceConfig::new(Images, path, FolderOptions::default()))
    }

    /// Samples in tar archives: one archive, a folder of them, or a pattern such as `train-{000..146}.tar`.
    /// [Fields](Self::field) say which tensors are made of their members. Without fields, a sample has its image as
    /// stored (`u8`), if there is exactly one, and its class, if there is a `cls`:
    ///
    /// ```toml
    /// image = { image = [], dtype = "u8" }
    /// label = { from = "cls", class = [] }
    /// ```
    pub fn tar(path: impl Into<PathBuf>) -> Self {
        Self::tar_with(path, TarOptions::default())
    }

    /// Samples in tar archives, with options.
    pub fn tar_with(path: impl Into<PathBuf>, options: TarOptions) -> Self {
        Self::new(SourceConfig::new(Tar, path, options))
    }

    /// Adds a folder of segmentation maps to the folder of images before it. The maps get the options that the images
    /// have so far, so set these first. The label tensor `map` is `u8` of `[height, width]`, resized, cropped and
    /// rotated like the images (like the first one, if there are several views). See
    /// [`ImageOptions`](crate::images::ImageOptions). For a different name or type, add the source with
    /// [`and`](Self::and).
    ///
    /// Image and map are matched by their position in the list of each folder, sorted by the bytes of the paths. Their
    /// names must agree: paths below the folders, without extensions and without what all paths of a folder begin or
    /// end with. So `img1.jpg` belongs to `img1_mask.png`, and one without the other is an error when it is opened. It
    /// is also an error if the orders differ: `img10.jpg` follows `img1.jpg`, but `img10_mask.png` comes before
    /// `img1_mask.png`. Then give both the same names, or numbers of equal length (`img01`), or list the pairs in a
    /// table whose fields name the files. `img1.jpg.png` is the map of `img1.jpg`, too. Lists of files are as you write
    /// them: their names are not compared.
    ///
    /// ```no_run
    /// use ringfeed::Loader;
    /// use ringfeed::images::{horizontal_flip, random_resized_crop};
    ///
    /// let augment = [random_resized_crop(), horizontal_flip()];
    /// let loader = Loader::images("photos").size(512, 512).augment(augment).maps("annotations").shuffle(42);
    /// for batch in &mut loader.build()? {
    ///     let batch = batch?;
    ///     let (photos, maps) = (batch.features()?, batch.labels()?);
    ///     assert_eq!((photos.shape()[2], photos.shape()[3]), (maps.shape()[1], maps.shape()[2]));
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn maps(mut self, path: impl Into<PathBuf>) -> Self {
        let images = self.config.sources.last().filter(|source| source.is::<Images>());
        match images.and_then(|source| Some((source, source.options::<Images>()?.clone()))) {
            Some((source, options)) => {
                let fields = if source.fields.is_empty() { usual_fields() } else { source.fields.clone() };
                // The picture may have a geometry because others go with it.
                let fields = named_geometries(&fields).unwrap_or(fields);
                let mut maps = SourceConfig::new(Images, path, options);
                let picture = fields.into_iter().find_map(|(_, mut field)| field.image_mut().cloned());
                maps.fields =
                    picture.map(|picture| ("map".to_owned(), picture.into_map(DType::U8).into())).into_iter().collect();
                self.config.sources.push(maps);
            }
            None => self.faults.push("maps: name the folder of images that they belong to first".to_owned()),
        }
        self
    }

    /// Resizes images to this size in pixels. For a folder of images without fields.
    #[must_use]
    pub fn size(mut self, height: u32, width: u32) -> Self {
        let advice = "only for a folder of images; for other sources, set it in the image's field";
        self.change_picture("size", advice, |image| image.size(height, width));
        self
    }

    /// Applies these random operations to the images, in this order. For a folder of images without fields. Leave them
    /// out for evaluation. Default: none.
    #[must_use]
    pub fn augment(mut self, operations: impl IntoIterator<Item = ImageAugment>) -> Self {
        let advice = "only for a folder of images; for other images, set it in the image's field, and for numbers use \
             augment_numbers";
        self.change_picture("augment", advice, |image| image.augment(operations));
        self
    }

    /// Changes the picture of the last source, if it is a folder of images: the one among its default fields.
    fn change_picture(&mut self, what: &str, advice: &str, change: impl FnOnce(Image) -> Image) {
        let is_beside_pictures = self.config.sources.len() > 1;
        let fault = match self.config.sources.last_mut().filter(|source| source.is::<Images>()) {
            None => advice,
            Some(_) if !self.config.fields.is_empty() => "set it in the field of the image",
            Some(source) if is_of_maps(source) && is_beside_pictures => {
                "set it before `maps`; here it would change the maps alone"
            }
            Some(source) => {
                if source.fields.is_empty() {
                    source.fields = usual_fields();
                }
                match source.fields.iter_mut().find_map(|(_, field)| field.image_mut()) {
                    Some(image) => return *image = change(image.clone()),
                    None => "there is no field of an image",
                }
            }
        };
        self.faults.push(format!("{what}: {fault}"));
    }
}
