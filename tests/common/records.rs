//! What a container's records hold, and what becomes of them.

use ringfeed::error::Location;
use ringfeed::field::Field;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, FieldReader, Scratch, Value};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::{AsyncDataSetIterator, Result, Workspace};
use serde_json::Value as Json;

/// A value as JSON has it.
pub fn json(value: Value<'_>) -> Json {
    match value {
        Value::Missing => Json::Null,
        Value::Bool(flag) => flag.into(),
        Value::I64(number) => number.into(),
        Value::F64(number) => number.into(),
        Value::Decimal(text) => serde_json::from_str(text).expect("a number"),
        Value::Text(text) => text.into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::Numbers(ringfeed::tensor::NumberSlice::I64(numbers)) => numbers.into(),
        Value::Numbers(numbers) => (0..numbers.len()).map(|at| Json::from(numbers.at(at))).collect(),
        Value::List(list) => {
            let mut all = Vec::new();
            list.each(&mut |value| {
                all.push(json(value));
                Ok(())
            })
            .expect("a list");
            all.into()
        }
        _ => panic!("another kind of value"),
    }
}

/// These fields of each record, null where it has none; or what is wrong with the record.
pub fn values(container: &mut dyn Container, fields: &[&str]) -> Vec<Result<Vec<Json>>> {
    let numbers: Vec<usize> = fields.iter().map(|field| container.find(&(*field).into()).unwrap()).collect();
    let mut scratch = Scratch::default();
    let records: Vec<u64> = (0..container.len()).collect();
    let mut read = |nth: usize| {
        container.fetch(&records, nth, &mut scratch)?;
        let mut row = vec![Json::Null; numbers.len()];
        container.read(records[nth], nth, &mut scratch, &mut |number, value| {
            let wanted = numbers.iter().zip(&mut row).filter(|(wanted, _)| **wanted == number);
            wanted.for_each(|(_, slot)| *slot = json(value));
            Ok(())
        })?;
        Ok(row)
    };
    (0..records.len()).map(&mut read).collect()
}

/// The bytes of each record's tensors; `None` of a bad record.
pub fn tensors(container: impl Container + 'static, fields: &[(String, Field)]) -> Vec<Option<Vec<Vec<u8>>>> {
    let reader = FieldReader::new(container, fields, &MemoryBudget::unlimited()).unwrap();
    let workspace = Workspace::builder().workers(2).build().unwrap();
    let source = ReaderSource::new(reader).batch_size(1).bad_records(BadRecords::skip(BadLimits::default()));
    let batches = AsyncDataSetIterator::new(source, &workspace).unwrap().map(|batch| batch.unwrap());
    let bytes = |batch: ringfeed::DataSet| batch.tensors().map(|tensor| tensor.bytes().to_vec()).collect();
    batches.map(|batch| (!batch.is_empty()).then(|| bytes(batch))).collect()
}

/// Record, line, column and byte.
pub fn place(location: &Location) -> (Option<u64>, Option<u64>, Option<&str>, Option<u64>) {
    (location.record, location.line, location.column.as_deref(), location.byte)
}
