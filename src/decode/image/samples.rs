//! From samples as files store them to 8-bit RGB, and to whole numbers.

/// Converts 16 bits to 8: divided by 257 and rounded. (x + 128) / 257 is the nearest of the 256 levels 0, 257, 514, ...
pub(super) fn level(sample: u16) -> u8 {
    ((u32::from(sample) + 128) / 257) as u8
}

/// The light that is left after one ink and black, where 255 means no ink; rounded as in Pillow.
pub(super) fn inked(ink: u8, black: u8) -> u8 {
    ((u16::from(ink) * u16::from(black) + 127) / 255) as u8
}

/// Writes the colours of four inks, where 0 means no ink.
pub(super) fn print(inks: &[u8], rgb: &mut [[u8; 3]]) {
    for (pixel, inks) in rgb.iter_mut().zip(inks.as_chunks().0) {
        let [cyan, magenta, yellow, black] = inks.map(|ink: u8| 255 - ink);
        *pixel = [cyan, magenta, yellow].map(|ink| inked(ink, black));
    }
}

/// Writes the first three of `channels` values of `N` bytes, or the first one three times.
pub(super) fn spread<const N: usize>(
    stored: &[u8],
    channels: usize,
    rgb: &mut [[u8; 3]],
    to_u8: impl Fn([u8; N]) -> u8,
) {
    let (values, _) = stored.as_chunks::<N>();
    for (pixel, values) in rgb.iter_mut().zip(values.chunks_exact(channels)) {
        *pixel = match values {
            [red, green, blue, ..] => [to_u8(*red), to_u8(*green), to_u8(*blue)],
            _ => [to_u8(values[0]); 3],
        };
    }
}

/// The samples of a row, of 1, 2, 4, 8 or 16 bits each, packed from the highest bit on; those of 16 bits have the most
/// significant byte first.
pub(super) fn unpack(row: &[u8], bits: u8) -> impl Iterator<Item = u16> {
    let per_byte = if bits < 8 { 8 / usize::from(bits) } else { 1 };
    let bytes = if bits == 16 { 2 } else { 1 };
    row.chunks_exact(bytes).flat_map(move |sample| {
        let all = sample.iter().fold(0, |all, byte| all << 8 | u16::from(*byte));
        let mask = if bits == 16 { u16::MAX } else { (1 << bits) - 1 };
        (0..per_byte).rev().map(move |nth| all >> (nth * usize::from(bits) % 16) & mask)
    })
}
