//! BMP and TIFF files of all kinds: what Pillow and NumPy read of them, or an error that says what they are.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ringfeed::Result;
use ringfeed::images::{ImageColour, ImageFolder, ImageLabels, ImageOptions, PixelOrder};
use ringfeed::order::RandomKey;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::tensor::{Extents, Layout, Schema};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A file's pixels, row by row.
fn read(path: &Path, colour: ImageColour) -> Result<Vec<u8>> {
    let options = ImageOptions { order: PixelOrder::Nhwc, colour, max_pixels: 1 << 20, ..ImageOptions::default() };
    let reader = ImageFolder::from_paths([path], ImageLabels::None, &options)?;
    let mut scratch = Scratch::default();
    let extents: Extents = reader.measure(0, &mut scratch)?;
    let mut layout = Layout::default();
    layout.compute(&Schema::new(reader.tensors().to_vec())?, 1, extents)?;
    let mut slot = vec![0xaaaa_aaaa_aaaa_aaaau64; layout.bytes().div_ceil(8)];
    reader.fetch(&[0], 0, &mut scratch)?;
    let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), reader.tensors(), &layout, 0);
    reader.decode(Sample { id: 0, key: RandomKey::new(0) }, 0, &mut scratch, &mut row)?;
    Ok(row.tensor(0).bytes_mut().to_vec())
}

/// The files whose names begin with "refused", and what is said of each.
fn refused(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let refused = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("refused"));
    refused
        .map(|path| {
            let error = read(&path, ImageColour::Rgb).expect_err(path.to_str().unwrap());
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), error.to_string())
        })
        .collect()
}

#[test]
fn bmp_files_of_all_kinds_are_what_pillow_reads() {
    let folder = folder("bmp");
    let expected: BTreeMap<String, Vec<u32>> =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    assert_eq!(expected.len(), 66);
    for (name, sums) in &expected {
        let path = folder.join(name);
        let pixels = read(&path, ImageColour::Rgb).unwrap();
        assert_eq!(crc32fast::hash(&pixels), sums[0], "{name}");
        if let Some(indices) = sums.get(1) {
            assert_eq!(crc32fast::hash(&read(&path, ImageColour::Index).unwrap()), *indices, "the indices of {name}");
        }
    }
}

#[test]
fn bmp_files_of_other_kinds_say_what_they_are() {
    let messages = refused(&folder("bmp"));
    for (name, words) in [
        ("jpeg", "a BMP with a header of 40 bytes, of 0 bits a pixel, holding a JPEG; this kind"),
        ("png", "holding a PNG"),
        ("cmyk", "32 bits a pixel, with CMYK colours"),
        ("alpha-masks", "with bit masks for its colours that are not supported"),
        ("masks-32-gaps-40", "with bit masks for its colours that are not supported"),
        ("masks-32-gaps-124", "a header of 124 bytes, of 32 bits a pixel, with bit masks"),
        ("os2-2-16", "a BMP with a short second header of OS/2; this kind"),
        ("os2-2-fax", "a BMP with the second header of OS/2, of 1 bits a pixel, compressed as a fax"),
        ("os2-2-rle-24", "of 24 bits a pixel, in runs of 24 bits"),
        ("48-bits", "of 48 bits a pixel, not compressed"),
        ("rle-8-ends-early", "its runs end in row 4 of 6"),
        ("rle-8-beyond-the-row", "12 pixels at column 0 of 11"),
    ] {
        let message = &messages[&format!("refused-{name}")];
        assert!(message.contains(words) && message.contains("convert it, as with `magick"), "{name}: {message}");
    }
    assert_eq!(messages.len(), 12);
}

#[test]
fn a_bmp_that_ends_early_is_an_error() {
    let short = tempfile::Builder::new().suffix(".bmp").tempfile().unwrap();
    for name in ["palette-4", "rle-8", "rle-4-top-down", "rgb-24", "masks-16-565-40", "os2-1-palette-1"] {
        let bytes = fs::read(folder("bmp").join(format!("{name}.bmp"))).unwrap();
        // Runs end with an odd byte and two more that hold no pixels.
        let least = if name.starts_with("rle") { 4 } else { 1 };
        for len in (0..=bytes.len() - least).rev().step_by(5) {
            fs::write(short.path(), &bytes[..len]).unwrap();
            for colour in [ImageColour::Rgb, ImageColour::Index] {
                assert!(read(short.path(), colour).is_err(), "{name}, {len} bytes");
            }
        }
    }
}

#[test]
fn headers_and_runs_of_a_bmp_may_say_anything() {
    let changed = tempfile::Builder::new().suffix(".bmp").tempfile().unwrap();
    for name in ["palette-4", "rle-8-skips", "rle-4-top-down", "masks-16-565-40", "os2-1-palette-1"] {
        let bytes = fs::read(folder("bmp").join(format!("{name}.bmp"))).unwrap();
        let places = (2..70.min(bytes.len())).chain(bytes.len() - 24..bytes.len());
        for (at, value) in places.flat_map(|at| [0, 1, 0x80, 0xff].map(|value| (at, value))) {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            fs::write(changed.path(), bytes).unwrap();
            for colour in [ImageColour::Rgb, ImageColour::Index] {
                if let Err(error) = read(changed.path(), colour) {
                    let is_caught_panic = error.message().contains("that its decoder can't take");
                    assert!(!is_caught_panic, "{name}, byte {at} = {value}: {error}");
                }
            }
        }
    }
}

#[test]
fn tiff_files_in_parts_are_what_numpy_and_pillow_read() {
    let folder = folder("tiff-parts");
    let expected: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    assert_eq!(expected.len(), 59);
    for (name, kind) in &expected {
        let pixels = read(&folder.join(name), ImageColour::Rgb).unwrap();
        assert_eq!(crc32fast::hash(&pixels), kind["exact"].as_u64().unwrap() as u32, "{name}");
    }
    // What Pillow has as indices.
    let indices = read(&folder.join("jpeg-palette.tiff"), ImageColour::Index).unwrap();
    let grey = read(&folder.join("jpeg-grey-strips.tiff"), ImageColour::Index).unwrap();
    let white = read(&folder.join("jpeg-white-strips.tiff"), ImageColour::Index).unwrap();
    assert!(grey.iter().zip(&white).all(|(grey, white)| grey ^ white == 255));
    assert_eq!(indices.len(), 360);
    assert!(read(&folder.join("jpeg-420-tiles.tiff"), ImageColour::Index).is_err());
}

#[test]
fn tiff_files_in_parts_that_are_not_decoded_say_what_they_are() {
    let messages = refused(&folder("tiff-parts"));
    for (name, words) in [
        ("planar-8-tiles", "a TIFF of RGB: 3 samples of 8 bits a pixel, each in a plane of its own, not compressed"),
        ("planar-16-tiles", "a TIFF of RGB: 3 samples of 16 bits a pixel, each in a plane of its own, not compressed"),
        ("jpeg-planes", "a TIFF of YCbCr: 3 samples of 8 bits a pixel, each in a plane of its own, compressed by JPEG"),
        ("planar-cmyk", "a TIFF of CMYK: 4 samples of 8 bits a pixel, each in a plane of its own, not compressed"),
        ("jpeg-subsampled", "a TIFF of RGB: 3 samples of 8 bits a pixel, compressed by JPEG"),
    ] {
        let message = &messages[&format!("refused-{name}")];
        assert!(message.contains(words) && message.contains("convert it, as with `magick"), "{name}: {message}");
    }
    let narrow = &messages["refused-jpeg-narrow"];
    assert!(narrow.contains("JPEG data of part 0: 19 x 18 pixels of 3 samples, not 20 x 18 of 3"), "{narrow}");
    assert!(messages["refused-jpeg-cut"].contains("damaged tiff: JPEG data of part 0: truncated"), "{messages:?}");
    assert!(messages["refused-jpeg-damaged"].contains("damaged tiff: JPEG data of part 0: "), "{messages:?}");
    assert_eq!(messages.len(), 8);
}

#[test]
fn tags_and_jpeg_data_of_a_tiff_may_say_anything() {
    let changed = tempfile::Builder::new().suffix(".tiff").tempfile().unwrap();
    let mut loaded = 0;
    for name in ["jpeg-420-tables-tiles", "jpeg-422-higher", "jpeg-planes-strips", "jpeg-long", "jpeg-palette"] {
        let bytes = fs::read(folder("tiff-parts").join(format!("{name}.tiff"))).unwrap();
        // Tags stand behind the data.
        let tags = bytes.len() - 240;
        let places = (0..tags).step_by(17).chain((tags..bytes.len()).step_by(2));
        for (at, value) in places.flat_map(|at| [0, 0x81].map(|value| (at, value))) {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            fs::write(changed.path(), bytes).unwrap();
            match read(changed.path(), ImageColour::Rgb) {
                Ok(_) => loaded += 1,
                Err(error) => {
                    let is_caught_panic = error.message().contains("that its decoder can't take");
                    assert!(!is_caught_panic, "{name}, byte {at} = {value}: {error}");
                }
            }
        }
        for len in (0..bytes.len() - 1).step_by(67) {
            fs::write(changed.path(), &bytes[..len]).unwrap();
            assert!(read(changed.path(), ImageColour::Rgb).is_err(), "{name}, {len} bytes");
        }
    }
    assert!(loaded > 500, "{loaded}");
}

/// An uncompressed TIFF, little-endian: of grey, or with an extra sample of this kind beside three others.
fn tiff((width, height): (u32, u32), bits: u16, photometric: u32, extra: Option<u32>, pixels: &[u8]) -> Vec<u8> {
    let samples = if extra.is_some() { 4 } else { 1 };
    let start = 8 + pixels.len() as u32;
    let mut tags = vec![
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, samples, u32::from(bits)),
        (259, 3, 1, 1),
        (262, 3, 1, photometric),
        (273, 4, 1, 8),
        (277, 3, 1, samples),
        (278, 4, 1, height),
        (279, 4, 1, pixels.len() as u32),
    ];
    tags.extend(extra.map(|kind| (338, 3, 1, kind)));
    if samples == 4 {
        tags[2].3 = start + 2 + 12 * tags.len() as u32 + 4;
    }
    let mut file = [&b"II*\0"[..], &start.to_le_bytes(), pixels, &(tags.len() as u16).to_le_bytes()].concat();
    for (tag, kind, count, value) in tags {
        file.extend([tag as u16, kind].into_iter().flat_map(u16::to_le_bytes));
        file.extend([count, value].into_iter().flat_map(u32::to_le_bytes));
    }
    file.extend([0; 4]);
    file.extend([bits; 4].into_iter().flat_map(u16::to_le_bytes));
    file
}

fn read_bytes(bytes: &[u8], colour: ImageColour) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tiff");
    fs::write(&path, bytes).unwrap();
    read(&path, colour)
}

// The expected numbers in these two tests are those of Pillow 13.0.

#[test]
fn maps_in_tiff_files_have_the_values_of_pillow_also_if_zero_is_white() {
    let values = [0, 1, 7, 100, 200, 255];
    let sixteen: Vec<u8> = values.iter().flat_map(|value| [*value, 0]).collect();
    for photometric in [0, 1] {
        assert_eq!(read_bytes(&tiff((3, 2), 16, photometric, None, &sixteen), ImageColour::Index).unwrap(), values);
    }
    let inverted = values.map(|value| 255 - value);
    assert_eq!(read_bytes(&tiff((3, 2), 8, 0, None, &values), ImageColour::Index).unwrap(), inverted);
    let bits = [0b1011_0000, 0b0010_0000, 0b1110_0000];
    let ones = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0];
    assert_eq!(read_bytes(&tiff((4, 3), 1, 1, None, &bits), ImageColour::Index).unwrap(), ones);
    let zeros = ones.map(|one| 1 - one);
    assert_eq!(read_bytes(&tiff((4, 3), 1, 0, None, &bits), ImageColour::Index).unwrap(), zeros);
}

#[test]
fn colours_that_are_multiplied_by_opacity_are_divided_by_it() {
    let pixels = [100, 50, 0, 128, 10, 200, 30, 255, 7, 7, 7, 0, 200, 200, 200, 100];
    let divided = [199, 99, 0, 10, 200, 30, 0, 0, 0, 255, 255, 255];
    let plain = [100, 50, 0, 10, 200, 30, 7, 7, 7, 200, 200, 200];
    for (extra, expected) in [(1, divided), (2, plain), (0, plain)] {
        let file = tiff((4, 1), 8, 2, Some(extra), &pixels);
        assert_eq!(read_bytes(&file, ImageColour::Rgb).unwrap(), expected, "{extra}");
    }
    let sixteen: Vec<u8> = pixels.iter().flat_map(|value| [*value, *value]).collect();
    let found = read_bytes(&tiff((4, 1), 16, 2, Some(1), &sixteen), ImageColour::Rgb).unwrap();
    // Pillow drops the lower bits first, where we round the quotient.
    assert_eq!(found, [199, 100, 0, 10, 200, 30, 0, 0, 0, 255, 255, 255]);
}

#[test]
fn samples_of_12_bits_are_refused_by_name() {
    let error = read_bytes(&tiff((2, 1), 12, 1, None, &[0x12, 0x3a, 0xbc]), ImageColour::Rgb).unwrap_err();
    let message = error.message();
    assert!(message.contains("12 bits a pixel") && message.contains("convert it, as with `magick"), "{message}");
}

/// A TIFF of 8-bit RGB with more samples, little-endian: in tiles of 16 x 16, or in one strip.
fn with_extras(
    (width, height): (u32, u32),
    extras: &[u8],
    is_tiled: bool,
    predictor: u32,
    value: impl Fn(u32, u32, u32) -> u8,
) -> Vec<u8> {
    let samples = 3 + extras.len() as u32;
    let (across, down) = if is_tiled { (16, 16) } else { (width, height) };
    let mut parts = Vec::new();
    for (top, left) in
        (0..height).step_by(down as usize).flat_map(|y| (0..width).step_by(across as usize).map(move |x| (y, x)))
    {
        let mut part = Vec::new();
        for y in top..top + down {
            let row: Vec<u8> = (left..left + across)
                .flat_map(|x| (0..samples).map(move |s| (x, s)))
                .map(|(x, s)| value(x, y, s))
                .collect();
            let before = |at: usize| at.checked_sub(samples as usize).map_or(0, |at| row[at]);
            let predicted = row.iter().enumerate().map(|(at, value)| value.wrapping_sub(before(at)));
            part.extend(predicted.zip(&row).map(|(predicted, value)| if predictor == 2 { predicted } else { *value }));
        }
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &part).unwrap();
        parts.push(packed.finish().unwrap());
    }
    let (mut file, mut starts, mut lengths) = (b"II*\0\0\0\0\0".to_vec(), Vec::new(), Vec::new());
    for part in &parts {
        starts.push(file.len() as u32);
        lengths.push(part.len() as u32);
        file.extend(part);
    }
    let longs = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let shorts =
        |numbers: &[u32]| numbers.iter().flat_map(|number| (*number as u16).to_le_bytes()).collect::<Vec<u8>>();
    let extras: Vec<u32> = extras.iter().map(|extra| u32::from(*extra)).collect();
    let mut tags = vec![
        (256, 4, longs(&[width])),
        (257, 4, longs(&[height])),
        (258, 3, shorts(&vec![8; samples as usize])),
        (259, 3, shorts(&[8])),
        (262, 3, shorts(&[2])),
        (277, 3, shorts(&[samples])),
        (317, 3, shorts(&[predictor])),
        (338, 3, shorts(&extras)),
    ];
    match is_tiled {
        true => tags.extend([
            (322, 4, longs(&[across])),
            (323, 4, longs(&[down])),
            (324, 4, longs(&starts)),
            (325, 4, longs(&lengths)),
        ]),
        false => tags.extend([(273, 4, longs(&starts)), (278, 4, longs(&[height])), (279, 4, longs(&lengths))]),
    }
    tags.sort_by_key(|(tag, ..)| *tag);
    let placed: Vec<(u16, u16, u32, [u8; 4])> = tags
        .into_iter()
        .map(|(tag, kind, bytes)| {
            let count = bytes.len() as u32 / if kind == 3 { 2 } else { 4 };
            let mut inside = [0; 4];
            match bytes.len() <= 4 {
                true => inside[..bytes.len()].copy_from_slice(&bytes),
                false => {
                    inside = (file.len() as u32).to_le_bytes();
                    file.extend(bytes);
                }
            }
            (tag, kind, count, inside)
        })
        .collect();
    let at = file.len() as u32;
    file[4..8].copy_from_slice(&at.to_le_bytes());
    file.extend((placed.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in placed {
        file.extend([tag, kind].into_iter().flat_map(u16::to_le_bytes));
        file.extend(count.to_le_bytes());
        file.extend(value);
    }
    file.extend([0; 4]);
    file
}

#[test]
fn a_sample_beside_the_colours_moves_none_of_them() {
    let value = |x: u32, y: u32, sample: u32| (x * 31 + y * 57 + sample * 101) as u8;
    let (width, height) = (21, 19);
    let expected: Vec<u8> =
        (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |sample| value(x, y, sample)))).collect();
    for (is_tiled, predictor) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
        for extra in [0, 2] {
            let file = with_extras((width, height), &[extra], is_tiled, predictor, value);
            let found = read_bytes(&file, ImageColour::Rgb).unwrap();
            assert!(found == expected, "{is_tiled} {predictor} {extra}");
        }
        let file = with_extras((width, height), &[2, 0], is_tiled, predictor, value);
        match read_bytes(&file, ImageColour::Rgb) {
            Ok(found) => assert!(found == expected && !is_tiled && predictor == 1, "{is_tiled} {predictor}"),
            Err(error) => assert!(error.message().contains("5 samples of 8 bits a pixel"), "{error}"),
        }
    }
}
