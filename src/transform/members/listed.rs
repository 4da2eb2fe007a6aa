//! Lists of numbers that come from the data, and the text that replaces a number.

use std::fmt;

use serde::Deserializer;
use serde::de::{SeqAccess, Visitor};

struct Listed(&'static str);

impl<'de> Visitor<'de> for Listed {
    type Value = Vec<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<f64>, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = list.next_element()? {
            numbers.push(number);
        }
        Ok(numbers)
    }
}

pub(super) fn edges<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    deserializer.deserialize_seq(Listed(
        "a list of edges (for a number of bins with edges from the training data, prepare a column with \
         scale = { bins = { count = 10 } })",
    ))
}

pub(super) fn quantiles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    deserializer.deserialize_seq(Listed(
        "a list of quantiles (for a number of quantiles of the training data, prepare a column with \
         scale = { quantile = { count = 1000 } })",
    ))
}
