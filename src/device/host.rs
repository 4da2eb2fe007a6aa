use std::fmt;
use std::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::{Arc, Weak};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::dataset::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{AnonymousPages, Block};
use crate::sync::{Condvar, Mutex};

use super::convert::{self, Work};
use super::engine::{Engine, Key};
use super::{Device, OnStream};

/// Commands that may wait in a stream; giving it more waits for room, as on a GPU.
const QUEUE: usize = 1024;

/// The host as a device: its memory, and streams that are a thread each.
///
/// For tests and for measuring the upload stage on any machine. Its copies run on threads of their own while the trainer
/// computes, in recycled memory, so that a program whose order is right here is ordered rightly on a GPU. As on a GPU, the
/// first failure breaks the device: every call after it is an error.
#[derive(Clone)]
pub struct HostDevice(Arc<Health>);

/// What the handles of a device share. Without `Default`, which would give users an engine of their own.
pub struct Health {
    /// The first panic of work that was given to a stream.
    broken: Mutex<Option<String>>,
    streams: Mutex<Vec<Weak<Queue>>>,
}

/// A piece of [`HostDevice`]'s memory.
pub struct HostMemory {
    address: usize,
    bytes: usize,
    /// Frees the memory. Never locked: the bytes are reached through the address alone, in the order of streams.
    block: Arc<Mutex<Block>>,
}

/// A queue of work on a [`HostDevice`], run in order by a thread of its own. Clones are handles to the same one.
#[derive(Clone)]
pub struct HostStream {
    queue: Arc<Queue>,
    health: Arc<Health>,
}

struct Queue {
    commands: Sender<Command>,
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
    /// Those that their streams have not come to yet.
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
    /// A device of its own: another one's failures do not break it.
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
    /// Lets the stream run `work` after all that it has. A panic breaks the device.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        self.health.check()?;
        self.give(Command::Run(Box::new(work)));
        Ok(())
    }

    /// Sleeps until all work that the stream has now is done.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if the device is broken.
    pub fn synchronize(&self) -> Result<()> {
        let event = HostEvent::new();
        self.record(&event);
        event.block_on();
        self.health.check()
    }

    fn give(&self, command: Command) {
        self.queue.commands.send(command).expect("a stream's thread runs as long as its queue");
    }

    fn record(&self, event: &HostEvent) {
        let number = {
            let mut records = event.0.records.lock();
            records.latest += 1;
            let number = records.latest;
            records.ahead.push(number);
            number
        };
        self.give(Command::Pass(event.clone(), number));
    }
}

/// Runs a stream's commands in order until its last handle is gone.
fn work(commands: &Receiver<Command>, health: &Health) {
    for command in commands {
        let healthy = health.check().is_ok();
        match command {
            Command::Copy { from, to, bytes } if healthy => {
                let (from, to) = (with_exposed_provenance::<u8>(from), with_exposed_provenance_mut::<u8>(to));
                // SAFETY: who called `copy_in` promised that both stay, and that nothing touches the target meanwhile
                // or changes the source; a host batch and a device slot never overlap.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            }
            Command::Convert { work, address, bytes } if healthy => {
                // SAFETY: who called `convert` promised that the memory stays, that nothing writes meanwhile what the work
                // reads, and that nothing touches what it writes.
                let memory = unsafe { std::slice::from_raw_parts_mut(with_exposed_provenance_mut(address), bytes) };
                convert::cpu::run(&work, memory);
            }
            Command::Run(work) if healthy => {
                let done = caught(|| {
                    work();
                    Ok(())
                });
                if let Err(error) = done {
                    health.broken.lock().get_or_insert_with(|| error.message().to_owned());
                }
            }
            Command::Copy { .. } | Command::Convert { .. } | Command::Run(_) => {}
            Command::Pass(event, number) => event.pass(number),
            Command::Await(event, number) => event.wait_for(number),
            Command::Free(memory) => drop(memory),
        }
    }
}

impl HostEvent {
    fn new() -> Self {
        Self(Arc::new(Progress { records: Mutex::new(Records::default()), passed: Condvar::new() }))
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
        let (commands, queue) = bounded(QUEUE);
        let health = self.clone();
        thread::Builder::new()
            .name("ringfeed-stream".to_owned())
            .spawn(move || work(&queue, &health))
            .map_err(|error| Error::new(ErrorKind::Device, format!("no thread for a stream: {error}")))?;
        let queue = Arc::new(Queue { commands });
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&queue));
        Ok(HostStream { queue, health: self.clone() })
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
        // Nothing goes untraced here before the device is broken.
        std::mem::forget(memory);
    }

    fn address(&self, memory: &HostMemory) -> u64 {
        memory.address as u64
    }

    fn event(&self) -> Result<HostEvent> {
        self.check()?;
        Ok(HostEvent::new())
    }

    fn record(&self, event: &HostEvent, stream: &HostStream) -> Result<()> {
        // Even on a broken device, so that nobody waits for what never comes.
        stream.record(event);
        self.check()
    }

    fn order_after(&self, event: &HostEvent, stream: &HostStream) -> Result<()> {
        self.check()?;
        stream.give(Command::Await(event.clone(), event.latest()));
        Ok(())
    }

    fn block_on(&self, event: &HostEvent) -> Result<()> {
        event.block_on();
        self.check()
    }

    fn settle(&self) -> Result<()> {
        let streams: Vec<_> = self.streams.lock().iter().filter_map(Weak::upgrade).collect();
        for queue in streams {
            // The stream's own state is of no interest here, but that it came so far.
            let _ = HostStream { queue, health: self.clone() }.synchronize();
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
        let target = to.as_mut_ptr().expose_provenance();
        stream.give(Command::Copy { from: from.address + offset, to: target, bytes: to.len() });
        stream.synchronize()
    }
}

impl OnStream<'_, HostDevice> {
    /// Lets the stream run `work` on the batch's tensors after all that it has: the trainer's step, as far as the host
    /// device is concerned. The tensors are in the schema's order. Returns before the work is done; the batch may drop
    /// before it is.
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
                // SAFETY: the ranges lie in the memory that `keep` holds, initialised by the operating system. The stream was
                // ordered after the batch's copy, and the slot's next copy is ordered after this stream's work, so that
                // nobody writes meanwhile.
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
        Arc::ptr_eq(&self.queue, &other.queue)
    }
}

impl fmt::Debug for HostStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostStream({} commands waiting)", self.queue.commands.len())
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
