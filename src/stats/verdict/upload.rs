//! Copies to a device.

use super::judge::{Judge, SATURATED, WAITS};
use super::kinds::{Limit, Verdict};
use crate::stats::numbers::share;
use crate::stats::show::Percent;

impl Judge<'_> {
    /// The trainer waits for the device although the loader is not late, or copies are in progress all the time. The
    /// second case counts because a trainer may let the device wait for copies.
    pub(super) fn upload(&self) -> Option<Verdict> {
        let upload = self.stats.upload.as_ref()?;
        let [copies, loader, trainer] = [upload.copy_wait_seconds, upload.load_wait_seconds, upload.slot_wait_seconds]
            .map(|wait| share(wait, self.seconds));
        // If the loader works all the time, being late at all makes it the limit.
        let is_loader_full = self.busy.max(self.plan) >= SATURATED;
        let is_waited_for = self.waited >= WAITS && loader < if is_loader_full { 0.05 } else { 0.25 } * self.waited;
        let takes_all = copies >= 0.9 && loader < WAITS && trainer < WAITS;
        if !is_waited_for && !takes_all {
            return None;
        }
        let rate = share(upload.bytes as f64, self.seconds) / 1e6;
        // The next limit: the trainer if it waits for the device itself, or the workers.
        let gain = share(1.0, (copies / 2.0).max(1.0 - self.waited).max(self.busy));
        let gain = Some(gain).filter(|gain| is_waited_for && copies >= 0.5 * self.waited && *gain >= self.measure.gain);
        let half = gain
            .map_or_else(String::new, |gain| format!("; half the bytes would be expected to give about {gain:.1}x"));
        let late = format!("the loader was late for {} of the time", Percent(loader));
        let (evidence, advice) = match copies >= 0.5 * self.waited {
            true => (
                format!("copies to the device are the limit (under way {}, {rate:.0} MB/s; {late})", Percent(copies)),
                "copy fewer bytes (images as bytes, converted on the device), use the device's page-locked memory for batches, or use \
                 a faster link"
                    .to_owned()
                    + &half,
            ),
            false => (
                format!("the conversions on the device are the limit (copies {}; {late})", Percent(copies)),
                "convert less there, or have the loader's workers do it".to_owned(),
            ),
        };
        Some(Verdict { gain, ..self.said(Limit::Upload, None, evidence, advice) })
    }
}
