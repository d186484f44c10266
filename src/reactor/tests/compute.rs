//! What work on other threads promises the executor that asks for it. Knows nothing of how many there are.

mod support;

use std::sync::mpsc;
use std::time::Duration;

use reactor::compute;
use reactor::local;
use support::{begin, run, settings};

#[test]
fn an_executor_goes_on_while_work_is_done_elsewhere() {
    run(|reactor| async move {
        let (tell, told) = mpsc::channel();
        reactor::spawn(async move {
            reactor::yield_now().await;
            tell.send("from a task").expect("the work listens");
        });
        // Where it to run here, that task would have no turn before it ends.
        let wait = move || told.recv_timeout(Duration::from_secs(20));
        let heard = compute::elsewhere(&reactor, wait).await;
        assert_eq!(heard, Ok("from a task"));
    });
}

#[test]
fn everyone_who_asks_gets_the_answer_to_what_was_asked() {
    run(|reactor| async move {
        let mut answers = Vec::new();
        for asked in 0..200_u64 {
            let (sender, receiver) = local::oneshot();
            let asking = reactor.clone();
            reactor::spawn(async move {
                let answer = compute::elsewhere(&asking, move || asked * asked).await;
                assert!(sender.send(answer).is_ok(), "the test waits");
            });
            answers.push(receiver);
        }
        for (asked, answer) in (0..).zip(answers) {
            assert_eq!(answer.await, Some(asked * asked));
        }
    });
}

#[test]
fn work_of_an_executor_with_one_core_is_done_wherever_the_process_may_run() {
    let mut pinned = settings();
    pinned.core = Some(0);
    let executor = begin(pinned, |reactor| async move {
        let allowed = |pid| {
            let cores = rustix::thread::sched_getaffinity(pid).expect("known");
            cores.count()
        };
        assert_eq!(allowed(None), 1, "this thread has one core");
        let process = allowed(Some(rustix::process::getpid()));
        let work = compute::elsewhere(&reactor, move || allowed(None)).await;
        assert_eq!(work, process);
    });
    executor.join().expect("the executor runs to completion");
}
