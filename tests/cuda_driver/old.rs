//! A driver too old to be used: it lacks every call but one.

/// Would succeed.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: u32) -> i32 {
    0
}
