use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};

/// A key that ends a dashboard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// q, Escape.
    Quit,
    /// Ctrl-C, which is a key as any other while the terminal is raw.
    Interrupt,
}

/// Waits at most `time` for such a key.
pub(super) fn ends_within(time: Duration) -> io::Result<Option<End>> {
    if !io::stdin().is_terminal() {
        // What comes in there is data, and no keys.
        std::thread::sleep(time);
        return Ok(None);
    }
    if !poll(time)? {
        return Ok(None);
    }
    Ok(match read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
            KeyCode::Char('q') | KeyCode::Esc => Some(End::Quit),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(End::Interrupt),
            _ => None,
        },
        _ => None,
    })
}
