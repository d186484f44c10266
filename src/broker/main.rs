//! The `corelog` command. Knows only how to hand its arguments to the library.
#![forbid(unsafe_code)]

fn main() {}
