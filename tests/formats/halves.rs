//! Tensors of f16 and bf16: what they hold, against NumPy and exact arithmetic, and who can make and take them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

use crate::common::{fixture, workspace};
use proptest::prelude::*;
use ringfeed::arrays::{Endian, NpyOptions, NpyReader, RawOptions, RawReader, StoredType};
use ringfeed::csv::{CsvOptions, CsvReader};
use ringfeed::field::{self, Class, Image};
use ringfeed::normalise::NormaliserFit;
use ringfeed::read::{MemoryReader, RecordReader, SampleStream, SampleTensor};
use ringfeed::source::{ReaderSource, StreamSource, Transformed};
use ringfeed::tensor::{Element, NumberSlice, Role, TensorSpec, bf16, f16};
use ringfeed::transform::{Transforms, normalise};
use ringfeed::{AsyncDataSetIterator, DType, DataSet, ErrorKind, LoaderConfig, Normaliser};

/// Bits of an f64, of the f16 and bf16 nearest to it, and of those nearest to the f32 nearest to it. f16 as NumPy 2.4.6
/// rounds, bf16 of f32 as ml_dtypes 0.6.0 does, which agrees with the fractions that gave bf16 of f64.
const NUMBERS: &[(u64, u16, u16, u16, u16)] = &[
    (0x0000_0000_0000_0000, 0x0000, 0x0000, 0x0000, 0x0000), // 0.0
    (0x8000_0000_0000_0000, 0x8000, 0x8000, 0x8000, 0x8000), // -0.0
    (0x3ff0_0000_0000_0000, 0x3c00, 0x3f80, 0x3c00, 0x3f80), // 1.0
    (0xbff8_0000_0000_0000, 0xbe00, 0xbfc0, 0xbe00, 0xbfc0), // -1.5
    (0x3fb9_9999_9999_999a, 0x2e66, 0x3dcd, 0x2e66, 0x3dcd), // 0.1
    (0x3fd5_5555_5555_5555, 0x3555, 0x3eab, 0x3555, 0x3eab), // 0.3333333333333333
    (0x3e70_0000_0000_0000, 0x0001, 0x3380, 0x0001, 0x3380), // 5.960464477539063e-08
    (0x3e60_0000_0000_0000, 0x0000, 0x3300, 0x0000, 0x3300), // 2.9802322387695312e-08
    (0x3e68_0000_0000_0000, 0x0001, 0x3340, 0x0001, 0x3340), // 4.470348358154297e-08
    (0x3f10_0000_0000_0000, 0x0400, 0x3880, 0x0400, 0x3880), // 6.103515625e-05
    (0x3f0f_fc00_0000_0000, 0x0400, 0x3880, 0x0400, 0x3880), // 6.1005353927612305e-05
    (0x3ff0_0200_0000_0000, 0x3c00, 0x3f80, 0x3c00, 0x3f80), // 1.00048828125
    (0x3ff0_0200_0000_1000, 0x3c01, 0x3f80, 0x3c00, 0x3f80), // 1.0004882812509095
    (0xbff0_0200_0000_1000, 0xbc01, 0xbf80, 0xbc00, 0xbf80), // -1.0004882812509095
    (0x3ff0_0600_0000_0000, 0x3c02, 0x3f80, 0x3c02, 0x3f80), // 1.00146484375
    (0x3ff0_1000_0000_0000, 0x3c04, 0x3f80, 0x3c04, 0x3f80), // 1.00390625
    (0x3ff0_1000_0000_1000, 0x3c04, 0x3f81, 0x3c04, 0x3f80), // 1.0039062500009095
    (0x3ff0_0fff_ffff_f000, 0x3c04, 0x3f80, 0x3c04, 0x3f80), // 1.0039062499990905
    (0x3ff0_3000_0000_0000, 0x3c0c, 0x3f82, 0x3c0c, 0x3f82), // 1.01171875
    (0x40ef_fc00_0000_0000, 0x7bff, 0x4780, 0x7bff, 0x4780), // 65504.0
    (0x40ef_fdff_f7ce_d917, 0x7bff, 0x4780, 0x7c00, 0x4780), // 65519.999
    (0x40ef_fe00_0000_0000, 0x7c00, 0x4780, 0x7c00, 0x4780), // 65520.0
    (0xc0f1_1700_0000_0000, 0xfc00, 0xc789, 0xfc00, 0xc789), // -70000.0
    (0x47ef_e000_0000_0000, 0x7c00, 0x7f7f, 0x7c00, 0x7f7f), // 3.3895313892515355e+38
    (0x47ef_efff_fb63_6420, 0x7c00, 0x7f7f, 0x7c00, 0x7f80), // 3.3961775e+38
    (0x47ef_f933_c78c_dfad, 0x7c00, 0x7f80, 0x7c00, 0x7f80), // 3.4e+38
    (0x7e37_e43c_8800_759c, 0x7c00, 0x7f80, 0x7c00, 0x7f80), // 1e+300
    (0x81a5_6e1f_c2f8_f359, 0x8000, 0x8000, 0x8000, 0x8000), // -1e-300
    (0x37a1_6c26_2777_579c, 0x0000, 0x0001, 0x0000, 0x0001), // 1e-40
    (0x3696_d601_ad37_6ab9, 0x0000, 0x0000, 0x0000, 0x0000), // 1e-45
    (0x7ff0_0000_0000_0000, 0x7c00, 0x7f80, 0x7c00, 0x7f80), // inf
    (0xfff0_0000_0000_0000, 0xfc00, 0xff80, 0xfc00, 0xff80), // -inf
    (0x40a0_0200_0000_0000, 0x6800, 0x4500, 0x6800, 0x4500), // 2049.0
    (0x40a0_0600_0000_0000, 0x6802, 0x4500, 0x6802, 0x4500), // 2051.0
    (0x40b0_0200_0001_ad7f, 0x6c01, 0x4580, 0x6c00, 0x4580), // 4098.0000001
    (0x40c8_1cd6_c8b4_3958, 0x7207, 0x4641, 0x7207, 0x4641), // 12345.678
];

/// Whole numbers, and the f16 (NumPy) and bf16 (fractions) nearest to them.
const WHOLE: &[(i64, u16, u16)] = &[
    (0, 0x0000, 0x0000),
    (1, 0x3c00, 0x3f80),
    (-1, 0xbc00, 0xbf80),
    (2_049, 0x6800, 0x4500),
    (2_051, 0x6802, 0x4500),
    (-65_519, 0xfbff, 0xc780),
    (65_520, 0x7c00, 0x4780),
    (257, 0x5c04, 0x4380),
    (259, 0x5c0c, 0x4382),
    (9_007_199_254_740_993, 0x7c00, 0x5a00),
    (283_124_244_152_321, 0x7c00, 0x5781),
    (4_629_700_416_936_869_889, 0x7c00, 0x5e81),
    (i64::MIN, 0xfc00, 0xdf00),
    (i64::MAX, 0x7c00, 0x5f00),
    (16_777_217, 0x7c00, 0x4b80),
    (2_164_326_400, 0x7c00, 0x4f01),
];

/// One batch of all records, in order.
fn all_of(reader: impl RecordReader + 'static) -> DataSet {
    batch_of(ReaderSource::new(reader).batch_size(1000))
}

fn batch_of(source: impl ringfeed::source::Source + 'static) -> DataSet {
    AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap().next().unwrap().unwrap()
}

/// The bits of a tensor of 16 bits.
fn bits(batch: &DataSet, name: &str) -> Vec<u16> {
    bytemuck::pod_collect_to_vec(batch.tensor(name).unwrap().bytes())
}

/// What `values` become as numbers of 16 bits: f16, bf16.
fn halves<T: Element>(values: &[T]) -> [Vec<u16>; 2] {
    [DType::F16, DType::Bf16].map(|dtype| {
        let reader = MemoryReader::new("x", Role::Feature, &[1], values.to_vec()).unwrap().dtype(dtype).unwrap();
        let batch = all_of(reader);
        assert_eq!(batch.tensor("x").unwrap().dtype(), dtype);
        bits(&batch, "x")
    })
}

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn numbers_are_rounded_as_numpy_and_exact_arithmetic_round_them() {
    let wide: Vec<f64> = NUMBERS.iter().map(|row| f64::from_bits(row.0)).collect();
    let [to_f16, to_bf16] = halves(&wide);
    let [narrow_f16, narrow_bf16] = halves(&wide.iter().map(|value| *value as f32).collect::<Vec<_>>());
    for (index, row) in NUMBERS.iter().enumerate() {
        let found = (row.0, to_f16[index], to_bf16[index], narrow_f16[index], narrow_bf16[index]);
        assert_eq!(found, *row, "{}", wide[index]);
    }
    let [to_f16, to_bf16] = halves(&WHOLE.iter().map(|row| row.0).collect::<Vec<_>>());
    for (index, row) in WHOLE.iter().enumerate() {
        assert_eq!((row.0, to_f16[index], to_bf16[index]), *row);
    }
    let [to_f16, to_bf16] = halves(&[u32::MAX, 16_777_217, 2049, 65_519]);
    assert_eq!((to_f16, to_bf16), (vec![0x7c00, 0x7c00, 0x6800, 0x7bff], vec![0x4f80, 0x4b80, 0x4500, 0x4780]));
    let [to_f16, to_bf16] = halves(&[f64::NAN, -f64::NAN]);
    assert!(to_f16.iter().all(|bits| f16::from_bits(*bits).is_nan()));
    assert!(to_bf16.iter().all(|bits| bf16::from_bits(*bits).is_nan()));
}

#[test]
fn halves_from_numpy_stay_the_bits_that_they_are() {
    #[derive(serde::Deserialize)]
    struct Expected {
        values: Vec<f64>,
    }
    let expected = std::fs::read_to_string(fixture("npy/expected.json")).unwrap();
    let mut expected: std::collections::BTreeMap<String, Expected> = serde_json::from_str(&expected).unwrap();
    for name in ["f2-little", "f2-big"] {
        let (path, f16) = (fixture("npy").join(format!("{name}.npy")), field::Numbers::of(DType::F16));
        let batch = all_of(NpyReader::open_as(path, "x", f16, &NpyOptions::default()).unwrap());
        let found: Vec<f64> = batch.features().unwrap().as_slice::<f16>().unwrap().iter().map(|x| x.to_f64()).collect();
        let expected = expected.remove(name).unwrap().values;
        assert!(!found.is_empty() && found == expected, "{name}: {found:?}, not {expected:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn stored_halves_become_each_other_in_any_byte_order_and_place(
        values in proptest::collection::vec(any::<u16>(), 1..600),
        header in 0usize..2,
        small in any::<bool>(),
    ) {
        // Small enough for either.
        let values: Vec<u16> =
            values.iter().map(|bits| if small { (bits & 0x8000) | ((bits & 0x7fff) % 0x4780) } else { *bits }).collect();
        for (stored, own) in [(StoredType::F16, DType::F16), (StoredType::Bf16, DType::Bf16)] {
            for endian in [Endian::Little, Endian::Big] {
                let mut bytes = vec![0; header];
                bytes.extend(values.iter().flat_map(|bits| match endian {
                    Endian::Little => bits.to_le_bytes(),
                    Endian::Big => bits.to_be_bytes(),
                }));
                let file = file_of(&bytes);
                let read = |dtype| {
                    let raw = RawOptions::features(stored, &[values.len()]);
                    let options = RawOptions { endian, header_bytes: header as u64, ..raw };
                    let reader = RawReader::open_as(file.path(), "features", field::Numbers::of(dtype), &options);
                    let source = ReaderSource::new(reader.unwrap());
                    AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap().next().unwrap()
                };
                prop_assert_eq!(&bits(&read(own).unwrap(), "features"), &values);
                let exact = |bits: &u16| match stored {
                    StoredType::F16 => f16::from_bits(*bits).to_f32(),
                    _ => bf16::from_bits(*bits).to_f32(),
                };
                for dtype in [DType::F16, DType::Bf16, DType::F64] {
                    let is_lost = |exact: f32| dtype == DType::F16 && exact.is_finite() && !f16::from_f32(exact).is_finite();
                    let lost = values.iter().position(|bits| is_lost(exact(bits)));
                    let batch = match (read(dtype), lost) {
                        (Ok(batch), None) => batch,
                        (Err(error), Some(lost)) => {
                            let message = format!("element {lost}: {:?} is too large for f16", f64::from(exact(&values[lost])));
                            prop_assert!(error.message().contains(&message), "{}", error);
                            continue;
                        }
                        (read, lost) => panic!("{lost:?}: {read:?}"),
                    };
                    for (index, bits) in values.iter().enumerate() {
                        let exact = exact(bits);
                        let expected = match dtype {
                            DType::F16 => f16::from_f32(exact).to_f64(),
                            DType::Bf16 => bf16::from_f32(exact).to_f64(),
                            _ => exact.into(),
                        };
                        let found = batch.features().unwrap().numbers().at(index);
                        prop_assert!(found == expected || found.is_nan() && expected.is_nan(), "{bits:x}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_normaliser_computes_in_32_bits_and_rounds_once_more(
        values in proptest::collection::vec(any::<u8>(), 12..=300usize),
    ) {
        let rows = values.len() / 12;
        let normaliser = Normaliser::imagenet();
        let spec = TensorSpec::new("x", Role::Feature, DType::F32, &[2, 2, 3]);
        let affine = normaliser.affine(&spec).unwrap();
        for dtype in [DType::F16, DType::Bf16] {
            let reader = MemoryReader::new("x", Role::Feature, &[2, 2, 3], values[..rows * 12].to_vec()).unwrap();
            let source = ReaderSource::new(reader.dtype(dtype).unwrap()).batch_size(1000);
            let batch = batch_of(Transformed::new(source, Transforms::new().with(normalise("x", normaliser.clone()))));
            let found = bits(&batch, "x");
            for (index, value) in values[..rows * 12].iter().enumerate() {
                let number = f32::from(*value).mul_add(affine.scale[index % 3], affine.bias[index % 3]);
                let expected = match dtype {
                    DType::F16 => f16::from_f32(number).to_bits(),
                    _ => bf16::from_f32(number).to_bits(),
                };
                prop_assert_eq!(found[index], expected);
            }
        }
    }
}

#[test]
fn columns_become_halves_rounded_once_or_after_a_transformation_in_32_bits() {
    let rows = 150;
    let number = |row: usize, column: usize| format!("{}.{:03}", row * 7, (row * 31 + column * 17) % 1000);
    let mut text = (0..70).map(|column| format!("c{column}")).collect::<Vec<_>>().join(",") + ",class\n";
    for row in 0..rows {
        let numbers: Vec<String> = (0..70).map(|column| number(row, column)).collect();
        text += &format!("{},{}\n", numbers.join(","), ["a", "b", "c"][row % 3]);
    }
    let file = file_of(text.as_bytes());
    let columns: Vec<String> = (0..70).map(|column| format!("c{column}")).collect();
    for dtype in [DType::F16, DType::Bf16] {
        let fields = [
            ("x".to_owned(), field::Numbers::of(dtype).from(columns.clone())),
            ("y".to_owned(), Class.dtype(dtype).from("class")),
        ];
        let open = || CsvReader::with_fields(file.path(), &fields, &CsvOptions::default()).unwrap();
        let round = |number: f32| match dtype {
            DType::F16 => f16::from_f32(number).to_bits(),
            _ => bf16::from_f32(number).to_bits(),
        };
        // So few digits that the nearest f64 lies on the same side of every half.
        let all = (0..rows).flat_map(|row| (0..70).map(move |column| number(row, column).parse::<f64>().unwrap()));
        let which = usize::from(dtype == DType::Bf16);
        let once: Vec<u16> = all.collect::<Vec<_>>().chunks(1000).flat_map(|all| halves(all)[which].clone()).collect();
        for scale in [None, Some(0.37f32)] {
            let source = ReaderSource::new(open()).batch_size(rows);
            let list = scale.map(|scale| {
                let (mean, deviation) = (vec![100.0], vec![f64::from(1.0 / scale)]);
                normalise("x", Normaliser::Standardise { axis: None, mean, deviation })
            });
            let batch = batch_of(Transformed::new(source, list.into_iter().collect()));
            let found = bits(&batch, "x");
            let spec = batch.tensor("x").unwrap().spec().clone();
            for row in 0..rows {
                for column in 0..70 {
                    let expected = spec.affine.as_ref().map_or(once[row * 70 + column], |affine| {
                        let number: f32 = number(row, column).parse().unwrap();
                        round(number.mul_add(affine.scale[0], affine.bias[0]))
                    });
                    assert_eq!(found[row * 70 + column], expected, "row {row}, column {column}");
                }
                assert_eq!(bits(&batch, "y")[row], round((row % 3) as f32));
            }
        }
    }
}

#[test]
fn a_bad_field_is_found_where_it_is() {
    let mut text = String::new();
    for row in 0..3 {
        let fields: Vec<String> =
            (0..100).map(|c| if (row, c) == (1, 80) { "x".into() } else { c.to_string() }).collect();
        text += &(fields.join(",") + "\n");
    }
    let file = file_of(text.as_bytes());
    let fields = [("x".to_owned(), field::Numbers::of(DType::Bf16).from((0..100usize).collect::<Vec<_>>()))];
    let header = ringfeed::csv::Header::No;
    let options = CsvOptions { header, ..CsvOptions::default() };
    let source = ReaderSource::new(CsvReader::with_fields(file.path(), &fields, &options).unwrap());
    let error = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap().next().unwrap().unwrap_err();
    assert_eq!((error.location().record, error.location().line), (Some(1), Some(2)), "{error}");
    assert!(error.to_string().contains("column_81"), "{error}");
}

#[test]
fn a_class_that_a_half_does_not_hold_is_refused() {
    let names: Vec<String> = (0..3000).map(|class| format!("class {class}")).collect();
    let file = file_of(b"class 2049\n");
    let fields = [("y".to_owned(), Class::of(names).dtype(DType::F16).from(0))];
    let header = ringfeed::csv::Header::No;
    let options = CsvOptions { header, ..CsvOptions::default() };
    let error = CsvReader::with_fields(file.path(), &fields, &options).err().unwrap();
    assert!(error.kind() == ErrorKind::Config && error.message().contains("does not fit f16"), "{error}");
}

#[test]
fn a_user_s_arrays_may_be_halves() {
    let values: Vec<f16> = [0.5, -2.0, 65504.0].map(f16::from_f32).to_vec();
    let sample = values.clone();
    let specs = [TensorSpec::new("x", Role::Feature, DType::F16, &[3])];
    let stream = SampleStream::once(&specs, std::iter::once(Ok(vec![SampleTensor::new(sample, &[3])]))).unwrap();
    let batch = batch_of(StreamSource::from_samples(stream));
    let view = batch.features().unwrap();
    assert_eq!(view.as_slice::<f16>().unwrap(), values);
    assert!(matches!(view.numbers(), NumberSlice::F16(found) if found == values));
    let error = view.as_slice::<bf16>().unwrap_err();
    assert!(error.message().contains("holds f16, not bf16"), "{error}");
}

#[test]
fn a_normaliser_can_be_fitted_on_halves() {
    let values: Vec<bf16> = [1.0, 3.0, 5.0, 7.0].map(bf16::from_f32).to_vec();
    let batch = all_of(MemoryReader::new("x", Role::Feature, &[1], values).unwrap());
    let mut fit = NormaliserFit::standardise(None);
    fit.observe(&batch.features().unwrap()).unwrap();
    let Normaliser::Standardise { mean, deviation, .. } = fit.finish().unwrap() else { panic!("another kind") };
    assert_eq!((mean, deviation), (vec![4.0], vec![5f64.sqrt()]));
}

#[test]
fn halves_fit_no_integers_and_have_names() {
    let error = MemoryReader::new("x", Role::Feature, &[1], vec![f16::ONE]).unwrap().dtype(DType::I64).err().unwrap();
    assert!(error.message().contains("f16 values do not fit i64"), "{error}");
    for (dtype, name) in [(DType::F16, "f16"), (DType::Bf16, "bf16")] {
        assert_eq!((dtype.as_str(), dtype.bytes(), dtype.is_float(), dtype.int_range()), (name, 2, true, None));
        assert_eq!(name.parse::<DType>().unwrap(), dtype);
        assert_eq!(serde_json::to_string(&dtype).unwrap(), format!("{name:?}"));
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn settings_ask_for_halves() {
    let config: LoaderConfig = toml::from_str(
        "[[sources]]\nformat = \"npy\"\npath = \"fixtures/npy/row.npy\"\nfields.x = \"bf16\"\n\
         [[sources]]\nformat = \"images\"\npath = \"fixtures/photos\"\nfields.image = { image = [8, 8], dtype = \"f16\" }\n",
    )
    .unwrap();
    assert_eq!(config.sources[0].fields, [("x".to_owned(), field::Numbers::of(DType::Bf16).into())]);
    let f16 = Image::rgb(8, 8).dtype(DType::F16);
    assert_eq!(config.sources[1].fields, [("image".to_owned(), f16.into())]);
    assert_eq!(config.faults(), Vec::<String>::new());
}
