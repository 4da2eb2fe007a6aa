use crate::error::Result;
use crate::normalise::{NormaliserFit, QuantileFit};

use super::batch::DataSet;

impl NormaliserFit {
    /// Observes the tensor of this name in every batch. Padding does not count if the batch has a mask for it, a tensor
    /// called `<name>_mask`.
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
        let mask = format!("{tensor}_mask");
        for batch in batches {
            let batch = batch?;
            let view = batch.tensor(tensor)?;
            match batch.tensors().find(|other| other.name() == mask) {
                Some(mask) => self.observe_masked(&view, &mask)?,
                None => self.observe(&view)?,
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
        let mask = format!("{tensor}_mask");
        for batch in batches {
            let batch = batch?;
            let view = batch.tensor(tensor)?;
            match batch.tensors().find(|other| other.name() == mask) {
                Some(mask) => self.observe_masked(&view, &mask)?,
                None => self.observe(&view)?,
            }
        }
        Ok(())
    }
}
