use crate::dataset::{BadRecords, DataSetIterator};
use crate::error::{Error, ErrorKind, Result};
use crate::prepare::{Counting, Prepared, PreparedConfig, Recipe, RecipeFit, Tally};
use crate::read::Windows;
use crate::transform::Transforms;
use crate::tree::no_faults;
use crate::view::TensorView;

use super::Loader;
use super::config::LoaderConfig;

/// Number of records that are counted at a time.
const BATCH_SIZE: usize = 1024;

impl LoaderConfig {
    /// The same with the tensors of [`prepared`](Self::prepared) as the first fields, and with its windows.
    pub(super) fn with_prepared(mut self) -> Result<Self> {
        if let Some(prepared) = self.prepared.take() {
            self.prepare = None;
            let prepared = prepared.load()?;
            match (&self.windows, prepared.windows()) {
                (Some(own), Some(fitted)) => no_faults(own.fault_with(fitted).into_iter().collect())?,
                (None, fitted) => self.windows = fitted.cloned(),
                (Some(_), None) => {}
            }
            if self.windows.is_some() && self.sequences.is_some() {
                let fault =
                    "sequences: the fitted recipe makes windows; leave the sequences out, or fit it without windows";
                no_faults(vec![fault.to_owned()])?;
            }
            self.fields.insert(0, (prepared.tensors()[0].name.clone(), prepared.field()));
        }
        Ok(self)
    }
}

impl Loader {
    /// Adds the tensors of a fitted recipe, `features` and `categories`, to those of [`field`](Self::field). The source
    /// can be any source that has the recipe's columns. Without any field, samples have only these tensors. If the
    /// recipe has [windows](Recipe::windows), samples are these windows; the loader's own [windows](Self::windows) may
    /// differ only in stride and part.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::field::Class;
    /// use ringfeed::order::Split;
    /// use ringfeed::prepare::{Median, Recipe, number};
    ///
    /// let length = || number().impute(Median).standardise();
    /// let recipe = Recipe::new().column("sepal_length", length()).column("petal_length", length().log1p());
    /// let flowers = Loader::open("fixtures/iris-species.csv")?;
    /// let train = flowers.split(Split::train(0.8));
    /// let prepared = recipe.fit(&train)?;
    /// let train = train.prepare(&prepared).field("species", Class).batch_size(16).shuffle(42).build()?;
    /// assert_eq!(train.schema().tensors().len(), 2);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn prepare(mut self, prepared: &Prepared) -> Self {
        self.config.prepared = Some(PreparedConfig::Inline(prepared.clone()));
        self
    }
}

impl Recipe {
    /// Fits the recipe to the samples of a loader. If the loader has a [split](Loader::split), folds or a shard, only
    /// the samples of its part are used. With [windows](Self::windows), of the recipe or of the loader, the recipe is
    /// fitted once to each record of their part. The loader's fields, its own fitted recipe, transforms and order have
    /// no effect. First reads the fields that a filter, [`stratify`](Loader::stratify), [`group`](Loader::group) or a
    /// series needs, of all records, and then every sample once.
    ///
    /// # Errors
    ///
    /// Those of [`RecipeFit::new`], [`RecipeFit::observe_all`] and [`RecipeFit::finish`].
    pub fn fit(&self, rows: &Loader) -> Result<Prepared> {
        let mut fit = RecipeFit::new(self)?;
        fit.observe_all(rows)?;
        fit.finish()
    }
}

impl RecipeFit {
    /// Counts the samples of a loader, each once, in one pass: see [`Recipe::fit`]. Several processes, each with its
    /// own [shard](Loader::shard), can [merge](Self::merge) their counts.
    ///
    /// # Errors
    ///
    /// Errors of reading; bad records according to the loader's policy (a bad record is left out, never replaced);
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) for a column with too many names; and
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a loader with other windows than those of the recipe. If the
    /// error comes from a sample, those before it are counted: begin with an [empty](Self::emptied) fit again.
    pub fn observe_all(&mut self, rows: &Loader) -> Result<()> {
        if !rows.config.mix.is_empty() {
            let message =
                "mix: a recipe counts each sample once; fit it to a loader of each source, and merge what they counted";
            return Err(Error::new(ErrorKind::Config, message));
        }
        if rows.config.sources.len() > 1 {
            let message = "sources: there are several, and a recipe is fitted to the columns of one; fit it to a loader of \
                           that source alone";
            return Err(Error::new(ErrorKind::Config, message));
        }
        if rows.config.sequences.is_some() && (rows.config.split.is_some() || rows.config.folds.is_some()) {
            let message = "sequences: a recipe counts single records, and a split of these would separate others than that of \
                           sequences; fit it to a source of the training part alone";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let counting = Counting::new(self);
        let LoaderConfig {
            mut sources,
            source,
            mut fields,
            filter,
            windows,
            stratify,
            group,
            split,
            folds,
            shard,
            bad_records,
            workers,
            fetch_limit,
            shield,
            memory,
            ..
        } = rows.config.clone().with_only();
        for source in &mut sources {
            fields.append(&mut source.fields);
        }
        let config = LoaderConfig {
            sources,
            source,
            fields: vec![(COUNTED.to_owned(), counting.field())],
            batch_size: BATCH_SIZE,
            filter,
            // Each record of their part counts once.
            windows: counted_windows(windows.as_ref(), self.windows())?.map(Windows::of_single_records),
            stratify,
            group,
            split,
            folds,
            shard,
            bad_records: bad_records.limits().map_or(BadRecords::Fail, BadRecords::Skip),
            workers,
            fetch_limit,
            shield,
            memory,
            // Nothing is read of a second epoch, which nobody waits for.
            across_epochs: false,
            ..LoaderConfig::default()
        };
        let loader = Loader { config, transforms: Transforms::new(), named: fields, ..rows.clone() };
        let mut tally = Tally::default();
        let mut batches: Box<dyn DataSetIterator> = loader.build().map_err(|error| error.not_at_column(COUNTED))?;
        for batch in batches.epoch()? {
            let batch = batch?;
            // Samples that only fill a shard's last batch belong to another shard.
            let records = batch.len().saturating_sub(batch.padding());
            let (numbers, names) = (batch.tensor(Counting::NUMBERS)?, batch.tensor(Counting::NAMES)?);
            let each = |tensor: &TensorView<'_>| tensor.shape()[1..].iter().product::<usize>() * records;
            counting.count_numbers(self, records, &numbers.as_slice()?[..each(&numbers)])?;
            counting.count_names(&mut tally, &names.as_slice()?[..each(&names)]);
        }
        counting.finish(self, &tally)
    }
}

/// The name of the tensor of all that is counted.
const COUNTED: &str = "prepare";

/// The windows whose records are counted, of a loader and of the recipe that is fitted to it.
///
/// # Errors
///
/// [`ErrorKind::Config`] if they differ.
fn counted_windows<'w>(own: Option<&'w Windows>, fitted: Option<&'w Windows>) -> Result<Option<&'w Windows>> {
    match (own, fitted) {
        (Some(own), Some(fitted)) if own != fitted => {
            let message = format!(
                "windows: {own} in the loader, but {fitted} in the recipe that is fitted to it; leave them out of the loader"
            );
            Err(Error::new(ErrorKind::Config, message))
        }
        (own, fitted) => Ok(own.or(fitted)),
    }
}
