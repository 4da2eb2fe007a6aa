//! The time that something takes: what tests put in place of late storages, heavy work and slow trainers.
#![expect(unreachable_pub, reason = "a module of several test files")]

use std::time::Duration;

/// Takes so long, as a storage, a decoder or a step of a trainer does. Whatever other threads do meanwhile, the test
/// holds.
pub fn latency(time: Duration) {
    std::thread::sleep(time);
}
