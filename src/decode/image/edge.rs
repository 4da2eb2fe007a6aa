use super::augment::Edge;

impl Edge {
    /// The position of the pixel that is used for `at`, in a line of `length`; `None` if there is none.
    pub(super) fn place(self, at: i64, length: usize) -> Option<usize> {
        let most = length as i64 - 1;
        let inside = (0..=most).contains(&at);
        let place = match self {
            _ if inside => at,
            Self::Constant => return None,
            Self::Edge => at.clamp(0, most),
            Self::Reflect if most == 0 => 0,
            Self::Reflect => most - (at.rem_euclid(2 * most) - most).abs(),
            Self::Symmetric => {
                let at = at.rem_euclid(2 * (most + 1));
                at.min(2 * most + 1 - at)
            }
        };
        Some(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_an_edge_lies_what_numpy_pads_with() {
        // `numpy.pad(numpy.arange(4), 9, mode)`.
        for (edge, expected) in [
            (Edge::Edge, "0000000000123333333333"),
            (Edge::Reflect, "3210123210123210123210"),
            (Edge::Symmetric, "0012332100123321001233"),
        ] {
            let places: String = (-9..13).map(|at| edge.place(at, 4).unwrap().to_string()).collect();
            assert_eq!(places, expected, "{edge:?}");
        }
        assert_eq!(Edge::Constant.place(-1, 4), None);
        assert_eq!([-2, 0, 3].map(|at| Edge::Reflect.place(at, 1)), [Some(0); 3]);
    }
}
