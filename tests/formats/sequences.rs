//! Sequences of CSV records through the public interface.

#![expect(clippy::unwrap_used, reason = "a test panics where it fails, and so do its helpers")]

use std::io::Write;
use std::path::{Path, PathBuf};

use ringfeed::csv::{CsvOptions, Missing};
use ringfeed::field::Numbers;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::RandomKey;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::sequences::{Align, CsvSequenceReader, SequenceLabel, SequenceOptions, Unpaired};
use ringfeed::storage::Files;
use ringfeed::tensor::{Element, Extents, Layout, Role, Schema, TensorSpec};
use ringfeed::{ErrorKind, Loader, LoaderConfig, Result};
use tempfile::TempDir;

/// A padded batch, made as a trainer's would be: measured, laid out, fetched, decoded. The memory is poisoned first.
struct Batch {
    layout: Layout,
    specs: Vec<TensorSpec>,
    slot: Vec<u64>,
}

impl Batch {
    fn of(reader: &impl RecordReader, samples: &[u64]) -> Result<Self> {
        let mut scratch = Scratch::default();
        let mut extents = Extents::default();
        for sample in samples {
            extents = extents.max(reader.measure(*sample, &mut scratch)?);
        }
        Self::padded(reader, samples, extents)
    }

    fn padded(reader: &impl RecordReader, samples: &[u64], extents: Extents) -> Result<Self> {
        let specs = reader.tensors().to_vec();
        let mut layout = Layout::default();
        layout.compute(&Schema::new(specs.clone())?, samples.len(), extents)?;
        let mut batch = Self { slot: vec![0xAAAA_AAAA_AAAA_AAAA; layout.bytes().div_ceil(8)], layout, specs };
        let mut scratch = Scratch::default();
        for nth in 0..samples.len() {
            reader.fetch(samples, nth, &mut scratch)?;
        }
        for (nth, id) in samples.iter().enumerate() {
            let slot = bytemuck::cast_slice_mut(&mut batch.slot);
            let mut row = RowMut::new(slot, &batch.specs, &batch.layout, nth);
            reader.decode(Sample { id: *id, key: RandomKey::new(*id) }, nth, &mut scratch, &mut row)?;
        }
        Ok(batch)
    }

    fn values<T: Element>(&self, name: &str) -> Vec<T> {
        let index = self.specs.iter().position(|spec| spec.name == name).unwrap();
        assert_eq!(self.specs[index].dtype, T::DTYPE);
        let tensor = &self.layout.tensors()[index];
        let bytes: &[u8] = bytemuck::cast_slice(&self.slot);
        bytemuck::pod_collect_to_vec(&bytes[tensor.offset()..][..tensor.row_bytes() * self.layout.rows()])
    }
}

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    folder
}

fn write(folder: &Path, name: &str, text: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn names(reader: &impl RecordReader) -> Vec<&str> {
    reader.tensors().iter().map(|tensor| tensor.name.as_str()).collect()
}

fn labelled(label: SequenceLabel) -> SequenceOptions {
    SequenceOptions { label, ..SequenceOptions::default() }
}

#[test]
fn each_file_of_a_folder_is_a_sequence_in_the_order_of_names() {
    let packed = gzip(b"x,y,label\r\n7,8,0\r\n");
    let folder = folder(&[
        ("b.csv.gz", &packed),
        ("a.csv", b"\xef\xbb\xbfx,y,label\n1,2,0\n\n3,4,1\n5,\"6\",0"),
        ("c.csv", b""),
        ("notes.txt", b"not a sequence"),
    ]);
    let reader = CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
    assert_eq!(reader.len(), 3);
    assert_eq!(names(&reader), ["features", "labels", "features_mask", "labels_mask"]);
    let batch = Batch::of(&reader, &[1, 0, 2]).unwrap();
    let zeros = [0.0; 6];
    let expected: Vec<f32> = [&[7., 8., 0., 0., 0., 0.][..], &[1., 2., 3., 4., 5., 6.], &zeros].concat();
    assert_eq!(batch.values::<f32>("features"), expected);
    assert_eq!(batch.values::<i64>("labels"), [0, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(batch.values::<f32>("features_mask"), [1., 0., 0., 1., 1., 1., 0., 0., 0.]);
    assert_eq!(batch.values::<f32>("labels_mask"), batch.values::<f32>("features_mask"));
    assert_eq!(reader.place(1).path, Some(folder.path().join("b.csv.gz")));
}

#[test]
fn rows_of_a_group_need_not_be_neighbours() {
    let folder = folder(&[("log.csv", b"user,x,class\nb,1,no\na,2,yes\nb,3,no\n\"c\",4,yes\nb,5,no\na,6,yes\n")]);
    let path = folder.path().join("log.csv");
    let reader = CsvSequenceReader::open_grouped(&path, "user", &labelled(SequenceLabel::Constant)).unwrap();
    assert_eq!(reader.len(), 3);
    assert_eq!(names(&reader), ["features", "labels", "features_mask"]);
    assert_eq!(reader.classes().unwrap().to_vec(), ["no", "yes"]);
    let batch = Batch::of(&reader, &[0, 1, 2]).unwrap();
    assert_eq!(batch.values::<f32>("features"), [1., 3., 5., 2., 6., 0., 4., 0., 0.]);
    assert_eq!(batch.values::<i64>("labels"), [0, 1, 1]);
    assert_eq!(batch.values::<f32>("features_mask"), [1., 1., 1., 1., 1., 0., 1., 0., 0.]);
    let error = CsvSequenceReader::open_grouped(&path, "usr", &SequenceOptions::default()).unwrap_err();
    assert!(error.to_string().contains("did you mean \"user\"?"), "{error}");
}

#[test]
fn a_sequence_may_be_labelled_as_a_whole() {
    let folder = folder(&[("s.csv", b"id,x,target\n1,1,0.5\n1,2,1.5\n2,3,2.5\n")]);
    let path = folder.path().join("s.csv");
    let last = CsvSequenceReader::open_grouped(&path, 0, &labelled(SequenceLabel::Last)).unwrap();
    assert_eq!(Batch::of(&last, &[0, 1]).unwrap().values::<f32>("labels"), [1.5, 2.5]);
    let constant = CsvSequenceReader::open_grouped(&path, 0, &labelled(SequenceLabel::Constant)).unwrap();
    let error = Batch::of(&constant, &[0]).err().unwrap();
    assert_eq!((error.kind(), error.location().record, error.location().line), (ErrorKind::Data, Some(0), Some(3)));
    assert!(error.to_string().contains("the label differs"), "{error}");
    assert_eq!(Batch::of(&constant, &[1]).unwrap().values::<f32>("labels"), [2.5]);
}

#[test]
fn sequences_are_chosen_by_the_label_of_the_whole() {
    let kinds = ["calm", "wild", "calm", "calm", "wild", "calm"];
    let texts: Vec<String> = kinds
        .iter()
        .enumerate()
        .map(|(nth, kind)| {
            let rows: String = (0..=nth).map(|step| format!("{step},{kind},{}\n", nth % 3)).collect();
            format!("x,kind,often\n{rows}")
        })
        .collect();
    let names: Vec<String> = (0..kinds.len()).map(|nth| format!("{nth}.csv")).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().map(String::as_str).zip(texts.iter().map(|text| text.as_bytes())).collect();
    let folder = folder(&files);
    let taken = |more: &str| -> ringfeed::Result<Vec<u64>> {
        let settings = format!(
            r#"{{"source": {{"format": "csv_sequences", "path": {:?}, "options": {{"label": "last"}}}},
                "fields": {{"x": "f32", "kind": "class", "often": {{"numbers": "f32", "role": "label"}}}}, {more}}}"#,
            folder.path()
        );
        let loader = Loader::from(LoaderConfig::from_json(&settings)?);
        Ok(loader.build()?.flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect())
    };
    assert_eq!(taken(r#""filter": "kind == 'wild'""#).unwrap(), [1, 4]);
    assert_eq!(taken(r#""filter": "often > 0 and kind != 'wild'""#).unwrap(), [2, 5]);
    let part = |part: &str| {
        taken(&format!(r#""stratify": "kind", "split": {{"train": 0.5, "test": 0.5, "part": "{part}"}}"#)).unwrap()
    };
    let (train, test) = (part("train"), part("test"));
    let wild = |part: &[u64]| part.iter().filter(|nth| kinds[**nth as usize] == "wild").count();
    assert_eq!((train.len(), test.len(), wild(&train), wild(&test)), (3, 3, 1, 1));
    let drawn = taken(r#""weight_by": "often", "shuffle": 1, "samples_per_epoch": 300"#).unwrap();
    let count = |rest: u64| drawn.iter().filter(|nth| **nth % 3 == rest).count();
    assert!(count(0) == 0 && (70..130).contains(&count(1)) && (170..230).contains(&count(2)), "{}", count(1));
    // A step's number is no value of the sequence.
    let error = taken(r#""filter": "x > 0""#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.message().contains("no single value \"x\""), "{error}");
}

#[test]
fn a_sequence_without_steps_has_no_label() {
    let folder = folder(&[("a.csv", b"x,label\n1,2\n"), ("b.csv", b"x,label\n")]);
    let reader = CsvSequenceReader::open_folder(folder.path(), &labelled(SequenceLabel::Last)).unwrap();
    let error = Batch::of(&reader, &[0, 1]).err().unwrap();
    assert!(error.to_string().contains("b.csv: record 1: the sequence has no steps"), "{error}");
}

#[test]
fn a_file_without_records_is_a_sequence_without_steps_wherever_it_stands() {
    for empty in [b"".to_vec(), gzip(b""), b"\xef\xbb\xbf".to_vec(), b"\n\n".to_vec(), gzip(b"\n")] {
        for name in ["a.csv", "c.csv"] {
            let folder = folder(&[(name, &empty), ("b.csv", b"x,y\n1,2\n3,4\n")]);
            let reader = CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
            assert_eq!(reader.len(), 2, "{name} {empty:?}");
            let steps: Vec<u32> =
                (0..2).map(|sample| reader.measure(sample, &mut Scratch::default()).unwrap().0[0]).collect();
            assert_eq!(steps, if name == "a.csv" { [0, 2] } else { [2, 0] }, "{name} {empty:?}");
            let summary = ringfeed::formats::Formats::new().inspect(folder.path()).unwrap();
            assert_eq!(summary.records, 2, "{name} {empty:?}");
        }
    }
    let folder = folder(&[("a.csv", b""), ("b.csv", b"\n")]);
    let error = CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).err().unwrap();
    assert!(error.message().contains("all files are empty"), "{error}");
}

#[test]
fn features_and_labels_align_at_either_end() {
    let features = folder(&[("0.csv", b"1\n2\n3\n"), ("1.csv", b"4\n5\n")]);
    let labels = folder(&[("0.csv", b"10\n"), ("1.csv", b"20\n30\n40\n50\n")]);
    let open = |folder: &TempDir| CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
    let aligned = |align| CsvSequenceReader::aligned(open(&features), open(&labels), align, Unpaired::Error);

    let error = aligned(Align::Equal).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    for part in ["0.csv has 3 steps", "0.csv has 1;"] {
        assert!(error.to_string().contains(part), "{error}");
    }

    let start = aligned(Align::Start).unwrap();
    assert_eq!(names(&start), ["features", "features_mask", "labels", "labels_mask"]);
    assert!(start.tensors()[2].role == Role::Label);
    let batch = Batch::of(&start, &[0, 1]).unwrap();
    assert_eq!(batch.values::<f32>("features"), [1., 2., 3., 0., 4., 5., 0., 0.]);
    assert_eq!(batch.values::<f32>("features_mask"), [1., 1., 1., 0., 1., 1., 0., 0.]);
    assert_eq!(batch.values::<f32>("labels"), [10., 0., 0., 0., 20., 30., 40., 50.]);
    assert_eq!(batch.values::<f32>("labels_mask"), [1., 0., 0., 0., 1., 1., 1., 1.]);

    let batch = Batch::of(&aligned(Align::End).unwrap(), &[0, 1]).unwrap();
    assert_eq!(batch.values::<f32>("features"), [1., 2., 3., 0., 0., 0., 4., 5.]);
    assert_eq!(batch.values::<f32>("features_mask"), [1., 1., 1., 0., 0., 0., 1., 1.]);
    assert_eq!(batch.values::<f32>("labels"), [0., 0., 10., 0., 20., 30., 40., 50.]);
    assert_eq!(batch.values::<f32>("labels_mask"), [0., 0., 1., 0., 1., 1., 1., 1.]);
}

#[test]
fn unpaired_sequences_are_an_error_unless_they_may_be_dropped() {
    let features = folder(&[("0.csv", b"1\n2\n"), ("1.csv", b"3\n")]);
    let labels = folder(&[("0.csv", b"1\n0\n")]);
    let open = |folder: &TempDir| CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
    let aligned = |unpaired| CsvSequenceReader::aligned(open(&features), open(&labels), Align::Equal, unpaired);
    let error = aligned(Unpaired::Error).unwrap_err();
    assert!(error.to_string().contains("1.csv has no partner of its name among the labels"), "{error}");
    assert_eq!(aligned(Unpaired::Drop).unwrap().len(), 1);
}

#[test]
fn sequences_of_one_name_belong_together() {
    let features = folder(&[("a.csv", b"1\n"), ("b.csv", b"2\n"), ("c.csv", b"3\n")]);
    let labels = folder(&[("a.csv", b"10\n"), ("c.tsv.gz", &gzip(b"30\n"))]);
    let open = |folder: &TempDir| CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
    let aligned = |unpaired| CsvSequenceReader::aligned(open(&features), open(&labels), Align::Equal, unpaired);
    let error = aligned(Unpaired::Error).unwrap_err();
    assert!(error.to_string().contains("b.csv has no partner"), "{error}");
    let pairs = aligned(Unpaired::Drop).unwrap();
    let batch = Batch::of(&pairs, &[0, 1]).unwrap();
    assert_eq!((batch.values::<f32>("features"), batch.values::<f32>("labels")), (vec![1., 3.], vec![10., 30.]));
    assert!(pairs.place(1).path.unwrap().ends_with("c.csv"));

    let groups = folder(&[("x.csv", b"id,x\n1,1\n2,2\n3,3\n"), ("y.csv", b"id,out\n3,30\n1,10\n2,20\n")]);
    let open = |name: &str| {
        CsvSequenceReader::open_grouped(groups.path().join(name), "id", &SequenceOptions::default()).unwrap()
    };
    let pairs = CsvSequenceReader::aligned(open("x.csv"), open("y.csv"), Align::Equal, Unpaired::Error).unwrap();
    assert_eq!(Batch::of(&pairs, &[0, 1, 2]).unwrap().values::<f32>("labels"), [10., 20., 30.]);

    // Without what all names have in common, where orders differ: 10 stands before 1_label, but behind 1.
    let features = folder(&[("p1.csv", b"1\n"), ("p2.csv", b"2\n"), ("p10.csv", b"10\n")]);
    let labels = folder(&[("p1_label.csv", b"1\n"), ("p2_label.csv", b"2\n"), ("p10_label.csv", b"10\n")]);
    let open = |folder: &TempDir| CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
    let pairs = CsvSequenceReader::aligned(open(&features), open(&labels), Align::Equal, Unpaired::Error).unwrap();
    let batch = Batch::of(&pairs, &[0, 1, 2]).unwrap();
    assert_eq!(batch.values::<f32>("features"), batch.values::<f32>("labels"));
    let labels = folder(&[("p2_label.csv", b"2\n"), ("p10_label.csv", b"10\n"), ("p11_label.csv", b"11\n")]);
    let error = CsvSequenceReader::aligned(open(&features), open(&labels), Align::Equal, Unpaired::Error).unwrap_err();
    assert!(error.to_string().contains("p1.csv has no partner"), "{error}");
    let pairs = CsvSequenceReader::aligned(open(&features), open(&labels), Align::Equal, Unpaired::Drop).unwrap();
    let batch = Batch::of(&pairs, &[0, 1]).unwrap();
    assert_eq!(batch.values::<f32>("features"), batch.values::<f32>("labels"));

    let features = folder(&[("a.csv", b"1\n"), ("b.csv", b"2\n"), ("c.csv", b"3\n")]);
    let twice = folder(&[("a.csv", b"1\n"), ("a.tsv", b"2\n"), ("b.csv", b"3\n")]);
    let open = |folder: &TempDir| CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
    let error = CsvSequenceReader::aligned(open(&twice), open(&features), Align::Equal, Unpaired::Error).unwrap_err();
    assert!(error.to_string().contains("several sequences have one name"), "{error}");

    let others = folder(&[("u.csv", b"1\n"), ("v.csv", b"2\n"), ("w.csv", b"3\n")]);
    let open = |folder: &TempDir| CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
    let pairs = CsvSequenceReader::aligned(open(&features), open(&others), Align::Equal, Unpaired::Error).unwrap();
    assert_eq!(Batch::of(&pairs, &[1]).unwrap().values::<f32>("labels"), [2.]);
}

/// The labels of the sequences of these features, if each file holds the number of its sequence, or the error.
fn paired(features: &[&str], labels: &[&str], unpaired: Unpaired) -> Result<Vec<(f32, f32)>> {
    let open = |names: &[&str]| {
        let number = |name: &str| -> u32 { name.replace(|each: char| !each.is_ascii_digit(), "").parse().unwrap() };
        let files: Vec<(String, String)> =
            names.iter().map(|name| (format!("{name}.csv"), format!("{}\n", number(name)))).collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (&**name, text.as_bytes())).collect();
        let folder = folder(&files);
        (CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap(), folder)
    };
    let ((features, _kept), (labels, _also)) = (open(features), open(labels));
    let pairs = CsvSequenceReader::aligned(features, labels, Align::Equal, unpaired)?;
    let batch = Batch::of(&pairs, &(0..pairs.len()).collect::<Vec<_>>())?;
    Ok(batch.values("features").into_iter().zip(batch.values("labels")).collect())
}

#[test]
fn numbers_in_names_are_compared_by_their_values() {
    let names = |prefix: &str, digits: usize, numbers: std::ops::RangeInclusive<u32>| -> Vec<String> {
        numbers.map(|number| format!("{prefix}{number:0digits$}")).collect()
    };
    for (features, labels) in [
        (names("subj", 2, 1..=10), names("label_", 1, 1..=10)),
        (names("", 3, 1..=12), names("", 1, 1..=12)),
        // What all begin and end with is not a part of a number.
        (names("s", 2, 10..=19), names("l", 1, 10..=19)),
        (names("s1", 1, 1..=9), names("l", 3, 11..=19)),
    ] {
        let [features, labels] = [&features, &labels].map(|names| names.iter().map(|name| &**name).collect::<Vec<_>>());
        let pairs = paired(&features, &labels, Unpaired::Error).unwrap();
        assert!(pairs.len() == features.len() && pairs.iter().all(|(x, y)| x == y), "{pairs:?}");
    }
    // Unless several names would be one.
    assert_eq!(paired(&["1", "01"], &["1", "01"], Unpaired::Error).unwrap().len(), 2);
}

#[test]
fn positions_count_only_if_nothing_contradicts_them() {
    // The second is the second, and not the tenth.
    let positions = paired(&["a1x", "a2y", "a10z"], &["b4u", "b5v", "b60w"], Unpaired::Error).unwrap();
    assert_eq!(positions, [(10., 60.), (1., 4.), (2., 5.)]);
    let positions = paired(&["x1", "y2", "z3"], &["u1", "y2", "v3"], Unpaired::Error);
    assert!(positions.unwrap_err().to_string().contains("x1.csv has no partner"));
    // One common end, where it is in both.
    assert_eq!(paired(&["x1a", "x2b"], &["y1a", "y2c"], Unpaired::Error).unwrap(), [(1., 1.), (2., 2.)]);
    let error = paired(&["x1a", "x2b"], &["y0c", "y1a"], Unpaired::Error).unwrap_err().to_string();
    for part in ["x1a.csv", "y1a.csv", "give the features and the labels of a sequence the same name"] {
        assert!(error.contains(part), "{error}");
    }
    for unpaired in [Unpaired::Error, Unpaired::Drop] {
        let error = paired(&["x1", "x2"], &["y3", "y4", "y5"], unpaired).unwrap_err().to_string();
        for part in ["2 sequences of features", "x1.csv", "3 of labels", "y3.csv"] {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn separate_labels_of_whole_sequences_may_have_any_name() {
    let files = folder(&[("x.csv", b"id,x\n1,1\n1,2\n2,3\n"), ("y.csv", b"id,outcome\n1,7\n1,8\n2,9\n")]);
    let open =
        |name: &str, label| CsvSequenceReader::open_grouped(files.path().join(name), "id", &labelled(label)).unwrap();
    let features = open("x.csv", SequenceLabel::EachStep);
    let labels = open("y.csv", SequenceLabel::Last);
    let pairs = CsvSequenceReader::aligned(features, labels, Align::Equal, Unpaired::Error).unwrap();
    assert_eq!(names(&pairs), ["features", "features_mask", "labels"]);
    assert_eq!(Batch::of(&pairs, &[0, 1]).unwrap().values::<f32>("labels"), [8., 9.]);
}

#[test]
fn records_without_a_name_are_no_sequence() {
    let files = folder(&[("s.csv", b"id,x\n1,1\n,2\n2,3\nNA,4\n,5\n")]);
    let open = |options| CsvSequenceReader::open_grouped(files.path().join("s.csv"), "id", &options);
    let error = open(SequenceOptions::default()).unwrap_err();
    // There are no sequences yet, so the error names none.
    let place = error.location();
    assert_eq!(
        (error.kind(), place.record, place.line, place.byte),
        (ErrorKind::Data, None, Some(3), Some(9)),
        "{error}"
    );
    assert_eq!(place.column.as_deref(), Some("id"));
    let csv = CsvOptions { missing_tokens: vec!["?".to_owned()], ..CsvOptions::default() };
    assert_eq!(open(SequenceOptions { csv, ..SequenceOptions::default() }).unwrap().len(), 4);
}

#[test]
fn a_changed_folder_of_sequences_has_another_fingerprint() {
    let of = |files: &[(&str, &[u8])]| {
        let folder = folder(files);
        let reader = CsvSequenceReader::open_folder(folder.path(), &SequenceOptions::default()).unwrap();
        reader.fingerprint()
    };
    let first = of(&[("a.csv", b"x,y\n1,2\n"), ("b.csv", b"x,y\n3,4\n")]);
    assert_eq!(first, of(&[("a.csv", b"x,y\n1,2\n"), ("b.csv", b"x,y\n3,4\n")]));
    assert_ne!(first, of(&[("a.csv", b"x,z\n1,2\n"), ("b.csv", b"x,z\n3,4\n")]));
    assert_ne!(first, of(&[("a.csv", b"x,y\n1,2\n"), ("b.csv", b"x,y\n33,4\n")]));
}

#[test]
fn labels_for_whole_sequences_need_no_alignment() {
    let features = folder(&[("0.csv", b"1\n2\n"), ("1.csv", b"3\n")]);
    let labels = folder(&[("0.csv", b"name,class\nx,dog\n"), ("1.csv", b"name,class\ny,cat\n")]);
    let features = CsvSequenceReader::open_folder(features.path(), &SequenceOptions::default()).unwrap();
    let labels = CsvSequenceReader::open_folder(labels.path(), &labelled(SequenceLabel::Last)).unwrap();
    let aligned = CsvSequenceReader::aligned(features, labels, Align::Equal, Unpaired::Error);
    // The folders are gone, so reading fails; but that both fit each other was known from opening.
    let aligned = aligned.unwrap();
    assert_eq!(names(&aligned), ["features", "features_mask", "labels"]);
}

#[test]
fn an_error_names_sequence_file_line_and_column() {
    let folder = folder(&[("a.csv", b"x,y\n1,2\n"), ("b.csv", b"x,y\n1,\"2\"\n\n\"3\",abc\n")]);
    let (files, options, budget) = (Files::local(), SequenceOptions::default(), MemoryBudget::unlimited());
    let fields = [("pair".to_owned(), Numbers::f64().from(["x", "y"]))];
    let reader = CsvSequenceReader::open_folder_in(&files, folder.path(), &fields, &options).unwrap();
    let error = Batch::of(&reader, &[0, 1]).err().unwrap();
    let path = folder.path().join("b.csv");
    assert_eq!(error.to_string(), format!("{}:4: record 1: column \"y\": expected f64, found \"abc\"", path.display()));
    assert_eq!(error.location().byte, Some(15));

    let grouped = write(folder.path(), "g.csv", b"k,x,y\n1,1,2\n2,1,2\n1,3,abc\n");
    let reader = CsvSequenceReader::open_grouped_in(&files, &grouped, "k", &fields, &options, &budget).unwrap();
    let error = Batch::of(&reader, &[0]).err().unwrap();
    assert_eq!((error.location().record, error.location().line), (Some(0), Some(4)), "{error}");
}

#[test]
fn files_must_have_the_columns_of_the_first() {
    let other = folder(&[("a.csv", b"x,y\n1,2\n"), ("b.csv", b"y,x\n1,2\n")]);
    let error = CsvSequenceReader::open_folder(other.path(), &SequenceOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("b.csv:1: expected the columns of the first file, whose 0 (from 0) is \"x\", found \"y\""),
        "{error}"
    );
    let none = folder(&[("a.txt", b"x")]);
    let error = CsvSequenceReader::open_folder(none.path(), &SequenceOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = CsvSequenceReader::open_files(&[], &SequenceOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_that_changed_or_is_too_large_is_an_error() {
    let folder = folder(&[("a.csv", b"x,y\n1,2\n3,4\n")]);
    let options = SequenceOptions { max_sequence_bytes: 100, ..SequenceOptions::default() };
    let reader = CsvSequenceReader::open_folder(folder.path(), &options).unwrap();
    write(folder.path(), "a.csv", b"x,y\n1,2\n3,4\n5,6\n");
    let error = Batch::of(&reader, &[0]).err().unwrap();
    assert!(error.to_string().contains("has 3 steps, but had 2 when it was opened"), "{error}");
    write(folder.path(), "a.csv", &b"x,y\n".repeat(100));
    assert_eq!(Batch::of(&reader, &[0]).err().unwrap().kind(), ErrorKind::Limit);
    std::fs::remove_file(folder.path().join("a.csv")).unwrap();
    assert_eq!(Batch::of(&reader, &[0]).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(reader.fetch(&[7], 0, &mut Scratch::default()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn padding_is_zero_even_where_missing_values_are_not() {
    let folder = folder(&[("a.csv", b"x,z\n,2\n"), ("b.csv", b"x,z\n1,2\n3,4\n")]);
    let csv = CsvOptions { missing: Missing::Value(9.0), ..CsvOptions::default() };
    let reader =
        CsvSequenceReader::open_folder(folder.path(), &SequenceOptions { csv, ..SequenceOptions::default() }).unwrap();
    let batch = Batch::padded(&reader, &[0, 1], Extents::of_length(3)).unwrap();
    assert_eq!(batch.values::<f32>("features"), [9., 2., 0., 0., 0., 0., 1., 2., 3., 4., 0., 0.]);
}

#[test]
fn options_survive_json_and_toml() {
    let options = SequenceOptions { label: SequenceLabel::Last, max_sequence_bytes: 7, ..SequenceOptions::default() };
    let json = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<SequenceOptions>(&json).unwrap(), options);
    let parsed: SequenceOptions = toml::from_str("label = \"constant\"\n[csv]\ndelimiter = \";\"").unwrap();
    assert_eq!((parsed.label, parsed.csv.delimiter), (SequenceLabel::Constant, Some(';')));
}

#[test]
fn groups_of_one_file_are_inspected_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    std::fs::write(&path, "id,x\na,1\nb,2\na,3\n").unwrap();
    let config = |options: &str| -> LoaderConfig {
        toml::from_str(&format!(
            "[source]\npath = {path:?}\nformat = \"csv_sequences\"\noptions = {{ {options} }}\nfields.x = {{ from = \"x\", numbers = \"f32\" }}\n"
        ))
        .unwrap()
    };
    let sequences = |options: &str| config(options).resolved().unwrap().sources.remove(0);
    let inspected = sequences("group_by = \"id\"").inspect(&Files::local(), &MemoryBudget::unlimited()).unwrap();
    let json = serde_json::to_value(&inspected).unwrap();
    assert_eq!((&json["records"], &json["steps"]), (&2.into(), &3.into()), "{json}");
    // Also where no column holds numbers.
    std::fs::write(&path, "id,x\na,one\nb,two\na,three\n").unwrap();
    let inspected = sequences("group_by = \"id\"").inspect(&Files::local(), &MemoryBudget::unlimited()).unwrap();
    assert_eq!(serde_json::to_value(&inspected).unwrap()["records"], 2);
    std::fs::write(&path, "id,x\na,1\nb,2\na,3\n").unwrap();
    assert_eq!(Loader::from(config("group_by = \"id\"")).verify(|_| ()).unwrap().bad.len(), 0);
    let error = Loader::from(config("group_by = \"id\", csv = { saved_index = \"beside\", threads = 2 }")).plan();
    let error = error.map(drop).unwrap_err().to_string();
    assert!(error.contains("csv.saved_index: ") && error.contains("csv.threads: "), "{error}");
}
