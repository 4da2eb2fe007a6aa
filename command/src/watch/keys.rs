use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};

/// Waits at most `time` for a key, and says whether it was one that ends a dashboard: q, Escape, or Ctrl-C, which is a key as any other
/// while the terminal is raw.
pub(super) fn ends_within(time: Duration) -> io::Result<bool> {
    if !io::stdin().is_terminal() {
        // What comes in there is data, and no keys.
        std::thread::sleep(time);
        return Ok(false);
    }
    if !poll(time)? {
        return Ok(false);
    }
    Ok(match read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
                || (key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL))
        }
        _ => false,
    })
}
