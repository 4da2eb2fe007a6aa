//! Batches of samples of about one length: little padding, each sample once, any shards and restarts exact.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use crate::common::{Seen, Waves, see_all, workspace};
use proptest::prelude::*;
use ringfeed::field::{Numbers, Tokens};
use ringfeed::order::{Buckets, LastBatch, RandomKey, Remainder, Shard, State, Subset};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DataSetIterator, ErrorKind, Loader, LoaderConfig};

const BOUNDS: [u32; 4] = [5, 10, 20, 40];

fn source(len: u64, batch_size: usize, seed: Option<u64>) -> ReaderSource {
    let source = ReaderSource::new(Waves::new(len, 40)).batch_size(batch_size).bucket(Buckets::new("wave", BOUNDS));
    match seed {
        Some(seed) => source.shuffle(seed),
        None => source,
    }
}

fn bucket_of(length: usize) -> u32 {
    *BOUNDS.iter().find(|bound| **bound as usize >= length).unwrap()
}

/// The batches hold what one naive loop over their samples gives, padded to their bucket's bound.
fn check(batches: &[Seen]) -> Vec<u64> {
    let waves = Waves::new(0, 40);
    let mut samples = Vec::new();
    for batch in batches {
        let bound = bucket_of(waves.length(batch.samples[0])) as usize;
        assert!(batch.samples.iter().all(|id| bucket_of(waves.length(*id)) as usize == bound));
        let rows = batch.samples.len();
        assert_eq!(batch.shapes, [vec![rows, bound, 3], vec![rows, bound], vec![rows]]);
        let mask: Vec<u8> =
            batch.samples.iter().flat_map(|id| (0..bound).map(|step| u8::from(step < waves.length(*id)))).collect();
        assert_eq!(batch.tensors[1], mask);
        samples.extend(&batch.samples[..rows - batch.padding]);
    }
    samples
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_comes_once_with_others_of_its_bucket_whoever_makes_the_batches(
        len in 1u64..200, batch_size in 1usize..20, seed in prop::option::of(any::<u64>()), workers in 1usize..4, prefetch in 0usize..4,
    ) {
        let mut shielded = AsyncShieldDataSetIterator::new(source(len, batch_size, seed), &workspace(1, 0)).unwrap();
        let mut other = AsyncDataSetIterator::new(source(len, batch_size, seed), &workspace(workers, prefetch)).unwrap();
        for _ in 0..2 {
            let batches = see_all(&mut shielded);
            prop_assert_eq!(&see_all(&mut other), &batches);
            prop_assert_eq!(other.batches_per_epoch(), Some(batches.len() as u64));
            let mut samples = check(&batches);
            samples.sort_unstable();
            prop_assert_eq!(samples, (0..len).collect::<Vec<_>>());
            shielded.reset().unwrap();
            other.reset().unwrap();
        }
    }

    #[test]
    fn shards_are_dealt_the_batches_of_one_process_and_go_on_from_any_state(
        len in 1u64..150, batch_size in 1usize..9, seed in any::<u64>(), shards in 1u32..5, then in 1u32..5, stop in 0usize..9,
        pad in any::<bool>(),
    ) {
        let last_batch = if pad { LastBatch::Pad } else { LastBatch::Keep };
        let whole = see_all(
            &mut AsyncDataSetIterator::new(source(len, batch_size, Some(seed)).last_batch(last_batch), &workspace(2, 1)).unwrap(),
        );
        let open = |index: u32, count: u32, state: Option<&State>| {
            let source = source(len, batch_size, Some(seed)).last_batch(last_batch).shard(Shard::new(index, count).unwrap());
            let mut iterator = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
            state.into_iter().for_each(|state| iterator.seek(state).unwrap());
            iterator
        };
        // Some steps on so many shards, and the rest on as many others.
        let mut first: Vec<_> = (0..shards).map(|index| open(index, shards, None)).collect();
        let steps = stop.min(first[0].batches_per_epoch().unwrap() as usize);
        let mut dealt: Vec<Seen> = Vec::new();
        for _ in 0..steps {
            dealt.extend(first.iter_mut().map(|shard| crate::common::see(&shard.next().unwrap().unwrap())));
        }
        let state = first[0].state();
        prop_assert!(first.iter().all(|shard| shard.state() == state));
        let mut rest: Vec<_> = (0..then).map(|index| see_all(&mut open(index, then, Some(&state)))).collect();
        prop_assert!(rest.iter().all(|shard| shard.len() == rest[0].len()), "as many batches each");
        for step in 0..rest[0].len() {
            dealt.extend(rest.iter_mut().map(|shard| std::mem::replace(&mut shard[step], whole[0].clone())));
        }
        let found: BTreeMap<u64, (Vec<u64>, Vec<Vec<u8>>)> = dealt
            .into_iter()
            .filter(|batch| batch.padding < batch.samples.len())
            .map(|batch| (batch.positions[0], (batch.samples, batch.tensors)))
            .collect();
        let expected = whole.into_iter().map(|batch| (batch.positions[0], (batch.samples, batch.tensors))).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn short_last_batches_are_kept_dropped_or_filled_up_bucket_by_bucket() {
    let waves = Waves::new(101, 40);
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    (0..101).for_each(|id| *counts.entry(bucket_of(waves.length(id))).or_default() += 1);
    let of = |last_batch| {
        let source = source(101, 8, Some(3)).last_batch(last_batch);
        see_all(&mut AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap())
    };
    let kept: u64 = counts.values().map(|count| count.div_ceil(8)).sum();
    assert_eq!(of(LastBatch::Keep).len() as u64, kept);
    let dropped = of(LastBatch::Drop);
    assert_eq!(dropped.len() as u64, counts.values().map(|count| count / 8).sum::<u64>());
    assert!(dropped.iter().all(|batch| batch.samples.len() == 8));
    let filled = of(LastBatch::Pad);
    assert!(filled.len() as u64 == kept && filled.iter().all(|batch| batch.samples.len() == 8));
    assert_eq!(filled.iter().map(|batch| batch.padding as u64).sum::<u64>(), 8 * kept - 101);
    check(&filled);
    // By the first samples of the bucket again.
    let ordered = source(101, 8, None).last_batch(LastBatch::Pad);
    let mut of_bucket: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for batch in see_all(&mut AsyncDataSetIterator::new(ordered, &workspace(2, 2)).unwrap()) {
        of_bucket.entry(bucket_of(waves.length(batch.samples[0]))).or_default().extend(batch.samples);
    }
    for (bound, samples) in of_bucket {
        let own = counts[&bound] as usize;
        assert!(samples.iter().enumerate().all(|(nth, id)| *id == samples[nth % own]), "{samples:?}");
    }
    // Shards have as many batches each; one that comes short has its last without a sample of its own.
    for remainder in [Remainder::Pad, Remainder::Drop] {
        let shard = |index| {
            let source = source(101, 8, Some(3)).shard(Shard::new(index, 4).unwrap()).remainder(remainder);
            see_all(&mut AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap())
        };
        let lens: Vec<usize> = (0..4).map(|index| shard(index).len()).collect();
        let each = if remainder == Remainder::Pad { kept.div_ceil(4) } else { kept / 4 };
        assert_eq!(lens, [each as usize; 4]);
    }
}

/// Lengths that spread widely, as those of texts do: most are short, and some are very long.
fn texts(count: u64) -> Vec<u64> {
    (0..count).map(|at| 4 + (1000.0 * RandomKey::new(9).unit(at).powi(5)) as u64).collect()
}

#[test]
fn padding_of_widely_spread_lengths_falls_from_most_of_the_batch_to_a_few_percent() {
    let folder = tempfile::tempdir().unwrap();
    let lengths = texts(4000);
    let lines: String = lengths
        .iter()
        .map(|len| format!("{{\"ids\": {:?}}}\n", (0..*len).map(|at| at % 7 + 1).collect::<Vec<_>>()))
        .collect();
    std::fs::write(folder.path().join("texts.jsonl"), lines).unwrap();
    let path = folder.path().join("texts.jsonl").to_str().unwrap().to_owned();
    let settings = |bucket: &str| {
        let fields = r#"{"ids": {"from": "/ids", "numbers": "i64"}}"#;
        let text = format!(
            r#"{{"batch_size": 32, "shuffle": 5, "last_batch": "drop", "source": {{"path": "{path}"}}, "fields": {fields}{bucket}}}"#
        );
        LoaderConfig::from_json(&text).unwrap()
    };
    let padding = |config: LoaderConfig, most: Option<usize>| {
        let mut loader = Loader::from(config).build().unwrap();
        let (mut empty, mut all) = (0, 0);
        for batch in loader.by_ref() {
            let batch = batch.unwrap();
            let mask = batch.tensor("ids_mask").unwrap();
            let mask = mask.as_slice::<u8>().unwrap();
            assert!(most.is_none_or(|most| mask.len() <= most), "{} tokens", mask.len());
            empty += mask.iter().filter(|here| **here == 0).count();
            all += mask.len();
        }
        empty as f64 / all as f64
    };
    let before = padding(settings(""), None);
    let bounds: Vec<u32> =
        (0..60).map(|step| 8 + (1.12f64.powi(step) * 4.0) as u32).take_while(|at| *at < 1100).collect();
    let mut bounds: Vec<u32> = bounds.into_iter().chain([1100]).collect();
    bounds.dedup();
    let after = padding(
        settings(&format!(r#", "bucket": {{"by": "ids", "bounds": {bounds:?}, "tokens_per_batch": 8192}}"#)),
        Some(8192),
    );
    println!("padding: {:.1} % before, {:.1} % after", 100.0 * before, 100.0 * after);
    assert!(before > 0.6 && after < 0.1, "{before} and {after}");
    // The builder says the same.
    let built = Loader::from(settings("")).bucket("ids", bounds.iter().copied()).tokens_per_batch(8192);
    assert_eq!(padding(built.config().clone(), Some(8192)), after);
    let plan = built.plan().unwrap();
    assert_eq!((plan.samples, plan.batches_per_epoch, plan.bucket.is_some()), (Some(4000), None, true));
    assert!(plan.unknown.iter().any(|unknown| unknown.contains("batches")), "{:?}", plan.unknown);
}

#[test]
fn what_makes_no_sense_is_refused_with_advice() {
    let open = |buckets: Buckets| {
        let source = ReaderSource::new(Waves::new(50, 40)).bucket(buckets);
        AsyncDataSetIterator::new(source, &workspace(1, 1)).map(|mut batches| check(&see_all(&mut batches)).len())
    };
    let error = open(Buckets::new("wave", [5, 20])).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.location().record.is_some(), "{error}");
    assert!(error.message().contains("leave_out"), "{error}");
    let waves = Waves::new(50, 40);
    let short = (0..50).filter(|id| waves.length(*id) <= 20).count();
    assert_eq!(open(Buckets::new("wave", [5, 10, 20]).leave_out_longer()).unwrap(), short);
    for (buckets, part) in [
        (Buckets::new("wave", []), "the list is empty"),
        (Buckets::new("wave", [5, 5, 40]), "ascending"),
        (Buckets::new("wave", [0, 40]), "1 or more"),
        (Buckets::new("wave", [40]).tokens_per_batch(39), "is less than the last bound, 40"),
        (Buckets::new("id", [40]), "the same length in every sample"),
        (Buckets::new("waves", [40]), "there is no tensor \"waves\""),
    ] {
        let error = open(buckets).unwrap_err();
        assert!(error.message().contains(part), "{part} in {error}");
    }
    let balanced =
        LoaderConfig { bucket: Some(Buckets::new("x", [3])), samples_per_epoch: Some(3), ..LoaderConfig::default() };
    assert!(balanced.faults().iter().any(|fault| fault.starts_with("bucket: ")), "{:?}", balanced.faults());
}

#[test]
fn what_cannot_be_measured_is_a_bad_record_and_does_not_vanish() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    let line = |i: usize| {
        if i == 11 { "{\"ids\": [1, 2}\n".into() } else { format!("{{\"ids\": {:?}}}\n", vec![i; 1 + i % 7]) }
    };
    std::fs::write(&path, (0..20).map(line).collect::<String>()).unwrap();
    let lists = || Loader::open(&path).unwrap().field("ids", Tokens::from("ids")).bucket("ids", [4, 8]).batch_size(4);
    let error = lists().build().unwrap().find_map(Result::err).unwrap();
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(11)), "{error}");
    let mut skipped = lists().bad_records(BadRecords::Skip(BadLimits::default())).build().unwrap();
    let mut samples: Vec<u64> = skipped.by_ref().flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect();
    samples.sort_unstable();
    assert_eq!(samples, (0..20).filter(|id| *id != 11).collect::<Vec<_>>());
    assert_eq!(skipped.bad_records().len(), 1);
}

#[test]
fn the_share_of_bad_records_is_one_of_the_shards_own_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    let line = |i: usize| match i % 10 {
        0 => "{\"ids\": [1, 2}\n".to_owned(),
        _ => format!("{{\"ids\": {:?}}}\n", vec![i; 1 + i % 7]),
    };
    std::fs::write(&path, (0..4000).map(line).collect::<String>()).unwrap();
    let open = |share| {
        let lists = Loader::open(&path).unwrap().field("ids", Tokens::from("ids")).bucket("ids", [4, 8]).batch_size(8);
        let lists = lists.shuffle(1).shard(Shard::new(0, 4).unwrap());
        lists.bad_records(BadRecords::Skip(BadLimits { share: Some(share), ..BadLimits::default() })).build().unwrap()
    };
    assert!(open(0.2).all(|batch| batch.is_ok()));
    let error = open(0.05).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::TooManyBad);
    assert!(error.message().contains("allows 50"), "{error}");
}

/// Shards have unequal numbers of samples, and all of one's may be bad.
#[test]
fn a_share_of_all_records_ends_no_shard() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    for seed in 0..40 {
        let key = RandomKey::new(seed);
        let label = |i: u64| if key.bits(2 * i).is_multiple_of(2) { "1" } else { "\"bad\"" };
        let line =
            |i| format!("{{\"ids\": {:?}, \"y\": {}}}\n", vec![i; 1 + key.bits(2 * i + 1) as usize % 12], label(i));
        let records = 3 + seed % 12;
        std::fs::write(&path, (0..records).map(line).collect::<String>()).unwrap();
        for last in [LastBatch::Keep, LastBatch::Drop, LastBatch::Pad] {
            let batches = [0, 1, 2].map(|shard| {
                let lists = Loader::open(&path).unwrap().field("ids", Tokens::from("ids")).field("y", Numbers::i64());
                let lists = lists.bucket("ids", [4, 8, 12]).batch_size(3).last_batch(last).shuffle(seed);
                let all = BadRecords::Skip(BadLimits::share(1.0));
                let lists = lists.shard(Shard::new(shard, 3).unwrap()).bad_records(all).build().unwrap();
                lists.inspect(|batch| assert!(batch.is_ok(), "{batch:?}")).count()
            });
            assert!(batches.iter().all(|count| *count == batches[0]), "{batches:?}");
        }
    }
}

#[test]
fn each_epoch_has_another_order() {
    let mut batches = AsyncShieldDataSetIterator::new(source(100, 4, Some(3)), &workspace(1, 0)).unwrap();
    let first = check(&see_all(&mut batches));
    batches.reset().unwrap();
    let second = check(&see_all(&mut batches));
    assert_ne!(first, second);
    let sorted = |mut samples: Vec<u64>| {
        samples.sort_unstable();
        samples
    };
    assert_eq!(sorted(first), sorted(second));
}

#[test]
fn a_state_of_other_buckets_is_refused() {
    let open = |bounds: &[u32], subset: u64| {
        let source = ReaderSource::new(Waves::new(50, 40)).bucket(Buckets::new("wave", bounds.iter().copied()));
        AsyncDataSetIterator::new(source.subset(Subset::all(subset)).shuffle(1), &workspace(1, 1)).unwrap()
    };
    let mut first = open(&[10, 40], 50);
    first.next().unwrap().unwrap();
    let state = first.state();
    assert!(open(&[10, 40], 50).seek(&state).is_ok());
    for mut other in [open(&[15, 40], 50), open(&[10, 40], 49)] {
        assert_eq!(other.seek(&state).unwrap_err().kind(), ErrorKind::Config);
    }
    let within = State { position: state.position + 1, ..state };
    let mut first = open(&[10, 40], 50);
    assert!(first.seek(&within).unwrap_err().message().contains("within a batch"));
}

#[test]
fn a_bucket_without_good_samples_is_filled_from_others_that_are_not_larger() {
    let folder = tempfile::tempdir().unwrap();
    let run = |lines: String, bounds: [u32; 2], tokens: u64| {
        let path = folder.path().join("lists.jsonl");
        std::fs::write(&path, lines).unwrap();
        let replace = BadRecords::Replace(BadLimits::default());
        let loader = Loader::open(&path).unwrap().field("x", Numbers::f32()).field("l", Numbers::i64().list());
        let loader = loader.shuffle(3).bad_records(replace).bucket("l", bounds).tokens_per_batch(tokens);
        let seen = see_all(&mut *loader.build().unwrap());
        assert!(seen.iter().all(|batch| batch.shapes[1].iter().product::<usize>() as u64 <= tokens));
        seen.iter().map(|batch| batch.samples.len()).sum::<usize>()
    };
    // What can't be measured is alone in the first bucket; and the longest are all bad.
    let list = |len: usize| format!("{{\"x\": 1, \"l\": {:?}}}\n", vec![1; len]);
    let good: String = (0..199).map(|n| list(10 + n % 30)).collect();
    assert_eq!(run(good.clone() + "{\"x\": 1, \"l\": \"broken\"}\n", [8, 64], 640), 200);
    let bad = list(60).replace("\"x\": 1", "\"x\": null").repeat(2);
    assert_eq!(run(good + &bad, [40, 64], 640), 201);
}

#[test]
fn a_bad_sample_is_replaced_by_one_of_its_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    let bad = [3, 50, 70, 90, 120, 180];
    let line = |n: usize| {
        let x = if bad.contains(&n) { "null" } else { "1" };
        format!("{{\"x\": {x}, \"l\": {:?}}}\n", vec![1; if n < 160 { 2 } else { 100 }])
    };
    std::fs::write(&path, (0..200).map(line).collect::<String>()).unwrap();
    let open = || {
        let loader = Loader::open(&path).unwrap().field("x", Numbers::f32()).field("l", Numbers::i64().list());
        let replace = BadRecords::Replace(BadLimits::default());
        loader.shuffle(1).bad_records(replace).bucket("l", [2, 100]).tokens_per_batch(200)
    };
    let mut batches = open().build().unwrap();
    let mut shielded = open().shield().build().unwrap();
    for _ in 0..20 {
        let seen = see_all(&mut *batches);
        assert_eq!(seen, see_all(&mut *shielded));
        let lists = |batch: &Seen| [batch.shapes[1][0], batch.shapes[1][1]];
        assert!(seen.iter().all(|batch| [[100, 2], [60, 2], [2, 100]].contains(&lists(batch))), "{:?}", seen[0].shapes);
        assert_eq!(seen.iter().map(|batch| batch.samples.len()).sum::<usize>(), 200);
        batches.reset().unwrap();
        shielded.reset().unwrap();
    }
}
