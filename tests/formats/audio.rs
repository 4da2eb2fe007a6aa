//! Sound from WAV files: against what libsndfile and torchaudio make of it, cut and resampled, from files, lists and
//! archives, and damaged in every way.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfeed::audio::{AudioCrop, AudioFiles, AudioFolderOptions, AudioOptions};
use ringfeed::field::{Audio, Class, Field};
use ringfeed::formats::{AudioFolder, Formats};
use ringfeed::inspect::{Details, verify};
use ringfeed::memory::MemoryBudget;
use ringfeed::order::Shard;
use ringfeed::read::RecordReader;
use ringfeed::settings::{BadLimits, BadRecords, SourceConfig};
use ringfeed::storage::Files;
use ringfeed::{DType, DataSet, DataSetIterator, ErrorKind, Loader, LoaderConfig, Normaliser, Result};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audio").join(name)
}

fn numbers(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(fixture(&format!("{name}.f32"))).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// A chunk of a RIFF file, padded to an even length.
fn chunk(name: &[u8; 4], bytes: &[u8]) -> Vec<u8> {
    let mut chunk = [name.as_slice(), &(bytes.len() as u32).to_le_bytes(), bytes].concat();
    chunk.resize(chunk.len().next_multiple_of(2), 0);
    chunk
}

fn format(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let align = channels * bits.div_ceil(8);
    let mut bytes = Vec::new();
    bytes.extend([tag, channels].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend([rate, rate * u32::from(align)].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend([align, bits].iter().flat_map(|number| number.to_le_bytes()));
    chunk(b"fmt ", &bytes)
}

fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    let body = chunks.concat();
    [b"RIFF".as_slice(), &(body.len() as u32 + 4).to_le_bytes(), b"WAVE", &body].concat()
}

fn samples(values: &[i16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn wav(rate: u32, channels: u16, values: &[i16]) -> Vec<u8> {
    riff(&[format(1, channels, rate, 16), chunk(b"data", &samples(values))])
}

/// A ramp, so that a number says its place.
fn ramp(frames: usize) -> Vec<i16> {
    (0..frames).map(|frame| (frame % 32_000) as i16).collect()
}

fn loader(path: &Path, field: impl Into<Field>) -> Loader {
    Loader::open(path).unwrap().field("audio", field)
}

fn first(loader: Loader) -> Result<DataSet> {
    loader.batch_size(64).build()?.next().unwrap()
}

/// The numbers of the only sound in these bytes, without padding.
fn sound(bytes: &[u8], audio: Audio) -> Result<Vec<f32>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sound.wav");
    std::fs::write(&path, bytes).unwrap();
    let batch = first(loader(&path, audio))?;
    Ok(batch.tensor("audio").unwrap().as_slice::<f32>().unwrap().to_vec())
}

fn ints(bytes: &[u8]) -> Result<Vec<i32>> {
    sound(bytes, Audio::new(8000)).map(|found| found.iter().map(|x| (x * 32_768.0) as i32).collect())
}

#[test]
fn every_encoding_has_the_values_of_libsndfile() {
    let mut names: Vec<String> = std::fs::read_dir(fixture(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".wav"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 13);
    for name in names {
        let batch = first(loader(&fixture(&name), Audio::new(8000).channels(2))).unwrap();
        let found = batch.tensor("audio").unwrap();
        assert_eq!(found.shape(), [1, 2, 300], "{name}");
        let (found, expected) = (found.as_slice::<f32>().unwrap(), numbers(&name));
        let planes = (0..600).map(|at| expected[at % 300 * 2 + at / 300]);
        assert!(found.iter().zip(planes).all(|(found, expected)| *found == expected), "{name}");
        let mixed = first(loader(&fixture(&name), Audio::new(8000))).unwrap();
        let mixed = mixed.tensor("audio").unwrap().as_slice::<f32>().unwrap().to_vec();
        let mean = expected.as_chunks::<2>().0.iter().map(|[left, right]| (left + right) / 2.0);
        assert!(mixed.iter().zip(mean).all(|(found, mean)| *found == mean), "{name}");
    }
}

fn resampled(from: u32, to: u32, input: &[f32]) -> Vec<f32> {
    let bytes: Vec<u8> = input.iter().flat_map(|value| value.to_le_bytes()).collect();
    sound(&riff(&[format(3, 1, from, 32), chunk(b"data", &bytes)]), Audio::new(to)).unwrap()
}

fn furthest(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max)
}

#[test]
fn sounds_of_a_list_have_the_rate_of_the_first_as_those_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = [8000, 16_000].iter().map(|rate| folder.path().join(format!("{rate:05}.wav"))).collect();
    for (path, rate) in paths.iter().zip([8000, 16_000]) {
        std::fs::write(path, wav(rate, 1, &vec![1000; rate as usize / 10])).unwrap();
    }
    let whole = |paths: ringfeed::settings::Paths, fields: &[(&str, Field)]| {
        let source = SourceConfig::new(AudioFolder, paths, AudioFolderOptions::default());
        let source = fields.iter().fold(source, |source, (name, field)| source.field(*name, field.clone()));
        let config = LoaderConfig { sources: vec![source], ..LoaderConfig::default() };
        let batch = Loader::from(config).build().unwrap().next().unwrap().unwrap();
        (batch.tensor("audio").unwrap().shape().to_vec(), batch.tensor("audio").unwrap().bytes().to_vec())
    };
    for fields in [vec![], vec![("audio", Audio::new(8000).into())]] {
        let of_folder = whole(folder.path().into(), &fields);
        assert_eq!(of_folder.0, [2, 800]);
        assert_eq!(whole(paths.iter().collect(), &fields), of_folder);
    }
    let own_rate: Field = serde_json::from_str("{\"audio\": 0}").unwrap();
    assert_eq!(
        whole(paths.iter().collect(), &[("audio", own_rate.clone())]),
        whole(folder.path().into(), &[("audio", own_rate)])
    );
}

#[test]
fn another_rate_has_the_values_of_torchaudio_and_is_near_those_of_scipy() {
    let noise = numbers("noise");
    for (from, to) in
        [(44_100, 16_000), (16_000, 44_100), (48_000, 16_000), (22_050, 16_000), (8000, 16_000), (11_025, 8000)]
    {
        let away = furthest(&resampled(from, to, &noise), &numbers(&format!("noise-{from}-{to}")));
        assert!(away < 1e-6, "{from} to {to}: {away}");
    }
    // Another filter: what both let through is the same to a thousandth.
    let tones = numbers("tones");
    for to in [16_000, 48_000, 22_050] {
        let away = furthest(&resampled(44_100, to, &tones), &numbers(&format!("tones-{to}-scipy")));
        assert!(away < 1e-3, "{to}: {away}");
    }
}

#[test]
fn a_crop_is_a_part_of_the_whole_sound_also_at_another_rate() {
    let values: Vec<i16> = (0..9000i32).map(|at| (at * 7919 % 65_536 - 32_768) as i16).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sound.wav");
    for (stored, rate, channels) in [(8000, 8000, 1), (44_100, 16_000, 2), (8000, 11_025, 1)] {
        std::fs::write(&path, wav(stored, channels, &values)).unwrap();
        let whole = first(loader(&path, Audio::new(rate))).unwrap();
        let whole = whole.tensor("audio").unwrap().as_slice::<f32>().unwrap().to_vec();
        let length = 1200;
        let mut starts = Vec::new();
        let mut cut = |crop, seed| {
            let part = first(loader(&path, Audio::new(rate).length(length).crop(crop)).shuffle(seed)).unwrap();
            let part = part.tensor("audio").unwrap().as_slice::<f32>().unwrap().to_vec();
            let start = whole.windows(length).position(|window| window == part);
            starts.push(start.unwrap_or_else(|| panic!("{stored} to {rate} Hz, {crop:?}: to the last bit")));
        };
        cut(AudioCrop::Start, 0);
        cut(AudioCrop::Centre, 0);
        (0..30).for_each(|seed| cut(AudioCrop::Random, seed));
        let free = whole.len() - length;
        assert_eq!(starts[..2], [0, free / 2]);
        let random = &starts[2..];
        assert!(random.iter().any(|start| *start < free / 4) && random.iter().any(|start| *start > 3 * free / 4));
    }
}

#[test]
fn only_the_part_that_is_wanted_is_read() {
    // Six gigabytes, nearly all of them a hole: more than would be read of any file.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.wav");
    let bytes: u64 = 6 << 30;
    let ds64 = [(bytes + 100).to_le_bytes(), bytes.to_le_bytes(), 0u64.to_le_bytes(), 0u64.to_le_bytes()].concat();
    let head = [
        b"RF64\xff\xff\xff\xffWAVE".to_vec(),
        chunk(b"ds64", &ds64[..28]),
        format(1, 1, 16_000, 16),
        b"data\xff\xff\xff\xff".to_vec(),
    ]
    .concat();
    let mut file = File::create(&path).unwrap();
    file.write_all(&head).unwrap();
    file.seek(SeekFrom::Start(head.len() as u64 + bytes / 2 - 16_000)).unwrap();
    file.write_all(&samples(&ramp(16_000))).unwrap();
    file.set_len(head.len() as u64 + bytes).unwrap();
    let audio = Audio::new(16_000).length(16_000).crop(AudioCrop::Centre).dtype(DType::I16);
    let batch = first(loader(&path, audio)).unwrap();
    assert_eq!(batch.tensor("audio").unwrap().as_slice::<i16>().unwrap(), ramp(16_000));
    let error = first(loader(&path, Audio::new(16_000))).unwrap_err();
    assert!(error.message().contains("take a part of it with `length` and `crop`"), "{error}");
}

/// A folder of two classes with sounds of different lengths.
fn words() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (nth, name) in ["no/a.wav", "no/b.wav", "yes/a.wav", "yes/b.WAV", "yes/deep/c.wav"].iter().enumerate() {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, wav(8000, 1, &ramp(500 + 300 * nth))).unwrap();
    }
    std::fs::write(folder.path().join("yes/notes.txt"), "none").unwrap();
    folder
}

#[test]
fn a_folder_has_classes_and_shorter_sounds_are_padded() {
    let folder = words();
    let batch = first(Loader::open(folder.path()).unwrap()).unwrap();
    let names: Vec<&str> = batch.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["audio", "audio_mask", "label"]);
    assert_eq!(batch.tensor("label").unwrap().as_slice::<i64>().unwrap(), [0, 0, 1, 1, 1]);
    let (audio, mask) = (batch.tensor("audio").unwrap(), batch.tensor("audio_mask").unwrap());
    assert_eq!((audio.shape(), mask.shape()), ([5, 1700].as_slice(), [5, 1700].as_slice()));
    let (audio, mask) = (audio.as_slice::<f32>().unwrap(), mask.bytes());
    for nth in 0..5 {
        for at in 0..1700 {
            let inside = at < 500 + 300 * nth;
            assert_eq!(mask[1700 * nth + at], u8::from(inside));
            assert_eq!(audio[1700 * nth + at], if inside { at as f32 / 32_768.0 } else { 0.0 });
        }
    }
    let fields =
        Loader::open(folder.path()).unwrap().field("word", Audio::new(8000).length(1000).crop(AudioCrop::Start));
    let batch = first(fields.field("class", Class::of(["yes", "no"]))).unwrap();
    assert_eq!(batch.tensor("class").unwrap().as_slice::<i64>().unwrap(), [1, 1, 0, 0, 0]);
    assert_eq!(batch.tensor("word").unwrap().shape(), [5, 1000]);
    let error = first(Loader::open(folder.path()).unwrap().field("word", Audio::new(8000).length(1000))).unwrap_err();
    assert!(error.message().contains("1100 frames; at most 1000 fit") && error.to_string().contains("yes"), "{error}");
}

#[test]
fn a_class_that_sounds_do_not_have_is_an_error_that_names_the_field() {
    let folder = words();
    let flat = tempfile::tempdir().unwrap();
    let one = AudioFiles::open(&Files::local(), folder.path(), &AudioOptions::default(), &MemoryBudget::unlimited());
    std::fs::copy(one.unwrap().path(0), flat.path().join("one.wav")).unwrap();
    let sound = |path: &Path| Loader::open(path).unwrap().field("audio", Audio::new(8000));
    for class in [Into::<Field>::into(Class), Class::of(["no", "yes"]).into()] {
        let error = first(sound(flat.path()).field("word", class)).unwrap_err().to_string();
        assert!(error.contains("column \"word\": there are no classes: the files lie in the folder itself"), "{error}");
    }
    let error = first(sound(folder.path()).field("word", Class.from("kind"))).unwrap_err().to_string();
    assert!(error.contains("word: from: a folder of files has no field \"kind\""), "{error}");
    assert!(first(sound(folder.path()).field("word", Class.from("label"))).is_ok());
    let listed = Class::of(["yes", "no"]).dtype(DType::F32);
    let batch = first(sound(folder.path()).field("word", listed).field("code", Class)).unwrap();
    let words = batch.tensor("word").unwrap().as_slice::<f32>().unwrap();
    let codes = batch.tensor("code").unwrap().as_slice::<i64>().unwrap();
    assert!(words.iter().zip(codes).all(|(word, code)| f64::from(*word) == *code as f64) && codes[0] == 1, "{codes:?}");
    // Any codec takes the class.
    let batch = first(sound(folder.path()).field("word", Class.one_hot().dtype(DType::U8)).field("code", Class));
    let batch = batch.unwrap();
    let words = batch.tensor("word").unwrap().as_slice::<u8>().unwrap();
    let codes = batch.tensor("code").unwrap().as_slice::<i64>().unwrap();
    assert!(words.chunks(2).zip(codes).all(|(word, code)| word == [u8::from(*code == 0), u8::from(*code == 1)]));
}

#[test]
fn what_is_scaled_while_it_is_decoded_has_zeros_behind_it() {
    let folder = words();
    let shift = Normaliser::Standardise { axis: None, mean: vec![-1.0], deviation: vec![0.5] };
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let loader = loader(folder.path(), Audio::new(8000).dtype(dtype)).normalise("audio", shift.clone());
        let batch = first(loader).unwrap();
        let audio = batch.tensor("audio").unwrap();
        assert_eq!(audio.dtype(), dtype);
        let at = |index: usize| audio.numbers().at(index);
        assert_eq!([at(0), at(499), at(500), at(1699)].map(|x| x.round()), [2.0, 2.0, 0.0, 0.0]);
    }
}

/// All tensors of an epoch, and the samples' ids.
fn epoch(mut batches: Box<dyn DataSetIterator>, number: u64) -> (Vec<u64>, Vec<u8>) {
    let (mut ids, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..=number {
        ids.clear();
        bytes.clear();
        for batch in batches.epoch().unwrap() {
            let batch = batch.unwrap();
            ids.extend(batch.sample_ids());
            batch.tensors().for_each(|tensor| bytes.extend_from_slice(tensor.bytes()));
        }
    }
    (ids, bytes)
}

#[test]
fn crops_are_functions_of_seed_epoch_and_sample_for_any_number_of_workers_and_any_way_to_read() {
    let folder = words();
    let audio = || Audio::new(8000).length(300).crop(AudioCrop::Random);
    let loader = || loader(folder.path(), audio()).shuffle(5).batch_size(2);
    let one = epoch(loader().workers(1).build().unwrap(), 1);
    assert_eq!(one, epoch(loader().workers(4).build().unwrap(), 1));
    assert_ne!(one, epoch(loader().workers(1).build().unwrap(), 0));
    assert_ne!(one.1, epoch(loader().shuffle(6).build().unwrap(), 1).1);
    let limit = ringfeed::workspace::FetchLimit { time_ms: 60_000, replacements: 0 };
    let limited = ringfeed::Workspace::builder().workers(2).fetch_limit(limit).build().unwrap();
    assert_eq!(one, epoch(loader().build_in(&limited).unwrap(), 1), "read whole by threads of their own");
    // The same files as the members of an archive, and by a table of their names.
    let mut archive = Vec::new();
    let mut table = "file\n".to_owned();
    let budget = MemoryBudget::unlimited();
    let whole = AudioOptions::default();
    let reader = AudioFiles::open(&Files::local(), folder.path(), &whole, &budget).unwrap();
    for sample in 0..5 {
        let path = reader.path(sample);
        let mut header = tar::Header::new_gnu();
        let bytes = std::fs::read(&path).unwrap();
        header.set_size(bytes.len() as u64);
        let mut builder = tar::Builder::new(&mut archive);
        builder.append_data(&mut header, format!("{sample}.wav"), bytes.as_slice()).unwrap();
        std::mem::forget(builder);
        table += &format!("{}\n", path.strip_prefix(folder.path()).unwrap().display());
    }
    archive.extend([0; 1024]);
    std::fs::write(folder.path().join("words.tar"), archive).unwrap();
    std::fs::write(folder.path().join("words.csv"), table).unwrap();
    let tar = Loader::open(folder.path().join("words.tar")).unwrap().field("audio", audio().from("wav"));
    assert_eq!(one, epoch(tar.shuffle(5).batch_size(2).build().unwrap(), 1));
    let listed = Loader::open(folder.path().join("words.csv")).unwrap().field("audio", audio().from("file").file());
    assert_eq!(one, epoch(listed.shuffle(5).batch_size(2).build().unwrap(), 1));
}

/// Both channels of a sound of 300 frames, as libsndfile reads it.
fn planes(name: &str) -> Vec<f32> {
    let expected = numbers(name);
    (0..600).map(|at| expected[at % 300 * 2 + at / 300]).collect()
}

const SOUNDS: [&str; 2] = ["wav-pcm_16.wav", "wav-float.wav"];

/// As Hugging Face keeps audio data sets: a struct of the file's bytes and its path, in Parquet and in streams called
/// `.arrow`.
#[test]
#[cfg(feature = "parquet")]
fn sounds_in_tables_have_the_values_of_libsndfile() {
    for table in ["words.parquet", "words.arrow"] {
        let field = || Audio::new(8000).channels(2).from("audio.bytes");
        let skip = BadRecords::Skip(BadLimits::default());
        let batch = first(loader(&fixture(table), field()).bad_records(skip)).unwrap();
        assert_eq!((batch.len(), batch.bad_records()), (2, 1), "{table}");
        assert_eq!(batch.tensor("audio").unwrap().as_slice::<f32>().unwrap(), SOUNDS.map(planes).concat(), "{table}");
        // The third one is a path alone.
        let error = first(loader(&fixture(table), field())).unwrap_err();
        assert_eq!((error.location().record, error.location().column.as_deref()), (Some(2), Some("audio")));
        assert!(error.message().contains("expected the bytes of a sound file"), "{error}");
        let cut = loader(&fixture(table), Audio::new(8000).length(40).crop(AudioCrop::Random).from("audio.bytes"));
        let batch = first(cut.shuffle(1).bad_records(skip)).unwrap();
        assert_eq!(batch.tensor("audio").unwrap().shape(), [2, 40]);
    }
}

#[test]
fn sounds_in_examples_of_tensorflow_have_the_values_of_libsndfile() {
    let part = |number: u8, bytes: &[u8]| {
        let (mut length, mut len) = (Vec::new(), bytes.len());
        while len >= 0x80 {
            length.push(len as u8 | 0x80);
            len >>= 7;
        }
        length.push(len as u8);
        [&[number << 3 | 2], &length[..], bytes].concat()
    };
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let example = |name: &str| {
        let feature = part(1, &part(1, &std::fs::read(fixture(name)).unwrap()));
        let record = part(1, &part(1, &[part(1, b"sound"), part(2, &feature)].concat()));
        let len = (record.len() as u64).to_le_bytes();
        [&len[..], &masked(&len), &record, &masked(&record)].concat()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words-00000-of-00001");
    std::fs::write(&path, SOUNDS.map(example).concat()).unwrap();
    let batch = first(loader(&path, Audio::new(8000).channels(2).from("sound"))).unwrap();
    assert_eq!(batch.tensor("audio").unwrap().as_slice::<f32>().unwrap(), SOUNDS.map(planes).concat());
}

#[test]
fn two_views_of_a_sound_are_cut_apart_unless_they_share_a_geometry() {
    let folder = words();
    let audio = || Audio::new(8000).length(50).crop(AudioCrop::Random);
    let both = |one: Audio, other: Audio| {
        let loader = Loader::open(folder.path()).unwrap().field("one", one).field("other", other);
        let batch = first(loader.shuffle(3)).unwrap();
        batch.tensor("one").unwrap().bytes() == batch.tensor("other").unwrap().bytes()
    };
    assert!(!both(audio(), audio()));
    assert!(both(audio().geometry("word"), audio().geometry("word")));
}

#[test]
fn states_shards_plans_and_checks_are_those_of_any_format() {
    let folder = words();
    let loader = || loader(folder.path(), Audio::new(8000).length(64).crop(AudioCrop::Random)).shuffle(1).batch_size(1);
    let mut batches = loader().build().unwrap();
    let ahead: Vec<Vec<u8>> =
        (0..5).map(|_| batches.next().unwrap().unwrap().tensor("audio").unwrap().bytes().to_vec()).collect();
    let mut batches = loader().build().unwrap();
    let skipped: Vec<_> =
        (0..2).map(|_| batches.next().unwrap().unwrap().tensor("audio").unwrap().bytes().to_vec()).collect();
    assert_eq!(skipped, ahead[..2]);
    let state = batches.state();
    let mut resumed = loader().build().unwrap();
    resumed.seek(&state).unwrap();
    assert_eq!(resumed.next().unwrap().unwrap().tensor("audio").unwrap().bytes(), ahead[2]);
    let mut dealt: Vec<Vec<u8>> = (0..2)
        .flat_map(|index| {
            let mut batches = loader().shard(Shard::new(index, 2).unwrap()).build().unwrap();
            let of_epoch = batches.epoch().unwrap();
            of_epoch.map(|batch| batch.unwrap().tensor("audio").unwrap().bytes().to_vec()).collect::<Vec<_>>()
        })
        .collect();
    dealt.sort();
    dealt.dedup();
    assert!(ahead.iter().all(|sample| dealt.contains(sample)));
    let plan = loader().plan().unwrap();
    let tensors: Vec<&str> = plan.tensors.iter().flatten().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!((plan.sources[0].records, tensors), (Some(5), vec!["audio", "audio_mask"]));

    std::fs::write(folder.path().join("no/b.wav"), &wav(8000, 1, &ramp(800))[..500]).unwrap();
    let report = verify(folder.path(), 2, |_| {}).unwrap();
    assert_eq!((report.samples, report.bad.len()), (5, 1));
    let said = report.bad[0].to_string();
    assert!(said.contains("no/b.wav") && said.contains("byte 500") && said.contains("the file is cut off"), "{said}");
    let skipping = loader().bad_records(BadRecords::Skip(BadLimits::default()));
    assert_eq!(epoch(skipping.build().unwrap(), 0).0.len(), 4);
    let inspection = Formats::new().inspect(folder.path()).unwrap();
    assert_eq!((inspection.format, inspection.records), ("audio_folder", 5));
    let Details::Files { classes, formats, ignored } = inspection.details else { panic!("a folder of files") };
    assert_eq!(classes.iter().map(|class| class.count).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((formats.len(), formats[0].format, formats[0].count, ignored.count), (1, "wav", 5, 1));
    let inspection = Formats::new().inspect(fixture("wav-pcm_24.wav")).unwrap();
    assert_eq!(inspection.details, Details::Audio { rate: 8000, channels: 2, frames: 300 });
}

#[test]
fn what_is_written_to_a_pipe_does_not_know_its_length() {
    let whole = wav(8000, 1, &ramp(100));
    let expected: Vec<i32> = (0..100).collect();
    for (outer, inner) in [
        ([0xff; 4], [0xff; 4]),
        ([0; 4], [0; 4]),
        (36u32.to_le_bytes(), [0; 4]),
        (0x7fff_f024u32.to_le_bytes(), 0x7fff_f000u32.to_le_bytes()),
        (0x8000_0024u32.to_le_bytes(), 0x8000_0000u32.to_le_bytes()),
    ] {
        let mut bytes = whole.clone();
        bytes[4..8].copy_from_slice(&outer);
        bytes[40..44].copy_from_slice(&inner);
        assert_eq!(ints(&bytes).unwrap(), expected, "{outer:?} {inner:?}");
        bytes.push(7);
        assert_eq!(ints(&bytes).unwrap(), expected, "half a frame");
    }
    // Nothing, and something behind it: there is no sound.
    let none = riff(&[format(1, 1, 8000, 16), chunk(b"data", &[]), chunk(b"LIST", &[1; 99])]);
    assert_eq!(ints(&none).unwrap(), [0; 0]);
}

#[test]
fn other_chunks_are_passed_over_and_odd_ones_are_padded() {
    let data = chunk(b"data", &[1, 0, 2, 0, 3, 0, 9]);
    let list = |len: usize| chunk(b"LIST", &vec![0x41; len]);
    for chunks in [
        vec![list(7), format(1, 1, 8000, 16), list(5001), data.clone(), list(3)],
        vec![format(1, 1, 8000, 16), data.clone(), list(1)],
    ] {
        assert_eq!(ints(&riff(&chunks)).unwrap(), [1, 2, 3]);
    }
    let error = ints(&riff(&[data.clone(), format(1, 1, 8000, 16)])).unwrap_err();
    assert!(
        error.message().contains("the samples come before the fmt chunk") && error.location().byte == Some(12),
        "{error}"
    );
    let error = ints(&riff(&[format(0x11, 1, 8000, 16), data])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("0x0011 (ADPCM)"), "{error}");
}

#[test]
fn options_that_make_no_sense_are_said_before_anything_is_read() {
    for (audio, says) in [
        (Audio::new(0), "audio: 0 frames per second"),
        (Audio::new(8000).length(0), "length: 0 frames"),
        (Audio::new(8000).crop(AudioCrop::Random), "needs a length"),
        (Audio::new(8000).dtype(DType::F64), "dtype: f64; sound is"),
        (Audio::new(8000).channels(0), "channels: 0"),
    ] {
        let error = loader(&fixture("wav-pcm_16.wav"), audio).build().err().unwrap();
        assert!(error.kind() == ErrorKind::Config && error.message().contains(says), "{error}");
    }
    let error = first(loader(&fixture("wav-pcm_16.wav"), Audio::new(8000).channels(3))).unwrap_err();
    assert!(error.message().contains("2 channels, where 3 are wanted"), "{error}");
    let text = r#"
        source = { path = "words" }
        [fields]
        audio = { from = "path", file = { audio = 16000, length = 16000, crop = "random", dtype = "f16" } }
    "#;
    let config: ringfeed::LoaderConfig = toml::from_str(text).unwrap();
    let again: ringfeed::LoaderConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(config, again);
    let wrong = toml::from_str::<ringfeed::LoaderConfig>(
        "source = { path = \"a\" }\nfields = { x = { text = 3, crop = \"random\" } }",
    );
    assert!(wrong.unwrap_err().to_string().contains("crop does not belong to text, but to audio"));
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_an_error() {
    for name in ["wav-pcm_16.wav", "wavex-pcm_24.wav", "rf64-float.wav"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.wav");
        let headers = if name == "wav-pcm_16.wav" { whole.len() - 1 } else { 150 };
        for len in 1..headers {
            std::fs::write(&path, &whole[..len]).unwrap();
            let reader = AudioFiles::open(
                &Files::local(),
                &path,
                &AudioOptions { rate: Some(8000), ..AudioOptions::default() },
                &MemoryBudget::unlimited(),
            )
            .unwrap();
            let error = reader.measure(0, &mut Default::default()).unwrap_err();
            assert!(
                error.path() == Some(&*path) && error.location().byte.is_some_and(|byte| byte <= len as u64),
                "{len}: {error}"
            );
        }
    }
}

proptest! {
    #[test]
    fn a_damaged_header_is_an_error_or_a_sound(
        at in 0usize..130,
        byte in any::<u8>(),
        other in any::<(usize, u8)>(),
        name in prop::sample::select(vec!["wav-pcm_16.wav", "wav-alaw.wav", "wavex-pcm_24.wav", "rf64-pcm_16.wav"]),
    ) {
        let mut bytes = std::fs::read(fixture(name)).unwrap();
        bytes[at] = byte;
        let len = bytes.len();
        bytes[other.0 % len.min(200)] = other.1;
        for audio in [Audio::new(8000), Audio::new(16_000).length(50).crop(AudioCrop::Centre)] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("x.wav"), &bytes).unwrap();
            std::fs::write(folder.path().join("x.csv"), "file\nx.wav\n").unwrap();
            let loader = Loader::open(folder.path().join("x.csv")).unwrap().field("audio", audio.from("file").file());
            if let Err(error) = first(loader) {
                prop_assert!(error.to_string().contains("x.wav") && !error.to_string().contains("panic"), "{error}");
            }
        }
    }
}

#[test]
fn padding_of_channels_in_windows_is_normalised_by_nobody_and_changed_by_nothing() {
    use ringfeed::read::Windows;
    use ringfeed::transform::{LogMel, Operation, noise};
    let folder = tempfile::tempdir().unwrap();
    for n in 1..7usize {
        std::fs::write(folder.path().join(format!("{n}.wav")), wav(100, 2, &ramp(20 * n))).unwrap();
    }
    let stereo = || Loader::open(folder.path()).unwrap().field("audio", Audio::new(100).channels(2).length(100));
    let normaliser = Normaliser::Standardise { axis: None, mean: vec![0.5], deviation: vec![0.5] };
    let loader = stereo().normalise("audio", normaliser).batch_size(6);
    let single = loader.build().unwrap().next().unwrap().unwrap();
    let padding = single.f32("audio").unwrap().iter().filter(|value| **value == 0.0).count();
    assert!(padding > 100, "{padding}");
    let normaliser = Normaliser::Standardise { axis: None, mean: vec![0.5], deviation: vec![0.5] };
    let loader = stereo().normalise("audio", normaliser).windows(Windows::new(1, 0)).batch_size(6);
    let windows = loader.build().unwrap().next().unwrap().unwrap();
    assert_eq!(windows.f32("audio").unwrap(), single.f32("audio").unwrap());
    let loader = stereo().transform(noise("audio", 0.1)).windows(Windows::new(2, 0));
    let error = loader.build().err().unwrap();
    assert!(error.message().contains("there is no mask that marks it"), "{error}");
    // A spectrogram of it has the same padding.
    let frames = LogMel { n_fft: 20, hop: 10, mels: 4, ..LogMel::new("audio", 100) };
    let loader =
        stereo().transform(Operation::LogMel(frames)).transform(noise("audio", 0.1)).windows(Windows::new(2, 0));
    let error = loader.build().err().unwrap();
    assert!(error.message().contains("there is no mask that marks it"), "{error}");
}
