//! The house rules that a compiler does not know: which module may import which, and where unsafe code lives.

use std::path::{Path, PathBuf};

/// Modules by floor; a module imports only from lower floors and from itself.
const FLOORS: [&[&str]; 14] = [
    &["error", "random", "sync"],
    &["counters", "dtype"],
    &["schema"],
    &["layout", "memory"],
    &["files", "view"],
    &["row"],
    &["ring"],
    &["decode", "normalise", "order", "stats", "storage"],
    &["read"],
    &["transform"],
    &["dataset"],
    &["prefetch"],
    &["device"],
    &["loader"],
];

/// The only files with unsafe code.
const UNSAFE: [&str; 15] = [
    "decode/fused.rs",
    "decode/image/baseline/kernels.rs",
    "decode/image/turbojpeg.rs",
    "device/cuda/driver.rs",
    "device/cuda/mod.rs",
    "device/dlpack.rs",
    "device/flight.rs",
    "device/host.rs",
    "memory/block.rs",
    "memory/scope.rs",
    "prefetch/background.rs",
    "ring/slot.rs",
    "row.rs",
    "storage/gather.rs",
    "storage/input.rs",
];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The lines of a source file without the items that only tests have. Such an item ends with the first line that has its
/// own indentation and closes it, as `cargo fmt` writes it.
fn without_tests(text: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if !code.starts_with("#[cfg(test)]") && !code.starts_with("#[cfg(all(test") {
            kept.push(line);
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let ends = |line: &&str| {
            let own = line.strip_prefix(indent).filter(|rest| !rest.starts_with(' '));
            own.is_some_and(|own| own.ends_with([';', '}']) || own.starts_with('}'))
        };
        lines.by_ref().find(ends);
    }
    kept
}

/// Name below `src/` and lines of code: no comments, and nothing that only tests have.
fn library() -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let mut files: Vec<_> = paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("below src").to_string_lossy().replace('\\', "/");
            let text = std::fs::read_to_string(&path).expect("a source file");
            let code = without_tests(&text)
                .into_iter()
                .map(str::trim)
                .filter(|line| !line.starts_with("//"))
                .map(str::to_owned)
                .collect();
            (name, code)
        })
        .filter(|(name, _)| name != "lib.rs")
        .collect();
    files.sort();
    assert!(files.len() > 30, "the sources were found");
    files
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

#[test]
fn a_module_imports_only_from_lower_floors() {
    let mut faults = Vec::new();
    for (name, code) in library() {
        let module = name.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let Some(own) = floor(&module) else {
            faults.push(format!("{name}: module {module:?} has no floor"));
            continue;
        };
        for line in code {
            for (at, _) in line.match_indices("crate::") {
                let rest = &line[at + "crate::".len()..];
                let imported: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                match floor(&imported) {
                    Some(other) if other < own || imported == module => {}
                    Some(_) => faults.push(format!("{name}: imports {imported:?}, which is not below")),
                    None => faults.push(format!("{name}: names crate::{imported} by no module: {line}")),
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn unsafe_code_lives_in_few_files() {
    let with_unsafe: Vec<String> = library()
        .into_iter()
        .filter(|(_, code)| code.iter().any(|line| line.contains("unsafe {") || line.contains("unsafe impl")))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(with_unsafe, UNSAFE);
}

#[test]
fn what_only_tests_have_is_left_out_and_what_follows_it_is_not() {
    let text = "use a;\n#[cfg(test)]\nuse b;\nfn c() {\n    #[cfg(all(test, unix))]\n    if d {\n        e;\n    }\n    f;\n}\n\
                #[cfg(test)]\n#[expect(dead_code)]\nmod g {\n    fn h() {\n    }\n}\nfn i() {}\n";
    assert_eq!(without_tests(text), ["use a;", "fn c() {", "    f;", "}", "fn i() {}"]);
}
