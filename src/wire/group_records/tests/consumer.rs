//! The same promises for records of the new consumer protocol.

use super::*;

const TOPIC: TopicUuid = *b"0123456789abcdef";

fn consumer(record: ConsumerRecord) -> GroupRecord {
    let group = "g".into();
    GroupRecord::Consumer { group, record }
}

fn member() -> ConsumerRecord {
    ConsumerRecord::Member(
        "m".into(),
        Some(ConsumerValue {
            instance_id: Some("i".into()),
            rack_id: None,
            client_id: "c".into(),
            client_host: "/h".into(),
            topic_names: vec!["a".into(), "bb".into()],
            topic_regex: Some("x.*".into()),
            rebalance_timeout_ms: 300_000,
            server_assignor: None,
            classic: None,
        }),
    )
}

fn classic_member() -> ConsumerRecord {
    let protocols = vec![("range".into(), Bytes::from_static(b"abc"))];
    ConsumerRecord::Member(
        "m".into(),
        Some(ConsumerValue {
            classic: Some(ClassicValue {
                session_timeout_ms: 10_000,
                protocols,
            }),
            ..ConsumerValue::default()
        }),
    )
}

fn current() -> ConsumerRecord {
    ConsumerRecord::Current(
        "m".into(),
        Some(CurrentValue {
            epoch: 7,
            previous_epoch: 6,
            state: MemberState::UnrevokedPartitions,
            assigned: [(TOPIC, [0, 2].into())].into(),
            pending_revocation: Assignment::new(),
        }),
    )
}

fn all() -> Vec<ConsumerRecord> {
    let metadata = |metadata_hash| MetadataValue {
        epoch: 3,
        metadata_hash,
    };
    let target = |timestamp| TargetMetadataValue {
        epoch: 3,
        timestamp,
    };
    let regex = RegularExpressionValue {
        topics: vec!["xa".into()],
        version: 5,
        timestamp: 9,
    };
    vec![
        ConsumerRecord::Metadata(Some(metadata(0))),
        ConsumerRecord::Metadata(Some(metadata(-2))),
        member(),
        classic_member(),
        ConsumerRecord::TargetMetadata(Some(target(0))),
        ConsumerRecord::TargetMetadata(Some(target(1_000))),
        ConsumerRecord::Target("m".into(), Some([(TOPIC, [1].into())].into())),
        current(),
        ConsumerRecord::RegularExpression("x.*".into(), Some(regex)),
        ConsumerRecord::Metadata(None),
        ConsumerRecord::Member("m".into(), None),
        ConsumerRecord::TargetMetadata(None),
        ConsumerRecord::Target("m".into(), None),
        ConsumerRecord::Current("m".into(), None),
        ConsumerRecord::RegularExpression("x.*".into(), None),
    ]
}

#[test]
fn what_was_written_of_consumers_is_read_again() {
    for record in all() {
        let record = consumer(record);
        assert_eq!(again(&record), Some(record));
    }
}

#[test]
fn the_bytes_of_consumers_are_kafka_s() {
    let bytes = |record: ConsumerRecord| {
        let record = consumer(record);
        let value = record.encode_value().unwrap().unwrap();
        (record.encode_key().unwrap(), value)
    };
    let (key, value) = bytes(ConsumerRecord::Metadata(Some(MetadataValue {
        epoch: 3,
        metadata_hash: 258,
    })));
    assert_eq!(key, b"\0\x03\0\x01g"[..]);
    assert_eq!(
        value,
        b"\0\0\0\0\0\x03\x01\0\x08\0\0\0\0\0\0\x01\x02"[..],
        "the hash is a tagged field"
    );
    let (key, value) = bytes(member());
    assert_eq!(key, b"\0\x05\0\x01g\0\x01m"[..]);
    assert_eq!(
        value,
        b"\0\0\x02i\0\x02c\x03/h\x03\x02a\x03bb\x04x.*\0\x04\x93\xe0\0\x01\0\x01\0"[..],
        "that it does not speak the classic protocol is said in a tagged field"
    );
    let (_, value) = bytes(classic_member());
    assert_eq!(
        value,
        b"\0\0\0\0\x01\x01\x01\0\0\0\0\0\0\x01\0\x12\x01\0\0\x27\x10\x02\x06range\x04abc\0\0"[..]
    );
    let (key, value) = bytes(current());
    assert_eq!(key, b"\0\x08\0\x01g\0\x01m"[..]);
    assert_eq!(
        value,
        b"\0\0\0\0\0\x07\0\0\0\x06\x01\x020123456789abcdef\x03\0\0\0\0\0\0\0\x02\0\x01\0"[..]
    );
    let target = ConsumerRecord::Target("m".into(), Some([(TOPIC, [1].into())].into()));
    let (key, value) = bytes(target);
    assert_eq!(key, b"\0\x07\0\x01g\0\x01m"[..]);
    assert_eq!(value, b"\0\0\x020123456789abcdef\x02\0\0\0\x01\0\0"[..]);
}

#[test]
fn tagged_fields_of_later_versions_are_passed_over() {
    // An assignment with the epochs of its partitions (KIP-1251), a group with when it was made.
    let key = consumer(current()).encode_key().unwrap();
    let value = Bytes::from_static(
        b"\0\0\0\0\0\x07\0\0\0\x06\x01\x020123456789abcdef\x03\0\0\0\0\0\0\0\x02\
          \x01\0\x09\x03\0\0\0\x05\0\0\0\x06\x01\0",
    );
    let read = GroupRecord::decode(&key, Some(&value));
    assert_eq!(read, Ok(Some(consumer(current()))));
    let key = consumer(ConsumerRecord::Metadata(None))
        .encode_key()
        .unwrap();
    let value = b"\0\0\0\0\0\x03\x02\0\x08\0\0\0\0\0\0\x01\x02\x01\x08\0\0\0\0\0\0\0\x01";
    let read = GroupRecord::decode(&key, Some(&Bytes::from_static(value)));
    let expected = MetadataValue {
        epoch: 3,
        metadata_hash: 258,
    };
    let expected = consumer(ConsumerRecord::Metadata(Some(expected)));
    assert_eq!(read, Ok(Some(expected)));
}

#[test]
fn a_member_that_says_nothing_of_the_classic_protocol_does_not_speak_it() {
    // As it was written here before there was such a field.
    let key = consumer(member()).encode_key().unwrap();
    let value = b"\0\0\x02i\0\x02c\x03/h\x03\x02a\x03bb\x04x.*\0\x04\x93\xe0\0\0";
    let read = GroupRecord::decode(&key, Some(&Bytes::from_static(value)));
    assert_eq!(read, Ok(Some(consumer(member()))));
}

#[test]
fn a_record_of_consumers_cut_anywhere_is_malformed() {
    for record in all() {
        let record = consumer(record);
        let Some(value) = record.encode_value().unwrap() else {
            continue;
        };
        let key = record.encode_key().unwrap();
        for length in 0..value.len() {
            let cut = value.slice(..length);
            assert_eq!(GroupRecord::decode(&key, Some(&cut)), Err(Malformed));
        }
    }
}
