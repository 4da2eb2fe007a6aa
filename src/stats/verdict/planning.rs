//! The thread that plans.

use super::judge::{Judge, WAITS};
use super::kinds::{Limit, Verdict};
use crate::stats::Planning;
use crate::stats::numbers::share;
use crate::stats::show::Percent;

impl Judge<'_> {
    /// The trainer waits for plans, and the thread that makes them waits for a core.
    pub(super) fn planning_without_core(&self) -> Option<Verdict> {
        let (plan, waited) = (&self.stats.stages[0], self.stats.queue.wait_plan_seconds);
        let queued = plan.queued_seconds?;
        let is_waited_for = waited >= 0.5 * self.stats.trainer.wait_seconds && queued >= 0.4 * waited;
        let queued = share(queued, self.seconds).min(1.0);
        (is_waited_for && queued >= WAITS && queued >= 0.5 * self.plan).then(|| self.without_core("planning", queued))
    }

    pub(super) fn planning(&self) -> Verdict {
        let (what, advice) = match self.stats.planning {
            Planning::Order => ("choosing samples", "the source plans slowly: larger batches may help"),
            Planning::Lengths => (
                "choosing samples and measuring their lengths",
                "the source measures slowly: tensors of one length need no measuring",
            ),
            Planning::Stream => (
                "reading the records, which can only be read in order,",
                "unpack the file, so that all workers can read it, or split it into several",
            ),
            Planning::Iterator => (
                "your own iterator",
                "let it give less, such as names or bytes, and do the work in the workers (a container or a transform of \
                 your own)",
            ),
        };
        let idle = Percent(1.0 - self.busy);
        let evidence = format!("{what} is the limit (one thread, busy {}; workers idle {idle})", Percent(self.plan));
        self.said(Limit::Planning, Some("plan"), evidence, advice)
    }
}
