//! Formats and their options with erased types, so that a table can hold them.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::read::Container;
use crate::read::fields::Field;
use crate::read::saved::SavedIndex;
use crate::storage::{Access, Files};
use crate::tree::{Fault, Node};

use super::{Checks, Fields, Foretold, Format, FormatOptions, Inspection, Open, Opened, Streamed};

/// A format of any type. Those of one type are the same.
#[derive(Clone)]
pub(super) struct AnyFormat(Arc<dyn Erased>);

impl AnyFormat {
    pub(super) fn new<F: Format>(format: F) -> Self {
        Self(Arc::new(format))
    }

    pub(super) fn is<F: Format>(&self) -> bool {
        (*self.0).type_id() == std::any::TypeId::of::<F>()
    }
}

impl std::ops::Deref for AnyFormat {
    type Target = dyn Erased;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for AnyFormat {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name() && (*self.0).type_id() == (*other.0).type_id()
    }
}

impl fmt::Debug for AnyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// Options of any format.
pub(super) trait AnyOptions: erased_serde::Serialize + fmt::Debug + Send + Sync + Any {
    fn cloned(&self) -> Box<dyn AnyOptions>;
    fn is_same(&self, other: &dyn AnyOptions) -> bool;
    fn is_default(&self) -> bool;
}

impl<T: FormatOptions> AnyOptions for T {
    fn cloned(&self) -> Box<dyn AnyOptions> {
        Box::new(self.clone())
    }

    fn is_same(&self, other: &dyn AnyOptions) -> bool {
        (other as &dyn Any).downcast_ref::<T>() == Some(self)
    }

    fn is_default(&self) -> bool {
        *self == T::default()
    }
}

erased_serde::serialize_trait_object!(AnyOptions);

/// Options of format `F`.
fn own<F: Format>(options: &dyn AnyOptions) -> &F::Options {
    (options as &dyn Any).downcast_ref().expect("a source keeps a format and its options together")
}

fn own_mut<F: Format>(options: &mut dyn AnyOptions) -> &mut F::Options {
    (options as &mut dyn Any).downcast_mut().expect("a source keeps a format and its options together")
}

/// [`Format`] without its types.
pub(super) trait Erased: Any + Send + Sync {
    fn name(&self) -> &'static str;
    fn sniff(&self, head: &[u8], path: &Path) -> bool;
    fn has_name(&self, name: &str) -> bool;
    fn kind(&self, path: &Path) -> &'static str;
    fn title(&self) -> Option<&'static str>;
    fn packed_advice(&self) -> Option<&'static str>;
    fn infers_types(&self) -> bool;
    fn is_folder(&self, files: &Files, path: &Path) -> Result<bool>;
    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool;
    fn reads_by_name(&self) -> bool;
    fn has_one_array(&self) -> bool;
    fn has_members(&self) -> bool;
    fn has_small_samples(&self) -> bool;
    fn default_options(&self) -> Box<dyn AnyOptions>;
    fn options(&self, from: &Node) -> Result<Box<dyn AnyOptions>, Fault>;
    fn has_option(&self, name: &str) -> bool;
    fn option_like(&self, name: &str) -> Option<String>;
    fn needs_options(&self) -> bool;
    fn sources(&self, files: &Files, path: &Path) -> Result<Vec<(PathBuf, Fields)>>;
    fn open(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Opened>;
    fn open_many(&self, options: &dyn AnyOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Opened>;
    fn open_values(&self, options: &dyn AnyOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>>;
    fn takes_whole(&self, files: &Files, path: &Path) -> bool;
    fn faults(&self, options: &dyn AnyOptions) -> Vec<String>;
    fn field_faults(&self, options: &dyn AnyOptions, fields: &[(String, Field)]) -> Vec<String>;
    fn usual_fields(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Vec<(String, Field)>>;
    fn access<'o>(&self, options: &'o mut dyn AnyOptions) -> Option<&'o mut Access>;
    fn saved_index<'o>(&self, options: &'o mut dyn AnyOptions) -> Option<&'o mut SavedIndex>;
    fn paths<'o>(&self, options: &'o mut dyn AnyOptions) -> Vec<&'o mut PathBuf>;
    fn needs_shuffle(&self, options: &dyn AnyOptions) -> bool;
    fn overlaps(&self, options: &dyn AnyOptions) -> bool;
    fn samples_per_epoch(&self, options: &dyn AnyOptions, choice: u64) -> Option<u64>;
    fn make_plain(&self, options: &mut dyn AnyOptions);
    fn stream(&self, options: &dyn AnyOptions, at: &Open<'_>, always: bool) -> Result<Option<Streamed>>;
    fn foretell(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Foretold>;
    fn checks(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Checks>;
    fn inspect(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Inspection>;
    fn inspect_many(&self, options: &dyn AnyOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Inspection>;
}

impl<F: Format> Erased for F {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn sniff(&self, head: &[u8], path: &Path) -> bool {
        Format::sniff(self, head, path)
    }

    fn has_name(&self, name: &str) -> bool {
        Format::has_name(self, name)
    }

    fn kind(&self, path: &Path) -> &'static str {
        Format::kind(self, path)
    }

    fn title(&self) -> Option<&'static str> {
        Format::title(self)
    }

    fn packed_advice(&self) -> Option<&'static str> {
        Format::packed_advice(self)
    }

    fn infers_types(&self) -> bool {
        Format::infers_types(self)
    }

    fn is_folder(&self, files: &Files, path: &Path) -> Result<bool> {
        Format::is_folder(self, files, path)
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        Format::is_in_folder(self, path, head)
    }

    fn reads_by_name(&self) -> bool {
        Format::reads_by_name(self)
    }

    fn has_one_array(&self) -> bool {
        Format::has_one_array(self)
    }

    fn has_members(&self) -> bool {
        Format::has_members(self)
    }

    fn has_small_samples(&self) -> bool {
        Format::has_small_samples(self)
    }

    fn default_options(&self) -> Box<dyn AnyOptions> {
        Box::new(F::Options::default())
    }

    fn options(&self, from: &Node) -> Result<Box<dyn AnyOptions>, Fault> {
        match F::Options::deserialize(from) {
            Ok(options) => Ok(Box::new(options)),
            Err(fault) => Err(super::old::advice(F::NAME, from)?.unwrap_or(fault)),
        }
    }

    fn has_option(&self, name: &str) -> bool {
        let alone = Node::Table(vec![(name.to_owned(), Node::Null)]);
        match F::Options::deserialize(&alone) {
            Ok(_) => true,
            Err(fault) => !fault.text.starts_with("there is no setting"),
        }
    }

    fn option_like(&self, name: &str) -> Option<String> {
        let alone = Node::Table(vec![(name.to_owned(), Node::Null)]);
        let fault = F::Options::deserialize(&alone).err()?;
        let (_, near) = fault.text.strip_prefix("there is no setting ")?.split_once("did you mean \"")?;
        near.split('"').next().map(str::to_owned)
    }

    fn needs_options(&self) -> bool {
        Format::needs_options(self)
    }

    fn sources(&self, files: &Files, path: &Path) -> Result<Vec<(PathBuf, Fields)>> {
        Format::sources(self, files, path)
    }

    fn open(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Opened> {
        Format::open(self, own::<F>(options), at).map(Into::into)
    }

    fn open_many(&self, options: &dyn AnyOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Opened> {
        Format::open_many(self, own::<F>(options), paths, at).map(Into::into)
    }

    fn open_values(&self, options: &dyn AnyOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        Format::open_values(self, own::<F>(options), paths, at)
    }

    fn takes_whole(&self, files: &Files, path: &Path) -> bool {
        Format::takes_whole(self, files, path)
    }

    fn faults(&self, options: &dyn AnyOptions) -> Vec<String> {
        Format::faults(self, own::<F>(options))
    }

    fn field_faults(&self, options: &dyn AnyOptions, fields: &[(String, Field)]) -> Vec<String> {
        Format::field_faults(self, own::<F>(options), fields)
    }

    fn usual_fields(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Vec<(String, Field)>> {
        Format::usual_fields(self, own::<F>(options), at)
    }

    fn access<'o>(&self, options: &'o mut dyn AnyOptions) -> Option<&'o mut Access> {
        Format::access(self, own_mut::<F>(options))
    }

    fn saved_index<'o>(&self, options: &'o mut dyn AnyOptions) -> Option<&'o mut SavedIndex> {
        Format::saved_index(self, own_mut::<F>(options))
    }

    fn paths<'o>(&self, options: &'o mut dyn AnyOptions) -> Vec<&'o mut PathBuf> {
        Format::paths(self, own_mut::<F>(options))
    }

    fn needs_shuffle(&self, options: &dyn AnyOptions) -> bool {
        Format::needs_shuffle(self, own::<F>(options))
    }

    fn overlaps(&self, options: &dyn AnyOptions) -> bool {
        Format::overlaps(self, own::<F>(options))
    }

    fn samples_per_epoch(&self, options: &dyn AnyOptions, choice: u64) -> Option<u64> {
        Format::samples_per_epoch(self, own::<F>(options), choice)
    }

    fn make_plain(&self, options: &mut dyn AnyOptions) {
        Format::make_plain(self, own_mut::<F>(options));
    }

    fn stream(&self, options: &dyn AnyOptions, at: &Open<'_>, always: bool) -> Result<Option<Streamed>> {
        Format::stream(self, own::<F>(options), at, always)
    }

    fn foretell(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Foretold> {
        Format::foretell(self, own::<F>(options), at)
    }

    fn checks(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Checks> {
        Format::checks(self, own::<F>(options), at)
    }

    fn inspect(&self, options: &dyn AnyOptions, at: &Open<'_>) -> Result<Inspection> {
        Format::inspect(self, own::<F>(options), at)
    }

    fn inspect_many(&self, options: &dyn AnyOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Inspection> {
        Format::inspect_many(self, own::<F>(options), paths, at)
    }
}
