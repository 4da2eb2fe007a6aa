//! Faults of settings that could be parsed: in single settings, in several together, or on this machine.

use crate::dataset::{BadLimits, BadRecords};
use crate::error::{Error, ErrorKind, missing_path};
use crate::files;
use crate::filter::Filter;
use crate::normalise::NormaliserConfig;
use crate::positions::FURTHEST;
use crate::prefetch::Amount;
use crate::prepare::{PreparedConfig, Recipe};
use crate::read::fields::Codec;
use crate::read::{ColumnRef, NO_GAPS, NO_GAPS_IN_SEQUENCES, SourceConfig, field_faults, is_pattern};
use crate::storage::{Files, NO_PROMISE};
use crate::transform::NumberAugment;
use crate::tree::under;

use super::config::{LoaderConfig, MemoryKind, OnlySource};
use super::own::Own;
use super::resolve::PREPARED_WITH_SEVERAL;
use super::weights::Mix;

/// The reason why windows exclude settings by the length, class or weight of samples.
pub(super) const ONE_LENGTH: &str =
    "windows: they have one length, no class and no weight; leave out bucket, class_balanced and weight_by";

/// Maximum number of threads, and of batches that may wait.
const MOST: usize = 4096;

impl LoaderConfig {
    /// Everything that is wrong with the settings, found without opening a file's contents.
    pub fn faults(&self) -> Vec<String> {
        self.faults_among(&Files::local(), None)
    }

    /// Like [`faults`](Self::faults). Whether files of a storage exist is checked when they are opened.
    pub(super) fn faults_among(&self, files: &Files, own: Option<&Own>) -> Vec<String> {
        let mut faults = self.value_faults();
        let mut named = self.clone().with_only();
        let is_said_twice = !self.fields.is_empty() && named.sources.iter().any(|source| !source.fields.is_empty());
        if !self.fields.is_empty() && (named.sources.len() == 1 || !self.mix.is_empty()) {
            named.sources.iter_mut().for_each(|source| source.fields.clone_from(&self.fields));
        }
        named.joint_faults(files, own, &mut faults);
        for (at, source) in named.sources.iter().enumerate() {
            let key = match self.source {
                _ if !self.fields.is_empty() => "fields".to_owned(),
                Some(_) => "source.fields".to_owned(),
                None => format!("sources[{at}].fields"),
            };
            faults.extend(under(key, source.field_faults()));
        }
        named.faults_here(&mut faults);
        if is_said_twice {
            faults.push("fields: a source has fields of its own, too; give them in one place".to_owned());
        }
        faults
    }

    /// The faults of each setting by itself, regardless of the other settings and of where they are used. A settings
    /// file must be free of these faults.
    pub(super) fn value_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let only = match &self.source {
            Some(OnlySource::Named(source)) => Some(("source".to_owned(), source)),
            _ => None,
        };
        let several = self.sources.iter().enumerate().map(|(at, source)| (format!("sources[{at}]"), source));
        for (key, source) in several.chain(only) {
            faults.extend(under(format_args!("{key}.options"), source.option_faults()));
            faults.extend(under(format_args!("{key}.fields"), field_faults(&source.fields)));
        }
        faults.extend(under("fields", field_faults(&self.fields)));
        faults.extend(self.mix_value_fault());
        if self.batch_size == 0 {
            faults.push("batch_size: 0; a batch has at least one sample".to_owned());
        }
        if self.samples_per_epoch == Some(0) {
            faults.push("samples_per_epoch: 0; an epoch has at least one sample".to_owned());
        }
        faults.extend(under("shard", self.shard.faults()));
        faults.extend(self.split.iter().flat_map(|split| under("split", split.faults())));
        faults.extend(self.folds.iter().flat_map(|folds| under("folds", folds.faults())));
        faults.extend(self.bucket.iter().flat_map(|bucket| under("bucket", bucket.faults())));
        faults.extend(self.windows.iter().flat_map(|windows| under("windows", windows.faults())));
        faults.extend(self.sequences.iter().flat_map(|sequences| under("sequences", sequences.faults())));
        if let Some(Err(error)) = self.filter.as_deref().map(Filter::parse) {
            faults.push(format!("filter: {}", error.message()));
        }
        if self.shuffle_blocks == Some(0) {
            faults.push("shuffle_blocks: 0; give 1 or more chunks".to_owned());
        }
        if let Some(workers) = self.workers.and_then(Amount::number).filter(|workers| !(1..=MOST).contains(workers)) {
            faults.push(format!("workers: {workers}; give 1 to {MOST}, or use shield to make batches without any"));
        }
        if let Some(prefetch) = self.prefetch.and_then(Amount::number).filter(|prefetch| *prefetch > MOST) {
            faults.push(format!("prefetch: {prefetch}; at most {MOST} batches may wait"));
        }
        faults.extend(self.manners().faults());
        faults.extend(self.fetch_limit.into_iter().flat_map(|limit| under("fetch_limit", limit.faults())));
        if let Some(BadLimits { share: Some(share), .. }) = self.bad_records.limits()
            && !(0.0..=1.0).contains(&share)
        {
            let policy = if matches!(self.bad_records, BadRecords::Replace(_)) { "replace" } else { "skip" };
            faults.push(format!("bad_records.{policy}.share: a share of {share}; it is between 0 and 1"));
        }
        if self.memory.budget_bytes == Some(0) {
            faults.push("memory.budget_bytes: nothing fits into 0 bytes".to_owned());
        }
        for (tensor, normaliser) in &self.normalise {
            if let NormaliserConfig::Inline(normaliser) = normaliser {
                faults.extend(under(format_args!("normalise.{tensor}"), normaliser.faults()));
            }
        }
        faults.extend(self.prepare.iter().flat_map(|recipe| under("prepare", recipe.value_faults())));
        for (tensor, operations) in &self.augment {
            for (at, faults_of_one) in operations.iter().map(NumberAugment::faults).enumerate() {
                faults.extend(under(format_args!("augment.{tensor}[{at}]"), faults_of_one));
            }
        }
        for (at, operation) in self.transforms.iter().enumerate() {
            faults.extend(under(format_args!("transforms[{at}]"), operation.faults()));
        }
        faults
    }

    /// Adds to the error of a name that the data does not have the key of the field that names it.
    pub(super) fn with_key(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let only = match &self.source {
            Some(OnlySource::Named(source)) => Some(("source.".to_owned(), &source.fields)),
            _ => None,
        };
        let is_one = self.sources.len() == 1;
        let several = self.sources.iter().enumerate().map(|(at, source)| {
            // The fields of the settings may have moved to it.
            (if is_one { String::new() } else { format!("sources[{at}].") }, &source.fields)
        });
        let message = error.message();
        let missing = ["no column ", "no field "].iter().find_map(|begin| message.strip_prefix(begin));
        let is_missing = |name: &ColumnRef| {
            let rest = missing.and_then(|missing| missing.strip_prefix(&name.to_string()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(';'))
        };
        let all = std::iter::once((String::new(), &self.fields)).chain(only).chain(several);
        let mut named = all.filter_map(|(key, fields)| {
            let mut of_settings = fields.iter().filter(|(_, field)| !matches!(field.codec, Codec::Outside(_)));
            let (tensor, _) = of_settings.find(|(tensor, field)| field.names(tensor).iter().any(is_missing))?;
            Some((key, tensor))
        });
        // Which of several sources lacks it is not known here.
        match (named.next(), named.next()) {
            (Some((key, tensor)), None) => {
                let message = format!("{key}fields.{tensor}: {message}");
                error.not_at_column(tensor).with_message(message)
            }
            _ => error,
        }
    }

    /// Settings that contradict each other.
    fn joint_faults(&self, files: &Files, own: Option<&Own>, faults: &mut Vec<String>) {
        match (&self.source, self.sources.as_slice()) {
            (None, []) if own.is_some() => faults.extend(own.and_then(|own| self.fault_of_own(own)).map(str::to_owned)),
            _ if own.is_some() => {
                faults.push("sources: this loader reads samples of your own; leave the sources out".to_owned())
            }
            (None, []) if matches!(self.mix, Mix::Paths(_)) => {}
            (None, []) => faults.push("sources: the list is empty; name at least one".to_owned()),
            (Some(_), []) => {}
            (Some(_), _) => faults.push("source: there is also a list of sources; name all of them there".to_owned()),
            (None, [_, _, ..]) if !self.fields.is_empty() && self.mix.is_empty() => {
                faults.push("fields: there are several sources; give each source its own fields".to_owned());
            }
            (None, [_, _, ..]) if self.prepared.is_some() && self.mix.is_empty() => {
                faults.push(PREPARED_WITH_SEVERAL.to_owned());
            }
            _ => {}
        }
        faults.extend(self.mix_fault(own));
        for source in &self.sources {
            source_faults(source, files, faults);
        }
        if let Some(samples) = self.samples_per_epoch.filter(|samples| *samples > FURTHEST) {
            faults.push(format!("samples_per_epoch: an epoch of {samples} samples; it has at most {FURTHEST}"));
        }
        let is_drawn = self.class_balanced || self.weight_by.is_some();
        if self.bucket.is_some() && (is_drawn || self.samples_per_epoch.is_some()) {
            let message = "bucket: each sample comes once; leave out class_balanced, weight_by and samples_per_epoch";
            faults.push(message.to_owned());
        }
        if (self.split.is_some() || self.folds.is_some()) && self.sources.iter().any(SourceConfig::overlaps) {
            let advice = "split: neighbouring windows of tokens share most of their tokens, so a random split would not \
                          separate them; keep the parts in files of their own, or set cut = \"contiguous\" without a stride";
            faults.push(advice.to_owned());
        }
        if self.windows.is_some() {
            if self.split.is_some() || self.folds.is_some() {
                let advice = "windows: neighbouring windows share records, so a random split would not separate them; \
                              choose a part of each series with windows.part";
                faults.push(advice.to_owned());
            }
            if self.filter.is_some() {
                faults.push(NO_GAPS.to_owned());
            }
            if self.bucket.is_some() || is_drawn {
                faults.push(ONE_LENGTH.to_owned());
            }
        }
        if self.sequences.is_some() {
            if self.windows.is_some() {
                faults.push("sequences: samples are windows or sequences; leave one of them out".to_owned());
            }
            if self.filter.is_some() {
                faults.push(NO_GAPS_IN_SEQUENCES.to_owned());
            }
            if is_drawn || self.stratify.is_some() || self.group.is_some() {
                let advice = "sequences: a whole sequence has no class, weight or group; leave out class_balanced, weight_by, \
                              stratify and group";
                faults.push(advice.to_owned());
            }
        }
        let inline = self.prepared.as_ref().and_then(PreparedConfig::inline_windows);
        let fitted = inline.unwrap_or_else(|| self.prepare.as_ref().and_then(Recipe::own_windows));
        faults.extend(self.windows.as_ref().zip(fitted).and_then(|(own, fitted)| own.fault_with(fitted)));
        for (name, field) in [("stratify", &self.stratify), ("group", &self.group)] {
            if field.is_some() && self.split.is_none() && self.folds.is_none() {
                faults.push(format!("{name}: this is for parts of a split and for folds; add `split` or `folds`"));
            }
        }
        match self.shuffle_blocks.filter(|blocks| *blocks > 0) {
            Some(_) if self.shuffle.is_none() => {
                faults.push("shuffle_blocks: blocks are shuffled; give shuffle a seed".to_owned());
            }
            Some(_) if self.sources.iter().any(SourceConfig::needs_shuffle) => {
                let message = "shuffle_blocks: windows that begin anywhere are in no block; set cut = \"contiguous\", or leave \
                               out shuffle_blocks";
                faults.push(message.to_owned());
            }
            Some(_) if is_drawn || self.samples_per_epoch.is_some() || self.bucket.is_some() => {
                let message =
                    "shuffle_blocks: does not go together with class_balanced, weight_by, samples_per_epoch or bucket";
                faults.push(message.to_owned());
            }
            _ => {}
        }
        for (name, is_set) in [("class_balanced", self.class_balanced), ("weight_by", self.weight_by.is_some())] {
            if is_set && self.shuffle.is_none() {
                faults.push(format!("{name}: samples are drawn at random; give shuffle a seed"));
            }
        }
        if self.class_balanced && self.weight_by.is_some() {
            faults.push("weight_by: classes are balanced by weights of their own; leave out class_balanced".to_owned());
        }
        if self.shuffle.is_none() && self.sources.iter().any(SourceConfig::needs_shuffle) {
            faults.push("cut = \"random\": windows are drawn at random; give shuffle a seed".to_owned());
        }
        if self.prepare.is_some() && self.prepared.is_none() {
            faults.push("prepare: name the file for the fitted recipe as `prepared`".to_owned());
        }
    }

    /// Files and other things that do not exist on this machine.
    fn faults_here(&self, faults: &mut Vec<String>) {
        faults.extend(self.manners().faults_here());
        if let MemoryKind::TempFile { folder: Some(folder), .. } = &self.memory.kind
            && !folder.is_dir()
        {
            faults.push(format!("memory.kind.temp_file.folder: {} is not a folder", folder.display()));
        }
        for (tensor, normaliser) in &self.normalise {
            if let NormaliserConfig::File(_) = normaliser {
                faults.extend(under(format_args!("normalise.{tensor}"), normaliser.faults()));
            }
        }
        if let Some(path) = self.prepared.as_ref().and_then(PreparedConfig::path)
            && !path.exists()
        {
            let advice = if self.prepare.is_some() { "; `ringfeed fit` writes it" } else { "" };
            faults.push(format!("prepared: {}{advice}", missing_path(path)));
        }
        faults.extend(self.prepare.iter().flat_map(|recipe| under("prepare", recipe.missing_tables())));
        for (at, operation) in self.transforms.iter().enumerate() {
            let missing = operation.path().filter(|path| !path.exists()).map(|path| missing_path(path).to_string());
            faults.extend(under(format_args!("transforms[{at}]"), missing));
        }
    }

    /// The setting that is not possible with the user's own data.
    fn fault_of_own(&self, own: &Own) -> Option<&'static str> {
        match own {
            Own::Container(_) if self.fields.is_empty() && self.prepared.is_none() => {
                Some("fields: a container gives values, not tensors; say here which tensors are made of them")
            }
            Own::Samples(_) if !self.fields.is_empty() || self.prepared.is_some() => {
                Some("fields: an iterator gives tensors, not values; leave `fields` out")
            }
            Own::Samples(_) if !self.is_in_order() || self.class_balanced || self.weight_by.is_some() => Some(
                "shuffle, split, folds, class_balanced, weight_by, bucket, filter, windows, sequences, samples_per_epoch, \
                 shard, last_batch = \"pad\" and bad_records = \"replace\" need random access to samples: an iterator gives \
                 them only in its own order",
            ),
            _ => None,
        }
    }
}

fn source_faults(source: &SourceConfig, files: &Files, faults: &mut Vec<String>) {
    if files.are_local() && source.access().lacks_promise() {
        faults.push(format!("{}: {NO_PROMISE}", source.path().display()));
    }
    if files.are_local() {
        let mut source = source.clone();
        faults.extend(source.paths_mut().into_iter().filter_map(|path| match path.metadata() {
            Ok(metadata) if metadata.is_dir() => None,
            Ok(metadata) => files::check_ordinary(path, &metadata).err().map(|error| error.to_string()),
            Err(_) if is_pattern(files, path) => None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(missing_path(path).to_string()),
            Err(error) => Some(Error::io(&*path, error).to_string()),
        }));
    }
}
