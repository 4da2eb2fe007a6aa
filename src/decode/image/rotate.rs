use super::augment::Interpolation;

/// Turns the RGB pixels `from` by `degrees` counter-clockwise around the centre of the image; the size stays, and
/// pixels from outside are black.
pub(super) fn rotate(
    from: &[u8],
    (width, height): (usize, usize),
    degrees: f64,
    interpolation: Interpolation,
    into: &mut [u8],
) {
    let (from, _) = from.as_chunks::<3>();
    let (into, _) = into.as_chunks_mut::<3>();
    match interpolation {
        Interpolation::Nearest => rotate_nearest(from, (width, height), degrees, into),
        Interpolation::Bilinear => {
            rotate_with((width, height), degrees, into, |x, y| between(from, (width, height), x - 0.5, y - 0.5))
        }
    }
}

/// The same with the nearest pixel, for any kind of pixels; pixels from outside have their default.
pub(super) fn rotate_nearest<P: Copy + Default>(
    from: &[P],
    (width, height): (usize, usize),
    degrees: f64,
    into: &mut [P],
) {
    rotate_with((width, height), degrees, into, |x, y| from[y as usize * width + x as usize]);
}

/// `pick` gives the pixel at a position inside the image.
fn rotate_with<P: Copy + Default>(
    (width, height): (usize, usize),
    degrees: f64,
    into: &mut [P],
    pick: impl Fn(f64, f64) -> P,
) {
    // Rounded to 15 digits, as in Pillow, so that quarter turns are exact.
    let (sin, cos) = degrees.to_radians().sin_cos();
    let [sin, cos] = [sin, cos].map(|value| (value * 1e15).round() / 1e15);
    let (middle_x, middle_y) = (width as f64 / 2.0, height as f64 / 2.0);
    for (y, row) in into.chunks_exact_mut(width).enumerate() {
        let down = y as f64 + 0.5 - middle_y;
        for (x, pixel) in row.iter_mut().enumerate() {
            let right = x as f64 + 0.5 - middle_x;
            // The earlier position of this pixel's middle. y goes down, so counter-clockwise means x towards -y.
            let (was_x, was_y) = (cos * right - sin * down + middle_x, sin * right + cos * down + middle_y);
            let inside = (0.0..width as f64).contains(&was_x) && (0.0..height as f64).contains(&was_y);
            *pixel = if inside { pick(was_x, was_y) } else { P::default() };
        }
    }
}

/// The colour at a position between the centres of four pixels; the outermost pixels extend to the edge.
pub(super) fn between(from: &[[u8; 3]], (width, height): (usize, usize), x: f64, y: f64) -> [u8; 3] {
    // A cast and a comparison are faster than a call of `floor`.
    let floor = |x: f64| x as i64 as f64 - f64::from(u8::from(x < x as i64 as f64));
    let (left, top) = (floor(x), floor(y));
    let (part_x, part_y) = (x - left, y - top);
    let column = |x: f64| (x.max(0.0) as usize).min(width - 1);
    let row = |y: f64| (y.max(0.0) as usize).min(height - 1) * width;
    let (left, right) = (column(left), column(left + 1.0));
    let (top, bottom) = (row(top), row(top + 1.0));
    std::array::from_fn(|c| {
        let at = |index: usize| f64::from(from[index][c]);
        let above = at(top + left) + (at(top + right) - at(top + left)) * part_x;
        let below = at(bottom + left) + (at(bottom + right) - at(bottom + left)) * part_x;
        // Rounded down, as in Pillow.
        (above + (below - above) * part_y) as u8
    })
}
