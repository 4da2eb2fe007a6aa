//! The `ringfeed` command: its JSON, its texts and its exit statuses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[cfg(unix)]
#[path = "common/pseudo.rs"]
mod pseudo;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{command, fixture, object, run};
use serde_json::{Value, json};

fn inspect(path: &str) -> Value {
    object(&["inspect", path, "--json"], 0)
}

fn bench(args: &[&str]) -> Value {
    object(&[&["bench", "--json"], args].concat(), 0)
}

/// What went wrong, as JSON; every part is there, if only as null.
fn error(args: &[&str]) -> Value {
    let error = object(&[args, &["--json"]].concat(), 1)["error"].clone();
    let parts: Vec<&String> = error.as_object().unwrap().keys().collect();
    assert_eq!(parts, ["byte", "column", "kind", "line", "member", "message", "path", "record"]);
    error
}

fn text(args: &[&str]) -> String {
    String::from_utf8(run(args).stdout).unwrap()
}

/// A folder that is gone afterwards.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = PathBuf::from(self.path(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        self.path(name)
    }

    /// Two classes of photos, and a file that is none.
    fn photos(&self) -> String {
        for (from, to) in [("chelsea.png", "cat/1.png"), ("china.jpg", "place/1.jpg"), ("rocket.jpg", "place/2.jpg")] {
            self.write(&format!("photos/{to}"), std::fs::read(fixture(&format!("photos/{from}"))).unwrap());
        }
        self.write("photos/place/notes.txt", "x");
        self.path("photos")
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn iris_is_a_table_whose_figures_are_those_of_python() {
    let found = inspect(&fixture("iris.csv"));
    // From Python: math.fsum over the columns, min, max, fsum / 150.
    let columns = [
        ("150", "f32", 876.5, 4.3, 7.9, 5.843333333333334),
        ("4", "f32", 458.6, 2.0, 4.4, 3.0573333333333337),
        ("setosa", "f32", 563.7, 1.0, 6.9, 3.7580000000000005),
        ("versicolor", "f32", 179.9, 0.1, 2.5, 1.1993333333333334),
        ("virginica", "i64", 150.0, 0.0, 2.0, 1.0),
    ];
    let fields = columns.map(|(name, dtype, sum, min, max, mean)| {
        let typed = |figure: f64| if dtype == "i64" { json!(figure as i64) } else { json!(figure) };
        let [sum, min, max] = [sum, min, max].map(typed);
        json!({"name": name, "role": "feature", "dtype": dtype, "shape": [], "count": 150, "missing": 0, "sum": sum,
               "min": min, "max": max, "mean": mean})
    });
    assert_eq!(found["fields"], json!(fields));
    assert_eq!(found["path"], json!(fixture("iris.csv")));
    assert_eq!(
        (&found["format"], &found["records"], &found["header"], &found["delimiter"], &found["encoding"]),
        (&json!("csv"), &json!(150), &json!(true), &json!(","), &json!("UTF-8"))
    );
    assert_eq!(
        found["first"],
        json!({"150": "5.1", "4": "3.5", "setosa": "1.4", "versicolor": "0.2", "virginica": "0"})
    );
    assert_eq!(
        found["last"],
        json!({"150": "5.9", "4": "3.0", "setosa": "5.1", "versicolor": "1.8", "virginica": "2"})
    );
    let text = String::from_utf8(run(&["inspect", &fixture("iris.csv"), "--json"]).stdout).unwrap();
    assert!(text.contains(r#""first":{"150":"5.1","4":"3.5","setosa""#), "columns keep their order: {text}");
    let headless = object(&["inspect", &fixture("iris.csv"), "--json", "--header", "no"], 0);
    assert_eq!((&headless["records"], &headless["header"]), (&json!(151), &json!(false)));
    assert_eq!(headless["fields"][2]["dtype"], json!("text"));
    assert_eq!(headless["fields"][2]["sum"], Value::Null);
}

#[test]
fn examples_of_tensorflow_are_known_by_their_checksums() {
    for (name, records) in [("train-00000-of-00002", 6), ("train-00001-of-00002", 2)] {
        let found = inspect(&fixture(&format!("tfrecord/{name}")));
        assert_eq!((&found["format"], &found["records"]), (&json!("tfrecord"), &json!(records)));
        assert_eq!(found["fields"][4]["name"], json!("size"));
        assert_eq!((&found["fields"][4]["min"], &found["fields"][4]["max"]), (&json!(16), &json!(24)));
    }
}

#[test]
fn columns_of_parquet_are_described_from_all_of_their_records() {
    let found = inspect(&fixture("parquet/types.parquet"));
    assert_eq!((&found["format"], &found["records"]), (&json!("parquet"), &json!(11)));
    let fields = found["fields"].as_array().unwrap();
    for (name, min, max) in [("i8", json!(-128), json!(127)), ("i64", json!(i64::MIN), json!(i64::MAX))] {
        let field = fields.iter().find(|field| field["name"] == name).unwrap();
        assert_eq!((&field["min"], &field["max"]), (&min, &max), "{name}");
        assert_eq!((&field["count"], &field["missing"]), (&json!(9), &json!(2)), "{name}");
    }
}

#[test]
fn arrays_and_sparse_rows_are_described_from_all_of_their_records() {
    for (name, format) in [("npz/packed.npz", "npz"), ("safetensors/arrays.safetensors", "safetensors")] {
        let found = inspect(&fixture(name));
        assert_eq!((&found["format"], &found["records"]), (&json!(format), &json!(7)));
        let label = found["fields"].as_array().unwrap().iter().find(|field| field["name"] == "label").unwrap();
        assert_eq!((&label["sum"], &label["max"], &label["count"]), (&json!(8), &json!(2), &json!(7)));
    }
    let message = error(&["inspect", &fixture("npz/parts.npz")])["message"].to_string();
    assert!(message.contains("x_test (2 rows)") && message.contains("part = "), "{message}");
    let found = inspect(&fixture("libsvm/by-hand"));
    assert_eq!((&found["format"], &found["records"]), (&json!("libsvm"), &json!(4)));
    assert_eq!((&found["fields"][0]["name"], &found["fields"][0]["max"]), (&json!("label"), &json!(2.5)));
}

#[test]
fn a_person_sees_a_table_and_why_there_is_a_header() {
    let output = run(&["inspect", &fixture("iris.csv")]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("150 records"), "{text}");
    assert!(text.contains("header: yes (detected: field 3 of the first record, \"setosa\","), "{text}");
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    let (head, row) = (line("field "), line("versicolor"));
    for (name, figure) in [("sum", "179.9"), ("max", "2.5"), ("mean", "1.19933")] {
        let end = |line: &str, word: &str| line.find(word).unwrap() + word.len();
        assert_eq!(end(head, name), end(row, figure), "{name} is aligned to the right:\n{text}");
    }
    let output = run(&["inspect", &fixture("iris.csv"), "--header", "yes"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("header: yes (as given)"));
}

#[test]
fn tables_are_read_in_any_dress() {
    let scratch = Scratch::new();
    let packed = scratch.write("packed.csv.gz", gzip(b"a,b\n1,x\n2.5,\n"));
    let found = inspect(&packed);
    assert_eq!((&found["records"], &found["fields"][0]["sum"]), (&json!(2), &json!(3.5)));
    assert_eq!((&found["fields"][1]["count"], &found["fields"][1]["missing"]), (&json!(1), &json!(1)));
    let tabs = scratch.write("t.tsv", "a\tb\n1\t2\n");
    assert_eq!(inspect(&tabs)["delimiter"], json!("\t"));
    let text = scratch.write("bars", "a,5|b\n1|2\n");
    for mark in ["tab", "\\t", "\t"] {
        assert_eq!(object(&["inspect", &text, "--json", "--delimiter", mark], 0)["fields"][1], Value::Null);
    }
    let found = object(&["inspect", &text, "--json", "--delimiter", "|"], 0);
    assert_eq!(found["last"], json!({"a,5": "1", "b": "2"}));
    let latin = scratch.write("latin.csv", b"name,size\nM\xfcller,1\n");
    let found = object(&["inspect", &latin, "--json", "--encoding", "latin1"], 0);
    assert_eq!((&found["first"]["name"], &found["encoding"]), (&json!("Müller"), &json!("windows-1252")));
    let wide: Vec<u8> = "a,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = scratch.write("wide.csv", wide);
    assert_eq!(object(&["inspect", &wide, "--json", "--encoding", "utf-16le"], 0)["records"], json!(1));
    let empty = inspect(&scratch.write("missing.csv", "a,b\nNA,1\n,2\n"));
    let nothing = &empty["fields"][0];
    assert_eq!((&nothing["count"], &nothing["missing"], &nothing["sum"]), (&json!(0), &json!(2), &Value::Null));
    let endless = inspect(&scratch.write("inf.csv", "a,b\ninf,1\n1,2\n"));
    assert_eq!(endless["fields"][0]["sum"], json!("inf"), "JSON has no infinity of its own");
}

#[test]
fn idx_files_have_the_figures_of_python() {
    // From Python: gzip, struct and sum.
    let digits = inspect(&fixture("mnist/train-images-idx3-ubyte.gz"));
    assert_eq!((&digits["format"], &digits["records"]), (&json!("idx"), &json!(60000)));
    assert_eq!(
        digits["fields"],
        json!([{"name": "features", "role": "feature", "dtype": "u8", "shape": [28, 28], "count": 47040000,
                "missing": 0, "sum": 1567298545, "min": 0, "max": 255, "mean": 33.318421449829934}])
    );
    assert_eq!(digits["first"]["features"].as_array().unwrap().len(), 784);
    let labels = inspect(&fixture("mnist/t10k-labels-idx1-ubyte.gz"));
    assert_eq!((&labels["first"], &labels["last"]), (&json!({"labels": [7.0]}), &json!({"labels": [6.0]})));
    assert_eq!((&labels["records"], &labels["fields"][0]["sum"]), (&json!(10000), &json!(44434)));
    let folder = inspect(&fixture("mnist"));
    assert_eq!((&folder["format"], &folder["records"]), (&json!("idx_folder"), &json!(70000)));
    let sums: Vec<&Value> = folder["fields"].as_array().unwrap().iter().map(|field| &field["sum"]).collect();
    assert_eq!(json!(sums), json!([264923200, 44434, 1567298545, 267236]));
    assert_eq!(folder["fields"][3]["name"], json!("train-labels-idx1-ubyte.gz"));
}

#[test]
fn every_element_of_an_idx_file_counts_in_double_precision() {
    let scratch = Scratch::new();
    let values = [1e300f64, -1.5, f64::NAN, 2.25];
    let header = [0, 0, 0x0e, 2, 0, 0, 0, 2, 0, 0, 0, 2];
    let bytes: Vec<u8> = header.into_iter().chain(values.iter().flat_map(|value| value.to_be_bytes())).collect();
    let field = &inspect(&scratch.write("values", bytes))["fields"][0];
    assert_eq!((&field["dtype"], &field["shape"]), (&json!("f64"), &json!([2])));
    assert_eq!((&field["count"], &field["missing"]), (&json!(3), &json!(1)));
    assert_eq!((&field["min"], &field["max"], &field["sum"]), (&json!(-1.5), &json!(1e300), &json!(1e300)));
    let bytes = [&[0, 0, 0x09, 1, 0, 0, 0, 3][..], &[255, 128, 1]].concat();
    let field = &inspect(&scratch.write("signed.idx", bytes))["fields"][0];
    assert_eq!((&field["sum"], &field["min"], &field["max"]), (&json!(-128), &json!(-128), &json!(1)));
}

#[test]
fn photos_have_the_channel_means_of_pillow() {
    // From Pillow 13.0 and numpy: width, height, sums of red, green and blue, smallest and largest value.
    for (name, format, width, height, sums, min, max) in [
        ("astronaut.png", "png", 512, 512, [37109758, 27724204, 25290362], 0, 255),
        ("chelsea.png", "png", 451, 300, [19980169, 15078438, 11743750], 0, 231),
        ("china.jpg", "jpeg", 640, 427, [39548995, 39753680, 38510237], 0, 255),
        ("coffee.png", "png", 600, 400, [38056581, 20590566, 12356340], 0, 255),
        ("flower.jpg", "jpeg", 640, 427, [15067061, 20107708, 15577018], 0, 255),
        ("rocket.jpg", "jpeg", 640, 427, [14283182, 16750506, 22483056], 0, 255),
    ] {
        let found = inspect(&fixture(&format!("photos/{name}")));
        let pixels = f64::from(width * height);
        assert_eq!(
            (&found["format"], &found["width"], &found["height"], &found["channels"], &found["records"]),
            (&json!(format), &json!(width), &json!(height), &json!(3), &json!(1)),
            "{name}"
        );
        assert_eq!(found["channel_means"], json!(sums.map(|sum| f64::from(sum) / pixels)), "{name}");
        let field = &found["fields"][0];
        let sum: i32 = sums.iter().sum();
        assert_eq!((&field["sum"], &field["count"]), (&json!(sum), &json!(width * height * 3)), "{name}");
        assert_eq!((&field["min"], &field["max"]), (&json!(min), &json!(max)), "{name}");
        assert_eq!(field["shape"], json!([3, height, width]), "{name}");
    }
    let turned = inspect(&fixture("images/orientation-6.jpg"));
    assert_eq!((&turned["width"], &turned["height"]), (&json!(24), &json!(16)), "as it stands upright");
    let clear = inspect(&fixture("images/rgba.png"));
    let means = [48576, 48960, 43776].map(|sum| f64::from(sum) / 384.0);
    assert_eq!(clear["channel_means"], json!(means), "alpha is dropped");
}

#[test]
fn folders_are_what_they_hold() {
    let scratch = Scratch::new();
    let photos = scratch.photos();
    let found = inspect(&photos);
    assert_eq!(
        (&found["format"], &found["records"], &found["ignored"]),
        (&json!("image_folder"), &json!(3), &json!(1))
    );
    assert_eq!(found["classes"], json!([{"name": "cat", "count": 1}, {"name": "place", "count": 2}]));
    assert_eq!(found["first"], json!({"path": scratch.path("photos/cat/1.png"), "label": "cat"}));
    assert_eq!(found["fields"][0]["sum"], Value::Null, "pixels are not read");
    assert_eq!(found["fields"][1]["sum"], json!(2), "over the classes' indices");
    let flat = inspect(&fixture("photos"));
    assert_eq!((&flat["records"], &flat["classes"]), (&json!(6), &json!([])));
    assert_eq!(found["ignored_files"], json!(["place/notes.txt"]));
    assert!(text(&["inspect", &photos]).contains("1 ignored\nignored: place/notes.txt\n"));
    let plan =
        |photos: &str| text(&["plan", photos]).lines().find(|line| line.starts_with("source")).unwrap().to_owned();
    assert!(plan(&photos).ends_with(": 3 records; 1 other file in the folder is not read (`inspect` names it)"));
    scratch.write("photos/.hidden/more.png", "");
    scratch.write("photos/.hidden/most.png", "");
    scratch.write("photos/cat/.hidden/more.png", "");
    let found = inspect(&photos);
    assert_eq!(found["ignored_files"], json!([".hidden/", "cat/.hidden/", "place/notes.txt"]));
    assert!(text(&["inspect", &photos]).contains("3 ignored\nignored: .hidden/, cat/.hidden/, place/notes.txt\n"));
    assert!(plan(&photos).ends_with("; 3 other files in the folder are not read (`inspect` names the first ones)"));
    assert_eq!(object(&["plan", "--json", &photos], 0)["sources"][0]["ignored"], json!(3));
    assert!(plan(&fixture("photos")).ends_with("records"));
    scratch.write("walks/a.csv", "x,y\n1,2\n3,4\n");
    scratch.write("walks/b.csv", "x,y\n5,6.5\n");
    let walks = inspect(&scratch.path("walks"));
    assert_eq!((&walks["format"], &walks["records"], &walks["steps"]), (&json!("csv_sequences"), &json!(2), &json!(3)));
    let y = &walks["fields"][1];
    assert_eq!(
        (&y["sum"], &y["count"], &y["dtype"], &y["shape"]),
        (&json!(12.5), &json!(3), &json!("f32"), &json!([0]))
    );
    assert_eq!(walks["last"], json!({"path": scratch.path("walks/b.csv"), "steps": 1}));
    assert_eq!((&walks["ignored"], &walks["ignored_files"]), (&json!(0), &json!([])));
    scratch.write("walks/b.csv", "x,z\n5,6.5\n");
    let error = error(&["inspect", &scratch.path("walks")]);
    assert_eq!((&error["kind"], &error["path"]), (&json!("data"), &json!(scratch.path("walks/b.csv"))));
}

#[test]
fn ignored_files_of_a_folder_are_named() {
    let scratch = Scratch::new();
    let idx = std::fs::read(fixture("mnist/t10k-labels-idx1-ubyte.gz")).unwrap();
    let tar = std::fs::read(fixture("tar/wds-000.tar")).unwrap();
    for (folder, name, bytes) in
        [("walks", "a.csv", &b"x\n1\n"[..]), ("arrays", "a-idx1-ubyte.gz", &idx), ("tar", "a.tar", &tar)]
    {
        scratch.write(&format!("{folder}/{name}"), bytes);
        scratch.write(&format!("{folder}/.hidden"), "x");
        scratch.write(&format!("{folder}/notes\x1b.txt"), "x");
        scratch.write(&format!("{folder}/more/b.csv"), "x\n1\n");
        let path = scratch.path(folder);
        let mut expected = vec!["more".to_owned(), "notes\u{1b}.txt".to_owned()];
        assert_eq!(inspect(&path)["ignored_files"], json!(expected), "{folder}");
        assert!(text(&["inspect", &path]).contains("\nignored: more, notes\\u{1b}.txt\n"), "{folder}");
        for nth in 0..20 {
            scratch.write(&format!("{folder}/a{nth:02}.md"), "x");
        }
        expected = (0..10).map(|nth| format!("a{nth:02}.md")).collect();
        let found = inspect(&path);
        assert_eq!(found["ignored_files"], json!(expected), "{folder}");
        assert_eq!(
            found["ignored"],
            json!(if folder == "tar" { 0 } else { 22 }),
            "members of archives, files otherwise"
        );
        assert!(text(&["inspect", &path]).contains("a08.md, a09.md, ...\n"), "{folder}");
    }
}

#[test]
fn archives_are_inspected_by_their_headers() {
    let pattern = fixture("tar/wds-{000..001}.tar");
    let found = inspect(&pattern);
    assert_eq!((&found["format"], &found["records"], &found["archives"]), (&json!("tar"), &json!(6), &json!(2)));
    assert_eq!(found["members"][0], json!({ "extension": "cls", "count": 6, "bytes": 6 }));
    assert_eq!(found["classes"][2], json!({ "name": "2", "count": 2 }));
    assert_eq!((&found["fields"][0]["name"], &found["fields"][1]["mean"]), (&json!("image"), &json!(1.0)));
    assert_eq!(found["last"]["key"], "n01/0005");
    assert_eq!(found["last"]["label"], "2");
    let text = String::from_utf8(run(&["inspect", &fixture("tar")]).stdout).unwrap();
    assert!(text.contains("archives: 5\nmembers: 12 cls, 6 json, 12 png, 6 txt, 12 ignored\n"), "{text}");
    let found = bench(&[&pattern, "--size", "4", "--batch-size", "4"]);
    assert_eq!((&found["samples"], &found["batches"], &found["bytes"]), (&json!(6), &json!(2), &json!(6 * (48 + 8))));
}

#[test]
fn errors_say_where_and_what_in_json() {
    let scratch = Scratch::new();
    let error_of = |name: &str, bytes: &[u8]| error(&["inspect", &scratch.write(name, bytes)]);
    let missing = error(&["inspect", &fixture("irsi.csv")]);
    assert_eq!((&missing["kind"], &missing["line"]), (&json!("not_found"), &Value::Null));
    assert!(missing["message"].as_str().unwrap().contains("iris.csv"), "{missing}");
    assert_eq!(error(&["bench", &fixture("irsi.csv")])["kind"], json!("not_found"));

    let ragged = error_of("ragged.csv", b"a,b\n1,2\n3,4\n5\n");
    assert_eq!((&ragged["kind"], &ragged["record"], &ragged["line"]), (&json!("data"), &json!(2), &json!(4)));
    assert_eq!(ragged["byte"], json!(12));
    let path = scratch.path("ragged.csv");
    let benched = error(&["bench", &path]);
    assert_eq!((&benched["kind"], &benched["record"], &benched["line"]), (&json!("data"), &json!(2), &json!(4)));

    let latin = error_of("latin.csv", b"name,size\nok,1\nM\xfcller,2\n");
    assert_eq!((&latin["kind"], &latin["line"], &latin["column"]), (&json!("data"), &json!(3), &json!("name")));

    let photo = std::fs::read(fixture("photos/chelsea.png")).unwrap();
    let cut = error_of("cut.png", &photo[..photo.len() / 2]);
    assert_eq!((&cut["kind"], &cut["path"]), (&json!("format"), &json!(scratch.path("cut.png"))));
    assert!(cut["message"].as_str().unwrap().contains("truncated"), "{cut}");

    let trailing = error_of("labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 1, 7, 7]);
    assert_eq!((&trailing["kind"], &trailing["byte"]), (&json!("format"), &json!(9)));
    let packed = error_of("labels-idx1-ubyte.gz", &gzip(&[0, 0, 8, 1, 0, 0, 0, 1, 7, 7]));
    assert_eq!(packed["kind"], json!("format"));
    let half = gzip(&[7; 5000]);
    assert!(error_of("half.csv.gz", &half[..half.len() - 10])["message"].as_str().unwrap().contains("truncated"));

    let binary = error_of("model.bin", b"\x80\x02}\0\0\0");
    assert_eq!((&binary["kind"], &binary["byte"]), (&json!("format"), &Value::Null));
    assert!(binary["message"].as_str().unwrap().contains("a Python pickle"), "{binary}");
    let rubbish = error_of("rubbish.bin", b"a\0");
    assert_eq!((&rubbish["kind"], &rubbish["byte"]), (&json!("format"), &json!(1)));
    assert!(rubbish["message"].as_str().unwrap().contains("CSV"), "{rubbish}");
    assert_eq!(error_of("empty.csv", b"")["kind"], json!("format"));
    std::fs::create_dir(scratch.path("hollow")).unwrap();
    assert_eq!(error(&["inspect", &scratch.path("hollow")])["kind"], json!("not_found"));
    assert_eq!(error(&["bench", &fixture("iris.csv"), "--size", "8"])["kind"], json!("config"));
    // Of several sources, the images take what is for images.
    let scratch = Scratch::new();
    scratch.write("y.csv", "y\n1\n2\n3\n4\n5\n6\n");
    let photos = fixture("photos");
    let both = scratch.write(
        "both.toml",
        format!("[[sources]]\nformat = \"images\"\npath = {photos:?}\nfields = {{ image = {{ image = [4, 4], dtype = \"u8\" }} }}\n[[sources]]\nformat = \"csv\"\npath = \"y.csv\"\nfields = {{ y = \"f32\" }}\n"),
    );
    let found = bench(&["--config", &both, "--size", "8", "--layout", "nhwc", "--dtype", "u8", "--batch-size", "6"]);
    assert_eq!(found["bytes"], json!(6 * (3 * 8 * 8 + 4)), "{found}");
}

#[test]
fn errors_for_a_person_read_place_first_and_say_what_to_do() {
    let scratch = Scratch::new();
    let path = scratch.write("ragged.csv", "a,b\n1,2\n3,4\n5\n");
    let output = run(&["inspect", &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with(&format!("ringfeed: {path}:4: record 2: byte 12: expected 2 fields, found 1\n")),
        "{text}"
    );
    assert!(text.contains("to do:"), "{text}");
    let text = String::from_utf8(run(&["inspect", &scratch.path("raged.csv")]).stderr).unwrap();
    assert!(text.contains("did you mean") && text.contains("ragged.csv"), "{text}");
    let bell = scratch.write("bell.csv", "a,b\n\x1b[31m,1\n");
    let output = run(&["inspect", &bell]);
    assert!(!output.stdout.contains(&0x1b), "data never commands the terminal");
}

#[test]
fn wrong_usage_is_status_2_with_or_without_json() {
    let iris = fixture("iris.csv");
    for args in [
        &["inspect", &iris, "--bogus"][..],
        &["inspect", &iris, "--header", "maybe"],
        &["inspect", &iris, "--delimiter", "ab"],
        &["inspect", &iris, "--delimiter", "7"],
        &["inspect", &iris, "--encoding", "latin-one-ish"],
        &["inspect"],
        &["bench"],
        &["bench", &iris, "--batch-size", "0"],
        &["bench", &iris, "--workers", "0"],
        &["bench", &iris, "--epochs", "0"],
        &["bench", &iris, "--size", "0"],
        &["bench", &iris, "--dtype", "f8"],
        &["bench", &iris, "--layout", "chwn"],
        &["bench", &iris, "--step-ms", "-1"],
        &["bench", &iris, "--step-ms", "nan"],
        &["look", &iris],
        &["inspect", &iris, "--stored", "u8", "--header", "no"],
        &["inspect", &iris, "--stored", "u8", "--delimiter", ";"],
        &["inspect", &iris, "--stored", "u8", "--encoding", "latin1"],
        &["bench", &iris, "--shield", "--workers", "2"],
        &["bench", &iris, "--shield", "--prefetch", "2"],
        &[],
    ] {
        for args in [args.to_vec(), [args, &["--json"]].concat()] {
            let output = run(&args);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
        }
    }
}

#[test]
fn flags_for_tables_are_refused_where_there_is_none() {
    let image = fixture("photos/china.jpg");
    for flags in [["--header", "no"], ["--delimiter", ";"], ["--encoding", "latin1"]] {
        for path in [fixture("photos"), fixture("mnist")] {
            let refused = error(&[&["inspect", &path], &flags[..]].concat());
            assert_eq!(refused["kind"], json!("config"));
            assert!(refused["message"].as_str().unwrap().contains("are for CSV files"), "{refused}");
        }
    }
    let refused = error(&["inspect", &image, "--header", "yes"]);
    assert_eq!((&refused["kind"], &refused["path"]), (&json!("config"), &json!(image)));
    assert_eq!(object(&["inspect", &image, "--header", "auto", "--json"], 0)["records"], json!(1));
}

#[test]
fn help_and_version_are_there() {
    let output = run(&["--version"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("ringfeed {}\n", env!("CARGO_PKG_VERSION")));
    for args in [&["--help"][..], &["inspect", "--help"], &["bench", "--help"]] {
        let output = run(args);
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("Examples:"), "{args:?}");
    }
    assert!(String::from_utf8(run(&["--help"]).stdout).unwrap().contains("Exit status"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for args in [&["inspect", &fixture("mnist"), "--json"][..], &["inspect", &fixture("iris.csv")]] {
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn bench_reads_the_same_with_and_without_the_shield() {
    let scratch = Scratch::new();
    let photos = scratch.photos();
    let packed = scratch.write("iris.csv.gz", gzip(&std::fs::read(fixture("iris.csv")).unwrap()));
    scratch.write("walks/a.csv", "a,b\n1,2\n3,4\n");
    scratch.write("walks/b.csv", "a,b\n5,\n");
    let (iris, mnist, digits) = (fixture("iris.csv"), fixture("mnist"), fixture("mnist/t10k-images-idx3-ubyte.gz"));
    // Samples, batches and bytes of one epoch.
    for (args, expected) in [
        (&[iris.as_str(), "--batch-size", "40"][..], [150, 4, 150 * 5 * 4]),
        (&[&packed, "--batch-size", "40"], [150, 4, 150 * 5 * 4]),
        (&[&packed, "--batch-size", "40", "--shuffle", "1"], [150, 4, 150 * 5 * 4]),
        (&[&mnist, "--batch-size", "1000"], [60000, 60, 60000 * (784 + 8)]),
        (&[&digits, "--batch-size", "999", "--dtype", "f32"], [10000, 11, 10000 * 784 * 4]),
        (&[&photos, "--batch-size", "2", "--size", "16"], [3, 2, 3 * (3 * 16 * 16 + 8)]),
        (&[&photos, "--size", "16", "--dtype", "f32", "--layout", "nhwc"], [3, 1, 3 * (3 * 16 * 16 * 4 + 8)]),
        (&[&photos], [3, 1, 3 * (3 * 224 * 224 + 8)]),
        (&[&fixture("photos"), "--size", "8"], [6, 1, 6 * 3 * 8 * 8]),
        (&[&fixture("photos/china.jpg"), "--size", "8"], [1, 1, 3 * 8 * 8]),
        (&[&scratch.path("walks")], [2, 1, 2 * 2 * (2 + 1) * 4]),
    ] {
        for mode in [&["--shield"][..], &["--workers", "2"], &["--workers", "1", "--prefetch", "1"]] {
            let args = [args, mode, &["--epochs", "2", "--warmup-epochs", "1"]].concat();
            let found = bench(&args);
            let counts = ["samples", "batches", "bytes"].map(|name| found[name].as_u64().unwrap());
            assert_eq!(counts, expected.map(|number| 2 * number), "{args:?}");
            assert_eq!(found["shield"], json!(mode[0] == "--shield"));
        }
    }
}

#[test]
fn flags_for_workers_take_the_shield_of_settings_away() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shielded.toml");
    std::fs::write(&file, format!("source = {:?}\nshield = true\n", fixture("iris.csv"))).unwrap();
    let file = file.to_str().unwrap();
    for (flags, is_shielded) in [(&[][..], true), (&["--workers", "2"], false), (&["--prefetch", "1"], false)] {
        let found = bench(&[&["--config", file][..], flags].concat());
        assert_eq!(found["shield"], json!(is_shielded), "{flags:?}");
    }
}

#[test]
fn bench_finds_numbers_and_writes_them_into_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.toml");
    let file = file.to_str().unwrap();
    let found = bench(&[
        &fixture("iris.csv"),
        "--workers",
        "auto",
        "--prefetch",
        "auto",
        "--write-settings",
        file,
        "--epochs",
        "3",
    ]);
    assert_eq!((&found["tuning"]["workers"], &found["tuning"]["prefetch"]), (&json!(true), &json!(true)));
    let tuned = bench(&["--config", file]);
    assert_eq!((&tuned["workers"], &tuned["prefetch"]), (&found["workers"], &found["prefetch"]));
    assert_eq!((&tuned["tuning"], &tuned["samples"]), (&json!(null), &json!(150)));
}

#[test]
fn bench_reports_everything_that_it_promises() {
    // More batches than the ring holds, or all might have been made before the counting began.
    let found = bench(&[&fixture("iris.csv"), "--workers", "3", "--prefetch", "4", "--epochs", "3"]);
    for name in ["seconds", "samples_per_second", "first_batch_ms"] {
        assert!(found[name].as_f64().unwrap() > 0.0, "{name}: {found}");
    }
    assert!(found["trainer_wait_seconds"].as_f64().unwrap() >= 0.0);
    let stages = found["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plan", "read", "decode", "settle"]);
    for stage in stages {
        assert!(["busy_seconds", "samples_per_second"].iter().all(|name| stage[name].is_number()));
        // Prefetch runs on into the next epoch, as far as the ring reaches.
        assert!(stage["samples"].as_u64().unwrap() > 0, "of the counted epoch and what runs on: {stage}");
    }
    let verdict = &found["verdict"];
    assert!(
        verdict["limit"].is_string() && verdict["evidence"].is_string() && verdict["waited"].is_number(),
        "{verdict}"
    );
    assert_eq!((&found["trainer"]["batches"], &found["worker_threads"]["threads"]), (&json!(15), &json!(3)));
    assert_eq!(found["queue"]["prefetch"], json!(4));
    let ring = &found["ring"];
    assert_eq!((&ring["slots"], &ring["regrown"], &ring["spilled"]), (&json!(6), &json!(0), &json!(0)));
    assert!(ring["slot_bytes"].as_u64().unwrap() >= 32 * 5 * 4);
    let peak = &found["peak_rss_bytes"];
    assert_eq!(peak.is_u64(), cfg!(target_os = "linux"), "{peak}");
    let text = String::from_utf8(run(&["bench", &fixture("iris.csv"), "--epochs", "200"]).stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.contains(": the trainer waited "), "{text}");
}

#[test]
fn figures_for_a_person_have_three_digits_or_groups_of_them() {
    let scratch = Scratch::new();
    let numbers: String = (0..2000).map(|number| format!("{number}\n")).collect();
    let path = scratch.write("x.csv", format!("x\n{numbers}"));
    let shown = text(&["bench", "--batch-size", "1", "--workers", "1", &path]);
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("samples").contains("2,000 in 2,000 batches"), "{shown}");
    assert!(line("trainer").starts_with("trainer    2,000 batches in"), "{shown}");
    for name in ["time", "first batch"] {
        let digits = line(name).chars().filter(char::is_ascii_digit).collect::<String>();
        let digits = digits.trim_start_matches('0');
        assert!((1..=4).contains(&digits.len()), "{name}: {shown}");
    }
}

#[test]
fn a_slow_trainer_is_named_as_the_bottleneck() {
    let iris = fixture("iris.csv");
    // Behind an epoch of warming up, no batch is the first.
    let args = [iris.as_str(), "--step-ms", "150", "--batch-size", "50"];
    // A machine that others use may be what limits, for one run or another.
    let is_trainer = |found: &Value| found["verdict"]["limit"] == json!("trainer");
    let found = (0..5).map(|_| bench(&args)).find(is_trainer).unwrap_or_else(|| bench(&args));
    assert!(is_trainer(&found), "{found}");
    assert!(found["seconds"].as_f64().unwrap() >= 3.0 * 0.15, "each of three batches is held that long: {found}");
    let shown = || String::from_utf8(run(&[&["bench"], &args[..]].concat()).stdout).unwrap();
    let says_so = |text: &String| text.lines().last().unwrap().starts_with("trainer-bound: the trainer waited ");
    let text = (0..5).map(|_| shown()).find(says_so).unwrap_or_else(shown);
    assert!(says_so(&text), "{text}");
}

#[test]
fn headspace_is_what_the_trainer_could_do() {
    let iris = fixture("iris.csv");
    let args = [iris.as_str(), "--step-ms", "20", "--batch-size", "30", "--headspace"];
    let headspace = &bench(&args)["headspace"];
    let most = headspace["most_samples_per_second"].as_f64().unwrap();
    assert!(most > 0.0 && most <= 30.0 / 0.02, "a step alone takes 20 ms: {headspace}");
    assert!(headspace["undisturbed_step_seconds"].as_f64().unwrap() >= 0.02, "{headspace}");
    let text = String::from_utf8(run(&[&["bench"], &args[..]].concat()).stdout).unwrap();
    assert!(text.contains("headspace       with an infinitely fast loader: "), "{text}");
}

#[test]
fn runs_are_reported_on_a_page_and_compared() {
    let (scratch, iris) = (Scratch::new(), fixture("iris.csv"));
    let page = scratch.path("run.html");
    let args = [iris.as_str(), "--batch-size", "30", "--epochs", "3", "--step-ms"];
    let slow = bench(&[&args[..], &["60"]].concat());
    let second = scratch.write("slow.json", slow.to_string());
    let compared = || {
        let fast = bench(&[&args[..], &["1", "--report", &page]].concat());
        assert_eq!(fast["epoch_samples_per_second"].as_array().unwrap().len(), 3);
        let first = scratch.write("fast.json", fast.to_string());
        let found: Value = serde_json::from_slice(&run(&["compare", &first, &second, "--json"]).stdout).unwrap();
        (first, found)
    };
    let line = |found: &Value, name: &str| {
        found["lines"].as_array().unwrap().iter().find(|line| line["figure"] == name).unwrap().clone()
    };
    // A busy machine may make any run a slow one.
    let is_slower = |(_, found): &(String, Value)| {
        let (rate, decode) = (line(found, "samples/s"), line(found, "decode, us/sample"));
        let is_known = decode["beyond_spread"].is_boolean();
        rate["ratio"].as_f64().unwrap() < 0.5 && rate["beyond_spread"] == json!(true) && is_known
    };
    let of_runs = (0..10).map(|_| compared()).find(is_slower).unwrap_or_else(compared);
    assert!(is_slower(&of_runs), "{}", of_runs.1);
    let (first, found) = of_runs;
    assert!(line(&found, "step, ms")["second"].as_f64().unwrap() >= 60.0, "{found}");
    assert_eq!(line(&found, "step, ms")["beyond_spread"], json!(true), "1 ms and 60 ms: {found}");
    assert!(line(&found, "memory, bytes")["beyond_spread"].is_null(), "one figure of the whole run: {found}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("iris.csv") && html.contains("batch size"), "{html}");
    let text = String::from_utf8(run(&["compare", &first, &second]).stdout).unwrap();
    assert!(text.contains("second by first") && text.contains("second  trainer: "), "{text}");
    // Reports have the epochs, too, and say what they are about.
    let [data, photos] = ["data.json", "photos.json"].map(|name| scratch.path(name));
    bench(&[&args[..], &["1", "--report", &data]].concat());
    bench(&[&fixture("photos"), "--batch-size", "3", "--epochs", "2", "--report", &photos]);
    let found: Value = serde_json::from_slice(&run(&["compare", &data, &second, "--json"]).stdout).unwrap();
    assert!(found["lines"][0]["beyond_spread"].is_boolean() && found["data"].is_null(), "{found}");
    let text = String::from_utf8(run(&["compare", &data, &photos]).stdout).unwrap();
    assert!(text.contains("the runs read different data: "), "{text}");
    let same: Value = serde_json::from_slice(&run(&["compare", &first, &first, "--json"]).stdout).unwrap();
    assert!(same["lines"].as_array().unwrap().iter().all(|line| line["beyond_spread"] != json!(true)), "{same}");
    let verdict = json!({"limit": "trainer", "evidence": "", "advice": ""});
    for (text, why) in [
        ("{}".to_owned(), "it has no verdict.limit"),
        ("[1, 2]".to_owned(), "it has no verdict.limit"),
        (html, "it is not JSON"),
        (json!({"verdict": {"limit": 3}}).to_string(), "it has no verdict.limit"),
        (json!({"verdict": verdict}).to_string(), "it has no samples"),
        (
            json!({"verdict": verdict, "samples": 3, "trainer": {"batches": "3"}}).to_string(),
            "it has no trainer.batches",
        ),
        (json!({"error": {"kind": "io", "message": "gone"}}).to_string(), "it reports an error"),
    ] {
        let other = scratch.write("other.json", text);
        for pair in [[&first, &other], [&other, &first]] {
            let refused = run(&["compare", pair[0], pair[1]]);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(1), "{refused:?}");
            assert!(
                said.contains(why) && said.contains("other.json") && said.contains("bench --report FILE.json"),
                "{said}"
            );
        }
    }
}

#[test]
fn settings_come_from_a_file_and_flags_override_them() {
    let scratch = Scratch::new();
    scratch.write("data/iris.csv", std::fs::read(fixture("iris.csv")).unwrap());
    let toml = scratch.write(
        "loader.toml",
        "batch_size = 30\nprefetch = 3\nworkers = 1\n\n[[sources]]\nformat = \"csv\"\npath = \"data/iris.csv\"\n\
         fields = { x = { from = \"*\", numbers = \"f32\" }, y = { from = \"virginica\", class = [] } }\n",
    );
    let settings = json!({"batch_size": 30, "prefetch": 3, "workers": 1, "sources":
        [{"format": "csv", "path": "data/iris.csv", "fields":
            {"x": {"from": "*", "numbers": "f32"}, "y": {"from": "virginica", "class": []}}}]});
    let json = scratch.write("loader.json", settings.to_string());
    for file in [&toml, &json] {
        let found = bench(&["--config", file]);
        assert_eq!(found["path"], json!(scratch.path("data/iris.csv")));
        assert_eq!((&found["batches"], &found["ring"]["slots"]), (&json!(5), &json!(5)));
        // Four features and an i64 label.
        assert_eq!(found["bytes"], json!(150 * (4 * 4 + 8)));
        let found = bench(&["--config", file, "--batch-size", "75", "--prefetch", "1", "--workers", "2"]);
        assert_eq!((&found["batches"], &found["workers"], &found["prefetch"]), (&json!(2), &json!(2), &json!(1)));
    }
    let other = scratch.write("other.csv", "a,b,c,d,virginica\n1,2,3,4,0\n");
    assert_eq!(bench(&[&other, "--config", &toml])["samples"], json!(1), "PATH replaces the file's");
    let bare = scratch.write("bare.toml", "batch_size = 50\nshuffle = 1\n");
    assert_eq!(bench(&[&fixture("iris.csv"), "--config", &bare])["batches"], json!(3));
    let both = scratch.write(
        "both.toml",
        "[[sources]]\nformat = \"idx\"\npath = \"t10k-images-idx3-ubyte.gz\"\n[[sources]]\nformat = \"idx\"\n\
         path = \"t10k-labels-idx1-ubyte.gz\"\nfields.labels = { array = [], role = \"label\" }\n",
    );
    assert_eq!(bench(&[&fixture("mnist"), "--config", &both])["samples"], json!(10000));

    let wrong = scratch.write("wrong.toml", "batch_size = 30\nbatchsize = 3\n");
    let found = error(&["bench", "--config", &wrong]);
    assert_eq!((&found["kind"], &found["line"], &found["path"]), (&json!("config"), &json!(2), &json!(wrong)));
    assert_eq!(error(&["bench", "--config", &bare])["kind"], json!("config"), "no source anywhere");
}

#[test]
fn what_settings_ask_to_be_mapped_is_mapped_and_said() {
    let scratch = Scratch::new();
    scratch.write("iris.csv", std::fs::read(fixture("iris.csv")).unwrap());
    let source = "[[sources]]\nformat = \"csv\"\npath = \"iris.csv\"\noptions = { access = \"map\" }\n";
    let settings = scratch.write("loader.toml", source);
    for args in [&["bench", "--config", &settings] as &[_], &["plan", &settings], &["verify", "--config", &settings]] {
        let output = run(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("iris.csv is mapped, as the settings ask: do not change or truncate it"), "{said}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap();
    }
}

#[test]
fn images_of_a_config_keep_the_size_that_it_gives() {
    let scratch = Scratch::new();
    scratch.photos();
    let file = |options: &str| {
        let text = format!("[[sources]]\nformat = \"images\"\npath = \"photos\"\nfields = {options}\n");
        scratch.write("images.toml", text)
    };
    let pixels = |args: &[&str]| bench(args)["bytes"].as_u64().unwrap();
    let resized = file("{ image = { image = [4, 6], dtype = \"u8\" }, label = \"class\" }");
    assert_eq!(pixels(&["--config", &resized]), 3 * (3 * 4 * 6 + 8));
    assert_eq!(pixels(&["--config", &resized, "--size", "5"]), 3 * (3 * 5 * 5 + 8));
    // The images' own sizes, padded to the largest, with a mask.
    assert_eq!(pixels(&["--config", &file("{}")]), 3 * (4 * 427 * 640 + 8));
}

#[test]
fn a_bad_record_met_while_measuring_is_reported() {
    let scratch = Scratch::new();
    let photos = scratch.photos();
    let photo = std::fs::read(fixture("photos/china.jpg")).unwrap();
    let bad = scratch.write("photos/cat/2.jpg", &photo[..photo.len() / 2]);
    for mode in [&[][..], &["--shield"]] {
        let found = error(&[&["bench", photos.as_str(), "--size", "8"], mode].concat());
        assert_eq!((&found["path"], &found["record"]), (&json!(bad), &json!(1)));
    }
    let skip = scratch.write("skip.toml", "bad_records = { skip = { share = 0.5 } }\n");
    let found = bench(&[&photos, "--config", &skip, "--size", "8"]);
    assert_eq!((&found["samples"], &found["skipped"]), (&json!(3), &json!(1)));
    let found = bench(&[&photos, "--skip-bad", "--size", "8"]);
    assert_eq!((&found["samples"], &found["skipped"]), (&json!(3), &json!(1)));
    assert!(Path::new(&bad).exists());
}

#[test]
fn bench_measures_the_upload_to_a_device() {
    let found = bench(&[&fixture("iris.csv"), "--batch-size", "16", "--epochs", "2", "--device", "host"]);
    let plain = bench(&[&fixture("iris.csv"), "--batch-size", "16", "--epochs", "2"]);
    for figure in ["samples", "batches", "bytes"] {
        assert_eq!(found[figure], plain[figure], "{figure}");
    }
    let upload = &found["upload"];
    assert_eq!(upload["device"], json!("host"));
    assert!(upload["bytes"].as_u64().unwrap() >= found["bytes"].as_u64().unwrap());
    assert!(upload["plain_bytes_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(plain.get("upload"), None);
    let text = run(&["bench", &fixture("iris.csv"), "--device", "host"]);
    assert!(String::from_utf8(text.stdout).unwrap().contains("plain copies of that size reach"));
}

#[test]
fn bench_converts_images_on_the_device() {
    let photos = fixture("photos");
    let found = bench(&[&photos, "--size", "64", "--device", "host", "--convert", "bf16"]);
    assert_eq!(found["samples"], bench(&[&photos, "--size", "64"])["samples"]);
    let refused = error(&["bench", &photos, "--dtype", "f32", "--size", "64", "--device", "host", "--convert", "f16"]);
    assert_eq!(refused["kind"], json!("config"));
}

#[test]
fn a_device_that_is_not_there_is_an_error_that_says_what_to_do() {
    let iris = fixture("iris.csv");
    let missing = error(&["bench", &iris, "--device", "cuda:9999"]);
    assert!([json!("unsupported"), json!("device")].contains(&missing["kind"]), "{missing}");
    for wrong in [&["--device", "gpu"][..], &["--device", "cuda:x"], &["--convert", "f16"]] {
        let output = run(&[&["bench", &iris], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn npy_files_are_told_by_their_content_and_have_the_figures_of_numpy() {
    let scratch = Scratch::new();
    let path = scratch.write("renamed.csv", std::fs::read(fixture("npy/version-3.npy")).unwrap());
    let report = inspect(&path);
    assert_eq!((&report["format"], &report["records"]), (&json!("npy"), &json!(2)));
    let field = &report["fields"][0];
    assert_eq!((&field["dtype"], &field["shape"]), (&json!("i32"), &json!([3, 2])));
    assert_eq!((&field["sum"], &field["min"], &field["max"]), (&json!(66), &json!(0), &json!(11)));
    assert_eq!(report["last"]["features"], json!([6.0, 7.0, 8.0, 9.0, 10.0, 11.0]));
    assert_eq!(object(&["verify", &path, "--json"], 0)["samples"], json!(2));
    assert_eq!(bench(&[&path, "--dtype", "f32"])["bytes"], json!(2 * 6 * 4));
    let bad = error(&["inspect", &fixture("npy/bad-object.npy")]);
    assert_eq!(bad["kind"], json!("unsupported"));
}

#[test]
fn flags_say_what_a_file_without_a_header_holds() {
    let scratch = Scratch::new();
    let data: Vec<u8> = (0..600u16).flat_map(u16::to_be_bytes).collect();
    let path = scratch.write("numbers.bin", [b"head".as_slice(), &data].concat());
    let flags = ["--stored", "u16", "--shape", "2,3", "--header-bytes", "4", "--big-endian"];
    let report = object(&[&["inspect", &path, "--json"], &flags[..]].concat(), 0);
    assert_eq!((&report["format"], &report["records"]), (&json!("raw"), &json!(100)));
    assert_eq!(report["fields"][0]["sum"], json!(600 * 599 / 2));
    assert_eq!(report["first"]["features"], json!([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    let verified = object(&[&["verify", &path, "--json"], &flags[..]].concat(), 0);
    assert_eq!((&verified["format"], &verified["samples"]), (&json!("raw"), &json!(100)));
    assert_eq!(bench(&[&[path.as_str()], &flags[..]].concat())["samples"], json!(100));
    let tokens = ["--stored", "u16", "--header-bytes", "4", "--window", "100"];
    let measured = bench(&[&[path.as_str()], &tokens[..]].concat());
    assert_eq!((&measured["samples"], &measured["bytes"]), (&json!(5), &json!(5 * 2 * 100 * 8)));
    let unknown = run(&["inspect", &path, "--stored", "u12"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there are u8, i8, u16"), "{unknown:?}");
    let alone = run(&["inspect", &path, "--shape", "3"]);
    assert_eq!(alone.status.code(), Some(2));
    let whole = error(&["inspect", &path, "--stored", "f32", "--shape", "5"]);
    assert!(whole["message"].as_str().unwrap().contains("not whole records"), "{whole}");
}

/// What a limit of the size of files makes of a command: its status, and what it said.
#[cfg(unix)]
fn limited(blocks: u32, args: &[&str], stdout: std::process::Stdio) -> (Option<i32>, String) {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]).arg(command(&[]).get_program());
    let output = shell.args(args).stdout(stdout).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[cfg(unix)]
#[test]
fn a_limit_of_the_size_of_files_is_an_error_and_no_signal() {
    use std::process::Stdio;
    let scratch = Scratch::new();
    let table = scratch.write("table.csv", "x,y\n1,2\n3,4\n");
    // No index is kept of a file that has just been written.
    std::fs::File::options().write(true).open(&table).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let in_files = format!(
        "[memory]\nkind = {{ temp_file = {{ limit_bytes = 1000000 }} }}\n[[sources]]\nformat = \"csv\"\npath = {table:?}\n"
    );
    let in_files = scratch.write("files.toml", in_files);
    let (status, said) = limited(0, &["bench", "--config", &in_files], Stdio::piped());
    assert!(status == Some(1) && said.contains("ulimit -f"), "{status:?} {said}");
    let indexed = "[[sources]]\nformat = \"csv\"\npath = \"table.csv\"\noptions = { saved_index = \"beside\" }\n";
    let indexed = scratch.write("indexed.toml", indexed);
    let (status, said) = limited(0, &["bench", "--config", &indexed, "--shuffle", "1"], Stdio::piped());
    assert!(status == Some(1) && said.contains("ulimit -f"), "{status:?} {said}");
    let (status, said) = limited(0, &["pack", &table, &scratch.path("packed")], Stdio::piped());
    let of_the_journal = said.contains(".ringfeed-pack") && said.contains("ulimit -f");
    assert!(status == Some(1) && of_the_journal, "{status:?} {said}");
    let output = std::fs::File::create(scratch.path("output")).unwrap();
    let (status, said) = limited(0, &["inspect", &table], output.into());
    assert!(status == Some(1) && said.contains("standard output"), "{status:?} {said}");
    // What is gathered lies in a file of memory: without it, rows are read one by one.
    let many: String = (0..5000).map(|row| format!("{row},{}\n", row * 7)).collect();
    let many = scratch.write("many.csv", many);
    assert_eq!(limited(0, &["bench", &many, "--shuffle", "1"], Stdio::piped()).0, Some(0));
}

/// A few bytes that claim to be 77 megapixels, which is within the limit of pixels.
#[cfg(target_os = "linux")]
#[test]
fn an_image_for_which_there_is_no_address_space_is_bad_and_the_others_are_read() {
    let scratch = Scratch::new();
    let gif = b"GIF89a\x60\x22\x60\x22\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    let side = 8_800u32 - 1;
    let mut webp = b"RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0\x2f".to_vec();
    webp.extend((side | side << 14).to_le_bytes());
    webp.extend([0x07, 0x10, 0x11, 0x11, 0x88, 0x88, 0xfe, 7, 0, 0, 0, 0, 0]);
    for (name, bytes) in [("gif", &gif[..]), ("webp", &webp)] {
        // Two, because what the first one needed is not there for the second either.
        scratch.write(&format!("{name}/a.{name}"), bytes);
        scratch.write(&format!("{name}/c.{name}"), bytes);
        scratch.write(&format!("{name}/b.png"), std::fs::read(fixture("photos/coffee.png")).unwrap());
        let settings = format!(
            "workers = 1\n[[sources]]\nformat = \"images\"\npath = {:?}\nfields = {{ image = {{ image = [8, 8] }} }}\n",
            scratch.path(name)
        );
        let settings = scratch.write(&format!("{name}.toml"), settings);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -v 220000; exec \"$0\" \"$@\""]).arg(command(&[]).get_program());
        let output = shell.args(["verify", "--config", &settings, "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["samples"], &report["bad_samples"]), (&json!(3), &json!(2)), "{report}");
        let bad = report["bad"].to_string();
        assert!(
            bad.contains(&format!("c.{name}"))
                && bad.contains(&format!("a.{name}"))
                && bad.contains("which the system does not give"),
            "{bad}"
        );
    }
}

#[test]
fn shells_learn_to_complete_the_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("skip-bad"), "{shell}");
    }
}

#[test]
fn verbose_says_on_standard_error_what_the_library_does() {
    let scratch = Scratch::new();
    let photos = scratch.photos();
    let photo = std::fs::read(fixture("photos/china.jpg")).unwrap();
    scratch.write("photos/cat/\x1b[31m.jpg", &photo[..photo.len() / 2]);
    let args = ["bench", "--skip-bad", "--size", "8", "--json", &photos];
    let quiet = run(&args);
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");
    for flag in ["-v", "--verbose"] {
        for args in [[&[flag][..], &args].concat(), [&args[..], &[flag]].concat()] {
            let output = run(&args);
            let said = String::from_utf8(output.stderr).unwrap();
            let format = format!("ringfeed: debug: the format was found out, path: {photos}, format: image_folder\n");
            assert!(said.contains(&format), "{said}");
            assert!(said.lines().any(|line| line.starts_with("ringfeed: warn: a bad record, epoch: 0")), "{said}");
            assert!(!said.contains('\x1b') && said.contains("\\u{1b}[31m.jpg"), "{said}");
            assert!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["skipped"] == json!(1));
        }
    }
}

#[test]
fn standard_input_is_read_as_a_file_is() {
    let temporary = tempfile::tempdir().unwrap();
    let piped = |args: &[&str], name: &str| {
        let input = std::fs::File::open(fixture(name)).unwrap();
        let output = command(args).env("TMPDIR", temporary.path()).stdin(input).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), found)
    };
    let (status, found) = piped(&["inspect", "-", "--json"], "iris-species.csv");
    let whole = object(&["inspect", &fixture("iris-species.csv"), "--json"], 0);
    assert_eq!((status, &found["fields"], &found["records"]), (Some(0), &whole["fields"], &whole["records"]));
    assert_eq!(found["path"], json!("standard input"), "{found}");
    for (task, name) in [("verify", "zstd/table.csv.zst"), ("verify", "iris.csv"), ("plan", "iris.csv")] {
        let (status, found) = piped(&[task, "-", "--json"], name);
        assert!(status == Some(0) && found["samples"].as_u64() > Some(0), "{task}: {found}");
    }
    let (status, found) = piped(&["bench", "-", "--json", "--batch-size", "7"], "iris.csv");
    assert_eq!((status, &found["samples"]), (Some(0), &json!(150)), "{found}");
    let nothing = error(&["inspect", "-"]);
    assert_eq!(nothing["path"], json!("standard input"), "{nothing}");
    let scratch = Scratch::new();
    let bad = scratch.write("bad.csv", "x,y\n1,2\n3,4,5\n");
    for (task, is_bad) in [("inspect", true), ("verify", true), ("bench", true), ("inspect", false), ("bench", false)] {
        let input = std::fs::File::open(if is_bad { bad.clone() } else { fixture("iris.csv") }).unwrap();
        let output = command(&[task, "-"]).env("TMPDIR", temporary.path()).stdin(input).output().unwrap();
        assert_eq!(output.status.success(), !is_bad, "{output:?}");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(
            said.contains("standard input") && !said.contains(temporary.path().to_str().unwrap()),
            "{task}: {said}"
        );
    }
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "nothing stays behind");
}

#[cfg(unix)]
#[test]
fn on_a_terminal_inspect_says_that_it_goes_on() {
    let (terminal, _keys) = pseudo::Pseudo::open();
    // It reads for as long as standard input has no end.
    let mut child = terminal.shown(command(&["inspect", "-", "--json"]));
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    terminal.wait_for("reading, ");
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("a,b\n{}", "1,2\n".repeat(500_000)).as_bytes()).unwrap();
    if cfg!(target_os = "linux") {
        terminal.wait_for(", 2.00 MB read");
    }
    input.write_all(b"3,4\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["records"], json!(500_001));
    terminal.wait_until("an empty line in its place", |text| text.rfind("\u{1b}[2K") > text.rfind("reading"));
}

/// Sends a signal to a process that has not been waited for.
#[cfg(unix)]
fn send(signal: &str, child: &std::process::Child) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[cfg(unix)]
#[test]
fn an_interrupted_benchmark_shows_the_figures_so_far_and_leaves_nothing_behind() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let temporary = tempfile::tempdir().unwrap();
    let endless = ["--epochs", "100000000", "--batch-size", "10", "--step-ms", "1", "--live"];
    for (signal, status, path) in [("-INT", 130, "-"), ("-TERM", 143, "-"), ("-INT", 130, &*fixture("iris.csv"))] {
        let mut bench = command(&[&["bench", path, "--json"], &endless[..]].concat());
        let bench = bench.env("TMPDIR", temporary.path()).stdin(std::fs::File::open(fixture("iris.csv")).unwrap());
        let mut bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The first line of figures: the run has begun.
        let mut lines = BufReader::new(bench.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(" samples/s, "), "{line}");
        send(signal, &bench);
        let output = bench.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["samples"].as_u64().unwrap() > 0 && report["is_cut_short"] == json!(true), "{report}");
        assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "nothing stays behind");
    }
    // While it still reads what comes in.
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let mut bench = command(&["bench", "-"]);
        let bench = bench.env("TMPDIR", temporary.path()).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut bench = bench.stdout(Stdio::null()).spawn().unwrap();
        // Waiting for the process would close it.
        let _input = bench.stdin.take();
        let is_kept =
            || temporary.path().read_dir().unwrap().any(|entry| entry.unwrap().path().join("standard input").exists());
        while !is_kept() && bench.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        send(signal, &bench);
        assert_eq!(bench.wait().unwrap().code(), Some(status));
        assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "nothing stays behind");
    }
}

#[test]
fn no_command_writes_over_what_it_reads() {
    let scratch = Scratch::new();
    let text = "a,y\n1,x\n2,y\n3,x\n";
    let table = scratch.write("table.json.csv", text);
    for (flag, ending) in [("--write-settings", "toml"), ("--trace", "trace"), ("--report", "html")] {
        let own = scratch.path(&format!("own.{ending}"));
        std::fs::hard_link(&table, &own).unwrap();
        let linked = scratch.path(&format!("linked.{ending}"));
        #[cfg(unix)]
        std::os::unix::fs::symlink(&table, &linked).unwrap();
        for file in if cfg!(unix) { vec![&linked] } else { vec![] } {
            let refused = error(&["bench", &table, flag, file]);
            assert!(refused["message"].as_str().unwrap().contains("read by the same command"), "{refused}");
        }
        let missing = scratch.path(&format!("nowhere/x.{ending}"));
        let refused = error(&["bench", &table, flag, &missing]);
        assert_eq!((&refused["kind"], &refused["path"]), (&json!("not_found"), &json!(missing)));
    }
    let refused = error(&["bench", &table, "--report", &scratch.path("report.txt")]);
    assert!(refused["message"].as_str().unwrap().contains(".html or .json"), "{refused}");
    let settings = |saved: &str| {
        let settings = format!("prepared = {saved:?}\n[source]\npath = {table:?}\n[prepare.columns]\na = \"number\"\n");
        scratch.write("fit.toml", settings)
    };
    for saved in [&table, &scratch.path("fit.toml")] {
        let refused = error(&["fit", &settings(saved)]);
        assert!(refused["message"].as_str().unwrap().contains("read by the same command"), "{refused}");
    }
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
}

#[test]
fn files_that_do_not_go_together_are_an_error_of_verify_too() {
    let scratch = Scratch::new();
    scratch.write("parts/1.csv", "a,b\n1,2\n");
    scratch.write("parts/2.csv", "b,a\n1,2\n");
    let pattern = scratch.path("parts/*.csv");
    for command in ["inspect", "verify", "bench"] {
        let refused = error(&[command, &pattern]);
        assert!(refused["message"].as_str().unwrap().contains("are read as one have the same"), "{command}: {refused}");
    }
    scratch.write("parts/2.csv", "a,b\n3,4\n");
    assert_eq!(run(&["verify", &pattern]).status.code(), Some(0));
}

#[test]
fn records_are_shown_as_they_are_stored() {
    let scratch = Scratch::new();
    let large = [i64::MAX, -(1 << 53) - 1, 0];
    let path = scratch.write("large.bin", large.map(i64::to_le_bytes).concat());
    let output = run(&["inspect", &path, "--stored", "i64", "--json"]);
    let found = String::from_utf8(output.stdout).unwrap();
    assert!(found.contains("\"first\":{\"labels\":[9223372036854775807]}"), "{found}");
    let path = scratch.write("lists.jsonl", "{\"x\":[9007199254740993,1],\"n\":null}\n{\"x\":[-9007199254740992,2]}\n");
    let found = inspect(&path);
    let field = |name: &str| found["fields"].as_array().unwrap().iter().find(|field| field["name"] == name).unwrap();
    assert_eq!(field("x")["sum"], json!(4));
    assert_eq!((&field("n")["count"], &field("n")["missing"]), (&json!(0), &json!(2)));
}

#[test]
fn sums_of_integers_have_all_of_their_digits_as_far_as_a_line_has_room() {
    let scratch = Scratch::new();
    let path = scratch.write("large.npy", npy("<i8", &[(1i64 << 53) + 1, 2].map(i64::to_le_bytes).concat()));
    let field = &inspect(&path)["fields"][0];
    assert_eq!((&field["dtype"], &field["sum"]), (&json!("i64"), &json!(9_007_199_254_740_995_i64)));
    let shown = text(&["inspect", &path]);
    assert!(shown.contains(" 9007199254740995 ") && shown.contains(" 9007199254740993 "), "{shown}");
    let path = scratch.write("largest.npy", npy("<u8", &[u64::MAX; 2].map(u64::to_le_bytes).concat()));
    let field = &inspect(&path)["fields"][0];
    assert_eq!((&field["dtype"], &field["sum"]), (&json!("u64"), &json!("36893488147419103230")));
    assert_eq!((&field["min"], &field["max"]), (&json!(u64::MAX), &json!(u64::MAX)));
    let shown = text(&["inspect", &path]);
    assert!(shown.contains(" 36893488147419103230 "), "{shown}");
    // Here the line would have 121 characters.
    let path = scratch.write("largest.jsonl", "{\"x\": 18446744073709551615}\n".repeat(2));
    let shown = text(&["inspect", &path]);
    assert!(shown.contains(" 3.68935e19 ") && shown.contains(" 18446744073709551615 "), "{shown}");
    let field = &inspect(&path)["fields"][0];
    assert_eq!((&field["dtype"], &field["sum"]), (&json!("u64"), &json!("36893488147419103230")));
}

/// A file of NumPy's with eight bytes an element.
fn npy(descr: &str, bytes: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({},), }}", bytes.len() / 8);
    let padded = format!("{header:<117}\n");
    [&b"\x93NUMPY\x01\x00"[..], &(padded.len() as u16).to_le_bytes(), padded.as_bytes(), bytes].concat()
}

#[test]
fn advice_is_given_where_the_message_gives_none() {
    let scratch = Scratch::new();
    let said = |name: &str, bytes: &[u8]| {
        let output = run(&["inspect", &scratch.write(name, bytes)]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let wide = said("wide.csv", b"\xff\xfe\0\0a\0\0\0");
    assert!(wide.contains("UTF-32") && wide.contains("iconv") && !wide.contains("damaged"), "{wide}");
    let zip = said("table.zip", b"PK\x03\x04rest");
    assert!(!zip.contains("to do: replace"), "{zip}");
    let mut packed = gzip(b"a,b\n1,2\n");
    packed.extend(b"rubbish");
    let behind = said("behind.csv.gz", &packed);
    assert!(behind.contains("neither another one nor padding") && !behind.contains("truncated"), "{behind}");
    let cut = said("cut.csv.gz", &gzip(&b"a,b\n1,2\n".repeat(1000))[..40]);
    assert!(cut.contains("to do: replace the file"), "{cut}");
    let open = said("open.csv", b"a,\"b\n1,2\n");
    scratch.write("sequences/1.csv", "a,b\n1,2\n");
    scratch.write("sequences/2.csv", "a,c\n1,2\n");
    let other = String::from_utf8(run(&["inspect", &scratch.path("sequences")]).stderr).unwrap();
    for (said, what) in [(open, "never closed"), (other, "header")] {
        assert!(
            said.contains(what) && said.contains("to do: correct the file") && said.contains("--delimiter"),
            "{said}"
        );
    }
}

#[test]
fn the_page_of_help_names_every_format() {
    let output = run(&["--help"]);
    let help = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    for title in ringfeed::formats::Formats::new().titles() {
        assert!(help.contains(title), "{title}: {help}");
    }
}

#[test]
fn a_number_that_is_not_allowed_is_told_which_are() {
    for (flag, value, says) in [
        ("--batch-size", "-1", "give a whole number, 1 or more"),
        ("--batch-size", "0", "give a whole number, 1 or more"),
        ("--batch-size", "many", "give a whole number, 1 or more"),
        ("--workers", "-1", "give a whole number from 1 to 4096, or auto"),
        ("--prefetch", "5000", "give a whole number from 0 to 4096, or auto"),
        ("--size", "1e3", "give a whole number from 1 to 16384"),
        ("--shuffle", "-7", "give a whole number, 0 or more"),
        ("--shuffle", "18446744073709551616", "give a whole number from 0 to 18446744073709551615"),
        ("--step-ms", "100000000", "give a number of milliseconds from 0 to 86400000"),
    ] {
        let output = run(&["bench", &fixture("iris.csv"), flag, value]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("'{value}' for '{flag} <")) && told.contains(says), "{told}");
    }
    let told = String::from_utf8(run(&["plan", &fixture("iris.csv"), "--shards", "4294967296"]).stderr).unwrap();
    assert!(told.contains("give a whole number from 1 to 4294967295"), "{told}");
    let scratch = Scratch::new();
    let settings = scratch.write("loader.toml", "shuffle = 1\nbatch_size = 0\nsource = { path = \"iris.csv\" }\n");
    for command in ["bench", "verify"] {
        let told = error(&[command, "--config", &settings]);
        assert_eq!((&told["path"], &told["line"], &told["kind"]), (&json!(settings), &json!(2), &json!("config")));
        assert_eq!(told["message"], json!("batch_size: 0; a batch has at least one sample"));
    }
}
