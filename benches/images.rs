//! What the pipeline adds to reading, decoding and resizing images: beside bare loops that do nothing else.

#[path = "common/bare_images.rs"]
mod bare_images;
mod common;
#[path = "common/machine.rs"]
mod machine;
#[path = "common/photos.rs"]
mod photos;

use std::cell::Cell;
use std::path::Path;
use std::thread::scope;
use std::time::Instant;

use bare_images::{Crop, Taken};
use common::{Case, Options, Table};
use machine::{cores, cpu_seconds};
use ringfeed::field::{Class, Image};
use ringfeed::images::{CropFit, ImageOptions, JpegDecoder, PixelOrder, horizontal_flip, random_resized_crop};
use ringfeed::order::Shard;
use ringfeed::{DType, DataSetIterator, Loader, LoaderConfig, Normaliser};

const ABOUT: &str = "\
Images a second and CPU time an image over a folder of JPEGs, on one thread a core. The bare loops read a file, decode \
it (all of it, or the rows and columns of the crop) with libjpeg-turbo-rs, and resize it to 224 x 224 RGB bytes in a \
buffer of their own; the pipeline does the same in shuffled order, flips every second image where it trains, changes \
places and types of the pixels as the output says, and hands out batches of 64. Train is a random resized crop, eval a \
resize to 256 and the middle of 224. The last columns are speed and CPU time by those of the first bare loop, \
in the same round: what the pipeline costs where it uses the same decoder, what another decoder brings where not. The \
shields are the pipeline's own bare loop: no prefetch, a thread for each, and each has its part of the images. \
Files come from the page cache: it does not show a disk.";

/// Images that are made where no folder is given.
const MADE: u64 = 384;

const FIGURES: [(&str, usize); 4] = [("images/s", 0), ("CPU us/image", 0), ("speed by bare", 3), ("CPU by bare", 3)];

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(7) else { return Ok(()) };
    let made = tempfile::tempdir().expect("a temporary folder");
    let folder = options.data.clone().unwrap_or_else(|| {
        photos::make_folder(made.path(), MADE);
        made.path().to_owned()
    });
    let files = bare_images::files(&folder);
    let mut table = Table::new(ABOUT, &["crop", "way", "output"], &FIGURES);
    // With this decoder a random crop is faster decoded by itself; the middle of an image is nearly all of it.
    let cases =
        [("train", Crop::Random, [Taken::Crop, Taken::Whole]), ("eval", Crop::Middle, [Taken::Whole, Taken::Crop])];
    for (name, crop, bare) in cases {
        // What the faster bare loop did in this round.
        let basis = Cell::new((0.0, 0.0));
        let figures = |(speed, cpu): (f64, f64)| vec![speed, cpu, speed / basis.get().0, cpu / basis.get().1];
        let mut cases = Vec::new();
        for taken in bare {
            let (files, basis) = (&files, &basis);
            let way = if taken == Taken::Crop { "bare, crop" } else { "bare, whole" };
            cases.push(Case::new(&[&name, &way, &"u8 nhwc"], move || {
                let measured = measured(|| bare_images::epoch(files, crop, taken, cores()));
                if taken == bare[0] {
                    basis.set(measured);
                }
                figures(measured)
            }));
        }
        let default = settings(&folder, crop, ImageOptions::default());
        let mut shields = shields(&default)?;
        cases.push(Case::new(&[&name, &"shields, default", &"u8 nchw"], move || {
            figures(measured(|| epochs(&mut shields)))
        }));
        for (way, output, settings) in pipelines(&folder, crop) {
            let mut iterator = Loader::from(settings).build()?;
            cases.push(Case::new(&[&name, &way, &output], move || figures(measured(|| epoch(&mut *iterator)))));
        }
        table.measure(options.rounds, cases);
    }
    table.print(&options);
    Ok(())
}

/// Ways through the pipeline: name, output, settings.
fn pipelines(folder: &Path, crop: Crop) -> Vec<(&'static str, &'static str, LoaderConfig)> {
    let nhwc = ("u8 nhwc", DType::U8, PixelOrder::Nhwc);
    let nchw = ("u8 nchw", DType::U8, PixelOrder::Nchw);
    let f32 = ("f32 nchw", DType::F32, PixelOrder::Nchw);
    let mut ways = vec![
        ("pipeline, libjpeg-turbo-rs", JpegDecoder::LibjpegTurbo, false, nhwc),
        ("pipeline, libjpeg-turbo-rs", JpegDecoder::LibjpegTurbo, false, nchw),
        ("pipeline, default", JpegDecoder::Auto, false, nhwc),
        ("pipeline, default", JpegDecoder::Auto, false, nchw),
        ("pipeline, default", JpegDecoder::Auto, false, f32),
    ];
    if cfg!(feature = "turbojpeg") {
        ways.push(("pipeline, C", JpegDecoder::TurboJpeg, false, nchw));
        ways.push(("pipeline, shrunk", JpegDecoder::Auto, true, nchw));
    }
    let settings = |(way, jpeg, dct_scaling, (output, dtype, order))| {
        let options = ImageOptions { dtype, order, jpeg, dct_scaling, ..ImageOptions::default() };
        (way, output, settings(folder, crop, options))
    };
    ways.into_iter().map(settings).collect()
}

fn settings(folder: &Path, crop: Crop, options: ImageOptions) -> LoaderConfig {
    let mut options = ImageOptions { size: Some((bare_images::SIDE, bare_images::SIDE)), ..options };
    match crop {
        Crop::Random => options.augment = vec![random_resized_crop(), horizontal_flip()],
        Crop::Middle => options.fit = CropFit::CenterCrop { shorter: 256 },
    }
    let is_f32 = options.dtype == DType::F32;
    let images = Loader::images(folder).field("image", Image::with(options)).field("label", Class);
    let mut loader = images.batch_size(64).shuffle(20).workers(cores());
    if is_f32 {
        loader = loader.normalise("image", Normaliser::imagenet());
    }
    // Nothing is made before the clock starts.
    LoaderConfig { across_epochs: false, ..loader.config().clone() }
}

/// An iterator without prefetch for each core, each with its part of the images.
fn shields(settings: &LoaderConfig) -> ringfeed::Result<Vec<Box<dyn DataSetIterator>>> {
    let count = cores() as u32;
    let shards = (0..count).map(|index| Shard { index, count });
    shards.map(|shard| Loader::from(settings.clone()).shield().shard(shard).build()).collect()
}

/// Each iterator on a thread of its own.
fn epochs(iterators: &mut [Box<dyn DataSetIterator>]) -> usize {
    scope(|scope| {
        let threads: Vec<_> = iterators.iter_mut().map(|iterator| scope.spawn(|| epoch(&mut **iterator))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    })
}

fn epoch(iterator: &mut dyn DataSetIterator) -> usize {
    iterator.reset().expect("a folder can be read again");
    iterator.map(|batch| batch.expect("no bad records").len()).sum()
}

/// Images a second and CPU microseconds an image of one epoch, which says how many images it had.
fn measured(epoch: impl FnOnce() -> usize) -> (f64, f64) {
    let (cpu, begin) = (cpu_seconds(), Instant::now());
    let images = epoch() as f64;
    let seconds = begin.elapsed().as_secs_f64();
    (images / seconds, (cpu_seconds() - cpu) * 1e6 / images)
}
