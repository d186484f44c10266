//! Who runs next. Tasks, disk operations and timers of one machine, in an order that a seed decides. Knows
//! nothing of what tasks do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;

use crate::bug::Bug;
use crate::disk::{Disk, FileId, SECTOR, Survival};
use crate::names::Names;
use crate::random::Random;

/// A step takes up to so much of the machine's time, in nanoseconds.
const STEP_NANOS_MAX: u64 = 20_000;
/// Steps after which a run is taken for one that never ends.
const STEPS_MAX: u64 = 3_000_000;

/// What the wall clock says when the machine is made.
const WALL_MS: i64 = 1_700_000_000_000;

/// The power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut;

/// What goes wrong with the disk, besides power cuts.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The power goes when so many operations have ended since the machine was made.
    pub power_cut_at: Option<u64>,
    /// This operation fails.
    pub fail_at: Option<u64>,
    /// With ENOSPC instead of EIO.
    pub full: bool,
    /// The first read from this operation on gives other bytes than are there.
    pub misread_at: Option<(u64, Misread)>,
    /// A bug to have.
    pub bug: Option<Bug>,
}

/// How a read goes wrong without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misread {
    /// One bit is not what was written.
    Flipped,
    /// A sector is that of another place.
    Elsewhere,
    /// A sector is all zeros.
    Zeros,
}

/// A disk operation.
#[derive(Debug)]
pub(crate) enum Operation {
    Open {
        path: PathBuf,
        create: bool,
    },
    Write {
        file: FileId,
        position: usize,
        buffers: Vec<Bytes>,
        /// What the buffers held when they were handed over.
        checksum: u32,
        /// A flush follows.
        flush: bool,
    },
    Flush {
        file: FileId,
        before: u64,
    },
    SetLength {
        file: FileId,
        len: usize,
    },
    Extend {
        file: FileId,
        len: usize,
    },
    Read {
        file: FileId,
        position: usize,
        len: usize,
    },
    FlushDirectory(PathBuf),
    MakeDirectory(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// What an operation gave.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Nothing,
    File(FileId),
    Bytes(Bytes),
}

type Landing = Rc<RefCell<(Option<io::Result<Given>>, Option<Waker>)>>;
type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A machine: clones are the same one.
#[derive(Clone)]
pub struct World {
    inner: Rc<Inner>,
}

struct Inner {
    random: RefCell<Random>,
    faults: RefCell<Faults>,
    disk: RefCell<Disk>,
    names: RefCell<Names>,
    tasks: RefCell<BTreeMap<u64, Option<Task>>>,
    next_task: Cell<u64>,
    ready: Arc<Mutex<Vec<u64>>>,
    flying: RefCell<Vec<(Operation, Landing)>>,
    timers: RefCell<Vec<(u64, Waker)>>,
    now: Cell<u64>,
    operations: Cell<u64>,
    steps: Cell<u64>,
    trace: Cell<u64>,
    /// How far the wall clock is ahead of the machine's own, in ms since 1970.
    wall_ms: Cell<i64>,
    free_bytes: Cell<u64>,
    misreads: Cell<u64>,
    last_operation: Cell<&'static str>,
    /// Operations on the disk are shown as they end.
    told: Cell<bool>,
}

thread_local! {
    static CURRENT: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// The machine that runs on this thread.
pub(crate) fn current() -> World {
    let world = CURRENT.with(|current| current.borrow().clone());
    world.expect("a simulated machine runs on this thread")
}

/// A handle to the machine, as tasks have it.
#[derive(Clone, Debug, Default)]
pub struct Reactor;

impl Reactor {
    /// Runs a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        spawn(task);
    }

    /// Runs a task; here all have the same share.
    pub fn spawn_background(&self, task: impl Future<Output = ()> + 'static) {
        spawn(task);
    }
}

/// Runs a task.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    current().spawn(task);
}

/// Lets others run.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct TaskWaker {
    task: u64,
    ready: Arc<Mutex<Vec<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&self.task) {
            ready.push(self.task);
        }
    }
}

impl World {
    /// A machine with an empty disk, on this thread from now on.
    pub fn new(seed: u64) -> Self {
        let inner = Inner {
            random: RefCell::new(Random::new(seed)),
            faults: RefCell::default(),
            disk: RefCell::default(),
            names: RefCell::default(),
            tasks: RefCell::default(),
            next_task: Cell::new(0),
            ready: Arc::default(),
            flying: RefCell::default(),
            timers: RefCell::default(),
            now: Cell::new(0),
            operations: Cell::new(0),
            steps: Cell::new(0),
            trace: Cell::new(0xcbf2_9ce4_8422_2325),
            wall_ms: Cell::new(WALL_MS),
            free_bytes: Cell::new(u64::MAX),
            misreads: Cell::new(0),
            last_operation: Cell::new("nothing"),
            told: Cell::new(false),
        };
        let world = Self {
            inner: Rc::new(inner),
        };
        CURRENT.with(|current| *current.borrow_mut() = Some(world.clone()));
        world
    }

    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.inner.faults.replace(faults);
    }

    /// Shows every disk operation as it ends.
    pub fn tell(&self) {
        self.inner.told.set(true);
    }

    /// Disk operations that have ended.
    pub fn operations(&self) -> u64 {
        self.inner.operations.get()
    }

    /// A digest of all that has happened.
    pub fn trace(&self) -> u64 {
        self.inner.trace.get()
    }

    /// A number below `limit`.
    pub fn below(&self, limit: u64) -> u64 {
        self.inner.random.borrow_mut().below(limit)
    }

    /// True once in so many times.
    pub fn one_in(&self, times: u64) -> bool {
        self.inner.random.borrow_mut().one_in(times)
    }

    /// Nanoseconds since the machine was made.
    pub fn now(&self) -> u64 {
        self.inner.now.get()
    }

    /// Milliseconds since 1970, by the wall clock.
    pub fn wall_ms(&self) -> i64 {
        let passed = i64::try_from(self.now() / 1_000_000).unwrap_or(i64::MAX);
        self.inner.wall_ms.get().saturating_add(passed)
    }

    /// Sets the wall clock forward.
    pub fn set_wall_clock_forward(&self, ms: i64) {
        self.inner.wall_ms.set(self.inner.wall_ms.get() + ms);
    }

    /// Bytes that are free on the disk, as far as one asks: writes find room nevertheless.
    pub fn free_bytes(&self) -> u64 {
        self.inner.free_bytes.get()
    }

    /// From now on so many are.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.inner.free_bytes.set(bytes);
    }

    /// Reads that gave other bytes than were there.
    pub fn misreads(&self) -> u64 {
        self.inner.misreads.get()
    }

    /// The next read goes wrong.
    pub fn misread_next(&self, how: Misread) {
        self.inner.faults.borrow_mut().misread_at = Some((0, how));
    }

    /// Reads go right from now on.
    pub fn end_misread(&self) {
        self.inner.faults.borrow_mut().misread_at = None;
    }

    /// What kind of operation ended last.
    pub fn last_operation(&self) -> &'static str {
        self.inner.last_operation.get()
    }

    pub(crate) fn bug(&self, bug: Bug) -> bool {
        self.inner.faults.borrow().bug == Some(bug)
    }

    pub(crate) fn disk(&self) -> std::cell::RefMut<'_, Disk> {
        self.inner.disk.borrow_mut()
    }

    pub(crate) fn names(&self) -> std::cell::RefMut<'_, Names> {
        self.inner.names.borrow_mut()
    }

    /// Takes something into the digest.
    pub fn note(&self, what: u64) {
        let trace = (self.inner.trace.get() ^ what).wrapping_mul(0x0000_0100_0000_01b3);
        self.inner.trace.set(trace.rotate_left(5));
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let number = self.inner.next_task.get();
        self.inner.next_task.set(number + 1);
        let task: Task = Box::pin(task);
        self.inner.tasks.borrow_mut().insert(number, Some(task));
        self.lock_ready().push(number);
    }

    fn lock_ready(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        let ready = &self.inner.ready;
        ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake_at(&self, at: u64, waker: Waker) {
        self.inner.timers.borrow_mut().push((at, waker));
    }

    /// Hands an operation to the disk.
    pub(crate) async fn submit(&self, operation: Operation) -> io::Result<Given> {
        let landing = Landing::default();
        let flying = (operation, landing.clone());
        self.inner.flying.borrow_mut().push(flying);
        poll_fn(|context| {
            let mut landing = landing.borrow_mut();
            match landing.0.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    landing.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Runs until `main` has ended or the power is cut.
    ///
    /// # Errors
    /// The power cut. The machine is then to be [cut off](Self::power_cut).
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Result<T, PowerCut> {
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        self.spawn(async move {
            let value = main.await;
            place.replace(Some(value));
        });
        loop {
            if self.is_cut() {
                return Err(PowerCut);
            }
            if let Some(value) = result.take() {
                return Ok(value);
            }
            self.step()?;
        }
    }

    /// Runs what does not go through tasks, such as recovery.
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn run_blocking<T>(&self, work: impl FnOnce() -> T) -> Result<T, PowerCut> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(value) => Ok(value),
            Err(payload) if payload.is::<PowerCut>() => Err(PowerCut),
            Err(payload) => resume_unwind(payload),
        }
    }

    /// The machine is off: tasks are gone, and of what was not flushed only so much is left.
    pub fn power_cut(&self, survival: Survival) {
        let inner = &self.inner;
        // Not while anything is borrowed: tasks drop what they own.
        let tasks = std::mem::take(&mut *inner.tasks.borrow_mut());
        drop(tasks);
        inner.timers.borrow_mut().clear();
        self.lock_ready().clear();
        let flying = std::mem::take(&mut *inner.flying.borrow_mut());
        for (operation, _) in flying {
            match operation {
                Operation::Write {
                    file,
                    mut position,
                    buffers,
                    ..
                } => {
                    for bytes in buffers {
                        let len = bytes.len();
                        self.disk().write_in_part(file, position, bytes);
                        position += len;
                    }
                }
                other if self.one_in(2) => drop(self.apply(&other)),
                _ => {}
            }
        }
        let mut random = inner.random.borrow_mut();
        self.disk().power_cut(survival, &mut random);
        self.names().power_cut(survival, &mut random);
        drop(random);
        inner.faults.borrow_mut().power_cut_at = None;
        inner.faults.borrow_mut().fail_at = None;
        inner.faults.borrow_mut().misread_at = None;
        inner.free_bytes.set(u64::MAX);
    }

    fn is_cut(&self) -> bool {
        let cut = self.inner.faults.borrow().power_cut_at;
        cut.is_some_and(|at| self.operations() >= at)
    }

    /// One thing happens.
    fn step(&self) -> Result<(), PowerCut> {
        let inner = &self.inner;
        inner.steps.set(inner.steps.get() + 1);
        assert!(inner.steps.get() < STEPS_MAX, "the machine never rests");
        let passed = self.below(STEP_NANOS_MAX);
        inner.now.set(inner.now.get() + passed);
        self.fire_timers();
        let (ready, flying) = (self.lock_ready().len(), inner.flying.borrow().len());
        if ready > 0 && (flying == 0 || !self.one_in(4)) {
            let chosen = self.below(ready as u64) as usize;
            let task = self.lock_ready().swap_remove(chosen);
            return self.poll(task);
        }
        if flying > 0 {
            let chosen = self.below(flying as u64) as usize;
            let (operation, landing) = inner.flying.borrow_mut().swap_remove(chosen);
            self.land(operation, &landing);
            return Ok(());
        }
        let next = inner.timers.borrow().iter().map(|(at, _)| *at).min();
        let next = next.expect("something is ready, in flight, or waits for its time");
        inner.now.set(inner.now.get().max(next));
        Ok(())
    }

    fn fire_timers(&self) {
        let now = self.now();
        let mut timers = self.inner.timers.borrow_mut();
        let due: Vec<_> = timers.extract_if(.., |(at, _)| *at <= now).collect();
        drop(timers);
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn poll(&self, number: u64) -> Result<(), PowerCut> {
        let taken = self
            .inner
            .tasks
            .borrow_mut()
            .get_mut(&number)
            .map(Option::take);
        let Some(Some(mut task)) = taken else {
            return Ok(());
        };
        self.note(number);
        let ready = self.inner.ready.clone();
        let waker = Waker::from(Arc::new(TaskWaker {
            task: number,
            ready,
        }));
        let polled = self.run_blocking(|| task.as_mut().poll(&mut Context::from_waker(&waker)));
        let mut tasks = self.inner.tasks.borrow_mut();
        if polled?.is_ready() {
            tasks.remove(&number);
        } else if let Some(place) = tasks.get_mut(&number) {
            *place = Some(task);
        }
        Ok(())
    }

    fn land(&self, operation: Operation, landing: &Landing) {
        self.count(&operation);
        let failure = self.failure(&operation);
        let result = match (failure, operation) {
            (Some(error), operation) => {
                let writes = matches!(operation, Operation::Write { .. } | Operation::Flush { .. });
                self.apply_failed(operation);
                let ignored = self.bug(Bug::AcknowledgeAfterError) && writes;
                if ignored {
                    Ok(Given::Nothing)
                } else {
                    Err(error)
                }
            }
            (None, operation) => {
                let result = self.apply(&operation);
                if let Operation::Write {
                    file, flush: true, ..
                } = operation
                {
                    let before = self.disk().flush_begins(file);
                    let flush = Operation::Flush { file, before };
                    self.inner
                        .flying
                        .borrow_mut()
                        .push((flush, landing.clone()));
                    return;
                }
                result
            }
        };
        let mut landing = landing.borrow_mut();
        landing.0 = Some(result);
        if let Some(waker) = landing.1.take() {
            waker.wake();
        }
    }

    fn count(&self, operation: &Operation) {
        self.inner.operations.set(self.operations() + 1);
        let ((kind, name), a, b) = operation.digest();
        self.inner.last_operation.set(name);
        self.note(kind);
        self.note(a);
        self.note(b);
        if self.inner.told.get() {
            eprintln!(
                "{:>6} {:>12} ns {operation:?}",
                self.operations(),
                self.now()
            );
        }
    }

    fn failure(&self, operation: &Operation) -> Option<io::Error> {
        let faults = self.inner.faults.borrow();
        if faults.fail_at.is_none_or(|at| at != self.operations()) {
            return None;
        }
        let takes_room = matches!(
            operation,
            Operation::Write { .. } | Operation::Extend { .. } | Operation::Open { .. }
        );
        let code = if faults.full && takes_room {
            libc::ENOSPC
        } else {
            libc::EIO
        };
        Some(io::Error::from_raw_os_error(code))
    }

    fn apply_failed(&self, operation: Operation) {
        match operation {
            Operation::Write {
                file,
                mut position,
                buffers,
                ..
            } => {
                for bytes in buffers {
                    let len = bytes.len();
                    self.disk().write_in_part(file, position, bytes);
                    position += len;
                }
            }
            Operation::Flush { file, before } => self.disk().flush_failed(file, before),
            _ => {}
        }
    }

    fn apply(&self, operation: &Operation) -> io::Result<Given> {
        match operation {
            Operation::Open { path, create } => self.open(path, *create).map(Given::File),
            Operation::Write {
                file,
                position,
                buffers,
                checksum,
                ..
            } => {
                assert_eq!(
                    *checksum,
                    crate::file::checksum(buffers),
                    "a buffer changed during its write (invariant 30)"
                );
                let mut position = *position;
                for bytes in buffers {
                    self.disk()
                        .write(*file, position, bytes.clone(), self.wall_nanos());
                    position += bytes.len();
                }
                Ok(Given::Nothing)
            }
            Operation::Flush { file, before } => {
                if !self.bug(Bug::AcknowledgeBeforeFlush) {
                    self.disk().flushed(*file, *before);
                }
                Ok(Given::Nothing)
            }
            Operation::SetLength { file, len } => {
                if self.bug(Bug::TrustFileLength) && self.disk().is_extended(*file) {
                    return Ok(Given::Nothing);
                }
                self.disk().set_len(*file, *len, self.wall_nanos());
                Ok(Given::Nothing)
            }
            Operation::Extend { file, len } => {
                self.disk().extend(*file, *len, self.wall_nanos());
                Ok(Given::Nothing)
            }
            Operation::Read {
                file,
                position,
                len,
            } => {
                let bytes = self.disk().read(*file, *position, *len).to_vec();
                let bytes = self.misread(*position, bytes);
                Ok(Given::Bytes(bytes.into()))
            }
            Operation::FlushDirectory(path) => {
                if self.bug(Bug::ForgetDirectoryFlush) {
                    return Ok(Given::Nothing);
                }
                self.names().flush(path).map(|()| Given::Nothing)
            }
            Operation::MakeDirectory(path) => {
                let made = self.names().make_directory(path);
                made.map(|()| Given::Nothing)
            }
            Operation::Rename(from, to) => {
                self.rename(from, to)?;
                Ok(Given::Nothing)
            }
            Operation::Remove(path) => self.names().remove(path).map(|()| Given::Nothing),
        }
    }

    /// The bytes that are read, or others when a read is to go wrong.
    fn misread(&self, position: usize, mut bytes: Vec<u8>) -> Vec<u8> {
        let wanted = self.inner.faults.borrow().misread_at;
        let due = wanted.filter(|(at, _)| self.operations() >= *at);
        let Some((_, how)) = due.filter(|_| !bytes.is_empty()) else {
            return bytes;
        };
        let at = self.below(bytes.len() as u64) as usize;
        let begins = (position + at) / SECTOR * SECTOR;
        let ends = begins + SECTOR - position;
        let sector = begins.saturating_sub(position)..ends.min(bytes.len());
        match how {
            Misread::Flipped => bytes[at] ^= 1 << self.below(8),
            Misread::Zeros => bytes[sector].fill(0),
            Misread::Elsewhere => {
                let files = self.names().files();
                let (disk, mut random) = (self.disk(), self.inner.random.borrow_mut());
                disk.read_elsewhere(&files, &mut bytes[sector], &mut random);
            }
        }
        self.inner.misreads.set(self.misreads() + 1);
        if self.inner.told.get() {
            eprintln!(
                "       what was read went wrong: {how:?} at {}",
                position + at
            );
        }
        self.inner.faults.borrow_mut().misread_at = None;
        bytes
    }

    pub(crate) fn wall_nanos(&self) -> u64 {
        let set = self.inner.wall_ms.get().unsigned_abs() * 1_000_000;
        set + self.now()
    }

    /// Opens a file, or makes it.
    pub(crate) fn open(&self, path: &std::path::Path, create: bool) -> io::Result<FileId> {
        let found = self.names().file(path);
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
                let file = self.disk().create();
                self.names().set(path, file)?;
                Ok(file)
            }
            found => found,
        }
    }

    pub(crate) fn rename(&self, from: &std::path::Path, to: &std::path::Path) -> io::Result<()> {
        let old = self.names().file(from);
        let new = self.names().file(to);
        if let (Ok(old), Ok(new)) = (old, new)
            && self.bug(Bug::NoRename)
        {
            let bytes = Bytes::copy_from_slice(self.disk().read(old, 0, usize::MAX));
            self.disk().set_len(new, bytes.len(), self.wall_nanos());
            self.disk().write(new, 0, bytes, self.wall_nanos());
            return self.names().remove(from);
        }
        self.names().rename(from, to)
    }

    /// An operation of a thread that waits for it: at once.
    pub(crate) fn blocking(&self, operation: Operation) -> io::Result<Given> {
        self.count(&operation);
        let failure = self.failure(&operation);
        if self.is_cut() {
            match operation {
                Operation::Flush { .. } | Operation::Read { .. } => {}
                other if self.one_in(2) => drop(self.apply(&other)),
                _ => {}
            }
            resume_unwind(Box::new(PowerCut));
        }
        match failure {
            Some(error) => {
                self.apply_failed(operation);
                Err(error)
            }
            None => self.apply(&operation),
        }
    }
}

impl Operation {
    fn digest(&self) -> ((u64, &'static str), u64, u64) {
        let name = |path: &PathBuf| u64::from(crc32c::crc32c(path.as_os_str().as_encoded_bytes()));
        match self {
            Self::Open { path, .. } => ((1, "open"), name(path), 0),
            Self::Write {
                file,
                position,
                checksum,
                ..
            } => (
                (2, "write"),
                *file as u64 ^ (*position as u64) << 20,
                u64::from(*checksum),
            ),
            Self::Flush { file, before } => ((3, "flush"), *file as u64, *before),
            Self::SetLength { file, len } => ((4, "set length"), *file as u64, *len as u64),
            Self::Extend { file, len } => ((5, "allocate"), *file as u64, *len as u64),
            Self::Read {
                file,
                position,
                len,
            } => (
                (6, "read"),
                *file as u64 ^ (*position as u64) << 20,
                *len as u64,
            ),
            Self::FlushDirectory(path) => ((7, "flush directory"), name(path), 0),
            Self::MakeDirectory(path) => ((8, "make directory"), name(path), 0),
            Self::Rename(from, to) => ((9, "rename"), name(from), name(to)),
            Self::Remove(path) => ((10, "remove"), name(path), 0),
        }
    }
}
