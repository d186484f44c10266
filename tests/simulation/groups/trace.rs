//! What has happened, as one number: the same story has the same. Knows nothing of what it is told.

use std::fmt::{self, Write};

/// FNV-1a.
const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// A story as it is told.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    aloud: bool,
}

impl Trace {
    /// The beginning of a story, which is printed if it is told aloud.
    pub fn new(aloud: bool) -> Self {
        Self { hash: START, aloud }
    }

    /// What happens next.
    pub fn tell(&mut self, at_ms: u64, what: fmt::Arguments<'_>) {
        if self.aloud {
            println!("{at_ms:>7} {what}");
        }
        writeln!(self, "{at_ms} {what}").expect("a number takes everything");
    }

    /// The number so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}
