//! Memory on the device and page-locked memory of the host.
//!
//! An address of the device is no address of the host: it has a bit that none has, so that whoever follows it on the
//! host dies. A piece of device memory lies between pages that nobody may touch, beside bytes that nobody may change.

use std::ffi::c_void;
use std::sync::Arc;

use crate::queues::{Clock, Mark};
use crate::violation;

const PAGE: usize = 4096;
/// What an address of the device has over the host's address of the same byte.
const BIAS: u64 = 1 << 52;
const ALIGNMENT: usize = 256;
const FENCE: u8 = 0xf9;
/// What new memory holds.
const GARBAGE: u8 = 0xcd;

unsafe extern "C" {
    fn mmap(near: *mut c_void, bytes: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut c_void;
    fn munmap(start: *mut c_void, bytes: usize) -> i32;
}

/// Pages of anonymous memory, between two that nobody may touch.
pub struct Pages {
    start: usize,
    bytes: usize,
}

impl Pages {
    pub fn new(bytes: usize) -> Self {
        const NONE: i32 = 0;
        const READ_WRITE: i32 = 3;
        const PRIVATE_ANONYMOUS: i32 = 0x22;
        const FIXED: i32 = 0x10;
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        let all = unsafe { mmap(std::ptr::null_mut(), bytes + 2 * PAGE, NONE, PRIVATE_ANONYMOUS, -1, 0) };
        assert_ne!(all.addr(), usize::MAX, "no memory for the simulated driver");
        let start = all.wrapping_byte_add(PAGE);
        let inner = unsafe { mmap(start, bytes, READ_WRITE, PRIVATE_ANONYMOUS | FIXED, -1, 0) };
        assert_eq!(inner, start, "no memory for the simulated driver");
        unsafe { start.cast::<u8>().write_bytes(GARBAGE, bytes) };
        Self { start: start.expose_provenance(), bytes }
    }

    pub fn start(&self) -> usize {
        self.start
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let all = std::ptr::with_exposed_provenance_mut(self.start - PAGE);
        unsafe { munmap(all, self.bytes + 2 * PAGE) };
    }
}

/// A piece of device memory.
pub struct Allocation {
    pub context: usize,
    pub bytes: usize,
    pub is_pooled: bool,
    /// A stream was told to free it.
    pub is_freed: bool,
    /// Ends close to the end of its last page.
    host: usize,
    pages: Arc<Pages>,
    accesses: Vec<Access>,
}

/// Work that was given to a stream, and what it touches.
struct Access {
    start: u64,
    end: u64,
    writes: bool,
    mark: Mark,
    call: &'static str,
}

impl Allocation {
    pub fn new(context: usize, bytes: usize, is_pooled: bool) -> Self {
        let pages = Arc::new(Pages::new(bytes + ALIGNMENT));
        let end = pages.start + pages.bytes;
        let host = (end - bytes) / ALIGNMENT * ALIGNMENT;
        let this = Self { context, bytes, is_pooled, is_freed: false, host, pages, accesses: Vec::new() };
        this.fences().for_each(|at| unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write(FENCE) });
        this
    }

    pub fn address(&self) -> u64 {
        self.host as u64 + BIAS
    }

    fn fences(&self) -> impl Iterator<Item = usize> + use<> {
        let (start, end) = (self.pages.start, self.pages.start + self.pages.bytes);
        (start.max(self.host.saturating_sub(PAGE))..self.host).chain(self.host + self.bytes..end)
    }

    /// Whether nobody wrote beside it.
    pub fn check(&self) {
        for at in self.fences() {
            if unsafe { std::ptr::with_exposed_provenance::<u8>(at).read() } != FENCE {
                let offset = at as i64 - self.host as i64;
                violation(&format!("device memory of {} bytes was written at byte {offset}", self.bytes));
            }
        }
    }

    /// What keeps the memory mapped.
    pub fn pages(&self) -> Arc<Pages> {
        self.pages.clone()
    }

    /// Work that touches it.
    pub fn users(&self) -> Vec<Mark> {
        self.accesses.iter().map(|access| access.mark).collect()
    }

    /// Notes what work touches, and that it is ordered against all that touches the same.
    pub fn touch(&mut self, start: u64, end: u64, writes: bool, mark: Mark, clock: &Clock, call: &'static str) {
        self.accesses.retain(|old| {
            let overlaps = start < old.end && old.start < end;
            if overlaps && (writes || old.writes) && !clock.covers(old.mark) {
                violation(&format!(
                    "{call} (stream {}) {} bytes {}..{} of a piece of device memory, and is not ordered after {} (stream {}), \
                     which {} bytes {}..{}",
                    mark.queue,
                    if writes { "writes" } else { "reads" },
                    start - self.host as u64 - BIAS,
                    end - self.host as u64 - BIAS,
                    old.call,
                    old.mark.queue,
                    if old.writes { "writes" } else { "reads" },
                    old.start - self.host as u64 - BIAS,
                    old.end - self.host as u64 - BIAS,
                ));
            }
            // What comes after this comes after the old one, too.
            !(start <= old.start && old.end <= end && clock.covers(old.mark) && (writes || !old.writes))
        });
        self.accesses.push(Access { start, end, writes, mark, call });
    }
}

/// The host's address of a byte on the device.
pub fn host_of(address: u64) -> usize {
    (address - BIAS) as usize
}

/// Whether a number could be an address of the device.
pub fn is_device_address(number: u64) -> bool {
    number >> 52 == 1
}

/// Page-locked host memory.
pub struct Locked {
    pub context: usize,
    pub bytes: usize,
    pub flags: u32,
    /// Those that the driver allocated; none if the memory was registered.
    pub pages: Option<Pages>,
    /// Copies that have not read or written it yet.
    pub under_way: usize,
}
