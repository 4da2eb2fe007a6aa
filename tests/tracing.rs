//! What a subscriber hears at the borders of the stages.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};

use common::{Flaky, Trouble, workspace};
use ringfeed::{AsyncDataSetIterator, BadLimits, BadRecords, ReaderSource};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes the names of spans and the fields of events down.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

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
        self.0.lock().unwrap().push(format!("span {}", span.metadata().name()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(format!("{} ", event.metadata().level()));
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
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
    let heard = heard.0.lock().unwrap().clone();
    for span in ["span plan", "span fill"] {
        assert!(heard.iter().any(|line| line == span), "{span} in {heard:?}");
    }
    let warnings: Vec<_> = heard.iter().filter(|line| line.starts_with("WARN")).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("record 7 is bad") && warnings[0].contains("position=7"), "{warnings:?}");
    assert_eq!(heard.iter().filter(|line| line.contains("handed out")).count(), 3);
}
