//! The `corelog` command. Knows only how to hand its arguments to the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    corelog::command::run(corelog::command::parse(), corelog::start::start)
}
