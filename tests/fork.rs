//! Forked children: what a child does with an iterator that it has from its parent changes nothing for the parent, and
//! what can't work there says so. One test in a binary of its own, because a fork takes along only the thread that it
//! is made in.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::id;
use std::sync::Arc;
use std::time::Duration;

use common::{Flaky, Trouble, see, see_all, xs};
use ringfeed::arrays::{RawOptions, RawReader, StoredType};
use ringfeed::csv::{CsvOptions, CsvReader, CsvStream, Header};
use ringfeed::error::Location;
use ringfeed::field::Numbers;
use ringfeed::memory::TempFilePages;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::source::{ReaderSource, Source, StreamSource};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, ErrorKind, Result, Workspace};

/// A child that must be waited for.
#[must_use]
struct Child(libc::pid_t);

impl Child {
    fn wait(self) {
        let mut status = 0;
        // SAFETY: waits for the child, and writes its status.
        let ended = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!((ended, status), (self.0, 0), "the child failed");
    }
}

/// Runs `work` in a forked child, which fails by panicking.
fn forked(work: impl FnOnce()) -> Child {
    // SAFETY: the child runs the test's code alone, and ends without returning from here.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child");
    if child == 0 {
        // A child whose parent failed would wait for it.
        // SAFETY: asks for a signal to this process.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let worked = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: ends the child at once; nothing of the parent's is cleaned up.
        unsafe { libc::_exit(i32::from(worked.is_err())) };
    }
    Child(child)
}

fn workspace() -> Workspace {
    builder().build().unwrap()
}

fn builder() -> ringfeed::workspace::WorkspaceBuilder {
    Workspace::builder().workers(1).prefetch(0).close_wait(Duration::from_secs(5)).poison(0xa5)
}

fn numbers(len: u64) -> ReaderSource {
    ReaderSource::new(Flaky::new(len, &[], Trouble::Stall)).batch_size(10)
}

/// The child drops what its parent holds and fills all slots again; the parent's batch stays, and it goes on.
fn a_child_overwrites_nothing_of_its_parents(source: impl Fn() -> Box<dyn Source>, workspace: &Workspace) {
    let expected = see_all(&mut *wrap(shield(source()), &common::workspace(1, 1)).unwrap());
    let mut iterator = wrap(shield(source()), workspace).unwrap();
    let mut held = Some(iterator.next().unwrap().unwrap());
    assert_eq!(see(held.as_ref().unwrap()), expected[0]);
    forked(|| {
        held = None;
        assert_eq!(see_all(&mut *iterator), expected[1..]);
    })
    .wait();
    assert_eq!(see(held.as_ref().unwrap()), expected[0]);
    let rest: Vec<_> = iterator.map(|batch| see(&batch.unwrap())).collect();
    assert_eq!(rest, expected[1..]);
}

fn what_needs_threads_says_so_in_a_child() {
    let workspace = workspace();
    let mut ahead = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
    drop(ahead.next().unwrap().unwrap());
    let mut both = Some((ahead, workspace));
    forked(|| {
        let (mut ahead, workspace) = both.take().unwrap();
        let error = ahead.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("fork"), "{error}");
        assert_eq!(ahead.reset().unwrap_err().kind(), ErrorKind::Unsupported);
        let state = ahead.state();
        assert_eq!(ahead.seek(&state).unwrap_err().kind(), ErrorKind::Unsupported);
        let mut shielded = wrap(shield(numbers(50)), &workspace).unwrap();
        assert_eq!(shielded.next().unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(AsyncDataSetIterator::new(numbers(50), &workspace).err().unwrap().kind(), ErrorKind::Unsupported);
        drop((ahead, shielded, workspace));
        let anew = AsyncDataSetIterator::new(numbers(50), &self::workspace()).unwrap();
        assert_eq!(anew.map(|batch| batch.unwrap().len()).sum::<usize>(), 50);
    })
    .wait();
    let (ahead, _workspace) = both.unwrap();
    assert_eq!(ahead.map(|batch| batch.unwrap().len()).sum::<usize>(), 90);
}

/// Has the child read its batches while the parent has fetched a job and not decoded it.
struct Meanwhile {
    parent: u32,
    go: Arc<std::os::unix::net::UnixStream>,
    tensors: [TensorSpec; 1],
}

impl RecordReader for Meanwhile {
    fn len(&self) -> u64 {
        RECORDS
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, samples: &[u64], nth: usize, _: &mut Scratch) -> Result<()> {
        if id() == self.parent && nth + 1 == samples.len() {
            (&*self.go).write_all(b"g").unwrap();
            (&*self.go).read_exact(&mut [0]).unwrap();
        }
        Ok(())
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        row.zero();
        Ok(())
    }

    fn place(&self, _: u64) -> Location {
        Location::default()
    }
}

const RECORDS: u64 = 4000;

fn a_child_gathers_records_in_memory_of_its_own(folder: &Path) {
    let path = folder.join("numbers.bin");
    std::fs::write(&path, (0..RECORDS).flat_map(|i| (i as i64).to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let (ours, childs) = std::os::unix::net::UnixStream::pair().unwrap();
    let (ours, childs) = (Arc::new(ours), Arc::new(childs));
    let options = RawOptions { access: ringfeed::storage::Access::Read, ..RawOptions::features(StoredType::I64, &[]) };
    let meanwhile = Meanwhile {
        parent: id(),
        go: ours.clone(),
        tensors: [TensorSpec::new("nothing", Role::Label, DType::U8, &[])],
    };
    let source = ReaderSource::new(RawReader::open(&path, &options).unwrap()).and(meanwhile);
    let workspace = workspace();
    let mut iterator = wrap(shield(source.batch_size(500).shuffle(3)), &workspace).unwrap();
    let right = |batch: &ringfeed::DataSet| {
        let values = batch.features().unwrap().as_slice::<i64>().unwrap().to_vec();
        assert!(values.iter().zip(batch.sample_ids()).all(|(x, id)| *x == *id as i64), "{:?}", batch.index());
    };
    // The first batch has no child to answer.
    (&*childs).write_all(b"a").unwrap();
    right(&iterator.next().unwrap().unwrap());
    (&*childs).read_exact(&mut [0]).unwrap();
    let child = forked(|| {
        for batch in iterator.by_ref() {
            (&*childs).read_exact(&mut [0]).unwrap();
            right(&batch.unwrap());
            (&*childs).write_all(b"a").unwrap();
        }
    });
    iterator.for_each(|batch| right(&batch.unwrap()));
    child.wait();
}

#[test]
fn a_forked_child_and_its_parent_go_on_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (0..20_000).map(|i| format!("{i},{}\n", 2 * i)).collect();
    let csv = folder.path().join("rows.csv");
    std::fs::write(&csv, &text).unwrap();
    let packed = folder.path().join("rows.csv.gz");
    let mut encoder = flate2::write::GzEncoder::new(std::fs::File::create(&packed).unwrap(), Default::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap();
    let options = CsvOptions { header: Header::No, ..CsvOptions::default() };
    let fields = [("x".to_owned(), Numbers::i64().from([0, 1]))];
    let memory = || Box::new(numbers(200)) as Box<dyn Source>;
    let open = || CsvReader::with_fields(&csv, &fields, &options).unwrap();
    let rows = || Box::new(ReaderSource::new(open()).batch_size(500).shuffle(1));
    let stream = |path: &Path| {
        let (stream, decoder) = CsvStream::with_fields(path, &fields, &options).unwrap();
        Box::new(StreamSource::new(stream, decoder).batch_size(100)) as Box<dyn Source>
    };
    let sources: [&dyn Fn() -> Box<dyn Source>; 4] = [&memory, &|| rows(), &|| stream(&csv), &|| stream(&packed)];
    for source in sources {
        a_child_overwrites_nothing_of_its_parents(source, &workspace());
        let files = TempFilePages::new(None, 64 << 20);
        a_child_overwrites_nothing_of_its_parents(source, &builder().pages(files).build().unwrap());
    }
    what_needs_threads_says_so_in_a_child();
    a_child_gathers_records_in_memory_of_its_own(folder.path());
    assert_eq!(xs(&wrap(shield(numbers(10)), &workspace()).unwrap().next().unwrap().unwrap()).len(), 10);
}
