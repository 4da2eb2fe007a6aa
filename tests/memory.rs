//! Memory stays what the statistics say, and does not grow from epoch to epoch. A test binary of its own, because it
//! looks at the whole process.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/watchdog.rs"]
mod watchdog;

use std::fmt::Write;
use std::path::Path;

use ringfeed::storage::Mapping;
use ringfeed::{Loader, LoaderConfig};

const MB: u64 = 1 << 20;
const WORKERS: u64 = 2;

/// Memory of this process that no file backs.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn make(folder: &Path) {
    let mut text = "a,b,c,label\n".to_owned();
    (0..20_000).for_each(|row| writeln!(text, "{row},{}.5,{},{}", row % 97, row * 3, row % 10).unwrap());
    std::fs::write(folder.join("rows.csv"), &text).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, text.as_bytes()).unwrap();
    std::fs::write(folder.join("rows.csv.gz"), packed.finish().unwrap()).unwrap();
    let values: Vec<u8> = (0..4000 * 784u32).map(|i| i as u8).collect();
    std::fs::write(folder.join("records.bin"), values).unwrap();
    let photos = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos");
    for class in ["one", "other"] {
        std::fs::create_dir_all(folder.join("images").join(class)).unwrap();
        for (nth, photo) in ["china.jpg", "flower.jpg", "astronaut.png"].into_iter().enumerate() {
            let to = folder.join("images").join(class).join(format!("{nth}-{photo}"));
            std::fs::copy(photos.join(photo), to).unwrap();
        }
    }
}

#[test]
fn memory_is_what_the_statistics_say_and_does_not_grow_over_fifty_epochs() {
    watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    // The largest picture is 640 x 427 (and 512 x 512) pixels of three bytes.
    let sources = [
        (format!("format = 'csv'\npath = '{}'\n", at("rows.csv")), 0),
        (format!("format = 'csv'\npath = '{}'\noptions = {{ access = 'map' }}\n", at("rows.csv")), 0),
        (format!("format = 'csv'\npath = '{}'\n", at("rows.csv.gz")), 0),
        (format!("format = 'raw'\npath = '{}'\noptions = {{ stored = 'u8', shape = [784] }}\n", at("records.bin")), 0),
        (
            format!(
                "format = 'images'\npath = '{}'\nfields.image = {{ image = [64, 64], dtype = 'u8', augment = [\
                 {{ kind = 'random_resized_crop' }}, {{ kind = 'horizontal_flip' }}] }}\n",
                at("images")
            ),
            640 * 427 * 3,
        ),
    ];
    for (source, largest) in sources {
        let text = format!("batch_size = 64\nworkers = {WORKERS}\nshuffle = 1\n[[sources]]\n{source}");
        let config: LoaderConfig = toml::from_str(&text).unwrap();
        let before = anonymous();
        // SAFETY: nobody else has the files.
        let promise = unsafe { Mapping::promise() };
        let mut iterator = Loader::from(config).mapping(promise).build().unwrap();
        let mut epoch = || {
            let samples: usize = iterator.by_ref().map(|batch| batch.unwrap().len()).sum();
            assert!(samples >= 6);
            let stats = iterator.stats();
            let counted = stats.memory_bytes;
            assert!(counted >= (stats.ring.slots * stats.ring.slot_bytes) as u64, "{counted} bytes: {source}");
            iterator.reset().unwrap();
            counted
        };
        let mut counted = 0;
        (0..5).for_each(|_| counted = epoch());
        let warm = anonymous();
        let allowed = counted + 64 * MB + WORKERS * largest;
        assert!(warm - before.min(warm) <= allowed, "{} bytes, {counted} of them counted: {source}", warm - before);
        (0..45).for_each(|_| counted = epoch());
        let grown = anonymous().saturating_sub(warm);
        assert!(grown < 4 * MB, "{grown} bytes more after 50 epochs: {source}");
    }
}
