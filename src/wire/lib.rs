//! Bytes to typed Kafka messages and back. Knows nothing of sockets, files or partitions.
#![forbid(unsafe_code)]
