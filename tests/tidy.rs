//! The house rules that a compiler does not know: which module may import which, that no files import each other in a
//! circle, and where unsafe code lives.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules by floor; a module imports only from lower floors and from itself.
const FLOORS: [&[&str]; 14] = [
    &["control_group", "error", "float16", "processor", "random", "sync", "system"],
    &["caught", "counters", "dtype", "files", "filter", "tree"],
    &["schema"],
    &["layout", "memory"],
    &["view"],
    &["row"],
    &["ring"],
    &["decode", "normalise", "positions", "stats", "storage"],
    &["read"],
    &["pack", "prepare", "transform"],
    &["dataset"],
    &["prefetch"],
    &["device"],
    &["loader"],
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

/// The lines of a source file without the items that only tests have, and the lines of those items. Such an item ends
/// with the first line that has its own indentation and closes it, as `cargo fmt` writes it.
fn parted(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut kept, mut tests) = (Vec::new(), Vec::new());
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
        for line in lines.by_ref() {
            tests.push(line);
            if ends(&line) {
                break;
            }
        }
    }
    (kept, tests)
}

/// A path below the repository's root.
fn rooted(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Names below `folder`, and what they hold.
fn texts_in(folder: &str) -> Vec<(String, String)> {
    let root = rooted(folder);
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let mut files: Vec<_> = paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("below the folder").to_string_lossy().replace('\\', "/");
            (name, std::fs::read_to_string(&path).expect("a source file"))
        })
        .collect();
    files.sort();
    files
}

/// Lines without indentation, and without comments.
fn code<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    lines.into_iter().map(str::trim).filter(|line| !line.starts_with("//")).map(str::to_owned).collect()
}

/// Name below `folder` and lines of code: no comments, and nothing that only tests have.
fn code_in(folder: &str) -> Vec<(String, Vec<String>)> {
    texts_in(folder).into_iter().map(|(name, text)| (name, code(parted(&text).0))).collect()
}

/// Name below `folder` and lines of code that only tests have: items of a file, and the files of modules that are such
/// items.
fn tests_in(folder: &str) -> Vec<(String, Vec<String>)> {
    let texts = texts_in(folder);
    let mut modules = Vec::new();
    for (name, text) in &texts {
        let place = name.trim_end_matches(".rs");
        let is_root = ["mod", "lib", "main"].iter().any(|root| place == *root || place.ends_with(&format!("/{root}")));
        let within = if is_root { &place[..place.rfind('/').map_or(0, |at| at + 1)] } else { &format!("{place}/") };
        for line in code(parted(text).1) {
            let module = line.split_once("mod ").and_then(|(_, rest)| rest.strip_suffix(';'));
            modules.extend(module.map(|module| format!("{within}{module}")));
        }
    }
    let is_test = |name: &str| {
        modules.iter().any(|module| name == format!("{module}.rs") || name.starts_with(&format!("{module}/")))
    };
    let parts = texts.iter().map(|(name, text)| {
        let lines = if is_test(name) { code(text.lines()) } else { code(parted(text).1) };
        (name.clone(), lines)
    });
    parts.filter(|(_, lines)| !lines.is_empty()).collect()
}

/// The library's files, but for its root, which only names what is public.
fn library() -> Vec<(String, Vec<String>)> {
    let files: Vec<_> = code_in("src").into_iter().filter(|(name, _)| name != "lib.rs").collect();
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
fn readers_come_to_files_by_the_storage_alone() {
    const WAYS: [&str; 8] = [
        "std::fs",
        "File::options",
        "files::open",
        "open_unseen",
        "open_file(",
        "Input::open(",
        "LocalFile::open",
        "storage::read_file",
    ];
    // What is read there is no data.
    const OTHERS: [(&str, &str); 9] = [
        ("control_group.rs", "limits of the process"),
        ("error.rs", "names beside a missing one"),
        ("loader/file.rs", "settings"),
        ("memory/block.rs", "files of memory"),
        ("pack/", "what it writes"),
        ("prefetch/scheduling.rs", "waits of a thread"),
        ("read/folder/listing.rs", "a folder's identity, where it has no number"),
        ("read/saved.rs", "indexes that Ringfeed itself saves"),
        ("read/tokens/text.rs", "tokens that it writes"),
    ];
    let ways = |code: &[String]| -> Vec<String> {
        code.iter().filter(|line| WAYS.iter().any(|way| line.contains(way))).cloned().collect()
    };
    let rooms = library().into_iter().filter(|(name, _)| {
        !(name.starts_with("files/") || name.starts_with("storage/") || name.ends_with("tests.rs"))
    });
    let (others, readers): (Vec<_>, Vec<_>) =
        rooms.partition(|(name, _)| OTHERS.iter().any(|(other, _)| name.starts_with(other)));
    let own: Vec<String> = readers
        .iter()
        .flat_map(|(name, code)| ways(code).into_iter().map(move |line| format!("{name}: {line}")))
        .collect();
    assert!(own.is_empty(), "{}", own.join("\n"));
    for (other, what) in OTHERS {
        let opens = others.iter().any(|(name, code)| name.starts_with(other) && !ways(code).is_empty());
        assert!(opens, "{other} does not read {what}: take it off the list");
    }
}

/// A module, or what is in one, by the names on the way to it from the crate's root.
type Names = Vec<String>;

/// The files of a crate, each a module, and what their code names.
struct Modules {
    /// What each module imports or names by its path.
    named: BTreeMap<Names, Vec<Names>>,
    /// What modules offer that lies elsewhere (`pub use`), by the name that it has there.
    offered: BTreeMap<Names, Names>,
}

impl Modules {
    fn of(files: &[(String, Vec<String>)]) -> Self {
        let module = |name: &str| -> Names {
            let path = name.trim_end_matches(".rs").trim_end_matches("/mod");
            path.split('/').filter(|part| !["main", "lib"].contains(part)).map(str::to_owned).collect()
        };
        let names: BTreeSet<Names> = files.iter().map(|(name, _)| module(name)).collect();
        let mut modules = Self { named: BTreeMap::new(), offered: BTreeMap::new() };
        for (name, code) in files {
            let own = module(name);
            let (uses, rest) = imports(code);
            let used = used_names(&rest);
            let named = modules.named.entry(own.clone()).or_default();
            for Use { is_public, path, name } in uses {
                match absolute(&names, &own, &path) {
                    Some(path) if is_public => {
                        if used.contains(&*name) {
                            named.push(path.clone());
                        }
                        modules.offered.insert(own.iter().cloned().chain([name]).collect(), path);
                    }
                    Some(path) => named.push(path),
                    None => {}
                }
            }
            for path in rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
                if path.contains("::") {
                    named.extend(absolute(&names, &own, path));
                }
            }
        }
        modules
    }

    /// The file in which `path` is defined: the innermost module on the way to it, behind what others only offer.
    fn home(&self, path: &[String]) -> Names {
        let module = (0..=path.len()).rev().find(|len| self.named.contains_key(&path[..*len])).unwrap_or(0);
        let offered = path.get(module).and_then(|_| self.offered.get(&path[..=module]));
        match offered {
            Some(elsewhere) if elsewhere[..] != path[..=module] => {
                self.home(&[elsewhere, &path[module + 1..]].concat())
            }
            _ => path[..module].to_vec(),
        }
    }

    /// Modules that import each other in a circle, if there are any: the first one stands at both ends.
    fn circle(&self) -> Option<Vec<String>> {
        let mut done = BTreeSet::new();
        self.named.keys().find_map(|module| self.circle_from(module, &mut Vec::new(), &mut done))
    }

    fn circle_from(&self, module: &Names, way: &mut Vec<Names>, done: &mut BTreeSet<Names>) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|earlier| earlier == module) {
            let circle = way[start..].iter().chain([module]);
            return Some(circle.map(|names| names.join("::")).collect());
        }
        let paths = self.named.get(module)?;
        if !done.insert(module.clone()) {
            return None;
        }
        way.push(module.clone());
        let homes: BTreeSet<Names> = paths.iter().map(|path| self.home(path)).collect();
        let found = homes.iter().filter(|home| *home != module).find_map(|home| self.circle_from(home, way, done));
        way.pop();
        found
    }
}

/// What a `use` statement names.
struct Use {
    /// Whether it is offered on.
    is_public: bool,
    path: String,
    /// Its name in the importing module.
    name: String,
}

/// What `use` statements name, and the code without those statements.
fn imports(code: &[String]) -> (Vec<Use>, String) {
    let (mut uses, mut rest) = (Vec::new(), String::new());
    let mut lines = code.iter();
    while let Some(line) = lines.next() {
        let is_use = |line: &str| line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ");
        if !is_use(line) {
            rest += line;
            rest.push('\n');
            continue;
        }
        let mut statement = line.clone();
        while !statement.contains(';') {
            statement += lines.next().expect("a statement ends");
        }
        let (before, tree) = statement.split_once("use ").expect("it is a use statement");
        let mut paths = Vec::new();
        leaves(tree.trim_end_matches(';'), "", &mut paths);
        let is_public = before.starts_with("pub");
        uses.extend(paths.into_iter().map(|(path, name)| Use { is_public, path, name }));
    }
    (uses, rest)
}

/// The names that code uses by themselves: no fields, no methods, no words in texts. A name that the code also gives to
/// a value counts if it is called, or is a type's.
fn used_names(code: &str) -> BTreeSet<&str> {
    const DEFINE: [&str; 9] = ["fn", "mod", "struct", "enum", "trait", "type", "const", "static", "union"];
    let words = words(code);
    let (mut used, mut bound) = (BTreeSet::new(), BTreeSet::new());
    for (at, word) in words.iter().copied().enumerate() {
        let before = |back: usize| at.checked_sub(back).map_or("", |at| words[at]);
        let after = |ahead: usize| words.get(at + ahead).copied().unwrap_or_default();
        let leads_on = after(1) == ":" && after(2) == ":";
        let is_member = before(1) == "." && before(2) != "." || before(1) == ":" && before(2) == ":";
        let is_label = after(1) == ":" && !leads_on;
        let gives = match before(1) {
            "let" => true,
            "mut" => ["let", "(", ",", "|"].contains(&before(2)),
            "for" => after(1) == "in",
            "(" => before(2).starts_with(char::is_uppercase),
            "|" => after(1) == "|",
            _ => false,
        };
        let is_certain = leads_on || after(1) == "(" || word.starts_with(char::is_uppercase);
        if gives || is_label {
            bound.insert(word);
        } else if !is_member && !DEFINE.contains(&before(1)) {
            used.insert((word, is_certain));
        }
    }
    let counts = |(word, is_certain): &(&str, bool)| *is_certain || !bound.contains(word);
    used.into_iter().filter(counts).map(|(word, _)| word).collect()
}

/// The words and signs of code, without its texts and comments.
fn words(code: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let hashes = rest.strip_prefix('r').map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
        let (len, is_code) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if first == 'r' && rest[1 + hashes..].starts_with('"') {
            let (begin, end) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
            (rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len()), false)
        } else if first == '"' {
            let mut is_escaped = false;
            let ends = |c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            };
            (rest[1..].find(ends).map_or(rest.len(), |at| at + 2), false)
        } else if first == '\'' {
            // A character between two signs, or the sign before the name of a lifetime.
            let end = rest.char_indices().nth(2 + usize::from(rest[1..].starts_with('\\')));
            (end.filter(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1), false)
        } else if is_name(first) {
            (rest.find(|c| !is_name(c)).unwrap_or(rest.len()), true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        words.extend(is_code.then_some(&rest[..len]));
        rest = &rest[len..];
    }
    words
}

/// The paths of a `use` tree, and the names that it gives to what is there.
fn leaves(tree: &str, before: &str, into: &mut Vec<(String, String)>) {
    let mut depth = 0;
    let parts = tree.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('{') {
            Some((shared, inner)) => leaves(&inner[..inner.len() - 1], &format!("{before}{shared}"), into),
            None => {
                let (path, alias) = part.split_once(" as ").map_or((part, None), |(path, alias)| (path, Some(alias)));
                let path = format!("{before}{path}").trim_end_matches("::self").to_owned();
                let name = alias.or(path.rsplit("::").next()).unwrap_or_default().to_owned();
                into.push((path, name));
            }
        }
    }
}

/// `path`, written in module `own`, from the crate's root; `None` if it leads elsewhere, or to what is in the module.
fn absolute(modules: &BTreeSet<Names>, own: &[String], path: &str) -> Option<Names> {
    let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    let mut base = own.to_vec();
    match *parts.first()? {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while parts.first() == Some(&"super") {
                parts.remove(0);
                base.pop();
            }
            parts.insert(0, "super");
        }
        child => {
            base.push(child.to_owned());
            return modules
                .contains(&base)
                .then(|| base.into_iter().chain(parts[1..].iter().map(|part| (*part).to_owned())).collect());
        }
    }
    base.extend(parts[1..].iter().map(|part| (*part).to_owned()));
    Some(base)
}

/// A file imports what another one defines only if that one does not, on whatever way, import what it defines itself.
/// Where a module only hands on what a child defines (`pub use`), that is not its own; where its code also uses it, it
/// imports it. So a module may be read, tested and taken out together with what it imports. It holds for a module and
/// its children, too: what both need stands in a file beside the children, and `mod.rs` uses them, or only names them.
#[test]
fn no_files_import_each_other_in_a_circle() {
    for folder in ["src", "command/src", "python/src"] {
        let files = code_in(folder);
        assert!(files.len() > 5, "the sources in {folder} were found");
        let circle = Modules::of(&files).circle();
        let way = circle.as_ref().map(|circle| circle.join(" -> ")).unwrap_or_default();
        assert!(circle.is_none(), "in {folder}: {way}; move what two of them need into a file of its own");
    }
}

#[test]
fn circles_are_found_through_what_modules_hand_on() {
    let file = |name: &str, code: &[&str]| (name.to_owned(), code.iter().map(|line| (*line).to_owned()).collect());
    let files = |last: &str| {
        [
            file("a/mod.rs", &["mod b;", "pub use b::{", "B,", "};", "fn a() -> usize {", "b::b()", "}"]),
            file("a/b.rs", &["use crate::c::{d::{self, D}, e as f};", "fn b() {}"]),
            file("c/mod.rs", &["mod d;", "pub(crate) use d::D;"]),
            file("c/d.rs", &[last]),
        ]
    };
    assert_eq!(Modules::of(&files("use crate::a::other;")).circle().expect("a uses b").join(" "), "a a::b c::d a");
    assert_eq!(Modules::of(&files("fn d() -> super::super::a::B {}")).circle().expect("B").join(" "), "a::b c::d a::b");
    assert_eq!(Modules::of(&files("use super::D;")).circle(), None);
}

#[test]
fn a_module_imports_what_it_hands_on_and_uses() {
    let circle = |line: &str| {
        let files = [
            ("a/mod.rs", vec!["pub use b::{B, c};", "pub(super) use b::e as f;", "struct D(usize);", line]),
            ("a/b.rs", vec!["use super::D;"]),
        ];
        let files = files.map(|(name, code)| (name.to_owned(), code.into_iter().map(str::to_owned).collect()));
        Modules::of(&files).circle().is_some()
    };
    let used = [
        "struct E { b: B }",
        "fn d<'b>(b: &'b mut B) {}",
        "let c = c();",
        "list.map(c)",
        "f::g()",
        "let a = '\"'; B; let b = '\"';",
        "impl d::E for B {}",
    ];
    for line in used {
        assert!(circle(line), "{line}");
    }
    let unused = [
        "",
        "fn c() {}",
        "d.c()",
        "d.B",
        "E::B",
        "let c = 1; d(c)",
        "if let Some(c) = d { c + 1 }",
        "fn d(c: usize) -> usize { c }",
        "let d = \"B \\\" c() B\"; // B",
        "let d = r#\"\"B\"#;",
        "let e = e();",
    ];
    for line in unused {
        assert!(!circle(line), "{line}");
    }
}

/// What everybody needs stands at the root; everything else is in a module.
#[test]
fn a_dozen_names_stand_at_the_root() {
    let text = std::fs::read_to_string(rooted("src/lib.rs")).expect("the root");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//")).map(str::to_owned);
    // What is in a module is indented.
    let code: Vec<String> = lines.filter(|line| !line.starts_with("    pub use")).collect();
    let (uses, _) = imports(&code);
    let names: Vec<String> = uses.into_iter().filter(|found| found.is_public).map(|found| found.path).collect();
    assert!((1..=12).contains(&names.len()), "{} names at the root: {}", names.len(), names.join(", "));
}

/// The files that `ARCHITECTURE.md` lists in the table under the heading `heading`.
fn listed_under(heading: &str) -> Vec<String> {
    let text = std::fs::read_to_string(rooted("ARCHITECTURE.md")).expect("a page");
    let (_, section) = text.split_once(&format!("\n{heading}\n")).expect("the heading is there");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('`').nth(1));
    cells.map(str::to_owned).collect()
}

#[test]
fn unsafe_code_lives_in_the_files_whose_promises_are_written_down() {
    let begins = ["{", "impl", "fn", "trait", "extern"].map(|what| format!("unsafe {what}"));
    let is_unsafe = |line: &String| begins.iter().any(|begin| line.contains(begin));
    let of = |folder: &str, prefix: &str| -> Vec<String> {
        let with_unsafe = code_in(folder).into_iter().filter(|(_, code)| code.iter().any(is_unsafe));
        with_unsafe.map(|(name, _)| format!("{prefix}{name}")).collect()
    };
    let beside = ["command/src/", "python/src/"].map(|folder| of(folder, folder));
    assert_eq!([of("src", ""), beside.concat()].concat(), listed_under("### Unsafe code"));
}

/// What the library is built of, with the reason for each; what only the command and the Python package need stands
/// there, too, but is none of it.
#[test]
fn every_dependency_of_the_library_has_its_reason() {
    let cargo = std::fs::read_to_string(rooted("Cargo.toml")).expect("the package");
    let cargo: toml::Table = cargo.parse().expect("it is TOML");
    let targets = cargo["target"].as_table().expect("dependencies of some targets");
    let targets = targets.iter().filter(|(target, _)| *target != "cfg(ringfeed_loom)").map(|(_, target)| target);
    let tables = targets.filter_map(|target| target.get("dependencies")).chain([&cargo["dependencies"]]);
    let found: BTreeSet<String> = tables.flat_map(|table| table.as_table().expect("names").keys().cloned()).collect();
    let text = std::fs::read_to_string(rooted("ARCHITECTURE.md")).expect("a page");
    let (_, section) = text.split_once("\n## Dependencies\n").expect("the heading is there");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let of_library = rows
        .filter_map(|row| row.split('|').nth(1))
        .filter(|cell| !["the command", "of the command", "Python package"].iter().any(|other| cell.contains(other)));
    let names = of_library.flat_map(|cell| {
        let crates = cell.split('(').next().unwrap_or_default();
        crates.split('`').skip(1).step_by(2).map(str::to_owned)
    });
    assert_eq!(found, names.collect::<BTreeSet<_>>());
}

/// No test pauses in the hope that another thread has then finished: tests wait for a notification, or poll. Only the
/// listed files may pause.
#[test]
fn only_listed_tests_sleep() {
    // A browser that does not end, and how long the causes of a verdict take.
    const MAY: [&str; 4] = ["common/latency.rs", "common/until.rs", "formats/page.rs", "verdict.rs"];
    let word = ["sl", "eep"].concat();
    let sleeps = |line: &String| line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|name| name == word);
    let of = |folder: &str, files: Vec<(String, Vec<String>)>, may: &[&str]| {
        let files = files.into_iter().filter(|(name, _)| !name.starts_with("cuda_driver/"));
        let sleeping: Vec<String> = files.filter(|(_, code)| code.iter().any(sleeps)).map(|(name, _)| name).collect();
        assert_eq!(sleeping, may, "in {folder}, only {may:?} may do this");
    };
    of("tests", code_in("tests"), &MAY);
    of("command/tests", code_in("command/tests"), &["common/pseudo.rs"]);
    for (folder, files) in [("src", 60), ("command/src", 3), ("python/src", 0)] {
        let tests = tests_in(folder);
        assert!(tests.len() >= files, "{folder}: tests in {} files", tests.len());
        of(folder, tests, &[]);
    }
}

#[test]
fn what_only_tests_have_is_left_out_and_what_follows_it_is_not() {
    let text = "use a;\n#[cfg(test)]\nuse b;\nfn c() {\n    #[cfg(all(test, unix))]\n    if d {\n        e;\n    }\n    f;\n}\n\
                #[cfg(test)]\n#[expect(dead_code)]\nmod g {\n    fn h() {\n    }\n}\nfn i() {}\n";
    let (kept, tests) = parted(text);
    assert_eq!(kept, ["use a;", "fn c() {", "    f;", "}", "fn i() {}"]);
    let items = ["use b;", "    if d {", "        e;", "    }"];
    assert_eq!(tests[..4], items);
    assert_eq!(tests[4..], ["#[expect(dead_code)]", "mod g {", "    fn h() {", "    }", "}"]);
}
