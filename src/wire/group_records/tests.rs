//! Promises of the formats: what was written is read again, and the bytes are Kafka's. Knows no log.

mod consumer;

use super::*;

fn offset() -> GroupRecord {
    GroupRecord::Offset {
        group: "g".into(),
        topic: "tt".into(),
        partition: 7,
        value: Some(OffsetValue {
            offset: 258,
            leader_epoch: 3,
            metadata: "so far".into(),
            commit_timestamp: 1_000,
            expire_timestamp: -1,
        }),
    }
}

fn group() -> GroupRecord {
    let member = |member_id: &str, instance_id: Option<&str>| MemberValue {
        member_id: member_id.into(),
        instance_id: instance_id.map(String::from),
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: 300_000,
        session_timeout_ms: 45_000,
        subscription: Bytes::from_static(b"wants"),
        assignment: Bytes::from_static(b"gets"),
    };
    GroupRecord::Group {
        group: "g".into(),
        value: Some(GroupValue {
            protocol_type: "consumer".into(),
            generation: 5,
            protocol: Some("range".into()),
            leader: Some("m1".into()),
            state_timestamp: 99,
            members: vec![member("m1", None), member("m2", Some("i2"))],
        }),
    }
}

fn tombstone(record: GroupRecord) -> GroupRecord {
    match record {
        GroupRecord::Offset {
            group,
            topic,
            partition,
            ..
        } => GroupRecord::Offset {
            group,
            topic,
            partition,
            value: None,
        },
        GroupRecord::Group { group, .. } => GroupRecord::Group { group, value: None },
        GroupRecord::Consumer { .. } => unreachable!("of consumers elsewhere"),
    }
}

fn again(record: &GroupRecord) -> Option<GroupRecord> {
    let key = record.encode_key().expect("short names");
    let value = record.encode_value().expect("short texts");
    GroupRecord::decode(&key, value.as_ref()).expect("well formed")
}

#[test]
fn what_was_written_is_read_again() {
    let mut expiring = offset();
    if let GroupRecord::Offset {
        value: Some(value), ..
    } = &mut expiring
    {
        (value.expire_timestamp, value.leader_epoch) = (5_000, -1);
    }
    for record in [
        offset(),
        expiring,
        group(),
        tombstone(offset()),
        tombstone(group()),
    ] {
        assert_eq!(again(&record), Some(record));
    }
}

#[test]
fn the_bytes_of_an_offset_are_kafka_s() {
    let record = offset();
    let key = b"\0\x01\0\x01g\0\x02tt\0\0\0\x07";
    assert_eq!(record.encode_key().unwrap(), key[..]);
    let value = b"\0\x03\0\0\0\0\0\0\x01\x02\0\0\0\x03\0\x06so far\0\0\0\0\0\0\x03\xe8";
    assert_eq!(record.encode_value().unwrap().unwrap(), value[..]);
}

#[test]
fn the_bytes_of_a_group_are_kafka_s() {
    let record = group();
    assert_eq!(record.encode_key().unwrap(), b"\0\x02\0\x01g"[..]);
    let head = b"\0\x03\0\x08consumer\0\0\0\x05\0\x05range\0\x02m1\0\0\0\0\0\0\0\x63\0\0\0\x02";
    let first = b"\0\x02m1\xff\xff\0\x06client\0\x0a/127.0.0.1\0\x04\x93\xe0\0\0\xaf\xc8";
    let value = record.encode_value().unwrap().unwrap();
    assert!(value.starts_with(&[&head[..], first].concat()), "{value:?}");
    assert!(
        value.ends_with(b"\0\0\0\x05wants\0\0\0\x04gets"),
        "{value:?}"
    );
}

#[test]
fn older_versions_are_read() {
    let key = offset().encode_key().unwrap();
    let mut legacy = key.to_vec();
    legacy[1] = 0;
    let value = Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\0\x01");
    let record = GroupRecord::decode(&legacy.into(), Some(&value)).unwrap();
    let Some(GroupRecord::Offset {
        value: Some(value), ..
    }) = record
    else {
        panic!("another record: {record:?}");
    };
    assert_eq!((value.offset, value.leader_epoch), (9, -1));
    assert_eq!((value.commit_timestamp, value.expire_timestamp), (1, -1));
    let old = Bytes::from_static(
        b"\0\0\0\x01c\0\0\0\x02\xff\xff\xff\xff\0\0\0\x01\0\x01m\0\x01i\0\x01h\0\0\0\x0a\0\0\0\0\0\0\0\0",
    );
    let key = group().encode_key().unwrap();
    let record = GroupRecord::decode(&key, Some(&old)).unwrap();
    let Some(GroupRecord::Group {
        value: Some(value), ..
    }) = record
    else {
        panic!("another record: {record:?}");
    };
    assert_eq!((value.state_timestamp, value.protocol), (-1, None));
    assert_eq!(value.members[0].rebalance_timeout_ms, 10);
}

#[test]
fn flexible_versions_are_read() {
    let key = offset().encode_key().unwrap();
    let value = Bytes::from_static(
        b"\0\x04\0\0\0\0\0\0\0\x09\0\0\0\x02\x03ab\0\0\0\0\0\0\0\x01\x01\0\x10\
          0123456789abcdef",
    );
    let record = GroupRecord::decode(&key, Some(&value)).unwrap();
    let Some(GroupRecord::Offset {
        value: Some(value), ..
    }) = record
    else {
        panic!("another record: {record:?}");
    };
    assert_eq!((value.offset, &*value.metadata), (9, "ab"));
    let key = group().encode_key().unwrap();
    let value = Bytes::from_static(
        b"\0\x04\x02c\0\0\0\x02\0\0\0\0\0\0\0\0\0\x07\x03\x02a\0\x01\x01\0\0\0\x05\0\0\0\x06\x01\x01\0\
          \x02b\x02i\x01\x01\0\0\0\x05\0\0\0\x06\x01\x02x\x01\x05\x01y\0",
    );
    let record = GroupRecord::decode(&key, Some(&value)).unwrap();
    let Some(GroupRecord::Group {
        value: Some(value), ..
    }) = record
    else {
        panic!("another record: {record:?}");
    };
    assert_eq!(value.members.len(), 2);
    assert_eq!(value.members[1].instance_id.as_deref(), Some("i"));
    assert_eq!(value.members[1].assignment, b"x"[..]);
}

#[test]
fn records_of_other_kinds_of_groups_are_passed_over() {
    for kind in [4, 9, 15, 17] {
        let key = Bytes::copy_from_slice(&[0, kind, 0, 1, b'g']);
        assert_eq!(GroupRecord::decode(&key, None), Ok(None), "{kind}");
    }
}

#[test]
fn a_record_cut_anywhere_is_malformed_and_nothing_is_reserved_for_what_it_announces() {
    for record in [offset(), group()] {
        let key = record.encode_key().unwrap();
        let value = record.encode_value().unwrap().unwrap();
        for length in 0..value.len() {
            let cut = value.slice(..length);
            assert_eq!(GroupRecord::decode(&key, Some(&cut)), Err(Malformed));
        }
        for length in 0..key.len() {
            let cut = key.slice(..length);
            assert_eq!(GroupRecord::decode(&cut, Some(&value)), Err(Malformed));
        }
    }
    let huge =
        Bytes::from_static(b"\0\x03\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0\x7f\xff\xff\xff");
    let key = group().encode_key().unwrap();
    assert_eq!(GroupRecord::decode(&key, Some(&huge)), Err(Malformed));
}
