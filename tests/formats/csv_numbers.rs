//! Every number of a CSV file against naive parsers: each type, each way to read, each policy for missing values.

#![expect(clippy::unwrap_used, reason = "a test panics where it fails, and so do its helpers")]

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;
use ringfeed::csv::{CsvOptions, CsvReader, CsvStream, Header, Missing};
use ringfeed::field::Numbers;
use ringfeed::formats::Csv;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::RandomKey;
use ringfeed::read::{Record, RecordDecoder, RecordReader, RecordStream, RowMut, Sample, Scratch};
use ringfeed::sequences::{CsvSequenceReader, SequenceOptions};
use ringfeed::settings::SourceConfig;
use ringfeed::storage::Files;
use ringfeed::tensor::{Extents, Layout, Role, Schema, TensorSpec, bf16, f16};
use ringfeed::{DType, Loader, LoaderConfig, Result};

/// The bytes of the first tensor of one sample.
fn decoded(
    specs: &[TensorSpec],
    extents: Extents,
    decode: impl FnOnce(&mut RowMut<'_>) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut layout = Layout::default();
    layout.compute(&Schema::new(specs.to_vec())?, 1, extents)?;
    let mut slot = vec![0xAAAA_AAAA_AAAA_AAAAu64; layout.bytes().div_ceil(8)];
    decode(&mut RowMut::new(bytemuck::cast_slice_mut(&mut slot), specs, &layout, 0))?;
    let tensor = &layout.tensors()[0];
    Ok(bytemuck::cast_slice::<u64, u8>(&slot)[tensor.offset()..][..tensor.row_bytes()].to_vec())
}

/// What each record gives: its bytes, or `None` for a bad one.
type Records = Vec<Option<Vec<u8>>>;

fn read_at_random(reader: &impl RecordReader) -> Records {
    let mut scratch = Scratch::default();
    let mut one = |id| {
        let extents = reader.measure(id, &mut scratch)?;
        reader.fetch(&[id], 0, &mut scratch)?;
        let sample = Sample { id, key: RandomKey::new(id) };
        decoded(reader.tensors(), extents, |row| reader.decode(sample, 0, &mut scratch, row))
    };
    (0..reader.len()).map(|id| one(id).ok()).collect()
}

fn read_in_order((mut stream, decoder): (CsvStream, impl RecordDecoder)) -> Records {
    let (mut scratch, mut records) = (Scratch::default(), Vec::new());
    let mut record = Record::default();
    while stream.read(&mut record).unwrap() {
        let sample = Sample { id: record.index, key: RandomKey::new(record.index) };
        let decode = |row: &mut RowMut<'_>| decoder.decode(sample, &record, &mut scratch, row);
        records.push(decoded(decoder.tensors(), Extents::default(), decode).ok());
    }
    records
}

/// A number written out: whether it is below 0, its digits before and behind the point.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    negative: bool,
    /// Without leading zeros, so that the longer one is larger.
    before: (usize, String),
    /// Without trailing zeros.
    behind: String,
}

fn written(text: &str) -> Option<Written> {
    text.parse::<f64>().ok().filter(|number| !number.is_nan())?;
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (mut before, mut behind) = number.split_once('.').map_or((number, ""), |parts| parts);
    before = before.trim_start_matches(['+', '-']);
    let digits = format!("{}{before}{behind}{}", "0".repeat(1100), "0".repeat(1100));
    behind = &digits[(1100 + before.len()).checked_add_signed(exponent.clamp(-1100, 1100) as isize)?..];
    before = digits[..digits.len() - behind.len()].trim_start_matches('0');
    behind = behind.trim_end_matches('0');
    let negative = text.starts_with('-') && !(before.is_empty() && behind.is_empty());
    Some(Written { negative, before: (before.len(), before.to_owned()), behind: behind.to_owned() })
}

/// The bits of the number of 16 bits that is nearest to a decimal one, of two the even one. `value` gives what the bits
/// of a positive number mean; `infinity` are those of the infinite one, which takes the place of `beyond`.
fn nearest_half(text: &str, (infinity, beyond): (u16, f64), value: impl Fn(u16) -> f64) -> u16 {
    let number: f64 = text.parse().unwrap();
    let sign = u16::from(number.is_sign_negative()) << 15;
    if number.is_nan() || number.is_infinite() {
        return sign | if number.is_nan() { infinity | 1 } else { infinity };
    }
    let size = written(text.trim_start_matches(['-', '+'])).unwrap();
    let value = |bits| if bits == infinity { beyond } else { value(bits) };
    let exactly = |value: f64| written(&format!("{value:.170}")).unwrap();
    let (mut low, mut high) = (0, infinity);
    while high - low > 1 {
        let middle = u16::midpoint(low, high);
        if exactly(value(middle)) <= size { low = middle } else { high = middle }
    }
    if size >= exactly(value(high)) {
        return sign | high;
    }
    sign | match size.cmp(&exactly(f64::midpoint(value(low), value(high)))) {
        std::cmp::Ordering::Less => low,
        std::cmp::Ordering::Greater => high,
        std::cmp::Ordering::Equal => low + (low & 1),
    }
}

/// The integer that a number is, without point and exponent.
fn whole(text: &str) -> Option<String> {
    let Written { negative, before: (_, before), behind } = written(text)?;
    behind.is_empty().then(|| format!("{}0{before}", if negative { "-" } else { "" }))
}

/// Infinity is what is written as a word; a number beyond the largest is none.
fn parsed(text: &str, dtype: DType) -> Option<Vec<u8>> {
    let is_too_large = |infinite: bool| infinite && text.bytes().any(|byte| byte.is_ascii_digit());
    macro_rules! parse {
        ($($dtype:ident: $type:ty),*) => {
            match dtype {
                DType::F32 if is_too_large(text.parse::<f32>().is_ok_and(f32::is_infinite)) => None,
                DType::F64 if is_too_large(text.parse::<f64>().is_ok_and(f64::is_infinite)) => None,
                $(DType::$dtype => {
                    let number = text.parse::<$type>().ok().or_else(|| whole(text)?.parse().ok());
                    number.map(|number| number.to_ne_bytes().to_vec())
                })*
                _ => {
                    text.parse::<f64>().ok()?;
                    let bits = match dtype {
                        DType::F16 => nearest_half(text, (0x7c00, 65536.0), |bits| f16::from_bits(bits).into()),
                        _ => nearest_half(text, (0x7f80, 2f64.powi(128)), |bits| bf16::from_bits(bits).into()),
                    };
                    let is_infinite = bits & 0x7fff == if dtype == DType::F16 { 0x7c00 } else { 0x7f80 };
                    (!is_too_large(is_infinite)).then(|| bits.to_ne_bytes().to_vec())
                }
            }
        };
    }
    parse!(U8: u8, I8: i8, U16: u16, I16: i16, U32: u32, I32: i32, U64: u64, I64: i64, F32: f32, F64: f64)
}

/// The bytes that a field should become.
fn expected(field: &str, dtype: DType, options: &CsvOptions) -> Option<Vec<u8>> {
    let text = field.trim_ascii();
    let same = |token: &String| token == text || written(token).is_some_and(|token| Some(token) == written(text));
    if !options.missing_tokens.iter().any(same) {
        return parsed(text, dtype);
    }
    match options.missing {
        Missing::Nan if dtype.is_float() => parsed("NaN", dtype),
        Missing::Value(value) => parsed(&value.to_string(), dtype),
        _ => None,
    }
}

/// Any NaN is as good as another.
fn without_nan(bytes: Option<Vec<u8>>, dtype: DType) -> Option<Vec<u8>> {
    bytes.map(|mut bytes| {
        for number in bytes.chunks_mut(dtype.bytes()) {
            let is_nan = match dtype {
                DType::F16 => f16::from_ne_bytes([number[0], number[1]]).is_nan(),
                DType::Bf16 => bf16::from_ne_bytes([number[0], number[1]]).is_nan(),
                DType::F32 => f32::from_ne_bytes(number.try_into().unwrap()).is_nan(),
                DType::F64 => f64::from_ne_bytes(number.try_into().unwrap()).is_nan(),
                _ => false,
            };
            if is_nan {
                number.fill(0xff);
            }
        }
        bytes
    })
}

/// Reads records of these fields as numbers of this type, in every way, and compares each with its fields' numbers.
fn check(folder: &Path, records: &[Vec<String>], end: &str, dtype: DType, options: &CsvOptions) {
    let columns = records[0].len();
    let names: Vec<String> = (0..columns).map(|column| format!("c{column}")).collect();
    let lines: Vec<String> = records.iter().map(|fields| fields.join(",")).collect();
    // No line end behind the last record.
    let text = format!("{}{end}{}", names.join(","), lines.join(end));
    let path = folder.join("data.csv");
    std::fs::write(&path, text).unwrap();
    let fields = [("x".to_owned(), Numbers::of(dtype).from(names.clone()))];
    let options = CsvOptions {
        header: Header::Yes,
        delimiter: Some(','),
        threads: Some(1),
        missing: options.missing,
        missing_tokens: options.missing_tokens.clone(),
        ..CsvOptions::default()
    };
    let mut known: HashMap<&str, Option<Vec<u8>>> = HashMap::new();
    let mut number = |field| {
        let known = known.entry(field).or_insert_with(|| {
            let content = field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).unwrap_or(field);
            without_nan(expected(content, dtype, &options), dtype)
        });
        known.clone()
    };
    let wanted = records.iter().map(|fields| fields.iter().map(|field| number(field)).collect::<Option<Vec<_>>>());
    let wanted: Records = wanted.map(|numbers| numbers.map(|numbers| numbers.concat())).collect();
    let compare = |how: &str, found: Records| {
        assert_eq!(found.len(), wanted.len(), "{how}");
        for (nth, (found, wanted)) in found.into_iter().zip(&wanted).enumerate() {
            let found = without_nan(found, dtype);
            assert_eq!(&found, wanted, "{how}: {:?} as {dtype}, missing {:?}", records[nth], options.missing);
        }
    };
    compare("reader", read_at_random(&CsvReader::with_fields(&path, &fields, &options).unwrap()));
    compare("stream", read_in_order(CsvStream::with_fields(&path, &fields, &options).unwrap()));
    // Each record as a sequence of its own, of two equal steps.
    let steps: Vec<String> =
        lines.iter().enumerate().map(|(nth, line)| format!("{nth},{line}{end}{nth},{line}")).collect();
    let path = folder.join("steps.csv");
    std::fs::write(&path, format!("group,{}{end}{}{end}", names.join(","), steps.join(end))).unwrap();
    let options = SequenceOptions { csv: options.clone(), ..SequenceOptions::default() };
    let (files, budget) = (Files::local(), MemoryBudget::unlimited());
    let reader = CsvSequenceReader::open_grouped_in(&files, &path, "group", &fields, &options, &budget);
    let found = read_at_random(&reader.unwrap());
    let halves = found.into_iter().map(|bytes| {
        bytes.map(|bytes| {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            assert_eq!(first, second);
            first.to_vec()
        })
    });
    compare("sequence", halves.collect());
}

/// Fields that are a number, nearly one, or nothing.
fn fields() -> Vec<String> {
    let mut fields: Vec<String> = [
        "",
        " ",
        "  ",
        "-",
        "+",
        ".",
        "-.",
        "+.",
        "e",
        "e5",
        "-e5",
        ".e5",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "00018446744073709551615",
        "+18446744073709551615",
        "1e",
        "1e+",
        "1e-",
        "--1",
        "+-1",
        "-+1",
        "++1",
        "0",
        "-0",
        "+0",
        "00",
        "-00",
        "0.0",
        "-0.0",
        "1.",
        "+1.",
        ".5",
        "-.5",
        "+.5",
        "1..",
        "1.2.3",
        "1,",
        "1 2",
        "- 1",
        "nan",
        "NaN",
        "-nan",
        "inf",
        "-inf",
        "Infinity",
        "+infinity",
        "infinit",
        "in",
        "NA",
        "NULL",
        "x",
        "1x",
        "x1",
        "0x10",
        "1_0",
        "\u{ff11}",
        "1e5",
        "1E5",
        "1e+5",
        "1e-5",
        "12e400",
        "12e-400",
        "-999",
        "-999.0",
        "-999.00",
        "-9990e-1",
        "+999",
        "999",
        "-999.5",
        "-0999",
        "-999x",
        "-998.9999999999999999999999",
        "5",
        "5.0",
        " 7",
        "7 ",
        " -7 ",
        "\t7",
        "734.25",
        "734.25001",
        "734.24999",
        "734.25000000000000000000000000001",
        "2049",
        "2049.0000000000000001",
        "65519.9999999999999999999",
        "65520",
        "1.00390625",
        "1.003906250000000000000000001",
        "1.00048828125",
        "1.000488281250000001",
        "3.4e38",
        "3.39e38",
        "1e-45",
        "2.98023223876953125e-8",
        "2.980232238769531250000001e-8",
        "4.6e-41",
        "16777217",
        "16777217.0000000000000000001",
        "9007199254740993",
        "9007199254740993.0",
        "0.1",
        "0.30000000000000004",
    ]
    .map(str::to_owned)
    .to_vec();
    for dtype in DType::ALL {
        if let Some((low, high)) = dtype.int_range() {
            for bound in [low, high] {
                fields.extend([bound - 1, bound, bound + 1].map(|number| number.to_string()));
            }
        }
    }
    let digits = "9876543210123456789098765";
    for len in 0..=digits.len() {
        for sign in ["", "-", "+"] {
            fields.push(format!("{sign}{}", &digits[..len]));
            fields.push(format!("{sign}{}", "0".repeat(len)));
            fields.push(format!("{sign}{}7", "0".repeat(len)));
        }
        for point in 0..=len {
            fields.push(format!("{}.{}", &digits[..point], &digits[point..len]));
        }
    }
    fields
}

/// Each field in every place of three, and with quotes.
fn records_of(fields: &[String]) -> Vec<Vec<String>> {
    let mut records = Vec::new();
    for field in fields {
        for place in (0..3).filter(|_| !field.contains(',')) {
            let mut record = vec!["1".to_owned(); 3];
            record[place].clone_from(field);
            records.push(record);
        }
        records.push(vec![format!("\"{field}\""); 3]);
    }
    records
}

fn policies() -> Vec<CsvOptions> {
    let mut policies = Vec::new();
    for missing in [Missing::Error, Missing::Nan, Missing::Value(5.0)] {
        let options = CsvOptions { missing, ..CsvOptions::default() };
        for tokens in [&["", "-999", "NA", "1e5"][..], &[]] {
            let missing_tokens = tokens.iter().map(|token| (*token).to_owned()).collect();
            policies.push(CsvOptions { missing_tokens, ..options.clone() });
        }
        policies.push(options);
    }
    policies
}

#[test]
fn fields_of_every_length_in_every_place_are_what_naive_parsers_say() {
    let folder = tempfile::tempdir().unwrap();
    let records = records_of(&fields());
    for (which, dtype) in DType::ALL.into_iter().enumerate() {
        for (nth, options) in policies().iter().enumerate().filter(|(nth, _)| (nth + nth / 3 + which) % 3 == 0) {
            check(folder.path(), &records, ["\n", "\r\n"][nth % 2], dtype, options);
        }
    }
}

#[test]
fn the_last_field_of_a_file_is_read_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.csv");
    for dtype in DType::ALL {
        let column = [("x".to_owned(), Numbers::of(dtype).from([1]))];
        let (header, delimiter) = (Header::No, Some(','));
        let options = CsvOptions { header, delimiter, threads: Some(1), ..CsvOptions::default() };
        for field in fields().iter().filter(|field| !field.contains(',')) {
            std::fs::write(&path, format!("1,{field}")).unwrap();
            let found = read_at_random(&CsvReader::with_fields(&path, &column, &options).unwrap()).remove(0);
            let wanted = without_nan(expected(field, dtype, &options), dtype);
            assert_eq!(without_nan(found, dtype), wanted, "{field:?} as {dtype}");
        }
    }
}

/// Decimals in the middle between two numbers of 16 bits, and right beside it.
fn beside_midpoints() -> impl Strategy<Value = String> {
    (0u16..0x7bff, any::<bool>(), -1i8..=1, 0usize..40).prop_map(|(bits, wide, beside, zeros)| {
        let value = |bits| if wide { f64::from(bf16::from_bits(bits)) } else { f16::from_bits(bits).into() };
        let middle = f64::midpoint(value(bits), value(bits + 1));
        let exact = format!("{middle:.160}").trim_end_matches('0').to_owned();
        match beside {
            0 => exact,
            1 => format!("{exact}{}1", "0".repeat(zeros)),
            _ => {
                // The last digit of such a fraction is 5, of a whole number there may be none behind the point.
                let at = exact.rfind(|digit| ('1'..='9').contains(&digit)).unwrap_or(0);
                if at < exact.find('.').unwrap_or(0) {
                    return exact;
                }
                let less = (exact.as_bytes()[at] - 1) as char;
                format!("{}{less}{}", &exact[..at], "9".repeat(zeros + 1))
            }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn random_fields_are_what_naive_parsers_say(
        records in prop::collection::vec(prop::collection::vec(prop_oneof![
            "[+-]?[0-9]{0,25}(\\.[0-9]{0,25})?([eE][+-]?[0-9]{0,2})?",
            "[-+]?[0-9]{1,4}(\\.[0-9]{0,3})?",
            "[-+.eE0-9 ]{0,6}",
            beside_midpoints(),
            any::<f32>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| format!("{number:e}")),
            Just(String::new()),
        ], 4), 1..60),
        crlf in any::<bool>(),
        policy in 0usize..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        for dtype in DType::ALL {
            check(folder.path(), &records, if crlf { "\r\n" } else { "\n" }, dtype, &policies()[policy]);
        }
    }
}

#[test]
fn an_empty_label_is_a_missing_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.csv");
    std::fs::write(&path, "label,height\n3,1.5\n,1.6\n1,1.7\n-,1.8\n").unwrap();
    let reader = CsvReader::open(&path, &CsvOptions::default()).unwrap();
    assert_eq!(reader.classes().map(|names| names.to_vec()), Some(vec!["-".into(), "1".into(), "3".into()]));
    std::fs::write(&path, "label,height\n3,1.5\n,1.6\n1,1.7\n").unwrap();
    let labels = |options: &CsvOptions| {
        let labels = [("labels".to_owned(), Numbers::i64().from("label").role(Role::Label))];
        read_at_random(&CsvReader::with_fields(&path, &labels, options).unwrap())
    };
    let number = |number: i64| Some(number.to_ne_bytes().to_vec());
    assert_eq!(labels(&CsvOptions::default()), [number(3), None, number(1)]);
    let value = CsvOptions { missing: Missing::Value(-1.0), ..CsvOptions::default() };
    assert_eq!(labels(&value), [number(3), number(-1), number(1)]);
    let config = LoaderConfig::new(SourceConfig::new(Csv, path, CsvOptions::default()));
    let report = Loader::from(config).verify(|_| {}).unwrap();
    assert_eq!(report.bad.len(), 1);
}
