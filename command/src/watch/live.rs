use std::collections::VecDeque;
use std::io::{self, Stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, is_raw_mode_enabled,
};
use ringfeed::stats::{Stats, StatsHandle};

use crate::ending::Ending;

use super::contract::{About, Watch};
use super::keys::{End, ends_within};
use super::view::{Shown, draw};

/// How often the dashboard is drawn.
const EVERY: Duration = Duration::from_millis(250);
/// Over how long its figures are.
const WINDOW: Duration = Duration::from_secs(3);
/// How many rates are kept for the line over time.
const RATES: usize = 240;

/// A dashboard on a terminal, in a thread of its own.
pub(super) struct Live {
    /// Somebody pressed a key to end the run, or closed the terminal.
    stop: Arc<AtomicBool>,
    /// The run is over.
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    pub(super) fn begin(about: &About, figures: StatsHandle, ending: &Ending) -> io::Result<Self> {
        let (stop, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        // Else that signal would leave the terminal as it is now.
        #[cfg(unix)]
        {
            signal_hook::flag::register(libc::SIGHUP, stop.clone())?;
            ending.at_last(give_back);
        }
        let screen = Screen::enter()?;
        let (path, batches, names) = (about.path.clone(), about.batches, about.names.clone());
        let (wish, end, ending) = (stop.clone(), over.clone(), ending.clone());
        let show = move || {
            // Whatever happens, the terminal is given back.
            let mut screen = screen;
            let mut shown = Shown { path, names, batches, ..Shown::default() };
            let begin = Instant::now();
            let mut looks = VecDeque::from([(begin, figures.stats().unwrap_or_default())]);
            while !end.load(Ordering::Acquire) {
                let (Ok(key), Some(stats)) = (ends_within(EVERY), figures.stats()) else { return };
                match key {
                    Some(End::Quit) => wish.store(true, Ordering::Release),
                    #[cfg(unix)]
                    Some(End::Interrupt) => ending.interrupt(),
                    #[cfg(not(unix))]
                    Some(End::Interrupt) => wish.store(true, Ordering::Release),
                    None => {}
                }
                shown.is_ending = wish.load(Ordering::Acquire) || ending.is_told();
                look(&mut looks, &mut shown, stats);
                shown.seconds = begin.elapsed().as_secs_f64();
                if screen.terminal.draw(|frame| draw(frame, &shown)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("ringfeed-live".to_owned()).spawn(show)?;
        Ok(Self { stop, over, thread: Some(thread) })
    }
}

/// Takes the figures up: those of the last few seconds are what is shown.
fn look(looks: &mut VecDeque<(Instant, Stats)>, shown: &mut Shown, stats: Stats) {
    let now = Instant::now();
    while looks.len() > 1 && now.saturating_duration_since(looks[1].0) >= WINDOW {
        looks.pop_front();
    }
    if let Some((since, before)) = looks.front() {
        shown.stats = &stats - before;
        let seconds = now.saturating_duration_since(*since).as_secs_f64().max(1e-9);
        shown.rates.push((shown.stats.samples as f64 / seconds).round() as u64);
    }
    if shown.rates.len() > RATES {
        shown.rates.remove(0);
    }
    shown.taken = stats.batches;
    looks.push_back((now, stats));
}

impl Watch for Live {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A terminal that is drawn on; dropping it gives it back as it was.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
}

impl Screen {
    fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        let entered = execute!(io::stderr(), EnterAlternateScreen);
        let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
        terminal.map(|terminal| Self { terminal }).inspect_err(|_| leave())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
        leave();
    }
}

/// Gives the terminal back, if it is drawn on.
#[cfg(unix)]
fn give_back() {
    if is_raw_mode_enabled().unwrap_or(false) {
        leave();
    }
}

fn leave() {
    let _ = execute!(io::stderr(), LeaveAlternateScreen);
    let _ = disable_raw_mode();
}
