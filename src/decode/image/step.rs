//! The positions of a picture's points and boxes after one operation on it.

/// One step of the changes to a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// How a point moves: `x' = m[0] x + m[1] y + m[2]`, `y' = m[3] x + m[4] y + m[5]`.
    pub(crate) matrix: [f64; 6],
    /// Width and height of the picture after the step; everything outside is cut off.
    pub(crate) size: (f64, f64),
}

impl Step {
    fn moves(self, (x, y): (f64, f64)) -> (f64, f64) {
        let [a, b, c, d, e, f] = self.matrix;
        (a * x + b * y + c, d * x + e * y + f)
    }

    /// A point's position after the step; `None` if it has left the picture.
    pub(crate) fn point(self, at: (f64, f64)) -> Option<(f64, f64)> {
        let (x, y) = self.moves(at);
        ((0.0..=self.size.0).contains(&x) && (0.0..=self.size.1).contains(&y)).then_some((x, y))
    }

    /// A box after the step, as left, top, right and bottom: the smallest box around its four corners, cut off at the
    /// picture's edges. `None` if nothing is left of it. This is the same as torchvision's `tv_tensors.BoundingBoxes`.
    pub(crate) fn enclosing(self, [left, top, right, bottom]: [f64; 4]) -> Option<[f64; 4]> {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)].map(|corner| self.moves(corner));
        let range = |values: [f64; 4], most: f64| {
            let least = values.into_iter().fold(f64::INFINITY, f64::min);
            let greatest = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
            (least.clamp(0.0, most), greatest.clamp(0.0, most))
        };
        let (left, right) = range(corners.map(|(x, _)| x), self.size.0);
        let (top, bottom) = range(corners.map(|(_, y)| y), self.size.1);
        (left < right && top < bottom).then_some([left, top, right, bottom])
    }
}
