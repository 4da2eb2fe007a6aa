//! The kernels that ship are those of their source.
//!
//! Needs NVRTC, the compiler's library, in the release that made the text; without it the test is skipped. It is a
//! Python package: `pip install nvidia-cuda-nvrtc-cu12==12.0.140`, whose `nvidia/cuda_nvrtc/lib` goes into
//! `LD_LIBRARY_PATH`. With `RINGFEED_WRITE_PTX=1` the test writes the text instead of comparing it.

use std::panic::catch_unwind;
use std::path::Path;

use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts, sys};

/// Release of the compiler that made the text: an old one, so that its text suits old drivers.
const RELEASE: (i32, i32) = (12, 0);

#[test]
fn the_kernels_that_ship_are_those_of_their_source() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/device/cuda");
    // The bindings panic without the library.
    let release = catch_unwind(|| {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two numbers.
        unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        (major, minor)
    });
    let Ok(release) = release else {
        println!("skipped: no NVRTC");
        return;
    };
    if release != RELEASE {
        println!("skipped: NVRTC is {release:?}, the text was made by {RELEASE:?}");
        return;
    }
    let source = std::fs::read_to_string(folder.join("kernels.cu")).unwrap();
    let options = CompileOptions {
        arch: Some("compute_70"),
        fmad: Some(false),
        name: Some("kernels.cu".to_owned()),
        ..CompileOptions::default()
    };
    let compiled = compile_ptx_with_opts(source, options).unwrap().to_src();
    let compiled = compiled.trim_end_matches('\0');
    let shipped = folder.join("kernels.ptx");
    if std::env::var_os("RINGFEED_WRITE_PTX").is_some() {
        std::fs::write(&shipped, compiled).unwrap();
    }
    // Not `assert_eq`: the text is long.
    assert!(std::fs::read_to_string(&shipped).unwrap() == compiled, "kernels.ptx is not what kernels.cu gives");
}
