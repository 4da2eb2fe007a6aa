//! Builds the simulated CUDA driver and has it taken for the real one, where there is none.
#![expect(unreachable_pub, clippy::unwrap_used, reason = "a module of several test files, which fail by panicking")]

use std::ffi::{CString, OsStr, c_char};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use libloading::Library;

/// The simulated driver, in this process.
pub struct Simulated {
    pub library: Library,
    /// The folder that it is in.
    pub folder: PathBuf,
    /// Whether it can run kernels.
    pub has_kernels: bool,
}

/// The simulated driver, unless there is a real one or one is demanded. Whoever opens a device of CUDA asks for it
/// first.
pub fn simulated() -> Option<&'static Simulated> {
    static SIMULATED: LazyLock<Option<Simulated>> = LazyLock::new(|| {
        let is_real = std::env::var_os("RINGFEED_REQUIRE_GPU").is_some()
            || ["/dev/nvidiactl", "/dev/dxg"].iter().any(|path| Path::new(path).exists());
        if is_real {
            return None;
        }
        let folder = match driver() {
            Ok(folder) => folder,
            Err(reason) => {
                println!("no simulated driver: {reason}");
                return None;
            }
        };
        // The loader goes by the library's own name, which is what is looked for later. It is never unloaded.
        // SAFETY: it does nothing when it is loaded.
        let library = unsafe { Library::new(folder.join("libcuda.so.1")) }.unwrap();
        let mut simulated = Simulated { library, has_kernels: false, folder };
        match kernels() {
            Ok(path) => {
                simulated.configure(&format!("kernels={}", path.display()));
                simulated.has_kernels = true;
            }
            Err(reason) => println!("skipped: {reason}"),
        }
        Some(simulated)
    });
    SIMULATED.as_ref()
}

impl Simulated {
    /// Changes settings, for devices that are opened from now on.
    pub fn configure(&self, settings: &str) {
        let settings = CString::new(settings).unwrap();
        // SAFETY: declared so there.
        let configure = unsafe { self.library.get::<unsafe extern "C" fn(*const c_char)>("simulated_configure") };
        // SAFETY: a text that ends in a zero.
        unsafe { configure.unwrap()(settings.as_ptr()) };
    }
}

/// The repository's root, from the packages in it.
pub fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("tests/cuda_driver").is_dir()).unwrap()
}

/// The folder of the driver, which is built if its sources have changed.
fn driver() -> Result<PathBuf, String> {
    if !cfg!(target_os = "linux") {
        return Err("it is for Linux".to_owned());
    }
    let sources = root().join("tests/cuda_driver");
    let inputs = ["lib.rs", "driver.rs", "kernels.rs", "memory.rs", "queues.rs"].map(|name| sources.join(name));
    built("libcuda.so.1", &inputs, |to| {
        let mut rustc = rustc();
        rustc.arg("-Clink-arg=-Wl,-soname,libcuda.so").arg(&inputs[0]).arg("-o").arg(to);
        rustc
    })
}

/// The compiler of libraries.
pub fn rustc() -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda", "-Dwarnings"]);
    rustc.args(["-Copt-level=1", "-Cpanic=abort"]);
    rustc
}

/// The library of kernels for the processor.
fn kernels() -> Result<PathBuf, String> {
    let inputs = [root().join("tests/cuda_driver/kernels.cpp"), root().join("src/device/cuda/kernels.cu")];
    let folder = built("libkernels.so", &inputs, |to| {
        let mut compiler = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
        compiler.args(["-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-Wno-sign-compare"]);
        // As on a GPU, an address that is not aligned to what is read is fatal.
        compiler.args(["-ffp-contract=off", "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]);
        compiler.arg(format!("-DKERNEL_SOURCE=\"{}\"", inputs[1].display())).arg(&inputs[0]).arg("-o").arg(to);
        compiler
    });
    folder.map(|folder| folder.join("libkernels.so")).map_err(|reason| format!("no C++ compiler ({reason})"))
}

/// The folder of a library, named by what it is built from. Several processes may build it at once.
pub fn built(name: &str, inputs: &[PathBuf], command: impl Fn(&OsStr) -> Command) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    for input in inputs {
        std::fs::read(input).map_err(|error| format!("{}: {error}", input.display()))?.hash(&mut hasher);
    }
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = root.join(format!("{name}-{:016x}", hasher.finish()));
    if folder.join(name).exists() {
        return Ok(folder);
    }
    let fresh = tempfile::tempdir_in(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let mut command = command(fresh.path().join(name).as_os_str());
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    // If another process was faster, its library is as good.
    let _ = std::fs::rename(fresh.path(), &folder);
    if folder.join(name).exists() { Ok(folder) } else { Err(format!("{}: was not built", folder.display())) }
}
