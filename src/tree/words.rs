use std::fmt;

use serde::de::{Error, Expected, Unexpected};

use crate::error::nearest;

/// What is wrong with a setting, in words for people.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) what: What,
    pub(crate) text: String,
}

/// The kind of fault, which decides how its place is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    /// A key is missing.
    Missing,
    /// A list is too short or too long, or not allowed here.
    Length,
    /// A setting of earlier versions. What to write instead depends on all of those, the place is that of the first.
    Replaced,
    Other,
}

impl Fault {
    fn new(text: impl Into<String>) -> Self {
        Self { what: What::Other, text: text.into() }
    }

    /// The fault of a value in a place where only these names are allowed.
    pub(crate) fn no_choice(found: Unexpected<'_>, names: &[&str]) -> Self {
        Self::new(format!("expected {}, found {}", one_of(names), found_words(found)))
    }

    /// The fault of a list with so many elements in a place where settings have names.
    #[cold]
    pub(super) fn no_table(found: usize) -> Self {
        Self { what: What::Length, text: format!("expected a table, found a list of {found}") }
    }

    /// The fault of settings of earlier versions.
    pub(crate) fn replaced(advice: String) -> Self {
        Self { what: What::Replaced, text: advice }
    }

    /// Whether both are the fault of the same place.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self == other || self.what == What::Replaced && other.what == What::Replaced
    }

    /// The fault of a name that stands for a table by itself.
    pub(crate) fn of_bare_name(self, name: &str) -> Self {
        Self::new(format!("the name {name:?} is not enough ({}); write {{ {name} = ... }}", self.text))
    }
}

/// `did you mean "class"? ` for a name that is similar to one of these; else nothing.
pub(crate) fn similar(wanted: &str, names: &[&str]) -> String {
    meant(wanted, names, |name| has_nearly_the_beginning(name, wanted))
}

fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Names of element types in NumPy and elsewhere, and our names for them.
const ELEMENTS: [(&str, &str); 15] = [
    ("float16", "f16"),
    ("half", "f16"),
    ("bfloat16", "bf16"),
    ("float", "f32"),
    ("float32", "f32"),
    ("double", "f64"),
    ("float64", "f64"),
    ("int8", "i8"),
    ("int16", "i16"),
    ("int32", "i32"),
    ("int", "i64"),
    ("int64", "i64"),
    ("uint8", "u8"),
    ("uint16", "u16"),
    ("uint32", "u32"),
];

fn meant(wanted: &str, names: &[&str], or_begin: impl Fn(&str) -> bool) -> String {
    let own = ELEMENTS.iter().find(|(other, own)| *other == wanted && names.contains(own)).map(|(_, own)| *own);
    let near = own.or_else(|| nearest(wanted, names.iter().copied()));
    let near = near.or_else(|| names.iter().copied().find(|name| or_begin(name)));
    near.map_or_else(String::new, |near| format!("did you mean {near:?}? "))
}

/// Whether a name begins with the words that are wanted: `budget` of `budget_bytes`.
fn has_words(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('_'))
}

/// Whether a name begins with what is wanted, or with something that is one slip away: `lgo` of `log1p`.
fn has_nearly_the_beginning(name: &str, wanted: &str) -> bool {
    let len = wanted.chars().count();
    let beginning: String = name.chars().take(len).collect();
    len >= 3 && strsim::damerau_levenshtein(&beginning, &wanted.to_lowercase()) <= 1
}

fn found_words(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("{value}"),
        Unexpected::Unsigned(value) => format!("{value}"),
        Unexpected::Signed(value) => format!("{value}"),
        Unexpected::Float(value) => format!("{value:?}"),
        Unexpected::Char(value) => format!("{value:?}"),
        Unexpected::Str(value) => format!("{value:?}"),
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        Unexpected::UnitVariant => "a name alone".to_owned(),
        other => other.to_string(),
    }
}

/// The parser's words for a type, in our words.
fn expected_words(expected: &dyn Expected) -> String {
    let words = expected.to_string();
    if words.starts_with("struct variant") || words == "newtype variant" {
        return "{ name = ... } with what belongs to the name".to_owned();
    }
    if words.starts_with("struct ") {
        return "a table".to_owned();
    }
    if words.contains("internally tagged enum") {
        return "a table with its kind".to_owned();
    }
    if let Some(len) = ["a tuple of size ", "an array of length "].iter().find_map(|begin| words.strip_prefix(begin)) {
        return format!("a list of {len}");
    }
    match words.as_str() {
        "usize" | "u64" => "a whole number, 0 or more",
        "unit" => "the name alone",
        "u32" => "a whole number from 0 to 4294967295",
        "u16" => "a whole number from 0 to 65535",
        "u8" => "a whole number from 0 to 255",
        "isize" | "i64" => "a whole number",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text",
        "path string" => "a path",
        "a character" => "a single character",
        "a sequence" => "a list",
        "a map" => "a table",
        "map with a single key" | "string or map" => "a name, or a table of one name and what belongs to it",
        "unit variant" => "a name alone",
        _ => return words,
    }
    .to_owned()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A fault on its way through the error of another deserialiser. If that is one of ours, it comes out unchanged.
pub(crate) struct Told<'a>(pub(crate) &'a Fault);

const MARKS: [(What, &str); 3] =
    [(What::Missing, "\0missing\0"), (What::Length, "\0length\0"), (What::Replaced, "\0replaced\0")];

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, mark)) = MARKS.iter().find(|(what, _)| f.alternate() && *what == self.0.what) {
            f.write_str(mark)?;
        }
        f.write_str(&self.0.text)
    }
}

/// The message for a name that is not one of `names`.
pub(crate) fn not_allowed(found: &str, names: &[&str]) -> String {
    format!("{found:?} is not allowed; {}it is {}", similar(found, names), one_of(names))
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = format!("{message:#}");
        let marked = MARKS.iter().find_map(|(what, mark)| Some((*what, text.strip_prefix(mark)?.to_owned())));
        let (what, text) = marked.unwrap_or((What::Other, text));
        Self { what, text }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {}, found {}", expected_words(expected), found_words(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(found: usize, expected: &dyn Expected) -> Self {
        let text = format!("expected {}, found a list of {found}", expected_words(expected));
        Self { what: What::Length, text }
    }

    fn unknown_variant(found: &str, names: &'static [&'static str]) -> Self {
        Self::new(not_allowed(found, names))
    }

    fn unknown_field(found: &str, names: &'static [&'static str]) -> Self {
        let meant = meant(found, names, |name| has_words(name, found));
        match names {
            [] => Self::new(format!("there is no setting {found:?}; nothing can be set here")),
            names => {
                Self::new(format!("there is no setting {found:?}; {meant}the settings here are {}", names.join(", ")))
            }
        }
    }

    fn missing_field(name: &'static str) -> Self {
        Self { what: What::Missing, text: format!("{name:?} is missing") }
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::new(format!("{name:?} is given twice"))
    }
}
