use encoding_rs::Encoding;

use crate::error::{Error, ErrorKind, Result, nearest};

/// The encoding of this name.
pub(super) fn encoding_named(name: &str) -> Result<&'static Encoding> {
    Encoding::for_label(name.as_bytes()).ok_or_else(|| {
        let known = ["utf-8", "latin1", "iso-8859-15", "windows-1252", "utf-16le", "utf-16be", "shift_jis", "gb18030"];
        let hint = nearest(name, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let message = format!("no encoding is called {name:?}{hint} (any name of the WHATWG list, such as {known:?})");
        Error::new(ErrorKind::Config, message)
    })
}
