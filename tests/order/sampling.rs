//! Which samples a source takes, and how often: subsets, splits, folds, weights and mixes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Flaky, Trouble, Waves, see_all, workspace};
use proptest::prelude::*;
use ringfeed::csv::CsvOptions;
use ringfeed::error::Location;
use ringfeed::field::{Class, Field, Numbers};
use ringfeed::images::{ImageFolder, ImageOptions};
use ringfeed::order::{Folds, Part, Remainder, Shard, Split, State, Subset};
use ringfeed::read::{Concat, MemoryReader, RecordReader, RowMut, Sample, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, Source, Transformed, read_labels};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::{Transforms, noise};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSetIterator, ErrorKind, Loader, LoaderConfig, Result,
};

/// As many numbers as one likes, with names of their own; counts what is decoded.
struct Named {
    names: Vec<u64>,
    len: u64,
    decoded: Arc<AtomicU64>,
    tensors: Vec<TensorSpec>,
}

impl Named {
    fn new(names: Vec<u64>) -> Self {
        Self { len: names.len() as u64, names, ..Self::endless(0) }
    }

    fn endless(len: u64) -> Self {
        let tensors = vec![TensorSpec::new("x", Role::Feature, DType::I64, &[])];
        Self { names: Vec::new(), len, decoded: Arc::default(), tensors }
    }
}

impl RecordReader for Named {
    fn len(&self) -> u64 {
        self.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.decoded.fetch_add(1, Ordering::SeqCst);
        row.tensor(0).as_mut_slice::<i64>()?[0] = sample.id as i64;
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        name.extend_from_slice(format!("file-{}", self.names[sample as usize]).as_bytes());
    }
}

fn ids(subset: &Subset) -> Vec<u64> {
    subset.iter().collect()
}

fn numbers(values: std::ops::Range<i64>) -> MemoryReader<i64> {
    MemoryReader::new("x", Role::Label, &[], values.collect::<Vec<_>>()).unwrap()
}

/// The sample ids of some epochs.
fn samples(source: ReaderSource, epochs: usize) -> Vec<Vec<u64>> {
    let mut iterator = AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap();
    let epoch = |_| {
        let seen = see_all(&mut iterator).into_iter().flat_map(|batch| batch.samples).collect();
        iterator.reset().unwrap();
        seen
    };
    (0..epochs).map(epoch).collect()
}

fn counts(samples: &[u64]) -> BTreeMap<u64, u64> {
    samples.iter().fold(BTreeMap::new(), |mut counts, sample| {
        *counts.entry(*sample).or_default() += 1;
        counts
    })
}

/// Chi squared must stay within six deviations of its mean.
fn assert_shares(counts: impl IntoIterator<Item = (u64, f64)>) {
    let terms: Vec<f64> =
        counts.into_iter().map(|(count, expected)| (count as f64 - expected).powi(2) / expected).collect();
    let freedom = terms.len() as f64 - 1.0;
    let chi_squared: f64 = terms.iter().sum();
    assert!(chi_squared < freedom + 6.0 * (2.0 * freedom).sqrt(), "chi squared {chi_squared} of {freedom}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn splits_and_folds_are_disjoint_and_complete_and_added_records_move_none(
        names in prop::collection::btree_set(any::<u64>(), 1..300),
        added in prop::collection::btree_set(any::<u64>(), 0..300),
        seed in any::<u64>(),
        count in 2u32..9,
    ) {
        let before: Vec<u64> = names.iter().copied().collect();
        // The new ones come in between, so that most records change their number.
        let after: Vec<u64> = names.union(&added).copied().collect();
        let part_of = |names: &[u64]| {
            let reader = Named::new(names.to_vec());
            let all = Subset::all(reader.len());
            let parts = all.split(&reader, [0.5, 0.3, 0.2], seed).unwrap();
            let folds = (0..count).map(|fold| all.fold(&reader, fold, count, seed).unwrap());
            let mut part_of = BTreeMap::new();
            for (part, subset) in parts.iter().enumerate() {
                subset.iter().for_each(|id| assert!(part_of.insert(names[id as usize], (part, None)).is_none()));
            }
            for (fold, (train, held_out)) in folds.enumerate() {
                held_out.iter().for_each(|id| {
                    assert!(part_of.get_mut(&names[id as usize]).unwrap().1.replace(fold).is_none());
                });
                let both: BTreeSet<u64> = train.iter().chain(held_out.iter()).collect();
                assert_eq!((train.len() + held_out.len(), both.len()), (all.len(), names.len()));
            }
            assert!(part_of.len() == names.len() && part_of.values().all(|(_, fold)| fold.is_some()));
            part_of
        };
        let (before, after) = (part_of(&before), part_of(&after));
        prop_assert!(before.iter().all(|(name, part)| after[name] == *part));
    }

    #[test]
    fn every_kind_of_order_is_dealt_and_resumed_alike(
        kind in 0usize..5,
        shards in 1u32..5,
        batch_size in 1usize..9,
        seed in any::<u64>(),
        steps in 0usize..8,
        shielded in any::<bool>(),
        per_epoch in 1u64..70,
    ) {
        let source = |batch_size: usize| {
            let both = Concat::new(Waves::new(17, 9)).and(Waves::new(30, 9)).unwrap();
            let parts = [(both.part(1), 2.0), (both.part(0).filter(|id| id % 3 != 0), 1.0)];
            let source = ReaderSource::new(both).shuffle(seed).batch_size(batch_size);
            match kind {
                0 => source.subset(Subset::listed([3, 1, 20, 40, 9, 8, 7])),
                1 => source.weighted((0..47).map(f64::from).collect()).samples_per_epoch(per_epoch),
                2 => source.mix(parts).samples_per_epoch(per_epoch),
                3 => source.mix(parts),
                _ => source.samples_per_epoch(per_epoch),
            }
        };
        let mut whole = AsyncDataSetIterator::new(source(7), &workspace(2, 1)).unwrap();
        let mut parts: Vec<_> = (0..shards)
            .map(|index| {
                let part = source(batch_size).shard(Shard::new(index, shards).unwrap()).remainder(Remainder::Pad);
                AsyncDataSetIterator::new(part, &workspace(2, 1)).unwrap()
            })
            .collect();
        let dealt = |iterator: &mut dyn DataSetIterator| -> Vec<(u64, u64)> {
            see_all(iterator).into_iter().flat_map(|batch| batch.positions.into_iter().zip(batch.samples)).collect()
        };
        for _ in 0..2 {
            let epoch = dealt(&mut whole);
            let mut union: Vec<_> = parts.iter_mut().flat_map(|part| dealt(part)).collect();
            union.sort_unstable();
            union.truncate(epoch.len());
            prop_assert_eq!(&union, &epoch);
            whole.reset().unwrap();
            parts.iter_mut().for_each(|part| part.reset().unwrap());
        }
        // In the third epoch, on to where another iterator stopped.
        let mut first = AsyncDataSetIterator::new(source(batch_size), &workspace(1, 2)).unwrap();
        first.seek(&whole.state()).unwrap();
        let mut seen = Vec::new();
        for batch in first.by_ref().take(steps) {
            let batch = batch.unwrap();
            seen.extend(batch.positions().iter().copied().zip(batch.sample_ids().iter().copied()));
        }
        let mut second = if shielded {
            wrap(shield(source(3)), &workspace(1, 0)).unwrap()
        } else {
            wrap(source(3), &workspace(1, 3)).unwrap()
        };
        second.seek(&first.state()).unwrap();
        // A state at the end of an epoch goes on with nothing.
        seen.extend(dealt(&mut *second));
        prop_assert_eq!(seen, dealt(&mut whole));
    }

    #[test]
    fn a_mix_has_exact_shares_in_every_aligned_block(
        weights in prop::collection::vec(0.01f64..1.0, 1..6),
        seed in any::<u64>(),
        shuffled in any::<bool>(),
    ) {
        let parts: Vec<_> = weights.iter().zip(0u64..).map(|(w, i)| (Subset::range(100 * i..100 * i + 100), *w)).collect();
        let source = ReaderSource::new(numbers(0..1000)).mix(parts).samples_per_epoch(4096).batch_size(512);
        let source = if shuffled { source.shuffle(seed) } else { source };
        let sum: f64 = weights.iter().sum();
        for block in samples(source, 2).concat().chunks(1024) {
            let counts = counts(&block.iter().map(|sample| sample / 100).collect::<Vec<_>>());
            for (part, weight) in (0..).zip(&weights) {
                let (count, exact) = (counts.get(&part).copied().unwrap_or(0) as f64, weight / sum * 1024.0);
                prop_assert!((count - exact).abs() < 1.001, "part {part} has {count} instead of {exact}");
            }
        }
    }
}

#[test]
fn shares_come_out_about_right() {
    let reader = Named::new((0..20_000).collect());
    let all = Subset::all(reader.len());
    let shares = [0.7, 0.2, 0.1];
    let parts = all.split(&reader, shares, 3).unwrap();
    assert_shares(parts.iter().zip(shares).map(|(part, share)| (part.len(), 20_000.0 * share)));
    assert_shares((0..5).map(|fold| (all.fold(&reader, fold, 5, 3).unwrap().1.len(), 4000.0)));
    // The folds of a part are as even, with the same seed, too.
    let [train, ..] = parts;
    assert_shares((0..5).map(|fold| (train.fold(&reader, fold, 5, 3).unwrap().1.len(), train.len() as f64 / 5.0)));
    let [half] = all.split(&reader, [0.5], 3).unwrap();
    assert_shares([(half.len(), 10_000.0), (20_000 - half.len(), 10_000.0)]);
    let thirds = all.split(&reader, [1.0 / 3.0; 3], 3).unwrap();
    assert_eq!(thirds.iter().map(Subset::len).sum::<u64>(), 20_000);
    for shares in [[0.5, 0.6], [-0.1, 0.5], [f64::NAN, 0.1]] {
        assert_eq!(all.split(&reader, shares, 3).unwrap_err().kind(), ErrorKind::Config);
    }
    assert!(all.fold(&reader, 5, 5, 3).is_err() && all.fold(&reader, 0, 1, 3).is_err());
}

#[test]
fn the_part_of_a_name_never_changes() {
    let reader = Named::new((0..20).collect());
    let [train, _] = Subset::all(20).split(&reader, [0.5, 0.5], 7).unwrap();
    let (_, fold) = Subset::all(20).fold(&reader, 1, 3, 7).unwrap();
    assert_eq!((ids(&train), ids(&fold)), (TRAIN.to_vec(), FOLD.to_vec()));
}

const TRAIN: [u64; 14] = [0, 2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16, 17];
const FOLD: [u64; 7] = [1, 3, 5, 8, 9, 16, 17];

#[test]
fn the_order_of_weights_and_mixes_never_changes() {
    let source = || ReaderSource::new(numbers(0..50)).samples_per_epoch(12).shuffle(7);
    assert_eq!(samples(source().weighted((0..50).map(f64::from).collect()), 2), WEIGHTED);
    assert_eq!(samples(source().mix([(Subset::range(0..5), 1.0), (Subset::range(5..50), 3.0)]), 2), MIXED);
}

const WEIGHTED: [[u64; 12]; 2] =
    [[30, 23, 44, 45, 37, 20, 24, 19, 27, 47, 8, 47], [49, 37, 43, 36, 40, 41, 44, 36, 34, 32, 15, 13]];
const MIXED: [[u64; 12]; 2] =
    [[20, 2, 11, 38, 0, 23, 32, 24, 1, 33, 35, 42], [39, 4, 45, 15, 46, 26, 3, 41, 40, 30, 18, 3]];

#[test]
fn a_subset_keeps_ids_and_random_numbers() {
    let all = || {
        let points = MemoryReader::new("x", Role::Feature, &[], (0..40).map(|x| x as f32).collect::<Vec<_>>()).unwrap();
        ReaderSource::new(points).shuffle(5).batch_size(1)
    };
    let values = |source| {
        let noise = ringfeed::transform::Transforms::new().with(ringfeed::transform::noise("x", 1.0));
        let source = ringfeed::source::Transformed::new(source, noise);
        let mut iterator = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
        let seen = see_all(&mut iterator).into_iter().map(|batch| (batch.samples[0], batch.tensors[0].clone()));
        seen.collect::<BTreeMap<u64, Vec<u8>>>()
    };
    let whole = values(all());
    let some = values(all().subset(Subset::all(40).filter(|id| id % 5 == 2)));
    assert_eq!(some.keys().copied().collect::<Vec<_>>(), [2, 7, 12, 17, 22, 27, 32, 37]);
    assert!(some.iter().all(|(id, bytes)| whole[id] == *bytes));
    let beyond = AsyncDataSetIterator::new(all().subset(Subset::listed([3, 40])), &workspace(1, 1));
    assert!(beyond.err().unwrap().to_string().contains("sample 40, but there are 40"));
}

#[test]
fn ids_beyond_32_bits_are_kept() {
    let wide = [5, 1 << 40, 7, (1 << 40) + 1];
    let subset = Subset::listed(wide);
    assert_eq!((ids(&subset), subset.at(3), subset.len()), (wide.to_vec(), (1 << 40) + 1, 4));
    assert_eq!(ids(&Subset::range(3..6)), [3, 4, 5]);
    assert!(Subset::range(std::ops::Range { start: 6, end: 3 }).is_empty());
}

#[test]
fn weights_are_the_frequencies_and_differ_from_epoch_to_epoch() {
    let weights: Vec<f64> = (0..50).map(|i| f64::from(i % 7)).collect();
    let sum: f64 = weights.iter().sum();
    let source = ReaderSource::new(numbers(0..50)).weighted(weights.clone()).samples_per_epoch(50_000).shuffle(4);
    let epochs = samples(source.batch_size(1000), 2);
    assert_ne!(epochs[0], epochs[1]);
    for epoch in epochs {
        let counts = counts(&epoch);
        assert!(weights.iter().zip(0..).all(|(weight, id)| *weight > 0.0 || !counts.contains_key(&id)));
        assert_shares(
            weights
                .iter()
                .zip(0..)
                .filter(|(weight, _)| **weight > 0.0)
                .map(|(weight, id)| (counts.get(&id).copied().unwrap_or(0), 50_000.0 * weight / sum)),
        );
    }
    for (weights, part) in [
        (vec![1.0; 9], "9 weights for 10"),
        (vec![-1.0; 10], "not negative"),
        (vec![0.0; 10], "all weights are 0"),
        (vec![f64::INFINITY; 10], "finite"),
    ] {
        let source = ReaderSource::new(numbers(0..10)).weighted(weights);
        let error = AsyncDataSetIterator::new(source, &workspace(1, 1)).err().unwrap();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(part), "{part} in {error}");
    }
}

#[test]
fn classes_are_drawn_equally_often_whatever_the_label_looks_like() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let rows: String =
        (0..1000).map(|i| format!("{i},{}\n", ["a", "b", "c"][usize::from(i >= 10) + usize::from(i >= 100)])).collect();
    std::fs::write(&path, format!("x,class\n{rows}")).unwrap();
    for one_hot in [false, true] {
        let class: Field = if one_hot { Class.one_hot().into() } else { Class.into() };
        let loader = Loader::csv(&path)
            .field("x", Numbers::f32())
            .field("class", class)
            .shuffle(1)
            .class_balanced()
            .samples_per_epoch(30_000);
        let mut iterator = loader.batch_size(1000).build().unwrap();
        let seen: Vec<u64> = see_all(&mut *iterator).into_iter().flat_map(|batch| batch.samples).collect();
        let counts = counts(&seen.iter().map(|id| u64::from(*id >= 10) + u64::from(*id >= 100)).collect::<Vec<_>>());
        assert_shares((0..3).map(|class| (counts[&class], 10_000.0)));
    }
    let features = MemoryReader::new("x", Role::Feature, &[], vec![1.0f32, 2.0]).unwrap();
    let error = AsyncDataSetIterator::new(ReaderSource::new(features).class_balanced(), &workspace(1, 1));
    assert!(error.err().unwrap().to_string().contains("there are no classes"));
    let negative = read_labels(&numbers(-1..3)).unwrap_err();
    assert!(negative.kind() == ErrorKind::Data && negative.to_string().contains("record 0"), "{negative}");
    let unbalanced = Loader::csv(&path).class_balanced().faults();
    assert!(unbalanced.len() == 1 && unbalanced[0].contains("shuffle"), "{unbalanced:?}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn image_folders_know_names_and_labels_without_reading() {
    let folder = tempfile::tempdir().unwrap();
    for (class, count) in [("a", 6), ("b", 2)] {
        std::fs::create_dir(folder.path().join(class)).unwrap();
        (0..count).for_each(|i| std::fs::write(folder.path().join(format!("{class}/{i}.png")), "no image").unwrap());
    }
    let images = ImageFolder::open(folder.path(), &ImageOptions::default()).unwrap();
    let mut name = Vec::new();
    RecordReader::name(&images, 7, &mut name);
    assert_eq!(name, b"b/1.png");
    assert_eq!(read_labels(&images).unwrap(), [0, 0, 0, 0, 0, 0, 1, 1]);
    let [train, _] = Subset::all(8).split(&images, [0.6, 0.4], 0).unwrap();
    let before: Vec<_> = train.iter().map(|id| images.path(id)).collect();
    (0..50).for_each(|i| std::fs::write(folder.path().join(format!("a/0{i}.png")), "no image").unwrap());
    let images = ImageFolder::open(folder.path(), &ImageOptions::default()).unwrap();
    let [train, _] = Subset::all(58).split(&images, [0.6, 0.4], 0).unwrap();
    let after: BTreeSet<_> = train.iter().map(|id| images.path(id)).collect();
    assert!(before.iter().all(|path| after.contains(path)) && after.len() > before.len());
}

#[test]
fn each_part_of_a_mix_is_used_evenly_across_epochs() {
    let both = Concat::new(numbers(0..10)).and(numbers(10..1010)).unwrap();
    let parts = [(both.part(0), 0.5), (both.part(1), 0.5)];
    let epochs = samples(ReaderSource::new(both).mix(parts).shuffle(9).batch_size(101), 20);
    assert!(epochs.windows(2).all(|pair| pair[0] != pair[1] && pair[0].len() == 1010));
    let used = counts(&epochs.concat());
    for (ids, total) in [(0..10, 10_100), (10..1010, 10_100)] {
        let len = ids.end - ids.start;
        let uses: Vec<u64> = ids.map(|id| used[&id]).collect();
        assert!(uses.iter().sum::<u64>().abs_diff(total) <= 10);
        assert!(uses.iter().max().unwrap() - uses.iter().min().unwrap() <= 1, "{len}: {uses:?}");
    }
    // In proportion to the lengths, an epoch is each sample once, but for the rounding of shares.
    let both = Concat::new(numbers(0..300)).and(numbers(300..1000)).unwrap();
    let parts = [(both.part(0), 300.0), (both.part(1), 700.0)];
    for epoch in samples(ReaderSource::new(both).mix(parts).shuffle(9).batch_size(100), 5) {
        assert!(counts(&epoch).len() >= 980, "{}", counts(&epoch).len());
    }
}

#[test]
fn a_mix_of_samples_that_are_not_there_is_refused() {
    let mixed = |parts: [(Subset, f64); 2]| Box::new(ReaderSource::new(numbers(0..10)).mix(parts)).open().map(drop);
    mixed([(Subset::range(0..5), 1.0), (Subset::range(5..10), 1.0)]).unwrap();
    let error = mixed([(Subset::range(0..5), 1.0), (Subset::range(5..11), 1.0)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("sample 10, but there are 10 samples"), "{error}");
}

#[test]
fn without_a_shuffle_the_parts_of_a_mix_keep_their_own_order() {
    let both = Concat::new(numbers(0..4)).and(numbers(4..10)).unwrap();
    let parts = [(both.part(0), 1.0), (both.part(1), 1.0)];
    let epochs = samples(ReaderSource::new(both).mix(parts).batch_size(5), 2);
    assert_eq!(epochs, [[0, 4, 1, 5, 2, 6, 3, 7, 0, 8], [1, 9, 2, 4, 3, 5, 0, 6, 1, 7]]);
}

#[test]
fn a_huge_mix_goes_on_near_its_end_at_the_cost_of_starting() {
    let cost = |position: u64, epoch: u64| {
        let (a, b) = (Named::endless(900_000_000), Named::endless(100_000_000));
        let decoded = [a.decoded.clone(), b.decoded.clone()];
        let both = Concat::new(a).and(b).unwrap();
        let parts = [(both.part(0), 0.5), (both.part(1), 0.5)];
        let source = ReaderSource::new(both).mix(parts).shuffle(1).batch_size(100);
        let mut iterator = AsyncShieldDataSetIterator::new(source, &workspace(1, 0)).unwrap();
        if position > 0 {
            iterator.seek(&State { position, epoch, ..iterator.state() }).unwrap();
        }
        let batch = iterator.next().unwrap().unwrap();
        assert_eq!((batch.positions()[0], batch.len()), (position, 100));
        let decoded: u64 = decoded.iter().map(|count| count.load(Ordering::SeqCst)).sum();
        // The first batch of all is planned, uncounted, when the iterator is made.
        (decoded, iterator.stats().stages[0].samples.max(100))
    };
    assert_eq!(cost(0, 0), cost(900_000_000, 5_000_000_000));
}

#[test]
fn replacements_come_from_the_subset_or_mix() {
    let bad: Vec<u64> = (0..100).step_by(7).collect();
    let source = || {
        let policy = BadRecords::Replace(BadLimits::count(1000));
        ReaderSource::new(Flaky::new(100, &bad, Trouble::FailInFetch)).shuffle(3).batch_size(10).bad_records(policy)
    };
    let (low, high) = (Subset::range(0..20), Subset::range(60..80));
    let inside = |id: &u64| *id < 20 || (60..80).contains(id);
    let weights = (0..100u64).map(|id| f64::from(u8::from(inside(&id)))).collect();
    for source in [
        source().subset(Subset::listed(low.iter().chain(high.iter()))),
        source().weighted(weights),
        source().mix([(low.clone(), 0.3), (high.clone(), 0.7)]).samples_per_epoch(200),
    ] {
        let seen = samples(source, 2).concat();
        assert!(seen.iter().all(|id| inside(id) && id % 7 != 0), "{seen:?}");
    }
}

#[test]
fn concatenated_readers_give_what_they_give_alone() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, rows: std::ops::Range<u32>| {
        let path = folder.path().join(name);
        let text: String = rows.map(|i| format!("{i},{}\n", i * i)).collect();
        std::fs::write(&path, format!("a,b\n{text}")).unwrap();
        ringfeed::csv::CsvReader::open(path, &CsvOptions::default()).unwrap()
    };
    let whole = open("whole.csv", 0..60);
    let both = Concat::new(open("one.csv", 0..25)).and(open("two.csv", 25..60)).unwrap();
    let see = |reader: ReaderSource| {
        see_all(&mut AsyncDataSetIterator::new(reader.shuffle(6).batch_size(16), &workspace(3, 2)).unwrap())
    };
    assert_eq!(both.place(30).record, Some(5));
    assert_eq!(see(ReaderSource::new(whole)), see(ReaderSource::new(both)));
    let error = Concat::new(Waves::new(3, 3)).and(numbers(0..3)).err().unwrap();
    assert!(error.kind() == ErrorKind::Schema && error.to_string().contains("part 1"), "{error}");
}

#[test]
fn another_choice_of_samples_is_another_source() {
    let source = || ReaderSource::new(numbers(0..30)).batch_size(3);
    let mut first = AsyncDataSetIterator::new(source().subset(Subset::range(0..20)), &workspace(1, 1)).unwrap();
    drop(first.next().unwrap().unwrap());
    let state = first.state();
    for other in [
        source(),
        source().subset(Subset::range(1..21)),
        source().weighted(vec![1.0; 30]),
        source().mix([(Subset::range(0..20), 1.0)]),
    ] {
        let mut other = AsyncDataSetIterator::new(other, &workspace(1, 1)).unwrap();
        assert_eq!(other.seek(&state).unwrap_err().kind(), ErrorKind::Config);
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn settings_split_and_fold() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/iris.csv");
    let load = |settings: &str| {
        let text = format!("{settings}\n[[sources]]\nformat = \"csv\"\npath = {path:?}\n");
        let config: LoaderConfig = toml::from_str(&text).unwrap();
        assert_eq!(toml::from_str::<LoaderConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
        let mut iterator = Loader::from(config).build().unwrap();
        see_all(&mut *iterator).into_iter().flat_map(|batch| batch.samples).collect::<BTreeSet<u64>>()
    };
    let split = |part| load(&format!("split = {{ train = 0.6, validation = 0.2, test = 0.2, part = {part:?} }}"));
    let (train, validation, test) = (split("train"), split("validation"), split("test"));
    assert!(train.is_disjoint(&validation) && train.is_disjoint(&test) && validation.is_disjoint(&test));
    assert_eq!(train.len() + validation.len() + test.len(), 150);
    let split = Split { train: 0.6, validation: 0.2, test: 0.2, seed: 0, part: Part::Test };
    let mut iterator = Loader::csv(&path).split(split).build().unwrap();
    assert_eq!(iterator.batches_per_epoch(), Some(test.len().div_ceil(32) as u64));
    assert_eq!(see_all(&mut *iterator).into_iter().flat_map(|batch| batch.samples).collect::<BTreeSet<_>>(), test);
    let held_out = load("folds = { fold = 1, count = 4, held_out = true }");
    let others = load("folds = { fold = 1, count = 4 }");
    assert!(held_out.is_disjoint(&others) && held_out.len() + others.len() == 150);
    assert_eq!(Loader::csv(&path).split(split).verify(|_| {}).unwrap().samples, 150, "all are verified");
    let images = path.with_file_name("photos");
    let planned = |loader: Loader| loader.plan().unwrap().samples;
    assert_eq!(planned(Loader::images(&images)), Some(6));
    let tested = Loader::images(&images).size(8, 8).split(split);
    let drawn: usize = tested.build().unwrap().map(|batch| batch.unwrap().len()).sum();
    assert_eq!(planned(tested), Some(drawn as u64), "a plan knows the samples of a split");
    assert_eq!(planned(Loader::images(&images).split(split).samples_per_epoch(40)), Some(40));
    let faults = Loader::csv(&path)
        .split(Split { train: 0.9, ..split })
        .folds(Folds { fold: 4, count: 4, seed: 0, held_out: false })
        .faults();
    assert_eq!(faults.len(), 2, "{faults:?}");
}

/// Position, sample and what is drawn for it, of all samples that are left of an epoch.
fn drawn(iterator: &mut dyn DataSetIterator) -> Vec<(u64, u64, u32)> {
    let mut all = Vec::new();
    for batch in iterator {
        let batch = batch.unwrap();
        let places = batch.positions().iter().zip(batch.sample_ids());
        all.extend(places.zip(batch.f32("x").unwrap()).map(|((position, id), x)| (*position, *id, x.to_bits())));
    }
    all
}

#[test]
fn each_draw_of_a_sample_is_augmented_anew_and_alike_in_every_run() {
    let ranges = || [(Subset::range(0..3), 0.5), (Subset::range(3..40), 0.5)];
    let overlapping = || [(Subset::range(0..30), 0.5), (Subset::range(10..40), 0.5)];
    type Choice = Box<dyn Fn(ReaderSource) -> ReaderSource>;
    let choices: [Choice; 5] = [
        Box::new(|source| source.weighted((0..40).map(|id| f64::from(id % 7)).collect()).shuffle(5)),
        Box::new(move |source| source.mix(ranges()).shuffle(5)),
        Box::new(move |source| source.mix(ranges()).seed(5)),
        Box::new(move |source| source.mix(overlapping()).shuffle(5)),
        Box::new(|source| source.samples_per_epoch(100).shuffle(5)),
    ];
    for (nth, choice) in choices.iter().enumerate() {
        let source = |batch_size: usize| {
            let zeros = MemoryReader::new("x", Role::Feature, &[], vec![0.0f32; 40]).unwrap();
            choice(ReaderSource::new(zeros).batch_size(batch_size))
        };
        let noisy = |source| Transformed::new(source, Transforms::new().with(noise("x", 1.0)));
        let mut whole = AsyncDataSetIterator::new(noisy(source(7)), &workspace(1, 0)).unwrap();
        let mut parts: Vec<_> = (0..3)
            .map(|index| {
                let part = noisy(source(5).shard(Shard::new(index, 3).unwrap()).remainder(Remainder::Pad));
                AsyncDataSetIterator::new(part, &workspace(2, 3)).unwrap()
            })
            .collect();
        let mut shielded = AsyncShieldDataSetIterator::new(noisy(source(9)), &workspace(1, 0)).unwrap();
        for _ in 0..2 {
            let mut resumed = AsyncDataSetIterator::new(noisy(source(4)), &workspace(2, 1)).unwrap();
            resumed.seek(&whole.state()).unwrap();
            drop(resumed.next().unwrap().unwrap());
            let mut later = AsyncDataSetIterator::new(noisy(source(6)), &workspace(2, 2)).unwrap();
            later.seek(&resumed.state()).unwrap();

            let epoch = drawn(&mut whole);
            let by_id: BTreeSet<(u64, u32)> = epoch.iter().map(|(_, id, x)| (*id, *x)).collect();
            let ids: BTreeSet<u64> = epoch.iter().map(|(_, id, _)| *id).collect();
            assert!(by_id.len() == epoch.len() && ids.len() < epoch.len(), "{nth}: {epoch:?}");
            assert_eq!(drawn(&mut shielded), epoch, "{nth}");
            assert_eq!(drawn(&mut later), epoch[4..], "{nth}");
            let mut union: Vec<_> = parts.iter_mut().flat_map(|part| drawn(part)).collect();
            union.sort_unstable();
            union.truncate(epoch.len());
            assert_eq!(union, epoch, "{nth}");
            whole.reset().unwrap();
            shielded.reset().unwrap();
            parts.iter_mut().for_each(|part| part.reset().unwrap());
        }
    }
}

#[test]
fn the_first_draw_of_a_sample_has_the_bytes_of_a_run_that_takes_each_once() {
    let noisy = |choose: &dyn Fn(ReaderSource) -> ReaderSource| {
        let zeros = MemoryReader::new("x", Role::Feature, &[], vec![0.0f32; 40]).unwrap();
        let source = choose(ReaderSource::new(zeros).shuffle(5));
        let list = Transforms::new().with(noise("x", 1.0));
        let mut batches = AsyncDataSetIterator::new(Transformed::new(source, list), &workspace(2, 1)).unwrap();
        drawn(&mut batches).into_iter().map(|(_, id, x)| (id, x)).collect::<Vec<_>>()
    };
    let once: BTreeMap<u64, u32> = noisy(&|source| source).into_iter().collect();
    let parts = || [(Subset::range(0..20), 0.5), (Subset::range(20..40), 0.5)];
    for part in [noisy(&|source| source.samples_per_epoch(20)), noisy(&|source| source.mix(parts()))] {
        assert!(part.iter().all(|(id, x)| once[id] == *x), "{part:?}");
    }
    // The part of three samples comes again and again.
    let few = noisy(&|source| source.mix([(Subset::range(0..3), 0.5), (Subset::range(3..40), 0.5)]));
    let known = few.iter().filter(|(id, x)| once[id] == *x).count();
    assert!(known >= 20 && few.iter().filter(|(id, _)| *id < 3).count() == 20, "{few:?}");
}

#[test]
fn what_pads_a_batch_is_a_copy_of_the_row_that_it_repeats() {
    let zeros = MemoryReader::new("x", Role::Feature, &[], vec![0.0f32; 10]).unwrap();
    let source = ReaderSource::new(zeros).weighted(vec![1.0; 10]).shuffle(5).batch_size(8);
    let source = source.last_batch(ringfeed::order::LastBatch::Pad);
    let source = Transformed::new(source, Transforms::new().with(noise("x", 1.0)));
    let seen = drawn(&mut AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap());
    assert_eq!(seen.len(), 16);
    let (own, padding) = seen.split_at(10);
    assert!(padding.iter().zip(own).all(|(pad, first)| (pad.1, pad.2) == (first.1, first.2)), "{seen:?}");
}

#[test]
fn classes_are_balanced_by_the_label_that_has_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("labels.csv");
    let mut text = "year,kind,x\n".to_owned();
    (0..1000).for_each(|n| text += &format!("{},{},0\n", 1900 + n % 97, if n % 10 == 0 { "b" } else { "a" }));
    std::fs::write(&path, text).unwrap();
    let loader = Loader::csv(&path)
        .field("x", Numbers::f32())
        .field("year", Numbers::i64().from("year").role(Role::Label))
        .field("kind", Class::of(["a", "b"]));
    let mut batches = loader.class_balanced().shuffle(1).samples_per_epoch(10_000).batch_size(1000).build().unwrap();
    let mut counts = [0; 2];
    for batch in batches.epoch().unwrap() {
        batch.unwrap().i64("kind").unwrap().iter().for_each(|class| counts[*class as usize] += 1);
    }
    assert!(counts.iter().all(|count| (4700..5300).contains(count)), "{counts:?}");
}
