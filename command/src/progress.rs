use std::fmt::Write;

use indicatif::{ProgressState, ProgressStyle};

use crate::table::count;

/// The style of a bar, in which `{rate}` is how many things a second.
pub(crate) fn style(template: &str) -> ProgressStyle {
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{}/s", count(state.per_sec().round() as u64));
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("rate", rate)
}
