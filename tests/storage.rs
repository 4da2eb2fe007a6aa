//! Files of a storage that takes its time: the same bytes as local files, asked for before they are needed.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

#[path = "common/latency.rs"]
mod latency;
#[path = "common/watchdog.rs"]
mod watchdog;

use std::ffi::OsString;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use latency::latency;
use ringfeed::arrays::{RawOptions, StoredType};
use ringfeed::formats::{CsvSequences, Formats, Idx, Libsvm, Npz, Safetensors, TfRecord};
use ringfeed::memory::MemoryBudget;
use ringfeed::order::State;
use ringfeed::sequences::SequenceOptions;
use ringfeed::settings::{BadLimits, BadRecords, SourceConfig};
use ringfeed::storage::{Entry, Files, Storage};
use ringfeed::tokens::{TokenCut, TokenOptions};
use ringfeed::{DType, DataSetIterator, Error, ErrorKind, Loader, LoaderConfig, Result, field};

/// The files below a folder, each read after a while.
struct Slow {
    root: PathBuf,
    latency: Duration,
    /// Reads wait until so many are open, for a second at most; 0 once they were.
    crowd: Mutex<usize>,
    open: Mutex<usize>,
    changed: Condvar,
    /// Reads that touch this byte of a file of this name go wrong.
    broken: Mutex<Option<(String, u64, Trouble)>>,
    /// Somebody read while `true`.
    is_watched: AtomicBool,
    readers: Mutex<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Trouble {
    Error,
    Panic,
    Short,
}

/// What a panic may carry: something that panics again when it drops.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the client is still on fire");
    }
}

impl Slow {
    fn new(root: &Path, latency: Duration) -> Arc<Self> {
        Arc::new(Self {
            root: root.to_owned(),
            latency,
            crowd: Mutex::new(0),
            open: Mutex::new(0),
            changed: Condvar::new(),
            broken: Mutex::new(None),
            is_watched: AtomicBool::new(false),
            readers: Mutex::new(Vec::new()),
        })
    }
}

impl Slow {
    fn wait_for_others(&self) {
        let mut open = self.open.lock().unwrap();
        *open += 1;
        self.changed.notify_all();
        let alone = |open: &mut usize| *open < *self.crowd.lock().unwrap();
        // Seeking waits for reads of before, and requests no others meanwhile: they must not wait for ever.
        let (mut open, _) = self.changed.wait_timeout_while(open, Duration::from_secs(1), alone).unwrap();
        let mut crowd = self.crowd.lock().unwrap();
        if *open >= *crowd {
            *crowd = 0;
        }
        *open -= 1;
    }
}

impl Storage for Slow {
    fn file_len(&self, path: &Path) -> Result<u64> {
        let path = self.root.join(path);
        Ok(std::fs::metadata(&path).map_err(|error| Error::io(&path, error))?.len())
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>> {
        let folder = self.root.join(folder);
        let entries = std::fs::read_dir(&folder).map_err(|error| Error::io(&folder, error))?;
        Ok(entries
            .map(|entry| {
                let entry = entry.unwrap();
                let name: OsString = entry.file_name();
                if entry.path().is_dir() { Entry::Folder(name) } else { Entry::File(name) }
            })
            .collect())
    }

    fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        self.wait_for_others();
        if self.is_watched.load(Ordering::SeqCst) {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            self.readers.lock().unwrap().push(thread);
        }
        latency(self.latency);
        let bytes = std::fs::read(self.root.join(path)).map_err(|error| Error::io(path, error))?;
        let start = (range.start as usize).min(bytes.len());
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len()).max(start);
        into.clear();
        into.extend_from_slice(&bytes[start..end]);
        let broken = self.broken.lock().unwrap().clone();
        if let Some((name, byte, trouble)) = broken
            && path.ends_with(&name)
            && range.contains(&byte)
        {
            match trouble {
                Trouble::Error => return Err(Error::new(ErrorKind::Io, "the server is on fire")),
                Trouble::Panic => std::panic::panic_any(Bomb),
                Trouble::Short => into.truncate((byte - range.start) as usize),
            }
        }
        Ok(bytes.len() as u64)
    }

    fn requests_in_flight(&self) -> usize {
        32
    }
}

/// One file or folder of every format.
fn data() -> tempfile::TempDir {
    watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let numbers: Vec<u8> = (0..40_000u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
    std::fs::write(at("numbers.raw"), &numbers).unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (400, 50), }";
    let header = format!("{header:<117}\n");
    let mut npy = b"\x93NUMPY\x01\x00v\x00".to_vec();
    npy.extend_from_slice(header.as_bytes());
    npy.extend((0..20_000).flat_map(|n: u16| f32::from(n).to_le_bytes()));
    std::fs::write(at("numbers.npy"), npy).unwrap();
    std::fs::write(at("tokens.bin"), (0..30_000u16).flat_map(|n| (n % 1000).to_le_bytes()).collect::<Vec<u8>>())
        .unwrap();
    let csv: String = std::iter::once("a,b,label\n".to_owned())
        .chain((0..500).map(|n| format!("{n}.25,{},{}\n", n * 7 % 13, ["yes", "no"][n % 2])))
        .collect();
    std::fs::write(at("table.csv"), &csv).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(csv.as_bytes()).unwrap();
    std::fs::write(at("table.csv.gz"), gzip.finish().unwrap()).unwrap();
    // Examples {"x": [n]}, packed as TensorFlow does it.
    let example = |n: u16| {
        let mut record = b"\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04".to_vec();
        record.extend(f32::from(n).to_le_bytes());
        let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
        let len = (record.len() as u64).to_le_bytes();
        [&len[..], &masked(&len), &record, &masked(&record)].concat()
    };
    std::fs::write(at("steps.tfrecord"), (0..500).flat_map(example).collect::<Vec<u8>>()).unwrap();
    std::fs::copy(fixtures.join("npz/packed.npz"), at("packed.npz")).unwrap();
    std::fs::copy(fixtures.join("safetensors/arrays.safetensors"), at("arrays.safetensors")).unwrap();
    std::fs::copy(fixtures.join("libsvm/base-1.svm"), at("rows.svm")).unwrap();
    let labels = "t10k-labels-idx1-ubyte.gz";
    std::fs::copy(fixtures.join("mnist").join(labels), at(labels)).unwrap();
    for name in ["wds-000.tar", "wds-001.tar"] {
        std::fs::copy(fixtures.join("tar").join(name), at(name)).unwrap();
    }
    for (class, photo) in
        [("space", "rocket.jpg"), ("space", "astronaut.png"), ("food", "coffee.png"), ("cat", "chelsea.png")]
    {
        std::fs::create_dir_all(at("photos").join(class)).unwrap();
        std::fs::copy(fixtures.join("photos").join(photo), at("photos").join(class).join(photo)).unwrap();
    }
    for wave in 0..7u32 {
        std::fs::create_dir_all(at("waves")).unwrap();
        let steps = (0..wave + 1).map(|step| format!("{wave},{step}\n"));
        std::fs::write(at("waves").join(format!("{wave}.csv")), "a,b\n".to_owned() + &steps.collect::<String>())
            .unwrap();
    }
    std::fs::create_dir_all(at("digits")).unwrap();
    std::fs::copy(fixtures.join("mnist").join(labels), at("digits").join(labels)).unwrap();
    std::fs::write(
        at("digits").join("pixels"),
        [&[0u8, 0, 8, 2, 0, 0, 0x27, 0x10, 0, 0, 0, 2][..], &[7; 20_000]].concat(),
    )
    .unwrap();
    folder
}

/// Settings of every format, with paths below `root`.
fn every_format(root: &Path) -> Vec<(&'static str, Loader)> {
    let at = |name: &str| root.join(name);
    let csv = |name: &str| Loader::csv(at(name)).labels(["label"]);
    let tokens = TokenOptions { window: 64, cut: TokenCut::Random, ..TokenOptions::default() };
    let image = field::Image::rgb(40, 40).dtype(DType::U8);
    let groups = SequenceOptions { group_by: Some("b".into()), ..SequenceOptions::default() };
    let idx = SourceConfig::new(Idx, at("t10k-labels-idx1-ubyte.gz"), Default::default());
    let mut formats = vec![
        ("raw", Loader::raw(at("numbers.raw"), RawOptions::features(StoredType::U32, &[100])).shuffle(1)),
        ("npy", Loader::npy(at("numbers.npy")).shuffle(2)),
        ("npy in order", Loader::npy(at("numbers.npy")).batch_size(7)),
        ("idx", Loader::new(idx).shuffle(3).samples_per_epoch(300)),
        ("tokens", Loader::tokens(at("tokens.bin"), tokens).shuffle(4)),
        ("csv", csv("table.csv").shuffle(5)),
        ("csv in order", csv("table.csv")),
        ("packed csv", csv("table.csv.gz")),
        ("packed csv, shuffled", csv("table.csv.gz").shuffle(6)),
        ("npz", Loader::new(SourceConfig::new(Npz, at("packed.npz"), Default::default())).batch_size(2).shuffle(10)),
        (
            "safetensors",
            Loader::new(SourceConfig::new(Safetensors, at("arrays.safetensors"), Default::default())).batch_size(2),
        ),
        (
            "libsvm",
            Loader::new(SourceConfig::new(Libsvm, at("rows.svm"), Default::default())).batch_size(4).shuffle(11),
        ),
        (
            "sequences",
            Loader::new(SourceConfig::new(CsvSequences, at("waves"), Default::default())).batch_size(2).shuffle(12),
        ),
        ("grouped sequences", Loader::new(SourceConfig::new(CsvSequences, at("table.csv"), groups)).batch_size(2)),
        ("tfrecord", Loader::new(SourceConfig::new(TfRecord, at("steps.tfrecord"), Default::default())).shuffle(9)),
        ("tar", Loader::tar(at("wds-{000..001}.tar")).field("image", image).field("label", field::Class).batch_size(1)),
        ("images", Loader::images(at("photos")).size(40, 40).batch_size(3).shuffle(7)),
        ("images of native size", Loader::images(at("photos")).batch_size(2).shuffle(8)),
    ];
    formats.retain(|(name, _)| cfg!(feature = "images") || !["tar", "images", "images of native size"].contains(name));
    formats
}

/// Every byte and id of two epochs.
fn epochs(batches: &mut dyn DataSetIterator) -> Vec<(Vec<u64>, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    for _ in 0..2 {
        for batch in &mut *batches {
            let batch = batch.unwrap();
            let tensors = batch.tensors().map(|tensor| tensor.bytes().to_vec()).collect();
            all.push((batch.sample_ids().to_vec(), tensors));
        }
        batches.reset().unwrap();
    }
    all
}

#[test]
fn every_format_gives_the_same_bytes_from_a_storage_and_is_asked_for_ahead() {
    let folder = data();
    let here = every_format(folder.path());
    for ((name, here), (_, there)) in here.into_iter().zip(every_format(Path::new(""))) {
        let slow = Slow::new(folder.path(), Duration::from_millis(2));
        let budget = MemoryBudget::unlimited();
        let files = Files::of(slow.clone(), &budget);
        let expected = epochs(&mut *here.workers(2).build().unwrap());
        assert!(expected.len() > 2, "{name}");
        let mut batches = there.files(files.clone()).workers(2).build().unwrap();
        // Opening and the first batch, which sizes the ring, read what nobody could know of.
        batches.next().unwrap().unwrap();
        batches.seek(&State::new(batches.state().seed)).unwrap();
        slow.is_watched.store(true, Ordering::SeqCst);
        let unforeseen = files.stats().unwrap().unforeseen;
        assert_eq!(epochs(&mut *batches), expected, "{name}");
        let stats = files.stats().unwrap();
        assert_eq!(stats.unforeseen, unforeseen, "{name}: {stats:?}");
        let readers = slow.readers.lock().unwrap();
        assert!(readers.iter().all(|thread| thread.starts_with("ringfeed-ahead")), "{name}: {readers:?}");
        drop(readers);
        drop(batches);
        // What is still under way is counted until it comes.
        while budget.used() > 0 {
            std::thread::yield_now();
        }
    }
}

/// The system counts the bytes that each thread reads, but for small records that lie apart, which it copies all in one
/// call.
#[test]
#[cfg(target_os = "linux")]
fn local_files_are_read_by_the_thread_that_needs_their_bytes() {
    const IO: &str = "/proc/thread-self/io";
    if std::fs::read_to_string(IO).is_err() {
        return eprintln!("skipped: {IO} can't be read here");
    }
    let read_here = || -> u64 {
        let told = std::fs::read_to_string(IO).unwrap();
        told.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
    };
    let counted =
        |batches: &dyn DataSetIterator| -> u64 { batches.stats().stages.iter().map(|stage| stage.bytes_read).sum() };
    let folder = data();
    for (name, loader) in every_format(folder.path()) {
        let mut batches = loader.shield().build().unwrap();
        let before = (read_here(), counted(&*batches));
        epochs(&mut *batches);
        let (here, all) = (read_here() - before.0, counted(&*batches) - before.1);
        let is_counted = name.contains("order") || name.contains("sequences") || name.starts_with("images");
        if is_counted || ["safetensors", "tar"].contains(&name) {
            assert!(all > 0 && here >= all, "{name}: {here} of {all} bytes");
        }
    }
}

#[test]
fn a_shielded_loader_reads_a_storage_by_itself() {
    let folder = data();
    for ((name, here), (_, there)) in every_format(folder.path()).into_iter().zip(every_format(Path::new(""))) {
        let files = Files::of(Slow::new(folder.path(), Duration::ZERO), &MemoryBudget::unlimited());
        let expected = epochs(&mut *here.shield().build().unwrap());
        assert_eq!(epochs(&mut *there.files(files).shield().build().unwrap()), expected, "{name}");
    }
}

#[test]
fn many_requests_are_under_way_although_few_workers_decode_and_few_batches_wait() {
    let folder = data();
    let slow = Slow::new(folder.path(), Duration::ZERO);
    let files = Files::of(slow.clone(), &MemoryBudget::unlimited());
    let options = RawOptions::features(StoredType::U32, &[100]);
    let loader = Loader::raw("numbers.raw", options).files(files).shuffle(1).batch_size(2);
    let mut batches = loader.workers(1).prefetch(1).build().unwrap();
    batches.next().unwrap().unwrap();
    *slow.crowd.lock().unwrap() = 32;
    batches.seek(&State::new(1)).unwrap();
    assert_eq!(epochs(&mut *batches).len(), 400);
    assert_eq!(*slow.crowd.lock().unwrap(), 0, "32 reads were under way");
}

/// Long records whose reads end in rounds: after 20 ms, and only when as many are under way as the storage allows.
struct Rounds {
    records: u64,
    state: Mutex<Round>,
    changed: Condvar,
}

#[derive(Default)]
struct Round {
    under_way: usize,
    /// Number of rounds that ended.
    ended: usize,
    /// Nobody waits for others any longer.
    is_over: bool,
}

impl Rounds {
    const RECORD: u64 = 128 << 10;
    const IN_FLIGHT: usize = 32;
}

impl Storage for Rounds {
    fn file_len(&self, _: &Path) -> Result<u64> {
        Ok(self.records * Self::RECORD)
    }

    fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let mut state = self.state.lock().unwrap();
        let round = state.ended;
        state.under_way += 1;
        if state.under_way == Self::IN_FLIGHT {
            (state.under_way, state.ended) = (0, round + 1);
            self.changed.notify_all();
        }
        let must_wait = |state: &mut Round| state.ended == round && !state.is_over;
        let (state, timeout) = self.changed.wait_timeout_while(state, Duration::from_secs(250), must_wait).unwrap();
        assert!(!timeout.timed_out(), "only {} reads are under way", state.under_way);
        drop(state);
        latency(Duration::from_millis(20));
        into.clear();
        into.extend(range.map(|byte| (byte / Self::RECORD) as u8));
        Ok(self.records * Self::RECORD)
    }

    fn requests_in_flight(&self) -> usize {
        Self::IN_FLIGHT
    }
}

#[test]
fn a_storage_with_latency_always_has_as_much_to_do_as_it_allows() {
    watchdog::watch();
    let rounds = 6;
    let storage = Arc::new(Rounds {
        records: (rounds * Rounds::IN_FLIGHT) as u64,
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let files = Files::of(storage.clone(), &MemoryBudget::unlimited());
    let options = RawOptions::features(StoredType::U8, &[Rounds::RECORD as usize]);
    let loader = Loader::raw("records", options).files(files.clone()).shuffle(1).batch_size(2);
    let mut batches = loader.workers(2).prefetch(1).build().unwrap();
    let mut samples = 0;
    for batch in batches.epoch().unwrap() {
        let batch = batch.unwrap();
        for (id, row) in batch.sample_ids().iter().zip(batch.tensor("features").unwrap().bytes().chunks(128 << 10)) {
            assert!(row.iter().all(|byte| u64::from(*byte) == *id));
            samples += 1;
        }
    }
    assert_eq!(samples, storage.records);
    let mut state = storage.state.lock().unwrap();
    // A later round is of the next epoch.
    assert!(state.ended >= rounds, "{} rounds", state.ended);
    state.is_over = true;
    drop(state);
    storage.changed.notify_all();
    let stats = files.stats().unwrap();
    assert_eq!((stats.unforeseen, stats.most_in_flight), (0, Rounds::IN_FLIGHT));
}

#[test]
fn what_is_asked_for_ahead_stays_within_its_bound() {
    let folder = data();
    let slow = Slow::new(folder.path(), Duration::from_millis(1));
    let budget = MemoryBudget::unlimited();
    let record = 400;
    let files = Files::with_ahead_bytes(slow.clone(), 10 * record, &budget);
    let source = Loader::raw("numbers.raw", RawOptions::features(StoredType::U32, &[100])).files(files.clone());
    // Two slots of a batch of four, and of the bytes ahead what one batch may pass the bound by.
    let batches = source.shuffle(1).batch_size(4).workers(2).prefetch(1).build().unwrap();
    let mut most = 0;
    for batch in batches {
        batch.unwrap();
        most = most.max(budget.used());
    }
    // What lies between two records that are near each other comes with them.
    let batch_at_most = 4 * (record + (64 << 10));
    assert!((1..=10 * record + batch_at_most).contains(&most), "{most}");
}

#[test]
fn a_budget_that_leaves_no_room_makes_reads_late_and_loses_nothing() {
    let folder = data();
    let budget = MemoryBudget::new(100);
    let files = Files::of(Slow::new(folder.path(), Duration::ZERO), &budget);
    let loader = Loader::npy("numbers.npy").files(files.clone()).shuffle(2);
    let here = Loader::npy(folder.path().join("numbers.npy")).shuffle(2);
    assert_eq!(epochs(&mut *loader.build().unwrap()), epochs(&mut *here.build().unwrap()));
    assert!(files.stats().unwrap().unforeseen > 0);
    assert_eq!(budget.used(), 0);
}

#[test]
fn errors_of_a_storage_arrive_in_their_place_and_spoil_their_samples_alone() {
    let folder = data();
    let record = 400;
    for trouble in [Trouble::Error, Trouble::Panic, Trouble::Short] {
        let slow = Slow::new(folder.path(), Duration::from_millis(1));
        let files = Files::of(slow.clone(), &MemoryBudget::unlimited());
        let loader = Loader::raw("numbers.raw", RawOptions::features(StoredType::U32, &[100])).files(files).shuffle(1);
        let opened = loader.clone().bad_records(BadRecords::Skip(BadLimits::default())).build().unwrap();
        *slow.broken.lock().unwrap() = Some(("numbers.raw".into(), 17 * record + 5, trouble));
        let mut batches = opened;
        batches.seek(&State::new(1)).unwrap();
        let ids: Vec<u64> = (&mut batches).flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect();
        assert_eq!(ids.len(), 399);
        assert!(!ids.contains(&17));
        let bad = batches.bad_records();
        assert_eq!(bad.len(), 1);
        assert!(bad[0].error.contains("numbers.raw") && bad[0].error.contains("record 17"), "{}", bad[0].error);
    }
}

#[test]
fn going_elsewhere_forgets_what_was_planned_ahead() {
    let folder = data();
    let files = Files::of(Slow::new(folder.path(), Duration::from_millis(1)), &MemoryBudget::unlimited());
    let here = Loader::npy(folder.path().join("numbers.npy")).shuffle(2);
    let there = Loader::npy("numbers.npy").files(files).shuffle(2);
    let (mut here, mut there) = (here.build().unwrap(), there.build().unwrap());
    let mut next = |steps: usize| {
        for _ in 0..steps {
            let (here, there) = (here.next(), there.next());
            let ids =
                |batch: Option<Result<ringfeed::DataSet>>| batch.map(|batch| batch.unwrap().sample_ids().to_vec());
            assert_eq!(ids(here), ids(there));
        }
        let state = here.state();
        assert_eq!(state, there.state());
        state
    };
    let early = next(3);
    next(11); // past the end of the epoch
    for state in [early, State { epoch: 3, ..State::new(2) }, early] {
        let state = State { source: None, ..state };
        here.seek(&state).unwrap();
        there.seek(&state).unwrap();
        assert_eq!(epochs(&mut *here), epochs(&mut *there));
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_storage_that_lists_nothing_says_how_to_name_files() {
    struct Nothing;
    impl Storage for Nothing {
        fn file_len(&self, path: &Path) -> Result<u64> {
            Err(Error::new(ErrorKind::NotFound, "there is nothing").at_path(path))
        }

        fn read(&self, path: &Path, _: Range<u64>, _: &mut Vec<u8>) -> Result<u64> {
            self.file_len(path)
        }
    }
    let files = Files::of(Arc::new(Nothing), &MemoryBudget::unlimited());
    let error = Loader::images("photos").files(files.clone()).build().err().unwrap();
    assert!(error.to_string().contains("photos: this storage lists no folders; name the files"), "{error}");
    let error = Loader::npy("x.npy").files(files.clone()).build().err().unwrap();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::NotFound, "x.npy: there is nothing".to_owned()));
    let sequences = Loader::new(SourceConfig::new(CsvSequences, "waves", Default::default()));
    let error = sequences.files(files.clone()).build().err().unwrap();
    assert!(error.to_string().contains("waves: this storage lists no folders; name the files"), "{error}");
    let detected = LoaderConfig::from_json(r#"{"source": {"path": "x.npy"}}"#).unwrap();
    let error = Loader::from(detected).files(files).build().err().unwrap();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::NotFound, "x.npy: there is nothing".to_owned()));
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn what_lies_in_a_storage_is_detected_as_on_this_machine() {
    let folder = data();
    let files = Files::of(Slow::new(folder.path(), Duration::ZERO), &MemoryBudget::unlimited());
    let formats = Formats::new();
    let mut found = Vec::new();
    for path in [
        "numbers.npy",
        "table.csv",
        "table.csv.gz",
        "steps.tfrecord",
        "packed.npz",
        "arrays.safetensors",
        "rows.svm",
        "t10k-labels-idx1-ubyte.gz",
        "wds-{000..001}.tar",
        "wds-*.tar",
        "photos",
        "photos/cat",
        "photos/cat/chelsea.png",
        "waves",
        "digits",
    ] {
        let mut here = formats.detect(folder.path().join(path)).unwrap();
        let there = formats.detect_in(&files, path).unwrap();
        for source in &mut here {
            *source.path_mut() = source.path().strip_prefix(folder.path()).unwrap().to_owned();
        }
        assert_eq!(here, there, "{path}");
        found.push(there[0].format().to_owned());
        let settings = |root: &Path| format!(r#"{{"batch_size": 4, "source": {{"path": {:?}}}}}"#, root.join(path));
        let here = Loader::from(LoaderConfig::from_json(&settings(folder.path())).unwrap());
        let there = Loader::from(LoaderConfig::from_json(&settings(Path::new(""))).unwrap()).files(files.clone());
        assert_eq!(epochs(&mut *there.build().unwrap()), epochs(&mut *here.build().unwrap()), "{path}");
    }
    found.dedup();
    let all = "npy csv tfrecord npz safetensors libsvm idx tar images csv_sequences idx";
    assert_eq!(found.join(" "), all);
    let error = formats.detect_in(&files, "photos/dog").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_listed_file_lies_in_the_folder_of_its_list_wherever_the_other_lists_lie() {
    let folder = tempfile::tempdir().unwrap();
    for (language, level) in [("de", b'a'), ("en", b'b'), ("fr", b'c')] {
        let at = folder.path().join(language);
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("train.csv"), format!("path,x\nx.pgm,{level}\n")).unwrap();
        std::fs::write(at.join("x.pgm"), [b"P5\n1 1\n255\n".as_slice(), &[level]].concat()).unwrap();
        std::fs::write(at.join("x.txt"), [level]).unwrap();
    }
    let levels = |root: &Path, files: &Files| {
        let path = serde_json::to_string(&["de", "en", "fr"].map(|name| root.join(name).join("train.csv"))).unwrap();
        let config = format!(r#"{{"batch_size": 3, "source": {{"format": "csv", "path": {path}}}}}"#);
        let loader = Loader::from(LoaderConfig::from_json(&config).unwrap()).files(files.clone());
        let loader = loader.field("image", field::Image::grey(1, 1).dtype(DType::U8).from("path").file());
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        batch.tensor("image").unwrap().as_slice::<u8>().unwrap().to_vec()
    };
    let files = Files::of(Slow::new(folder.path(), Duration::ZERO), &MemoryBudget::unlimited());
    assert_eq!(levels(Path::new(""), &files), *b"abc");
    assert_eq!(levels(folder.path(), &Files::local()), *b"abc");
    // So do files that are texts each.
    let path = serde_json::to_string(&["de/x.txt", "en/x.txt", "fr/x.txt"]).unwrap();
    let config = format!(r#"{{"batch_size": 3, "source": {{"format": "text_files", "path": {path}}}}}"#);
    let texts = Loader::from(LoaderConfig::from_json(&config).unwrap()).files(files);
    let texts = texts.field("text", field::Text::new(1));
    let batch = texts.build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("text").unwrap().as_slice::<u8>().unwrap(), *b"abc");
}
