//! The storage's promises, kept with real files in a temporary directory.

mod crash;
mod damage;
mod harness;
mod thin;
