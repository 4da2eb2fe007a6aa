use crate::error::{Error, ErrorKind, Result};
use crate::normalise::{NormaliserFit, QuantileFit};
use crate::schema::Masked;
use crate::view::TensorView;

use super::batch::DataSet;

impl NormaliserFit {
    /// Observes the tensor of this name in every batch. Padding within samples does not count if the batch has a mask
    /// for it, a tensor called `<name>_mask`. Samples that only pad a batch never count.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::normalise::NormaliserFit;
    ///
    /// let train = Loader::csv("fixtures/iris.csv").labels(["virginica"]);
    /// let mut fit = NormaliserFit::standardise(Some(0));
    /// fit.observe_all(&mut train.build()?, "features")?;
    /// let train = train.normalise("features", fit.finish()?);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of a batch, and [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) without such a tensor.
    pub fn observe_all(&mut self, batches: impl IntoIterator<Item = Result<DataSet>>, tensor: &str) -> Result<()> {
        for batch in batches {
            let batch = batch?;
            match observed(&batch, tensor)? {
                (view, Some(mask)) => self.observe_masked(&view, &mask)?,
                (view, None) => self.observe(&view)?,
            }
        }
        Ok(())
    }
}

impl QuantileFit {
    /// Observes the tensor of this name in every batch, without padding if there is a mask, as
    /// [`NormaliserFit::observe_all`] does.
    ///
    /// # Errors
    ///
    /// The first error of a batch, and [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) without such a tensor.
    pub fn observe_all(&mut self, batches: impl IntoIterator<Item = Result<DataSet>>, tensor: &str) -> Result<()> {
        for batch in batches {
            let batch = batch?;
            match observed(&batch, tensor)? {
                (view, Some(mask)) => self.observe_masked(&view, &mask)?,
                (view, None) => self.observe(&view)?,
            }
        }
        Ok(())
    }
}

/// The tensor of this name and its mask, of the samples that do not only pad the batch.
fn observed<'a>(batch: &'a DataSet, tensor: &str) -> Result<(TensorView<'a>, Option<TensorView<'a>>)> {
    let (index, specs) = (batch.schema().index_of(tensor)?, batch.schema().tensors());
    if specs[index].masked == Masked::Unknown {
        let message = "contains padding, and there is no mask that marks it; fit the normaliser to single records";
        return Err(Error::new(ErrorKind::Schema, message).at_column(tensor));
    }
    let mask = specs[index].mask(specs.iter()).map(|mask| batch.schema().index_of(mask.name)).transpose()?;
    Ok((batch.unpadded(index), mask.map(|mask| batch.unpadded(mask))))
}
