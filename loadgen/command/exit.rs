//! How the command fails: words for people that say what to do next, and exit codes for scripts.

use std::process::ExitCode;

use client::Error;
use wire::ErrorCode;

use crate::workload::fault::Faults;

/// A command that could not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    words: String,
}

/// The bound was not held, or the run is invalid.
pub const NOT_HELD: u8 = 6;
/// Verification found faults.
pub const FAULTS: u8 = 7;
/// Something of what was asked was done.
pub const PARTIAL: u8 = 8;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const CONNECT: u8 = 3;
const CONFLICT: u8 = 4;

impl Failure {
    /// Wrong arguments.
    pub fn usage(words: impl Into<String>) -> Self {
        Self {
            code: USAGE,
            words: words.into(),
        }
    }

    /// What is not there.
    pub fn not_found(words: impl Into<String>) -> Self {
        Self {
            code: CONFLICT,
            words: words.into(),
        }
    }

    /// What the machine refused.
    pub fn failed(words: impl Into<String>) -> Self {
        Self {
            code: FAILED,
            words: words.into(),
        }
    }

    /// Says what is wrong.
    pub fn tell(&self) -> ExitCode {
        eprintln!("loadgen: {}", self.words);
        ExitCode::from(self.code)
    }
}

impl From<Faults> for Failure {
    fn from(faults: Faults) -> Self {
        let count = faults.0.len();
        let settings = if count == 1 { "setting" } else { "settings" };
        Self::usage(format!("{count} wrong {settings}:\n{faults}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Connect { .. } => CONNECT,
            Error::Config(_) => USAGE,
            _ => match error.code() {
                Some(ErrorCode::TopicAlreadyExists | ErrorCode::UnknownTopicOrPartition) => {
                    CONFLICT
                }
                _ => FAILED,
            },
        };
        let words = match error {
            // Its advice is for who writes calls.
            Error::Invalid { reason } => reason,
            error => format!("{error}\n{}", error.advice()),
        };
        Self { code, words }
    }
}
