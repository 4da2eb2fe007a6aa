//! Sounds among the formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::decode::AudioOptions;
use crate::decode::audio::{is_audio, is_audio_name};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::read::fields::{Codec, Field, faults_of_fields};
use crate::read::folder::{
    ClassLists, FileValues, NamedFields, class_of, is_by_class, no_classes, of_class, split, with_classes,
};
use crate::read::format::{
    Check, Checks, Details, Foretold, Format, InspectedRecord, Inspection, NamedCount, Open, Opened, format_has,
    open_parts,
};
use crate::read::{ClassCount, FieldReader, FieldSummary, FormatCount, RecordReader, SavedIndex, named_geometries};
use crate::schema::Role;
use crate::storage::Files;
use crate::tree::no_faults;

use super::{AudioFiles, AudioFolderOptions, Label, MAX_FILE_BYTES, SOUNDS, Tensors, is_folder, look_at};

/// The format of folders of sounds, with one subfolder per class or without classes, and of single sounds.
#[derive(Clone, Copy, Debug)]
pub struct AudioFolder;

/// A sound that a field requests, and with the first one the class.
struct Asked<'a> {
    options: AudioOptions,
    tensors: Tensors<'a>,
}

/// Splits the fields into sounds with the class as an i64, which are decoded here, and the others.
fn split_fields(fields: &[(String, Field)]) -> Result<(NamedFields, NamedFields)> {
    let is_own =
        |field: &Field| matches!(field.codec, Codec::Class { one_hot: false, dtype: None | Some(DType::I64), .. });
    split(fields, "audio", is_own)
}

fn of_fields(own: &[(String, Field)]) -> Result<Vec<Asked<'_>>> {
    let (mut asked, mut class) = (Vec::new(), None);
    for (name, field) in own {
        match &field.codec {
            Codec::Audio(audio) => {
                let (role, options) = (field.role_or_default(), audio.options().clone());
                no_faults(options.faults()).map_err(|error| error.at_column(name))?;
                asked.push(Asked { options, tensors: Tensors { sound: name, role, label: None } });
            }
            Codec::Class { names, .. } => class = Some(Label { name, listed: names.as_deref() }),
            _ => {}
        }
    }
    if let Some(first) = asked.first_mut() {
        first.tensors.label = class;
    }
    Ok(asked)
}

impl Format for AudioFolder {
    const NAME: &'static str = "audio";
    type Options = AudioFolderOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        is_audio(head)
    }

    fn has_name(&self, name: &str) -> bool {
        is_audio_name(Path::new(name))
    }

    fn kind(&self, path: &Path) -> &'static str {
        if path.is_dir() { "audio_folder" } else { "audio" }
    }

    fn title(&self) -> Option<&'static str> {
        Some("sounds (WAV; with the feature `audio` FLAC, MP3, Ogg Vorbis) and folders of them")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        Some("a compressed sound file; decompress it first")
    }

    fn is_folder(&self, files: &Files, path: &Path) -> Result<bool> {
        is_by_class(files, path, SOUNDS)
    }

    fn takes_whole(&self, _: &Files, _: &Path) -> bool {
        true
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        head.is_none() && is_audio_name(path)
    }

    fn field_faults(&self, _: &AudioFolderOptions, fields: &[(String, Field)]) -> Vec<String> {
        faults_of_fields(fields, |fields| split_fields(fields).and_then(|(own, _)| of_fields(&own).map(drop)))
    }

    format_has!(saved_index, reading_by_name);

    fn open(&self, options: &AudioFolderOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        open_all(None, options, at, &ClassLists::default()).map(|(readers, _)| Opened::Readers(readers))
    }

    fn foretell(&self, options: &AudioFolderOptions, at: &Open<'_>) -> Result<Foretold> {
        let (readers, ignored) = open_all(None, options, at, &ClassLists::default())?;
        Ok(Foretold { ignored, ..Foretold::of_opened(Opened::Readers(readers), at)? })
    }

    /// Where no rate is asked for, all sounds at the rate of the first one, as those of a folder.
    fn open_many(&self, options: &AudioFolderOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        let has_no_rate = |(_, field): &(String, Field)| matches!(&field.codec, Codec::Audio(audio) if audio.options().rate.is_none());
        let first = paths.first().filter(|_| at.fields.is_empty() || at.fields.iter().any(has_no_rate));
        let rate = first.map(|path| AudioFiles::first_rate(at.files, path, &options.saved_index)).transpose()?;
        let lists = ClassLists::default();
        let open = |at: &Open<'_>| open_all(rate, options, at, &lists).map(|(readers, _)| Opened::Readers(readers));
        let opened = open_parts(&open, paths, at)?;
        lists.check(paths)?;
        Ok(opened)
    }

    /// Whole sounds, each at its own rate.
    fn checks(&self, _: &AudioFolderOptions, at: &Open<'_>) -> Result<Checks> {
        let classes = at.fields.iter().find_map(|(_, field)| match &field.codec {
            Codec::Class { names, .. } => names.as_deref(),
            _ => None,
        });
        AudioFiles::unchanged(at.files, at.path, &SavedIndex::Off, classes, at.budget)
            .map(|reader| Check::reader(reader, false).into())
    }

    fn inspect(&self, options: &AudioFolderOptions, at: &Open<'_>) -> Result<Inspection> {
        let reader = usual(None, options, at)?;
        let records = reader.len();
        let fields = reader.tensors().iter().filter(|spec| spec.role != Role::Mask).map(|spec| FieldSummary {
            role: if spec.role == Role::Label { "label" } else { "feature" }.to_owned(),
            shape: spec.row_shape(&Default::default()).to_vec(),
            ..FieldSummary::unread(&spec.name, spec.dtype.as_str(), records)
        });
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let inspected = |sample: u64| InspectedRecord::Image {
            path: text(&reader.path(sample)),
            label: reader.label(sample).map(|label| reader.classes()[label as usize].clone()),
        };
        let details = if is_folder(at.files, at.path) {
            Details::Files {
                classes: class_counts(&reader),
                formats: format_counts(&reader),
                ignored: NamedCount {
                    count: reader.ignored(),
                    first: reader.files.ignored_files.iter().map(|path| text(path)).collect(),
                },
            }
        } else {
            let sound = look_at(at.files, at.path).map_err(|error| error.at_path(at.path))?;
            Details::Audio { rate: sound.rate, channels: sound.channels, frames: sound.frames }
        };
        Ok(Inspection {
            fields: fields.collect(),
            first: Some(inspected(0)),
            last: Some(inspected(records - 1)),
            details,
            ..Inspection::new(at.path, self.kind(at.path), records)
        })
    }
}

/// The readers that together give all fields, and the number of files that were left out; where no rate is asked for,
/// all sounds at this one, or at that of the first file.
fn open_all(
    rate: Option<u32>,
    options: &AudioFolderOptions,
    at: &Open<'_>,
    lists: &ClassLists,
) -> Result<(Vec<Arc<dyn RecordReader>>, u64)> {
    let located = |error: Error| error.at_path(at.path);
    if at.fields.is_empty() {
        let sounds = usual(rate, options, at)?;
        let ignored = sounds.ignored();
        return Ok((vec![Arc::new(sounds)], ignored));
    }
    let (own, others) = named_geometries(at.fields).and_then(|fields| split_fields(&fields)).map_err(located)?;
    let without_classes = |name: &str| no_classes(name, at.path, is_folder(at.files, at.path));
    let mut sounds: Vec<Arc<AudioFiles>> = Vec::new();
    for Asked { options: audio, tensors } in of_fields(&own).map_err(located)? {
        let audio = AudioOptions { rate: audio.rate.or(rate), ..audio };
        let label = tensors.label;
        let reader = AudioFiles::open_as(at.files, at.path, &options.saved_index, audio, tensors, at.budget)?;
        if let Some(label) = label.filter(|_| reader.classes().is_empty()) {
            return Err(without_classes(label.name));
        }
        sounds.push(Arc::new(reader));
    }
    let mut ignored = sounds.first().map_or(0, |first| first.ignored());
    let mut readers: Vec<Arc<dyn RecordReader>> = sounds.iter().map(|reader| reader.clone() as _).collect();
    if !others.is_empty() {
        // A reader without a class has forgotten the classes.
        let needs_class = of_class(&others).is_some();
        let folder = match sounds.first().filter(|first| !needs_class || !first.classes().is_empty()) {
            Some(first) => first.clone(),
            None => {
                let names = others.iter().find_map(|(_, field)| class_of(field)).flatten();
                let names = names.map(Vec::as_slice);
                Arc::new(AudioFiles::unchanged(at.files, at.path, &options.saved_index, names, at.budget)?)
            }
        };
        ignored = folder.ignored();
        if let Some(name) = of_class(&others).filter(|_| folder.classes().is_empty()) {
            return Err(without_classes(name));
        }
        let others = with_classes(others, folder.classes());
        lists.add(at.path, &others, folder.classes());
        let values = FileValues::new(folder, "audio", MAX_FILE_BYTES).only(&others);
        readers.extend(FieldReader::with_files(Box::new(values), &others, at.files, at.budget)?);
    }
    Ok((readers, ignored))
}

/// The reader as it is opened without fields.
fn usual(rate: Option<u32>, options: &AudioFolderOptions, at: &Open<'_>) -> Result<AudioFiles> {
    let audio = AudioOptions { rate, ..AudioOptions::default() };
    AudioFiles::usual(at.files, at.path, &audio, &options.saved_index, at.budget)
}

fn class_counts(reader: &AudioFiles) -> Vec<ClassCount> {
    let mut classes: Vec<ClassCount> =
        reader.classes().iter().map(|name| ClassCount { name: name.clone(), count: 0 }).collect();
    reader.files.labels.iter().for_each(|label| classes[*label as usize].count += 1);
    classes
}

/// Files by their endings.
fn format_counts(reader: &AudioFiles) -> Vec<FormatCount> {
    const NAMES: [(&str, &[&str]); 4] =
        [("wav", &["wav", "wave", "rf64", "bw64"]), ("flac", &["flac"]), ("mp3", &["mp3"]), ("ogg", &["ogg", "oga"])];
    let counts = NAMES.iter().map(|(format, endings)| {
        let is_one = |sample: &u64| {
            let path = reader.path(*sample);
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            endings.iter().any(|other| ending.eq_ignore_ascii_case(other))
        };
        FormatCount { format, count: (0..reader.len()).filter(is_one).count() as u64 }
    });
    counts.filter(|found| found.count > 0).collect()
}
