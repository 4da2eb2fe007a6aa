//! What a trace says of a run: who did what when, and the way of each batch, in the format that Perfetto and Chrome
//! read.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use ringfeed::device::{HostDevice, Upload};
use ringfeed::field::Numbers;
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::stats::Trace;
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::Transforms;
use ringfeed::workspace::{shield, wrap};
use ringfeed::{DType, DataSetIterator, Loader, LoaderConfig, Workspace};
use serde_json::Value;

/// A slice of a track: when it began and ended, in nanoseconds.
#[derive(Debug)]
struct Slice {
    name: String,
    track: String,
    begin: u64,
    end: u64,
    batch: Option<u64>,
}

/// What was in a file of a trace.
struct Read {
    slices: Vec<Slice>,
    /// By their number: phase, track and time of each step of a flow, in the order of the file.
    flows: BTreeMap<u64, Vec<(String, String, u64)>>,
    /// Copies, which may overlap, by their number: when each began and ended.
    copies: BTreeMap<u64, Vec<u64>>,
    /// Most batches that were ready, and that were being filled.
    levels: (u64, u64),
    dropped: u64,
}

fn nanoseconds(value: &Value) -> u64 {
    let micros = value.as_f64().unwrap();
    assert!(micros >= 0.0, "{value}");
    (micros * 1000.0).round() as u64
}

fn read(json: &str) -> Read {
    let root: Value = serde_json::from_str(json).unwrap();
    let events = root["traceEvents"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let names: BTreeMap<u64, String> =
        names.map(|event| (event["tid"].as_u64().unwrap(), text(&event["args"]["name"]))).collect();
    assert_eq!(names.len(), names.values().collect::<BTreeSet<_>>().len(), "each track has a name of its own");
    let track = |event: &Value| names[&event["tid"].as_u64().unwrap()].clone();
    let mut trace = Read {
        slices: Vec::new(),
        flows: BTreeMap::new(),
        copies: BTreeMap::new(),
        levels: (0, 0),
        dropped: root["otherData"]["events_dropped"].as_str().unwrap().parse().unwrap(),
    };
    for event in events {
        assert_eq!(event["pid"], 1);
        match event["ph"].as_str().unwrap() {
            "X" => {
                let begin = nanoseconds(&event["ts"]);
                trace.slices.push(Slice {
                    name: text(&event["name"]),
                    track: track(event),
                    begin,
                    end: begin + nanoseconds(&event["dur"]),
                    batch: event["args"]["batch"].as_u64(),
                });
            }
            "C" => {
                let level = |name: &str| event["args"][name].as_u64().unwrap();
                trace.levels = (trace.levels.0.max(level("ready")), trace.levels.1.max(level("filling")));
            }
            "b" | "e" => {
                assert_eq!((text(&event["cat"]), text(&event["name"])), ("copy".to_owned(), "copy".to_owned()));
                assert!(track(event).starts_with("upload"), "{event}");
                trace.copies.entry(event["id"].as_u64().unwrap()).or_default().push(nanoseconds(&event["ts"]));
            }
            phase @ ("s" | "t" | "f") => {
                let step = (phase.to_owned(), track(event), nanoseconds(&event["ts"]));
                trace.flows.entry(event["id"].as_u64().unwrap()).or_default().push(step);
            }
            phase => assert_eq!(phase, "M"),
        }
    }
    trace
}

impl Read {
    /// Slices of one track contain one another or lie apart.
    fn check_nesting(&self) {
        let mut open: BTreeMap<&str, Vec<&Slice>> = BTreeMap::new();
        for slice in &self.slices {
            let open = open.entry(&slice.track).or_default();
            while open.last().is_some_and(|outer| outer.end <= slice.begin) {
                open.pop();
            }
            if let Some(outer) = open.last() {
                assert!(slice.end <= outer.end && slice.begin >= outer.begin, "{slice:?} in {outer:?}");
            }
            open.push(slice);
        }
    }

    /// Each of `batches` batches goes from where it is filled to the trainer.
    fn check_flows(&self, batches: usize, first: &str) {
        assert_eq!(self.flows.len(), batches);
        for (number, steps) in &self.flows {
            let phases: String = steps.iter().map(|(phase, ..)| phase.as_str()).collect();
            assert_eq!(phases.trim_start_matches('s').trim_end_matches('f').trim_matches('t'), "", "{phases}");
            assert!(phases.starts_with('s') && phases.ends_with('f') && phases.len() >= 3, "{phases}");
            assert!(steps.windows(2).all(|pair| pair[0].2 <= pair[1].2), "{steps:?}");
            let (begin, end) = (&steps[0], &steps[steps.len() - 1]);
            assert!(begin.1.starts_with(first) && end.1 == "trainer", "{steps:?}");
            // Behind the loader's own `next`, an upload, and the `next` of who takes it from there.
            let behind = if self.copies.is_empty() { 0 } else { 2 };
            for (step, (_, track, at)) in steps.iter().enumerate() {
                let name = match steps.len() - step {
                    2 if behind > 0 => "upload",
                    left if left == 1 || left == 1 + behind => "next",
                    left if left == 2 + behind => "settle",
                    _ => "fill",
                };
                let around = |slice: &&Slice| (slice.begin..slice.end.max(slice.begin + 1)).contains(at);
                let mut around = self.slices.iter().filter(|slice| slice.track == *track).filter(around);
                assert!(around.any(|slice| slice.name == name && slice.batch == Some(*number)), "{name}: {steps:?}");
            }
        }
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(move |slice| slice.name == name)
    }
}

fn numbers() -> ReaderSource {
    let values: Vec<f32> = (0..40).map(|i| i as f32).collect();
    ReaderSource::new(MemoryReader::new("x", Role::Feature, &[], values).unwrap()).batch_size(4)
}

fn transforms() -> Transforms {
    Transforms::new().map(TensorSpec::new("y", Role::Feature, DType::F32, &[]), |sample, out, _| {
        out.as_mut_slice::<f32>()?[0] = 2.0 * sample.f32("x")?[0];
        Ok(())
    })
}

#[test]
fn every_batch_goes_from_a_worker_to_the_trainer() {
    let trace = Trace::new();
    let workspace =
        Workspace::builder().workers(3).prefetch(2).trace(trace.clone()).across_epochs(false).build().unwrap();
    let source = ringfeed::source::Transformed::new(numbers(), transforms());
    let mut iterator = wrap(source, &workspace).unwrap();
    for _ in 0..2 {
        iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
    }
    let read = read(&trace.to_json());
    read.check_nesting();
    read.check_flows(20, "worker ");
    assert_eq!((read.named("next").count(), read.named("hand out").count()), (22, 20));
    assert_eq!(read.named("step").filter(|step| step.batch.is_some()).count(), 20);
    // Of an epoch, its end is planned, too; the first batch of all was planned when the ring was sized.
    assert_eq!(read.named("plan").count(), 21);
    assert!(read.named("fill").count() >= 20 && read.named("transform").count() == read.named("fill").count());
    assert!(read.levels.0 <= 3 && (1..=3).contains(&read.levels.1), "{:?}", read.levels);
    assert_eq!((read.dropped, trace.counts().1), (0, 0));
}

#[test]
fn an_upload_has_a_track_and_stands_in_the_way_of_each_batch() {
    let trace = Trace::new();
    let workspace =
        Workspace::builder().workers(2).prefetch(3).trace(trace.clone()).across_epochs(false).build().unwrap();
    let devices = [HostDevice::new(), HostDevice::new()];
    let mut batches = Upload::to_each(devices).start(wrap(numbers(), &workspace).unwrap()).unwrap();
    for _ in 0..2 {
        for batch in batches.epoch().unwrap() {
            batch.unwrap().wait().unwrap();
        }
    }
    drop(batches);
    let read = read(&trace.to_json());
    read.check_nesting();
    read.check_flows(20, "worker ");
    let tracks: BTreeSet<&str> = read.slices.iter().map(|slice| slice.track.as_str()).collect();
    for track in ["trainer", "upload", "upload to device 1", "feeding the upload", "planning"] {
        assert!(tracks.contains(track), "{track}: {tracks:?}");
    }
    let of = |name: &str, track: &str| read.named(name).filter(|slice| slice.track == track).count();
    assert_eq!((of("upload", "upload"), of("upload", "upload to device 1")), (10, 10));
    assert_eq!((of("next", "trainer"), of("next", "feeding the upload")), (20, 22));
    assert_eq!((of("wait", "trainer"), of("step", "trainer"), of("step", "feeding the upload")), (20, 20, 0));
    assert_eq!((read.named("wait for a copy").count(), read.copies.len()), (20, 20));
    assert!(read.named("wait for a batch").count() > 0);
    assert!(read.copies.values().all(|times| times.len() == 2 && times[0] <= times[1]), "{:?}", read.copies);
}

#[test]
fn the_shield_is_seen_at_work_inside_of_next() {
    let trace = Trace::new();
    let workspace = Workspace::builder().trace(trace.clone()).build().unwrap();
    let mut iterator = wrap(shield(numbers()), &workspace).unwrap();
    iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
    let read = read(&trace.to_json());
    read.check_nesting();
    assert_eq!((read.named("next").count(), read.named("fill").count()), (11, 10));
    assert!(read.slices.iter().all(|slice| slice.track == "trainer"));
    let is_inside = |inner: &Slice| read.named("next").any(|next| next.begin <= inner.begin && inner.end <= next.end);
    assert!(read.named("fill").all(is_inside));
}

#[test]
fn iterators_of_one_workspace_have_tracks_and_flows_of_their_own() {
    let trace = Trace::new();
    let workspace = Workspace::builder().workers(1).trace(trace.clone()).build().unwrap();
    let mut iterators = [wrap(numbers(), &workspace).unwrap(), wrap(numbers(), &workspace).unwrap()];
    for _ in 0..3 {
        iterators.iter_mut().for_each(|iterator| drop(iterator.next().unwrap().unwrap()));
    }
    let read = read(&trace.to_json());
    read.check_nesting();
    assert_eq!(read.flows.len(), 6);
    for (nth, track) in ["trainer", "trainer 1"].into_iter().enumerate() {
        let ends = read.flows.iter().filter(|(number, steps)| {
            **number >> 40 == nth as u64 && steps.last().is_some_and(|(_, end, _)| end == track)
        });
        assert_eq!(ends.count(), 3);
    }
}

#[test]
fn a_trace_is_bounded_and_says_what_it_dropped() {
    let trace = Trace::with_events(60);
    let workspace = Workspace::builder().workers(2).trace(trace.clone()).across_epochs(false).build().unwrap();
    let mut iterator = wrap(numbers(), &workspace).unwrap();
    for _ in 0..5 {
        iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
    }
    drop((iterator, workspace));
    let (kept, dropped) = trace.counts();
    assert!((50..=60).contains(&kept) && dropped >= 300, "{kept} {dropped}");
    let read = read(&trace.to_json());
    assert_eq!(read.dropped, dropped);
    assert!(read.flows.len() < 50, "only those of which both ends are kept");
    for steps in read.flows.values() {
        assert!(steps[0].0 == "s" && steps[steps.len() - 1].0 == "f");
    }
}

#[test]
fn settings_name_a_file_that_is_written_when_the_iterator_drops() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("loader.toml");
    let iris = std::fs::canonicalize("fixtures/iris.csv").unwrap();
    std::fs::write(&settings, format!("trace = \"run.json\"\n[source]\npath = {iris:?}\n")).unwrap();
    let loader = Loader::from(LoaderConfig::load(&settings).unwrap());
    let file = folder.path().join("run.json");
    let mut iterator = loader.build().unwrap();
    assert!(read(&std::fs::read_to_string(&file).unwrap()).slices.is_empty(), "it is there, and empty");
    iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
    drop(iterator);
    let written = read(&std::fs::read_to_string(&file).unwrap());
    written.check_nesting();
    assert_eq!(written.named("next").count(), 6);
    let error = loader.trace(folder.path().join("missing/run.json")).workspace().unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    assert_eq!(error.kind(), ringfeed::ErrorKind::NotFound);
}

#[test]
fn a_trace_is_no_new_file_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "x\n1\n").unwrap();
    let loader = Loader::open(folder.path().join("*")).unwrap().field("x", Numbers::of(DType::F32));
    let new = folder.path().join("run.json");
    let error = loader.clone().trace(&new).build().err().expect("it would be read");
    assert!(error.to_string().contains("is read with the same settings"), "{error}");
    assert!(!new.exists());
}

#[test]
fn what_is_finished_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let trace = Trace::to_file(&file).unwrap();
    trace.finish().unwrap();
    std::fs::write(&file, "mine").unwrap();
    trace.finish().unwrap();
    drop(trace);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}
