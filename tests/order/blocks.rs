//! Shuffling in blocks of chunks: each sample once, chunks left for good, and what is decoded together is decoded once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{Seen, see_all, workspace};
use proptest::prelude::*;
use ringfeed::order::{Remainder, Shard, Subset};
use ringfeed::read::{Concat, MemoryReader};
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DataSetIterator, ErrorKind, Loader, LoaderConfig};

/// Files of these many records, whose values count through all of them.
fn files(lens: &[usize]) -> Concat {
    let mut next = 0;
    let mut file = |len: usize| {
        let values: Vec<i64> = (next..next + len as i64).collect();
        next += len as i64;
        MemoryReader::new("x", Role::Feature, &[], values).unwrap()
    };
    let first = Concat::new(file(lens[0]));
    lens[1..].iter().fold(first, |all, len| all.and(file(*len)).unwrap())
}

fn source(lens: &[usize], blocks: u64, seed: u64) -> ReaderSource {
    ReaderSource::new(files(lens)).batch_size(5).shuffle(seed).shuffle_blocks(blocks)
}

fn samples(batches: &[Seen]) -> Vec<u64> {
    batches.iter().flat_map(|batch| batch.samples.iter().copied()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_comes_once_whoever_makes_the_batches_on_any_shards_and_after_any_restart(
        lens in prop::collection::vec(0usize..40, 1..8), blocks in 1u64..5, seed in any::<u64>(), shards in 1u32..4,
        workers in 1usize..4, prefetch in 0usize..4, stop in 0usize..9,
    ) {
        let len: usize = lens.iter().sum();
        let mut shielded = AsyncShieldDataSetIterator::new(source(&lens, blocks, seed), &workspace(1, 0)).unwrap();
        let mut other = AsyncDataSetIterator::new(source(&lens, blocks, seed), &workspace(workers, prefetch)).unwrap();
        for epoch in 0..2 {
            let batches = see_all(&mut shielded);
            prop_assert_eq!(&see_all(&mut other), &batches);
            let order = samples(&batches);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..len as u64).collect::<Vec<_>>());
            if epoch == 0 {
                let mut dealt = Vec::new();
                for index in 0..shards {
                    let source = source(&lens, blocks, seed).shard(Shard::new(index, shards).unwrap()).remainder(Remainder::Pad);
                    let batches = see_all(&mut AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap());
                    dealt.extend(batches.into_iter().flat_map(|batch| batch.positions.into_iter().zip(batch.samples)));
                }
                dealt.sort_unstable();
                prop_assert_eq!(dealt.into_iter().take(len).map(|(_, id)| id).collect::<Vec<_>>(), order);
                let mut stopped = AsyncDataSetIterator::new(source(&lens, blocks, seed), &workspace(1, 1)).unwrap();
                let stop = stop.min(batches.len());
                stopped.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
                let state = stopped.state();
                let mut again = AsyncDataSetIterator::new(source(&lens, blocks, seed), &workspace(1, 1)).unwrap();
                again.seek(&state).unwrap();
                prop_assert_eq!(&see_all(&mut again), &batches[stop..]);
            }
            shielded.reset().unwrap();
            other.reset().unwrap();
        }
    }
}

#[test]
fn files_are_chunks_and_blocks_of_another_size_are_another_order() {
    let lens = [30, 20, 25, 40];
    let order =
        |blocks| samples(&see_all(&mut AsyncDataSetIterator::new(source(&lens, blocks, 3), &workspace(2, 1)).unwrap()));
    let bounds = [30, 50, 75, 115];
    let file = |id: &u64| bounds.iter().position(|end| id < end).unwrap();
    let mut files: Vec<usize> = order(1).iter().map(file).collect();
    files.dedup();
    assert_eq!(files.len(), 4, "one file after another");
    assert!(order(1) != order(2) && !order(1)[..30].is_sorted());
    // A state of another kind of shuffle is refused.
    let state = |source: ReaderSource| {
        let mut batches = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
        batches.next().unwrap().unwrap();
        batches.state()
    };
    let blocks = state(source(&lens, 2, 3));
    for other in [source(&lens, 1, 3), source(&[30, 20, 65], 2, 3), ReaderSource::new(self::files(&lens)).shuffle(3)] {
        let error = AsyncDataSetIterator::new(other, &workspace(1, 1)).unwrap().seek(&blocks).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }
    // Of a subset, each chunk holds what there is of it.
    let half = source(&lens, 1, 3).subset(Subset::all(115).filter(|id| id % 2 == 0));
    let half = samples(&see_all(&mut AsyncDataSetIterator::new(half, &workspace(1, 1)).unwrap()));
    let mut files: Vec<usize> = half.iter().map(file).collect();
    files.dedup();
    assert_eq!((half.len(), files.len()), (58, 4));
}

#[test]
fn settings_say_it_in_one_table_and_what_makes_no_sense_is_refused() {
    let read = |text: &str| {
        let source = r#""sources": [{"format": "csv", "path": "fixtures/iris.csv"}]"#;
        LoaderConfig::from_json(&format!("{{{source}, {text}}}")).unwrap()
    };
    let config = read(r#""shuffle": {"seed": 4, "blocks": 2}"#);
    assert_eq!((config.shuffle, config.shuffle_blocks), (Some(4), Some(2)));
    let plan = Loader::from(config.clone()).plan().unwrap();
    assert_eq!((plan.seed, plan.shuffle_blocks, plan.samples), (Some(4), Some(2), Some(150)));
    assert_eq!(Loader::csv("fixtures/iris.csv").shuffle(4).shuffle_blocks(2).config(), &config);
    let all = samples(&see_all(&mut *Loader::from(config).build().unwrap()));
    assert_eq!(all.len(), 150);
    for text in [r#""shuffle_blocks": 2"#, r#""shuffle": {"seed": 1, "blocks": 0}"#, r#""shuffle": {"blocks": 2}"#] {
        assert_eq!(read(text).faults().len(), 1, "{text}");
    }
    let balanced = read(r#""shuffle": {"seed": 1, "blocks": 2}, "class_balanced": true"#);
    assert_eq!(balanced.faults().len(), 1);
}

#[cfg(feature = "parquet")]
mod parquet {
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use ringfeed::Result;
    use ringfeed::columns::{ChunkStats, Columns, ColumnsOptions};
    use ringfeed::csv::ColumnRef;
    use ringfeed::error::Location;
    use ringfeed::field::{Field, Numbers, Text};
    use ringfeed::memory::MemoryBudget;
    use ringfeed::read::{Container, FieldInfo, FieldReader, Scratch, Visit, VisitColumn};
    use ringfeed::storage::Files;

    use super::*;

    /// Columns whose statistics somebody else sees, too.
    struct Watched(Columns, Arc<Mutex<ChunkStats>>);

    impl Container for Watched {
        fn len(&self) -> u64 {
            self.0.len()
        }

        fn fields(&self) -> &[FieldInfo] {
            self.0.fields()
        }

        fn find(&mut self, field: &ColumnRef) -> Result<usize> {
            self.0.find(field)
        }

        fn forget(&mut self) {
            self.0.forget();
        }

        fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
            let fetched = self.0.fetch(records, nth, scratch);
            let stats = self.0.chunk_stats();
            let mut seen = self.1.lock().unwrap();
            if stats.decoded >= seen.decoded {
                *seen = stats;
            }
            fetched
        }

        fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
            self.0.read(record, nth, scratch, visit)
        }

        fn columns(&self, scratch: &mut Scratch, visit: &mut VisitColumn<'_>) {
            self.0.columns(scratch, visit);
        }

        fn chunks(&self) -> Vec<u64> {
            Container::chunks(&self.0)
        }

        fn place(&self, record: u64) -> Location {
            self.0.place(record)
        }
    }

    /// How many chunks there are, and how often one was decoded in an epoch.
    fn decoded(blocks: Option<u64>) -> (usize, u64) {
        let paths: Vec<PathBuf> = vec!["fixtures/parquet/many.parquet".into(); 6];
        // Room for some row groups of 100 records, of which there are dozens.
        let options = ColumnsOptions { cache_bytes: 8 * 900, ..ColumnsOptions::default() };
        let budget = MemoryBudget::unlimited();
        let columns = Columns::open_parquet(&Files::local(), &paths, &options, &budget).unwrap();
        let stats = Arc::new(Mutex::new(ChunkStats::default()));
        let fields = [("x".to_owned(), Numbers::f64().into())];
        let reader = FieldReader::new(Watched(columns, stats.clone()), &fields, &budget).unwrap();
        let chunks = ringfeed::read::RecordReader::chunks(&reader).len();
        let source = ReaderSource::new(reader).batch_size(20).shuffle(1);
        let source = match blocks {
            Some(blocks) => source.shuffle_blocks(blocks),
            None => source,
        };
        let seen = samples(&see_all(&mut AsyncShieldDataSetIterator::new(source, &workspace(1, 0)).unwrap()));
        assert!(seen.len() >= 100 * (chunks - 6));
        let decoded = stats.lock().unwrap().decoded;
        (chunks, decoded)
    }

    #[test]
    fn row_groups_beyond_the_cache_are_decoded_once_an_epoch() {
        let (chunks, whole) = decoded(None);
        let (_, blocks) = decoded(Some(2));
        println!("{chunks} row groups: decoded {whole} times shuffled as a whole, {blocks} times in blocks of 2");
        assert!(chunks > 20 && whole > 5 * chunks as u64, "{whole} of {chunks}: what is kept is too much to tell");
        assert_eq!(blocks, chunks as u64);
    }

    /// Reads two epochs of a table whose element `j` of record `i` is `8 i + j`. How many columns of row groups were
    /// decoded.
    fn decoded_columns(cache_bytes: u64, workers: usize, blocks: Option<u64>) -> u64 {
        let options = ColumnsOptions { cache_bytes, ..ColumnsOptions::default() };
        let budget = MemoryBudget::unlimited();
        let paths = [PathBuf::from("fixtures/parquet/wide.parquet")];
        let columns = Columns::open_parquet(&Files::local(), &paths, &options, &budget).unwrap();
        let stats = Arc::new(Mutex::new(ChunkStats::default()));
        let fields: [(String, Field); 3] = [
            ("features".to_owned(), Numbers::f32().from(["f0", "f1", "f2", "f3", "f4", "whole"])),
            ("label".to_owned(), Numbers::i64().into()),
            ("name".to_owned(), Text::new(3).into()),
        ];
        let reader = FieldReader::new(Watched(columns, stats.clone()), &fields, &budget).unwrap();
        let source = ReaderSource::new(reader).batch_size(30).shuffle(3);
        let source = match blocks {
            Some(blocks) => source.shuffle_blocks(blocks),
            None => source,
        };
        let mut batches: Box<dyn DataSetIterator> = match workers {
            0 => Box::new(AsyncShieldDataSetIterator::new(source, &workspace(1, 0)).unwrap()),
            workers => Box::new(AsyncDataSetIterator::new(source, &workspace(workers, 3)).unwrap()),
        };
        for _ in 0..2 {
            let mut seen = Vec::new();
            for batch in batches.by_ref() {
                let batch = batch.unwrap();
                let features = batch.f32("features").unwrap();
                let (labels, names) = (batch.i64("label").unwrap(), batch.tensor("name").unwrap().bytes());
                for (row, id) in batch.sample_ids().iter().copied().enumerate() {
                    let expected: Vec<f32> = (0..6).map(|at| (8 * id + at) as f32).collect();
                    assert_eq!(features[6 * row..6 * row + 6], expected, "record {id}");
                    let name = std::str::from_utf8(&names[3 * row..3 * row + 3]).unwrap();
                    assert_eq!((labels[row], name.trim_end_matches('\0')), ((id % 10) as i64, id.to_string().as_str()));
                    seen.push(id);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..500).collect::<Vec<u64>>());
            batches.reset().unwrap();
        }
        stats.lock().unwrap().decoded
    }

    #[test]
    fn row_groups_that_fit_are_decoded_once_in_any_order_by_any_number_of_workers() {
        for blocks in [None, Some(1), Some(3)] {
            for workers in [0, 1, 4] {
                assert_eq!(decoded_columns(16 << 20, workers, blocks), 9 * 8, "blocks {blocks:?}, {workers} workers");
            }
        }
        // Room for some row groups: each is decoded once an epoch, while its block is read, and the last one may still
        // be there.
        let decoded = decoded_columns(16_000, 0, Some(2));
        println!("room for some row groups: {decoded} columns of them decoded in two epochs");
        assert!((9 * 8 + 1..=2 * 9 * 8).contains(&decoded), "{decoded}");
        // With room for none, records are the same.
        assert!(decoded_columns(1, 2, Some(2)) > 2 * 9 * 8);
    }

    #[test]
    fn a_plan_says_what_to_do_where_a_shuffle_draws_from_more_than_is_kept() {
        let config = |cache_bytes: u64| {
            let source = serde_json::json!({
                "format": "parquet",
                "path": "fixtures/parquet/wide.parquet",
                "options": { "cache_bytes": cache_bytes },
                "fields": { "x": { "from": ["f0", "f1"], "numbers": "f32" } },
            });
            LoaderConfig::from_json(&serde_json::json!({ "sources": [source] }).to_string()).unwrap()
        };
        let advice = |loader: Loader| loader.plan().unwrap().advice;
        // 4000 bytes of two columns, 480 of each row group but the last.
        assert_eq!(advice(Loader::from(config(3000))), [""; 0]);
        assert_eq!(advice(Loader::from(config(4000)).shuffle(7)), [""; 0]);
        let said = advice(Loader::from(config(3000)).shuffle(7));
        assert!(
            said.len() == 1 && said[0].contains("about 4000 bytes") && said[0].contains("3000 are kept"),
            "{said:?}"
        );
        assert!(said[0].contains("shuffle = { seed = 7, blocks = 3 }") && said[0].contains("cache_bytes"), "{said:?}");
        assert_eq!(advice(Loader::from(config(3000)).shuffle(7).shuffle_blocks(3)), [""; 0]);
        assert_eq!(advice(Loader::from(config(3000)).shuffle(7).shuffle_blocks(8)).len(), 1);
        // A quarter of the budget is kept at most.
        assert_eq!(advice(Loader::from(config(1 << 20)).shuffle(7).budget(8000)).len(), 1);
    }
}
