//! One global order: dealt to shards, resumed exactly, with bad records replaced, and running on into the next epoch.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Flaky, Seen, Trouble, Waves, see, see_all, workspace, xs};
use proptest::prelude::*;
use ringfeed::images::{horizontal_flip, random_resized_crop};
use ringfeed::order::{LastBatch, RandomKey, Remainder, Shard, State};
use ringfeed::read::MemoryReader;
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::workspace::{FetchLimit, shield, wrap};
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DataSetIterator, ErrorKind, Workspace};

fn waves(len: u64, seed: u64, batch_size: usize) -> ReaderSource {
    ReaderSource::new(Waves::new(len, 20)).shuffle(seed).batch_size(batch_size)
}

#[test]
fn a_state_of_a_shuffle_is_no_state_of_the_sources_own_order_whatever_the_seed() {
    let own = || ReaderSource::new(Waves::new(50, 20)).batch_size(5);
    for (one, other) in [(own(), own().shuffle(0)), (own().shuffle(0), own())] {
        let [mut one, mut other] =
            [one, other].map(|source| AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap());
        one.next().unwrap().unwrap();
        assert_eq!(other.seek(&one.state()).unwrap_err().kind(), ErrorKind::Config);
    }
}

#[test]
fn what_fills_the_last_batch_up_are_the_first_samples_also_where_the_surplus_is_left_out() {
    let mut seen = Vec::new();
    for index in 0..4 {
        let source = ReaderSource::new(Waves::new(10, 20)).batch_size(4).last_batch(LastBatch::Pad);
        let source = source.shard(Shard::new(index, 4).unwrap()).remainder(Remainder::Drop);
        let mut shard = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
        let batches = see_all(&mut shard);
        assert_eq!((batches.len(), batches[0].padding), (1, 2));
        seen.extend(batches[0].positions[2..].iter().copied().zip(batches[0].samples[2..].iter().copied()));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..8).map(|nth| (10 + nth, nth)).collect::<Vec<_>>());
}

/// Positions and samples of an epoch, in order.
fn dealt(iterator: &mut dyn DataSetIterator) -> Vec<(u64, u64)> {
    see_all(iterator).into_iter().flat_map(|batch| batch.positions.into_iter().zip(batch.samples)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shards_deal_the_sequence_of_one_process(
        len in 1u64..80,
        shards in 1u32..7,
        batch_size in 1usize..9,
        seed in any::<u64>(),
        drop in any::<bool>(),
        workers in 1usize..4,
    ) {
        let remainder = if drop { Remainder::Drop } else { Remainder::Pad };
        let mut whole = AsyncDataSetIterator::new(waves(len, seed, 7), &workspace(2, 1)).unwrap();
        let mut parts: Vec<_> = (0..shards)
            .map(|index| {
                let source = waves(len, seed, batch_size).shard(Shard::new(index, shards).unwrap()).remainder(remainder);
                AsyncDataSetIterator::new(source, &workspace(workers, 1)).unwrap()
            })
            .collect();
        for _ in 0..2 {
            let whole_epoch = dealt(&mut whole);
            let seen: Vec<Vec<Seen>> = parts.iter_mut().map(|part| see_all(part)).collect();
            let batches: Vec<Vec<usize>> =
                seen.iter().map(|part| part.iter().map(|batch| batch.samples.len()).collect()).collect();
            prop_assert!(batches.iter().all(|part| *part == batches[0]), "{batches:?}");
            let mut union: Vec<(u64, u64)> = seen
                .into_iter()
                .flatten()
                .flat_map(|batch| batch.positions.into_iter().zip(batch.samples))
                .collect();
            union.sort_unstable();
            let padding = union.split_off(union.partition_point(|(position, _)| *position < len));
            let kept = if drop { (len / u64::from(shards) * u64::from(shards)) as usize } else { len as usize };
            prop_assert_eq!(&union[..], &whole_epoch[..kept]);
            for (position, sample) in padding {
                prop_assert!(!drop && position < len.next_multiple_of(shards.into()));
                prop_assert_eq!(sample, whole_epoch[(position % len) as usize].1);
            }
            whole.reset().unwrap();
            parts.iter_mut().for_each(|part| part.reset().unwrap());
        }
    }

    #[test]
    fn any_number_of_shards_goes_on_where_any_other_stopped(
        len in 1u64..90,
        before in 1u32..5,
        after in 1u32..5,
        steps in 0usize..6,
        seed in any::<u64>(),
        shielded in any::<bool>(),
    ) {
        let whole: BTreeMap<u64, u64> =
            dealt(&mut AsyncDataSetIterator::new(waves(len, seed, 5), &workspace(1, 1)).unwrap()).into_iter().collect();
        let mut seen = Vec::new();
        let mut states = Vec::new();
        for index in 0..before {
            let source = waves(len, seed, 3).shard(Shard::new(index, before).unwrap());
            let mut part = AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap();
            // The first shard is a step ahead of the others.
            for batch in part.by_ref().take(steps + usize::from(index == 0)) {
                let batch = batch.unwrap();
                seen.extend(batch.positions().iter().copied().zip(batch.sample_ids().iter().copied()));
                states.push(batch.state_after());
                prop_assert_eq!(batch.state_after(), *states.last().unwrap());
            }
            states.push(part.state());
        }
        let state = states.into_iter().min_by_key(|state| state.position).unwrap();
        seen.retain(|(position, _)| *position < state.position);
        let text = serde_json::to_string(&state).unwrap();
        prop_assert!(text.len() < 256, "{text}");
        let state: State = serde_json::from_str(&text).unwrap();
        for index in 0..after {
            let source = waves(len, seed, 4).shard(Shard::new(index, after).unwrap());
            let mut part = if shielded {
                wrap(shield(source), &workspace(1, 0)).unwrap()
            } else {
                wrap(source, &workspace(1, 3)).unwrap()
            };
            part.seek(&state).unwrap();
            seen.extend(dealt(&mut *part));
        }
        seen.retain(|(position, _)| *position < len);
        seen.sort_unstable();
        prop_assert_eq!(seen, whole.into_iter().collect::<Vec<_>>());
    }
}

/// Counts what is asked of it; as long as one likes.
struct Endless(u64, std::sync::Arc<std::sync::atomic::AtomicU64>);

impl ringfeed::read::RecordReader for Endless {
    fn len(&self) -> u64 {
        self.0
    }

    fn tensors(&self) -> &[ringfeed::tensor::TensorSpec] {
        static TENSORS: std::sync::LazyLock<[ringfeed::tensor::TensorSpec; 1]> = std::sync::LazyLock::new(|| {
            [ringfeed::tensor::TensorSpec::new("x", Role::Feature, ringfeed::DType::I64, &[])]
        });
        &*TENSORS
    }

    fn decode(
        &self,
        sample: ringfeed::read::Sample,
        _: usize,
        _: &mut ringfeed::read::Scratch,
        row: &mut ringfeed::read::RowMut<'_>,
    ) -> ringfeed::Result<()> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        row.tensor(0).as_mut_slice::<i64>()?[0] = sample.id as i64;
        Ok(())
    }

    fn place(&self, _: u64) -> ringfeed::error::Location {
        ringfeed::error::Location::default()
    }
}

#[test]
fn going_on_near_the_end_of_a_billion_costs_what_starting_costs() {
    let cost = |position: u64| {
        let reads = std::sync::Arc::<std::sync::atomic::AtomicU64>::default();
        let source = ReaderSource::new(Endless(1_000_000_000, reads.clone())).shuffle(1).batch_size(100);
        let mut iterator = AsyncShieldDataSetIterator::new(source, &workspace(1, 0)).unwrap();
        if position > 0 {
            iterator.seek(&State { position, ..iterator.state() }).unwrap();
        }
        let batch = iterator.next().unwrap().unwrap();
        assert_eq!(batch.positions()[0], position);
        reads.load(std::sync::atomic::Ordering::SeqCst)
    };
    assert_eq!((cost(0), cost(900_000_000)), (100, 100));
}

#[test]
fn a_changed_source_is_refused_with_what_changed_unless_one_insists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let open = |text: &str| {
        std::fs::write(&path, text).unwrap();
        ringfeed::Loader::csv(&path).batch_size(1).build().unwrap()
    };
    let mut iterator = open("a,b\n1,2\n3,4\n");
    drop(iterator.next().unwrap().unwrap());
    let state = iterator.state();
    for (text, changed) in [
        ("a,b\n1,2\n3,4\n5,6\n", "the count of records (from 2 to 3), sizes"),
        ("a,c\n1,2\n3,4\n", "names;"),
        ("a,b\n1,2\n3,45\n", ": sizes;"),
    ] {
        let mut other = open(text);
        let error = other.seek(&state).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(changed), "{changed} in {error}");
        other.seek(&state.for_changed_source()).unwrap();
        assert_eq!(other.next().unwrap().unwrap().positions(), [1]);
    }
    let mut other = AsyncDataSetIterator::new(waves(10, 5, 2), &workspace(1, 1)).unwrap();
    assert!(other.seek(&State { source: None, ..state }).unwrap_err().to_string().contains("seed"));
    assert!(other.seek(&State { version: 9, ..other.state() }).unwrap_err().to_string().contains("version 9"));
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn image_folders_notice_a_file_of_another_size() {
    let folder = tempfile::tempdir().unwrap();
    let photo = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/rocket.jpg");
    std::fs::copy(&photo, folder.path().join("a.jpg")).unwrap();
    std::fs::copy(&photo, folder.path().join("b.jpg")).unwrap();
    let open = || ringfeed::Loader::images(folder.path()).size(8, 8).batch_size(1).build().unwrap();
    let mut iterator = open();
    drop(iterator.next().unwrap().unwrap());
    let state = iterator.state();
    open().seek(&state).unwrap();
    let mut longer = std::fs::read(&photo).unwrap();
    longer.push(0);
    std::fs::write(folder.path().join("b.jpg"), longer).unwrap();
    assert!(open().seek(&state).unwrap_err().to_string().contains(": sizes;"));
}

const DIRECTORY: &str = "RINGFEED_TEST_DIRECTORY";
/// Bytes of its log behind which a child waits to be killed.
const WAITS_AT: &str = "RINGFEED_TEST_WAITS_AT";
const RECORDS: u64 = 3000;

/// Not a test of its own: what `killed_processes_lose_and_repeat_nothing` starts and kills.
#[test]
fn child_process() {
    let Ok(folder) = std::env::var(DIRECTORY) else { return };
    let folder = Path::new(&folder);
    let workers = 1 + std::process::id() as usize % 3;
    let mut iterator =
        AsyncDataSetIterator::new(waves(RECORDS, 11, 7), &Workspace::builder().workers(workers).build().unwrap())
            .unwrap();
    if let Ok(state) = std::fs::read_to_string(folder.join("state.json")) {
        iterator.seek(&serde_json::from_str(&state).unwrap()).unwrap();
    }
    let mut log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    let waits_at = std::env::var(WAITS_AT).map_or(u64::MAX, |bytes| bytes.parse().unwrap());
    for batch in iterator {
        while log.metadata().unwrap().len() > waits_at {
            std::thread::park();
        }
        let batch = batch.unwrap();
        let state = serde_json::to_string(&batch.state_after()).unwrap();
        let positions: Vec<String> = batch.positions().iter().map(u64::to_string).collect();
        std::io::Write::write_all(
            &mut log,
            format!("{};{}\n", batch.state_after().position, positions.join(" ")).as_bytes(),
        )
        .unwrap();
        std::fs::write(folder.join("state.new"), state).unwrap();
        std::fs::rename(folder.join("state.new"), folder.join("state.json")).unwrap();
    }
    std::fs::write(folder.join("finished"), "").unwrap();
}

#[test]
fn killed_processes_lose_and_repeat_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept: Vec<u64> = Vec::new();
    let mut kills = 0;
    while !folder.path().join("finished").exists() {
        // Kill it when its log has grown by a random number of bytes: no clock decides. It waits for that a few batches
        // later.
        let grown = RandomKey::new(3).bits(kills) % 2500;
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "orders::child_process", "--quiet"]).env(DIRECTORY, folder.path()).stdout(Stdio::null());
        if kills < 25 {
            child.env(WAITS_AT, (grown + 300).to_string());
        }
        let mut child = child.spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            if std::fs::metadata(folder.path().join("log")).map_or(0, |log| log.len()) > grown && kills < 25 {
                child.kill().unwrap();
                kills += 1;
                break;
            }
            std::thread::yield_now();
        }
        let ended = child.wait().unwrap();
        assert!(!ended.success() || folder.path().join("finished").exists(), "it ended before its work did");
        let saved = std::fs::read_to_string(folder.path().join("state.json"))
            .map_or(0, |state| serde_json::from_str::<State>(&state).unwrap().position);
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        for line in log.lines() {
            // The last line may be cut off; what lies behind the saved state will come again.
            let Some((after, positions)) = line.split_once(';') else { continue };
            if after.parse::<u64>().is_ok_and(|after| after <= saved) {
                kept.extend(positions.split(' ').map(|position| position.parse::<u64>().unwrap()));
            }
        }
        let _ = std::fs::remove_file(folder.path().join("log"));
    }
    assert!(kills > 5, "{kills} kills");
    kept.sort_unstable();
    assert_eq!(kept, (0..RECORDS).collect::<Vec<_>>());
}

fn replacing(bad: &[u64], trouble: Trouble, limits: BadLimits) -> ReaderSource {
    ReaderSource::new(Flaky::new(100, bad, trouble)).batch_size(10).shuffle(4).bad_records(BadRecords::Replace(limits))
}

#[test]
fn replaced_records_change_nothing_else() {
    let bad = [3, 4, 5, 50, 51, 99];
    let mut plain =
        AsyncDataSetIterator::new(replacing(&[], Trouble::FailInDecode, BadLimits::default()), &workspace(2, 2))
            .unwrap();
    let expected = see_all(&mut plain);
    let mut replaced: Option<Vec<Seen>> = None;
    for trouble in [Trouble::FailInFetch, Trouble::FailInDecode, Trouble::PanicInFetch, Trouble::PanicInDecode] {
        let source = || replacing(&bad, trouble, BadLimits::count(6));
        let ahead: Box<dyn DataSetIterator> = wrap(source(), &workspace(3, 2)).unwrap();
        let shielded = wrap(shield(source()), &workspace(1, 0)).unwrap();
        for mut iterator in [ahead, shielded] {
            let seen = see_all(&mut *iterator);
            for (batch, expected) in seen.iter().zip(&expected) {
                assert_eq!(batch.positions, expected.positions);
                for (sample, expected) in batch.samples.iter().zip(&expected.samples) {
                    assert!(!bad.contains(sample));
                    assert!(sample == expected || bad.contains(expected));
                }
                let bytes: Vec<u8> = batch.samples.iter().flat_map(|sample| (*sample as i64).to_ne_bytes()).collect();
                assert_eq!(batch.tensors[0], bytes);
            }
            assert_eq!(seen.len(), expected.len());
            assert_eq!(replaced.get_or_insert_with(|| seen.clone()), &seen, "the same for everybody");
            assert_eq!((iterator.stats().replaced, iterator.stats().skipped), (6, 0));
            let named = iterator.bad_records();
            assert_eq!(named.len(), 6);
            for record in named {
                let batch = &seen[record.position as usize / 10];
                assert_eq!(record.replacement, Some(batch.samples[record.position as usize % 10]));
                assert!(bad.iter().any(|id| record.error.contains(&format!("record {id}"))), "{}", record.error);
            }
            assert_eq!(iterator.state().bad, 6);
        }
    }
}

#[test]
fn another_shard_replaces_a_position_by_the_same_sample() {
    let source = || replacing(&[3, 4, 5, 50, 51, 99], Trouble::FailInDecode, BadLimits::default());
    let whole = dealt(&mut AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap());
    let mut parts: Vec<(u64, u64)> = (0..3)
        .flat_map(|index| {
            let source = source().shard(Shard::new(index, 3).unwrap()).remainder(Remainder::Drop);
            dealt(&mut AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap())
        })
        .collect();
    parts.sort_unstable();
    assert_eq!(parts, whole[..99]);
}

#[test]
fn a_longer_replacement_has_its_batch_laid_out_again() {
    struct Bad(Waves);
    impl ringfeed::read::RecordReader for Bad {
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn tensors(&self) -> &[ringfeed::tensor::TensorSpec] {
            self.0.tensors()
        }
        fn measure(
            &self,
            sample: u64,
            scratch: &mut ringfeed::read::Scratch,
        ) -> ringfeed::Result<ringfeed::tensor::Extents> {
            self.0.measure(sample, scratch)
        }
        fn decode(
            &self,
            sample: ringfeed::read::Sample,
            nth: usize,
            scratch: &mut ringfeed::read::Scratch,
            row: &mut ringfeed::read::RowMut<'_>,
        ) -> ringfeed::Result<()> {
            if sample.id % 5 == 2 {
                return Err(ringfeed::Error::new(ErrorKind::Data, "bad"));
            }
            self.0.decode(sample, nth, scratch, row)
        }
        fn place(&self, sample: u64) -> ringfeed::error::Location {
            self.0.place(sample)
        }
    }
    let source = || {
        ReaderSource::new(Bad(Waves::new(60, 300))).batch_size(3).bad_records(BadRecords::Replace(BadLimits::default()))
    };
    let waves = Waves::new(60, 300);
    let mut iterator = AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap();
    let seen = see_all(&mut iterator);
    assert_eq!(seen.iter().map(|batch| batch.samples.len()).sum::<usize>(), 60);
    for batch in &seen {
        let naive = waves.naive(&batch.samples);
        // The batch keeps the length it was laid out for when a bad record was longer than its replacement.
        let longest = batch.samples.iter().map(|id| waves.length(*id)).max().unwrap();
        assert!(batch.shapes[0][1] >= longest);
        if batch.shapes[0][1] == longest {
            assert_eq!(batch.tensors, naive);
        }
    }
    assert!(iterator.stats().refilled > 0);
    let mut shielded = AsyncShieldDataSetIterator::new(source(), &workspace(1, 1)).unwrap();
    assert_eq!(see_all(&mut shielded), seen);
}

#[test]
fn limits_count_records_shares_and_runs() {
    let run: Vec<u64> = (38..43).collect();
    for (limits, part) in [
        (BadLimits { consecutive: Some(4), ..BadLimits::default() }, "5 bad records in a row"),
        (BadLimits::count(4), "but the policy allows 4"),
        (BadLimits::share(0.04), "but the policy allows 4"),
    ] {
        for policy in [BadRecords::Skip(limits), BadRecords::Replace(limits)] {
            let source =
                ReaderSource::new(Flaky::new(100, &run, Trouble::FailInDecode)).batch_size(10).bad_records(policy);
            let mut iterator = AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap();
            let error = iterator.find_map(Result::err).unwrap();
            assert_eq!(error.kind(), ErrorKind::TooManyBad);
            assert!(error.to_string().contains(part) && error.to_string().contains("record 38 is bad"), "{error}");
            assert!(iterator.next().is_none());
        }
    }
    let enough = BadLimits { count: Some(5), share: Some(0.05), consecutive: Some(5) };
    let source = ReaderSource::new(Flaky::new(100, &run, Trouble::FailInDecode))
        .batch_size(10)
        .bad_records(BadRecords::Skip(enough));
    let iterator = AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap();
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 95);
}

fn limited(replacements: usize) -> Workspace {
    let limit = FetchLimit { time_ms: 1000, replacements };
    Workspace::builder().workers(2).fetch_limit(limit).build().unwrap()
}

#[test]
fn a_read_that_hangs_is_given_up_and_its_sample_goes_by_the_policy() {
    let hanging = Flaky::new(40, &[13], Trouble::Stall);
    let gate = hanging.gate.clone();
    let source = ReaderSource::new(hanging).batch_size(10).bad_records(BadRecords::Skip(BadLimits::count(1)));
    let mut iterator = AsyncDataSetIterator::new(source, &limited(10)).unwrap();
    let seen: Vec<i64> = iterator.by_ref().flat_map(|batch| xs(&batch.unwrap())).collect();
    assert_eq!(seen, (0..40).filter(|x| *x != 13).collect::<Vec<_>>());
    let named = iterator.bad_records();
    assert!(named[0].error.contains("record 13") && named[0].error.contains("longer than"), "{}", named[0].error);
    assert!(iterator.stats().left_behind >= 1);
    gate.open();
}

#[test]
fn a_replacement_that_hangs_too_is_given_up_for_another() {
    // Half of all samples hang, so that replacements are sure to meet some of them.
    let hanging: Vec<u64> = (0..20).filter(|sample| sample % 2 == 1).collect();
    let source = Flaky::new(20, &hanging, Trouble::Stall);
    let gate = source.gate.clone();
    let source = ReaderSource::new(source).batch_size(4).bad_records(BadRecords::Replace(BadLimits::default()));
    let limit = FetchLimit { time_ms: 100, replacements: 1000 };
    let workspace = Workspace::builder().workers(2).across_epochs(false).fetch_limit(limit).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(source, &workspace).unwrap();
    let seen: Vec<i64> = iterator.by_ref().flat_map(|batch| xs(&batch.unwrap())).collect();
    assert_eq!(seen.len(), 20);
    assert!(seen.iter().all(|sample| sample % 2 == 0), "{seen:?}");
    assert!(iterator.stats().left_behind > 10, "{:?}", iterator.stats());
    gate.open();
}

#[test]
fn a_run_of_bad_records_goes_on_behind_a_restart() {
    let run: Vec<u64> = (8..13).collect();
    let source = || {
        let limits = BadLimits { consecutive: Some(4), ..BadLimits::default() };
        ReaderSource::new(Flaky::new(40, &run, Trouble::FailInDecode))
            .batch_size(10)
            .bad_records(BadRecords::Skip(limits))
    };
    let mut first = AsyncDataSetIterator::new(source(), &workspace(1, 1)).unwrap();
    assert_eq!(first.next().unwrap().unwrap().len(), 8);
    let state = first.state();
    assert_eq!((state.bad, state.run), (2, 2));
    let mut second = AsyncShieldDataSetIterator::new(source(), &workspace(1, 1)).unwrap();
    second.seek(&state).unwrap();
    assert_eq!(second.next().unwrap().unwrap_err().kind(), ErrorKind::TooManyBad);
}

#[test]
fn the_largest_state_is_less_than_256_bytes_of_json() {
    let largest = State {
        version: u32::MAX,
        seed: u64::MAX,
        epoch: u64::MAX,
        position: u64::MAX,
        bad: u64::MAX,
        run: u32::MAX,
        source: Some(ringfeed::read::Fingerprint { count: Some(u64::MAX), names: u64::MAX, sizes: u64::MAX }),
    };
    let text = serde_json::to_string(&largest).unwrap();
    assert!(text.len() < 256, "{} bytes: {text}", text.len());
    let readable = State { version: State::VERSION, ..largest };
    assert_eq!(serde_json::from_str::<State>(&serde_json::to_string(&readable).unwrap()).unwrap(), readable);
}

#[test]
fn too_many_reads_left_behind_are_a_named_error() {
    let hanging = Flaky::new(40, &[3, 13, 23], Trouble::Stall);
    let gate = hanging.gate.clone();
    let source = ReaderSource::new(hanging).batch_size(10).bad_records(BadRecords::Skip(BadLimits::default()));
    let mut iterator = AsyncDataSetIterator::new(source, &limited(1)).unwrap();
    let error = iterator.find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("only 1 may"), "{error}");
    assert!(iterator.next().is_none());
    gate.open();
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_time_limit_that_is_not_passed_changes_no_byte() {
    let plain = see_all(&mut AsyncDataSetIterator::new(waves(60, 3, 7), &workspace(2, 2)).unwrap());
    let limit = FetchLimit { time_ms: 60_000, replacements: 0 };
    let limited = Workspace::builder().workers(2).fetch_limit(limit).build().unwrap();
    assert_eq!(see_all(&mut AsyncDataSetIterator::new(waves(60, 3, 7), &limited).unwrap()), plain);
    let photos = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos");
    let loader = ringfeed::Loader::images(photos).size(16, 16).batch_size(4);
    let plain = see_all(&mut *loader.build().unwrap());
    assert_eq!(see_all(&mut *loader.build_in(&limited).unwrap()), plain);
}

#[test]
fn a_source_that_is_bad_throughout_fails_instead_of_searching_for_ever() {
    let all: Vec<u64> = (0..100).collect();
    let source = replacing(&all, Trouble::FailInDecode, BadLimits::default());
    let mut iterator = AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap();
    let error = iterator.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyBad);
    assert!(error.to_string().contains("no sample could replace"), "{error}");
}

#[test]
fn prefetch_runs_on_into_the_next_epoch_unless_told_not_to() {
    let source = || ReaderSource::new(Flaky::new(40, &[], Trouble::Stall)).batch_size(10).shuffle(2);
    let mut iterator = AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap();
    iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
    // Without a reset, the next epoch's first batches come to lie ready.
    let given_up = std::time::Instant::now() + std::time::Duration::from_secs(250);
    while iterator.stats().stages[2].samples < 60 {
        assert!(std::time::Instant::now() < given_up, "nothing runs on: {:?}", iterator.stats());
        std::thread::yield_now();
    }
    iterator.reset().unwrap();
    let mut fresh = AsyncDataSetIterator::new(source(), &workspace(1, 1)).unwrap();
    drop(dealt(&mut fresh));
    fresh.reset().unwrap();
    assert_eq!(see_all(&mut iterator), see_all(&mut fresh));
    let resting = Workspace::builder().workers(2).across_epochs(false).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(source(), &resting).unwrap();
    iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
    assert_eq!(iterator.stats().stages[0].samples, 30, "the first batch is planned when the iterator is made");
    iterator.reset().unwrap();
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 40);
}

#[test]
fn running_on_keeps_no_slot_from_another_source() {
    let workspace = workspace(2, 2);
    let mut train = AsyncDataSetIterator::new(waves(30, 1, 5), &workspace).unwrap();
    let numbers = MemoryReader::new("x", Role::Feature, &[], (0..50i64).collect::<Vec<_>>()).unwrap();
    let mut test = AsyncDataSetIterator::new(ReaderSource::new(numbers).batch_size(5), &workspace).unwrap();
    let mut alone = AsyncDataSetIterator::new(waves(30, 1, 5), &crate::common::workspace(1, 1)).unwrap();
    for _ in 0..4 {
        assert_eq!(see_all(&mut train), see_all(&mut alone));
        let held: Vec<_> = test.by_ref().take(4).map(|batch| batch.unwrap()).collect();
        assert_eq!(held.iter().flat_map(xs).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        drop(held);
        test.reset().unwrap();
        train.reset().unwrap();
        alone.reset().unwrap();
    }
}

#[test]
fn an_epoch_without_batches_ends_again_and_again() {
    let source = waves(3, 1, 5).last_batch(LastBatch::Drop);
    let mut iterator = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
    for epoch in 0..5 {
        assert_eq!(iterator.state().epoch, epoch);
        assert!(iterator.next().is_none());
        iterator.reset().unwrap();
    }
}

#[test]
fn a_batch_knows_where_it_ends() {
    let mut iterator = AsyncDataSetIterator::new(waves(30, 1, 7), &workspace(1, 1)).unwrap();
    let batch = iterator.next().unwrap().unwrap();
    assert_eq!(see(&batch).positions, (0..7).collect::<Vec<_>>());
    assert_eq!((batch.state_after().position, batch.state_after()), (7, iterator.state()));
}

#[test]
fn a_bad_record_that_is_met_again_is_named_once_with_its_place_and_kind() {
    let source = |limits| {
        ReaderSource::new(Flaky::new(20, &[3, 7], Trouble::FailInDecode))
            .weighted(vec![1.0; 20])
            .samples_per_epoch(200)
            .shuffle(1)
            .bad_records(BadRecords::Skip(limits))
    };
    let mut iterator = AsyncDataSetIterator::new(source(BadLimits::default()), &workspace(2, 2)).unwrap();
    for _ in 0..2 {
        iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
        iterator.reset().unwrap();
    }
    let mut named = iterator.bad_records();
    named.sort_by_key(|record| record.sample);
    assert_eq!(named.iter().map(|record| record.sample).collect::<Vec<_>>(), [3, 7]);
    assert_eq!(named.iter().map(|record| record.times).sum::<u64>(), iterator.stats().skipped);
    for record in named {
        assert!(record.times > 1, "200 draws of 20 samples");
        assert_eq!((record.kind, record.place.record), (ErrorKind::Data, Some(record.sample)));
        assert_eq!(record.epoch, 0);
    }
    let mut iterator = AsyncDataSetIterator::new(source(BadLimits::count(5)), &workspace(2, 2)).unwrap();
    let error = iterator.find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::TooManyBad);
    assert_eq!(error.message().matches("\n  ").count(), 3, "two records and the sign of more: {error}");
}

#[test]
fn an_error_of_a_later_epoch_lists_that_epochs_bad_records() {
    let bad: Vec<u64> = (0..150).collect();
    let source = ReaderSource::new(Flaky::new(400, &bad, Trouble::FailInDecode))
        .batch_size(10)
        .bad_records(BadRecords::Skip(BadLimits { consecutive: Some(150), ..BadLimits::default() }));
    let mut iterator = AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap();
    assert_eq!(iterator.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 250);
    assert_eq!(iterator.bad_records().len(), 100);
    // A shuffle of another seed would bring other records first; here the limit is passed by another epoch's own.
    let mut shuffled = AsyncDataSetIterator::new(
        ReaderSource::new(Flaky::new(400, &bad, Trouble::FailInDecode))
            .batch_size(400)
            .shuffle(1)
            .bad_records(BadRecords::Skip(BadLimits::count(150))),
        &workspace(2, 2),
    )
    .unwrap();
    assert_eq!(shuffled.next().unwrap().unwrap().len(), 250);
    let mut state = shuffled.state();
    state.position = 0;
    state.epoch = 1;
    state.bad = 1;
    shuffled.seek(&state).unwrap();
    let error = shuffled.next().unwrap().unwrap_err().to_string();
    let order = ringfeed::order::Permutation::new(400, RandomKey::new(1).with(1));
    let first = (0..400).map(|position| order.at(position)).find(|sample| *sample < 150).unwrap();
    assert!(error.contains("151 bad records") && error.contains(&format!("record {first} is bad")), "{error}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_sample_is_augmented_alike_on_any_number_of_shards() {
    let photos = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos");
    let augment = [random_resized_crop(), horizontal_flip()];
    let loader = ringfeed::Loader::images(photos).size(24, 24).batch_size(2).shuffle(6).augment(augment);
    let pictures = |shard: Shard| -> BTreeMap<u64, Vec<u8>> {
        let seen = see_all(&mut *loader.clone().shard(shard).build().unwrap());
        let rows = seen.iter().flat_map(|batch| {
            let bytes = batch.tensors[0].len() / batch.samples.len();
            batch.samples.iter().copied().zip(batch.tensors[0].chunks(bytes).map(<[u8]>::to_vec))
        });
        rows.collect()
    };
    let whole = pictures(Shard::default());
    assert_eq!(whole.len(), 6);
    for count in [2, 3, 4] {
        let parts: BTreeMap<u64, Vec<u8>> =
            (0..count).flat_map(|index| pictures(Shard::new(index, count).unwrap())).collect();
        assert_eq!(parts, whole);
    }
}

#[test]
fn numbers_beyond_any_run_are_refused_or_do_no_harm() {
    for last_batch in [LastBatch::Keep, LastBatch::Drop] {
        for batch_size in [1 << 62, usize::MAX] {
            let source = waves(10, 3, batch_size).shard(Shard::new(1, 4).unwrap()).last_batch(last_batch);
            let mut iterator = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
            let lens: Vec<usize> = iterator.by_ref().map(|batch| batch.unwrap().len()).collect();
            assert_eq!(lens, if last_batch == LastBatch::Keep { vec![3] } else { vec![] });
        }
    }
    for samples in [u64::MAX, (1 << 62) + 1] {
        let source = waves(10, 3, 4).samples_per_epoch(samples);
        let error = AsyncDataSetIterator::new(source, &workspace(1, 1)).err().unwrap();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains("samples_per_epoch"), "{error}");
    }
    let source = waves(10, 3, 4).samples_per_epoch(1 << 62).shard(Shard::new(u32::MAX - 1, u32::MAX).unwrap());
    let mut far = AsyncShieldDataSetIterator::new(source, &workspace(1, 0)).unwrap();
    far.seek(&State { position: (1 << 62) - 1, epoch: 1 << 62, ..far.state() }).unwrap();
    assert_eq!(far.next().unwrap().unwrap().padding(), 1);
    let state = far.state();
    assert_eq!((state.position, far.next().is_none()), (1 << 62, true));

    let skipping = || {
        let source = ReaderSource::new(Flaky::new(10, &[0, 1, 2], Trouble::FailInDecode));
        source.batch_size(5).bad_records(BadRecords::Skip(BadLimits::default()))
    };
    let mut iterator = AsyncShieldDataSetIterator::new(skipping(), &workspace(1, 0)).unwrap();
    iterator.seek(&State { bad: u64::MAX, run: u32::MAX, ..iterator.state() }).unwrap();
    assert_eq!(iterator.next().unwrap().unwrap().len(), 2);
    assert_eq!((iterator.state().bad, iterator.state().run), (u64::MAX, 0));

    let beyond = State { position: 11, ..iterator.state() };
    assert!(iterator.seek(&beyond).unwrap_err().to_string().contains("the epoch has 10 samples"));
    let mut ahead = AsyncDataSetIterator::new(skipping(), &workspace(1, 1)).unwrap();
    let refused = ahead.seek(&beyond).err().or_else(|| ahead.next().and_then(Result::err));
    assert_eq!(refused.unwrap().kind(), ErrorKind::Config);
    let rows = ringfeed::read::SampleStream::repeatable(
        &[ringfeed::tensor::TensorSpec::new("x", Role::Feature, ringfeed::DType::U8, &[])],
        || (0..10u8).map(|x| Ok(vec![ringfeed::read::SampleTensor::from(x)])),
    );
    let stream = ringfeed::source::StreamSource::from_samples(rows.unwrap());
    let mut iterator = AsyncShieldDataSetIterator::new(stream, &workspace(1, 0)).unwrap();
    assert!(iterator.seek(&State { source: None, ..beyond }).unwrap_err().to_string().contains("10 samples"));
}

/// Plans as a user would: position for position, and says nothing of randomness.
struct InOrder {
    epoch: u64,
    at: u64,
}

impl ringfeed::source::Planner for InOrder {
    fn plan(&mut self, into: &mut ringfeed::source::BatchPlan) -> ringfeed::Result<bool> {
        into.clear();
        (into.epoch, into.index) = (self.epoch, self.at / 10);
        into.positions.extend(self.at..self.at + 10);
        into.samples.extend(self.at..self.at + 10);
        self.at += 10;
        into.end = self.at;
        Ok(self.at <= 100)
    }

    fn begin_epoch(&mut self, epoch: u64) -> ringfeed::Result<()> {
        (self.epoch, self.at) = (epoch, 0);
        Ok(())
    }

    fn seek(&mut self, state: &State) -> ringfeed::Result<()> {
        (self.epoch, self.at) = (state.epoch, state.position);
        Ok(())
    }
}

struct OwnPlanner(ReaderSource);

impl ringfeed::source::Source for OwnPlanner {
    fn open(self: Box<Self>) -> ringfeed::Result<ringfeed::source::OpenedSource> {
        let opened = Box::new(self.0).open()?;
        Ok(ringfeed::source::OpenedSource { planner: Box::new(InOrder { epoch: 0, at: 0 }), ..opened })
    }
}

#[test]
fn a_planner_of_the_users_own_has_another_key_in_each_epoch() {
    let bad: Vec<u64> = (0..100).filter(|id| id % 3 == 0).collect();
    let source = |seed| {
        ReaderSource::new(Flaky::new(100, &bad, Trouble::FailInDecode))
            .batch_size(10)
            .seed(seed)
            .bad_records(BadRecords::Replace(BadLimits::default()))
    };
    let two_epochs = |mut iterator: Box<dyn DataSetIterator>| -> Vec<Vec<Seen>> {
        let seen = iterator.epochs(2).map(|epoch| epoch.unwrap().map(|batch| see(&batch.unwrap())).collect());
        seen.collect()
    };
    let own = |seed| two_epochs(wrap(OwnPlanner(source(seed)), &workspace(2, 2)).unwrap());
    let (first, other) = (own(5), own(6));
    let samples = |epoch: &[Seen]| epoch.iter().flat_map(|batch| batch.samples.clone()).collect::<Vec<_>>();
    assert_ne!(samples(&first[0]), samples(&first[1]), "another epoch has other replacements");
    assert_ne!(samples(&first[0]), samples(&other[0]), "so has another seed");
    assert_eq!(first, two_epochs(wrap(shield(OwnPlanner(source(5))), &workspace(1, 0)).unwrap()));
    assert_eq!(first, two_epochs(wrap(source(5), &workspace(1, 1)).unwrap()), "the same key as a planner of ours");
}

#[test]
fn an_error_after_a_resume_says_how_many_bad_records_came_before() {
    let bad: Vec<u64> = (0..30).collect();
    let source = || {
        ReaderSource::new(Flaky::new(100, &bad, Trouble::FailInDecode))
            .batch_size(10)
            .bad_records(BadRecords::Skip(BadLimits::count(25)))
    };
    let mut first = AsyncDataSetIterator::new(source(), &workspace(2, 1)).unwrap();
    first.by_ref().take(2).for_each(|batch| assert!(batch.unwrap().is_empty()));
    let mut second = AsyncShieldDataSetIterator::new(source(), &workspace(1, 0)).unwrap();
    second.seek(&first.state()).unwrap();
    let message = second.next().unwrap().unwrap_err().to_string();
    for part in ["30 bad records", "allows 25", "record 20 is bad", "record 29 is bad", "and 20 before the state"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert!(!message.contains("..."), "{message}");
    let whole = first.next().unwrap().unwrap_err().to_string();
    assert!(whole.contains("record 0 is bad") && whole.contains("...") && !whole.contains("before"), "{whole}");
}
