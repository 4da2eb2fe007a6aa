//! Numbers that users and files give, at the ends of their types: the right result or an error, never one that wrapped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{MAPPED, fixture, workspace};
use ringfeed::arrays::{RawOptions, RawReader, StoredType};
use ringfeed::csv::{CsvOptions, CsvReader, CsvStream, Missing};
use ringfeed::error::Location;
use ringfeed::field::{Category, Image, Numbers, Text};
use ringfeed::images::{ImageFolder, ImageLabels, ImageOptions};
use ringfeed::memory::MemoryBudget;
use ringfeed::order::LastBatch;
use ringfeed::read::{Concat, MemoryReader, RecordReader, RowMut, Sample, Scratch, Windows};
use ringfeed::sequences::{CsvSequenceReader, SequenceOptions};
use ringfeed::settings::BadRecords;
use ringfeed::source::{ReaderSource, StreamSource};
use ringfeed::storage::{Access, Files};
use ringfeed::tar::{TarOptions, TarReader};
use ringfeed::tensor::{Affine, AffineSteps, Role, Schema, TensorSpec};
use ringfeed::tokens::{TokenCut, TokenOptions, TokenReader, TokenTargets};
use ringfeed::{AsyncDataSetIterator, DType, DataSet, ErrorKind, Loader, Result};
use tempfile::TempDir;

fn file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn all_of(source: impl ringfeed::source::Source + 'static) -> Result<DataSet> {
    AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap().next().unwrap()
}

fn features(batch: &DataSet) -> Vec<f64> {
    let numbers = batch.features().unwrap().numbers();
    (0..numbers.len()).map(|at| numbers.at(at)).collect()
}

#[test]
fn the_largest_limits_of_csv_change_nothing() {
    let (_folder, path) = file("data.csv", b"a\n12\n34\n56");
    let (folder, packed) = file("data.csv.gz", b"");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, b"a\n12\n34\n56").unwrap();
    std::fs::write(&packed, encoder.finish().unwrap()).unwrap();
    for max_record_bytes in [usize::MAX, usize::MAX - 1, usize::MAX - 2, usize::MAX - 3, isize::MAX as usize] {
        for access in [Access::Read, MAPPED] {
            let options =
                CsvOptions { max_record_bytes, max_unpacked_bytes: u64::MAX, access, ..CsvOptions::default() };
            for path in [&path, &packed] {
                let reader = ReaderSource::new(CsvReader::open(path, &options).unwrap());
                assert_eq!(features(&all_of(reader).unwrap()), [12.0, 34.0, 56.0]);
                let (stream, decoder) = CsvStream::open(path, &options).unwrap();
                assert_eq!(features(&all_of(StreamSource::new(stream, decoder)).unwrap()), [12.0, 34.0, 56.0]);
            }
            let options = SequenceOptions { csv: options, max_sequence_bytes: u64::MAX, ..SequenceOptions::default() };
            let reader = CsvSequenceReader::open_folder(folder.path(), &options).unwrap();
            assert_eq!(features(&all_of(ReaderSource::new(reader)).unwrap()), [12.0, 34.0, 56.0]);
            let (files, budget) = (Files::local(), MemoryBudget::unlimited());
            let fields = [("features".to_owned(), Numbers::f32().from(["a"]))];
            let reader = CsvSequenceReader::open_grouped_in(&files, &path, "a", &fields, &options, &budget).unwrap();
            assert_eq!(features(&all_of(ReaderSource::new(reader)).unwrap()), [12.0, 34.0, 56.0]);
        }
    }
}

#[test]
fn columns_of_more_elements_than_memory_are_refused() {
    let (_folder, path) = file("data.csv", b"a,b,c\nx,y,z\n");
    for max_len in [usize::MAX, usize::MAX / 2 + 1, usize::MAX / 3 + 1, isize::MAX as usize] {
        let fields = [("t".to_owned(), Text::new(max_len).from(["a", "b", "c"]))];
        let error = CsvReader::with_fields(&path, &fields, &CsvOptions::default()).err().unwrap();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Config, Some("t")), "{error}");
    }
}

#[test]
fn a_code_is_the_integer_that_was_given() {
    let (_folder, path) = file("data.csv", b"a\nx\nNA\n");
    let open = |missing, dtype| {
        let fields = [("c".to_owned(), Category::new().missing(missing).dtype(dtype).from(["a"]))];
        CsvReader::with_fields(&path, &fields, &CsvOptions::default())
    };
    let odd = (1i64 << 53) + 1;
    for missing in [i64::MAX, i64::MIN, i64::MIN + 1, odd, -odd, -1] {
        let batch = all_of(ReaderSource::new(open(missing, DType::I64).unwrap())).unwrap();
        assert_eq!(batch.features().unwrap().as_slice::<i64>().unwrap(), [0, missing]);
    }
    for (missing, dtype) in [(odd, DType::F64), ((1 << 24) + 1, DType::F32), (2049, DType::F16), (i64::MAX, DType::F64)]
    {
        let error = open(missing, dtype).err().unwrap();
        assert!(error.to_string().contains(&format!("code {missing} does not fit {dtype}")), "{error}");
    }
    let batch = all_of(ReaderSource::new(open(1 << 24, DType::F32).unwrap())).unwrap();
    assert_eq!(features(&batch), [0.0, f64::from(1 << 24)]);
}

/// A reader that says it has so many records.
struct Claims(u64, [TensorSpec; 1]);

impl RecordReader for Claims {
    fn len(&self) -> u64 {
        self.0
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.1
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        row.tensor(0).as_mut_slice::<i64>()?[0] = sample.id as i64;
        Ok(())
    }

    fn place(&self, _: u64) -> Location {
        Location { path: Some("claims".into()), ..Location::default() }
    }
}

#[test]
fn readers_together_have_no_more_records_than_can_be_counted() {
    let claims = |len| Claims(len, [TensorSpec::new("x", Role::Feature, DType::I64, &[])]);
    let both = Concat::new(claims(u64::MAX - 3)).and(claims(3)).unwrap();
    assert_eq!(both.len(), u64::MAX);
    let error = both.and(claims(1)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn a_record_beyond_the_last_is_an_error_however_large_its_number() {
    let (_folder, path) = file("data.bin", &[7; 64]);
    let mut readers: Vec<Box<dyn RecordReader>> = Vec::new();
    for access in [Access::Read, MAPPED] {
        let raw = RawOptions { access, ..RawOptions::features(StoredType::U16, &[2]) };
        readers.push(Box::new(RawReader::open(&path, &raw).unwrap()));
        for cut in [TokenCut::Random, TokenCut::Contiguous { stride: None }] {
            let options = TokenOptions { window: 4, cut, access, ..TokenOptions::default() };
            readers.push(Box::new(TokenReader::open(&path, &options).unwrap()));
        }
    }
    let (_folder, path) = file("data.csv", b"1\n2\n3\n");
    for access in [Access::Read, MAPPED] {
        let options = CsvOptions { access, missing: Missing::Nan, ..CsvOptions::default() };
        readers.push(Box::new(CsvReader::open(&path, &options).unwrap()));
    }
    readers.push(Box::new(MemoryReader::new("x", Role::Feature, &[4], vec![0u16; 8]).unwrap()));
    for reader in &readers {
        for sample in [reader.len(), 1 << 61, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX] {
            let mut scratch = Scratch::default();
            let mut layout = ringfeed::tensor::Layout::default();
            layout
                .compute(&Schema::new(reader.tensors().to_vec()).unwrap(), 1, ringfeed::tensor::Extents::default())
                .unwrap();
            let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
            let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), reader.tensors(), &layout, 0);
            let error = reader
                .fetch(&[sample], 0, &mut scratch)
                .and_then(|()| {
                    let sample = Sample { id: sample, key: ringfeed::order::RandomKey::new(0) };
                    reader.decode(sample, 0, &mut scratch, &mut row)
                })
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            // What asks for the place of it does not panic, either.
            let _ = reader.place(sample);
        }
    }
}

#[test]
fn raw_files_and_tokens_take_the_largest_options() {
    let (_folder, path) = file("data.bin", &[7; 64]);
    for (shape, header_bytes) in [
        (vec![usize::MAX], 0),
        (vec![1 << 32, 1 << 32], 0),
        (vec![isize::MAX as usize / 2 + 1], 0),
        (vec![2], u64::MAX),
        (vec![2], u64::MAX - 1),
        (vec![2], 65),
    ] {
        let options = RawOptions { header_bytes, ..RawOptions::features(StoredType::U16, &shape) };
        assert_eq!(RawReader::open(&path, &options).err().unwrap().kind(), ErrorKind::Format, "{options:?}");
    }
    for targets in [TokenTargets::Shifted, TokenTargets::Inside, TokenTargets::None] {
        let options = TokenOptions { window: 4, targets, ..TokenOptions::default() };
        let strided = TokenOptions { cut: TokenCut::Contiguous { stride: Some(usize::MAX) }, ..options.clone() };
        assert_eq!(TokenReader::open(&path, &strided).unwrap().len(), 1);
        for window in [usize::MAX, usize::MAX - 1, (1 << 30) + 1] {
            let options = TokenOptions { window, ..options.clone() };
            assert_eq!(TokenReader::open(&path, &options).err().unwrap().kind(), ErrorKind::Config);
            assert_eq!(options.samples_per_epoch(u64::MAX), Some(u64::MAX.div_ceil(window as u64)));
        }
        let options = TokenOptions { header_bytes: u64::MAX, ..options };
        assert_eq!(TokenReader::open(&path, &options).err().unwrap().kind(), ErrorKind::Format);
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn images_take_the_largest_limits() {
    let largest =
        ImageOptions { max_pixels: u64::MAX, max_file_bytes: u64::MAX, size: Some((8, 8)), ..ImageOptions::default() };
    let folder = ImageFolder::open_with(fixture("photos"), ImageLabels::None, &largest).unwrap();
    let few = ReaderSource::new(folder).batch_size(4).bad_records(BadRecords::Fail);
    assert_eq!(all_of(few).unwrap().len(), 4);
    let fields = [("image".to_owned(), Image::with(largest.clone()).into())];
    let options = TarOptions { max_file_bytes: u64::MAX, ..TarOptions::default() };
    let tar = TarReader::with_fields(fixture("tar/wds-000.tar"), &fields, &options);
    assert!(all_of(ReaderSource::new(tar.unwrap()).batch_size(2)).is_ok());
    for size in [(u32::MAX, u32::MAX), (1, u32::MAX), (u32::MAX, 1)] {
        let options = ImageOptions { size: Some(size), ..largest.clone() };
        let error = ImageFolder::open_with(fixture("photos"), ImageLabels::None, &options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
}

#[test]
fn a_transformation_that_does_not_fit_its_tensor_is_refused() {
    let spec = |axis, factors: usize, summands: usize| {
        let steps = vec![AffineSteps { shift: 0.0, unit: 1.0, factor: 2.0, start: 1.0 }; factors];
        let affine = Affine { scale: vec![2.0; factors], bias: vec![1.0; summands], steps, axis };
        let mut spec = TensorSpec::new("x", Role::Feature, DType::F32, &[2, 3]);
        spec.affine = Some(Arc::new(affine));
        Schema::new(vec![spec])
    };
    assert!(spec(None, 1, 1).is_ok() && spec(Some(0), 2, 2).is_ok() && spec(Some(1), 3, 3).is_ok());
    for (axis, factors, summands) in [
        (Some(usize::MAX), 1, 1),
        (Some(2), 1, 1),
        (Some(1), 2, 2),
        (Some(1), 3, 2),
        (None, 0, 0),
        (None, 2, 2),
        (None, 1, 0),
    ] {
        let error = spec(axis, factors, summands).unwrap_err();
        assert!(error.kind() == ErrorKind::Schema && error.message().contains("transformation"), "{error}");
    }
}

#[test]
fn a_saved_index_of_a_claimed_length_is_made_anew() {
    let (folder, path) = file("data.csv", b"a\n12\n34\n56\n");
    let modified = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let times = std::fs::FileTimes::new().set_modified(modified);
    std::fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let options = CsvOptions { saved_index: ringfeed::settings::SavedIndex::Beside, ..CsvOptions::default() };
    CsvReader::open(&path, &options).unwrap();
    let kept = folder.path().join("data.csv.ringfeed");
    let mut bytes = std::fs::read(&kept).unwrap();
    for claimed in [u64::MAX, u64::MAX - 24, 1 << 62, 1 << 40] {
        bytes[16..24].copy_from_slice(&claimed.to_le_bytes());
        std::fs::write(&kept, &bytes).unwrap();
        assert_eq!(CsvReader::open(&path, &options).unwrap().len(), 3);
    }
}

#[test]
fn a_plan_refuses_the_epochs_that_a_run_refuses() {
    let flowers = || Loader::csv("fixtures/iris.csv").shuffle(1).samples_per_epoch(u64::MAX);
    for error in [flowers().plan().err().unwrap(), flowers().build().err().unwrap()] {
        assert!(error.message().contains("samples_per_epoch: an epoch of 18446744073709551615 samples"), "{error}");
    }
}

#[test]
fn a_plan_refuses_the_fields_that_a_run_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let north = write("north.csv", "city,x\nOslo,1\nParis,2\n");
    let south = write("south.csv", "city,x\nRome,-1\nParis,2\n");
    let loader = |text: String| Loader::from(ringfeed::LoaderConfig::from_json(&text).unwrap());
    let one = |path: &str, more: &str| loader(format!(r#"{{"shuffle": 1, "source": {path:?}, {more}}}"#));
    let mixed = |paths: [&str; 2]| {
        let source = |path| format!(r#"{{"format": "csv", "path": {path:?}, "fields": {{"city": "category"}}}}"#);
        let [first, second] = paths.map(source);
        loader(format!(r#"{{"shuffle": 1, "mix": [1, 1], "sources": [{first}, {second}]}}"#))
    };
    let cases: [(&str, Loader); 5] = [
        ("nope", one("fixtures/iris.csv", r#""weight_by": "nope""#)),
        ("a weight of -1", one(&south, r#""weight_by": "x""#)),
        ("there is no tensor \"nope\"", one("fixtures/iris.csv", r#""bucket": {"by": "nope", "bounds": [2]}"#)),
        ("same length in every", one("fixtures/iris.csv", r#""bucket": {"by": "features", "bounds": [2]}"#)),
        ("open both with the same list of names", mixed([&north, &south])),
    ];
    for (text, loader) in cases {
        for error in [loader.plan().err(), loader.build().err()] {
            assert!(error.as_ref().is_some_and(|error| error.to_string().contains(text)), "{text}: {error:?}");
        }
    }
    assert_eq!(mixed([&north, &north]).plan().unwrap().samples, Some(4));
    assert_eq!(one(&north, r#""weight_by": "x""#).plan().unwrap().samples, Some(2));
}

#[test]
#[cfg(feature = "metrics")]
fn a_wrong_address_of_metrics_is_told_what_is_allowed() {
    let error = ringfeed::LoaderConfig::from_json(r#"{"source": "fixtures/iris.csv", "metrics": true}"#).unwrap_err();
    assert!(error.message().contains("expected a port, such as 9184"), "{error}");
}

/// Each pair differs in one thing that decides what is at a position, though all counts are equal.
#[test]
fn a_state_of_other_sources_or_series_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, rows: Vec<String>| {
        let path = folder.path().join(name);
        std::fs::write(&path, rows.join("\n")).unwrap();
        path
    };
    let header = || std::iter::once("id,a,b".to_owned());
    let row = |first: u32| move |id: u32| format!("{},{},{}", first + id, u32::from(id >= 10), u32::from(id >= 20));
    let [one, two] = [("one.csv", 100), ("two.csv", 200)]
        .map(|(name, first)| write(name, header().chain((0..30).map(row(first))).collect()));
    let id = |loader: Loader| loader.field("id", Numbers::i64()).shuffle(1).batch_size(5);
    let mixed = |first: &PathBuf, second: &PathBuf| id(Loader::mix([(first, 1.0), (second, 3.0)]).unwrap());
    let series = |name: &str| id(Loader::csv(&one)).windows(Windows::new(3, 0).series(name));
    // Files of one name and one size, which only their folders tell apart, also where they were moved together.
    let [here, moved] = ["here", "moved"].map(|place| {
        [("a", 0), ("b", 100)].map(|(part, first)| {
            std::fs::create_dir_all(folder.path().join(place).join(part)).unwrap();
            write(&format!("{place}/{part}/rows.csv"), header().chain((0..30).map(row(first + 100))).collect())
        })
    });
    let pairs = [
        [mixed(&one, &two), mixed(&two, &one)],
        [mixed(&here[0], &here[1]), mixed(&here[1], &here[0])],
        [series("a"), series("b")],
    ];
    let state = mixed(&here[0], &here[1]).build().unwrap().next().unwrap().unwrap().state_after();
    mixed(&moved[0], &moved[1]).build().unwrap().seek(&state).unwrap();
    for [ours, theirs] in pairs {
        let state = ours.build().unwrap().next().unwrap().unwrap().state_after();
        let batches = |loader: &Loader| {
            let mut iterator = loader.build().unwrap();
            iterator
                .seek(&state)
                .map(|()| iterator.map(|batch| batch.unwrap().sample_ids().to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(batches(&theirs).unwrap_err().kind(), ErrorKind::Config);
        assert!(!batches(&ours).unwrap().is_empty());
    }
}

#[test]
fn a_plan_with_windows_counts_what_its_source_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.csv");
    std::fs::write(&path, format!("a\n{}", "1\n".repeat(100_000))).unwrap();
    let plan = |loader: Loader| loader.budget(50_000).plan().unwrap();
    let (alone, windows) = (plan(Loader::csv(&path)), plan(Loader::csv(&path).windows(Windows::new(2, 0))));
    assert_eq!((alone.held_bytes, alone.fits), (windows.held_bytes, windows.fits));
    assert!(windows.held_bytes > Some(50_000) && windows.fits == Some(false), "{:?}", windows.held_bytes);
}

#[test]
fn padding_to_more_rows_than_this_machine_holds_is_refused_without_a_budget() {
    let iris = || Loader::csv(fixture("iris.csv")).batch_size(1 << 45);
    for loader in [iris(), iris().shuffle(1)] {
        let padded = loader.clone().last_batch(LastBatch::Pad);
        let error = padded.build().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains("the memory of this machine"), "{error}");
        assert_eq!(loader.build().unwrap().next().unwrap().unwrap().len(), 150);
    }
}
