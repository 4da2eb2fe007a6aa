//! A format of a user's own, in one file.
#![expect(unreachable_pub, reason = "a module of several test files")]

use std::path::Path;

use ringfeed::error::Location;
use ringfeed::formats::{Format, Open, Opened};
use ringfeed::inspect::{Details, Inspection};
use ringfeed::read::{Container, FieldInfo, FieldKind, Lines, Scratch, Value, Visit};
use ringfeed::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Numbers in base 10 or another, a record each, with a name: `name=1f`.
struct Pairs {
    lines: Lines,
    base: u32,
    fields: [FieldInfo; 2],
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PairOptions {
    pub base: u32,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self { base: 10 }
    }
}

#[derive(Clone, Copy)]
pub struct PairFormat;

impl Format for PairFormat {
    const NAME: &'static str = "pairs";
    type Options = PairOptions;

    fn sniff(&self, _: &[u8], _: &Path) -> bool {
        false
    }

    fn has_name(&self, name: &str) -> bool {
        name.ends_with(".pairs")
    }

    fn faults(&self, options: &PairOptions) -> Vec<String> {
        let is_base = (2..=36).contains(&options.base);
        if is_base { Vec::new() } else { vec![format!("base: {}; there are 2 to 36", options.base)] }
    }

    fn open(&self, options: &PairOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        let fields = [
            FieldInfo::new("name", FieldKind::Text),
            FieldInfo::new("value", FieldKind::Numbers(ringfeed::DType::I64)),
        ];
        Ok(Pairs { lines: Lines::open(at.files, at.path, &Default::default(), at.budget)?, base: options.base, fields })
    }

    fn inspect(&self, options: &PairOptions, at: &Open<'_>) -> Result<Inspection> {
        let mut inspection = Inspection::of_opened(Self::NAME, self.open(options, at)?.into(), at)?;
        inspection.details = Details::Named { details: vec![("base".to_owned(), options.base.to_string())] };
        Ok(inspection)
    }
}

impl Container for Pairs {
    fn len(&self) -> u64 {
        self.lines.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.lines.fetch(records, nth, scratch)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        self.lines.read(record, nth, scratch, &mut |_, value| {
            let Value::Text(line) = value else { return Ok(()) };
            let (name, number) =
                line.split_once('=').ok_or_else(|| Error::new(ErrorKind::Data, "expected name=number"))?;
            visit(0, Value::Text(name))?;
            match i64::from_str_radix(number, self.base) {
                Ok(number) => visit(1, Value::I64(number)),
                Err(error) => Err(Error::new(ErrorKind::Data, error.to_string())),
            }
        })
    }

    fn place(&self, record: u64) -> Location {
        self.lines.place(record)
    }
}
