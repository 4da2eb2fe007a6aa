//! Every format over a storage that is not local: the same samples, and nothing of them is read that was not asked for
//! ahead.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::Path;
use std::sync::Arc;

use crate::common::{see_all, watchdog};
use crate::samples::{Sample, samples};
use ringfeed::memory::MemoryBudget;
use ringfeed::order::State;
use ringfeed::settings::SourceConfig;
use ringfeed::storage::{Files, InMemory};
use ringfeed::{DataSetIterator, Loader, LoaderConfig};

fn loader(sample: &Sample, root: &Path) -> Loader {
    let source = sample.source(&root.join("data").join(&sample.path));
    let settings = format!(r#"{{"source": {source}, "batch_size": 1{}}}"#, sample.fields);
    LoaderConfig::from_json(&settings).unwrap_or_else(|error| panic!("{}: {error}", sample.format)).into()
}

/// What `inspect` says of the sample below `root`, with paths as below it.
fn inspected(sample: &Sample, root: &Path, files: &Files) -> String {
    let source = sample.source(&root.join("data").join(&sample.path));
    let source: SourceConfig = serde_json::from_str(&source).unwrap();
    let inspected = source.inspect(files, &MemoryBudget::unlimited());
    let inspected = inspected.unwrap_or_else(|error| panic!("{}: {error}", sample.format));
    let text = serde_json::to_string(&inspected).unwrap();
    if root.as_os_str().is_empty() { text } else { text.replace(&format!("{}/", root.display()), "") }
}

/// Samples and batches by the plan, and good and bad samples by verifying.
fn planned(loader: &Loader, what: &str) -> ((Option<u64>, Option<u64>), (u64, u64)) {
    let plan = loader.plan().unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = loader.verify(|_| {}).unwrap_or_else(|error| panic!("{what}: {error}"));
    ((plan.samples, plan.batches_per_epoch), (found.samples, found.bad_samples))
}

#[test]
fn every_format_reads_a_storage_and_asks_for_all_of_it_ahead() {
    watchdog::watch();
    for sample in samples().iter().filter(|sample| sample.is_read) {
        let what = sample.format;
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in &sample.files {
            let path = folder.path().join("data").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let expected = see_all(&mut *loader(sample, folder.path()).build().unwrap());
        let inspected = inspected(sample, folder.path(), &Files::local());
        let planned = planned(&loader(sample, folder.path()), what);
        let in_memory = sample
            .files
            .iter()
            .fold(InMemory::new(), |files, (name, bytes)| files.with(Path::new("data").join(name), bytes.clone()));
        let files = Files::of(Arc::new(in_memory), &MemoryBudget::unlimited());
        let stored = loader(sample, Path::new("")).files(files.clone());
        assert_eq!(self::inspected(sample, Path::new(""), &files), inspected, "{what}");
        let (plan, found) = self::planned(&stored, what);
        assert_eq!(found, planned.1, "{what}");
        // A compressed file is a stream if it is local, and unpacked otherwise.
        assert!(planned.0.0.is_none() || planned.0 == plan, "{what}: {planned:?} {plan:?}");
        let mut batches = stored.build().unwrap_or_else(|error| panic!("{what}: {error}"));
        // Opening and the first batch, which sizes the ring, read what nobody could know of.
        batches.next().unwrap().unwrap_or_else(|error| panic!("{what}: {error}"));
        batches.seek(&State::new(batches.state().seed)).unwrap();
        let unforeseen = files.stats().unwrap().unforeseen;
        assert_eq!(see_all(&mut *batches), expected, "{what}");
        assert_eq!(files.stats().unwrap().unforeseen, unforeseen, "{what}");
    }
}
