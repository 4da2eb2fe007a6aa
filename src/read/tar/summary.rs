use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::read::images::ClassCount;
use crate::read::summary::Tally;
use crate::read::{FieldSummary, RecordReader, parallel};
use crate::schema::{Dim, Role};
use crate::storage::{Access, Files};

use super::fields::{any_fields, split as split_fields, usual_fields};
use super::index::split;
use super::options::TarOptions;
use super::walk::Walk;
use super::{TarReader, paths};

/// Members of samples with the same extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemberCount {
    /// The part of their names after the first dot, in lower case.
    pub extension: String,
    /// Number of these members.
    pub count: u64,
    /// Their total size in bytes.
    pub bytes: u64,
}

/// A sample in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TarRecord {
    /// The archive.
    pub path: PathBuf,
    /// The path of its members without their extensions.
    pub key: String,
    /// Its class, by name, or by index if it has no name.
    pub label: Option<String>,
}

/// What `inspect` reports about tar archives, from their headers and classes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TarSummary {
    /// Samples.
    pub records: u64,
    /// Archives.
    pub archives: u64,
    /// Number of members that do not belong to a sample.
    pub ignored: u64,
    /// The members of samples, by extension.
    pub members: Vec<MemberCount>,
    /// The classes that occur, in index order; empty unless samples have an image and a `cls`.
    pub classes: Vec<ClassCount>,
    /// The tensors of samples without fields: the image (without statistics) and the class. Empty if samples have no
    /// image, or several.
    pub fields: Vec<FieldSummary>,
    /// The first sample.
    pub first: TarRecord,
    /// The last sample.
    pub last: TarRecord,
}

impl TarSummary {
    /// Summarises the archives at a path, as [`TarReader::open`] finds them.
    ///
    /// # Errors
    ///
    /// As [`TarReader::open`], but samples need not have an image.
    pub fn of(path: impl AsRef<Path>) -> Result<Self> {
        Self::of_these(&Files::local(), path.as_ref())
    }

    /// The same, for archives among these files.
    pub(super) fn of_these(files: &Files, path: &Path) -> Result<Self> {
        let paths = paths::archives(files, path)?;
        let options = TarOptions::default();
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        parallel::in_order(
            parallel::thread_count(None),
            paths.len() as u64,
            |(): &mut (), nth| members_of(files, &paths[nth as usize]),
            |members| {
                for (extension, (count, bytes)) in members {
                    let sum = sums.entry(extension).or_default();
                    *sum = (sum.0 + count, sum.1.saturating_add(bytes));
                }
                Ok(())
            },
        )?;
        let extensions = super::first_extensions(files, &paths)?;
        let usual = usual_fields(&extensions).and_then(|usual| split_fields(&usual, &[]));
        let (is_usual, archives) = (usual.is_ok(), paths.len() as u64);
        // Any member is enough to count samples.
        let fields = usual.map_or_else(|_| any_fields(&extensions[..extensions.len().min(1)]), |(own, _)| own);
        let reader = TarReader::open_all(files, path, paths, fields, &options, &MemoryBudget::unlimited())?;
        let members = sums.into_iter().map(|(extension, (count, bytes))| MemberCount { extension, count, bytes });
        Ok(Self {
            records: reader.len(),
            archives,
            ignored: reader.ignored(),
            members: members.collect(),
            classes: reader.class_counts(),
            fields: if is_usual { reader.field_summaries() } else { Vec::new() },
            first: reader.record(0),
            last: reader.record(reader.len() - 1),
        })
    }
}

/// Number and bytes of an archive's members, by extension.
fn members_of(files: &Files, path: &Path) -> Result<BTreeMap<String, (u64, u64)>> {
    let input = files.open(path, Access::Read)?;
    let mut walk = Walk::new(&input)?;
    let mut members: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    while let Some(member) = walk.next()? {
        let Some((_, extension)) = split(walk.name()) else { continue };
        let sum = members.entry(extension.to_ascii_lowercase()).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(member.size));
    }
    Ok(members)
}

impl TarReader {
    fn class_counts(&self) -> Vec<ClassCount> {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        (0..self.len())
            .filter_map(|sample| self.label(sample))
            .for_each(|class| *counts.entry(class).or_default() += 1);
        let count = |(class, count)| ClassCount { name: self.class_name(class), count };
        counts.into_iter().map(count).collect()
    }

    fn class_name(&self, class: u32) -> String {
        self.classes().get(class as usize).cloned().unwrap_or_else(|| class.to_string())
    }

    fn record(&self, sample: u64) -> TarRecord {
        let (archive, _) = self.find(sample);
        let label = self.label(sample).map(|class| self.class_name(class));
        TarRecord { path: archive.path.clone(), key: self.key(sample).into_owned(), label }
    }

    fn field_summaries(&self) -> Vec<FieldSummary> {
        let mut classes = Tally::default();
        (0..self.len()).filter_map(|sample| self.label(sample)).for_each(|class| classes.add_integer(class.into()));
        let fields = self.tensors().iter().filter(|tensor| tensor.role != Role::Mask).map(|tensor| {
            let is_label = tensor.role == Role::Label;
            let figures = if is_label { classes } else { Tally::default() };
            let present = if is_label { classes.count } else { self.len() };
            FieldSummary {
                name: tensor.name.clone(),
                role: if is_label { "label" } else { "feature" }.to_owned(),
                dtype: tensor.dtype.as_str().to_owned(),
                shape: tensor.shape.iter().map(|dim| if let Dim::Fixed(len) = dim { *len } else { 0 }).collect(),
                count: present,
                missing: self.len() - present,
                sum: figures.sum(),
                min: figures.min(),
                max: figures.max(),
                mean: figures.mean(),
            }
        });
        fields.collect()
    }
}
