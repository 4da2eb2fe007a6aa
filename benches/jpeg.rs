//! The stages of decoding a JPEG, each by itself, and all of them.

#[cfg(feature = "turbojpeg")]
#[path = "common/c_turbojpeg.rs"]
mod c_turbojpeg;
mod common;
#[path = "common/photos.rs"]
mod photos;

// The decoder's own parts, which are not public: this file stands in for the `mod.rs` above them.
#[path = "../src/decode/image/baseline/area.rs"]
mod area;
#[cfg(target_arch = "x86_64")]
#[path = "../src/decode/image/baseline/avx2.rs"]
mod avx2;
#[path = "../src/decode/image/baseline/entropy.rs"]
mod entropy;
#[path = "../src/decode/image/baseline/header.rs"]
mod header;
#[path = "../src/decode/image/baseline/huffman.rs"]
mod huffman;
#[path = "../src/decode/image/baseline/kernels.rs"]
mod kernels;
#[path = "../src/decode/image/baseline/picture.rs"]
mod picture;
#[path = "../src/decode/image/baseline/portable.rs"]
mod portable;
#[path = "../src/decode/image/baseline/refusal.rs"]
mod refusal;
#[path = "../src/decode/image/baseline/scan.rs"]
#[expect(dead_code, reason = "memory is not counted here")]
mod scan;
#[path = "../src/decode/image/baseline/trace.rs"]
#[expect(dead_code, reason = "every file is new here")]
mod trace;
#[path = "../src/decode/image/baseline/walk.rs"]
mod walk;

/// Where the decoder finds what it decodes a part of.
mod decode {
    pub(crate) mod image {
        pub(crate) mod stored {
            #[derive(Clone, Copy, Debug)]
            pub(crate) struct Region {
                pub(crate) x: u32,
                pub(crate) y: u32,
                pub(crate) width: u32,
                pub(crate) height: u32,
            }
        }
    }
}

use std::fs::{read, read_dir};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use area::Area;
use common::{Case, Options, Table};
use decode::image::stored::Region;
use entropy::{Block, Tables};
use header::Frame;
use huffman::{AcTable, DcTable};
use kernels::Kernels;
use libjpeg_turbo_rs::PixelFormat;
use picture::Picture;
use refusal::Ours;
use ringfeed::order::RandomKey;
use scan::Scan;
use trace::Trace;
use walk::Walk;

const ABOUT: &str = "\
Microseconds an image on one thread, for 200 images, and instructions an image as valgrind counts them for 24 of these \
(NaN where it is not installed), which other work on the machine cannot move. The crop is a box as RandomResizedCrop draws it, the same for each image in \
all rounds. 'entropy, only advancing' passes over all blocks but the last; 'pixels' turns as many blocks into pixels as \
the whole image has, though always those of one row. 'libjpeg-turbo-rs' is the library decoder as Ringfeed calls it where a \
file is not for its own: 32 pixels around the crop. 'C libjpeg-turbo' (with the feature `turbojpeg`) decodes no more than \
the crop, from a column of blocks on, so that its edges are not those of the whole image. Not shown: reading files, resizing.";

/// Images that are made where no folder is given, and most that are taken from one.
const IMAGES: usize = 200;
/// Images that instructions are counted for, which is slow.
const COUNTED: usize = 24;

const STAGES: [&str; 13] = [
    "headers",
    "tables",
    "tables with steps",
    "unstuffing",
    "entropy, all blocks",
    "entropy, only advancing",
    "entropy, crop",
    "pixels",
    "pixels, portable code",
    "crop",
    "whole",
    "libjpeg-turbo-rs, crop",
    "libjpeg-turbo-rs, whole",
];

/// Those of C's library, which the feature `turbojpeg` builds.
#[cfg(feature = "turbojpeg")]
const C: &[&str] = &["C libjpeg-turbo, crop", "C libjpeg-turbo, whole"];
#[cfg(not(feature = "turbojpeg"))]
const C: &[&str] = &[];

/// A file, and what is decoded of it.
struct Image {
    bytes: Vec<u8>,
    whole: Region,
    crop: Region,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, count, stage, rounds, folder] = args.as_slice()
        && count == "--count"
    {
        let (images, mut bench) = (images(Path::new(folder), COUNTED), Bench::of(stage));
        let rounds: usize = rounds.parse().expect("a number");
        (0..rounds).for_each(|_| bench.run(stage, &images));
        return;
    }
    let Some(options) = Options::from_args(9) else { return };
    let made = tempfile::tempdir().expect("a temporary folder");
    let folder = options.data.clone().unwrap_or_else(|| {
        photos::make_folder(made.path(), IMAGES as u64);
        made.path().to_owned()
    });
    let images = images(&folder, IMAGES);
    let mut table = Table::new(ABOUT, &["stage"], &[("us", 1), ("instructions", 0)]);
    let stages = STAGES.iter().chain(C);
    let cases = stages.map(|stage| {
        let (images, mut bench) = (&images, Bench::of(stage));
        let instructions = counted(stage, &folder) / COUNTED.min(images.len()) as f64;
        Case::new(&[stage], move || {
            let begin = Instant::now();
            bench.run(stage, images);
            vec![begin.elapsed().as_secs_f64() * 1e6 / images.len() as f64, instructions]
        })
    });
    table.measure(options.rounds, cases.collect());
    table.print(&options);
}

/// Instructions of a stage for all images: what a third round costs after two.
fn counted(stage: &str, folder: &Path) -> f64 {
    let run = |rounds: usize| -> Option<f64> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .args(["--count", stage, &rounds.to_string()])
            .arg(folder)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
    };
    match (run(2), run(3)) {
        (Some(two), Some(three)) => three - two,
        _ => f64::NAN,
    }
}

/// At most `count` baseline files in `folder` and its class folders, evenly out of all in the order of their names.
fn images(folder: &Path, count: usize) -> Vec<Image> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let mut paths: Vec<_> =
        below(folder).into_iter().flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect();
    paths.sort();
    let every = (paths.len() / count).max(1);
    let mut bench = Bench::of("whole");
    let images: Vec<_> = paths
        .iter()
        .zip(0..)
        .step_by(every)
        .filter_map(|(path, index)| {
            let bytes = read(path).expect("a file that was just listed");
            let frame = Frame::read(&bytes).ok()?;
            let (width, height) = (frame.width as u32, frame.height as u32);
            let whole = Region { x: 0, y: 0, width, height };
            let image = Image { crop: crop(width, height, RandomKey::new(index)), whole, bytes };
            bench.decode(&image.bytes, image.whole).ok().map(|()| image)
        })
        .take(count)
        .collect();
    assert!(!images.is_empty(), "{}: no baseline JPEG in it", folder.display());
    images
}

/// A box as torchvision's RandomResizedCrop draws it.
fn crop(width: u32, height: u32, key: RandomKey) -> Region {
    let area = f64::from(width * height);
    for attempt in 0..10 {
        let unit = |counter: u64| key.with(attempt).unit(counter);
        let (area, ratio) = (area * (0.08 + 0.92 * unit(0)), (0.75f64.ln() + unit(1) * (16.0f64 / 9.0).ln()).exp());
        let (w, h) = ((area * ratio).sqrt().round() as u32, (area / ratio).sqrt().round() as u32);
        if (1..=width).contains(&w) && (1..=height).contains(&h) {
            let place = |counter: u64, left: u32| (unit(counter) * f64::from(left + 1)) as u32;
            return Region { x: place(2, width - w), y: place(3, height - h), width: w, height: h };
        }
    }
    Region { x: 0, y: 0, width, height }
}

/// What the decoder keeps from image to image.
struct Bench {
    scan: Scan,
    trace: Trace,
    dc: [DcTable; 4],
    ac: Vec<AcTable>,
    blocks: Vec<Block>,
    picture: Picture,
    pixels: Vec<u8>,
    #[cfg(feature = "turbojpeg")]
    c: c_turbojpeg::Decompressor,
}

impl Bench {
    fn of(stage: &str) -> Self {
        let kernels = if stage.ends_with("portable code") { Kernels::portable() } else { Kernels::detect() };
        let picture = Picture::new(kernels);
        assert!(!(stage.ends_with("portable code") && picture.has_vectors()), "what is measured is what it says");
        Self {
            scan: Scan::default(),
            trace: Trace::default(),
            dc: Default::default(),
            ac: (0..4).map(|_| AcTable::default()).collect(),
            blocks: Vec::new(),
            picture,
            pixels: Vec::new(),
            #[cfg(feature = "turbojpeg")]
            c: c_turbojpeg::Decompressor::default(),
        }
    }

    /// One stage for all images.
    fn run(&mut self, stage: &str, images: &[Image]) {
        for Image { bytes, whole, crop } in images {
            let frame = Frame::read(black_box(bytes)).expect("a baseline file");
            let last = Region { x: whole.width - 1, y: whole.height - 1, width: 1, height: 1 };
            match stage {
                "headers" => drop(black_box(frame)),
                "tables" | "tables with steps" => {
                    // Tables without a code in between, so that they are built again.
                    self.dc.iter_mut().for_each(|table| table.build(&[0; 16]).expect("a table"));
                    self.ac.iter_mut().for_each(|table| table.build(&[0; 16]).expect("a table"));
                    self.build(&frame, stage == "tables with steps").expect("a baseline file");
                }
                "unstuffing" => {
                    let area = Area::new(&frame, *whole).expect("a baseline file");
                    self.scan.unstuff(frame.scan, area.intervals(frame.restart)).expect("a baseline file");
                }
                "entropy, all blocks" => self.entropy(&frame, *whole, false).expect("a baseline file"),
                "entropy, only advancing" => self.entropy(&frame, last, false).expect("a baseline file"),
                "entropy, crop" => self.entropy(&frame, *crop, false).expect("a baseline file"),
                "pixels" | "pixels, portable code" => self.only_pixels(&frame, *whole).expect("a baseline file"),
                "crop" => self.decode(bytes, *crop).expect("a baseline file"),
                "whole" => self.decode(bytes, *whole).expect("a baseline file"),
                #[cfg(feature = "turbojpeg")]
                "C libjpeg-turbo, crop" => {
                    let crop = [crop.x, crop.y, crop.width, crop.height];
                    self.c.decode(bytes, (whole.width, whole.height), Some(crop), &mut self.pixels);
                }
                #[cfg(feature = "turbojpeg")]
                "C libjpeg-turbo, whole" => {
                    self.c.decode(bytes, (whole.width, whole.height), None, &mut self.pixels);
                }
                "libjpeg-turbo-rs, crop" => self.library(bytes, *whole, Some(*crop)),
                _ => self.library(bytes, *whole, None),
            }
        }
    }

    fn build(&mut self, frame: &Frame<'_>, with_steps: bool) -> Ours<()> {
        for component in frame.components() {
            self.dc[component.dc].build(frame.dc_table(component.dc)?)?;
            self.ac[component.ac].build(frame.ac_table(component.ac)?)?;
            if with_steps {
                self.ac[component.ac].build_steps();
            }
        }
        Ok(())
    }

    fn decode(&mut self, bytes: &[u8], region: Region) -> Ours<()> {
        self.entropy(&Frame::read(bytes)?, region, true)
    }

    /// All that comes before pixels, and these, too, if they are wanted.
    fn entropy(&mut self, frame: &Frame<'_>, region: Region, with_pixels: bool) -> Ours<()> {
        let area = Area::new(frame, region)?;
        self.build(frame, area.has_blocks_outside())?;
        self.scan.unstuff(frame.scan, area.intervals(frame.restart))?;
        self.prepare(frame, &area)?;
        let components = frame.components();
        let tables = [0, 1, 2].map(|index| {
            let component = components.get(index).unwrap_or(&components[0]);
            Tables { dc: &self.dc[component.dc], ac: &self.ac[component.ac] }
        });
        let mut walk = Walk::new(frame, &area, &tables, &self.scan, &mut self.trace)?;
        for y in walk.rows() {
            walk.row(y, &mut self.blocks)?;
            if with_pixels && area.mcu_rows.contains(&y) {
                self.picture.add(&area, y, &self.blocks, &mut self.pixels, 3 * area.x.len())?;
            }
        }
        Ok(())
    }

    fn only_pixels(&mut self, frame: &Frame<'_>, region: Region) -> Ours<()> {
        let area = Area::new(frame, region)?;
        self.prepare(frame, &area)?;
        for y in area.mcu_rows.clone() {
            self.picture.add(&area, y, &self.blocks, &mut self.pixels, 3 * area.x.len())?;
        }
        Ok(())
    }

    fn prepare(&mut self, frame: &Frame<'_>, area: &Area) -> Ours<()> {
        self.blocks.resize(self.blocks.len().max(area.blocks), [0; 64]);
        self.pixels.resize(self.pixels.len().max(3 * area.x.len() * area.y.len()), 0);
        self.picture.prepare(frame, area, 3)
    }

    fn library(&mut self, bytes: &[u8], whole: Region, crop: Option<Region>) {
        let mut decoder = libjpeg_turbo_rs::Decoder::new(bytes).expect("a whole file");
        decoder.set_output_format(PixelFormat::Rgb);
        decoder.set_stop_on_warning(true);
        if let Some(crop) = crop {
            let (left, top) = (crop.x.saturating_sub(32), crop.y.saturating_sub(32));
            let width = (crop.x + crop.width + 32).min(whole.width) - left;
            let height = (crop.y + crop.height + 32).min(whole.height) - top;
            decoder.set_crop_region(left as usize, top as usize, width as usize, height as usize);
        }
        let len = decoder.output_buffer_size().expect("a region of the image");
        self.pixels.resize(self.pixels.len().max(len), 0);
        decoder.decode_image_into(&mut self.pixels[..len]).expect("a whole file");
    }
}
