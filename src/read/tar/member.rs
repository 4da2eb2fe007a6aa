use crate::error::{Error, ErrorKind, Result};
use crate::read::ColumnRef;

/// A member of each sample by its extension, and a pointer into it if it is JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) extension: String,
    pub(super) pointer: Option<String>,
}

impl Member {
    /// A member by its extension, with a pointer into it if it is JSON: `json:/objects/0/class`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for what can't be the name of a member.
    pub(super) fn of(field: &ColumnRef) -> Result<Self> {
        let config = |message: String| Err(Error::new(ErrorKind::Config, message));
        let ColumnRef::Name(text) = field else {
            return config("members are named by their extension".to_owned());
        };
        let (extension, pointer) = match text.split_once(':') {
            Some((extension, pointer)) => (extension, Some(pointer)),
            None => (text.as_str(), None),
        };
        if extension.is_empty() || extension.contains(['/', '*']) || extension.starts_with('.') {
            return config(format!("{extension:?} is not an extension such as \"jpg\" or \"left.png\""));
        }
        if extension.chars().any(char::is_uppercase) {
            return config(format!("extensions are compared in lower case, so {extension:?} never occurs"));
        }
        if let Some(pointer) = pointer.filter(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
            return config(format!("the pointer {pointer:?} does not begin with a slash: \"{extension}:/{pointer}\""));
        }
        Ok(Self { extension: extension.to_owned(), pointer: pointer.map(str::to_owned) })
    }
}
