//! What one record in a server takes: of a table, and of an image, from one thread and from two.

mod common;

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use common::{Case, Options, Table};
use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use libjpeg_turbo_rs::{PixelFormat, decompress_to};
use ringfeed::field::{Class, Image};
use ringfeed::prepare::{Median, Prepared, Recipe, RecipeFit, category, number};
use ringfeed::read::Value;
use ringfeed::{Loader, Normaliser, Result};
use serde::Deserialize;

const ABOUT: &str = "\
Microseconds of wall time from a record in memory to its tensors, one record after another; from two threads, what each record takes \
in either of them. A table of 4 numbers of which some are missing (median, mask, standardised) and 2 columns of names (codes, and \
unknown names): from a JSON object, a line of CSV, and values; beside it the same written by hand for this table, with serde_json \
into a struct and two hash maps. An image: a JPEG of 640 x 427 to 3 x 224 x 224 of f32, normalised as ImageNet's; beside it \
libjpeg-turbo's translation to Rust and fast_image_resize by hand.";

/// Records of a run, by what they are.
const OF_TABLE: usize = 20_000;
const OF_IMAGES: usize = 100;

const CITIES: [&str; 5] = ["Oslo", "Bergen", "Tromsø", "Bodø", "Molde"];
const KINDS: [&str; 3] = ["flat", "house", "cabin"];

fn main() -> Result<()> {
    let Some(options) = Options::from_args(9) else { return Ok(()) };
    let mut table = Table::new(ABOUT, &["record", "by", "threads"], &[("us", 2)]);
    let prepared = prepared()?;
    let by_hand = ByHand::new();
    let objects: Vec<String> = (0..OF_TABLE).map(object).collect();
    let lines: Vec<String> = (0..OF_TABLE).map(line).collect();

    // What is compared is the same.
    let (mut row, mut own) = (prepared.row(), ([0.0; 8], [0; 2]));
    for object in objects.iter().take(1000) {
        prepared.apply_json(object, &mut row)?;
        by_hand.apply(object, &mut own);
        let near = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-5;
        assert!(row.f32("features")?.iter().zip(&own.0).all(near) && row.i64("categories")? == own.1, "{object}");
    }

    let (prepared, by_hand, objects, lines) = (&prepared, &by_hand, &objects, &lines);
    let mut cases = Vec::new();
    for threads in [1, 2] {
        cases.push(Case::new(&[&"table", &"JSON", &threads], move || {
            each(threads, OF_TABLE, || {
                let mut row = prepared.row();
                move |nth| prepared.apply_json(&objects[nth], &mut row).expect("the records are good")
            })
        }));
        cases.push(Case::new(&[&"table", &"CSV", &threads], move || {
            each(threads, OF_TABLE, || {
                let mut row = prepared.row();
                move |nth| prepared.apply_csv(HEADER, &lines[nth], &mut row).expect("the records are good")
            })
        }));
        cases.push(Case::new(&[&"table", &"values", &threads], move || {
            each(threads, OF_TABLE, || {
                let mut row = prepared.row();
                move |nth| {
                    let numbers =
                        NUMBERS.into_iter().zip((0..4).map(|at| given(nth, at).map_or(Value::Missing, Value::F64)));
                    let names = [("city", Value::Text(CITIES[nth % 5])), ("kind", Value::Text(KINDS[nth % 3]))];
                    prepared.apply(numbers.chain(names), &mut row).expect("the records are good");
                }
            })
        }));
        cases.push(Case::new(&[&"table", &"JSON, by hand", &threads], move || {
            each(threads, OF_TABLE, || {
                let mut row = ([0.0; 8], [0; 2]);
                move |nth| {
                    by_hand.apply(&objects[nth], &mut row);
                    black_box(&row);
                }
            })
        }));
    }
    table.measure(options.rounds, cases);

    let file = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/china.jpg"))?;
    let loader = Loader::images("nowhere").field("image", Image::rgb(224, 224)).field("label", Class);
    let served = loader.normalise("image", Normaliser::imagenet()).serve()?;
    let (served, file) = (&served, &file);
    let mut cases = Vec::new();
    for threads in [1, 2] {
        cases.push(Case::new(&[&"JPEG", &"Loader::serve", &threads], move || {
            each(threads, OF_IMAGES, || {
                let mut row = served.row();
                move |_| served.apply([("image", Value::Bytes(file))], &mut row).expect("the photograph is good")
            })
        }));
        cases.push(Case::new(&[&"JPEG", &"by hand", &threads], move || {
            each(threads, OF_IMAGES, || {
                let (mut resizer, mut tensor) = (Resizer::new(), vec![0.0; 3 * 224 * 224]);
                move |_| {
                    image_by_hand(file, &mut resizer, &mut tensor);
                    black_box(&tensor);
                }
            })
        }));
    }
    table.measure(options.rounds, cases);
    table.print(&options);
    Ok(())
}

/// Microseconds of a record, in each of so many threads that do `records` of them.
fn each<W: FnMut(usize)>(threads: usize, records: usize, new: impl Fn() -> W + Sync) -> Vec<f64> {
    let run = || {
        let mut work = new();
        let start = Instant::now();
        (0..records).for_each(&mut work);
        start.elapsed().as_secs_f64()
    };
    let seconds: f64 = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        all.into_iter().map(|thread| thread.join().expect("no record is bad")).sum()
    });
    vec![seconds * 1e6 / (threads * records) as f64]
}

const NUMBERS: [&str; 4] = ["rooms", "area", "price", "age"];
const HEADER: &str = "rooms,area,price,age,city,kind";

/// One number of a record, if it is given.
fn given(record: usize, at: usize) -> Option<f64> {
    (!(record + at).is_multiple_of(11)).then(|| (record * (at + 3) % 9973) as f64 / 100.0)
}

fn object(record: usize) -> String {
    let number = |at: usize| given(record, at).map_or("null".to_owned(), |number| number.to_string());
    let numbers: Vec<String> =
        NUMBERS.into_iter().enumerate().map(|(at, name)| format!("\"{name}\": {}", number(at))).collect();
    let (city, kind) = (CITIES[record % 5], KINDS[record % 3]);
    format!("{{{}, \"city\": \"{city}\", \"kind\": \"{kind}\"}}", numbers.join(", "))
}

fn line(record: usize) -> String {
    let number = |at: usize| given(record, at).map_or(String::new(), |number| number.to_string());
    format!("{},{},{},{},{},{}", number(0), number(1), number(2), number(3), CITIES[record % 5], KINDS[record % 3])
}

fn prepared() -> Result<Prepared> {
    let mut recipe = Recipe::new();
    for name in NUMBERS {
        recipe = recipe.column(name, number().impute(Median).mask().standardise());
    }
    let recipe = recipe.column("city", category().unknown()).column("kind", category().unknown());
    let mut fit = RecipeFit::new(&recipe)?;
    for record in 0..OF_TABLE {
        let mut values = [Value::Missing; 6];
        (0..4).for_each(|at| values[at] = given(record, at).map_or(Value::Missing, Value::F64));
        values[4] = Value::Text(CITIES[record % 5]);
        values[5] = Value::Text(KINDS[record % 3]);
        fit.observe(&values)?;
    }
    fit.finish()
}

/// What somebody would write for this table alone.
struct ByHand {
    /// Of each number: its median, mean and deviation.
    numbers: [(f64, f64, f64); 4],
    cities: HashMap<&'static str, i64>,
    kinds: HashMap<&'static str, i64>,
}

#[derive(Deserialize)]
struct House<'a> {
    rooms: Option<f64>,
    area: Option<f64>,
    price: Option<f64>,
    age: Option<f64>,
    #[serde(borrow)]
    city: &'a str,
    #[serde(borrow)]
    kind: &'a str,
}

impl ByHand {
    fn new() -> Self {
        let fitted = |at: usize| {
            let mut known: Vec<f64> = (0..OF_TABLE).filter_map(|record| given(record, at)).collect();
            known.sort_by(f64::total_cmp);
            let median = known[(known.len() - 1) / 2].midpoint(known[known.len() / 2]);
            let all = (0..OF_TABLE).map(|record| given(record, at).unwrap_or(median));
            let mean = all.clone().sum::<f64>() / OF_TABLE as f64;
            let deviation = (all.map(|x| (x - mean).powi(2)).sum::<f64>() / OF_TABLE as f64).sqrt();
            (median, mean, deviation)
        };
        // Codes count the sorted names, behind that of unknown ones.
        let codes = |names: &[&'static str]| {
            let mut sorted = names.to_vec();
            sorted.sort_unstable();
            sorted.into_iter().zip(1..).collect()
        };
        Self { numbers: [0, 1, 2, 3].map(fitted), cities: codes(&CITIES), kinds: codes(&KINDS) }
    }

    fn apply(&self, text: &str, (features, codes): &mut ([f32; 8], [i64; 2])) {
        let house: House<'_> = serde_json::from_str(text).expect("the records are good");
        let numbers = [house.rooms, house.area, house.price, house.age].into_iter().zip(&self.numbers);
        for (into, (number, (median, mean, deviation))) in features.chunks_mut(2).zip(numbers) {
            into[0] = ((number.unwrap_or(*median) - mean) / deviation) as f32;
            into[1] = f32::from(u8::from(number.is_none()));
        }
        *codes = [self.cities.get(house.city).copied().unwrap_or(0), self.kinds.get(house.kind).copied().unwrap_or(0)];
    }
}

fn image_by_hand(file: &[u8], resizer: &mut Resizer, tensor: &mut [f32]) {
    let image = decompress_to(file, PixelFormat::Rgb).expect("a photograph");
    let from = TypedImageRef::<U8x3>::from_buffer(image.width as u32, image.height as u32, &image.data);
    let mut small = vec![0; 3 * 224 * 224];
    let mut into = TypedImage::<U8x3>::from_buffer(224, 224, &mut small).expect("a buffer of this size");
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    resizer.resize_typed(&from.expect("its own size"), &mut into, &options).expect("both have three bytes a pixel");
    let (mean, deviation) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    for (channel, plane) in tensor.chunks_mut(224 * 224).enumerate() {
        let (scale, bias) = (1.0 / (255.0 * deviation[channel]), -mean[channel] / deviation[channel]);
        let pixels = small.iter().skip(channel).step_by(3);
        plane.iter_mut().zip(pixels).for_each(|(into, pixel)| *into = f32::from(*pixel) * scale + bias);
    }
}
