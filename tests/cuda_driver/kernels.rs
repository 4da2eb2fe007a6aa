//! The kernels, compiled for the processor: a library of its own, because that needs a C++ compiler. Without it they do
//! nothing.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::violation;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Find = unsafe extern "C" fn(name: *const c_char, bytes: *mut u64) -> *const c_void;
type Run = unsafe extern "C" fn(kernel: *const c_void, blocks: u32, threads: u32, param: *const u64);

static LIBRARY: OnceLock<(Find, Run)> = OnceLock::new();

pub fn load(path: &str) {
    const NOW: c_int = 2;
    let name = |name: &str| CString::new(name).unwrap_or_default();
    let library = unsafe { dlopen(name(path).as_ptr(), NOW) };
    let symbol = |of: &str| {
        let symbol = if library.is_null() { library } else { unsafe { dlsym(library, name(of).as_ptr()) } };
        if symbol.is_null() { violation(&format!("{path}: no {of}")) } else { symbol }
    };
    let find = unsafe { std::mem::transmute::<*mut c_void, Find>(symbol("simulated_kernel")) };
    let run = unsafe { std::mem::transmute::<*mut c_void, Run>(symbol("simulated_run")) };
    let _ = LIBRARY.set((find, run));
}

/// The kernel of this name and its parameter's bytes; 0 without the library, and `None` if it has none of this name.
pub fn find(name: &str) -> Option<(usize, Option<usize>)> {
    let Some((find, _)) = LIBRARY.get() else { return Some((0, None)) };
    let mut bytes = 0;
    let name = CString::new(name).ok()?;
    let kernel = unsafe { find(name.as_ptr(), &raw mut bytes) };
    (!kernel.is_null()).then(|| (kernel.expose_provenance(), Some(bytes as usize)))
}

pub fn run(kernel: usize, blocks: u32, threads: u32, param: &[u64]) {
    if let (Some((_, run)), true) = (LIBRARY.get(), kernel != 0) {
        unsafe { run(std::ptr::with_exposed_provenance(kernel), blocks, threads, param.as_ptr()) };
    }
}
