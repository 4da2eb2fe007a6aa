//! The transforms that Ringfeed brings along: the numbers of NumPy and scikit-learn, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use crate::common::{Waves, fixture, see_all, workspace};
use ringfeed::error::Location;
use ringfeed::images::PixelOrder;
use ringfeed::normalise::QuantileFit;
use ringfeed::read::{MemoryReader, RecordReader, RowMut, Sample, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, Source, Transformed};
use ringfeed::tensor::{Dim, Extents, NumberSlice, Role, TensorSpec, bf16, f16};
use ringfeed::transform::{
    Operation, Transforms, bins, cast, clip, cutmix, log1p, masking, mixup, noise, normalise, one_hot, pad_to,
    pad_to_multiple, quantile, remove, scale,
};
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSet, DataSetIterator, ErrorKind, Loader, LoaderConfig,
    Normaliser,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixture {
    /// What scikit-learn was fitted on.
    train: Vec<f64>,
    x: Vec<f32>,
    classes: Vec<i64>,
    log1p: Vec<f64>,
    clip: Vec<f64>,
    f16: Vec<f64>,
    robust: Parameters,
    minmax: Parameters,
    standard_log: Parameters,
    quantile: Parameters,
    bins: Parameters,
    one_hot: Vec<f32>,
}

/// What scikit-learn fitted, and what it makes of the numbers.
#[derive(Deserialize)]
struct Parameters {
    expected: Vec<f64>,
    #[serde(flatten)]
    fitted: BTreeMap<String, Vec<f64>>,
}

fn members() -> Fixture {
    serde_json::from_str(&std::fs::read_to_string(fixture("transforms/members.json")).unwrap()).unwrap()
}

/// The only batch of the numbers of the fixture, five in a sample, and their classes.
fn batch_of(list: impl IntoIterator<Item = Operation>) -> DataSet {
    opened(members(), list).unwrap()
}

fn opened(fixture: Fixture, list: impl IntoIterator<Item = Operation>) -> ringfeed::Result<DataSet> {
    let x = MemoryReader::new("x", Role::Feature, &[5], fixture.x).unwrap();
    let classes = MemoryReader::new("class", Role::Label, &[5], fixture.classes).unwrap();
    let source = ReaderSource::new(x).and(classes).batch_size(100);
    let source = Transformed::new(source, list.into_iter().collect());
    AsyncDataSetIterator::new(source, &workspace(2, 1))?.next().unwrap()
}

fn numbers(batch: &DataSet, name: &str) -> Vec<f64> {
    let numbers = batch.tensor(name).unwrap().numbers();
    (0..numbers.len()).map(|index| numbers.at(index)).collect()
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error <= tolerance, "{index}: {found} instead of {expected}");
    }
}

#[test]
fn each_member_gives_the_numbers_of_numpy_and_scikit_learn() {
    let f = members();
    let one = |parameters: &Parameters, name: &str| parameters.fitted[name].clone();
    assert_near(&numbers(&batch_of([log1p("x")]), "x"), &f.log1p, 1e-7);
    assert_eq!(numbers(&batch_of([clip("x", 0.5, 20.0)]), "x"), f.clip);
    assert_eq!(numbers(&batch_of([clip("x", 0.5, 20.0), cast("x", DType::F16)]), "x"), f.f16);
    let minmax =
        Normaliser::MinMax { axis: None, low: one(&f.minmax, "low"), high: one(&f.minmax, "high"), range: (-1.0, 1.0) };
    assert_near(&numbers(&batch_of([normalise("x", minmax)]), "x"), &f.minmax.expected, 1e-6);
    let robust =
        Normaliser::Standardise { axis: None, mean: one(&f.robust, "centre"), deviation: one(&f.robust, "scale") };
    assert_near(&numbers(&batch_of([normalise("x", robust)]), "x"), &f.robust.expected, 1e-6);
    // Behind another transform, it can't be done while decoding, and comes to the same.
    let standard = Normaliser::Standardise {
        axis: None,
        mean: one(&f.standard_log, "mean"),
        deviation: one(&f.standard_log, "deviation"),
    };
    assert_near(&numbers(&batch_of([log1p("x"), normalise("x", standard)]), "x"), &f.standard_log.expected, 1e-6);
    assert_near(
        &numbers(&batch_of([cast("x", DType::F64), quantile("x", one(&f.quantile, "quantiles"))]), "x"),
        &f.quantile.expected,
        1e-9,
    );
    assert_eq!(numbers(&batch_of([bins("x", one(&f.bins, "edges"))]), "x"), f.bins.expected);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16, DType::U8, DType::I32] {
        let batch = batch_of([Operation::OneHot { tensor: "class".into(), classes: Some(5), dtype }]);
        assert_eq!(batch.tensor("class").unwrap().shape(), [f.x.len() / 5, 5, 5]);
        let found: Vec<f32> = numbers(&batch, "class").iter().map(|x| *x as f32).collect();
        assert_eq!((found, batch.tensor("class").unwrap().dtype()), (f.one_hot.clone(), dtype));
    }
}

#[test]
fn edges_ties_and_what_is_no_number_are_what_they_are_to_numpy_and_scikit_learn() {
    let of = |x: [f32; 5], operation: Operation| {
        let fixture = Fixture { x: x.to_vec(), classes: vec![0; 5], ..members() };
        numbers(&opened(fixture, [operation]).unwrap(), "x")
    };
    // numpy.digitize(x, [1, 2])
    assert_eq!(of([1.0, 2.0, 1.5, 0.5, 2.5], bins("x", [1.0, 2.0])), [1.0, 2.0, 1.0, 0.0, 2.0]);
    // QuantileTransformer whose quantiles are these
    assert_eq!(of([1.0, 2.5, 0.5, 0.0, 4.0], quantile("x", [0.0, 1.0, 1.0, 1.0, 4.0])), [0.5, 0.875, 0.125, 0.0, 1.0]);
    let ranked = of([f32::NAN, 2.0, f32::NAN, 0.0, 4.0], quantile("x", [0.0, 2.0, 4.0]));
    assert!(ranked[0].is_nan() && ranked[2].is_nan(), "what is missing is in no place: {ranked:?}");
    assert_eq!([ranked[1], ranked[3], ranked[4]], [0.5, 0.0, 1.0]);
    // Further apart than f64 reaches.
    assert_eq!(of([0.0; 5], quantile("x", [-1.7e308, 1.7e308])), [0.5; 5]);
    // numpy.clip(x, 1.25, 2.25)
    let clipped = of([1.0, 2.0, f32::NAN, 0.5, 2.5], clip("x", 1.25, 2.25));
    assert!(clipped[2].is_nan(), "{clipped:?}");
    assert_eq!([clipped[0], clipped[1], clipped[3], clipped[4]], [1.25, 2.0, 1.25, 2.25]);
}

#[test]
fn all_of_a_sample_is_scaled_by_one_factor() {
    let x: Vec<f32> = (1..=50).map(|n| n as f32).collect();
    let fixture = Fixture { x: x.clone(), classes: vec![0; 50], ..members() };
    let scaled = numbers(&opened(fixture, [scale("x", 2.0, 3.0)]).unwrap(), "x");
    let factors: Vec<f64> = scaled.iter().zip(&x).map(|(scaled, x)| scaled / f64::from(*x)).collect();
    for of_sample in factors.chunks(5) {
        assert!(of_sample.iter().all(|factor| (factor - of_sample[0]).abs() < 1e-6), "{of_sample:?}");
        assert!((2.0..=3.0).contains(&of_sample[0]));
    }
    assert!(factors.chunks(5).any(|of_sample| (of_sample[0] - factors[0]).abs() > 0.1), "{factors:?}");
}

#[test]
fn numbers_of_16_bits_are_rounded_once() {
    let clipped = |dtype: DType, low: f64| {
        let zero = MemoryReader::new("x", Role::Feature, &[1], vec![0.0f32]).unwrap();
        let list = [cast("x", dtype), clip("x", low, 2.0)].into_iter().collect();
        let source = Transformed::new(ReaderSource::new(zero), list);
        let batch = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap().next().unwrap().unwrap();
        numbers(&batch, "x")[0] - 1.0
    };
    // Just above the middle between 1 and the next number: rounded to 32 bits first, it is the middle, which is rounded
    // down.
    for (dtype, next) in [(DType::F16, 2f64.powi(-10)), (DType::Bf16, 2f64.powi(-7))] {
        assert_eq!(clipped(dtype, 1.0 + next / 2.0 + 2f64.powi(-40)), next);
        assert_eq!(clipped(dtype, 1.0 + next / 2.0), 0.0);
    }
}

#[test]
fn a_clip_with_one_bound_leaves_the_other_side_alone() {
    let of = |low: Option<f64>, high: Option<f64>| {
        let fixture = Fixture { x: vec![-500.0, 0.5, 1.5, 20.0, 1e6], classes: vec![0; 5], ..members() };
        numbers(&opened(fixture, [Operation::Clip { tensor: "x".into(), low, high }]).unwrap(), "x")
    };
    assert_eq!(of(Some(1.0), None), [1.0, 1.0, 1.5, 20.0, 1e6]);
    assert_eq!(of(None, Some(1.5)), [-500.0, 0.5, 1.5, 1.5, 1.5]);
}

#[test]
fn a_probability_is_the_share_of_samples_or_elements_that_change() {
    let of = |operation: Operation| {
        let x: Vec<f32> = (1..=500).map(|n| n as f32).collect();
        let fixture = Fixture { x: x.clone(), classes: vec![0; 500], ..members() };
        let found = numbers(&opened(fixture, [operation]).unwrap(), "x");
        found.into_iter().zip(x).map(|(found, x)| (found, f64::from(x))).collect::<Vec<_>>()
    };
    let noise = |probability| of(Operation::Noise { tensor: "x".into(), deviation: 0.5, probability });
    let scale = |probability| of(Operation::Scale { tensor: "x".into(), low: 2.0, high: 3.0, probability });
    for (never, sometimes) in [(noise(0.0), noise(0.3)), (scale(0.0), scale(0.3))] {
        assert!(never.iter().all(|(found, x)| found == x));
        let changed = |row: &[(f64, f64)]| row.iter().filter(|(found, x)| found != x).count();
        let rows: Vec<usize> = sometimes.chunks(5).map(changed).collect();
        assert!(rows.iter().all(|changed| [0, 5].contains(changed)), "all of a sample, or nothing: {rows:?}");
        let share = rows.iter().filter(|changed| **changed > 0).count();
        assert!((15..45).contains(&share), "{share} of 100 samples");
    }
    let masked = of(Operation::Masking { tensor: "x".into(), probability: 0.3, value: -7.0 });
    assert!(masked.iter().all(|(found, x)| *found == -7.0 || found == x));
    let count = masked.iter().filter(|(found, _)| *found == -7.0).count();
    assert!((100..200).contains(&count), "{count} of 500 elements");
}

#[test]
fn each_tensor_has_a_noise_of_its_own() {
    let zeros = || vec![0f32; 40];
    let [x, y] = ["x", "y"].map(|name| MemoryReader::new(name, Role::Feature, &[4], zeros()).unwrap());
    let source = ReaderSource::new(x).and(y).batch_size(10);
    let list = [noise("x", 1.0), noise("y", 1.0)].into_iter().collect();
    let mut batches = AsyncShieldDataSetIterator::new(Transformed::new(source, list), &workspace(1, 0)).unwrap();
    let batch = batches.next().unwrap().unwrap();
    let same = numbers(&batch, "x").iter().zip(numbers(&batch, "y")).filter(|(x, y)| **x == *y).count();
    assert_eq!(same, 0);
}

#[test]
fn one_noise_behind_another_is_another_noise() {
    let noisy = |times: usize| {
        let fixture = Fixture { x: vec![0.0; 50], classes: vec![0; 50], ..members() };
        numbers(&opened(fixture, vec![noise("x", 1.0); times]).unwrap(), "x")
    };
    let doubled = noisy(1).iter().zip(noisy(2)).filter(|(once, twice)| (twice - 2.0 * **once).abs() < 1e-3).count();
    assert!(doubled < 5, "{doubled} of 50");
}

#[test]
fn padding_of_sparse_rows_is_no_entry_of_their_first_column() {
    let values = MemoryReader::new("x", Role::Feature, &[3], vec![5.0f32, 2.0, 0.0, 7.0, 0.0, 0.0]).unwrap();
    let columns = MemoryReader::new("at", Role::Feature, &[3], vec![0i64, 3, 0, 2, 0, 0]).unwrap();
    let mask = MemoryReader::new("there", Role::Feature, &[3], vec![1u8, 1, 0, 1, 0, 0]).unwrap();
    let (tensor, indices, mask_name) = ("x".to_owned(), "at".to_owned(), Some("there".to_owned()));
    let dense = Operation::Dense { tensor, indices, columns: 4, mask: mask_name, dtype: DType::F32 };
    let source = ReaderSource::new(values).and(columns).and(mask).batch_size(2);
    let source = Transformed::new(source, [dense].into_iter().collect());
    let batch = AsyncShieldDataSetIterator::new(source, &workspace(1, 0)).unwrap().next().unwrap().unwrap();
    assert_eq!(numbers(&batch, "x"), [5.0, 0.0, 0.0, 2.0, 0.0, 0.0, 7.0, 0.0]);
}

#[test]
fn a_normaliser_gives_the_same_bits_wherever_it_stands_and_along_any_axis() {
    let values: Vec<f32> = (0..240).map(|i| (i * 37 % 101) as f32 / 7.0).collect();
    let normaliser = |axis| Normaliser::Standardise {
        axis: Some(axis),
        mean: (0..[4, 3, 5][axis]).map(|i| i as f64).collect(),
        deviation: (0..[4, 3, 5][axis]).map(|i| 1.5 + i as f64).collect(),
    };
    for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
        for axis in 0..3 {
            let run = |list: Vec<Operation>| {
                let reader = MemoryReader::new("x", Role::Feature, &[4, 3, 5], values.clone()).unwrap();
                let source =
                    Transformed::new(ReaderSource::new(reader.dtype(dtype).unwrap()), list.into_iter().collect());
                see_all(&mut AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap())
            };
            let wide = clip("x", -1e4, 1e4);
            let fused = run(vec![normalise("x", normaliser(axis)), wide.clone()]);
            let late = run(vec![wide, normalise("x", normaliser(axis))]);
            if matches!(dtype, DType::F16 | DType::Bf16) {
                // Decoded, it is rounded once; behind, the decoded number was rounded before.
                assert_eq!(fused[0].shapes, late[0].shapes);
            } else {
                assert_eq!(fused, late, "{dtype} {axis}");
            }
        }
    }
}

#[test]
fn a_cast_keeps_every_number_or_says_which_it_can_not() {
    let exact = vec![i64::MIN, -1, 0, 255, i64::MAX];
    let of = |values: Vec<i64>, list: Vec<Operation>| {
        let reader = MemoryReader::new("n", Role::Label, &[], values).unwrap();
        let policy = BadRecords::skip(BadLimits::default());
        let source = ReaderSource::new(reader).bad_records(policy);
        let mut batches =
            AsyncDataSetIterator::new(Transformed::new(source, list.into_iter().collect()), &workspace(1, 0)).unwrap();
        let batch = batches.next().unwrap().unwrap();
        (batch, batches.bad_records())
    };
    let (batch, bad) = of(exact.clone(), vec![cast("n", DType::U8)]);
    assert_eq!((batch.labels().unwrap().as_slice::<u8>().unwrap(), bad.len()), (&[0, 255][..], 3));
    assert!(
        bad[0].error.contains("-9223372036854775808") && bad[0].error.contains("does not fit u8"),
        "{}",
        bad[0].error
    );
    let (batch, bad) = of(exact.clone(), vec![cast("n", DType::F64), cast("n", DType::I64)]);
    assert_eq!((batch.labels().unwrap().as_slice::<i64>().unwrap(), bad.len()), (&[-1, 0, 255][..], 2));
    assert!(bad[0].error.contains("may have been rounded"), "{}", bad[0].error);
    let (batch, _) = of(vec![-3, 7], vec![cast("n", DType::Bf16), cast("n", DType::I16)]);
    assert_eq!(batch.labels().unwrap().as_slice::<i16>().unwrap(), [-3, 7]);
    let (batch, _) = of(exact, vec![cast("n", DType::F32)]);
    assert_eq!(batch.labels().unwrap().as_slice::<f32>().unwrap()[4], i64::MAX as f32);
    let halves = [f16::from_f32(1.5).to_f32(), bf16::from_f32(1.5).to_f32()];
    assert_eq!(halves, [1.5, 1.5]);
    let reader = MemoryReader::new("n", Role::Label, &[], vec![1.5f32]).unwrap();
    let source = Transformed::new(ReaderSource::new(reader), Transforms::new().with(cast("n", DType::I64)));
    let error = AsyncDataSetIterator::new(source, &workspace(1, 0)).unwrap().next().unwrap().unwrap_err();
    assert!(error.to_string().contains("element 0: 1.5 does not fit i64"), "{error}");
}

/// [`Waves`] with a mask that is named after them.
fn waves(list: Transforms, policy: BadRecords) -> Transformed<ReaderSource> {
    let rename = Transforms::new()
        .map(TensorSpec::with_dims("wave_mask", Role::Mask, DType::U8, vec![Dim::Extent(0)]), |row, out, _| {
            out.bytes_mut().copy_from_slice(row.u8("mask")?);
            Ok(())
        })
        .remove("mask");
    let source = ReaderSource::new(Waves::new(60, 40)).batch_size(8).bad_records(policy);
    Transformed::new(source, rename.then(list))
}

#[test]
fn padding_is_left_alone() {
    let list = [
        clip("wave", 5.0, 7.0),
        normalise(
            "wave",
            Normaliser::Standardise { axis: Some(1), mean: vec![1.0, 2.0, 3.0], deviation: vec![2.0; 3] },
        ),
    ];
    let list = list.into_iter().chain([scale("wave", 0.5, 2.0), noise("wave", 0.1), masking("wave", 0.1)]);
    let list: Vec<Operation> = list.chain([one_hot_of_mask()]).collect();
    let lengths = Waves::new(60, 40);
    let mut batches =
        AsyncDataSetIterator::new(waves(list.into_iter().collect(), BadRecords::Fail), &workspace(2, 2)).unwrap();
    for batch in batches.by_ref() {
        let batch = batch.unwrap();
        let wave = batch.tensor("wave").unwrap();
        let steps = wave.shape()[1];
        for (id, row) in batch.sample_ids().iter().zip(wave.as_slice::<f32>().unwrap().chunks(3 * steps)) {
            let (data, padding) = row.split_at(3 * lengths.length(*id));
            assert!(padding.iter().all(|x| *x == 0.0), "{padding:?}");
            assert!(data.iter().filter(|x| **x != 0.0).count() > data.len() / 2);
        }
    }
}

/// Only that a further member can stand behind.
fn one_hot_of_mask() -> Operation {
    Operation::OneHot { tensor: "id".into(), classes: Some(60), dtype: DType::U8 }
}

#[test]
fn lengths_are_padded_to_a_number_or_a_multiple() {
    let lengths = Waves::new(60, 40);
    let shapes = |operation: Operation, policy| {
        let source = waves(Transforms::new().with(operation), policy);
        let mut batches = AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap();
        let mut shapes = Vec::new();
        for batch in batches.by_ref() {
            let batch = batch.unwrap();
            let (wave, mask) = (batch.tensor("wave").unwrap(), batch.tensor("wave_mask").unwrap());
            let steps = wave.shape()[1];
            assert_eq!(mask.shape(), [batch.len(), steps]);
            let rows =
                wave.as_slice::<f32>().unwrap().chunks(3 * steps).zip(mask.as_slice::<u8>().unwrap().chunks(steps));
            for (id, (wave, mask)) in batch.sample_ids().iter().zip(rows) {
                let length = lengths.length(*id);
                assert!(mask.iter().enumerate().all(|(i, present)| usize::from(*present) == usize::from(i < length)));
                let value = |i: usize| if i < 3 * length { Waves::value(*id, i / 3, i % 3) } else { 0.0 };
                assert!(wave.iter().enumerate().all(|(i, x)| *x == value(i)));
            }
            shapes.push((batch.sample_ids().to_vec(), steps));
        }
        (shapes, batches.bad_records(), batches.schema().clone())
    };
    let (padded, _, schema) = shapes(pad_to_multiple("wave", 8), BadRecords::Fail);
    assert!(schema.is_variable());
    for (ids, steps) in padded {
        let longest = ids.iter().map(|id| lengths.length(*id)).max().unwrap();
        assert_eq!(steps, longest.next_multiple_of(8));
    }
    let (padded, _, schema) = shapes(pad_to("wave", 50), BadRecords::Fail);
    assert!(!schema.is_variable() && padded.iter().all(|(_, steps)| *steps == 50));
    // The longest sample needs no padding, and is not too long.
    let longest = (0..60).map(|id| lengths.length(id)).max().unwrap();
    let (padded, bad, _) = shapes(pad_to("wave", longest as u32), BadRecords::Fail);
    assert!(bad.is_empty() && padded.iter().all(|(_, steps)| *steps == longest));
    let (padded, bad, _) = shapes(pad_to("wave", 20), BadRecords::skip(BadLimits::default()));
    let long: Vec<u64> = (0..60).filter(|id| lengths.length(*id) > 20).collect();
    assert!(!long.is_empty() && padded.iter().all(|(_, steps)| *steps == 20));
    assert_eq!(bad.iter().map(|bad| bad.sample).collect::<Vec<_>>(), long);
    assert!(bad[0].error.contains("must be padded to 20"), "{}", bad[0].error);
}

/// Ones in boxes of their own size.
struct Boxes([TensorSpec; 2]);

impl Boxes {
    fn source(operation: Operation) -> Transformed<ReaderSource> {
        Self::source_of([operation])
    }

    fn source_of(operations: impl IntoIterator<Item = Operation>) -> Transformed<ReaderSource> {
        let of = |name: &str, dims: &[usize]| {
            let dims = dims.iter().map(|extent| Dim::Extent(*extent)).collect();
            TensorSpec::with_dims(name, Role::Feature, DType::U8, dims)
        };
        let boxes = ReaderSource::new(Self([of("box", &[0, 1]), of("line", &[1])])).batch_size(2);
        Transformed::new(boxes, operations.into_iter().collect())
    }
}

impl RecordReader for Boxes {
    fn len(&self) -> u64 {
        6
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> ringfeed::Result<Extents> {
        let mut extents = Extents::default();
        (extents.0[0], extents.0[1]) = (sample as u32 + 1, 9 - sample as u32);
        Ok(extents)
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> ringfeed::Result<()> {
        row.zero();
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

#[test]
fn all_lengths_of_a_tensor_are_padded_to_a_multiple_and_one_alone_to_a_number() {
    let shapes = |operation: Operation| -> Vec<Vec<usize>> {
        let batches = AsyncDataSetIterator::new(Boxes::source(operation), &workspace(2, 2)).unwrap();
        batches.map(|batch| batch.unwrap().tensor("box").unwrap().shape()[1..].to_vec()).collect()
    };
    assert_eq!(shapes(pad_to_multiple("box", 4)), [[4, 12], [4, 8], [8, 8]]);
    assert_eq!(shapes(pad_to_multiple("line", 4)), [[2, 12], [4, 8], [6, 8]]);
    assert_eq!(shapes(pad_to("line", 10)), [[2, 10], [4, 10], [6, 10]]);
    let error = Box::new(Boxes::source(pad_to("box", 10))).open().err().unwrap();
    assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Schema, Some("box")));
    assert!(error.message().contains("2 lengths that vary"), "{error}");
    // The first padding holds beside the second one.
    let both = |first, second| Box::new(Boxes::source_of([first, second])).open();
    let batches = AsyncDataSetIterator::new(
        Boxes::source_of([pad_to_multiple("line", 4), pad_to_multiple("box", 6)]),
        &workspace(1, 0),
    );
    let shapes: Vec<_> =
        batches.unwrap().map(|batch| batch.unwrap().tensor("box").unwrap().shape()[1..].to_vec()).collect();
    assert_eq!(shapes, [[6, 12], [6, 12], [6, 12]]);
    assert!(both(pad_to_multiple("line", 4), pad_to("line", 12)).is_ok());
    let error = both(pad_to_multiple("line", 4), pad_to("line", 10)).err().unwrap();
    assert!(error.message().contains("but 10 is not a multiple of 4"), "{error}");
}

#[test]
fn what_has_padding_is_not_mixed() {
    let open = |operation: Operation, before: Option<Operation>| {
        let masked = MemoryReader::new("picture", Role::Feature, &[3, 2, 8], vec![0.0f32; 192]).unwrap();
        let mask = MemoryReader::new("picture_mask", Role::Mask, &[2, 8], vec![1u8; 64]).unwrap();
        let source = ReaderSource::new(masked).and(mask);
        Box::new(Transformed::new(source, before.into_iter().chain([operation]).collect())).open()
    };
    for operation in [mixup(0.2), cutmix(0.2)] {
        let error = open(operation.clone(), None).err().unwrap();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Schema, Some("picture")));
        assert!(error.message().contains("\"picture_mask\"") && error.message().contains("remove"), "{error}");
        assert!(open(operation, Some(remove("picture_mask"))).is_ok());
    }
}

/// Pictures of 8 x 16 pixels that hold their number everywhere, and their class.
fn pictures(list: impl IntoIterator<Item = Operation>) -> AsyncDataSetIterator {
    let pixels: Vec<f32> = (0..12).flat_map(|n| [n as f32; 384]).collect();
    let pictures = MemoryReader::new("picture", Role::Feature, &[3, 8, 16], pixels).unwrap();
    let classes = MemoryReader::new("class", Role::Label, &[], (0..12i64).collect::<Vec<_>>()).unwrap();
    let classes = classes.classes((0..12).map(|n| n.to_string()));
    let source = ReaderSource::new(pictures).and(classes).batch_size(4).shuffle(3);
    AsyncDataSetIterator::new(Transformed::new(source, list.into_iter().collect()), &workspace(2, 1)).unwrap()
}

#[test]
fn mixed_batches_weigh_labels_as_they_weigh_pictures() {
    for (operation, cuts) in [(mixup(0.4), false), (cutmix(1.0), true)] {
        let mut weights = Vec::new();
        for batch in pictures([operation]) {
            let batch = batch.unwrap();
            let ids = batch.sample_ids();
            let labels = batch.labels().unwrap();
            assert_eq!((labels.shape(), labels.dtype()), (&[4, 12][..], DType::F32));
            let (labels, pixels) =
                (labels.as_slice::<f32>().unwrap(), batch.features().unwrap().as_slice::<f32>().unwrap());
            for row in 0..4 {
                let (own, before) = (ids[row] as usize, ids[(row + 3) % 4] as usize);
                let label = &labels[12 * row..][..12];
                let weight = label[own];
                assert!(
                    (label[own] + label[before] - 1.0).abs() < 1e-6 && label.iter().filter(|x| **x != 0.0).count() <= 2
                );
                let pixels = &pixels[384 * row..][..384];
                let mean = pixels.iter().sum::<f32>() / 384.0;
                assert!((mean - (own as f32 * weight + before as f32 * (1.0 - weight))).abs() < 1e-4);
                assert!(!cuts || pixels.iter().all(|x| [own as f32, before as f32].contains(x)));
                weights.push(weight);
            }
        }
        assert_eq!(weights.len(), 12);
        // One weight for a batch, another one for the next.
        assert!(weights.chunks(4).all(|batch| batch.iter().all(|weight| *weight == batch[0])));
        assert!(weights[0] != weights[4] || weights[4] != weights[8], "{weights:?}");
    }
    let never = Operation::Mixup { alpha: 1.0, probability: 0.0, features: Vec::new(), labels: Vec::new() };
    for batch in pictures([never]) {
        let batch = batch.unwrap();
        assert!(batch.labels().unwrap().as_slice::<f32>().unwrap().iter().all(|x| [0.0, 1.0].contains(x)));
    }
}

#[test]
fn images_that_are_cut_have_one_size_and_one_order_of_dimensions() {
    let open = |first: [usize; 3], second: [usize; 3], with_labels: bool, before: Option<Operation>| {
        let reader = |name: &str, shape: &[usize]| {
            let pixels = vec![0.5f32; 4 * shape.iter().product::<usize>()];
            MemoryReader::new(name, Role::Feature, shape, pixels).unwrap()
        };
        let mut source = ReaderSource::new(reader("left", &first)).and(reader("right", &second)).batch_size(4);
        if with_labels {
            source = source.and(MemoryReader::new("label", Role::Label, &[], vec![1f32; 4]).unwrap());
        }
        let source = Transformed::new(source, before.into_iter().chain([cutmix(1.0)]).collect());
        AsyncDataSetIterator::new(source, &workspace(1, 0)).map(drop)
    };
    for (first, second, words) in [
        ([3, 8, 16], [3, 4, 8], &["4 x 8 pixels", "\"left\" has 8 x 16", "images of one size in `features`"][..]),
        ([3, 8, 16], [4, 100, 3], &["its channels may be first or last", "`layout`"]),
        ([3, 8, 16], [5, 8, 16], &["no dimension is 1 to 4 channels", "`features`"]),
    ] {
        let error = open(first, second, true, None).unwrap_err();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Schema, Some("right")), "{error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
    }
    // Without labels, nothing is weighted.
    open([3, 8, 16], [3, 4, 8], false, None).unwrap();
    open([3, 8, 16], [8, 16, 1], true, None).unwrap();
    let layout = Operation::Layout { tensor: "right".into(), order: PixelOrder::Nchw, from: Some(PixelOrder::Nhwc) };
    open([1, 4, 100], [4, 100, 3], true, Some(layout)).unwrap();
}

#[test]
fn two_mixtures_of_a_batch_are_drawn_each_for_itself() {
    let numbers = || (0..8).map(|n| n as f32).collect::<Vec<_>>();
    let [x, y] = ["x", "y"].map(|name| MemoryReader::new(name, Role::Feature, &[1], numbers()).unwrap());
    let of = |name: &str| {
        let (features, labels) = (vec![name.to_owned()], Vec::new());
        Operation::Mixup { alpha: 1.0, probability: 1.0, features, labels }
    };
    let source = ReaderSource::new(x).and(y).batch_size(8).shuffle(3);
    let list = [of("x"), of("y")].into_iter().collect();
    let mut batches = AsyncShieldDataSetIterator::new(Transformed::new(source, list), &workspace(1, 0)).unwrap();
    let batch = batches.next().unwrap().unwrap();
    let [x, y] = ["x", "y"].map(|name| batch.tensor(name).unwrap().as_slice::<f32>().unwrap().to_vec());
    assert!(x != y && x.iter().chain(&y).any(|x| x.fract() != 0.0), "{x:?} {y:?}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_tensor_and_the_reason() {
    let refused = |operation: Operation, words: &[&str]| {
        let error = opened(members(), [operation]).err().unwrap().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused(log1p("y"), &["no tensor \"y\" among [\"x\", \"class\"]"]);
    refused(log1p("class"), &["class", "holds i64", "cast it"]);
    refused(noise("class", 1.0), &["features of f32 or f64"]);
    refused(one_hot("class"), &["say how many there are"]);
    refused(one_hot("x"), &["holds f32", "indices of classes"]);
    refused(Operation::OneHot { tensor: "class".into(), classes: Some(4), dtype: DType::F32 }, &["class 4 of 4"]);
    let mut low = members();
    low.x[7] = -1.5;
    let error = opened(low, [log1p("x")]).err().unwrap();
    let location = error.location();
    assert_eq!((error.kind(), location.record, location.column.as_deref()), (ErrorKind::Data, Some(1), Some("x")));
    assert!(error.message().contains("log1p of -1.5"), "{error}");
    refused(pad_to("x", 9), &["same length in every sample"]);
    refused(mixup(0.2), &["class", "say how many"]);
    refused(cutmix(0.2), &["class"]);
    refused(remove("x "), &["did you mean \"x\"?"]);
    refused(mixup(0.0), &["above 0"]);
    refused(cutmix(1e7), &["a million at most"]);
    refused(bins("x", [2.0, 1.0]), &["rising order"]);
    refused(quantile("x", [1.0]), &["two or more"]);
    refused(pad_to_multiple("x", 0), &["multiple of 1 or more"]);
    refused(clip("x", 2.0, 1.0), &["low is not above high"]);
    refused(scale("x", f64::NAN, 1.0), &["low is not above high"]);
    refused(masking("x", 2.0), &["between 0 and 1"]);
    refused(normalise("x", Normaliser::imagenet()), &["3 channels"]);
    let few = Transforms::new().with(bins("wave", [1.0])).with(clip("wave", 0.0, 1.0));
    let error = Box::new(waves(few, BadRecords::Fail)).open().err().unwrap();
    assert!(error.kind() == ErrorKind::Schema && error.to_string().contains("cast it"), "{error}");
    let plain = Transformed::new(ReaderSource::new(Waves::new(9, 4)), Transforms::new().with(clip("wave", 0.0, 1.0)));
    assert!(Box::new(plain).open().err().unwrap().to_string().contains("has no mask"));
    let plain = Transformed::new(ReaderSource::new(Waves::new(9, 4)), Transforms::new().with(bins("wave", [1.0])));
    assert!(Box::new(plain).open().err().unwrap().to_string().contains("has no mask"));
    let none = MemoryReader::new("class", Role::Label, &[], vec![0i64]).unwrap().classes([] as [&str; 0]);
    let empty = Transformed::new(ReaderSource::new(none), Transforms::new().with(one_hot("class")));
    assert!(Box::new(empty).open().err().unwrap().to_string().contains("empty list of classes"));
}

#[test]
fn settings_list_transforms_in_their_order() {
    let settings = r#"
        sources = [{ format = "csv", path = "fixtures/iris-species.csv" }]
        fields = { features = { from = "*", numbers = "f32" }, labels = { from = "species", class = [] } }
        batch_size = 50
        transforms = [
            { kind = "log1p", tensor = "features" },
            { kind = "normalise", tensor = "features", normaliser = { kind = "standardise", mean = [1.0], deviation = [2.0] } },
            { kind = "one_hot", tensor = "labels" },
        ]
    "#;
    let config: LoaderConfig = toml::from_str(settings).unwrap();
    let standard = Normaliser::Standardise { axis: None, mean: vec![1.0], deviation: vec![2.0] };
    let built = Loader::csv("fixtures/iris-species.csv")
        .labels(["species"])
        .batch_size(50)
        .transform(log1p("features"))
        .transform(normalise("features", standard))
        .transform(one_hot("labels"));
    assert_eq!(built.config(), &config);
    let again: LoaderConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);
    let loader = Loader::from(config.clone());
    let planned = loader.plan().unwrap().tensors.unwrap();
    assert_eq!(
        (&*planned[1].name, planned[1].dtype, &planned[1].shape[..]),
        ("labels", DType::F32, &[Some(50), Some(3)][..])
    );
    let [ours, theirs] = [loader, built].map(|loader| see_all(&mut *loader.build().unwrap()));
    assert_eq!(ours, theirs);

    // What is said by name comes first, or where it is said once there is a list.
    let twice = Normaliser::Standardise { axis: None, mean: vec![0.0], deviation: vec![0.5] };
    let later =
        Loader::from(config.clone()).normalise("features", twice.clone()).build().unwrap().next().unwrap().unwrap();
    let doubled = see_all(&mut *Loader::from(config.clone()).build().unwrap());
    let doubled: &[f32] = bytemuck::cast_slice(&doubled[0].tensors[0]);
    let later = later.features().unwrap().as_slice::<f32>().unwrap();
    assert!(later.iter().zip(doubled).all(|(later, once)| *later == 2.0 * once));
    let first = Loader::csv("fixtures/iris-species.csv").normalise("features", twice).transform(log1p("features"));
    assert_eq!((first.config().normalise.len(), first.config().transforms.len()), (1, 1));

    let nonsense = LoaderConfig { transforms: vec![mixup(-1.0), clip("features", 2.0, 1.0)], ..config };
    let faults = nonsense.faults();
    assert!(faults.len() == 2 && faults[1].starts_with("transforms[1].low: 2, where high is 1"), "{faults:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    std::fs::write(&path, "[source]\npath = \"x\"\n\n[[transforms]]\nkind = \"log1\"\ntensor = \"x\"\n").unwrap();
    let error = LoaderConfig::load(&path).unwrap_err();
    assert_eq!(error.location().line, Some(5));
    assert!(error.message().contains("did you mean \"log1p\"?"), "{error}");
    let cases = [
        ("{ kind = \"clip\", tensor = \"x\", lo = 1 }", ["transforms[1].lo: ", "low"]),
        ("{ kind = \"clip\", low = 1 }", ["transforms[1]: ", "\"tensor\" is missing"]),
        ("{ kind = \"bins\", tensor = \"x\", edges = 10 }", ["a list of edges", "scale = { bins = { count = 10 } }"]),
        (
            "{ kind = \"quantile\", tensor = \"x\", quantiles = 9 }",
            ["a list of quantiles", "quantile = { count = 1000 }"],
        ),
        ("{ kind = \"cast\", tensor = \"x\", dtype = \"f31\" }", ["transforms[1].dtype: ", "\"f32\""]),
        (
            "{ kind = \"normalise\", tensor = \"x\", normaliser = { kind = \"standard\", mean = [1] } }",
            ["transforms[1].normaliser.kind: ", "standardise"],
        ),
    ];
    for (fault, words) in cases {
        let text = format!(
            "source = {{ path = \"x\" }}\ntransforms = [\n  {{ kind = \"log1p\", tensor = \"x\" }},\n  {fault},\n]\n"
        );
        std::fs::write(&path, text).unwrap();
        let error = LoaderConfig::load(&path).unwrap_err();
        assert_eq!(error.location().line, Some(4), "{error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
    }
}

#[test]
fn members_give_the_same_bytes_for_any_workers_and_prefetch_and_behind_a_shield() {
    let list = || {
        let mixes = [cutmix(1.0), Operation::Mixup { alpha: 0.4, probability: 0.5, features: vec![], labels: vec![] }];
        [noise("picture", 0.5), scale("picture", 0.5, 2.0), masking("picture", 0.1)].into_iter().chain(mixes)
    };
    let source = || {
        let pixels: Vec<f32> = (0..40).flat_map(|n| [n as f32; 96]).collect();
        let pictures = MemoryReader::new("picture", Role::Feature, &[3, 4, 8], pixels).unwrap();
        let classes = MemoryReader::new("class", Role::Label, &[], (0..40i64).map(|n| n % 7).collect::<Vec<_>>());
        let classes = classes.unwrap().classes((0..7).map(|n| n.to_string()));
        let source = ReaderSource::new(pictures).and(classes).batch_size(6).shuffle(3);
        Transformed::new(source, list().collect())
    };
    let epochs = |mut batches: Box<dyn DataSetIterator>| {
        let mut epoch = || {
            let seen = see_all(&mut *batches);
            batches.reset().unwrap();
            seen
        };
        [epoch(), epoch()]
    };
    let shielded = epochs(Box::new(AsyncShieldDataSetIterator::new(source(), &workspace(1, 0)).unwrap()));
    assert_ne!(shielded[0], shielded[1]);
    for (workers, prefetch) in [(1, 0), (1, 3), (2, 1), (3, 4)] {
        let ahead = epochs(Box::new(AsyncDataSetIterator::new(source(), &workspace(workers, prefetch)).unwrap()));
        assert_eq!(ahead, shielded, "{workers} workers, {prefetch} ahead");
    }
}

#[test]
fn quantiles_are_fitted_as_scikit_learn_fits_them_and_merge_to_the_same() {
    let f = members();
    let mut whole = QuantileFit::new(None);
    whole.observe_numbers(NumberSlice::F64(&f.train), &[f.train.len()], None).unwrap();
    let mut merged = QuantileFit::new(None);
    for part in f.train.chunks(300).rev() {
        let mut fit = QuantileFit::new(None);
        fit.observe_numbers(NumberSlice::F64(part), &[part.len()], None).unwrap();
        merged.merge(&fit).unwrap();
    }
    let quantiles = whole.finish().unwrap();
    assert_eq!(merged.finish().unwrap(), quantiles);
    assert_near(&quantiles.evenly(50).unwrap(), &f.quantile.fitted["quantiles"], 1e-12);
    assert_near(&quantiles.edges(8).unwrap(), &f.bins.fitted["edges"], 1e-12);
    let Normaliser::Standardise { axis: None, mean, deviation } = quantiles.robust() else { panic!("standardises") };
    assert_near(&mean, &f.robust.fitted["centre"], 1e-12);
    assert_near(&deviation, &f.robust.fitted["scale"], 1e-12);

    // numpy.quantile of equal values; KBinsDiscretizer leaves bins without a value out, too.
    let mut equal = QuantileFit::new(None);
    equal.observe_numbers(NumberSlice::F64(&[1.0, 1.0, 1.0, 1.0, 2.0, 3.0]), &[6], None).unwrap();
    assert_eq!(equal.finish().unwrap().edges(4).unwrap(), [1.75]);
    let mut by_column = QuantileFit::new(Some(0));
    let rows = [1.0, 10.0, f64::NAN, 30.0, 3.0, 20.0];
    by_column.observe_numbers(NumberSlice::F64(&rows), &[3, 2], None).unwrap();
    let infinite = by_column.observe_numbers(NumberSlice::F64(&[5.0, f64::INFINITY]), &[1, 2], None).unwrap_err();
    assert_eq!((infinite.kind(), by_column.missing()), (ErrorKind::Data, 1));
    assert!(by_column.observe_numbers(NumberSlice::F64(&[5.0]), &[1, 1], None).is_err());
    assert_eq!(by_column.merge(&QuantileFit::new(None)).unwrap_err().kind(), ErrorKind::Config);
    let columns = by_column.finish().unwrap();
    assert_eq!((columns.at(0, 0.5), columns.at(1, 0.25), columns.at(2, 0.5)), (Some(2.0), Some(15.0), None));
    assert!(columns.evenly(3).is_err() && quantiles.evenly(1).is_err() && quantiles.edges(0).is_err());
    assert_eq!(QuantileFit::new(None).finish().unwrap_err().kind(), ErrorKind::Data);
}

/// The first batch of these lines of JSON, with these settings.
fn of_lines(lines: &str, settings: &str) -> ringfeed::Result<DataSet> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.jsonl");
    std::fs::write(&path, lines).unwrap();
    let settings = format!(r#"{{"source": {{"path": {path:?}}}, {settings}}}"#);
    let mut loader = Loader::from(LoaderConfig::from_json(&settings)?).build()?;
    loader.next().unwrap()
}

#[test]
fn a_mask_is_of_its_own_tensor_whatever_other_tensors_are_called() {
    let lines = "{\"f\": [1], \"w\": [9, 9, 9, 9], \"c\": [1, 2, 0, 1]}\n{\"f\": [1, 2], \"w\": [9, 9, 9, 9], \"c\": [1, 1, 1, 1]}\n";
    let fields = |more: &str| {
        format!(
            r#""fields": {{"features": {{"from": "f", "numbers": "f32", {more}}}, "w": {{"numbers": "f32", "shape": [4]}},
                "c": {{"numbers": "i64", "shape": [4], "role": "label"}}}}, "transforms": "#
        )
    };
    let clipped = r#"{"kind": "clip", "tensor": "w", "low": 0, "high": 1}"#;
    for (more, before) in
        [("\"max_len\": 4", ""), ("\"list\": true", r#"{"kind": "pad", "tensor": "features", "length": 4}, "#)]
    {
        let batch = of_lines(lines, &format!("{}[{before}{clipped}]", fields(more))).unwrap();
        assert_eq!(numbers(&batch, "w"), [1.0; 8], "{more}");
        let one_hot = r#"{"kind": "one_hot", "tensor": "c", "classes": 3}"#;
        let batch = of_lines(lines, &format!("{}[{before}{one_hot}]", fields(more))).unwrap();
        assert_eq!(numbers(&batch, "c").iter().sum::<f64>(), 8.0, "{more}");
        // The tensor that has the mask keeps it when its length is fixed.
        let moved = r#"{"kind": "clip", "tensor": "features", "low": 5, "high": 9}"#;
        let batch = of_lines(lines, &format!("{}[{before}{moved}]", fields(more))).unwrap();
        assert_eq!(numbers(&batch, "features"), [5.0, 0.0, 0.0, 0.0, 5.0, 5.0, 0.0, 0.0], "{more}");
    }
}

#[test]
fn padded_rows_of_a_sequence_keep_their_mask_when_their_length_is_fixed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "x,label\n1,1\n2,2\n").unwrap();
    std::fs::write(folder.path().join("b.csv"), "x,label\n3,3\n").unwrap();
    let settings = format!(
        r#"{{"source": {{"path": {:?}, "format": "csv_sequences"}}, "fields": {{"x": "f32", "label": {{"numbers": "f32", "role": "label"}}}},
            "transforms": [{{"kind": "pad", "tensor": "x", "length": 3}}, {{"kind": "clip", "tensor": "x", "low": 7, "high": 9}},
                {{"kind": "clip", "tensor": "label", "low": 8, "high": 9}}]}}"#,
        folder.path()
    );
    let mut loader = Loader::from(LoaderConfig::from_json(&settings).unwrap()).build().unwrap();
    let batch = loader.next().unwrap().unwrap();
    assert_eq!(numbers(&batch, "x"), [7.0, 7.0, 0.0, 7.0, 0.0, 0.0]);
    assert_eq!(numbers(&batch, "label"), [8.0, 8.0, 0.0, 8.0, 0.0, 0.0]);
}

#[test]
fn padded_sparse_rows_need_a_mask_and_lists_of_any_length_may_have_one() {
    let lines = "{\"v\": [7, 8], \"at\": [0, 2]}\n{\"v\": [5], \"at\": [1]}\n";
    for (more, masked) in
        [("\"max_len\": 3", true), ("\"max_len\": 3", false), ("\"list\": true", true), ("\"list\": true", false)]
    {
        let mask = if masked { r#", "mask": "v_mask""# } else { "" };
        let settings = format!(
            r#""fields": {{"v": {{"numbers": "f32", {more}}}, "at": {{"numbers": "i64", {more}}}}},
               "transforms": [{{"kind": "dense", "tensor": "v", "indices": "at", "columns": 4{mask}}}]"#
        );
        match of_lines(lines, &settings) {
            Ok(batch) if masked => assert_eq!(numbers(&batch, "v"), [7.0, 0.0, 8.0, 0.0, 0.0, 5.0, 0.0, 0.0]),
            Err(error) if !masked => {
                assert!(error.to_string().contains("name the tensor that tells entries from padding"), "{error}")
            }
            other => panic!("{more} {masked}: {:?}", other.map(|batch| numbers(&batch, "v"))),
        }
    }
    let unequal = "{\"v\": [7, 8], \"at\": [0]}\n{\"v\": [5], \"at\": [1, 2]}\n";
    let settings = r#""fields": {"v": {"numbers": "f32", "list": true}, "at": {"numbers": "i64", "list": true}},
        "transforms": [{"kind": "dense", "tensor": "v", "indices": "at", "columns": 4, "mask": "v_mask"}]"#;
    let error = of_lines(unequal, settings).err().unwrap();
    assert!(error.to_string().contains("1 columns for 2 values"), "{error}");
}

#[test]
fn a_mask_of_your_own_may_choose_some_entries_of_a_sparse_row() {
    let of = |keep: &str| {
        let lines = format!("{{\"v\": [7, 8], \"at\": [0, 2], \"keep\": [{keep}]}}\n");
        let settings = r#""fields": {"v": {"numbers": "f32", "max_len": 3}, "at": {"numbers": "i64", "max_len": 3},
                "keep": {"numbers": "u8", "max_len": 3}},
            "transforms": [{"kind": "dense", "tensor": "v", "indices": "at", "columns": 4, "mask": "keep"}]"#;
        of_lines(&lines, settings)
    };
    assert_eq!(numbers(&of("0, 1").unwrap(), "v"), [0.0, 0.0, 8.0, 0.0]);
    let error = of("0, 1, 1").err().unwrap();
    assert!(error.to_string().contains("entry 2 is used, but has no column"), "{error}");
}

#[test]
fn what_was_sparse_has_no_padding_when_it_is_dense() {
    let lines = "{\"v\": [7, 8], \"at\": [0, 3]}\n";
    let settings = r#""fields": {"v": {"numbers": "f32", "max_len": 4}, "at": {"numbers": "i64", "max_len": 4}},
        "transforms": [{"kind": "dense", "tensor": "v", "indices": "at", "columns": 4, "mask": "v_mask"},
            {"kind": "clip", "tensor": "v", "low": 1, "high": 9}]"#;
    assert_eq!(numbers(&of_lines(lines, settings).unwrap(), "v"), [7.0, 1.0, 1.0, 8.0]);
}
