//! The broker with a counting allocator: on SIGUSR1 it says how much was allocated so far. Knows
//! nothing of what is measured; apart from the allocator it is the `corelog` command.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::process::ExitCode;

use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let mut asked = Signals::new([SIGUSR1]).expect("a signal handler");
    std::thread::spawn(move || {
        for _ in asked.forever() {
            let stats = ALLOCATOR.stats();
            let times = stats.allocations + stats.reallocations;
            println!("{times} {}", stats.bytes_allocated);
        }
    });
    corelog::command::run(corelog::command::parse(), corelog::start::start)
}
