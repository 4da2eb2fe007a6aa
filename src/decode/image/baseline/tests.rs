//! The reference is the library decoder, which gives the pixels of libjpeg-turbo.

use std::ops::Range;

use libjpeg_turbo_rs::{Encoder, PixelFormat, Subsampling};

use super::portable::Quantisation;
use super::*;
use crate::decode::image::decoder::{DecodeImage, copy_region};
use crate::decode::image::header;
use crate::decode::image::jpeg::LibjpegTurbo;
use crate::decode::image::stored::Scale;
use crate::memory::MemoryBudget;
use crate::random::RandomKey;

/// Decodes a region with gaps between its rows, and removes the gaps. None if this decoder does not support the file.
fn decode(decoder: &mut Decoder, bytes: &[u8], region: Region) -> Ours<Vec<u8>> {
    let row = 3 * region.width as usize;
    let stride = row + 7;
    let mut into = vec![0xaa; stride * region.height as usize];
    decoder.decode(bytes, region, 3, &mut into, stride)?;
    let rows = into.chunks_exact(stride);
    assert!(rows.clone().all(|into| into[row..] == [0xaa; 7]), "only the region is written");
    let pixels: Vec<u8> = rows.flat_map(|into| &into[..row]).copied().collect();
    let mut grey = vec![0; region.pixels() as usize];
    if decoder.decode(bytes, region, 1, &mut grey, region.width as usize).is_ok() {
        let pixels = pixels.as_chunks::<3>().0;
        assert!(pixels.iter().zip(&grey).all(|(pixel, grey)| *pixel == [*grey; 3]), "one channel is as three");
    }
    Ok(pixels)
}

/// The result of the library for a whole file.
fn judge(bytes: &[u8]) -> crate::error::Result<(Region, Vec<u8>)> {
    let header = header(bytes)?;
    let whole = Region::whole(&header);
    let mut pixels = vec![0; whole.bytes()];
    LibjpegTurbo::default().decode(bytes, &header, Scale::FULL, whole, &mut pixels)?;
    Ok((whole, pixels))
}

/// A decoder with an index of at most so many bytes.
fn indexed(budget: &MemoryBudget, bytes: u64) -> Decoder {
    let mut decoder = Decoder::default();
    decoder.set_index(|| budget.spare(Index::new), bytes);
    decoder
}

fn decoders() -> [(&'static str, Decoder); 3] {
    [
        ("portable", Decoder::with(Kernels::portable())),
        ("dispatched", Decoder::default()),
        ("indexed", indexed(&MemoryBudget::unlimited(), u64::MAX)),
    ]
}

/// The whole, and `count` boxes of an image of that size: of one pixel up to everything, and some at the edges.
fn regions(whole: Region, count: u64, seed: u64) -> Vec<Region> {
    let key = RandomKey::new(seed);
    let boxes = (0..count).map(|index| {
        let draw = |counter: u64, most: u32| (key.with(index).bits(counter) % u64::from(most)) as u32;
        let shrink = [1, 2, 8][index as usize % 3];
        let (width, height) = (1 + draw(0, whole.width.div_ceil(shrink)), 1 + draw(1, whole.height.div_ceil(shrink)));
        let place = |counter: u64, left: u32| match draw(counter + 8, 4) {
            0 => 0,
            1 => left,
            _ => draw(counter, left + 1),
        };
        Region { x: place(2, whole.width - width), y: place(3, whole.height - height), width, height }
    });
    std::iter::once(whole).chain(boxes).collect()
}

/// Compares the whole image and some regions with the library's result.
fn check(what: &str, decoder: &mut Decoder, bytes: &[u8], count: u64) {
    let (whole, pixels) = judge(bytes).unwrap();
    for region in regions(whole, count, bytes.len() as u64) {
        let mut expected = vec![0; region.bytes()];
        copy_region(&pixels, whole.width, region, &mut expected);
        let found = decode(decoder, bytes, region).unwrap_or_else(|NotOurs(why)| panic!("{what} {region:?}: {why}"));
        let differing = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
        assert_eq!(differing, 0, "{what} {region:?} of {whole:?}: {differing} bytes of {}", found.len());
    }
}

/// A picture with smooth and rough parts, and colour that changes from pixel to pixel.
fn picture(width: usize, height: usize, seed: u64) -> Vec<u8> {
    let key = RandomKey::new(seed);
    (0..width * height * 3)
        .map(|i| {
            let (x, y, c) = (i / 3 % width, i / 3 / width, i % 3);
            let smooth = (x * (c + 1) * 3 + y * 2) as u8;
            let rough = key.bits(i as u64) as u8;
            let edge = if (x / 5 + y / 7) % 2 == 0 { 0 } else { 200 };
            match (x / 16 + y / 16) % 4 {
                0 => smooth,
                1 => smooth ^ (rough & 63),
                2 => edge,
                _ => edge ^ (rough & 15),
            }
        })
        .collect()
}

const SUBSAMPLINGS: [Subsampling; 3] = [Subsampling::S444, Subsampling::S422, Subsampling::S420];

#[test]
fn photographs_are_those_of_the_library() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/");
    for (what, mut decoder) in decoders() {
        for name in ["photos/china.jpg", "photos/flower.jpg", "photos/rocket.jpg", "images/grey.jpg", "images/rgb.jpg"]
        {
            check(&format!("{name}, {what}"), &mut decoder, &std::fs::read(format!("{folder}{name}")).unwrap(), 24);
        }
    }
}

/// How a test file is made. One number determines all of it.
#[derive(Debug)]
struct Kind {
    size: (usize, usize),
    /// None for grey.
    subsampling: Option<Subsampling>,
    quality: u8,
    has_own_tables: bool,
    /// MCUs between restart markers; 0 for none.
    restart: u16,
}

impl Kind {
    fn draw(key: RandomKey, sizes: (usize, usize)) -> Self {
        let draw = |counter: u64, most: usize| key.bits(counter) as usize % most;
        Self {
            size: (1 + draw(0, sizes.0), 1 + draw(1, sizes.1)),
            subsampling: SUBSAMPLINGS.get(draw(2, SUBSAMPLINGS.len() + 1)).copied(),
            quality: 1 + draw(3, 100) as u8,
            has_own_tables: draw(4, 2) == 0,
            restart: [0, 0, 1, 2, 5, 12][draw(5, 6)],
        }
    }

    fn encode(&self) -> Vec<u8> {
        let (width, height) = self.size;
        let pixels = picture(width, height, (width * height) as u64);
        let grey: Vec<u8> = pixels.iter().step_by(3).copied().collect();
        let encoder = match self.subsampling {
            Some(subsampling) => Encoder::new(&pixels, width, height, PixelFormat::Rgb).subsampling(subsampling),
            None => Encoder::new(&grey, width, height, PixelFormat::Grayscale),
        };
        let encoder = encoder.quality(self.quality).optimize_huffman(self.has_own_tables).force_baseline(true);
        encoder.restart_blocks(self.restart).encode().unwrap()
    }

    /// Whether there are so few columns of colour that libjpeg does not interpolate them.
    fn is_too_narrow(&self) -> bool {
        matches!(self.subsampling, Some(Subsampling::S422 | Subsampling::S420)) && self.size.0 <= 4
    }

    /// Compares the whole image and `count` regions with the reference, with every version of the code.
    fn check(&self, decoders: &mut [(&'static str, Decoder)], count: u64) {
        let bytes = self.encode();
        for (what, decoder) in decoders {
            if self.is_too_narrow() {
                let region = Region { x: 0, y: 0, width: self.size.0 as u32, height: self.size.1 as u32 };
                assert!(decode(decoder, &bytes, region).is_err(), "{self:?}");
            } else {
                check(&format!("{what} {self:?}"), decoder, &bytes, count);
            }
        }
    }
}

#[test]
fn all_samplings_qualities_tables_and_restarts_are_those_of_the_library() {
    let mut decoders = decoders();
    for subsampling in SUBSAMPLINGS.map(Some).into_iter().chain([None]) {
        for quality in [1, 5, 20, 50, 75, 90, 96, 100] {
            for (has_own_tables, restart) in [(false, 0), (true, 0), (true, 1), (false, 7)] {
                Kind { size: (75, 53), subsampling, quality, has_own_tables, restart }.check(&mut decoders, 3);
            }
        }
    }
}

#[test]
fn wide_and_high_images_have_several_places_to_begin_at() {
    let mut decoders = decoders();
    for (index, size) in [(1000, 70), (70, 1000), (530, 300)].into_iter().enumerate() {
        for (subsampling, restart) in [(Subsampling::S444, 0), (Subsampling::S420, 50), (Subsampling::S422, 7)] {
            let has_own_tables = index == 0;
            Kind { size, subsampling: Some(subsampling), quality: 80, has_own_tables, restart }
                .check(&mut decoders, 40);
        }
    }
}

/// The rows of MCUs that must be read to decode a region now.
fn rows_to_read(decoder: &mut Decoder, bytes: &[u8], region: Region) -> Range<usize> {
    let area = Area::new(&Frame::read(bytes).unwrap(), region).unwrap();
    decoder.trace.clear();
    let limit = decoder.index_bytes;
    decoder.index.as_ref().and_then(|index| index.look_up(bytes, &area, &mut decoder.trace, limit));
    decoder.trace.first_row()..area.mcu_rows.end
}

#[test]
fn what_stands_before_a_region_is_read_once() {
    let kind = |quality| Kind { size: (400, 400), subsampling: None, quality, has_own_tables: false, restart: 0 };
    let (bytes, other) = (kind(80).encode(), kind(81).encode());
    let budget = MemoryBudget::new(1 << 20);
    let [mut decoder, mut second] = [(); 2].map(|()| indexed(&budget, 1 << 20));
    let region = |y: u32, height: u32| Region { x: 200, y, width: 100, height };
    let read = |decoder: &mut Decoder, region| {
        let rows = rows_to_read(decoder, &bytes, region);
        assert!(decode(decoder, &bytes, region).unwrap() == decode(&mut Decoder::default(), &bytes, region).unwrap());
        rows
    };
    assert_eq!(read(&mut decoder, region(80, 80)), 0..20);
    assert!(budget.used() > 0);
    // The last row was not read to its end; that before it is read again to find out where the next one begins.
    assert_eq!(read(&mut decoder, region(80, 72)), 10..19);
    assert_eq!(read(&mut second, region(240, 80)), 18..40);
    assert_eq!(read(&mut decoder, region(232, 80)), 29..39);
    assert_eq!(read(&mut decoder, region(0, 400)), 0..50);
    assert_eq!(read(&mut decoder, region(392, 8)), 49..50);
    assert_eq!(rows_to_read(&mut decoder, &other, region(240, 80)), 0..40);
    // Whoever needs the memory gets it, and leaves half as much.
    drop(budget.reserve(budget.limit(), "a ring slot").unwrap());
    assert_eq!(budget.used(), 0);
    assert_eq!(read(&mut decoder, region(240, 80)), 0..40);
    assert_eq!((read(&mut decoder, region(240, 80)), budget.used()), (0..40, 0));
    // A whole image has nothing before it.
    let mut decoder = indexed(&MemoryBudget::new(1 << 20), 1 << 20);
    for size in [(400, 400), (405, 405)] {
        let bytes = Kind { size, subsampling: Some(Subsampling::S420), ..kind(80) }.encode();
        let whole = Region { x: 0, y: 0, width: size.0 as u32, height: size.1 as u32 };
        decode(&mut decoder, &bytes, whole).unwrap();
        let last = Region { y: whole.height - 1, height: 1, ..whole };
        assert_eq!(rows_to_read(&mut decoder, &bytes, last).start, 0);
        decode(&mut decoder, &bytes, last).unwrap();
        assert!(rows_to_read(&mut decoder, &bytes, last).start > 20);
    }
}

#[test]
fn an_index_that_gave_its_memory_up_begins_again_with_half_as_much() {
    let files = (0..400).map(|file| {
        Kind { size: (100, 300 + file), subsampling: None, quality: 60, has_own_tables: false, restart: 0 }.encode()
    });
    let files: Vec<Vec<u8>> = files.collect();
    let budget = MemoryBudget::new(200_000);
    let mut decoder = indexed(&budget, 1 << 20);
    let region = Region { x: 1, y: 290, width: 5, height: 5 };
    let mut used = || {
        files.iter().for_each(|file| drop(decode(&mut decoder, file, region).unwrap()));
        budget.used()
    };
    let full = used();
    assert!(full > 150_000, "{full}");
    drop(budget.reserve(200_000, "a ring slot").unwrap());
    let half = used();
    assert!((1..=full / 2).contains(&half), "{half} of {full}");
}

#[test]
fn an_index_stays_within_its_limit_and_within_the_budget() {
    let files = (0..100).map(|file| {
        let size = (30 + file % 9, 400 + 31 * file);
        Kind { size, subsampling: None, quality: 60, has_own_tables: false, restart: 0 }.encode()
    });
    let files: Vec<Vec<u8>> = files.collect();
    for (limit, budget, most) in
        [(100_000, u64::MAX, 100_000), (u64::MAX, 50_000, 50_000), (1000, u64::MAX, 0), (0, 9, 0)]
    {
        let budget = MemoryBudget::new(budget);
        let mut decoder = indexed(&budget, limit);
        let region = Region { x: 1, y: 390, width: 5, height: 5 };
        files.iter().for_each(|file| drop(decode(&mut decoder, file, region).unwrap()));
        let known = files.iter().filter(|file| rows_to_read(&mut decoder, file, region).start > 0).count();
        assert!(
            budget.used() <= most && (known > 0) == (most > 0) && known < 100,
            "{known} files, {} bytes",
            budget.used()
        );
    }
}

#[test]
fn all_small_sizes_are_those_of_the_library() {
    let mut decoders = decoders();
    for subsampling in SUBSAMPLINGS.map(Some).into_iter().chain([None]) {
        for side in 1..=50 {
            for size in [(side, 1 + side % 19), (1 + side % 23, side)] {
                let kind = Kind { size, subsampling, quality: 90, has_own_tables: side % 2 == 0, restart: 0 };
                kind.check(&mut decoders, 2);
            }
        }
    }
}

/// In release mode: `cargo test --release --lib baseline -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn ten_thousand_kinds_of_files_are_those_of_the_library() {
    let (key, mut decoders) = (RandomKey::new(2), decoders());
    for index in 0..10_000 {
        Kind::draw(key.with(index), (200, 200)).check(&mut decoders, 6);
    }
}

/// The judge's judge: C's libjpeg-turbo.
#[cfg(feature = "turbojpeg")]
#[test]
fn all_kinds_of_files_are_those_of_c() {
    use crate::decode::image::turbojpeg::TurboJpeg;

    let (key, mut decoders, mut c) = (RandomKey::new(7), decoders(), TurboJpeg::default());
    for index in 0..400 {
        let kind = Kind::draw(key.with(index), (90, 70));
        let bytes = kind.encode();
        let header = header(&bytes).unwrap();
        let whole = Region::whole(&header);
        let mut expected = vec![0; whole.bytes()];
        c.decode(&bytes, &header, Scale::FULL, whole, &mut expected).unwrap();
        for (what, decoder) in decoders.iter_mut().filter(|_| !kind.is_too_narrow()) {
            assert!(decode(decoder, &bytes, whole).unwrap() == expected, "{what} {kind:?}");
        }
    }
}

#[test]
fn other_kinds_of_files_go_to_another_decoder() {
    let pixels = picture(40, 40, 3);
    let encoder = || Encoder::new(&pixels, 40, 40, PixelFormat::Rgb);
    let cmyk = [&pixels[..], &pixels[..1600]].concat();
    let refused = [
        ("progressive", encoder().progressive(true)),
        ("arithmetic", encoder().arithmetic(true)),
        ("4:4:0", encoder().subsampling(Subsampling::S440)),
        ("4:1:1", encoder().subsampling(Subsampling::S411)),
        ("16-bit quantisation", encoder().quality(1)),
        ("RGB", encoder().colorspace(libjpeg_turbo_rs::ColorSpace::Rgb)),
        ("CMYK", Encoder::new(&cmyk, 40, 40, PixelFormat::Cmyk)),
    ];
    let whole = Region { x: 0, y: 0, width: 40, height: 40 };
    let mut decoder = Decoder::default();
    for (what, encoder) in refused {
        let bytes = encoder.encode().unwrap();
        assert!(decode(&mut decoder, &bytes, whole).is_err(), "{what}");
    }
    let ours = encoder().encode().unwrap();
    assert!(decode(&mut decoder, &ours, whole).is_ok());
    assert!(decode(&mut decoder, &ours, Region { x: 1, ..whole }).is_err(), "a region that leaves the image");
    assert!(decode(&mut decoder, &[], whole).is_err());
    assert!(decoder.decode(&ours, whole, 3, &mut vec![0; 4799], 120).is_err(), "too little room");
}

#[test]
fn what_is_left_over_or_missing_goes_to_another_decoder() {
    let kind = Kind { size: (60, 60), subsampling: None, quality: 80, has_own_tables: false, restart: 8 };
    let bytes = kind.encode();
    let whole = Region { x: 0, y: 0, width: 60, height: 60 };
    let mut decoder = Decoder::default();
    assert!(decode(&mut decoder, &bytes, whole).is_ok());
    let end = bytes.len() - 2;
    assert_eq!(bytes[end..], [0xff, 0xd9]);
    let marker = memchr::memmem::find(&bytes, &[0xff, 0xd0]).unwrap();
    let with = |at: usize, gone: usize, new: &[u8]| [&bytes[..at], new, &bytes[at + gone..]].concat();
    let damaged = [
        ("no end", with(end, 2, &[])),
        ("a byte too many at the end", with(end, 0, &[0])),
        ("a byte too many in an interval", with(marker, 0, &[0])),
        ("a byte too few", with(end - 1, 1, &[])),
        ("another marker at the end", with(end, 2, &[0xff, 0xd8])),
        ("a marker out of turn", with(marker, 2, &[0xff, 0xd1])),
        ("a marker that is missing", with(marker, 2, &[])),
        ("fill bytes before a marker", with(marker, 0, &[0xff])),
    ];
    for (what, bytes) in damaged {
        assert!(decode(&mut decoder, &bytes, whole).is_err(), "{what}");
    }
    // What follows the image is not a part of it.
    assert!(decode(&mut decoder, &with(end + 2, 0, &[1, 2, 3]), whole).is_ok());
}

/// Changes a file in one of many ways.
fn mutate(bytes: &[u8], key: RandomKey) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for round in 0..1 + key.bits(0) % 3 {
        if bytes.len() < 16 {
            break;
        }
        let key = key.with(round);
        let draw = |counter: u64, most: usize| key.bits(counter) as usize % most.max(1);
        // Half of the damage goes into the headers, which are a small part of the file.
        let at = if draw(1, 2) == 0 { draw(2, bytes.len().min(700)) } else { draw(2, bytes.len()) };
        let len = 1 + draw(3, 8).min(bytes.len() - at - 1);
        match draw(4, 8) {
            0..3 => bytes[at] ^= 1 << draw(5, 8),
            3 => bytes[at] = draw(5, 256) as u8,
            4 => bytes[at] = [0, 1, 0xff, 0x7f, 0xd0, 0xd9, 0x11, 0x22][draw(5, 8)],
            5 => drop(bytes.drain(at..at + len)),
            6 => {
                let from = draw(5, bytes.len() - len);
                let piece = bytes[from..from + len].to_vec();
                bytes.splice(at..at, piece);
            }
            _ if draw(5, 4) == 0 => bytes.truncate(at.max(1)),
            _ => bytes[at..at + len].fill(draw(6, 256) as u8),
        }
    }
    bytes
}

/// Every damaged file that we decode is also decoded by the library, to the same pixels.
fn check_damaged(indices: Range<u64>, seed: u64) -> (u64, u64) {
    let key = RandomKey::new(seed);
    let (mut decoder, mut files) = (Decoder::default(), Vec::new());
    let (mut wholes, mut parts) = (0, 0);
    for index in indices {
        if index % 64 == 0 || files.is_empty() {
            let key = key.with(index / 64 * 64);
            files = (0..8).map(|file| Kind::draw(key.with(1000 + file), (80, 60)).encode()).collect();
        }
        let key = key.with(index);
        let bytes = mutate(&files[index as usize % 8], key);
        // The sizes that a loader would have looked at before. (The library panics on some damage.)
        let Ok(header) = header(&bytes) else { continue };
        if header.check(1 << 16).is_err() {
            continue;
        }
        let whole = Region::whole(&header);
        for region in regions(whole, 1, key.bits(9)) {
            let Ok(found) = decode(&mut decoder, &bytes, region) else { continue };
            let judged = std::panic::catch_unwind(|| judge(&bytes));
            let Ok(Ok((_, pixels))) = judged else {
                // Below a region, nobody looks.
                assert_ne!(region, whole, "file {index} of seed {seed}: only we decode it: {judged:?}");
                continue;
            };
            let mut expected = vec![0; region.bytes()];
            copy_region(&pixels, whole.width, region, &mut expected);
            assert!(found == expected, "file {index} of seed {seed}: other pixels in {region:?} of {whole:?}");
            *(if region == whole { &mut wholes } else { &mut parts }) += 1;
        }
    }
    (wholes, parts)
}

#[test]
fn numbers_that_leave_the_common_range_are_not_ours() {
    // A block whose rows below the first are zero: the library computes it in 32 bits, C's libjpeg-turbo in 16.
    check_damaged(317_956..317_957, 2);
}

#[test]
fn damaged_files_have_the_pixels_of_the_library_or_are_not_ours() {
    let (wholes, parts) = check_damaged(0..4000, 1);
    assert!(wholes > 50 && parts > 50, "{wholes} wholes and {parts} parts were compared");
}

#[test]
fn an_index_changes_nothing_about_damaged_files() {
    let key = RandomKey::new(11);
    let mut indexed = indexed(&MemoryBudget::unlimited(), u64::MAX);
    let (mut plain, mut good, mut bad) = (Decoder::default(), 0, 0);
    for index in 0..3000 {
        let key = key.with(index);
        let bytes = mutate(&Kind::draw(key.with(1), (300, 150)).encode(), key);
        let Ok(header) = header(&bytes) else { continue };
        if header.check(1 << 17).is_err() {
            continue;
        }
        for region in regions(Region::whole(&header), 5, key.bits(9)) {
            let [found, expected] = [&mut indexed, &mut plain].map(|decoder| decode(decoder, &bytes, region));
            assert!(found == expected, "file {index}, {region:?}: {:?}, {:?}", found.err(), expected.err());
            *(if found.is_ok() { &mut good } else { &mut bad }) += 1;
        }
    }
    assert!(good > 1000 && bad > 1000, "{good} good, {bad} bad");
}

/// In release mode: `cargo test --release --lib baseline -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_million_damaged_files_have_the_pixels_of_the_library_or_are_not_ours() {
    let (wholes, parts) = check_damaged(0..1_000_000, 2);
    println!("{wholes} wholes and {parts} parts were compared");
}

#[test]
fn every_processor_gives_the_same_samples() {
    let key = RandomKey::new(4);
    let (portable, dispatched) = (Kernels::portable(), Kernels::detect());
    let mut in_range = 0;
    for index in 0..3000 {
        let key = key.with(index);
        // From flat blocks to numbers that saturate everywhere.
        let table = std::array::from_fn(|i| 1 + (key.bits(i as u64) % [1, 20, 254][index as usize % 3]) as u8);
        let quantisation = Quantisation::new(&table);
        let blocks: Vec<Block> = (0..1 + index % 3)
            .map(|block| {
                // Every fifth time, there is nothing but mean values.
                let density = if index % 5 == 0 { 0 } else { key.bits(1000 + block) % 64 };
                std::array::from_fn(|i| {
                    let number = key.with(block).bits(i as u64);
                    let limit = i64::from(quantisation.limits[i]);
                    let range = if index % 7 == 0 { limit } else { limit.min(64) };
                    if i > 0 && (density == 0 || number >> 32 & 63 > density) {
                        0
                    } else {
                        (number as i64 % (range + 1)) as i16
                    }
                })
            })
            .collect();
        let stride = 8 * blocks.len() + 8;
        let [mut a, mut b] = [(); 2].map(|()| vec![0; 8 * stride]);
        let is_in_range = portable.inverse_dct(&blocks, &quantisation, &mut a, stride);
        assert_eq!(dispatched.inverse_dct(&blocks, &quantisation, &mut b, stride), is_in_range);
        in_range += u32::from(is_in_range);
        if !is_in_range {
            continue;
        }
        for (a, b) in a.chunks(stride).zip(b.chunks(stride)) {
            assert_eq!(a[..8 * blocks.len()], b[..8 * blocks.len()], "blocks {index}");
        }
        let mut beyond = blocks;
        let at = (key.bits(70) % 64) as usize;
        let limit = quantisation.limits[at];
        beyond[0][at] = [limit + 1, -limit - 1, i16::MIN, i16::MAX][index as usize % 4];
        assert!(!portable.inverse_dct(&beyond, &quantisation, &mut a, stride));
        assert!(!dispatched.inverse_dct(&beyond, &quantisation, &mut b, stride));

        let row = |counter: u64, len: usize| -> Vec<u8> {
            (0..len).map(|i| key.with(counter).bits(i as u64) as u8).collect()
        };
        let count = 16 * (1 + index as usize % 5);
        let (near, far) = (row(90, count + 32), row(91, count + 32));
        let [mut a, mut b] = [(); 2].map(|()| vec![0; 2 * count]);
        portable.upsample_width(&near, &mut a);
        dispatched.upsample_width(&near, &mut b);
        assert_eq!(a, b);
        portable.upsample_both(&near, &far, &mut a);
        dispatched.upsample_both(&near, &far, &mut b);
        assert_eq!(a, b);
    }
    assert!((1000..3000).contains(&in_range), "{in_range}");
}

#[test]
fn every_colour_is_the_same_on_every_processor_and_that_of_the_formula() {
    // All pairs of colour; the luma changes along.
    for blue in 0..=255u8 {
        let red: Vec<u8> = (0..=255).collect();
        for base in [0u8, 77, 180, 255] {
            let luma: Vec<u8> =
                red.iter().map(|red| base.wrapping_add(red.wrapping_mul(3)).wrapping_add(blue)).collect();
            let blues = vec![blue; 256];
            // 256 pixels, or so few that vectors are not full.
            for width in [256, 255, 33, 7] {
                let [mut a, mut b] = [(); 2].map(|()| vec![0; 3 * width]);
                Kernels::portable().to_rgb(&luma, &blues, &red, &mut a);
                Kernels::detect().to_rgb(&luma, &blues, &red, &mut b);
                assert_eq!(a, b);
            }
        }
    }
}

#[test]
fn steps_pass_over_what_single_symbols_say() {
    use super::huffman::{AcTable, DcTable};
    use super::scan::Bits;

    let key = RandomKey::new(6);
    for index in 0..200 {
        let bytes = Kind::draw(key.with(index), (30, 30)).encode();
        let frame = Frame::read(&bytes).unwrap();
        let component = frame.components()[0];
        let (mut dc, mut ac) = (DcTable::default(), AcTable::default());
        dc.build(frame.dc_table(component.dc).unwrap()).unwrap();
        ac.build(frame.ac_table(component.ac).unwrap()).unwrap();
        ac.build_steps();
        let tables = Tables { dc: &dc, ac: &ac };
        // Any bits at all: nearly all are codes, until some block has too many coefficients.
        let data: Vec<u8> = (0..400).map(|i| key.with(index).bits(i) as u8).collect();
        let (mut bits, mut before) = ([Bits::new(&data, 0); 2], [0; 2]);
        loop {
            let mut block = [0; 64];
            let decoded = entropy::decode(&mut bits[0], tables, &mut before[0], &mut block);
            let advanced = entropy::advance(&mut bits[1], tables, &mut before[1]);
            assert_eq!(decoded, advanced);
            if decoded.is_err() || bits[0].is_beyond(data.len() - 16) {
                break;
            }
            assert_eq!(before[0], before[1]);
            assert_eq!(bits[0].consumed(), bits[1].consumed());
        }
    }
}
