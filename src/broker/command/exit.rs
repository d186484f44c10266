//! How a command ends: the exit codes that scripts build on, and failures that say what to do next.
//! Knows nothing of what commands do.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// How a command ended. The numbers are part of the command line: they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// All was done.
    Done = 0,
    /// Something failed that has no number of its own.
    Failed = 1,
    /// The command line, a setting or an input is wrong.
    Usage = 2,
    /// No broker could be reached, or none answered.
    Connect = 3,
    /// What was asked for is not there, or is there already.
    NotFoundOrConflict = 4,
    /// The broker does not let this client do it.
    Auth = 5,
    /// A check did not pass, or a bound was not held.
    Check = 6,
    /// Something was lost or damaged.
    Corrupt = 7,
    /// Some of it was done, and some failed.
    Partial = 8,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(ending as u8)
    }
}

impl Ending {
    /// Of many things done one by one: the common failure if all failed, else that some did.
    pub fn of_many(total: usize, failures: &[Failure]) -> Self {
        match failures {
            [] => Self::Done,
            failures if failures.len() < total => Self::Partial,
            [first, rest @ ..] if rest.iter().all(|it| it.ending == first.ending) => first.ending,
            _ => Self::Failed,
        }
    }
}

/// Why a command could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub ending: Ending,
    /// What is wrong, in a sentence without its full stop.
    pub what: String,
    /// What to do next, in a sentence; empty when `what` says it.
    pub advice: String,
}

impl Failure {
    /// A failure with its remedy.
    pub fn new(ending: Ending, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            ending,
            what: what.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.what)?;
        match self.advice.as_str() {
            "" => Ok(()),
            advice => write!(out, "\n  {advice}"),
        }
    }
}

/// Of writing what was found: a reader that has gone away, such as `head`, is no fault of ours.
///
/// # Errors
/// Any other error of standard output.
pub fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Ending::Failed,
            format!("cannot write to standard output: {error}"),
            "See to the disk or the program that reads it.",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_end_as_their_common_failure_or_in_part() {
        let failure = |ending| Failure::new(ending, "", "");
        let gone = || failure(Ending::NotFoundOrConflict);
        assert_eq!(Ending::of_many(2, &[]), Ending::Done);
        assert_eq!(Ending::of_many(2, &[gone()]), Ending::Partial);
        let same = Ending::of_many(2, &[gone(), gone()]);
        assert_eq!(same, Ending::NotFoundOrConflict);
        let mixed = Ending::of_many(2, &[gone(), failure(Ending::Auth)]);
        assert_eq!(mixed, Ending::Failed);
    }
}
