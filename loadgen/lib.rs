//! A load generator for any Kafka-compatible broker. Judges it as a stranger, through our client
//! library.
#![forbid(unsafe_code)]

pub mod workload;

pub mod envelope;
