//! Codecs by way of a container that has any values.

use proptest::prelude::*;

use super::super::container::{Container, FieldInfo, FieldKind, Visit};
use super::super::fields::{Array, Category, Class, Field, Numbers, Text, Tokens};
use super::super::value::{List, Value};
use super::super::{FieldReader, Job, Missing, RecordReader, Scratch};
use crate::dtype::DType;
use crate::error::{ErrorKind, Location, Result};
use crate::float16::f16;
use crate::layout::Layout;
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::row::RowMut;
use crate::schema::{Extents, Schema};

/// A value that is owned.
#[derive(Clone, Debug)]
enum Own {
    Missing,
    Bool(bool),
    I64(i64),
    U64(u64),
    F64(f64),
    Decimal(String),
    Text(&'static str),
    Bytes(Vec<u8>),
    F32s(Vec<f32>),
    Shaped(Rows),
    F64s(Vec<f64>),
    List(Vec<Own>),
}

/// An array with several dimensions.
#[derive(Clone, Debug)]
struct Rows(Vec<f32>, Vec<u64>);

impl List for Rows {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        super::super::Shaped::new(crate::dtype::NumberSlice::F32(&self.0), &self.1)?.each(visit)
    }

    fn shape(&self) -> Option<&[u64]> {
        Some(&self.1)
    }

    fn numbers(&self) -> Option<crate::dtype::NumberSlice<'_>> {
        Some(crate::dtype::NumberSlice::F32(&self.0))
    }
}

impl List for Vec<Own> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|own| visit(own.value()))
    }
}

impl Own {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Missing => Value::Missing,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::I64(number) => Value::I64(*number),
            Self::U64(number) => Value::U64(*number),
            Self::F64(number) => Value::F64(*number),
            Self::Decimal(text) => Value::Decimal(text),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::F32s(numbers) => Value::Numbers(crate::dtype::NumberSlice::F32(numbers)),
            Self::Shaped(rows) => Value::List(rows),
            Self::F64s(numbers) => Value::Numbers(crate::dtype::NumberSlice::F64(numbers)),
            Self::List(list) => Value::List(list),
        }
    }
}

/// Records with a field `x`, and a field `y` that is never given.
struct Records(Vec<Own>, [FieldInfo; 2]);

impl Records {
    fn of(values: Vec<Own>) -> Self {
        Self(values, [FieldInfo::new("x", FieldKind::Other), FieldInfo::new("y", FieldKind::Other)])
    }
}

impl Container for Records {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.1
    }

    fn fetch(&self, _: &[u64], _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn read(&self, record: u64, _: usize, _: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        visit(0, self.0[record as usize].value())
    }

    fn place(&self, record: u64) -> Location {
        Location { record: Some(record), line: Some(record + 1), ..Location::default() }
    }
}

/// The bytes of the first tensor for each record, and the reader.
fn decoded(values: Vec<Own>, field: impl Into<Field>) -> Result<(FieldReader, Vec<Result<Vec<u8>>>)> {
    let fields = [("x".to_owned(), field.into())];
    let reader = FieldReader::new(Records::of(values), &fields, &MemoryBudget::unlimited())?;
    let schema = Schema::new(reader.tensors().to_vec())?;
    let (mut scratch, mut rows) = (Scratch::default(), Vec::new());
    for record in 0..reader.len() {
        let samples = [record];
        let job = Job::new(&samples, RandomKey::new(1));
        let extents = if schema.is_variable() { reader.measure(record, &mut scratch)? } else { Extents::default() };
        let mut layout = Layout::default();
        layout.compute(&schema, 1, extents)?;
        let mut slot = vec![0xaau64; layout.bytes().div_ceil(8)];
        let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
        let written = reader
            .fetch(&samples, 0, &mut scratch)
            .and_then(|()| reader.decode(job.sample(0), 0, &mut scratch, &mut row));
        rows.push(written.map(|()| row.tensor(0).bytes_mut().to_vec()));
    }
    Ok((reader, rows))
}

fn numbers<T: bytemuck::Pod>(value: Own, field: impl Into<Field>) -> Result<Vec<T>> {
    let (_, rows) = decoded(vec![value], field)?;
    rows.into_iter().next().expect("one record").map(|bytes| bytemuck::pod_collect_to_vec(&bytes))
}

#[test]
fn numbers_are_exact_or_rounded_once_or_refused() {
    let i64s = |value| numbers::<i64>(value, Numbers::i64()).ok().map(|numbers| numbers[0]);
    let decimal = |text: &str| Own::Decimal(text.to_owned());
    assert_eq!(i64s(decimal("9223372036854775807")), Some(i64::MAX));
    assert_eq!(i64s(decimal("9223372036854775808")), None);
    assert_eq!(i64s(decimal("1E5")), Some(100_000));
    assert_eq!(i64s(decimal("3.0")), Some(3));
    assert_eq!(i64s(decimal("3.5")), None);
    assert_eq!(i64s(decimal("-0.0")), Some(0));
    assert_eq!(i64s(Own::U64(1 << 63)), None);
    assert_eq!(i64s(Own::F64(1e18)), Some(1_000_000_000_000_000_000));
    assert_eq!(i64s(Own::F64(0.5)), None);
    assert_eq!(i64s(Own::F64(f64::NAN)), None);
    assert_eq!(i64s(Own::Bool(true)), Some(1));
    assert_eq!(i64s(Own::Text("3")), None);
    assert_eq!(i64s(Own::Bytes(b" 17\n".to_vec())), Some(17));
    assert_eq!(i64s(Own::Bytes(b"inf".to_vec())), None);
    assert_eq!(numbers::<u8>(Own::I64(255), Numbers::of(DType::U8)).unwrap(), [255]);
    assert!(numbers::<u8>(Own::I64(256), Numbers::of(DType::U8)).is_err());
    let f32s = |value| numbers::<f32>(value, Numbers::f32()).ok().map(|numbers| numbers[0]);
    assert_eq!(f32s(decimal("1e400")), None);
    assert_eq!(f32s(decimal("1e39")), None);
    assert_eq!(f32s(Own::U64(u64::MAX)), Some(u64::MAX as f32));
    assert_eq!(f32s(Own::I64(16_777_217)), Some(16_777_216.0));
    assert_eq!(f32s(decimal("-0.0")).map(f32::to_bits), Some((-0.0f32).to_bits()));
    // Rounding to f32 on the way would give 734.0.
    let halves = numbers::<f16>(decimal("734.25001"), Numbers::of(DType::F16)).unwrap();
    assert_eq!(halves[0].to_f32(), 734.5);
    let halves = numbers::<f16>(Own::F64(734.25001), Numbers::of(DType::F16)).unwrap();
    assert_eq!(halves[0].to_f32(), 734.5);
}

#[test]
fn what_is_too_large_is_refused_in_every_form_and_what_was_infinite_stays_so() {
    for (dtype, too_large, largest) in
        [(DType::F16, 65_520.0, 65_519.9), (DType::Bf16, 3.4e38, 3.38e38), (DType::F32, 3.5e38, 3.4e38)]
    {
        let field = || Numbers::of(dtype);
        let is_finite = |value: Own, field: Numbers| -> Option<bool> {
            let bytes = numbers::<u8>(value, field).ok()?;
            let mut room = [0u64; 2];
            bytemuck::cast_slice_mut(&mut room)[..bytes.len()].copy_from_slice(&bytes);
            let numbers = crate::dtype::NumberSlice::of(dtype, &bytemuck::cast_slice(&room)[..bytes.len()]);
            Some((0..numbers.len()).all(|at| numbers.at(at).is_finite()))
        };
        for sign in [1.0, -1.0] {
            let forms = |number: f64| {
                let one =
                    [Own::F64(number), Own::Decimal(format!("{number:e}")), Own::Bytes(format!("{number}").into())];
                let many = [vec![1.0, number], vec![number, 1.0]];
                let lists = many.iter().flat_map(|list| {
                    let items = list.iter().map(|number| Own::F64(*number)).collect();
                    [Own::List(items), Own::F64s(list.clone())]
                });
                one.map(|own| (own, field()))
                    .into_iter()
                    .chain(lists.map(|own| (own, field().shape(&[2]))))
                    .collect::<Vec<_>>()
            };
            for (value, field) in forms(sign * largest) {
                assert_eq!(is_finite(value.clone(), field), Some(true), "{dtype}: {value:?}");
            }
            for (value, field) in forms(sign * too_large) {
                assert_eq!(is_finite(value.clone(), field), None, "{dtype}: {value:?}");
            }
            assert_eq!(is_finite(Own::F64(sign * f64::INFINITY), field()), Some(false));
            assert!(decoded(vec![Own::F64(1.0)], field().missing(Missing::Value(sign * too_large))).is_err());
            let list = Own::List(vec![Own::F64(1.0)]);
            assert!(decoded(vec![list], field().max_len(2).pad(sign * too_large)).is_err());
        }
    }
    let halves = |value: Own, field: Numbers| numbers::<f16>(value, field);
    let field = || Numbers::of(DType::F16);
    for value in [Own::I64(70_000), Own::U64(u64::MAX), Own::Decimal("70000".to_owned()), Own::Bytes(b"70000".to_vec())]
    {
        let error = halves(value, field()).unwrap_err();
        let messages = ["is too large for f16", "expected f16, found "];
        assert!(messages.iter().any(|message| error.message().contains(message)), "{error}");
    }
    for (dtype, text) in [(DType::F16, "1e39"), (DType::Bf16, "3.4e38"), (DType::F32, "1e39"), (DType::F64, "-1e999")] {
        let error = numbers::<u8>(Own::Decimal(text.to_owned()), Numbers::of(dtype)).unwrap_err();
        assert_eq!(error.message(), format!("expected {dtype}, found {text}, which is too large for it"));
    }
    let error = halves(Own::F32s(vec![1.0, -1e5]), field().shape(&[2])).unwrap_err();
    assert!(error.message().contains("element 1: -100000.0 is too large for f16"), "{error}");
    assert_eq!(halves(Own::I64(-65_519), field()).unwrap()[0].to_f32(), -65_504.0);
    let error = decoded(vec![Own::List(vec![])], Numbers::i64().max_len(2).pad(0.5)).err().unwrap();
    assert!(error.message().contains("padding is 0.5, which is not an element of type i64"), "{error}");
}

proptest! {
    #[test]
    fn decimals_are_those_of_the_standard_library(number in any::<f64>(), digits in 0usize..20) {
        prop_assume!(number.is_finite());
        for text in [format!("{number}"), format!("{number:e}"), format!("{number:.digits$}")] {
            let found = numbers::<f64>(Own::Decimal(text.clone()), Numbers::f64()).unwrap()[0];
            prop_assert_eq!(found.to_bits(), text.parse::<f64>().unwrap().to_bits());
            let near = text.parse::<f32>().unwrap();
            let found = numbers::<f32>(Own::Decimal(text.clone()), Numbers::f32());
            prop_assert_eq!(found.ok().map(|found| found[0].to_bits()), near.is_finite().then_some(near.to_bits()));
        }
    }

    #[test]
    fn integers_of_any_kind_are_exact(number in any::<i64>()) {
        let forms = [Own::I64(number), Own::Decimal(number.to_string()), Own::Decimal(format!("{number}.00"))];
        for form in forms {
            prop_assert_eq!(numbers::<i64>(form, Numbers::i64()).unwrap(), [number]);
        }
    }
}

#[test]
fn what_is_missing_is_an_error_with_its_place_or_what_is_asked_for() {
    let (_, rows) = decoded(vec![Own::I64(1), Own::Missing], Numbers::f32()).unwrap();
    let error = rows[1].as_ref().unwrap_err();
    assert!(error.message().contains("`missing`"), "{error}");
    let location = error.location();
    assert_eq!((location.record, location.line, location.column.as_deref()), (Some(1), Some(2), Some("x")));
    assert!(numbers::<f32>(Own::Missing, Numbers::f32().missing(Missing::Nan)).unwrap()[0].is_nan());
    assert_eq!(numbers::<i64>(Own::Missing, Numbers::i64().missing(Missing::Value(-1.0))).unwrap(), [-1]);
    assert!(numbers::<i64>(Own::Missing, Numbers::i64().missing(Missing::Nan)).is_err());
    // A field that a record does not have is treated as missing.
    assert!(numbers::<f32>(Own::I64(1), Numbers::f32().missing(Missing::Nan).from(["y"])).unwrap()[0].is_nan());
    let error = decoded(vec![Own::I64(1)], Field::from(Numbers::f32().into(), "xx")).err().unwrap();
    assert!(error.message().contains("did you mean \"x\"?"), "{error}");
}

#[test]
fn lists_have_a_shape_or_are_padded_with_a_mask() {
    let list = |items: &[i64]| Own::List(items.iter().map(|item| Own::I64(*item)).collect());
    let nested = Own::List(vec![list(&[1, 2]), list(&[3, 4])]);
    assert_eq!(numbers::<f32>(nested, Numbers::f32().shape(&[2, 2])).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert!(numbers::<f32>(list(&[1, 2, 3]), Numbers::f32().shape(&[2, 2])).is_err());
    assert_eq!(numbers::<i64>(list(&[5, 6]), Tokens::new(4).pad(-1.0)).unwrap(), [5, 6, -1, -1]);
    assert_eq!(numbers::<i64>(list(&[5, 6, 7]), Tokens::new(2).cut()).unwrap(), [5, 6]);
    let error = numbers::<i64>(list(&[5, 6, 7]), Tokens::new(2)).unwrap_err();
    assert!(error.message().contains("3 numbers; at most 2 fit"), "{error}");
    assert_eq!(numbers::<f64>(Own::F32s(vec![0.5, 2.0]), Numbers::f64().shape(&[2])).unwrap(), [0.5, 2.0]);
    assert_eq!(numbers::<i64>(Own::F32s(vec![3.0, 2.0]), Numbers::i64().shape(&[2])).unwrap(), [3, 2]);
    let (reader, rows) = decoded(vec![list(&[1, 2, 3]), list(&[])], Tokens::new(3)).unwrap();
    assert_eq!(reader.tensors()[1].name, "x_mask");
    assert_eq!(rows[1].as_ref().unwrap().iter().map(|byte| usize::from(*byte)).sum::<usize>(), 0);
    assert!(numbers::<i64>(Own::I64(3), Numbers::i64().max_len(2)).is_ok());
    assert!(numbers::<i64>(list(&[1, 2]), Numbers::i64()).is_err());
}

#[test]
fn lists_of_lists_are_cut_where_the_room_ends() {
    let nested = || Own::List(vec![Own::F32s(vec![1.0, 2.0, 3.0]), Own::F32s(vec![4.0, 5.0]), Own::F32s(vec![6.0])]);
    for (room, expected) in
        [(7, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0]), (4, vec![1.0, 2.0, 3.0, 4.0]), (1, vec![1.0])]
    {
        let field = Numbers::f64().max_len(room);
        assert_eq!(numbers::<f64>(nested(), field.clone().cut()).unwrap(), expected);
        if room < 6 {
            let error = numbers::<f64>(nested(), field).unwrap_err();
            assert!(error.message().contains(&format!("6 numbers; at most {room} fit")), "{error}");
        }
    }
    assert!(
        numbers::<f32>(nested(), Numbers::f32().shape(&[2])).unwrap_err().message().contains("a list of 6 numbers")
    );
}

#[test]
fn names_are_those_that_are_found_sorted_or_listed() {
    let values = || vec![Own::Text("oslo"), Own::Text("bonn"), Own::Text("oslo")];
    let indices = |rows: Vec<Result<Vec<u8>>>| -> Vec<Option<i64>> {
        rows.into_iter().map(|row| row.ok().map(|bytes| bytemuck::pod_read_unaligned(&bytes))).collect()
    };
    let (reader, rows) = decoded(values(), Class).unwrap();
    assert_eq!(indices(rows), [Some(1), Some(0), Some(1)]);
    assert_eq!(reader.tensors()[0].classes.as_deref().unwrap(), ["bonn", "oslo"]);
    let (_, rows) = decoded(values(), Class::of(["oslo"])).unwrap();
    assert!(rows[1].as_ref().unwrap_err().message().contains("\"bonn\" is none of the 1 names"));
    let (reader, rows) = decoded(vec![Own::I64(3), Own::I64(-1)], Class).unwrap();
    assert_eq!((indices(rows), reader.tensors()[0].classes.is_none()), (vec![Some(3), None], true));
    // Numbers are names of a category; a number that was not seen has no code.
    let (reader, rows) = decoded(vec![Own::I64(30), Own::I64(7), Own::Missing], Category::new().missing(-1)).unwrap();
    assert_eq!(indices(rows), [Some(0), Some(1), Some(-1)]);
    assert_eq!(reader.tensors()[0].categories.as_deref().unwrap(), [["30".to_owned(), "7".to_owned()]]);
    // A number's name is its text in the file.
    let written = || ["007", "7", "8", " 7\n", "07"].map(|text| Own::Bytes(text.as_bytes().to_vec())).to_vec();
    let codes = |rows: Vec<Result<Vec<u8>>>| {
        let code = |row: Result<Vec<u8>>| row.ok().map(|bytes| bytemuck::pod_collect_to_vec::<u8, i64>(&bytes)[0]);
        rows.into_iter().map(code).collect::<Vec<_>>()
    };
    let (reader, rows) = decoded(written(), Category::new()).unwrap();
    assert_eq!(reader.tensors()[0].categories.as_deref().unwrap(), [["007", "07", "7", "8"].map(str::to_owned)]);
    assert_eq!(codes(rows), [Some(0), Some(2), Some(3), Some(2), Some(1)]);
    let (_, rows) = decoded(written(), Class::of(["7", "007"])).unwrap();
    assert_eq!(codes(rows), [Some(1), Some(0), None, Some(0), None]);
    let (_, rows) = decoded(written(), Class).unwrap();
    assert_eq!(codes(rows), [Some(7), Some(7), Some(8), Some(7), Some(7)]);
    assert!(decoded(vec![Own::Text("a"), Own::I64(1)], Class).is_err());
}

#[test]
fn text_and_arrays_are_what_they_are() {
    let (_, rows) = decoded(vec![Own::Text("héé"), Own::Missing, Own::Bytes(vec![0xff])], Text::new(4).cut()).unwrap();
    assert_eq!(rows[0].as_ref().unwrap(), "hé\0".as_bytes());
    assert_eq!(rows[1].as_ref().unwrap(), &[0; 4]);
    assert!(rows[2].as_ref().unwrap_err().message().contains("0xff"));
    let npy = |shape: &str, numbers: &[f32]| {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(bytemuck::cast_slice(numbers));
        Own::Bytes(bytes)
    };
    let arrays = vec![npy("(2, 1)", &[1.5, -2.0]), npy("(2,)", &[1.0, 2.0]), npy("(2, 1)", &[1.0]), npy("()", &[1.0])];
    let (reader, rows) = decoded(arrays, Array::new().dtype(DType::F64)).unwrap();
    assert_eq!(reader.tensors()[0].row_shape(&Extents::default()).to_vec(), [2, 1]);
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, f64>(rows[0].as_ref().unwrap()), [1.5, -2.0]);
    assert!(rows[1].as_ref().unwrap_err().message().contains("shape [2] where [2, 1] was expected"));
    assert!(rows[2].is_err() && rows[3].is_err());
    assert_eq!(numbers::<f32>(npy("()", &[7.0]), Array::new().shape(&[])).unwrap(), [7.0]);
    let Own::Bytes(mut fortran) = npy("(2, 3)", &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]) else { panic!("bytes") };
    let place = fortran.windows(5).position(|word| word == b"False").unwrap();
    fortran[place..place + 5].copy_from_slice(b"True ");
    assert_eq!(numbers::<f32>(Own::Bytes(fortran), Array::new()).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn an_array_becomes_no_tensor_of_another_shape() {
    let values: Vec<f32> = (0..6u8).map(f32::from).collect();
    let nested = |rows: usize| {
        let rows = values.chunks(6 / rows).map(|row| Own::List(row.iter().map(|x| Own::F64((*x).into())).collect()));
        Own::List(rows.collect())
    };
    let whole = || Own::Shaped(Rows(values.clone(), vec![2, 3]));
    for value in [whole(), nested(2)] {
        for shape in [&[2, 3][..], &[6], &[1, 2, 3], &[2, 1, 3]] {
            assert_eq!(numbers::<f32>(value.clone(), Numbers::f32().shape(shape)).unwrap(), values, "{shape:?}");
        }
        for shape in [&[3, 2][..], &[3, 1, 2]] {
            let error = numbers::<f32>(value.clone(), Numbers::f32().shape(shape)).unwrap_err();
            assert!(error.kind() == ErrorKind::Data && error.message().contains("shape [2, 3], where"), "{error}");
        }
        let lens = numbers::<f32>(value.clone(), Numbers::f32().max_len(7)).unwrap();
        assert_eq!(lens, [&values[..], &[0.0]].concat());
    }
    // A row has no order of its own.
    assert_eq!(numbers::<f32>(Own::F32s(values.clone()), Numbers::f32().shape(&[3, 2])).unwrap(), values);
    let uneven = Own::List(vec![Own::F32s(vec![1.0]), Own::F32s(vec![2.0, 3.0, 4.0])]);
    let error = numbers::<f32>(uneven.clone(), Numbers::f32().shape(&[2, 2])).unwrap_err();
    assert!(error.message().contains("lists of different lengths, where [2, 2] was expected"), "{error}");
    assert_eq!(numbers::<f32>(uneven, Numbers::f32().shape(&[4])).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    // What the container knows of all records is checked before any record is read.
    let known = |shape: &[usize], asked: &[usize]| {
        let info = FieldInfo::new("x", FieldKind::Numbers(DType::F32)).shape(shape);
        let records = Records(vec![whole()], [info, FieldInfo::new("y", FieldKind::Other)]);
        let fields = [("x".to_owned(), Numbers::f32().shape(asked).into())];
        FieldReader::new(records, &fields, &MemoryBudget::unlimited()).err().map(|error| error.kind())
    };
    assert_eq!(
        [known(&[2, 3], &[2, 3]), known(&[2, 3], &[6]), known(&[0, 3], &[2, 3]), known(&[0], &[2, 3])],
        [None; 4]
    );
    assert_eq!([known(&[2, 3], &[3, 2]), known(&[0, 3], &[3, 2])], [Some(ErrorKind::Config); 2]);
}
