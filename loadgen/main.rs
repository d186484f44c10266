//! The load generator's command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    loadgen::command::main()
}
