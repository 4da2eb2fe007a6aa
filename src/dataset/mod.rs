//! Batches: planning, filling, settling bad records, and the trainer's interface.
//!
//! A [`Source`] splits once into a sequential [`Planner`] (which samples come next, and their bytes if they can only be
//! read in order) and a shared [`Filler`] (bytes to numbers, any row on any thread). `fill.rs` runs a filler over a
//! batch's rows, `settle.rs` removes bad ones. The asynchronous iterator and the shield call the same code, so they
//! give the same bytes.

mod batch;
mod buckets;
mod choice;
mod contract;
mod fill;
mod fit;
mod iterator;
mod labels;
mod policy;
mod reader_filler;
mod reader_source;
mod replace;
mod replay;
mod report;
mod row_limit;
mod sampling;
mod settle;
mod shares;
mod split;
mod state;
mod strata;
mod stream_source;
mod transformed;
mod verify;

pub(crate) use batch::Batch;
pub use batch::DataSet;
pub use buckets::{Beyond, Buckets};
pub(crate) use contract::batches;
pub use contract::{BatchPlan, Filler, LastBatch, OpenedSource, Planner, Positions, Source};
pub(crate) use fill::{PlanTerms, at_largest, fill_rows, measure_plan, measure_rows, plan_batch};
pub use iterator::{AsDyn, ByEpoch, DataSetIterator, Epoch, Epochs};
pub use labels::read_labels;
pub(crate) use policy::DEFAULT_BATCH_SIZE;
pub use policy::{BadLimits, BadRecords};
pub use reader_source::ReaderSource;
pub(crate) use replace::settle_batch;
pub use replay::{Headspace, Replay};
pub(crate) use report::moments;
pub use report::{Moment, Report};
pub(crate) use row_limit::RowLimit;
pub(crate) use sampling::nothing_to_draw;
pub use settle::BadRecord;
pub(crate) use settle::Settle;
pub use split::{Folds, Part, Split};
pub use state::State;
pub use strata::Strata;
pub use stream_source::StreamSource;
pub use transformed::Transformed;
pub(crate) use verify::verify_known;
pub use verify::{Proceed, VerifiedPart, VerifyProgress, VerifyReport, verify_source};
