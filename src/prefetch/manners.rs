use crate::caught::caught;
use crate::system::{self, allowed_cores, stand_back, thread_cpu};

use super::scheduling::cores;

/// How much of the processor workers may take, and with what priority.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Manners {
    /// The cores that workers run on; empty for all that the process may use.
    pub(crate) cores: Vec<usize>,
    pub(crate) nice: u8,
    /// Largest share of the process's cores that workers may use.
    pub(crate) share: Option<f64>,
}

/// The lowest priority that systems know.
const NICEST: u8 = 19;

/// With less, a worker would pause for minutes after each job.
const LEAST_SHARE: f64 = 0.001;

impl Manners {
    /// Faults of the settings on any machine.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.nice > NICEST {
            faults.push(format!("worker_nice: {}; it is 0 (as any other thread) to {NICEST} (last of all)", self.nice));
        }
        if let Some(share) = self.share.filter(|share| !(LEAST_SHARE..=1.0).contains(share)) {
            let message = "it is a share of the cores' time, at least";
            faults.push(format!("worker_share: {share}; {message} {LEAST_SHARE} and at most 1"));
        }
        faults
    }

    /// Faults of the settings on this machine.
    pub(crate) fn faults_here(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let allowed = allowed_cores();
        if let Some(core) = self.cores.iter().find(|core| !allowed.contains(core)) {
            let advice = match allowed.as_slice() {
                [] => "this system can't bind threads to cores".to_owned(),
                allowed => format!("it may use {allowed:?}"),
            };
            faults.push(format!("worker_cores: core {core} is not available to this process: {advice}"));
        }
        if self.nice > 0 && !cfg!(target_os = "linux") {
            faults.push(format!("worker_nice: {}; this works on Linux only", self.nice));
        }
        if self.share.is_some() && thread_cpu().is_none() {
            faults.push("worker_share: this system does not tell how long a thread was on a core".to_owned());
        }
        faults
    }

    /// Cores whose time workers may use together; `None` if only the process is limited.
    pub(crate) fn most_cores(&self) -> Option<f64> {
        let named = Some(self.cores.len() as f64).filter(|named| *named > 0.0);
        let shared = self.share.map(|share| share * cores() as f64);
        named.into_iter().chain(shared).reduce(f64::min)
    }

    /// Number of cores that workers and the planning thread run on.
    pub(super) fn core_count(&self) -> usize {
        if self.cores.is_empty() { cores() } else { self.cores.len() }
    }

    /// Number of workers that can keep these cores busy.
    pub(crate) fn workers(&self) -> usize {
        self.most_cores().map_or(usize::MAX, |most| most.ceil() as usize).clamp(1, cores())
    }

    /// Applies the settings to the calling thread, which works for the trainer, and to threads that it starts.
    pub(super) fn mind(&self) {
        // The subscriber that hears of a refusal may be the user's and panic; the thread must work all the same.
        let _unheard = caught(|| {
            self.mind_aloud();
            Ok(())
        });
    }

    fn mind_aloud(&self) {
        stand_back();
        #[cfg(target_os = "linux")]
        {
            if !self.cores.is_empty()
                && let Err(error) = system::keep_to_cores(&self.cores)
            {
                tracing::warn!(%error, cores = ?self.cores, "a thread is not kept to its cores");
            }
            if self.nice > 0
                && let Err(error) = system::set_nice(self.nice)
            {
                tracing::warn!(%error, nice = self.nice, "a thread is not made nicer");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn workers_may_be_as_nice_as_the_system_knows() {
        let faults = |nice| Manners { nice, ..Manners::default() }.faults();
        assert!(faults(0).is_empty() && faults(NICEST).is_empty());
        assert!(faults(NICEST + 1)[0].starts_with("worker_nice: 20; it is 0 "));
    }

    #[test]
    fn there_are_as_many_workers_as_they_may_keep_cores_busy() {
        let workers = |cores: &[usize], share| Manners { cores: cores.to_vec(), nice: 0, share }.workers();
        assert_eq!(workers(&[], None), cores());
        let core_count = |cores: &[usize]| Manners { cores: cores.to_vec(), ..Manners::default() }.core_count();
        assert_eq!((core_count(&[]), core_count(&[0])), (cores(), 1));
        assert_eq!((workers(&[0], None), workers(&[0, 1], None)), (1, cores().min(2)));
        assert_eq!((workers(&[], Some(1.0)), workers(&[], Some(1e-3))), (cores(), 1));
    }
}
