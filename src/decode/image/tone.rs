//! Changes of each value by itself, or depending on all values of the picture: Pillow's `ImageOps`.

type Table = [u8; 256];

/// Applies a table to each channel; `table` makes it from the number of times that each value occurs.
fn by_tables(pixels: &mut [u8], table: impl Fn(&[u64; 256]) -> Table) {
    let mut counts = [[0; 256]; 3];
    let (pixels, _) = pixels.as_chunks_mut::<3>();
    for pixel in &*pixels {
        (0..3).for_each(|c| counts[c][usize::from(pixel[c])] += 1);
    }
    let tables = counts.each_ref().map(table);
    for pixel in pixels {
        *pixel = std::array::from_fn(|c| tables[c][usize::from(pixel[c])]);
    }
}

fn unchanged() -> Table {
    std::array::from_fn(|value| value as u8)
}

pub(super) fn invert(pixels: &mut [u8]) {
    pixels.iter_mut().for_each(|value| *value = 255 - *value);
}

pub(super) fn posterise(pixels: &mut [u8], bits: u8) {
    let mask = (0xff00u16 >> bits.min(8)) as u8;
    pixels.iter_mut().for_each(|value| *value &= mask);
}

pub(super) fn solarise(pixels: &mut [u8], threshold: u8) {
    pixels.iter_mut().filter(|value| **value >= threshold).for_each(|value| *value = 255 - *value);
}

pub(super) fn autocontrast(pixels: &mut [u8]) {
    by_tables(pixels, |counts| {
        let low = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let high = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        if high <= low {
            return unchanged();
        }
        let scale = 255.0 / (high - low) as f64;
        let offset = -(low as f64) * scale;
        // The cast clips, and rounds towards 0, as in Pillow.
        std::array::from_fn(|value| (value as f64 * scale + offset) as u8)
    });
}

pub(super) fn equalise(pixels: &mut [u8]) {
    by_tables(pixels, |counts| {
        let last = counts.iter().rfind(|count| **count > 0).copied().unwrap_or(0);
        let step = (counts.iter().sum::<u64>() - last) / 255;
        if step == 0 {
            return unchanged();
        }
        let mut sum = step / 2;
        std::array::from_fn(|value| {
            let level = (sum / step).min(255) as u8;
            sum += counts[value];
            level
        })
    });
}
