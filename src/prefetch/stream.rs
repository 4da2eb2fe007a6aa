use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::dataset::{DataSet, DataSetIterator};
use crate::error::{Error, ErrorKind, Result};

type Next<I> = JoinHandle<(I, Option<Result<DataSet>>)>;

/// One epoch's batches as a [`Stream`]; see [`into_stream`].
pub struct DataSetStream<I> {
    iterator: Option<I>,
    next: Option<Next<I>>,
    /// The epoch has ended: no more items come.
    ended: bool,
}

impl<I> fmt::Debug for DataSetStream<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataSetStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Turns an iterator into a stream of the rest of its epoch, for a tokio runtime. Each wait for a batch is a task on
/// the runtime's blocking threads, so that no executor thread is blocked. [`DataSetStream::into_inner`] returns the
/// iterator.
///
/// ```
/// # use ringfeed::read::MemoryReader;
/// # use ringfeed::source::ReaderSource;
/// # use ringfeed::stream::into_stream;
/// # use ringfeed::tensor::Role;
/// # use ringfeed::{AsyncDataSetIterator, Workspace};
/// # use std::{future::poll_fn, pin::pin};
/// use futures_core::Stream;
///
/// # let numbers = MemoryReader::new("x", Role::Feature, &[], (0..10).collect::<Vec<i64>>())?;
/// # let iterator = AsyncDataSetIterator::new(ReaderSource::new(numbers).batch_size(4), &Workspace::default())?;
/// # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
/// let mut stream = pin!(into_stream(iterator));
/// let mut samples = 0;
/// while let Some(batch) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
///     samples += batch?.len();
/// }
/// assert_eq!(samples, 10);
/// # Ok::<(), ringfeed::Error>(())
/// # })?;
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub fn into_stream<I: DataSetIterator + Unpin + 'static>(iterator: I) -> DataSetStream<I> {
    DataSetStream { iterator: Some(iterator), next: None, ended: false }
}

impl<I> DataSetStream<I> {
    /// The iterator; `None` while the stream waits for a batch.
    pub fn into_inner(self) -> Option<I> {
        self.iterator
    }
}

impl<I: DataSetIterator + Unpin + 'static> Stream for DataSetStream<I> {
    type Item = Result<DataSet>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        if let Some(mut iterator) = this.iterator.take() {
            this.next = Some(spawn_blocking(move || {
                let item = iterator.next();
                (iterator, item)
            }));
        }
        let Some(next) = &mut this.next else { return Poll::Ready(None) };
        let joined = ready!(Pin::new(next).poll(context));
        this.next = None;
        Poll::Ready(match joined {
            Ok((iterator, item)) => {
                this.iterator = Some(iterator);
                this.ended = item.is_none();
                item
            }
            Err(error) if error.is_panic() => Some(Err(Error::from_panic(&*error.into_panic()))),
            Err(error) => {
                let message = "the runtime shut down while a batch was waited for";
                Some(Err(Error::new(ErrorKind::TimedOut, message).with_source(error)))
            }
        })
    }
}
