//! Boxes and key points go where their picture goes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail where they unwrap")]

use std::fs;
use std::path::Path;

use crate::common::see_all;
use ringfeed::field::{BoxFormat, Boxes, Field, Image, Keypoints, PointFormat};
use ringfeed::images::{CropFit, Edge, ImageAugment, Interpolation, PixelOrder, horizontal_flip, vertical_flip};
use ringfeed::{DType, ErrorKind, Loader, LoaderConfig, Normaliser};

/// A black BMP of 100 x 80 pixels with a white box.
fn bmp([left, top, right, bottom]: [u32; 4]) -> Vec<u8> {
    let (width, height) = (100u32, 80u32);
    let mut bytes = b"BM".to_vec();
    for word in [54 + 3 * width * height, 0, 54, 40, width, height, 1 | 24 << 16, 0, 0, 0, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for y in (0..height).rev() {
        for x in 0..width {
            let inside = (left..right).contains(&x) && (top..bottom).contains(&y);
            bytes.extend([if inside { 255 } else { 0 }; 3]);
        }
    }
    bytes
}

const COUNT: u32 = 40;

/// The white box of sample `nth`.
fn white(nth: u32) -> [u32; 4] {
    let (left, top) = (7 * nth % 60, 5 * nth % 40);
    [left, top, left + 20 + nth % 13, top + 15 + nth % 17]
}

/// Pictures, and lines that name them with their boxes: the white one, and one that is nowhere.
fn lines(folder: &Path, format: BoxFormat) {
    let mut lines = String::new();
    for nth in 0..COUNT {
        let [left, top, right, bottom] = white(nth);
        fs::write(folder.join(format!("{nth:02}.bmp")), bmp([left, top, right, bottom])).unwrap();
        let (width, height) = (right - left, bottom - top);
        let numbers = match format {
            BoxFormat::Xywh => [f64::from(left), f64::from(top), f64::from(width), f64::from(height)],
            BoxFormat::Cxcywh => {
                let middle = |from: u32, to: u32| f64::from(from + to) / 2.0;
                [middle(left, right), middle(top, bottom), f64::from(width), f64::from(height)]
            }
            BoxFormat::RelativeXyxy => {
                [f64::from(left) / 100.0, f64::from(top) / 80.0, f64::from(right) / 100.0, f64::from(bottom) / 80.0]
            }
            BoxFormat::RelativeXywh => {
                [f64::from(left) / 100.0, f64::from(top) / 80.0, f64::from(width) / 100.0, f64::from(height) / 80.0]
            }
            BoxFormat::RelativeCxcywh => {
                let middle = |from: u32, to: u32, side: f64| f64::from(from + to) / 2.0 / side;
                let sides = [f64::from(width) / 100.0, f64::from(height) / 80.0];
                [middle(left, right, 100.0), middle(top, bottom, 80.0), sides[0], sides[1]]
            }
            _ => [left, top, right, bottom].map(f64::from),
        };
        let points = [[left, top], [right, bottom]];
        let shares = points.map(|[x, y]| [f64::from(x) / 100.0, f64::from(y) / 80.0]);
        lines += &format!(
            "{{\"path\": \"{nth:02}.bmp\", \"w\": 100, \"h\": 80, \"boxes\": [{numbers:?}, [200, 200, 210, 210]], \
             \"points\": {points:?}, \"shares\": {shares:?}}}\n"
        );
    }
    fs::write(folder.join("scenes.jsonl"), lines).unwrap();
}

fn picture(augment: &[ImageAugment]) -> Image {
    Image::rgb(64, 72).dtype(DType::U8).order(PixelOrder::Nhwc).augment(augment.to_vec()).geometry("scene")
}

/// Where a picture of 72 x 64 pixels is white.
fn extent(pixels: &[u8]) -> Option<[f32; 4]> {
    let white = |at: &usize| pixels[3 * at] >= 128;
    let xs = (0..72 * 64).filter(white).map(|at| (at % 72) as f32);
    let ys = (0..72 * 64).filter(white).map(|at| (at / 72) as f32);
    let range = |values: &mut dyn Iterator<Item = f32>| {
        values.fold(None, |range: Option<(f32, f32)>, value| {
            Some(range.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
        })
    };
    let ((left, right), (top, bottom)) = (range(&mut { xs })?, range(&mut { ys })?);
    Some([left, top, right + 1.0, bottom + 1.0])
}

fn corners(format: BoxFormat, numbers: &[f32]) -> [f32; 4] {
    let [a, b, c, d] = numbers[..] else { panic!("four numbers") };
    match format {
        BoxFormat::Xywh => [a, b, a + c, b + d],
        BoxFormat::Cxcywh => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
        BoxFormat::RelativeXyxy => [72.0 * a, 64.0 * b, 72.0 * c, 64.0 * d],
        BoxFormat::RelativeXywh => [72.0 * a, 64.0 * b, 72.0 * (a + c), 64.0 * (b + d)],
        BoxFormat::RelativeCxcywh => {
            [72.0 * (a - c / 2.0), 64.0 * (b - d / 2.0), 72.0 * (a + c / 2.0), 64.0 * (b + d / 2.0)]
        }
        _ => [a, b, c, d],
    }
}

/// Compares every box with the white pixels; gives how many are there and how many vanished.
fn compare(loader: &Loader, format: BoxFormat, most: f32) -> (u32, u32) {
    let mut iterator = loader.build().unwrap();
    let schema = iterator.schema().clone();
    let at = |name: &str| schema.tensors().iter().position(|tensor| tensor.name == name).unwrap();
    let (mut present, mut vanished) = (0, 0);
    for batch in see_all(&mut *iterator) {
        let boxes: Vec<f32> = bytemuck::pod_collect_to_vec(&batch.tensors[at("boxes")]);
        assert_eq!(batch.shapes[at("boxes")][1..], [3, 4]);
        for row in 0..batch.samples.len() {
            let mask = &batch.tensors[at("boxes_mask")][3 * row..][..3];
            let boxes = &boxes[12 * row..][..12];
            let seen = extent(&batch.tensors[at("image")][row * 72 * 64 * 3..][..72 * 64 * 3]);
            assert_eq!(mask[1..], [0, 0], "one box lies beside the picture, and a third there is not");
            assert!(boxes[4..].iter().all(|number| *number == 0.0));
            if mask[0] == 0 {
                vanished += 1;
                // What is less than a pixel wide may still be seen as one.
                assert!(seen.is_none_or(|[left, top, right, bottom]| right - left <= 2.0 || bottom - top <= 2.0));
                continue;
            }
            present += 1;
            let found = corners(format, &boxes[..4]);
            let least = found[0].min(found[1]);
            assert!(least >= -1e-4 && found[2] <= 72.0001 && found[3] <= 64.0001, "{found:?}");
            let seen = seen.unwrap_or(found);
            let apart = found.iter().zip(seen).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart <= most, "sample {}: {found:?}, seen {seen:?}", batch.samples[row]);
        }
    }
    (present, vanished)
}

#[test]
fn boxes_lie_where_their_things_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let crop = ImageAugment::RandomResizedCrop { scale: (0.1, 0.6), ratio: (0.75, 1.34) };
    let flips = [horizontal_flip(), vertical_flip()];
    let moved = ImageAugment::Affine {
        degrees: 0.0,
        translate: (0.3, 0.3),
        scale: (0.7, 1.4),
        shear: (0.0, 0.0),
        interpolation: Interpolation::Nearest,
        fill: [0; 3],
    };
    let padded = ImageAugment::RandomCrop { padding: 9, edge: Edge::Constant, fill: [0; 3] };
    let cut = [&[crop][..], &flips].concat();
    for (format, result, augment, fit, most) in [
        (BoxFormat::Xyxy, None, vec![], CropFit::Stretch, 1.0),
        (BoxFormat::Xywh, None, cut.clone(), CropFit::Stretch, 1.6),
        (BoxFormat::Cxcywh, None, [&flips[..], &[padded]].concat(), CropFit::CenterCrop { shorter: 90 }, 1.1),
        (BoxFormat::Xyxy, None, [&[moved][..], &flips].concat(), CropFit::Stretch, 1.6),
        (BoxFormat::RelativeXyxy, None, cut.clone(), CropFit::Stretch, 1.6),
        (BoxFormat::RelativeCxcywh, None, flips.to_vec(), CropFit::CenterCrop { shorter: 90 }, 1.1),
        (BoxFormat::Xywh, Some(BoxFormat::RelativeCxcywh), cut.clone(), CropFit::Stretch, 1.6),
        (BoxFormat::RelativeXywh, Some(BoxFormat::Xyxy), cut.clone(), CropFit::Stretch, 1.6),
        (BoxFormat::Cxcywh, Some(BoxFormat::RelativeXywh), cut, CropFit::Stretch, 1.6),
    ] {
        lines(folder.path(), format);
        let boxes = Boxes::new(3).format(format).geometry("scene").size_from("/w", "/h");
        let boxes = result.map_or(boxes.clone(), |result| boxes.result_format(result)).from("/boxes");
        let loader = Loader::open(folder.path().join("scenes.jsonl")).unwrap();
        let loader = loader
            .field("image", picture(&augment).fit(fit).from("/path").file())
            .field("boxes", boxes)
            .batch_size(7)
            .shuffle(3);
        let (present, vanished) = compare(&loader, result.unwrap_or(format), most);
        assert_eq!(present + vanished, COUNT);
        assert!(present >= 20 && (!augment.is_empty() || vanished == 0), "{present} {vanished}");
        // The same boxes whatever the workers.
        let tensors = |loader: &Loader| {
            see_all(&mut *loader.build().unwrap()).into_iter().map(|batch| batch.tensors).collect::<Vec<_>>()
        };
        assert!(tensors(&loader.clone().workers(1)) == tensors(&loader.clone().shield()));
    }
}

#[test]
fn boxes_of_which_too_little_is_left_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), BoxFormat::Xyxy);
    let boxes = Boxes::new(3).geometry("scene").size_from("/w", "/h").min_size(18.3);
    let loader = Loader::open(folder.path().join("scenes.jsonl")).unwrap();
    let loader = loader.field("image", picture(&[]).from("/path").file()).field("boxes", boxes.from("/boxes"));
    let batch = loader.batch_size(COUNT as usize).build().unwrap().next().unwrap().unwrap();
    let found: Vec<u8> = batch.tensor("boxes_mask").unwrap().bytes().chunks(3).map(|mask| mask[0]).collect();
    // 100 x 80 pixels become 72 x 64.
    let is_large = |[left, top, right, bottom]: [u32; 4]| {
        f64::from(right - left) * 0.72 >= 18.3 && f64::from(bottom - top) * 0.8 >= 18.3
    };
    let expected: Vec<u8> = (0..COUNT).map(|nth| u8::from(is_large(white(nth)))).collect();
    assert!(expected.contains(&0) && expected.contains(&1));
    assert_eq!(found, expected);
}

#[test]
fn an_archive_with_pictures_and_boxes_needs_no_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = tar::Builder::new(fs::File::create(folder.path().join("scenes.tar")).unwrap());
    for nth in 0..COUNT {
        let boxes = format!("{{\"boxes\": [{:?}, [200, 200, 210, 210]]}}", white(nth));
        for (extension, bytes) in [("json", boxes.into_bytes()), ("bmp", bmp(white(nth)))] {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            archive.append_data(&mut header, format!("{nth:02}.{extension}"), &bytes[..]).unwrap();
        }
    }
    archive.into_inner().unwrap();
    let settings = format!(
        r#"
            batch_size = 7
            shuffle = 3
            source = {{ path = {:?} }}
            [fields.image]
            from = "bmp"
            image = [64, 72]
            dtype = "u8"
            order = "nhwc"
            geometry = "scene"
            augment = [{{ kind = "random_resized_crop", scale = [0.1, 0.6] }}, {{ kind = "horizontal_flip" }}]
            [fields.boxes]
            from = "json:/boxes"
            boxes = 3
            result_format = "relative_cxcywh"
            geometry = "scene"
        "#,
        folder.path().join("scenes.tar")
    );
    let config: LoaderConfig = toml::from_str(&settings).unwrap();
    let written: LoaderConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    assert_eq!(written, config);
    let (present, vanished) = compare(&Loader::from(config), BoxFormat::RelativeCxcywh, 1.6);
    assert!(present > 20 && vanished > 0 && present + vanished == COUNT, "{present} {vanished}");
}

#[test]
fn points_follow_too_and_nonsense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), BoxFormat::Xyxy);
    let open = || Loader::open(folder.path().join("scenes.jsonl")).unwrap();
    let flip = [ImageAugment::HorizontalFlip { probability: 1.0 }];
    let image = || picture(&flip).from("/path").file();
    let points = || Keypoints::new(2).geometry("scene").size_from("/w", "/h").from("/points");
    let loader = open().field("image", image()).field("points", points()).batch_size(COUNT as usize);
    let mut iterator = loader.build().unwrap();
    let at = |name: &str| iterator.schema().tensors().iter().position(|tensor| tensor.name == name).unwrap();
    let (numbers, mask) = (at("points"), at("points_mask"));
    let batch = see_all(&mut *iterator).remove(0);
    let found: Vec<f32> = bytemuck::pod_collect_to_vec(&batch.tensors[numbers]);
    for (nth, point) in found.chunks_exact(4).enumerate() {
        let [left, top, right, bottom] = white(nth as u32).map(|number| number as f32);
        let expected = [72.0 - left * 0.72, top * 0.8, 72.0 - right * 0.72, bottom * 0.8];
        assert!(point.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{point:?} {expected:?}");
    }
    assert!(batch.tensors[mask].iter().all(|present| *present == 1));

    // Relative ones are shares of the picture before and after, as settings say it, too.
    let settings = format!(
        r#"
            batch_size = {COUNT}
            source = {{ path = {:?} }}
            [fields]
            pixels = {{ from = "/points", keypoints = 2, size_from = ["/w", "/h"] }}
            shares = {{ from = "/shares", keypoints = 2, point_format = "relative_xy", size_from = ["/w", "/h"] }}
            to_shares = {{ from = "/points", keypoints = 2, result_format = "relative_xy", size_from = ["/w", "/h"] }}
            [fields.image]
            from = "/path"
            [fields.image.file]
            image = [64, 72]
            dtype = "u8"
            order = "nhwc"
            augment = [{{ kind = "horizontal_flip", probability = 1.0 }}]
        "#,
        folder.path().join("scenes.jsonl")
    );
    let config: LoaderConfig = toml::from_str(&settings).unwrap();
    let written: LoaderConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    assert_eq!(written, config);
    let to_pixels = Keypoints::new(2).format(PointFormat::RelativeXy).result_format(PointFormat::Xy);
    let to_pixels = to_pixels.size_from("/w", "/h").from("/shares");
    let batch = Loader::from(config).field("to_pixels", to_pixels).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.f32("pixels").unwrap(), found);
    for (name, width, height) in [("to_pixels", 1.0, 1.0), ("shares", 72.0, 64.0), ("to_shares", 72.0, 64.0)] {
        let points = batch.f32(name).unwrap().chunks_exact(2).flat_map(|point| [point[0] * width, point[1] * height]);
        assert!(points.zip(&found).all(|(a, b)| (a - b).abs() < 1e-4), "{name}");
    }
    let refused = |codec: &str, key: &str| {
        let file = folder.path().join("loader.toml");
        let settings = format!("source = {{ path = \"x\" }}\n[fields]\nx = {{ {codec} = 2, {key} }}\n");
        fs::write(&file, settings).unwrap();
        LoaderConfig::load(&file).unwrap_err().to_string()
    };
    let message = refused("boxes", "result_format = \"relative_xy\"");
    assert!(message.contains("fields.x") && message.contains("not a format of boxes"), "{message}");
    let message = refused("keypoints", "result_format = \"relative\"");
    assert!(message.contains("fields.x.result_format: expected xyxy"), "{message}");
    assert!(refused("boxes", "point_format = \"xy\"").contains("point_format does not belong to boxes"));

    let refused = |loader: Loader, words: &[&str]| {
        let error = match loader.build() {
            Err(error) => error,
            Ok(mut iterator) => iterator.next().unwrap().err().unwrap(),
        };
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    let boxes = |most| Boxes::new(most).geometry("scene").size_from("/w", "/h");
    refused(open().field("image", image()).field("boxes", boxes(1).from("/boxes")), &["2 boxes; at most 1", "boxes"]);
    refused(open().field("image", image()).field("boxes", boxes(3).from("/w")), &["not whole boxes"]);
    refused(open().field("boxes", boxes(3).from("/boxes")), &["no picture with geometry = \"scene\""]);
    let unsized_boxes = Boxes::new(3).geometry("scene").from("/boxes");
    refused(open().field("image", image()).field("boxes", unsized_boxes), &["size_from"]);
}

#[test]
fn lists_that_hold_more_than_a_box_or_a_point_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("boxes", "[[0,0,10,10],[1,1,5,5]]", true),
        ("boxes", "[0,0,10,10,1,1,5,5]", true),
        ("boxes", "[[]]", true),
        ("boxes", "[]", true),
        ("boxes", "[[0,0,10,10,1],[1,1,5,5,0],[2,2,6,6,1],[3,3,7,7,0]]", false),
        ("boxes", "[[0,0,10],[5,5,20,20,1]]", false),
        ("boxes", "[[[0,0],[10,10]]]", false),
        ("points", "[[1,2],[3,4]]", true),
        ("points", "[[1,2,3,4],[5,6]]", true),
        ("points", "[[1,2,1],[3,4,1]]", false),
        ("points", "[1,2,1]", false),
    ];
    for (kind, values, is_good) in cases {
        let path = folder.path().join("boxes.jsonl");
        fs::write(folder.path().join("a.bmp"), bmp([0, 0, 10, 10])).unwrap();
        fs::write(&path, format!("{{\"path\": \"a.bmp\", \"w\": 100, \"h\": 80, \"t\": {values}}}\n")).unwrap();
        let targets: Field = match kind {
            "boxes" => Boxes::new(8).geometry("scene").size_from("/w", "/h").from("/t"),
            _ => Keypoints::new(8).geometry("scene").size_from("/w", "/h").from("/t"),
        };
        let image = Image::rgb(8, 8).geometry("scene").from("/path").file();
        let loader = Loader::open(&path).unwrap().field("image", image).field("t", targets);
        let batch = loader.build().unwrap().next().unwrap();
        match batch {
            Ok(_) => assert!(is_good, "{kind} {values}"),
            Err(error) => {
                assert!(
                    !is_good && error.kind() == ErrorKind::Data && error.location().column.as_deref() == Some("t"),
                    "{values}: {error}"
                );
            }
        }
    }
}

#[test]
fn boxes_go_with_the_picture_and_not_with_its_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenes.tar");
    let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
    let map = [&b"P5\n100 80\n255\n"[..], &[3; 100 * 80]].concat();
    for nth in 0..COUNT {
        let boxes = format!("{{\"boxes\": [{:?}, [200, 200, 210, 210]]}}", white(nth));
        for (extension, bytes) in [("json", boxes.as_bytes()), ("bmp", &bmp(white(nth))), ("pgm", &map)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, format!("{nth:02}.{extension}"), bytes).unwrap();
        }
    }
    archive.into_inner().unwrap();
    let cut = ImageAugment::RandomResizedCrop { scale: (0.1, 0.6), ratio: (0.75, 1.34) };
    let image = || picture(&[cut.clone(), horizontal_flip()]).from("bmp");
    let map = || Image::index_map(16, 18).geometry("scene").from("pgm");
    let boxes = || Boxes::new(3).geometry("scene").from("json:/boxes");
    let open = || Loader::tar(&path).batch_size(7).shuffle(3);
    for loader in [
        open().field("map", map()).field("image", image()).field("boxes", boxes()),
        open().field("boxes", boxes()).field("image", image()).field("map", map()),
    ] {
        let (present, vanished) = compare(&loader, BoxFormat::Xyxy, 1.6);
        assert!(present > 20 && present + vanished == COUNT, "{present} {vanished}");
    }
    // Without a picture, they go with the map.
    let map = Image::index_map(160, 200).geometry("scene").from("pgm");
    let loader = open().field("map", map).field("boxes", boxes());
    let batch = loader.clone().build().unwrap().next().unwrap().unwrap();
    let found = batch.f32("boxes").unwrap()[..4].to_vec();
    assert_eq!(found, white(batch.sample_ids()[0] as u32).map(|side| 2.0 * side as f32));
}

#[test]
fn a_box_of_which_nothing_is_left_is_zero_also_if_boxes_are_normalised() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), BoxFormat::Xyxy);
    let boxes = Boxes::new(3).geometry("scene").size_from("/w", "/h").from("/boxes");
    let loader = Loader::open(folder.path().join("scenes.jsonl")).unwrap();
    let loader = loader.field("image", picture(&[]).from("/path").file()).field("boxes", boxes);
    let normaliser = Normaliser::Standardise { axis: None, mean: vec![32.0], deviation: vec![16.0] };
    let batch = loader.normalise("boxes", normaliser).build().unwrap().next().unwrap().unwrap();
    for (mask, boxes) in
        batch.tensor("boxes_mask").unwrap().bytes().chunks(3).zip(batch.f32("boxes").unwrap().chunks(12))
    {
        assert!(mask == [1, 0, 0] && boxes[4..] == [0.0; 8], "{boxes:?}");
    }
}
