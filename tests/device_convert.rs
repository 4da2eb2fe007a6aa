//! Transforms on a device, against one naive loop in plain arithmetic, and against the same transforms on the host.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/given.rs"]
mod given;

use std::sync::Arc;

use given::Given;

use proptest::prelude::*;
use ringfeed::device::{Device, HostDevice, Upload};
use ringfeed::images::PixelOrder;
use ringfeed::source::{ReaderSource, Transformed};
use ringfeed::tensor::{Dim, Element, Role, TensorSpec, bf16, f16};
use ringfeed::transform::{Operation, Transforms, cast, clip, dense, flip, layout, normalise, one_hot};
use ringfeed::{AsyncDataSetIterator, DType, ErrorKind, Normaliser, Result, Workspace};

fn bytes_of<T: Element>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

fn start(given: &Given, upload: &Upload<HostDevice>) -> Result<ringfeed::device::DeviceDataSetIterator<HostDevice>> {
    let workspace = Workspace::builder().workers(1).poison(0xa5).build()?;
    let source = ReaderSource::new(given.clone()).batch_size(given.rows.len());
    upload.start(AsyncDataSetIterator::new(source, &workspace)?)
}

fn upload(list: &[Operation]) -> (HostDevice, Upload<HostDevice>) {
    let device = HostDevice::new();
    let upload = list.iter().cloned().fold(Upload::to(device.clone()), Upload::transform);
    (device, upload)
}

/// Type, shape and bytes of the tensor called `x`, after the device did `list`.
fn on_device(given: &Given, list: &[Operation]) -> (DType, Vec<usize>, Vec<u8>) {
    let (device, upload) = upload(list);
    let mut batches = start(given, &upload).unwrap();
    let batch = batches.next().unwrap().unwrap();
    let stream = device.stream().unwrap();
    let on = batch.on(&stream).unwrap();
    let x = on.tensor("x").unwrap();
    let schema = batches.device_schema();
    let spec = &schema.tensors()[schema.index_of("x").unwrap()];
    let dims =
        spec.shape.iter().zip(&x.shape()[1..]).all(|(dim, len)| !matches!(dim, Dim::Fixed(fixed) if fixed != len));
    assert!(dims && (spec.dtype, spec.shape.len() + 1) == (x.dtype(), x.shape().len()), "the schema says {spec:?}");
    (x.dtype(), x.shape().to_vec(), x.to_host().unwrap())
}

/// The same, and the host gives it, too.
fn converted(given: &Given, list: &[Operation]) -> (DType, Vec<usize>, Vec<u8>) {
    let found = on_device(given, list);
    let source = ReaderSource::new(given.clone()).batch_size(given.rows.len());
    let transformed = Transformed::new(source, list.iter().cloned().collect::<Transforms>());
    let workspace = Workspace::builder().workers(1).poison(0x5a).build().unwrap();
    let batch = AsyncDataSetIterator::new(transformed, &workspace).unwrap().next().unwrap().unwrap();
    let x = batch.tensor("x").unwrap();
    assert!((x.dtype(), x.shape(), x.bytes()) == (found.0, &found.1[..], &found.2[..]), "another result on the host");
    found
}

/// An image of bytes in this order, as numbers of this type.
fn image(from: PixelOrder, to: DType, order: PixelOrder) -> Vec<Operation> {
    vec![cast("x", to), Operation::Layout { tensor: "x".to_owned(), order, from: Some(from) }]
}

fn classes(count: usize, dtype: DType) -> Vec<Operation> {
    vec![Operation::OneHot { tensor: "x".to_owned(), classes: Some(count), dtype }]
}

fn refusal(tensors: &[TensorSpec], list: &[Operation]) -> ringfeed::Error {
    let rows = tensors.iter().map(|spec| {
        let elements: usize = spec.row_shape(&ringfeed::tensor::Extents::default()).elements().unwrap();
        vec![0; elements * spec.dtype.bytes()]
    });
    let given = Given { tensors: tensors.to_vec(), rows: Arc::new(vec![rows.collect()]) };
    start(&given, &upload(list).1).err().unwrap()
}

/// The bytes of `numbers` as this type.
fn rounded(to: DType, numbers: &[f32]) -> Vec<u8> {
    match to {
        DType::F32 => bytes_of(numbers),
        DType::F16 => numbers.iter().flat_map(|x| nearest_f16(*x).to_ne_bytes()).collect(),
        DType::Bf16 => numbers.iter().flat_map(|x| nearest_bf16(*x).to_ne_bytes()).collect(),
        other => panic!("no judge for {other:?}"),
    }
}

/// The nearest of all 16-bit numbers, found by looking at every one of them; ties go to the even one.
fn nearest_of_all(number: f32, to_f64: impl Fn(u16) -> f64, infinity: u16, beyond: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    let wanted = f64::from(number.abs());
    if wanted >= beyond {
        return sign | infinity;
    }
    // Positive numbers are ordered as their bits are.
    let (mut below, mut above) = (0, infinity - 1);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if to_f64(middle) <= wanted { below = middle } else { above = middle }
    }
    let (to_below, to_above) = (wanted - to_f64(below), to_f64(above) - wanted);
    let takes_below = if to_below == to_above { below % 2 == 0 } else { to_below < to_above };
    sign | if takes_below { below } else { above }
}

fn nearest_f16(number: f32) -> u16 {
    // Half way from the largest number, 65504, to what the next one would be.
    nearest_of_all(number, |bits| f16::from_bits(bits).to_f64(), 0x7c00, 65520.0)
}

fn nearest_bf16(number: f32) -> u16 {
    let largest = bf16::from_bits(0x7f7f).to_f64();
    let beyond = largest + (largest - bf16::from_bits(0x7f7e).to_f64()) / 2.0;
    nearest_of_all(number, |bits| bf16::from_bits(bits).to_f64(), 0x7f80, beyond)
}

fn float() -> impl Strategy<Value = DType> {
    prop_oneof![Just(DType::F32), Just(DType::F16), Just(DType::Bf16)]
}

fn order() -> impl Strategy<Value = PixelOrder> {
    prop_oneof![Just(PixelOrder::Nchw), Just(PixelOrder::Nhwc)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn images_are_those_of_the_naive_loop(
        seed in any::<u64>(),
        (images, channels) in (1usize..4, 1usize..5),
        (height, width) in (5usize..9, prop_oneof![5usize..20, 250usize..530]),
        (from, order, to) in (order(), order(), float()),
        normalised in any::<bool>(),
        flipped in any::<bool>(),
    ) {
        let shape = match from {
            PixelOrder::Nchw => [channels, height, width],
            PixelOrder::Nhwc => [height, width, channels],
        };
        let key = ringfeed::order::RandomKey::new(seed);
        let pixel = |image: usize, c: usize, y: usize, x: usize| {
            key.bits((((image * channels + c) * height + y) * width + x) as u64) as u8
        };
        let flag = |image: usize| (key.bits(u64::MAX - image as u64) % 3) as u8;
        let rows = (0..images).map(|image| {
            let pixels = match from {
                PixelOrder::Nchw => (0..channels)
                    .flat_map(|c| (0..height).flat_map(move |y| (0..width).map(move |x| (c, y, x))))
                    .map(|(c, y, x)| pixel(image, c, y, x))
                    .collect(),
                PixelOrder::Nhwc => (0..height)
                    .flat_map(|y| (0..width).flat_map(move |x| (0..channels).map(move |c| (c, y, x))))
                    .map(|(c, y, x)| pixel(image, c, y, x))
                    .collect(),
            };
            vec![pixels, vec![flag(image)]]
        });
        let given = Given {
            tensors: vec![
                TensorSpec::new("x", Role::Feature, DType::U8, &shape),
                TensorSpec::new("flip", Role::Mask, DType::U8, &[]),
            ],
            rows: Arc::new(rows.collect()),
        };
        let mean: Vec<f64> = (0..channels).map(|c| 0.1 + c as f64 / 7.0).collect();
        let deviation: Vec<f64> = (0..channels).map(|c| 0.3 - c as f64 / 40.0).collect();
        let mut list = image(from, to, order);
        if normalised {
            let (mean, deviation) = (mean.clone(), deviation.clone());
            let axis = Some(if order == PixelOrder::Nchw { 0 } else { 2 });
            list.push(normalise("x", Normaliser::Channels { axis, mean, deviation }));
        }
        if flipped {
            // Before it is cast, or at the end.
            let at = if normalised { 0 } else { list.len() };
            let order = Some(if normalised { from } else { order });
            list.insert(at, Operation::Flip { tensor: "x".to_owned(), by: "flip".to_owned(), order });
        }
        let (dtype, shape, bytes) = converted(&given, &list);
        prop_assert_eq!(dtype, to);

        let number = |image: usize, c: usize, y: usize, x: usize| {
            let x = if flipped && flag(image) != 0 { width - 1 - x } else { x };
            let (scale, bias) = match normalised {
                true => ((1.0 / (255.0 * deviation[c])) as f32, (-mean[c] / deviation[c]) as f32),
                false => (1.0, 0.0),
            };
            f32::from(pixel(image, c, y, x)).mul_add(scale, bias)
        };
        let mut expected = Vec::new();
        let expected_shape = match order {
            PixelOrder::Nchw => [images, channels, height, width],
            PixelOrder::Nhwc => [images, height, width, channels],
        };
        for image in 0..images {
            for a in 0..expected_shape[1] {
                for b in 0..expected_shape[2] {
                    for c in 0..expected_shape[3] {
                        expected.push(match order {
                            PixelOrder::Nchw => number(image, a, b, c),
                            PixelOrder::Nhwc => number(image, c, a, b),
                        });
                    }
                }
            }
        }
        prop_assert_eq!(shape, expected_shape);
        prop_assert!(bytes == rounded(to, &expected));
    }

    #[test]
    fn scaled_integers_are_those_of_the_naive_loop(
        values in proptest::collection::vec(any::<u16>(), 1..600),
        (scale, bias) in (-1e3f32..1e3, -1e3f32..1e3),
        to in float(),
        kind in 0..4,
    ) {
        let (dtype, bytes, numbers): (DType, Vec<u8>, Vec<f32>) = match kind {
            0 => (DType::U16, bytes_of(&values), values.iter().map(|x| f32::from(*x)).collect()),
            1 => {
                let values: Vec<i16> = values.iter().map(|x| *x as i16).collect();
                (DType::I16, bytes_of(&values), values.iter().map(|x| f32::from(*x)).collect())
            }
            2 => {
                let values: Vec<u8> = values.iter().map(|x| *x as u8).collect();
                (DType::U8, bytes_of(&values), values.iter().map(|x| f32::from(*x)).collect())
            }
            _ => {
                let values: Vec<i8> = values.iter().map(|x| *x as i8).collect();
                (DType::I8, bytes_of(&values), values.iter().map(|x| f32::from(*x)).collect())
            }
        };
        let given = Given {
            tensors: vec![TensorSpec::new("x", Role::Feature, dtype, &[values.len()])],
            rows: Arc::new(vec![vec![bytes]]),
        };
        let linear = normalise("x", Normaliser::Linear { scale: scale.into(), bias: bias.into() });
        let list = [cast("x", DType::F32), linear, cast("x", to)];
        let expected: Vec<f32> = numbers.iter().map(|x| x.mul_add(scale, bias)).collect();
        // The host refuses what a type does not reach.
        let is_reached = to != DType::F16 || expected.iter().all(|x| x.abs() < 65520.0);
        let (_, shape, bytes) = if is_reached { converted(&given, &list) } else { on_device(&given, &list) };
        prop_assert_eq!(shape, [1, values.len()]);
        prop_assert!(bytes == rounded(to, &expected));
    }

    #[test]
    fn classes_become_one_hot_rows(labels in proptest::collection::vec(-2i64..9, 1..40), classes in 1usize..8, to in float()) {
        let given = Given {
            tensors: vec![TensorSpec::new("x", Role::Label, DType::I64, &[])],
            rows: Arc::new(labels.iter().map(|label| vec![bytes_of(&[*label])]).collect()),
        };
        let list = self::classes(classes, to);
        let are_classes = labels.iter().all(|label| (0..classes as i64).contains(label));
        let (_, shape, bytes) = if are_classes { converted(&given, &list) } else { on_device(&given, &list) };
        let expected: Vec<f32> = labels
            .iter()
            .flat_map(|label| (0..classes).map(move |class| if class as i64 == *label { 1.0 } else { 0.0 }))
            .collect();
        prop_assert_eq!(shape, [labels.len(), classes]);
        prop_assert!(bytes == rounded(to, &expected));
    }

    #[test]
    fn sparse_rows_become_dense(
        rows in proptest::collection::vec(proptest::collection::btree_map(-1i32..12, (any::<bool>(), -1e5f32..1e5), 6), 1..9),
        masked in any::<bool>(),
        to in float(),
    ) {
        let columns = 10;
        let given = Given {
            tensors: vec![
                TensorSpec::new("x", Role::Feature, DType::F32, &[6]),
                TensorSpec::new("at", Role::Feature, DType::I32, &[6]),
                TensorSpec::new("mask", Role::Mask, DType::U8, &[6]),
            ],
            rows: Arc::new(rows.iter().map(|row| vec![
                row.values().flat_map(|(_, value)| value.to_ne_bytes()).collect(),
                row.keys().flat_map(|column| column.to_ne_bytes()).collect(),
                row.values().map(|(there, _)| u8::from(*there)).collect(),
            ]).collect()),
        };
        let (tensor, indices, mask) = ("x".to_owned(), "at".to_owned(), masked.then(|| "mask".to_owned()));
        let (_, shape, bytes) = converted(&given, &[Operation::Dense { tensor, indices, columns, mask, dtype: to }]);
        let expected: Vec<f32> = rows
            .iter()
            .flat_map(|row| {
                (0..columns as i32).map(move |column| match row.get(&column) {
                    Some((there, value)) if *there || !masked => *value,
                    _ => 0.0,
                })
            })
            .collect();
        prop_assert_eq!(shape, [rows.len(), columns]);
        prop_assert!(bytes == rounded(to, &expected));
    }
}

/// Two sparse rows, whose values and columns each have a mask.
fn padded(values: [[u8; 4]; 2], columns: [[u8; 4]; 2]) -> Given {
    let row = |values: [u8; 4], columns: [u8; 4], chosen: [u8; 4]| {
        let (x, at) = (bytes_of(&[5.0f32, 6.0, 7.0, 8.0]), bytes_of(&[4i32, 3, 2, 0]));
        vec![x, at, values.to_vec(), columns.to_vec(), chosen.to_vec()]
    };
    let mask = |name| TensorSpec::new(name, Role::Mask, DType::U8, &[4]);
    Given {
        tensors: vec![
            TensorSpec::new("x", Role::Feature, DType::F32, &[4]),
            TensorSpec::new("at", Role::Feature, DType::I32, &[4]),
            mask("x_mask"),
            mask("at_mask"),
            mask("chosen"),
        ],
        rows: Arc::new(vec![row(values[0], columns[0], [0, 1, 1, 0]), row(values[1], columns[1], [1, 0, 0, 0])]),
    }
}

#[test]
fn sparse_rows_whose_lists_have_masks_of_their_own_become_dense() {
    let dense = |mask: &str| {
        let (tensor, indices, mask) = ("x".to_owned(), "at".to_owned(), Some(mask.to_owned()));
        [Operation::Dense { tensor, indices, columns: 5, mask, dtype: DType::F32 }]
    };
    let (three, two, one) = ([1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]);
    let equal = padded([three, one], [three, one]);
    let cases = [
        ("x_mask", [0.0, 0.0, 7.0, 6.0, 5.0, 0.0, 0.0, 0.0, 0.0, 5.0]),
        ("at_mask", [0.0, 0.0, 7.0, 6.0, 5.0, 0.0, 0.0, 0.0, 0.0, 5.0]),
        ("chosen", [0.0, 0.0, 7.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0]),
    ];
    for (mask, expected) in cases {
        let expected: [f32; 10] = expected;
        assert_eq!(converted(&equal, &dense(mask)).2, bytes_of(&expected), "{mask}");
    }
    let faults = [
        ("x_mask", [three, one], [three, two], "row 1 of the batch: 2 columns for 1 values"),
        ("at_mask", [three, one], [two, one], "row 0 of the batch: 2 columns for 3 values"),
        ("chosen", [two, one], [two, one], "row 0 of the batch: entry 2 is used, but has no column"),
    ];
    for (mask, values, columns, message) in faults {
        let given = padded(values, columns);
        let error = start(&given, &upload(&dense(mask)).1).unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Data, Some("at")));
        let source = Transformed::new(ReaderSource::new(given), dense(mask).into_iter().collect::<Transforms>());
        let workspace = Workspace::builder().workers(1).build().unwrap();
        let error = AsyncDataSetIterator::new(source, &workspace).unwrap().next().unwrap().unwrap_err();
        let (_, message) = message.split_once(": ").unwrap();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn every_16_bit_value_is_rounded_correctly_at_the_edges() {
    let edges = [0.0, -0.0, 1.0, 65504.0, 65519.996, 65520.0, 6.0e-8, 2.9802322e-8, 2.98e-8, 3.3e38, 3.4e38, -1e-41];
    let given = Given {
        tensors: vec![
            TensorSpec::new("x", Role::Feature, DType::F32, &[edges.len()]),
            TensorSpec::new("at", Role::Feature, DType::U32, &[edges.len()]),
        ],
        rows: Arc::new(vec![vec![bytes_of(&edges), bytes_of(&(0..edges.len() as u32).collect::<Vec<_>>())]]),
    };
    for to in [DType::F32, DType::F16, DType::Bf16] {
        let (tensor, indices, columns) = ("x".to_owned(), "at".to_owned(), edges.len());
        let (_, _, bytes) = converted(&given, &[Operation::Dense { tensor, indices, columns, mask: None, dtype: to }]);
        assert_eq!(bytes, rounded(to, &edges));
    }
}

#[test]
fn other_tensors_arrive_as_they_are() {
    let given = Given {
        tensors: vec![
            TensorSpec::new("x", Role::Label, DType::U8, &[]),
            TensorSpec::new("y", Role::Feature, DType::F32, &[2]),
        ],
        rows: Arc::new(vec![vec![vec![1], bytes_of(&[1.5f32, 2.5])], vec![vec![0], bytes_of(&[3.5f32, 4.5])]]),
    };
    let (device, upload) = upload(&classes(2, DType::F32));
    let batch = start(&given, &upload).unwrap().next().unwrap().unwrap();
    let stream = device.stream().unwrap();
    let on = batch.on(&stream).unwrap();
    let y = on.features().unwrap();
    assert_eq!((y.dtype(), y.shape()), (DType::F32, &[2, 2][..]));
    assert_eq!(y.to_host().unwrap(), bytes_of(&[1.5f32, 2.5, 3.5, 4.5]));
    assert_eq!(on.labels().unwrap().address() % 256, 0);
}

#[test]
fn what_can_not_be_converted_is_refused_by_name() {
    let x = |dtype, shape: &[usize]| TensorSpec::new("x", Role::Feature, dtype, shape);
    let to_f32 = || cast("x", DType::F32);
    let imagenet = || normalise("x", Normaliser::imagenet());
    let linear = || normalise("x", Normaliser::Linear { scale: 0.5, bias: 1.0 });
    let nchw = || layout("x", PixelOrder::Nchw);
    let cases = [
        (refusal(&[x(DType::F32, &[3, 8, 8])], &[to_f32(), nchw()]), "may hold u8"),
        (refusal(&[x(DType::U8, &[8, 8])], &[to_f32(), nchw()]), "three dimensions"),
        (refusal(&[x(DType::U8, &[3, 8, 3])], &[to_f32(), nchw()]), "first or last"),
        (refusal(&[x(DType::U8, &[8, 8, 8])], &[to_f32(), nchw()]), "no dimension is 1 to 4 channels"),
        (refusal(&[x(DType::U8, &[4, 8, 8])], &[to_f32(), imagenet()]), "3 channels"),
        (refusal(&[x(DType::U8, &[3, 8, 8])], &[imagenet()]), "make it f32"),
        (refusal(&[x(DType::U8, &[3, 8, 8])], &[nchw()]), "cast it to one of them"),
        (refusal(&[x(DType::U8, &[3, 8, 8])], &[cast("x", DType::F64)]), "not f64"),
        (refusal(&[x(DType::U8, &[3, 8, 8])], &[to_f32(), linear(), linear()]), "once"),
        (refusal(&[x(DType::I64, &[])], &[to_f32(), linear()]), "holds i64"),
        (refusal(&[x(DType::F32, &[])], &classes(3, DType::F32)), "holds f32"),
        (refusal(&[x(DType::I64, &[])], &[one_hot("x")]), "say how many there are"),
        (refusal(&[x(DType::F32, &[3])], &[dense("x", "at", 3)]), "no tensor \"at\""),
        (refusal(&[x(DType::F32, &[3])], &[clip("x", 0.0, 1.0)]), "only on the host"),
        (refusal(&[x(DType::U16, &[3])], &[cast("x", DType::F16), linear()]), "rounded twice"),
        (refusal(&[x(DType::U16, &[3])], &[cast("x", DType::F16), cast("x", DType::Bf16)]), "rounded twice"),
    ];
    for (error, part) in cases {
        assert!(error.to_string().contains(part), "{error}");
        assert!(matches!(error.kind(), ErrorKind::Schema | ErrorKind::NotFound), "{error}");
    }
    let flag = TensorSpec::new("flag", Role::Mask, DType::I64, &[]);
    let error = refusal(&[x(DType::U8, &[3, 8, 8]), flag], &[to_f32(), flip("x", "flag")]);
    assert_eq!(error.location().column.as_deref(), Some("flag"));
    let huge = refusal(&[x(DType::U8, &[])], &classes(usize::MAX / 2, DType::F32));
    assert!(huge.to_string().contains("there are 1 to 16777216"), "{huge}");
    assert_eq!(huge.kind(), ErrorKind::Config);
    assert_eq!(refusal(&[x(DType::U8, &[3, 8, 8])], &[cast("y", DType::F32)]).kind(), ErrorKind::NotFound);
}
