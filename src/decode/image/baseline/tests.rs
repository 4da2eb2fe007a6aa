//! The judge is the library decoder, which gives the pixels of libjpeg-turbo.

use libjpeg_turbo_rs::{Encoder, PixelFormat, Subsampling};

use super::*;
use crate::decode::image::jpeg::LibjpegTurbo;
use crate::decode::image::{DecodeImage, Scale, copy_region, header};
use crate::random::RandomKey;

/// Decodes a region with gaps between its rows, and takes these out. None if the file is not ours.
fn decode(decoder: &mut Decoder, bytes: &[u8], region: Region) -> Ours<Vec<u8>> {
    let row = 3 * region.width as usize;
    let stride = row + 7;
    let mut into = vec![0xaa; stride * region.height as usize];
    decoder.decode(bytes, region, &mut into, stride)?;
    let rows = into.chunks_exact(stride);
    assert!(rows.clone().all(|into| into[row..] == [0xaa; 7]), "only the region is written");
    Ok(rows.flat_map(|into| &into[..row]).copied().collect())
}

/// What the library makes of a whole file.
fn judge(bytes: &[u8]) -> crate::error::Result<(Region, Vec<u8>)> {
    let header = header(bytes)?;
    let whole = Region::whole(&header);
    let mut pixels = vec![0; whole.bytes()];
    LibjpegTurbo::default().decode(bytes, &header, Scale::FULL, whole, &mut pixels)?;
    Ok((whole, pixels))
}

fn decoders() -> [(&'static str, Decoder); 2] {
    [("portable", Decoder::with(Kernels::portable())), ("dispatched", Decoder::default())]
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

/// Compares the whole and some regions with what the library gives.
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

#[test]
fn all_samplings_qualities_tables_and_restarts_are_those_of_the_library() {
    let (width, height) = (137, 91);
    let pixels = picture(width, height, 1);
    for (what, mut decoder) in decoders() {
        for subsampling in SUBSAMPLINGS {
            for quality in [1, 5, 20, 50, 75, 90, 96, 100] {
                for (optimised, restart) in [(false, 0), (true, 0), (true, 1), (false, 7)] {
                    let encoder = Encoder::new(&pixels, width, height, PixelFormat::Rgb).quality(quality);
                    let encoder = encoder.subsampling(subsampling).optimize_huffman(optimised);
                    let encoder = encoder.restart_blocks(restart).force_baseline(true);
                    let what = format!("{what} {subsampling:?} q{quality} optimised: {optimised} restarts: {restart}");
                    check(&what, &mut decoder, &encoder.encode().unwrap(), 4);
                }
            }
        }
    }
}
