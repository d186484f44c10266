//! Promises of groups. Knows no log: appends are committed, or not, by hand.

mod consumers;
mod harness;
mod membership;
mod migration;
mod offsets;
mod random;

use super::partition_of;

#[test]
fn a_group_s_partition_is_kafka_s() {
    // As Java hashes them; the third to the least integer, the last in two units.
    for (group, expected) in [
        ("", 0),
        ("my-group", 12),
        ("polygenelubricants", 0),
        ("caf\u{e9}", 21),
        ("a\u{1f600}", 16),
    ] {
        assert_eq!(partition_of(group, 50), Some(expected), "{group}");
    }
    assert_eq!(partition_of("g", 0), None);
}
