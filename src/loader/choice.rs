//! Choosing samples by values of theirs: filters, windows over series, weights, and the strata of splits.

use std::sync::Arc;

use crate::dataset::Strata;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::{Filter, Known};
use crate::memory::MemoryBudget;
use crate::positions::Subset;
use crate::read::{NO_GAPS, NO_GAPS_IN_SEQUENCES, Placed, RecordReader, Windowed, groups_of};
use crate::schema::TensorSpec;
use crate::transform::Chain;

use super::Loader;
use super::keep::{Chosen, Keep};
use super::values::Sides;

impl Loader {
    /// Uses only samples for which a function of your own returns `true`, given the values of these tensors of any
    /// source, or fields of the first one. This is for conditions that the language of [`filter`](Self::filter) can't
    /// express. The fields are read once, when the loader is opened, and the function is called once for each record,
    /// on one thread. If there are several functions, all must return `true`.
    ///
    /// ```
    /// use ringfeed::Loader;
    ///
    /// let slender = Loader::csv("fixtures/iris-species.csv").filter_by(["petal_length", "petal_width"], |flower| {
    ///     let (length, width) = (flower.number("petal_length"), flower.number("petal_width"));
    ///     length.zip(width).is_some_and(|(length, width)| length > 3.0 * width)
    /// });
    /// assert_eq!(slender.plan()?.samples, Some(102));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn filter_by<N: Into<String>>(
        self,
        fields: impl IntoIterator<Item = N>,
        keep: impl Fn(&Chosen<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.try_filter_by(fields, move |chosen| Ok(keep(chosen)))
    }

    /// As [`filter_by`](Self::filter_by), with a function that may fail. Opening the loader returns its first error,
    /// with the record.
    #[must_use]
    pub fn try_filter_by<N: Into<String>>(
        mut self,
        fields: impl IntoIterator<Item = N>,
        keep: impl Fn(&Chosen<'_>) -> Result<bool> + Send + Sync + 'static,
    ) -> Self {
        self.keeps.push(Keep::new(fields.into_iter().map(Into::into).collect(), keep));
        self
    }

    /// The samples that filter, split and folds leave, out of as many as the shortest reader has.
    pub(super) fn subset(&self, sides: Sides<'_>, shortest: u64) -> Result<Option<Subset>> {
        let config = &self.config;
        let Some(first) = sides.readers.first() else { return Ok(None) };
        let mut chosen = self.filtered(sides, shortest)?;
        self.check_choice(chosen.as_ref(), "the filter keeps", shortest)?;
        if config.split.is_none() && config.folds.is_none() {
            return Ok(chosen);
        }
        let by = self.strata(sides, chosen.as_ref(), shortest)?;
        if let Some(split) = config.split {
            chosen = Some(split.of(&chosen.unwrap_or_else(|| Subset::all(shortest)), first, by.as_ref())?);
        }
        if let Some(folds) = config.folds {
            chosen = Some(folds.of(&chosen.unwrap_or_else(|| Subset::all(shortest)), first, by.as_ref())?);
        }
        self.check_choice(chosen.as_ref(), "split and folds keep", shortest)?;
        Ok(chosen)
    }

    /// Checks that something is left to draw, if samples are drawn.
    fn check_choice(&self, chosen: Option<&Subset>, by: &str, of: u64) -> Result<()> {
        let key = match &self.config {
            config if config.class_balanced => "class_balanced",
            config if config.weight_by.is_some() => "weight_by",
            _ => return Ok(()),
        };
        match chosen.is_some_and(Subset::is_empty) {
            true => {
                Err(Error::new(ErrorKind::Config, format!("{key}: nothing to draw: {by} none of the {of} samples")))
            }
            false => Ok(()),
        }
    }

    /// The samples that the filters of the loader and of a fitted recipe leave.
    fn filtered(&self, sides: Sides<'_>, shortest: u64) -> Result<Option<Subset>> {
        let mut kept = self.filtered_by_text(sides, shortest)?;
        if let Some(field) = self.config.chosen_by() {
            let values = self.read_values(0, &[("taken".to_owned(), field)], Some(1.0), sides.budget)?;
            let is_taken = |sample: u64| !matches!(values.at(sample), Known::Number(0.0));
            kept = Some(kept.unwrap_or_else(|| Subset::all(shortest)).filter(is_taken));
        }
        for keep in &self.keeps {
            let values = keep.names.iter().map(|name| self.values(sides, name, None)).collect::<Result<Vec<_>>>()?;
            let mut failed = None;
            let is_kept = |sample: u64| {
                failed.is_none()
                    && keep.keeps(&|field| values[field].value(sample)).unwrap_or_else(|error| {
                        failed = Some(error.at(sides.readers[0].place(sample)).at_record(sample));
                        false
                    })
            };
            kept = Some(kept.unwrap_or_else(|| Subset::all(shortest)).filter(is_kept));
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(kept)
    }

    fn filtered_by_text(&self, sides: Sides<'_>, shortest: u64) -> Result<Option<Subset>> {
        let Some(text) = &self.config.filter else { return Ok(None) };
        let filter = Filter::parse(text)?;
        let values = filter.subjects.iter().map(|subject| match subject.is_length {
            true => self.lengths(sides, &subject.field),
            false => self.values(sides, &subject.field, subject.is_text),
        });
        let values = values.collect::<Result<Vec<_>>>().map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::Config => {
                let message = format!("filter: {}", error.message());
                error.with_message(message)
            }
            _ => error,
        })?;
        let kept = Subset::all(shortest).filter(|sample| filter.keeps(&|field| values[field].at(sample)));
        tracing::info!(filter = text, kept = kept.len(), of = shortest, "samples are filtered");
        Ok(Some(kept))
    }

    /// The windows over the records of `readers`, or sequences of them, if these are the samples.
    pub(super) fn windowed(
        &self,
        readers: Vec<Arc<dyn RecordReader>>,
        sources: &[usize],
        budget: &MemoryBudget,
    ) -> Result<Vec<Arc<dyn RecordReader>>> {
        let config = &self.config;
        let Some(first) = readers.first().filter(|_| config.consists_of_several()) else { return Ok(readers) };
        if config.chosen_by().is_some() || !self.keeps.is_empty() {
            let message = if config.windows.is_some() { NO_GAPS } else { NO_GAPS_IN_SEQUENCES };
            return Err(Error::new(ErrorKind::Config, message));
        }
        let lengths: Vec<u64> = readers.iter().map(|reader| reader.len()).collect();
        let shortest = lengths.iter().copied().min().unwrap_or(0);
        if !config.shorter && lengths.iter().any(|records| *records != shortest) {
            let message = format!("the sources have {lengths:?} records; name equal ones, or set `shorter`");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let groups_by = |key: &str, field: &str| -> Result<Vec<u64>> {
            let values = self.values(Sides { readers: &readers, sources, budget }, field, None)?;
            if let Some(record) = (0..shortest).find(|record| matches!(values.at(*record), Known::Missing)) {
                let message = format!("{key}: a record has no value for this field; remove such records");
                return Err(Error::new(ErrorKind::Data, message).at(first.place(record)).at_column(field));
            }
            let mut groups = values.groups();
            groups.truncate(shortest as usize);
            Ok(groups)
        };
        let located = |by: Option<&String>| {
            let by = by.cloned();
            move |error: Error| match error.location().record {
                Some(record) => {
                    let error = Error::new(error.kind(), error.message().to_owned()).at(first.place(record));
                    if let Some(field) = by { error.at_column(field) } else { error }
                }
                None => error,
            }
        };
        let grouped = |key: &str, field: Option<&String>, each_file: bool| {
            let values = field.map(|field| groups_by(key, field)).transpose()?;
            let is_first = |nth: &usize| !sources[..*nth].contains(&sources[*nth]);
            let one_of_each = (0..readers.len()).filter(is_first).map(|nth| &*readers[nth] as &dyn RecordReader);
            groups_of(&one_of_each.collect::<Vec<_>>(), shortest, values, each_file)
        };
        let placed = if let Some(windows) = &config.windows {
            let series = grouped("windows.series", windows.series.as_ref(), windows.each_file)?;
            windows.placed(shortest, series.as_deref()).map_err(located(windows.series.as_ref()))?
        } else if let Some(sequences) = &config.sequences {
            if lengths.iter().any(|records| *records != shortest) {
                let message = format!(
                    "sequences: the sources have {lengths:?} records, and `shorter` would end the last sequence before its end; \
                     name sources of equal length"
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
            let groups = grouped("sequences.by", sequences.by.as_ref(), sequences.each_file)?.unwrap_or_default();
            Placed::of_sequences(sequences.label, &groups).map_err(located(sequences.by.as_ref()))?
        } else {
            return Ok(readers);
        };
        let placed = Arc::new(placed);
        let masked = readers.iter().position(|reader| placed.needs_mask(reader.tensors()));
        let windowed = |(nth, reader)| {
            let windowed = Windowed::new(reader, placed.clone(), masked == Some(nth), budget)?;
            Ok(Arc::new(windowed) as Arc<dyn RecordReader>)
        };
        let windowed = readers.into_iter().enumerate().map(windowed).collect::<Result<Vec<_>>>()?;
        self.check_rounding(&windowed)?;
        Ok(windowed)
    }

    /// Records of windows are kept as the reader gives them, and normalised afterwards, though transforms take place
    /// while they are decoded. This must make no difference.
    fn check_rounding(&self, windowed: &[Arc<dyn RecordReader>]) -> Result<()> {
        let is_short = |spec: &TensorSpec| matches!(spec.dtype, DType::F16 | DType::Bf16);
        if !windowed.iter().any(|reader| reader.tensors().iter().any(is_short)) {
            return Ok(());
        }
        // Their values are whole numbers from 0 to 255.
        let fields = self.config.sources.iter().flat_map(|source| &source.fields);
        let pictures = fields.filter(|(_, field)| field.is_picture());
        let pictures: Vec<&str> = pictures.map(|(name, _)| name.as_str()).collect();
        let specs: Vec<TensorSpec> = windowed.iter().flat_map(|reader| reader.tensors().iter().cloned()).collect();
        let chain = Chain::new(&specs, &self.list())?;
        let is_rounded =
            |spec: &&TensorSpec| is_short(spec) && spec.affine.is_some() && !pictures.contains(&spec.name.as_str());
        let Some(spec) = chain.decoded().iter().find(is_rounded) else { return Ok(()) };
        let message = format!(
            "normalise: in windows, numbers of {dtype} would be rounded before they are normalised; read f32, and `cast` to \
             {dtype} afterwards",
            dtype = spec.dtype
        );
        Err(Error::new(ErrorKind::Config, message).at_column(&spec.name))
    }

    /// The weight of each sample, if samples are drawn by weights. Samples that were not `chosen` need none.
    pub(super) fn weights_of(
        &self,
        sides: Sides<'_>,
        shortest: u64,
        chosen: Option<&Subset>,
    ) -> Result<Option<Vec<f64>>> {
        let Some(field) = &self.config.weight_by else { return Ok(None) };
        let values = self.values(sides, field, Some(false))?;
        let weight = |sample: u64| match values.at(sample) {
            Known::Number(weight) if weight >= 0.0 && weight.is_finite() => Ok(weight),
            Known::Integer(weight) if weight >= 0 => Ok(weight as f64),
            other => {
                let found = match other {
                    Known::Number(weight) => format!("a weight of {weight}"),
                    Known::Integer(weight) => format!("a weight of {weight}"),
                    Known::Missing | Known::Text(_) => "no weight".to_owned(),
                };
                let error =
                    Error::new(ErrorKind::Data, format!("{found}; weights are numbers, finite and not negative"));
                Err(error
                    .at_column(field)
                    .at(sides.readers[self.holder_of(sides, field)].place(sample))
                    .at_record(sample))
            }
        };
        let Some(chosen) = chosen else { return (0..shortest).map(weight).collect::<Result<_>>().map(Some) };
        let mut weights = vec![0.0; shortest as usize];
        for sample in chosen.iter() {
            weights[sample as usize] = weight(sample)?;
        }
        Ok(Some(weights))
    }

    fn strata(&self, sides: Sides<'_>, chosen: Option<&Subset>, shortest: u64) -> Result<Option<Strata>> {
        let mut by = None;
        if let Some(field) = &self.config.stratify {
            by = Some(Strata::default().classes(self.values(sides, field, None)?.classes()));
        }
        if let Some(field) = &self.config.group {
            let values = self.values(sides, field, None)?;
            let is_missing = |sample: &u64| matches!(values.at(*sample), Known::Missing);
            let missing = match chosen {
                Some(chosen) => chosen.iter().find(is_missing),
                None => (0..shortest).find(is_missing),
            };
            if let Some(sample) = missing {
                let message = "group: a record without a value belongs to no group; take such records out, by a filter or \
                               otherwise";
                let place = sides.readers[self.holder_of(sides, field)].place(sample);
                return Err(Error::new(ErrorKind::Data, message).at(place).at_record(sample).at_column(field));
            }
            by = Some(by.unwrap_or_default().groups(values.groups()));
        }
        Ok(by)
    }

    /// The names of all tensors and fields by which samples are chosen.
    pub(super) fn names_of_choice(&self) -> Result<Vec<String>> {
        let config = &self.config;
        let filter = config.filter.as_deref().map(Filter::parse).transpose()?;
        let of_filter = filter.into_iter().flat_map(|filter| filter.subjects).map(|subject| subject.field);
        let of_keeps = self.keeps.iter().flat_map(|keep| keep.names.iter().cloned());
        let others = [&config.stratify, &config.group, &config.weight_by].into_iter().flatten().cloned();
        Ok(of_filter.chain(of_keeps).chain(others).collect())
    }
}
