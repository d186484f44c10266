//! The load generator's command. Thin until the client library stands: says so and fails.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    eprintln!("loadgen: no workload can be run yet; this version of corelog ships the broker only");
    std::process::ExitCode::FAILURE
}
