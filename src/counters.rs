//! Where statistics are written, by whoever does the work; read by `stats`.

use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Ordering};

/// One stage's figures, summed over its threads.
#[derive(Debug)]
pub(crate) struct StageCounter {
    pub(crate) busy_ns: AtomicU64,
    pub(crate) wait_ns: AtomicU64,
    pub(crate) samples: AtomicU64,
}

impl StageCounter {
    fn new() -> Self {
        Self { busy_ns: AtomicU64::new(0), wait_ns: AtomicU64::new(0), samples: AtomicU64::new(0) }
    }

    pub(crate) fn busy(&self, time: Duration, samples: usize) {
        add(&self.busy_ns, time);
        self.samples.fetch_add(samples as u64, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self, since: Instant) {
        add(&self.wait_ns, since.elapsed());
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// What is wrong with an image that is loaded all the same, as libjpeg loads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    StrayBytes,
    ShortData,
    SurplusData,
    NoCode,
    RestartMarker,
    ScanHeader,
    NoEnd,
}

impl Damage {
    pub(crate) const ALL: [Self; 7] = [
        Self::StrayBytes,
        Self::ShortData,
        Self::SurplusData,
        Self::NoCode,
        Self::RestartMarker,
        Self::ScanHeader,
        Self::NoEnd,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::StrayBytes => "stray bytes before a marker",
            Self::ShortData => "data that ends early",
            Self::SurplusData => "surplus data",
            Self::NoCode => "bits that are no code",
            Self::RestartMarker => "wrong restart markers",
            Self::ScanHeader => "wrong scan headers",
            Self::NoEnd => "no end-of-image marker",
        }
    }
}

/// The kinds of damage of one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damages(u8);

impl Damages {
    pub(crate) fn add(&mut self, damage: Damage) {
        self.0 |= 1 << damage as u8;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Damage> {
        Damage::ALL.into_iter().filter(move |damage| self.0 >> *damage as u8 & 1 == 1)
    }
}

/// How many damaged images were loaded, and by what kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DamageTally {
    pub(crate) images: u64,
    pub(crate) kinds: [u64; Damage::ALL.len()],
}

impl DamageTally {
    pub(crate) fn add(&mut self, damages: Damages) {
        self.images += u64::from(!damages.is_empty());
        for damage in damages.iter() {
            self.kinds[damage as usize] += 1;
        }
    }

    pub(crate) fn add_all(&mut self, other: Self) {
        self.images += other.images;
        for (kind, count) in self.kinds.iter_mut().zip(other.kinds) {
            *kind += count;
        }
    }
}

/// All figures of one iterator.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) plan: StageCounter,
    pub(crate) read: StageCounter,
    pub(crate) decode: StageCounter,
    pub(crate) trainer_wait_ns: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) samples: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) replaced: AtomicU64,
    pub(crate) refilled: AtomicU64,
    pub(crate) left_behind: AtomicU64,
    pub(crate) moved_rows: AtomicU64,
    pub(crate) scope_spilled: AtomicU64,
    pub(crate) detached: AtomicU64,
    pub(crate) damaged: AtomicU64,
    /// By kind.
    pub(crate) damage: [AtomicU64; Damage::ALL.len()],
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            plan: StageCounter::new(),
            read: StageCounter::new(),
            decode: StageCounter::new(),
            trainer_wait_ns: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            refilled: AtomicU64::new(0),
            left_behind: AtomicU64::new(0),
            moved_rows: AtomicU64::new(0),
            scope_spilled: AtomicU64::new(0),
            detached: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            damage: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(crate) fn count_damage(&self, tally: DamageTally) {
        if tally.images == 0 {
            return;
        }
        self.damaged.fetch_add(tally.images, Ordering::Relaxed);
        for (counter, count) in self.damage.iter().zip(tally.kinds) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn trainer_waited(&self, since: Instant) {
        add(&self.trainer_wait_ns, since.elapsed());
    }
}
