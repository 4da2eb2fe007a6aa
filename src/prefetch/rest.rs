use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

/// Time on a core that idle workers may save for later.
const SAVED: Duration = Duration::from_millis(20);

/// After resting this long, a worker checks the account again.
const LONGEST: Duration = Duration::from_secs(60);

/// Limits workers to a share of the cores: a worker that finds the share used up rests before its next job.
#[derive(Debug)]
pub(super) struct Rest {
    /// Cores whose time may be used; `None` for no limit.
    cores: Option<f64>,
    account: Mutex<Account>,
    closed: Condvar,
}

#[derive(Debug)]
struct Account {
    /// Seconds on a core that may be used by `at`; negative if too many were used.
    left: f64,
    at: Instant,
    is_closed: bool,
}

impl Account {
    fn draw(&mut self, cores: f64, used: Duration, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * cores).min(SAVED.as_secs_f64()) - used.as_secs_f64();
        self.at = now;
    }
}

impl Rest {
    pub(super) fn new(cores: Option<f64>) -> Self {
        let account = Account { left: 0.0, at: Instant::now(), is_closed: false };
        Self { cores, account: Mutex::new(account), closed: Condvar::new() }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.cores.is_some()
    }

    /// The calling thread used a core for this long. Waits until it may use a core again, and returns how long that
    /// took.
    pub(super) fn after(&self, used: Duration) -> Duration {
        let Some(cores) = self.cores else { return Duration::ZERO };
        let begin = Instant::now();
        let mut account = self.account.lock();
        account.draw(cores, used, begin);
        while account.left < 0.0 && !account.is_closed {
            let until = account.at + Duration::from_secs_f64((-account.left / cores).min(LONGEST.as_secs_f64()));
            account = self.closed.wait_until(account, until);
            account.draw(cores, Duration::ZERO, Instant::now());
        }
        begin.elapsed()
    }

    /// No thread rests after this.
    pub(super) fn close(&self) {
        self.account.lock().is_closed = true;
        self.closed.notify_all();
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_what_time_has_passed_for() {
        let begin = Instant::now();
        let mut account = Account { left: 0.0, at: begin, is_closed: false };
        let at = |ms| begin + Duration::from_millis(ms);
        account.draw(0.5, Duration::from_millis(100), at(20));
        assert!((account.left + 0.09).abs() < 1e-9, "10 ms of 100 were earned: {account:?}");
        account.draw(0.5, Duration::ZERO, at(200));
        assert!(account.left.abs() < 1e-9, "{account:?}");
        account.draw(0.5, Duration::ZERO, at(60_000));
        assert_eq!(account.left, SAVED.as_secs_f64(), "an idle minute is not saved up");
    }

    #[test]
    fn who_is_closed_does_not_rest() {
        crate::watchdog::watch();
        let rest = std::sync::Arc::new(Rest::new(Some(1e-6)));
        let worker = std::thread::spawn({
            let rest = rest.clone();
            move || rest.after(Duration::from_secs(3600))
        });
        rest.close();
        worker.join().unwrap();
        assert_eq!(Rest::new(None).after(Duration::from_secs(3600)), Duration::ZERO);
    }
}
