//! Colour jitter on 8-bit RGB pixels, as Pillow's `ImageEnhance` and torchvision's `adjust_hue` of Pillow images do it.

/// A value between the two, or beyond the second, rounded down: Pillow's `Image.blend`.
pub(super) fn blend(from: u8, to: u8, factor: f32) -> u8 {
    // The cast rounds positive numbers down, and clips.
    (f32::from(from) + factor * (f32::from(to) - f32::from(from))) as u8
}

/// Blends every value by one table.
fn blend_with(pixels: &mut [u8], blended: impl Fn(u8) -> u8) {
    let table: [u8; 256] = std::array::from_fn(|value| blended(value as u8));
    pixels.iter_mut().for_each(|value| *value = table[usize::from(*value)]);
}

pub(super) fn take_colour_away(pixels: &mut [u8]) {
    pixels.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| *pixel = [grey(*pixel); 3]);
}

pub(super) fn adjust_brightness(pixels: &mut [u8], factor: f32) {
    blend_with(pixels, |value| blend(0, value, factor));
}

pub(super) fn adjust_contrast(pixels: &mut [u8], factor: f32) {
    let (pixels_of_three, _) = pixels.as_chunks::<3>();
    let sum: u64 = pixels_of_three.iter().map(|pixel| u64::from(grey(*pixel))).sum();
    let mean = sum as f64 / pixels_of_three.len().max(1) as f64;
    let mean = (mean + 0.5) as u8;
    blend_with(pixels, |value| blend(mean, value, factor));
}

pub(super) fn adjust_saturation(pixels: &mut [u8], factor: f32) {
    for pixel in pixels.as_chunks_mut::<3>().0 {
        let grey = grey(*pixel);
        *pixel = pixel.map(|value| blend(grey, value, factor));
    }
}

/// Turns the hue by `shift` turns of the colour circle, in steps of 1/256.
pub(super) fn adjust_hue(pixels: &mut [u8], shift: f64) {
    // Rounded towards 0, then modulo 256, as in torchvision.
    let shift = (shift * 255.0) as i32 as u8;
    for pixel in pixels.as_chunks_mut::<3>().0 {
        let [hue, saturation, value] = to_hsv(*pixel);
        *pixel = from_hsv([hue.wrapping_add(shift), saturation, value]);
    }
}

/// ITU-R BT.601 luma, in Pillow's fixed-point arithmetic.
pub(super) fn grey([red, green, blue]: [u8; 3]) -> u8 {
    ((19595 * u32::from(red) + 38470 * u32::from(green) + 7471 * u32::from(blue) + 0x8000) >> 16) as u8
}

/// Hue, saturation and value, each 0 to 255: Pillow's conversion, with its roundings.
fn to_hsv([red, green, blue]: [u8; 3]) -> [u8; 3] {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most == least {
        return [0, 0, most];
    }
    let range = f32::from(most - least);
    let below = |value: u8| f32::from(most - value) / range;
    let (red_below, green_below, blue_below) = (below(red), below(green), below(blue));
    let sixths = if red == most {
        blue_below - green_below
    } else if green == most {
        (2.0 + f64::from(red_below) - f64::from(blue_below)) as f32
    } else {
        (4.0 + f64::from(green_below) - f64::from(red_below)) as f32
    };
    // Calls of `fmod`, `floor` and `round` took most of the time. All numbers here are small, and none is negative.
    let turns = f64::from(sixths) / 6.0 + 1.0;
    let hue = (if turns >= 1.0 { turns - 1.0 } else { turns }) as f32;
    let saturation = range / f32::from(most);
    [(f64::from(hue) * 255.0) as u8, (f64::from(saturation) * 255.0) as u8, most]
}

/// Pillow's conversion back.
fn from_hsv([hue, saturation, value]: [u8; 3]) -> [u8; 3] {
    if saturation == 0 {
        return [value; 3];
    }
    let sixths = f64::from(f32::from(hue) * 6.0) / 255.0;
    let sector = sixths as u8;
    let rest = f64::from((sixths - f64::from(sector)) as f32);
    let saturation = f64::from(f32::from(saturation) / 255.0);
    let part = |share: f64| (f64::from(value) * (1.0 - share) + 0.5) as u8;
    let (p, q, t) = (part(saturation), part(saturation * rest), part(saturation * (1.0 - rest)));
    match sector % 6 {
        0 => [value, t, p],
        1 => [q, value, p],
        2 => [p, value, t],
        3 => [p, q, value],
        4 => [t, p, value],
        _ => [value, p, q],
    }
}

#[cfg(test)]
mod tests {
    use super::super::augment::Interpolation;
    use super::super::rotate::rotate;
    use super::*;

    /// 72 x 81 pixels with all combinations of red, green and blue in steps of 15 from 0 to 255.
    fn every_colour() -> Vec<u8> {
        let level = |i: usize| (i % 18 * 15) as u8;
        (0..18 * 18 * 18).flat_map(|i| [level(i / 324), level(i / 18), level(i)]).collect()
    }

    /// FNV-1a of all colours after `change`.
    fn hash(change: impl FnOnce(&mut [u8])) -> u64 {
        let mut pixels = every_colour();
        change(&mut pixels);
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        pixels.iter().fold(0xcbf2_9ce4_8422_2325, step)
    }

    #[test]
    fn adjustments_give_the_pixels_of_pillow_and_torchvision() {
        // Pillow 13.0: `ImageEnhance.Brightness(image).enhance(factor)` and so on; the hue by torchvision's
        // `adjust_hue`.
        for (factor, expected) in [
            (0.0, 0xa344_1c2e_3f98_3805),
            (0.37, 0xa335_7d68_0efe_cdf1),
            (1.0, 0xf300_4e82_d879_ec01),
            (1.6, 0x156d_b068_0d98_fe11),
        ] {
            assert_eq!(hash(|pixels| adjust_brightness(pixels, factor)), expected, "brightness {factor}");
        }
        for (factor, expected) in
            [(0.0, 0x5ce8_e870_e037_ab05), (0.37, 0x77a4_7250_2ae6_4111), (1.6, 0x7323_478b_622a_4f6d)]
        {
            assert_eq!(hash(|pixels| adjust_contrast(pixels, factor)), expected, "contrast {factor}");
        }
        for (factor, expected) in
            [(0.0, 0x128a_39f0_6c75_1a05), (0.37, 0xbb7c_183b_4074_571c), (1.6, 0x5e07_10e4_5ce0_5a98)]
        {
            assert_eq!(hash(|pixels| adjust_saturation(pixels, factor)), expected, "saturation {factor}");
        }
        for (shift, expected) in [
            (-0.5, 0x7837_d8a9_ce2f_a95f),
            (-0.1, 0x2d6c_6ea3_8526_179b),
            (0.0, 0x8760_b31b_b4c3_ac7a),
            (0.1, 0xc8f6_594c_0e9d_d402),
            (0.33, 0x70e8_2f90_23be_ea0e),
            (0.5, 0xb33a_08ae_9d2f_ce3a),
        ] {
            assert_eq!(hash(|pixels| adjust_hue(pixels, shift)), expected, "hue {shift}");
        }
    }

    #[test]
    fn rotations_give_the_pixels_of_pillow() {
        // Pillow 13.0: `image.rotate(degrees, resample)`.
        let rotated =
            |degrees, interpolation| hash(|pixels| rotate(&every_colour(), (72, 81), degrees, interpolation, pixels));
        for (degrees, expected) in
            [(0.0, 0xf300_4e82_d879_ec01), (30.0, 0xcedb_7ca7_dfcb_ce02), (180.0, 0xa811_4701_7a3f_2671)]
        {
            assert_eq!(rotated(degrees, Interpolation::Nearest), expected, "{degrees}");
        }
        for (degrees, expected) in [
            (0.0, 0xf300_4e82_d879_ec01),
            (30.0, 0x91cd_615d_41f0_6639),
            (-17.5, 0x7224_9c3c_9c91_9aae),
            (90.0, 0x2ffd_dc63_e3f7_c035),
            (133.7, 0xbed4_97b6_2f72_0bd7),
            (180.0, 0xa811_4701_7a3f_2671),
        ] {
            assert_eq!(rotated(degrees, Interpolation::Bilinear), expected, "{degrees}");
        }
    }
}
