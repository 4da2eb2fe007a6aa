//! From records to tensors: what a worker does.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::counters::Damages;
use crate::decode::image::Shared;
use crate::error::{Error, Location, Result};
use crate::random::RandomKey;
use crate::read::codec::Context;
use crate::read::container::Visit;
use crate::read::staged::Staged;
use crate::read::value::Value;
use crate::read::{DecodedBytes, Fingerprint, Job, RecordReader, Sample, Scratch, check_record};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, MAX_EXTENTS, TensorSpec};
use crate::storage::Needs;

use super::{FieldReader, MAX_SOURCES, Target};

/// Some of the targets, by number.
#[derive(Clone)]
pub(super) struct Targets {
    bits: [u64; MAX_SOURCES / 64],
    count: usize,
}

impl Default for Targets {
    fn default() -> Self {
        Self { bits: [0; MAX_SOURCES / 64], count: 0 }
    }
}

impl Targets {
    fn has(&self, number: usize) -> bool {
        self.bits[number / 64] & (1 << (number % 64)) != 0
    }

    fn add(&mut self, number: usize) {
        self.count += usize::from(!self.has(number));
        self.bits[number / 64] |= 1 << (number % 64);
    }
}

impl FieldReader {
    fn located(&self, error: Error, record: u64) -> Error {
        error.at(self.container.place(record))
    }

    /// Writes numbers that the container has in columns to all rows of a job at once. Returns the targets for which
    /// every readable row was written.
    fn write_columns(&self, job: &Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) -> Targets {
        let mut written = Targets::default();
        let count = job.samples().len();
        if count < 2 {
            return written;
        }
        let good = (0..count).filter(|nth| !job.is_bad(*nth)).count();
        // Also records that are bad elsewhere may be held here.
        let good_of = |places: &[(usize, usize)]| match good == count {
            true => places.len(),
            false => places.iter().filter(|(nth, _)| !job.is_bad(*nth)).count(),
        };
        // A field may come in several pieces, one after another.
        let (mut current, mut rows_of_current) = (usize::MAX, 0);
        self.container.columns(scratch, &mut |number, numbers, places| {
            if number != current {
                (current, rows_of_current) = (number, 0);
            }
            let targets = self.targets.get(number).map(Vec::as_slice).unwrap_or_default();
            let mut parts = targets.iter().map(|target| (target, &self.parts[target.part]));
            let is_written = parts.all(|(target, part)| {
                part.codec.write_column(target.nth, numbers, places, &mut rows.part(part.first, part.count))
            });
            rows_of_current += if is_written { good_of(places) } else { 0 };
            if rows_of_current == good {
                targets.iter().for_each(|target| written.add(target.number));
            }
        });
        written
    }

    /// Decodes what was not written yet of a record.
    fn decode_rest(
        &self,
        sample: Sample,
        nth: usize,
        scratch: &mut Scratch,
        row: &mut RowMut<'_>,
        written: &Targets,
    ) -> Result<()> {
        let read = |scratch: &mut Scratch, visit: &mut Visit<'_>| self.container.read(sample.id, nth, scratch, visit);
        self.decode_values(sample.key, scratch, row, written, read).map_err(|error| self.located(error, sample.id))
    }

    /// The same for the values that `read` gives, by the numbers of their fields.
    pub(super) fn decode_values(
        &self,
        key: RandomKey,
        scratch: &mut Scratch,
        row: &mut RowMut<'_>,
        written: &Targets,
        read: impl FnOnce(&mut Scratch, &mut Visit<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut context = Context {
            key,
            budget: &self.budget,
            damages: Damages::default(),
            sizes: Default::default(),
            staged: Vec::new(),
            picture: None,
        };
        if self.stages > 0 {
            context.staged = scratch.take_staged();
            context.staged.resize_with(self.stages, Default::default);
            context.staged.iter_mut().for_each(Staged::clear);
        }
        let mut given = written.clone();
        let mut write = |target: &Target, value: Value<'_>, context: &mut Context<'_>| {
            let part = &self.parts[target.part];
            let written = part.codec.write(target.nth, value, context, &mut row.part(part.first, part.count));
            let checked = written.and_then(|()| match part.size {
                Some(slot) => part.codec.check_size(value, &mut context.sizes[slot]),
                None => Ok(()),
            });
            checked.map_err(|error| error.at_column(&part.name))
        };
        let read = read(scratch, &mut |number, value| {
            let mut targets = self.targets.get(number).map(Vec::as_slice).unwrap_or_default();
            let mut give = |targets: &[Target], context: &mut Context<'_>| {
                targets.iter().filter(|target| !written.has(target.number)).try_for_each(|target| {
                    given.add(target.number);
                    write(target, value, context)
                })
            };
            if let (Value::Bytes(bytes), Some(views)) = (value, self.views.get(number)) {
                let of_views;
                (of_views, targets) = targets.split_at(views.len());
                context.picture = Shared::new(bytes, views, key, &self.budget);
                give(of_views, &mut context)?;
                // Memory of the budget is given back before another codec asks for some.
                context.picture = None;
            }
            give(targets, &mut context)
        });
        let read = read.and_then(|()| match self.target_count - given.count {
            0 => Ok(()),
            _ => {
                let absent = |target: &&Target| !given.has(target.number);
                let mut absent = self.targets.iter().flatten().filter(absent);
                absent.try_for_each(|target| write(target, Value::Missing, &mut context))
            }
        });
        let read = read.and_then(|()| {
            self.unfinished.iter().map(|part| &self.parts[*part]).try_for_each(|part| {
                let finished = part.codec.finish(&mut context, &mut row.part(part.first, part.count));
                finished.map_err(|error| error.at_column(&part.name))
            })
        });
        if self.stages > 0 {
            scratch.keep_staged(context.staged);
        }
        if !context.damages.is_empty() {
            scratch.note(context.damages);
        }
        read
    }

    /// The lengths that vary, of the values that `read` gives.
    pub(super) fn measure_values(&self, read: impl FnOnce(&mut Visit<'_>) -> Result<()>) -> Result<Extents> {
        let mut extents = Extents::default();
        let mut given = Targets::default();
        let mut measure = |target: &Target, value: Value<'_>| {
            let part = &self.parts[target.part];
            part.codec.measure(value, &mut extents).map_err(|error| error.at_column(&part.name))
        };
        read(&mut |number, value| {
            let targets = self.targets.get(number).map(Vec::as_slice).unwrap_or_default();
            targets.iter().try_for_each(|target| {
                given.add(target.number);
                measure(target, value)
            })
        })?;
        if given.count < self.target_count {
            // A missing text has a length, too, if tokens are added to it.
            let mut absent = self.targets.iter().flatten().filter(|target| !given.has(target.number));
            absent.try_for_each(|target| measure(target, Value::Missing))?;
        }
        Ok(extents)
    }
}

impl RecordReader for FieldReader {
    fn len(&self) -> u64 {
        self.container.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.container.need(samples, needs);
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        if self.lengths.each == 0 {
            return Ok(Extents::default());
        }
        let mut extents = Extents::default();
        let known = self.lengths.of(sample).unwrap_or_default();
        if !known.is_empty() && known.iter().all(|length| length.load(Ordering::Relaxed) != u32::MAX) {
            known.iter().zip(&mut extents.0).for_each(|(known, extent)| *extent = known.load(Ordering::Relaxed));
            return Ok(extents);
        }
        let measured = self
            .container
            .fetch(&[sample], 0, scratch)
            .and_then(|()| self.measure_values(|visit| self.container.read(sample, 0, scratch, visit)));
        extents = measured.map_err(|error| self.located(error, sample))?;
        let known = self.lengths.to_be_known(sample, &self.budget).unwrap_or_default();
        known.iter().zip(extents.0).for_each(|(known, extent)| known.store(extent, Ordering::Relaxed));
        Ok(extents)
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        check_record(samples[nth], self.len())?;
        self.container.fetch(samples, nth, scratch).map_err(|error| self.located(error, samples[nth]))
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.decode_rest(sample, nth, scratch, row, &Targets::default())
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        let written = self.write_columns(job, scratch, rows);
        while let Some(nth) = job.advance() {
            let result = match written.count == self.target_count {
                true => Ok(()),
                false => self.decode_rest(job.sample(nth), nth, scratch, &mut rows.row(nth), &written),
            };
            job.report(result);
        }
    }

    fn is_random(&self) -> bool {
        self.parts.iter().any(|part| part.codec.is_random())
    }

    fn chunks(&self) -> Vec<u64> {
        self.container.chunks()
    }

    fn decoded_bytes(&self) -> Option<DecodedBytes> {
        self.container.decoded_bytes()
    }

    fn place(&self, sample: u64) -> Location {
        if sample < self.len() {
            self.container.place(sample)
        } else {
            Location { record: Some(sample), ..Location::default() }
        }
    }

    fn source_file(&self, sample: u64) -> Option<PathBuf> {
        self.container.source_file(sample)
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        self.container.name(sample, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.container.fingerprint()
    }
}

const _: () = assert!(MAX_EXTENTS <= 4 && MAX_SOURCES.is_multiple_of(64));
