//! The work of every thread over time, as a file that Perfetto and Chrome show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::counters::{Event, Kind, Recorder, Tracer, Track};
use crate::error::{Error, Result};
use crate::files::write_whole;
use crate::sync::CounterMutex;

/// A record of the work of every thread over time. Workers, planning, uploads and the trainer are tracks. Each batch is
/// a flow from the worker that read it, through its copy to a device if there is one, to the `next` that returned it.
/// The fill level of the ring is a counter. Open the file at <https://ui.perfetto.dev> or in `chrome://tracing`.
///
/// It keeps the last 131,072 events (a job has about three) in 6 MB, and counts the events that it dropped. Recording
/// an event takes about 20 ns and no further memory. Clones are handles to the same trace.
///
/// ```
/// use ringfeed::{DataSetIterator, Loader};
/// use ringfeed::stats::Trace;
///
/// let loader = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(10);
/// let trace = Trace::new();
/// let workspace = loader.workspace_builder()?.trace(trace.clone()).build()?;
/// loader.build_in(&workspace)?.epoch()?.for_each(drop); // the trainer
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("run.trace.json");
/// trace.save(path)?;
/// # Ok::<(), ringfeed::Error>(())
/// ```
///
/// [`Loader::trace`](crate::Loader::trace) saves a trace when the iterator and its workspace drop.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    recorder: Arc<Recorder>,
    /// The file that it is written to when the last handle drops.
    file: CounterMutex<Option<PathBuf>>,
}

/// Default number of events that are kept.
const EVENTS: usize = 1 << 17;

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Self {
        Self::with_events(EVENTS)
    }

    /// A trace that keeps the last `events` events, in 48 bytes each.
    pub fn with_events(events: usize) -> Self {
        let (recorder, file) = (Arc::new(Recorder::new(events)), CounterMutex::default());
        Self(Arc::new(Inner { recorder, file }))
    }

    /// A trace that is written to `path` when its last handle drops, with the last workspace that records into it. The
    /// file is created now, so that an error shows before the run.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if it can't be written.
    pub fn to_file(path: impl AsRef<Path>) -> Result<Self> {
        let trace = Self::new();
        trace.save(&path)?;
        *trace.0.file.lock() = Some(path.as_ref().to_owned());
        Ok(trace)
    }

    /// Writes the events so far to the file of [`to_file`](Self::to_file), which is then not written again. Does
    /// nothing if there is no such file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if it can't be written.
    pub fn finish(&self) -> Result<()> {
        let file = self.0.file.lock().take();
        file.map_or(Ok(()), |path| self.save(path))
    }

    /// Writes the events so far to a file, completely or not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if it can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        save(&self.0.recorder, path.as_ref())
    }

    /// The events so far, in the format of Chrome's traces.
    pub fn to_json(&self) -> String {
        to_json(&self.0.recorder)
    }

    /// Number of events that are kept, and number of older events that were dropped.
    pub fn counts(&self) -> (u64, u64) {
        let (events, dropped) = self.0.recorder.read();
        (events.len() as u64, dropped)
    }

    pub(crate) fn tracer(&self) -> Tracer {
        Tracer::new(self.0.recorder.clone())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(path) = self.file.lock().take()
            && let Err(error) = save(&self.recorder, &path)
        {
            tracing::error!(%error, "a trace was not written");
        }
    }
}

fn save(recorder: &Recorder, path: &Path) -> Result<()> {
    write_whole(path, &[to_json(recorder).as_bytes()]).map_err(|error| Error::io(path, error))
}

fn to_json(recorder: &Recorder) -> String {
    let (mut events, dropped) = recorder.read();
    // An event that contains another one comes first.
    events.sort_by_key(|event| (event.begin_ns, std::cmp::Reverse(event.end_ns)));
    let mut json = String::with_capacity(200 * events.len() + 1000);
    // Writing to a string does not fail.
    let _ = write(&mut json, &events, dropped);
    json
}

fn write(json: &mut String, events: &[Event], dropped: u64) -> fmt::Result {
    write!(
        json,
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"ringfeed\":\"{}\",\"events_dropped\":\"{dropped}\"}},\"traceEvents\":[\n\
         {{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{{\"name\":\"ringfeed\"}}}}",
        env!("CARGO_PKG_VERSION")
    )?;
    let tracks: BTreeSet<Track> = events.iter().map(|event| event.track).collect();
    // Iterators whose batches are taken from a device: the thread that asks the loader for them feeds the upload.
    let uploaded: BTreeSet<u32> =
        events.iter().filter(|event| event.kind == Kind::Take).map(|event| event.iterator).collect();
    let feeds = |track: Track| matches!(track, Track::Trainer(iterator) if uploaded.contains(&iterator));
    for (place, track) in tracks.into_iter().enumerate() {
        let (tid, name) = (thread(track), Name { track, feeds: feeds(track) });
        write!(
            json,
            ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":\"{name}\"}}}},\n\
             {{\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{place}}}}}"
        )?;
    }
    for event in events {
        if event.kind == Kind::Levels {
            let name = if event.iterator == 0 { String::new() } else { format!(" {}", event.iterator) };
            write!(
                json,
                ",\n{{\"ph\":\"C\",\"pid\":1,\"ts\":{},\"name\":\"batches{name}\",\"args\":{{\"ready\":{},\"filling\":{}}}}}",
                Micros(event.begin_ns),
                event.batch.unwrap_or(0),
                event.count
            )?;
            continue;
        }
        if event.kind == Kind::Copy {
            copy(json, event)?;
            continue;
        }
        let name = if event.kind == Kind::Step && feeds(event.track) { "hand over" } else { name(event.kind) };
        write!(
            json,
            ",\n{{\"ph\":\"X\",\"cat\":\"ringfeed\",\"pid\":1,\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"{}\",\"args\":{{",
            thread(event.track),
            Micros(event.begin_ns),
            Micros(event.end_ns - event.begin_ns),
            name
        )?;
        if let Some(batch) = event.batch {
            write!(json, "\"batch\":{batch},")?;
        }
        write!(json, "\"samples\":{}}}}}", event.count)?;
    }
    flows(json, events, &uploaded)?;
    json.push_str("\n]}\n");
    Ok(())
}

/// A copy. It may overlap with another copy of the same thread.
fn copy(json: &mut String, event: &Event) -> fmt::Result {
    let (tid, batch) = (thread(event.track), event.batch.unwrap_or(0));
    let id = u64::from(event.iterator) << 40 | batch;
    for (phase, at) in [("b", event.begin_ns), ("e", event.end_ns)] {
        write!(
            json,
            ",\n{{\"ph\":\"{phase}\",\"cat\":\"copy\",\"name\":\"copy\",\"id\":{id},\"pid\":1,\"tid\":{tid},\"ts\":{},\
             \"args\":{{\"batch\":{batch}}}}}",
            Micros(at)
        )?;
    }
    Ok(())
}

/// The path of each batch: from the first job that read, through the other jobs and settling, to the `next` that
/// delivered it. If the batch was uploaded, the path continues to the upload and the `next` of the device's iterator.
/// Only batches with both ends are shown.
fn flows(json: &mut String, events: &[Event], uploaded: &BTreeSet<u32>) -> fmt::Result {
    let mut ways: BTreeMap<(u32, u64), Vec<&Event>> = BTreeMap::new();
    let passes = |kind| matches!(kind, Kind::Fill | Kind::Settle | Kind::Next | Kind::Upload | Kind::Take);
    for event in events.iter().filter(|event| passes(event.kind)) {
        if let Some(batch) = event.batch {
            ways.entry((event.iterator, batch)).or_default().push(event);
        }
    }
    for ((iterator, batch), mut way) in ways {
        // In the order in which they ended, because a flow passes there.
        way.sort_by_key(|event| event.end_ns);
        let ends = if uploaded.contains(&iterator) { Kind::Take } else { Kind::Next };
        way.retain(|event| ends == Kind::Take || event.kind != Kind::Upload);
        let is_whole = way.last().is_some_and(|last| last.kind == ends) && way.len() >= 2;
        if !is_whole {
            continue;
        }
        for (place, event) in way.iter().enumerate() {
            let phase = match place {
                0 => "s",
                place if place + 1 == way.len() => "f",
                _ => "t",
            };
            // Inside of the event that it belongs to, which ends a moment later.
            let at = event.end_ns.saturating_sub(1).max(event.begin_ns);
            write!(
                json,
                ",\n{{\"ph\":\"{phase}\",\"bp\":\"e\",\"cat\":\"batch\",\"name\":\"batch\",\"id\":{},\"pid\":1,\"tid\":{},\"ts\":{}}}",
                u64::from(iterator) << 40 | batch,
                thread(event.track),
                Micros(at)
            )?;
        }
    }
    Ok(())
}

/// Nanoseconds, in microseconds.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A number for each track.
fn thread(track: Track) -> u64 {
    match track {
        Track::Worker(number) => 1 + u64::from(number),
        Track::Planning(iterator) => 10_000 + 2 * u64::from(iterator),
        Track::Trainer(iterator) => 10_001 + 2 * u64::from(iterator),
        // Thread numbers have 31 bits.
        Track::Upload(iterator, device) => 1 << 29 | u64::from(iterator) << 8 | u64::from(device & 0xff),
        Track::Taker(iterator) => 1 << 30 | u64::from(iterator & 0xffff),
    }
}

/// The name of a track; iterators after the first have a number.
struct Name {
    track: Track,
    /// Whether it feeds an upload.
    feeds: bool,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, iterator) = match self.track {
            Track::Worker(number) => return write!(f, "worker {number}"),
            Track::Planning(iterator) => ("planning", iterator),
            Track::Trainer(iterator) if self.feeds => ("feeding the upload", iterator),
            Track::Trainer(iterator) | Track::Taker(iterator) => ("trainer", iterator),
            Track::Upload(iterator, 0) => ("upload", iterator.into()),
            Track::Upload(iterator, device) => {
                write!(f, "upload to device {device}")?;
                ("", iterator.into())
            }
        };
        f.write_str(name)?;
        if iterator > 0 { write!(f, " {iterator}") } else { Ok(()) }
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Plan => "plan",
        Kind::Bind => "hand out",
        Kind::SlotWait => "wait for a slot",
        Kind::Measure => "measure",
        Kind::Fill => "fill",
        Kind::Read => "read",
        Kind::Decode => "decode",
        Kind::Transform => "transform",
        Kind::Settle => "settle",
        Kind::Next => "next",
        Kind::Wait => "wait",
        Kind::Step => "step",
        Kind::Upload => "upload",
        Kind::LoadWait => "wait for a batch",
        Kind::CopyWait => "wait for a copy",
        Kind::Copy => "copy",
        Kind::Take => "next",
        Kind::Levels => "batches",
    }
}
