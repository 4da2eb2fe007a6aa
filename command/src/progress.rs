use std::fmt::Write;

use indicatif::{ProgressState, ProgressStyle};

use crate::table::{count, things};

/// The style of a bar, in which `{things}` is how many things of this name there are, or were so far where that is not
/// known, and `{rate}` how many per second.
pub(crate) fn style(template: &str, name: &'static str) -> ProgressStyle {
    let all = move |state: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{}", things(state.len().unwrap_or(state.pos()), name));
    };
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{}/s", count(state.per_sec().round() as u64));
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("things", all).with_key("rate", rate)
}
