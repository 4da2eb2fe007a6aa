//! No allocation per batch after warm-up. A test binary of its own, because it counts what the whole process allocates.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{MAPPED, Waves};
use ringfeed::arrays::{
    ArraySetOptions, IdxOptions, IdxReader, NpyOptions, NpyReader, RawOptions, RawReader, StoredType,
};
use ringfeed::audio::{AudioCrop, AudioFiles, AudioOptions};
use ringfeed::csv::{CsvOptions, CsvReader, CsvStream};
use ringfeed::error::Location;
use ringfeed::field::{self, Field};
use ringfeed::formats::Safetensors;
use ringfeed::memory::MemoryBudget;
use ringfeed::prepare::{DatePart, Median, Recipe, category, date, hash, number};
use ringfeed::read::{
    FieldReader, JsonLines, LibsvmOptions, LineOptions, MemoryReader, RecordReader, RowMut, Sample, Scratch,
    SparseLines, TfRecordOptions, TfRecords, Value, Windows,
};
use ringfeed::sequences::{CsvSequenceReader, SequenceOptions};
use ringfeed::settings::SourceConfig;
use ringfeed::source::{ReaderSource, StreamSource, Transformed};
use ringfeed::stats::Trace;
use ringfeed::storage::{Access, Files};
use ringfeed::tar::{TarOptions, TarReader};
use ringfeed::tensor::{Extents, Role, TensorSpec};
use ringfeed::tokens::{TokenCut, TokenOptions, TokenPacking, TokenReader};
use ringfeed::transform::Transforms;
use ringfeed::workspace::{Overflow, shield, wrap};
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSetIterator, ErrorKind, Loader, Result, Workspace,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static TURN: Mutex<()> = Mutex::new(());

/// One test at a time: what another one prepares would be counted, too. Every test begins with it.
fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    common::watchdog::watch();
    turn
}

// SAFETY: every call is passed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same as `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same as `System`'s.
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same as `System`'s.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Whether the iterator comes to run three epochs without one allocation. Buffers that still grow (a job of more rows
/// than any before on its worker) are warm-up; what allocates for every batch never stops.
fn comes_to_rest(iterator: &mut dyn DataSetIterator) -> bool {
    let mut epoch = || {
        let batches = (&mut *iterator).map(|batch| batch.unwrap().len()).filter(|samples| *samples > 0).count();
        assert!(batches >= 100);
        iterator.reset().unwrap();
    };
    (0..4).for_each(|_| epoch());
    (0..10).any(|_| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..3).for_each(|_| epoch());
        ALLOCATIONS.load(Ordering::Relaxed) == before
    })
}

fn assert_none(name: &str, source: impl Fn() -> ReaderSource) {
    let workspace = || Workspace::builder().workers(2).build().unwrap();
    let mut ahead = AsyncDataSetIterator::new(source(), &workspace()).unwrap();
    assert!(comes_to_rest(&mut ahead), "{name}, asynchronous");
    drop(ahead);
    let mut shielded = AsyncShieldDataSetIterator::new(source(), &workspace()).unwrap();
    assert!(comes_to_rest(&mut shielded), "{name}, shielded");
}

#[test]
fn memory_sources_allocate_nothing_per_batch() {
    let _turn = turn();
    let values: std::sync::Arc<[u8]> = (0..100_000u32).map(|i| i as u8).collect();
    assert_none("memory", || {
        let reader = MemoryReader::new("x", Role::Feature, &[10], values.clone()).unwrap();
        ReaderSource::new(reader.dtype(DType::F32).unwrap()).batch_size(64).shuffle(1)
    });
}

#[test]
fn a_trace_allocates_nothing_per_batch() {
    let _turn = turn();
    let values: std::sync::Arc<[u8]> = (0..100_000u32).map(|i| i as u8).collect();
    let source = || ReaderSource::new(MemoryReader::new("x", Role::Feature, &[10], values.clone()).unwrap());
    // Of fewer events than there are, so that old ones go.
    let workspace = || Workspace::builder().workers(2).trace(Trace::with_events(100)).build().unwrap();
    let mut ahead = AsyncDataSetIterator::new(source().batch_size(64), &workspace()).unwrap();
    assert!(comes_to_rest(&mut ahead));
    drop(ahead);
    let mut shielded = AsyncShieldDataSetIterator::new(source().batch_size(64), &workspace()).unwrap();
    assert!(comes_to_rest(&mut shielded));
}

#[test]
fn idx_files_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.idx");
    let mut file = vec![0, 0, 0x0b, 2, 0, 0, 0x27, 0x10, 0, 0, 0, 20];
    file.extend((0..200_000u32).flat_map(|i| (i as i16).to_be_bytes()));
    std::fs::write(&path, file).unwrap();
    for shuffled in [false, true] {
        assert_none("idx", || {
            let reader = IdxReader::open_as(&path, "x", field::Numbers::f32(), &IdxOptions::default());
            let source = ReaderSource::new(reader.unwrap()).batch_size(64);
            if shuffled { source.shuffle(1) } else { source }
        });
    }
}

#[test]
fn raw_and_npy_files_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let (raw, npy) = (folder.path().join("records.bin"), folder.path().join("records.npy"));
    let data: Vec<u8> = (0..200_000u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    std::fs::write(&raw, &data).unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (10000, 20)}";
    let start = [b"\x93NUMPY\x01\0".as_slice(), &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(&npy, [start, data].concat()).unwrap();
    for access in [Access::Read, MAPPED] {
        for tensor in [Into::<Field>::into(field::Array::new()), field::Numbers::f64().into()] {
            assert_none("raw", || {
                let options = RawOptions { access, ..RawOptions::features(StoredType::F32, &[20]) };
                let reader = RawReader::open_as(&raw, "x", tensor.clone(), &options);
                ReaderSource::new(reader.unwrap()).batch_size(64).shuffle(1)
            });
            assert_none("npy", || {
                let reader = NpyReader::open_as(&npy, "x", tensor.clone(), &NpyOptions { access });
                ReaderSource::new(reader.unwrap()).batch_size(64).shuffle(1)
            });
        }
    }
}

#[test]
fn windows_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("series.csv");
    let rows: String = (0..4000).map(|n| format!("{n},{}.5\n", n % 7)).collect();
    std::fs::write(&path, "n,x\n".to_owned() + &rows).unwrap();
    let loader = || {
        let loader = Loader::open(&path).unwrap().field("before", field::Numbers::f32().from(["n", "x"]));
        let loader = loader.field("after", field::Numbers::i64().from("n").role(Role::Label));
        loader.windows(Windows::new(5, 2)).batch_size(16).workers(2)
    };
    for shuffled in [false, true] {
        let loader = || if shuffled { loader().shuffle(3) } else { loader() };
        assert!(comes_to_rest(&mut *loader().build().unwrap()), "ahead, shuffled: {shuffled}");
        assert!(comes_to_rest(&mut *loader().shield().build().unwrap()), "shielded, shuffled: {shuffled}");
    }
}

#[test]
fn tokens_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.bin");
    std::fs::write(&path, (0..160_000u32).flat_map(|i| (i as u16 % 50).to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let documents = |packing| TokenCut::Documents { end: 49, packing };
    let cuts = [
        TokenCut::Random,
        TokenCut::Contiguous { stride: None },
        documents(TokenPacking::Whole),
        documents(TokenPacking::BestFit),
        documents(TokenPacking::Filled),
    ];
    for access in [Access::Read, MAPPED] {
        for cut in &cuts {
            assert_none(&format!("tokens {access:?} {cut:?}"), || {
                let options = TokenOptions { window: 80, cut: cut.clone(), access, ..TokenOptions::default() };
                let reader = TokenReader::open(&path, &options).unwrap();
                let samples = options.samples_per_epoch(reader.len()).unwrap_or(reader.len());
                ReaderSource::new(reader).batch_size(16).shuffle(1).samples_per_epoch(samples)
            });
        }
    }
}

#[test]
fn csv_files_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let rows: String =
        (0..10_000).map(|i| format!("{}.5,{},\"{}\",{}\n", i % 977, i * 7, i % 1000, ["no", "yes"][i % 2])).collect();
    std::fs::write(&path, format!("a,b,c,class\n{rows}")).unwrap();
    for (shuffled, access) in [(false, Access::Read), (true, Access::Read), (true, MAPPED)] {
        assert_none("csv", || {
            let reader = CsvReader::open(&path, &CsvOptions { access, ..CsvOptions::default() }).unwrap();
            assert_eq!(reader.tensors().len(), 2);
            let source = ReaderSource::new(reader).batch_size(64);
            if shuffled { source.shuffle(1) } else { source }
        });
    }
    let rows: String =
        (0..10_000).map(|i| format!("{}.25,\"a \"\"{i}\"\"\",{}\n", i % 977, ["no", "yes"][i % 2])).collect();
    std::fs::write(&path, format!("a,text,class\n{rows}")).unwrap();
    let fields: [(String, Field); 3] = [
        ("x".into(), field::Numbers::f32().from(["a"])),
        ("text".into(), field::Text::new(16).into()),
        ("code".into(), field::Category::new().from("class").role(Role::Label)),
    ];
    assert_none("text and categories", || {
        let reader = CsvReader::with_fields(&path, &fields, &CsvOptions::default()).unwrap();
        ReaderSource::new(reader).batch_size(64).shuffle(1)
    });
}

#[test]
fn tar_archives_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.tar");
    let mut builder = tar::Builder::new(std::fs::File::create(&path).unwrap());
    for n in 0..10_000 {
        let json = format!("{{\"other\": [1, \"two\"], \"size\": {n}}}");
        for (extension, text) in [("txt", n.to_string()), ("json", json), ("cls", (n % 7).to_string())] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            builder.append_data(&mut header, format!("{n}.{extension}"), text.as_bytes()).unwrap();
        }
    }
    builder.into_inner().unwrap();
    let fields: [(String, Field); 3] = [
        ("txt".into(), field::Text::new(16).into()),
        ("size".into(), field::Numbers::f32().from("json:/size")),
        ("label".into(), field::Class.from("cls")),
    ];
    for access in [Access::Read, MAPPED] {
        assert_none("tar", || {
            let reader = TarReader::with_fields(&path, &fields, &TarOptions { access, ..TarOptions::default() });
            ReaderSource::new(reader.unwrap()).batch_size(64).shuffle(1)
        });
    }
}

#[test]
fn sounds_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    for n in 0..300u32 {
        let samples: Vec<u8> = (0..2000 + n).flat_map(|i| (i as i16).to_le_bytes()).collect();
        let len = samples.len() as u32;
        let format = [16, 0, 0, 0, 1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0];
        let (riff, data) = ((len + 36).to_le_bytes(), len.to_le_bytes());
        let wav = [b"RIFF", riff.as_slice(), b"WAVEfmt ", &format, b"data", &data, &samples].concat();
        std::fs::write(folder.path().join(format!("{n:03}.wav")), wav).unwrap();
    }
    for rate in [8000, 11_025] {
        assert_none("sounds", || {
            let (rate, length, crop) = (Some(rate), Some(1000), Some(AudioCrop::Random));
            let sound = AudioOptions { rate, length, crop, ..AudioOptions::default() };
            let budget = MemoryBudget::unlimited();
            let reader = AudioFiles::open(&Files::local(), folder.path(), &sound, &budget);
            ReaderSource::new(reader.unwrap()).batch_size(3).shuffle(1)
        });
    }
}

#[cfg(feature = "audio")]
#[test]
fn spectrograms_allocate_nothing_per_batch() {
    let _turn = turn();
    let workspace = || Workspace::builder().workers(2).build().unwrap();
    let source = || {
        let sounds = MemoryReader::new("audio", Role::Feature, &[500], vec![0.25f32; 500 * 200]).unwrap();
        let list = Transforms::new().with(ringfeed::transform::log_mel("audio", 8000));
        Transformed::new(ReaderSource::new(sounds).batch_size(2).shuffle(1), list)
    };
    let mut ahead = AsyncDataSetIterator::new(source(), &workspace()).unwrap();
    assert!(comes_to_rest(&mut ahead), "asynchronous");
    drop(ahead);
    let mut shielded = AsyncShieldDataSetIterator::new(source(), &workspace()).unwrap();
    assert!(comes_to_rest(&mut shielded), "shielded");
}

#[test]
fn json_lines_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.jsonl");
    let line = |n: usize| {
        let list: Vec<usize> = (0..n % 5).collect();
        format!(
            "{{\"skipped\": [[1, [2]], {{\"a\": \"\\n\"}}], \"x\": [{n}, -2.5e1], \"\\u0074ext\": \"caf\\u00e9 {n}\", \
             \"tokens\": {list:?}, \"deep\": {{\"kind\": \"{}\"}}}}\n",
            ["no", "yes"][n % 2]
        )
    };
    std::fs::write(&path, (0..10_000).map(line).collect::<String>()).unwrap();
    let fields: [(String, Field); 4] = [
        ("x".into(), field::Numbers::f32().into()),
        ("text".into(), field::Text::new(16).into()),
        ("tokens".into(), field::Tokens::new(4).into()),
        ("kind".into(), field::Class.from("/deep/kind")),
    ];
    for access in [Access::Read, MAPPED] {
        assert_none("json lines", || {
            let (options, budget) = (LineOptions { access, ..LineOptions::default() }, MemoryBudget::unlimited());
            let lines = JsonLines::open(&Files::local(), &path, &options, &budget).unwrap();
            ReaderSource::new(FieldReader::new(lines, &fields, &budget).unwrap()).batch_size(64).shuffle(1)
        });
    }
}

#[test]
fn prepared_tables_allocate_nothing_per_batch_nor_per_served_record() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let (csv, jsonl) = (folder.path().join("table.csv"), folder.path().join("table.jsonl"));
    let (mut lines, mut records) = ("age,city,day,agent\n".to_owned(), String::new());
    for i in 0..2000 {
        let (age, city, day) = (i % 83, ["Oslo", "Bergen", "\\u00e5 \\\"b\\\""][i % 3], i % 28 + 1);
        lines += &format!("{age}.5,\"a, {}\",2024-05-{day:02},{i}\n", i % 3);
        records += &format!(
            "{{\"age\": {age}.5, \"city\": \"{city}\", \"day\": \"2024-05-{day:02}T10:00:00.5\", \"agent\": {i}}}\n"
        );
    }
    std::fs::write(&csv, &lines).unwrap();
    std::fs::write(&jsonl, &records).unwrap();
    let recipe = Recipe::new()
        .column("age", number().impute(Median).mask().standardise())
        .column("city", category().one_hot().unknown())
        .column("day", date().cyclic(DatePart::Weekday).part(DatePart::Epoch).robust())
        .column("agent", hash(16));
    for path in [&csv, &jsonl] {
        let table = Loader::open(path).unwrap();
        let prepared = recipe.fit(&table).unwrap();
        let loader = table.prepare(&prepared).batch_size(16).shuffle(3);
        for loader in [loader.clone().shield(), loader.workers(2)] {
            assert!(comes_to_rest(&mut *loader.build().unwrap()), "{}", path.display());
        }
        let mut row = prepared.row();
        let windowed = recipe.clone().windows(Windows::new(5, 1)).fit(&Loader::open(path).unwrap()).unwrap();
        let mut window = windowed.window().unwrap();
        let mut serve = || {
            for (line, record) in lines.lines().skip(1).zip(records.lines()) {
                prepared.apply_json(record, &mut row).unwrap();
                prepared.apply_csv("age,city,day,agent", line, &mut row).unwrap();
                prepared.apply([("age", Value::Missing), ("day", Value::Text("2024-05-01"))], &mut row).unwrap();
                window.push_json(record).unwrap();
                window.push_csv("age,city,day,agent", line).unwrap();
                if window.push([("age", Value::Missing), ("day", Value::Text("2024-05-01"))]).unwrap() {
                    assert_eq!(window.f32("features").unwrap().len(), 5 * row.f32("features").unwrap().len());
                }
            }
        };
        // Threads of the loader before may still be on their way out.
        let is_at_rest = (0..10).any(|_| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            serve();
            ALLOCATIONS.load(Ordering::Relaxed) == before
        });
        assert!(is_at_rest, "{}", path.display());
    }
}

#[test]
fn examples_of_tfrecord_files_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.tfrecord");
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let part = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let record = |n: usize| {
        let numbers = |count: usize| part(1, &(0..count).map(|at| (at + n) as u8 % 100).collect::<Vec<_>>());
        let floats: Vec<u8> = [n as f32, -2.5].iter().flat_map(|number| number.to_le_bytes()).collect();
        let features = [
            (&b"ids"[..], part(3, &numbers(n % 5))),
            (b"x", part(2, &part(1, &floats))),
            (b"kind", part(1, &part(1, [&b"no"[..], b"yes"][n % 2]))),
            (b"unread", part(3, &numbers(3))),
        ];
        let entries = features.map(|(key, feature)| part(1, &[part(1, key), part(2, &feature)].concat())).concat();
        let steps = part(1, &[part(1, b"steps"), part(2, &part(1, &part(3, &numbers(2))))].concat());
        let record = [part(1, &entries), part(2, &steps)].concat();
        let len = (record.len() as u64).to_le_bytes();
        [&len[..], &masked(&len), &record, &masked(&record)].concat()
    };
    std::fs::write(&path, (0..10_000).flat_map(record).collect::<Vec<u8>>()).unwrap();
    let fields: [(String, Field); 4] = [
        ("x".into(), field::Numbers::f32().into()),
        ("ids".into(), field::Tokens::new(4).into()),
        ("kind".into(), field::Class.into()),
        ("steps".into(), field::Tokens::new(2).into()),
    ];
    for access in [Access::Read, MAPPED] {
        assert_none("examples", || {
            let (options, budget) =
                (TfRecordOptions { access, ..TfRecordOptions::default() }, MemoryBudget::unlimited());
            let records = TfRecords::open(&Files::local(), &path, &options, &budget).unwrap();
            ReaderSource::new(FieldReader::new(records, &fields, &budget).unwrap()).batch_size(64).shuffle(1)
        });
    }
}

#[test]
fn rows_of_several_arrays_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.safetensors");
    let header = r#"{"x":{"dtype":"F32","shape":[10000,5],"data_offsets":[0,200000]},
        "y":{"dtype":"I64","shape":[10000],"data_offsets":[200000,280000]}}"#;
    let x = (0..50_000u16).flat_map(|n| f32::from(n).to_le_bytes());
    let y = (0..10_000i64).flat_map(|n| (n % 7).to_le_bytes());
    let begin = (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes());
    std::fs::write(&path, begin.chain(x).chain(y).collect::<Vec<u8>>()).unwrap();
    // As they are, and through codecs.
    let labels: [Field; 2] = [field::Numbers::i64().into(), field::Class.into()];
    for label in &labels {
        for access in [Access::Read, MAPPED] {
            assert_none("arrays", || {
                let options = ArraySetOptions { access, ..ArraySetOptions::default() };
                let mut source = SourceConfig::new(Safetensors, &path, options);
                source.fields = vec![("x".into(), field::Numbers::f32().into()), ("y".into(), label.clone())];
                let mut readers = source.open(&Files::local(), &MemoryBudget::unlimited()).unwrap().into_iter();
                let first = ReaderSource::new(readers.next().unwrap()).batch_size(64).shuffle(1);
                readers.fold(first, ReaderSource::and)
            });
        }
    }
}

#[test]
fn sparse_rows_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.svm");
    let row = |n: usize| format!("{} qid:{n} 1:{n} 3:0.5 {}:-1e-3 # {n}\n", n % 3, 4 + n % 90);
    std::fs::write(&path, (0..10_000).map(row).collect::<String>()).unwrap();
    let dense: [(String, Field); 2] =
        [("features".into(), field::Numbers::f32().into()), ("label".into(), field::Class.into())];
    let sparse: [(String, Field); 2] =
        [("indices".into(), field::Tokens::new(4).into()), ("values".into(), field::Numbers::f32().max_len(4).into())];
    let ragged: [(String, Field); 2] = [
        ("indices".into(), field::Numbers::i64().ragged().into()),
        ("values".into(), field::Numbers::f32().ragged().into()),
    ];
    for (fields, features) in [(dense, Some(100)), (sparse, None), (ragged, None)] {
        for access in [Access::Read, MAPPED] {
            assert_none("sparse rows", || {
                let options = LibsvmOptions { features, access, ..LibsvmOptions::default() };
                let budget = MemoryBudget::unlimited();
                let rows = SparseLines::open(&Files::local(), &path, &options, &budget).unwrap();
                ReaderSource::new(FieldReader::new(rows, &fields, &budget).unwrap()).batch_size(64).shuffle(1)
            });
        }
    }
}

#[test]
fn streamed_csv_files_allocate_nothing_per_batch() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let rows: String = (0..200_000).map(|i| format!("{}.5,{}\n", i % 977, 100_000 + i)).collect();
    std::fs::write(&path, format!("a,b\n{rows}")).unwrap();
    let (stream, decoder) = CsvStream::open(&path, &CsvOptions::default()).unwrap();
    let source = StreamSource::new(stream, decoder).batch_size(64);
    let workspace = Workspace::builder().workers(2).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(source, &workspace).unwrap();
    // One epoch: beginning another opens the file again.
    let at_rest = (0..10).any(|_| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        assert_eq!(iterator.by_ref().take(300).map(|batch| batch.unwrap().len()).sum::<usize>(), 300 * 64);
        ALLOCATIONS.load(Ordering::Relaxed) == before
    });
    assert!(at_rest);
}

/// Waves of which the first is far longer than all others, when it is measured for the first time.
struct Outlier(Waves, AtomicBool);

impl RecordReader for Outlier {
    fn len(&self) -> u64 {
        self.0.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.0.tensors()
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        match sample == 640 && !self.1.swap(true, Ordering::SeqCst) {
            true => Ok(Extents::of_length(100_000)),
            false => self.0.measure(sample, scratch),
        }
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.0.decode(sample, nth, scratch, row)
    }

    fn place(&self, sample: u64) -> Location {
        self.0.place(sample)
    }
}

#[test]
fn batches_after_one_beyond_the_budget_allocate_nothing() {
    let _turn = turn();
    for shielded in [false, true] {
        let builder = Workspace::builder().workers(2).budget(MemoryBudget::new(4 << 20)).overflow(Overflow::Spill);
        let workspace = builder.build().unwrap();
        let source = ReaderSource::new(Outlier(Waves::new(10_000, 30), AtomicBool::new(false))).batch_size(64);
        let mut iterator = if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }.unwrap();
        assert!(comes_to_rest(&mut *iterator), "shielded: {shielded}");
        assert!(workspace.ring().spilled > 0, "{:?}", workspace.ring());
    }
}

#[test]
fn sequences_of_varying_length_allocate_nothing_per_batch_once_slots_have_grown() {
    let _turn = turn();
    let workspace = Workspace::builder().workers(2).build().unwrap();
    let source = ReaderSource::new(Waves::new(10_000, 30)).batch_size(64);
    let mut iterator = AsyncDataSetIterator::new(source, &workspace).unwrap();
    assert!(comes_to_rest(&mut iterator));
}

#[test]
fn opening_a_wide_table_allocates_a_few_times_for_each_column_and_hardly_where_there_are_too_many() {
    let _turn = turn();
    const COLUMNS: usize = 100_000;
    let names: Vec<String> = (0..COLUMNS).map(|column| format!("c{column}")).collect();
    let text = format!("{}\n{1}\n{1}\n", names.join(","), vec!["7"; COLUMNS].join(","));
    let folder = tempfile::tempdir().unwrap();
    let wide = folder.path().join("b.csv");
    std::fs::write(&wide, &text).unwrap();
    std::fs::write(folder.path().join("a.csv"), "c0,c1\n1,2\n").unwrap();
    let allocations = |work: &dyn Fn()| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        work();
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    let open = |options: &CsvOptions| CsvReader::open(&wide, options);
    let opened = allocations(&|| assert_eq!(open(&CsvOptions::default()).unwrap().columns().len(), COLUMNS));
    assert!(opened < 4 * COLUMNS as u64, "{opened}");
    let refused = allocations(&|| {
        let options = CsvOptions { max_columns: COLUMNS - 1, threads: Some(1), ..CsvOptions::default() };
        assert_eq!(open(&options).err().unwrap().kind(), ErrorKind::Limit);
    });
    assert!(refused < 1000, "{refused}");
    let unlike = allocations(&|| {
        let error = CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).err().unwrap();
        assert_eq!((error.kind(), error.location().path.as_deref()), (ErrorKind::Data, Some(wide.as_path())));
        assert!(error.message().contains("expected the 2 columns of the first file, found 100000"), "{error}");
    });
    assert!(unlike < 1000, "{unlike}");
}

#[cfg(feature = "images")]
#[test]
fn operations_on_images_that_are_tensors_allocate_nothing_per_batch() {
    use ringfeed::images::{AugmentRecipe, horizontal_flip, random_crop, random_erasing};
    let _turn = turn();
    let workspace = || Workspace::builder().workers(2).build().unwrap();
    let source = |operations: Vec<_>| {
        let image = MemoryReader::new("image", Role::Feature, &[3, 16, 16], vec![9u8; 768 * 200]).unwrap();
        let map = MemoryReader::new("map", Role::Label, &[16, 16], vec![1u8; 256 * 200]).unwrap();
        let maps = vec!["map".to_owned()];
        let augment = ringfeed::transform::Operation::Augment { tensor: "image".into(), operations, maps, order: None };
        Transformed::new(ReaderSource::new(image).and(map).batch_size(2).shuffle(1), Transforms::new().with(augment))
    };
    let moved = || vec![horizontal_flip(), random_crop(2), random_erasing()];
    let mut ahead = AsyncDataSetIterator::new(source(moved()), &workspace()).unwrap();
    assert!(comes_to_rest(&mut ahead), "asynchronous");
    drop(ahead);
    let mut shielded = AsyncShieldDataSetIterator::new(source(moved()), &workspace()).unwrap();
    assert!(comes_to_rest(&mut shielded), "shielded");
    // The crop before these is resized by a library, which allocates its factors.
    let changed = AugmentRecipe::Simclr.operations().split_off(1);
    let mut changed = AsyncDataSetIterator::new(source(changed), &workspace()).unwrap();
    assert!(comes_to_rest(&mut changed), "changed colours");
}

#[test]
fn transforms_allocate_nothing_per_batch() {
    let _turn = turn();
    let list = || {
        Transforms::new()
            .map(TensorSpec::f32("sums", [3]), |row, out, scope| {
                let wave = row.f32("wave")?;
                let sums = scope.zeros::<f64>([wave.len()]);
                sums.iter_mut().zip(wave).for_each(|(sum, x)| *sum = f64::from(*x));
                let inner = scope.enter();
                let kept = inner.copy(sums);
                out.f32()?
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, out)| *out = kept[i..].iter().step_by(3).sum::<f64>() as f32);
                Ok(())
            })
            .remove("wave")
            .remove("mask")
            .map_batch(|batch, scope| {
                let ids = scope.copy(batch.tensor("id")?.as_slice::<i64>()?);
                ids.sort_unstable();
                batch.get_mut::<f32>("sums")?[0] = ids[0] as f32;
                Ok(())
            })
    };
    let workspace = || Workspace::builder().workers(2).build().unwrap();
    let source = || Transformed::new(ReaderSource::new(Waves::new(2000, 100)).batch_size(16).shuffle(1), list());
    let mut ahead = AsyncDataSetIterator::new(source(), &workspace()).unwrap();
    assert!(comes_to_rest(&mut ahead), "asynchronous");
    drop(ahead);
    let mut shielded = AsyncShieldDataSetIterator::new(source(), &workspace()).unwrap();
    assert!(comes_to_rest(&mut shielded), "shielded");
}

#[test]
fn an_evaluation_in_a_scope_allocates_nothing() {
    let _turn = turn();
    let workspace = Workspace::builder().workers(2).build().unwrap();
    let mut test =
        AsyncDataSetIterator::new(ReaderSource::new(Waves::new(2000, 100)).batch_size(16), &workspace).unwrap();
    let mut scope = workspace.enter();
    let (mut right, mut confusion) = (0, [[0u64; 3]; 3]);
    let mut epoch = || {
        for batch in test.epoch().unwrap() {
            let batch = batch.unwrap();
            let scores = scope.zeros::<f32>([batch.len(), 3]);
            let labels = scope.zeros::<usize>([batch.len()]);
            let wave = batch.tensor("wave").unwrap();
            let rows = wave.as_slice::<f32>().unwrap().chunks(wave.shape()[1] * 3);
            for (row, scores) in rows.zip(scores.chunks_mut(3)) {
                scores
                    .iter_mut()
                    .enumerate()
                    .for_each(|(class, score)| *score = row.iter().skip(class).step_by(3).sum());
            }
            labels.iter_mut().zip(batch.sample_ids()).for_each(|(label, id)| *label = (*id % 3) as usize);
            for (scores, label) in scores.chunks(3).zip(labels) {
                let guess = (0..3).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
                right += u64::from(guess == *label);
                confusion[*label][guess] += 1;
            }
            scope.next();
        }
    };
    (0..4).for_each(|_| epoch());
    let rests = (0..10).any(|_| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..3).for_each(|_| epoch());
        ALLOCATIONS.load(Ordering::Relaxed) == before
    });
    assert!(rests);
    assert_eq!(confusion.iter().map(|row| row.iter().sum::<u64>()).sum::<u64>() % 2000, 0);
    assert_eq!(right, (0..3).map(|class| confusion[class][class]).sum::<u64>());
    assert!((1..10).contains(&workspace.scopes().stats().spilled));
}
