use png::{BitDepth, ColorType, Compression, Encoder, Filter};

use super::super::container::header;
use super::super::stored::Region;
use super::Png;
use crate::random::RandomKey;

const FILTERS: [Filter; 6] = [Filter::NoFilter, Filter::Sub, Filter::Up, Filter::Avg, Filter::Paeth, Filter::Adaptive];
const COLOURS: [ColorType; 4] = [ColorType::Grayscale, ColorType::GrayscaleAlpha, ColorType::Rgb, ColorType::Rgba];

/// Random bytes, or, if `is_smooth`, some that change slowly.
fn encode(
    (width, height): (u32, u32),
    colour: ColorType,
    filter: Filter,
    compression: Compression,
    seed: u64,
) -> Vec<u8> {
    let key = RandomKey::new(seed);
    let is_smooth = !seed.is_multiple_of(3);
    let stride = width as usize * colour.samples();
    let noise = |at: usize| key.bits(at as u64) as u8;
    let pixels: Vec<u8> = (0..stride * height as usize)
        .map(|at| if is_smooth { (at % stride + at / stride) as u8 ^ noise(at) & 7 } else { noise(at) })
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(compression);
    encoder.set_filter(filter);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

/// The result of the plain decoder for a file, and that of the library.
fn both(bytes: &[u8], region: Option<Region>) -> Option<[Option<Vec<u8>>; 2]> {
    let header = header(bytes).ok()?;
    let region = region.unwrap_or(Region::whole(&header));
    let mut png = Png::default();
    let (mut plain, mut library) = (vec![1; region.bytes()], vec![2; region.bytes()]);
    let plain = png.plain.decode(bytes, &header, region, &mut plain).map(|()| plain);
    let library = png.decode_by_library(bytes, &header, region, &mut library).ok().map(|()| library);
    Some([plain, library])
}

fn is_same(bytes: &[u8], region: Option<Region>) -> bool {
    let [plain, library] = both(bytes, region).expect("a header");
    plain.is_some() && plain == library
}

/// The same file with other chunks: `change` gets kind and data of each chunk, and returns the chunks to write.
fn rewritten(bytes: &[u8], mut change: impl FnMut([u8; 4], &[u8]) -> Vec<([u8; 4], Vec<u8>)>) -> Vec<u8> {
    let (signature, mut rest) = bytes.split_at(8);
    let mut all = signature.to_vec();
    while let Some((len, behind)) = rest.split_first_chunk::<4>() {
        let len = u32::from_be_bytes(*len) as usize;
        for (kind, data) in change(behind[..4].try_into().unwrap(), &behind[4..4 + len]) {
            all.extend((data.len() as u32).to_be_bytes());
            let chunk = [&kind[..], &data].concat();
            all.extend(&chunk);
            all.extend(crc32fast::hash(&chunk).to_be_bytes());
        }
        rest = &behind[len + 8..];
    }
    all
}

#[test]
fn plain_files_become_what_the_library_makes_of_them() {
    let key = RandomKey::new(7);
    let mut seed = 0;
    for colour in COLOURS {
        for filter in FILTERS {
            for compression in [Compression::NoCompression, Compression::Fast, Compression::High] {
                for _ in 0..6 {
                    seed += 1;
                    let draw = |nth: u64, most: u64| 1 + (key.with(seed).bits(nth) % most) as u32;
                    let (width, height) = (draw(0, 70), draw(1, 70));
                    let bytes = encode((width, height), colour, filter, compression, seed);
                    let what = format!("{colour:?} {filter:?} {width} x {height}");
                    assert!(is_same(&bytes, None), "{what}");
                    let (w, h) = (draw(2, width.into()), draw(3, height.into()));
                    let (x, y) = (draw(4, (width - w + 1).into()) - 1, draw(5, (height - h + 1).into()) - 1);
                    let region = Region { x, y, width: w, height: h };
                    assert!(is_same(&bytes, Some(region)), "{what} {region:?}");
                }
            }
        }
    }
}

#[test]
fn images_are_larger_than_the_window_and_refer_far_back() {
    for (size, colour) in [((3001, 90), ColorType::Rgba), ((40_000, 5), ColorType::Rgb), ((9, 40_000), ColorType::Rgb)]
    {
        for (seed, compression) in [(1, Compression::NoCompression), (2, Compression::Fast), (3, Compression::High)] {
            let bytes = encode(size, colour, Filter::Paeth, compression, seed);
            assert!(is_same(&bytes, None), "{size:?} {seed}");
        }
    }
}

#[test]
fn data_is_cut_into_chunks_anywhere() {
    let bytes = encode((31, 17), ColorType::Rgb, Filter::Adaptive, Compression::Fast, 4);
    for size in [1, 2, 3, 7, 100] {
        let in_pieces = rewritten(&bytes, |kind, data| match &kind {
            b"IHDR" => vec![(kind, data.to_vec()), (*b"tEXt", b"Title\0none".to_vec())],
            b"IDAT" => data.chunks(size).flat_map(|piece| [(kind, piece.to_vec()), (kind, vec![])]).collect(),
            _ => vec![(kind, data.to_vec())],
        });
        assert!(is_same(&in_pieces, None), "{size}");
    }
}

/// Whatever is wrong with a file, the plain decoder refuses it, or it says the same as the library.
#[test]
fn nothing_is_accepted_that_the_library_refuses() {
    let (mut refused, mut accepted) = (0, 0);
    let mut check = |bytes: &[u8], what: &str| match both(bytes, None) {
        Some([Some(plain), library]) => {
            assert!(library.as_ref() == Some(&plain), "{what}: {}", library.is_some());
            accepted += 1;
        }
        _ => refused += 1,
    };
    for (seed, colour) in (0..).zip(COLOURS) {
        let bytes = encode((13, 11), colour, Filter::Adaptive, Compression::Fast, seed);
        for at in 8..bytes.len() {
            check(&bytes[..at], &format!("{colour:?} cut off at {at}"));
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                check(&damaged, &format!("{colour:?} bit {bit} of {at}"));
            }
        }
        // With right checksums of the chunks, so that the data itself is looked at.
        let idat = bytes.windows(4).position(|kind| kind == b"IDAT").unwrap();
        let len = u32::from_be_bytes(bytes[idat - 4..idat].try_into().unwrap()) as usize;
        for at in 0..len {
            for bit in 0..8 {
                let damaged = rewritten(&bytes, |kind, data| {
                    let mut data = data.to_vec();
                    if kind == *b"IDAT" {
                        data[at] ^= 1 << bit;
                    }
                    vec![(kind, data)]
                });
                check(&damaged, &format!("{colour:?} bit {bit} of {at} in the data"));
            }
            let cut = |kind: [u8; 4], data: &[u8]| if kind == *b"IDAT" { data[..at].to_vec() } else { data.to_vec() };
            check(
                &rewritten(&bytes, |kind, data| vec![(kind, cut(kind, data))]),
                &format!("{colour:?} {at} of the data"),
            );
        }
        let more = |kind: [u8; 4], data: &[u8], more: &[u8]| {
            if kind == *b"IDAT" { [data, more].concat() } else { data.to_vec() }
        };
        check(&rewritten(&bytes, |kind, data| vec![(kind, more(kind, data, b"more"))]), "more data");
    }
    assert!(accepted < 50 && refused > 10_000, "{accepted} {refused}");
}
