//! Image folders: what the pixels are (against Pillow), what is listed, and what damaged files give.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail where they unwrap")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfeed::field::{Class, Field, Image};
use ringfeed::images::{
    CropFit, ImageColour, ImageFolder, ImageLabels, ImageOptions, JpegDecoder, LabelFormat, PixelOrder,
};
use ringfeed::inspect::{Figure, summarise_image};
use ringfeed::order::RandomKey;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::tensor::{Affine, AffineSteps, Extents, Layout, Role, Schema, TensorSpec, bf16, f16};
use ringfeed::{DType, Error, ErrorKind, Loader, Result};

const WIDTH: usize = 24;
const HEIGHT: usize = 16;

fn fixture(name: &str) -> PathBuf {
    crate::common::watchdog::watch();
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The picture that all of fixtures/images shows.
fn picture() -> Vec<[u8; 3]> {
    let pixel = |i: usize| [i % WIDTH * 11, i / WIDTH * 17, (i % WIDTH + i / WIDTH) * 6].map(|value| value as u8);
    (0..WIDTH * HEIGHT).map(pixel).collect()
}

/// A row as a batch would hold it: poisoned memory, then what the reader wrote.
struct Filled {
    slot: Vec<u64>,
    layout: Layout,
}

impl Filled {
    fn tensor<T: ringfeed::tensor::Element>(&self, index: usize) -> &[T] {
        let tensor = &self.layout.tensors()[index];
        let bytes: &[u8] = bytemuck::cast_slice(&self.slot);
        bytemuck::cast_slice(&bytes[tensor.offset()..tensor.offset() + tensor.row_bytes()])
    }

    fn shape(&self, index: usize) -> &[usize] {
        self.layout.tensors()[index].row_shape()
    }
}

fn fill_specs(
    reader: &dyn RecordReader,
    specs: &[TensorSpec],
    sample: u64,
    room: Extents,
    scratch: &mut Scratch,
) -> Result<Filled> {
    let schema = Schema::new(specs.to_vec())?;
    let extents = if schema.is_variable() { reader.measure(sample, scratch)?.max(room) } else { Extents::default() };
    let mut layout = Layout::default();
    layout.compute(&schema, 1, extents)?;
    let mut slot = vec![0xaaaa_aaaa_aaaa_aaaau64; layout.bytes().div_ceil(8)];
    reader.fetch(&[sample], 0, scratch)?;
    let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
    reader.decode(Sample { id: sample, key: RandomKey::new(0) }, 0, scratch, &mut row)?;
    Ok(Filled { slot, layout })
}

fn fill(reader: &dyn RecordReader, sample: u64) -> Result<Filled> {
    fill_specs(reader, reader.tensors(), sample, Extents::default(), &mut Scratch::default())
}

/// One file's pixels, `[height, width, 3]`, at its own size.
fn pixels_of(path: &Path, jpeg: JpegDecoder) -> Result<(Vec<usize>, Vec<u8>)> {
    let options = ImageOptions { order: PixelOrder::Nhwc, jpeg, ..ImageOptions::default() };
    let filled = fill(&ImageFolder::from_paths([path], ImageLabels::None, &options)?, 0)?;
    Ok((filled.shape(0).to_vec(), filled.tensor::<u8>(0).to_vec()))
}

fn largest_difference(a: &[u8], b: &[u8]) -> u8 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

fn write_all(folder: &Path, files: &[(&str, &[u8])]) {
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// A folder with these files, all of them one small picture.
fn folder_of(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/images/rgb.png"), path).unwrap();
    }
    folder
}

#[test]
fn parts_of_a_data_set_are_no_classes() {
    let options = ImageOptions::default();
    let folder = folder_of(&[
        "photos/train/cat/1.png",
        "photos/train/dog/2.png",
        "photos/val/cat/3.png",
        "photos/val/dog/4.png",
    ]);
    let photos = folder.path().join("photos");
    let parts = ImageFolder::open(&photos, &options).err().unwrap();
    assert_eq!(parts.kind(), ErrorKind::Config);
    let best = format!("{:?}", photos.join("train"));
    assert!(parts.message().starts_with("holds \"train\", \"val\", which"), "{parts}");
    assert!(parts.message().contains(&best), "{parts}");
    // One folder above, it is the same answer.
    for error in [ImageFolder::open(folder.path(), &options), ImageFolder::detect(folder.path(), &options)] {
        let error = error.err().unwrap();
        assert!(error.message().contains(&best), "{error}");
    }
    let train = ImageFolder::open(photos.join("train"), &options).unwrap();
    assert_eq!(train.classes(), ["cat", "dog"]);
    let above = folder_of(&["photos/cat/1.png", "photos/dog/2.png"]);
    let error = ImageFolder::detect(above.path(), &options).err().unwrap();
    let expected = format!(
        "the only class would be \"photos\", whose files lie in 2 folders, such as [\"cat\", \"dog\"]; if these are \
                            the classes, name {:?}",
        above.path().join("photos")
    );
    assert!(error.message().starts_with(&expected), "{error}");
    // Whoever lists the classes means them.
    for (root, classes) in [(photos.as_path(), &["train", "val"][..]), (above.path(), &["photos"])] {
        let classes: Vec<String> = classes.iter().map(|class| class.to_string()).collect();
        let listed = ImageOptions { classes: Some(classes.clone()), ..ImageOptions::default() };
        assert_eq!(ImageFolder::open(root, &listed).unwrap().classes(), classes);
    }
    for usual in [
        &["bus/1.png", "train/2.png"][..],
        &["faces/1.png", "faces/2.png"],
        &["faces/all/1.png"],
        &["a/x/1.png", "b/x/2.png"],
    ] {
        let folder = folder_of(usual);
        assert!(ImageFolder::open(folder.path(), &options).is_ok(), "{usual:?}");
    }
}

#[test]
fn lossless_formats_give_the_picture_exactly() {
    let expected = picture();
    for name in [
        "rgb.png",
        "rgb-interlaced.png",
        "rgb.bmp",
        "rgb-lossless.webp",
        "rgb-raw.tiff",
        "rgb-deflate.tiff",
        "rgb-packbits.tif",
        "rgb-16.png",
        "rgba.png",
        "rgba.bmp",
        "rgba.tiff",
        "rgba.webp",
        "two-pages.tiff",
        "orientation-6.png",
        "orientation-6.webp",
        "cmyk.tiff",
    ] {
        let (shape, pixels) = pixels_of(&fixture("images").join(name), JpegDecoder::default()).unwrap();
        assert_eq!(shape, [HEIGHT, WIDTH, 3], "{name}");
        assert_eq!(pixels, expected.as_flattened(), "{name}");
    }
}

#[test]
fn a_marked_exif_block_turns_a_webp_too() {
    // Pillow writes the mark that JPEG has before its EXIF into WebP, where libwebp's tools write none.
    let bytes = fs::read(fixture("images/orientation-6.webp")).unwrap();
    let at = bytes.windows(4).position(|name| name == b"EXIF").unwrap();
    let mut marked = bytes[..at + 8].to_vec();
    marked.extend_from_slice(b"Exif\0\0");
    marked.extend_from_slice(&bytes[at + 8..]);
    marked[at + 4] += 6;
    marked[4] += 6;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("marked.webp");
    fs::write(&path, marked).unwrap();
    assert_eq!(summarise_image(&path).unwrap().orientation, 6);
    let (shape, pixels) = pixels_of(&path, JpegDecoder::default()).unwrap();
    assert_eq!((&shape[..], &pixels[..]), (&[HEIGHT, WIDTH, 3][..], picture().as_flattened()));
}

#[test]
fn all_eight_orientations_stand_upright_with_both_jpeg_decoders() {
    let expected = picture();
    for jpeg in [JpegDecoder::Auto, JpegDecoder::LibjpegTurbo] {
        for orientation in 1..=8u8 {
            let path = fixture(&format!("images/orientation-{orientation}.jpg"));
            let (shape, pixels) = pixels_of(&path, jpeg).unwrap();
            assert_eq!(shape, [HEIGHT, WIDTH, 3]);
            // JPEG at quality 95 changes this picture by at most 3 in Pillow too.
            assert!(largest_difference(&pixels, expected.as_flattened()) <= 4, "{orientation}");
            assert_eq!(summarise_image(&path).unwrap().orientation, orientation);
        }
    }
}

#[test]
fn every_kind_of_pixels_has_the_sums_that_pillow_gives() {
    // Sums of red, green and blue over 384 pixels by Pillow 13.0's `convert("RGB")`.
    let palette = [48945, 49206, 43983];
    let cases: [(&str, [i64; 3], u8, i64); 19] = [
        ("bilevel.png", [47430; 3], 1, 0),
        ("grey.png", [48257; 3], 1, 0),
        ("grey.bmp", [48257; 3], 3, 0),
        ("grey.tiff", [48257; 3], 1, 0),
        ("grey-alpha.png", [48257; 3], 2, 0),
        // Pillow clips 16-bit grey instead of scaling it; the picture was made by `grey * 257`.
        ("grey-16.png", [48257; 3], 1, 0),
        ("grey.jpg", [48254; 3], 1, 0),
        ("palette.png", palette, 3, 0),
        ("palette.bmp", palette, 3, 0),
        ("palette.gif", palette, 3, 0),
        ("palette-transparent.png", palette, 4, 0),
        ("two-frames.gif", palette, 3, 0),
        ("rgb-lossless.webp", [48576, 48960, 43776], 3, 0),
        ("rgb-lossy.webp", [48712, 48856, 44018], 3, 384),
        ("rgb.jpg", [48508, 49038, 43680], 3, 0),
        ("progressive.jpg", [48508, 49038, 43680], 3, 0),
        ("cmyk.jpg", [48576, 48960, 43776], 4, 384),
        // The same data, said to be YCCK.
        ("ycck.jpg", [53297, 45599, 49364], 4, 384),
        ("cmyk.tiff", [48576, 48960, 43776], 4, 0),
    ];
    for (name, sums, channels, tolerance) in cases {
        let path = fixture("images").join(name);
        let summary = summarise_image(&path).unwrap();
        assert_eq!(summary.channels, channels, "{name}");
        for (mean, sum) in summary.channel_means.iter().zip(sums) {
            let found = (mean * (WIDTH * HEIGHT) as f64).round() as i64;
            assert!((found - sum).abs() <= tolerance, "{name}: {found} is not {sum}");
        }
        let (_, pixels) = pixels_of(&path, JpegDecoder::default()).unwrap();
        let total: i128 = pixels.iter().map(|value| i128::from(*value)).sum();
        assert_eq!(summary.field.sum, Some(Figure::Whole(total)), "{name}");
        assert_eq!(summary.field.max, pixels.iter().max().map(|value| Figure::Whole((*value).into())), "{name}");
    }
}

#[test]
fn sixteen_bits_are_rounded_to_the_nearest_of_eight() {
    let (_, pixels) = pixels_of(&fixture("images/rgb-16-noisy.png"), JpegDecoder::default()).unwrap();
    // The noise stays within half a level, so that rounding takes it away and cutting would not.
    assert_eq!(pixels, picture().as_flattened());
}

#[test]
fn photographs_have_the_means_that_pillow_gives() {
    // Pillow 13.0 with libjpeg-turbo 3, as f64 means of its pixels.
    let cases = [
        ("astronaut.png", (512, 512), [141.56249237060547, 105.75944519042969, 96.4750747680664]),
        ("chelsea.png", (451, 300), [147.67308943089432, 111.44447893569844, 86.79785661492978]),
        ("china.jpg", (640, 427), [144.7196831088993, 145.4686768149883, 140.91860728922717]),
        ("coffee.png", (600, 400), [158.5690875, 85.794025, 51.48475]),
        ("flower.jpg", (640, 427), [55.13415178571429, 73.57914227166276, 57.000212236533955]),
        ("rocket.jpg", (640, 427), [52.265742096018734, 61.29429888758782, 82.27113583138173]),
    ];
    for (name, size, means) in cases {
        let summary = summarise_image(fixture("photos").join(name)).unwrap();
        assert_eq!((summary.width, summary.height), size, "{name}");
        assert_eq!((summary.channels, summary.orientation), (3, 1), "{name}");
        for (found, expected) in summary.channel_means.iter().zip(means) {
            assert!((found - expected).abs() < 1e-9, "{name}: {found} is not {expected}");
        }
    }
}

#[test]
fn both_jpeg_decoders_see_the_same_picture() {
    let names = [
        "photos/china.jpg",
        "photos/flower.jpg",
        "photos/rocket.jpg",
        "images/cmyk.jpg",
        "images/ycck.jpg",
        "images/grey.jpg",
        "images/progressive.jpg",
    ];
    for name in names {
        let [auto, turbo] =
            [JpegDecoder::Auto, JpegDecoder::LibjpegTurbo].map(|jpeg| pixels_of(&fixture(name), jpeg).unwrap());
        assert!(auto == turbo, "{name}");
    }
}

#[test]
fn a_decoder_that_was_removed_is_refused_with_what_to_do() {
    let of = |text: &str| toml::from_str::<ImageOptions>(text);
    for (name, jpeg) in [
        ("auto", JpegDecoder::Auto),
        ("libjpeg_turbo", JpegDecoder::LibjpegTurbo),
        ("turbo_jpeg", JpegDecoder::TurboJpeg),
    ] {
        assert_eq!(of(&format!("jpeg = {name:?}")).unwrap().jpeg, jpeg);
        assert_eq!(serde_json::to_value(jpeg).unwrap(), name);
    }
    let error = of("jpeg = 'zune'").unwrap_err().to_string();
    assert!(error.contains("was removed") && error.contains("leave jpeg out"), "{error}");
    assert!(of("jpeg = 'jpeg'").unwrap_err().to_string().contains("`libjpeg_turbo`"));
}

#[cfg(feature = "turbojpeg")]
#[test]
fn shrinking_while_decoding_changes_pixels_by_a_few_levels_and_only_large_images() {
    for name in ["photos/china.jpg", "photos/flower.jpg"] {
        for (size, fit) in [
            ((100, 100), CropFit::Stretch),
            ((56, 56), CropFit::CenterCrop { shorter: 64 }),
            ((300, 500), CropFit::Stretch),
        ] {
            let of = |dct_scaling| {
                let options = ImageOptions { size: Some(size), fit, dct_scaling, ..ImageOptions::default() };
                let reader = ImageFolder::from_paths([fixture(name)], ImageLabels::None, &options).unwrap();
                fill(&reader, 0).unwrap().tensor::<u8>(0).to_vec()
            };
            let (full, shrunk) = (of(false), of(true));
            let sum: u64 = full.iter().zip(&shrunk).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
            let mean = sum as f64 / full.len() as f64;
            // More than half of the image's own 640 x 427 pixels are not to be had from a half.
            match size.0 {
                300 => assert!(full == shrunk, "{name}"),
                _ => assert!(full != shrunk && mean < 4.0, "{name} {size:?}: {mean}"),
            }
        }
    }
}

#[test]
fn a_grey_jpeg_in_one_channel_is_what_three_equal_channels_give() {
    use libjpeg_turbo_rs::{Encoder, PixelFormat};
    use ringfeed::images::{ImageAugment, random_resized_crop};

    let folder = tempfile::tempdir().unwrap();
    let (width, height) = (83, 61);
    let pixels: Vec<u8> = (0..width * height).map(|i| ((i % width * 3) ^ (i / width * 2)) as u8).collect();
    let jpeg = Encoder::new(&pixels, width, height, PixelFormat::Grayscale).quality(90).encode().unwrap();
    let path = folder.path().join("grey.jpg");
    fs::write(&path, jpeg).unwrap();
    let flips =
        vec![ImageAugment::HorizontalFlip { probability: 0.5 }, ImageAugment::VerticalFlip { probability: 0.5 }];
    let crop = [vec![random_resized_crop()], flips.clone()].concat();
    for augment in [Vec::new(), flips, crop] {
        for (size, fit) in [
            (Some((20, 31)), CropFit::Stretch),
            (Some((61, 83)), CropFit::Stretch),
            (Some((100, 90)), CropFit::Stretch),
            (Some((24, 24)), CropFit::CenterCrop { shorter: 32 }),
        ] {
            // A picture is cut once.
            if fit != CropFit::Stretch && augment.len() == 3 {
                continue;
            }
            for dtype in [DType::U8, DType::F32] {
                let of = |jpeg| {
                    let (colour, augment) = (ImageColour::Grey, augment.clone());
                    let options = ImageOptions { size, fit, dtype, colour, augment, jpeg, ..ImageOptions::default() };
                    let reader = ImageFolder::from_paths([&path], ImageLabels::None, &options).unwrap();
                    let keys = (0..8).map(|seed| Sample { id: 0, key: RandomKey::new(seed) });
                    let filled = keys.map(|sample| fill_keyed(&reader, sample).unwrap().slot);
                    filled.collect::<Vec<_>>()
                };
                assert!(of(JpegDecoder::Auto) == of(JpegDecoder::LibjpegTurbo), "{augment:?} {size:?} {dtype}");
            }
        }
    }
}

/// A row under a key of its own, for random operations.
fn fill_keyed(reader: &dyn RecordReader, sample: Sample) -> Result<Filled> {
    let mut layout = Layout::default();
    layout.compute(&Schema::new(reader.tensors().to_vec())?, 1, Extents::default())?;
    let mut slot = vec![0xaaaa_aaaa_aaaa_aaaau64; layout.bytes().div_ceil(8)];
    let mut scratch = Scratch::default();
    reader.fetch(&[sample.id], 0, &mut scratch)?;
    let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), reader.tensors(), &layout, 0);
    reader.decode(sample, 0, &mut scratch, &mut row)?;
    Ok(Filled { slot, layout })
}

#[test]
fn layouts_types_and_colours_are_the_same_pixels() {
    let path = fixture("images/rgb.png");
    let rgb = picture();
    let grey =
        |[r, g, b]: [u8; 3]| ((19595 * u32::from(r) + 38470 * u32::from(g) + 7471 * u32::from(b) + 0x8000) >> 16) as u8;
    let size = Some((HEIGHT as u32, WIDTH as u32));
    for order in [PixelOrder::Nchw, PixelOrder::Nhwc] {
        for colour in [ImageColour::Rgb, ImageColour::Grey] {
            let channels = colour.channels();
            let mut expected = vec![0u8; channels * rgb.len()];
            for (i, pixel) in rgb.iter().enumerate() {
                for c in 0..channels {
                    let at = if order == PixelOrder::Nchw { c * rgb.len() + i } else { i * channels + c };
                    expected[at] = if colour == ImageColour::Grey { grey(*pixel) } else { pixel[c] };
                }
            }
            let shape = match order {
                PixelOrder::Nchw => [channels, HEIGHT, WIDTH],
                PixelOrder::Nhwc => [HEIGHT, WIDTH, channels],
            };
            let options = ImageOptions { size, order, colour, ..ImageOptions::default() };
            let bytes = ImageFolder::from_paths([&path], ImageLabels::None, &options).unwrap();
            let bytes = fill(&bytes, 0).unwrap();
            assert_eq!(bytes.shape(0), shape);
            assert_eq!(bytes.tensor::<u8>(0), expected);

            let options = ImageOptions { dtype: DType::F32, ..options };
            let reader = ImageFolder::from_paths([&path], ImageLabels::None, &options).unwrap();
            let floats = fill(&reader, 0).unwrap();
            assert!(floats.tensor::<f32>(0).iter().copied().eq(expected.iter().map(|x| f32::from(*x))));

            // With a transformation, by every axis that there is.
            for axis in [None, Some(0), Some(1), Some(2)] {
                let factors = axis.map_or(1, |axis| shape[axis]);
                let steps = |i| {
                    let (factor, start) = (0.017 + i as f64, -1.3 - i as f64 * 0.1);
                    AffineSteps { shift: 0.0, unit: 1.0, factor, start }
                };
                let affine = Affine::new((0..factors).map(steps).collect(), axis);
                let mut specs = reader.tensors().to_vec();
                specs[0].affine = Some(Arc::new(affine.clone()));
                let scaled = fill_specs(&reader, &specs, 0, Extents::default(), &mut Scratch::default()).unwrap();
                for (i, value) in expected.iter().enumerate() {
                    let entry = axis.map_or(0, |axis| i / shape[axis + 1..].iter().product::<usize>() % shape[axis]);
                    let expected = f32::from(*value).mul_add(affine.scale[entry], affine.bias[entry]);
                    assert_eq!(scaled.tensor::<f32>(0)[i].to_bits(), expected.to_bits());
                }
                let scaled: Vec<f32> = scaled.tensor::<f32>(0).to_vec();
                for dtype in [DType::F16, DType::Bf16] {
                    specs[0].dtype = dtype;
                    let halves = fill_specs(&reader, &specs, 0, Extents::default(), &mut Scratch::default()).unwrap();
                    for (number, half) in scaled.iter().zip(halves.tensor::<u16>(0)) {
                        let expected = match dtype {
                            DType::F16 => f16::from_f32(*number).to_bits(),
                            _ => bf16::from_f32(*number).to_bits(),
                        };
                        assert_eq!(*half, expected, "{number} as {dtype}");
                    }
                }
            }
        }
    }
}

#[test]
fn native_sizes_are_padded_with_zeros_and_masked() {
    let paths = [fixture("images/rgb.png"), fixture("photos/chelsea.png")];
    for (order, dtype) in [PixelOrder::Nchw, PixelOrder::Nhwc].into_iter().zip([DType::U8, DType::F32]) {
        let options = ImageOptions { order, dtype, ..ImageOptions::default() };
        let reader = ImageFolder::from_paths(&paths, ImageLabels::None, &options).unwrap();
        let mut scratch = Scratch::default();
        assert_eq!(reader.measure(1, &mut scratch).unwrap(), Extents([300, 451, 0, 0]));
        let room = Extents([20, 451, 0, 0]);
        let filled = fill_specs(&reader, reader.tensors(), 0, room, &mut scratch).unwrap();
        assert_eq!(reader.tensors()[1].name, "image_mask");
        assert_eq!(reader.tensors()[1].role, Role::Mask);
        assert_eq!(filled.shape(1), [20, 451]);
        let value = |i: usize| match dtype {
            DType::U8 => f32::from(filled.tensor::<u8>(0)[i]),
            _ => filled.tensor::<f32>(0)[i],
        };
        let picture = picture();
        for y in 0..20 {
            for x in 0..451 {
                let inside = y < HEIGHT && x < WIDTH;
                assert_eq!(filled.tensor::<u8>(1)[y * 451 + x], u8::from(inside));
                let pixel = if inside { picture[y * WIDTH + x] } else { [0; 3] };
                for (c, expected) in pixel.into_iter().enumerate() {
                    let at = if order == PixelOrder::Nchw { (c * 20 + y) * 451 + x } else { (y * 451 + x) * 3 + c };
                    assert_eq!(value(at), f32::from(expected));
                }
            }
        }
    }
}

#[test]
fn measuring_agrees_with_decoding_for_every_format() {
    let reader = ImageFolder::open_with(fixture("images"), ImageLabels::None, &ImageOptions::default()).unwrap();
    assert!(reader.len() > 30);
    for sample in 0..reader.len() {
        let extents = reader.measure(sample, &mut Scratch::default()).unwrap();
        let path = reader.path(sample);
        let expected = if path.ends_with("orientation-6.tiff") {
            // Pillow turns the pixels of a TIFF when it saves them, and leaves the tag in.
            let summary = summarise_image(&path).unwrap();
            Extents([summary.height, summary.width, 0, 0])
        } else {
            Extents([HEIGHT as u32, WIDTH as u32, 0, 0])
        };
        assert_eq!(extents, expected, "{}", path.display());
        fill(&reader, sample).unwrap();
    }
}

#[test]
fn resizing_is_pillows_antialiased_bilinear() {
    // Every pixel of the fixture is what Pillow 13.0 gives for `resize((32, 32), BILINEAR)`.
    let expected = fs::read(fixture("images/chelsea-32x32-pillow.rgb")).unwrap();
    let options = ImageOptions { size: Some((32, 32)), order: PixelOrder::Nhwc, ..ImageOptions::default() };
    let reader = ImageFolder::from_paths([fixture("photos/chelsea.png")], ImageLabels::None, &options).unwrap();
    let filled = fill(&reader, 0).unwrap();
    assert!(largest_difference(filled.tensor::<u8>(0), &expected) <= 1);
    // Enlarged.
    let expected = fs::read(fixture("images/rgb-50x37-pillow.rgb")).unwrap();
    let larger = ImageOptions { size: Some((37, 50)), ..options.clone() };
    let larger = ImageFolder::from_paths([fixture("images/rgb.png")], ImageLabels::None, &larger).unwrap();
    assert!(largest_difference(fill(&larger, 0).unwrap().tensor::<u8>(0), &expected) <= 1);
    // The other order goes another way through memory, and holds the same.
    let options = ImageOptions { order: PixelOrder::Nchw, ..options };
    let reader = ImageFolder::from_paths([fixture("photos/chelsea.png")], ImageLabels::None, &options).unwrap();
    let planes = fill(&reader, 0).unwrap();
    for (i, value) in filled.tensor::<u8>(0).iter().enumerate() {
        assert_eq!(planes.tensor::<u8>(0)[i % 3 * 1024 + i / 3], *value);
    }
}

#[test]
fn a_centre_crop_is_the_middle_of_the_resized_image() {
    // Pillow 13.0: `resize((60, 40), BILINEAR).crop((14, 4, 46, 36))`, torchvision's Resize(40) and CenterCrop(32).
    let expected = fs::read(fixture("images/chelsea-40-crop-32-pillow.rgb")).unwrap();
    let fit = CropFit::CenterCrop { shorter: 40 };
    let options = ImageOptions { size: Some((32, 32)), fit, order: PixelOrder::Nhwc, ..ImageOptions::default() };
    let reader = ImageFolder::from_paths([fixture("photos/chelsea.png")], ImageLabels::None, &options).unwrap();
    assert!(largest_difference(fill(&reader, 0).unwrap().tensor::<u8>(0), &expected) <= 1);
    // An uneven cut of a turned image is the same cut of the upright one.
    let fit = CropFit::CenterCrop { shorter: 12 };
    let options = ImageOptions { size: Some((7, 11)), fit, ..options };
    let cut = |name: &str| {
        let reader = ImageFolder::from_paths([fixture(name)], ImageLabels::None, &options).unwrap();
        fill(&reader, 0).unwrap().tensor::<u8>(0).to_vec()
    };
    let upright = cut("images/rgb.png");
    assert!(largest_difference(&cut("images/orientation-6.png"), &upright) <= 1);
    for orientation in 1..=8 {
        assert!(largest_difference(&cut(&format!("images/orientation-{orientation}.jpg")), &upright) <= 4);
    }
}

#[test]
fn folders_are_classes_in_sorted_order() {
    let folder = tempfile::tempdir().unwrap();
    let image = fs::read(fixture("images/rgb.png")).unwrap();
    write_all(
        folder.path(),
        &[
            ("dog/b.png", &image),
            ("dog/a.PNG", &image),
            ("dog/deep/er/c.png", &image),
            ("cat/z.jpeg", &image),
            ("cat/notes.txt", b"none"),
            ("cat/.hidden.png", &image),
            (".git/x.png", &image),
            ("zebra/readme.md", b"empty class"),
            ("loose.png", &image),
        ],
    );
    let options = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
    let reader = ImageFolder::open(folder.path(), &options).unwrap();
    assert_eq!(reader.classes(), ["cat", "dog", "zebra"]);
    let names: Vec<PathBuf> =
        (0..reader.len()).map(|i| reader.path(i).strip_prefix(folder.path()).unwrap().to_owned()).collect();
    assert_eq!(names, ["cat/z.jpeg", "dog/a.PNG", "dog/b.png", "dog/deep/er/c.png"].map(PathBuf::from));
    assert_eq!((0..4).map(|i| reader.label(i)).collect::<Vec<_>>(), [0, 1, 1, 1].map(Some));
    assert_eq!(reader.ignored(), 5);
    let hidden = [".git/", "cat/.hidden.png", "cat/notes.txt", "loose.png", "zebra/readme.md"].map(PathBuf::from);
    assert_eq!(reader.ignored_files(), hidden, "a hidden folder counts as one");
    let filled = fill(&reader, 2).unwrap();
    assert_eq!(filled.tensor::<i64>(1), [1]);
    assert_eq!(reader.tensors()[1].classes.as_deref(), Some(reader.classes()));
    assert_eq!(reader.place(2).path, Some(reader.path(2)));
    assert_ne!(reader.fingerprint(), ImageFolder::open(folder.path().join("dog"), &options).unwrap().fingerprint());

    let summary = reader.summarise();
    assert_eq!((summary.records, summary.ignored), (4, 5));
    let counts: Vec<_> = summary.classes.iter().map(|class| (class.name.as_str(), class.count)).collect();
    assert_eq!(counts, [("cat", 1), ("dog", 3), ("zebra", 0)]);
    assert_eq!(summary.fields[1].sum, Some(Figure::Whole(3)));
    assert_eq!(summary.fields[0].mean, None);
    assert_eq!(summary.last.label.as_deref(), Some("dog"));
}

#[test]
fn one_class_list_serves_training_and_test() {
    let folder = tempfile::tempdir().unwrap();
    let image = fs::read(fixture("images/rgb.png")).unwrap();
    write_all(folder.path(), &[("cat/a.png", &image), ("dog/b.png", &image)]);
    let classes = Some(["dog", "bird", "cat"].map(str::to_owned).to_vec());
    let options = ImageOptions { size: Some((4, 4)), classes, labels: LabelFormat::OneHot, ..ImageOptions::default() };
    let reader = ImageFolder::open(folder.path(), &options).unwrap();
    assert_eq!(fill(&reader, 0).unwrap().tensor::<f32>(1), [0.0, 0.0, 1.0]);
    assert_eq!(fill(&reader, 1).unwrap().tensor::<f32>(1), [1.0, 0.0, 0.0]);
    let options = ImageOptions { labels: LabelFormat::U32, ..options };
    let reader = ImageFolder::open(folder.path(), &options).unwrap();
    assert_eq!(fill(&reader, 0).unwrap().tensor::<u32>(1), [2]);

    let options = ImageOptions { classes: Some(vec!["cats".to_owned(), "dog".to_owned()]), ..options };
    let error = ImageFolder::open(folder.path(), &options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.to_string().contains("did you mean \"cats\"?"), "{error}");
}

#[test]
fn labels_come_from_a_function_or_the_parent_folder() {
    let folder = tempfile::tempdir().unwrap();
    let image = fs::read(fixture("images/rgb.png")).unwrap();
    write_all(folder.path(), &[("dog.1.png", &image), ("cat.2.png", &image), ("unknown.png", &image)]);
    let options = ImageOptions { size: Some((4, 4)), ..ImageOptions::default() };
    let by_name = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        Ok(name.split_once('.').map(|(class, _)| class.to_owned()).filter(|class| class != "unknown"))
    };
    let reader = ImageFolder::open_with(folder.path(), ImageLabels::By(&by_name), &options).unwrap();
    assert_eq!((reader.len(), reader.ignored()), (2, 1));
    assert_eq!(reader.classes(), ["cat", "dog"]);
    assert_eq!((reader.label(0), reader.label(1)), (Some(0), Some(1)));

    let failing = |_: &Path| Err(Error::new(ErrorKind::Data, "no such entry in the table"));
    let error = ImageFolder::open_with(folder.path(), ImageLabels::By(&failing), &options).err().unwrap();
    assert!(error.path().is_some(), "{error}");

    let paths = ["b/x.png", "a/y.png", "b/z.png"];
    let reader = ImageFolder::from_paths(paths, ImageLabels::Folder, &options).unwrap();
    assert_eq!(reader.classes(), ["a", "b"]);
    assert_eq!((0..3).map(|i| reader.label(i)).collect::<Vec<_>>(), [1, 0, 1].map(Some));
    assert_eq!(reader.path(1), Path::new("a/y.png"));
    assert!(ImageFolder::from_paths(["x.png"], ImageLabels::Folder, &options).is_err());
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_followed_and_loops_end() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let image = fs::read(fixture("images/rgb.png")).unwrap();
    write_all(folder.path(), &[("data/a/x.png", &image), ("elsewhere/y.png", &image)]);
    let class = folder.path().join("data/a");
    symlink(&class, class.join("loop")).unwrap();
    symlink(folder.path(), class.join("up")).unwrap();
    symlink(folder.path().join("elsewhere"), class.join("other")).unwrap();
    symlink(folder.path().join("elsewhere/y.png"), class.join("z.png")).unwrap();
    let reader = ImageFolder::open(folder.path().join("data"), &ImageOptions::default()).unwrap();
    let mut names: Vec<PathBuf> = (0..reader.len()).map(|i| fs::canonicalize(reader.path(i)).unwrap()).collect();
    names.sort();
    // x once; y through the folder and through the file link.
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn missing_and_empty_places_say_what_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("train")).unwrap();
    let options = ImageOptions::default();
    let error = ImageFolder::open(folder.path().join("trian"), &options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("train"), "{error}");
    let error = ImageFolder::open(folder.path().join("train"), &options).err().unwrap();
    assert!(error.to_string().contains(".webp"), "{error}");
    let error = ImageFolder::open(fixture("images/rgb.png"), &options).err().unwrap();
    assert!(error.to_string().contains("is a file"), "{error}");
    let error = summarise_image(fixture("images/rgb.pmg")).unwrap_err();
    assert!(error.to_string().contains("rgb.png"), "{error}");
}

#[test]
fn contents_decide_and_not_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.jpg");
    fs::copy(fixture("images/rgb.png"), &path).unwrap();
    assert_eq!(summarise_image(&path).unwrap().format, "png");
    fs::write(&path, "<html>not found</html>").unwrap();
    let error = summarise_image(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(error.to_string().contains("wrong.jpg"), "{error}");
    fs::write(&path, "").unwrap();
    assert!(summarise_image(&path).unwrap_err().to_string().contains("empty"));
}

#[test]
fn limits_hold_before_anything_is_decoded() {
    let path = fixture("photos/china.jpg");
    let options = ImageOptions { max_pixels: 1000, ..ImageOptions::default() };
    let reader = ImageFolder::from_paths([&path], ImageLabels::None, &options).unwrap();
    assert_eq!(reader.measure(0, &mut Scratch::default()).unwrap_err().kind(), ErrorKind::Limit);
    let options = ImageOptions { max_pixels: 1000, size: Some((8, 8)), ..ImageOptions::default() };
    let reader = ImageFolder::from_paths([&path], ImageLabels::None, &options).unwrap();
    let error = fill(&reader, 0).err().unwrap();
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Limit, Some(0)));
    let options = ImageOptions { max_file_bytes: 1000, size: Some((8, 8)), ..ImageOptions::default() };
    let reader = ImageFolder::from_paths([&path], ImageLabels::None, &options).unwrap();
    assert_eq!(fill(&reader, 0).err().unwrap().kind(), ErrorKind::Limit);

    // A row of 60,000 pixels takes little room, until it is made 5,000 high.
    let row = tempfile::Builder::new().suffix(".bmp").tempfile().unwrap();
    let mut bmp = fs::read(fixture("images/grey.bmp")).unwrap();
    bmp[18..22].copy_from_slice(&60_000u32.to_le_bytes());
    bmp[22..26].copy_from_slice(&1u32.to_le_bytes());
    bmp.resize(500_000, 7);
    fs::write(row.path(), bmp).unwrap();
    let options = ImageOptions { size: Some((5000, 2)), ..ImageOptions::default() };
    let reader = ImageFolder::from_paths([row.path()], ImageLabels::None, &options).unwrap();
    let error = fill(&reader, 0).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let options = ImageOptions { size: Some((2, 5)), ..ImageOptions::default() };
    fill(&ImageFolder::from_paths([row.path()], ImageLabels::None, &options).unwrap(), 0).unwrap();

    // A header that promises 60,000 x 60,000 pixels.
    let folder = tempfile::tempdir().unwrap();
    let bomb = folder.path().join("bomb.jpg");
    let mut bytes = fs::read(&path).unwrap();
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    bytes[frame + 5..frame + 9].copy_from_slice(&[0xea, 0x60, 0xea, 0x60]);
    fs::write(&bomb, bytes).unwrap();
    assert_eq!(summarise_image(&bomb).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn options_say_all_their_faults_and_survive_toml_and_json() {
    let options = ImageOptions {
        size: Some((10, 20)),
        fit: CropFit::CenterCrop { shorter: 15 },
        dtype: DType::I64,
        classes: Some(["a", "a"].map(str::to_owned).to_vec()),
        ..ImageOptions::default()
    };
    assert_eq!(options.faults().len(), 3);
    let error = ImageFolder::open(fixture("images"), &options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(toml::from_str::<ImageOptions>(&toml::to_string(&options).unwrap()).unwrap(), options);
    assert_eq!(serde_json::from_str::<ImageOptions>(&serde_json::to_string(&options).unwrap()).unwrap(), options);
    let text = "size = [224, 224]\nfit = { center_crop = { shorter = 256 } }\ndtype = \"f32\"\norder = \"nhwc\"";
    let stray = text.replace("shorter = 256", "shorter = 256, longer = 300");
    assert!(toml::from_str::<ImageOptions>(&stray).unwrap_err().to_string().contains("longer"));
    let options: ImageOptions = toml::from_str(text).unwrap();
    assert_eq!((options.size, options.fit), (Some((224, 224)), CropFit::CenterCrop { shorter: 256 }));
    assert!(toml::from_str::<ImageOptions>("sise = [1, 1]").is_err());
}

/// Decodes bytes as a file; the buffers are kept from call to call.
struct Bench {
    folder: tempfile::TempDir,
    reader: ImageFolder,
    scratch: Scratch,
}

impl Bench {
    fn new(jpeg: JpegDecoder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jpg");
        fs::write(&path, "").unwrap();
        let options = ImageOptions { size: Some((16, 16)), jpeg, ..ImageOptions::default() };
        let reader = ImageFolder::from_paths([path], ImageLabels::None, &options).unwrap();
        Self { folder, reader, scratch: Scratch::default() }
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<Filled> {
        // A new file each time: some file systems write a file to disk at once when it is emptied and filled again.
        let path = self.folder.path().join("x.jpg");
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        fill_specs(&self.reader, self.reader.tensors(), 0, Extents::default(), &mut self.scratch)
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_that_names_it() {
    let photos = ["china.jpg", "flower.jpg", "rocket.jpg", "chelsea.png", "coffee.png"];
    let photos = photos.map(|name| (fs::read(fixture("photos").join(name)).unwrap(), 12));
    let small = [
        "rgb.jpg",
        "progressive.jpg",
        "cmyk.jpg",
        "grey.jpg",
        "rgb.png",
        "rgb-16.png",
        "palette.gif",
        "two-frames.gif",
        "rgb-raw.tiff",
        "rgb-deflate.tiff",
        "rgb-packbits.tif",
        "cmyk.tiff",
        "rgb-lossless.webp",
        "rgb-lossy.webp",
        "rgba.webp",
        "rgb.bmp",
    ];
    let small = small.map(|name| {
        let bytes = fs::read(fixture("images").join(name)).unwrap();
        let cuts = bytes.len();
        (bytes, cuts)
    });
    for jpeg in [JpegDecoder::Auto, JpegDecoder::LibjpegTurbo] {
        let mut bench = Bench::new(jpeg);
        for (bytes, cuts) in photos.iter().chain(&small) {
            bench.decode(bytes).unwrap();
            let spread = (0..*cuts).map(|cut| cut * bytes.len() / cuts);
            for cut in spread.chain(bytes.len() - 20..bytes.len()) {
                let Err(error) = bench.decode(&bytes[..cut]) else {
                    panic!("{cut} of {} bytes that start with {:02x?} passed", bytes.len(), &bytes[..4]);
                };
                assert!(error.path().is_some_and(|path| path.ends_with("x.jpg")), "{error}");
                assert_eq!(error.location().record, Some(0));
            }
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    let mut files: Vec<Vec<u8>> = Vec::new();
    for entry in fs::read_dir(fixture("images")).unwrap() {
        files.push(fs::read(entry.unwrap().path()).unwrap());
    }
    files.sort();
    let key = RandomKey::new(11);
    for jpeg in [JpegDecoder::Auto, JpegDecoder::LibjpegTurbo] {
        let mut bench = Bench::new(jpeg);
        let mut refused = 0;
        for round in 0..1500u64 {
            let key = key.with(round);
            let mut bytes = files[round as usize % files.len()].clone();
            for change in 0..1 + key.bits(0) % 4 {
                let at = (key.bits(2 * change + 1) % bytes.len() as u64) as usize;
                bytes[at] = key.bits(2 * change + 2) as u8;
            }
            refused += u32::from(bench.decode(&bytes).is_err());
        }
        assert!(refused > 500, "{refused}");
    }
}

#[test]
fn what_the_library_decoder_panics_over_does_not_reach_it() {
    let bytes = fs::read(fixture("images/cmyk.jpg")).unwrap();
    let frame = bytes.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    let mut bench = Bench::new(JpegDecoder::LibjpegTurbo);
    // Of each of the four components' sampling factors, which libjpeg-turbo-rs 0.9.0 panics over.
    for component in 0..4 {
        for factors in [0x13, 0x31] {
            let mut damaged = bytes.clone();
            damaged[frame + 11 + 3 * component] = factors;
            let error = bench.decode(&damaged).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Format, "{error}");
            assert!(error.message().contains("choose auto"), "{error}");
        }
    }
}

#[test]
fn tables_and_scans_that_no_jpeg_has_are_refused() {
    let refused = |name: &str, segment: &[u8], changes: &[(usize, u8)]| {
        let mut bytes = fs::read(fixture("images").join(name)).unwrap();
        let at = bytes.windows(segment.len()).position(|window| window == segment).unwrap();
        for (offset, value) in changes {
            bytes[at + offset] = *value;
        }
        for jpeg in [JpegDecoder::Auto, JpegDecoder::LibjpegTurbo] {
            let error = Bench::new(jpeg).decode(&bytes).err().unwrap();
            assert_eq!(error.location().byte, Some(at as u64 + 2), "{name} {changes:?}: {error}");
        }
    };
    // The DC table: a second code of one bit; one of two bits too many; a number of bits that no difference has.
    for changes in [&[(5, 2)][..], &[(6, 4)], &[(21, 16)], &[(4, 0x20)], &[(4, 4)]] {
        refused("rgb.jpg", &[0xff, 0xc4], changes);
    }
    // A scan header longer than it is.
    refused("rgb.jpg", &[0xff, 0xda, 0, 12, 3], &[(3, 14)]);
    // The first scan, of DC coefficients: with AC coefficients too; of bits that come too early.
    for changes in [&[(11, 5)][..], &[(12, 0x31)], &[(12, 0x0e)]] {
        refused("progressive.jpg", &[0xff, 0xda, 0, 12, 3], changes);
    }
}

#[test]
fn damage_inside_of_a_scan_is_seen() {
    let bytes = fs::read(fixture("photos/china.jpg")).unwrap();
    // A marker in the middle of the entropy-coded data: half of the picture would be grey.
    let mut broken = bytes.clone();
    let middle = bytes.len() / 2;
    broken[middle..middle + 2].copy_from_slice(&[0xff, 0xd9]);
    // The middle left out.
    let mut shorter = bytes[..middle].to_vec();
    shorter.extend_from_slice(&bytes[middle + 3000..]);
    // A restart marker where none belongs.
    let mut restart = bytes.clone();
    restart[middle..middle + 2].copy_from_slice(&[0xff, 0xd3]);
    let mut bench = Bench::new(JpegDecoder::LibjpegTurbo);
    for (what, damaged) in [("marker", &broken), ("gap", &shorter), ("restart", &restart)] {
        assert!(bench.decode(damaged).is_err(), "a {what} is passed over");
    }
    // A PNG whose last check sum is wrong.
    let mut png = fs::read(fixture("photos/chelsea.png")).unwrap();
    let at = png.len() - 16;
    png[at] ^= 1;
    let error = bench.decode(&png).err().unwrap();
    assert!(error.to_string().contains("IDAT"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_that_lead_nowhere_are_bad_samples_and_not_bad_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("cat")).unwrap();
    std::fs::copy(fixture("images/rgb.png"), path("cat/b.png")).unwrap();
    std::os::unix::fs::symlink("nowhere.png", path("cat/a.png")).unwrap();
    std::os::unix::fs::symlink("c.png", path("cat/c.png")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("cat/notes")).unwrap();
    let reader = ImageFolder::detect(folder.path(), &ImageOptions::default()).unwrap();
    assert_eq!((reader.len(), reader.ignored(), reader.ignored_files()), (3, 1, &[PathBuf::from("cat/notes")][..]));
    let report = ringfeed::inspect::verify(folder.path(), 1, |_| {}).unwrap();
    assert_eq!((report.samples, report.bad_samples), (3, 2));
    assert!(report.bad[0].to_string().contains("a.png: record 0: is a link to nowhere.png, which"), "{:?}", report.bad);
    assert_eq!(report.bad[1].location().record, Some(2));
    std::os::unix::fs::symlink("nowhere.txt", path("read.txt")).unwrap();
    assert_eq!(ImageFolder::detect(folder.path(), &ImageOptions::default()).unwrap().ignored(), 2);
    // Beside the folders of classes, too: they are no classes, as to ImageFolder, and the others stay readable.
    std::os::unix::fs::symlink("nowhere", path("ant")).unwrap();
    std::os::unix::fs::symlink("bee", path("bee")).unwrap();
    let reader = ImageFolder::detect(folder.path(), &ImageOptions::default()).unwrap();
    assert_eq!((reader.len(), reader.ignored(), reader.classes()), (3, 4, &["cat".to_owned()][..]));
    assert!(reader.ignored_files().contains(&PathBuf::from("ant")), "{:?}", reader.ignored_files());
}

#[test]
fn hidden_folders_are_no_classes() {
    let folder = tempfile::tempdir().unwrap();
    for class in [".ipynb_checkpoints", "cat", "cat/.thumbnails", "dog"] {
        std::fs::create_dir(folder.path().join(class)).unwrap();
        std::fs::copy(fixture("images/rgb.png"), folder.path().join(class).join("a.png")).unwrap();
    }
    let reader = ImageFolder::open(folder.path(), &ImageOptions::default()).unwrap();
    // torchvision's ImageFolder has ".ipynb_checkpoints" as class 0, and finds four images.
    assert_eq!((reader.classes(), reader.len()), (&["cat".to_owned(), "dog".to_owned()][..], 2));
}

#[test]
fn a_chain_of_a_thousand_folders_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let deep = (0..1000).fold(folder.path().to_owned(), |path, _| path.join("d"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::copy(fixture("images/rgb.png"), deep.join("a.png")).unwrap();
    let reader = ImageFolder::detect(folder.path(), &ImageOptions::default()).unwrap();
    assert_eq!((reader.len(), reader.classes()), (1, &["d".to_owned()][..]));
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_listed_is_named_and_the_others_are_verified() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for class in ["cat", "cat/locked", "dog", "dog/locked", "eel"] {
        std::fs::create_dir(folder.path().join(class)).unwrap();
        std::fs::copy(fixture("images/rgb.png"), folder.path().join(class).join("a.png")).unwrap();
    }
    let locked = ["cat/locked", "dog/locked"].map(|name| folder.path().join(name));
    let allow =
        |mode| locked.iter().for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap());
    allow(0);
    // Nothing is forbidden to root.
    let is_root = fs::read_dir(&locked[0]).is_ok();
    let report = ringfeed::inspect::verify(folder.path(), 2, |_| {}).unwrap();
    let opened = ImageFolder::open(folder.path(), &ImageOptions::default());
    allow(0o755);
    assert_eq!((report.samples, report.bad_samples), if is_root { (5, 0) } else { (3, 2) });
    assert!(report.bad.iter().zip(&locked).all(|(error, path)| error.path() == Some(path)), "{:?}", report.bad);
    assert_eq!(opened.is_ok(), is_root);
}

#[test]
fn pnm_files_are_what_pillow_reads() {
    let expected: serde_json::Value = serde_json::from_slice(&fs::read(fixture("pnm/expected.json")).unwrap()).unwrap();
    let numbers = |values: &serde_json::Value| serde_json::from_value::<Vec<i64>>(values.clone()).unwrap();
    for (name, values) in expected["pictures"].as_object().unwrap() {
        let path = fixture("pnm").join(name);
        let (shape, pixels) = pixels_of(&path, JpegDecoder::default()).unwrap();
        assert_eq!(shape, [6, 11, 3], "{name}");
        assert_eq!(pixels.iter().map(|value| i64::from(*value)).collect::<Vec<_>>(), numbers(values), "{name}");
        assert_eq!(summarise_image(&path).unwrap().format, "pnm");
    }
    for (name, values) in expected["maps"].as_object().unwrap() {
        let options = ImageOptions { colour: ImageColour::Index, dtype: DType::I64, ..ImageOptions::default() };
        let reader = ImageFolder::from_paths([fixture("pnm").join(name)], ImageLabels::None, &options).unwrap();
        assert_eq!(fill(&reader, 0).unwrap().tensor::<i64>(0), numbers(values), "{name}");
    }
    // A folder lists them all, and every shorter file is an error.
    let reader = ImageFolder::open_with(fixture("pnm"), ImageLabels::None, &ImageOptions::default()).unwrap();
    assert_eq!(reader.len() as usize, expected["pictures"].as_object().unwrap().len());
    let mut bench = Bench::new(JpegDecoder::default());
    for name in ["bits.pbm", "bits-plain.pbm", "grey-1000.pgm", "grey-20-plain.pgm", "colour-255.ppm"] {
        let bytes = fs::read(fixture("pnm").join(name)).unwrap();
        bench.decode(&bytes).unwrap();
        // The last number may lose its end, or what separates it.
        let least = if name.contains("plain") { 4 } else { 1 };
        for len in (0..=bytes.len() - least).step_by(3) {
            assert!(bench.decode(&bytes[..len]).is_err(), "{name}, {len} bytes");
        }
    }
    let above = bench.decode(b"P2 2 2 7 1 2 8 3\n").err().unwrap();
    assert!(above.to_string().contains("above the largest"), "{above}");
}

#[test]
fn a_class_that_a_folder_of_images_does_not_have_is_an_error_that_names_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.png");
    fs::copy(fixture("images/rgb.png"), &path).unwrap();
    let image = || Image::rgb(8, 8);
    let build = |path: &Path, name: &str, class: Field| {
        Loader::images(path)
            .field("image", image())
            .field(name, class)
            .build()
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let classes = || Class::of(["a", "b"]);
    for (name, class) in [("label", Class.into()), ("kind", Class.into()), ("label", classes().into())] {
        let error = build(folder.path(), name, class).unwrap_err();
        assert!(
            error.contains(&format!("column {name:?}: there are no classes: the files lie in the folder itself")),
            "{error}"
        );
        assert!(error.contains("leave this field out"), "{error}");
    }
    let error = build(&path, "label", Class.into()).unwrap_err();
    assert!(error.contains("column \"label\": a file that is named by itself has no class"), "{error}");
    // What nobody asked for by name is not missed.
    assert!(Loader::images(folder.path()).size(8, 8).build().is_ok());
    // The class is the folder's, and comes from nowhere else.
    let sorted = tempfile::tempdir().unwrap();
    fs::create_dir(sorted.path().join("a")).unwrap();
    fs::copy(&path, sorted.path().join("a/one.png")).unwrap();
    build(sorted.path(), "label", Class.into()).unwrap();
    build(sorted.path(), "kind", Class.from("label")).unwrap();
    let error = build(sorted.path(), "label", Class.from("kind")).unwrap_err();
    assert!(error.contains("label: from: a folder of files has no field \"kind\""), "{error}");
    assert!(error.contains("\"label\" or \"class\", or leave"), "{error}");
    let photo = Loader::images(sorted.path()).field("photo", image().from("photo")).build().map(|_| ()).unwrap_err();
    assert!(
        photo.to_string().contains("has no field \"photo\"") && photo.to_string().contains("name \"image\""),
        "{photo}"
    );
}

#[test]
fn rarer_tiff_files_are_what_pillow_reads_or_say_what_they_are() {
    let expected: serde_json::Value =
        serde_json::from_slice(&fs::read(fixture("tiff/expected.json")).unwrap()).unwrap();
    let numbers = |values: &serde_json::Value| serde_json::from_value::<Vec<i64>>(values.clone()).unwrap();
    for (name, file) in expected.as_object().unwrap() {
        let path = fixture("tiff").join(name);
        let (shape, pixels) = pixels_of(&path, JpegDecoder::default()).unwrap();
        assert_eq!(shape[..2].iter().map(|side| *side as i64).collect::<Vec<_>>(), numbers(&file["size"]), "{name}");
        assert_eq!(
            pixels.iter().map(|value| i64::from(*value)).collect::<Vec<_>>(),
            numbers(&file["pixels"]),
            "{name}"
        );
        if let Some(map) = file.get("map") {
            let options = ImageOptions { colour: ImageColour::Index, dtype: DType::I64, ..ImageOptions::default() };
            let reader = ImageFolder::from_paths([path], ImageLabels::None, &options).unwrap();
            assert_eq!(fill(&reader, 0).unwrap().tensor::<i64>(0), numbers(map), "{name}");
        }
    }
    for (name, words) in [
        ("lab", "a TIFF of L*a*b* colours: 3 samples of 8 bits a pixel"),
        ("ycbcr", "a TIFF of YCbCr: 3 samples of 8 bits a pixel"),
        ("fax3", "a TIFF of grey: 1 samples of 1 bits a pixel, compressed as a fax"),
        ("float", "a TIFF of grey: 1 floating-point samples of 32 bits a pixel"),
    ] {
        let error = summarise_image(fixture(&format!("tiff/refused-{name}.tiff"))).unwrap_err();
        assert!(error.to_string().contains(words) && error.to_string().contains("convert it"), "{error}");
    }
    // A file that ends early, wherever that is, is an error.
    let mut bench = Bench::new(JpegDecoder::default());
    for name in [
        "palette-4.tiff",
        "lowest-first-palette-8.tiff",
        "palette-lzw.tiff",
        "white-is-zero-2.tiff",
        "long-palette.tiff",
    ] {
        let bytes = fs::read(fixture("tiff").join(name)).unwrap();
        bench.decode(&bytes).unwrap();
        for len in (0..bytes.len() - 6).step_by(7) {
            assert!(bench.decode(&bytes[..len]).is_err(), "{name}, {len} bytes");
        }
    }
}

#[test]
fn a_record_that_is_not_there_is_an_error() {
    let reader =
        ImageFolder::from_paths([fixture("images/rgb.png")], ImageLabels::None, &ImageOptions::default()).unwrap();
    let mut scratch = Scratch::default();
    for error in [reader.fetch(&[0, 1], 1, &mut scratch), reader.measure(1, &mut scratch).map(drop)] {
        let error = error.unwrap_err();
        assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("no such record"), "{error}");
    }
    let mut name = Vec::new();
    reader.name(1, &mut name);
    assert!(name.is_empty() && reader.place(1).path.is_none() && reader.label(1).is_none());
}
