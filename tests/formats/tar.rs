//! Tar archives: against WebDataset's own reading of them, against the `tar` crate, and damaged in every way.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::common::{MAPPED, fixture, see_all, workspace};
use proptest::prelude::*;
use ringfeed::field::{Class, Field, Image, Numbers, Text};
use ringfeed::formats::{Formats, Tar};
use ringfeed::inspect::{TarSummary, verify};
use ringfeed::memory::MemoryBudget;
use ringfeed::read::RecordReader;
use ringfeed::settings::{BadLimits, BadRecords, SavedIndex};
use ringfeed::source::ReaderSource;
use ringfeed::storage::{Access, Files};
use ringfeed::tar::{TarOptions, TarReader};
use ringfeed::tensor::Dim;
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, ErrorKind, Loader, LoaderConfig, Result};
use serde_json::Value;

type Fields = Vec<(String, Field)>;

fn text(extension: &str, max_len: usize) -> Fields {
    vec![(extension.to_owned(), Text::new(max_len).into())]
}

fn number(member: &str, dtype: DType) -> Fields {
    vec![("number".to_owned(), Numbers::of(dtype).from(member))]
}

fn class(member: &str) -> Fields {
    vec![("label".to_owned(), Class.from(member))]
}

fn open(path: impl AsRef<std::path::Path>, fields: &Fields) -> Result<TarReader> {
    TarReader::with_fields(path, fields, &TarOptions::default())
}

/// An archive of these members, in GNU's format.
fn archive<N: AsRef<str>, B: AsRef<[u8]>>(members: impl IntoIterator<Item = (N, B)>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.as_ref().len() as u64);
        builder.append_data(&mut header, name.as_ref(), bytes.as_ref()).unwrap();
    }
    builder.into_inner().unwrap()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// What opening an archive of these bytes objects to.
    fn refusal(&self, bytes: &[u8]) -> ringfeed::Error {
        open(self.put("bad.tar", bytes), &text("txt", 100)).map(|_| ()).unwrap_err()
    }
}

/// Each text of the samples, decoded one after another.
fn texts(reader: TarReader) -> Vec<Vec<u8>> {
    let mut batches = AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(7), &workspace(2, 1)).unwrap();
    let mut texts = Vec::new();
    for batch in see_all(&mut batches) {
        let width = batch.shapes[0][1];
        for (row, len) in batch.tensors[1].chunks(8).enumerate() {
            let (text, padding) =
                batch.tensors[0][row * width..][..width].split_at(i64::from_ne_bytes(len.try_into().unwrap()) as usize);
            assert!(padding.iter().all(|byte| *byte == 0));
            texts.push(text.to_vec());
        }
    }
    texts
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn archives_are_read_as_webdataset_reads_them() {
    let expected: Value = serde_json::from_slice(&fs::read(fixture("tar/expected.json")).unwrap()).unwrap();
    let mut seen = 0;
    for (name, samples) in expected["archives"].as_object().unwrap() {
        let samples = samples.as_array().unwrap();
        let is_full = name.starts_with("wds");
        let image = Image::rgb(3, 4).dtype(DType::U8).order(ringfeed::images::PixelOrder::Nhwc);
        let mut fields = [vec![("image".to_owned(), image.into())], class("cls")].concat();
        if is_full {
            fields.extend([text("txt", 16), number("json:/box/1", DType::F32)].concat());
        }
        let reader = open(fixture("tar").join(name), &fields).unwrap();
        assert_eq!(reader.len(), samples.len() as u64, "{name}");
        assert_eq!(reader.ignored(), if is_full { 0 } else { 4 }, "{name}");
        for (sample, expected) in samples.iter().enumerate() {
            assert_eq!(reader.key(sample as u64), expected["key"].as_str().unwrap());
            assert_eq!(reader.label(sample as u64).map(u64::from), expected["cls"].as_u64());
        }
        let mut batches = AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(1), &workspace(2, 1)).unwrap();
        for (batch, expected) in see_all(&mut batches).iter().zip(samples) {
            let pixels: Vec<u64> = batch.tensors[0].iter().map(|value| (*value).into()).collect();
            assert_eq!(Value::from(pixels), expected["pixels"], "{name}");
            assert_eq!(i64::from_ne_bytes(batch.tensors[1][..].try_into().unwrap()), expected["cls"].as_i64().unwrap());
            if is_full {
                let text = expected["txt"].as_str().unwrap();
                assert_eq!(&batch.tensors[2][..text.len()], text.as_bytes());
                assert_eq!(i64::from_ne_bytes(batch.tensors[3][..].try_into().unwrap()), text.len() as i64);
                let number = f32::from_ne_bytes(batch.tensors[4][..].try_into().unwrap());
                assert_eq!(f64::from(number), expected["box"].as_f64().unwrap());
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 12);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_pattern_a_folder_and_a_list_are_the_same_archives() {
    let keys = |reader: TarReader| (0..reader.len()).map(|sample| reader.key(sample).into_owned()).collect::<Vec<_>>();
    let pattern = TarReader::open(fixture("tar/wds-{000..001}.tar"), &TarOptions::default()).unwrap();
    let list = [fixture("tar/wds-000.tar"), fixture("tar/wds-001.tar")];
    assert_eq!(pattern.archives().collect::<Vec<_>>(), list);
    let folder = Folder::new();
    for path in &list {
        fs::copy(path, folder.0.path().join(path.file_name().unwrap())).unwrap();
    }
    let keys_of_pattern = keys(pattern);
    assert_eq!(keys_of_pattern, ["n00/0000", "n01/0001", "n00/0002", "n01/0003", "n00/0004", "n01/0005"]);
    assert_eq!(keys(TarReader::from_paths(&list, &[], &TarOptions::default()).unwrap()), keys_of_pattern);
    assert_eq!(keys(TarReader::open(folder.0.path(), &TarOptions::default()).unwrap()), keys_of_pattern);
    let missing = TarReader::open(fixture("tar/wds-{000..002}.tar"), &TarOptions::default()).map(|_| ()).unwrap_err();
    assert!(missing.kind() == ErrorKind::NotFound && missing.to_string().contains("wds-002.tar"), "{missing}");
}

#[test]
fn classes_are_told_by_index_or_by_name_from_text_or_json() {
    let archives = fixture("tar/wds-{000..001}.tar");
    let labels = |reader: &TarReader| (0..6).map(|sample| reader.label(sample)).collect::<Vec<_>>();
    let indices = [Some(0), Some(1), Some(2), Some(0), Some(1), Some(2)];
    let by_json = open(&archives, &class("json:/label")).unwrap();
    assert_eq!((labels(&by_json).as_slice(), by_json.classes().len()), (&indices[..], 0));
    let by_name = open(&archives, &class("json:/name")).unwrap();
    assert_eq!(
        (labels(&by_name).as_slice(), by_name.classes()),
        (&indices[..], &["cat", "dog", "eel"].map(str::to_owned)[..])
    );
    let listed = Class::of(["eel", "cat"]).one_hot().from("json:/name");
    let listed = open(&archives, &vec![("label".to_owned(), listed)]).unwrap();
    assert_eq!(labels(&listed), [Some(1), None, Some(0), Some(1), None, Some(0)]);
    let limits = BadRecords::Skip(BadLimits::default());
    let source = ReaderSource::new(listed).batch_size(6).bad_records(limits);
    let mut batches = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!(batch.labels().unwrap().as_slice::<f32>().unwrap(), [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    let bad = batches.bad_records();
    assert!(bad.iter().all(|bad| bad.error.to_string().contains("class \"dog\" is not among")), "{bad:?}");
    let by_text = open(&archives, &class("txt")).unwrap();
    assert_eq!(by_text.classes(), ["", "chien", "tabby cat", "x", "Österreich", "猫"]);
    // How many indices there are, they tell themselves; a type must hold them.
    let one_hot = open(&archives, &vec![("label".to_owned(), Class.one_hot().from("cls"))]).unwrap();
    assert_eq!(one_hot.tensors()[0].shape, [Dim::Fixed(3)]);
    let typed = open(&archives, &vec![("label".to_owned(), Class::of(["a", "b", "c"]).dtype(DType::U8).from("cls"))]);
    assert_eq!((typed.unwrap().tensors()[0].dtype, one_hot.classes().len()), (DType::U8, 0));
}

#[test]
fn names_that_are_numbers_and_names_among_indices_are_told_apart() {
    let folder = Folder::new();
    let pack = |classes: &[&str]| {
        let members = classes.iter().enumerate().map(|(nth, class)| (format!("{nth}.cls"), (*class).to_owned()));
        folder.put("classes.tar", archive(members))
    };
    let labels = |path: PathBuf, field: Field| {
        let reader = open(path, &vec![("label".to_owned(), field)]).unwrap();
        (0..reader.len()).map(|sample| reader.label(sample)).collect::<Vec<_>>()
    };
    // One index makes all of them indices.
    assert_eq!(
        labels(pack(&["2", "cat", "007", "3.0", "-1"]), Class.from("cls")),
        [Some(2), None, Some(7), Some(3), None]
    );
    // Beside listed names an index is one of them, unless a name is a number itself.
    assert_eq!(labels(pack(&["1", "cat", "2"]), Class::of(["dog", "cat"]).from("cls")), [Some(1), Some(1), None]);
    assert_eq!(labels(pack(&["10", "007", "1"]), Class::of(["007", "10"]).from("cls")), [Some(1), Some(0), None]);
}

#[test]
fn a_class_without_a_member_is_the_usual_one_unless_there_are_several() {
    let folder = Folder::new();
    let members = (0..3).flat_map(|nth| {
        [("cls", nth.to_string()), ("fine", (10 + nth).to_string()), ("json", format!("{{\"y\": {}}}", 20 + nth))]
            .map(|(extension, text)| (format!("{nth}.{extension}"), text))
    });
    let path = folder.put("a.tar", archive(members));
    let of = |fields: &[(&str, Field)]| {
        let loader = fields.iter().fold(Loader::tar(&path), |loader, (name, field)| loader.field(*name, field.clone()));
        let batch = loader.batch_size(3).build().unwrap().next().unwrap().unwrap();
        let first = |name: &str| batch.tensor(name).unwrap().as_slice::<i64>().unwrap()[0];
        fields.iter().map(|(name, _)| first(name)).collect::<Vec<_>>()
    };
    let y = || Class.from("json:/y");
    assert_eq!(of(&[("fine", Class.into())]), [0]);
    assert_eq!(of(&[("label", Class.into()), ("y", y())]), [0, 20]);
    assert_eq!(of(&[("y", y()), ("label", Class.into())]), [20, 0]);
    assert_eq!(of(&[("fine", Class.into()), ("cls", Class.into())]), [10, 0]);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn what_a_sample_lacks_or_holds_wrongly_is_a_bad_record_with_its_place() {
    let folder = Folder::new();
    let png = fs::read(fixture("images/rgb.png")).unwrap();
    let path = folder.put(
        "a.tar",
        archive([
            ("0.png", &png[..]),
            ("0.cls", b"0"),
            ("1.cls", b"1"),
            ("2.png", &png),
            ("3.png", &png),
            ("3.cls", b"three"),
            ("4.png", b"no image"),
            ("4.cls", b"4"),
            ("5.png", &png),
            ("5.cls", b"-1"),
        ]),
    );
    let report = verify(&path, 2, |_| {}).unwrap();
    assert_eq!((report.samples, report.bad_samples), (6, 5));
    let rgb = (png.len() as u64).next_multiple_of(512);
    let expected = [
        (1, "1", None, "the sample has no such member"),
        (2, "2.cls", None, "the sample has no such member"),
        (3, "3.cls", Some(3 * rgb + 8 * 512), "the class is \"three\"; expected its index"),
        (4, "4", Some(3 * rgb + 10 * 512), ""),
        (5, "5.cls", Some(4 * rgb + 15 * 512), "the class is -1; expected its index"),
    ];
    for (error, (record, member, byte, words)) in report.bad.iter().zip(expected) {
        let place = error.location();
        assert_eq!((place.path.as_deref(), place.record), (Some(path.as_path()), Some(record)), "{error}");
        assert_eq!((place.member.as_deref(), place.byte), (Some(member), byte), "{error}");
        assert!(error.message().contains(words), "{error}");
    }
    assert!(report.bad[2].to_string().contains(": record 3: member \"3.cls\": column \"label\": byte "));
}

#[test]
fn numbers_are_rounded_once_from_their_text() {
    let folder = Folder::new();
    // Beside the middle between two f32, as near as no f64 tells; the nearest f32; the integer, if it is one.
    let cases = [
        ("1.000000059604644775390625000000001", 1.000_000_1, None),
        ("1.00000005960464477539062499999999", 1.0, None),
        ("1152921573326323713", 1_152_921_642_045_800_448.0, Some(1_152_921_573_326_323_713)),
        ("9007199254740993.0", 9_007_199_254_740_992.0, Some(9_007_199_254_740_993)),
        ("-25e-1", -2.5, None),
        ("3e2", 300.0, Some(300)),
        ("1e39", f32::INFINITY, None),
    ];
    let fields = |member: &'static str| [DType::F32, DType::F64, DType::I64].map(|dtype| (member, dtype));
    for (text, single, integer) in cases {
        let json = format!("{{\"a\": [0, {text} ]}}");
        let path = folder.put("a.tar", archive([("0.txt", text), ("0.json", &json)]));
        for (member, dtype) in fields("txt").into_iter().chain(fields("json:/a/1")) {
            let reader = open(&path, &number(member, dtype)).unwrap();
            let batch = AsyncDataSetIterator::new(ReaderSource::new(reader), &workspace(1, 1)).unwrap().next().unwrap();
            let found = batch.as_ref().ok().map(|batch| batch.features().unwrap());
            let bad = match dtype {
                DType::F32 => {
                    let found = found.map(|found| found.as_slice::<f32>().unwrap()[0]);
                    assert_eq!(found, Some(single).filter(|number| number.is_finite()), "{text}");
                    found.is_none()
                }
                DType::I64 => {
                    let found = found.map(|found| found.as_slice::<i64>().unwrap()[0]);
                    assert_eq!(found, integer, "{text}");
                    found.is_none()
                }
                _ => {
                    assert_eq!(found.map(|found| found.as_slice::<f64>().unwrap()[0]), text.parse().ok(), "{text}");
                    false
                }
            };
            if bad {
                let error = batch.err().unwrap();
                assert!(error.message().contains(&format!("expected {dtype}, found {text}")), "{error}");
            }
        }
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_hard_link_makes_its_sample_bad_instead_of_leaving_it_out_unseen() {
    let folder = Folder::new();
    let mut builder = tar::Builder::new(Vec::new());
    for (name, kind, bytes) in [
        ("a.txt", tar::EntryType::Regular, "1"),
        ("a.cls", tar::EntryType::Regular, "7"),
        ("b.txt", tar::EntryType::Link, ""),
        ("b.cls", tar::EntryType::Link, ""),
        ("c.txt", tar::EntryType::Regular, "3"),
        ("c.cls", tar::EntryType::Link, ""),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        match bytes {
            "" => builder.append_link(&mut header, name, "a.txt").unwrap(),
            _ => builder.append_data(&mut header, name, bytes.as_bytes()).unwrap(),
        }
    }
    let path = folder.put("links.tar", builder.into_inner().unwrap());
    let named: Field = serde_json::from_str("{\"from\": \"cls\", \"category\": []}").unwrap();
    let loader = Loader::open(&path).unwrap().field("y", named).batch_size(1);
    let mut batches = loader.bad_records(BadRecords::Skip(BadLimits::default())).build().unwrap();
    let good: usize = batches.by_ref().map(|batch| batch.unwrap().sample_ids().len()).sum();
    assert_eq!((good, batches.bad_records().len()), (1, 2));
    for fields in [[text("txt", 9), class("cls")], [class("cls"), text("txt", 9)]] {
        let reader = open(&path, &fields.concat()).unwrap();
        assert_eq!((reader.len(), reader.ignored(), reader.label(0), reader.label(2)), (3, 0, Some(7), None));
        let limits = BadRecords::Skip(BadLimits::count(2));
        let source = ReaderSource::new(reader).batch_size(3).bad_records(limits);
        let mut batches = AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap();
        assert_eq!(see_all(&mut batches)[0].samples, [0]);
        let bad: Vec<String> = batches.bad_records().iter().map(|record| record.error.to_string()).collect();
        assert!(bad.iter().all(|error| error.contains("--hard-dereference")), "{bad:?}");
        assert!(bad[0].contains("record 1: member \"b.cls\"") && bad[1].contains("record 2: member \"c.cls\""));
    }
    // Also where it comes first, and so says what a sample consists of.
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Link);
    header.set_size(0);
    builder.append_link(&mut header, "a.png", "elsewhere").unwrap();
    let path = folder.put("link.tar", builder.into_inner().unwrap());
    assert!(verify(path, 1, |_| {}).unwrap().bad[0].message().contains("--hard-dereference"));
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn damage_in_a_member_has_its_byte_in_the_archive() {
    let folder = Folder::new();
    let mut png = fs::read(fixture("images/rgb.png")).unwrap();
    let data = png.windows(4).position(|name| name == b"IDAT").unwrap() as u64 - 4;
    png[data as usize + 20] ^= 1;
    let path = folder.put("a.tar", archive([("0.png", &png), ("1.png", &png)]));
    let found: Vec<_> = verify(path, 1, |_| {}).unwrap().bad.iter().map(|error| error.location().byte).collect();
    assert_eq!(found, [Some(512 + data), Some(1024 + (png.len() as u64).next_multiple_of(512) + data)]);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn members_of_a_sample_are_neighbours_and_differ() {
    let folder = Folder::new();
    let apart = folder.refusal(&archive([("a.txt", "1"), ("b.txt", "2"), ("a.cls", "3")]));
    assert_eq!(
        (apart.kind(), apart.location().member.as_deref(), apart.location().byte),
        (ErrorKind::Format, Some("a.cls"), Some(2048))
    );
    assert!(apart.to_string().contains("not neighbours"), "{apart}");
    let twice = folder.refusal(&archive([("a.txt", "1"), ("a.TXT", "2")]));
    assert_eq!(
        (twice.kind(), twice.location().member.as_deref(), twice.location().byte),
        (ErrorKind::Format, Some("a.TXT"), Some(1024))
    );
    let images = folder.put("twice.tar", archive([("a.png", "1"), ("a.cls", "1"), ("a.png", "2")]));
    let images = TarReader::open(images, &TarOptions::default()).map(|_| ()).unwrap_err();
    assert!(images.to_string().contains("this member twice"), "{images}");
    let images = folder.put("images.tar", archive([("a.png", "1"), ("a.cls", "1"), ("b.png", "2"), ("b.jpg", "2")]));
    let images = TarReader::open(images, &TarOptions::default()).map(|_| ()).unwrap_err();
    assert!(
        images.to_string().contains("member \"b.jpg\"") && images.to_string().contains("several images"),
        "{images}"
    );
    // Another archive may use the same keys.
    let (a, b) = (folder.put("a.tar", archive([("k.txt", "1")])), folder.put("b.tar", archive([("k.txt", "2")])));
    let reader = TarReader::from_paths([a, b], &text("txt", 9), &TarOptions::default()).unwrap();
    let mut names = [Vec::new(), Vec::new()];
    (0..2).for_each(|sample| reader.name(sample, &mut names[sample as usize]));
    assert_eq!(names, [b"a.tar/k".to_vec(), b"b.tar/k".to_vec()]);
    assert_eq!(texts(reader), [b"1", b"2"]);
}

/// A header with this kind and these bytes in the field of the size.
fn header(name: &str, kind: u8, size: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).unwrap();
    header.as_mut_bytes()[156] = kind;
    header.as_mut_bytes()[124..124 + size.len()].copy_from_slice(size);
    header.set_cksum();
    header.as_bytes().to_vec()
}

fn block(bytes: &[u8]) -> Vec<u8> {
    let mut block = bytes.to_vec();
    block.resize(bytes.len().next_multiple_of(512), 0);
    block
}

#[test]
fn hostile_headers_are_refused_with_their_byte() {
    let folder = Folder::new();
    let good = archive([("a.txt", "text")]);
    let behind = |parts: &[&[u8]]| [&good[..1024], &parts.concat(), &[0; 1024]].concat();
    let pax = |records: &str| {
        behind(&[
            &header("x", b'x', format!("{:011o}\0", records.len()).as_bytes()),
            &block(records.as_bytes()),
            &header("b.txt", b'0', b"00000000000\0"),
        ])
    };
    for (bytes, kind, words) in [
        (
            behind(&[&header("b.txt", b'0', &[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])]),
            ErrorKind::Format,
            "18446744073709551615 bytes",
        ),
        (behind(&[&header("b.txt", b'0', &[0xff; 12])]), ErrorKind::Format, "its size is"),
        (behind(&[&header("b.txt", b'0', b"-0000000001\0")]), ErrorKind::Format, "its size is"),
        (behind(&[&header("b.txt", b'0', b"77777777777\0")]), ErrorKind::Format, "8589934591 bytes"),
        (behind(&[&header("b.txt", b'0', b"00000003000\0")]), ErrorKind::Format, "ends 1024 behind"),
        (behind(&[&header("b.txt", b'S', b"00000000000\0")]), ErrorKind::Unsupported, "sparse"),
        (behind(&[&header("b.txt", b'M', b"00000000000\0")]), ErrorKind::Unsupported, "another archive"),
        (behind(&[&header("b.txt", b'L', b"00000000004\0"), &block(b"name")]), ErrorKind::Format, "no member follows"),
        (pax("99 path=b\n"), ErrorKind::Format, "damaged pax"),
        (pax("0 path=b\n"), ErrorKind::Format, "damaged pax"),
        (pax("18446744073709551615 path=b\n"), ErrorKind::Format, "damaged pax"),
        (pax("11 size=-1\n"), ErrorKind::Format, "damaged pax"),
        (pax("28 size=18446744073709551615\n"), ErrorKind::Format, "damaged pax"),
        (pax("29 size=18446744073709551615\n"), ErrorKind::Format, "18446744073709551615 bytes"),
        (pax("22 GNU.sparse.major=1\n"), ErrorKind::Unsupported, "sparse"),
        (behind(&[&header("g", b'g', b"00000000012\0"), &block(b"10 path=b\n")]), ErrorKind::Unsupported, "global"),
    ] {
        let error = folder.refusal(&bytes);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}; expected {words}");
        assert!(error.location().byte >= Some(1024) && error.path().is_some(), "{error}");
    }
    // A name of more than the limit; the archive has as many bytes as the header says.
    let long = behind(&[&header("n", b'L', b"00010000000\0"), &vec![b'x'; 2 << 20]]);
    assert_eq!(folder.refusal(&long).kind(), ErrorKind::Limit);
    // A thousand pax headers in a row say the same of one member.
    let records = pax("10 path=b\n");
    let many = behind(&[&records[1024..2048].repeat(1000), &header("c.txt", b'0', b"00000000000\0")]);
    // (One block of zeros will do as an end.)
    let path = folder.put("many.tar", &many[..many.len() - 512]);
    let reader = open(path, &text("txt", 9)).unwrap();
    assert_eq!((reader.len(), reader.ignored()), (1, 1));
}

#[test]
fn checksums_of_signed_bytes_are_as_good() {
    let folder = Folder::new();
    let mut bytes = archive([("\u{fc}.txt", "text")]);
    let sum = bytes[..512].iter().enumerate().filter(|(at, _)| !(148..156).contains(at));
    let sum: i64 = sum.map(|(_, byte)| i64::from(*byte as i8)).sum::<i64>() + 8 * 32;
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let path = folder.put("signed.tar", &bytes);
    assert_eq!(open(path, &text("txt", 9)).unwrap().key(0), "\u{fc}");
    bytes[148..156].copy_from_slice(format!("{:06o}\0 ", sum + 1).as_bytes());
    assert_eq!(folder.refusal(&bytes).kind(), ErrorKind::Format);
}

#[test]
fn other_things_than_whole_archives_are_refused_with_what_to_do() {
    let folder = Folder::new();
    let good = archive([("a.txt", "text")]);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, &good).unwrap();
    for (bytes, kind, words) in [
        (encoder.finish().unwrap(), ErrorKind::Unsupported, "gzip"),
        (b"BZh91AY".to_vec(), ErrorKind::Unsupported, "bzip2"),
        ([&[0x28, 0xb5, 0x2f, 0xfd], &good[..]].concat(), ErrorKind::Unsupported, "zstd"),
        (Vec::new(), ErrorKind::Format, "cut off"),
        (good[..1024].to_vec(), ErrorKind::Format, "cut off"),
        ([&good[..], &good[..]].concat(), ErrorKind::Format, "something follows at byte 2048"),
        (vec![0; 1024], ErrorKind::NotFound, "no samples"),
        (vec![b'x'; 2048], ErrorKind::Format, "no tar archive"),
        (archive([("README", "x")]), ErrorKind::NotFound, "no samples"),
    ] {
        let error = folder.refusal(&bytes);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}; expected {words}");
    }
}

#[test]
fn an_archive_without_samples_or_images_is_named() {
    let folder = Folder::new();
    for (members, words) in
        [(vec![], "no samples"), (vec![("README", "x")], "no samples"), (vec![("a.txt", "x")], "no image")]
    {
        let path = folder.put("set.tar", archive(members));
        let error = TarReader::open(&path, &TarOptions::default()).map(|_| ()).unwrap_err();
        assert!(error.path() == Some(&path) && error.message().contains(words), "{error}");
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn an_archive_cut_off_anywhere_is_an_error_and_never_a_panic() {
    let folder = Folder::new();
    for name in ["tar/pax.tar", "tar/gnu.tar"] {
        let whole = fs::read(fixture(name)).unwrap();
        // The last member ends and zeros begin here.
        let end = whole.len() - whole.iter().rev().position(|byte| *byte != 0).unwrap();
        let end = end.next_multiple_of(512);
        for len in (0..end).step_by(101).chain((0..=end).step_by(512)) {
            let path = folder.put("cut.tar", &whole[..len]);
            let error = TarReader::open(path, &TarOptions::default()).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Format, "{name} cut at {len}: {error}");
        }
    }
}

#[test]
fn a_changed_byte_never_panics_and_in_a_header_never_goes_unseen() {
    let folder = Folder::new();
    let whole = fs::read(fixture("tar/pax.tar")).unwrap();
    for at in (0..whole.len()).step_by(23) {
        let mut changed = whole.clone();
        changed[at] ^= 0x15;
        let path = folder.put("changed.tar", &changed);
        if let Ok(reader) = TarReader::open(path, &TarOptions::default()) {
            // Behind the checksum there is a zero, and a byte that nobody reads.
            let is_header = whole[at / 512 * 512..][257..262] == *b"ustar" && at % 512 != 155;
            assert!(!is_header, "byte {at}: {} samples", reader.len());
        }
    }
}

#[test]
fn a_saved_index_is_used_until_the_archive_or_the_fields_change() {
    let folder = Folder::new();
    let (one, two) = (archive([("a.txt", "1"), ("a.cls", "5")]), archive([("a.txt", "2"), ("a.cls", "6")]));
    let put = |name: &str, bytes: &[u8], time: std::time::SystemTime| {
        let path = folder.put(name, bytes);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        path
    };
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    let path = put("set.tar", &one, time);
    let saving = TarOptions { saved_index: SavedIndex::Beside, ..TarOptions::default() };
    let both = [text("txt", 9), class("cls")].concat();
    let open = |path: &PathBuf| TarReader::with_fields(path, &both, &saving).unwrap();
    let label = || open(&path).label(0);
    assert_eq!(label(), Some(5));
    let saved = folder.0.path().join("set.tar.ringfeed");
    assert!(saved.is_file());
    let fingerprint = open(&path).fingerprint();
    // That it is used shows in an index of another archive, made out to be one of this.
    let guard = fs::read(&saved).unwrap()[8..16].to_vec();
    let other = put("other.tar", &two, time);
    open(&other);
    let mut forged = fs::read(folder.0.path().join("other.tar.ringfeed")).unwrap();
    forged[8..16].copy_from_slice(&guard);
    fs::write(&saved, &forged).unwrap();
    assert_eq!(label(), Some(6));
    assert_eq!(TarReader::with_fields(&path, &class("cls"), &saving).unwrap().label(0), Some(5));
    // That saved another index over it, which does not fit these fields.
    assert_eq!(label(), Some(5));
    // Another archive of the same size, with its time of modification set back.
    put("set.tar", &two, time);
    if cfg!(unix) {
        assert_eq!(label(), Some(6));
    }
    assert_ne!(open(&path).fingerprint(), fingerprint);
    put("set.tar", &one, time + std::time::Duration::from_nanos(50));
    assert_eq!(label(), Some(5));
    let whole = fs::read(&saved).unwrap();
    for at in 28..whole.len() {
        fs::write(&saved, &whole[..at]).unwrap();
        assert_eq!(label(), Some(5), "cut at {at}");
    }
}

#[test]
fn the_index_counts_against_the_budget() {
    let folder = Folder::new();
    let members = (0..2000).map(|n| (format!("{n:04}.txt"), "x"));
    let path = folder.put("many.tar", archive(members));
    let budget = MemoryBudget::unlimited();
    let (local, options, fields) = (Files::local(), TarOptions::default(), text("txt", 9));
    let reader = TarReader::open_in(&local, &path, &fields, &options, &budget).unwrap();
    assert!((2000 * 16..2000 * 20).contains(&budget.used()), "{} bytes", budget.used());
    drop(reader);
    assert_eq!(budget.used(), 0);
    let small = MemoryBudget::new(10_000);
    let error = TarReader::open_in(&local, &path, &fields, &options, &small).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Budget);
}

#[test]
fn more_archives_than_may_stay_open_are_read_all_the_same() {
    let folder = Folder::new();
    let paths = (0..300).map(|n| folder.put(&format!("{n}.tar"), archive([("k.txt", n.to_string())])));
    let reader = TarReader::from_paths(paths.collect::<Vec<_>>(), &text("txt", 9), &TarOptions::default()).unwrap();
    let expected: Vec<Vec<u8>> = (0..300).map(|n| n.to_string().into_bytes()).collect();
    assert_eq!(texts(reader), expected);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_loader_reads_archives_as_its_settings_say() {
    let config: LoaderConfig = toml::from_str(
        r#"
        batch_size = 6
        [[sources]]
        format = "tar"
        path = "PATTERN"
        [sources.options]
        access = "map"
        [sources.fields]
        image = { from = "png", image = [2, 2], dtype = "u8" }
        y = { from = "cls", class = [] }
        caption = { from = "txt", text = 12 }
        left = { from = "json:/box/0", numbers = "i64" }
        "#,
    )
    .unwrap();
    let mut config = config;
    *config.sources[0].path_mut() = fixture("tar/wds-{000..001}.tar");
    let text_again = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<LoaderConfig>(&text_again).unwrap(), config);
    // Settings can ask for mapping, but not promise what it needs.
    let refused = Loader::from(config.clone());
    assert!(refused.build().is_err() && refused.plan().is_err());
    let Access::Map(promise) = MAPPED else { unreachable!() };
    let loader = Loader::from(config.clone()).mapping(promise);
    let plan = loader.plan().unwrap();
    assert_eq!((plan.samples, plan.unknown.len()), (Some(6), 0));
    assert!(plan.held_bytes > Some(0));
    let mut batches = loader.build().unwrap();
    let batch = batches.next().unwrap().unwrap();
    let names: Vec<_> = batch.tensors().map(|tensor| tensor.name().to_owned()).collect();
    assert_eq!(names, ["image", "y", "caption", "caption_len", "left"]);
    assert_eq!(batch.tensor("left").unwrap().as_slice::<i64>().unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(batch.tensor("y").unwrap().as_slice::<i64>().unwrap(), [0, 1, 2, 0, 1, 2]);
    assert!(loader.verify(|_| {}).unwrap().is_ok());
    assert!(LoaderConfig::for_path(config.sources[0].path()).unwrap().sources[0].is::<Tar>());
    for (field, words) in [
        (Numbers::f32().from("JSON"), "compared in lower case"),
        (Numbers::f32().from("json:x"), "\"json:/x\""),
        (Numbers::f32().from("a/json"), "is not an extension"),
        (Text::new(0).from("txt"), "text: 0; a text has room"),
        (Image::rgb(0, 2).into(), "give a size"),
    ] {
        config.sources[0].fields[2] = ("wrong".to_owned(), field);
        let faults = config.faults();
        // The other is that mapping has no promise.
        assert!(faults.len() == 2 && faults.iter().any(|fault| fault.contains(words)), "{faults:?}");
    }
}

#[test]
fn settings_of_earlier_versions_are_told_what_to_write() {
    let told = |options: &str| {
        let text = format!("[source]\nformat = \"tar\"\npath = \"x.tar\"\noptions = {{ {options} }}\n");
        let error = toml::from_str::<LoaderConfig>(&text).unwrap_err().to_string();
        error.split_once("write beside the path: ").unwrap_or_else(|| panic!("{error}")).1.trim().to_owned()
    };
    assert_eq!(
        told(
            "images = { size = [2, 2], label_name = \"y\", labels = \"one_hot\", classes = [\"a\", \"b\"] }, fields = [\
             { image = { extension = \"png\" } }, { class = { extension = \"json\", pointer = \"/name\", by = \"name\" } }, \
             { text = { extension = \"txt\", name = \"caption\", max_len = 12, longer = \"cut\" } }, \
             { number = { extension = \"json\", pointer = \"/box/0\", dtype = \"i64\" } }]"
        ),
        "fields = { image = { from = \"png\", image = [2, 2], dtype = \"u8\" }, \
         y = { from = \"json:/name\", class = [\"a\", \"b\"], one_hot = true }, \
         caption = { from = \"txt\", text = 12, longer = \"cut\" }, 0 = { from = \"json:/box/0\", numbers = \"i64\" } }"
    );
    let short = told("images = { augment = [{ kind = \"horizontal_flip\" }] }");
    let fields = "fields = { image = { image = [], augment = [{ kind = \"horizontal_flip\", probability = 0.5 }], \
                  dtype = \"u8\" }, label = { from = \"cls\", class = [] } }";
    assert_eq!(short, fields);
    // What it says can be written.
    let text = format!("[source]\nformat = \"tar\"\npath = \"x.tar\"\n{short}\n");
    assert_eq!(toml::from_str::<LoaderConfig>(&text).unwrap().sources.len(), 0);
}

#[test]
fn a_text_that_is_too_long_is_an_error_that_says_what_to_do_or_is_cut() {
    let folder = Folder::new();
    let path = folder.put("a.tar", archive([("a.txt", "12345"), ("b.txt", "123ü"), ("c.txt", "1234")]));
    let cut = open(&path, &vec![("txt".to_owned(), Text::new(4).cut().into())]).unwrap();
    assert_eq!(texts(cut), [&b"1234"[..], b"123", b"1234"]);
    let whole = open(&path, &text("txt", 4)).unwrap();
    let mut batches = AsyncDataSetIterator::new(ReaderSource::new(whole), &workspace(1, 1)).unwrap();
    let error = batches.next().unwrap().unwrap_err();
    let expected = "member \"a.txt\": column \"txt\": byte 512: a text of 5 bytes; at most 4 fit; raise max_len";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_summary_counts_members_and_classes_also_without_an_image() {
    let summary = TarSummary::of(fixture("tar/wds-{000..001}.tar")).unwrap();
    assert_eq!((summary.records, summary.archives, summary.ignored), (6, 2, 0));
    let members: Vec<_> = summary.members.iter().map(|member| (member.extension.as_str(), member.count)).collect();
    assert_eq!(members, [("cls", 6), ("json", 6), ("png", 6), ("txt", 6)]);
    assert_eq!(summary.classes.iter().map(|class| class.count).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(summary.last.key, "n01/0005");
    let folder = Folder::new();
    let path = folder.put("a.tar", archive([("a.txt", "12345"), ("b.txt", "1"), ("b.npy", "1")]));
    let summary = TarSummary::of(path).unwrap();
    assert_eq!((summary.records, summary.fields.len(), summary.members.len()), (2, 0, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The `tar` crate reads the members, and a loop over them makes the samples.
    #[test]
    fn samples_are_those_of_a_loop_over_the_members(
        samples in prop::collection::vec(("[ab./]{0,3}[cd]{1,4}", 0usize..2000, prop::collection::vec("[x-z.]{1,3}", 0..3)), 1..12),
        stretch in 0usize..3,
        map in any::<bool>(),
    ) {
        let mut members: Vec<(String, Vec<u8>)> = Vec::new();
        for (nth, (key, size, extensions)) in samples.iter().enumerate() {
            let folder = "folder/".repeat(stretch * 20);
            members.push((format!("{folder}{nth}{key}.txt"), vec![nth as u8; *size]));
            members.extend(extensions.iter().map(|extension| (format!("{folder}{nth}{key}.{extension}"), vec![1; 3])));
        }
        let bytes = {
            let mut builder = tar::Builder::new(Vec::new());
            for (name, bytes) in &members {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                // Names that the crate would not write, such as those with "..", are left out.
                let _ = builder.append_data(&mut header, name, &bytes[..]);
            }
            builder.into_inner().unwrap()
        };
        let mut naive: Vec<(String, BTreeMap<String, Vec<u8>>)> = Vec::new();
        let mut twice = false;
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut contents = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut contents).unwrap();
            let last = name.rfind('/').map_or(0, |slash| slash + 1);
            let Some(dot) = name[last..].find('.').filter(|dot| *dot > 0) else { continue };
            let (key, extension) = (&name[..last + dot], &name[last + dot + 1..]);
            if naive.last().is_none_or(|(before, _)| before != key) {
                twice |= naive.iter().any(|(before, _)| before == key);
                naive.push((key.to_owned(), BTreeMap::new()));
            }
            twice |= naive.last_mut().unwrap().1.insert(extension.to_owned(), contents).is_some();
        }
        let folder = Folder::new();
        let path = folder.put("set.tar", &bytes);
        let options = TarOptions { access: if map { MAPPED } else { Access::Read }, ..TarOptions::default() };
        match TarReader::with_fields(&path, &text("txt", 2000), &options) {
            Err(error) => prop_assert!(twice || naive.is_empty(), "{}", error),
            Ok(reader) => {
                prop_assert!(!twice);
                let keys: Vec<String> = (0..reader.len()).map(|sample| reader.key(sample).into_owned()).collect();
                prop_assert_eq!(&keys, &naive.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
                if naive.iter().all(|(_, members)| members.contains_key("txt")) {
                    let expected: Vec<Vec<u8>> = naive.iter().map(|(_, members)| members["txt"].clone()).collect();
                    prop_assert_eq!(texts(reader), expected);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Checksums are right, so that what stands in a header is believed as far as it can be.
    #[test]
    fn headers_of_any_content_never_panic(
        name in prop::sample::select(vec!["tar/pax.tar", "tar/gnu.tar", "tar/ustar.tar"]),
        block in 0usize..20,
        changes in prop::collection::vec((prop_oneof![124usize..136, 156usize..157, 0usize..100, 257usize..265, 345usize..500], any::<u8>()), 1..6),
        size in prop::option::of(0u64..40_000),
    ) {
        let mut bytes = fs::read(fixture(name)).unwrap();
        let start = block * 512 % bytes.len();
        let mut header = tar::Header::from_byte_slice(&bytes[start..start + 512]).clone();
        changes.iter().for_each(|(at, byte)| header.as_mut_bytes()[*at] = *byte);
        if let Some(size) = size {
            header.set_size(size);
        }
        header.set_cksum();
        bytes[start..start + 512].copy_from_slice(header.as_bytes());
        let folder = Folder::new();
        let path = folder.put("changed.tar", &bytes);
        for outcome in [verify(&path, 1, |_| {}).map(|report| report.bad), TarSummary::of(&path).map(|_| Vec::new())] {
            let errors = outcome.unwrap_or_else(|error| vec![error]);
            prop_assert!(errors.iter().all(|error| error.kind() != ErrorKind::Panicked), "{:?}", errors);
        }
    }
}

#[test]
fn detection_knows_archives_by_content_and_folders_of_them_by_name() {
    let folder = Folder::new();
    let path = folder.put("unnamed", fs::read(fixture("tar/wds-000.tar")).unwrap());
    let is_tar = |path: &std::path::Path| Formats::new().whole(path).unwrap().is::<Tar>();
    assert!(is_tar(&path));
    fs::remove_file(folder.0.path().join("unnamed")).unwrap();
    folder.put("a.tar", "");
    assert!(is_tar(folder.0.path()));
    assert!(is_tar(&folder.0.path().join("a.tar")));
    assert!(is_tar(&fixture("tar/wds-{000..001}.tar")));
    let missing = Loader::tar("none-{0..1}.tar").build().map(|_| ()).unwrap_err();
    assert!(missing.kind() == ErrorKind::NotFound && missing.to_string().starts_with("none-0.tar"), "{missing}");
}

#[test]
fn a_condition_reads_the_field_that_it_names_and_not_the_class() {
    let members = (0..20).flat_map(|i| {
        [(format!("s{i:03}.cls"), (i % 2).to_string()), (format!("s{i:03}.score"), (100 + i).to_string())]
    });
    let folder = Folder::new();
    let path = folder.put("a.tar", archive(members));
    for (filter, expected) in [("score >= 110", 10), ("score == 1", 0), ("label == 1", 10)] {
        let settings = format!(
            r#"{{"source": {{"path": {path:?}}}, "filter": {filter:?},
                "fields": {{"label": {{"from": "cls", "class": []}}, "score": {{"from": "score", "numbers": "f32"}}}}}}"#
        );
        let plan = Loader::from(LoaderConfig::from_json(&settings).unwrap()).plan().unwrap();
        assert_eq!(plan.samples, Some(expected), "{filter}");
    }
}

#[test]
fn a_class_index_that_its_type_can_not_hold_is_refused() {
    let folder = Folder::new();
    let path = folder.put("a.tar", archive((0..3).map(|i| (format!("s{i}.cls"), [7, 2049, 2050][i].to_string()))));
    let open = |dtype| open(&path, &vec![("label".to_owned(), Class.dtype(dtype).from("cls"))]);
    let error = open(DType::F16).err().unwrap();
    assert!(error.to_string().contains("class index 2049 does not fit f16"), "{error}");
    open(DType::F32).unwrap();
}
