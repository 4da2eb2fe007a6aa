//! Tar archives among the formats.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::decode::{ImageOptions, LabelFormat};
use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::{Codec, Field, Numbers};
use crate::read::format::{Details, Entry, Format, Inspection, Open, Opened, format_has};
use crate::read::{
    ColumnRef, Container, FieldReader, IgnoredFiles, Missing, RecordReader, named_geometries, own_options,
};

use crate::storage::Files;

use super::container::{Member, TarMembers};
use super::{
    ClassBy, TarField, TarOptions, TarReader, TarRecord, TarSummary, is_tar_name, paths::archives, paths::is_tar,
};

/// The format of samples in tar archives, as WebDataset packs them.
#[derive(Clone, Copy, Debug)]
pub struct Tar;

/// The options that give those of `fields` that this reader decodes by itself, and the others.
fn split(options: &TarOptions, fields: &[(String, Field)]) -> Result<(TarOptions, Vec<(String, Field)>)> {
    let mut own = options.clone();
    let mut others = Vec::new();
    own.fields.clear();
    let mut has_image = false;
    // Views of one member are read together.
    let is_view = |name: &str, field: &Field| {
        let is_picture = |of: &Field| matches!(of.codec, Codec::Image(_));
        let same = |(other, of): &&(String, Field)| is_picture(of) && of.columns(other) == field.columns(name);
        fields.iter().filter(same).count() > 1
    };
    for (name, field) in fields {
        let members = field.columns(name).iter().map(Member::of).collect::<Result<Vec<_>>>();
        let members = members.map_err(|error| error.at_column(name))?;
        let member = match members.as_slice() {
            [member] if !field.is_file && !field.is_several() => member.clone(),
            _ => {
                others.push((name.clone(), field.clone()));
                continue;
            }
        };
        match &field.codec {
            Codec::Image(image) if !is_view(name, field) && !std::mem::replace(&mut has_image, true) => {
                let extension = (!field.from.is_empty()).then(|| member.extension.clone());
                let ImageOptions { label_name, classes, labels, .. } = own.images;
                own.images = ImageOptions { label_name, classes, labels, ..own_options(name, image, &options.images) };
                own.fields.push(TarField::Image { extension });
            }
            Codec::Class { names, one_hot } => {
                let extension = if field.from.is_empty() { "cls".to_owned() } else { member.extension };
                let by = if names.is_some() { ClassBy::Name } else { ClassBy::Index };
                own.fields.push(TarField::Class { extension, pointer: member.pointer, by });
                own.images.label_name.clone_from(name);
                own.images.classes.clone_from(names);
                own.images.labels = if *one_hot { LabelFormat::OneHot } else { LabelFormat::I64 };
            }
            Codec::Text { max_len, longer } if member.pointer.is_none() => own.fields.push(TarField::Text {
                extension: member.extension,
                name: Some(name.clone()),
                max_len: *max_len,
                longer: *longer,
            }),
            Codec::Numbers(Numbers {
                dtype,
                shape: None,
                max_len: None,
                missing: Missing::Error,
                ragged: false,
                ..
            }) => {
                own.fields.push(TarField::Number {
                    extension: member.extension,
                    pointer: member.pointer,
                    name: Some(name.clone()),
                    role: field.role_or_default(),
                    dtype: *dtype,
                });
            }
            _ => others.push((name.clone(), field.clone())),
        }
    }
    Ok((own, others))
}

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

    /// A header of ustar or GNU tar; the one before it has no mark, and goes by its name.
    fn sniff(&self, head: &[u8], path: &Path) -> bool {
        head.get(257..262) == Some(b"ustar") || is_tar_name(path)
    }

    /// What a path stands for is found out here, so that `inspect` and the saved index are those of all archives.
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

    fn faults(&self, options: &TarOptions) -> Vec<String> {
        options.faults()
    }

    fn field_faults(&self, options: &TarOptions, fields: &[(String, Field)]) -> Result<()> {
        split(options, fields).map(|_| ())
    }

    format_has!(access, saved_index);

    fn make_plain(&self, options: &mut TarOptions) {
        options.images.augment.clear();
    }

    fn open(&self, options: &TarOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        let opened: Opened = self.open_many(options, &[at.path.to_owned()], at)?.into();
        Ok(opened)
    }

    fn open_many(&self, options: &TarOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        let archives = paths.iter().map(|path| archives(at.files, path)).collect::<Result<Vec<_>>>()?.concat();
        let open = |options| TarReader::open_all(at.files, at.path, archives.clone(), options, at.budget);
        if at.fields.is_empty() {
            return Ok(Opened::reader(open(options)?));
        }
        let (own, others) = split(options, &named_geometries(at.fields)).map_err(|error| error.at_path(at.path))?;
        let mut readers: Vec<Arc<dyn RecordReader>> = Vec::new();
        if !own.fields.is_empty() {
            readers.push(Arc::new(open(&own)?));
        }
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
        let summary = TarSummary::of(at.path)?;
        let entry = |record: TarRecord| {
            let path = record.path.to_string_lossy().into_owned();
            Some(Entry::Member { path, key: record.key, label: record.label })
        };
        Ok(Inspection {
            fields: summary.fields,
            first: entry(summary.first),
            last: entry(summary.last),
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

impl Member {
    /// A member by its extension, and a place in it if it is JSON: `json:/objects/0/class`.
    pub(super) fn of(field: &ColumnRef) -> Result<Self> {
        let ColumnRef::Name(text) = field else {
            return Err(Error::new(ErrorKind::Config, "members are named by their extension"));
        };
        Ok(match text.split_once(':') {
            Some((extension, pointer)) => Self { extension: extension.to_owned(), pointer: Some(pointer.to_owned()) },
            None => Self { extension: text.clone(), pointer: None },
        })
    }
}
