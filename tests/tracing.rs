//! What a subscriber hears at the borders of the stages.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};

use common::{Flaky, Trouble, Waves, see_all, workspace};
use ringfeed::{AsyncDataSetIterator, BadLimits, BadRecords, DataSetIterator, ErrorKind, ReaderSource};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes the names of spans and the fields of events down, and panics in our threads where it is told to.
#[derive(Clone, Default)]
struct Heard {
    lines: Arc<Mutex<Vec<String>>>,
    panics_at: Arc<Mutex<Option<&'static str>>>,
}

impl Heard {
    fn hear(&self, line: String) {
        let is_ours = std::thread::current().name().is_some_and(|name| name.starts_with("ringfeed-"));
        let panics = is_ours && self.panics_at.lock().unwrap().is_some_and(|at| line.contains(at));
        self.lines.lock().unwrap().push(line);
        assert!(!panics, "a subscriber's own fault");
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ringfeed")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.hear(format!("span {}", span.metadata().name()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(format!("{} ", event.metadata().level()));
        event.record(&mut text);
        self.hear(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn stages_are_spans_and_skipped_records_are_warnings() {
    let heard = Heard::default();
    tracing::subscriber::set_global_default(heard.clone()).unwrap();
    let source = ReaderSource::new(Flaky::new(30, &[7], Trouble::FailInDecode))
        .batch_size(10)
        .bad_records(BadRecords::Skip(BadLimits::default()));
    let iterator = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 29);
    let lines = std::mem::take(&mut *heard.lines.lock().unwrap());
    a_subscriber_that_panics_is_an_error_in_its_place(&heard);
    let heard = lines;
    for span in ["span plan", "span fill"] {
        assert!(heard.iter().any(|line| line == span), "{span} in {heard:?}");
    }
    let warnings: Vec<_> = heard.iter().filter(|line| line.starts_with("WARN")).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("record 7 is bad") && warnings[0].contains("position=7"), "{warnings:?}");
    assert_eq!(heard.iter().filter(|line| line.contains("handed out")).count(), 3);
}

/// In the same test, because a subscriber is the whole process's.
fn a_subscriber_that_panics_is_an_error_in_its_place(heard: &Heard) {
    let source = || ReaderSource::new(Waves::new(10_000, 20)).batch_size(1000);
    let whole = see_all(&mut AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap());
    for at in ["span plan", "span fill", "span measure", "has its slot"] {
        let mut iterator = AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap();
        // Rows are measured by the workers from the second batch on, where measuring one takes long enough.
        assert!(iterator.next().unwrap().is_ok());
        *heard.panics_at.lock().unwrap() = Some(at);
        let mut seen = 1;
        let error = loop {
            match iterator.next() {
                Some(Ok(batch)) => {
                    assert_eq!(common::see(&batch), whole[seen]);
                    seen += 1;
                }
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        *heard.panics_at.lock().unwrap() = None;
        match error {
            Some(error) => {
                assert_eq!(error.kind(), ErrorKind::Panicked, "{at}: {error}");
                assert!(error.to_string().contains("own fault"), "{at}: {error}");
                assert!(iterator.next().is_none());
            }
            None => assert!(at == "span measure" && seen == 10, "{at} was not met in {seen} batches"),
        }
        iterator.reset().unwrap();
        let samples: usize = iterator.map(|batch| batch.unwrap().len()).sum();
        assert_eq!(samples, 10_000, "{at}");
    }
}
