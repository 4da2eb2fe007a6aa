//! The reference is Pillow, in `tests/images/jpeg.rs`. These tests need more than files: other processors, and single
//! rules.

use super::huffman::Table;
use super::*;
use crate::decode::image::baseline;
use crate::random::RandomKey;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn decode(decoder: &mut Decoder, bytes: &[u8]) -> Result<(Vec<u8>, Damages)> {
    let header = super::super::container::header(bytes)?;
    let whole = Region::whole(&header);
    let mut pixels = vec![0; whole.bytes()];
    let damages = decoder.decode(bytes, (header.width, header.height), whole, &mut pixels)?;
    Ok((pixels, damages))
}

#[test]
fn files_of_the_other_decoder_have_the_same_pixels_here_and_no_damage() {
    let mut decoder = Decoder::default();
    for name in ["photos/china.jpg", "photos/flower.jpg", "photos/rocket.jpg", "images/grey.jpg", "images/rgb.jpg"] {
        let bytes = fixture(name);
        let (pixels, damages) = decode(&mut decoder, &bytes).unwrap();
        let whole = Region::whole(&super::super::container::header(&bytes).unwrap());
        let mut expected = vec![0; whole.bytes()];
        baseline::Decoder::default().decode(&bytes, whole, 3, &mut expected, 3 * whole.width as usize).unwrap();
        assert!(pixels == expected && damages.is_empty(), "{name}");
    }
}

#[test]
fn a_region_has_the_pixels_that_it_has_in_the_whole_image() {
    let (key, mut decoder, mut progressive) = (RandomKey::new(5), Decoder::default(), 0);
    let folder = format!("{}/fixtures/jpeg", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for (nth, path) in names.iter().enumerate() {
        let bytes = std::fs::read(path).unwrap();
        let Ok((pixels, damages)) = decode(&mut decoder, &bytes) else { continue };
        let header = super::super::container::header(&bytes).unwrap();
        let whole = Region::whole(&header);
        progressive += u32::from(survey(&bytes).is_ok_and(|survey| survey.is_progressive));
        for round in 0..40 {
            let key = key.with((nth * 40 + round) as u64);
            let part = |nth: u64, most: u32| {
                let len = 1 + key.bits(nth) as u32 % most;
                (key.bits(nth + 1) as u32 % (most - len + 1), len)
            };
            let ((x, width), (y, height)) = (part(0, whole.width), part(2, whole.height));
            let region = Region { x, y, width, height };
            let mut found = vec![0; region.bytes()];
            let seen = decoder.decode(&bytes, (header.width, header.height), region, &mut found).unwrap();
            assert!(seen.is_empty() || !damages.is_empty(), "{}: {region:?}", path.display());
            let expected = (y..y + height).flat_map(|y| {
                let at = 3 * (y * whole.width + x) as usize;
                &pixels[at..at + 3 * width as usize]
            });
            assert!(found.iter().eq(expected), "{}: {region:?}", path.display());
        }
    }
    assert!(progressive >= 8, "{progressive} progressive files");
}

/// Pillow 13.0 loads 9 of the 69 fixtures that end with their marker if the marker is replaced by one zero, and 46 if
/// it is replaced by seven or more: all with these pixels. Whether it loads a file depends on how far it happened to
/// read ahead.
#[test]
fn in_place_of_the_end_marker_any_number_of_zeros_may_stand() {
    let mut decoder = Decoder::default();
    for name in ["photos/china.jpg", "photos/flower.jpg", "images/grey.jpg", "images/rgb.jpg", "jpeg/progressive.jpg"] {
        let whole = fixture(name);
        let (expected, _) = decode(&mut decoder, &whole).unwrap();
        let (data, end) = whole.split_at(whole.len() - 2);
        assert_eq!(end, [0xff, 0xd9]);
        for zeros in 0..12 {
            let found = decode(&mut decoder, &[data, &vec![0; zeros][..]].concat());
            if zeros == 0 || name.contains("progressive") {
                assert!(found.unwrap_err().to_string().contains("only a part of the picture"), "{name}: {zeros}");
                continue;
            }
            let (pixels, damages) = found.unwrap();
            assert!(pixels == expected, "{name}: {zeros} zeros");
            let kinds: Vec<_> = damages.iter().map(|damage| damage.as_str()).collect();
            assert_eq!(kinds.last(), Some(&"no end-of-image marker"), "{name}: {zeros} zeros");
        }
    }
}

#[test]
fn restart_markers_may_be_announced_between_scans() {
    let mut decoder = Decoder::default();
    for name in ["progressive", "cmyk-2x1-1x1-1x1-1x1-progressive"] {
        let bytes = fixture(&format!("jpeg/{name}.jpg"));
        let header = super::super::container::header(&bytes).unwrap();
        let size = (header.width, header.height);
        let top = Region { height: 1, ..Region::whole(&header) };
        let mut expected = vec![0; top.bytes()];
        decoder.decode(&bytes, size, top, &mut expected).unwrap();
        let scans: Vec<usize> = (0..bytes.len() - 1).filter(|at| bytes[*at..].starts_with(&[0xff, 0xda])).collect();
        assert!(scans.len() > 4, "{name}");
        for at in scans {
            // In intervals that are longer than any scan, so that none needs a marker.
            let announced = [&bytes[..at], &[0xff, 0xdd, 0, 4, 0xff, 0xff], &bytes[at..]].concat();
            let mut pixels = vec![0; top.bytes()];
            let damages = decoder.decode(&announced, size, top, &mut pixels).unwrap();
            assert!(damages.is_empty() && pixels == expected, "{name}: {at}");
        }
    }
}

#[test]
fn every_processor_gives_the_same_pixels() {
    let mut decoders = [Decoder::default(), Decoder { output: Output::new(Kernels::portable()), ..Decoder::default() }];
    for name in
        ["colour-finer", "colour-mixed", "flipped-bit-coarse", "cmyk-1x1-2x2-1x2-2x1", "flipped-bits-progressive"]
    {
        let bytes = fixture(&format!("jpeg/{name}.jpg"));
        let [a, b] = decoders.each_mut().map(|decoder| decode(decoder, &bytes).unwrap());
        assert!(a == b, "{name}");
    }
}

#[test]
fn damage_is_never_a_panic() {
    let (key, mut decoder) = (RandomKey::new(12), Decoder::default());
    let names = ["scans-0-12", "progressive-restarts", "cmyk-2x2-1x1-1x1-2x2", "restart-far", "colour-wider"];
    let files = names.map(|name| fixture(&format!("jpeg/{name}.jpg")));
    let mut loaded = 0;
    for round in 0..3000u64 {
        let key = key.with(round);
        let mut bytes = files[round as usize % files.len()].clone();
        for change in 0..1 + key.bits(0) % 4 {
            let at = (key.bits(3 * change + 1) % bytes.len() as u64) as usize;
            match key.bits(3 * change + 2) % 4 {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, key.bits(3 * change + 3) as u8),
                _ => bytes[at] = key.bits(3 * change + 3) as u8,
            }
        }
        if let Ok(header) = super::super::container::header(&bytes)
            && header.check(1 << 16).is_ok()
        {
            loaded += u32::from(decode(&mut decoder, &bytes).is_ok());
            drop(survey(&bytes));
            let (x, y) = (key.bits(50) as u32 % header.width, key.bits(51) as u32 % header.height);
            let part = Region { x, y, width: (header.width - x).div_ceil(3), height: (header.height - y).div_ceil(3) };
            let mut pixels = vec![0; part.bytes()];
            drop(decoder.decode(&bytes, (header.width, header.height), part, &mut pixels));
        }
    }
    assert!(loaded > 1000, "{loaded}");
}

#[test]
fn the_usual_tables_are_codes() {
    for (class, tables) in huffman::STANDARD.iter().enumerate() {
        for table in tables {
            assert_eq!(table[..16].iter().map(|count| usize::from(*count)).sum::<usize>(), table.len() - 16);
            assert!(Table::new(table, class == 0).is_some());
        }
    }
}
