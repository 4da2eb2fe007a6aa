//! Settings from a file, and their faults: the key, its line, the allowed values, and a likely correction.

mod hints;
mod lines;

use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

use crate::tree::{Fault, Node, Step, TAGS, What};

/// The two formats of settings.
#[derive(Clone, Copy)]
pub(super) enum Language {
    Toml,
    Json,
}

/// The beginning of the error for a text that is not TOML.
pub(super) const NOT_TOML: &str = "is not TOML";

/// The mark that some editors write at the beginning of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The settings in `text`.
pub(super) fn parse<T: DeserializeOwned>(text: &str, language: Language) -> Result<T> {
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    let mut node = match language {
        Language::Json => serde_json::from_str(text).map_err(|error| {
            let message = format!("is not JSON: {}, in column {}", json_words(&error), error.column());
            Error::new(ErrorKind::Config, message).at_line(error.line() as u64).with_source(error)
        })?,
        Language::Toml => toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| lines::of_byte(text, span.start));
            let in_line = text.lines().nth(line as usize - 1).unwrap_or_default();
            let words = match in_line.trim_end().strip_suffix('=') {
                Some(key) if !key.contains('=') => format!("{} has no value", key.trim()),
                _ => error.message().to_owned(),
            };
            let message = format!("{NOT_TOML}, the language of settings: {words}");
            Error::new(ErrorKind::Config, message).at_line(line).with_source(error)
        })?,
    };
    lengthen(&mut node);
    T::deserialize(&node).map_err(|fault| {
        let path = culprit::<T>(&mut node, &fault);
        let written = as_written(text, language, &path);
        let line = in_text(text, language, &written);
        let hint = hints::hint(&node, &path, &fault.text)
            .or_else(|| kinds::<T>(&mut node, &path, &fault))
            .or_else(|| of_the_whole::<T>(&path, &fault))
            .unwrap_or_default();
        Error::new(ErrorKind::Config, format!("{}{}{hint}", name(&written), fault.text)).at_line(line.unwrap_or(1))
    })
}

/// The fault of a JSON text, without its place.
fn json_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ").map_or(&*text, |(words, _)| words) {
        "expected ident" | "expected value" => {
            "expected a value, which is true, false, null, a number, a text in quotes, a list or an object".to_owned()
        }
        words => words.to_owned(),
    }
}

/// The list of kinds, for a table that has no kind.
fn kinds<T: DeserializeOwned>(root: &mut Node, path: &[Step], fault: &Fault) -> Option<String> {
    let tag = TAGS.iter().find(|tag| fault.text == format!("{tag:?} is missing"))?;
    let Node::Table(entries) = root.at(path)? else { return None };
    entries.push(((*tag).to_owned(), Node::Text(String::new())));
    let unknown = T::deserialize(&*root).err()?;
    Some(format!("; {}", unknown.text.strip_prefix("\"\" is not allowed; ")?))
}

/// Advice for a setting of the whole that stands in a table: in TOML, what follows the head of a table belongs to it.
fn of_the_whole<T: DeserializeOwned>(path: &[Step], fault: &Fault) -> Option<String> {
    let [table, .., Step::Key(key)] = path else { return None };
    // There, any name is one of a field.
    let is_field = path.len() == 2 && *table == Step::Key("fields".to_owned());
    if !is_field && (!fault.text.starts_with(NO_SETTING) || fault.text.contains(MEANT)) {
        return None;
    }
    let alone = Node::Table(vec![(key.clone(), Node::Null)]);
    let known = match T::deserialize(&alone) {
        Err(unknown) if unknown.text.starts_with(NO_SETTING) => {
            let near = unknown.text.split_once(MEANT)?.1.split('"').next()?;
            (!is_field && strsim::damerau_levenshtein(key, near) == 1).then(|| near.to_owned())?
        }
        _ => key.clone(),
    };
    Some(format!(
        "; {known} belongs to all of the settings: write it outside of tables, in TOML before the first [table]"
    ))
}

/// Turns faults of the settings in `text` into one error, with the line of each; nothing if there are none.
pub(super) fn no_faults_in(text: &str, language: Language, faults: Vec<String>) -> Result<()> {
    let key = |fault: &String| fault.split_once(": ").map_or(String::new(), |(key, _)| key.to_owned());
    let line = |fault: &String| find_line(text, language, &key(fault)).unwrap_or(1);
    let mut placed: Vec<_> = faults.into_iter().map(|fault| (line(&fault), fault)).collect();
    placed.sort_by_key(|(line, _)| *line);
    let message = match placed.as_slice() {
        [] => return Ok(()),
        [(_, fault)] => fault.clone(),
        several => {
            let lines: Vec<_> = several.iter().map(|(line, fault)| format!("line {line}: {fault}")).collect();
            format!("{} faults in the settings:\n  {}", several.len(), lines.join("\n  "))
        }
    };
    Err(Error::new(ErrorKind::Config, message).at_line(placed[0].0))
}

/// Adds to an error the line of the key that it begins with, if the file has this key.
pub(super) fn in_line(error: Error, text: &str, language: Language) -> Error {
    let key = error.message().split_once(": ").map_or("", |(key, _)| key);
    match find_line(text, language, key) {
        Some(line) => error.at_line(line),
        None => error,
    }
}

/// The line of a key, if the file has it.
pub(super) fn line_of(text: &str, language: Language, key: &str) -> Option<u64> {
    in_text(text.trim_start_matches(BYTE_ORDER_MARK), language, &steps(key))
}

/// The line of a key, or of the longest part of its path that is in the file.
fn find_line(text: &str, language: Language, key: &str) -> Option<u64> {
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    let path = as_written(text, language, &steps(key));
    (1..=path.len()).rev().find_map(|len| in_text(text, language, &path[..len]))
}

fn in_text(text: &str, language: Language, path: &[Step]) -> Option<u64> {
    match language {
        Language::Toml => lines::in_toml(text, path),
        Language::Json => lines::in_json(text, path),
    }
}

/// The path by which the text names a setting: two of them may be parts of `shuffle`.
fn as_written(text: &str, language: Language, path: &[Step]) -> Vec<Step> {
    match path {
        [Step::Key(key)] if key == "shuffle_blocks" && in_text(text, language, path).is_none() => {
            steps("shuffle.blocks")
        }
        path => path.to_vec(),
    }
}

fn steps(key: &str) -> Vec<Step> {
    let parts = key.split(['.', '[']).filter(|part| !part.is_empty());
    let step = |part: &str| match part.strip_suffix(']').and_then(|index| index.parse().ok()) {
        Some(index) => Step::Index(index),
        None => Step::Key(part.to_owned()),
    };
    parts.map(step).collect()
}

fn name(path: &[Step]) -> String {
    let mut name = String::new();
    for step in path {
        match step {
            Step::Key(key) if name.is_empty() => name += key,
            Step::Key(key) => name += &format!(".{key}"),
            Step::Index(index) => name += &format!("[{index}]"),
        }
    }
    if name.is_empty() { name } else { name + ": " }
}

/// Replaces the short form of an operation, which is only a name, by the long one.
fn lengthen(node: &mut Node) {
    if let Node::Table(entries) = node {
        split_shuffle(entries);
        for (key, value) in &mut *entries {
            match (key.as_str(), value) {
                // By tensor name.
                ("augment", Node::Table(tensors)) => tensors.iter_mut().for_each(|(_, list)| lengthen_operations(list)),
                ("transforms", Node::List(members)) => members.iter_mut().for_each(lengthen_member),
                _ => {}
            }
        }
    }
    lengthen_inside(node);
}

/// The same for the operations of a member of the list of transforms.
fn lengthen_member(member: &mut Node) {
    if let Node::Table(entries) = member {
        entries.iter_mut().filter(|(key, _)| key == "operations").for_each(|(_, list)| lengthen_operations(list));
    }
}

/// Replaces an operation that is only a name by a table, so that it has its defaults.
fn lengthen_operations(list: &mut Node) {
    let Node::List(operations) = list else { return };
    for operation in operations {
        if let Node::Text(_) = operation {
            let kind = std::mem::replace(operation, Node::Null);
            *operation = Node::Table(vec![("kind".to_owned(), kind)]);
        }
    }
}

fn lengthen_inside(node: &mut Node) {
    match node {
        Node::Table(entries) => {
            for (key, value) in entries {
                match (key.as_str(), &mut *value) {
                    // A table is a field or a column with this name.
                    ("augment", Node::List(_)) => lengthen_operations(value),
                    (_, value) => lengthen_inside(value),
                }
            }
        }
        Node::List(list) => list.iter_mut().for_each(lengthen_inside),
        _ => {}
    }
}

/// `shuffle = { seed = 42, blocks = 4 }` stands for two settings.
fn split_shuffle(entries: &mut Vec<(String, Node)>) {
    let is_split = |(key, value): &(String, Node)| match value {
        Node::Table(parts) => {
            key == "shuffle"
                && !parts.is_empty()
                && parts.iter().all(|(part, _)| matches!(part.as_str(), "seed" | "blocks"))
        }
        _ => false,
    };
    let Some(at) = entries.iter().position(is_split) else { return };
    if let (_, Node::Table(parts)) = entries.remove(at) {
        let name = |part: String| if part == "seed" { "shuffle".to_owned() } else { "shuffle_blocks".to_owned() };
        entries.splice(at..at, parts.into_iter().map(|(part, value)| (name(part), value)));
    }
}

/// How a fault begins that is a setting with an unknown name, and how it goes on if there is a similar one.
const NO_SETTING: &str = "there is no setting ";
const MEANT: &str = "did you mean \"";

/// A key that no settings have.
const PROBE: &str = "\0";

/// The place of `fault`, which parsing `root` gives. A table with several kinds is parsed as a whole before its kind is
/// known, so the parser only knows the table. Therefore this finds the part whose removal removes the fault: tables and
/// lists are parsed from front to back, and stop at the first fault.
fn culprit<T: DeserializeOwned>(root: &mut Node, fault: &Fault) -> Vec<Step> {
    let mut path = Vec::new();
    loop {
        let Some(node) = root.at(&path) else { return path };
        let whole = node.clone();
        let len = match &whole {
            Node::Table(entries) => entries.len(),
            Node::List(items) => items.len(),
            _ => return path,
        };
        let mut is_lost_with = |part: Node| {
            if let Some(node) = root.at(&path) {
                *node = part;
            }
            !T::deserialize(&*root).is_err_and(|found| found.is_like(fault))
        };
        let is_probed = matches!(fault.what, What::Missing | What::Replaced) || whole.is_long_table();
        let mut is_lost = |kept: usize| is_lost_with(beginning(&whole, kept, is_probed));
        // A list of the wrong length is wrong as a whole.
        let is_short = fault.what == What::Length && whole.is_list_of_values();
        let first = if is_short || is_lost(len) || len == 0 {
            None
        } else if !is_lost(0) {
            // Only the kind is left: the fault is the kind, or the whole table.
            whole.tag().filter(|_| is_lost_with(Node::Table(Vec::new())))
        } else {
            // The largest part that can be kept without the fault.
            let (mut without, mut with) = (0, len);
            while with - without > 1 {
                let middle = without.midpoint(with);
                if is_lost(middle) { without = middle } else { with = middle }
            }
            Some(without)
        };
        if let Some(node) = root.at(&path) {
            *node = whole.clone();
        }
        match (&whole, first) {
            (_, None) => return path,
            (Node::Table(entries), Some(first)) => path.push(Step::Key(entries[first].0.clone())),
            (_, Some(first)) => path.push(Step::Index(first)),
        }
    }
}

/// The first `kept` entries of a table or list. A table keeps its kind. If `probed`, it also gets a wrong key at the
/// end, whose fault hides that something is missing.
fn beginning(whole: &Node, kept: usize, probed: bool) -> Node {
    match whole {
        Node::List(items) => Node::List(items[..kept].to_vec()),
        Node::Table(entries) => {
            let is_kept = |(at, entry): &(usize, &(String, Node))| *at < kept || TAGS.contains(&entry.0.as_str());
            let mut entries: Vec<_> =
                entries.iter().enumerate().filter(is_kept).map(|(_, entry)| entry.clone()).collect();
            if probed {
                entries.push((PROBE.to_owned(), Node::Null));
            }
            Node::Table(entries)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::LoaderConfig;

    fn fault(text: &str, language: Language) -> (u64, String) {
        let error = parse::<LoaderConfig>(text, language).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        (error.location().line.unwrap(), error.message().to_owned())
    }

    /// Each fault, with its line and the text that its message must contain.
    #[test]
    fn every_fault_names_its_key_and_line_and_what_is_allowed() {
        let cases: [(&str, u64, &[&str]); 71] = [
            ("fields = { x = { numbers = \"float32\" } }", 1, &["\"float32\" is not allowed; did you mean \"f32\"?"]),
            ("augment = [1]", 1, &["augment: expected a table, found a list; write augment = { features = [{ kind"]),
            ("normalise = 3", 1, &["found 3; write normalise = { image = { kind = \"channels\""]),
            ("normalise = \"imagenet\"", 1, &["found \"imagenet\"; write normalise = { image = \"imagenet\" }"]),
            (
                "[fields]\nx = \"f32\"\nphoto = \"image_scale\"",
                3,
                &["fields.photo: ", "; that is a normaliser: write normalise.photo = \"image_scale\""],
            ),
            (
                "source = \"x\"\naugment = [\"horizontal_flip\"]",
                2,
                &[
                    "augment: ",
                    "write fields.image = { image = [224, 224], augment = [\"horizontal_flip\"] }, and fields.label",
                ],
            ),
            (
                "transforms = [{ kind = \"horizontal_flip\", tensor = \"x\" }]",
                1,
                &[
                    "transforms[0].kind: ",
                    "{ kind = \"augment\", tensor = \"...\", operations = [\"horizontal_flip\"] }",
                ],
            ),
            (
                "transforms = [\n{ kind = \"augment\", tensor = \"x\", operations = [\"horizontal_flop\"] }]",
                2,
                &["transforms[0].operations[0]", "\"horizontal_flop\"", "did you mean \"horizontal_flip\"?"],
            ),
            (
                "augment = [\"horizontal_flip\"]\n[fields]\nphoto = { image = [8, 8] }\nlabel = \"class\"",
                1,
                &["augment: ", "write fields.photo = { image = [224, 224], augment = [\"horizontal_flip\"] }"],
            ),
            ("augment = [{ kind = \"noise\", deviation = 1 }]", 1, &["write augment = { features = [{ kind"]),
            ("[memory]\nbudget = 3", 2, &["memory.budget: ", "did you mean \"budget_bytes\"?"]),
            (
                "[fields]\nx = \"f32\"\ny = \"clas\"",
                3,
                &["fields.y: \"clas\" is not", "did you mean \"class\"?", "numbers"],
            ),
            ("[fields]\nx = \"floats\"", 2, &["fields.x: expected \"image\", \"class\"", "found \"floats\""]),
            (
                "transforms = [{ kind = \"lgo\", tensor = \"x\" }]",
                1,
                &["transforms[0].kind: ", "did you mean \"log1p\"?"],
            ),
            ("normalise.x = { kind = \"min\" }", 1, &["normalise.x.kind: ", "did you mean \"min_max\"?"]),
            ("bucket = 3", 1, &["bucket: expected a table, found 3; write bucket = { by = "]),
            ("split = [0.8, 0.2]", 1, &["split: expected a table, found a list of 2; write split = { train = 0.8, "]),
            ("windows = 3", 1, &["windows: expected a table, found 3; write windows = { length = "]),
            ("fetch_limit = 3", 1, &["fetch_limit: expected a table, found 3; write fetch_limit = { time_ms = "]),
            ("shuffle = true", 1, &["found true; it is the seed of the order: shuffle = 42"]),
            ("num_workers = 3", 1, &["there is no setting \"num_workers\"", "; here it is workers, which are threads"]),
            ("drop_last = true", 1, &["; here it is last_batch = \"drop\""]),
            ("label = \"x\"", 1, &["; here it is a field: [fields] label = "]),
            ("path = \"x.csv\"", 1, &["; here it is source = { path = "]),
            (
                "source = { path = \"x\", option = 1 }",
                1,
                &["source.option: ", "did you mean \"options\"?", "format, path"],
            ),
            (
                "source = { path = \"x\", delimiter = \";\" }",
                1,
                &["source.delimiter: ", "options = { delimiter = ... }"],
            ),
            ("source = { file = \"x\" }", 1, &["source.file: there is no setting \"file\"; ", "format, path, options"]),
            ("batch_size = 4\nbatchsize = 5", 2, &["batchsize: ", "did you mean \"batch_size\"?", "shuffle"]),
            ("batch_size = \"many\"", 1, &["batch_size: expected a whole number, 0 or more, found \"many\""]),
            ("last_batch = \"kepp\"", 1, &["last_batch: \"kepp\"", "did you mean \"keep\"?", "\"drop\" or \"pad\""]),
            ("bad_records = 3", 1, &["bad_records: expected \"fail\", \"skip\" or \"replace\", found 3"]),
            ("bad_records = { skip = { shares = 1 } }", 1, &["bad_records.skip.shares", "\"share\"", "consecutive"]),
            (
                "bad_records = { skip = true }",
                1,
                &["found true; write bad_records = \"skip\", or bad_records = { skip = {"],
            ),
            (
                "worker_cores = \"0-1\"",
                1,
                &["worker_cores: expected a list, found \"0-1\"; write worker_cores = [0, 1]"],
            ),
            ("transforms = [\"mixup\"]", 1, &["transforms[0]: expected a table with its kind", "; write { kind = "]),
            (
                "[source]\nformat = \"csv\"\npath = \"x\"\noptions = { missing = 0 }",
                4,
                &["source.options.missing: expected \"error\", \"nan\"", "; write missing = { value = 0 }"],
            ),
            ("split = { train = 0.8 }", 1, &["split: \"part\" is missing; write split = { train = 0.8, "]),
            ("[folds]", 1, &["folds: \"fold\" is missing; write folds = { fold = 0, count = 5 }"]),
            (
                "[[sources]]\nformat = \"csv\"\npath = \"x\"\nbatchsize = 4",
                4,
                &["sources[0].batchsize: ", "; batch_size belongs to all of the settings: write it outside of tables"],
            ),
            (
                "[[sources]]\nformat = \"csv\"\npath = \"x\"\nshuffle = 4",
                4,
                &["sources[0].shuffle: ", "; shuffle belongs to all of the settings"],
            ),
            (
                "[[sources]]\nformat = \"csv\"\npath = \"x\"\ndelimeter = \";\"",
                4,
                &[
                    "sources[0].delimeter: ",
                    "did you mean \"delimiter\"? That is one of the options; write options = {",
                ],
            ),
            (
                "[[sources]]\nformat = \"csv\"\npath = \"x\"\n[sources.options]\nquote = \"'\"\nfeatures = [0]\nlabels = [1]",
                6,
                &["sources[0].options.features: \"features\" is no longer an option"],
            ),
            (
                "[source]\npath = \"x\"\n[fields]\nx = { numbers = \"f32\" }\nbatch_size = 64",
                5,
                &["fields.batch_size: expected ", "; batch_size belongs to all of the settings"],
            ),
            (
                "[[sources]]\nformat = \"csv\"\npath = \"x\"\nweight = 0.7",
                4,
                &["sources[0].weight: ", "; write mix = [0.7, 0.3] above the sources, a weight for each"],
            ),
            (
                "[[sources]]\nformat = \"csv\"\npath = \"x\"\noptions = { labels = [1] }\n[[sources]]\nformat = \"csv\"\npath = \"x\"\noptions = { features = [0] }",
                4,
                &["sources[0].options.labels: \"labels\" is no longer an option"],
            ),
            ("x = [\n1,,]", 2, &["is not TOML"]),
            ("[memory]\nbudget_bytes = \n", 2, &["is not TOML, the language of settings: budget_bytes has no value"]),
            ("\nshuffle = { seed = 3, blocks = -1 }", 2, &["shuffle.blocks: expected a whole number"]),
            ("\nshuffle_blocks = -1", 2, &["shuffle_blocks: expected a whole number"]),
            ("shuffle = { seed = 1, bloks = 3 }", 1, &["shuffle = 42, or shuffle = { seed = 42, blocks = 4 }"]),
            ("transforms = [{ tensor = \"x\" }]", 1, &["transforms[0]: \"kind\" is missing; it is \"", "\"cast\""]),
            ("normalise = { x = { mean = [1.0] } }", 1, &["normalise.x: \"kind\" is missing; it is \"standardise\""]),
            ("[fields]\nx = { image = { size = [8, 8] } }", 2, &["found a table; write image = [HEIGHT, WIDTH]"]),
            (
                "[[sources]]\nformat = \"csv\"\npath = \"x\"\n[sources.options]\ndelimeter = \";\"",
                5,
                &["sources[0].options.delimeter: ", "did you mean \"delimiter\"?"],
            ),
            (
                "[[sources]]\nformat = \"csv\"\npath = \"x\"\n\n[[sources]]\npath = \"x\"\nformat = \"cvs\"",
                7,
                &["sources[1].format: \"cvs\"", "did you mean \"csv\"?", "tar"],
            ),
            (
                "[[sources]]\npath = \"x\"\noptions = {\n  labels = [true] }\nformat = \"csv\"",
                4,
                &["sources[0].options.labels[0]: expected the name of a column, or its position"],
            ),
            ("[[sources]]\nformat = \"csv\"\n", 1, &["sources[0]: \"path\" is missing"]),
            ("[[sources]]\npath = \"x\"\nfromat = \"csv\"", 3, &["sources[0].fromat: ", "did you mean \"format\"?"]),
            ("[[sources]]\npath = \"x\"", 1, &["sources[0]: \"format\" is missing"]),
            ("[[sources]]\nformat = \"csv\"\npth = \"x\"", 3, &["sources[0].pth: ", "did you mean \"path\"?"]),
            (
                "[[sources]]\nformat = \"images\"\npath = \"x\"\noptions.augment = [\n\"horizontal_flip\",\n\"flop\"]",
                6,
                &["sources[0].options.augment[1]", "\"flop\" is not allowed", "vertical_flip"],
            ),
            (
                "[[sources]]\nformat = \"images\"\npath = \"x\"\noptions.augment = [\n{ kind = \"rotation\", degree = 1 }]",
                5,
                &["sources[0].options.augment[0].degree", "did you mean \"degrees\"?"],
            ),
            (
                "[[sources]]\nformat = \"images\"\npath = \"x\"\noptions.size = [224]",
                4,
                &["options.size: expected a list of 2"],
            ),
            (
                "[[sources]]\nformat = \"images\"\npath = \"x\"\noptions.fit = \"center_crop\"",
                4,
                &["options.fit: the name \"center_crop\" is not enough", "\"shorter\" is missing"],
            ),
            (
                "[[sources]]\nformat = \"images\"\npath = \"x\"\noptions.size = \"big\"\noptions.fit = 1",
                4,
                &["options.size: expected a list of 2, found \"big\""],
            ),
            ("[sources]\nformat = \"csv\"", 1, &["sources: expected a list, found a table"]),
            (
                "[normalise]\na = \"imagenet\"\nimage = { kind = \"channel\", mean = [] }",
                3,
                &["normalise.image.kind: \"channel\"", "did you mean \"channels\"?"],
            ),
            (
                "[normalise]\nimage = { kind = \"channels\", mean = [1], deviations = [1] }",
                2,
                &["normalise.image.deviations: ", "did you mean \"deviation\"?"],
            ),
            (
                "[normalise]\nimage = 3",
                2,
                &["normalise.image: expected \"imagenet\", \"image_scale\", a file, or a table"],
            ),
            (
                "[memory]\nkind = \"temp_file\"",
                2,
                &["memory.kind: the name \"temp_file\" is not enough (\"limit_bytes\" is missing)"],
            ),
            ("[augment]\nx = [{ kind = \"noise\" }]", 2, &["augment.x[0]: \"deviation\" is missing"]),
        ];
        for (text, line, parts) in cases {
            let (found, message) = fault(text, Language::Toml);
            for part in parts {
                assert!(message.contains(part), "{part} in {message}");
            }
            assert_eq!(found, line, "{message}");
            for word in ["enum", "variant", "struct", "usize", "invalid", "tuple"] {
                assert!(!message.contains(word), "{word} in {message}");
            }
        }
    }

    #[test]
    fn json_has_lines_too() {
        let text = "{\"sources\": [{\"format\": \"csv\", \"path\": \"a, \\\" ]\"},\n{\"format\": \"images\",\n\
                    \"options\": {\"max_file_bytes\": 1,\n \"saved_indx\": \"off\"}, \"path\": \"b\"}],\n\"shuffle\": 1}";
        let (line, message) = fault(text, Language::Json);
        assert_eq!(line, 4, "{message}");
        assert!(
            message.starts_with("sources[1].options.saved_indx: ") && message.contains("did you mean \"saved_index\"?"),
            "{message}"
        );
        assert_eq!(fault("{\"shuffle\": 1,\n\"shuffle\": 2}", Language::Json).0, 2);
        assert_eq!(fault("{\n\"shuffle\": [{}, {\"a\": -1e5}],\n\"workers\":\n-1}", Language::Json).0, 2);
        assert_eq!(
            fault("{\n\"workers\":\n-1}", Language::Json),
            (2, "workers: expected a whole number, 0 or more, or \"auto\", found -1".into())
        );
    }

    #[test]
    fn a_text_of_settings_is_read_like_a_file() {
        let config = LoaderConfig::from_json(r#"{"source": {"path": "x"}, "bad_records": "skip"}"#).unwrap();
        assert_eq!(config, parse("bad_records = \"skip\"\n[source]\npath = \"x\"", Language::Toml).unwrap());
        let error = LoaderConfig::from_json(r#"{"batchsize": 3}"#).unwrap_err();
        assert!(error.message().contains("did you mean \"batch_size\"?"), "{error}");
    }

    #[test]
    fn what_is_called_as_a_setting_is_left_as_it_is() {
        for text in [
            "[fields]\naugment = { from = [\"a\", \"b\"], numbers = \"f32\" }",
            "[[sources]]\nformat = \"csv\"\npath = \"x\"\nfields = { augment = { from = [\"a\"], numbers = \"f32\" } }",
        ] {
            let config: LoaderConfig = parse(text, Language::Toml).unwrap();
            assert_eq!(config, toml::from_str(text).unwrap());
        }
    }

    #[test]
    fn what_no_setting_can_be_is_said_in_the_words_of_settings() {
        let big = "99999999999999999999";
        let shuffle = "shuffle: expected a whole number, 0 or more, found 1e20; it is the seed of the order";
        let bounds = "bucket.bounds[0]: expected a whole number from 0 to 4294967295, found 5000000000";
        let cases = [
            (format!("shuffle = {big}"), shuffle),
            ("memory = 2024-01-01".to_owned(), "memory: expected a table, found \"2024-01-01\""),
            ("batch_size = 12:30:00".to_owned(), "batch_size: expected a whole number, 0 or more, found \"12:30:00\""),
            ("[bucket]\nby = \"x\"\nbounds = [5000000000]".to_owned(), bounds),
        ];
        for (text, told) in cases {
            let message = fault(&text, Language::Toml).1;
            assert!(message.contains(told), "{message}");
        }
        let message = fault(&format!("{{\"shuffle\": {big}}}"), Language::Json).1;
        assert!(message.contains(shuffle), "{message}");
    }

    #[test]
    fn a_mark_at_the_beginning_is_no_part_of_the_settings() {
        for (language, text) in [(Language::Json, "{\n\"shuffle\": 3}"), (Language::Toml, "\nshuffle = 3")] {
            let config: LoaderConfig = parse(&format!("\u{feff}{text}"), language).unwrap();
            assert_eq!(config.shuffle, Some(3));
            let text = format!("\u{feff}{}", text.replace("shuffle", "shufle"));
            assert_eq!(fault(&text, language).0, 2);
            let error = Error::new(ErrorKind::Config, "shufle: wrong");
            assert_eq!(in_line(error, &text, language).location().line, Some(2));
        }
    }

    #[test]
    fn short_forms_mean_the_same_as_long_ones() {
        let pairs = [
            ("bad_records = \"skip\"", "bad_records = { skip = {} }"),
            (
                "normalise.image = \"imagenet\"",
                "normalise.image = { kind = \"channels\", mean = [0.485, 0.456, 0.406], deviation = [0.229, 0.224, 0.225] }",
            ),
            (
                "[source]\npath = \"x\"\n[fields]\nx = { image = [], augment = [\"horizontal_flip\"] }",
                "[source]\npath = \"x\"\n[fields]\nx = { image = [], augment = [{ kind = \"horizontal_flip\" }] }",
            ),
            ("shuffle = { seed = 3, blocks = 4 }", "shuffle = 3\nshuffle_blocks = 4"),
            (
                "[fields]\naugment = { image = [8, 8], augment = [\"horizontal_flip\"] }",
                "[fields]\naugment = { image = [8, 8], augment = [{ kind = \"horizontal_flip\" }] }",
            ),
            ("[augment]\naugment = []", "augment = { augment = [] }"),
            (
                "[[sources]]\nformat = \"tokens\"\npath = \"x\"\noptions.cut = \"contiguous\"",
                "[[sources]]\nformat = \"tokens\"\npath = \"x\"\noptions.cut = { contiguous = {} }",
            ),
        ];
        for (short, long) in pairs {
            let config: LoaderConfig = parse(short, Language::Toml).unwrap();
            assert_eq!(config, parse(long, Language::Toml).unwrap(), "{short}");
            assert_eq!(config, parse(&serde_json::to_string(&config).unwrap(), Language::Json).unwrap(), "{short}");
            assert_eq!(config, parse(&toml::to_string(&config).unwrap(), Language::Toml).unwrap(), "{short}");
        }
    }
}
