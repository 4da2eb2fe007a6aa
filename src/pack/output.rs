//! The file of a shard that is being written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::system::check_file_limit;

use super::journal::{PackedShard, part_of};

/// A file whose length and checksum are computed while it is written.
pub(super) struct Output {
    file: BufWriter<File>,
    path: PathBuf,
    name: String,
    bytes: u64,
    hasher: crc32fast::Hasher,
}

impl Output {
    pub(super) fn create(folder: &Path, name: String) -> Result<Self> {
        let path = part_of(folder, &name);
        let file = File::create(&path).map_err(|error| Error::io(&path, error))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { file, path, name, bytes: 0, hasher: crc32fast::Hasher::new() })
    }

    pub(super) fn fault(&self, error: io::Error) -> Error {
        Error::io(&self.path, error)
    }

    /// Makes sure that all data is on the disk.
    pub(super) fn finish(mut self, first: u64, end: u64, records: u64) -> Result<PackedShard> {
        let written = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        written.map_err(|error| self.fault(error))?;
        let crc32 = format!("{:08x}", self.hasher.finalize());
        Ok(PackedShard { name: self.name, first, end, records, bytes: self.bytes, crc32 })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_file_limit(self.bytes + bytes.len() as u64)?;
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
