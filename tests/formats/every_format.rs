//! Every format of the table: a small sample of each is cut off at every byte, and each of its bytes is changed. There
//! is no panic, no hang and no more memory than was allowed; what is not the same is an error that names the file.

use std::collections::BTreeSet;

use crate::common::watchdog;
use crate::damaged::{Bench, check};
use crate::samples::{Sample, Told, gzip, samples};
use ringfeed::ErrorKind;
use ringfeed::formats::Formats;

#[test]
fn there_is_a_sample_of_every_format() {
    let known: BTreeSet<&str> = Formats::new().names().into_iter().collect();
    let sampled: BTreeSet<&str> = samples().iter().map(|sample| sample.format).collect();
    assert_eq!(sampled, known, "a format that is added needs a sample here");
    for sample in samples() {
        watchdog::watch();
        let bench = Bench::new(&sample);
        let (records, error) = bench.read(sample.whole());
        match sample.is_read {
            true => assert!(!records.is_empty() && error.is_none(), "{}: {error:?}", sample.format),
            false => {
                let error = error.unwrap();
                assert!(
                    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Config),
                    "{}: {error}",
                    sample.format
                );
                assert!(error.message().contains("build with the feature"), "{}: {error}", sample.format);
            }
        }
        assert!(sample.whole().len() < 4000, "{}: a sample is small", sample.format);
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_an_error_or_one_of_fewer_records() {
    for sample in samples().into_iter().filter(|sample| sample.is_read) {
        watchdog::watch();
        let bench = Bench::new(&sample);
        let (whole, _) = bench.read(sample.whole());
        for len in 0..sample.whole().len() {
            let what = || format!("{} {} cut to {len} bytes", sample.format, sample.damaged);
            let (found, error) = bench.read(&sample.whole()[..len]);
            if let Some(error) = &error {
                check(error, &what, bench.folder.path());
            }
            // The last one may be what is left of a line.
            let sure = if error.is_none() { found.len().saturating_sub(1) } else { found.len() };
            assert!(found.len() <= whole.len() && found[..sure] == whole[..sure], "{}: other records", what());
            // Without a header, an empty file is one of no records, however the others are compressed.
            let is_silent = error.is_none() && found != whole && len > 0;
            assert!(!is_silent || sample.told == Told::Nothing, "{}: records are lost in silence", what());
        }
    }
}

#[test]
fn a_byte_that_is_changed_anywhere_is_an_error_or_another_value() {
    for sample in samples().into_iter().filter(|sample| sample.is_read) {
        watchdog::watch();
        let bench = Bench::new(&sample);
        let (whole, _) = bench.read(sample.whole());
        for at in 0..sample.whole().len() {
            for byte in [0x00, 0x7f, 0xff] {
                let mut changed = sample.whole().to_vec();
                if std::mem::replace(&mut changed[at], byte) == byte {
                    continue;
                }
                let what = || format!("{} {} with byte {at} as {byte:#04x}", sample.format, sample.damaged);
                let (found, error) = bench.read(&changed);
                match &error {
                    Some(error) => check(error, &what, bench.folder.path()),
                    None => assert!(
                        sample.told != Told::All || found == whole,
                        "{}: a wrong value that a checksum tells",
                        what()
                    ),
                }
            }
        }
    }
}

/// Whether it is not compressed here, but may be.
fn is_unpacked(sample: &Sample) -> bool {
    let formats = ["csv", "jsonl", "libsvm", "text", "tfrecord", "idx"];
    formats.contains(&sample.format) && !sample.whole().starts_with(&[0x1f, 0x8b])
}

#[test]
fn what_unpacks_to_more_than_is_allowed_is_an_error() {
    for mut sample in samples() {
        // IDX files say how much there is, and CSV files in their own order are never there as a whole.
        if !is_unpacked(&sample) || ["idx", "csv"].contains(&sample.format) {
            continue;
        }
        let len = sample.whole().len();
        let packed = gzip(sample.whole());
        for (limit, is_read) in [(len, true), (len - 1, false), (1, false)] {
            sample.options = format!(", \"options\": {{\"max_unpacked_bytes\": {limit}}}");
            watchdog::watch();
            let bench = Bench::new(&sample);
            match bench.read(&packed).1 {
                None => assert!(is_read, "{}: {limit} bytes", sample.format),
                Some(error) => {
                    let name = sample.format;
                    assert!(!is_read && error.kind() == ErrorKind::Limit, "{name}, {limit} bytes: {error}");
                    check(&error, &|| name.to_owned(), bench.folder.path());
                }
            }
        }
    }
}

/// As `cat one.gz other.gz` and programs that write to a pipe leave it: the length at its end is that of the last part.
#[test]
fn what_was_appended_to_a_gzip_file_is_read() {
    for sample in samples() {
        if !is_unpacked(&sample) {
            continue;
        }
        watchdog::watch();
        let bench = Bench::new(&sample);
        let (whole, _) = bench.read(sample.whole());
        for cut in [1, sample.whole().len() / 2, sample.whole().len() - 1] {
            let (one, other) = sample.whole().split_at(cut);
            let (found, error) = bench.read(&[gzip(one), gzip(&[]), gzip(other), vec![0; 512]].concat());
            assert!(error.is_none() && found == whole, "{} in parts of {cut}: {error:?}", sample.format);
        }
    }
}
