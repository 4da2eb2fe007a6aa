//! Normalisers: fitting against the naive two passes, applying while decoding, undoing, and the JSON form.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail where they unwrap")]

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use ringfeed::normalise::{NormaliserFit, QuantileFit};
use ringfeed::order::RandomKey;
use ringfeed::read::RowMut;
use ringfeed::tensor::{Dim, Element, Extents, Layout, NumberSlice, Role, Schema, TensorSpec, write_numbers};
use ringfeed::{DType, ErrorKind, Normaliser};

/// Mean and deviation as numpy computes them: two passes over all values.
fn two_passes(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

/// What decoding with `normaliser` writes for one sample.
fn normalised(normaliser: &Normaliser, values: &[f32], shape: &[usize]) -> Vec<f32> {
    normalised_to(normaliser, values, NumberSlice::F32, shape)
}

/// The same of other numbers, to a tensor of their own type.
fn normalised_to<'a, T: Element>(
    normaliser: &Normaliser,
    values: &'a [T],
    numbers: fn(&'a [T]) -> NumberSlice<'a>,
    shape: &[usize],
) -> Vec<T> {
    let mut spec = TensorSpec::new("x", Role::Feature, T::DTYPE, shape);
    spec.affine = Some(Arc::new(normaliser.affine(&spec).unwrap()));
    let schema = Schema::new(vec![spec]).unwrap();
    let mut layout = Layout::default();
    layout.compute(&schema, 1, Extents::default()).unwrap();
    let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
    let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
    // In uneven pieces, as readers may write them.
    let mut at = 0;
    for piece in values.chunks(7) {
        write_numbers(&mut row.tensor(0), at, numbers(piece)).unwrap();
        at += piece.len();
    }
    row.tensor(0).as_mut_slice::<T>().unwrap().to_vec()
}

proptest! {
    #[test]
    fn batches_merge_to_what_two_passes_over_all_rows_give(
        rows in proptest::collection::vec(proptest::array::uniform3(-1e3f64..1e3), 1..200),
        offset in -1e6f64..1e6,
        batch in 1usize..50,
    ) {
        let rows: Vec<[f64; 3]> = rows.iter().map(|row| row.map(|value| value + offset)).collect();
        let mut standardise = NormaliserFit::standardise(Some(0));
        let mut min_max = NormaliserFit::min_max(Some(0), (-1.0, 1.0));
        for rows in rows.chunks(batch) {
            standardise.observe_numbers(NumberSlice::F64(rows.as_flattened()), &[rows.len(), 3], None).unwrap();
            min_max.observe_numbers(NumberSlice::F64(rows.as_flattened()), &[rows.len(), 3], None).unwrap();
        }
        let Normaliser::Standardise { mean, deviation, .. } = standardise.finish().unwrap() else { panic!() };
        let Normaliser::MinMax { low, high, .. } = min_max.finish().unwrap() else { panic!() };
        for column in 0..3 {
            let values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
            let (expected_mean, expected_deviation) = two_passes(&values);
            prop_assert!((mean[column] - expected_mean).abs() <= 1e-9 * (1.0 + expected_mean.abs()));
            prop_assert!((deviation[column] - expected_deviation).abs() <= 1e-8 * (1.0 + expected_deviation));
            prop_assert_eq!(low[column], values.iter().copied().fold(f64::INFINITY, f64::min));
            prop_assert_eq!(high[column], values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
    }
}

proptest! {
    /// However the rows are shared out, and in whatever order the fits are merged, they find what a fit of all rows
    /// finds.
    #[test]
    fn fits_of_shards_merge_to_the_fit_of_the_whole(
        rows in proptest::collection::vec((proptest::array::uniform3(-1e3f64..1e3), 0usize..5, 0u8..10), 1..120),
        offset in -1e6f64..1e6,
        first in 0usize..5,
    ) {
        // Some are missing.
        let rows: Vec<([f64; 3], usize)> = rows
            .into_iter()
            .map(|(row, shard, missing)| {
                let mut row = row.map(|value| value + offset);
                row.iter_mut().skip(usize::from(missing)).take(1).for_each(|value| *value = f64::NAN);
                (row, shard)
            })
            .collect();
        let observed = |fit: &mut dyn FnMut(&[f64], &[usize]), is_taken: &dyn Fn(usize) -> bool| {
            let taken: Vec<f64> = rows.iter().filter(|(_, shard)| is_taken(*shard)).flat_map(|(row, _)| *row).collect();
            // In batches that split shards anywhere.
            taken.chunks(21).for_each(|batch| fit(batch, &[batch.len() / 3, 3]));
        };
        let new = [NormaliserFit::standardise as fn(_) -> _, |axis| NormaliserFit::min_max(axis, (0.0, 1.0))];
        for new in new {
            let fit = |is_taken: &dyn Fn(usize) -> bool| {
                let mut fit: NormaliserFit = new(Some(0));
                observed(&mut |batch, shape| fit.observe_numbers(NumberSlice::F64(batch), shape, None).unwrap(), is_taken);
                fit
            };
            let whole = fit(&|_| true);
            let mut merged = fit(&|shard| shard == first);
            (0..5).filter(|shard| *shard != first).for_each(|own| merged.merge(&fit(&|shard| shard == own)).unwrap());
            prop_assert_eq!(merged.missing(), whole.missing());
            match (merged.finish(), whole.finish()) {
                (
                    Ok(Normaliser::Standardise { mean, deviation, .. }),
                    Ok(Normaliser::Standardise { mean: m, deviation: d, .. }),
                ) => {
                    let near = |a: f64, b: f64, of: f64| (a - b).abs() <= 1e-14 * of;
                    prop_assert!(mean.iter().zip(&m).all(|(a, b)| near(*a, *b, b.abs())), "{:?} {:?}", mean, m);
                    // Of a deviation that is nearly 0, the squares' rounding shows.
                    let large = |d: f64, mean: f64| d + 1e-7 * mean.abs();
                    let deviations = deviation.iter().zip(&d).zip(&m);
                    prop_assert!(deviations.into_iter().all(|((a, b), m)| near(*a, *b, large(*b, *m))), "{:?} {:?}", deviation, d);
                }
                (Ok(merged), Ok(whole)) => prop_assert_eq!(merged, whole),
                (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
                (one, other) => prop_assert!(false, "{:?} {:?}", one, other),
            }
        }
        let fit = |is_taken: &dyn Fn(usize) -> bool| {
            let mut fit = QuantileFit::new(Some(0));
            observed(&mut |batch, shape| fit.observe_numbers(NumberSlice::F64(batch), shape, None).unwrap(), is_taken);
            fit
        };
        let whole = fit(&|_| true);
        let mut merged = fit(&|shard| shard == first);
        (0..5).filter(|shard| *shard != first).for_each(|own| merged.merge(&fit(&|shard| shard == own)).unwrap());
        prop_assert_eq!(merged.missing(), whole.missing());
        match (merged.finish(), whole.finish()) {
            (Ok(merged), Ok(whole)) => prop_assert_eq!(merged, whole),
            (one, other) => prop_assert!(one.is_err() && other.is_err()),
        }
    }
}

#[test]
fn a_million_rows_far_from_zero_keep_their_deviation() {
    let mut fit = NormaliserFit::standardise(None);
    let mut values = vec![0.0f64; 1000];
    for batch in 0..1000u64 {
        values.iter_mut().zip(0..).for_each(|(value, i)| *value = 1e9 + RandomKey::new(batch).normal(i));
        fit.observe_numbers(NumberSlice::F64(&values), &[1000], None).unwrap();
    }
    let Normaliser::Standardise { mean, deviation, .. } = fit.finish().unwrap() else { panic!() };
    // In one pass with f64 sums of squares, 1e18 would swallow the 1 altogether.
    assert!((mean[0] - 1e9).abs() < 0.01 && (deviation[0] - 1.0).abs() < 0.01, "{mean:?} {deviation:?}");
}

/// What a fit in batches of `batch` finds along no axis.
fn standardised(values: &[f64], batch: usize) -> (f64, f64) {
    let mut fit = NormaliserFit::standardise(None);
    for batch in values.chunks(batch) {
        fit.observe_numbers(NumberSlice::F64(batch), &[batch.len()], None).unwrap();
    }
    let Normaliser::Standardise { mean, deviation, .. } = fit.finish().unwrap() else { panic!() };
    (mean[0], deviation[0])
}

#[test]
fn equal_values_have_their_own_mean_and_no_deviation() {
    let constants = [0.1, 1.0 / 3.0, -1e300, 5e-324, 1e9 + 0.1, f64::MIN_POSITIVE, -0.7];
    let drawn = (0..200).map(|nth| RandomKey::new(8).normal(nth) * 10f64.powi(nth as i32 - 100));
    for constant in constants.into_iter().chain(drawn) {
        for (count, batch) in [(1000, 32), (997, 31), (7, 7), (12345, 1000)] {
            let found = standardised(&vec![constant; count], batch);
            assert_eq!(found, (constant, 0.0), "{constant:e} {count} times in batches of {batch}");
        }
        let mut ranged = NormaliserFit::min_max(None, (-0.3, 1.0));
        ranged.observe_numbers(NumberSlice::F64(&[constant; 5]), &[5], None).unwrap();
        let standardise = Normaliser::Standardise { axis: None, mean: vec![constant], deviation: vec![0.0] };
        for (normaliser, becomes) in [(standardise, 0.0), (ranged.finish().unwrap(), -0.3)] {
            assert_eq!(normalised_to(&normaliser, &[constant], NumberSlice::F64, &[]), [becomes], "{constant:e}");
            if constant.abs() < 1e30 {
                assert_eq!(normalised(&normaliser, &[constant as f32], &[]), [becomes as f32], "{constant:e}");
            }
        }
    }
}

#[test]
fn noise_far_from_zero_is_measured_as_exact_arithmetic_measures_it() {
    // Multiples of 2^-20 around 10^9: sums of whole numbers are exact.
    let noise: Vec<i128> = (0..100_000).map(|nth| (RandomKey::new(4).normal(nth) * 1000.0) as i128).collect();
    let count = noise.len() as i128;
    let sum: i128 = noise.iter().sum();
    let squares: i128 = noise.iter().map(|noise| noise * noise).sum();
    let unit = 2f64.powi(-20);
    let expected = (count * squares - sum * sum) as f64;
    let deviation = expected.sqrt() / count as f64 * unit;
    let mean = 1e9 + sum as f64 / count as f64 * unit;
    let mut values: Vec<f64> = noise.iter().map(|noise| 1e9 + *noise as f64 * unit).collect();
    for batch in [1, 32, 1000, 100_000] {
        let found = standardised(&values, batch);
        assert!(found.0 == mean && (found.1 / deviation - 1.0).abs() < 1e-13, "{found:?} is not {mean} {deviation:e}");
    }
    // A value far from all others does not hide them before it comes, and is not lost among them.
    values.push(-1e9);
    let (mean, deviation) = two_passes(&values);
    for batch in [1, 32, 1000] {
        let found = standardised(&values, batch);
        assert!((found.0 / mean - 1.0).abs() < 1e-12 && (found.1 / deviation - 1.0).abs() < 1e-8, "{found:?}");
    }
}

#[test]
fn fits_of_parts_merge_to_the_fit_of_all() {
    let values: Vec<f64> = (0..3000).map(|nth| 1e7 + RandomKey::new(6).normal(nth)).collect();
    for new in [NormaliserFit::standardise as fn(_) -> _, |axis| NormaliserFit::min_max(axis, (0.0, 1.0))] {
        let fit = |values: &[f64]| {
            let mut fit: NormaliserFit = new(Some(0));
            fit.observe_numbers(NumberSlice::F64(values), &[values.len() / 3, 3], None).unwrap();
            fit
        };
        let mut merged = new(Some(0));
        for part in [&values[..0], &values[..300], &values[300..303], &values[303..]] {
            merged.merge(&fit(part)).unwrap();
        }
        match (merged.finish().unwrap(), fit(&values).finish().unwrap()) {
            (
                Normaliser::Standardise { mean, deviation, .. },
                Normaliser::Standardise { mean: m, deviation: d, .. },
            ) => {
                assert_eq!(mean, m);
                assert!(deviation.iter().zip(&d).all(|(a, b)| (a / b - 1.0).abs() < 1e-14), "{deviation:?} {d:?}");
            }
            (merged, whole) => assert_eq!(merged, whole),
        }
        assert_eq!(merged.merge(&new(None)).unwrap_err().kind(), ErrorKind::Config);
        let mut narrow = new(Some(0));
        narrow.observe_numbers(NumberSlice::F64(&[1.0, f64::NAN]), &[1, 2], None).unwrap();
        assert_eq!(merged.merge(&narrow).unwrap_err().kind(), ErrorKind::Schema);
        let mut missing = new(Some(0));
        missing.merge(&narrow).unwrap();
        missing.merge(&narrow).unwrap();
        assert_eq!(missing.missing(), 2);
    }
    let mut fit = NormaliserFit::standardise(None);
    assert_eq!(fit.merge(&NormaliserFit::min_max(None, (0.0, 1.0))).unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn tensors_of_f64_are_normalised_in_f64() {
    let values: Vec<f64> = (0..60).map(|nth| 1e9 + 1e-3 * RandomKey::new(2).normal(nth)).collect();
    let mut standardise = NormaliserFit::standardise(Some(1));
    let mut min_max = NormaliserFit::min_max(Some(1), (-1.0, 1.0));
    for fit in [&mut standardise, &mut min_max] {
        fit.observe_numbers(NumberSlice::F64(&values), &[1, 4, 3, 5], None).unwrap();
    }
    let normaliser = standardise.finish().unwrap();
    let out = normalised_to(&normaliser, &values, NumberSlice::F64, &[4, 3, 5]);
    let Normaliser::Standardise { mean, deviation, .. } = &normaliser else { panic!() };
    for (nth, (x, y)) in values.iter().zip(&out).enumerate() {
        assert_eq!(*y, (x - mean[nth / 5 % 3]) / deviation[nth / 5 % 3]);
    }
    let normaliser = min_max.finish().unwrap();
    let out = normalised_to(&normaliser, &values, NumberSlice::F64, &[4, 3, 5]);
    let Normaliser::MinMax { low, high, .. } = &normaliser else { panic!() };
    for (nth, (x, y)) in values.iter().zip(&out).enumerate() {
        let (low, high) = (low[nth / 5 % 3], high[nth / 5 % 3]);
        assert_eq!(*y, (x - low) / (high - low) * 2.0 - 1.0);
        assert!((*x != low || *y == -1.0) && (*x != high || *y == 1.0));
    }
    let pixels = [0.0f64, 12.5, 255.0];
    let out = normalised_to(&Normaliser::imagenet(), &pixels, NumberSlice::F64, &[3, 1, 1]);
    for ((x, y), (mean, deviation)) in pixels.iter().zip(out).zip([(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)]) {
        let expected: f64 = (x / 255.0 - mean) / deviation;
        assert!((y - expected).abs() < 1e-15 * (1.0 + expected.abs()), "{y} {expected}");
    }
}

#[test]
fn a_csv_column_of_f64_is_normalised_in_f64() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let values: Vec<f64> = (0..100).map(|nth| 1e9 + 1e-3 * RandomKey::new(3).normal(nth)).collect();
    fs::write(&path, values.iter().fold("x,c\n".to_owned(), |text, value| format!("{text}{value},0.1\n"))).unwrap();
    let features = ringfeed::field::Numbers::f64().from(["x", "c"]);
    let loader = ringfeed::Loader::csv(&path).field("features", features).batch_size(7);
    let mut fit = NormaliserFit::standardise(Some(0));
    fit.observe_all(loader.build().unwrap(), "features").unwrap();
    let normaliser = fit.finish().unwrap();
    let Normaliser::Standardise { mean, deviation, .. } = &normaliser else { panic!() };
    assert_eq!((mean[1], deviation[1]), (0.1, 0.0));
    let mut expected = values.iter().map(|x| (x - mean[0]) / deviation[0]);
    for batch in loader.normalise("features", normaliser.clone()).build().unwrap() {
        for row in batch.unwrap().features().unwrap().as_slice::<f64>().unwrap().chunks(2) {
            assert_eq!(row, [expected.next().unwrap(), 0.0]);
        }
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn factors_beyond_their_type_are_refused() {
    let spec = |dtype| TensorSpec::new("x", Role::Feature, dtype, &[]);
    let narrow = |deviation| Normaliser::Standardise { axis: None, mean: vec![0.0], deviation: vec![deviation] };
    for deviation in [1e-42, 1e42] {
        let error = narrow(deviation).affine(&spec(DType::F32)).unwrap_err();
        assert!(error.to_string().contains("make the tensor f64"), "{error}");
        assert!(narrow(deviation).affine(&spec(DType::F64)).is_ok());
    }
    let wide = Normaliser::MinMax { axis: None, low: vec![-1e308], high: vec![1e308], range: (0.0, 1.0) };
    assert_eq!(wide.affine(&spec(DType::F64)).unwrap_err().kind(), ErrorKind::Config);
    let shapes = [usize::MAX, 2, usize::MAX];
    let mut fit = NormaliserFit::standardise(Some(0));
    assert!(fit.observe_numbers(NumberSlice::F64(&[1.0, 2.0]), &shapes, None).is_err());
    fit.observe_numbers(NumberSlice::F64(&[]), &[0, usize::MAX, usize::MAX], None).unwrap();
    assert!(narrow(1.0).revert(&mut [1.0, 2.0], &shapes).is_err());
}

#[test]
fn standardised_data_has_mean_zero_and_deviation_one_on_every_axis() {
    let shape = [4, 3, 5];
    let values: Vec<f32> = (0..60u64).map(|i| RandomKey::new(5).normal(i) as f32 * 7.0 + i as f32).collect();
    for axis in [None, Some(0), Some(1), Some(2)] {
        let mut fit = NormaliserFit::standardise(axis);
        fit.observe_numbers(NumberSlice::F32(&values), &[1, 4, 3, 5], None).unwrap();
        let normaliser = fit.finish().unwrap();
        let mut out = normalised(&normaliser, &values, &shape);
        let entries = axis.map_or(1, |axis| shape[axis]);
        for entry in 0..entries {
            let of_entry: Vec<f64> = (0..60)
                .filter(|i| {
                    axis.is_none_or(|axis| i / shape[axis + 1..].iter().product::<usize>() % shape[axis] == entry)
                })
                .map(|i| f64::from(out[i]))
                .collect();
            let (mean, deviation) = two_passes(&of_entry);
            assert!(mean.abs() < 1e-5 && (deviation - 1.0).abs() < 1e-5, "{axis:?} {entry}: {mean} {deviation}");
        }
        normaliser.revert(&mut out, &shape).unwrap();
        for (back, value) in out.iter().zip(&values) {
            assert!((back - value).abs() <= 1e-4, "{back} {value}");
        }
        // Several samples at once are undone as one by one.
        let mut twice: Vec<f32> = [1.5f32; 120].to_vec();
        let mut once = twice[..60].to_vec();
        normaliser.revert(&mut twice, &shape).unwrap();
        normaliser.revert(&mut once, &shape).unwrap();
        assert_eq!(twice[60..], once);
    }
}

#[test]
fn masked_padding_missing_values_and_infinities_do_not_count() {
    // Two sequences of lengths 3 and 1, padded to 3 steps of 2 features.
    let values = [1.0, 10.0, 2.0, f32::NAN, 3.0, 30.0, 5.0, 20.0, 0.0, 0.0, 0.0, 0.0];
    let mask = [1.0f32, 1.0, 1.0, 1.0, 0.0, 0.0];
    let mut fit = NormaliserFit::min_max(Some(1), (0.0, 1.0));
    fit.observe_numbers(NumberSlice::F32(&values), &[2, 3, 2], Some((NumberSlice::F32(&mask), &[2, 3]))).unwrap();
    assert_eq!(fit.missing(), 1);
    let Normaliser::MinMax { low, high, .. } = fit.finish().unwrap() else { panic!() };
    assert_eq!((low, high), (vec![1.0, 10.0], vec![5.0, 30.0]));

    // An image with the mask of its pixels: channels come first, the mask has none.
    let pixels: Vec<u8> = (1..=8).chain(11..=18).collect();
    let mask = [1u8, 0, 1, 0, 0, 0, 0, 0];
    let mut fit = NormaliserFit::standardise(Some(0));
    fit.observe_numbers(NumberSlice::U8(&pixels), &[1, 2, 2, 4], Some((NumberSlice::U8(&mask), &[1, 2, 4]))).unwrap();
    let Normaliser::Standardise { mean, deviation, .. } = fit.finish().unwrap() else { panic!() };
    assert_eq!((mean, deviation), (vec![2.0, 12.0], vec![1.0, 1.0]));

    let before = fit.finish().unwrap();
    let error = fit.observe_numbers(NumberSlice::F32(&[f32::INFINITY; 16]), &[1, 2, 2, 4], None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert_eq!(fit.finish().unwrap(), before);
    assert!(fit.observe_numbers(NumberSlice::F32(&[0.0; 3]), &[1, 3], None).is_err());
    assert!(
        fit.observe_numbers(NumberSlice::U8(&pixels), &[1, 2, 2, 4], Some((NumberSlice::U8(&mask), &[2, 4]))).is_err()
    );
}

#[test]
fn what_can_not_be_fitted_is_an_error() {
    assert_eq!(NormaliserFit::standardise(None).finish().unwrap_err().kind(), ErrorKind::Data);
    let mut fit = NormaliserFit::standardise(Some(0));
    fit.observe_numbers(NumberSlice::F32(&[1.0, f32::NAN]), &[1, 2], None).unwrap();
    assert!(fit.finish().unwrap_err().to_string().contains("index 1"));
    let mut fit = NormaliserFit::min_max(None, (1.0, 1.0));
    fit.observe_numbers(NumberSlice::F32(&[1.0]), &[1], None).unwrap();
    assert_eq!(fit.finish().unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn constant_values_are_shifted_and_come_back() {
    for mut fit in [NormaliserFit::standardise(None), NormaliserFit::min_max(None, (-1.0, 1.0))] {
        fit.observe_numbers(NumberSlice::I64(&[7, 7, 7]), &[3], None).unwrap();
        let normaliser = fit.finish().unwrap();
        let mut out = normalised(&normaliser, &[7.0], &[]);
        assert!(out == [0.0] || out == [-1.0]);
        normaliser.revert(&mut out, &[]).unwrap();
        assert_eq!(out, [7.0]);
    }
}

#[test]
fn images_are_scaled_and_channels_normalised() {
    assert_eq!(normalised(&Normaliser::image_scale(), &[0.0, 255.0], &[2]), [0.0, 1.0]);
    let symmetric = Normaliser::ImageScale { range: (-1.0, 1.0) };
    let out = normalised(&symmetric, &[0.0, 255.0], &[2]);
    assert!(out[0] == -1.0 && (out[1] - 1.0).abs() <= f32::EPSILON, "{out:?}");
    // torchvision's Normalize of a white pixel after ToTensor: (1 - mean) / deviation.
    let expected = [2.2489083, 2.428571, 2.64];
    for shape in [[3, 1, 1], [1, 1, 3]] {
        for (found, expected) in normalised(&Normaliser::imagenet(), &[255.0; 3], &shape).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5f32, "{found} {expected}");
        }
    }
    let spec = |dims: Vec<Dim>, dtype| TensorSpec::with_dims("image", Role::Feature, dtype, dims);
    let native = spec(vec![Dim::Extent(0), Dim::Extent(1), Dim::Fixed(3)], DType::F32);
    assert_eq!(Normaliser::imagenet().affine(&native).unwrap().axis, Some(2));
    let ambiguous = spec([3, 9, 3].map(Dim::Fixed).to_vec(), DType::F32);
    assert!(Normaliser::imagenet().affine(&ambiguous).unwrap_err().to_string().contains("give the axis"));
    let bytes = spec([3, 9, 9].map(Dim::Fixed).to_vec(), DType::U8);
    assert!(Normaliser::imagenet().affine(&bytes).unwrap_err().to_string().contains("make it f32"));
    let grey = spec([1, 9, 9].map(Dim::Fixed).to_vec(), DType::F32);
    assert_eq!(Normaliser::imagenet().affine(&grey).unwrap_err().kind(), ErrorKind::Schema);
    let mut done = native.clone();
    done.affine = Some(Arc::new(Normaliser::imagenet().affine(&native).unwrap()));
    assert!(Normaliser::image_scale().affine(&done).is_err());
}

#[test]
fn the_json_form_is_fixed_and_exact() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scale.json");
    let normaliser =
        Normaliser::Standardise { axis: Some(0), mean: vec![0.1, 1.0 / 3.0], deviation: vec![2.0, 1e-300] };
    normaliser.save(&path).unwrap();
    let golden = r#"{
  "version": 1,
  "normaliser": {
    "kind": "standardise",
    "axis": 0,
    "mean": [
      0.1,
      0.3333333333333333
    ],
    "deviation": [
      2.0,
      1e-300
    ]
  }
}
"#;
    assert_eq!(fs::read_to_string(&path).unwrap(), golden);
    assert_eq!(Normaliser::load(&path).unwrap(), normaliser);
    let many: Vec<f64> = (0..1000).map(|i| RandomKey::new(1).normal(i) * 1e3).collect();
    let others = [
        Normaliser::MinMax { axis: None, low: vec![-1.5], high: vec![2.5], range: (0.0, 1.0) },
        Normaliser::image_scale(),
        Normaliser::imagenet(),
        Normaliser::Standardise {
            axis: Some(1),
            mean: many.clone(),
            deviation: many.iter().map(|x| x.abs()).collect(),
        },
    ];
    for normaliser in others {
        normaliser.save(&path).unwrap();
        assert_eq!(Normaliser::load(&path).unwrap(), normaliser);
    }
}

#[test]
fn a_file_that_is_no_normaliser_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scale.json");
    let load = |text: &str| {
        fs::write(&path, text).unwrap();
        Normaliser::load(&path).unwrap_err()
    };
    let error = load("{\n\"version\": 1,\n oops");
    assert_eq!((error.kind(), error.location().line), (ErrorKind::Format, Some(3)));
    assert!(load(r#"{"version": 2, "normaliser": {"kind": "later"}}"#).to_string().contains("version 2"));
    assert!(load(r#"{"version": 1, "normaliser": {"kind": "later"}}"#).to_string().contains("later"));
    let extra = r#"{"version": 1, "normaliser": {"kind": "image_scale", "range": [0, 1], "extra": 3}}"#;
    assert!(load(extra).to_string().contains("extra"));
    let uneven =
        r#"{"version": 1, "normaliser": {"kind": "standardise", "axis": 0, "mean": [1, 2], "deviation": [1]}}"#;
    assert_eq!(load(uneven).kind(), ErrorKind::Config);
    let error = Normaliser::load(folder.path().join("scales.json")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("scale.json"), "{error}");
}

#[test]
fn samples_that_only_pad_a_batch_do_not_count() {
    use ringfeed::order::{LastBatch, Shard};

    let fits = |loader: &ringfeed::Loader| {
        let (mut fit, mut quantiles) = (NormaliserFit::standardise(None), QuantileFit::new(None));
        fit.observe_all(loader.build().unwrap(), "x").unwrap();
        quantiles.observe_all(loader.build().unwrap(), "x").unwrap();
        (fit, quantiles)
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let line = |nth: usize| format!("{{\"x\": {:?}, \"c\": {nth}}}\n", vec![nth as f32; 1 + nth % 3]);
    fs::write(&path, (0..10).map(line).collect::<String>()).unwrap();
    let open = || ringfeed::Loader::open(&path).unwrap().batch_size(4).last_batch(LastBatch::Pad);
    let float = ringfeed::field::Numbers::f32;
    for loader in [
        open().field("x", float().from("/c")),
        open().field("x", float().ragged().from("/x")),
        open().field("x", float().pad(-1.0).from("/x")),
    ] {
        let (fit, quantiles) = fits(&loader);
        let whole = fits(&loader.clone().last_batch(LastBatch::Keep));
        assert_eq!(fit.finish().unwrap(), whole.0.finish().unwrap());
        assert_eq!(quantiles.finish().unwrap(), whole.1.clone().finish().unwrap());
        let (mut fit, mut quantiles) = (NormaliserFit::standardise(None), QuantileFit::new(None));
        for index in 0..4 {
            let part = loader.clone().shard(Shard::new(index, 4).unwrap());
            let part = fits(&part);
            fit.merge(&part.0).unwrap();
            quantiles.merge(&part.1).unwrap();
        }
        assert_eq!(quantiles.finish().unwrap(), whole.1.clone().finish().unwrap());
        let mean = |fit: &NormaliserFit| match fit.finish().unwrap() {
            Normaliser::Standardise { mean, .. } => mean[0],
            other => panic!("{other:?}"),
        };
        assert!((mean(&fit) - mean(&whole.0)).abs() < 1e-12, "{fit:?}");
    }
}
