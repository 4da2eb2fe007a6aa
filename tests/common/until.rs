//! Waiting for what nobody tells of: another process, or a thread that can't be joined.
#![expect(unreachable_pub, reason = "a module of several test files")]

use std::time::{Duration, Instant};

/// Looks until it is so, and fails if that never comes to be.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let given_up = Instant::now() + Duration::from_secs(200);
    while !is_so() {
        assert!(Instant::now() < given_up, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
