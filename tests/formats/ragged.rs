//! Ragged tensors: lists of a batch one behind another, with offsets, whoever makes the batches and whatever is bad.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::Path;

use crate::common::{Seen, see, see_all, workspace};
use proptest::prelude::*;
use ringfeed::device::{Device, HostDevice, Upload};
use ringfeed::error::Location;
use ringfeed::field::Numbers;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::{Buckets, LastBatch, RandomKey, Shard, State};
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, Source};
use ringfeed::tensor::{Extents, Role, Rows, TensorSpec};
use ringfeed::transform::{Operation, cast, clip, pad_to};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSet, DataSetIterator, Error, ErrorKind, Loader,
    LoaderConfig, Result, Workspace,
};

/// Rows of a sparse matrix: `indices` and `values` with one `offsets`, and the id. Records that are dealt a 0 of `bad`
/// are bad.
struct Sparse {
    len: u64,
    longest: u64,
    bad: Option<u64>,
    tensors: Vec<TensorSpec>,
}

impl Sparse {
    fn new(len: u64, longest: u64, bad: Option<u64>) -> Self {
        crate::common::watchdog::watch();
        let tensors = vec![
            TensorSpec::ragged("values", Role::Feature, DType::F32, 0),
            TensorSpec::ragged("indices", Role::Feature, DType::U16, 0),
            TensorSpec::offsets("offsets", 0),
            TensorSpec::new("id", Role::Label, DType::I64, &[]),
        ];
        Self { len, longest, bad, tensors }
    }

    fn length(&self, sample: u64) -> usize {
        (RandomKey::new(3).bits(sample) % (self.longest + 1)) as usize
    }

    fn is_bad(&self, sample: u64) -> bool {
        self.bad.is_some_and(|bad| RandomKey::new(4).bits(sample).is_multiple_of(bad))
    }

    /// What a batch of these samples must hold.
    fn naive(&self, samples: &[u64]) -> (Vec<Vec<usize>>, Vec<Vec<u8>>) {
        let mut tensors = vec![Vec::new(); 4];
        let mut end = 0i64;
        tensors[2].extend(0i64.to_ne_bytes());
        for &id in samples {
            for at in 0..self.length(id) {
                tensors[0].extend((id as f32 + at as f32 / 64.0).to_ne_bytes());
                tensors[1].extend((at as u16).to_ne_bytes());
                end += 1;
            }
            tensors[2].extend(end.to_ne_bytes());
            tensors[3].extend((id as i64).to_ne_bytes());
        }
        let (rows, elements) = (samples.len(), end as usize);
        (vec![vec![elements], vec![elements], vec![rows + 1], vec![rows]], tensors)
    }

    fn check(&self, batches: &[Seen]) {
        for batch in batches {
            assert_eq!((batch.shapes.clone(), batch.tensors.clone()), self.naive(&batch.samples), "{batch:?}");
        }
    }
}

impl RecordReader for Sparse {
    fn len(&self) -> u64 {
        self.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
        // Some are found to be bad before they are laid out, others when they are decoded.
        if self.is_bad(sample) && sample.is_multiple_of(2) {
            return Err(Error::new(ErrorKind::Data, "can't be measured"));
        }
        Ok(Extents::of_length(self.length(sample) as u32))
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let id = sample.id;
        if self.is_bad(id) {
            return Err(Error::new(ErrorKind::Data, "can't be decoded"));
        }
        let mut values = row.tensor(0);
        assert_eq!(values.shape(), [self.length(id)]);
        for (at, value) in values.as_mut_slice::<f32>()?.iter_mut().enumerate() {
            *value = id as f32 + at as f32 / 64.0;
        }
        for (at, index) in row.tensor(1).as_mut_slice::<u16>()?.iter_mut().enumerate() {
            *index = at as u16;
        }
        assert_eq!(row.tensor(2).bytes_mut().len(), 0, "offsets are no sample's");
        row.tensor(3).as_mut_slice::<i64>()?[0] = id as i64;
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is bad is left out or replaced, by samples of other lengths: the offsets are those of what is left.
    #[test]
    fn batches_hold_what_their_samples_hold_whoever_makes_them(
        len in 1u64..150, batch_size in 1usize..20, longest in 0u64..30, bad in prop::option::of(3u64..9), replaces: bool,
        seed in prop::option::of(any::<u64>()), workers in 1usize..4, prefetch in 0usize..4, pad: bool,
    ) {
        let sparse = Sparse::new(len, longest, bad);
        // With too few good ones, a bad one can't be replaced.
        let replaces = replaces && (0..len).filter(|id| !sparse.is_bad(*id)).count() > len as usize / 2;
        let policy = if replaces { BadRecords::Replace(BadLimits::default()) } else { BadRecords::Skip(BadLimits::default()) };
        let source = || {
            let last = if pad { LastBatch::Pad } else { LastBatch::Keep };
            let source = ReaderSource::new(Sparse::new(len, longest, bad)).batch_size(batch_size).last_batch(last);
            let source = source.bad_records(policy);
            if let Some(seed) = seed { source.shuffle(seed) } else { source }
        };
        let mut ahead = AsyncDataSetIterator::new(source(), &workspace(workers, prefetch)).unwrap();
        let mut shielded = AsyncShieldDataSetIterator::new(source(), &workspace(1, 0)).unwrap();
        for _ in 0..2 {
            let batches = see_all(&mut ahead);
            sparse.check(&batches);
            prop_assert_eq!(&see_all(&mut shielded), &batches);
            ahead.reset().unwrap();
            shielded.reset().unwrap();
        }
    }

    #[test]
    fn shards_are_one_order_and_go_on_from_any_state(
        len in 1u64..150, seed in any::<u64>(), shards in 1u32..5, stop in 0usize..6,
    ) {
        let sparse = Sparse::new(len, 12, Some(7));
        let open = |shard: u32, state: Option<&State>| {
            let source = ReaderSource::new(Sparse::new(len, 12, Some(7))).batch_size(7).shuffle(seed);
            let source = source.bad_records(BadRecords::Skip(BadLimits::default()));
            let source = source.shard(Shard::new(shard, shards).unwrap());
            let mut batches = AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap();
            state.into_iter().for_each(|state| batches.seek(state).unwrap());
            batches
        };
        let mut ids = Vec::new();
        for shard in 0..shards {
            let whole = see_all(&mut open(shard, None));
            sparse.check(&whole);
            ids.extend(whole.iter().flat_map(|batch| batch.samples[..batch.samples.len() - batch.padding].to_vec()));
            let mut first = open(shard, None);
            let before: Vec<Seen> = first.by_ref().take(stop).map(|batch| see(&batch.unwrap())).collect();
            let state = first.state();
            prop_assert_eq!([before, see_all(&mut open(shard, Some(&state)))].concat(), whole);
        }
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..len).filter(|id| !sparse.is_bad(*id)).collect::<Vec<_>>());
    }
}

#[test]
fn a_batch_that_is_filled_again_after_another_source_is_the_same() {
    let source = || {
        let policy = BadRecords::Replace(BadLimits::default());
        ReaderSource::new(Sparse::new(200, 20, Some(6))).batch_size(9).shuffle(5).bad_records(policy)
    };
    let alone = see_all(&mut AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap());
    for taken in 0..4 {
        let workspace = workspace(2, 3);
        let mut turns = AsyncDataSetIterator::new(source(), &workspace).unwrap();
        let other = ReaderSource::new(Sparse::new(20, 3, None)).batch_size(4);
        let mut other = AsyncDataSetIterator::new(other, &workspace).unwrap();
        let mut seen: Vec<Seen> = turns.by_ref().take(taken).map(|batch| see(&batch.unwrap())).collect();
        drop(other.next().unwrap().unwrap());
        seen.extend(see_all(&mut turns));
        assert_eq!(seen, alone, "after {taken}");
    }
}

/// Lists of one number, of which the first is bad, and behind the first batch lists that no budget has room for.
struct Uneven([TensorSpec; 2]);

impl RecordReader for Uneven {
    fn len(&self) -> u64 {
        1000
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
        Ok(Extents::of_length(if sample < 4 { 1 } else { 1 << 20 }))
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        row.tensor(0).bytes_mut().fill(1);
        if sample.id == 0 { Err(Error::new(ErrorKind::Data, "can't be decoded")) } else { Ok(()) }
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

#[test]
fn a_replacement_that_the_budget_has_no_room_for_is_named_so() {
    for shielded in [false, true] {
        crate::common::watchdog::watch();
        let uneven = Uneven([TensorSpec::ragged("x", Role::Feature, DType::U8, 0), TensorSpec::offsets("offsets", 0)]);
        let source = ReaderSource::new(uneven).batch_size(4).bad_records(BadRecords::Replace(BadLimits::default()));
        let workspace =
            Workspace::builder().workers(1).prefetch(0).budget(MemoryBudget::new(64 << 10)).build().unwrap();
        let source: Box<dyn Source> = if shielded { Box::new(shield(source)) } else { Box::new(source) };
        let error = wrap(source, &workspace).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget, "{error}");
    }
}

#[test]
fn buckets_by_a_ragged_length_pad_nothing() {
    let sparse = Sparse::new(300, 40, None);
    let source = ReaderSource::new(Sparse::new(300, 40, None)).shuffle(2);
    let source = source.bucket(Buckets::new("values", [5, 20, 40]).tokens_per_batch(120));
    let batches = see_all(&mut AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap());
    sparse.check(&batches);
    assert_eq!(batches.iter().map(|batch| batch.samples.len()).sum::<usize>(), 300);
    assert!(batches.iter().all(|batch| batch.shapes[0][0] <= 120));
}

#[test]
fn a_batch_takes_as_much_memory_as_its_lists_not_as_the_longest_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    let line = |at: usize| {
        let list = vec!["1"; if at == 500 { 100_000 } else { 3 }];
        format!("{{\"x\": [{}]}}\n", list.join(","))
    };
    std::fs::write(&path, (0..1000).map(line).collect::<String>()).unwrap();
    let open =
        |numbers: Numbers| Loader::open(&path).unwrap().field("x", numbers).batch_size(1000).workers(1).prefetch(1);
    let mut batches = open(Numbers::f32().ragged()).budget(16 << 20).build().unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!(batch.tensor("x").unwrap().shape(), [100_000 + 999 * 3]);
    let offsets = batch.tensor("x_offsets").unwrap().as_slice::<i64>().unwrap();
    assert_eq!((offsets.len(), offsets[500], offsets[501], offsets[1000]), (1001, 1500, 101_500, 102_997));
    let padded = open(Numbers::f32()).budget(16 << 20).build().and_then(|mut batches| batches.next().unwrap());
    assert_eq!(padded.unwrap_err().kind(), ErrorKind::Budget);
}

fn lists(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("lists.jsonl");
    std::fs::write(&path, "{\"x\": [1, 2, 3]}\n{\"x\": []}\n{\"x\": [4]}\n{\"y\": 1}\n{\"x\": [5, 6]}\n").unwrap();
    path
}

fn floats(batch: &DataSet, name: &str) -> Vec<f32> {
    batch.tensor(name).unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn offsets(batch: &DataSet, name: &str) -> Vec<i64> {
    batch.tensor(name).unwrap().as_slice::<i64>().unwrap().to_vec()
}

#[test]
fn lists_of_any_format_become_ragged_by_one_word() {
    let folder = tempfile::tempdir().unwrap();
    let lists = lists(folder.path());
    let open = |settings: &str| {
        let settings = format!("batch_size = 100\nsource = {{ path = {lists:?} }}\n[fields]\n{settings}");
        Loader::from(toml::from_str::<LoaderConfig>(&settings).unwrap()).build()
    };
    let batch = open("x = { numbers = \"f32\", ragged = true }").unwrap().next().unwrap().unwrap();
    assert_eq!(floats(&batch, "x"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(offsets(&batch, "x_offsets"), [0, 3, 3, 4, 4, 6], "a list that is missing has no numbers");
    let rows: Vec<&[f32]> = batch.rows::<f32>("x").unwrap().collect();
    assert_eq!(rows, [&[1.0, 2.0, 3.0][..], &[], &[4.0], &[], &[5.0, 6.0]]);
    let specs = batch.schema().tensors();
    assert_eq!((specs[0].rows, specs[1].rows, specs[1].role), (Rows::Ragged, Rows::Offsets, Role::Mask));
    let cut = "x = { numbers = \"f32\", ragged = true, max_len = 2, longer = \"cut\" }";
    let batch = open(cut).unwrap().next().unwrap().unwrap();
    assert_eq!(
        (floats(&batch, "x"), offsets(&batch, "x_offsets")),
        (vec![1.0, 2.0, 4.0, 5.0, 6.0], vec![0, 2, 2, 3, 3, 5])
    );
    let long = open("x = { numbers = \"f32\", ragged = true, max_len = 2 }").unwrap().next().unwrap().unwrap_err();
    assert!(long.message().contains("a list of 3 numbers; at most 2 fit") && long.location().line == Some(1), "{long}");
    for (settings, message) in [
        ("x = { numbers = \"f32\", ragged = true, shape = [2] }", "either a shape or ragged"),
        ("x = { numbers = \"f32\", ragged = true, pad = -1 }", "ragged lists have no padding"),
        ("x = { text = 3, ragged = true }", "ragged does not belong to text"),
        ("x = { numbers = \"f32\", list = true, shape = [2] }", "either a shape or list"),
        (
            "x = { from = [\"x\", \"y\"], numbers = \"f32\", list = true }",
            "x.from: each of several fields gives one number",
        ),
        (
            "x = { from = [\"x\", \"y\"], numbers = \"f32\", ragged = true }",
            "x.from: each of several fields gives one number",
        ),
        (
            "x = { from = [\"x\", \"y\"], numbers = \"f32\", max_len = 3 }",
            "x.from: each of several fields gives one number",
        ),
    ] {
        let error = settings_error(&lists, settings);
        assert!(error.contains(message), "{settings}: {error}");
    }
    let parquet = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/parquet/types.parquet");
    if cfg!(feature = "parquet") {
        let loader = Loader::open(parquet).unwrap().field("list", Numbers::i64().ragged()).batch_size(100);
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        let expected: Vec<i64> = (0..11).filter(|at| *at != 5).flat_map(|at| 0..at).collect();
        assert_eq!(offsets(&batch, "list"), expected);
        assert_eq!(offsets(&batch, "list_offsets"), [0, 0, 1, 3, 6, 10, 10, 16, 23, 31, 40, 50]);
    }
}

fn settings_error(path: &Path, fields: &str) -> String {
    let settings = format!("source = {{ path = {path:?} }}\n[fields]\n{fields}");
    match toml::from_str::<LoaderConfig>(&settings) {
        Err(error) => error.to_string(),
        Ok(config) => Loader::from(config).build().map(|_| ()).unwrap_err().to_string(),
    }
}

#[test]
fn transforms_change_ragged_tensors_where_they_are_or_say_that_they_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let path = lists(folder.path());
    let loader = || Loader::open(&path).unwrap().field("x", Numbers::f32().ragged());
    let changed = loader().transform(clip("x", 2.0, 5.0)).change("x", |_, x, _| {
        x.f32()?.iter_mut().for_each(|x| *x += 0.5);
        Ok(())
    });
    let changed = changed.map(TensorSpec::f32("sum", []), |row, out, _| {
        out.f32()?[0] = row.f32("x")?.iter().sum();
        Ok(())
    });
    let batch = changed.build().unwrap().next().unwrap().unwrap();
    assert_eq!(floats(&batch, "x"), [2.5, 2.5, 3.5, 4.5, 5.5, 5.5]);
    assert_eq!(offsets(&batch, "x_offsets"), [0, 3, 3, 4, 4, 6]);
    assert_eq!(floats(&batch, "sum"), [8.5, 0.0, 4.5, 0.0, 11.0]);
    for loader in [
        loader().transform(cast("x", DType::F64)),
        loader().transform(pad_to("x", 8)),
        loader().remove("x"),
        loader().remove("x_offsets"),
        loader().map(TensorSpec::ragged("y", Role::Feature, DType::F32, 0), |_, _, _| Ok(())),
    ] {
        let error = loader.build().map(|_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("leave `ragged` out"), "{error}");
    }
    let moved = loader().change("x_offsets", |_, _, _| Ok(())).build().map(|_| ()).unwrap_err();
    assert!(moved.message().contains("can't be changed"), "{moved}");
}

#[test]
fn a_device_gets_ragged_tensors_as_they_are_and_converts_none() {
    let device = HostDevice::new();
    let sparse = Sparse::new(30, 9, None);
    let source = || ReaderSource::new(Sparse::new(30, 9, None)).batch_size(8);
    let batches = AsyncDataSetIterator::new(source(), &workspace(1, 1)).unwrap();
    let mut uploaded = Upload::to(device.clone()).start(batches).unwrap();
    let batch = uploaded.next().unwrap().unwrap();
    let ids: Vec<u64> = batch.sample_ids().to_vec();
    let (shapes, _) = sparse.naive(&ids);
    let stream = device.stream().unwrap();
    let on = batch.on(&stream).unwrap();
    let found: Vec<Vec<usize>> =
        ["values", "indices", "offsets", "id"].map(|name| on.tensor(name).unwrap().shape().to_vec()).into();
    assert_eq!(found, shapes);
    let batches = AsyncDataSetIterator::new(source(), &workspace(1, 1)).unwrap();
    let convert = Operation::OneHot { tensor: "indices".to_owned(), classes: Some(3), dtype: DType::F32 };
    let refused = Upload::to(device).transform(convert).start(batches).map(|_| ()).unwrap_err();
    assert!(refused.message().contains("leave `ragged` out"), "{refused}");
}
