//! One partition: who may write to it, what is committed, who waits. Knows no bytes and no files.

pub mod leader;

pub mod producers;

pub mod fetch_session;
