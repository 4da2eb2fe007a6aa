//! Segmentation maps: values as NumPy and Pillow read and resize them, and the same geometry as the pictures.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail where they unwrap")]

use std::fs;
use std::path::Path;

use crate::common::{Seen, fixture, see, see_all};
use ringfeed::csv::{CsvOptions, Missing};
use ringfeed::field::{Class, Field, Image, Numbers};
use ringfeed::formats::{Csv, FolderOptions, Images};
use ringfeed::images::{
    CropFit, ImageAugment, ImageColour, ImageOptions, Interpolation, colour_jitter, horizontal_flip, random_crop,
    random_resized_crop, trivial_augment, vertical_flip,
};
use ringfeed::settings::SourceConfig;
use ringfeed::tensor::Role;
use ringfeed::{DType, ErrorKind, Loader, LoaderConfig, Result};
use serde_json::Value;

fn expected() -> Value {
    serde_json::from_slice(&fs::read(fixture("maps/expected.json")).unwrap()).unwrap()
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value(value.clone()).unwrap()
}

fn index(options: ImageOptions) -> ImageOptions {
    ImageOptions { colour: ImageColour::Index, dtype: DType::I64, ..options }
}

fn sized(size: &Value) -> ImageOptions {
    let size = numbers::<u32>(size);
    index(ImageOptions { size: Some((size[0], size[1])), ..ImageOptions::default() })
}

/// The first batch of a file or folder.
fn load(path: &Path, options: ImageOptions) -> Result<Seen> {
    let mut iterator = Loader::images(path).field("image", Image::with(options)).batch_size(8).build()?;
    Ok(see(&iterator.next().unwrap()?))
}

fn values(path: &Path, options: ImageOptions) -> Vec<i64> {
    bytemuck::pod_collect_to_vec(&load(path, options).unwrap().tensors[0])
}

#[test]
fn every_file_holds_the_values_that_numpy_reads() {
    let expected = expected();
    for (name, values_expected) in expected["files"].as_object().unwrap() {
        let path = fixture("maps").join(name);
        let batch = load(&path, index(ImageOptions::default())).unwrap();
        assert_eq!(batch.shapes[0], [1, 9, 13], "{name}");
        let found: Vec<i64> = bytemuck::pod_collect_to_vec(&batch.tensors[0]);
        assert_eq!(found, numbers::<i64>(values_expected), "{name}");
    }
}

#[test]
fn resizing_takes_the_pixels_that_pillow_takes() {
    let expected = expected();
    let path = fixture("maps/grey-16.png");
    for case in expected["resized"].as_array().unwrap() {
        assert_eq!(values(&path, sized(&case["size"])), numbers::<i64>(&case["values"]), "{}", case["size"]);
    }
    for case in expected["center_crop"].as_array().unwrap() {
        let shorter = case["shorter"].as_u64().unwrap() as u32;
        let options = ImageOptions { fit: CropFit::CenterCrop { shorter }, ..sized(&case["size"]) };
        assert_eq!(values(&path, options), numbers::<i64>(&case["values"]), "{shorter} to {}", case["size"]);
    }
    for (nth, case) in expected["turned"].as_array().unwrap().iter().enumerate() {
        let path = fixture(&format!("maps/orientation-{}.png", nth + 1));
        assert_eq!(values(&path, sized(&case["size"])), numbers::<i64>(&case["values"]), "orientation {}", nth + 1);
    }
}

/// A picture of a ramp in red (2 a column) and green (2 a row), and the map `100 y + x`, in a folder each.
fn ramps(root: &Path, count: usize) {
    let (width, height) = (100u32, 80u32);
    let bmp = |bits: u32, header: &[u8], row: &dyn Fn(u32) -> Vec<u8>| {
        let stride = (width * bits / 8).next_multiple_of(4);
        let mut bytes = b"BM".to_vec();
        for word in [54 + stride * height, 0, 54 + header.len() as u32, 40, width, height, 1 | bits << 16] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(54, 0);
        bytes.extend_from_slice(header);
        for y in (0..height).rev() {
            let mut row = row(y);
            row.resize(stride as usize, 0);
            bytes.extend(row);
        }
        bytes
    };
    let picture = bmp(24, &[], &|y| (0..width).flat_map(|x| [90, 2 * y as u8, 2 * x as u8]).collect());
    // A palette of nonsense: an index is no colour.
    let palette: Vec<u8> = (0..1024u32).map(|at| (at * 37 % 251) as u8).collect();
    let columns = bmp(8, &palette, &|_| (0..width).map(|x| x as u8).collect());
    let rows = bmp(8, &palette, &|y| vec![y as u8; width as usize]);
    for (folder, bytes) in [("pictures", &picture), ("columns", &columns), ("rows", &rows)] {
        for nth in 0..count {
            let class = root.join(folder).join(["left", "left-right"][nth % 2]);
            fs::create_dir_all(&class).unwrap();
            fs::write(class.join(format!("{nth:03}.bmp")), bytes).unwrap();
        }
    }
}

#[test]
fn a_map_goes_the_way_of_its_picture() {
    let folder = tempfile::tempdir().unwrap();
    ramps(folder.path(), 40);
    let crop = ImageAugment::RandomResizedCrop { scale: (0.2, 1.0), ratio: (0.75, 1.34) };
    let flips = [horizontal_flip(), vertical_flip()];
    let rotation = ImageAugment::Rotation { degrees: 30.0, interpolation: Interpolation::Bilinear };
    let affine = ImageAugment::Affine {
        degrees: 20.0,
        translate: (0.2, 0.3),
        scale: (0.8, 1.3),
        shear: (10.0, 15.0),
        interpolation: Interpolation::Nearest,
        fill: [0; 3],
    };
    let stretch = (CropFit::Stretch, Some((37, 53)));
    for (name, (fit, size), augment) in [
        ("stretch", stretch, vec![]),
        ("centre", (CropFit::CenterCrop { shorter: 60 }, Some((37, 53))), flips.to_vec()),
        ("crop and flips", stretch, [std::slice::from_ref(&crop), &flips[..]].concat()),
        ("all", stretch, [&[crop], &flips[..], std::slice::from_ref(&rotation), &flips[..]].concat()),
        ("affine", stretch, [vec![random_crop(7), affine], flips.to_vec()].concat()),
        ("native", (CropFit::Stretch, None), [&[rotation], &flips[..]].concat()),
    ] {
        let options = ImageOptions { size, fit, augment, ..ImageOptions::default() };
        let mut rows = SourceConfig::new(Images, folder.path().join("rows"), FolderOptions::default());
        rows.fields = vec![("rows".to_owned(), Image::with(index(options.clone())).into())];
        let mut pictures = SourceConfig::new(Images, folder.path().join("pictures"), FolderOptions::default());
        pictures.fields = vec![("image".to_owned(), Image::with(options).into()), ("label".to_owned(), Class.into())];
        let loader = Loader::new(pictures);
        let loader = loader.maps(folder.path().join("columns")).batch_size(8).shuffle(3);
        // Readers have four varying lengths together, which two of images use up.
        let loader = if size.is_some() { loader.and(rows) } else { loader };
        let mut iterator = loader.build().unwrap();
        let schema = iterator.schema().clone();
        let at = |name: &str| schema.tensors().iter().position(|tensor| tensor.name == name).unwrap();
        assert_eq!((schema.tensors()[at("map")].role, schema.tensors()[at("map")].dtype), (Role::Label, DType::U8));
        // The classes are those of the pictures, once.
        assert_eq!(schema.tensors().iter().filter(|tensor| tensor.name == "label").count(), 1);
        let (mut compared, mut largest) = (0, 0.0f64);
        for batch in see_all(&mut *iterator) {
            let [samples, _, height, width] = batch.shapes[at("image")][..] else { panic!("{name}") };
            assert_eq!(batch.shapes[at("map")], [samples, height, width], "{name}");
            let rows: Option<Vec<i64>> = size.map(|_| bytemuck::pod_collect_to_vec(&batch.tensors[at("rows")]));
            let plane = height * width;
            for pixel in 0..samples * plane {
                let (sample, pixel) = (pixel / plane, pixel % plane);
                let colour = |c: usize| f64::from(batch.tensors[at("image")][(3 * sample + c) * plane + pixel]);
                // Beside the picture there is nothing, and at its edge a mixture.
                if colour(2) < 89.0 {
                    continue;
                }
                let column = f64::from(batch.tensors[at("map")][sample * plane + pixel]);
                let mut difference = (colour(0) / 2.0 - column).abs();
                if let Some(rows) = &rows {
                    difference = difference.max((colour(1) / 2.0 - rows[sample * plane + pixel] as f64).abs());
                }
                largest = largest.max(difference);
                compared += 1;
            }
        }
        // A pixel of the result is at most 2.2 of the source wide; at the edges the mean is of one side only.
        assert!(compared > 50_000 && largest <= 1.6, "{name}: {compared} pixels, {largest}");
    }
}

#[test]
fn operations_on_colour_leave_a_map_as_it_is() {
    let path = fixture("maps/grey-16.png");
    let plain = values(&path, index(ImageOptions::default()));
    let augment = vec![
        ImageAugment::ColourJitter { brightness: 0.9, contrast: 0.9, saturation: 0.9, hue: 0.5, probability: 1.0 },
        ImageAugment::RandomErasing { probability: 1.0, scale: (0.3, 0.5), ratio: (1.0, 1.0), value: [1, 2, 3] },
    ];
    assert_eq!(values(&path, index(ImageOptions { augment, ..ImageOptions::default() })), plain);
}

#[test]
fn what_holds_no_map_is_refused_with_a_way_out() {
    let refused = |name: &str, dtype: DType, words: &[&str]| {
        let options = ImageOptions { dtype, ..index(ImageOptions::default()) };
        let error = load(&fixture(name), options).err().unwrap();
        let text = error.to_string();
        assert!(text.contains(name.rsplit('/').next().unwrap()), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        error.kind()
    };
    assert_eq!(refused("images/grey.jpg", DType::U8, &["JPEG changes values", "PNG"]), ErrorKind::Format);
    for name in ["rgb.png", "grey-alpha.png", "rgba.png", "rgb-lossless.webp", "rgb.bmp", "rgb-raw.tiff"] {
        assert_eq!(refused(&format!("images/{name}"), DType::U8, &["channels", "PNG"]), ErrorKind::Format);
    }
    let words = ["does not fit u8", "row", "column", "i32"];
    assert_eq!(refused("maps/grey-16.png", DType::U8, &words), ErrorKind::Data);
}

#[test]
fn settings_and_the_builder_say_the_same() {
    let text = r#"
        batch_size = 4
        [[sources]]
        format = "images"
        path = "photos"
        [sources.fields]
        image = { image = [64, 48], dtype = "u8", augment = [{ kind = "horizontal_flip" }] }
        label = "class"
        [[sources]]
        format = "images"
        path = "maps"
        [sources.fields]
        map = { index_map = [64, 48], dtype = "u8", augment = [{ kind = "horizontal_flip" }] }
    "#;
    let config: LoaderConfig = toml::from_str(text).unwrap();
    let loader = Loader::images("photos").size(64, 48).augment([horizontal_flip()]).maps("maps");
    assert_eq!(*loader.batch_size(4).config(), config);
    let faults = Loader::csv("x.csv").maps("maps").faults();
    assert!(
        faults.iter().any(|fault| fault.contains("maps: name the folder of images that they belong to")),
        "{faults:?}"
    );
    for dtype in [DType::F16, DType::I8, DType::F64] {
        let faults = ImageOptions { colour: ImageColour::Index, dtype, ..ImageOptions::default() }.faults();
        assert!(faults[0].contains("maps of indices are u8"), "{faults:?}");
    }
    // Settings of earlier versions are told what to write.
    let text = "[source]\nformat = \"images\"\npath = \"maps\"\noptions = { colour = \"index\", image_name = \"map\", \
                size = [64, 48], classes = [\"a\"], labels = \"u32\" }";
    let error = toml::from_str::<LoaderConfig>(text).unwrap_err().to_string();
    assert!(error.contains("path: fields = { map = { index_map = [64, 48], dtype = \"u8\" } }"), "{error}");
    let error = toml::from_str::<LoaderConfig>(&text.replace("colour = \"index\", ", "")).unwrap_err().to_string();
    let fields = "map = { image = [64, 48], dtype = \"u8\" }, label = { class = [\"a\"], dtype = \"u32\" }";
    assert!(error.contains(&format!("path: fields = {{ {fields} }}")), "{error}");
}

/// A picture and a map of the same file.
fn both(image: Image, map: Image) -> Result<Seen> {
    let path = fixture("maps/palette-8.png");
    let mut batches = Loader::images(path).field("image", image).field("map", map).shuffle(1).build()?;
    Ok(see(&batches.next().unwrap()?))
}

#[test]
fn a_map_of_another_size_takes_over_what_suits_it() {
    let image = || Image::rgb(64, 64).geometry("scene");
    let map = |height, width| Image::index_map(height, width).geometry("scene");
    let centre = |shorter| CropFit::CenterCrop { shorter };
    let rotation = ImageAugment::Rotation { degrees: 9.0, interpolation: Interpolation::Nearest };
    for (height, width) in [(32, 32), (128, 128)] {
        let scaled = both(image().fit(centre(80)), map(height, width)).unwrap();
        let said = both(image().fit(centre(80)), map(height, width).fit(centre(80 * height / 64))).unwrap();
        assert_eq!(scaled.tensors[1], said.tensors[1], "{height}");
        both(image().augment([rotation.clone()]), map(height, width)).unwrap();
    }
    both(image().augment([random_resized_crop(), horizontal_flip(), colour_jitter(0.1, 0.1, 0.1, 0.1)]), map(20, 70))
        .unwrap();
    let refused = |image: Image, map: Image, word: &str| {
        let error = both(image, map).err().unwrap();
        let text = error.to_string();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Config, Some("map")));
        assert!(text.contains(word) && text.contains("a map of another size"), "{text}");
    };
    refused(image().fit(centre(81)), map(32, 32), "center_crop");
    refused(image().fit(centre(80)), map(32, 64), "center_crop");
    refused(image().augment([horizontal_flip(), random_crop(4)]), map(32, 32), "random_crop");
    refused(image().augment([trivial_augment()]), map(32, 32), "trivial_augment");
    refused(image().augment([rotation.clone()]), map(32, 64), "rotation");
    both(image().augment([random_crop(4)]), map(64, 64)).unwrap();
    both(image().augment([random_crop(4)]), map(32, 32).augment([random_crop(2)])).unwrap();
}

#[test]
fn a_map_beside_a_picture_that_is_cropped_or_moved_needs_a_geometry() {
    let (image, map) = (|| Image::rgb(8, 8), || Image::index_map(8, 8));
    let centre = CropFit::CenterCrop { shorter: 10 };
    for (image, map) in [
        (image().augment([horizontal_flip()]), map()),
        (image().augment([horizontal_flip()]).geometry("scene"), map()),
        (image().augment([horizontal_flip()]), map().augment([horizontal_flip()])),
        (image(), map().augment([horizontal_flip()])),
        (image().fit(centre), map()),
        (image().fit(centre), Image::index_map(4, 4).fit(centre)),
    ] {
        let error = both(image, map).err().unwrap();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Config, Some("map")));
        assert!(error.to_string().contains("give both the same `geometry`"), "{error}");
    }
    for (image, map) in [
        (image(), map()),
        (image(), Image::index_map(4, 4)),
        (image().augment([colour_jitter(0.1, 0.1, 0.1, 0.1)]), map()),
        (image().fit(centre), map().fit(centre)),
        (image().augment([horizontal_flip()]), map().geometry("other")),
        (image().augment([horizontal_flip()]).geometry("scene"), map().geometry("scene")),
    ] {
        both(image, map).unwrap();
    }
}

#[test]
fn a_map_with_one_of_fit_and_augment_takes_the_other_from_its_picture() {
    let centre = CropFit::CenterCrop { shorter: 10 };
    let image = || Image::rgb(8, 8).fit(centre).augment([horizontal_flip()]).geometry("scene");
    let map = || Image::index_map(8, 8).geometry("scene");
    let whole = both(image(), map().fit(centre).augment([horizontal_flip()])).unwrap();
    for part in [map(), map().fit(centre), map().augment([horizontal_flip()])] {
        assert_eq!(both(image(), part).unwrap().tensors[1], whole.tensors[1]);
    }
}

#[test]
fn a_map_goes_with_a_picture_of_another_source() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["photos", "maps"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        for nth in 0..8 {
            let ramp = [b"P5\n4 4\n255\n".as_slice(), &(0..16).collect::<Vec<u8>>()].concat();
            fs::write(folder.path().join(name).join(format!("{nth}.pgm")), ramp).unwrap();
        }
    }
    let source = |name: &str, field: Field| {
        let path = folder.path().join(name);
        SourceConfig::new(Images, path, FolderOptions::default()).field(name, field)
    };
    let image = Image::rgb(4, 4).dtype(DType::U8).augment([horizontal_flip()]);
    let map = |geometry: &str| Image::index_map(4, 4).dtype(DType::U8).geometry(geometry);
    for (image, map) in [(image.clone().geometry("scene"), map("scene")), (image, map("photos"))] {
        let sources = vec![source("photos", image.into()), source("maps", map.into())];
        for sources in [sources.clone(), sources.into_iter().rev().collect()] {
            let config = LoaderConfig { sources, batch_size: 8, ..LoaderConfig::default() };
            let batch = Loader::from(config).build().unwrap().next().unwrap().unwrap();
            let (photos, maps) = (batch.tensor("photos").unwrap().bytes(), batch.tensor("maps").unwrap().bytes());
            assert!((1..8).contains(&photos.chunks(48).filter(|photo| photo[0] == 3).count()));
            assert!(photos.chunks(48).zip(maps.chunks(16)).all(|(photo, map)| photo[..16] == *map));
        }
    }

    // Other sources that go along without a word go along still; and NaN is no change that would be made again.
    let image = Image::rgb(4, 4).dtype(DType::U8).augment([horizontal_flip()]);
    let others = Image::index_map(4, 4).dtype(DType::U8).augment([horizontal_flip()]);
    std::fs::write(folder.path().join("n.csv"), "x\n1\n2\n3\n4\n5\n6\n7\n8\n").unwrap();
    let padded = Numbers::f32().missing(Missing::Value(f64::NAN));
    let numbers = SourceConfig::new(Csv, folder.path().join("n.csv"), CsvOptions::default()).field("x", padded);
    let others =
        SourceConfig::new(Images, folder.path().join("maps"), FolderOptions::default()).field("others", others);
    let sources = vec![source("photos", image.into()), others, source("maps", map("photos").into()), numbers];
    let config = LoaderConfig { sources, batch_size: 8, ..LoaderConfig::default() };
    let batch = Loader::from(config).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("others").unwrap().bytes(), batch.tensor("maps").unwrap().bytes());
}

fn pgm(width: usize, height: usize) -> Vec<u8> {
    [format!("P5\n{width} {height}\n255\n").as_bytes(), &vec![7; width * height]].concat()
}

fn archive(path: &Path, members: &[(&str, Vec<u8>)]) {
    let mut archive = tar::Builder::new(fs::File::create(path).unwrap());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    archive.into_inner().unwrap();
}

#[test]
fn a_map_of_another_size_than_its_picture_makes_a_bad_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenes.tar");
    let load = |map: (usize, usize), geometry: &str, step: ImageAugment, is_map_first: bool| {
        archive(&path, &[("a.seen.pgm", pgm(40, 30)), ("a.map.pgm", pgm(map.0, map.1))]);
        let image = ("image", Image::rgb(8, 8).augment([step]).geometry("scene").from("seen.pgm"));
        let map = ("map", Image::index_map(8, 8).geometry(geometry).from("map.pgm"));
        let fields = if is_map_first { [map, image] } else { [image, map] };
        let loader = fields.into_iter().fold(Loader::tar(&path), |loader, (name, field)| loader.field(name, field));
        loader.build().unwrap().next().unwrap().map(drop)
    };
    for is_map_first in [false, true] {
        load((40, 30), "scene", random_resized_crop(), is_map_first).unwrap();
        load((20, 15), "other", random_resized_crop(), is_map_first).unwrap();
        let error = load((20, 15), "scene", random_resized_crop(), is_map_first).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Data);
        assert!(text.contains("20 x 15") && text.contains("40 x 30") && text.contains("\"scene\""), "{text}");
    }
}

#[test]
fn a_map_may_go_with_its_picture_by_the_name_of_its_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenes.tar");
    let ramp = [b"P5\n4 4\n255\n".as_slice(), &(0..16).collect::<Vec<u8>>()].concat();
    let names: Vec<String> = (0..8).flat_map(|nth| [format!("{nth}.seen.pgm"), format!("{nth}.map.pgm")]).collect();
    archive(&path, &names.iter().map(|name| (name.as_str(), ramp.clone())).collect::<Vec<_>>());
    let image = Image::rgb(4, 4).dtype(DType::U8).augment([horizontal_flip()]).from("seen.pgm");
    let map = Image::index_map(4, 4).geometry("image").from("map.pgm");
    let batch = Loader::tar(&path).field("image", image).field("map", map).batch_size(8).build().unwrap().next();
    let batch = batch.unwrap().unwrap();
    let pictures = batch.tensor("image").unwrap().bytes().to_vec();
    let maps = batch.tensor("map").unwrap();
    let (flipped, maps) =
        (pictures.chunks(48).filter(|picture| picture[0] == 3).count(), maps.as_slice::<i64>().unwrap());
    assert!((1..8).contains(&flipped));
    for (picture, map) in pictures.chunks(48).zip(maps.chunks(16)) {
        assert!(picture[..16].iter().map(|x| i64::from(*x)).eq(map.iter().copied()));
    }

    // The size of a picture without a name can't be compared with its map's.
    archive(&path, &[("0.pgm", ramp.clone()), ("0.seg", ramp)]);
    let image = Image::rgb(4, 4).augment([horizontal_flip()]).geometry("scene");
    let map = Image::index_map(4, 4).geometry("scene").from("seg");
    let load = |image: Field| Loader::tar(&path).field("image", image).field("map", map.clone()).build();
    let error = load(image.clone().into()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.message().starts_with("fields.image: \"map\" is its map: say which member"), "{error}");
    assert_eq!(load(image.from("pgm")).unwrap().next().unwrap().unwrap().len(), 1);
}

#[test]
fn a_second_view_leaves_the_first_with_its_maps() {
    let folder = tempfile::tempdir().unwrap();
    ramps(folder.path(), 8);
    let view = || Image::rgb(20, 30).augment([random_resized_crop(), horizontal_flip()]);
    let load = |views: &[&str]| {
        let mut pictures = SourceConfig::new(Images, folder.path().join("pictures"), FolderOptions::default());
        pictures.fields = views.iter().map(|name| ((*name).to_owned(), view().into())).collect();
        let loader = Loader::new(pictures).maps(folder.path().join("columns")).batch_size(8).shuffle(3);
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        let bytes = |name: &str| batch.tensor(name).unwrap().bytes().to_vec();
        (bytes("image"), bytes("map"), views.iter().map(|name| bytes(name)).collect::<Vec<_>>())
    };
    let (image, map, _) = load(&["image"]);
    let (with_others, same_map, views) = load(&["image", "other"]);
    assert!(image == with_others && map == same_map && views[0] != views[1]);
}

#[test]
fn what_changes_images_is_set_before_their_maps() {
    let faults = |loader: Loader| loader.faults().join("; ");
    let loader = || Loader::images(fixture("images")).size(8, 8).maps(fixture("maps"));
    assert_eq!(faults(loader()), "");
    for (fault, name) in
        [(faults(loader().augment([horizontal_flip()])), "augment"), (faults(loader().size(9, 9)), "size")]
    {
        assert!(fault.contains(&format!("{name}: set it before `maps`")), "{fault}");
    }
    let mut alone = SourceConfig::new(Images, fixture("maps"), FolderOptions::default());
    alone.fields = vec![("map".to_owned(), Image::index_map(8, 8).into())];
    assert_eq!(faults(Loader::new(alone).size(9, 9)), "");
}

/// Loads pictures and maps with these names, and compares the number that each file holds.
fn paired(pictures: &[&str], maps: &[&str]) -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    for (kind, names) in [("photos", pictures), ("maps", maps)] {
        for name in names {
            let path = folder.path().join(kind).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let number = name.split('/').next_back().unwrap().chars().filter(char::is_ascii_digit).collect::<String>();
            fs::write(path, [b"P5\n1 1\n255\n".as_slice(), &[number.parse().unwrap_or_default()]].concat()).unwrap();
        }
    }
    let loader = Loader::images(folder.path().join("photos")).size(1, 1).maps(folder.path().join("maps"));
    let batch = loader.batch_size(100).build()?.next().unwrap()?;
    let (images, maps) = (batch.tensor("image")?.bytes().to_vec(), batch.tensor("map")?.bytes().to_vec());
    assert!(images.chunks(3).map(|pixel| pixel[0]).eq(maps), "{pictures:?}");
    Ok(())
}

#[test]
fn maps_belong_to_pictures_by_their_names() {
    for (pictures, maps) in [
        (["img1.pgm", "img2.pgm", "img10.pgm"], ["img1.pgm", "img2.pgm", "img10.pgm"]),
        (["img01.pgm", "img02.pgm", "img10.pgm"], ["img01_mask.pgm", "img02_mask.pgm", "img10_mask.pgm"]),
        (["a/1_left.pgm", "a/2_left.pgm", "b/3_left.pgm"], ["a/1_ids.pgm", "a/2_ids.pgm", "b/3_ids.pgm"]),
        (["1.pgm", "2.ppm", "31.pgm"], ["1.pgm.pgm", "2.ppm.pgm", "31.pgm.pgm"]),
        // The ends of the maps' names begin as the ends of some pictures' names do.
        (["a-2.pgm", "a-3.pgm", "a.pgm"], ["a-2-m.pgm", "a-3-m.pgm", "a-m.pgm"]),
    ] {
        paired(&pictures, &maps).unwrap();
    }
    paired(&["one.pgm"], &["another.pgm"]).unwrap();
    let refused = |pictures: &[&str], maps: &[&str], words: &[&str]| {
        let error = paired(pictures, maps).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    let photos = ["img1.pgm", "img2.pgm", "img10.pgm", "img11.pgm"];
    let masks = ["img1_mask.pgm", "img2_mask.pgm", "img10_mask.pgm", "img11_mask.pgm"];
    refused(&photos, &masks, &["sort in another order", "maps/img10_mask.pgm", "photos/img1.pgm", "numbers of equal"]);
    refused(&photos, &masks[..3], &["no map has the name of", "photos/img11.pgm"]);
    refused(&photos[..3], &masks, &["no picture has the name of", "maps/img11_mask.pgm"]);
    refused(&["10.pgm", "11.pgm"], &["10_m.pgm", "11_m.pgm", "20_m.pgm"], &["no picture has the name of", "20_m"]);
    refused(&["1.pgm", "2.pgm", "3.pgm"], &["1.pgm", "2.pgm", "4.pgm"], &["no map has the name of", "3.pgm"]);
}
