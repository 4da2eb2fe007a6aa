//! Batches as a stream on a tokio runtime.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/panicking.rs"]
mod panicking;

use std::future::poll_fn;
use std::pin::Pin;

use common::{Flaky, Trouble, workspace, xs};
use futures_core::Stream;
use panicking::Panicking;
use ringfeed::source::ReaderSource;
use ringfeed::stream::{DataSetStream, into_stream};
use ringfeed::{AsyncDataSetIterator, DataSet, DataSetIterator, ErrorKind};

async fn next<I: DataSetIterator + Unpin + 'static>(
    stream: &mut DataSetStream<I>,
) -> Option<ringfeed::Result<DataSet>> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

fn run<T>(work: impl Future<Output = T>) -> T {
    common::watchdog::watch();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn errors_are_items_in_their_place_and_the_iterator_comes_back() {
    let source = ReaderSource::new(Flaky::new(50, &[25], Trouble::FailInDecode)).batch_size(10);
    let mut stream = into_stream(AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap());
    run(async {
        assert_eq!(xs(&next(&mut stream).await.unwrap().unwrap())[0], 0);
        assert_eq!(xs(&next(&mut stream).await.unwrap().unwrap())[0], 10);
        assert_eq!(next(&mut stream).await.unwrap().unwrap_err().kind(), ErrorKind::Data);
        assert!(next(&mut stream).await.is_none());
        assert!(next(&mut stream).await.is_none());
    });
    let mut iterator = stream.into_inner().unwrap();
    iterator.reset().unwrap();
    assert_eq!(iterator.take_while(Result::is_ok).count(), 2);
}

#[test]
fn a_stream_may_be_dropped_while_a_batch_is_waited_for() {
    let stalling = Flaky::new(50, &[5], Trouble::Stall);
    let gate = stalling.gate.clone();
    let source = ReaderSource::new(stalling).batch_size(10);
    let mut stream = into_stream(AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap());
    run(async {
        let mut waiting = Box::pin(next(&mut stream));
        poll_fn(|context| {
            assert!(waiting.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(waiting);
        drop(stream);
        gate.open();
    });
}

#[test]
fn a_panic_of_the_iterator_is_an_item_and_the_end() {
    let source = ReaderSource::new(Flaky::new(50, &[], Trouble::FailInDecode)).batch_size(10);
    let iterator = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
    let mut stream = into_stream(Panicking(Box::new(iterator), 0));
    run(async {
        let error = next(&mut stream).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panicked);
        assert!(error.message().contains("in the midst of an epoch"), "{error}");
        assert!(next(&mut stream).await.is_none());
    });
}
