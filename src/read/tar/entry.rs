//! Tar archives among the formats.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::{Field, faults_of_fields};
use crate::read::format::{Details, Format, InspectedRecord, Inspection, Open, Opened, format_has};
use crate::read::{ColumnRef, Container, FieldReader, IgnoredFiles, RecordReader, named_geometries};
use crate::storage::Files;

use super::container::TarMembers;
use super::fields::{split, usual_fields};
use super::paths::{archives, is_tar};
use super::{TarOptions, TarReader, TarRecord, TarSummary, first_extensions, is_tar_name};

/// The format of samples in tar archives, as WebDataset packs them.
#[derive(Clone, Copy, Debug)]
pub struct Tar;

/// The members that all samples have.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`] for one that some do not have.
fn all_members(paths: &[PathBuf]) -> Result<Vec<ColumnRef>> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let mut records = 0;
    for path in paths {
        let summary = TarSummary::of(path)?;
        records += summary.records;
        summary.members.into_iter().for_each(|member| *all.entry(member.extension).or_default() += member.count);
    }
    let all = all.into_iter().map(|(extension, count)| match count == records {
        true => Ok(extension.into()),
        false => {
            let message =
                format!("{count} of {records} samples have a member {extension:?}; name the members that all have");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    });
    all.collect()
}

impl Format for Tar {
    const NAME: &'static str = "tar";
    type Options = TarOptions;

    /// A header of ustar or GNU tar. The format before these has no mark; it is recognised by the file's name.
    fn sniff(&self, head: &[u8], path: &Path) -> bool {
        head.get(257..262) == Some(b"ustar") || is_tar_name(path)
    }

    /// Patterns and folders are resolved here, so that `inspect` and the saved index cover all archives.
    fn takes_whole(&self, _: &Files, _: &Path) -> bool {
        true
    }

    fn has_name(&self, name: &str) -> bool {
        is_tar(name)
    }

    fn title(&self) -> Option<&'static str> {
        Some("tar archives of samples and folders of them")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        Some("a compressed tar archive: its samples can't be read at random; decompress it first")
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        head.is_none() && is_tar_name(path)
    }

    fn field_faults(&self, _: &TarOptions, fields: &[(String, Field)]) -> Vec<String> {
        faults_of_fields(fields, |fields| split(fields, &[]))
    }

    fn usual_fields(&self, _: &TarOptions, at: &Open<'_>) -> Result<Vec<(String, Field)>> {
        let extensions = first_extensions(at.files, &archives(at.files, at.path)?)?;
        usual_fields(&extensions).map_err(|error| error.at_path(at.path))
    }

    format_has!(access, saved_index, one_of_many, reading_by_name);

    fn has_members(&self) -> bool {
        true
    }

    fn open_many(&self, options: &TarOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        let archives = paths.iter().map(|path| archives(at.files, path)).collect::<Result<Vec<_>>>()?.concat();
        let open = |own| TarReader::open_all(at.files, at.path, archives.clone(), own, options, at.budget);
        if at.fields.is_empty() {
            return Ok(Opened::reader(open(Vec::new())?));
        }
        let at_path = |error: Error| error.at_path(at.path);
        let fields = named_geometries(at.fields).map_err(at_path)?;
        let (own, others) = split(&fields, &[]).map_err(at_path)?;
        let mut own = if own.is_empty() { None } else { Some(open(own)?) };
        let lists = own.as_ref().map_or(Ok(Vec::new()), TarReader::lists_in_json)?;
        let others = if lists.is_empty() {
            others
        } else {
            let (single, others) = split(&fields, &lists).map_err(at_path)?;
            own = if single.is_empty() { None } else { Some(open(single)?) };
            others
        };
        let mut readers: Vec<Arc<dyn RecordReader>> = Vec::new();
        readers.extend(own.map(|own| Arc::new(own) as _));
        if !others.is_empty() {
            let wanted: Vec<ColumnRef> = others.iter().flat_map(|(name, field)| field.columns(name)).collect();
            let members = TarMembers::open(at.files, at.path, archives.clone(), options, &wanted, at.budget)?;
            readers.extend(FieldReader::with_files(Box::new(members), &others, at.files, at.budget)?);
        }
        Ok(Opened::Readers(readers))
    }

    fn open_values(&self, options: &TarOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let archives = paths.iter().map(|path| archives(at.files, path)).collect::<Result<Vec<_>>>()?.concat();
        let mut wanted: Vec<ColumnRef> = at.fields.iter().flat_map(|(name, field)| field.columns(name)).collect();
        if wanted.is_empty() {
            wanted = all_members(paths).map_err(|error| error.at_path(at.path))?;
        }
        Ok(Box::new(TarMembers::open(at.files, at.path, archives, options, &wanted, at.budget)?))
    }

    fn inspect(&self, _: &TarOptions, at: &Open<'_>) -> Result<Inspection> {
        let summary = TarSummary::of_these(at.files, at.path)?;
        let inspected = |record: TarRecord| {
            let path = record.path.to_string_lossy().into_owned();
            Some(InspectedRecord::Member { path, key: record.key, label: record.label })
        };
        Ok(Inspection {
            fields: summary.fields,
            first: inspected(summary.first),
            last: inspected(summary.last),
            details: Details::Archives {
                archives: summary.archives,
                members: summary.members,
                classes: summary.classes,
                ignored: summary.ignored,
                files: IgnoredFiles::beside(at.files, at.path, is_tar_name)?.into(),
            },
            ..Inspection::new(at.path, Self::NAME, summary.records)
        })
    }
}
