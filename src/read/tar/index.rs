//! Which members of an archive belong to which sample: names and positions, from the headers alone.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};

use crate::decode::image::ImageFormat;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::Input;

use super::class::{ClassField, IS_NAME, NO_CLASS, Said};
use super::walk::{BLOCK, Member, Walk};

/// A member of each sample that a field is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// The only one with the extension of an image.
    AnyImage,
    /// The one with this extension.
    Extension(String),
}

impl Wanted {
    fn is(&self, extension: &str) -> bool {
        match self {
            Self::AnyImage => ImageFormat::of_extension(extension.rsplit('.').next().unwrap_or_default()).is_some(),
            Self::Extension(wanted) => wanted == extension,
        }
    }
}

/// Where the bytes of a member lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// In blocks from the archive's beginning. 0 if the sample has no such member, or only a hard link.
    pub(super) block: u32,
    /// In bytes; `u32::MAX` for 4 GiB or more.
    pub(super) size: u32,
}

impl Place {
    /// The place of a hard link.
    pub(super) const LINK: Self = Self { block: 0, size: 1 };

    fn of(member: Member) -> Result<Self> {
        if member.is_link {
            return Ok(Self::LINK);
        }
        let block = u32::try_from(member.data / BLOCK).map_err(|_| {
            let message = "lies beyond the first 2 TiB of its archive; split the archive";
            Error::new(ErrorKind::Limit, message).at_byte(member.header)
        })?;
        Ok(Self { block, size: u32::try_from(member.size).unwrap_or(u32::MAX) })
    }

    pub(super) fn start(self) -> u64 {
        u64::from(self.block) * BLOCK
    }
}

/// The samples of one archive: their keys, positions and classes. Takes about 8 bytes per sample and wanted member, 8
/// more per sample, and the keys themselves.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ArchiveIndex {
    pub(super) keys: Vec<u8>,
    /// Where each key ends in `keys`.
    pub(super) key_ends: Vec<u32>,
    /// For each sample, a place for each wanted member.
    pub(super) places: Vec<Place>,
    /// The class of each sample; empty without such a field. With [`IS_NAME`], the position of a name in `names`.
    pub(super) labels: Vec<u32>,
    /// Names of classes, in the order in which they were met.
    pub(super) names: Vec<String>,
    /// Members that belong to no sample: special files, files without extension, or descriptions of the data set.
    pub(super) ignored: u64,
}

impl ArchiveIndex {
    pub(super) fn len(&self) -> usize {
        self.key_ends.len()
    }

    /// The name of sample `index`, up to its members' extensions.
    ///
    /// # Panics
    ///
    /// If there is no such sample.
    pub(super) fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start as usize..self.key_ends[index] as usize]
    }

    pub(super) fn bytes(&self) -> u64 {
        let names: usize = self.names.iter().map(|name| name.len() + size_of::<String>()).sum();
        (self.keys.capacity()
            + 4 * (self.key_ends.capacity() + self.labels.capacity())
            + size_of::<Place>() * self.places.capacity()
            + names) as u64
    }

    /// Reads the headers of an archive, and the members that hold a class, if they have at most `most_bytes` bytes.
    ///
    /// # Errors
    ///
    /// Those of reading the members; [`ErrorKind::Format`] if the members of a sample are not adjacent or two have the
    /// same extension, with shard, member and byte.
    pub(super) fn of(input: &Input, wanted: &[Wanted], class: Option<&ClassField>, most_bytes: u64) -> Result<Self> {
        let mut building = Building { wanted, class, most_bytes, ..Building::default() };
        let mut walk = Walk::new(input)?;
        while let Some(member) = walk.next()? {
            let added = building.add(&mut walk, member);
            added.map_err(|error| {
                let error = error.at_path(input.path()).at_member(String::from_utf8_lossy(walk.name()));
                error.at_byte(member.header)
            })?;
        }
        let mut index = building.index;
        index.ignored += walk.others();
        index.keys.shrink_to_fit();
        index.key_ends.shrink_to_fit();
        index.places.shrink_to_fit();
        index.labels.shrink_to_fit();
        Ok(index)
    }
}

/// The members of the first sample, by their extensions.
pub(super) fn first_sample(input: &Input) -> Result<Vec<String>> {
    let mut walk = Walk::new(input)?;
    let mut first: Option<Vec<u8>> = None;
    let mut extensions = Vec::new();
    while walk.next()?.is_some() {
        let Some((key, extension)) = split(walk.name()) else { continue };
        if first.get_or_insert_with(|| key.to_vec()) != key {
            break;
        }
        let extension = extension.to_ascii_lowercase();
        // A member that occurs twice is reported later, when the places of both are known.
        if !extensions.contains(&extension) {
            extensions.push(extension);
        }
    }
    Ok(extensions)
}

/// Splits a member's name like WebDataset: the part up to the first dot of its file name, and the part after the dot.
/// `None` for names without one of them, and for descriptions of the whole set, whose folder or file has a name such as
/// `__like_this__`.
pub(super) fn split(name: &[u8]) -> Option<(&[u8], &str)> {
    let first = name.split(|byte| *byte == b'/').next().unwrap_or_default();
    if first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__") {
        return None;
    }
    let last = memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1);
    let dot = last + memchr::memchr(b'.', &name[last..]).filter(|dot| *dot > 0)?;
    Some((&name[..dot], std::str::from_utf8(&name[dot + 1..]).ok()?))
}

/// Longest member that is a class on its own. Each of their names is kept.
const MAX_CLASS_BYTES: u64 = 1 << 20;

#[derive(Default)]
struct Building<'a> {
    wanted: &'a [Wanted],
    class: Option<&'a ClassField>,
    /// A longer class is not read.
    most_bytes: u64,
    index: ArchiveIndex,
    /// The extensions of the current sample.
    extensions: HashSet<String>,
    /// A sample for each hash of a key.
    seen: HashMap<u64, u32>,
    names: HashMap<String, u32>,
}

impl Building<'_> {
    fn add(&mut self, walk: &mut Walk<'_>, member: Member) -> Result<()> {
        let Some((key, extension)) = split(walk.name()) else {
            self.index.ignored += 1;
            return Ok(());
        };
        let extension = extension.to_ascii_lowercase();
        let index = &mut self.index;
        if index.len() == 0 || index.key(index.len() - 1) != key {
            self.begin(key)?;
        }
        let index = &mut self.index;
        if self.extensions.contains(&extension) {
            let message = "the sample has this member twice; the archive was packed or joined wrongly";
            return Err(Error::new(ErrorKind::Format, message));
        }
        let sample = index.len() - 1;
        let first = sample * self.wanted.len();
        for (nth, wanted) in self.wanted.iter().enumerate().filter(|(_, wanted)| wanted.is(&extension)) {
            let place = &mut index.places[first + nth];
            if *wanted == Wanted::AnyImage && *place != Place::default() {
                let message = "the sample has several images; say by its extension which one is meant";
                return Err(Error::new(ErrorKind::Config, message));
            }
            *place = Place::of(member)?;
            if let Some(class) = self.class.filter(|class| class.member == nth) {
                index.labels[sample] = NO_CLASS;
                let most = if class.pointer.is_some() { self.most_bytes } else { MAX_CLASS_BYTES };
                if member.size <= most && !member.is_link {
                    let bytes = walk.contents(member)?;
                    // What is wrong with it is reported when the sample is read.
                    index.labels[sample] = match class.read(bytes) {
                        Ok(Said::Index(class)) => class,
                        Ok(Said::Name(name)) => match self.names.get(&*name) {
                            Some(known) => *known,
                            None => {
                                let label = IS_NAME | index.names.len() as u32;
                                index.names.push(name.clone().into_owned());
                                self.names.insert(name.into_owned(), label);
                                label
                            }
                        },
                        Err(_) => NO_CLASS,
                    };
                }
            }
        }
        self.extensions.insert(extension);
        Ok(())
    }

    /// Begins the next sample.
    fn begin(&mut self, key: &[u8]) -> Result<()> {
        let index = &mut self.index;
        let mut hasher = DefaultHasher::new();
        hasher.write(key);
        let sample = index.len() as u32;
        let before = *self.seen.entry(hasher.finish()).or_insert(sample);
        if before != sample && index.key(before as usize) == key {
            let message = format!(
                "the members of sample {:?} are not neighbours: others lie between them; pack them sorted by name",
                String::from_utf8_lossy(key)
            );
            return Err(Error::new(ErrorKind::Format, message));
        }
        index.keys.extend_from_slice(key);
        let end = u32::try_from(index.keys.len()).ok().filter(|_| sample < u32::MAX);
        index.key_ends.push(end.ok_or_else(|| {
            Error::new(ErrorKind::Limit, "the names of the archive's samples take more than 4 GiB; split the archive")
        })?);
        index.places.resize(index.places.len() + self.wanted.len(), Place::default());
        if self.class.is_some() {
            index.labels.push(NO_CLASS);
        }
        self.extensions.clear();
        Ok(())
    }
}
