//! What is shown while `bench` runs: a bar, a dashboard, or lines.

mod bar;
mod contract;
#[cfg(feature = "live")]
mod keys;
mod lines;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod room;
#[cfg(feature = "live")]
mod view;

use std::io::IsTerminal;

use ringfeed::stats::StatsHandle;

use bar::Bar;
pub(crate) use contract::{About, Watch};
use lines::Lines;

use crate::ending::Ending;

/// Begins to show a run, whose figures are read by the handle: as a dashboard or in lines if it is to be `live`,
/// otherwise as a bar on a terminal. Ends when it drops.
#[cfg_attr(not(feature = "live"), expect(unused_variables, reason = "only a dashboard hears keys"))]
pub(crate) fn watch(live: bool, about: About, figures: StatsHandle, ending: &Ending) -> Box<dyn Watch> {
    let is_terminal = std::io::stderr().is_terminal();
    #[cfg(feature = "live")]
    if live && is_terminal {
        match live::Live::begin(&about, figures.clone(), ending) {
            Ok(live) => return Box::new(live),
            Err(error) => crate::output::complain(&format!("no dashboard here: {error}")),
        }
    }
    match (live, is_terminal) {
        (true, _) => Box::new(Lines::begin(&about, figures)),
        (false, true) => Box::new(Bar::begin(&about, figures)),
        (false, false) => Box::new(Silence),
    }
}

struct Silence;

impl Watch for Silence {}
