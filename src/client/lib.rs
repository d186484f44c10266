//! A Kafka client on tokio. Judges the broker as a stranger: knows nothing of its insides.
#![forbid(unsafe_code)]
