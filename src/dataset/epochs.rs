use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

use super::iterator::DataSetIterator;

/// What gives batches epoch by epoch: a [`DataSetIterator`], or one of batches on a device.
pub trait ByEpoch: Iterator<Item = Result<Self::Batch>> {
    /// What a batch is.
    type Batch;

    /// Makes the next batch the first one that is left of an epoch; see [`DataSetIterator::begin_epoch`].
    ///
    /// # Errors
    ///
    /// As [`DataSetIterator::reset`].
    fn begin_epoch(&mut self) -> Result<()>;
}

impl ByEpoch for dyn DataSetIterator + '_ {
    type Batch = super::DataSet;

    fn begin_epoch(&mut self) -> Result<()> {
        DataSetIterator::begin_epoch(self)
    }
}

/// The way from an iterator to its own trait object: every [`DataSetIterator`] has it.
pub trait AsDyn {
    /// The iterator as a trait object.
    fn as_dyn<'a>(&'a mut self) -> &'a mut (dyn DataSetIterator + 'a);
}

impl<I: DataSetIterator> AsDyn for I {
    fn as_dyn<'a>(&'a mut self) -> &'a mut (dyn DataSetIterator + 'a) {
        self
    }
}

/// The batches of one epoch, or what a state left of it; see [`DataSetIterator::epoch`].
///
/// It may be dropped before its end: the epoch that is begun after it is another one.
pub struct Epoch<'a, I: ByEpoch + ?Sized = dyn DataSetIterator + 'a> {
    /// There until it drops.
    iterator: Option<&'a mut I>,
    /// Who lent it.
    home: Option<Home<'a, I>>,
    ended: bool,
}

/// Where the iterator lies between two epochs.
type Home<'a, I> = Arc<Mutex<Option<&'a mut I>>>;

impl<'a, I: ByEpoch + ?Sized> Epoch<'a, I> {
    pub(crate) fn begin(iterator: &'a mut I) -> Result<Self> {
        iterator.begin_epoch()?;
        Ok(Self { iterator: Some(iterator), home: None, ended: false })
    }

    /// The iterator that they come from: its state and figures.
    pub fn iterator(&self) -> &I {
        self.iterator.as_deref().expect("it is there until the epoch drops")
    }
}

impl<I: ByEpoch + ?Sized> Iterator for Epoch<'_, I> {
    type Item = I::Item;

    /// The next batch; `None` at the end, however often it is asked for.
    fn next(&mut self) -> Option<I::Item> {
        if self.ended {
            return None;
        }
        let next = self.iterator.as_mut()?.next();
        self.ended = next.is_none();
        next
    }
}

impl<I: ByEpoch + ?Sized> Drop for Epoch<'_, I> {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            *home.lock() = self.iterator.take();
        }
    }
}

/// Several epochs, one after another; see [`DataSetIterator::epochs`].
pub struct Epochs<'a, I: ByEpoch + ?Sized = dyn DataSetIterator + 'a> {
    home: Home<'a, I>,
    left: u64,
}

impl<'a, I: ByEpoch + ?Sized> Epochs<'a, I> {
    pub(crate) fn new(iterator: &'a mut I, count: u64) -> Self {
        Self { home: Arc::new(Mutex::new(Some(iterator))), left: count }
    }
}

impl<'a, I: ByEpoch + ?Sized> Iterator for Epochs<'a, I> {
    type Item = Result<Epoch<'a, I>>;

    /// Begins the next epoch. After an error there is none.
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let taken = self.home.lock().take();
        let Some(iterator) = taken else {
            self.left = 0;
            let message = "the epoch before is still held: go through each epoch before the next one begins";
            return Some(Err(Error::new(ErrorKind::Unsupported, message)));
        };
        if let Err(error) = iterator.begin_epoch() {
            self.left = 0;
            *self.home.lock() = Some(iterator);
            return Some(Err(error));
        }
        Some(Ok(Epoch { iterator: Some(iterator), home: Some(self.home.clone()), ended: false }))
    }
}
