//! Tokens: random and contiguous windows, packed documents.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;

use crate::common::{MAPPED, see_all, workspace};
use proptest::prelude::*;
use ringfeed::arrays::{Endian, StoredType};
use ringfeed::field::{Field, Numbers, Text};
use ringfeed::formats::TokenFiles;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{RecordReader, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::storage::Access;
use ringfeed::tensor::Role;
use ringfeed::tokens::{TokenCut, TokenOptions, TokenPacking, TokenReader, TokenTargets};
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, Error, ErrorKind, Loader, LoaderConfig};

fn file_of(bytes: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes.as_ref()).unwrap();
    file
}

fn stored(tokens: &[u32], kind: StoredType, endian: Endian) -> Vec<u8> {
    let bytes = kind.bytes();
    let of = |token: &u32| match endian {
        Endian::Little => token.to_le_bytes()[..bytes].to_vec(),
        Endian::Big => token.to_be_bytes()[4 - bytes..].to_vec(),
    };
    tokens.iter().flat_map(of).collect()
}

/// A sample, tensor by tensor: inputs, targets, segments, positions, mask; those that there are.
type Row = Vec<Vec<i64>>;

/// All samples in order.
fn rows(reader: TokenReader) -> Vec<Row> {
    let source = ReaderSource::new(reader).batch_size(7);
    let batches = AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap();
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch.unwrap();
        for nth in 0..batch.len() {
            rows.push(
                batch
                    .tensors()
                    .map(|tensor| {
                        let len = tensor.shape()[1];
                        let range = nth * len..(nth + 1) * len;
                        match tensor.dtype() {
                            DType::I64 => tensor.as_slice::<i64>().unwrap()[range].to_vec(),
                            DType::I32 => {
                                tensor.as_slice::<i32>().unwrap()[range].iter().map(|x| (*x).into()).collect()
                            }
                            _ => tensor.as_slice::<u8>().unwrap()[range].iter().map(|x| (*x).into()).collect(),
                        }
                    })
                    .collect(),
            );
        }
    }
    rows
}

fn overlap(targets: TokenTargets) -> usize {
    usize::from(targets != TokenTargets::None)
}

/// What a sample of these tokens must be, one value at a time. Documents end with `end`, if they are told apart.
fn naive(tokens: &[u32], window: usize, targets: TokenTargets, end: Option<u32>) -> Row {
    let at = |index: usize| tokens.get(index).map_or(0, |token| i64::from(*token));
    let len = if targets == TokenTargets::Inside { window + 1 } else { window };
    let mut row: Row = vec![(0..len).map(at).collect()];
    if targets == TokenTargets::Shifted {
        row.push((1..=window).map(at).collect());
    }
    if let Some(end) = end {
        // The document that a token is of, and its place in it.
        let place = |index: usize| {
            let earlier = &tokens[..index];
            let nth = 1 + earlier.iter().filter(|token| **token == end).count();
            let begin = earlier.iter().rposition(|token| *token == end).map_or(0, |last| last + 1);
            (nth as i64, (index - begin) as i64)
        };
        let places: Vec<_> = (0..tokens.len()).map(place).collect();
        let of = |index: usize| places.get(index).copied();
        let same = |a: usize, b: usize| of(a).is_some_and(|a| of(b).is_some_and(|b| a.0 == b.0));
        row.push((0..len).map(|index| of(index).map_or(0, |place| place.0)).collect());
        row.push((0..len).map(|index| of(index).map_or(0, |place| place.1)).collect());
        let predicted = |index: usize| match targets {
            TokenTargets::Shifted => same(index, index + 1),
            TokenTargets::Inside => index > 0 && same(index - 1, index),
            _ => of(index).is_some(),
        };
        row.push((0..len).map(|index| predicted(index).into()).collect());
    }
    row
}

/// The windows of whole documents, document by document.
fn naive_packing(tokens: &[u32], end: u32, span: usize, overlap: usize) -> Vec<Vec<u32>> {
    let mut windows: Vec<Vec<u32>> = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    for document in tokens.split_inclusive(|token| *token == end) {
        if open.len() + document.len() > span && !open.is_empty() {
            windows.push(std::mem::take(&mut open));
        }
        let mut document = document;
        while document.len() > span {
            windows.push(document[..span].to_vec());
            document = &document[span - overlap..];
        }
        open.extend(document);
    }
    if !open.is_empty() {
        windows.push(open);
    }
    windows
}

fn any_targets() -> impl Strategy<Value = TokenTargets> {
    prop_oneof![Just(TokenTargets::Shifted), Just(TokenTargets::Inside), Just(TokenTargets::None)]
}

fn any_file() -> impl Strategy<Value = (StoredType, Endian, Access, usize)> {
    (
        prop_oneof![Just(StoredType::U8), Just(StoredType::U16), Just(StoredType::U32)],
        prop_oneof![Just(Endian::Little), Just(Endian::Big)],
        prop_oneof![Just(Access::Read), Just(MAPPED)],
        0usize..3,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn contiguous_windows_are_those_of_a_naive_loop(
        tokens in proptest::collection::vec(0u32..200, 30..400),
        window in 1usize..20,
        stride in proptest::option::of(1usize..30),
        targets in any_targets(),
        (kind, endian, access, header) in any_file(),
    ) {
        let file = file_of([vec![9; header], stored(&tokens, kind, endian)].concat());
        let options = TokenOptions {
            window,
            cut: TokenCut::Contiguous { stride },
            targets,
            stored: kind,
            endian,
            access,
            header_bytes: header as u64,
            ..TokenOptions::default()
        };
        let expected: Vec<Row> = tokens
            .windows(window + overlap(targets))
            .step_by(stride.unwrap_or(window))
            .map(|tokens| naive(tokens, window, targets, None))
            .collect();
        prop_assert_eq!(rows(TokenReader::open(file.path(), &options).unwrap()), expected);
    }

    #[test]
    fn packed_documents_are_those_of_a_naive_loop(
        // Few kinds of tokens, so that documents end often; now and then a document longer than a window.
        tokens in proptest::collection::vec(prop_oneof![4 => 1u32..9, 1 => Just(7)], 2..400),
        window in 1usize..20,
        targets in any_targets(),
        filled in any::<bool>(),
        (kind, endian, access, header) in any_file(),
    ) {
        let end = 7;
        let file = file_of([vec![9; header], stored(&tokens, kind, endian)].concat());
        let packing = if filled { TokenPacking::Filled } else { TokenPacking::Whole };
        let options = TokenOptions {
            window,
            cut: TokenCut::Documents { end, packing },
            targets,
            stored: kind,
            endian,
            access,
            header_bytes: header as u64,
            ..TokenOptions::default()
        };
        let overlap = overlap(targets);
        let windows = if filled {
            let starts = (0..tokens.len() - overlap).step_by(window);
            starts.map(|start| tokens[start..tokens.len().min(start + window + overlap)].to_vec()).collect()
        } else {
            naive_packing(&tokens, end, window + overlap, overlap)
        };
        let expected: Vec<Row> = windows.iter().map(|tokens| naive(tokens, window, targets, Some(end))).collect();
        prop_assert_eq!(rows(TokenReader::open(file.path(), &options).unwrap()), expected);
    }
}

/// Documents of these lengths, of tokens that all differ, but for the 0 that ends each.
fn documents_of(lens: &[usize]) -> Vec<u32> {
    let mut next = 1..;
    let document = |len: &usize| next.by_ref().take(len - 1).chain([0]).collect::<Vec<u32>>();
    lens.iter().flat_map(document).collect()
}

/// How full windows are by the rule, each time looking at all of them.
fn naive_best_fit(mut pieces: Vec<usize>, span: usize) -> Vec<usize> {
    pieces.sort_by_key(|len| std::cmp::Reverse(*len));
    let mut windows: Vec<usize> = Vec::new();
    for len in pieces {
        match windows.iter_mut().filter(|filled| **filled + len <= span).max_by_key(|filled| **filled) {
            Some(tightest) => *tightest += len,
            None => windows.push(len),
        }
    }
    windows.sort_unstable();
    windows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn best_fit_lays_each_document_whole_into_the_tightest_window(
        lens in proptest::collection::vec(prop_oneof![8 => 1usize..12, 1 => 12usize..60], 1..80),
        window in 2usize..20,
        shifted in any::<bool>(),
        access in prop_oneof![Just(Access::Read), Just(MAPPED)],
    ) {
        let tokens = documents_of(&lens);
        let targets = if shifted { TokenTargets::Inside } else { TokenTargets::None };
        let options = TokenOptions {
            window,
            cut: TokenCut::Documents { end: 0, packing: TokenPacking::BestFit },
            targets,
            stored: StoredType::U32,
            access,
            ..TokenOptions::default()
        };
        let (span, overlap) = (window + overlap(targets), overlap(targets));
        // A window of one token and its target need two.
        prop_assume!(tokens.len() > overlap);
        let mut pieces: Vec<Vec<u32>> = Vec::new();
        for mut document in tokens.split_inclusive(|token| *token == 0) {
            while document.len() > span {
                pieces.push(document[..span].to_vec());
                document = &document[span - overlap..];
            }
            pieces.push(document.to_vec());
        }
        let file = file_of(stored(&tokens, StoredType::U32, Endian::Little));
        let reader = TokenReader::open(file.path(), &options).unwrap();
        for beyond in [reader.len(), u64::MAX] {
            prop_assert_eq!(reader.place(beyond).record, Some(beyond));
            prop_assert!(reader.fetch(&[beyond], 0, &mut Scratch::default()).is_err());
        }
        let rows = rows(reader);
        let mut filled: Vec<usize> = Vec::new();
        let mut found: Vec<Vec<u32>> = Vec::new();
        for row in &rows {
            let (tokens, segments, positions, mask) = (&row[0], &row[1], &row[2], &row[3]);
            filled.push(segments.iter().filter(|segment| **segment > 0).count());
            for segment in 1..=segments.iter().copied().max().unwrap() {
                let at: Vec<usize> = (0..span).filter(|index| segments[*index] == segment).collect();
                prop_assert!(at.iter().zip(0..).all(|(index, nth)| positions[*index] == nth));
                prop_assert!(at.iter().enumerate().all(|(nth, index)| mask[*index] == i64::from(nth > 0 || !shifted)));
                found.push(at.iter().map(|index| tokens[*index] as u32).collect());
            }
            prop_assert!((0..span).all(|index| segments[index] > 0 || (tokens[index], mask[index]) == (0, 0)));
        }
        filled.sort_unstable();
        prop_assert_eq!(filled, naive_best_fit(pieces.iter().map(Vec::len).collect(), span));
        found.sort();
        pieces.sort();
        prop_assert_eq!(found, pieces);
    }
}

#[test]
fn documents_are_found_across_the_parts_that_threads_look_through() {
    // More than two parts of 2^20 tokens, with documents of up to 3,000.
    let mut tokens: Vec<u32> = (0..2_500_000u32).map(|i| i % 250).collect();
    let mut at = 0;
    while at < tokens.len() {
        tokens[at] = 255;
        at += 1 + (at * 7919) % 3000;
    }
    let file = file_of(stored(&tokens, StoredType::U8, Endian::Little));
    for access in [Access::Read, MAPPED] {
        let options = TokenOptions {
            window: 512,
            cut: TokenCut::Documents { end: 255, packing: TokenPacking::Whole },
            stored: StoredType::U8,
            access,
            ..TokenOptions::default()
        };
        let reader = TokenReader::open(file.path(), &options).unwrap();
        let expected = naive_packing(&tokens, 255, 513, 1);
        assert_eq!(reader.len(), expected.len() as u64);
        let inputs = rows(reader).into_iter().map(|row| row[0].clone());
        for (inputs, expected) in inputs.zip(expected) {
            let expected: Vec<i64> = expected.iter().take(512).map(|token| i64::from(*token)).collect();
            assert_eq!(inputs[..expected.len()], expected);
        }
    }
    let budget = MemoryBudget::new(1000);
    let options = TokenOptions {
        cut: TokenCut::Documents { end: 255, packing: TokenPacking::Whole },
        stored: StoredType::U8,
        ..TokenOptions::default()
    };
    let error = TokenReader::open_within(file.path(), &options, &budget).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Budget, Some(file.path())));
}

/// A file of the tokens 0, 1, 2 and so on, as u16.
fn counting(tokens: u32) -> tempfile::NamedTempFile {
    file_of(stored(&(0..tokens).collect::<Vec<_>>(), StoredType::U16, Endian::Little))
}

#[test]
fn random_windows_begin_anywhere_and_are_the_same_for_everyone() {
    let file = counting(10_000);
    let loader = |workers: usize, access| {
        let options = TokenOptions { window: 100, access, ..TokenOptions::default() };
        Loader::tokens(file.path(), options).shuffle(5).batch_size(16).workers(workers)
    };
    let mut begun = std::collections::BTreeSet::new();
    let mut batches = loader(1, MAPPED).build().unwrap();
    for _ in 0..3 {
        let mut samples = 0;
        for batch in &mut batches {
            let batch = batch.unwrap();
            let inputs = batch.tensor("inputs").unwrap().as_slice::<i64>().unwrap();
            let targets = batch.tensor("targets").unwrap().as_slice::<i64>().unwrap();
            for (nth, start) in batch.sample_ids().iter().enumerate() {
                let start = *start as i64;
                assert!(inputs[100 * nth..][..100].iter().copied().eq(start..start + 100));
                assert!(targets[100 * nth..][..100].iter().copied().eq(start + 1..start + 101));
                begun.insert(start);
                samples += 1;
            }
        }
        assert_eq!(samples, 99, "as many as places to begin, 9,900, hold windows side by side");
        batches.reset().unwrap();
    }
    assert_eq!(begun.len(), 3 * 99, "no place twice before all were drawn");
    assert!(begun.iter().any(|start| start % 100 != 0));
    let naive = see_all(&mut *loader(1, Access::Read).shield().build().unwrap());
    for (workers, access) in [(1, MAPPED), (3, MAPPED), (2, Access::Read)] {
        assert_eq!(see_all(&mut *loader(workers, access).build().unwrap()), naive);
    }
    let plan = loader(1, MAPPED).plan().unwrap();
    assert_eq!((plan.samples, plan.batches_per_epoch), (Some(99), Some(7)));
    let mut longer = loader(1, MAPPED).samples_per_epoch(1000).build().unwrap();
    assert_eq!((&mut longer).map(|batch| batch.unwrap().len()).sum::<usize>(), 1000);
}

#[test]
fn random_windows_go_on_where_a_state_says() {
    let file = counting(5000);
    let loader = Loader::tokens(file.path(), TokenOptions { window: 50, ..TokenOptions::default() }).shuffle(9);
    let mut whole = loader.build().unwrap();
    let first = whole.next().unwrap().unwrap();
    let state = first.state_after();
    let rest = see_all(&mut *whole);
    let mut resumed = loader.build().unwrap();
    resumed.seek(&state).unwrap();
    assert_eq!(see_all(&mut *resumed), rest);
    let other = Loader::tokens(file.path(), TokenOptions { window: 51, ..TokenOptions::default() }).shuffle(9);
    assert_eq!(other.build().unwrap().seek(&state).unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn random_windows_without_a_seed_are_a_fault_of_the_settings() {
    let file = counting(5000);
    let loader = Loader::tokens(file.path(), TokenOptions::default());
    let Err(error) = loader.build() else { panic!("there is no seed") };
    assert!(error.kind() == ErrorKind::Config && error.message().contains("give shuffle a seed"), "{error}");
    assert_eq!(loader.verify(|_| {}).unwrap().samples, 4, "windows side by side");
}

#[test]
fn a_token_beyond_the_vocabulary_is_a_bad_record_with_its_byte() {
    let mut tokens: Vec<u32> = (0..1000).map(|i| i % 500).collect();
    tokens[345] = 512;
    for (kind, access) in [(StoredType::U16, MAPPED), (StoredType::U32, Access::Read)] {
        let file = file_of([vec![0; 16], stored(&tokens, kind, Endian::Little)].concat());
        let options = TokenOptions {
            window: 100,
            cut: TokenCut::Contiguous { stride: None },
            vocabulary: Some(512),
            stored: kind,
            header_bytes: 16,
            access,
            ..TokenOptions::default()
        };
        let loader = Loader::tokens(file.path(), options.clone());
        let report = loader.verify(|_| {}).unwrap();
        assert_eq!((report.samples, report.bad_samples), (9, 1));
        let error = &report.bad[0];
        assert_eq!(error.location().record, Some(3));
        assert_eq!(error.location().byte, Some(16 + 345 * kind.bytes() as u64));
        assert!(error.message().contains("token 512 is beyond the vocabulary of 512"), "{error}");
        let skipping = loader.bad_records(BadRecords::Skip(BadLimits::default())).build().unwrap();
        assert_eq!(skipping.map(|batch| batch.unwrap().len()).sum::<usize>(), 8);
        let enough = TokenOptions { vocabulary: Some(513), ..options };
        assert!(Loader::tokens(file.path(), enough).verify(|_| {}).unwrap().is_ok());
    }
}

#[test]
fn npy_files_say_themselves_how_tokens_are_stored() {
    let write = |descr: &str, shape: &str, data: &[u8]| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        file_of([b"\x93NUMPY\x01\0", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), data].concat())
    };
    let tokens: Vec<u32> = (0..100).collect();
    let options = TokenOptions {
        window: 10,
        cut: TokenCut::Contiguous { stride: None },
        targets: TokenTargets::None,
        ..TokenOptions::default()
    };
    let good = write(">u4", "(100,)", &stored(&tokens, StoredType::U32, Endian::Big));
    let reader = TokenReader::open(good.path(), &options).unwrap();
    assert_eq!((reader.tokens(), reader.len()), (100, 10));
    assert_eq!(rows(reader)[9], [(90..100).collect::<Vec<i64>>()]);
    let error = |file: &tempfile::NamedTempFile| TokenReader::open(file.path(), &options).unwrap_err();
    let signed = error(&write("<i8", "(100,)", &[0; 800]));
    assert!(signed.kind() == ErrorKind::Unsupported && signed.message().contains("u8, u16 or u32"), "{signed}");
    let table = error(&write("<u2", "(10, 10)", &[0; 200]));
    assert!(table.kind() == ErrorKind::Unsupported && table.message().contains("reshape(-1)"), "{table}");
    let cut = error(&write("<u2", "(100,)", &[0; 199]));
    assert!(cut.kind() == ErrorKind::Format && cut.message().contains("promises"), "{cut}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let file = counting(100);
    let open = |options: TokenOptions| -> Error { TokenReader::open(file.path(), &options).unwrap_err() };
    let good = || TokenOptions { window: 10, ..TokenOptions::default() };
    let documents = |end| TokenCut::Documents { end, packing: TokenPacking::Whole };
    for (options, kind, part) in [
        (TokenOptions { window: 0, ..good() }, ErrorKind::Config, "1 to 2^30"),
        (TokenOptions { window: usize::MAX, ..good() }, ErrorKind::Config, "1 to 2^30"),
        (
            TokenOptions { window: 100, ..good() },
            ErrorKind::Config,
            "holds 100 tokens; a window and its targets need 101",
        ),
        (TokenOptions { cut: TokenCut::Contiguous { stride: Some(0) }, ..good() }, ErrorKind::Config, "stride"),
        (
            TokenOptions { cut: documents(100_257), ..good() },
            ErrorKind::Config,
            "100257; the file holds u16 tokens, which are 65535 at most",
        ),
        (
            TokenOptions { cut: documents(256), stored: StoredType::U8, ..good() },
            ErrorKind::Config,
            "256; the file holds u8 tokens, which are 255 at most",
        ),
        (
            TokenOptions { cut: documents(10), vocabulary: Some(10), ..good() },
            ErrorKind::Config,
            "10; no token of the vocabulary of 10",
        ),
        (TokenOptions { stored: StoredType::F32, ..good() }, ErrorKind::Config, "u8, u16 or u32"),
        (TokenOptions { header_bytes: 199, ..good() }, ErrorKind::Format, "remainder 1"),
        (TokenOptions { header_bytes: 201, ..good() }, ErrorKind::Format, "header_bytes are 201"),
    ] {
        let error = open(options);
        assert!(error.kind() == kind && error.message().contains(part), "{error}");
        assert_eq!(error.path(), Some(file.path()));
    }
    let missing = TokenReader::open(Path::new("no/such.bin"), &good()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let open = |field: Field| TokenReader::open_fields(file.path(), &[("inputs".to_owned(), field)], &good());
    for (field, kind, part) in [
        (Numbers::f32().into(), ErrorKind::Config, "tokens are whole numbers"),
        (Numbers::of(DType::I16).into(), ErrorKind::Schema, "do not fit i16"),
        (Text::new(3).into(), ErrorKind::Config, "windows of tokens hold numbers"),
        (Numbers::i64().from("tokens"), ErrorKind::Config, "windows of tokens have inputs, targets"),
        (Numbers::i64().from(["inputs"]), ErrorKind::Config, "windows of tokens hold numbers"),
    ] {
        let error = open(field).unwrap_err();
        assert!(error.kind() == kind && error.message().contains(part), "{error}");
        assert_eq!((error.path(), error.location().column.as_deref()), (Some(file.path()), Some("inputs")));
    }
    for dtype in [DType::U16, DType::I32, DType::U32] {
        let reader = open(Numbers::of(dtype).into()).unwrap();
        let source = ReaderSource::new(reader).batch_size(1);
        let batch = AsyncShieldDataSetIterator::new(source, &workspace(1, 1)).unwrap().next().unwrap().unwrap();
        let inputs = batch.tensor("inputs").unwrap();
        let expected: Vec<u8> = match dtype {
            DType::U16 => (0..10u16).flat_map(u16::to_ne_bytes).collect(),
            _ => (0..10u32).flat_map(u32::to_ne_bytes).collect(),
        };
        assert_eq!((inputs.dtype(), inputs.bytes()), (dtype, &expected[..]));
    }
}

#[test]
fn settings_name_how_tokens_are_cut() {
    let file = counting(1000);
    let config = |options: &str| -> LoaderConfig {
        let path = file.path();
        toml::from_str(&format!("[[sources]]\nformat = \"tokens\"\npath = {path:?}\noptions = {{ {options} }}"))
            .unwrap()
    };
    let cut = |options: &str| config(options).sources[0].options::<TokenFiles>().expect("tokens").clone();
    assert_eq!(cut(""), TokenOptions::default());
    assert_eq!(cut("cut = \"random\"").cut, TokenCut::Random);
    assert_eq!(cut("cut = \"contiguous\"").cut, TokenCut::Contiguous { stride: None });
    let contiguous = cut("window = 64, cut = { contiguous = { stride = 32 } }, targets = \"inside\"");
    assert_eq!((contiguous.cut, contiguous.targets), (TokenCut::Contiguous { stride: Some(32) }, TokenTargets::Inside));
    let documents = cut("cut = { documents = { end = 50256, packing = \"filled\" } }, targets = \"none\"");
    assert_eq!(documents.cut, TokenCut::Documents { end: 50256, packing: TokenPacking::Filled });
    let whole = config("window = 64, cut = { documents = { end = 9 } }");
    let plan = Loader::from(whole.clone()).plan().unwrap();
    assert!(plan.samples.is_none() && plan.unknown.iter().any(|why| why.contains("found only by reading all of")));
    let names: Vec<String> = plan.tensors.unwrap().into_iter().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["inputs", "targets", "segments", "positions", "targets_mask"]);
    assert!(Loader::from(whole).verify(|_| {}).unwrap().is_ok());
}

#[test]
fn fields_choose_among_the_tensors_of_a_window_their_names_and_their_types() {
    let file = counting(1000);
    let load = |settings: &str| -> LoaderConfig {
        toml::from_str(&format!("[source]\nformat = \"tokens\"\npath = {:?}\n{settings}", file.path())).unwrap()
    };
    let documents = "options = { window = 8, cut = { documents = { end = 9 } } }\n";
    let all = see_all(&mut *Loader::from(load(documents)).build().unwrap());
    let wanted = "[fields]\ny = { from = \"targets\", numbers = \"i64\" }\npositions = \"i32\"\nx = { from = \"inputs\", numbers = \"u16\" }\n";
    let loader = Loader::from(load(&format!("{documents}{wanted}")));
    let tensors = loader.plan().unwrap().tensors.unwrap();
    let told: Vec<_> = tensors.iter().map(|tensor| (&*tensor.name, tensor.dtype, tensor.role)).collect();
    let expected = [
        ("y", DType::I64, Role::Label),
        ("y_mask", DType::U8, Role::Mask),
        ("positions", DType::I32, Role::Feature),
        ("x", DType::U16, Role::Feature),
    ];
    assert_eq!(told, expected);
    // In the order of a window's own: inputs, targets, segments, positions, mask.
    let chosen = see_all(&mut *loader.build().unwrap());
    assert_eq!(chosen.len(), all.len());
    for (chosen, all) in chosen.iter().zip(&all) {
        assert_eq!([&chosen.tensors[0], &chosen.tensors[1], &chosen.tensors[2]], [1, 4, 3].map(|at| &all.tensors[at]));
        let inputs: Vec<i64> = bytemuck::pod_collect_to_vec(&all.tensors[0]);
        let narrow: Vec<u16> = bytemuck::pod_collect_to_vec(&chosen.tensors[3]);
        assert!(narrow.iter().map(|token| i64::from(*token)).eq(inputs));
    }
    // The words of earlier versions are told those of today.
    for (options, fields) in [
        ("window = 8, dtype = \"i32\"", "inputs = { numbers = \"i32\" }, targets = { numbers = \"i32\" }"),
        ("targets = \"none\", dtype = \"u16\"", "tokens = { numbers = \"u16\" }"),
        (
            "cut = { documents = { end = 1 } }, targets = \"inside\", dtype = \"i32\"",
            "tokens = { numbers = \"i32\" }, segments = { numbers = \"i32\" }, positions = { numbers = \"i32\" }",
        ),
    ] {
        let text = format!("[source]\nformat = \"tokens\"\npath = \"x\"\noptions = {{ {options} }}\n");
        let error = toml::from_str::<LoaderConfig>(&text).unwrap_err().to_string();
        assert!(error.contains(&format!("write beside the path: fields = {{ {fields} }}")), "{error}");
    }
}

#[test]
fn the_header_of_llm_c_is_no_tokens() {
    let file = |magic: u32, version: u32, tokens: u32, kind| {
        let mut header = vec![0; 1024];
        for (at, number) in [magic, version, tokens].into_iter().enumerate() {
            header[at * 4..][..4].copy_from_slice(&number.to_le_bytes());
        }
        file_of([header, stored(&(0..8).collect::<Vec<_>>(), kind, Endian::Little)].concat())
    };
    let options = TokenOptions {
        window: 4,
        cut: TokenCut::Contiguous { stride: None },
        targets: TokenTargets::None,
        ..TokenOptions::default()
    };
    for (magic, version, kind) in [(20_240_520, 1, StoredType::U16), (20_240_801, 7, StoredType::U32)] {
        let file = file(magic, version, 8, kind);
        let reader = TokenReader::open(file.path(), &options).unwrap();
        assert_eq!(reader.len(), 2);
        assert_eq!(rows(reader)[1], naive(&[4, 5, 6, 7], 4, TokenTargets::None, None));
    }
    let cut = file(20_240_520, 1, 9, StoredType::U16);
    let error = TokenReader::open(cut.path(), &options).err().unwrap();
    assert!(error.to_string().contains("says 9 tokens"), "{error}");
    let raw = TokenOptions { header_bytes: 512, ..options };
    assert_eq!(TokenReader::open(cut.path(), &raw).unwrap().len(), (512 + 16) / 2 / 4);
}
