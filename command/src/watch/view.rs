//! What the dashboard looks like.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Gauge, Paragraph, Row, Sparkline, Table};
use ringfeed::stats::{StageStats, Stats, Times};

use crate::names::Names;
use crate::output::plain;
use crate::table::{count, things};

use super::room::{cut, first, lines, width};

/// What is shown.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) path: String,
    pub(super) names: Names,
    /// Of the whole run, where it is known, and how many were taken.
    pub(super) batches: Option<u64>,
    pub(super) taken: u64,
    pub(super) seconds: f64,
    /// The figures of the last moments.
    pub(super) stats: Stats,
    /// Samples per second, over time.
    pub(super) rates: Vec<u64>,
    pub(super) is_ending: bool,
}

pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let area = frame.area();
    let (height, inside) = (usize::from(area.height), usize::from(area.width.saturating_sub(2)));
    let waits = waits(&shown.stats, inside);
    let sentence = plain(&shown.names.put_into(shown.stats.verdict().to_string()));
    let sentence = lines(sentence.split(' '), inside);
    let (table_height, ring_height) = (shown.stats.stages.len() + 3, waits.len() + 3);
    // What the title, the table, the ring and the keys leave.
    let left = height.saturating_sub(2 + table_height + ring_height);
    let verdict_height = (sentence.len() + 2).max(5).min(left.max(3));
    let rates_height = left.saturating_sub(verdict_height);
    let heights = [1, verdict_height, table_height, ring_height, rates_height];
    let heights = heights.map(|height| Constraint::Length(height as u16)).into_iter().chain([Constraint::Fill(1)]);
    let [title, verdict, table, ring, rates, keys] = Layout::vertical(heights).areas(area);
    head(frame, title, shown);
    let sentence = first(sentence, verdict_height - 2, inside).into_iter().map(Line::from).collect::<Vec<_>>();
    let block = Block::bordered().title("verdict, of the last seconds");
    frame.render_widget(Paragraph::new(sentence).block(block), verdict);
    frame.render_widget(stage_table(&shown.stats, inside), table);
    queue(frame, ring, &shown.stats, waits);
    let now = format!("samples per second, now {}", count(*shown.rates.last().unwrap_or(&0)));
    if rates_height > 2 {
        let block = Block::bordered().title(now);
        // The latest ones, as many as there is room for.
        let latest = &shown.rates[shown.rates.len().saturating_sub(inside)..];
        frame.render_widget(Sparkline::default().data(latest).style(Style::new().fg(Color::Cyan)).block(block), rates);
    } else {
        frame.render_widget(Line::from(now), rates);
    }
    let text = if shown.is_ending { "ending: the report follows" } else { "q or Ctrl-C: end the run, and report" };
    frame.render_widget(Line::from(text).dim(), keys);
}

fn head(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let label = match shown.batches {
        Some(all) => format!("{} of {}", count(shown.taken), things(all, "batch")),
        None => things(shown.taken, "batch"),
    };
    let all = usize::from(area.width);
    let wide = width(&label).max((all / 2).min(40)).min(all * 2 / 3);
    let (label, wide) = (cut(&label, wide), wide as u16);
    let [name, progress] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(wide)]).areas(area);
    let path = plain(shown.path.rsplit('/').next().unwrap_or_default());
    let seconds = format!(", {:.0} s ", shown.seconds);
    let path = cut(&format!("ringfeed: {path}"), usize::from(name.width).saturating_sub(width(&seconds)));
    frame.render_widget(Line::from(path + &seconds).bold(), name);
    let share = shown.batches.map_or(0.0, |all| shown.taken as f64 / all.max(1) as f64);
    frame.render_widget(bar(share, label), progress);
}

fn bar(share: f64, label: String) -> Gauge<'static> {
    Gauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(label)
        .gauge_style(Style::new().fg(Color::Cyan).bg(Color::Black))
}

/// Fewest and most cells that the longest bar of the table takes.
const SHORT: usize = 4;
const LONG: usize = 20;
/// Columns of the table that are left out where there is no room.
const BAR: usize = 2;
const P90: usize = 5;

fn stage_table(stats: &Stats, room: usize) -> Table<'static> {
    let heads = ["stage", "busy", "", "on core", "p50", "p90", "p99", "could do/s"];
    let cells: Vec<[String; 8]> = stats.stages.iter().map(cells).collect();
    let usual = [10, 5, 0, 7, 8, 8, 8, 10];
    let mut widths: [usize; 8] = std::array::from_fn(|nth| {
        let longest = cells.iter().map(|row| width(&row[nth])).max().unwrap_or(0);
        longest.max(width(heads[nth])).max(usual[nth])
    });
    // With a space between two.
    let taken = |widths: [usize; 8]| widths.iter().filter(|width| **width > 0).map(|width| width + 1).sum::<usize>();
    if taken(widths) > room + 1 {
        widths[P90] = 0;
    }
    widths[BAR] = match room.saturating_sub(taken(widths)) {
        ..SHORT => 0,
        left => left.min(LONG),
    };
    let is_shown = |nth: &usize| widths[*nth] > 0;
    let header = (0..8).filter(is_shown).map(|nth| heads[nth]);
    let rows = stats.stages.iter().zip(&cells).map(|(stage, cells)| {
        let busy = stage.utilisation();
        let color = if busy > 0.75 { Color::Yellow } else { Color::Cyan };
        Row::new((0..8).filter(is_shown).map(|nth| match nth {
            BAR => Cell::from("█".repeat((widths[BAR] as f64 * busy).round() as usize)).fg(color),
            _ => Cell::from(cells[nth].clone()),
        }))
    });
    let widths = (0..8).filter(is_shown).map(|nth| Constraint::Length(widths[nth] as u16));
    let table = Table::new(rows, widths).header(Row::new(header).bold());
    let (workers, cores) = (things(stats.workers.threads as u64, "worker"), things(stats.cores as u64, "core"));
    table.block(Block::bordered().title(format!("stages, {workers} on {cores}")))
}

/// A stage's line of the table; the bar is left out.
fn cells(stage: &StageStats) -> [String; 8] {
    let share = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let core = stage.cpu_seconds.map_or("-".to_owned(), |cpu| percent(share(cpu, stage.busy_seconds)));
    let Times { p50_seconds, p90_seconds, p99_seconds, .. } = stage.times;
    let [p50, p90, p99] = [p50_seconds, p90_seconds, p99_seconds].map(time);
    let could = count(stage.samples_per_second.round() as u64);
    [stage.name.to_owned(), percent(stage.utilisation()), String::new(), core, p50, p90, p99, could]
}

/// How full the ring is, and what the trainer waits for.
fn queue(frame: &mut Frame<'_>, area: Rect, stats: &Stats, waits: Vec<String>) {
    let queue = &stats.queue;
    let block = Block::bordered().title("ring, and what the trainer waits for");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [filled, below] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inside);
    let ready = queue.mean_ready();
    let label = format!("{ready:.1} ready (prefetch {}), {:.1} being filled", queue.prefetch, queue.mean_filling());
    frame.render_widget(bar(ready / queue.prefetch.max(1) as f64, label), filled);
    frame.render_widget(Paragraph::new(waits.into_iter().map(Line::from).collect::<Vec<_>>()), below);
}

/// What the trainer waits for and how long, in lines of so many cells.
fn waits(stats: &Stats, room: usize) -> Vec<String> {
    let (queue, trainer) = (&stats.queue, &stats.trainer);
    let seconds = trainer.seconds().max(1e-9);
    let of = |what: &str, part: f64, end: &str| format!("{what} {}{end}", percent((part / seconds).clamp(0.0, 1.0)));
    let Times { p50_seconds, p90_seconds, p99_seconds, .. } = trainer.waits;
    let [p50, p90, p99] = [p50_seconds, p90_seconds, p99_seconds].map(time);
    let causes = vec![
        of("waits", trainer.wait_seconds, ":"),
        of("planning", queue.wait_plan_seconds, ","),
        of("slot", queue.wait_slot_seconds, ","),
        of("filling", queue.wait_fill_seconds, ","),
        of("one slow batch", queue.wait_behind_seconds, ""),
    ];
    let times = vec![
        of("works", trainer.busy_seconds, ";"),
        "waits per batch:".to_owned(),
        format!("p50 {p50},"),
        format!("p90 {p90},"),
        format!("p99 {p99}"),
    ];
    [causes, times].iter().flat_map(|parts| lines(parts.iter().map(String::as_str), room)).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", 1e3 * s),
        s => format!("{:.1} us", 1e6 * s),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ringfeed::stats::Planning;
    use ringfeed::{DataSetIterator, Loader};

    use super::*;

    /// The lines of a screen of this size.
    fn screen(shown: &Shown, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        terminal.draw(|frame| draw(frame, shown)).expect("it is drawn");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(line).collect()
    }

    fn shown() -> Shown {
        let iris = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/iris.csv");
        let mut batches = Loader::csv(iris).batch_size(10).workers(2).build().expect("a loader");
        batches.epoch().expect("an epoch").for_each(drop);
        let rates = (0..500).collect();
        let (stats, path) = (batches.stats(), "some\u{1b}[31m.csv".to_owned());
        Shown {
            path,
            names: Names::default(),
            batches: Some(60),
            taken: 15,
            seconds: 12.3,
            stats,
            rates,
            is_ending: false,
        }
    }

    #[test]
    fn a_screen_shows_stages_ring_waits_and_verdict() {
        let lines = screen(&shown(), 100, 26);
        let text = lines.join("\n");
        for part in [
            "ringfeed: some\\u{1b}[31m.csv, 12 s",
            "15 of 60 batches",
            "verdict",
            "stages, 2 workers on",
            "plan",
            "read",
            "decode",
            "settle",
            "ready (prefetch 8)",
            "filling",
            "works ",
            "waits per batch: p50 ",
            "samples per second, now 499",
            "q or Ctrl-C",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
        let only = screen(&Shown { batches: Some(1), taken: 1, ..shown() }, 100, 26).join("");
        assert!(only.contains("1 of 1 batch") && !only.contains("1 batches"), "{only}");
        let sentence = shown().stats.verdict().to_string();
        let head = sentence.split(':').next().expect("a head").to_owned();
        assert!(lines[2].contains(&head) || text.contains("bound") || text.contains("too little"), "{text}");
    }

    /// A run whose figures take as much room as they may.
    fn crowded() -> Shown {
        let mut stats = shown().stats;
        let times = |p50, p90, p99| {
            let mut times = Times::default();
            (times.p50_seconds, times.p90_seconds, times.p99_seconds) = (p50, p90, p99);
            times
        };
        let (short, long) = (times(111.1e-6, 222.2e-6, 999.8e-6), times(444.4e-6, 100.25, 200.25));
        let stage = |name| {
            let mut stage = StageStats::default();
            (stage.name, stage.threads, stage.samples_per_second) = (name, 16, 1_234_567_890.0);
            (stage.thread_seconds, stage.busy_seconds, stage.cpu_seconds) = (100.0, 100.0, Some(100.0));
            stage.times = long.clone();
            stage
        };
        stats.stages = ["plan", "read", "decode", "resize", "transform", "settle"].map(stage).to_vec();
        (stats.workers.threads, stats.cores, stats.planning) = (256, 256, Planning::Stream);
        (stats.trainer.wait_seconds, stats.trainer.busy_seconds, stats.trainer.waits) = (0.0, 100.0, short);
        (stats.trainer.batches, stats.trainer.ready, stats.batches) = (1000, 1000, 1000);
        let queue = &mut stats.queue;
        (queue.prefetch, queue.seconds) = (256, 100.0);
        (queue.ready_batch_seconds, queue.filling_batch_seconds) = (25_600.0, 25_600.0);
        for wait in [
            &mut queue.wait_plan_seconds,
            &mut queue.wait_slot_seconds,
            &mut queue.wait_fill_seconds,
            &mut queue.wait_behind_seconds,
        ] {
            *wait = 100.0;
        }
        let path = "some.csv".to_owned();
        Shown { path, stats, batches: Some(12_345_678), taken: 1_234_567, seconds: 86_400.0, ..shown() }
    }

    /// The words on a screen, without borders and bars.
    fn words(lines: &[String]) -> Vec<String> {
        let is_drawn = |letter: char| ('\u{2500}'..='\u{259f}').contains(&letter);
        lines
            .iter()
            .flat_map(|line| line.replace(is_drawn, " ").split(' ').map(str::to_owned).collect::<Vec<_>>())
            .filter(|word| !word.is_empty())
            .collect()
    }

    #[test]
    fn nothing_is_cut_off_on_narrow_screens() {
        let mut starved = crowded();
        (starved.stats.trainer.wait_seconds, starved.stats.trainer.busy_seconds) = (100.0, 0.0);
        starved.stats.trainer.ready = 0;
        starved.stats.stages[1..].iter_mut().for_each(|stage| stage.busy_seconds = 0.0);
        starved.stats.workers.busy_seconds = 0.0;
        for shown in [crowded(), starved] {
            let sentence = shown.stats.verdict().to_string();
            let whole = words(&screen(&shown, 300, 24));
            assert!(sentence.split(' ').all(|word| whole.iter().any(|shown| shown == word)), "{sentence}: {whole:?}");
            for (width, height, has_p90) in [(60, 30, false), (80, 24, true), (100, 24, true), (120, 24, true)] {
                let lines = screen(&shown, width, height);
                let mut expected = whole.clone();
                if !has_p90 {
                    let head = expected.iter().position(|word| word == "p90").expect("a column");
                    expected.remove(head);
                    while let Some(cell) = expected.iter().position(|word| word == "100.25") {
                        expected.drain(cell..cell + 2);
                    }
                }
                assert_eq!(words(&lines), expected, "{width}:\n{}", lines.join("\n"));
            }
        }
    }

    #[test]
    fn what_has_no_room_ends_in_dots() {
        let long = Shown { path: format!("{}.csv", "a".repeat(100)), ..crowded() };
        for width in [40, 60, 80] {
            let lines = screen(&long, width, 24);
            assert!(lines[0].contains("…, 86400 s"), "{}", lines[0]);
        }
        let lines = screen(&crowded(), 40, 12).join("\n");
        assert!(lines.contains('…'), "{lines}");
    }

    #[test]
    fn a_small_screen_and_a_run_without_figures_are_no_panic() {
        for (width, height) in [(1, 1), (20, 5), (40, 12), (300, 80)] {
            screen(&shown(), width, height);
            screen(&Shown::default(), width, height);
        }
        let ending = Shown { is_ending: true, ..shown() };
        assert!(screen(&ending, 100, 26).join("").contains("ending"));
    }
}
