//! The storage's promises, kept with real files in a temporary directory.

mod bypass;
mod copying;
mod crash;
mod damage;
pub(super) mod harness;
mod retention;
mod serving;
mod thin;
