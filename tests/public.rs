//! What types promise beside their methods: which threads they may go to, and that texts are read as they are written.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use ringfeed::device::{DeviceDataSet, DeviceDataSetIterator, DeviceName, HostDevice, HostStream, Upload};
use ringfeed::inspect::{BadRecord, RunPlan, VerifyReport};
use ringfeed::memory::{Block, MemoryBudget, Reservation, Scopes};
use ringfeed::normalise::NormaliserFit;
use ringfeed::order::{Permutation, RandomKey, Shard, State, Subset};
use ringfeed::read::{Concat, FieldReader, MemoryReader, SampleStream, Scratch};
use ringfeed::source::{ReaderSource, StreamSource, Transformed};
use ringfeed::stats::Stats;
use ringfeed::storage::Files;
use ringfeed::tensor::{Layout, Schema, TensorView};
use ringfeed::transform::Transforms;
use ringfeed::workspace::{Shielded, WorkspaceBuilder};
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSet, Error, Loader, LoaderConfig, Normaliser,
    Workspace,
};

#[test]
fn what_is_shared_between_threads_may_be() {
    fn shared<T: Send + Sync + Debug>() {}
    shared::<DataSet>();
    shared::<TensorView<'static>>();
    shared::<Workspace>();
    shared::<WorkspaceBuilder>();
    shared::<Loader>();
    shared::<LoaderConfig>();
    shared::<Error>();
    shared::<State>();
    shared::<Stats>();
    shared::<BadRecord>();
    shared::<RunPlan>();
    shared::<VerifyReport>();
    shared::<Normaliser>();
    shared::<NormaliserFit>();
    shared::<Transforms>();
    shared::<Files>();
    shared::<Schema>();
    shared::<Layout>();
    shared::<Block>();
    shared::<MemoryBudget>();
    shared::<Reservation>();
    shared::<Permutation>();
    shared::<RandomKey>();
    shared::<Subset>();
    shared::<MemoryReader<f32>>();
    shared::<Concat>();
    shared::<FieldReader>();
    shared::<ringfeed::arrays::IdxReader>();
    shared::<ringfeed::arrays::NpyReader>();
    shared::<ringfeed::arrays::RawReader>();
    shared::<ringfeed::csv::CsvReader>();
    shared::<ringfeed::images::ImageFolder>();
    shared::<ringfeed::sequences::CsvSequenceReader>();
    shared::<ringfeed::tar::TarReader>();
    shared::<ringfeed::tokens::TokenReader>();
    shared::<HostDevice>();
    shared::<HostStream>();
    shared::<DeviceDataSet<HostDevice>>();
}

#[test]
fn what_one_thread_at_a_time_uses_may_go_to_another_one() {
    fn sent<T: Send + Debug>() {}
    sent::<AsyncDataSetIterator>();
    sent::<AsyncShieldDataSetIterator>();
    sent::<ReaderSource>();
    sent::<StreamSource>();
    sent::<Shielded<ReaderSource>>();
    sent::<Transformed<ReaderSource>>();
    sent::<ringfeed::csv::CsvStream>();
    sent::<SampleStream>();
    sent::<Scratch>();
    sent::<Scopes>();
    sent::<Upload<HostDevice>>();
    sent::<DeviceDataSetIterator<HostDevice>>();
}

#[test]
fn texts_are_read_as_they_are_written() {
    fn back<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
        let value: T = text.parse().unwrap();
        assert_eq!(value.to_string(), text);
        assert_eq!(value.to_string().parse::<T>().unwrap(), value);
    }
    for text in ["f32", "bf16", "f16", "f64", "u8", "i64"] {
        back::<DType>(text);
    }
    for text in ["host", "cuda:3"] {
        back::<DeviceName>(text);
    }
    back::<Shard>("2/8");
}
