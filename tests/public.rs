//! What types promise beside their methods: which threads they may go to, that texts are read as they are written, and
//! that settings are all in the guide.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use ringfeed::device::{DeviceDataSet, DeviceDataSetIterator, DeviceName, HostDevice, HostStream, Upload};
use ringfeed::formats::{self, Format};
use ringfeed::inspect::{BadRecord, RunPlan, VerifyReport};
use ringfeed::memory::{Block, MemoryBudget, Reservation, Scopes};
use ringfeed::normalise::NormaliserFit;
use ringfeed::order::{Buckets, Folds, Permutation, RandomKey, Shard, Split, State, Subset};
use ringfeed::read::{Concat, FieldReader, MemoryReader, SampleStream, Scratch};
use ringfeed::settings::{BadLimits, MemoryConfig};
use ringfeed::source::{ReaderSource, StreamSource, Transformed};
use ringfeed::stats::Stats;
use ringfeed::storage::Files;
use ringfeed::tensor::{Layout, Schema, TensorView};
use ringfeed::transform::Transforms;
use ringfeed::workspace::{FetchLimit, Shielded, WorkspaceBuilder};
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

/// A deserializer that asks a type for the names of its keys, and gives nothing.
struct Keys<'a>(&'a mut Vec<&'static str>);

impl<'de> serde::Deserializer<'de> for Keys<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: serde::de::Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.extend(fields);
        Err(serde::de::Error::custom("these are the keys"))
    }

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("this is no table of keys"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

fn keys<'de, T: serde::Deserialize<'de>>() -> Vec<&'static str> {
    let mut keys = Vec::new();
    let error = T::deserialize(Keys(&mut keys)).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("these are the keys"), "{}", std::any::type_name::<T>());
    keys
}

#[test]
fn every_setting_and_every_option_of_a_format_is_in_the_guide() {
    let guide = include_str!("../src/guide/settings.md");
    let is_named = |key: &str| {
        let (begin, end) = (format!("`{key}`"), format!(".{key}`"));
        guide.contains(&begin) || guide.contains(&end)
    };
    let in_tables = [keys::<Split>(), keys::<Folds>(), keys::<Buckets>(), keys::<BadLimits>(), keys::<FetchLimit>()];
    let in_tables = in_tables.concat().into_iter().chain(keys::<ringfeed::read::Windows>());
    let missing: Vec<&str> = in_tables.filter(|key| !guide.contains(&format!("{key} = "))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let keys_of_all = keys::<LoaderConfig>().into_iter().chain(keys::<MemoryConfig>());
    let missing: Vec<&str> = keys_of_all.filter(|key| *key != "memory" && !is_named(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");

    fn of<F: Format>(_: F) -> (&'static str, Vec<&'static str>) {
        (F::NAME, keys::<F::Options>())
    }
    let of_all = [
        of(formats::Csv),
        of(formats::CsvSequences),
        of(formats::TextLines),
        of(formats::Jsonl),
        of(formats::Libsvm),
        of(formats::TfRecord),
        of(formats::Mds),
        of(formats::LitData),
        of(formats::Npy),
        of(formats::Npz),
        of(formats::Safetensors),
        of(formats::Idx),
        of(formats::Raw),
        of(formats::TokenFiles),
        of(formats::TextTokens),
        of(formats::Images),
        of(formats::AudioFolder),
        of(formats::Tar),
        #[cfg(feature = "parquet")]
        of(formats::Parquet),
        #[cfg(feature = "parquet")]
        of(formats::Arrow),
    ];
    for (name, options) in of_all {
        let row = guide.lines().find(|line| {
            line.strip_prefix("| `")
                .and_then(|row| row.split(" |").next())
                .is_some_and(|names| names.contains(&format!("{name}`")))
        });
        assert!(row.is_some(), "{name} has no row");
        let missing: Vec<&str> = options.into_iter().filter(|key| !is_named(key)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}
