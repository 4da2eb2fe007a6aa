//! Texts of many lengths, in batches of which little is padding: `cargo run -p examples --bin sequences`.
//!
//! Counts which byte follows which, and says how many bits a byte of other texts then takes.

use std::path::Path;

use ringfeed::field::Tokens;
use ringfeed::order::Split;
use ringfeed::{DataSet, Loader, Result};

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let Run { bits, padding, padding_without } = run(folder.path())?;
    println!(
        "{bits:.2} bits a byte; {:.0} % of batches is padding, and {:.0} % without buckets",
        padding, padding_without
    );
    Ok(())
}

struct Run {
    bits: f64,
    padding: f64,
    padding_without: f64,
}

fn run(folder: &Path) -> Result<Run> {
    let path = folder.join("texts.jsonl");
    let license = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../LICENSE-APACHE"))?;
    let ids = |text: &str| serde_json::json!({ "ids": text.trim().as_bytes() }).to_string();
    let lines: Vec<String> = license.split("\n\n").filter(|text| !text.trim().is_empty()).map(ids).collect();
    std::fs::write(&path, lines.join("\n"))?;

    let texts =
        |part: Split| Ok::<_, ringfeed::Error>(Loader::open(&path)?.field("ids", Tokens::from("/ids")).split(part));
    let bounds = [64, 128, 256, 512, 1024, 2048];
    let train = texts(Split::train(0.8))?.bucket("ids", bounds).tokens_per_batch(4096).shuffle(42);

    let mut follows = vec![[1.0; 256]; 256];
    let mut padding = Padding::default();
    for batch in train.build()?.epoch()? {
        let batch = batch?;
        padding.see(&batch)?;
        for pair in pairs(&batch)? {
            follows[pair[0] as usize][pair[1] as usize] += 1.0;
        }
    }
    let (mut bits, mut bytes) = (0.0, 0.0);
    for batch in texts(Split::train(0.8).rest())?.bucket("ids", bounds).tokens_per_batch(4096).build()?.epoch()? {
        for pair in pairs(&batch?)? {
            let row = &follows[pair[0] as usize];
            bits -= (row[pair[1] as usize] / row.iter().sum::<f64>()).log2();
            bytes += 1.0;
        }
    }
    let mut without = Padding::default();
    for batch in texts(Split::train(0.8))?.batch_size(8).shuffle(42).build()?.epoch()? {
        without.see(&batch?)?;
    }
    Ok(Run { bits: bits / bytes, padding: padding.percent(), padding_without: without.percent() })
}

/// The neighbours in all texts of a batch, without what is padding.
fn pairs(batch: &DataSet) -> Result<Vec<[i64; 2]>> {
    let ids = batch.tensor("ids")?;
    let length = ids.shape()[1];
    let texts = ids.as_slice::<i64>()?.chunks(length).zip(batch.tensor("ids_mask")?.as_slice::<u8>()?.chunks(length));
    let text = |(ids, mask): (&[i64], &[u8])| {
        let len = mask.iter().filter(|is_there| **is_there == 1).count();
        ids[..len].windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>()
    };
    Ok(texts.flat_map(text).collect())
}

#[derive(Default)]
struct Padding {
    there: usize,
    all: usize,
}

impl Padding {
    fn see(&mut self, batch: &DataSet) -> Result<()> {
        let mask = batch.tensor("ids_mask")?;
        let mask = mask.as_slice::<u8>()?;
        self.all += mask.len();
        self.there += mask.iter().filter(|is_there| **is_there == 1).count();
        Ok(())
    }

    fn percent(&self) -> f64 {
        100.0 * (1.0 - self.there as f64 / self.all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_spare_padding_and_the_texts_are_learnt() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let Run { bits, padding, padding_without } = run(folder.path())?;
        assert!(bits < 6.0, "{bits}");
        assert!(padding < padding_without / 1.5, "{padding} and {padding_without} without buckets");
        Ok(())
    }
}
