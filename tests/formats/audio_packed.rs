//! Sound in FLAC, MP3 and Ogg Vorbis files: against what libsndfile makes of it, cut, and damaged.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfeed::audio::{AudioCrop, AudioFiles, AudioOptions};
use ringfeed::field::Audio;
use ringfeed::formats::Formats;
use ringfeed::inspect::{Details, verify};
use ringfeed::memory::MemoryBudget;
use ringfeed::storage::Files;
use ringfeed::{Loader, Result};

const NAMES: [&str; 5] = ["mono-16.flac", "stereo-24.flac", "stereo.ogg", "mono.mp3", "stereo.mp3"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audio").join(name)
}

fn numbers(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(fixture(&format!("{name}.f32"))).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn details(name: &str) -> (u32, usize, u64) {
    details_of(&fixture(name))
}

fn details_of(path: &Path) -> (u32, usize, u64) {
    match Formats::new().inspect(path).unwrap().details {
        Details::Audio { rate, channels, frames } => (rate, channels, frames),
        other => panic!("{other:?}"),
    }
}

fn sound(path: &Path, audio: Audio) -> Result<Vec<f32>> {
    let batch = Loader::open(path)?.field("audio", audio).shuffle(1).build()?.next().unwrap()?;
    Ok(batch.tensor("audio").unwrap().as_slice::<f32>().unwrap().to_vec())
}

#[test]
fn sounds_have_the_values_of_libsndfile() {
    let expected = [(16_000, 1, 12_000), (44_100, 2, 4500), (22_050, 2, 6000), (16_000, 1, 16_000), (44_100, 2, 6000)];
    assert_eq!(NAMES.map(details), expected);
    for name in NAMES {
        let (rate, channels, frames) = details(name);
        let found = sound(&fixture(name), Audio::new(rate).channels(channels)).unwrap();
        let expected = numbers(name);
        assert_eq!((found.len(), expected.len()), (channels * frames as usize, channels * frames as usize), "{name}");
        let planes = (0..found.len()).map(|at| expected[at % frames as usize * channels + at / frames as usize]);
        let away = found.iter().zip(planes).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max);
        // The two that lose something round on the way, each decoder in its own places.
        let bound = if name.ends_with("flac") { 0.0 } else { 1e-4 };
        assert!(away <= bound, "{name}: {away}");
    }
}

#[test]
fn a_crop_is_a_part_of_the_whole_sound_to_the_last_bit() {
    for name in NAMES {
        let (rate, channels, frames) = details(name);
        let whole = sound(&fixture(name), Audio::new(rate).channels(channels)).unwrap();
        let length = 700;
        let centre = sound(&fixture(name), Audio::new(rate).channels(channels).length(length).crop(AudioCrop::Centre));
        let (centre, start) = (centre.unwrap(), (frames as usize - length) / 2);
        for channel in 0..channels {
            let part = &whole[channel * frames as usize + start..][..length];
            assert!(centre[channel * length..][..length] == *part, "{name}, channel {channel}");
        }
        let mono = sound(&fixture(name), Audio::new(8000)).unwrap();
        for crop in [AudioCrop::Random, AudioCrop::Centre, AudioCrop::Start] {
            let part = sound(&fixture(name), Audio::new(8000).length(200).crop(crop)).unwrap();
            assert!(mono.windows(200).any(|window| window == part), "{name}: resampled, {crop:?}");
        }
    }
}

/// Twenty times the frames of a file of MP3, one behind the other, without the tag that says how many there are.
fn long_mp3() -> Vec<u8> {
    let bytes = std::fs::read(fixture("mono.mp3")).unwrap();
    let tag = bytes.windows(4).position(|window| window == b"Info" || window == b"Xing").unwrap();
    let first = tag + bytes[tag..].windows(2).position(|pair| pair[0] == 0xff && pair[1] >> 1 == 0xf3 >> 1).unwrap();
    bytes[first..].repeat(20)
}

#[test]
fn a_crop_far_into_an_mp3_file_is_decoded_from_near_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.mp3");
    std::fs::write(&path, long_mp3()).unwrap();
    let whole = sound(&path, Audio::new(16_000)).unwrap();
    assert!(whole.len() > 300_000, "{}", whole.len());
    for crop in [AudioCrop::Centre, AudioCrop::Random] {
        let part = sound(&path, Audio::new(16_000).length(500).crop(crop)).unwrap();
        assert!(whole.windows(500).any(|window| window == part), "{crop:?}");
    }
    let centre = sound(&path, Audio::new(16_000).length(500).crop(AudioCrop::Centre)).unwrap();
    assert!(centre == whole[(whole.len() - 500) / 2..][..500]);
}

/// A FLAC file of these samples at 16,000 Hz, uncompressed in frames of 4096. (RFC 9639.)
fn long_flac(samples: &[i16]) -> Vec<u8> {
    fn crc(bytes: &[u8], bits: u32, polynomial: u32) -> u32 {
        let top = 1 << (bits - 1);
        bytes.iter().fold(0, |crc: u32, byte| {
            (0..8).fold(crc ^ u32::from(*byte) << (bits - 8), |crc, _| {
                let shifted = crc << 1;
                (if crc & top == 0 { shifted } else { shifted ^ polynomial }) & (top * 2 - 1)
            })
        })
    }
    let rate_channels_bits_length = 16_000u64 << 44 | 15 << 36 | samples.len() as u64;
    let mut bytes = b"fLaC\x80\0\0\x22\x10\0\x10\0\0\0\0\0\0\0".to_vec();
    bytes.extend(rate_channels_bits_length.to_be_bytes());
    bytes.extend([0; 16]);
    for (nth, part) in samples.chunks(4096).enumerate() {
        let number = char::from_u32(nth as u32).unwrap();
        let mut frame = vec![0xff, 0xf8, 0x70, 0x08];
        frame.extend(number.encode_utf8(&mut [0; 4]).as_bytes());
        frame.extend((part.len() as u16 - 1).to_be_bytes());
        frame.push(crc(&frame, 8, 0x07) as u8);
        frame.push(0x02);
        frame.extend(part.iter().flat_map(|sample| sample.to_be_bytes()));
        let check = crc(&frame, 16, 0x8005) as u16;
        bytes.extend(frame.iter().copied().chain(check.to_be_bytes()));
    }
    bytes
}

#[test]
fn of_a_long_flac_file_only_the_wanted_part_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.flac");
    let mut noise = 1u32;
    let samples: Vec<i16> = (0..2_000_000)
        .map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 16) as i16
        })
        .collect();
    let bytes = long_flac(&samples);
    std::fs::write(&path, &bytes).unwrap();
    let expected: Vec<f32> = samples.iter().map(|sample| f32::from(*sample) / 32_768.0).collect();
    let crop = |crop| Audio::new(16_000).length(10_000).crop(crop);
    for (kind, start) in [(AudioCrop::Start, 0), (AudioCrop::Centre, (samples.len() - 10_000) / 2)] {
        let mut loader = Loader::open(&path).unwrap().field("audio", crop(kind)).shield().build().unwrap();
        let batch = loader.next().unwrap().unwrap();
        assert!(
            batch.tensor("audio").unwrap().as_slice::<f32>().unwrap() == &expected[start..start + 10_000],
            "{kind:?}"
        );
        let read = loader.stats().stage("read").unwrap().bytes_read;
        assert!(read < bytes.len() as u64 / 8, "{kind:?}: {read} bytes");
    }
    let random = sound(&path, crop(AudioCrop::Random)).unwrap();
    let at = expected.windows(4).position(|window| window == &random[..4]).unwrap();
    assert!(random == expected[at..at + 10_000]);
    assert!(sound(&path, Audio::new(16_000)).unwrap() == expected, "whole");
    assert_eq!(details_of(&path), (16_000, 1, samples.len() as u64));

    // Cut off behind the middle: what lies in front of that is as it was.
    std::fs::write(&path, &bytes[..bytes.len() * 6 / 10]).unwrap();
    let centre = (samples.len() - 10_000) / 2;
    assert!(sound(&path, crop(AudioCrop::Centre)).unwrap() == expected[centre..centre + 10_000]);
    let error = sound(&path, Audio::new(16_000)).unwrap_err();
    assert!(error.path() == Some(&path) && error.message().contains("cut off or damaged"), "{error}");
    // One bit of the middle: the part that has it is refused, and no other.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let error = sound(&path, crop(AudioCrop::Centre)).unwrap_err();
    assert!(error.path() == Some(&path) && error.message().contains("damaged"), "{error}");
    assert!(sound(&path, crop(AudioCrop::Start)).unwrap() == expected[..10_000]);
}

#[test]
fn a_flac_file_with_much_before_its_sound_is_read_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.flac");
    let samples: Vec<i16> = (0..20_000).map(|n| (n % 3000) as i16).collect();
    let mut bytes = long_flac(&samples);
    let crop = || Audio::new(16_000).length(5000).crop(AudioCrop::Centre);
    std::fs::write(&path, &bytes).unwrap();
    let expected = sound(&path, crop()).unwrap();
    // Behind the only block, the last one by its first bit, come five of padding of the largest size.
    assert_eq!(bytes[4], 0x80);
    bytes[4] = 0;
    let block = |first: u8| [&[first, 0xff, 0xff, 0xff][..], &vec![0; 0xff_ffff]].concat();
    let padding: Vec<u8> = [1, 1, 1, 1, 0x81].into_iter().flat_map(block).collect();
    bytes.splice(42..42, padding);
    std::fs::write(&path, &bytes).unwrap();
    assert!(sound(&path, crop()).unwrap() == expected);
    assert_eq!(details_of(&path), (16_000, 1, samples.len() as u64));
}

#[test]
fn a_folder_of_all_kinds_is_verified_whole() {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES.iter().chain(&["wav-pcm_16.wav"]) {
        std::fs::copy(fixture(name), folder.path().join(name)).unwrap();
    }
    let report = verify(folder.path(), 2, |_| {}).unwrap();
    assert_eq!((report.samples, report.bad_samples), (6, 0));
    // Damage in the middle of FLAC's frames, which have checksums.
    let path = folder.path().join("mono-16.flac");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let report = verify(folder.path(), 2, |_| {}).unwrap();
    assert_eq!(report.bad_samples, 1);
    let said = report.bad[0].to_string();
    assert!(said.contains("mono-16.flac") && said.contains("the file is damaged"), "{said}");
    // What lies in front of the damage, and behind it, is as it was.
    let start = sound(&path, Audio::new(16_000).length(100).crop(AudioCrop::Start)).unwrap();
    assert_eq!(start, numbers("mono-16.flac")[..100]);
}

/// Opens, measures and decodes; panics are errors that say so.
fn tried(bytes: &[u8], name: &str) -> Result<usize> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let cut = sound(&path, Audio::new(16_000).length(300).crop(AudioCrop::Random)).map(|found| found.len());
    let whole = sound(&path, Audio::new(16_000)).map(|found| found.len());
    for error in [&cut, &whole].into_iter().filter_map(|result| result.as_ref().err()) {
        assert!(error.path() == Some(&path) || error.message().contains("ignored"), "{error}");
        assert!(!error.message().contains("panicked"), "{name}: {error}");
    }
    whole
}

#[test]
fn a_file_that_is_cut_off_is_an_error() {
    for name in NAMES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        tried(&bytes, name).unwrap();
        let step = bytes.len() / 60;
        for len in (0..300.min(bytes.len())).step_by(7).chain((300..bytes.len() - 16).step_by(step)) {
            let found = tried(&bytes[..len], name);
            assert!(found.is_err(), "{name}: {len} bytes are {found:?} frames");
        }
    }
}

#[test]
fn vorbis_of_more_than_two_channels_is_refused() {
    let error = tried(&std::fs::read(fixture("three.ogg")).unwrap(), "a.ogg").unwrap_err();
    assert_eq!(error.kind(), ringfeed::ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("3 channels") && error.message().contains("FLAC"), "{error}");
}

#[test]
fn a_vorbis_file_needs_its_last_page() {
    let whole = std::fs::read(fixture("pages.ogg")).unwrap();
    let pages: Vec<usize> = (0..whole.len()).filter(|at| whole[*at..].starts_with(b"OggS")).collect();
    let last = *pages.last().unwrap();
    let refused = |bytes: &[u8]| {
        let error = tried(bytes, "a.ogg").expect_err("a sound without its end");
        assert!(error.message().contains("the last page of the sound is missing or damaged"), "{error}");
    };
    for cut in [pages[3], last, last + 300, whole.len() - 1] {
        refused(&whole[..cut]);
    }
    for (at, bit) in [(last + 5, 4), (last + 7, 1), (last + 200, 1), (whole.len() - 1, 128)] {
        let mut damaged = whole.clone();
        damaged[at] ^= bit;
        refused(&damaged);
    }
    // What follows the sound does not matter: another sound, or bytes of no sound.
    let frames = tried(&whole, "a.ogg").unwrap();
    let mut other = whole.clone();
    for page in &pages {
        other[page + 14] ^= 1;
    }
    for more in [other, b"TAG".to_vec()] {
        assert_eq!(tried(&[&whole[..], &more].concat(), "a.ogg").unwrap(), frames);
    }
}

#[test]
fn other_codecs_are_refused_by_name() {
    let opus = std::fs::read(fixture("opus.ogg")).unwrap();
    for (bytes, name) in
        [(opus, "Ogg with Opus"), (b"\0\0\0\x20ftypM4A ".to_vec(), "AAC"), (b"\xff\xf1\x50\x80".to_vec(), "AAC")]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ogg");
        std::fs::write(&path, &bytes).unwrap();
        let error = sound(&path, Audio::new(16_000)).unwrap_err();
        assert!(error.message().contains(name) && error.message().contains("convert it to FLAC"), "{error}");
    }
}

#[test]
fn what_a_header_promises_is_not_believed() {
    // STREAMINFO says 2^36 - 1 frames.
    let mut bytes = std::fs::read(fixture("mono-16.flac")).unwrap();
    bytes[21] |= 0x0f;
    bytes[22..26].fill(0xff);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.flac");
    std::fs::write(&path, &bytes).unwrap();
    let error = sound(&path, Audio::new(16_000)).unwrap_err();
    assert!(error.message().contains("take a part of it with `length` and `crop`"), "{error}");
    let error = sound(&path, Audio::new(16_000).length(100).crop(AudioCrop::Centre)).unwrap_err();
    assert!(error.message().contains("FLAC") || error.message().contains("damaged"), "{error}");
    let start = sound(&path, Audio::new(16_000).length(100).crop(AudioCrop::Start)).unwrap();
    assert_eq!(start, sound(&fixture("mono-16.flac"), Audio::new(16_000)).unwrap()[..100]);
    // As many frames as may be taken as a whole, but not in so few bytes.
    bytes[21] &= 0xf0;
    bytes[22..26].copy_from_slice(&(1u32 << 28).to_be_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = sound(&path, Audio::new(16_000)).unwrap_err();
    assert!(error.message().contains("268435456 frames are promised, but at most"), "{error}");
    // Where nothing says it, the packets do.
    bytes[21] &= 0xf0;
    bytes[22..26].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(sound(&path, Audio::new(16_000)).unwrap().len(), 12_000);
    let budget = MemoryBudget::new(4096);
    let whole = AudioOptions::default();
    let opened = AudioFiles::open(&Files::local(), fixture("mono.mp3"), &whole, &budget);
    assert!(opened.is_ok(), "the listing of one file is small");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn damage_is_an_error_or_a_sound(
        name in prop::sample::select(NAMES.to_vec()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_front in any::<bool>(),
    ) {
        let mut bytes = std::fs::read(fixture(name)).unwrap();
        let reach = if in_front { 200 } else { bytes.len() };
        for (at, byte) in damage {
            bytes[at.index(reach)] = byte;
        }
        drop(tried(&bytes, name));
    }
}
