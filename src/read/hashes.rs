//! Hashes of files, as indexes of shards record them.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::io::Read;

use sha1_smol::Sha1;
use twox_hash::{xxhash3_64, xxhash3_128, xxhash32, xxhash64};

/// Number of bytes that are hashed at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// Hashes by the names of their methods, in hexadecimal digits.
pub(super) type Recorded = BTreeMap<String, String>;

/// The known methods; their names are those of Python's `hashlib` and `xxhash`.
enum Hasher {
    Sha1(Sha1),
    Xx32(xxhash32::Hasher),
    Xx64(xxhash64::Hasher),
    Xx3(xxhash3_64::Hasher),
    Xx3Long(xxhash3_128::Hasher),
}

impl Hasher {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sha1" => Self::Sha1(Sha1::new()),
            "xxh32" => Self::Xx32(xxhash32::Hasher::with_seed(0)),
            "xxh64" => Self::Xx64(xxhash64::Hasher::with_seed(0)),
            "xxh3_64" => Self::Xx3(xxhash3_64::Hasher::new()),
            "xxh3_128" | "xxh128" => Self::Xx3Long(xxhash3_128::Hasher::new()),
            _ => return None,
        })
    }

    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Xx32(hasher) => hasher.write(bytes),
            Self::Xx64(hasher) => hasher.write(bytes),
            Self::Xx3(hasher) => hasher.write(bytes),
            Self::Xx3Long(hasher) => hasher.write(bytes),
        }
    }

    fn digits(&self) -> String {
        match self {
            Self::Sha1(hasher) => hasher.digest().to_string(),
            Self::Xx32(hasher) => format!("{:08x}", hasher.finish_32()),
            Self::Xx64(hasher) => format!("{:016x}", hasher.finish()),
            Self::Xx3(hasher) => format!("{:016x}", hasher.finish()),
            Self::Xx3Long(hasher) => format!("{:032x}", hasher.finish_128()),
        }
    }
}

/// Whether any of the recorded hashes can be checked.
pub(super) fn is_any_known(recorded: &Recorded) -> bool {
    recorded.keys().any(|name| Hasher::named(name).is_some())
}

/// What is wrong with `bytes`: the first recorded hash that does not match. Hashes of unknown methods are ignored.
///
/// # Errors
///
/// Those of reading.
pub(super) fn damage(recorded: &Recorded, mut bytes: impl Read) -> std::io::Result<Option<String>> {
    let known = recorded.iter().filter_map(|(name, wanted)| Some((name, wanted, Hasher::named(name)?)));
    let mut known: Vec<_> = known.collect();
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let count = match bytes.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        known.iter_mut().for_each(|(_, _, hasher)| hasher.write(&block[..count]));
    }
    let other = known.into_iter().map(|(name, wanted, hasher)| (name, wanted, hasher.digits()));
    let other = other.into_iter().find(|(_, wanted, found)| !wanted.eq_ignore_ascii_case(found));
    Ok(other.map(|(name, wanted, found)| {
        format!("its {name} is {found}; the index says {wanted}: it is damaged, or another file")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `hashlib` and `xxhash` give for "abc".
    #[test]
    fn hashes_are_those_of_python() {
        for (name, digits) in [
            ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("xxh32", "32d153ff"),
            ("xxh64", "44bc2cf5ad770999"),
            ("xxh3_64", "78af5f94892f3950"),
            ("xxh128", "06b05ab6733a618578af5f94892f3950"),
        ] {
            let recorded = Recorded::from([(name.to_owned(), digits.to_uppercase())]);
            assert!(is_any_known(&recorded));
            assert_eq!(damage(&recorded, &b"abc"[..]).unwrap(), None, "{name}");
            let found = damage(&recorded, &b"abd"[..]).unwrap().unwrap();
            assert!(found.contains(name) && found.contains(&digits.to_uppercase()), "{found}");
        }
        let unknown = Recorded::from([("blake2b".to_owned(), "00".to_owned())]);
        assert!(!is_any_known(&unknown) && damage(&unknown, &b"abc"[..]).unwrap().is_none());
    }
}
