//! The terminal: whether there is one, what may be written to it, and Ctrl-C. Everything that is not a result
//! goes to standard error.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::view::Paint;

/// Styles for standard output, if it is a terminal and nobody objects (<https://no-color.org>).
pub fn paint() -> Paint {
    Paint {
        is_on: std::io::stdout().is_terminal() && colours_are_welcome(),
    }
}

fn colours_are_welcome() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints a result.
pub fn print(text: &str) {
    // A reader that has gone away, such as `head`, is no fault of ours.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Lines on a terminal that are written over again and again; nothing where there is no terminal.
pub struct Screen {
    is_on: bool,
    height: usize,
}

impl Screen {
    /// The screen, unless all is to be quiet.
    pub fn new(quiet: bool) -> Self {
        Self {
            is_on: !quiet && std::io::stderr().is_terminal(),
            height: 0,
        }
    }

    /// Styles for the screen.
    pub fn paint(&self) -> Paint {
        Paint {
            is_on: self.is_on && colours_are_welcome(),
        }
    }

    /// Writes lines over those before.
    pub fn show(&mut self, lines: &[String]) {
        if !self.is_on {
            return;
        }
        let mut text = String::new();
        if self.height > 0 {
            text.push_str(&format!("\x1b[{}A\r", self.height));
        }
        text.push_str("\x1b[J");
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.height = lines.len();
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Takes the lines away.
    pub fn clear(&mut self) {
        self.show(&[]);
    }
}

/// A flag that Ctrl-C and a termination signal set; the second Ctrl-C ends the process.
pub fn interruption() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let once_set = signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone());
        let set = signal_hook::flag::register(signal, flag.clone());
        assert!(
            once_set.is_ok() && set.is_ok(),
            "these signals can be caught"
        );
    }
    flag
}
