//! Spectrograms: against torchaudio's, of shorter sounds, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};

use ringfeed::field::Audio;
use ringfeed::normalise::NormaliserFit;
use ringfeed::read::MemoryReader;
use ringfeed::source::{ReaderSource, Transformed};
use ringfeed::tensor::Role;
use ringfeed::transform::{LogBase, LogMel, MelScale, Operation, Transforms, cast, clip, log_mel};
use ringfeed::{
    AsyncDataSetIterator, DType, DataSet, Error, ErrorKind, Loader, LoaderConfig, Normaliser, Result, Workspace,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audio").join(name)
}

fn numbers(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(fixture(&format!("{name}.f32"))).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn first(sound: Vec<f32>, shape: &[usize], options: LogMel) -> Result<DataSet> {
    let sound = MemoryReader::new("audio", Role::Feature, shape, sound).unwrap();
    let source = Transformed::new(ReaderSource::new(sound), Transforms::new().with(Operation::LogMel(options)));
    AsyncDataSetIterator::new(source, &Workspace::default())?.next().unwrap()
}

#[test]
fn spectrograms_are_those_of_torchaudio() {
    let plain = LogMel::new("audio", 16_000);
    let slaney = LogMel {
        n_fft: 512,
        window: Some(400),
        mels: 40,
        low: 20.0,
        high: Some(7600.0),
        power: 1,
        centre: false,
        scale: MelScale::Slaney,
        area_norm: true,
        floor: 1e-5,
        ..plain.clone()
    };
    let decibels = LogMel { n_fft: 256, hop: 128, mels: 32, log: LogBase::Decibels, ..plain.clone() };
    let whisper = LogMel { log: LogBase::Log10, ..plain };
    for (name, options, shape, bound) in [
        ("mel-whisper-like", whisper, [1, 80, 13], 2e-4),
        ("mel-slaney", slaney, [1, 40, 10], 2e-4),
        ("mel-decibels", decibels, [1, 32, 16], 2e-3),
    ] {
        let batch = first(numbers("mel-input"), &[2000], options).unwrap();
        let found = batch.tensor("audio").unwrap();
        assert_eq!(found.shape(), shape, "{name}");
        let (found, expected) = (found.as_slice::<f32>().unwrap(), numbers(name));
        let away = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max);
        assert!(found.len() == expected.len() && away < bound, "{name}: {away}");
    }
}

#[test]
fn each_channel_has_its_own_and_the_sound_may_stay() {
    let sound: Vec<f32> = numbers("mel-input").into_iter().chain((0..2000).map(|at| (at as f32 * 0.1).sin())).collect();
    let options = || LogMel { into: Some("mel".to_owned()), ..LogMel::new("audio", 16_000) };
    let both = first(sound.clone(), &[2, 2000], options()).unwrap();
    assert_eq!(both.tensor("mel").unwrap().shape(), [1, 2, 80, 13]);
    assert_eq!(both.tensor("audio").unwrap().as_slice::<f32>().unwrap(), sound);
    let second = first(sound[2000..].to_vec(), &[2000], options()).unwrap();
    assert_eq!(both.tensor("mel").unwrap().bytes()[4 * 80 * 13..], *second.tensor("mel").unwrap().bytes());
}

#[test]
fn what_is_no_number_is_not_silence() {
    // Frames are 400 samples around every 160th: sample 900 is in those around 800 and 960.
    let clean = first(numbers("mel-input"), &[2000], LogMel::new("audio", 16_000)).unwrap();
    let clean = clean.tensor("audio").unwrap().as_slice::<f32>().unwrap().to_vec();
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for power in [1, 2] {
            let mut sound = numbers("mel-input");
            sound[900] = wrong;
            let batch = first(sound, &[2000], LogMel { power, ..LogMel::new("audio", 16_000) }).unwrap();
            let found = batch.tensor("audio").unwrap().as_slice::<f32>().unwrap().to_vec();
            for (at, (found, clean)) in found.iter().zip(&clean).enumerate() {
                let is_hit = (5..=6).contains(&(at % 13));
                assert_eq!(found.is_finite(), !is_hit, "{wrong}: {at}");
                assert!(is_hit || power == 1 || found == clean, "{wrong}: {at}");
            }
        }
    }
}

#[test]
fn the_mask_of_a_shorter_sound_becomes_one_of_frames() {
    for (centre, frames, present) in [(true, 26, 2), (false, 23, 0)] {
        let options = LogMel { centre, into: Some("mel".to_owned()), ..LogMel::new("sound", 8000) };
        // 300 samples of 4000.
        let loader = Loader::open(fixture("wav-pcm_16.wav")).unwrap().field("sound", Audio::new(8000).length(4000));
        let batch = loader.transform(Operation::LogMel(options)).build().unwrap().next().unwrap().unwrap();
        let mask = batch.tensor("mel_mask").unwrap();
        assert_eq!(mask.shape(), [1, frames]);
        assert_eq!(mask.bytes().iter().map(|byte| usize::from(*byte)).sum::<usize>(), present);
        assert_eq!(batch.tensor("sound_mask").unwrap().shape(), [1, 4000]);
    }
}

#[test]
fn the_mask_may_hold_numbers_of_any_type() {
    for dtype in [DType::F32, DType::F16, DType::I64, DType::U16] {
        let options = LogMel { into: Some("mel".to_owned()), ..LogMel::new("sound", 8000) };
        let loader = Loader::open(fixture("wav-pcm_16.wav")).unwrap().field("sound", Audio::new(8000).length(4000));
        let loader = loader.transform(cast("sound_mask", dtype)).transform(Operation::LogMel(options));
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        let mask = batch.tensor("mel_mask").unwrap();
        let values: Vec<f64> = (0..26).map(|frame| mask.numbers().at(frame)).collect();
        let expected: Vec<f64> = (0..26).map(|frame| f64::from(u8::from(frame < 2))).collect();
        assert_eq!((mask.dtype(), values), (dtype, expected));
    }
}

#[test]
fn half_of_an_odd_rate_is_rounded_down() {
    // torchaudio.transforms.MelScale: `float(sample_rate // 2)`.
    let of = |high| first(numbers("mel-input"), &[2000], LogMel { high, ..LogMel::new("audio", 11_025) }).unwrap();
    let [usual, down, exact] = [None, Some(5512.0), Some(5512.5)].map(of);
    let bytes = |batch: &DataSet| batch.tensor("audio").unwrap().bytes().to_vec();
    assert!(bytes(&usual) == bytes(&down) && bytes(&usual) != bytes(&exact));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let plain = || LogMel::new("audio", 16_000);
    for (options, says) in [
        (LogMel { n_fft: 1, ..plain() }, "n_fft: 1"),
        (LogMel { n_fft: 5, hop: 1, window: None, mels: 1, ..plain() }, "n_fft: 5; it is an even number"),
        (LogMel { hop: 0, ..plain() }, "hop: 0"),
        (LogMel { window: Some(401), ..plain() }, "window: 401"),
        (LogMel { mels: 0, ..plain() }, "mels: 0"),
        (LogMel { low: 9000.0, ..plain() }, "frequencies from 9000 to 8000"),
        (LogMel { power: 3, ..plain() }, "power: 3"),
        (LogMel { floor: 0.0, ..plain() }, "floor: 0"),
        (LogMel { floor: 1e-60, ..plain() }, "as a number of f32"),
        (LogMel { floor: 1e60, ..plain() }, "as a number of f32"),
        (LogMel { n_fft: 4000, ..plain() }, "2000 samples, too few for a transform of 4000"),
        (LogMel { tensor: "sound".to_owned(), ..plain() }, "no tensor \"sound\""),
    ] {
        let error = first(numbers("mel-input"), &[2000], options).unwrap_err();
        assert!(error.message().contains(says), "{error}");
    }
    let of = |audio: Audio| -> Error {
        let loader = Loader::open(fixture("wav-pcm_16.wav")).unwrap().field("audio", audio);
        loader.transform(log_mel("audio", 8000)).build().err().unwrap()
    };
    let error = of(Audio::new(8000));
    assert!(error.kind() == ErrorKind::Schema && error.message().contains("give the sound a length"), "{error}");
    assert!(of(Audio::new(8000).length(1000).dtype(DType::F16)).message().contains("cast it"));
}

#[test]
fn settings_say_it_in_one_line() {
    let text = "source = { path = \"a.wav\" }\ntransforms = [{ kind = \"log_mel\", tensor = \"audio\", rate = 16000, mels = 40, log = \"log10\" }]";
    let config: LoaderConfig = toml::from_str(text).unwrap();
    let expected = LogMel { mels: 40, log: LogBase::Log10, ..LogMel::new("audio", 16_000) };
    assert_eq!(config.transforms, [Operation::LogMel(expected)]);
    let again: LoaderConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(config, again);
    let wrong = toml::from_str::<LoaderConfig>(&text.replace("mels", "mel")).unwrap_err().to_string();
    assert!(wrong.contains("unknown field `mel`") || wrong.contains("did you mean \"mels\""), "{wrong}");
}

#[test]
fn the_mask_of_a_spectrogram_goes_along_its_frames_whatever_their_number() {
    for mels in [12, 13, 14] {
        let run = |more: &[Operation]| {
            let sound = MemoryReader::new("audio", Role::Feature, &[2000], numbers("mel-input")).unwrap();
            let mask: Vec<u8> = (0..2000).map(|at| u8::from(at < 1000)).collect();
            let mask = MemoryReader::new("audio_mask", Role::Mask, &[2000], mask).unwrap();
            let of_frames = LogMel { mels, ..LogMel::new("audio", 16_000) };
            let list =
                more.iter().cloned().fold(Transforms::new().with(Operation::LogMel(of_frames)), Transforms::with);
            let source = Transformed::new(ReaderSource::new(sound).and(mask), list);
            let batch = AsyncDataSetIterator::new(source, &Workspace::default()).unwrap().next().unwrap().unwrap();
            let of = |name: &str| {
                let numbers = batch.tensor(name).unwrap().numbers();
                (0..numbers.len()).map(|at| numbers.at(at)).collect::<Vec<_>>()
            };
            let (audio, mask) = (of("audio"), of("audio_mask"));
            let mut fit = NormaliserFit::min_max(None, (0.0, 1.0));
            fit.observe_all([Ok(batch)], "audio").unwrap();
            let Normaliser::MinMax { low, high, .. } = fit.finish().unwrap() else { panic!("another normaliser") };
            (audio, mask, (low[0], high[0]))
        };
        let ((plain, mask, _), (raised, _, observed)) = (run(&[]), run(&[clip("audio", 7.0, 9.0)]));
        assert_eq!((plain.len(), mask.len()), (mels * 13, 13));
        assert!(mask.contains(&0.0) && mask.contains(&1.0));
        for (at, (plain, raised)) in plain.iter().zip(&raised).enumerate() {
            let expected = if mask[at % 13] == 0.0 { *plain } else { plain.clamp(7.0, 9.0) };
            assert_eq!(*raised, expected, "{mels}: {at}");
        }
        assert!(observed.0 >= 7.0 && observed.1 <= 9.0, "{mels}: {observed:?}");
    }
}
