//! What the dashboard looks like.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Gauge, Paragraph, Row, Sparkline, Table, Wrap};
use ringfeed::stats::{StageStats, Stats};

use crate::names::Names;
use crate::output::plain;
use crate::table::{count, things};

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
    /// Samples a second, over time.
    pub(super) rates: Vec<u64>,
    pub(super) is_ending: bool,
}

pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let stages = shown.stats.stages.len() as u16;
    let heights = [
        Constraint::Length(1),
        Constraint::Length(5),
        Constraint::Length(stages + 3),
        Constraint::Length(4),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    let [title, verdict, table, ring, rates, keys] = Layout::vertical(heights).areas(frame.area());
    head(frame, title, shown);
    let sentence = plain(&shown.names.put_into(shown.stats.verdict().to_string()));
    let block = Block::bordered().title("verdict, of the last seconds");
    frame.render_widget(Paragraph::new(sentence).wrap(Wrap { trim: true }).block(block), verdict);
    frame.render_widget(stage_table(&shown.stats), table);
    queue(frame, ring, &shown.stats);
    let block = Block::bordered().title(format!("samples a second, now {}", count(*shown.rates.last().unwrap_or(&0))));
    // The latest ones, as many as there is room for.
    let room = usize::from(rates.width.saturating_sub(2));
    let latest = &shown.rates[shown.rates.len().saturating_sub(room)..];
    frame.render_widget(Sparkline::default().data(latest).style(Style::new().fg(Color::Cyan)).block(block), rates);
    let text = if shown.is_ending { "ending: the report follows" } else { "q or Ctrl-C: end the run, and report" };
    frame.render_widget(Line::from(text).dim(), keys);
}

fn head(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    // Its end, where the whole has no room.
    let path = shown.path.rsplit('/').next().unwrap_or_default();
    let [name, progress] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(40)]).areas(area);
    frame.render_widget(Line::from(format!("ringfeed: {}, {:.0} s", plain(path), shown.seconds)).bold(), name);
    let label = match shown.batches {
        Some(all) => format!("{} of {}", count(shown.taken), things(all, "batch")),
        None => things(shown.taken, "batch"),
    };
    let share = shown.batches.map_or(0.0, |all| shown.taken as f64 / all.max(1) as f64);
    frame.render_widget(bar(share, label), progress);
}

fn bar(share: f64, label: String) -> Gauge<'static> {
    Gauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(label)
        .gauge_style(Style::new().fg(Color::Cyan).bg(Color::Black))
}

fn stage_table(stats: &Stats) -> Table<'static> {
    let heads = ["stage", "busy", "", "on core", "p50", "p99", "could do/s"];
    let rows: Vec<Row<'static>> = stats.stages.iter().map(row).collect();
    let widths = [10, 6, 20, 8, 10, 10, 12].map(Constraint::Length);
    let table = Table::new(rows, widths).header(Row::new(heads).bold());
    let (workers, cores) = (things(stats.workers.threads as u64, "worker"), things(stats.cores as u64, "core"));
    table.block(Block::bordered().title(format!("stages, {workers} on {cores}")))
}

fn row(stage: &StageStats) -> Row<'static> {
    let share = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let busy = stage.utilisation();
    let core = stage.cpu_seconds.map_or("-".to_owned(), |cpu| percent(share(cpu, stage.busy_seconds)));
    let blocks = "█".repeat((20.0 * busy).round() as usize);
    let [p50, p99] = [stage.times.p50_seconds, stage.times.p99_seconds].map(time);
    let could = count(stage.samples_per_second.round() as u64);
    let cells = [stage.name.to_owned(), percent(busy), blocks, core, p50, p99, could];
    Row::new(cells.into_iter().enumerate().map(|(nth, text)| {
        let cell = Cell::from(text);
        if nth == 2 { cell.fg(if busy > 0.75 { Color::Yellow } else { Color::Cyan }) } else { cell }
    }))
}

/// How full the ring is, and what the trainer waits for.
fn queue(frame: &mut Frame<'_>, area: Rect, stats: &Stats) {
    let (queue, trainer) = (&stats.queue, &stats.trainer);
    let block = Block::bordered().title("ring, and what the trainer waits for");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [filled, waits] = Layout::vertical([Constraint::Length(1); 2]).areas(inside);
    let ready = queue.mean_ready();
    let label = format!("{ready:.1} ready (prefetch {}), {:.1} being filled", queue.prefetch, queue.mean_filling());
    frame.render_widget(bar(ready / queue.prefetch.max(1) as f64, label), filled);
    let seconds = trainer.seconds().max(1e-9);
    let of = |part: f64| percent((part / seconds).clamp(0.0, 1.0));
    let text = format!(
        "waits {}: planning {}, slot {}, filling {}, one slow batch {}; works {}",
        of(trainer.wait_seconds),
        of(queue.wait_plan_seconds),
        of(queue.wait_slot_seconds),
        of(queue.wait_fill_seconds),
        of(queue.wait_behind_seconds),
        of(trainer.busy_seconds)
    );
    frame.render_widget(Line::from(text), waits);
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
            "ready (prefetch 2)",
            "filling",
            "; works",
            "samples a second, now 499",
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
