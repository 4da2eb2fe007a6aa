use std::path::Path;

use ringfeed::arrays::RawOptions;
use ringfeed::csv::Missing;
use ringfeed::field::{Image, Numbers};
use ringfeed::formats::{Csv, CsvSequences, Formats, Idx, Npy, Raw, TokenFiles};
use ringfeed::settings::{BadLimits, BadRecords, SourceConfig};
use ringfeed::storage::Files;
use ringfeed::tokens::TokenOptions;
use ringfeed::{DType, Error, ErrorKind, LoaderConfig, Result};

use crate::args::BenchArgs;
use crate::config::{at_path, has_fields};

/// Side of the square that images are resized to unless something else is said.
pub(super) const IMAGE_SIZE: u32 = 224;

/// What the config file says, then what the flags say; and whether the sources are what lies at PATH, with changes so
/// that as much as possible can be measured.
pub(super) fn settings(args: &BenchArgs, formats: &Formats) -> Result<(LoaderConfig, bool)> {
    let config = match &args.config {
        Some(file) => LoaderConfig::load_with(file, formats)?,
        None => LoaderConfig::default(),
    };
    let has_fields = has_fields(&config);
    let mut is_detected = false;
    let plain = |path: &Path| match told(path, args) {
        Some(source) => Ok(vec![source]),
        None => {
            is_detected = true;
            detected(path, formats)
        }
    };
    let mut config = at_path(config, args.path.as_deref(), formats, plain)?;
    let mut taken = Taken::default();
    for source in &mut config.sources {
        adjust(source, args, has_fields, &mut taken)?;
    }
    if let Some(source) = config.sources.first() {
        taken.check(args, source)?;
    }
    config.batch_size = args.batch_size.unwrap_or(config.batch_size);
    config.workers = args.workers.or(config.workers);
    config.prefetch = args.prefetch.or(config.prefetch);
    // Random windows need a seed.
    config.shuffle = args.shuffle.or(config.shuffle).or(args.window.map(|_| 0));
    // Flags for workers and prefetch are of no use with a shield, which the file may ask for.
    let is_shielded = config.shield && args.workers.is_none() && args.prefetch.is_none();
    config.shield = args.shield || is_shielded;
    if args.skip_bad && config.bad_records == BadRecords::Fail {
        config.bad_records = BadRecords::Skip(BadLimits::default());
    }
    Ok((config, is_detected))
}

/// The source that the flags describe, if they do.
fn told(path: &Path, args: &BenchArgs) -> Option<SourceConfig> {
    let (path, raw) = (path.to_owned(), args.raw.options());
    match (args.window, raw) {
        (Some(window), raw) => {
            let mut options = TokenOptions { window, ..TokenOptions::default() };
            if let Some(RawOptions { stored, header_bytes, endian, .. }) = raw {
                options = TokenOptions { stored, header_bytes, endian, ..options };
            }
            Some(SourceConfig::new(TokenFiles, path, options))
        }
        (None, Some(options)) => Some(SourceConfig::new(Raw, path, options)),
        (None, None) => None,
    }
}

/// Sources of what lies at `path`, so that as much as possible can be measured without saying more.
fn detected(path: &Path, formats: &Formats) -> Result<Vec<SourceConfig>> {
    let mut sources = LoaderConfig::for_path_with(path, formats)?.sources;
    set_missing(&mut sources, Missing::Nan);
    for source in &mut sources {
        name_usual_fields(source)?;
        change_images(source, |image| image.size(IMAGE_SIZE, IMAGE_SIZE));
    }
    Ok(sources)
}

/// What missing numbers of CSV files become.
pub(super) fn set_missing(sources: &mut [SourceConfig], missing: Missing) {
    for source in sources {
        if let Some(options) = source.options_mut::<Csv>() {
            options.missing = missing;
        }
        if let Some(options) = source.options_mut::<CsvSequences>() {
            options.csv.missing = missing;
        }
    }
}

/// The fields that are the usual ones of a source take their place, so that they can be changed.
fn name_usual_fields(source: &mut SourceConfig) -> Result<()> {
    if source.fields.is_empty() {
        source.fields = source.usual_fields(&Files::local())?;
    }
    Ok(())
}

/// Changes the images among the fields of a source; says whether there are any.
pub(super) fn change_images(source: &mut SourceConfig, change: impl Fn(Image) -> Image) -> bool {
    let mut any = false;
    for image in source.fields.iter_mut().filter_map(|(_, field)| field.image_mut()) {
        *image = change(image.clone());
        any = true;
    }
    any
}

/// Which flags for images and arrays a source has taken.
#[derive(Default)]
struct Taken {
    dtype: bool,
    images: bool,
}

impl Taken {
    /// The error for a flag that none of the sources takes, of which `source` is the first.
    fn check(&self, args: &BenchArgs, source: &SourceConfig) -> Result<()> {
        let message = match args.dtype() {
            _ if !self.images && (args.size.is_some() || args.layout().is_some()) => {
                format!("--size and --layout are for images, but this is {}", source.format())
            }
            Some(dtype) if !self.dtype => format!(
                "--dtype {dtype} is for images, and for arrays without fields; a --config file chooses the types of tensors"
            ),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Config, message).at_path(source.path()))
    }
}

/// What the flags for images and arrays say. With `has_fields`, the settings say what tensors there are.
fn adjust(source: &mut SourceConfig, args: &BenchArgs, has_fields: bool, taken: &mut Taken) -> Result<()> {
    if args.size.is_none() && args.dtype().is_none() && args.layout().is_none() {
        return Ok(());
    }
    if !has_fields {
        name_usual_fields(source)?;
    }
    let has_images = change_images(source, |image| {
        let image = if let Some(size) = args.size { image.size(size, size) } else { image };
        let image = if let Some(dtype) = args.dtype() { image.dtype(dtype) } else { image };
        if let Some(order) = args.layout() { image.order(order) } else { image }
    });
    if has_images {
        (taken.dtype, taken.images) = (true, true);
        return Ok(());
    }
    let Some(dtype) = args.dtype() else { return Ok(()) };
    if source.is::<Idx>() || source.is::<Npy>() || source.is::<Raw>() {
        // Fields say it already, as those of labels do.
        if source.fields.is_empty() && !has_fields {
            source.fields = vec![("features".to_owned(), Numbers::of(dtype).into())];
            taken.dtype = true;
        }
    } else {
        // Number columns are f32 anyway.
        taken.dtype |= dtype == DType::F32 && !source.is::<TokenFiles>();
    }
    Ok(())
}
