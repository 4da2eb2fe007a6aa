//! Transforms: the user's own code between decoding and delivery gives the same bytes wherever it runs, its faults are
//! those of the record that it worked on, and what it declares is held to.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::f64::consts::TAU;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{Flaky, Seen, Trouble, Waves, fixture, see, see_all, workspace, xs};
use proptest::prelude::*;
use ringfeed::inspect::verify_source;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::{LastBatch, Shard};
use ringfeed::read::MemoryReader;
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, Source, Transformed};
use ringfeed::tensor::{Dim, Role, TensorSpec};
use ringfeed::transform::{BatchMut, BatchTransform, Outputs, Row, Scope, Tensors, Transform, Transforms};
use ringfeed::workspace::FetchLimit;
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSetIterator, Error, ErrorKind, Loader, Result,
    Workspace,
};

/// Hann's window of 64 samples.
fn hann(i: usize) -> f64 {
    0.5 - 0.5 * (TAU * i as f64 / 64.0).cos()
}

/// The power of one frequency.
fn power(samples: &[f64], frequency: usize) -> f32 {
    let angle = |i: usize| TAU * (frequency * i % samples.len()) as f64 / samples.len() as f64;
    let (re, im) = samples
        .iter()
        .enumerate()
        .fold((0.0, 0.0), |(re, im), (i, x)| (re + x * angle(i).cos(), im - x * angle(i).sin()));
    (re * re + im * im) as f32
}

#[test]
fn a_spectrogram_by_a_closure_is_that_of_numpy() {
    let spectrograms = Loader::npy(fixture("transforms/audio.npy"))
        .map(TensorSpec::f32("spectrogram", [33, 24]), |row, out, scope| {
            let (audio, part) = (row.f32("features")?, scope.zeros::<f64>([64]));
            for frame in 0..24 {
                part.iter_mut().zip(&audio[32 * frame..]).zip(0..).for_each(|((w, x), i)| *w = hann(i) * f64::from(*x));
                for bin in 0..33 {
                    out.f32()?[24 * bin + frame] = power(part, bin);
                }
            }
            Ok(())
        })
        .remove("features");
    let plan = spectrograms.plan().unwrap().tensors.unwrap();
    assert_eq!((plan.len(), &*plan[0].name, &plan[0].shape[1..]), (1, "spectrogram", &[Some(33), Some(24)][..]));
    let batch = spectrograms.build().unwrap().next().unwrap().unwrap();
    let expected = Loader::npy(fixture("transforms/spectrogram.npy")).build().unwrap().next().unwrap().unwrap();
    let (ours, theirs) = (batch.features().unwrap(), expected.features().unwrap());
    assert_eq!(ours.shape(), theirs.shape());
    let pairs = ours.as_slice::<f32>().unwrap().iter().zip(theirs.as_slice::<f32>().unwrap());
    let loudest = theirs.as_slice::<f32>().unwrap().iter().copied().fold(0.0, f32::max);
    pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-6 * loudest, "{a} {b}"));
}

/// Transforms of [`Waves`]: a length that varies, randomness, a tensor of which only a sum is delivered, one that is
/// replaced by another type, and a batch that is changed as a whole.
fn list() -> Transforms {
    Transforms::new()
        .map(TensorSpec::with_dims("noisy", Role::Feature, DType::F64, vec![Dim::Extent(0)]), |row, out, scope| {
            let (wave, mask) = (row.f32("wave")?, row.u8("mask")?);
            let steps = scope.zeros::<f64>([mask.len()]);
            steps
                .iter_mut()
                .zip(wave.chunks(3))
                .for_each(|(sum, step)| *sum = step.iter().copied().map(f64::from).sum());
            for (i, noisy) in out.as_mut_slice::<f64>()?.iter_mut().enumerate().filter(|(i, _)| mask[*i] != 0) {
                *noisy = steps[i] + row.key().normal(i as u64);
            }
            Ok(())
        })
        .remove("wave")
        .map(TensorSpec::f32("id", []).role(Role::Label), |row, out, _| {
            out.f32()?[0] = row.i64("id")?[0] as f32 + 0.5 * row.key().unit(0) as f32;
            Ok(())
        })
}

fn over_batches(list: Transforms) -> Transforms {
    list.map_batch(|batch, scope| {
        let rows = batch.len();
        let order = scope.zeros::<u32>([rows]);
        order.iter_mut().zip(0..).for_each(|(place, row)| *place = row);
        order.sort_by_key(|row| batch.key().bits((*row).into()));
        let before = scope.copy(batch.tensor("id")?.as_slice::<f32>()?);
        let ids = batch.get_mut::<f32>("id")?;
        order.iter().zip(ids).for_each(|(row, id)| *id = before[*row as usize]);
        Ok(())
    })
}

fn source(len: u64, batch_size: usize, list: Transforms) -> Transformed<ReaderSource> {
    let waves = ReaderSource::new(Waves::new(len, 40)).batch_size(batch_size).shuffle(5);
    Transformed::new(waves, list)
}

/// Ids, `noisy` and `id` of a batch.
type Expected = (Vec<u64>, Vec<Vec<f64>>, Vec<f32>);

/// Two epochs as one naive loop over the samples makes them.
fn naive(len: u64, batch_size: usize) -> Vec<Expected> {
    let waves = Waves::new(len, 40);
    let plain = ReaderSource::new(Waves::new(len, 40)).batch_size(batch_size).shuffle(5);
    let mut plain = AsyncShieldDataSetIterator::new(plain, &workspace(1, 0)).unwrap();
    let mut all = Vec::new();
    for epoch in 0..2 {
        for batch in plain.by_ref() {
            let ids = batch.unwrap().sample_ids().to_vec();
            let key = |id: u64| ringfeed::order::RandomKey::new(5).with(epoch).with(id);
            let of_list = |id: u64, nth: u64| key(id).with(2000 << 32 | nth);
            let longest = ids.iter().map(|id| waves.length(*id)).max().unwrap();
            let noisy = ids.iter().map(|id| {
                let step = |i: usize| (0..3).map(|c| f64::from(Waves::value(*id, i, c))).sum::<f64>();
                let at = |i: usize| step(i) + of_list(*id, 0).normal(i as u64);
                (0..longest).map(|i| if i < waves.length(*id) { at(i) } else { 0.0 }).collect()
            });
            let labels = ids.iter().map(|id| *id as f32 + 0.5 * of_list(*id, 1).unit(0) as f32).collect();
            all.push((ids.clone(), noisy.collect(), labels));
        }
        plain.reset().unwrap();
    }
    all
}

fn epochs(mut iterator: impl DataSetIterator) -> Vec<Vec<Seen>> {
    (0..2)
        .map(|_| {
            let epoch = see_all(&mut iterator);
            iterator.reset().unwrap();
            epoch
        })
        .collect()
}

#[test]
fn a_list_gives_what_a_naive_loop_gives() {
    let mut batches = AsyncDataSetIterator::new(source(70, 8, list()), &workspace(2, 2)).unwrap();
    let names: Vec<_> = batches.schema().tensors().iter().map(|tensor| tensor.name.clone()).collect();
    assert_eq!(names, ["mask", "id", "noisy"]);
    let mut expected = naive(70, 8).into_iter();
    for _ in 0..2 {
        for batch in batches.by_ref() {
            let (batch, (ids, noisy, labels)) = (batch.unwrap(), expected.next().unwrap());
            assert_eq!(batch.sample_ids(), ids);
            assert_eq!(batch.tensor("noisy").unwrap().as_slice::<f64>().unwrap(), noisy.concat());
            assert_eq!(batch.tensor("id").unwrap().as_slice::<f32>().unwrap(), labels);
        }
        batches.reset().unwrap();
    }
    assert!(expected.next().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_bytes_come_for_any_workers_and_prefetch_and_behind_a_shield(
        len in 1u64..60,
        batch_size in 1usize..20,
        workers in 1usize..4,
        prefetch in 0usize..4,
    ) {
        let make = || source(len, batch_size, over_batches(list()));
        let shielded = epochs(AsyncShieldDataSetIterator::new(make(), &workspace(1, 0)).unwrap());
        let ahead = epochs(AsyncDataSetIterator::new(make(), &workspace(workers, prefetch)).unwrap());
        prop_assert_eq!(&ahead, &shielded);
        prop_assert!(len < 3 || ahead[0] != ahead[1]);
    }

    #[test]
    fn going_on_from_a_state_gives_the_rest_of_the_epoch(len in 1u64..60, batch_size in 1usize..20, stop in 0usize..6) {
        let make = || source(len, batch_size, over_batches(list()));
        let mut first = AsyncDataSetIterator::new(make(), &workspace(2, 2)).unwrap();
        let stop = stop.min(first.batches_per_epoch().unwrap() as usize);
        first.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
        let state = first.state();
        let rest = see_all(&mut first);
        let mut second = AsyncDataSetIterator::new(make(), &workspace(1, 0)).unwrap();
        second.seek(&state).unwrap();
        prop_assert_eq!(see_all(&mut second), rest);
    }
}

#[test]
fn each_sample_is_the_same_on_any_number_of_shards() {
    let mut seen: Vec<Vec<(u64, u32)>> = Vec::new();
    for count in [1, 3] {
        let mut samples = Vec::new();
        for index in 0..count {
            let waves = ReaderSource::new(Waves::new(60, 40)).batch_size(4).shuffle(5).shard(Shard { index, count });
            let batches = AsyncDataSetIterator::new(Transformed::new(waves, list()), &workspace(2, 1)).unwrap();
            for batch in batches {
                let batch = batch.unwrap();
                let labels = batch.tensor("id").unwrap().as_slice::<f32>().unwrap().to_vec();
                samples.extend(batch.sample_ids().iter().copied().zip(labels.iter().map(|label| label.to_bits())));
            }
        }
        samples.sort_unstable();
        seen.push(samples);
    }
    assert_eq!(seen[0].len(), 60);
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_length_that_is_used_up_is_still_measured() {
    let list = Transforms::new()
        .map(TensorSpec::i64("steps", []), |row, out, _| {
            out.i64()?[0] = row.u8("mask")?.iter().map(|present| i64::from(*present)).sum();
            Ok(())
        })
        .remove("wave")
        .remove("mask");
    for shielded in [false, true] {
        let source = source(50, 7, list.clone());
        let workspace = workspace(2, 2);
        let mut batches: Box<dyn DataSetIterator> = match shielded {
            true => Box::new(AsyncShieldDataSetIterator::new(source, &workspace).unwrap()),
            false => Box::new(AsyncDataSetIterator::new(source, &workspace).unwrap()),
        };
        let waves = Waves::new(50, 40);
        assert!(!batches.schema().is_variable());
        for batch in &mut *batches {
            let batch = batch.unwrap();
            let expected: Vec<i64> = batch.sample_ids().iter().map(|id| waves.length(*id) as i64).collect();
            assert_eq!(batch.tensor("steps").unwrap().as_slice::<i64>().unwrap(), expected);
        }
    }
}

/// Doubles `x`, and fails or panics at some records.
fn troubled(at: &'static [u64], panics: bool) -> Transforms {
    Transforms::new().map(TensorSpec::i64("x", []), move |row, out, _| {
        if at.contains(&row.id()) {
            assert!(!panics, "closure at {}", row.id());
            return Err(Error::new(ErrorKind::Data, "a closure's reason"));
        }
        out.i64()?[0] = 2 * row.i64("x")?[0];
        Ok(())
    })
}

fn flaky(policy: BadRecords, panics: bool) -> Transformed<ReaderSource> {
    let reader = Flaky::new(20, &[11], Trouble::FailInDecode);
    Transformed::new(ReaderSource::new(reader).batch_size(5).bad_records(policy), troubled(&[3, 4, 17], panics))
}

#[test]
fn a_fault_in_a_closure_is_that_of_its_record() {
    for (panics, kind) in [(false, ErrorKind::Data), (true, ErrorKind::Panicked)] {
        for shielded in [false, true] {
            let make = |policy| -> Box<dyn DataSetIterator> {
                let (source, workspace) = (flaky(policy, panics), workspace(2, 1));
                match shielded {
                    true => Box::new(AsyncShieldDataSetIterator::new(source, &workspace).unwrap()),
                    false => Box::new(AsyncDataSetIterator::new(source, &workspace).unwrap()),
                }
            };
            let error = make(BadRecords::Fail).next().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.location().record), (kind, Some(3)));
            assert_eq!(error.path().unwrap().to_str(), Some("flaky"));

            let mut skipping = make(BadRecords::skip(BadLimits::default()));
            let left: Vec<Vec<i64>> = skipping.by_ref().map(|batch| xs(&batch.unwrap())).collect();
            assert_eq!(left, [vec![0, 2, 4], vec![10, 12, 14, 16, 18], vec![20, 24, 26, 28], vec![30, 32, 36, 38]]);
            let bad = skipping.bad_records();
            let named: Vec<_> = bad.iter().map(|bad| (bad.sample, bad.kind)).collect();
            assert_eq!(named, [(3, kind), (4, kind), (11, ErrorKind::Data), (17, kind)]);

            let replaced = make(BadRecords::Replace(BadLimits::default()));
            for batch in replaced {
                let batch = batch.unwrap();
                assert_eq!(batch.len(), 5);
                let doubled: Vec<i64> = batch.sample_ids().iter().map(|id| 2 * *id as i64).collect();
                assert_eq!(xs(&batch), doubled);
            }
        }
        let report = verify_source(flaky(BadRecords::Fail, panics), 2, |_| {}).unwrap();
        let records: Vec<_> = report.bad.iter().map(|error| error.location().record.unwrap()).collect();
        assert_eq!((report.samples, records), (20, vec![3, 4, 11, 17]));
    }
}

#[test]
fn a_fault_in_a_batch_ends_the_epoch_in_its_place() {
    for panics in [false, true] {
        for shielded in [false, true] {
            let list = troubled(&[], false).map_batch(move |batch, _| {
                let last = batch
                    .get_mut::<i64>("x")?
                    .iter_mut()
                    .map(|x| {
                        *x += 1;
                        *x
                    })
                    .last();
                assert!(!panics || last != Some(29), "a closure over a batch");
                if last == Some(29) { Err(Error::new(ErrorKind::Exhausted, "its reason")) } else { Ok(()) }
            });
            let reader = Flaky::new(20, &[11], Trouble::FailInDecode);
            let source = ReaderSource::new(reader).batch_size(5).bad_records(BadRecords::skip(BadLimits::default()));
            let (source, workspace) = (Transformed::new(source, list), workspace(2, 1));
            let mut batches: Box<dyn DataSetIterator> = match shielded {
                true => Box::new(AsyncShieldDataSetIterator::new(source, &workspace).unwrap()),
                false => Box::new(AsyncDataSetIterator::new(source, &workspace).unwrap()),
            };
            assert_eq!(xs(&batches.next().unwrap().unwrap()), [1, 3, 5, 7, 9]);
            assert_eq!(xs(&batches.next().unwrap().unwrap()), [11, 13, 15, 17, 19]);
            let error = batches.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), if panics { ErrorKind::Panicked } else { ErrorKind::Data });
            assert!(error.message().ends_with("; in batch 2 as a whole"), "{error}");
        }
    }
}

#[test]
fn a_batch_is_finished_once_also_if_a_longer_sample_replaces_one() {
    let list = Transforms::new().map_batch(|batch, _| {
        batch.get_mut::<i64>("id")?.iter_mut().for_each(|id| *id += 1000);
        Ok(())
    });
    let bad = Transforms::new().map(TensorSpec::i64("id", []), |row, out, _| {
        let id = row.i64("id")?[0];
        out.i64()?[0] = id;
        if id % 5 == 0 { Err(Error::new(ErrorKind::Data, "as asked for")) } else { Ok(()) }
    });
    let source = ReaderSource::new(Waves::new(60, 200))
        .batch_size(6)
        .shuffle(1)
        .last_batch(LastBatch::Pad)
        .bad_records(BadRecords::Replace(BadLimits::default()));
    let mut batches = AsyncDataSetIterator::new(Transformed::new(source, bad.then(list)), &workspace(2, 2)).unwrap();
    for batch in batches.by_ref() {
        let batch = batch.unwrap();
        let expected: Vec<i64> = batch.sample_ids().iter().map(|id| *id as i64 + 1000).collect();
        assert_eq!(batch.tensor("id").unwrap().as_slice::<i64>().unwrap(), expected);
    }
    assert!(batches.stats().refilled > 0);
}

/// What a trait can say that closures can't: reads one tensor, changes another where it is.
struct AddFirst(&'static str, &'static str);

impl Transform for AddFirst {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read(self.0)?;
        tensors.change(self.1)
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let first = row.get::<f32>(self.0)?[0];
        assert_eq!(row.tensor(self.1).err().unwrap().kind(), ErrorKind::NotFound);
        out.tensor(0).f32()?.iter_mut().for_each(|x| *x += first);
        Ok(())
    }
}

#[test]
fn a_transform_changes_tensors_where_they_are() {
    let (x, y) = (vec![1.0f32, 2.0, 3.0, 4.0], vec![10.0f32, 20.0]);
    let readers = || {
        let x = MemoryReader::new("x", Role::Feature, &[2], x.clone()).unwrap();
        ReaderSource::new(x).and(MemoryReader::new("y", Role::Feature, &[], y.clone()).unwrap())
    };
    let list = Transforms::new().and(AddFirst("y", "x"));
    let mut batches = AsyncDataSetIterator::new(Transformed::new(readers(), list), &workspace(1, 0)).unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!(batch.tensor("x").unwrap().as_slice::<f32>().unwrap(), [11.0, 12.0, 23.0, 24.0]);
    let list = Transforms::new().change("x", |row, x, _| {
        let first = row.f32("y")?[0];
        assert!(row.tensor("x").is_err() && x.shape() == [2]);
        x.f32()?.iter_mut().for_each(|x| *x *= first);
        Ok(())
    });
    let mut batches = AsyncDataSetIterator::new(Transformed::new(readers(), list), &workspace(1, 0)).unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!(batch.tensor("x").unwrap().as_slice::<f32>().unwrap(), [10.0, 20.0, 60.0, 80.0]);
    let twice = Transforms::new().and(AddFirst("x", "x"));
    let batches = AsyncDataSetIterator::new(Transformed::new(readers(), twice), &workspace(1, 0));
    assert!(batches.unwrap().next().unwrap().is_err(), "what is changed can't be read beside it");
}

/// Adds how many samples it was prepared for at a time, and counts the times.
struct Prepared {
    /// Nobody prepares it where it lets `work` be.
    refuses: bool,
    times: Arc<AtomicU64>,
}

impl Transform for Prepared {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.change("x")
    }

    fn around(&self, work: &mut dyn FnMut()) {
        self.times.fetch_add(1, Ordering::Relaxed);
        if !self.refuses {
            work();
        }
        self.times.fetch_add(1 << 32, Ordering::Relaxed);
    }

    fn apply(&self, _: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let times = self.times.load(Ordering::Relaxed);
        assert_eq!((times & 0xffff_ffff) - (times >> 32), 1, "it is prepared, once");
        out.tensor(0).as_mut_slice::<i64>()?[0] += 1000;
        Ok(())
    }
}

#[test]
fn a_transform_may_prepare_for_the_samples_of_a_job() {
    let times = Arc::<AtomicU64>::default();
    let prepared = |refuses| Prepared { refuses, times: times.clone() };
    let numbers = || ReaderSource::new(Flaky::new(64, &[], Trouble::Stall)).batch_size(64);
    let list = Transforms::new().and(prepared(false));
    let batches = AsyncDataSetIterator::new(Transformed::new(numbers(), list), &workspace(1, 1)).unwrap();
    assert_eq!(batches.flat_map(|batch| xs(&batch.unwrap())).collect::<Vec<_>>(), (1000..1064).collect::<Vec<_>>());
    let jobs = times.load(Ordering::Relaxed) & 0xffff_ffff;
    assert!((1..64).contains(&jobs), "{jobs} jobs of 64 samples");
    let list = Transforms::new().and(prepared(false)).and(prepared(true));
    let mut batches = AsyncDataSetIterator::new(Transformed::new(numbers(), list), &workspace(1, 1)).unwrap();
    let error = batches.next().unwrap().unwrap_err();
    assert!(error.kind() == ErrorKind::Data && error.message().contains("did not let"), "{error}");
}

struct Declares<F>(F);

impl<F: Fn(&mut Tensors) -> Result<()> + Send + Sync> Transform for Declares<F> {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        (self.0)(tensors)
    }

    fn apply(&self, _: &Row<'_>, _: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        Ok(())
    }
}

impl<F: Fn(&mut Tensors) -> Result<()> + Send + Sync> BatchTransform for Declares<F> {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        (self.0)(tensors)
    }

    fn apply(&self, _: &mut BatchMut<'_>, _: &Scope<'_>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn what_no_batch_can_hold_is_refused_when_the_source_is_opened() {
    let refused = |list: Transforms| {
        let error = Box::new(source(9, 3, list)).open().err().unwrap();
        (error.kind(), error.to_string())
    };
    let declared = |declare: fn(&mut Tensors) -> Result<()>| refused(Transforms::new().and(Declares(declare)));
    let of_batch = |declare: fn(&mut Tensors) -> Result<()>| refused(Transforms::new().and_batch(Declares(declare)));

    let (kind, message) = refused(Transforms::new().remove("wav"));
    assert!(kind == ErrorKind::NotFound && message.contains("did you mean \"wave\"?"), "{message}");
    let (kind, message) = declared(|tensors| tensors.change("wave").and(tensors.change("wave")));
    assert!(kind == ErrorKind::Config && message.contains("only once"), "{message}");
    let (kind, message) = declared(|tensors| {
        tensors.write(TensorSpec::with_dims("new", Role::Feature, DType::F32, vec![Dim::Extent(1)]))
    });
    assert!(kind == ErrorKind::Schema && message.contains("no tensor of the source"), "{message}");
    let (kind, _) = declared(|tensors| tensors.write(TensorSpec::f32("new", [1; 6])));
    assert_eq!(kind, ErrorKind::Schema);
    let (kind, _) = declared(|tensors| {
        let names: Vec<String> = tensors.specs().map(|spec| spec.name.clone()).collect();
        names.iter().try_for_each(|name| tensors.remove(name))
    });
    assert_eq!(kind, ErrorKind::Schema);
    let (kind, message) = of_batch(|tensors| tensors.write(TensorSpec::f32("new", [])));
    assert!(kind == ErrorKind::Unsupported && message.contains("before it"), "{message}");
    assert_eq!(of_batch(|tensors| tensors.remove("wave")).0, ErrorKind::Unsupported);
    let (kind, message) = refused(over_batches(Transforms::new()).then(list()));
    assert!(kind == ErrorKind::Config && message.contains("come before"), "{message}");
    let twice = Transformed::new(source(9, 3, list()), list());
    assert_eq!(Box::new(twice).open().err().unwrap().kind(), ErrorKind::Unsupported);
}

#[test]
fn what_a_closure_does_not_write_is_zero() {
    let list = Transforms::new().map(TensorSpec::i64("marks", [4]), |row, out, _| {
        out.i64()?[(row.id() % 4) as usize] = 1;
        Ok(())
    });
    let mut batches = AsyncDataSetIterator::new(source(12, 4, list), &workspace(2, 1)).unwrap();
    for batch in batches.by_ref() {
        let batch = batch.unwrap();
        let marks = batch.tensor("marks").unwrap().as_slice::<i64>().unwrap().to_vec();
        for (id, marks) in batch.sample_ids().iter().zip(marks.chunks(4)) {
            assert_eq!(marks, std::array::from_fn::<i64, 4, _>(|i| i64::from(i as u64 == id % 4)));
        }
    }
}

#[test]
fn lists_may_follow_one_another_and_run_once_for_each_sample() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let counted = calls.clone();
    let count = Transforms::new().map(TensorSpec::f32("twice", []), move |row, out, _| {
        counted.lock().unwrap().push(row.key());
        out.f32()?[0] = 2.0 * row.f32("id")?[0];
        Ok(())
    });
    let batches = AsyncDataSetIterator::new(source(30, 4, list().then(count)), &workspace(2, 30)).unwrap();
    for batch in batches {
        let batch = batch.unwrap();
        let [id, twice] = ["id", "twice"].map(|name| batch.tensor(name).unwrap().as_slice::<f32>().unwrap().to_vec());
        assert!(id.iter().zip(&twice).all(|(id, twice)| *twice == 2.0 * id) && see(&batch).shapes.len() == 4);
    }
    // Workers may have begun the next epoch, whose samples have other keys.
    let calls = calls.lock().unwrap();
    assert!(calls.len() >= 30 && (1..calls.len()).all(|call| !calls[..call].contains(&calls[call])));
}

#[test]
fn what_spills_is_counted() {
    let list = Transforms::new()
        .map(TensorSpec::i64("x", []), |row, out, scope| {
            // Twice as much as any before, at one sample alone.
            let len = if row.id() == 500 { 20_000 } else { 10_000 };
            out.i64()?[0] = scope.zeros::<u8>([len]).len() as i64;
            Ok(())
        })
        .map_batch(|_, scope| {
            scope.zeros::<f32>([10]);
            Ok(())
        });
    let reader = Flaky::new(1000, &[], Trouble::FailInDecode);
    let source = Transformed::new(ReaderSource::new(reader).batch_size(10), list);
    let mut batches = AsyncShieldDataSetIterator::new(source, &workspace(1, 0)).unwrap();
    let epochs: Vec<_> = (0..2)
        .map(|_| {
            let before = batches.stats();
            batches.by_ref().for_each(|batch| drop(batch.unwrap()));
            batches.reset().unwrap();
            batches.stats().since(&before).scope_spilled
        })
        .collect();
    assert_eq!(epochs, [2, 0]);
}

#[test]
fn scopes_of_a_workspace_keep_within_its_budget() {
    let workspace = Workspace::builder().budget(MemoryBudget::new(1 << 20)).build().unwrap();
    let mut scope = workspace.enter();
    for _ in 0..3 {
        scope.zeros::<u8>([100_000]);
        let error = scope.try_zeros::<u8>([1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget);
        scope.next();
    }
    assert!(workspace.budget().used() > 0);
    drop(scope);
    workspace.scopes().release();
    assert_eq!(workspace.budget().used(), 0);
}

/// Says that each sample is as long as no memory is.
struct Endless(Waves);

impl ringfeed::read::RecordReader for Endless {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.0.tensors()
    }

    fn measure(&self, _: u64, _: &mut ringfeed::read::Scratch) -> Result<ringfeed::tensor::Extents> {
        Ok(ringfeed::tensor::Extents::of_length(u32::MAX))
    }

    fn decode(
        &self,
        _: ringfeed::read::Sample,
        _: usize,
        _: &mut ringfeed::read::Scratch,
        _: &mut ringfeed::read::RowMut<'_>,
    ) -> Result<()> {
        unreachable!("there is no room for it")
    }

    fn place(&self, sample: u64) -> ringfeed::error::Location {
        self.0.place(sample)
    }
}

#[test]
fn a_length_beyond_all_memory_is_an_error_also_beside_the_slot() {
    let list = Transforms::new().remove("wave").remove("mask");
    let source = Transformed::new(ReaderSource::new(Endless(Waves::new(9, 4))), list);
    let mut batches = AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap();
    let error = batches.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("too large to be transformed"), "{error}");
}

#[test]
fn a_time_limit_for_reading_changes_no_byte() {
    let limit = FetchLimit { time_ms: 60_000, replacements: 1 };
    let limited = Workspace::builder().workers(2).fetch_limit(limit).build().unwrap();
    let plain = epochs(AsyncDataSetIterator::new(source(50, 7, over_batches(list())), &workspace(2, 1)).unwrap());
    assert_eq!(epochs(AsyncDataSetIterator::new(source(50, 7, over_batches(list())), &limited).unwrap()), plain);
}

#[test]
fn iterators_that_take_turns_in_a_workspace_make_what_was_ready_again_once() {
    let workspace = workspace(2, 3);
    let make = || AsyncDataSetIterator::new(source(40, 5, over_batches(list())), &workspace).unwrap();
    let (mut first, mut second) = (make(), make());
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..8 {
        for (iterator, seen) in [&mut first, &mut second].into_iter().zip(&mut seen) {
            seen.push(see(&iterator.next().unwrap().unwrap()));
        }
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], see_all(&mut make()));
}

/// Refuses odd samples, and changes nothing.
struct RefusesOdd;

impl Transform for RefusesOdd {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read("x")
    }

    fn apply(&self, row: &Row<'_>, _: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        match row.f32("x")?[0] % 2.0 == 1.0 {
            true => Err(Error::new(ErrorKind::Data, "odd")),
            false => Ok(()),
        }
    }
}

#[test]
fn a_transform_that_only_reads_may_refuse_samples() {
    let x = MemoryReader::new("x", Role::Feature, &[], vec![0.0f32, 1.0, 2.0, 3.0]).unwrap();
    let source = ReaderSource::new(x).batch_size(4).bad_records(BadRecords::Skip(BadLimits::default()));
    let source = Transformed::new(source, Transforms::new().and(RefusesOdd));
    let batch = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("x").unwrap().as_slice::<f32>().unwrap(), [0.0, 2.0]);
}
