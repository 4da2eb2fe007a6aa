//! The driver's state: what is alive, what was given to streams, which call is to fail.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::memory::{Allocation, Locked, host_of};
use crate::queues::{Clock, Mark, Queue, Random, Source, Task, Work};
use crate::{Code, Done, kernels, violation};

pub struct Driver {
    pub settings: Settings,
    pub is_initialised: bool,
    last_handle: usize,
    pub contexts: BTreeMap<usize, Context>,
    pub streams: BTreeMap<usize, usize>,
    pub events: BTreeMap<usize, Event>,
    pub modules: BTreeMap<usize, Module>,
    pub functions: BTreeMap<usize, Function>,
    pub memory: BTreeMap<u64, Allocation>,
    pub locked: BTreeMap<usize, Locked>,
    pub queues: Vec<Queue>,
    random: Random,
    /// How often each call was made since a fault was last set.
    calls: BTreeMap<&'static str, u64>,
    fault: Option<Fault>,
    /// What `cuCtxSynchronize` has waited for. All threads know of it: how they tell each other is not seen here.
    pub settled: Clock,
    /// Contexts in which memory is being freed or unlocked, which waits for their work.
    freeing: Vec<usize>,
    /// Whether page-locked memory was refused, so that copies from ordinary memory are no fault.
    pub was_refused: bool,
}

pub struct Settings {
    pub devices: i32,
    pub has_pools: bool,
    /// Work is late by up to this.
    pub late_us: u64,
    /// Whether copies to the device may read ordinary memory.
    pub takes_pageable: bool,
    /// Whether nothing may be alive when `main` has ended.
    pub ends_strictly: bool,
}

pub struct Context {
    pub device: i32,
    pub retained: usize,
    /// On how many threads' stacks it is.
    pub stacked: usize,
    /// The failure that ended it.
    pub broken: Option<Code>,
    /// The work of its destroyed streams, all of it done.
    pub left: Clock,
    pub default_queue: usize,
}

pub struct Event {
    pub context: usize,
    pub mark: Mark,
    pub clock: Clock,
}

pub struct Module {
    pub context: usize,
    pub text: String,
    /// Launches that have not run yet.
    pub under_way: usize,
}

pub struct Function {
    pub module: usize,
    pub kernel: usize,
    pub param_bytes: usize,
}

struct Fault {
    call: String,
    nth: u64,
    code: Code,
}

pub type Guard = MutexGuard<'static, Driver>;

static DRIVER: Mutex<Driver> = Mutex::new(Driver {
    settings: Settings { devices: 2, has_pools: true, late_us: 300, takes_pageable: false, ends_strictly: false },
    is_initialised: false,
    last_handle: 0x5000_0000_0000,
    contexts: BTreeMap::new(),
    streams: BTreeMap::new(),
    events: BTreeMap::new(),
    modules: BTreeMap::new(),
    functions: BTreeMap::new(),
    memory: BTreeMap::new(),
    locked: BTreeMap::new(),
    queues: Vec::new(),
    random: Random(1),
    calls: BTreeMap::new(),
    fault: None,
    settled: Clock::new(),
    freeing: Vec::new(),
    was_refused: false,
});
static CHANGED: Condvar = Condvar::new();

/// The calling thread's contexts, the current one last.
struct Stack(RefCell<Vec<usize>>);

impl Drop for Stack {
    fn drop(&mut self) {
        if !self.0.get_mut().is_empty() {
            violation("a thread ended with a context on its stack that nobody took back");
        }
    }
}

thread_local! {
    static STACK: Stack = const { Stack(RefCell::new(Vec::new())) };
    /// What this thread has waited for.
    static SEEN: RefCell<Clock> = const { RefCell::new(Clock::new()) };
    static IS_CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Calls that wait while memory is being freed or unlocked in their context. So it was measured on an H200 with driver
/// 580, but for registering and for kernels, of which it is assumed.
const HELD_UP: [&str; 9] = [
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuLaunchKernel",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
];

pub fn lock() -> Guard {
    DRIVER.lock().unwrap_or_else(|_| violation("the simulated driver panicked"))
}

/// Runs what a call does, unless it is to fail.
pub fn call(name: &'static str, undoes: bool, work: impl FnOnce(Guard) -> Done) -> Code {
    let mut driver = lock();
    if IS_CALLED_BACK.get() {
        violation(&format!("{name} in a function that a stream calls"));
    }
    if !driver.is_initialised && name != "cuInit" {
        violation(&format!("{name} before cuInit"));
    }
    if HELD_UP.contains(&name) {
        let context = Driver::top();
        driver = wait(driver, |driver| !driver.freeing.contains(&context));
    }
    match driver.failure_of(name) {
        Some(code) if !undoes => code,
        failure => work(driver).err().or(failure).unwrap_or(0),
    }
}

impl Driver {
    pub fn configure(&mut self, text: &str) {
        for setting in text.split_whitespace() {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let number = || value.parse::<u64>().unwrap_or_else(|_| violation(&format!("{setting}: not a number")));
            match name {
                "devices" => self.settings.devices = number() as i32,
                "pools" => self.settings.has_pools = number() != 0,
                "late_us" => self.settings.late_us = number(),
                "pageable" => self.settings.takes_pageable = number() != 0,
                "end" => self.settings.ends_strictly = value == "strict",
                "seed" => self.random = Random(number()),
                "kernels" => kernels::load(value),
                "fail" => {
                    let parts: Vec<&str> = value.split(':').collect();
                    let [call, nth, code] = parts[..] else { violation("fail=CALL:NTH:CODE") };
                    self.fail(call, nth.parse().unwrap_or(0), code.parse().unwrap_or(0));
                }
                _ => violation(&format!("no setting is called {name:?}")),
            }
        }
    }

    /// Lets the `nth` call of this name from now on fail.
    pub fn fail(&mut self, call: &str, nth: u64, code: Code) {
        self.calls.clear();
        self.was_refused = false;
        self.fault = (nth > 0).then(|| Fault { call: call.to_owned(), nth, code });
    }

    /// Whether the call that is to fail has failed.
    pub fn has_failed(&self) -> bool {
        self.fault.as_ref().is_none_or(|fault| self.calls.get(&*fault.call).is_some_and(|calls| *calls >= fault.nth))
    }

    fn failure_of(&mut self, name: &'static str) -> Option<Code> {
        let calls = self.calls.entry(name).or_default();
        *calls += 1;
        let fault = self.fault.as_ref().filter(|fault| fault.call == name && fault.nth == *calls)?;
        let code = fault.code;
        self.was_refused |= ["cuMemHostAlloc", "cuMemHostRegister_v2"].contains(&name);
        if [700, 719].contains(&code) {
            let contexts: Vec<usize> = self.contexts.keys().copied().collect();
            contexts.into_iter().for_each(|context| self.break_context(context, code));
        }
        Some(code)
    }

    pub fn handle(&mut self) -> usize {
        self.last_handle += 64;
        self.last_handle
    }

    // Contexts.

    /// The calling thread's current context, which a call needs.
    pub fn current(&self, call: &str) -> usize {
        let context = STACK.with(|stack| stack.0.borrow().last().copied());
        let Some(context) = context.filter(|context| *context != 0) else {
            violation(&format!("{call} without a current context"))
        };
        if !self.contexts.contains_key(&context) {
            violation(&format!("{call} in a context that was destroyed"));
        }
        context
    }

    pub fn health(&self, context: usize) -> Done {
        self.contexts.get(&context).and_then(|context| context.broken).map_or(Ok(()), Err)
    }

    pub fn push(&mut self, handle: usize) {
        match self.contexts.get_mut(&handle) {
            Some(context) => context.stacked += 1,
            None => violation("cuCtxPushCurrent of what is no context"),
        }
        STACK.with(|stack| stack.0.borrow_mut().push(handle));
    }

    pub fn pop(&mut self) -> usize {
        let Some(handle) = STACK.with(|stack| stack.0.borrow_mut().pop()) else {
            violation("cuCtxPopCurrent of an empty stack")
        };
        if let Some(context) = self.contexts.get_mut(&handle) {
            context.stacked -= 1;
        }
        handle
    }

    pub fn top() -> usize {
        STACK.with(|stack| stack.0.borrow().last().copied().unwrap_or(0))
    }

    pub fn break_context(&mut self, handle: usize, code: Code) {
        let Some(context) = self.contexts.get_mut(&handle) else { return };
        context.broken.get_or_insert(code);
        for index in 0..self.queues.len() {
            if self.queues[index].context == handle {
                let tasks = std::mem::take(&mut self.queues[index].tasks);
                tasks.into_iter().for_each(|task| self.finish(index, task));
            }
        }
        CHANGED.notify_all();
    }

    /// What is alive, in words.
    pub fn alive(&self) -> Vec<String> {
        let mut alive = Vec::new();
        let mut count = |what: &str, count: usize| {
            if count > 0 {
                alive.push(format!("{count} {what}"));
            }
        };
        count("contexts", self.contexts.len());
        count("streams", self.streams.len());
        count("events", self.events.len());
        count("modules", self.modules.len());
        count("pieces of device memory", self.memory.values().filter(|memory| !memory.is_freed).count());
        count("pieces of page-locked memory", self.locked.len());
        alive
    }

    // Streams.

    /// A queue for a new stream.
    pub fn queue(&mut self, context: usize, is_blocking: bool) -> usize {
        let index = self.queues.iter().position(|queue| queue.context == 0).unwrap_or(self.queues.len());
        if index == self.queues.len() {
            self.queues.push(Queue::default());
        }
        let queue = &mut self.queues[index];
        (queue.context, queue.is_blocking, queue.is_destroyed) = (context, is_blocking, false);
        index
    }

    /// A queue whose stream was destroyed is free for another one, once its work is done.
    pub fn leave(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        if queue.is_destroyed && queue.is_idle() {
            let context = std::mem::take(&mut queue.context);
            if let Some(context) = self.contexts.get_mut(&context) {
                context.left.join(&queue.clock);
            }
        }
    }

    /// The queue of a stream of the current context.
    pub fn queue_of(&self, stream: usize, call: &str) -> usize {
        let current = self.current(call);
        // Null is the default stream, and so is 1.
        let queue = match stream {
            0 | 1 => self.contexts.get(&current).map(|context| context.default_queue),
            2 => violation("the default stream of each thread is not simulated"),
            _ => self.streams.get(&stream).copied(),
        };
        let Some(queue) = queue else { violation(&format!("{call} on what is no stream, or was destroyed")) };
        if self.queues[queue].context != current {
            violation(&format!("{call} on a stream of another context than the current one"));
        }
        queue
    }

    /// The place behind all that the queue was given, and what is ordered before that place.
    pub fn end(&self, queue: usize) -> (Mark, Clock) {
        (Mark { queue, number: self.queues[queue].given }, self.queues[queue].clock.clone())
    }

    /// Gives a stream something to do. Its clock then holds what is ordered before it.
    pub fn give(&mut self, queue: usize, call: &'static str, work: Work) -> Mark {
        // The default stream waits for all blocking ones, and they for it.
        let context = self.queues[queue].context;
        let default = self.contexts.get(&context).map_or(queue, |context| context.default_queue);
        let others: Vec<usize> = if queue == default {
            (0..self.queues.len()).filter(|other| self.queues[*other].context == context).collect()
        } else {
            vec![default]
        };
        if self.queues[queue].is_blocking {
            for other in others {
                if other != queue && self.queues[other].is_blocking && !self.queues[other].is_idle() {
                    let (mark, clock) = self.end(other);
                    self.queues[queue].clock.join(&clock);
                    self.put(queue, call, Work::Await(mark));
                }
            }
        }
        SEEN.with(|seen| self.queues[queue].clock.join(&seen.borrow()));
        self.queues[queue].clock.join(&self.settled);
        self.put(queue, call, work)
    }

    fn put(&mut self, index: usize, call: &'static str, work: Work) -> Mark {
        let queue = &mut self.queues[index];
        queue.given += 1;
        let mark = Mark { queue: index, number: queue.given };
        queue.clock.add(mark);
        queue.tasks.push_back(Task { number: mark.number, call, work });
        CHANGED.notify_all();
        mark
    }

    pub fn is_past(&self, mark: Mark) -> bool {
        self.queues.get(mark.queue).is_none_or(|queue| queue.done >= mark.number)
    }

    fn is_ready(&self, index: usize, device: i32) -> bool {
        let queue = &self.queues[index];
        let is_here = self.contexts.get(&queue.context).is_some_and(|context| context.device == device);
        let waits = |task: &Task| matches!(task.work, Work::Await(mark) if !self.is_past(mark));
        is_here && !queue.is_busy && queue.tasks.front().is_some_and(|task| !waits(task))
    }

    fn finish(&mut self, index: usize, task: Task) {
        match &task.work {
            Work::CopyIn { from: Source::Locked { from, .. }, .. } => self.release(*from),
            Work::CopyOut { to, .. } => self.release(*to),
            Work::Launch { module, .. } => {
                if let Some(module) = self.modules.get_mut(module) {
                    module.under_way -= 1;
                }
            }
            Work::Free(address) => {
                if let Some(memory) = self.memory.remove(address) {
                    memory.check();
                }
            }
            _ => {}
        }
        let queue = &mut self.queues[index];
        queue.done = queue.done.max(task.number);
        self.leave(index);
        CHANGED.notify_all();
    }

    fn release(&mut self, address: usize) {
        if let Some((_, locked)) = self.locked.range_mut(..=address).next_back() {
            locked.under_way = locked.under_way.saturating_sub(1);
        }
    }

    /// The page-locked memory that holds these bytes, as the current context sees it.
    pub fn locked_around(&mut self, address: usize, bytes: usize) -> Option<&mut Locked> {
        const PORTABLE: u32 = 1;
        let context = Self::top();
        let (start, locked) = self.locked.range_mut(..=address).next_back()?;
        let is_inside = address + bytes <= start + locked.bytes;
        (is_inside && (locked.context == context || locked.flags & PORTABLE != 0)).then_some(locked)
    }

    /// The piece of device memory that holds these bytes.
    pub fn memory_around(&mut self, address: u64, bytes: usize, call: &str) -> &mut Allocation {
        let current = self.current(call);
        let Some((start, memory)) = self.memory.range_mut(..=address).next_back() else {
            violation(&format!("{call} at {address:#x}, where no device memory is"))
        };
        if address + bytes as u64 > start + memory.bytes as u64 {
            violation(&format!(
                "{call}: {bytes} bytes at {} of {} bytes of device memory",
                address - start,
                memory.bytes
            ));
        }
        if memory.is_freed {
            violation(&format!("{call}: device memory that was freed"));
        }
        if memory.context != current {
            violation(&format!("{call}: device memory of another context"));
        }
        memory
    }

    fn lateness(&mut self) -> Option<Duration> {
        let most = match self.random.below(8) {
            0..4 => return None,
            4..7 => self.settings.late_us / 8,
            _ => self.settings.late_us,
        };
        (most > 0).then(|| Duration::from_micros(self.random.below(most)))
    }
}

/// Waits until something is so.
pub fn wait(mut driver: Guard, is_so: impl Fn(&Driver) -> bool) -> Guard {
    while !is_so(&driver) {
        driver = CHANGED.wait(driver).unwrap_or_else(|_| violation("the simulated driver panicked"));
    }
    driver
}

/// Waits for all work of a context, and holds up others' calls until then.
pub fn free_in(mut driver: Guard, context: usize) -> Guard {
    driver = wait(driver, |driver| !driver.freeing.contains(&context));
    driver.freeing.push(context);
    driver = wait(driver, |driver| driver.queues.iter().all(|queue| queue.context != context || queue.is_idle()));
    driver.freeing.retain(|freeing| *freeing != context);
    CHANGED.notify_all();
    driver
}

/// Waits for what is ordered before a place, on behalf of the calling thread.
pub fn wait_for(driver: Guard, mark: Mark, clock: &Clock) -> Guard {
    let driver = wait(driver, |driver| driver.is_past(mark));
    SEEN.with(|seen| seen.borrow_mut().join(clock));
    driver
}

/// Does a device's work for ever: of all that may be done now, any.
pub fn work(device: i32) {
    let mut driver = lock();
    loop {
        driver = wait(driver, |driver| (0..driver.queues.len()).any(|queue| driver.is_ready(queue, device)));
        let ready: Vec<usize> = (0..driver.queues.len()).filter(|queue| driver.is_ready(*queue, device)).collect();
        let queue = ready[driver.random.below(ready.len() as u64) as usize];
        if let Some(time) = driver.lateness() {
            drop(driver);
            std::thread::sleep(time);
            driver = lock();
            if !driver.is_ready(queue, device) {
                continue;
            }
        }
        let Some(task) = driver.queues[queue].tasks.pop_front() else { continue };
        let context = driver.queues[queue].context;
        if let Some(code) = driver.failure_of(running(task.call)) {
            driver.finish(queue, task);
            driver.break_context(context, code);
            continue;
        }
        driver.queues[queue].is_busy = true;
        drop(driver);
        let calls_back = matches!(task.work, Work::Call { .. });
        let done = move || {
            IS_CALLED_BACK.set(calls_back);
            run(&task.work);
            let mut driver = lock();
            driver.queues[queue].is_busy = false;
            driver.finish(queue, task);
        };
        // What is called may wait for anything: other streams go on.
        if calls_back {
            std::thread::spawn(done);
        } else {
            done();
        }
        driver = lock();
    }
}

/// The name by which the work of a call can be let fail.
fn running(call: &'static str) -> &'static str {
    match call {
        "cuMemcpyHtoDAsync_v2" => "running cuMemcpyHtoDAsync_v2",
        "cuLaunchKernel" => "running cuLaunchKernel",
        _ => "running",
    }
}

fn run(work: &Work) {
    match work {
        Work::CopyIn { to, from, .. } => {
            let bytes = match from {
                Source::Staged(bytes) => bytes,
                Source::Locked { from, then } => {
                    let from = std::ptr::with_exposed_provenance::<u8>(*from);
                    let now = unsafe { std::slice::from_raw_parts(from, then.len()) };
                    if now != then {
                        violation("host memory was changed before the copy that was to read it");
                    }
                    then
                }
            };
            let to = std::ptr::with_exposed_provenance_mut(host_of(*to));
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
        Work::CopyOut { to, from, bytes, .. } => {
            let from = std::ptr::with_exposed_provenance::<u8>(host_of(*from));
            unsafe { std::ptr::copy_nonoverlapping(from, std::ptr::with_exposed_provenance_mut(*to), *bytes) };
        }
        Work::Launch { kernel, blocks, threads, params, .. } => kernels::run(*kernel, *blocks, *threads, params),
        Work::Call { function, given } => unsafe { function(std::ptr::with_exposed_provenance_mut(*given)) },
        Work::Await(_) | Work::Free(_) => {}
    }
}
