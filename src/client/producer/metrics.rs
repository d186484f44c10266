//! What a producer counts. Knows nothing of rates: those who read twice can tell them.

/// Counters since the producer was made, and the state of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Records taken.
    pub records: u64,
    /// Bytes of them, uncompressed, at most.
    pub record_bytes: u64,
    /// Records that brokers acknowledged (with acks=0: that were sent).
    pub records_acknowledged: u64,
    /// Records given up.
    pub record_errors: u64,
    /// Batches sent, retries included.
    pub batches: u64,
    /// Bytes of them, compressed.
    pub batch_bytes: u64,
    /// Requests sent.
    pub requests: u64,
    /// Batches that had to be sent again.
    pub retries: u64,
    /// Batches that were too large and went on in parts.
    pub splits: u64,
    /// How often sequences began anew.
    pub epoch_bumps: u64,
    /// Requests without an answer now.
    pub requests_in_flight: u64,
    /// Bytes of `buffer.memory` in use now.
    pub buffer_bytes: u64,
}
