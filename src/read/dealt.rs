//! Divides a worker's job among several parts of a data set.

use super::Scratch;

/// If there are more parts than this, parts share a worker's buffers.
const OWN_BUFFERS: usize = 64;

/// A job's records, dealt to the parts that they belong to, and a worker's buffers for each part.
#[derive(Default)]
pub(super) struct Dealt {
    /// For each record of the job, its slot, and its place among the records of the same part.
    records: Vec<(usize, usize)>,
    slots: Vec<Slot>,
    /// For each part, its slot, if it has one.
    of_part: Vec<Option<usize>>,
    used: Vec<usize>,
    /// The job that was dealt.
    samples: Vec<u64>,
    measuring: Scratch,
}

/// A part's share of the job.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) part: usize,
    /// The job's records, by the part's own numbers.
    pub(super) records: Vec<u64>,
    /// Their places in the job.
    pub(super) places: Vec<usize>,
    pub(super) scratch: Scratch,
    /// Whether the first of its records was requested.
    pub(super) has_begun: bool,
}

impl Dealt {
    /// Gives each part its own records of the job, so that reading ahead stays within them.
    pub(super) fn deal_job(&mut self, parts: usize, samples: &[u64], locate: impl Fn(u64) -> (usize, u64)) {
        self.deal(parts, samples.iter().map(|sample| locate(*sample)));
        self.samples.clear();
        self.samples.extend_from_slice(samples);
    }

    /// Whether the job that was [dealt](Self::deal_job) last has these records.
    pub(super) fn is_of(&self, samples: &[u64]) -> bool {
        self.samples == samples
    }

    /// The same without remembering the job.
    pub(super) fn deal(&mut self, parts: usize, records: impl Iterator<Item = (usize, u64)>) {
        self.samples.clear();
        self.records.clear();
        for part in self.used.drain(..) {
            if let Some(slot) = self.of_part.get_mut(part).and_then(Option::take) {
                self.slots[slot].records.clear();
                self.slots[slot].places.clear();
                self.slots[slot].has_begun = false;
            }
        }
        self.of_part.resize(parts, None);
        for (place, (part, record)) in records.enumerate() {
            let slot = match self.of_part[part] {
                Some(slot) => slot,
                None => {
                    let slot = if parts <= OWN_BUFFERS { part } else { self.used.len() };
                    if self.slots.len() <= slot {
                        self.slots.resize_with(slot + 1, Slot::default);
                    }
                    self.slots[slot].part = part;
                    self.of_part[part] = Some(slot);
                    self.used.push(part);
                    slot
                }
            };
            self.records.push((slot, self.slots[slot].records.len()));
            self.slots[slot].records.push(record);
            self.slots[slot].places.push(place);
        }
    }

    /// Calls `each` with the slot of each part that has records of the job.
    pub(super) fn each(&mut self, mut each: impl FnMut(&mut Slot)) {
        for part in &self.used {
            if let Some(slot) = self.of_part[*part] {
                each(&mut self.slots[slot]);
            }
        }
    }

    /// The slot of the job's `nth` record, and the record's place there. The job must have been dealt.
    pub(super) fn of(&mut self, nth: usize) -> (&mut Slot, usize) {
        let (slot, nth) = self.records[nth];
        (&mut self.slots[slot], nth)
    }

    /// The buffers that hold the job's `nth` record, and its place there. If no job was dealt (records that lie in
    /// memory), any buffers.
    pub(super) fn read(&mut self, nth: usize) -> (&mut Scratch, usize) {
        match self.records.get(nth).copied() {
            Some((slot, nth)) => (&mut self.slots[slot].scratch, nth),
            None => (&mut self.measuring, nth),
        }
    }

    /// Buffers for what is not part of a job.
    pub(super) fn aside(&mut self) -> &mut Scratch {
        &mut self.measuring
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_finds_its_part_and_few_buffers_serve_many_parts() {
        let mut dealt = Dealt::default();
        for job in 0..20usize {
            let records: Vec<(usize, u64)> = (0..9).map(|at| ((job * 37 + at * 5) % 1000, at as u64)).collect();
            for _ in 0..2 {
                let again: Vec<_> = records.iter().chain(&records[..3]).copied().collect();
                dealt.deal(1000, again.iter().copied());
                for (nth, (part, record)) in again.iter().enumerate() {
                    let (slot, place) = dealt.of(nth);
                    assert_eq!((slot.part, slot.records[place]), (*part, *record));
                    assert!(!slot.has_begun || place > 0);
                    slot.has_begun = true;
                }
            }
        }
        assert!(dealt.slots.len() <= 9);
        dealt.deal(3, [(2, 0), (0, 5), (2, 1)].into_iter());
        assert_eq!(dealt.of(1).0.part, 0);
        assert_eq!(dealt.of(2).0.records, [0, 1]);
    }
}
