//! How a command ends that is interrupted by Ctrl-C or `kill`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

#[cfg(unix)]
use signal_hook::consts::{SIGINT, SIGTERM};
#[cfg(unix)]
use signal_hook::iterator::Signals;

/// Hears that the process is to end. A command that has something to show for it ends by itself then, once it is
/// [`patient`](Self::be_patient); everything else, and what is told a second time, ends at once, and leaves nothing
/// behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    is_listening: OnceLock<()>,
    is_patient: OnceLock<()>,
    /// By which signal; 0 for none.
    signal: AtomicI32,
    /// To be removed before the process ends at once, and what is to be done then.
    folder: Mutex<Option<PathBuf>>,
    last: OnceLock<fn()>,
}

impl Ending {
    /// From now on the first signal is for [`is_told`](Self::is_told) alone.
    pub(crate) fn be_patient(&self) {
        let _ = self.0.is_patient.set(());
        self.listen();
    }

    /// Has a folder removed if the process ends at once.
    pub(crate) fn remove(&self, folder: &Path) {
        *self.0.folder.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.to_owned());
        self.listen();
    }

    /// Has something done before the process ends at once.
    #[cfg(all(unix, feature = "live"))]
    pub(crate) fn at_last(&self, what: fn()) {
        let _ = self.0.last.set(what);
    }

    pub(crate) fn is_told(&self) -> bool {
        self.0.signal.load(Ordering::Acquire) != 0
    }

    /// The same as by Ctrl-C, where that is a key as any other.
    #[cfg(all(unix, feature = "live"))]
    pub(crate) fn interrupt(&self) {
        self.0.signal.store(SIGINT, Ordering::Release);
    }

    /// The exit status of who was told to end, as shells have it: 128 and the signal's number.
    pub(crate) fn status(&self) -> Option<u8> {
        self.is_told().then(|| status(self.0.signal.load(Ordering::Acquire)))
    }

    #[cfg(unix)]
    fn listen(&self) {
        self.0.is_listening.get_or_init(|| {
            // Without either, signals end the process as ever.
            let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
            let told = self.0.clone();
            let hear = move || signals.forever().for_each(|signal| told.hear(signal));
            let _ = thread::Builder::new().name("ringfeed-ending".to_owned()).spawn(hear);
        });
    }

    #[cfg(not(unix))]
    fn listen(&self) {}
}

impl Told {
    #[cfg(unix)]
    fn hear(&self, signal: i32) {
        // Known before anything else, in case the command ends by itself meanwhile.
        let is_first = self.signal.swap(signal, Ordering::AcqRel) == 0;
        if is_first && self.is_patient.get().is_some() {
            return;
        }
        if let Some(last) = self.last.get() {
            last();
        }
        if let Some(folder) = self.folder.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = std::fs::remove_dir_all(folder);
        }
        signal_hook::low_level::exit(status(signal).into());
    }
}

fn status(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
