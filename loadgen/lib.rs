//! A load generator for any Kafka-compatible broker. Judges it as a stranger, through our client
//! library.
#![forbid(unsafe_code)]

pub mod command;

pub mod workload;

pub mod schedule;

pub mod envelope;

pub mod engine;

pub mod measure;

pub mod search;

pub mod versus;

pub mod verify;

pub mod results;

pub mod compare;

pub mod report;

pub mod view;

pub mod machine;

pub mod null_broker;

pub mod proxy;
