use std::path::{Path, PathBuf};

use ringfeed::arrays::{IdxFile, IdxOptions, IdxReader, NpyOptions, NpyReader, RawOptions, RawReader};
use ringfeed::csv::CsvOptions;
use ringfeed::images::{ImageFolder, ImageOptions};
use ringfeed::inspect::{
    ArraySummary, ClassCount, CsvSummary, FieldSummary, Format, FormatCount, IgnoredFiles, ImageRecord, MemberCount,
    SequenceRecord, SequenceSummary, TarRecord, TarSummary, detect, summarise_image,
};
use ringfeed::sequences::SequenceOptions;
use ringfeed::{Error, ErrorKind, Result};
use serde::{Serialize, Serializer};

use crate::entry::Entry;
use crate::output::{Report, lossy};
use crate::table::{Column, Table, count, figure, one_line, shorten, things};

/// What a file or folder holds.
#[derive(Serialize)]
pub(crate) struct Inspection {
    path: String,
    format: &'static str,
    records: u64,
    fields: Vec<FieldSummary>,
    first: Option<Entry>,
    last: Option<Entry>,
    #[serde(flatten)]
    details: Details,
}

/// What there is to say of one format only.
#[derive(Serialize)]
#[serde(untagged)]
enum Details {
    Table {
        header: bool,
        header_reason: String,
        delimiter: char,
        encoding: String,
        #[serde(flatten)]
        sequences: Option<Sequences>,
    },
    Array {},
    Arrays {
        files: Vec<ArrayFile>,
        #[serde(flatten)]
        ignored: Ignored,
    },
    Image {
        width: u32,
        height: u32,
        channels: u8,
        channel_means: [f64; 3],
        orientation: u8,
    },
    Images {
        classes: Vec<ClassCount>,
        formats: Vec<FormatCount>,
        #[serde(flatten)]
        ignored: Ignored,
    },
    Archives {
        archives: u64,
        members: Vec<MemberCount>,
        classes: Vec<ClassCount>,
        /// Members; of files see there.
        ignored: u64,
        #[serde(rename = "ignored_files", serialize_with = "names_alone")]
        files: Ignored,
    },
}

#[derive(Serialize)]
struct Sequences {
    steps: u64,
    #[serde(flatten)]
    ignored: Ignored,
}

/// Files that are not read: how many, and the first.
#[derive(Serialize)]
struct Ignored {
    #[serde(rename = "ignored")]
    count: u64,
    #[serde(rename = "ignored_files")]
    first: Vec<String>,
}

impl Ignored {
    fn of(count: u64, first: &[PathBuf]) -> Self {
        Self { count, first: first.iter().map(|path| lossy(path)).collect() }
    }

    fn beside(format: Format, folder: &Path) -> Result<Self> {
        let IgnoredFiles { count, first } = IgnoredFiles::beside(format, folder)?;
        Ok(Self::of(count, &first))
    }

    fn text(&self) -> Option<String> {
        let names: Vec<_> = self.first.iter().map(|name| one_line(name)).collect();
        let more = if self.count > names.len() as u64 { ", ..." } else { "" };
        (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
    }
}

fn names_alone<S: Serializer>(ignored: &Ignored, serializer: S) -> Result<S::Ok, S::Error> {
    ignored.first.serialize(serializer)
}

#[derive(Serialize)]
struct ArrayFile {
    name: String,
    records: u64,
}

/// Reads whatever lies at `path`; `csv` says how, if it is CSV, and `raw`, if it has no header.
pub(crate) fn inspect(path: &Path, csv: &CsvOptions, raw: Option<&RawOptions>) -> Result<Inspection> {
    if let Some(options) = raw {
        return Ok(array("raw", RawReader::open(path, options)?.summarise()?));
    }
    match detect_with(path, csv)? {
        Format::Csv => table(path, csv),
        Format::CsvSequences => sequences(path, csv),
        Format::Idx => Ok(array(Format::Idx.as_str(), IdxReader::open(path, &IdxOptions::default())?.summarise()?)),
        Format::Npy => Ok(array(Format::Npy.as_str(), NpyReader::open(path, &NpyOptions::default())?.summarise()?)),
        Format::IdxFolder => arrays(path),
        Format::Image => image(path),
        Format::ImageFolder => images(path),
        Format::Tar => archives(path),
        other => {
            let message = format!("a data set of the format {other} can't be inspected");
            Err(Error::new(ErrorKind::Unsupported, message).at_path(path))
        }
    }
}

/// Text in an encoding such as UTF-16 may look like anything: whoever names the encoding, or what separates fields, says
/// that it is a table.
fn detect_with(path: &Path, csv: &CsvOptions) -> Result<Format> {
    if (csv.encoding.is_some() || csv.delimiter.is_some()) && path.is_file() { Ok(Format::Csv) } else { detect(path) }
}

fn table(path: &Path, options: &CsvOptions) -> Result<Inspection> {
    let summary = CsvSummary::of(path, options)?;
    Ok(Inspection {
        path: lossy(path),
        format: Format::Csv.as_str(),
        records: summary.records,
        fields: summary.fields,
        first: summary.first.map(Entry::Columns),
        last: summary.last.map(Entry::Columns),
        details: Details::Table {
            header: summary.header,
            header_reason: summary.header_reason,
            delimiter: summary.delimiter,
            encoding: summary.encoding,
            sequences: None,
        },
    })
}

fn sequences(path: &Path, csv: &CsvOptions) -> Result<Inspection> {
    let options = SequenceOptions { csv: csv.clone(), ..SequenceOptions::default() };
    let summary = SequenceSummary::of(path, &options)?;
    let entry = |record: SequenceRecord| Entry::Sequence { path: lossy(&record.path), steps: record.steps };
    Ok(Inspection {
        path: lossy(path),
        format: Format::CsvSequences.as_str(),
        records: summary.records,
        fields: summary.fields,
        first: Some(entry(summary.first)),
        last: Some(entry(summary.last)),
        details: Details::Table {
            header: summary.header,
            header_reason: summary.header_reason,
            delimiter: summary.delimiter,
            encoding: summary.encoding,
            sequences: Some(Sequences { steps: summary.steps, ignored: Ignored::beside(Format::CsvSequences, path)? }),
        },
    })
}

fn array(format: &'static str, summary: ArraySummary) -> Inspection {
    let name = summary.field.name.clone();
    let entry = |values: Option<Vec<f64>>| values.map(|values| Entry::Numbers(vec![(name.clone(), Some(values))]));
    Inspection {
        path: lossy(&summary.path),
        format,
        records: summary.records,
        first: entry(summary.first),
        last: entry(summary.last),
        fields: vec![summary.field],
        details: Details::Array {},
    }
}

/// A field for each file, called as the file. Records are those of features; of label files only if there are no others.
fn arrays(path: &Path) -> Result<Inspection> {
    let headers = IdxFile::in_folder(path)?;
    let only_labels = headers.iter().all(IdxFile::is_label);
    let records = headers.iter().filter(|file| only_labels || !file.is_label()).map(|file| file.records).sum();
    let (mut fields, mut first, mut last, mut files) = (vec![], vec![], vec![], vec![]);
    for header in headers {
        let name = lossy(Path::new(header.path.file_name().unwrap_or_default()));
        let summary = IdxReader::open(&header.path, &IdxOptions::default())?.summarise()?;
        fields.push(FieldSummary { name: name.clone(), ..summary.field });
        first.push((name.clone(), summary.first));
        last.push((name.clone(), summary.last));
        files.push(ArrayFile { name, records: summary.records });
    }
    Ok(Inspection {
        path: lossy(path),
        format: Format::IdxFolder.as_str(),
        records,
        fields,
        first: Some(Entry::Numbers(first)),
        last: Some(Entry::Numbers(last)),
        details: Details::Arrays { files, ignored: Ignored::beside(Format::IdxFolder, path)? },
    })
}

fn image(path: &Path) -> Result<Inspection> {
    let summary = summarise_image(path)?;
    let entry = || Some(Entry::Image { path: lossy(path), label: None });
    Ok(Inspection {
        path: lossy(path),
        format: summary.format,
        records: 1,
        fields: vec![summary.field],
        first: entry(),
        last: entry(),
        details: Details::Image {
            width: summary.width,
            height: summary.height,
            channels: summary.channels,
            channel_means: summary.channel_means,
            orientation: summary.orientation,
        },
    })
}

fn images(path: &Path) -> Result<Inspection> {
    let summary = ImageFolder::detect(path, &ImageOptions::default())?.summarise();
    let entry = |record: ImageRecord| Some(Entry::Image { path: lossy(&record.path), label: record.label });
    Ok(Inspection {
        path: lossy(path),
        format: Format::ImageFolder.as_str(),
        records: summary.records,
        fields: summary.fields,
        first: entry(summary.first),
        last: entry(summary.last),
        details: Details::Images {
            classes: summary.classes,
            formats: summary.formats,
            ignored: Ignored::of(summary.ignored, &summary.ignored_files),
        },
    })
}

fn archives(path: &Path) -> Result<Inspection> {
    let summary = TarSummary::of(path)?;
    let entry =
        |record: TarRecord| Some(Entry::Member { path: lossy(&record.path), key: record.key, label: record.label });
    Ok(Inspection {
        path: lossy(path),
        format: Format::Tar.as_str(),
        records: summary.records,
        fields: summary.fields,
        first: entry(summary.first),
        last: entry(summary.last),
        details: Details::Archives {
            archives: summary.archives,
            members: summary.members,
            classes: summary.classes,
            ignored: summary.ignored,
            files: Ignored::beside(Format::Tar, path)?,
        },
    })
}

/// Most classes that are listed for a person.
const CLASSES_SHOWN: usize = 20;

impl Report for Inspection {
    fn text(&self, width: usize) -> String {
        let mut text = format!("{}: {}, {}\n", one_line(&self.path), self.format, things(self.records, "record"));
        let mut line = |name: &str, value: String| text += &format!("{name}: {value}\n");
        match &self.details {
            Details::Table { header, header_reason, delimiter, encoding, sequences } => {
                let decided = if header_reason == "as given" { "" } else { "detected: " };
                let header = if *header { "yes" } else { "no" };
                line("header", format!("{header} ({decided}{})", one_line(header_reason)));
                line("delimiter", format!("{delimiter:?}"));
                line("encoding", encoding.clone());
                if let Some(Sequences { steps, .. }) = sequences {
                    line("steps of all sequences", count(*steps));
                }
            }
            Details::Array {} => {}
            Details::Arrays { files, .. } => {
                for file in files {
                    line(&one_line(&file.name), things(file.records, "record"));
                }
            }
            Details::Image { width, height, channels, channel_means: [red, green, blue], orientation } => {
                line(
                    "size",
                    format!("{width} x {height} pixels, {channels} channels (EXIF orientation {orientation})"),
                );
                line("channel means", format!("{}, {}, {}", figure(*red), figure(*green), figure(*blue)));
            }
            Details::Images { formats, ignored, .. } => {
                let formats: Vec<_> = formats.iter().map(|f| format!("{} {}", count(f.count), f.format)).collect();
                line("files", format!("{}; {} ignored", formats.join(", "), count(ignored.count)));
            }
            Details::Archives { archives, members, ignored, .. } => {
                line("archives", count(*archives));
                let shown = members.iter().take(CLASSES_SHOWN);
                let mut members: Vec<_> =
                    shown.map(|member| format!("{} {}", count(member.count), one_line(&member.extension))).collect();
                members.push(format!("{} ignored", count(*ignored)));
                line("members", members.join(", "));
            }
        }
        let ignored = match &self.details {
            Details::Table { sequences, .. } => sequences.as_ref().map(|sequences| &sequences.ignored),
            Details::Arrays { ignored, .. } | Details::Images { ignored, .. } => Some(ignored),
            Details::Archives { files, .. } => Some(files),
            Details::Array {} | Details::Image { .. } => None,
        };
        if let Some(names) = ignored.and_then(Ignored::text) {
            line("ignored", names);
        }
        text += "\n";
        text += &self.field_table().render(width);
        if let Details::Images { classes, .. } | Details::Archives { classes, .. } = &self.details
            && !classes.is_empty()
        {
            text += "\n";
            let mut table = Table::new(&[Column::Text("class"), Column::Number("files")]);
            classes.iter().take(CLASSES_SHOWN).for_each(|class| table.row([class.name.clone(), count(class.count)]));
            text += &table.render(width);
            if classes.len() > CLASSES_SHOWN {
                text += &format!("and {} classes more\n", count((classes.len() - CLASSES_SHOWN) as u64));
            }
        }
        text += "\n";
        for (name, entry) in [("first", &self.first), ("last", &self.last)] {
            if let Some(entry) = entry {
                text += &shorten(&format!("{name}: {}", entry.text()), 2 * width);
                text += "\n";
            }
        }
        text
    }
}

impl Inspection {
    fn field_table(&self) -> Table {
        let mut table = Table::new(&[
            Column::Text("field"),
            Column::Text("role"),
            Column::Text("type"),
            Column::Text("shape"),
            Column::Number("count"),
            Column::Number("missing"),
            Column::Number("sum"),
            Column::Number("min"),
            Column::Number("max"),
            Column::Number("mean"),
        ]);
        for field in &self.fields {
            let shape: Vec<String> =
                field.shape.iter().map(|dim| if *dim == 0 { "?".to_owned() } else { dim.to_string() }).collect();
            let shown = |number: Option<f64>| number.map_or_else(String::new, figure);
            table.row([
                field.name.clone(),
                field.role.clone(),
                field.dtype.clone(),
                shape.join("x"),
                count(field.count),
                count(field.missing),
                shown(field.sum),
                shown(field.min),
                shown(field.max),
                shown(field.mean),
            ]);
        }
        table
    }
}
