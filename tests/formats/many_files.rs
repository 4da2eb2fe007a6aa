//! Many files as one data set, for every format: the bytes of one file that holds all, in whatever way batches are
//! made.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use crate::common::{Seen, see, see_all};
use crate::own_format::Shouting;
use ringfeed::formats::Formats;
use ringfeed::inspect::verify_with;
use ringfeed::order::{Part, Shard};
use ringfeed::{ErrorKind, Loader, LoaderConfig, Result};
use tempfile::TempDir;

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

/// Settings with `FOLDER` written out.
fn config(folder: &Path, settings: &str) -> LoaderConfig {
    LoaderConfig::from_json(&settings.replace("FOLDER", folder.to_str().unwrap())).unwrap()
}

fn seen(config: &LoaderConfig) -> Vec<Seen> {
    see_all(&mut *Loader::from(config.clone()).build().unwrap())
}

fn error_of(config: &LoaderConfig) -> ringfeed::Error {
    match Loader::from(config.clone()).build() {
        Ok(_) => panic!("it opens"),
        Err(error) => error,
    }
}

/// Several files give what one gives; in any order, by any workers, behind a shield, on shards, and after a restart.
fn are_one(whole: &LoaderConfig, many: &LoaderConfig) {
    assert_eq!(seen(whole), seen(many));
    let shuffled = LoaderConfig {
        shuffle: Some(7),
        batch_size: 3,
        workers: Some(1.into()),
        prefetch: Some(0.into()),
        ..many.clone()
    };
    let expected =
        seen(&LoaderConfig { sources: whole.sources.clone(), source: whole.source.clone(), ..shuffled.clone() });
    for (workers, prefetch, shield) in [(1, 0, false), (3, 2, false), (2, 1, true)] {
        let config =
            LoaderConfig { workers: Some(workers.into()), prefetch: Some(prefetch.into()), shield, ..shuffled.clone() };
        assert_eq!(seen(&config), expected, "{workers} workers");
        let mut stopped = Loader::from(config.clone()).build().unwrap();
        stopped.next().unwrap().unwrap();
        let state = stopped.state();
        let mut again = Loader::from(config).build().unwrap();
        again.seek(&state).unwrap();
        assert_eq!(see_all(&mut *again), expected[1..]);
    }
    let mut dealt: Vec<(u64, u64)> = (0..2)
        .flat_map(|index| seen(&LoaderConfig { shard: Shard::new(index, 2).unwrap(), ..shuffled.clone() }))
        .flat_map(|batch| batch.positions.into_iter().zip(batch.samples))
        .collect();
    dealt.sort_unstable();
    let all = expected.iter().flat_map(|batch| batch.positions.iter().copied().zip(batch.samples.iter().copied()));
    let all: Vec<_> = all.collect();
    assert_eq!(dealt[..all.len()], all);
}

#[test]
fn csv_files_are_one_table_with_one_list_of_names() {
    // No file holds all kinds and cities, and the first has whole numbers alone.
    let parts = ["1,oslo,a\n2,rome,a\n3,oslo,a\n", "2.5,bern,b\n4,bern,c\n", "5,oslo,a\n6,zug,b\n7,rome,c\n8,bern,a\n"];
    let named = |part: &str| format!("size,city,kind\n{part}");
    let folder = folder(&[
        ("all.csv", named(&parts.concat()).as_bytes()),
        ("parts/0.csv", named(parts[0]).as_bytes()),
        ("parts/1.csv", named(parts[1]).as_bytes()),
        ("parts/10.csv", named(parts[2]).as_bytes()),
        ("parts/_SUCCESS", b""),
        ("parts/.0.csv.crc", b"crc"),
    ]);
    for options in [
        r#""fields": {"x": {"from": "*", "numbers": "f32"}, "y": {"from": "kind", "class": []}}"#,
        r#""fields": {"x": {"from": "*", "numbers": "f32"}, "y": {"from": "kind", "class": [], "one_hot": true}}"#,
        r#""fields": {"size": {"numbers": "f32"}, "city": "category", "kind": "class"}"#,
        r#""fields": {"city": {"text": 5}, "kind": "class"}"#,
        r#""fields": {"size": {"from": "size", "numbers": "f64"}, "kind": {"class": ["c", "b", "a"]}}"#,
        r#""fields": {"kind": "class", "all": {"from": ["size", "size"], "numbers": "f32", "missing": "nan"}}"#,
    ] {
        let whole =
            format!(r#"{{"batch_size": 4, "sources": [{{"format": "csv", "path": "FOLDER/all.csv", {options}}}]}}"#);
        let whole = config(folder.path(), &whole);
        for path in [
            r#""FOLDER/parts""#,
            r#""FOLDER/parts/*.csv""#,
            r#""FOLDER/parts/{0,1,10}.csv""#,
            r#"["FOLDER/parts/0.csv", "FOLDER/parts/1*.csv"]"#,
        ] {
            let text = format!(r#"{{"batch_size": 4, "sources": [{{"format": "csv", "path": {path}, {options}}}]}}"#);
            are_one(&whole, &config(folder.path(), &text));
        }
    }
    let glob = LoaderConfig::for_path(folder.path().join("parts/*.csv")).unwrap();
    assert_eq!((glob.sources[0].format(), seen(&glob)[0].samples.len()), ("csv", 9));
    let plan = Loader::from(config(folder.path(), r#"{"sources": [{"format": "csv", "path": "FOLDER/parts"}]}"#))
        .plan()
        .unwrap();
    assert_eq!((plan.samples, plan.sources[0].files, plan.sources[0].passed_over.len()), (Some(9), 3, 2));
}

/// As Spark and Databricks leave it, with marks of what is done and checksums beside each file.
#[test]
#[cfg(feature = "parquet")]
fn a_folder_that_spark_wrote_is_read_without_its_marks() {
    let table = std::fs::read(crate::common::fixture("small/table.parquet")).unwrap();
    let part = |n: u32| format!("part-{n:05}-6b1d2c3e-c000.snappy.parquet");
    let (first, second) = (part(0), part(1));
    let (of_first, of_second) = (format!(".{first}.crc"), format!(".{second}.crc"));
    let folder = folder(&[
        (&first, &table),
        (&second, &table),
        (&of_first, b"crc\0\0\0\x02\0\x01\x02"),
        (&of_second, b"crc\0\0\0\x02\0\x01\x02"),
        ("_SUCCESS", b""),
        ("._SUCCESS.crc", b"crc\0\0\0\x02\0"),
        ("_committed_4213", b"{\"added\": []}"),
        ("_started_4213", b""),
    ]);
    let loader = Loader::open(folder.path()).unwrap();
    assert_eq!(loader.config().sources[0].format(), "parquet");
    let batch = loader.batch_size(10).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("x").unwrap().as_slice::<i32>().unwrap(), [1, 2, 3, 1, 2, 3]);
    let report = ringfeed::inspect::verify(folder.path(), 1, |_| ()).unwrap();
    assert!(report.is_ok() && report.samples == 6, "{report:?}");
}

#[test]
fn compressed_files_are_among_those_of_a_folder() {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"a,b\n5,6\n").unwrap();
    let folder = folder(&[
        ("all.csv", b"a,b\n1,2\n3,4\n5,6\n"),
        ("parts/0.csv", b"a,b\n1,2\n3,4\n"),
        ("parts/1.csv.gz", &packed.finish().unwrap()),
    ]);
    let of = |path: &str| {
        config(folder.path(), &format!(r#"{{"sources": [{{"format": "csv", "path": "FOLDER/{path}"}}]}}"#))
    };
    are_one(&of("all.csv"), &of("parts"));
}

#[test]
fn files_that_do_not_go_together_are_an_error_that_names_both() {
    let folder = folder(&[
        ("a.csv", b"x,y\n1,2\n3,4\n"),
        ("b.csv", b"x,z\n1,2\n3,4\n"),
        ("c.csv", b"x,y,z\n1,2,3\n3,4,5\n"),
        ("d.csv", b"x,y\n1,2\n3\n"),
        ("a.npy", &npy("<f4", &[2, 2], &[0; 16])),
        ("b.npy", &npy("<f4", &[2, 3], &[0; 24])),
    ]);
    let many = |format: &str, names: [&str; 2]| {
        let paths = names.map(|name| format!("\"FOLDER/{name}\"")).join(",");
        config(folder.path(), &format!(r#"{{"sources": [{{"format": "{format}", "path": [{paths}]}}]}}"#))
    };
    for (format, names) in [("csv", ["a.csv", "b.csv"]), ("csv", ["a.csv", "c.csv"]), ("npy", ["a.npy", "b.npy"])] {
        let error = error_of(&many(format, names));
        assert_eq!(error.path().unwrap(), folder.path().join(names[1]), "{error}");
        assert!(error.message().contains(names[0]), "{error}");
    }
    // A bad record is in its own file.
    let batches = Loader::from(many("csv", ["a.csv", "d.csv"])).build().unwrap();
    let error = batches.map(|batch| batch.map(|_| ())).collect::<Result<Vec<_>>>().unwrap_err();
    assert_eq!((error.path(), error.location().record), (Some(&*folder.path().join("d.csv")), Some(1)), "{error}");
    let error = error_of(&config(folder.path(), r#"{"sources": [{"format": "csv", "path": "FOLDER/*.tsv"}]}"#));
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("*.tsv"), "{error}");
}

#[test]
fn json_lines_may_have_other_fields_in_other_files() {
    let parts = [
        "{\"n\": 1, \"kind\": \"b\"}\n{\"n\": 2, \"kind\": \"a\"}\n",
        "{\"n\": 3, \"kind\": \"c\", \"w\": 0.5}\n",
        "{\"n\": 4.5, \"kind\": \"a\", \"w\": 1.5, \"at\": {\"x\": 1}}\n{\"kind\": \"a\", \"n\": 5}\n",
    ];
    let folder = folder(&[
        ("all.jsonl", parts.concat().as_bytes()),
        ("parts/a.jsonl", parts[0].as_bytes()),
        ("parts/b.jsonl", parts[1].as_bytes()),
        ("parts/c.jsonl", parts[2].as_bytes()),
    ]);
    let settings = |path: &str| {
        let fields = r#"{"n": {"numbers": "f32"}, "kind": "class", "w": {"numbers": "f32", "missing": "nan"},
            "x": {"from": "/at/x", "numbers": "f32", "missing": -1}}"#;
        config(folder.path(), &format!(r#"{{"batch_size": 2, "source": {{"path": {path}}}, "fields": {fields}}}"#))
    };
    let whole = settings(r#""FOLDER/all.jsonl""#);
    for path in
        [r#""FOLDER/parts""#, r#""FOLDER/**/?.jsonl""#, r#"["FOLDER/parts/a.jsonl", "FOLDER/parts/{b,c}.jsonl"]"#]
    {
        are_one(&whole, &settings(path));
    }
    let missing = config(
        folder.path(),
        r#"{"source": {"path": "FOLDER/parts"}, "fields": {"v": {"from": "weight", "numbers": "f32"}}}"#,
    );
    assert_eq!(error_of(&missing).kind(), ErrorKind::NotFound);
    let report = verify_with(folder.path().join("parts"), &Formats::new(), 2, |_| ()).unwrap();
    assert_eq!((report.samples, report.bad_samples), (5, 0));
    let inspection = Formats::new().inspect(folder.path().join("parts/*.jsonl")).unwrap();
    assert_eq!((inspection.records, inspection.fields.len()), (5, 4));
}

fn npy(kind: &str, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({},), }}", shape.join(", "));
    let header = format!("{header:<117}\n");
    [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), bytes].concat()
}

#[test]
fn arrays_tokens_and_lines_of_many_files_are_those_of_one() {
    let floats: Vec<u8> = (0..24u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let tokens: Vec<u8> = (0..40u16).flat_map(u16::to_le_bytes).collect();
    let folder = folder(&[
        ("all.npy", &npy("<f4", &[8, 3], &floats)),
        ("npy/0.npy", &npy("<f4", &[5, 3], &floats[..60])),
        ("npy/1.npy", &npy("<f4", &[3, 3], &floats[60..])),
        ("all.bin", &floats),
        ("raw/0.bin", &floats[..24]),
        ("raw/1.bin", &floats[24..]),
        ("all.tok", &tokens),
        ("tok/0.tok", &tokens[..32]),
        ("tok/1.tok", &tokens[32..]),
        ("all.txt", b"one\ntwo\nthree\n"),
        ("txt/0.txt", b"one\n"),
        ("txt/1.txt", b"two\nthree\n"),
    ]);
    for (format, one, many, more) in [
        ("npy", "all.npy", "npy", ""),
        ("npy", "all.npy", "npy/*.npy", ""),
        ("raw", "all.bin", "raw", r#", "options": {"stored": "f32", "shape": [3]}"#),
        ("tokens", "all.tok", "tok", r#", "options": {"window": 4, "cut": {"contiguous": {}}, "targets": "none"}"#),
        ("text", "all.txt", "txt", r#", "fields": {"line": {"text": 8}}"#),
    ] {
        let of = |path: &str| {
            let text =
                format!(r#"{{"batch_size": 2, "sources": [{{"format": "{format}", "path": "FOLDER/{path}"{more}}}]}}"#);
            config(folder.path(), &text)
        };
        are_one(&of(one), &of(many));
    }
}

#[test]
fn archives_are_listed_in_the_order_of_their_names_by_any_pattern() {
    let archive = |names: std::ops::Range<u8>| {
        let mut builder = tar::Builder::new(Vec::new());
        for name in names {
            let mut header = tar::Header::new_ustar();
            header.set_size(1);
            builder.append_data(&mut header, format!("{name:03}.cls"), &[b'0' + name % 3][..]).unwrap();
        }
        builder.into_inner().unwrap()
    };
    let folder = folder(&[
        ("all.tar", &archive(0..8)),
        ("t/0.tar", &archive(0..3)),
        ("t/1.tar", &archive(3..4)),
        ("t/2.tar", &archive(4..8)),
    ]);
    let of = |path: &str| {
        let fields = r#"{"cls": {"numbers": "i64"}}"#;
        config(folder.path(), &format!(r#"{{"sources": [{{"format": "tar", "path": {path}, "fields": {fields}}}]}}"#))
    };
    for path in [
        r#""FOLDER/t""#,
        r#""FOLDER/t/*.tar""#,
        r#""FOLDER/t/{0..2}.tar""#,
        r#"["FOLDER/t/0.tar", "FOLDER/t/[12].tar"]"#,
    ] {
        are_one(&of(r#""FOLDER/all.tar""#), &of(path));
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_and_arrow_files_are_read_by_a_pattern_or_a_list() {
    let numbers = r#"{"n": {"from": "i32", "numbers": "i32", "missing": 0}}"#;
    for (format, fixture, fields) in
        [("parquet", "fixtures/parquet/many.parquet", "{}"), ("arrow", "fixtures/arrow/feather.feather", numbers)]
    {
        let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture)).unwrap();
        let extension = fixture.rsplit('.').next().unwrap();
        let names: Vec<String> = (0..3).map(|at| format!("p/train-{at}.{extension}")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &bytes[..])).collect();
        let folder = folder(&files);
        let fields = config(folder.path(), &format!(r#"{{"fields": {fields}}}"#)).fields;
        let read_as = |sources| LoaderConfig { sources, fields: fields.clone(), ..LoaderConfig::default() };
        let of = |path: &str| read_as(Formats::new().detect(folder.path().join(path)).unwrap());
        let len = |config: &LoaderConfig| Loader::from(config.clone()).plan().unwrap().samples.unwrap();
        let one = of(&names[0]);
        assert_eq!((one.sources[0].format(), len(&of("p"))), (format, 3 * len(&one)));
        are_one(&of("p"), &of(&format!("p/train-*.{extension}")));
        let list: ringfeed::settings::Paths = names.iter().map(|name| folder.path().join(name)).collect();
        are_one(&of("p"), &read_as(Formats::new().detect_all(&list).unwrap()));
    }
}

#[test]
fn a_format_of_a_users_own_reads_many_files_without_a_word_of_its_own() {
    let folder = folder(&[
        ("all.loud", b"SHOUT\nhear\nSHOUT\nSHOUT\nhere\n"),
        ("l/a.loud", b"SHOUT\nhear\n"),
        ("l/b.loud", b"SHOUT\n"),
        ("l/c.loud", b"SHOUT\nhere\n"),
    ]);
    let formats = Formats::new().with(Shouting);
    let open = |path: &str| {
        let loader = Loader::open_with(folder.path().join(path), &formats).unwrap();
        see_all(&mut *loader.field("words", ringfeed::field::Text::new(8).from("line")).build().unwrap())
    };
    assert_eq!(open("l/*.loud"), open("all.loud"));
    let report = verify_with(folder.path().join("l/*.loud"), &formats, 1, |_| ()).unwrap();
    assert_eq!((report.samples, report.bad_samples), (5, 0));
}

#[test]
fn records_keep_their_part_of_a_split_when_files_are_added() {
    let text = |first: u32| (first..first + 50).map(|i| format!("{i}\n")).collect::<String>();
    let folder = folder(&[("p/b.csv", text(0).as_bytes()), ("p/c.csv", text(50).as_bytes())]);
    let train = || {
        let mut config = config(
            folder.path(),
            r#"{"sources": [{"format": "csv", "path": "FOLDER/p", "options": {"header": "no"}}]}"#,
        );
        config.split =
            Some(ringfeed::order::Split { train: 0.6, validation: 0.3, test: 0.1, seed: 3, part: Part::Train });
        let mut batches = Loader::from(config).build().unwrap();
        let values = batches.by_ref().flat_map(|batch| {
            batch.unwrap().features().unwrap().as_slice::<f32>().unwrap().iter().map(|x| *x as i64).collect::<Vec<_>>()
        });
        values.collect::<Vec<_>>()
    };
    let before = train();
    assert!((40..80).contains(&before.len()));
    // Records of the same place in two files are in parts of their own.
    let of =
        |range: std::ops::Range<i64>| before.iter().filter(|x| range.contains(x)).map(|x| x % 50).collect::<Vec<_>>();
    assert_ne!(of(0..50), of(50..100));
    std::fs::write(folder.path().join("p/a.csv"), text(100)).unwrap();
    let after: Vec<i64> = train().into_iter().filter(|x| *x < 100).collect();
    assert_eq!(after, before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_thousand_files_are_open_some_at_a_time() {
    let lines: Vec<(String, String)> =
        (0..1000).map(|at| (format!("p/{at:04}.csv"), format!("{at},{at}\n{at},1\n"))).collect();
    let files: Vec<(&str, &[u8])> = lines.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    let folder = folder(&files);
    let whole: String = lines.iter().map(|(_, text)| text.as_str()).collect();
    std::fs::write(folder.path().join("all.csv"), whole).unwrap();
    let of = |path: &str| {
        let text = format!(
            r#"{{"batch_size": 100, "sources": [{{"format": "csv", "path": "FOLDER/{path}", "options": {{"header": "no"}}}}]}}"#
        );
        config(folder.path(), &text)
    };
    are_one(&of("all.csv"), &of("p"));
    let mut batches = Loader::from(LoaderConfig { shuffle: Some(1), ..of("p") }).build().unwrap();
    let mut most = 0;
    for batch in batches.by_ref() {
        see(&batch.unwrap());
        let own = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        let ours = own.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        most = most.max(ours.filter(|path| path.starts_with(folder.path())).count());
    }
    assert!((1..200).contains(&most), "{most} files are open");
}

#[test]
fn classes_that_are_names_in_one_file_and_numbers_in_another_are_an_error_where_they_change() {
    let files: [(&str, &[u8]); 2] = [
        ("p/0.jsonl", b"{\"c\": \"x\"}\n{\"c\": \"y\"}\n"),
        ("p/1.jsonl", b"{\"c\": \"x\"}\n{\"c\": 3}\n{\"c\": 4}\n"),
    ];
    let folder = folder(&files);
    let settings =
        r#"{"sources": [{"format": "jsonl", "path": "FOLDER/p", "fields": {"label": {"from": "/c", "class": []}}}]}"#;
    let error = error_of(&config(folder.path(), settings));
    let place = error.location();
    assert_eq!((error.kind(), place.record, place.byte), (ErrorKind::Data, Some(1), Some(11)), "{error}");
    assert_eq!(place.path.as_deref(), Some(&*folder.path().join("p/1.jsonl")), "{error}");
    assert!(error.message().contains("the class is 3, but \"x\" in "), "{error}");
    assert!(error.message().contains("0.jsonl: record 0"), "{error}");
}

#[test]
fn a_field_of_other_depth_in_another_file_is_a_list_as_in_one_file() {
    for (one, other) in [
        (r#"{"a": 7, "e": 1}"#, r#"{"a": 8, "e": [1, 2]}"#),
        (r#"{"a": 7, "e": []}"#, r#"{"a": 8, "e": [[1, 2], [3, 4]]}"#),
        (r#"{"a": 7, "e": [1]}"#, r#"{"a": 8, "e": [[1, 2], [3, 4]]}"#),
        (r#"{"a": 7, "e": [[1, 2]]}"#, r#"{"a": 8, "e": []}"#),
    ] {
        let [one, other] = [one, other].map(|line| format!("{line}\n"));
        let folder = folder(&[
            ("all.jsonl", (one.clone() + &other).as_bytes()),
            ("p/0.jsonl", one.as_bytes()),
            ("p/1.jsonl", other.as_bytes()),
        ]);
        let formats = Formats::new();
        let [whole, parts] = ["all.jsonl", "p"].map(|path| formats.inspect(folder.path().join(path)).unwrap().fields);
        assert_eq!(serde_json::to_value(whole).unwrap(), serde_json::to_value(parts).unwrap(), "{one} {other}");
        let of = |path: &str| config(folder.path(), &format!(r#"{{"source": "FOLDER/{path}", "batch_size": 2}}"#));
        assert_eq!(format!("{:?}", seen(&of("all.jsonl"))), format!("{:?}", seen(&of("p"))), "{one} {other}");
    }
}

#[test]
fn a_file_of_bad_records_alone_is_no_fault_of_the_others() {
    let folder = folder(&[
        ("all.jsonl", b"{\"x\": 1}\nnot json\nnor this\n{\"x\": 2}\n"),
        ("p/0.jsonl", b"{\"x\": 1}\n"),
        ("p/1.jsonl", b"not json\nnor this\n"),
        ("p/2.jsonl", b"{\"x\": 2}\n"),
    ]);
    let of = |path: &str| {
        let fields = r#"{"x": {"numbers": "f32", "missing": -1}}"#;
        config(folder.path(), &format!(r#"{{"source": "FOLDER/{path}", "bad_records": "skip", "fields": {fields}}}"#))
    };
    assert_eq!(format!("{:?}", seen(&of("all.jsonl"))), format!("{:?}", seen(&of("p"))));
    let batch = Loader::from(of("p")).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("x").unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn a_field_of_which_one_file_has_only_nulls_is_that_of_the_other_files() {
    let lines: [(&str, &[u8]); 4] = [
        ("p/0.jsonl", b"{\"x\": null, \"y\": 1, \"l\": null, \"e\": []}\n"),
        ("p/1.jsonl", b"{\"x\": 1.5, \"y\": 2, \"l\": [1, 2], \"e\": [3, 4]}\n"),
        ("p/2.jsonl", b"{\"x\": null, \"y\": 3, \"l\": null, \"e\": []}\n"),
        ("none", b""),
    ];
    let whole: Vec<u8> = lines.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let folder = folder(&[&lines[..3], &[("all.jsonl", &whole)]].concat());
    let fields = r#"{"f": {"from": "*", "numbers": "f32", "missing": "nan"}, "l": {"numbers": "f32", "max_len": 3}, "e": {"numbers": "f32", "max_len": 3}}"#;
    let of = |path: &str| {
        let text = format!(r#"{{"sources": [{{"format": "jsonl", "path": "FOLDER/{path}", "fields": {fields}}}]}}"#);
        config(folder.path(), &text)
    };
    assert_eq!(format!("{:?}", seen(&of("all.jsonl"))), format!("{:?}", seen(&of("p"))));
    let batch = Loader::from(of("p")).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("f").unwrap().shape(), [3, 2]);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn indices_of_the_classes_of_two_folders_are_not_mixed_up() {
    let folder = tempfile::tempdir().unwrap();
    for class in ["a/cat", "a/dog", "b/dog", "b/fox"] {
        std::fs::create_dir_all(folder.path().join(class)).unwrap();
        std::fs::copy("fixtures/photos/flower.jpg", folder.path().join(class).join("1.jpg")).unwrap();
    }
    for (a, b, fits) in [("a", "b", false), ("a", "a", true)] {
        for field in ["numbers = \"i64\"", "category = []"] {
            let paths = [a, b].map(|name| folder.path().join(name));
            let settings = format!(
                "[source]\npath = {paths:?}\nformat = \"images\"\n[source.fields]\nimage = {{ image = [8, 8] }}\ny = {{ from = \"label\", {field} }}\n"
            );
            let built = Loader::from(toml::from_str::<LoaderConfig>(&settings).unwrap()).build().map(drop);
            match fits {
                true => built.unwrap(),
                false => {
                    let error = built.unwrap_err();
                    assert_eq!(
                        (error.kind(), error.location().column.as_deref()),
                        (ErrorKind::Schema, Some("y")),
                        "{error}"
                    );
                }
            }
        }
    }
}
