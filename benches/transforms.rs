//! What transforms and scopes cost beside the same work without them.

mod common;

use std::hint::black_box;
use std::sync::Arc;

use common::{Case, Options, Table};
use cpu_time::ThreadTime;
use ringfeed::error::Location;
use ringfeed::read::{MemoryReader, RecordReader, RowMut, Sample, Scratch};
use ringfeed::source::{ReaderSource, Transformed};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::{Outputs, Row, Scope, Scopes, Tensors, Transform, Transforms};
use ringfeed::{AsyncShieldDataSetIterator, Result, Workspace};

const ABOUT: &str = "\
Processor time of the calling thread, behind a shield. Samples: nanoseconds for each of 200,000 samples of 16 numbers (f32) \
in memory, doubled by the reader itself; by a transform where they are; by a closure that adds a tensor, with and without \
the one that it reads. Arrays: nanoseconds for three arrays of zeros (1, 8 and 64 KB, or 64 bytes each) and one write to \
each, from a scope, from a bump allocator (bumpalo) that is reset, and from the system's allocator.";

const SAMPLES: usize = 200_000;
const COLUMNS: usize = 16;
const CYCLES: u32 = 20_000;

fn main() -> Result<()> {
    let Some(options) = Options::from_args(9) else { return Ok(()) };
    let mut table = Table::new(ABOUT, &["what", "how"], &[("ns", 1)]);
    let values: Arc<[f32]> = (0..SAMPLES * COLUMNS).map(|i| (i % 1000) as f32).collect();
    let memory = || MemoryReader::new("x", Role::Feature, &[COLUMNS], values.clone());
    let closure = || {
        Transforms::new().map(TensorSpec::f32("y", [COLUMNS]), |row, out, _| {
            double(row.f32("x")?, out.f32()?);
            Ok(())
        })
    };
    table.measure(
        options.rounds,
        vec![
            epochs("the reader", ReaderSource::new(Doubling::new(&values)), Transforms::new())?,
            epochs("plain, not doubled", ReaderSource::new(memory()?), Transforms::new())?,
            epochs("a transform in place", ReaderSource::new(memory()?), Transforms::new().and(InPlace))?,
            epochs("a closure", ReaderSource::new(memory()?), closure().remove("x"))?,
            epochs("a closure beside its input", ReaderSource::new(memory()?), closure())?,
        ],
    );
    for (name, sizes) in [("arrays of 64 bytes", [16, 16, 16]), ("arrays of 1, 8 and 64 KB", [256, 2048, 16384])] {
        let scopes = Scopes::default();
        let mut bump = bumpalo::Bump::new();
        let of_scope = Case::new(&[&name, &"a scope"], move || {
            let mut scope = scopes.enter();
            vec![nanoseconds(CYCLES, || {
                sizes.iter().for_each(|len| touch(scope.zeros::<f32>([*len])));
                scope.next();
            })]
        });
        let of_bump = Case::new(&[&name, &"bumpalo"], move || {
            vec![nanoseconds(CYCLES, || {
                sizes.iter().for_each(|len| touch(bump.alloc_slice_fill_copy(*len, 0.0f32)));
                bump.reset();
            })]
        });
        let of_system = Case::new(&[&name, &"vec!"], move || {
            vec![nanoseconds(CYCLES, || sizes.iter().for_each(|len| touch(&mut vec![0.0f32; *len])))]
        });
        table.measure(options.rounds, vec![of_scope, of_bump, of_system]);
    }
    table.print(&options);
    Ok(())
}

fn touch(array: &mut [f32]) {
    array[array.len() / 2] += 1.0;
    black_box(array);
}

fn nanoseconds(times: u32, mut work: impl FnMut()) -> f64 {
    let begin = ThreadTime::now();
    (0..times).for_each(|_| work());
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(times)
}

/// One epoch a run, in nanoseconds a sample.
fn epochs(name: &str, source: ReaderSource, list: Transforms) -> Result<Case<'static>> {
    let workspace = Workspace::builder().workers(1).build()?;
    let source = Transformed::new(source.batch_size(256), list);
    let mut batches = AsyncShieldDataSetIterator::new(source, &workspace)?;
    Ok(Case::new(&[&"samples", &name], move || {
        let epoch = nanoseconds(1, || {
            batches.by_ref().for_each(|batch| drop(black_box(batch.expect("memory has no bad records"))));
            ringfeed::DataSetIterator::reset(&mut batches).expect("memory can be read again");
        });
        vec![epoch / SAMPLES as f64]
    }))
}

fn double(from: &[f32], into: &mut [f32]) {
    into.iter_mut().zip(from).for_each(|(into, x)| *into = 2.0 * x);
}

/// Doubles while it decodes.
struct Doubling {
    values: Arc<[f32]>,
    tensors: [TensorSpec; 1],
}

impl Doubling {
    fn new(values: &Arc<[f32]>) -> Self {
        Self { values: values.clone(), tensors: [TensorSpec::f32("y", [COLUMNS])] }
    }
}

impl RecordReader for Doubling {
    fn len(&self) -> u64 {
        SAMPLES as u64
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let start = sample.id as usize * COLUMNS;
        double(&self.values[start..start + COLUMNS], row.tensor(0).f32()?);
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

struct InPlace;

impl Transform for InPlace {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.change("x")
    }

    fn apply(&self, _: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        out.tensor(0).f32()?.iter_mut().for_each(|x| *x *= 2.0);
        Ok(())
    }
}
