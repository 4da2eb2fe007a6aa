//! Advice for settings that users often guess wrong.

use crate::tree::{Node, Step};

/// Settings that are tables, and the keys of such a table.
const TABLES: [(&str, &str); 9] = [
    ("augment", "augment = { features = [{ kind = \"noise\", deviation = 0.1 }] }, a list for each tensor"),
    ("bucket", "bucket = { by = \"ids\", bounds = [64, 128] }"),
    ("fetch_limit", "fetch_limit = { time_ms = 1000, replacements = 4 }"),
    ("folds", "folds = { fold = 0, count = 5 }, and with held_out = true for that fold alone"),
    ("memory", "memory = { budget_bytes = 1_000_000_000 }"),
    (
        "normalise",
        "normalise = { image = { kind = \"channels\", mean = [0.5, 0.5, 0.5], deviation = [0.2, 0.2, 0.2] } }",
    ),
    ("sequences", "sequences = { by = \"patient\" }"),
    ("split", "split = { train = 0.8, validation = 0.2, part = \"train\" }"),
    ("windows", "windows = { length = 48, horizon = 12 }"),
];

/// The names of settings in other libraries, and the settings that replace them.
const ELSEWHERE: [(&str, &str); 11] = [
    ("num_workers", "workers, which are threads"),
    ("drop_last", "last_batch = \"drop\""),
    ("prefetch_factor", "prefetch, the number of batches ahead"),
    ("sampler", "shuffle, shard, weight_by, class_balanced or filter"),
    ("batch_sampler", "batch_size and bucket"),
    ("timeout", "fetch_limit"),
    ("seed", "shuffle, the seed of the order"),
    ("validation_split", "split = { train = 0.8, validation = 0.2, part = \"train\" }"),
    ("label", "a field: [fields] label = \"class\", or labels = { from = \"NAME\", numbers = \"i64\" }"),
    ("labels", "a field: [fields] labels = { from = \"NAME\", numbers = \"i64\" }"),
    ("path", "source = { path = \"...\" }"),
];

/// Names of normalisers that stand for all of their parameters.
const NORMALISERS: [&str; 2] = ["imagenet", "image_scale"];

/// The normaliser that was found where something else is expected.
fn normaliser(text: &str) -> Option<&'static str> {
    let named = |name: &&str| text.contains(&format!("found {name:?}"));
    if text.starts_with("expected ") { NORMALISERS.into_iter().find(|name| named(name)) } else { None }
}

/// What to write for a list of operations that names no tensor: what is meant for images stands in their field.
fn augment_of_images(root: &Node) -> Option<String> {
    let Node::Table(entries) = root else { return None };
    let named = |key: &str| entries.iter().find(|(own, _)| own == key).map(|(_, value)| value);
    let Some(Node::List(operations)) = named("augment") else { return None };
    // The short form of an operation, which is only a name, has become a table by now.
    let kind = |operation: &Node| match operation {
        Node::Table(keys) => match keys.as_slice() {
            [(key, Node::Text(kind))] if key == "kind" => Some(format!("{kind:?}")),
            _ => None,
        },
        _ => None,
    };
    let operations: Vec<String> = operations.iter().map(kind).collect::<Option<_>>()?;
    let operations = format!("augment = [{}]", operations.join(", "));
    let is_image = |field: &Node| match field {
        Node::Text(kind) => kind == "image",
        Node::Table(keys) => keys.iter().any(|(key, _)| key == "image"),
        _ => false,
    };
    let (name, label) = match named("fields") {
        Some(Node::Table(fields)) => {
            (fields.iter().find(|(_, field)| is_image(field)).map_or("image", |(name, _)| name.as_str()), "")
        }
        _ => ("image", ", and fields.label = \"class\" if there are classes"),
    };
    let field = format!("fields.{name} = {{ image = [224, 224], {operations} }}");
    Some(format!("; operations on images stand in their field: write {field}{label}"))
}

/// What to add to an error about the setting at `path` of `root`, if anything.
pub(super) fn hint(root: &Node, path: &[Step], text: &str) -> Option<String> {
    if let ([.., Step::Key(fields), Step::Key(name)], Some(normaliser)) = (path, normaliser(text))
        && fields == "fields"
    {
        return Some(format!("; that is a normaliser: write normalise.{name} = {normaliser:?}"));
    }
    if let ([.., Step::Key(key)], true) = (path, text.starts_with("expected a list"))
        && key == "image"
        && path.contains(&Step::Key("fields".to_owned()))
    {
        return Some("; write image = [HEIGHT, WIDTH]".to_owned());
    }
    if let [Step::Key(sources), Step::Index(_), Step::Key(key)] = path
        && (sources.as_str(), key.as_str()) == ("sources", "weight")
    {
        return Some("; write mix = [0.7, 0.3] above the sources, a weight for each".to_owned());
    }
    match path {
        [Step::Key(key)] if key == "worker_cores" && text.starts_with("expected a list") => {
            return Some("; write worker_cores = [0, 1], the numbers of the cores".to_owned());
        }
        [Step::Key(records), Step::Key(policy)] if records == "bad_records" && text.starts_with("expected a table") => {
            return Some(format!(
                "; write bad_records = {policy:?}, or bad_records = {{ {policy} = {{ share = 0.01 }} }}"
            ));
        }
        [Step::Key(records), Step::Key(policy)] if records == "bad_records" && policy == "fail" => {
            return Some("; write bad_records = \"fail\"".to_owned());
        }
        [Step::Key(list), Step::Index(_)]
            if list == "transforms" && text.starts_with("expected a table with its kind") =>
        {
            return Some(
                "; write { kind = \"...\", tensor = \"...\", ... }, as the guide to transforms shows".to_owned(),
            );
        }
        #[cfg(not(feature = "formats"))]
        [Step::Key(list), Step::Index(_), Step::Key(key)]
            if list == "transforms" && key == "kind" && text.starts_with("\"augment\"") =>
        {
            return Some("; augment needs a build with the features `formats` and `images`".to_owned());
        }
        #[cfg(feature = "formats")]
        [Step::Key(list), Step::Index(_), Step::Key(key)] if list == "transforms" && key == "kind" => {
            // The text begins with the name in quotes.
            let name = text.split('"').nth(1).filter(|name| crate::decode::is_operation(name))?;
            return Some(format!(
                "; an operation on images stands in their field, or, if the image is a tensor: \
                 {{ kind = \"augment\", tensor = \"...\", operations = [{name:?}] }}"
            ));
        }
        [.., Step::Key(key)] if key == "missing" && text.starts_with("expected \"error\", \"nan\"") => {
            return Some("; write missing = { value = 0 } for a number".to_owned());
        }
        _ => {}
    }
    let [Step::Key(key)] = path else { return None };
    let named = |names: &[(&str, &'static str)]| names.iter().find(|(name, _)| name == key).map(|(_, hint)| *hint);
    if text.starts_with("there is no setting ") {
        return named(&ELSEWHERE).map(|hint| format!("; here it is {hint}"));
    }
    match key.as_str() {
        "augment" if text.starts_with("expected a table, found a list") => {
            augment_of_images(root).or_else(|| named(&TABLES).map(|hint| format!("; write {hint}")))
        }
        "normalise" if normaliser(text).is_some() => {
            normaliser(text).map(|name| format!("; write normalise = {{ image = {name:?} }}, one for each tensor"))
        }
        "shuffle" => {
            Some("; it is the seed of the order: shuffle = 42, or shuffle = { seed = 42, blocks = 4 }".to_owned())
        }
        _ if text.starts_with("expected a table") || text.ends_with(" is missing") => {
            named(&TABLES).map(|hint| format!("; write {hint}"))
        }
        _ => None,
    }
}
