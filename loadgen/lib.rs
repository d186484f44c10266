//! A load generator for any Kafka-compatible broker. Judges it as a stranger, through our client
//! library.
#![forbid(unsafe_code)]

pub mod workload;

pub mod schedule;

pub mod envelope;

pub mod measure;

pub mod results;

pub mod search;

pub mod verify;

pub mod compare;

pub mod report;

pub mod engine;

pub mod machine;
