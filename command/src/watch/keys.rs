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
    #[cfg(unix)]
    let time = match looked_at(time)? {
        Input::Nothing => return Ok(None),
        Input::Closed => return Ok(Some(End::Quit)),
        Input::Keys => Duration::ZERO,
    };
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

#[cfg(unix)]
enum Input {
    Nothing,
    Keys,
    Closed,
}

/// Waits at most `time` for keys. Whoever reads keys from a terminal that is closed reads nothing for ever.
#[cfg(unix)]
fn looked_at(time: Duration) -> io::Result<Input> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    use rustix::io::Errno;

    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match rustix::event::poll(&mut polled, Some(&time)) {
        Ok(0) | Err(Errno::INTR) => Ok(Input::Nothing),
        Ok(_) if polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => Ok(Input::Closed),
        Ok(_) => Ok(Input::Keys),
        Err(error) => Err(error.into()),
    }
}
