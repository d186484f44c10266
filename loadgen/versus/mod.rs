//! corelog and Apache Kafka in turn on one machine: who is compared, at which guarantee, under which load,
//! and what the ratios are. Knows nothing of the command line.

pub mod trial;

pub mod table;

pub mod sections;

pub mod contender;

pub mod jars;

mod child;
