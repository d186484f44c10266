//! Late turns: their count, and of each one where its time went. Knows nothing of what tasks do.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::tasks::{self, Poll};

/// A turn of the tasks that takes longer than this, or a sleep that ends so much too late, is late.
const LATE: Duration = Duration::from_millis(100);
/// The scheduler is asked this often at most: a question costs two microseconds.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// How many turns of an executor were late.
#[derive(Debug, Default)]
pub struct LateTurns {
    own: AtomicU64,
    starved: AtomicU64,
}

impl LateTurns {
    /// Those that took too long by themselves: a task ran or the thread was blocked.
    pub fn own(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }

    /// Those that would have been in time if the thread had been given a core whenever it was ready to
    /// run: the machine has too much else to do.
    pub fn starved(&self) -> u64 {
        self.starved.load(Ordering::Relaxed)
    }
}

/// Watches the turns of one executor, on whose thread it is made and used.
pub(crate) struct Watch {
    counts: Arc<LateTurns>,
    scheduler: Option<File>,
    asked: Instant,
    then: Scheduled,
}

impl Watch {
    pub(crate) fn new(counts: Arc<LateTurns>, now: Instant) -> Self {
        let scheduler = File::open("/proc/thread-self/schedstat").ok();
        let then = scheduler.as_ref().and_then(Scheduled::of);
        Self {
            counts,
            scheduler,
            asked: now,
            then: then.unwrap_or_default(),
        }
    }

    /// A turn has ended.
    pub(crate) fn turn(&mut self, turn: &Turn, now: Instant) {
        let took = now.duration_since(turn.begun);
        let delay = Delay::Turn {
            took,
            submitting: turn.submitted.duration_since(turn.begun),
            longest: tasks::take_longest_poll(),
        };
        self.judge(delay, took, now);
    }

    /// A sleep has ended so much later than it was to.
    pub(crate) fn sleep(&mut self, late: Duration, now: Instant) {
        self.judge(Delay::Sleep { late }, late, now);
    }

    fn judge(&mut self, delay: Delay, late: Duration, now: Instant) {
        if late <= LATE && now.duration_since(self.asked) < ASK_EVERY {
            return;
        }
        let scheduled = self.scheduler.as_ref().and_then(Scheduled::of);
        let scheduled = scheduled.unwrap_or_default();
        let then = std::mem::replace(&mut self.then, scheduled);
        let asked = std::mem::replace(&mut self.asked, now);
        if late > LATE {
            let queued = scheduled.queued.saturating_sub(then.queued);
            let count = if is_starved(late, queued) {
                &self.counts.starved
            } else {
                &self.counts.own
            };
            count.fetch_add(1, Ordering::Relaxed);
            let late = LateTurn {
                delay,
                of: now.duration_since(asked),
                ran: scheduled.ran.saturating_sub(then.ran),
                queued,
            };
            let thread = std::thread::current();
            eprintln!(
                "warning: {}: {late}",
                thread.name().unwrap_or("an executor")
            );
        }
    }
}

/// Whether a turn that was this late is late only for the time that the thread waited for a core.
fn is_starved(late: Duration, queued: Duration) -> bool {
    late.saturating_sub(queued) <= LATE
}

/// A turn: first what is queued is submitted, then every task that is ready runs.
pub(crate) struct Turn {
    pub(crate) begun: Instant,
    pub(crate) submitted: Instant,
}

impl Turn {
    /// One that has nothing to submit.
    pub(crate) fn at(now: Instant) -> Self {
        Self {
            begun: now,
            submitted: now,
        }
    }
}

/// What was late.
enum Delay {
    Turn {
        took: Duration,
        submitting: Duration,
        longest: Poll,
    },
    Sleep {
        late: Duration,
    },
}

/// One late turn, and what the scheduler says of the time around it.
struct LateTurn {
    delay: Delay,
    /// The time of which the scheduler speaks: from up to [`ASK_EVERY`] before, or from a sleep's begin.
    of: Duration,
    ran: Duration,
    queued: Duration,
}

impl fmt::Display for LateTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        match &self.delay {
            Delay::Turn {
                took,
                submitting,
                longest,
            } => write!(
                f,
                "a turn of {:.1} ms, {:.1} of them for submissions and {:.1} in one run of {}",
                ms(*took),
                ms(*submitting),
                ms(longest.took),
                longest.task
            ),
            Delay::Sleep { late } => write!(f, "a sleep that ended {:.1} ms too late", ms(*late)),
        }?;
        write!(
            f,
            "; of {:.1} ms the thread had a core for {:.1}, waited for one for {:.1}, and was blocked \
             or asleep for the rest",
            ms(self.of),
            ms(self.ran),
            ms(self.queued)
        )
    }
}

/// How long a thread has run since it began, and how long it was ready to run but had no core: the
/// first two numbers of its `schedstat` (proc_pid_schedstat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scheduled {
    ran: Duration,
    queued: Duration,
}

impl Scheduled {
    fn of(file: &File) -> Option<Self> {
        let mut text = [0; 64];
        let read = file.read_at(&mut text, 0).ok()?;
        Self::parse(text.get(..read)?)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = str::from_utf8(text).ok()?.split_ascii_whitespace();
        let mut next = || numbers.next()?.parse().ok().map(Duration::from_nanos);
        Some(Self {
            ran: next()?,
            queued: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_s_first_two_numbers_are_read() {
        let scheduled = Scheduled {
            ran: Duration::from_nanos(2_546_201),
            queued: Duration::from_nanos(17),
        };
        assert_eq!(Scheduled::parse(b"2546201 17 3\n"), Some(scheduled));
        assert_eq!(Scheduled::parse(b"2546201"), None);
    }

    #[test]
    fn a_turn_that_would_have_been_in_time_on_a_core_of_its_own_is_starved() {
        let ms = Duration::from_millis;
        assert!(is_starved(ms(139), ms(144)) && is_starved(ms(150), ms(60)));
        assert!(!is_starved(ms(150), ms(20)));
    }

    #[test]
    fn a_late_turn_says_where_its_time_went() {
        let longest = Poll {
            task: "somewhere",
            took: Duration::from_millis(120),
        };
        let late = LateTurn {
            delay: Delay::Turn {
                took: Duration::from_micros(130_500),
                submitting: Duration::from_millis(2),
                longest,
            },
            of: Duration::from_millis(135),
            ran: Duration::from_millis(12),
            queued: Duration::from_millis(3),
        };
        assert_eq!(
            late.to_string(),
            "a turn of 130.5 ms, 2.0 of them for submissions and 120.0 in one run of somewhere; of 135.0 \
             ms the thread had a core for 12.0, waited for one for 3.0, and was blocked or asleep for \
             the rest"
        );
    }

    #[test]
    fn a_task_that_blocks_its_executor_is_counted_once() {
        let settings = crate::Settings {
            name: "blocked".into(),
            core: None,
            ring_entries: 8,
            spin_before_park: None,
        };
        let (tell, told) = std::sync::mpsc::channel();
        let executor = crate::start(settings, move |reactor| async move {
            crate::yield_now().await;
            std::thread::sleep(LATE * 2);
            crate::yield_now().await;
            tell.send(reactor.late_turns()).expect("the test listens");
        });
        executor.expect("starts").join().expect("ends well");
        let count = told.recv().expect("the executor told");
        assert_eq!(count.own(), 1);
    }
}
