//! A folder of data to measure with where none is given: small, and laid out as `workloads.rs` reads it.

use std::fmt::Write as _;
use std::fs::{create_dir, write};
use std::path::Path;

use ringfeed::order::RandomKey;

use crate::photos;

const IMAGES: u64 = 256;
const ROWS: u64 = 50_000;
const RECORDS: u64 = 8192;
const RECORD_NUMBERS: u64 = 3072;
const TOKENS: u64 = 32 << 20;

/// Makes all of it in `folder`, the same for every call.
pub(crate) fn make_data(folder: &Path) -> std::io::Result<()> {
    photos::make_folder(&folder.join("imagenet"), IMAGES);
    for part in ["csv", "fixed", "tokens"] {
        create_dir(folder.join(part))?;
    }
    write(folder.join("csv/numeric.csv"), numbers())?;
    let key = RandomKey::new(1);
    let records: Vec<u8> =
        (0..RECORDS * RECORD_NUMBERS).flat_map(|number| (key.unit(number) as f32).to_le_bytes()).collect();
    write(folder.join("fixed/f32.bin"), records)?;
    let labels: Vec<u8> = (0..RECORDS).flat_map(|record| (record % 10).to_le_bytes()).collect();
    write(folder.join("fixed/f32.labels.bin"), labels)?;
    let tokens: Vec<u8> =
        (0..TOKENS / 4).flat_map(|four| (key.bits(four) & 0x7fff_7fff_7fff_7fff).to_le_bytes()).collect();
    write(folder.join("tokens/tokens.bin"), tokens)
}

/// Rows of 32 numbers and a label, the numbers of all magnitudes from 0.1 to 1000.
fn numbers() -> String {
    let mut text: String = (0..32).map(|column| format!("f{column},")).collect();
    text += "label\n";
    for row in 0..ROWS {
        let key = RandomKey::new(2).with(row);
        for column in 0..32 {
            let magnitude = 10_f64.powf(-1.0 + 4.0 * column as f64 / 31.0);
            let number = (key.normal(column) * magnitude * 1e6).round() / 1e6;
            write!(text, "{number},").expect("a string can be written");
        }
        writeln!(text, "{}", key.bits(99) % 1000).expect("a string can be written");
    }
    text
}
