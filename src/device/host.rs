use std::fmt;
use std::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};

use crate::caught::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{AnonymousPages, Block};
use crate::sync::{Condvar, Mutex};

use super::convert::{self, Work};
use super::engine::{Engine, Key};
use super::queue::Queue;
use super::{Device, OnStream};

/// Commands that may wait in a stream. Adding another one waits for room, as on a GPU.
const BOUND: usize = 1024;

/// The host as a device: its memory, and streams that are one thread each.
///
/// For tests, and for measuring the upload stage on any machine. Copies run on separate threads while the trainer
/// computes, in recycled memory, so a program with the right order here has the right order on a GPU. As on a GPU, the
/// first failure breaks the device: every later call is an error.
#[derive(Clone)]
pub struct HostDevice(Arc<Health>);

/// The state that the handles of a device share. It has no `Default`, which would give users an engine of their own.
pub struct Health {
    /// The first panic in a stream's work.
    broken: Mutex<Option<String>>,
    streams: Mutex<Vec<Running>>,
}

/// A stream whose thread works until its queue is empty, also after the last handle has dropped.
struct Running {
    queue: Weak<Queue<Command>>,
    thread: ThreadId,
}

/// A piece of [`HostDevice`]'s memory.
pub struct HostMemory {
    address: usize,
    bytes: usize,
    /// Frees the memory. It is never locked: the bytes are only accessed by address, in the order of streams.
    block: Arc<Mutex<Block>>,
}

/// A queue of work on a [`HostDevice`], run in order by its own thread. Clones are handles to the same queue.
#[derive(Clone)]
pub struct HostStream {
    handle: Arc<Handle>,
    health: Arc<Health>,
}

/// The right to give commands to a stream, whose thread ends with the last handle.
struct Handle {
    queue: Arc<Queue<Command>>,
    thread: ThreadId,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// A place in the order of a [`HostStream`].
#[derive(Clone, Debug)]
pub struct HostEvent(Arc<Progress>);

#[derive(Debug)]
struct Progress {
    records: Mutex<Records>,
    passed: Condvar,
}

#[derive(Debug, Default)]
struct Records {
    /// Number of the latest; 0 if there is none.
    latest: u64,
    /// Events that their streams have not reached yet.
    ahead: Vec<u64>,
}

enum Command {
    Copy { from: usize, to: usize, bytes: usize },
    Convert { work: Work, address: usize, bytes: usize },
    Run(Box<dyn FnOnce() + Send>),
    Pass(HostEvent, u64),
    Await(HostEvent, u64),
    Free(HostMemory),
}

impl HostDevice {
    /// A new device. Failures of other devices do not affect it.
    pub fn new() -> Self {
        Self(Arc::new(Health { broken: Mutex::new(None), streams: Mutex::new(Vec::new()) }))
    }
}

impl Default for HostDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    fn check(&self) -> Result<()> {
        match &*self.broken.lock() {
            None => Ok(()),
            Some(reason) => {
                let message = format!("the host device is broken since work on it {reason}");
                Err(Error::new(ErrorKind::Device, message))
            }
        }
    }
}

impl HostStream {
    /// Lets the stream run `work` after all its current work. Waits if the stream has a very long queue. A panic breaks
    /// the device.
    /// Work may drop batches and give streams more work, but must not wait for the device, because the work that it
    /// waits for may be queued after it. (The same holds for CUDA's host functions.)
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        self.health.check()?;
        self.handle.queue.push_when_room(Command::Run(Box::new(work)));
        Ok(())
    }

    /// Sleeps until all current work of the stream is done.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken, or if this is called in the stream's own work.
    pub fn synchronize(&self) -> Result<()> {
        self.check_thread()?;
        let event = HostEvent::new();
        self.record(&event);
        event.block_on();
        self.health.check()
    }

    fn give(&self, command: Command) {
        self.handle.queue.push(command);
    }

    fn check_thread(&self) -> Result<()> {
        if self.handle.thread == thread::current().id() {
            return Err(Error::new(ErrorKind::Device, "a stream's own work can't wait for the stream"));
        }
        Ok(())
    }

    fn record(&self, event: &HostEvent) {
        self.give(event.next());
    }
}

/// Runs a stream's commands in order until its last handle drops. A panic breaks the device, but never ends the thread,
/// because other threads wait for it.
fn work(queue: &Queue<Command>, health: &Health) {
    queue.work(|command| {
        let healthy = health.check().is_ok();
        let done = caught(|| {
            command.run(healthy);
            Ok(())
        });
        if let Err(error) = done {
            health.broken.lock().get_or_insert_with(|| error.message().to_owned());
        }
    });
}

impl Command {
    fn run(self, healthy: bool) {
        match self {
            Self::Copy { from, to, bytes } if healthy => {
                let (from, to) = (with_exposed_provenance::<u8>(from), with_exposed_provenance_mut::<u8>(to));
                // SAFETY: who called `copy_in` promised that both stay, and that nothing touches the target meanwhile
                // or changes the source; a host batch and a device slot never overlap.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            }
            Self::Convert { work, address, bytes } if healthy => {
                // SAFETY: who called `convert` promised that the memory stays, that nothing writes meanwhile what the
                // work reads, and that nothing touches what it writes.
                let memory = unsafe { std::slice::from_raw_parts_mut(with_exposed_provenance_mut(address), bytes) };
                convert::cpu::run(&work, memory);
            }
            Self::Run(work) if healthy => work(),
            // Commands that do not run are dropped, which may run user code, too.
            Self::Copy { .. } | Self::Convert { .. } | Self::Run(_) => {}
            Self::Pass(event, number) => event.pass(number),
            Self::Await(event, number) => event.wait_for(number),
            Self::Free(memory) => drop(memory),
        }
    }
}

impl HostEvent {
    fn new() -> Self {
        Self(Arc::new(Progress { records: Mutex::new(Records::default()), passed: Condvar::new() }))
    }

    /// The next record of this event, for a stream.
    fn next(&self) -> Command {
        let mut records = self.0.records.lock();
        records.latest += 1;
        let number = records.latest;
        records.ahead.push(number);
        Command::Pass(self.clone(), number)
    }

    fn latest(&self) -> u64 {
        self.0.records.lock().latest
    }

    fn pass(&self, number: u64) {
        self.0.records.lock().ahead.retain(|ahead| *ahead != number);
        self.0.passed.notify_all();
    }

    fn wait_for(&self, number: u64) {
        let mut records = self.0.records.lock();
        while records.ahead.contains(&number) {
            records = self.0.passed.wait(records);
        }
    }

    fn block_on(&self) {
        self.wait_for(self.latest());
    }
}

impl Device for HostDevice {
    type Stream = HostStream;
    type Pages = AnonymousPages;
    type Engine = Arc<Health>;

    fn engine(&self, _: Key) -> &Arc<Health> {
        &self.0
    }

    fn pages(&self) -> AnonymousPages {
        AnonymousPages
    }
}

impl Engine for Arc<Health> {
    type Memory = HostMemory;
    type Stream = HostStream;
    type Event = HostEvent;

    fn label(&self) -> String {
        "host".to_owned()
    }

    fn new_stream(&self) -> Result<HostStream> {
        self.check()?;
        let queue = Arc::new(Queue::new(BOUND));
        let (commands, health) = (queue.clone(), self.clone());
        let thread = thread::Builder::new()
            .name("ringfeed-stream".to_owned())
            .spawn(move || work(&commands, &health))
            .map_err(|error| Error::new(ErrorKind::Device, format!("no thread for a stream: {error}")))?;
        let thread = thread.thread().id();
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.queue.strong_count() > 0);
        streams.push(Running { queue: Arc::downgrade(&queue), thread });
        drop(streams);
        Ok(HostStream { handle: Arc::new(Handle { queue, thread }), health: self.clone() })
    }

    fn dlpack_device(&self) -> (i32, i32) {
        const CPU: i32 = 1;
        (CPU, 0)
    }

    fn allocate(&self, bytes: usize, _: &HostStream) -> Result<HostMemory> {
        self.check()?;
        let block = Block::unbounded(bytes)?;
        let address = block.start().as_ptr().expose_provenance();
        Ok(HostMemory { address, bytes: block.len(), block: Arc::new(Mutex::new(block)) })
    }

    fn free(&self, memory: HostMemory, stream: &HostStream) {
        stream.give(Command::Free(memory));
    }

    fn abandon(&self, memory: HostMemory) {
        // The last stream that may use the memory frees it. On a broken device, streams skip their work and nobody
        // frees it.
        if self.check().is_err() {
            return std::mem::forget(memory);
        }
        for queue in self.streams.lock().iter().filter_map(|stream| stream.queue.upgrade()) {
            let block = memory.block.clone();
            // A stream that has ended does not use it.
            drop(queue.try_push(Command::Run(Box::new(move || drop(block)))));
        }
    }

    fn address(&self, memory: &HostMemory) -> u64 {
        memory.address as u64
    }

    fn event(&self) -> Result<HostEvent> {
        self.check()?;
        Ok(HostEvent::new())
    }

    fn record(&self, event: &HostEvent, stream: &HostStream) -> Result<()> {
        // Also on a broken device, so that nobody waits for ever.
        stream.record(event);
        self.check()
    }

    fn order_after(&self, event: &HostEvent, stream: &HostStream) -> Result<()> {
        self.check()?;
        if !Arc::ptr_eq(self, &stream.health) {
            return Err(Error::new(
                ErrorKind::Device,
                "a stream of another host device can't use what lies on this one",
            ));
        }
        stream.give(Command::Await(event.clone(), event.latest()));
        Ok(())
    }

    fn block_on(&self, event: &HostEvent) -> Result<()> {
        event.block_on();
        self.check()
    }

    fn settle(&self) -> Result<()> {
        let own = thread::current().id();
        let others = |stream: &Running| stream.queue.upgrade().filter(|_| stream.thread != own);
        let streams: Vec<_> = self.streams.lock().iter().filter_map(others).collect();
        for queue in streams {
            let event = HostEvent::new();
            if queue.try_push(event.next()).is_ok() {
                event.block_on();
            }
        }
        self.check()
    }

    unsafe fn copy_in(&self, from: &[u8], to: &HostMemory, stream: &HostStream) -> Result<()> {
        self.check()?;
        assert!(from.len() <= to.bytes, "{} bytes do not fit into {}", from.len(), to.bytes);
        let source = from.as_ptr().expose_provenance();
        stream.give(Command::Copy { from: source, to: to.address, bytes: from.len() });
        Ok(())
    }

    unsafe fn convert(&self, work: &Work, memory: &HostMemory, stream: &HostStream) -> Result<()> {
        self.check()?;
        stream.give(Command::Convert { work: *work, address: memory.address, bytes: memory.bytes });
        Ok(())
    }

    fn copy_out(&self, from: &HostMemory, offset: usize, to: &mut [u8], stream: &HostStream) -> Result<()> {
        self.check()?;
        if offset.checked_add(to.len()).is_none_or(|end| end > from.bytes) {
            return Err(Error::new(ErrorKind::Device, format!("{} bytes at {offset} of {}", to.len(), from.bytes)));
        }
        // Before the copy is started, which is waited for in any case.
        stream.check_thread()?;
        let target = to.as_mut_ptr().expose_provenance();
        stream.give(Command::Copy { from: from.address + offset, to: target, bytes: to.len() });
        stream.synchronize()
    }
}

impl OnStream<'_, HostDevice> {
    /// Lets the stream run `work` on the batch's tensors after all its current work, like a step of the trainer. The
    /// tensors are in the schema's order. Returns before the work is done; the batch may drop before that.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken.
    pub fn run(&self, work: impl FnOnce(&[&[u8]]) + Send + 'static) -> Result<()> {
        let memory = self.memory();
        let keep = memory.block.clone();
        let ranges: Vec<(usize, usize)> =
            self.tensors().map(|tensor| (tensor.address() as usize, tensor.bytes())).collect();
        self.stream().run(move || {
            let tensors: Vec<&[u8]> = ranges
                .iter()
                // SAFETY: the ranges lie in the memory that `keep` holds, initialised by the operating system. The
                // stream was ordered after the batch's copy, and the slot's next copy is ordered after this stream's
                // work, so that nobody writes meanwhile.
                .map(|(address, bytes)| unsafe { view(*address, *bytes) })
                .collect();
            work(&tensors);
            drop(keep);
        })
    }
}

/// # Safety
///
/// The bytes must be initialised, and nobody may write them for as long as the slice lives.
unsafe fn view<'a>(address: usize, bytes: usize) -> &'a [u8] {
    let start = NonNull::new(with_exposed_provenance_mut::<u8>(address)).unwrap_or(NonNull::dangling());
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) }
}

impl PartialEq for HostStream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }
}

impl fmt::Debug for HostStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostStream({} commands waiting)", self.handle.queue.len())
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes)", self.bytes)
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("broken", &*self.broken.lock()).finish_non_exhaustive()
    }
}

impl fmt::Debug for HostDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostDevice")
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::device::convert::{FloatType, ScaleWork};
    use crate::dtype::DType;

    #[test]
    fn work_of_a_stream_whose_handles_are_gone_is_waited_for() {
        crate::watchdog::watch();
        let device = HostDevice::new();
        let (engine, stream) = (&device.0, device.stream().unwrap());
        let memory = engine.allocate(4096, &stream).unwrap();
        let block = Arc::downgrade(&memory.block);
        let (begin, begun) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        let (send, done) = mpsc::channel();
        let hold = move || {
            begin.send(()).unwrap();
            gate.recv().unwrap();
        };
        stream.run(hold).unwrap();
        stream.run(move || send.send(()).unwrap()).unwrap();
        let queue = Arc::downgrade(&stream.handle.queue);
        drop(stream);
        begun.recv().unwrap();
        engine.abandon(memory);
        assert!(block.upgrade().is_some(), "freed before work that may use it");
        thread::scope(|scope| {
            let settled = scope.spawn(move || {
                engine.settle().unwrap();
                done.try_recv()
            });
            // Behind the other work and the freed memory stands the event that is waited for.
            while queue.upgrade().unwrap().len() < 3 {
                thread::yield_now();
            }
            open.send(()).unwrap();
            assert_eq!(settled.join().unwrap(), Ok(()), "the work was not waited for");
        });
        assert!(block.upgrade().is_none());
        // Streams end at any time.
        for _ in 0..1000 {
            drop(device.stream().unwrap());
            engine.settle().unwrap();
        }
    }

    #[test]
    fn a_conversion_that_panics_breaks_the_device_and_ends_every_wait() {
        let device = HostDevice::new();
        let (engine, stream) = (&device.0, device.stream().unwrap());
        let memory = engine.allocate(4096, &stream).unwrap();
        let (from, to) = (DType::U8, FloatType::F32);
        let work = Work::Scale(ScaleWork { input: 0, output: 4096, count: 4096, from, to, scale: 1.0, bias: 0.0 });
        assert!(!work.fits(4096));
        // Before the work, which may break the device at once.
        let event = engine.event().unwrap();
        // SAFETY: the host device slices with bounds, so that nothing is touched.
        unsafe { engine.convert(&work, &memory, &stream) }.unwrap();
        let _ = engine.record(&event, &stream);
        assert!(engine.block_on(&event).unwrap_err().to_string().contains("out of range"));
        assert!(stream.synchronize().is_err());
        engine.free(memory, &stream);
    }
}
