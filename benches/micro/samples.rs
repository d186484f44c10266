//! Record batches like those that applications send. Knows nothing of what is measured with them.

use bytes::Bytes;
use wire::compression::Compression;
use wire::records::BatchBuilder;

/// Bytes of one record's value.
const VALUE_BYTES: usize = 1 << 10;
/// The time of every record.
pub const WALL_MS: i64 = 1_700_000_000_000;
/// What values are made of: text that compresses about as far as logs and JSON do.
const WORDS: [&str; 16] = [
    "order",
    "\"id\":",
    "customer",
    "7f3a",
    "2026-01-31T12:00:00Z",
    "amount",
    "19.90",
    "EUR",
    "status",
    "shipped",
    "carrier",
    "null",
    "true",
    "9c41e0",
    "line",
    "{},",
];

/// A batch with about `bytes` bytes of values, in records of 1 KiB or one shorter record.
pub fn batch(compression: Compression, bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    let text = text(bytes);
    for value in text.chunks(VALUE_BYTES) {
        builder.push(WALL_MS, None, Some(value), &[]);
    }
    builder.finish().expect("a batch of a megabyte or less")
}

/// Words in an order that does not repeat, the same in each run.
fn text(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 32);
    let mut state = 1_u64;
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let word = (state >> 60) as usize;
        text.extend_from_slice(WORDS[word].as_bytes());
        text.push(b' ');
    }
    text.truncate(bytes);
    text
}
